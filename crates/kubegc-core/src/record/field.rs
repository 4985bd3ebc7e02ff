//! A value that may not have been read.

/// A field of an object: its value, or the fact that it could not be read.
///
/// The default is the known zero value of `T`: upstream's decoder returns it for a field that the object
/// omits.
///
/// # Examples
/// ```
/// use kubegc_core::record::Field;
/// let replicas: Field<i32> = Field::default();
/// assert_eq!(replicas.known(), Some(&0));
/// assert_eq!(Field::<i32>::Unread.known(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::From)]
pub enum Field<T> {
    #[from]
    Known(T),
    /// The field is missing from the dump, or its value has the wrong type.
    Unread,
}

impl<T: Default> Default for Field<T> {
    fn default() -> Self {
        Self::Known(T::default())
    }
}

impl<T> Field<T> {
    /// The value; `None` if it was not read.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unread => None,
        }
    }

    pub const fn is_unread(&self) -> bool {
        matches!(self, Self::Unread)
    }

    /// Converts a known value.
    pub fn map<R>(self, convert: impl FnOnce(T) -> R) -> Field<R> {
        match self {
            Self::Known(value) => Field::Known(convert(value)),
            Self::Unread => Field::Unread,
        }
    }
}
