//! Signed durations in the format of Go's `time.Duration`: `2m0s`, `168h0m0s`, `-1.5s`.

use std::{fmt, str::FromStr, time::Duration};

use kubegc_core::{FieldError, Timestamp};

/// A signed duration in nanoseconds, formatted as Go's `time.Duration`. Arithmetic saturates, as Go's
/// `Time.Sub` does.
///
/// # Examples
/// ```
/// use kubegc_node::GoDuration;
/// assert_eq!("168h".parse(), Ok(GoDuration::from_secs(604_800)));
/// assert_eq!(GoDuration::from_secs(604_800).to_string(), "168h0m0s");
/// assert_eq!(GoDuration::from_nanos(-1_500_000).to_string(), "-1.5ms");
/// assert!("5 minutes".parse::<GoDuration>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GoDuration(i64);

impl GoDuration {
    pub const ZERO: Self = Self(0);
    /// The longest duration, about 292 years. In Go, the time since the zero time saturates at it.
    pub const MAX: Self = Self(i64::MAX);

    /// Builds a duration from nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Builds a duration from whole seconds.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// The time from `earlier` to `later`; negative if `later` is earlier.
    pub const fn between(earlier: Timestamp, later: Timestamp) -> Self {
        Self(later.as_nanos().saturating_sub(earlier.as_nanos()))
    }

    /// The duration in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The unsigned duration; `None` if it is negative.
    pub fn to_unsigned(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl fmt::Display for GoDuration {
    /// Formats as Go's `time.Duration.String`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", Decimal(nanos, 3)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", Decimal(nanos, 6)),
            _ => {
                let minutes = nanos / 60_000_000_000;
                let seconds = Decimal(nanos % 60_000_000_000, 9);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(f, "{seconds}s"),
                    (0, minutes) => write!(f, "{minutes}m{seconds}s"),
                    (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }
}

/// A number divided by a power of ten, without trailing zeros. The second field is the exponent.
struct Decimal(u64, u32);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10_u64.pow(self.1);
        write!(f, "{}", self.0 / unit)?;
        let rest = self.0 % unit;
        if rest > 0 {
            let digits = format!("{rest:0width$}", width = self.1 as usize);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

impl FromStr for GoDuration {
    type Err = FieldError;

    /// Parses as Go's `time.ParseDuration`: a sign, then numbers with units; `0` needs no unit.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        let invalid = || FieldError::invalid("", text, "not a duration such as 2m0s, 1h30m or 0");
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u128 = 0;
        while !rest.is_empty() {
            let end = rest
                .find(|symbol: char| !symbol.is_ascii_digit() && symbol != '.')
                .ok_or_else(invalid)?;
            let (number, tail) = rest.split_at(end);
            let end = tail
                .find(|symbol: char| symbol.is_ascii_digit() || symbol == '.')
                .unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(end);
            let unit: u128 = match unit {
                "ns" => 1,
                "us" | "µs" | "μs" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return Err(invalid()),
            };
            total = total
                .checked_add(scaled(number, unit).ok_or_else(invalid)?)
                .ok_or_else(invalid)?;
            rest = tail;
        }
        let limit = i64::MAX as u128 + u128::from(negative);
        if total > limit {
            return Err(invalid());
        }
        // At most 2^63, so the negation does not overflow an i128.
        let signed = if negative { -(total as i128) } else { total as i128 };
        i64::try_from(signed).map(Self).map_err(|_| invalid())
    }
}

/// A decimal number times a unit, truncated to whole nanoseconds.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let mut value = match whole {
        "" => 0,
        digits => digits.parse::<u64>().ok().map(u128::from)?.checked_mul(unit)?,
    };
    let mut digit_value = unit;
    for digit in fraction.bytes() {
        digit_value /= 10;
        value = value.checked_add(u128::from(digit - b'0') * digit_value)?;
    }
    Some(value)
}

serialize_text!(GoDuration);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parsed_and_formatted_as_in_go() {
        for (text, nanos, written) in [
            ("0", 0, "0s"),
            ("2m", 120_000_000_000, "2m0s"),
            ("168h", 604_800_000_000_000, "168h0m0s"),
            ("1h0.5s", 3_600_500_000_000, "1h0m0.5s"),
            ("-1s", -1_000_000_000, "-1s"),
            ("1.5ms", 1_500_000, "1.5ms"),
            ("2us", 2_000, "2µs"),
            ("+3ns", 3, "3ns"),
            (".5s", 500_000_000, "500ms"),
            ("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            let read: Result<GoDuration, _> = text.parse();
            assert_eq!(read, Ok(GoDuration(nanos)), "{text}");
            assert_eq!(GoDuration(nanos).to_string(), written);
        }
        for bad in ["", "-", "5", "5 m", "m", "1d", "1.2.3s", "99999999h", "1s2", ".s"] {
            assert!(bad.parse::<GoDuration>().is_err(), "{bad}");
        }
    }
}
