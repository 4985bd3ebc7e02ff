//! Resource quantities: parsing, the canonical form, comparison.
//!
//! # Upstream
//! [`ParseQuantity` and `CanonicalizeBytes`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go).

use std::{cmp::Ordering, fmt};

/// An exact amount, with the kind of suffix that it was written with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    /// The amount is `mantissa * 10^scale`; the mantissa has no trailing zeros.
    mantissa: i128,
    scale: i32,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// More digits than this are refused: no amount of resources needs them.
const DIGITS_MAX: usize = 36;
/// The exponents that an amount may have.
const EXPONENT_MAX: i32 = 60;

const DECIMAL: [(i32, &str); 10] = [
    (-9, "n"),
    (-6, "u"),
    (-3, "m"),
    (0, ""),
    (3, "k"),
    (6, "M"),
    (9, "G"),
    (12, "T"),
    (15, "P"),
    (18, "E"),
];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Reads a quantity; `None` where the text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let digits = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        if digits.len() > DIGITS_MAX {
            return None;
        }
        let mut mantissa: i128 = if digits.is_empty() {
            0
        } else {
            digits.parse().ok()?
        };
        let mut scale = -i32::try_from(fraction.len()).ok()?;
        let format;
        if let Some(&(exponent, _)) = DECIMAL.iter().find(|(_, known)| *known == suffix) {
            format = Format::Decimal;
            scale += exponent;
        } else if let Some(power) = BINARY.iter().position(|known| *known == suffix) {
            format = Format::Binary;
            mantissa = mantissa.checked_mul(1 << (10 * power))?;
        } else {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            if exponent.abs() > EXPONENT_MAX {
                return None;
            }
            format = Format::Exponent;
            scale += exponent;
        }
        if format == Format::Binary && scale == 0 {
            mantissa = mantissa.min(i64::MAX.into());
        }
        let mantissa = if negative { -mantissa } else { mantissa };
        let parsed = Self::new(mantissa, scale, format);
        Some(parsed.rounded_up(-9))
    }

    /// The form that a text is stored and shown in: the text itself where upstream's parser takes it for canonical, which it
    /// finds by other means than it writes the canonical form.
    pub(crate) fn shown(text: &str) -> Option<String> {
        let parsed = Self::parse(text)?;
        Some(if parsed.keeps(text) {
            text.to_owned()
        } else {
            parsed.to_string()
        })
    }

    /// # Upstream
    /// The fast path of `ParseQuantity`.
    fn keeps(self, text: &str) -> bool {
        if text == "0" {
            return true;
        }
        let unsigned = text.trim_start_matches(['+', '-']).trim_start_matches('0');
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{}{fraction}", if whole.is_empty() { "0" } else { whole });
        if self.format == Format::Binary {
            let power = BINARY
                .iter()
                .position(|known| *known == suffix)
                .unwrap_or_default();
            let value: i64 = digits.parse().unwrap_or_default();
            return fraction.is_empty() && digits.len() + power * 3 < 15 && value & 7 != 0;
        }
        let exponent = match DECIMAL.iter().find(|(_, known)| *known == suffix) {
            Some((exponent, _)) => *exponent,
            None => suffix
                .get(1..)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
        };
        let scale = exponent - fraction.len() as i32;
        scale >= -9
            && scale % 3 == 0
            && digits.len() <= 18
            && !digits.ends_with("000")
            && !digits.starts_with('0')
    }

    fn new(mut mantissa: i128, mut scale: i32, format: Format) -> Self {
        if mantissa == 0 {
            scale = 0;
        }
        while mantissa != 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            scale += 1;
        }
        Self {
            mantissa,
            scale,
            format,
        }
    }

    /// A whole number.
    pub(crate) fn whole(number: i64) -> Self {
        Self::new(number.into(), 0, Format::Decimal)
    }

    /// Rounded away from zero to a multiple of `10^scale`.
    pub(crate) fn rounded_up(self, scale: i32) -> Self {
        if self.scale >= scale || self.mantissa == 0 {
            return self;
        }
        let mut mantissa = self.mantissa.abs();
        for _ in self.scale..scale {
            mantissa = mantissa / 10 + i128::from(mantissa % 10 != 0);
        }
        Self::new(mantissa * self.mantissa.signum(), scale, self.format)
    }

    /// The sum, with the suffix of the first; the first itself where the sum has too many digits.
    pub(crate) fn plus(self, other: Self) -> Self {
        let scale = self.scale.min(other.scale);
        let sum = self.at_scale(scale).zip(other.at_scale(scale));
        let sum = sum.and_then(|(one, two)| one.checked_add(two));
        sum.map_or(self, |mantissa| Self::new(mantissa, scale, self.format))
    }

    /// The amount as Go's `%#v` prints it; its text is in it once it was asked for.
    pub(crate) fn go_value(self, has_text: bool) -> String {
        let shift = self.scale.rem_euclid(3);
        let value = self.mantissa * [1, 10, 100][shift as usize];
        let (value, scale) = if self.scale >= 0 {
            let factor = 10_i128.saturating_pow(self.scale.unsigned_abs());
            (self.mantissa.saturating_mul(factor), 0)
        } else {
            (value, self.scale - shift)
        };
        let text = if has_text { self.to_string() } else { String::new() };
        let format = match self.format {
            Format::Decimal => "DecimalSI",
            Format::Binary => "BinarySI",
            Format::Exponent => "DecimalExponent",
        };
        format!(
            "resource.Quantity{{i:resource.int64Amount{{value:{value}, scale:{scale}}}, \
             d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}, s:{}, Format:{}}}",
            crate::status::quoted(&text),
            crate::status::quoted(format)
        )
    }

    /// The amount as a number that may be rounded.
    pub(crate) fn as_f64(self) -> f64 {
        self.mantissa as f64 * 10_f64.powi(self.scale)
    }

    /// The amount, where it is a whole number that fits.
    #[cfg(feature = "cel")]
    pub(crate) fn as_i64(self) -> Option<i64> {
        self.at_scale(0).and_then(|amount| amount.try_into().ok())
    }

    /// The same amount with the other sign.
    #[cfg(feature = "cel")]
    pub(crate) const fn negated(self) -> Self {
        Self {
            mantissa: -self.mantissa,
            ..self
        }
    }

    pub(crate) const fn is_negative(self) -> bool {
        self.mantissa < 0
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    pub(crate) const fn is_whole(self) -> bool {
        self.scale >= 0
    }

    /// The amount as a multiple of `10^scale`, if it fits.
    fn at_scale(self, scale: i32) -> Option<i128> {
        let factor = u32::try_from(self.scale - scale).ok()?;
        self.mantissa.checked_mul(10_i128.checked_pow(factor)?)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.mantissa == other.mantissa && self.scale == other.scale
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let scale = self.scale.min(other.scale);
        match (self.at_scale(scale), other.at_scale(scale)) {
            (Some(one), Some(two)) => one.cmp(&two),
            // One of them is far from zero.
            (None, _) => self.mantissa.cmp(&0),
            (_, None) => 0.cmp(&other.mantissa),
        }
    }
}

impl fmt::Display for Quantity {
    /// The canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.format == Format::Binary
            && self.is_whole()
            && let Some(mut amount) = self.at_scale(0)
            && amount.abs() >= 1024
        {
            let mut power = 0;
            while amount % 1024 == 0 && power < BINARY.len() - 1 {
                amount /= 1024;
                power += 1;
            }
            return write!(f, "{amount}{}", BINARY[power]);
        }
        let shift = self.scale.rem_euclid(3);
        let (mantissa, exponent) = (self.mantissa * [1, 10, 100][shift as usize], self.scale - shift);
        let suffix = DECIMAL.iter().find(|(known, _)| *known == exponent);
        match suffix {
            Some((_, suffix)) if self.format != Format::Exponent => write!(f, "{mantissa}{suffix}"),
            _ if exponent == 0 => write!(f, "{mantissa}"),
            _ => write!(f, "{mantissa}e{exponent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_form() {
        for (text, canonical) in [
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000Ki", "1000Ki"),
            ("512", "512"),
            ("1000", "1k"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12e2", "1200"),
            ("100000", "100k"),
            ("-1.0", "-1"),
            (".5", "500m"),
            ("0.1n", "1n"),
            ("0", "0"),
            ("010", "10"),
        ] {
            let parsed = Quantity::parse(text).unwrap();
            assert_eq!(parsed.to_string(), canonical, "{text}");
        }
        for (text, shown) in [
            ("5.", "5."),
            ("+1", "+1"),
            ("01", "01"),
            ("1E3", "1E3"),
            ("1.1Ki", "1126400m"),
            ("16Ei", "9223372036854775807"),
            ("1000m", "1"),
            ("1.0", "1"),
        ] {
            assert_eq!(Quantity::shown(text).unwrap(), shown);
        }
        for text in ["", "x", "1K", "1.2.3", "1 Gi", "--1", "1e", "e3"] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn quantities_are_compared_by_amount() {
        let ordered = ["-1", "0", "999m", "1", "1Ki"];
        let parsed: Vec<_> = ordered.iter().filter_map(|text| Quantity::parse(text)).collect();
        assert!(parsed.is_sorted());
        assert!(Quantity::parse("1Ki") > Quantity::parse("1k"));
        assert_eq!(Quantity::parse("1"), Quantity::parse("1000m"));
        assert!(Quantity::parse("1e60") > Quantity::parse("1n"));
    }
}
