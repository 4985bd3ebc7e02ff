//! Assumptions that a controller acts, which the dump contradicts: a claim has waited for three hours.

use kubegc_predict::{Assumptions, Fate};

use crate::common;

const DUMP: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: clock, namespace: shop, uid: c0, creationTimestamp: "2026-01-02T12:00:00Z"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: v1, resourceVersion: "7", deletionTimestamp: "2026-01-02T09:00:00Z", finalizers: [kubernetes.io/pvc-protection]}
"#;

#[test]
fn a_controller_that_is_assumed_to_act_acts() {
    let outcome = |name: &str, acts: bool| {
        let assumptions = Assumptions {
            acting: [(name.into(), acts)].into(),
            ..Assumptions::default()
        };
        let cluster = common::of_dump("1.36", DUMP, &["all"], assumptions);
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
