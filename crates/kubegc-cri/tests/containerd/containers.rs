//! Dead containers, sandboxes and logs beyond the limits are removed, the oldest first; nothing running is.

use std::{
    fs::{self, DirEntry},
    io,
    path::Path,
    sync::Arc,
};

use kubegc_core::node_facts::PodState;
use kubegc_cri::{HostLogs, TokioClock};
use kubegc_node::{Environment, GoDuration, Node, container::Mode, driver::WithRunning};

use crate::{
    collector::{Known, client, reported, settings},
    daemon::PAUSE,
    host::{Host, LOG_LINKS, POD_LOGS, RUNS, pod, sorted},
};

/// Names of the entries of a directory, in order.
fn entries(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory of our own");
    let name = |entry: io::Result<DirEntry>| {
        entry
            .expect("readable")
            .file_name()
            .to_string_lossy()
            .into_owned()
    };
    sorted(entries.map(name))
}

/// The links to logs, without the ids that they end with.
fn links() -> Vec<String> {
    let without_id = |name: &String| name.rsplit_once('-').map_or(&**name, |(name, _)| name).to_owned();
    entries(LOG_LINKS).iter().map(without_id).collect()
}

/// Limits on dead containers.
pub(crate) async fn dead_containers_beyond_the_limits_are_removed_oldest_first(host: &Host) {
    let (web, gone, odd) = (pod("web"), pod("gone"), pod("odd"));
    let on = [
        host.sandbox(&web, 0).await,
        host.sandbox(&gone, 0).await,
        host.sandbox(&odd, 0).await,
    ];
    let [in_web, in_gone, in_odd] = &on;
    host.ended(in_web, "app", 0, PAUSE).await;
    host.ended(in_odd, "job", 0, PAUSE).await;
    host.ended(in_web, "side", 0, PAUSE).await;
    host.ended(in_web, "app", 1, PAUSE).await;
    host.ended(in_gone, "job", 0, PAUSE).await;
    host.ended(in_gone, "job", 1, PAUSE).await;
    host.ended(in_web, "app", 2, PAUSE).await;
    host.ended(in_web, "app", 3, PAUSE).await;
    host.create(in_web, "side", 1, PAUSE, &RUNS).await;
    host.run(in_web, "app", 4, PAUSE, &RUNS).await;
    host.run(in_odd, "server", 0, PAUSE, &RUNS).await;
    host.stop(in_gone).await;
    let rotated = format!("{POD_LOGS}/shop_web_uid-of-web/app/0.log.20260101-000000");
    fs::write(&rotated, "old").expect("a directory of our own");

    let runtime = client().await;
    // No source knows the pod `odd`, yet it runs.
    let pods = WithRunning::new(Known::all([(&web, PodState::ACTIVE)]), Arc::new(runtime.clone()));
    let (logs, clock) = (HostLogs::default(), TokioClock::new());
    let world = Environment {
        runtime: &runtime,
        logs: Some(&logs),
        pods: &pods,
        clock: &clock,
    };
    let two = settings(|spec| spec.maximum_dead_containers_per_container = 2);
    let node = Node::new(world, two);
    let first = node.collect_containers(Mode::Periodic).await;
    assert_eq!(first.errors, [""; 0]);
    assert_eq!(
        reported(&first.performed),
        [
            "container gone/job#0",
            "container gone/job#1",
            "container web/app#0",
            "container web/app#1",
            "sandbox gone#0",
            "logs shop_gone_uid-of-gone",
        ]
    );
    assert_eq!(
        host.left().await,
        [
            "odd/job#0 exited",
            "odd/server#0 running",
            "web/app#2 exited",
            "web/app#3 exited",
            "web/app#4 running",
            "web/side#0 exited",
            "web/side#1 created",
        ]
    );
    assert_eq!(host.sandboxes_left().await, ["odd#0 ready", "web#0 ready"]);
    assert_eq!(entries(POD_LOGS), ["shop_odd_uid-of-odd", "shop_web_uid-of-web"]);
    assert_eq!(
        entries(&format!("{POD_LOGS}/shop_web_uid-of-web/app")),
        ["2.log", "3.log", "4.log"],
        "with the rotated copies of the removed logs"
    );
    assert_eq!(
        links(),
        [
            "odd_shop_job",
            "odd_shop_server",
            "web_shop_app",
            "web_shop_app",
            "web_shop_app",
            "web_shop_side",
        ]
    );

    let again = node.collect_containers(Mode::Periodic).await;
    assert_eq!(
        (reported(&again.performed), again.errors.len()),
        (vec![], 0),
        "nothing is left to do"
    );

    // The limit is zero: every dead container is removed.
    let none = settings(|spec| {
        spec.maximum_dead_containers_per_container = 0;
        spec.minimum_container_ttl = GoDuration::ZERO;
    });
    let all = Node::new(world, none).collect_containers(Mode::Periodic).await;
    assert_eq!(
        sorted(reported(&all.performed)),
        [
            "container odd/job#0",
            "container web/app#2",
            "container web/app#3",
            "container web/side#0",
            "container web/side#1",
        ]
    );
    assert_eq!(
        host.left().await,
        ["odd/server#0 running", "web/app#4 running"],
        "running containers survive all runs"
    );
    assert_eq!(links(), ["odd_shop_server", "web_shop_app"]);
    assert!(links_lead_somewhere());
}

fn links_lead_somewhere() -> bool {
    entries(LOG_LINKS)
        .iter()
        .all(|name| Path::new(LOG_LINKS).join(name).exists())
}

/// Sandboxes, by the known state of their pods.
pub(crate) async fn sandboxes_are_removed_after_their_pods(host: &Host) {
    let (again, done, gone, runs) = (pod("again"), pod("done"), pod("gone"), pod("runs"));
    for attempt in 0..3 {
        let sandbox = host.sandbox(&again, attempt).await;
        if attempt == 1 {
            host.ended(&sandbox, "app", 0, PAUSE).await;
        }
        host.stop(&sandbox).await;
    }
    for pod in [&done, &gone] {
        let sandbox = host.sandbox(pod, 0).await;
        host.ended(&sandbox, "job", 0, PAUSE).await;
        host.stop(&sandbox).await;
    }
    let sandbox = host.sandbox(&runs, 0).await;
    host.run(&sandbox, "app", 0, PAUSE, &RUNS).await;

    let runtime = client().await;
    let (logs, clock) = (HostLogs::default(), TokioClock::new());
    let pods = Known::all([
        (&again, PodState::ACTIVE),
        (&done, PodState::COMPLETED),
        (&runs, PodState::ACTIVE),
    ]);
    let world = Environment {
        runtime: &runtime,
        logs: Some(&logs),
        pods: &pods,
        clock: &clock,
    };
    let node = Node::new(world, settings(|_| {}));
    let first = node.collect_containers(Mode::Periodic).await;
    assert_eq!(first.errors, [""; 0]);
    assert_eq!(
        reported(&first.performed),
        [
            "container gone/job#0",
            "sandbox again#0",
            "sandbox gone#0",
            "logs shop_gone_uid-of-gone"
        ]
    );
    assert_eq!(
        host.left().await,
        ["again/app#0 exited", "done/job#0 exited", "runs/app#0 running"]
    );
    assert_eq!(
        host.sandboxes_left().await,
        [
            "again#1 not ready",
            "again#2 not ready",
            "done#0 not ready",
            "runs#0 ready"
        ],
        "the newest of a living pod stays, and one with a dead container in it"
    );

    // Under disk pressure, completed containers are removed too; their logs stay.
    let forced = node.collect_containers(Mode::Forced).await;
    assert_eq!(
        reported(&forced.performed),
        ["container done/job#0", "sandbox done#0"]
    );
    let again = node.collect_containers(Mode::Forced).await;
    assert_eq!(reported(&again.performed), [""; 0]);

    // No pods are known, so nothing is removed.
    let pods = Known(kubegc_core::node_facts::Pods::default());
    host.stop(&sandbox).await;
    let node = Node::new(Environment { pods: &pods, ..world }, settings(|_| {}));
    let unknown = node.collect_containers(Mode::Forced).await;
    assert_eq!(reported(&unknown.performed), [""; 0]);
}
