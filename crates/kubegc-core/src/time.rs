//! Points in time as the Kubernetes API writes them, without a clock.

use std::{fmt, time::Duration};

use crate::error::FieldError;

/// Nanoseconds since the Unix epoch. Arithmetic saturates: no date makes kubegc panic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// Builds a point in time from nanoseconds since the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Builds a point in time from whole seconds since the epoch.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    #[must_use]
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// The point in time this much later.
    #[must_use]
    pub fn saturating_add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(nanos(later)))
    }

    /// The point in time this much earlier.
    #[must_use]
    pub fn saturating_sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(earlier)))
    }

    /// The time passed since `earlier`; zero where `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The same instant without its fraction of a second: what an API object stores.
    #[must_use]
    pub const fn truncate_to_secs(self) -> Self {
        Self::from_secs(self.as_secs())
    }

    /// Reads an RFC 3339 date, as `metadata.deletionTimestamp` has it.
    ///
    /// # Errors
    /// The text is not such a date, or lies outside the years that 64-bit nanoseconds reach (1678 to 2262).
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let bad = || FieldError::invalid("", text, "not an RFC 3339 date between the years 1678 and 2262");
        let parsed: jiff::Timestamp = text.parse().map_err(|_| bad())?;
        i64::try_from(parsed.as_nanosecond()).map(Self).map_err(|_| bad())
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(date) => write!(f, "{date}"),
            Err(_) => write!(f, "{} ns", self.0),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_survive_a_round_trip_and_bad_ones_are_named() {
        let date = Timestamp::parse("2026-03-01T12:00:05Z").unwrap_or_default();
        assert_eq!(date.to_string(), "2026-03-01T12:00:05Z");
        assert_eq!(Timestamp::parse("2026-03-01T13:00:05+01:00"), Ok(date));
        for bad in ["", "yesterday", "2026-03-01", "9999-01-01T00:00:00Z"] {
            assert!(Timestamp::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let end = Timestamp::from_nanos(i64::MAX);
        assert_eq!(end.saturating_add(Duration::MAX), end);
        assert_eq!(Timestamp::EPOCH.since(end), Duration::ZERO);
        assert_eq!(Timestamp::from_nanos(-1).as_secs(), -1);
    }
}
