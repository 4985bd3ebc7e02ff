//! The catalog of kinds: lookups, changes, names and verbs.

use kubegc_core::{ApiResource, Catalog, KubernetesVersion, Scope, Verbs, store::Discovered};

fn resource(api_version: &str, kind: &str, resource: &str) -> ApiResource {
    ApiResource::new(api_version, kind, resource, Scope::Namespaced)
}

#[test]
fn a_kind_is_found_by_all_of_its_group_version_and_name() {
    let mut catalog = Catalog::new();
    let names = [
        ("v1", "Pod", "pods"),
        ("v1", "Secret", "secrets"),
        ("v2", "Pod", "pods"),
        ("metrics.k8s.io/v1", "Pod", "pods"),
    ];
    let ids = names
        .map(|(version, kind, plural)| catalog.add(resource(version, kind, plural)).expect("a new kind"));
    for ((api_version, kind, plural), id) in names.into_iter().zip(ids) {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        assert_eq!(catalog.mapping(api_version, kind), Some(id));
        assert_eq!(catalog.mapping(api_version, &kind.to_lowercase()), Some(id));
        assert_eq!(catalog.by_resource(group, version, plural), Some(id));
        assert_eq!(
            (&*catalog[id].kind, catalog[id].api_version().as_str()),
            (kind, api_version)
        );
    }
    for (api_version, kind) in [
        ("v2", "Secret"),
        ("metrics.k8s.io/v2", "Pod"),
        ("v1", "pOD"),
        ("v1", ""),
        ("v1", "pods"),
        ("v3", "pod"),
        ("metrics.k8s.io/v1", "secret"),
    ] {
        assert_eq!(catalog.mapping(api_version, kind), None, "{api_version} {kind}");
    }
    // Enough names for some of them to be compared, although their hashes differ.
    for at in 0..2_000 {
        let (group, version, other) = (format!("g{at}"), format!("v{}", at + 3), format!("Other{at}"));
        assert_eq!(catalog.mapping(&version, "Pod"), None);
        assert_eq!(catalog.mapping(&format!("{group}/v1"), "Pod"), None);
        assert_eq!(catalog.mapping("v1", &other), None);
        assert_eq!(catalog.by_resource("", &version, "pods"), None);
        assert_eq!(catalog.by_resource(&group, "v1", "pods"), None);
        assert_eq!(catalog.by_resource("", "v1", &other), None);
    }
}

#[test]
fn adding_a_kind_or_resource_that_exists_is_refused() {
    let mut catalog = Catalog::new();
    catalog
        .add(resource("apps/v1", "Deployment", "deployments"))
        .expect("the first");
    for (second, text) in [
        (resource("apps/v1", "Deployment", "others"), "apps/v1/Deployment"),
        (resource("apps/v1", "Other", "deployments"), "apps/v1/deployments"),
    ] {
        let error = catalog.add(second).expect_err("the name is in use").to_string();
        assert_eq!(
            error,
            format!("kind: Invalid value: {text:?}: is in the catalog already")
        );
    }
    assert_eq!((catalog.len(), catalog.positions()), (1, 1));
    let discovered = Discovered::from(catalog.clone());
    assert_eq!((discovered.catalog, discovered.failed.len()), (catalog, 0));
}

#[test]
fn a_removed_kind_keeps_its_position() {
    let mut catalog = Catalog::new();
    assert!(catalog.is_empty());
    let pods = catalog.add(resource("v1", "Pod", "pods")).expect("new");
    let secrets = catalog.add(resource("v1", "Secret", "secrets")).expect("new");
    assert!(catalog.remove(pods));
    assert!(!catalog.remove(pods), "it is removed already");
    assert_eq!(
        (
            catalog.mapping("v1", "Pod"),
            catalog.by_resource("", "v1", "pods")
        ),
        (None, None)
    );
    assert_eq!(catalog.mapping("v1", "Secret"), Some(secrets));
    assert_eq!(
        (catalog.len(), catalog.positions(), catalog.is_empty()),
        (1, 2, false)
    );
    assert_eq!(&*catalog[pods].kind, "Pod");
    assert_eq!(catalog.iter().map(|(id, _)| id).collect::<Vec<_>>(), [secrets]);
    let again = catalog
        .add(resource("v1", "Pod", "pods"))
        .expect("the name is free");
    assert_ne!(again, pods);
    assert!(catalog.remove(secrets) && catalog.remove(again) && catalog.is_empty());
    assert!(!Catalog::new().remove(pods), "no such position");
}

#[test]
fn following_another_catalog_keeps_the_positions_of_common_kinds() {
    let of = |all: &[ApiResource]| {
        let mut catalog = Catalog::new();
        for one in all {
            catalog.add(one.clone()).expect("different names");
        }
        catalog
    };
    let [a, b, c] = ["A", "B", "C"].map(|kind| resource("x.dev/v1", kind, &kind.to_lowercase()));
    let renamed = resource("x.dev/v1", "Bee", "b");
    let scoped = ApiResource {
        scope: Scope::Cluster,
        ..a.clone()
    };
    let mut known = of(&[a.clone(), b.clone(), c.clone()]);
    let id_of_a = known.mapping("x.dev/v1", "A");
    let now = of(&[renamed.clone(), scoped.clone()]);
    assert_ne!(known, now);
    known.update(&now);
    assert_eq!(known, now);
    assert_eq!(known.mapping("x.dev/v1", "A"), id_of_a);
    assert!(!known[id_of_a.expect("it was added")].is_namespaced());
    assert_eq!(known.mapping("x.dev/v1", "B"), None);
    assert!(known.mapping("x.dev/v1", "Bee").is_some());
    assert_eq!(known.len(), 2);
    // Equality does not depend on positions, but on every kind and each of its fields.
    assert_eq!(of(&[a.clone(), b.clone()]), of(&[b.clone(), a.clone()]));
    assert_ne!(of(&[a.clone(), b.clone()]), of(std::slice::from_ref(&a)));
    assert_ne!(of(&[a.clone(), b]), of(&[a.clone(), c]));
    assert_ne!(of(&[a]), of(&[scoped]));
}

#[test]
fn kinds_are_found_by_kubectl_arguments() {
    let mut catalog = Catalog::new();
    for (api_version, kind, short_name, preferred) in [
        ("apps/v1beta1", "Deployment", "", false),
        ("apps/v1", "Deployment", "deploy", true),
        ("x.dev/v1", "Gadget", "widget", true),
        ("y.dev/v1", "Widget", "", true),
        ("x.dev/v1", "Deployment", "", true),
        ("apps/v1alpha1", "Deployment", "", false),
    ] {
        let plural = format!("{}s", kind.to_lowercase());
        let one = ApiResource {
            short_names: (!short_name.is_empty())
                .then(|| short_name.into())
                .into_iter()
                .collect(),
            preferred,
            ..resource(api_version, kind, &plural)
        };
        catalog.add(one).expect("different names");
    }
    for (name, expected) in [
        ("deployments", "apps/v1/deployments x.dev/v1/deployments"),
        ("DEPLOYMENT", "apps/v1/deployments x.dev/v1/deployments"),
        ("deployment.apps", "apps/v1/deployments"),
        ("deployment.v1beta1.apps", "apps/v1beta1/deployments"),
        ("deployment.v1.apps", "apps/v1/deployments"),
        ("deployment.v1alpha1.apps", "apps/v1alpha1/deployments"),
        ("deployment.v1.x.dev", "x.dev/v1/deployments"),
        ("deployment.v2.apps", ""),
        ("deployment.v1apps", ""),
        ("deploy", "apps/v1/deployments"),
        ("DEPLOY.apps", "apps/v1/deployments"),
        ("deploy.x.dev", ""),
        // The short name of a gadget is the kind of another resource.
        ("widget", "y.dev/v1/widgets"),
        ("widget.x.dev", "x.dev/v1/gadgets"),
        ("apps/v1beta1/Deployment", "apps/v1beta1/deployments"),
        ("apps/v1/Deployment", "apps/v1/deployments"),
        ("apps/v1/deployment", ""),
        ("apps/v1/Gadget", ""),
        ("x.dev/v2/Gadget", ""),
        ("", ""),
    ] {
        let ids = catalog.named(name);
        let found: Vec<String> = ids.iter().map(|&id| catalog[id].to_string()).collect();
        assert_eq!(found.join(" "), expected, "{name}");
    }
}

#[test]
fn qualified_names_contain_the_group_unless_it_is_the_core_group() {
    let pods = resource("v1", "Pod", "pods");
    let sets = resource("apps/v1", "ReplicaSet", "replicasets").custom();
    assert_eq!(
        (pods.qualified_resource(), pods.qualified_kind()),
        ("pods".into(), "Pod".into())
    );
    assert_eq!(sets.qualified_resource(), "replicasets.apps");
    assert_eq!(sets.qualified_kind(), "ReplicaSet.apps");
    assert_eq!(
        (pods.to_string(), sets.to_string()),
        ("v1/pods".into(), "apps/v1/replicasets".into())
    );
    assert_eq!((pods.custom, sets.custom), (false, true));
    assert!(pods.is_namespaced());
    assert!(
        !ApiResource {
            scope: Scope::Cluster,
            ..pods
        }
        .is_namespaced()
    );
}

#[test]
fn a_collector_monitors_what_it_can_list_watch_and_delete() {
    for bits in 0..16_u8 {
        let has = |bit: u8| bits & bit != 0;
        let verbs = Verbs {
            delete: has(1),
            list: has(2),
            watch: has(4),
            delete_collection: has(8),
        };
        assert_eq!(verbs.collectable(), has(1) && has(2) && has(4), "{verbs:?}");
    }
}

#[test]
fn built_in_kinds_have_upstreams_short_names_and_categories() {
    let catalog = Catalog::builtin(KubernetesVersion::LATEST);
    for (short, resource) in [
        ("csr", "certificatesigningrequests"),
        ("cj", "cronjobs"),
        ("hpa", "horizontalpodautoscalers"),
        ("ip", "ipaddresses"),
        ("pdb", "poddisruptionbudgets"),
        ("pc", "priorityclasses"),
        ("vac", "volumeattributesclasses"),
    ] {
        let ids = catalog.named(short);
        assert!(!ids.is_empty(), "{short}");
        for id in ids {
            assert_eq!(&*catalog[id].resource, resource, "{short}");
        }
    }
    let has = |category: &str, resource: &str| {
        let mut all = catalog.iter().map(|(_, one)| one);
        all.any(|one| *one.resource == *resource && one.categories.iter().any(|text| **text == *category))
    };
    assert!(has("all", "horizontalpodautoscalers") && !has("all", "secrets"));
    assert!(has("api-extensions", "validatingwebhookconfigurations"));
}
