//! Jobs with a time to live.

mod common;

use common::{at, cache, from_cache, play, reconcile_all};
use kubegc_controllers::TtlAfterFinished;
use kubegc_core::KubernetesVersion;
use serde_json::json;

#[test]
fn a_job_is_deleted_when_its_time_to_live_has_ended() {
    let controller = TtlAfterFinished::new(KubernetesVersion::LATEST);
    let job = |name: &str, finished: &str| {
        let complete = json!({"type": "Complete", "status": "True", "lastTransitionTime": finished});
        json!({"kind": "Job", "metadata": {"namespace": "shop", "name": name},
            "spec": {"ttlSecondsAfterFinished": 60}, "status": {"conditions": [complete]}})
    };
    let mut unread = job("c", "2026-03-01T12:00:00Z");
    unread["status"]["conditions"] = json!("hidden");
    let objects = [
        job("a", "2026-03-01T12:00:00Z"),
        job("b", "2026-03-01T12:00:30Z"),
        unread,
    ];
    let cache = cache(&controller, &objects);
    let expected = [
        "delete job.batch/a -n shop propagation=Foreground uid=uid-a",
        "keep job.batch/b -n shop: TtlNotExpired",
        "requeue 30",
        "unknown job.batch/c -n shop: job.batch/c -n shop: status.conditions could not be read",
    ];
    let now = at("2026-03-01T12:01:00Z");
    assert_eq!(reconcile_all(&controller, &cache, now), expected);
    let decision = common::reconcile(&controller, &cache, "shop/a", now);
    let steps = decision.actions[0].clone().into_steps(true);
    assert_eq!(
        play(&steps, from_cache(&cache)),
        ["get job.batch/a -n shop", expected[0], "done"]
    );
}
