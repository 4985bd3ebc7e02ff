//! Amounts of eviction thresholds: Kubernetes quantities such as `100Mi`, and percentages of a capacity.

use std::{fmt, str::FromStr};

use kubegc_core::{FieldError, Quantity};

/// A percentage of a capacity, with upstream's precision.
///
/// Stored as the bits of a finite 32-bit float that is not negative. The bits of such floats have the same
/// order as the floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Percent(u32);

impl Percent {
    /// The percentage as a fraction: 0.1 for 10 %.
    pub const fn as_fraction(self) -> f32 {
        f32::from_bits(self.0)
    }

    /// The percentage of this capacity, truncated to an integer. As upstream, the result can be one less than
    /// the exact value, because a 32-bit float can be slightly below the percentage.
    pub fn of(self, capacity: u64) -> u64 {
        let capacity = capacity.min(i64::MAX.unsigned_abs());
        (capacity as f64 * f64::from(self.as_fraction())) as u64
    }
}

impl FromStr for Percent {
    type Err = FieldError;

    /// Parses a number that is not negative, followed by `%`.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        let invalid = || FieldError::invalid("", text, "not a percentage such as 10% or 7.5%");
        let number = text.strip_suffix('%').ok_or_else(invalid)?;
        if !number.starts_with(|symbol: char| symbol.is_ascii_digit() || symbol == '.') {
            return Err(invalid());
        }
        let percent: f32 = number.parse().map_err(|_| invalid())?;
        if percent.is_finite() {
            Ok(Self((percent / 100.0).to_bits()))
        } else {
            Err(invalid())
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A 32-bit float has at most seven significant digits.
        let percent = format!("{:.4}", f64::from(self.as_fraction()) * 100.0);
        write!(f, "{}%", percent.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The value of a threshold, or a minimum reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub enum Amount {
    /// A quantity, in the unit of the signal.
    Absolute(Quantity),
    /// A percentage of the capacity.
    Relative(Percent),
}

impl Amount {
    pub fn of(self, capacity: u64) -> Quantity {
        match self {
            Self::Absolute(quantity) => quantity,
            Self::Relative(percent) => Quantity::binary_si(percent.of(capacity)),
        }
    }
}

impl FromStr for Amount {
    type Err = FieldError;

    /// Parses a percentage if the text ends with `%`, otherwise a quantity.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        if text.ends_with('%') {
            text.parse().map(Self::Relative)
        } else {
            let quantity = Quantity::parse(text).map(Self::Absolute);
            quantity
                .ok_or_else(|| FieldError::invalid("", text, "not a quantity such as 100Mi, 1.5Gi or 500k"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_quantities_or_percentages() {
        let of = |text: &str| text.parse().map(|amount: Amount| amount.of(1 << 30).to_string());
        for (text, expected) in [("100Mi", "100Mi"), ("10%", "107374184"), ("50%", "512Mi")] {
            assert_eq!(of(text).as_deref(), Ok(expected));
        }
        for bad in ["", "100MB", "1.2.3", "10%%"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentages_are_truncated_to_integers() {
        for (text, capacity, expected) in [
            ("10%", 1_000, 100),
            ("5%", 1_000, 50),
            ("15%", 999, 149),
            ("7.5%", 1_000, 75),
            // The nearest 32-bit float is slightly below 0.005.
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
