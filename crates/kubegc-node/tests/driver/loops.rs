//! Runtimes that stop responding, runs that are dropped, and the loops of a node.

use super::*;

/// Polls a future `times` times; `None` if it has no result by then.
fn poll_times<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(result) => Some(result),
        std::task::Poll::Pending => None,
    })
}

#[test]
fn a_run_can_be_dropped_at_any_await_and_started_again() {
    let whole = {
        let busy = busy();
        let mut node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
        now(node.collect_containers(Mode::Periodic));
        now(node.delete_unused_images());
        left(&busy.node)
    };
    let (mut dropped, mut polls) = (0, 1);
    loop {
        let busy = busy();
        let pausing = Pausing::new(&busy.node, &busy.clock);
        let mut node = Node::new(world(&pausing, &busy.clock), settings("1.36.0"));
        let first = poll_times(
            async {
                node.collect_containers(Mode::Periodic).await;
                node.delete_unused_images().await
            },
            polls,
        );
        let enough = usize::MAX;
        poll_times(node.collect_containers(Mode::Periodic), enough).expect("it ends");
        let images = poll_times(node.delete_unused_images(), enough).expect("it ends");
        assert_eq!(images.error(), None, "{polls}");
        assert_eq!(left(&busy.node), whole, "dropped after {polls}");
        assert_eq!(busy.node.violations(), [], "dropped after {polls}");
        let images = busy.node.all_images();
        let mut images: Vec<&str> = images.iter().map(|image| &*image.id).collect();
        images.sort_unstable();
        let known: Vec<&str> = node.records().iter().map(|record| &*record.key).collect();
        assert_eq!(known, images, "records are those of the images that stay");
        if first.is_some() {
            break;
        }
        (dropped, polls) = (dropped + 1, polls + 1);
    }
    assert!(dropped > 100, "{dropped} places to be dropped at");
}

/// Whether a future has woken its task.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs the loops until a time; returns the reports, with their seconds.
fn run_until(node: &mut Node<'_>, clock: &SimClock, until: i64) -> Vec<(i64, &'static str)> {
    let start = clock.now().as_secs();
    let mut reports = Vec::new();
    let seen = |report: Report| {
        let name = match report {
            Report::Containers(_) => "containers",
            Report::Images(_) => "images",
            Report::Detection(_) => "detection",
            Report::Event(event) | Report::ContainerEvent { event, .. } => event.reason,
            _ => "something else",
        };
        reports.push((clock.now().as_secs() - start, name));
    };
    {
        let stop = clock.sleep_until(at(start + until));
        let mut run = pin!(node.run(stop, seen));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        while run.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            // If it does not continue on its own, it waits for the time.
            if !woken.0.swap(false, Ordering::Relaxed) {
                clock.set(clock.next_wake().expect("a loop waits"));
            }
        }
    }
    reports
}

#[test]
fn n1_1_to_n1_3_the_loops_keep_upstreams_periods() {
    let busy = busy();
    let mut node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
    let reports = run_until(&mut node, &busy.clock, 601);
    let times = |name: &str| -> Vec<i64> {
        let of_name = reports.iter().filter(|(_, other)| *other == name);
        of_name.map(|(at, _)| *at).collect()
    };
    assert_eq!(
        times("containers"),
        [0, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600]
    );
    assert_eq!(times("images"), [0, 300, 600]);
    assert_eq!(times("detection"), [0, 300, 600]);
    assert_eq!(times("Killing"), [0]);
    assert_eq!(busy.clock.next_wake(), None, "no loop waits any more");
}

#[test]
fn n1_1_a_period_counts_from_the_end_of_the_last_run() {
    let busy = busy();
    let pausing = Pausing {
        listing_takes: Duration::from_secs(10),
        ..Pausing::new(&busy.node, &busy.clock)
    };
    let spec = PolicySpec {
        image_gc_high_threshold_percent: 100,
        ..spec()
    };
    let settings = Settings::from(&Policy::new(&spec, version("1.36.0")).expect("a valid policy"));
    let mut node = Node::new(world(&pausing, &busy.clock), settings);
    let reports = run_until(&mut node, &busy.clock, 200);
    let ended: Vec<_> = reports
        .iter()
        .filter(|(_, name)| *name == "containers")
        .map(|(at, _)| *at)
        .collect();
    // Each run lists containers twice: it takes 20 s and ends 80 s after the previous one.
    assert_eq!(ended[..2], [20, 100]);
    assert!(
        reports.iter().all(|(_, name)| *name != "images"),
        "n1_7: switched off"
    );
    assert!(reports.contains(&(30, "detection")), "n1_8: detection continues");
}

#[test]
fn n1_11_to_n1_15_failures_have_events() {
    let busy = busy();
    let rules = vec![
        Rule::always(Operation::Images, refuse()),
        Rule {
            times: 1,
            ..Rule::always(Operation::Sandboxes, refuse())
        },
    ];
    let runtime = faulty(&busy.node, rules);
    let mut node = Node::new(world(&runtime, &busy.clock), settings("1.36.0"));
    let mut reports = run_until(&mut node, &busy.clock, 601);
    reports.retain(|(_, name)| name.ends_with("Failed"));
    // The first failure of images causes no event, and detection's, right after it, never does.
    assert_eq!(
        reports,
        [
            (0, "ContainerGCFailed"),
            (300, "ImageGCFailed"),
            (600, "ImageGCFailed")
        ]
    );
}

#[test]
fn a_stop_before_the_start_still_runs_due_loops_once_at_most() {
    let busy = busy();
    let mut node = Node::new(world(&busy.node, &busy.clock), settings("1.36.0"));
    let mut reports = 0;
    now(node.run(std::future::ready(()), |_| reports += 1));
    assert!(reports <= 2, "one run and its event at most: {reports}");
    assert_eq!(busy.node.violations(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn nothing_protected_is_removed_with_failures_and_without_them_everything_else_is(
        seed in any::<u64>(),
        per_mille in 0_u16..400,
        release in prop::sample::select(vec!["1.35.0", "1.36.0"]),
        forced in any::<bool>(),
    ) {
        let busy = busy();
        let plan = FaultPlan {
            seed,
            faults_per_mille: per_mille,
            faults: vec![refuse(), Fault::LoseResponse, Fault::EmptyStatus, Fault::Die],
            ..FaultPlan::default()
        };
        let runtime = FaultyRuntime::new(busy.node.clone(), plan);
        let mut node = Node::new(world(&runtime, &busy.clock), settings(release));
        let mode = if forced { Mode::Forced } else { Mode::Periodic };
        for _ in 0..4 {
            let containers = now(node.collect_containers(mode));
            // The attempts are the planned actions, in the order of the stages.
            let stages = containers.performed.iter().map(|done| match done.action {
                NodeAction::Container(_) => 0,
                NodeAction::Sandbox(_) => 1,
                NodeAction::Log(_) => 2,
                NodeAction::Image(_) => 3,
            });
            prop_assert!(stages.collect::<Vec<_>>().is_sorted());
            let planned = containers.containers.actions.len() + containers.sandboxes.actions.len() + containers.logs.actions.len();
            prop_assert_eq!(containers.performed.len(), planned);
            now(node.detect_images());
            now(node.collect_images());
            busy.clock.advance(Duration::from_secs(60));
            runtime.revive();
        }
        let mut violations = busy.node.violations();
        // An empty status hides the log: the link of a removed container is removed before it, as recorded of
        // upstream.
        violations.retain(|violation| violation.harm != Harm::LiveLinkRemoved || !runtime.injected().iter().any(|(_, _, fault)| *fault == Fault::EmptyStatus));
        prop_assert_eq!(violations, vec![]);
        let known = busy.node.violations().len();
        // Without faults, from the records.
        let mut node = Node::with_records(world(&busy.node, &busy.clock), settings(release), node.records().clone());
        for _ in 0..2 {
            now(node.collect_containers(mode));
            now(node.delete_unused_images());
        }
        prop_assert_eq!(busy.node.violations().len(), known);
        drop(busy.node.take_calls());
        now(node.collect_containers(mode));
        now(node.delete_unused_images());
        prop_assert_eq!(busy.node.changes(), vec![]);
        prop_assert!(busy.orphans.iter().all(|id| busy.node.container(id).is_none()));
        prop_assert!(busy.node.image(&busy.unused).is_none());
        prop_assert!(busy.node.image(&busy.mounted).is_some() && busy.node.image(&busy.pinned).is_some());
    }
}
