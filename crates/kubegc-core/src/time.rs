//! Timestamps of the Kubernetes API, without a clock.

use std::{fmt, time::Duration};

use crate::error::FieldError;

/// Nanoseconds since the Unix epoch. Arithmetic saturates, so that no date causes a panic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// Builds a timestamp from nanoseconds since the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Builds a timestamp from whole seconds since the epoch.
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

    /// The timestamp plus a duration; `None` where it is out of range.
    ///
    /// For deadlines: a saturated deadline would expire at the end of the range, but it must never expire.
    #[must_use]
    pub fn checked_add(self, later: Duration) -> Option<Self> {
        let later = i64::try_from(later.as_nanos()).ok()?;
        self.0.checked_add(later).map(Self)
    }

    /// The time passed since `earlier`; zero where `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The same instant without its fraction of a second, as an API object stores it.
    #[must_use]
    pub const fn truncate_to_secs(self) -> Self {
        Self::from_secs(self.as_secs())
    }

    /// The day in UTC.
    #[must_use]
    pub fn utc_date(self) -> Date {
        let days = self.0.div_euclid(NANOS_PER_DAY);
        Date(i32::try_from(days).expect("64-bit nanoseconds are less than 110,000 days away from the epoch"))
    }

    /// Reads an RFC 3339 date, as in `metadata.deletionTimestamp`.
    ///
    /// # Errors
    /// The text is not such a date, or outside the years of 64-bit nanoseconds (1678 to 2262).
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let bad = || FieldError::invalid("", text, "not an RFC 3339 date between the years 1678 and 2262");
        let parsed: jiff::Timestamp = text.parse().map_err(|_| bad())?;
        i64::try_from(parsed.as_nanosecond()).map(Self).map_err(|_| bad())
    }
}

const NANOS_PER_DAY: i64 = 86_400_000_000_000;

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A day of the Gregorian calendar in the years 0 to 9999, in the form of labels: `2026-03-01`.
///
/// # Examples
/// ```
/// use kubegc_core::{Timestamp, time::Date};
/// let leap_day = Date::parse("2028-02-29").expect("2028 has one");
/// assert_eq!(leap_day.next().to_string(), "2028-03-01");
/// assert_eq!(leap_day.midnight(), Timestamp::parse("2028-02-29T00:00:00Z").ok());
/// assert_eq!(Date::parse("2026-02-29"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date(i32);

impl Date {
    /// The day with these numbers, if it exists in the years 0 to 9999.
    #[must_use]
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days_in_month = match month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 if is_leap => 29,
            2 => 28,
            _ => return None,
        };
        if year > 9999 || !(1..=days_in_month).contains(&day) {
            return None;
        }
        // Years are counted from March, so that the leap day is the last of its year.
        let (month, day) = (i32::from(month), i32::from(day));
        let year = i32::from(year) - i32::from(month <= 2);
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        Some(Self(365 * year + leap_days + day_of_year - DAYS_TO_EPOCH))
    }

    /// Reads `YYYY-MM-DD`; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_shaped = text.len() == 10
            && text.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        if !is_shaped {
            return None;
        }
        let year = text.get(..4)?.parse().ok()?;
        let month = text.get(5..7)?.parse().ok()?;
        Self::new(year, month, text.get(8..)?.parse().ok()?)
    }

    /// Days since the first of January 1970.
    #[must_use]
    pub const fn days_since_epoch(self) -> i32 {
        self.0
    }

    /// The next day.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The start of the day in UTC; `None` where it is out of the range of [`Timestamp`].
    #[must_use]
    pub fn midnight(self) -> Option<Timestamp> {
        i64::from(self.0).checked_mul(NANOS_PER_DAY).map(Timestamp)
    }
}

/// Days from the first of March of the year 0 to the epoch.
const DAYS_TO_EPOCH: i32 = 719_468;

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The calendar repeats every 400 years, which are 146,097 days.
        let days = self.0 + DAYS_TO_EPOCH;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = 400 * era + year_of_era + i32::from(month <= 2);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
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
    fn days_agree_with_the_calendar() {
        let mut day = jiff::civil::date(0, 1, 1);
        let mut previous = None;
        loop {
            let text = day.to_string();
            let date = Date::parse(&text);
            assert_eq!(date.map(|date| date.to_string()), Some(text));
            if let Some(previous) = previous {
                assert_eq!(date, Some(Date::next(previous)));
            }
            previous = date;
            match day.tomorrow() {
                Ok(next) => day = next,
                Err(_) => break,
            }
        }
        for bad in [
            "",
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-04-31",
            "2026-04-00",
            "2026-4-1",
            "2026/04/01",
            "+026-04-01",
            "2026-04-010",
            "2026-04-0\u{e9}",
        ] {
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
        let date = Date::parse("2026-03-01").expect("a date");
        assert_eq!(date.midnight(), Some(Timestamp(midnight)));
        assert_eq!(Date::parse("2262-04-12").and_then(Date::midnight), None);
        assert_eq!(Date::parse("0001-01-01").and_then(Date::midnight), None);
    }

    #[test]
    fn deadlines_beyond_the_end_of_time_are_none() {
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
    }
}
