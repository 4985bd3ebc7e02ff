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

mod duplicates;
mod metadata;
mod patch;
mod soft;

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

pub use self::{
    duplicates::duplicate_fields,
    metadata::{MetaFields, OwnerFields, WrongType},
    patch::MetadataPatch,
    soft::{DUPLICATE, Expected, Labels, Soft},
};

/// A text, borrowed if it occurs verbatim in the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The type of a JSON value.
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
