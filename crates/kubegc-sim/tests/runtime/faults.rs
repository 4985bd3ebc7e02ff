//! Faults between a caller and its runtime.

use std::sync::Arc;

use kubegc_core::{LogDirectory, PodSource, Runtime, RuntimeError};
use kubegc_sim::{
    FaultyRuntime, SimNode,
    runtime::{Fault, FaultPlan, Operation, Rule},
};

use crate::node::{JOB, WEB, is_unknown, node, now, run};

fn faulty(rules: Vec<Rule>) -> (SimNode, FaultyRuntime<SimNode>) {
    let node = node();
    let plan = FaultPlan {
        rules,
        ..FaultPlan::default()
    };
    (node.clone(), FaultyRuntime::new(node, plan))
}

fn busy() -> RuntimeError {
    RuntimeError::refused("device busy")
}

#[test]
fn a_refused_call_is_not_performed_and_one_with_a_lost_response_is() {
    for (fault, carried_out) in [(Fault::Refuse(busy()), false), (Fault::LoseResponse, true)] {
        let (node, faulty) = faulty(vec![Rule::always(Operation::RemoveImage, fault.clone())]);
        let answer = now(faulty.remove_image(WEB, ""));
        match &fault {
            Fault::Refuse(error) => assert_eq!(answer, Err(error.clone())),
            _ => assert!(is_unknown(&answer)),
        }
        assert_eq!(node.image(WEB).is_none(), carried_out);
        assert_eq!(
            node.changes().len(),
            usize::from(carried_out),
            "a refused call never reached the node"
        );
        assert_eq!(
            faulty.injected(),
            [(Operation::RemoveImage, Arc::from(WEB), fault)]
        );
        assert!(now(faulty.images()).is_ok(), "other calls pass");
    }
}

#[test]
fn rules_choose_calls_by_target_skip_some_and_end() {
    let rule = Rule {
        skip: 1,
        times: 2,
        ..Rule::always(Operation::ContainerStatus, Fault::Refuse(busy())).about("b")
    };
    let (_, faulty) = faulty(vec![rule]);
    let failed = |id| now(faulty.container_status(id)) == Err(busy());
    let outcomes = ["b", "a", "b", "a", "b", "b"].map(failed);
    assert_eq!(outcomes, [false, false, true, false, true, false]);
    // A rule without operation and target takes everything.
    let (_, all) = self::faulty(vec![Rule {
        matching: (None, None),
        ..Rule::always(Operation::Pods, Fault::Refuse(busy()))
    }]);
    assert_eq!(now(all.containers()), Err(busy()));
    assert_eq!(now(all.pods()), Err(busy()));
    assert_eq!(now(all.pod_entries()), Err(busy()));
}

#[test]
fn a_dead_runtime_refuses_everything_that_is_its_own_until_it_comes_back() {
    let (node, faulty) = faulty(Vec::new());
    let pod = run(&node, "web", WEB);
    let id = &pod.container_ids[0];
    faulty.die();
    let refused = |answer: Result<(), RuntimeError>| matches!(answer, Err(RuntimeError::Refused { .. }));
    assert!(refused(now(faulty.containers()).map(drop)));
    assert!(refused(now(faulty.sandboxes()).map(drop)));
    assert!(refused(now(faulty.images()).map(drop)));
    assert!(refused(now(faulty.image_file_system()).map(drop)));
    assert!(refused(now(faulty.container_status(id)).map(drop)));
    assert!(refused(now(faulty.image_id(WEB)).map(drop)));
    assert!(refused(now(faulty.stop_container(id, 2))));
    assert!(refused(now(faulty.remove_container(id))));
    assert!(refused(now(faulty.stop_sandbox(&pod.sandbox_id))));
    assert!(refused(now(faulty.remove_sandbox(&pod.sandbox_id))));
    assert!(refused(now(faulty.remove_image(WEB, ""))));
    assert!(node.calls().is_empty(), "nothing reached it");
    assert!(now(faulty.pods()).is_ok() && now(faulty.pod_entries()).is_ok());
    assert!(now(faulty.container_links()).is_ok_and(|links| links.len() == 1));
    assert!(faulty.injected().is_empty());
    faulty.revive();
    assert_eq!(now(faulty.containers()).map(|listed| listed.len()), Ok(1));
}

#[test]
fn a_runtime_dies_in_the_middle_of_a_call() {
    let (node, faulty) = faulty(vec![Rule {
        skip: 1,
        times: 1,
        ..Rule::always(Operation::RemoveImage, Fault::Die)
    }]);
    assert_eq!(now(faulty.remove_image("none", "")), Ok(()));
    assert!(is_unknown(&now(faulty.remove_image(WEB, ""))));
    assert!(faulty.is_dead());
    assert!(matches!(
        now(faulty.remove_image(JOB, "")),
        Err(RuntimeError::Refused { .. })
    ));
    assert_eq!(
        (node.image(WEB).is_none(), node.image(JOB).is_none()),
        (true, false)
    );
    faulty.revive();
    assert_eq!(now(faulty.remove_image(JOB, "")), Ok(()));
}

#[test]
fn a_status_may_be_empty() {
    let rule = Rule {
        matching: (None, None),
        ..Rule::always(Operation::Pods, Fault::EmptyStatus)
    };
    let (node, faulty) = faulty(vec![rule]);
    let id = run(&node, "web", WEB).container_ids[0].clone();
    assert_eq!(now(faulty.container_status(&id)), Ok(None));
    assert_eq!(now(faulty.container_status("none")), Err(RuntimeError::NotFound));
    assert_eq!(
        now(faulty.containers()).map(|listed| listed.len()),
        Ok(1),
        "other calls pass"
    );
    assert_eq!(faulty.injected().len(), 2);
}

#[test]
fn a_plan_draws_faults_from_its_seed() {
    let drawn = |seed| {
        let plan = FaultPlan {
            seed,
            faults_per_mille: 300,
            faults: vec![Fault::Refuse(busy())],
            ..FaultPlan::default()
        };
        let faulty = FaultyRuntime::new(node(), plan);
        let calls = (0..100).map(|_| now(faulty.images()).is_err());
        calls.collect::<Vec<bool>>()
    };
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn without_faults_every_call_passes() {
    let (node, faulty) = faulty(Vec::new());
    let pod = run(&node, "web", WEB);
    let (id, sandbox) = (&pod.container_ids[0], &pod.sandbox_id);
    let link = now(faulty.container_links()).unwrap()[0].path.clone();
    let entry = now(faulty.pod_entries()).unwrap()[0].clone();
    assert_eq!(
        now(faulty.image_id(WEB)),
        Ok(node.image(WEB).map(|image| image.id.clone()))
    );
    assert_eq!(now(faulty.image_file_system()), now(node.image_file_system()));
    assert_eq!(now(faulty.pods()), Ok(node.known_pods()));
    let log = now(faulty.container_status(id)).unwrap().unwrap().log_path;
    assert_eq!(now(faulty.stop_container(id, 2)), Ok(()));
    assert_eq!(now(faulty.remove_container_logs(&log)), Ok(()));
    assert_eq!(now(faulty.remove_container_link(&link)), Ok(()));
    assert_eq!(now(faulty.remove_container(id)), Ok(()));
    assert_eq!(now(faulty.stop_sandbox(sandbox)), Ok(()));
    assert_eq!(now(faulty.remove_sandbox(sandbox)), Ok(()));
    assert_eq!(now(faulty.remove_pod_entry(&entry)), Ok(()));
    assert_eq!(now(faulty.sandboxes()), Ok(Vec::new()));
    assert!(faulty.injected().is_empty());
    assert_eq!(faulty.runtime().changes().len(), 7);
}
