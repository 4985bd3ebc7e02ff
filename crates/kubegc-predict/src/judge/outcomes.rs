//! The outcomes that missing data allows.

use std::fmt;

use serde::{Serialize, Serializer};

/// The outcomes that an object can have, at least one: those of the runs with and without the owners that are
/// missing from the dump, and those that the other missing facts allow.
///
/// # Examples
/// ```
/// use kubegc_predict::{Fate, Outcomes};
/// let outcomes = Outcomes::from(&Fate::Kept);
/// assert_eq!(outcomes.to_string(), "kept");
/// assert!(outcomes.words().eq(["kept"]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Outcomes(u8);

/// The words of fates, each with its bit.
const WORDS: [(Outcomes, &str); 4] = [
    (Outcomes::DELETED, "deleted"),
    (Outcomes::TERMINATING, "terminating"),
    (Outcomes::RELEASED, "released"),
    (Outcomes::KEPT, "kept"),
];

impl Outcomes {
    pub(crate) const DELETED: Self = Self(1);
    pub(crate) const TERMINATING: Self = Self(2);
    pub(crate) const RELEASED: Self = Self(4);
    pub(crate) const KEPT: Self = Self(8);

    /// The words of the fates: `deleted`, `terminating`, `released`, `kept`.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let words = WORDS.into_iter().filter(move |(outcome, _)| self.has(*outcome));
        words.map(|(_, word)| word)
    }

    /// These outcomes and others.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether one of the others is among them.
    pub(crate) const fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

/// `deleted, terminating, or kept`.
impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.words().collect();
        match words.split_last() {
            Some((last, [])) => f.write_str(last),
            Some((last, others)) => write!(f, "{}, or {last}", others.join(", ")),
            None => Ok(()),
        }
    }
}

impl Serialize for Outcomes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.words())
    }
}
