//! Approved actions are performed, and no others, even if more became garbage.

use kubegc_node::driver::Performed;

use super::*;

/// The actions of a run over containers, then one over images.
fn planned(busy: &Busy) -> Vec<NodeAction> {
    let dry = Settings {
        dry_run: true,
        ..settings("1.36.0")
    };
    let node = Node::new(world(&busy.node, &busy.clock), dry);
    perform(node)
        .into_iter()
        .map(|performed| performed.action)
        .collect()
}

fn perform(mut node: Node<'_>) -> Vec<Performed> {
    let containers = now(node.collect_containers(Mode::Periodic)).performed;
    let images = now(node.collect_images()).performed;
    containers.into_iter().chain(images).collect()
}

/// Performs runs in which only actions on the objects of these actions are approved.
fn perform_approved(busy: &Busy, approved: &[NodeAction]) -> Vec<Performed> {
    let node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
    perform(node.require_approval(|action| approved.iter().any(|one| one.has_same_object(action))))
}

#[test]
fn every_action_of_an_approved_plan_is_performed_and_later_garbage_is_kept() {
    let busy = busy();
    let approved = planned(&busy);
    assert!(
        approved
            .iter()
            .any(|action| matches!(action, NodeAction::Image(_)))
    );
    let late = busy
        .node
        .run_pod(&PodSpec::new("shop", "late").container(ContainerSpec::new("late", "web:1")))
        .expect("the image is there");
    busy.node.exit_container(&late.container_ids[0]).expect("it runs");
    busy.node.delete_pod(&late.pod.uid).expect("it is known");
    busy.node.forget_pod(&late.pod.uid);
    let performed = perform_approved(&busy, &approved);
    for action in &approved {
        let done = performed
            .iter()
            .find(|performed| performed.action.has_same_object(action));
        let done = done.map(|performed| &performed.outcome);
        let stays = matches!(done, Some(Outcome::Kept(_)));
        assert!(stays || done == Some(&Outcome::Done), "{action:?}: {done:?}");
    }
    assert!(busy.node.container(&late.container_ids[0]).is_some());
    assert_eq!(busy.node.violations(), []);
}

#[test]
fn every_stage_requires_approval() {
    let busy = busy();
    let mut approved = planned(&busy);
    approved.retain(|action| matches!(action, NodeAction::Container(_)));
    let performed = perform_approved(&busy, &approved);
    let stages: [fn(&NodeAction) -> bool; 3] = [
        |action| matches!(action, NodeAction::Sandbox(_)),
        |action| matches!(action, NodeAction::Log(_)),
        |action| matches!(action, NodeAction::Image(_)),
    ];
    for stage in stages {
        let mut outcomes = performed
            .iter()
            .filter(|done| stage(&done.action))
            .map(|done| &done.outcome);
        assert!(outcomes.clone().count() > 0, "{performed:?}");
        assert!(
            outcomes.all(|outcome| *outcome == Outcome::NotApproved),
            "{performed:?}"
        );
    }
    let stays = |id: &Arc<str>| busy.node.sandbox(id).is_some();
    assert!(busy.gone_sandboxes.iter().all(stays));
}

#[test]
fn removing_an_approved_container_removes_only_its_own_log() {
    let busy = busy();
    let mut approved = planned(&busy);
    approved.retain(
        |action| matches!(action, NodeAction::Container(action) if action.container.id == busy.dead[0]),
    );
    assert_eq!(approved.len(), 1);
    let own = busy.node.log_path(&busy.dead[0]).expect("it has a log");
    perform_approved(&busy, &approved);
    assert!(busy.node.container(&busy.dead[0]).is_none());
    assert!(busy.node.container(&busy.dead[1]).is_some());
    let changes = busy.node.changes();
    let removed = changes
        .iter()
        .filter(|call| call.operation == Operation::RemoveContainerLogs);
    assert_eq!(removed.map(|call| &call.target).collect::<Vec<_>>(), [&own]);
}
