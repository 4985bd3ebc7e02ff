//! Amounts of eviction thresholds: Kubernetes quantities such as `100Mi`, and percentages of a capacity.

use std::{fmt, str::FromStr};

use kubegc_core::FieldError;

/// Nanos per unit.
const NANOS: i128 = 1_000_000_000;
/// The maximum of a quantity, as upstream.
const LIMIT: i128 = i64::MAX as i128 * NANOS;

/// A Kubernetes quantity, exact to a billionth: `100Mi`, `1.5Gi`, `2e9`, `500k`.
///
/// Smaller fractions are rounded away from zero; values beyond 64 bits count as the largest quantity, as
/// upstream.
///
/// # Examples
/// ```
/// use kubegc_node::eviction::Quantity;
/// assert_eq!("1.5Gi".parse(), Ok(Quantity::whole(1_610_612_736)));
/// assert_eq!(Quantity::whole(104_857_600).to_string(), "100Mi");
/// assert!("100MB".parse::<Quantity>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    /// A whole number, such as bytes or inodes.
    #[must_use]
    pub const fn whole(amount: u64) -> Self {
        // At most 2^64 times 10^9, far below 2^127.
        Self(amount as i128 * NANOS)
    }

    /// Returns whether it is negative.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Returns whether it is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl FromStr for Quantity {
    type Err = FieldError;

    /// Parses a sign, digits with at most one point, and one of the suffixes
    /// `n u m k M G T P E Ki Mi Gi Ti Pi Ei` or an exponent such as `e9`.
    /// *O*(n) for n bytes.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        parse(text)
            .ok_or_else(|| FieldError::invalid("", text, "not a quantity such as 100Mi, 1.5Gi or 500k"))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned
        .find(|symbol: char| !symbol.is_ascii_digit() && symbol != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let (unit, exponent) = scale(suffix)?;
    let digits = || {
        whole
            .bytes()
            .chain(fraction.bytes())
            .map(|digit| i128::from(digit - b'0'))
    };
    let point = i64::try_from(whole.len()).ok()?.saturating_add(exponent);
    let nanos = scaled(digits, point, unit);
    Some(Quantity(if negative { -nanos } else { nanos }))
}

/// The value of a suffix: billionths of a unit, and the number of digits by which the point moves.
fn scale(suffix: &str) -> Option<(i128, i64)> {
    let unit = match suffix {
        "" => NANOS,
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "k" => NANOS * 1_000,
        "M" => NANOS * 1_000_000,
        "G" => NANOS * 1_000_000_000,
        "T" => NANOS * 1_000_000_000_000,
        "P" => NANOS * 1_000_000_000_000_000,
        "E" => NANOS * 1_000_000_000_000_000_000,
        "Ki" => NANOS << 10,
        "Mi" => NANOS << 20,
        "Gi" => NANOS << 30,
        "Ti" => NANOS << 40,
        "Pi" => NANOS << 50,
        "Ei" => NANOS << 60,
        _ => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            return Some((NANOS, digits.parse::<i32>().ok()?.into()));
        }
    };
    Some((unit, 0))
}

/// Digits with the point behind the `point`-th of them, times a unit: rounded up, and capped at the limit.
fn scaled<I>(digits: impl Fn() -> I, point: i64, unit: i128) -> i128
where
    I: DoubleEndedIterator<Item = i128>,
{
    let split = usize::try_from(point).unwrap_or(0);
    let mut whole: i128 = 0;
    let mut places = 0;
    for digit in digits().take(split) {
        // Capped at the limit, for which 63 more bits are enough.
        whole = (whole * 10 + digit).min(LIMIT);
        places += 1;
    }
    // Zeros that the exponent appends. A number above zero is at the limit after 28 of them, and zero stays
    // zero.
    for _ in places..split.min(places + 40) {
        whole = (whole * 10).min(LIMIT);
    }
    if whole > LIMIT / unit {
        return LIMIT;
    }
    // From the last digit to the first, each step divides the rest by ten. The remainder of a division only
    // makes the result inexact: rounding down in steps equals rounding down once.
    let (mut part, mut inexact) = (0, false);
    let behind = digits().count().saturating_sub(split);
    for digit in digits().rev().take(behind) {
        let sum = digit * unit + part;
        inexact |= sum % 10 != 0;
        part = sum / 10;
    }
    // Zeros between the point and the first digit: 40 leave nothing of any unit.
    for _ in 0..(-point).clamp(0, 40) {
        inexact |= part % 10 != 0;
        part /= 10;
    }
    (whole * unit + part + i128::from(inexact)).min(LIMIT)
}

impl fmt::Display for Quantity {
    /// Formats with the largest of the binary suffixes that leaves a whole number, else as a plain decimal
    /// number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(nanos) = *self;
        if nanos % NANOS != 0 {
            let sign = if nanos < 0 { "-" } else { "" };
            let fraction = format!("{:09}", (nanos % NANOS).unsigned_abs());
            let whole = (nanos / NANOS).unsigned_abs();
            return write!(f, "{sign}{whole}.{}", fraction.trim_end_matches('0'));
        }
        let whole = nanos / NANOS;
        let (mut shown, mut suffix) = (whole, "");
        for next in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
            if shown == 0 || shown % 1024 != 0 {
                break;
            }
            (shown, suffix) = (shown / 1024, next);
        }
        write!(f, "{shown}{suffix}")
    }
}

/// A share of a capacity, in the precision in which upstream keeps it.
///
/// Stored as the bits of a non-negative finite 32-bit float; such bits are ordered like the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Percent(u32);

impl Percent {
    /// The share, 0.1 for 10 %.
    #[must_use]
    pub const fn share(self) -> f32 {
        f32::from_bits(self.0)
    }

    /// That share of a capacity, truncated as upstream: one less than expected if 32 bits store slightly less
    /// than the share.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        let capacity = capacity.min(i64::MAX.unsigned_abs());
        (capacity as f64 * f64::from(self.share())) as u64
    }
}

impl FromStr for Percent {
    type Err = FieldError;

    /// Parses a non-negative number and the sign `%`.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        let bad = || FieldError::invalid("", text, "not a percentage such as 10% or 7.5%");
        let number = text.strip_suffix('%').ok_or_else(bad)?;
        if !number.starts_with(|symbol: char| symbol.is_ascii_digit() || symbol == '.') {
            return Err(bad());
        }
        let percent: f32 = number.parse().map_err(|_| bad())?;
        if percent.is_finite() {
            Ok(Self((percent / 100.0).to_bits()))
        } else {
            Err(bad())
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Seven digits are the precision of a 32-bit share.
        let percent = format!("{:.4}", f64::from(self.share()) * 100.0);
        write!(f, "{}%", percent.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The amount of a threshold or a reclaim.
#[expect(clippy::exhaustive_enums, reason = "absolute or relative")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Amount {
    /// An absolute amount.
    Absolute(Quantity),
    /// A share of the capacity.
    Relative(Percent),
}

impl Amount {
    /// The amount for this capacity.
    #[must_use]
    pub fn of(self, capacity: u64) -> Quantity {
        match self {
            Self::Absolute(quantity) => quantity,
            Self::Relative(percent) => Quantity::whole(percent.of(capacity)),
        }
    }
}

impl FromStr for Amount {
    type Err = FieldError;

    /// Parses a percentage if the text ends in `%`, else a quantity.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        if text.ends_with('%') {
            text.parse().map(Self::Relative)
        } else {
            text.parse().map(Self::Absolute)
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute(quantity) => quantity.fmt(f),
            Self::Relative(percent) => percent.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact_to_a_billionth() {
        let most = LIMIT;
        for (text, nanos) in [
            ("0", 0),
            ("1", NANOS),
            ("+1", NANOS),
            ("-1", -NANOS),
            ("1.", NANOS),
            (".5", NANOS / 2),
            ("100Mi", 104_857_600 * NANOS),
            ("1.5Gi", 1_610_612_736 * NANOS),
            ("0.1Ki", 102_400_000_000),
            ("500k", 500_000 * NANOS),
            ("100m", NANOS / 10),
            ("3u", 3_000),
            ("1n", 1),
            ("0.1n", 1),
            ("-0.1n", -1),
            ("0.0000000001", 1),
            ("0.0n", 0),
            ("1e3", 1_000 * NANOS),
            ("1E3", 1_000 * NANOS),
            ("1E", 1_000_000_000_000_000_000 * NANOS),
            ("1.25e1", 12_500_000_000),
            ("125e-1", 12_500_000_000),
            ("125e-3", 125_000_000),
            ("125e-12", 1),
            ("125e-2000000000", 1),
            ("0e-5", 0),
            ("0e2000000000", 0),
            ("1e2000000000", most),
            ("1e+2", 100 * NANOS),
            ("7Ei", (7 << 60) * NANOS),
            ("8Ei", most),
            ("-8Ei", -most),
            ("9223372036854775807", most),
            ("9223372036854775808", most),
            ("99999999999999999999999999999999999999999999999999", most),
            ("0000000000000000000000000000000000000000000000000001", NANOS),
            (
                "1.000000000000000000000000000000000000000000000000001Ei",
                (1 << 60) * NANOS + 1,
            ),
        ] {
            assert_eq!(text.parse(), Ok(Quantity(nanos)), "{text}");
        }
        for bad in [
            "",
            "-",
            ".",
            "1.2.3",
            "1 Mi",
            " 1",
            "1e",
            "1ki",
            "1K",
            "1MB",
            "--1",
            "1e1.5",
            "e3",
            "Mi",
            "1Mi1",
            "½",
            "1e99999999999",
        ] {
            assert!(bad.parse::<Quantity>().is_err(), "{bad}");
        }
    }

    #[test]
    fn quantities_are_written_with_the_suffix_that_fits() {
        for (text, written) in [
            ("104857600", "100Mi"),
            ("1Gi", "1Gi"),
            ("1025", "1025"),
            ("0.5", "0.5"),
            ("-1.25", "-1.25"),
            ("0", "0"),
            ("-2Ki", "-2Ki"),
        ] {
            let read: Result<Quantity, _> = text.parse();
            assert_eq!(read.map(|quantity| quantity.to_string()).as_deref(), Ok(written));
        }
    }

    #[test]
    fn percentages_cut_to_whole_numbers() {
        for (text, capacity, expected) in [
            ("10%", 1_000, 100),
            ("5%", 1_000, 50),
            ("15%", 999, 149),
            ("7.5%", 1_000, 75),
            // 32 bits store slightly less than 0.005.
            (".5%", 1_000, 4),
            ("10%", 0, 0),
            ("100%", 7, 7),
            ("1e1%", 10, 1),
        ] {
            let read: Result<Percent, _> = text.parse();
            assert_eq!(read.map(|percent| percent.of(capacity)), Ok(expected), "{text}");
        }
        for text in ["10%", "15%", "7.5%", "0.25%", "0%", "33.3333%"] {
            let read: Result<Percent, _> = text.parse();
            assert_eq!(read.map(|percent| percent.to_string()).as_deref(), Ok(text));
        }
        let all: Result<Percent, _> = "100%".parse();
        assert_eq!(all.map(|all| all.of(u64::MAX)), Ok(i64::MAX.unsigned_abs() + 1));
        for bad in [
            "%", "-1%", "+1%", "NaN%", "inf%", "10", "10%%", "1_0%", "ten%", "1e99%",
        ] {
            assert!(bad.parse::<Percent>().is_err(), "{bad}");
        }
    }
}
