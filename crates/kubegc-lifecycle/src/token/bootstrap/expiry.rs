//! Reads the expiry of a bootstrap token as Go reads RFC 3339.

use kubegc_core::{Timestamp, time::Date};

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// When a token expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// At this time; at the beginning of time where it lies before that.
    At(Timestamp),
    /// Beyond what a [`Timestamp`] can tell.
    Never,
    /// The text is no date.
    Unreadable,
}

/// Reads an expiry.
///
/// # Upstream
/// `time.Parse(time.RFC3339, text)`: the hour may have one digit, a fraction of any length may follow the seconds after a point or a comma and counts to
/// the nanosecond, zones reach to 24:60, and neither spaces nor small letters are allowed.
pub(super) fn read(text: &str) -> Expiry {
    let Some(nanos) = (Cursor {
        rest: text.as_bytes(),
    })
    .date() else {
        return Expiry::Unreadable;
    };
    match i64::try_from(nanos) {
        Ok(nanos) => Expiry::At(Timestamp::from_nanos(nanos)),
        Err(_) if nanos < 0 => Expiry::At(Timestamp::from_nanos(i64::MIN)),
        Err(_) => Expiry::Never,
    }
}

/// What is left of a text.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    /// Reads all of it: nanoseconds since the epoch.
    fn date(mut self) -> Option<i128> {
        let year = self.digits(4)?;
        self.take(b'-')?;
        let month = self.digits(2)?;
        self.take(b'-')?;
        let day = self.digits(2)?;
        self.take(b'T')?;
        let hour = self.digits(2).or_else(|| self.digits(1))?;
        self.take(b':')?;
        let minute = self.digits(2)?;
        self.take(b':')?;
        let second = self.digits(2)?;
        let nanos = self.fraction();
        let zone_seconds = self.zone()?;
        if hour > 23 || minute > 59 || second > 59 || !self.rest.is_empty() {
            return None;
        }
        let (year, month, day) = (u16::try_from(year), u8::try_from(month), u8::try_from(day));
        let date = Date::new(year.ok()?, month.ok()?, day.ok()?)?;
        let days = i128::from(date.days_since_epoch());
        let seconds = days * 86_400 + i128::from(hour * 3_600 + minute * 60 + second) - zone_seconds;
        Some(seconds * NANOS_PER_SECOND + nanos)
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        (*first == byte).then(|| self.rest = rest)
    }

    /// Exactly this many digits, at most four. Takes nothing where there are fewer.
    fn digits(&mut self, count: usize) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        let value = digits.iter().try_fold(0, |value, byte| {
            byte.is_ascii_digit().then(|| value * 10 + u32::from(byte - b'0'))
        })?;
        self.rest = rest;
        Some(value)
    }

    /// Nanoseconds, where a point or a comma and a digit follow.
    fn fraction(&mut self) -> i128 {
        let [b'.' | b',', digits @ ..] = self.rest else {
            return 0;
        };
        let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return 0;
        }
        let (digits, rest) = digits.split_at(count);
        self.rest = rest;
        let padded = digits.iter().copied().chain(std::iter::repeat(b'0'));
        padded
            .take(9)
            .fold(0, |value, byte| value * 10 + i128::from(byte - b'0'))
    }

    /// Seconds east of Greenwich.
    fn zone(&mut self) -> Option<i128> {
        if self.take(b'Z').is_some() {
            return Some(0);
        }
        let sign = match self.take(b'+') {
            Some(()) => 1,
            None => self.take(b'-').map(|()| -1)?,
        };
        let hours = self.digits(2)?;
        self.take(b':')?;
        let minutes = self.digits(2)?;
        (hours <= 24 && minutes <= 60).then(|| sign * i128::from(hours * 3_600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_reads_is_read() {
        for (text, same) in [
            ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z"),
            ("2026-03-01T12:00:00+01:30", "2026-03-01T10:30:00Z"),
            ("2026-03-01T12:00:00-00:45", "2026-03-01T12:45:00Z"),
            ("2026-03-01T3:04:05Z", "2026-03-01T03:04:05Z"),
            ("2026-03-01T12:00:00.5Z", "2026-03-01T12:00:00.5Z"),
            ("2026-03-01T12:00:00,5Z", "2026-03-01T12:00:00.5Z"),
            (
                "2026-03-01T12:00:00.1234567899Z",
                "2026-03-01T12:00:00.123456789Z",
            ),
            ("2028-02-29T23:59:59Z", "2028-02-29T23:59:59Z"),
            ("1969-12-31T23:59:59.25Z", "1969-12-31T23:59:59.25Z"),
            ("2026-03-01T12:00:00+24:00", "2026-02-28T12:00:00Z"),
        ] {
            let same = Timestamp::parse(same).expect("a date");
            assert_eq!(read(text), Expiry::At(same), "{text}");
        }
    }

    #[test]
    fn dates_out_of_reach_are_dates() {
        assert_eq!(read("9999-12-31T23:59:59Z"), Expiry::Never);
        assert_eq!(read("2262-04-11T23:47:16.854775808Z"), Expiry::Never);
        let end = Timestamp::from_nanos(i64::MAX);
        assert_eq!(read("2262-04-11T23:47:16.854775807Z"), Expiry::At(end));
        let begin = Timestamp::from_nanos(i64::MIN);
        assert_eq!(read("0000-01-01T00:00:00Z"), Expiry::At(begin));
    }

    #[test]
    fn what_go_refuses_is_unreadable() {
        for text in [
            " ",
            "never",
            "2026-03-01",
            "2026-03-01T12:00:00",
            "2026-03-01 12:00:00Z",
            "2026-03-01t12:00:00z",
            "2026-03-01T12:00:00z",
            "2026-03-01T12:00Z",
            "2026-03-01T24:00:00Z",
            "2026-03-01T12:60:00Z",
            "2026-03-01T12:00:60Z",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-3-01T12:00:00Z",
            "2026-03-01T12:00:00.Z",
            "2026-03-01T12:00:00+0100",
            "2026-03-01T12:00:00+25:00",
            "2026-03-01T12:00:00+01:61",
            "2026-03-01T12:00:00Z ",
            "+2026-03-01T12:00:00Z",
            "12026-03-01T12:00:00Z",
            "2026-03-01T12:00:00\u{e9}",
            "2026-03-01T12:00:00Z\u{0}",
        ] {
            assert_eq!(read(text), Expiry::Unreadable, "{text}");
        }
    }
}
