//! The collectors of a simulated node.

use kubegc_core::Runtime;
use kubegc_node::{
    Environment, GoDuration, Node, Policy, PolicySpec,
    container::Mode,
    driver::{ContainersReport, ImagesReport, Settings},
    image::Task,
};
use kubegc_sim::{SimClock, SimNode};

/// Images of any age can be removed.
fn settings(release: &str) -> Settings {
    let spec = PolicySpec {
        image_minimum_gc_age: GoDuration::ZERO,
        ..PolicySpec::default()
    };
    let release = release.parse().expect("a version that is known");
    Settings::from(&Policy::new(&spec, release).expect("a valid policy"))
}

/// The reports of one run over everything.
#[derive(Debug, PartialEq)]
pub(crate) struct Reports {
    pub(crate) containers: ContainersReport,
    pub(crate) images: ImagesReport,
}

/// Collects once: containers, sandboxes and logs, then so many images that removing both unused ones is enough
/// and removing one of them is not. Logs and pods are the simulated node's own.
pub(crate) async fn collect(
    runtime: &dyn Runtime,
    sim: &SimNode,
    clock: &SimClock,
    release: &str,
) -> Reports {
    let world = Environment {
        runtime,
        logs: Some(sim),
        pods: sim,
        clock,
    };
    let mut node = Node::new(world, settings(release));
    Reports {
        containers: node.collect_containers(Mode::Periodic).await,
        images: node.images(Task::Free { bytes: 1_500 }).await,
    }
}
