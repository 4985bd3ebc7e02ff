//! The number of pods that one sync of a Job counts.

use kubegc_controllers::{BatchPlanner, Wire, job};
use kubegc_core::{KubernetesVersion, Planner as _};

use crate::common::{at, cache, line, object};

#[test]
fn one_sync_counts_500_pods() {
    let mut objects = vec![object(
        "batch/v1 Job shop/j spec.completions=1000 spec.completionMode=NonIndexed",
    )];
    objects.extend((0..700).map(|number| {
        object(&format!(
            "v1 Pod shop/p-{number:03} owner:batch/v1/Job/j finalizer:batch.kubernetes.io/job-tracking \
             status.phase=Succeeded"
        ))
    }));
    let controller = job::RULE.at(KubernetesVersion::LATEST);
    let planner = BatchPlanner::new(controller).wire(Wire::AsUpstream);
    let plan = planner.plan(&cache(&controller, &objects), at("12:00"));
    let lines: Vec<String> = plan
        .actions
        .iter()
        .flat_map(|action| &action.requests)
        .map(line)
        .collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("patch")).count(), 500);
    assert_eq!(plan.kept.len(), 200);
    assert!(
        lines[0].ends_with("[0+500 succeeded, 0+0 failed]"),
        "{}",
        lines[0]
    );
}
