//! Deletes in a cluster with a conversion webhook that cannot be reached.

use kubegc_core::{DeleteOptions, PropagationPolicy};
use kubegc_fixtures::{Fixture, owned_by, uid};
use kubegc_predict::{Assumptions, Cluster, Fate, Intent, ObjectName};
use serde_json::{Value, json};

use crate::common;

const DEFINITION: &str = "things.example.org";

/// A namespace with a Thing `a`, its dependents `m1` and `m2`, which name it in these versions, and an owner
/// `p` of another kind with its dependent `s`. `v2` is the preferred version.
fn objects(stored: &str, client: &Value) -> Fixture {
    let mut fixture = Fixture::default();
    let active = json!({ "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" } });
    fixture.add("v1", "Namespace", "", "lab", active);
    let version = |name: &str| json!({ "name": name, "served": true, "storage": name == stored });
    let definition = json!({
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": { "plural": "things", "kind": "Thing" },
            "versions": [version("v1"), version("v2")],
            "conversion": { "strategy": "Webhook", "webhook": { "clientConfig": client } },
        },
        "status": { "conditions": [{ "type": "Established", "status": "True" }], "storedVersions": [stored] },
    });
    let (group, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    fixture.add(group, kind, "", DEFINITION, definition);
    fixture.add(&format!("example.org/{stored}"), "Thing", "lab", "a", json!({}));
    for (name, version) in [("m1", "example.org/v1"), ("m2", "example.org/v2")] {
        fixture.add("v1", "ConfigMap", "lab", name, owned_by(version, "Thing", "a"));
    }
    fixture.add("v1", "ConfigMap", "lab", "p", json!({}));
    fixture.add("v1", "Secret", "lab", "s", owned_by("v1", "ConfigMap", "p"));
    fixture
}

fn cluster(release: &str, fixture: &Fixture, assumptions: Assumptions) -> Cluster {
    common::of_release(release, &fixture.objects, &["all"], assumptions)
}

/// The fates of all objects after one delete, and the first wait of its target.
fn fates(cluster: &Cluster, kind: &str, name: &str, policy: PropagationPolicy) -> (String, String) {
    let target = ObjectName {
        namespace: if kind == "Namespace" { "" } else { "lab" }.into(),
        kind: kind.into(),
        name: name.into(),
    };
    let delete = Intent::delete(target, DeleteOptions::policy(policy));
    let forecast = cluster.predict(&[delete]).expect("the object is in the dump");
    let all = [
        ("Thing", "a"),
        ("ConfigMap", "m1"),
        ("ConfigMap", "m2"),
        ("ConfigMap", "p"),
        ("Secret", "s"),
        ("Namespace", "lab"),
    ];
    let words = all.map(|(kind, name)| common::word(cluster, &forecast, &uid(kind, name)));
    let kind = kind.rsplit('/').next().unwrap_or_default();
    let is_target = |of: &&kubegc_predict::ObjectFate| *of.object.uid.text() == *uid(kind, name);
    let wait = match forecast.fates.iter().find(is_target).map(|of| &of.fate) {
        Some(Fate::Terminating { waits_for }) => waits_for[0].to_string(),
        _ => String::new(),
    };
    (words.join(" "), wait)
}

/// A row: release, storage version, client configuration; kind, name and policy of the delete; the fates of
/// `a`, `m1`, `m2`, `p`, `s` and the namespace; the begin of the first wait of the target.
const CASES: &str = "\
1.36.0 v1 none | example.org/v1/Thing a Foreground | terminating kept kept kept kept kept | the garbage collector, which cannot list things.v2
1.36.0 v1 none | example.org/v1/Thing a Background | deleted kept kept kept kept kept |
1.36.0 v2 none | example.org/v2/Thing a Foreground | terminating kept deleted kept kept kept | the garbage collector, which cannot read things.v1
1.36.0 v1 none | Thing a Background | kept kept kept kept kept kept |
1.36.0 v1 none | Namespace lab Background | kept deleted deleted deleted deleted terminating | the namespace-controller, which cannot list things.v2
1.36.0 v2 none | Namespace lab Background | deleted deleted deleted deleted deleted deleted |
1.31.0 v1 none | ConfigMap p Background | kept kept kept deleted kept kept |
1.31.0 v1 none | ConfigMap p Foreground | kept kept kept terminating kept kept | the garbage collector, which cannot list things.v2
1.32.0 v1 none | ConfigMap p Foreground | kept kept kept deleted deleted kept |
1.31.0 v2 none | ConfigMap p Foreground | kept kept kept deleted deleted kept |
1.31.0 v1 none | example.org/v1/Thing a Background | deleted deleted deleted kept kept kept |
1.36.0 v1 url | example.org/v1/Thing a Foreground | deleted deleted deleted kept kept kept |
1.31.0 v1 url | ConfigMap p Background | kept kept kept deleted deleted kept |
";

/// Clients that name no version send requests at the preferred one, and a webhook with a URL can be reached. Up to
/// 1.31 the collector waits for the list of Things, which is empty once the last one is deleted.
#[test]
fn objects_that_cannot_be_converted_stay_and_say_why() {
    let client = |name: &str| match name {
        "url" => json!({ "url": "https://converter.example.org/convert" }),
        name => json!({ "service": { "namespace": "lab", "name": name, "path": "/convert" } }),
    };
    for row in CASES.lines() {
        let parts: Vec<&str> = row.split('|').map(str::trim).collect();
        let [place, delete, expected, wait] = parts[..] else {
            panic!("{row}")
        };
        let words = |part: &str| -> [String; 3] {
            let words: Vec<String> = part.split(' ').map(str::to_owned).collect();
            words.try_into().expect("three words")
        };
        let ([release, stored, of], [kind, name, policy]) = (words(place), words(delete));
        let policy = match &*policy {
            "Foreground" => PropagationPolicy::Foreground,
            _ => PropagationPolicy::Background,
        };
        let cluster = cluster(&release, &objects(&stored, &client(&of)), Assumptions::default());
        let (fates, found) = fates(&cluster, &kind, &name, policy);
        assert_eq!(fates, expected, "{row}");
        let why = ".example.org because the conversion webhook of customresourcedefinition/things.example.org \
                   cannot be reached: service \"none\" not found";
        let wait = if wait.is_empty() {
            String::new()
        } else {
            format!("{wait}{why}")
        };
        assert_eq!(found, wait, "{row}");
    }
    let assumed = Assumptions {
        unreachable_webhooks: vec![DEFINITION.into()],
        ..Assumptions::default()
    };
    let cluster = cluster("1.36.0", &objects("v1", &client("url")), assumed);
    let (fates, wait) = fates(
        &cluster,
        "example.org/v1/Thing",
        "a",
        PropagationPolicy::Foreground,
    );
    assert_eq!(fates, "terminating kept kept kept kept kept");
    assert!(
        wait.ends_with("cannot be reached: it is assumed to be unreachable"),
        "{wait}"
    );
}
