//! Objects that have waited for a controller much longer than it needs show that it does not act.

use std::collections::BTreeMap;

use kubegc_core::KubernetesVersion;
use kubegc_predict::{Assumptions, Cluster, Fate};
use kubegc_snapshot::Reader;

const CLOCK: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: clock, namespace: shop, uid: c0, creationTimestamp: "2026-01-02T12:00:00Z"}
"#;
const ORPHAN: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: owner, namespace: shop, uid: c1, deletionTimestamp: "2026-01-02T11:50:00Z", finalizers: [orphan]}
"#;
const DEPENDENT: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: shop, uid: k1, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: c1}]}
"#;
const FOREGROUND: &str = r#"
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: shop, uid: r1, deletionTimestamp: "2026-01-01T12:00:00Z", finalizers: [foregroundDeletion]}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
"#;
const CLAIM: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: v1, resourceVersion: "7", deletionTimestamp: "2026-01-02TDELETEDZ", finalizers: [kubernetes.io/pvc-protection]}
"#;
const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: calc, namespace: shop, uid: j1, resourceVersion: "8", creationTimestamp: "2026-01-02T08:00:00Z"}
spec: {ttlSecondsAfterFinished: 60}
status: {conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-01-02TENDEDZ"}]}
"#;
const NAMESPACE: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: old, uid: n1, deletionTimestamp: "2026-01-02T09:00:00Z"}
spec: {finalizers: [kubernetes]}
status: {phase: Terminating}
"#;

fn cluster(objects: &[&str], acting: &BTreeMap<&str, bool>) -> Cluster {
    let version = KubernetesVersion::LATEST;
    let mut reader = Reader::new(version).complete("all");
    let dump = format!("{CLOCK}---{}\n", objects.join("---"));
    reader.read("dump.yaml", dump.as_bytes()).expect("YAML");
    let acting = acting.iter().map(|(name, acts)| ((*name).into(), *acts));
    let assumptions = Assumptions {
        acting: acting.collect(),
        ..Assumptions::default()
    };
    Cluster::new(version, reader.finish().expect("a dump"), assumptions)
}

#[test]
fn controllers_that_should_have_acted_do_not_act() {
    let claim = |deleted: &str| CLAIM.replace("DELETED", deleted);
    let job = |ended: &str| JOB.replace("ENDED", ended);
    let explained = NAMESPACE.replace(
        "phase: Terminating",
        "phase: Terminating, conditions: [{type: NamespaceContentRemaining, status: \"True\"}]",
    );
    let (old, new) = (claim("09:00:00"), claim("11:30:00"));
    let (expired, expiring) = (job("10:30:00"), job("11:30:00"));
    let collector = Some("garbage-collector-controller does not act");
    let manager = Some("kube-controller-manager does not act");
    let rows: [(&[&str], Option<&str>); 10] = [
        (&[ORPHAN], collector),
        (&[ORPHAN, DEPENDENT], collector),
        (&[FOREGROUND], collector),
        (
            &[&old],
            Some("persistentvolumeclaim-protection-controller does not act"),
        ),
        // It may have been used until a moment ago.
        (&[&new], None),
        (&[&expired], Some("ttl-after-finished-controller does not act")),
        (&[&expiring], None),
        (&[NAMESPACE], Some("namespace-controller does not act")),
        (&[&explained], None),
        (&[FOREGROUND, &old], manager),
    ];
    for (objects, expected) in rows {
        let diagnosis = cluster(objects, &BTreeMap::new()).doctor();
        let causes: Vec<String> = diagnosis
            .causes
            .iter()
            .map(|cause| cause.message.clone())
            .collect();
        let is_named = |cause: &String| Some(cause.as_str()) == expected;
        match expected {
            Some(_) => assert!(
                causes.len() == 1 && is_named(&causes[0]),
                "{causes:?} {objects:?}"
            ),
            None => assert!(
                !causes.iter().any(|cause| cause.ends_with("does not act")),
                "{causes:?}"
            ),
        }
    }
}

#[test]
fn a_controller_that_is_assumed_to_act_acts() {
    let claim = CLAIM.replace("DELETED", "09:00:00");
    let outcome = |name: &str, acts: bool| {
        let cluster = cluster(&[&claim], &BTreeMap::from([(name, acts)]));
        cluster.check_assumptions().expect("the name is known");
        match &cluster.pending().fates[0].fate {
            Fate::Terminating { waits_for } => waits_for[0].to_string(),
            other => other.word().to_owned(),
        }
    };
    let controller = "persistentvolumeclaim-protection-controller";
    assert_eq!(outcome(controller, true), "deleted");
    assert_eq!(outcome("kube-controller-manager", true), "deleted");
    let waits = format!(
        "finalizer kubernetes.io/pvc-protection, which {controller} removes when no pod uses the claim: "
    );
    assert_eq!(
        outcome("cloud-controller-manager", true),
        format!("{waits}it has not for 3h, and normally does within 15s")
    );
    assert_eq!(
        outcome(controller, false),
        format!("{waits}it is assumed not to act")
    );
}
