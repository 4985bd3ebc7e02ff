//! Amounts as eviction thresholds have them: Kubernetes quantities such as `100Mi`, and percentages of a
//! capacity.

use std::{fmt, str::FromStr};

use kubegc_core::{FieldError, Quantity};

/// A share of a capacity, in the precision in which upstream keeps it.
///
/// Kept as the bits of a 32-bit float that is neither negative nor infinite nor no number; such bits are
/// ordered as the numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Percent(u32);

impl Percent {
    /// The share, 0.1 for 10 %.
    #[must_use]
    pub const fn share(self) -> f32 {
        f32::from_bits(self.0)
    }

    /// That share of a capacity, cut to a whole number as upstream cuts it: one less than expected where 32
    /// bits keep a little less than the share.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        let capacity = capacity.min(i64::MAX.unsigned_abs());
        (capacity as f64 * f64::from(self.share())) as u64
    }
}

impl FromStr for Percent {
    type Err = FieldError;

    /// Reads a number that is not negative, and the sign `%`.
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
        // Seven digits are all that a share of 32 bits has.
        let percent = format!("{:.4}", f64::from(self.share()) * 100.0);
        write!(f, "{}%", percent.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// How much a threshold or a reclaim speaks of.
#[expect(clippy::exhaustive_enums, reason = "absolute or relative")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Amount {
    /// So much.
    Absolute(Quantity),
    /// That share of the capacity.
    Relative(Percent),
}

impl Amount {
    /// How much that is where the capacity is this.
    #[must_use]
    pub fn of(self, capacity: u64) -> Quantity {
        match self {
            Self::Absolute(quantity) => quantity,
            Self::Relative(percent) => Quantity::binary_si(percent.of(capacity)),
        }
    }
}

impl FromStr for Amount {
    type Err = FieldError;

    /// Reads a percentage where the text ends in `%`, else a quantity.
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
    fn percentages_cut_to_whole_numbers() {
        for (text, capacity, expected) in [
            ("10%", 1_000, 100),
            ("5%", 1_000, 50),
            ("15%", 999, 149),
            ("7.5%", 1_000, 75),
            // 32 bits keep a little less than 0.005.
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
