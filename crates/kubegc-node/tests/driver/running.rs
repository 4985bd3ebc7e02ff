//! The pods that exist according to their running objects.

use kubegc_core::node_facts::PodState;
use kubegc_node::driver::WithRunning;

use super::{begins::between, *};

#[test]
fn a_sandbox_that_is_created_between_the_listings_is_known() {
    for start in 0..5 {
        for with_container in [false, true] {
            let busy = busy();
            let pausing = Arc::new(Pausing::new(&busy.node, &busy.clock));
            let source = WithRunning::new(busy.node.fork(busy.clock.clone()), pausing);
            drop(busy.node.take_calls());
            let name = format!("new{}", busy.node.all_sandboxes().len());
            let mut in_time = false;
            let (reported, _) = between(source.pods(), |calls| {
                if calls != start {
                    return;
                }
                in_time = !operations(&busy.node).contains(&Operation::Sandboxes);
                let id = busy.node.run_sandbox(&crate::world::pod(&name));
                if with_container {
                    let spec = ContainerSpec::new("main", "web:1");
                    busy.node.create_container(&id, &spec).expect("there is room");
                }
            });
            assert_eq!(in_time, start < 4, "{start}");
            let known = reported.expect("a response").known.contains_key(&Uid::new(&name));
            assert_eq!(known, in_time, "{start} {with_container}");
        }
    }
}

#[test]
fn a_failed_listing_makes_the_pods_unknown() {
    for operation in [Operation::Sandboxes, Operation::Containers] {
        for fault in [refuse(), Fault::LoseResponse, Fault::Die] {
            let busy = busy();
            let runtime = Arc::new(faulty(&busy.node, vec![Rule::always(operation, fault.clone())]));
            let source = WithRunning::new(busy.node.clone(), runtime);
            assert!(now(source.pods()).is_err(), "{operation:?} {fault:?}");
            let world = Environment {
                pods: &source,
                ..world(&busy.node, &busy.clock)
            };
            let node = Node::new(world, settings("1.36.0"));
            let report = now(node.collect_containers(Mode::Forced));
            let errors = report.errors;
            assert!(
                errors.iter().all(|error| error.starts_with("list pods: ")),
                "{errors:?}"
            );
            assert_eq!(errors.len(), 3, "{operation:?} {fault:?}");
            let left: BTreeSet<_> = busy.node.all_log_entries().into_iter().collect();
            assert!(left.contains("123"), "no log directory is removed");
            assert!(
                busy.gone_sandboxes
                    .iter()
                    .all(|id| busy.node.sandbox(id).is_some())
            );
        }
    }
    let busy = busy();
    let runtime = faulty(&busy.node, vec![Rule::always(Operation::Pods, refuse())]);
    let combined = WithRunning::new(runtime, Arc::new(busy.node.clone()));
    assert_eq!(now(combined.pods()), Err(RuntimeError::refused("device busy")));
}

#[test]
fn an_outdated_source_is_corrected_about_running_pods() {
    let busy = busy();
    // A source listed the pods before one existed, and another as ended.
    let behind = busy.node.fork(busy.clock.clone());
    behind.set_pod(&Uid::new("web"), PodState::DELETED);
    let late = PodSpec {
        uid: Some(Uid::new("late")),
        ..PodSpec::new("shop", "late").container(ContainerSpec::new("main", "web:1"))
    };
    busy.node.run_pod(&late).expect("it runs");
    let combined = WithRunning::new(behind, Arc::new(busy.node.clone()));
    let reported = now(combined.pods()).expect("a response");
    assert_eq!(reported.known.get(&Uid::new("late")), Some(&PodState::ACTIVE));
    let ending = PodState {
        deleted: true,
        ..PodState::ACTIVE
    };
    assert_eq!(reported.known.get(&Uid::new("web")), Some(&ending));
    assert!(reported.sources_ready && reported.synced);
}
