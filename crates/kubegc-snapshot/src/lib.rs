//! Readers that turn cluster dumps into facts: objects' metadata, the kinds of the cluster, what is complete,
//! what is odd.
//!
//! | read | as |
//! |---|---|
//! | `kubectl get ... -o json` or `yaml` | `v1` Lists, typed lists, single objects, arrays; many documents in one stream |
//! | folders and patterns of such files | every `.json`, `.yaml`, `.yml` in the order of their paths |
//! | must-gather | `cluster-scoped-resources` and `namespaces` of every root |
//! | `kubectl cluster-info dump --output-directory` | as a folder |
//! | `kubectl api-resources`, discovery JSON | the scope of kinds, by [`Reader::api_resources`] |
//! | `crictl` JSON: `ps -a`, `pods`, `images`, `imagefsinfo`, `inspect` | facts of one node, by [`NodeReader`] |
//! | `/stats/summary`, KubeletConfiguration, `/configz`, kubelet flags | a node's disks and settings, by [`NodeReader`] |
//!
//! Of each object the metadata is kept and, where controllers read its kind, the fields that they read
//! ([`SnapshotObject::record`]). [`JsonDocuments`] reads single objects in the same way, and renders the
//! patches that change them.
//!
//! Archives, Velero backups, Helm charts, etcd data and printed tables are refused, with what to do instead.
//!
//! # Guarantees
//! - **Unknown is not absent.** A kind is complete only where the caller says so, and not even then where something of it could
//!   not be read. [`Completeness`] says why nothing is inferred.
//! - **Nothing is dropped silently.** What cannot be read is an error or, object by object, a [`Finding`].
//! - **Bounded memory.** JSON of any size is read an object at a time ([`OBJECT_BYTES_MAX`]); YAML too where a list is written as
//!   `kubectl` writes it. What stays is in proportion to the metadata kept.
//! - **Order does not matter.** Files and documents in another order give the same objects and the same completeness.
//!
//! # Assumptions
//! A YAML text that is cut off exactly between two documents or after a complete mapping of a single object
//! is still YAML, and nothing shows the cut. Lists are safe: `kubectl` writes their kind last, and a list
//! without kind is refused.

mod body;
mod completeness;
mod declaration;
mod details;
mod discovery;
mod document;
mod documents;
mod encoding;
mod error;
mod finding;
mod ingest;
mod item;
mod json;
mod kinds;
mod layout;
mod live;
mod loose;
mod mentions;
mod metadata;
pub mod node;
mod reader;
mod settle;
mod snapshot;
mod sniff;
mod soft;
mod store;
mod template;
mod texts;
mod window;
mod x509;
mod yaml;

pub use completeness::{Completeness, Coverage, GroupKind, Proof, Why};
pub use details::{ApiServiceDetails, CrdDetails, CrdVersion, Details};
pub use documents::JsonDocuments;
pub use error::{Cause, Place, SnapshotError};
pub use finding::{FINDINGS_LISTED_MAX, Finding, ObjectName, Problem};
pub use live::Live;
pub use node::{
    FileSystemUsage, NodeDocument, NodeFinding, NodeProblem, NodeReader, NodeSnapshot, NodeStats,
    PodManifests, PodsFile, PodsFrom, RuntimeUsage, read_all_pods, write_records,
};
pub use reader::{OBJECT_BYTES_MAX, Reader};
pub use snapshot::{ObjectView, Snapshot, SnapshotObject};
