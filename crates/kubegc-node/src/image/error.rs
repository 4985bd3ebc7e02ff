//! Errors of an image run, with upstream's texts for each version.

use std::{fmt, sync::Arc};

use kubegc_core::{KubernetesVersion, node_facts::Container};

use super::usage::Usage;
use crate::{GoDuration, Unlisted, semantics::behavior};

/// The error of an image run. The texts are upstream's where upstream reports the error.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// The images are unknown.
    #[error("{0}")]
    ListImages(Unlisted),
    /// The containers are unknown, and therefore the images in use.
    #[error("{0}")]
    ListPods(Unlisted),
    /// The images that are mounted as volumes are unknown.
    #[error("get container status: {0}")]
    ImageVolumes(Unlisted),
    /// A container has neither an image reference nor an image id, so any image may be in use. Upstream
    /// ignores it ([N3.7](crate::rules#n3-7)).
    #[error("container {} has neither an image reference nor an image id", .0.id)]
    UseUnknown(Arc<Container>),
    /// The capacity and the available bytes of the file system are unknown.
    #[error("{0}")]
    FileSystem(Unlisted),
    /// The capacity of the file system is zero or unknown.
    #[error("invalid capacity 0 on image filesystem")]
    InvalidCapacity,
    /// An image that was unused for too long could not be removed.
    #[error("wanted to free images older than {age_max}, encountered errors in image deletion: {errors}")]
    Age { age_max: GoDuration, errors: Box<str> },
    /// An image could not be removed to free space, even if removing others freed enough
    /// ([N3.43](crate::rules#n3-43)).
    #[error(
        "wanted to free {wanted_bytes} bytes, but freed {freed_bytes} bytes space with errors in image deletion: {errors}"
    )]
    Space {
        /// The bytes to free.
        wanted_bytes: i64,
        freed_bytes: i64,
        errors: Box<str>,
    },
    /// Less was freed than required ([N3.35](crate::rules#n3-35)), in the text of the version.
    #[error("{0}")]
    Insufficient(Box<str>),
}

impl Error {
    /// Less was freed than required.
    pub(super) fn insufficient(
        version: KubernetesVersion,
        usage: Option<Usage>,
        wanted: i64,
        freed: i64,
    ) -> Self {
        let text = match usage {
            Some(Usage {
                percent,
                capacity_bytes,
                ..
            }) if version.has(behavior::REPORTS_DISK_USAGE) => format!(
                "Insufficient free disk space on the node's image filesystem ({percent}% of {} used). Failed to free sufficient space by \
                 deleting unused images (freed {freed} bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or \
                 other data.",
                Binary(capacity_bytes)
            ),
            _ if version.has(behavior::REPORTS_ATTEMPTED_BYTES) => format!(
                "Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only found {freed} bytes \
                 eligible to free."
            ),
            _ => format!(
                "failed to garbage collect required amount of images. Wanted to free {wanted} bytes, but freed {freed} bytes"
            ),
        };
        Self::Insufficient(text.into())
    }
}

/// A number of bytes in binary units, in upstream's format ([N3.36](crate::rules#n3-36)).
struct Binary(i64);

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(
            clippy::cast_precision_loss,
            reason = "upstream computes in floating point too"
        )]
        let bytes = self.0 as f64;
        let unit = 1024.0_f64;
        if bytes < unit {
            return write!(f, "{} B", self.0);
        }
        let (power, name) = [(1, "KiB"), (2, "MiB"), (3, "GiB")]
            .into_iter()
            .find(|&(power, _)| bytes < unit.powi(power + 1))
            .unwrap_or((4, "TiB"));
        write!(f, "{:.1} {name}", bytes / unit.powi(power))
    }
}

serialize_text!(Error);
