//! The arguments of `kubectl delete` on a dump.

use std::time::Duration;

use kubegc_core::{DeleteOptions, KubernetesVersion};
use kubegc_predict::{Assumptions, Cluster, Detail, Intent, Selection, Target};
use kubegc_snapshot::{Reader, Snapshot};

const DUMP: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop, uid: ns-shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: checkout, uid: d1, labels: {app: checkout}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: test, name: checkout, uid: d2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: default, name: web, uid: d3, labels: {app: web}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: web, uid: d4}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: checkout, uid: s1, labels: {app: checkout}}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {namespace: shop, name: checkout, uid: s2}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {namespace: shop, name: hello, uid: s3}
---
apiVersion: v1
kind: Pod
metadata: {namespace: lost, name: a, uid: p1}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: services.serving.knative.dev, uid: crd}
spec:
  group: serving.knative.dev
  scope: Namespaced
  names: {plural: services, kind: Service, shortNames: [kservice, ksvc], categories: [all, knative]}
  versions: [{name: v1, served: true, storage: true}]
"#;

fn read(version: KubernetesVersion, text: &str) -> Snapshot {
    let mut reader = Reader::new(version).lenient(true);
    reader.read("dump.yaml", text.as_bytes()).expect("it is YAML");
    reader.finish().expect("it is a dump")
}

fn cluster() -> Cluster {
    let version = KubernetesVersion::LATEST;
    Cluster::new(version, read(version, DUMP), Assumptions::default())
}

fn shown(targets: &[Target]) -> Vec<String> {
    let shown = targets.iter().map(|target| match target {
        Target::Object(name) => name.to_string(),
        Target::Labelled { kind, namespace, .. } => {
            format!("{} in {}", kind.as_str(), namespace.as_deref().unwrap_or("all"))
        }
        _ => "something else".to_owned(),
    });
    shown.collect()
}

/// The targets of a command line, or the error.
fn select(line: &str) -> Result<Vec<String>, String> {
    let mut selection = Selection::default();
    let mut words = line.split(' ');
    while let Some(word) = words.next() {
        match word {
            "-n" => selection.namespace = words.next().map(Into::into),
            "-l" => selection.selector = words.next().map(|text| text.parse().expect("a selector")),
            "-A" => selection.all_namespaces = true,
            "--all" => selection.all = true,
            _ => selection.arguments.push(word.to_owned()),
        }
    }
    let targets = selection.targets(&cluster()).map_err(|error| error.to_string())?;
    Ok(shown(&targets))
}

#[test]
fn objects_are_selected_as_with_kubectl() {
    for (line, expected) in [
        (
            "deployment/checkout -n shop",
            &["shop/Deployment.apps/checkout"][..],
        ),
        (
            "deploy checkout web -n shop",
            &["shop/Deployment.apps/checkout", "shop/Deployment.apps/web"],
        ),
        (
            "deployments.apps/checkout -n test",
            &["test/Deployment.apps/checkout"],
        ),
        (
            "deployments.v1.apps checkout -n test",
            &["test/Deployment.apps/checkout"],
        ),
        ("DEPLOYMENT/web", &["default/Deployment.apps/web"]),
        ("shop/Deployment/web", &["shop/Deployment.apps/web"]),
        ("ns/shop", &["Namespace/shop"]),
        ("namespace shop -n ignored", &["Namespace/shop"]),
        ("service/checkout", &["shop/Service/checkout"]),
        ("service/hello", &["shop/Service.serving.knative.dev/hello"]),
        ("ksvc/checkout", &["shop/Service.serving.knative.dev/checkout"]),
        (
            "svc/checkout deploy/web -n shop",
            &["shop/Service/checkout", "shop/Deployment.apps/web"],
        ),
        (
            "deploy,ksvc checkout -n shop",
            &[
                "shop/Deployment.apps/checkout",
                "shop/Service.serving.knative.dev/checkout",
            ],
        ),
        (
            "deploy,svc -l app=checkout -n shop",
            &["Deployment.apps in shop", "Service in shop"],
        ),
        ("pods --all -A", &["Pod in all"]),
        ("knative --all", &["Service.serving.knative.dev in all"]),
    ] {
        let expected = expected.iter().map(ToString::to_string).collect();
        assert_eq!(select(line), Ok(expected), "{line}");
    }
    let of_all = select("all -l app=web -A").expect("a category");
    assert!(
        of_all.contains(&"Deployment.apps in all".to_owned()),
        "{of_all:?}"
    );
    assert!(
        of_all.contains(&"Service.serving.knative.dev in all".to_owned()),
        "{of_all:?}"
    );
    assert!(!of_all.contains(&"ConfigMap in all".to_owned()), "{of_all:?}");
}

#[test]
fn errors_name_the_change_to_make() {
    for (line, expected) in [
        (
            "deploy/chekout -n shop",
            "deployments.apps \"chekout\" not found in namespace shop; did you mean checkout or checkout -n test?",
        ),
        (
            "deploy/nothing",
            "deployments.apps \"nothing\" not found in the dump",
        ),
        (
            "deploy/checkout",
            "deployments.apps \"checkout\" is in the namespaces shop, test: choose one with --namespace",
        ),
        (
            "deplyoment/web",
            "no resource type \"deplyoment\": it is neither built in nor defined in the dump; did you mean deployments.apps?",
        ),
        (
            "ns/shops",
            "namespaces \"shops\" not found in the dump; did you mean shop?",
        ),
        (
            "ns/lost",
            "namespaces \"lost\" not found in the dump, although one object is in it: add the output of `kubectl get namespaces -o yaml`",
        ),
        (
            "deploy web svc/web",
            "svc/web: either all arguments are TYPE/NAME, or the first is a type and the others are names",
        ),
        (
            "deploy web -A",
            "an object is not selected by name in all namespaces: use --namespace",
        ),
        (
            "deploy",
            "deploy is a type: name objects of it, or select them with --selector or --all",
        ),
        (
            "deploy web --all",
            "objects are selected by name or by --selector or --all, not by both",
        ),
        (
            "deploy/web -l app=web",
            "objects are selected by name or by --selector or --all, not by both",
        ),
        ("a/b/c/d", "a/b/c/d: expected TYPE/NAME or NAMESPACE/TYPE/NAME"),
        ("deploy/", "deploy/: type and name must not be empty"),
    ] {
        assert_eq!(select(line), Err(expected.to_owned()), "{line}");
    }
    let empty = Selection::default()
        .targets(&cluster())
        .map_err(|error| error.to_string());
    assert_eq!(
        empty,
        Err("name the objects, such as deployment/web, deploy web, or pods -l app=web".to_owned())
    );
}

#[test]
fn manifests_select_by_kind_namespace_and_name() {
    let manifest = "
apiVersion: apps/v1beta2
kind: Deployment
metadata: {name: checkout}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {namespace: shop, name: checkout}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: checkout}
";
    let mut selection = Selection::default();
    selection.namespace = Some("test".into());
    selection
        .manifests
        .push(read(KubernetesVersion::LATEST, manifest));
    let targets = selection.targets(&cluster()).expect("all are in the dump");
    let mut found = shown(&targets);
    found.sort();
    let expected = [
        "shop/Service.serving.knative.dev/checkout",
        "shop/Service/checkout",
        "test/Deployment.apps/checkout",
    ];
    assert_eq!(found, expected);
    selection.arguments.push("deploy/web".to_owned());
    let both = selection.targets(&cluster()).map_err(|error| error.to_string());
    assert_eq!(
        both.map(|_| ()),
        Err("manifests select objects alone: give no names, --selector or --all".to_owned())
    );
}

/// Up to 1.15 two groups serve Deployments; the group with objects in the dump is chosen.
#[test]
fn a_type_of_two_groups_means_the_one_in_the_dump() {
    let version: KubernetesVersion = "1.15".parse().expect("a version");
    let deployment = |api_version: &str, name: &str| {
        format!(
            "apiVersion: {api_version}\nkind: Deployment\nmetadata: {{namespace: shop, name: {name}, uid: {name}}}\n"
        )
    };
    let targets = |dump: &str, line: &[&str]| {
        let cluster = Cluster::new(version, read(version, dump), Assumptions::default());
        let mut selection = Selection::default();
        selection.arguments = line.iter().map(ToString::to_string).collect();
        selection.all = line.len() == 1;
        selection
            .targets(&cluster)
            .map(|targets| shown(&targets))
            .map_err(|error| error.to_string())
    };
    let old = deployment("extensions/v1beta1", "web");
    assert_eq!(
        targets(&old, &["deploy", "web"]),
        Ok(vec!["shop/Deployment.extensions/web".to_owned()])
    );
    assert_eq!(
        targets(&old, &["deploy"]),
        Ok(vec!["Deployment.extensions in all".to_owned()])
    );
    let both = format!("{old}---\n{}", deployment("apps/v1", "web"));
    let ambiguous = "resource type \"deploy\" is ambiguous: use deployments.apps or deployments.extensions";
    assert_eq!(targets(&both, &["deploy", "web"]), Err(ambiguous.to_owned()));
}

/// kubectl prints "No resources found in shop namespace." and exits with 0.
#[test]
fn a_selector_without_matches_names_similar_labels_and_other_namespaces() {
    let cluster = cluster();
    for (namespace, label, expected) in [
        (
            Some("shop"),
            "app=chekout",
            "No resources found in shop namespace of the dump; did you mean -l app=checkout?\n",
        ),
        (
            Some("shop"),
            "apps=checkout",
            "No resources found in shop namespace of the dump; did you mean -l app=checkout?\n",
        ),
        (
            Some("test"),
            "app=checkout",
            "No resources found in test namespace of the dump; did you mean -n shop?\n",
        ),
        (None, "tier=x", "No resources found in the dump\n"),
    ] {
        let mut selection = Selection::default();
        selection.arguments = vec!["deployments".into()];
        selection.namespace = namespace.map(Into::into);
        selection.selector = Some(label.parse().expect("a selector"));
        let targets = selection.targets(&cluster).expect("a selection");
        let intents: Vec<Intent> = targets
            .into_iter()
            .map(|target| Intent {
                target,
                options: DeleteOptions::default(),
                after: Duration::ZERO,
            })
            .collect();
        let forecast = cluster.predict(&intents).expect("a forecast");
        let text = forecast.to_text(Detail::default());
        assert!(text.starts_with(expected), "{text}");
        assert!(
            !text.contains("nothing changes") && !text.contains("Notes:"),
            "{text}"
        );
    }
}
