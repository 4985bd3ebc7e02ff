//! The combined content of all documents for each part: nothing, one value, or an unreliable value.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    RuntimeError,
    node_facts::{Container, ContainerStatus, Image, Sandbox},
};
use kubegc_node::{Listing, Unlisted};

use super::{
    NodeDocument, NodeStats, RuntimeUsage,
    config::Config,
    finding::{NodeProblem, Notes},
    flags::Flags,
    pods::PodsSeen,
    records::RecordsRead,
};
use crate::Place;

/// The value of one part from all documents so far.
#[derive(Clone, Debug)]
pub(crate) struct Part<T> {
    /// The place of the value, if there is one.
    pub(crate) place: Option<Place>,
    pub(crate) value: Listing<T>,
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self {
            place: None,
            value: Err(Unlisted::NotRequested),
        }
    }
}

/// The reason why a part of some document is unknown.
pub(crate) fn failed(why: impl Into<String>) -> Unlisted {
    Unlisted::Failed(RuntimeError::unknown(why))
}

impl<T: PartialEq> Part<T> {
    /// Adds the value of one more document. Two that differ make the part unknown.
    pub(crate) fn take(&mut self, result: Result<T, String>, place: &Place, what: &str, notes: &mut Notes) {
        match (&self.value, result) {
            (Err(Unlisted::Failed(_)), _) => {}
            (_, Err(why)) => self.fail(&why),
            (Err(Unlisted::NotRequested), Ok(value)) => self.set(place.clone(), value),
            (Ok(value), Ok(again)) => {
                let is_same = *value == again;
                let (problem, same) = match is_same {
                    true => (NodeProblem::Repeated, "the same as"),
                    false => (NodeProblem::Contradiction, "not the same as"),
                };
                let first = self.place.as_ref().map_or_else(String::new, Place::to_string);
                let detail = format!("{what}: {same} in {first}");
                notes.at(problem, place, &detail);
                if !is_same {
                    self.fail(&format!("{place}: {detail}"));
                }
            }
        }
    }
}

impl<T> Part<T> {
    pub(crate) fn set(&mut self, place: Place, value: T) {
        (self.place, self.value) = (Some(place), Ok(value));
    }

    pub(crate) fn fail(&mut self, why: &str) {
        if !self.is_failed() {
            self.value = Err(failed(why));
        }
    }

    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.value, Err(Unlisted::Failed(_)))
    }

    pub(crate) fn value(&self) -> Option<&T> {
        self.value.as_ref().ok()
    }
}

/// The content of all documents and flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) containers: Part<Vec<Arc<Container>>>,
    pub(crate) sandboxes: Part<Vec<Arc<Sandbox>>>,
    pub(crate) images: Part<Vec<Arc<Image>>>,
    pub(crate) usage: Part<RuntimeUsage>,
    pub(crate) stats: Part<NodeStats>,
    pub(crate) config: Part<Config>,
    pub(crate) configz: Part<Config>,
    pub(crate) records: Part<RecordsRead>,
    pub(crate) flags: Part<Flags>,
    pub(crate) pods: PodsSeen,
    pub(crate) statuses: BTreeMap<Arc<str>, ContainerStatus>,
    /// The reason why the statuses do not cover all containers, if known.
    pub(crate) statuses_failed: Option<String>,
}

impl Parts {
    /// Makes unknown all parts that a document of this kind, or of any, may contain.
    pub(crate) fn fail(&mut self, kind: Option<NodeDocument>, why: &str) {
        use NodeDocument as D;
        for one in kind.map_or_else(|| D::ALL.to_vec(), |kind| vec![kind]) {
            match one {
                D::Containers => self.containers.fail(why),
                D::Sandboxes => self.sandboxes.fail(why),
                D::Images => self.images.fail(why),
                D::ImageFileSystem => self.usage.fail(why),
                D::ContainerStatus => self.statuses_failed = Some(why.to_owned()),
                D::StatsSummary => self.stats.fail(why),
                D::KubeletConfiguration => self.config.fail(why),
                D::Configz => self.configz.fail(why),
                D::Pods => self.pods.incomplete = Some(why.to_owned()),
                D::Records => self.records.fail(why),
            }
        }
    }
}
