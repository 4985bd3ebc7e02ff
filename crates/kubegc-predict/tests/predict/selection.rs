//! The arguments of `kubectl delete` on a dump, deletes of missing objects, orphans that are adopted, and
//! colours of a report.

use std::time::Duration;

use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy};
use kubegc_fixtures::{Fixture, check_transcript, owned_by};
use kubegc_predict::{Assumptions, Cluster, Detail, Intent, PredictError, Selection, Target};
use kubegc_snapshot::{Reader, Snapshot};
use serde_json::{Value, json};

use crate::common;

const DUMP: &str = include_str!("selection.yaml");

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
            format!("{kind} in {}", namespace.as_deref().unwrap_or("all"))
        }
        _ => "something else".to_owned(),
    });
    shown.collect()
}

/// The targets of a command line, or the error.
fn select(line: &str) -> String {
    let mut selection = Selection::default();
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "kubectl" | "delete" => {}
            "-n" => selection.namespace = words.next().map(Into::into),
            "-l" => selection.selector = words.next().map(|text| text.parse().expect("a selector")),
            "-A" => selection.all_namespaces = true,
            "--all" => selection.all = true,
            _ => selection.arguments.push(word.to_owned()),
        }
    }
    match selection.targets(&cluster()) {
        Ok(targets) => shown(&targets).join(", "),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn objects_are_selected_as_with_kubectl() {
    check_transcript("tests/predict/selection.txt", |input| {
        input.lines().map(select).collect::<Vec<_>>().join("\n")
    });
    let of_all = select("all -l app=web -A");
    let has = |target: &str| of_all.split(", ").any(|found| found == target);
    assert!(has("Deployment.apps in all") && has("Service.serving.knative.dev in all"));
    assert!(!has("ConfigMap in all"), "{of_all}");
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

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, uid: r1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d1}]}
";

fn delete(name: &str, options: DeleteOptions) -> Intent {
    Intent::delete(name.parse().expect("a name in two or three parts"), options)
}

#[test]
fn a_missing_object_cannot_be_deleted() {
    let cluster = common::of_dump("1.36", WEB, &["all"], Assumptions::default());
    let ask = |name: &str| {
        cluster
            .predict(&[delete(name, DeleteOptions::default())])
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        ask("shop/Deployment/api"),
        Err("deployments.apps \"api\" not found in namespace shop".to_owned())
    );
    assert_eq!(
        ask("shop/Gadget/api"),
        Err("no resource type \"Gadget\": it is neither built in nor defined in the dump".to_owned())
    );
    assert_eq!(ask("shop/deployments.apps/web"), Ok(()));
    assert_eq!(
        ask("other/Deployment/web"),
        Err("deployments.apps \"web\" not found in namespace other; did you mean web -n shop?".to_owned())
    );
    let gadgets = Intent {
        target: Target::Labelled {
            kind: "gadgets".into(),
            namespace: None,
            selector: "a=b".parse().expect("a selector"),
        },
        options: DeleteOptions::default(),
        after: Duration::ZERO,
    };
    assert_eq!(
        cluster.predict(&[gadgets]).map(|_| ()),
        Err(PredictError::UnknownKind {
            name: "gadgets".to_owned(),
            similar: Vec::new(),
        })
    );
}

/// ReplicaSets `a` and `b` with one selector and two pods each that are ready since then, and one like them
/// in another namespace.
fn twins(a_ready: &str, b_ready: &str) -> Vec<Value> {
    let mut fixture = Fixture::default();
    fixture.objects.push(common::node());
    for (namespace, name) in [("one", "a"), ("one", "b"), ("two", "c")] {
        let labels = json!({ "app": "same" });
        let spec = json!({ "replicas": 2, "selector": { "matchLabels": labels } });
        fixture.add("apps/v1", "ReplicaSet", namespace, name, json!({ "spec": spec }));
        let ready = if name == "a" { a_ready } else { b_ready };
        let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": ready });
        for at in 0..2 {
            let pod = json!({
                "metadata": { "labels": labels },
                "spec": { "nodeName": "node-1" },
                "status": { "phase": "Running", "conditions": [ready] },
            });
            fixture.add("v1", "Pod", namespace, &format!("{name}-{at}"), pod);
            fixture.change_last(owned_by("apps/v1", "ReplicaSet", name));
        }
    }
    fixture.objects
}

#[test]
fn orphans_are_adopted_and_the_younger_pods_are_deleted() {
    let orphan = DeleteOptions::policy(PropagationPolicy::Orphan);
    let intent = Intent::delete("one/ReplicaSet/a".parse().expect("a name"), orphan);
    let words = |cluster: &Cluster| -> String {
        let forecast = cluster.predict(std::slice::from_ref(&intent));
        let fates = forecast.expect("it is there").fates.into_iter();
        let words = fates.map(|fate| format!("{} {}", fate.object.name, fate.fate.word()));
        words.collect::<Vec<_>>().join(", ")
    };
    let (long, just) = ("2025-01-01T00:00:00Z", "2026-04-30T23:59:00Z");
    assert_eq!(
        words(&common::complete(&twins(long, just))),
        "a-0 released, a-1 released, b-0 deleted, b-1 deleted, a deleted, b kept"
    );
    assert_eq!(
        words(&common::complete(&twins(just, long))),
        "a-0 deleted, a-1 deleted, b-0 kept, b-1 kept, a deleted, b kept"
    );
    // Where `b` may have more pods, or its selector was not read, its adoptions and deletions are unknown.
    let complete = ["replicasets", "nodes", "customresourcedefinitions"];
    let partial = common::list(&twins(long, just));
    let partial = common::read(&[partial], &complete, Assumptions::default());
    let mut stripped = twins(long, just);
    stripped[4]["spec"] = json!({ "replicas": 2 });
    for cluster in [partial, common::complete(&stripped)] {
        let words = words(&cluster);
        assert!(
            words.starts_with("a-0 undetermined, a-1 undetermined, "),
            "{words}"
        );
    }
}

#[test]
fn colours_change_headings_only() {
    let cluster = common::of_dump("1.36", WEB, &["all"], Assumptions::default());
    let intents = [delete("shop/Deployment/web", DeleteOptions::default())];
    let forecast = cluster.predict(&intents).expect("it is there");
    let coloured = forecast.to_text(Detail {
        colours: true,
        ..Detail::default()
    });
    assert!(
        coloured.contains("\n\u{1b}[1;31mDeleted: 2\u{1b}[0m\n"),
        "{coloured}"
    );
    let plain = coloured.replace("\u{1b}[1;31m", "").replace("\u{1b}[0m", "");
    assert_eq!(plain, forecast.to_text(Detail::default()));
}
