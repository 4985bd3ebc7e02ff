//! Pods that start during a run: their objects are kept.

use std::{sync::atomic::AtomicUsize, task::Poll};

use kubegc_core::node_facts::PodState;
use kubegc_node::log;

use super::*;

/// A pod source that changes its response from some call on.
struct Changing {
    node: SimNode,
    listings: AtomicUsize,
    from: usize,
    then: fn(Pods) -> Result<Pods, RuntimeError>,
}

#[async_trait::async_trait]
impl PodSource for Changing {
    async fn pods(&self) -> Result<Pods, RuntimeError> {
        let pods = self.node.pods().await?;
        if self.listings.fetch_add(1, Ordering::Relaxed) < self.from {
            Ok(pods)
        } else {
            (self.then)(pods)
        }
    }
}

#[test]
fn n2_43_a_directory_is_kept_if_its_pod_exists_right_before_the_removal() {
    type Case = (
        &'static str,
        fn(Pods) -> Result<Pods, RuntimeError>,
        Option<log::Reason>,
        &'static [&'static str],
    );
    let deletable = ["123", "shop_deleted_deleted", "shop_forgotten_forgotten"];
    let cases: [Case; 4] = [
        ("nothing changed", Ok, None, &[]),
        (
            "they began",
            |mut pods| {
                for uid in ["123", "deleted", "forgotten"] {
                    pods.known.insert(Uid::new(uid), PodState::ACTIVE);
                }
                Ok(pods)
            },
            Some(log::Reason::PodExists),
            &[],
        ),
        (
            "sources are missing",
            |pods| {
                Ok(Pods {
                    sources_ready: false,
                    ..pods
                })
            },
            Some(log::Reason::SourcesNotReady),
            &[],
        ),
        (
            "nothing responds",
            |_| Err(RuntimeError::refused("device busy")),
            Some(log::Reason::SourcesNotReady),
            &["list pods: device busy"],
        ),
    ];
    for (name, then, stays, errors) in cases {
        for dry_run in [false, true] {
            let busy = busy();
            // The stage is planned with the third response; each further one is about one directory.
            let source = Changing {
                node: busy.node.clone(),
                listings: AtomicUsize::new(0),
                from: 3,
                then,
            };
            let world = Environment {
                pods: &source,
                ..world(&busy.node, &busy.clock)
            };
            let settings = Settings {
                dry_run,
                ..settings("1.36.0")
            };
            let report = now(Node::new(world, settings).collect_containers(Mode::Periodic));
            let listings = source.listings.into_inner();
            assert_eq!(
                listings,
                if dry_run { 3 } else { 8 },
                "{name}: once for each directory"
            );
            if dry_run {
                continue;
            }
            assert_eq!(report.errors, errors, "{name}");
            let left = busy.node.all_log_entries();
            for done in &report.performed {
                let NodeAction::Log(log::Action::RemoveDirectory { entry, .. }) = &done.action else {
                    continue;
                };
                let changed = deletable.contains(&&**entry) || name != "they began";
                let expected = match &stays {
                    Some(reason) if changed => Outcome::Kept(reason.clone()),
                    _ => Outcome::Done,
                };
                assert_eq!(done.outcome, expected, "{name}: {entry}");
                assert_eq!(left.contains(entry), expected != Outcome::Done, "{name}: {entry}");
            }
        }
    }
}

/// Polls `future` to its result, with an action before each poll: `work` gets the number of earlier polls.
pub(super) fn between<T>(future: impl Future<Output = T>, mut work: impl FnMut(usize)) -> (T, usize) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for listings in 0.. {
        work(listings);
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return (result, listings);
        }
    }
    unreachable!("the run ends before the numbers do");
}

/// The state of a new pod, or of an existing one, at the moment of the run, and its later state.
#[derive(Clone, Copy, Debug)]
enum Beginning {
    /// Its sandbox is created first, and a container later.
    New,
    /// Its log directory exists, and its sandbox is created later.
    DirectoryFirst,
    /// All its objects have ended and exist; its next sandbox exists, and a container is created later.
    Anew,
}

/// One run, with a pod that starts at the `start`th moment and continues `later`. Returns the length of the
/// run, and the outcome for the directory if it was to be removed.
fn begin_during_a_pass(how: Beginning, start: usize, later: usize) -> (usize, Option<Outcome>) {
    let busy = busy();
    let node = &busy.node;
    let identity = crate::world::pod("new");
    let entry: Arc<str> = "shop_new_new".into();
    let spec = ContainerSpec::new("main", "web:1");
    if matches!(how, Beginning::Anew) {
        let old = node.run_sandbox(&identity);
        let old_container = node.create_container(&old, &spec).expect("there is room");
        node.start_container(&old_container).expect("it starts");
        node.end_sandbox(&old).expect("there is one");
        drop(node.take_calls());
    }
    let pausing = Arc::new(Pausing::new(&busy.node, &busy.clock));
    let source = running_pods(Arc::clone(&pausing) as _);
    let world = Environment {
        runtime: &*pausing,
        logs: Some(&*pausing),
        pods: &source,
        clock: &busy.clock,
    };
    let driver = Node::new(world, settings("1.36.0"));
    let (sandbox_at, container_at) = match how {
        Beginning::DirectoryFirst => (start + later, start + later),
        Beginning::New | Beginning::Anew => (start, start + later),
    };
    // The sandbox and the container, and the number of calls before the sandbox.
    let mut new = (Arc::from(""), Arc::from(""), usize::MAX);
    let (report, listings) = between(driver.collect_containers(Mode::Forced), |listings| {
        if listings == start && matches!(how, Beginning::DirectoryFirst) {
            node.insert_log_entry(&entry, 1).expect("there is room");
        }
        if listings == sandbox_at {
            new.2 = operations(node).len();
            new.0 = node.run_sandbox(&identity);
        }
        if listings == container_at {
            new.1 = node.create_container(&new.0, &spec).expect("there is room");
            node.start_container(&new.1).expect("it starts");
        }
    });
    if container_at > listings {
        return (listings, None);
    }
    let moment = format!("{how:?} at {start}, and {later} later");
    assert!(node.sandbox(&new.0).is_some(), "{moment}");
    let running = node.container(&new.1).map(|one| one.state);
    assert_eq!(running, Some(ContainerState::Running), "{moment}");
    let calls = node.calls();
    let removed = calls
        .iter()
        .position(|call| call.operation == Operation::RemovePodEntry && call.target == entry);
    if let Some(removed) = removed {
        let reported = calls[..removed]
            .iter()
            .rposition(|call| call.operation == Operation::Sandboxes)
            .expect("pods are listed before a directory is removed");
        assert_eq!(reported + 1, removed, "{moment}: right before");
        assert!(
            new.2 > reported,
            "{moment}: there was no sandbox when pods were listings for"
        );
    }
    if matches!(how, Beginning::New) || removed.is_none_or(|removed| new.2 > removed) {
        assert!(node.all_log_entries().contains(&entry), "{moment}");
    }
    let planned = report.performed.into_iter().find(|done| {
        matches!(&done.action, NodeAction::Log(log::Action::RemoveDirectory { entry: one, .. }) if *one == entry)
    });
    (listings, planned.map(|done| done.outcome))
}

#[test]
fn a_pod_that_starts_at_any_time_of_a_run_keeps_its_objects() {
    let (mut start, mut longest) = (0, usize::MAX);
    while start <= longest {
        for later in 0..6 {
            (longest, _) = begin_during_a_pass(Beginning::New, start, later);
        }
        start += 1;
    }
    assert!(longest > 20, "the run was cut in many places: {longest}");
}

#[test]
fn a_pod_that_starts_during_a_run_loses_only_logs_from_before_its_sandbox() {
    for how in [Beginning::DirectoryFirst, Beginning::Anew] {
        let (mut start, mut longest) = (0, usize::MAX);
        let (mut stayed, mut removals) = (0, 0);
        while start <= longest {
            for later in (0..8).chain((8..64).step_by(5)) {
                let (listings, outcome) = begin_during_a_pass(how, start, later);
                longest = listings;
                stayed += usize::from(outcome == Some(Outcome::Kept(log::Reason::PodExists)));
                removals += usize::from(outcome == Some(Outcome::Done));
            }
            start += 1;
        }
        assert!(longest > 40, "{how:?}: the run was cut in many places: {longest}");
        assert!(
            stayed > 0 && removals > 0,
            "{how:?}: {stayed} kept that could be removed, and {removals} removed"
        );
    }
}
