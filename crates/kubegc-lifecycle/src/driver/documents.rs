//! Fixes what a driver needs of whole objects: what the mechanisms read of one, and the writes that change one.
//!
//! This crate knows no JSON: `kubegc_snapshot::JsonDocuments` implements [`Documents`].

use kubegc_core::{PatchType, Preconditions};

use crate::{
    fields::Record,
    namespace::{self, Item, Namespace},
    object::{Change, Form, Resource},
};

/// Reads whole objects, and makes the writes that change them.
pub trait Documents: Send + Sync {
    /// What the mechanisms read of one whole object.
    ///
    /// # Errors
    /// What does not hold what it should. Nothing is decided on such an object.
    fn read(&self, resource: Resource, document: &[u8]) -> Result<Record, DocumentError>;

    /// The patch that makes these changes of an object as it was read, with the expected uid and version in its metadata.
    ///
    /// [`Form::Patch`]: of that type. [`Form::Replace`]: a merge patch that always carries the version that was read. A patch that changes nothing is
    /// an empty body.
    ///
    /// # Errors
    /// A change that the object has no place for.
    fn patch(
        &self,
        form: Form,
        expect: &Preconditions,
        changes: &[Change],
        document: &[u8],
    ) -> Result<(PatchType, Vec<u8>), DocumentError>;

    /// A namespace, as far as its deletion depends on it.
    ///
    /// # Errors
    /// What does not hold what it should; and that this is not offered, which is the default: then no namespace is emptied.
    fn read_namespace(&self, _document: &[u8]) -> Result<Namespace, DocumentError> {
        Err(DocumentError::new("namespaces cannot be read"))
    }

    /// A pod, as an object in a namespace that is being emptied.
    ///
    /// # Errors
    /// As [`read_namespace`](Self::read_namespace).
    fn read_pod_item(&self, _document: &[u8]) -> Result<Item, DocumentError> {
        Err(DocumentError::new("pods of namespaces cannot be read"))
    }

    /// A whole namespace to be written back: as it was read, with what the action changes, and with the uid and the version that it expects.
    ///
    /// # Errors
    /// As [`read_namespace`](Self::read_namespace), and an action that writes no namespace.
    fn write_namespace(
        &self,
        _action: &namespace::Action,
        _document: &[u8],
    ) -> Result<Vec<u8>, DocumentError> {
        Err(DocumentError::new("namespaces cannot be written"))
    }
}

/// Why a document is of no use. The message names the field.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{message}")]
pub struct DocumentError {
    /// What is wrong, and where.
    pub message: String,
}

impl DocumentError {
    /// An error with this message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}
