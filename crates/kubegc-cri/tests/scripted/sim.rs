//! A simulated node as a backend, and its collectors.

use kubegc_core::{Runtime, RuntimeError};
use kubegc_node::{
    Environment, GoDuration, Node, Policy, PolicySpec,
    container::Mode,
    driver::{ContainersReport, ImagesReport, Settings},
    image::Task,
};
use kubegc_sim::{SimClock, SimNode};
use tonic::{Status, async_trait};

use crate::{
    convert,
    server::Backend,
    tables::{Tables, version},
};

/// The node, with the responses of a runtime: it performs, records and checks the calls of a client.
pub(crate) struct Simulated(pub(crate) SimNode);

fn failed(error: RuntimeError) -> Status {
    match error {
        RuntimeError::NotFound => Status::not_found("not found"),
        other => Status::unknown(other.to_string()),
    }
}

#[async_trait]
impl Backend for Simulated {
    async fn read(&self, method: &str, object: &str) -> Result<Tables, Status> {
        let (node, mut tables) = (&self.0, Tables::default());
        tables.version = version("simulated", "1", "v1");
        match method {
            "ListPodSandbox" => {
                let all = node.sandboxes().await.map_err(failed)?;
                tables.sandboxes = all.iter().map(|sandbox| convert::sandbox(sandbox)).collect();
            }
            "ListContainers" => {
                let all = node.containers().await.map_err(failed)?;
                tables.containers = all
                    .iter()
                    .map(|container| convert::container(container))
                    .collect();
            }
            "ListImages" => {
                let all = node.images().await.map_err(failed)?;
                tables.images = all.iter().map(|image| convert::image(image)).collect();
            }
            "ContainerStatus" => {
                let status = node.container_status(object).await.map_err(failed)?;
                let status = status.map(|status| convert::status(object, &status));
                tables.statuses.insert(object.to_owned(), status);
            }
            // No run asks for an image or measures a file system.
            _ => {}
        }
        Ok(tables)
    }

    async fn write(&self, method: &str, id: &str, seconds: u32, handler: &str) -> Result<(), Status> {
        let done = match method {
            "StopContainer" => self.0.stop_container(id, seconds).await,
            "RemoveContainer" => self.0.remove_container(id).await,
            "StopPodSandbox" => self.0.stop_sandbox(id).await,
            "RemovePodSandbox" => self.0.remove_sandbox(id).await,
            _ => self.0.remove_image(id, handler).await,
        };
        done.map_err(failed)
    }
}

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

/// Collects once: containers, sandboxes and logs, then so many images that removing both unused ones is
/// enough and removing one of them is not. Logs and pods are the simulated node's own.
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
