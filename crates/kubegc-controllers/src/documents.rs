//! Conversion between records and the whole objects that an API server serves.
//!
//! This crate parses no JSON: `kubegc_snapshot::JsonDocuments` implements [`Documents`].

use kubegc_core::{
    PatchType,
    record::{Record, Resource},
};

use crate::Write;

/// Reads whole objects, and renders writes of them.
pub trait Documents: std::fmt::Debug + Send + Sync {
    /// The record of one whole object.
    ///
    /// # Errors
    /// The document is not an object of this resource, or its metadata cannot be read.
    fn read(&self, resource: Resource, document: &[u8]) -> Result<Record, DocumentError>;

    /// The patch that makes the changes of a write in an object as it was read; `None` if they change
    /// nothing.
    ///
    /// The precondition of the write is in the metadata of the patch. [`Form::Patch`](crate::Form::Patch)
    /// gives a patch of that type, [`Form::Update`](crate::Form::Update) a merge patch that always carries
    /// uid and resourceVersion.
    ///
    /// # Errors
    /// The document is not the object of the precondition, or a change cannot be made in it.
    fn write(&self, write: &Write, document: &[u8]) -> Result<Option<(PatchType, Vec<u8>)>, DocumentError>;

    /// The whole object as it was read, with the changes and the precondition of a write, for subresources
    /// that do not support patches, such as `finalize` of namespaces.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn replace(&self, write: &Write, document: &[u8]) -> Result<Vec<u8>, DocumentError>;
}

/// An error in a document. The message names the field.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{message}")]
pub struct DocumentError {
    pub message: String,
}

impl DocumentError {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}
