//! Readers of a node's, its container runtime's and its kubelet's documents: facts and settings for the
//! planners of [`kubegc_node`].
//!
//! | document | becomes |
//! |---|---|
//! | `crictl ps -a -o json` | containers |
//! | `crictl pods -o json` | sandboxes |
//! | `crictl images -o json` | images |
//! | `crictl imagefsinfo` | what images and writable layers use |
//! | `crictl inspect -o json` | a container's status, and the images that it mounts |
//! | `/stats/summary` | file systems: what there is and what is free |
//! | KubeletConfiguration, `/configz`, flags | the settings, unchecked |
//! | `kubectl get pods -o json` or `yaml` | which pods there should be |
//! | image records | when each image was first seen and last used |
//!
//! [`NodeReader`] reads all of them, and documents what is strict and what stays unknown. With a live
//! runtime, [`PodsFile`] and [`PodManifests`] provide the desired pods.
//!
//! # Upstream
//! CRI v1 as `crictl` prints it: protojson with 64-bit numbers as texts, enumerations by name, messages that
//! are unset omitted (since 2024-07) or null (before). Unknown fields are skipped; absent ones are unset.

mod config;
mod crictl;
mod document;
mod fields;
mod finding;
mod flags;
mod manifests;
mod parts;
mod pods;
mod pods_file;
mod reader;
mod records;
mod settle;
mod stats;

pub use crictl::{FileSystemUsage, RuntimeUsage};
pub use document::NodeDocument;
pub use finding::{NodeFinding, NodeProblem};
pub use manifests::PodManifests;
pub use pods_file::{PodsFile, read_all_pods};
pub use reader::NodeReader;
pub use records::write_records;
pub use settle::NodeSnapshot;
pub use stats::NodeStats;
