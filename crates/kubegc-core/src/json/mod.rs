//! Reads objects in JSON or YAML whose fields may have wrong types.
//!
//! A field that is read as [`Soft`] never makes the reading fail: a value of another type than expected is
//! [`Soft::Wrong`], and the rest of the object is still read. [`MetaFields`] are the fields of `metadata`,
//! borrowed from the text; [`MetaFields::wrong`] lists those that cannot be used, and [`MetaFields::to_meta`]
//! turns the others into [`ObjectMeta`](crate::ObjectMeta).
//!
//! # Examples
//! ```
//! use kubegc_core::json::MetaFields;
//! let text = r#"{"name": "web", "uid": "u1", "finalizers": ["orphan"], "generation": "two"}"#;
//! let fields: MetaFields<'_> = serde_json::from_str(text)?;
//! assert_eq!(
//!     fields.wrong()[0].to_string(),
//!     "metadata.generation: expected a whole number, found a string"
//! );
//! let meta = fields.to_meta(|text| text.into())?;
//! assert!(meta.has_finalizer("orphan"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod any;
mod duplicates;
mod metadata;
mod patch;
mod soft;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use self::{
    any::{Any, ReadAny, Scalar},
    duplicates::duplicate_fields,
    metadata::{MetaFields, OwnerFields, WrongType},
    patch::MetadataPatch,
    soft::{DUPLICATE, Expected, Labels, Soft},
};

/// A text, borrowed if it occurs verbatim in the input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    Null,
    /// `true` or `false`.
    Boolean,
    Number,
    String,
    List,
    Map,
}

impl JsonType {
    /// The type as a phrase, such as `a string`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::List => "a list",
            Self::Map => "a map",
        }
    }
}
