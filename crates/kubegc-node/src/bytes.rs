//! Numbers of bytes in decimal units.

use std::fmt;

/// A number of bytes in decimal units, short enough for a column. It may be negative.
///
/// # Examples
/// ```
/// use kubegc_node::Bytes;
/// assert_eq!(Bytes::from(999_u64).to_string(), "999 B");
/// assert_eq!(Bytes::from(12_000_000_000_u64).to_string(), "12.0 GB");
/// // Truncated, not rounded: the printed size never exceeds the actual one.
/// assert_eq!(Bytes::from(1_999_i64).to_string(), "1.9 kB");
/// assert_eq!(Bytes::from(-5_i64).to_string(), "-5 B");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes(i128);

impl From<u64> for Bytes {
    fn from(bytes: u64) -> Self {
        Self(bytes.into())
    }
}

impl From<i64> for Bytes {
    fn from(bytes: i64) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(i128, &str); 4] = [
            (1_000_000_000_000, "TB"),
            (1_000_000_000, "GB"),
            (1_000_000, "MB"),
            (1_000, "kB"),
        ];
        let Self(bytes) = *self;
        f.pad(&match UNITS.into_iter().find(|&(unit, _)| bytes >= unit) {
            Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
            None => format!("{bytes} B"),
        })
    }
}
