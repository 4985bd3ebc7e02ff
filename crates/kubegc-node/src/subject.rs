//! The objects of a node that entries of plans are about.

use std::{fmt, sync::Arc};

use kubegc_core::{
    Kept,
    node_facts::{Container, Image, Sandbox},
};

/// The subject of an entry in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Subject {
    Container(Arc<Container>),
    Sandbox(Arc<Sandbox>),
    /// An entry of the pod log directory.
    Directory(Arc<str>),
    /// A link to a log, by its path.
    Link(Arc<str>),
    Image(Arc<Image>),
    /// The node as a whole.
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

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(container) => {
                let name = container.name.as_deref().unwrap_or("unnamed");
                write!(f, "container {} ({name} of {})", container.id, container.pod)
            }
            Self::Sandbox(sandbox) => write!(f, "sandbox {} of {}", sandbox.id, sandbox.pod),
            Self::Directory(entry) => write!(f, "directory {entry}"),
            Self::Link(path) => write!(f, "link {path}"),
            Self::Image(image) => write!(f, "image {}", image.name()),
            Self::Node => f.write_str("node"),
        }
    }
}
