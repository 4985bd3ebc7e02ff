//! The combined content of all documents for each part: nothing, one value, or an unreliable value.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::node_facts::{Container, ContainerStatus, Image, Sandbox};

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
#[derive(Clone, Debug, Default)]
pub(crate) enum Part<T> {
    #[default]
    Missing,
    Read {
        place: Place,
        value: T,
    },
    Failed {
        why: String,
    },
}

impl<T: PartialEq> Part<T> {
    /// Adds the value of one more document. Two that differ make the part unknown.
    pub(crate) fn take(&mut self, result: Result<T, String>, place: &Place, what: &str, notes: &mut Notes) {
        match (&*self, result) {
            (Self::Failed { .. }, _) => {}
            (_, Err(why)) => *self = Self::Failed { why },
            (Self::Missing, Ok(value)) => {
                *self = Self::Read {
                    place: place.clone(),
                    value,
                }
            }
            (Self::Read { place: first, value }, Ok(again)) => {
                if *value == again {
                    let detail = format!("{what}: the same as in {first}");
                    notes.at(NodeProblem::Repeated, place, &detail);
                } else {
                    let detail = format!("{what}: not the same as in {first}");
                    notes.at(NodeProblem::Contradiction, place, &detail);
                    *self = Self::Failed {
                        why: format!("{place}: {detail}"),
                    };
                }
            }
        }
    }
}

impl<T> Part<T> {
    pub(crate) fn fail(&mut self, why: &str) {
        if !self.is_failed() {
            *self = Self::Failed { why: why.to_owned() };
        }
    }

    pub(crate) fn is_failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    pub(crate) fn value(&self) -> Option<&T> {
        match self {
            Self::Read { value, .. } => Some(value),
            Self::Missing | Self::Failed { .. } => None,
        }
    }

    pub(crate) fn place(&self) -> Option<&Place> {
        match self {
            Self::Read { place, .. } => Some(place),
            Self::Missing | Self::Failed { .. } => None,
        }
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
