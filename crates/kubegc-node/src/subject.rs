//! The objects of a node that entries of plans are about.

use std::sync::Arc;

use kubegc_core::{
    Kept,
    node_facts::{Container, Image, Sandbox},
};

/// The subject of an entry in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Subject {
    #[display("container {} ({} of {})", _0.id, _0.name.as_deref().unwrap_or("unnamed"), _0.pod)]
    Container(Arc<Container>),
    #[display("sandbox {} of {}", _0.id, _0.pod)]
    Sandbox(Arc<Sandbox>),
    /// An entry of the pod log directory.
    #[display("directory {_0}")]
    Directory(Arc<str>),
    /// A link to a log, by its path.
    #[display("link {_0}")]
    Link(Arc<str>),
    #[display("image {}", _0.name())]
    Image(Arc<Image>),
    /// The node as a whole.
    #[display("node")]
    Node,
}

impl Subject {
    /// An entry about this subject.
    pub(crate) const fn because<Reason>(self, reason: Reason) -> Kept<Self, Reason> {
        Kept { object: self, reason }
    }
}

impl From<&Arc<Container>> for Subject {
    fn from(container: &Arc<Container>) -> Self {
        Self::Container(Arc::clone(container))
    }
}

impl From<&Arc<Sandbox>> for Subject {
    fn from(sandbox: &Arc<Sandbox>) -> Self {
        Self::Sandbox(Arc::clone(sandbox))
    }
}

impl From<&Arc<Image>> for Subject {
    fn from(image: &Arc<Image>) -> Self {
        Self::Image(Arc::clone(image))
    }
}
