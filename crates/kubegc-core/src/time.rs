//! Timestamps of the Kubernetes API, without a clock.

use std::time::Duration;

use jiff::{civil, tz::Offset};

use crate::error::FieldError;

/// Nanoseconds since the Unix epoch. Arithmetic saturates, so that no date causes a panic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{}", self.instant())]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// Builds a timestamp from nanoseconds since the epoch.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Builds a timestamp from whole seconds since the epoch.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// The timestamp plus a duration.
    #[must_use]
    pub fn saturating_add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(nanos(later)))
    }

    /// The timestamp minus a duration.
    #[must_use]
    pub fn saturating_sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(earlier)))
    }

    /// The timestamp plus a duration; `None` if it is out of range.
    ///
    /// For deadlines: a saturated deadline would expire at the end of the range, but it must never expire.
    #[must_use]
    pub fn checked_add(self, later: Duration) -> Option<Self> {
        let later = i64::try_from(later.as_nanos()).ok()?;
        self.0.checked_add(later).map(Self)
    }

    /// The time passed since `earlier`; zero if `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The same instant without its fraction of a second, as an API object stores it.
    #[must_use]
    pub const fn truncate_to_secs(self) -> Self {
        Self::from_secs(self.as_secs())
    }

    pub fn utc_date(self) -> Date {
        Date(Offset::UTC.to_datetime(self.instant()).date())
    }

    fn instant(self) -> jiff::Timestamp {
        jiff::Timestamp::from_nanosecond(self.0.into())
            .expect("64-bit nanoseconds are within the years of jiff")
    }

    /// The start of a day in UTC; `None` if it is outside the years of 64-bit nanoseconds.
    pub fn start_of(date: Date) -> Option<Self> {
        let start = Offset::UTC
            .to_timestamp(date.0.to_datetime(civil::Time::midnight()))
            .ok()?;
        i64::try_from(start.as_nanosecond()).ok().map(Self)
    }

    /// Reads an RFC 3339 date, as in `metadata.deletionTimestamp`.
    ///
    /// # Errors
    /// The text is not such a date, or outside the years of 64-bit nanoseconds (1678 to 2262).
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let invalid =
            || FieldError::invalid("", text, "not an RFC 3339 date between the years 1678 and 2262");
        let parsed: jiff::Timestamp = text.parse().map_err(|_| invalid())?;
        i64::try_from(parsed.as_nanosecond())
            .map(Self)
            .map_err(|_| invalid())
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A day, printed as in labels: `2026-03-01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub struct Date(civil::Date);

impl Date {
    /// Reads a day of the years 0 to 9999 in the form of labels, `2026-03-01`; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        // jiff reads more forms, such as `20260301` and dates with a time.
        let date: civil::Date = text.parse().ok()?;
        (text.len() == 10 && date.to_string() == text).then_some(Self(date))
    }

    /// Days from the first of January 1970 to this day.
    pub fn days_since_epoch(self) -> i64 {
        self.0
            .duration_since(civil::Date::constant(1970, 1, 1))
            .as_hours()
            / 24
    }

    /// The next day; `None` after the year 9999.
    #[must_use]
    pub fn tomorrow(self) -> Option<Self> {
        self.0.tomorrow().ok().map(Self)
    }

    /// The English name of its day of the week.
    pub fn weekday(self) -> String {
        self.0.strftime("%A").to_string()
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
    fn timestamps_round_trip_and_invalid_ones_are_refused() {
        let date = Timestamp::parse("2026-03-01T12:00:05Z").unwrap_or_default();
        assert_eq!(date.to_string(), "2026-03-01T12:00:05Z");
        assert_eq!(Timestamp::parse("2026-03-01T13:00:05+01:00"), Ok(date));
        for invalid in ["", "yesterday", "2026-03-01", "9999-01-01T00:00:00Z"] {
            assert!(Timestamp::parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn days_are_counted_from_the_epoch() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-03-01", 11_017),
            ("9999-12-31", 2_932_896),
        ] {
            assert_eq!(
                Date::parse(text).map(Date::days_since_epoch),
                Some(days),
                "{text}"
            );
        }
    }

    #[test]
    fn dates_are_read_only_in_the_form_of_labels() {
        for text in ["0000-01-01", "1970-01-01", "2028-02-29", "9999-12-31"] {
            let shown = Date::parse(text).map(|date| date.to_string());
            assert_eq!(shown.as_deref(), Some(text));
        }
        let no_days = "2026-02-29 1900-02-29 2026-13-01 2026-00-10 2026-04-31 2026-04-00";
        let forms = "2026-4-1 2026/04/01 20260401 +026-04-01 2026-04-010 2026-04-01T00:00:00 2026-04-0\u{e9}";
        for bad in no_days.split(' ').chain(forms.split(' ')).chain([""]) {
            assert_eq!(Date::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_day_begins_at_midnight_in_utc() {
        let nanos = |text: &str| Timestamp::parse(text).map(Timestamp::as_nanos).expect("a date");
        let midnight = nanos("2026-03-01T00:00:00Z");
        for (at, expected) in [
            (midnight - 1, "2026-02-28"),
            (midnight, "2026-03-01"),
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (i64::MAX, "2262-04-11"),
            (i64::MIN, "1677-09-21"),
        ] {
            assert_eq!(Timestamp(at).utc_date().to_string(), expected);
        }
        for (text, expected) in [
            ("2026-03-01", Some(Timestamp(midnight))),
            ("2262-04-12", None),
            ("0001-01-01", None),
        ] {
            assert_eq!(
                Date::parse(text).and_then(Timestamp::start_of),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn deadlines_out_of_range_are_none() {
        let end = Timestamp::from_nanos(i64::MAX);
        assert_eq!(end.checked_add(Duration::ZERO), Some(end));
        assert_eq!(end.checked_add(Duration::from_nanos(1)), None);
        assert_eq!(Timestamp::from_nanos(i64::MIN).checked_add(Duration::MAX), None);
    }

    #[test]
    fn arithmetic_saturates() {
        let end = Timestamp::from_nanos(i64::MAX);
        assert_eq!(end.saturating_add(Duration::MAX), end);
        assert_eq!(Timestamp::EPOCH.since(end), Duration::ZERO);
        assert_eq!(Timestamp::from_nanos(-1).as_secs(), -1);
        let start = Timestamp::from_nanos(i64::MIN);
        assert_eq!(start.saturating_sub(Duration::MAX), start);
        let (second, two) = (Timestamp::from_secs(1), Duration::from_secs(2));
        assert_eq!(second.saturating_add(two), Timestamp::from_secs(3));
        assert_eq!(second.saturating_sub(two), Timestamp::from_secs(-1));
        assert_eq!(second.saturating_add(two).since(second), two);
        assert_eq!(second.checked_add(two), Some(Timestamp::from_secs(3)));
    }
}
