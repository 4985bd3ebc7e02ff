//! The reclaim of a node under pressure before it evicts pods.

use kubegc_core::Timestamp;

use super::{ContainersReport, ImagesReport, Node};
use crate::{
    container::Mode,
    eviction::{self, Function, Observations, Verdict},
};

/// The report of a reclaim.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReclaimReport {
    /// The functions that ran, in order, each with its error.
    pub ran: Vec<(Function, Option<String>)>,
    /// Runs over containers.
    pub containers: Vec<ContainersReport>,
    /// Passes over images.
    pub images: Vec<ImagesReport>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Node<'_> {
    /// Performs the reclaim of a node under pressure. `measure` returns fresh observations and their time, or
    /// the reason why there are none.
    pub async fn reclaim<M, O>(&mut self, mut run: eviction::Run, mut measure: M) -> ReclaimReport
    where
        M: FnMut() -> O,
        O: Future<Output = Result<(Observations, Timestamp), String>>,
    {
        let (mut ran, mut containers, mut images) = (Vec::new(), Vec::new(), Vec::new());
        let mut response = None;
        // Terminates: each function runs once, and the node is measured once.
        let verdict = loop {
            response = match run.next(response) {
                eviction::Step::Run(function) => {
                    let error = match function {
                        Function::DeleteAllUnusedContainers => {
                            let done = self.collect_containers(Mode::Forced).await;
                            let error = done.error();
                            containers.push(done);
                            error
                        }
                        Function::DeleteUnusedImages => {
                            let done = self.delete_unused_images().await;
                            let error = done.error();
                            images.push(done);
                            error
                        }
                    };
                    ran.push((function, error.clone()));
                    Some(eviction::Response::Ran(error.map_or(Ok(()), Err)))
                }
                eviction::Step::Measure => Some(eviction::Response::Measured(measure().await)),
                eviction::Step::Done(verdict) => break verdict,
            };
        };
        ReclaimReport {
            ran,
            containers,
            images,
            verdict,
        }
    }
}
