//! Approved actions are performed, and no others, even if more became garbage.

use kubegc_node::driver::{Approved, Performed};

use super::*;

/// The actions of a run over containers, then one over images.
fn planned(busy: &Busy) -> Vec<NodeAction> {
    let dry = Settings {
        dry_run: true,
        ..settings("1.36.0")
    };
    let mut node = Node::new(world(&busy.node, &busy.clock), dry);
    let containers = now(node.collect_containers(Mode::Periodic)).performed;
    let images = now(node.collect_images()).performed;
    let all = containers.into_iter().chain(images);
    all.map(|performed| performed.action).collect()
}

fn perform(busy: &Busy, approved: &[NodeAction]) -> Vec<Performed> {
    let guard = Approved::new(&busy.node, Some(&busy.node), approved);
    let world = Environment {
        runtime: &guard,
        logs: Some(&guard),
        pods: &busy.node,
        clock: &busy.clock,
    };
    let mut node = Node::new(world, settings("1.36.0"));
    let containers = now(node.collect_containers(Mode::Periodic)).performed;
    let images = now(node.collect_images()).performed;
    containers.into_iter().chain(images).collect()
}

#[test]
fn every_action_of_an_approved_plan_is_performed() {
    let busy = busy();
    let approved = planned(&busy);
    let performed = perform(&busy, &approved);
    for action in &approved {
        // The amount to free depends on earlier removals; the image is the same.
        let same = |performed: &&Performed| match (&performed.action, action) {
            (
                NodeAction::Image(image::Action::Remove { image: one, .. }),
                NodeAction::Image(image::Action::Remove { image: other, .. }),
            ) => one == other,
            (one, other) => one == other,
        };
        let done = performed.iter().find(same);
        let done = done.map(|performed| &performed.outcome);
        let stays = matches!(done, Some(Outcome::Kept(_)));
        assert!(stays || done == Some(&Outcome::Done), "{action:?}: {done:?}");
    }
    assert!(
        approved
            .iter()
            .any(|action| matches!(action, NodeAction::Image(_)))
    );
    assert_eq!(busy.node.violations(), []);
}

#[test]
fn removals_without_approval_are_refused_and_do_not_reach_the_runtime() {
    let busy = busy();
    let refused = perform(&busy, &[]);
    assert!(refused.len() > 5, "{refused:?}");
    for performed in &refused {
        match &performed.outcome {
            Outcome::NotStopped(why) | Outcome::NotRemoved(why) => {
                assert_eq!(*why, RuntimeError::refused(Approved::REFUSAL), "{performed:?}");
            }
            // A link whose container has not ended is kept anyway.
            Outcome::Kept(_) => {}
            other => panic!("{other:?}: {performed:?}"),
        }
    }
    assert_eq!(busy.node.changes(), []);
}

#[test]
fn removing_an_approved_container_removes_only_its_own_log() {
    let busy = busy();
    let approved: Vec<_> = planned(&busy)
        .into_iter()
        .filter(|action| {
            let NodeAction::Container(kubegc_node::container::Action::Remove { container, .. }) = action
            else {
                return false;
            };
            container.id == busy.dead[0]
        })
        .collect();
    assert_eq!(approved.len(), 1);
    let (own, other) = (
        busy.node.log_path(&busy.dead[0]).expect("it has a log"),
        busy.node.log_path(&busy.dead[1]).expect("it has a log"),
    );
    perform(&busy, &approved);
    assert!(busy.node.container(&busy.dead[0]).is_none());
    assert!(busy.node.container(&busy.dead[1]).is_some());
    let removed: Vec<_> = busy
        .node
        .changes()
        .into_iter()
        .filter(|call| call.operation == Operation::RemoveContainerLogs)
        .map(|call| call.target)
        .collect();
    assert_eq!(removed, [own], "{other} stays");
}

#[test]
fn a_container_that_appears_after_the_approval_is_kept() {
    let busy = busy();
    let approved = planned(&busy);
    let late = busy
        .node
        .run_pod(&PodSpec::new("shop", "late").container(ContainerSpec::new("late", "web:1")))
        .expect("the image is there");
    busy.node.exit_container(&late.container_ids[0]).expect("it runs");
    busy.node.delete_pod(&late.pod.uid).expect("it is known");
    busy.node.forget_pod(&late.pod.uid);
    busy.clock.advance(Duration::from_secs(3600));
    perform(&busy, &approved);
    assert!(busy.node.container(&late.container_ids[0]).is_some());
}

#[test]
fn an_image_is_approved_for_the_handler_that_was_shown() {
    let busy = busy();
    let approved: Vec<_> = planned(&busy)
        .into_iter()
        .filter(|action| matches!(action, NodeAction::Image(_)))
        .collect();
    let guard = Approved::new(&busy.node, None, &approved);
    let refused = now(guard.remove_image(&busy.unused, "kata"));
    assert_eq!(refused, Err(RuntimeError::refused(Approved::REFUSAL)));
    assert_eq!(now(guard.remove_image(&busy.unused, "")), Ok(()));
}
