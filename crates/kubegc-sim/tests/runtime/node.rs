//! Helpers of the tests of the node.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use kubegc_core::Timestamp;
use kubegc_sim::{ContainerSpec, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode, runtime::RunningPod};

/// Drives a future that never has to wait.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}

pub(crate) const START: Timestamp = Timestamp::from_secs(1_000_000);
pub(crate) const WEB: &str = "shop/web:1";
pub(crate) const JOB: &str = "shop/job:1";
pub(crate) const MISSING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

pub(crate) fn clock() -> SimClock {
    SimClock::new(START)
}

/// A node of 1000 bytes with two images that share a base: `shop/web:1` of 500 bytes, `shop/job:1` of 400,
/// 600 together.
pub(crate) fn node() -> SimNode {
    let settings = NodeSettings {
        capacity_bytes: 1_000,
        ..NodeSettings::default()
    };
    node_with(settings)
}

/// The same with other settings.
pub(crate) fn node_with(settings: NodeSettings) -> SimNode {
    let node = SimNode::new(clock(), settings);
    let web = ImageSpec::new(WEB).layer("base", 300).layer("web", 200);
    let job = ImageSpec::new(JOB).layer("base", 300).layer("job", 100);
    for image in [web, job] {
        node.pull(&image).unwrap();
    }
    node
}

/// Runs a pod of one container `app`.
pub(crate) fn run(node: &SimNode, name: &str, image: &str) -> RunningPod {
    let pod = PodSpec::new("shop", name).container(ContainerSpec::new("app", image));
    node.run_pod(&pod).unwrap()
}

/// Free bytes.
pub(crate) fn free(node: &SimNode) -> u64 {
    node.file_system().available_bytes.unwrap()
}
