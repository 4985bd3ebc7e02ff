//! Readers that convert cluster dumps to facts: objects' metadata, the kinds of the cluster, completeness,
//! and findings.
//!
//! | read | as |
//! |---|---|
//! | `kubectl get ... -o json` or `yaml` | `v1` Lists, typed lists, single objects, arrays; many documents in one stream, JSON lines |
//! | directories of such files | every `.json`, `.jsonl`, `.ndjson`, `.yaml`, `.yml` in the order of their paths; other files are counted |
//! | `.gz`, `.xz`, `.zst`, `.tar`, `.tar.gz`, `.tgz`, `.zip`, by their first bytes | what they hold, as a directory; within limits, nothing is written to disk |
//! | UTF-8 and UTF-16, with or without a byte order mark | text |
//! | streams such as standard input | any of these, by [`Reader::read`] |
//! | must-gather, Velero backups | as directories |
//! | `kubectl cluster-info dump` | the directory that it writes, or its standard output, logs skipped; up to kubectl 1.13 only metadata |
//! | support bundles of troubleshoot.sh | `cluster-resources`; its paths give kinds where old ones have none, its `resources.json` their scope |
//! | Insights archives of OpenShift | `config` and `conditional`; their paths give kinds where objects have none |
//! | `kubectl version -o json` or `yaml`, `/version`, nodes | [`Snapshot::detected_version`] |
//! | `kubectl api-resources`, discovery JSON | the scope of kinds, by [`Reader::api_resources`] |
//! | `crictl` JSON: `ps -a`, `pods`, `images`, `imagefsinfo`, `inspect` | facts of one node, by [`NodeReader`] |
//! | `/stats/summary`, KubeletConfiguration, `/configz`, kubelet flags | a node's disks and settings, by [`NodeReader`] |
//!
//! Of each object the metadata is kept and, where controllers read its kind, the fields that they read
//! ([`ObjectView::record`]). [`JsonDocuments`] reads single objects in the same way, and renders the
//! patches that change them.
//!
//! Velero backups are the cluster as it was at the time of the backup, with its uids. Kinds of objects that
//! nothing defines are inferred ([`Problem::InferredKind`]), and so are those of objects without a kind
//! ([`Problem::AssumedKind`]). Errors that kubectl printed among objects make
//! every kind incomplete ([`Problem::KubectlError`]). Values that a redactor hid are kept as they are, but as
//! uids they count as missing.
//!
//! Helm charts and their templates, etcd data and printed tables are refused, with what to do instead. The
//! output of `helm template` is manifests.
//!
//! # Guarantees
//! - **Unknown is not absent.** A kind is complete only if the caller declares it or if its layout is
//!   documented to list it completely ([`Problem::InferredComplete`]), and not even then if a part of it
//!   could not be read.
//! - **Nothing is dropped silently.** What cannot be read is an error or, object by object, a [`Finding`].
//! - **Bounded memory.** JSON of any size is read an object at a time ([`OBJECT_BYTES_MAX`]); YAML too where
//!   a list is written as `kubectl` writes it. What stays is in proportion to the metadata kept.
//! - **Order does not matter.** Files and documents in another order give the same objects and the same
//!   completeness. Reading [on several threads](Reader::on_threads) changes nothing.
//!
//! # Assumptions
//! A YAML text that is cut off exactly between two documents or entries of a bare list, or after a complete
//! mapping of a single object, is still YAML, and nothing shows the cut. Lists are safe: `kubectl` writes
//! their kind last, and a list without kind is refused.

mod block;
mod completeness;
mod declaration;
mod discovery;
mod document;
mod error;
mod finding;
mod ingest;
mod internal;
mod json;
mod kindless;
mod kinds;
mod layout;
mod listings;
mod live;
mod manifest;
pub mod node;
mod notices;
mod progress;
mod reader;
mod settle;
mod snapshot;
mod sniff;
mod threads;
mod unpack;
mod utf16;
mod version;
mod window;
mod yaml;
mod zstd;

pub use completeness::{Completeness, Coverage, GroupKind, Proof, Why};
pub use error::{Cause, Place, SnapshotError};
pub use finding::{FINDINGS_LISTED_MAX, Finding, Problem};
pub use kubegc_documents::{
    ApiServiceDetails, CrdConverter, CrdDetails, CrdVersion, Details, EventDetails, JsonDocuments,
    ObjectName, QuotaDetails,
};
pub use live::Live;
pub use node::{
    FileSystemUsage, NodeDocument, NodeFinding, NodeProblem, NodeReader, NodeSnapshot, NodeStats,
    PodManifests, PodsFile, RuntimeUsage, read_all_pods, write_records,
};
pub use reader::{OBJECT_BYTES_MAX, Reader, UNPACKED_BYTES_MAX};
pub use snapshot::{ObjectView, Snapshot};
pub use version::{DetectedVersion, VersionSource};

use kubegc_documents::{body, details, item, metadata, store, texts, tree};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
