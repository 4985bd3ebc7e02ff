//! Reclaims resources of a node under pressure before pods are evicted.

use kubegc_core::{Kept, Timestamp};

use super::{ContainersReport, ImagesReport, Node};
use crate::{
    container::Mode,
    eviction::{
        Decision, Function, Layout, Observations, Reason, Signal, Subject, Thresholds, reclaim_functions,
    },
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
    /// Findings about the new measurement.
    pub findings: Vec<Kept<Subject, Reason>>,
}

impl Node<'_> {
    /// Runs the functions of the signal of a [`Trigger`](crate::eviction::Trigger), one after the other
    /// ([N4.11](crate::rules#n4-11)), measures again, and decides. `measure` returns new observations, not
    /// from a cache, and their time, or an error text. It is not called if the signal has no functions.
    pub async fn reclaim<O>(
        &mut self,
        thresholds: &Thresholds,
        layout: Layout,
        signal: Signal,
        measure: impl FnOnce() -> O,
    ) -> ReclaimReport
    where
        O: Future<Output = Result<(Observations, Timestamp), String>>,
    {
        let functions = reclaim_functions(signal, layout, thresholds.semantics()).unwrap_or_default();
        let (mut ran, mut containers, mut images) = (Vec::new(), Vec::new(), Vec::new());
        for &function in functions {
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
            ran.push((function, error));
        }
        let measured = match functions {
            [] => Ok(Default::default()),
            _ => measure().await,
        };
        let (decision, findings) = thresholds.decide(layout, signal, measured);
        ReclaimReport {
            ran,
            containers,
            images,
            decision,
            findings,
        }
    }
}
