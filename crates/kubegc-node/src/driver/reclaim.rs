//! Reclaims resources of a node under pressure before pods are evicted.

use kubegc_core::Timestamp;

use super::{ContainersReport, ImagesReport, Node};
use crate::{
    container::Mode,
    eviction::{self, Decision, Function, Observations},
};

#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReclaimReport {
    /// The functions that ran, in order, each with its error.
    pub ran: Vec<(Function, Option<String>)>,
    pub containers: Vec<ContainersReport>,
    /// The reports of image runs.
    pub images: Vec<ImagesReport>,
    /// Whether a pod is evicted.
    pub decision: Decision,
}

impl Node<'_> {
    /// Performs a reclaim. `measure` returns new observations and their time, or an error text.
    pub async fn reclaim<M, O>(&mut self, mut run: eviction::Run, mut measure: M) -> ReclaimReport
    where
        M: FnMut() -> O,
        O: Future<Output = Result<(Observations, Timestamp), String>>,
    {
        let (mut ran, mut containers, mut images) = (Vec::new(), Vec::new(), Vec::new());
        let mut response = None;
        // Terminates: each function runs once, and the signals are measured once.
        let decision = loop {
            response = match run.next(response) {
                eviction::Step::Run(function) => {
                    let error = match function {
                        Function::DeleteAllUnusedContainers => {
                            let report = self.collect_containers(Mode::Forced).await;
                            let error = report.error();
                            containers.push(report);
                            error
                        }
                        Function::DeleteUnusedImages => {
                            let report = self.delete_unused_images().await;
                            let error = report.error();
                            images.push(report);
                            error
                        }
                    };
                    ran.push((function, error.clone()));
                    Some(eviction::Response::Ran(error.map_or(Ok(()), Err)))
                }
                eviction::Step::Measure => Some(eviction::Response::Measured(measure().await)),
                eviction::Step::Done(decision) => break decision,
            };
        };
        ReclaimReport {
            ran,
            containers,
            images,
            decision,
        }
    }
}
