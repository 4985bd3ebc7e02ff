//! The arguments of `kubectl delete` on a dump.

use std::time::Duration;

use kubegc_core::{DeleteOptions, KubernetesVersion};
use kubegc_fixtures::check_transcript;
use kubegc_predict::{Assumptions, Cluster, Detail, Intent, Selection, Target};
use kubegc_snapshot::{Reader, Snapshot};

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
