//! Differences between cascades, versions and dumps, and restores.

use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy};
use kubegc_predict::{Assumptions, Cluster, Intent, Question};
use kubegc_snapshot::{Reader, Snapshot};

const DUMP: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop, uid: ns}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: web, uid: d1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  namespace: shop
  name: web-1
  uid: r1
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d1, controller: true, blockOwnerDeletion: true}]
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: shop, name: settings, uid: c1}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: shop, name: going, uid: c2, deletionTimestamp: "2026-05-01T10:00:00Z", finalizers: [example.com/hold]}
---
apiVersion: v1
kind: Secret
metadata: {namespace: test, name: far, uid: s1, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: settings, uid: c1}]}
"#;

fn snapshot(version: KubernetesVersion, text: &str) -> Snapshot {
    let mut reader = Reader::new(version).complete("all");
    reader.read("dump.yaml", text.as_bytes()).expect("it is YAML");
    reader.finish().expect("it is a dump")
}

fn cluster(version: &str, text: &str) -> Cluster {
    let version = version.parse().expect("a version");
    Cluster::new(version, snapshot(version, text), Assumptions::default())
}

#[test]
fn two_cascades() {
    let cluster = cluster("1.34", DUMP);
    let predict = |policy| {
        let web = "shop/Deployment/web".parse().expect("a name");
        let intent = Intent::delete(web, DeleteOptions::policy(policy));
        cluster.predict(&[intent]).expect("it is in the dump")
    };
    let (background, orphan) = (
        predict(PropagationPolicy::Background),
        predict(PropagationPolicy::Orphan),
    );
    let foreground = predict(PropagationPolicy::Foreground);
    assert_eq!(
        background.compare(&orphan).to_text("background", "orphan", 8),
        "1 object differs\n\nbackground: deleted, orphan: released\n  - replicaset/web-1 -n shop\n"
    );
    assert_eq!(
        background
            .compare(&foreground)
            .to_text("background", "foreground", 8),
        "0 objects differ\n"
    );
    let json = background.compare(&orphan).to_json();
    assert_eq!(json["differences"][0]["object"]["name"], "web-1");
    assert_eq!(json["differences"][0]["left"]["fate"], "deleted");
    assert_eq!(json["differences"][0]["right"]["fate"], "released");
}

/// From 1.20 on, an owner in another namespace does not exist for its dependents.
#[test]
fn two_versions() {
    let (before, after) = (cluster("1.19", DUMP), cluster("1.20", DUMP));
    let text = before.pending().compare(after.pending());
    let text = text.to_text("1.19", "1.20", 8);
    let expected = "1 object differs\n\n1.19: kept, 1.20: deleted\n  - secret/far -n test\n";
    assert_eq!(text, expected);
}

#[test]
fn two_dumps() {
    let deletion = r#", deletionTimestamp: "2026-05-01T10:00:00Z", finalizers: [example.com/hold]"#;
    let restored = DUMP.replace(deletion, "");
    let (before, after) = (cluster("1.19", DUMP), cluster("1.19", &restored));
    let text = before.pending().compare(after.pending());
    let text = text.to_text("before", "after", 8);
    let expected = "1 object differs\n\nbefore: terminating, after: kept\n  - configmap/going -n shop\n";
    assert_eq!(text, expected);
}

/// Restored objects have new uids, and references to the old ones: the collector deletes every dependent.
#[test]
fn a_restore_loses_dependents_and_terminating_objects() {
    let version = KubernetesVersion::LATEST;
    let restored = snapshot(version, DUMP).restored();
    let objects = restored.objects();
    let names: Vec<String> = objects.map(|object| object.name().to_string()).collect();
    assert_eq!(names.len(), 5);
    assert!(!names.contains(&"going".to_owned()), "{names:?}");
    for (position, object) in restored.objects().enumerate() {
        let of_kind = restored.positions_of_kind(object.object_ref().group(), object.kind());
        assert!(of_kind.contains(&position), "{object:?}");
    }
    let cluster = Cluster::new(version, restored, Assumptions::default());
    let mut question = Question::new(version);
    question.controllers.clear();
    let forecast = cluster.forecast(&question).expect("a question without names");
    let fates = forecast.fates.iter();
    let words = fates.map(|fate| (&*fate.object.name, fate.fate.word()));
    let deleted: Vec<&str> = words
        .filter(|(_, word)| *word == "deleted")
        .map(|(name, _)| name)
        .collect();
    assert_eq!(deleted, ["far", "web-1"]);
}

#[test]
fn a_restore_may_leave_no_object_of_a_kind() {
    let dump = DUMP.replace("kind: Secret", "kind: Event");
    let terminating = r#"
---
apiVersion: v1
kind: Secret
metadata: {namespace: shop, name: last, uid: s1, deletionTimestamp: "2026-05-01T10:00:00Z", finalizers: [example.com/hold]}
"#;
    let restored = snapshot(KubernetesVersion::LATEST, &format!("{dump}{terminating}")).restored();
    assert!(restored.positions_of_kind("", "Secret").is_empty());
    assert_eq!(restored.positions_of_kind("", "Event").len(), 1);
    assert_eq!(restored.positions_of_kind("apps", "ReplicaSet").len(), 1);
}
