//! PodCertificateRequests, which are deleted by their age.

use crate::common::{at, cache, lines, reconcile};
use kubegc_controllers::{Controller as _, PodCertificateRequestCleaner};
use kubegc_core::KubernetesVersion;
use serde_json::{Value, json};

fn release(text: &str) -> PodCertificateRequestCleaner {
    PodCertificateRequestCleaner::new(text.parse().expect("a release"))
}

/// The decision about a request with this metadata.
fn decide(controller: &PodCertificateRequestCleaner, mut metadata: Value, now: &str) -> Vec<String> {
    metadata["namespace"] = "shop".into();
    metadata["name"] = "r".into();
    let cache = cache(
        controller,
        &[json!({"kind": "PodCertificateRequest", "metadata": metadata})],
    );
    lines(&reconcile(controller, &cache, "shop/r", at(now)), at(now))
}

#[test]
fn l4_9_a_request_is_deleted_at_its_age() {
    let kept = "keep podcertificaterequest.certificates.k8s.io/r -n shop";
    let deleted = "delete podcertificaterequest.certificates.k8s.io/r -n shop";
    let created = json!({"creationTimestamp": "2026-03-01T12:00:00Z"});
    let latest = PodCertificateRequestCleaner::new(KubernetesVersion::LATEST);
    for (controller, until, age, by_uid) in [
        (
            latest,
            "2026-03-01T12:14:59Z",
            "2026-03-01T12:15:00Z",
            " uid=uid-r",
        ),
        (
            release("1.35"),
            "2026-03-01T12:14:59Z",
            "2026-03-01T12:15:00Z",
            " uid=uid-r",
        ),
        (
            release("1.34.3"),
            "2026-03-01T12:29:59Z",
            "2026-03-01T12:30:00Z",
            "",
        ),
    ] {
        let expected = [format!("{kept}: Young"), "requeue 1".to_owned()];
        assert_eq!(decide(&controller, created.clone(), until), expected);
        let expected = [format!("{deleted}{by_uid}")];
        assert_eq!(decide(&controller, created.clone(), age), expected);
        // As old as Go's zero time.
        assert_eq!(decide(&controller, json!({}), until), expected);
    }
    assert_eq!(latest.timing().period.map(|period| period.as_secs()), Some(300));
    assert_eq!(
        release("1.34").timing().period.map(|period| period.as_secs()),
        Some(3_600)
    );
    let now = "2026-03-02T12:00:00Z";
    assert_eq!(
        decide(&release("1.33"), created, now),
        [format!("{kept}: Disabled")]
    );
    let deleting = json!({"deletionTimestamp": "2026-03-01T12:00:00Z"});
    assert_eq!(decide(&latest, deleting, now), [format!("{kept}: Terminating")]);
}

#[test]
fn l4_9_not_found_is_a_success_since_1_35() {
    use kubegc_controllers::Response;
    use kubegc_core::StoreError;
    let object = json!({"kind": "PodCertificateRequest", "metadata": {"namespace": "shop", "name": "r"}});
    let now = at("2026-03-01T12:00:00Z");
    let conflict = StoreError::Conflict {
        message: "another uid".into(),
    };
    for (controller, error, end) in [
        (release("1.35"), StoreError::NotFound, "done"),
        (
            release("1.35"),
            conflict,
            r#"failed, retried=false: unable to delete PodCertificateRequest "shop/r": conflict: another uid"#,
        ),
        (
            release("1.34"),
            StoreError::NotFound,
            r#"failed, retried=false: unable to delete PCR "r": not found"#,
        ),
    ] {
        let cache = cache(&controller, std::slice::from_ref(&object));
        let action = reconcile(&controller, &cache, "shop/r", now).actions.remove(0);
        let lines = crate::common::play(&action.into_steps(true), |_| Response::Failed(error.clone()));
        assert_eq!(lines.last().map(String::as_str), Some(end));
    }
}
