//! Irregularities in the fields of an object.

/// Why a field of an object is not as the API server stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// Kind or name are missing.
    Unreadable,
    /// The object was stored and has no uid.
    NoUid,
    /// The field has the wrong type or form.
    BadField,
    /// A field that the API server always fills is missing.
    MissingField,
    /// An owner reference lacks a part that the API server demands.
    IncompleteOwner,
    /// A field is missing, and the value of a new object was assumed.
    Assumed,
}
