//! Resource quantities of the API: parsing, the canonical form, comparison.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

/// An amount in the form of `resource.Quantity`, such as `100Mi`, `1.5Gi`, `500m` or `2e9`. Comparison
/// ignores the format.
///
/// # Upstream
/// [`ParseQuantity` and `CanonicalizeBytes`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go).
/// Deviation: an amount with more than 36 significant digits is refused; upstream has no limit.
///
/// # Examples
/// ```
/// use kubegc_core::Quantity;
/// assert_eq!(Quantity::parse("1.5Gi"), Some(Quantity::binary_si(1_610_612_736)));
/// assert_eq!(Quantity::binary_si(104_857_600).to_string(), "100Mi");
/// assert_eq!(Quantity::parse("0.5").map(|half| half.to_string()).as_deref(), Some("500m"));
/// assert_eq!(Quantity::parse("100MB"), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    /// The amount is `mantissa * 10^scale`; the mantissa has no trailing zeros.
    mantissa: i128,
    scale: i32,
    format: QuantityFormat,
}

/// The suffixes of a quantity's canonical form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuantityFormat {
    /// `n u m k M G T P E`.
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`.
    BinarySi,
    /// `e3`.
    DecimalExponent,
}

/// The maximum number of digits of a mantissa.
const DIGITS_MAX: usize = 36;
/// The smallest amount is `10^NANO`.
const NANO: i32 = -9;
/// Billionths in the largest amount of the binary format.
const BINARY_NANOS_MAX: i128 = i64::MAX as i128 * 1_000_000_000;

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

/// The parts of a quantity's text.
struct Parts<'t> {
    is_negative: bool,
    /// Digits before the point.
    whole: &'t str,
    /// Digits behind the point.
    fraction: &'t str,
    format: QuantityFormat,
    /// That of the suffix: of ten, or of two for the binary format.
    exponent: i32,
}

impl<'t> Parts<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_in_number = |c: char| c.is_ascii_digit() || c == '.';
        let end = unsigned.find(|c| !is_in_number(c)).unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let has_digits = !whole.is_empty() || !fraction.is_empty();
        let (format, exponent) = unit(suffix)?;
        (has_digits && !fraction.contains('.')).then_some(Parts {
            is_negative: text.starts_with('-'),
            whole,
            fraction,
            format,
            exponent,
        })
    }
}

fn unit(suffix: &str) -> Option<(QuantityFormat, i32)> {
    if let Some((exponent, _)) = DECIMAL.iter().find(|(_, known)| *known == suffix) {
        return Some((QuantityFormat::DecimalSi, *exponent));
    }
    if let Some(power) = BINARY.iter().position(|known| *known == suffix) {
        return Some((QuantityFormat::BinarySi, 10 * i32::try_from(power).ok()?));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((QuantityFormat::DecimalExponent, exponent))
}

impl Quantity {
    /// An integer without suffix, or with a decimal one.
    pub fn decimal_si(amount: i64) -> Self {
        Self::new(amount.into(), 0, QuantityFormat::DecimalSi)
    }

    /// An integer in the binary format, such as bytes.
    pub fn binary_si(amount: u64) -> Self {
        Self::new(amount.into(), 0, QuantityFormat::BinarySi)
    }

    /// Reads a quantity; `None` if the text is not one. An amount is rounded away from zero to billionths,
    /// and one of the binary format is at most 2^63 - 1.
    ///
    /// # Complexity
    /// Linear in the length of the text.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = Parts::of(text)?;
        let (mantissa, scale) = match parts.format {
            QuantityFormat::BinarySi => (binary_nanos(&parts), NANO),
            _ => decimal(&parts)?,
        };
        // As upstream: an amount below one has no binary form.
        let format = match (parts.format, mantissa) {
            (QuantityFormat::BinarySi, 1..1_000_000_000) => QuantityFormat::DecimalSi,
            (format, _) => format,
        };
        let mantissa = if parts.is_negative { -mantissa } else { mantissa };
        Some(Self::new(mantissa, scale, format))
    }

    /// The form of a text that the API server stores: the text itself if the parser keeps it, otherwise the
    /// canonical form. `None` if the text is not a quantity.
    pub fn canonical(text: &str) -> Option<String> {
        let parsed = Self::parse(text)?;
        Some(if parsed.keeps(text) {
            text.to_owned()
        } else {
            parsed.to_string()
        })
    }

    /// The integer and the power of ten that upstream's parser reads, and whether it keeps the text. `None`
    /// if the text is not a quantity, or not one of 64 bits.
    ///
    /// # Examples
    /// ```
    /// use kubegc_core::Quantity;
    /// assert_eq!(Quantity::parsed_parts("1.5"), Some((15, -1, false)));
    /// assert_eq!(Quantity::parsed_parts("500m"), Some((500, -3, true)));
    /// ```
    pub fn parsed_parts(text: &str) -> Option<(i64, i32, bool)> {
        let parts = Parts::of(text)?;
        let digits: i64 = format!("{}{}", parts.whole, parts.fraction).parse().ok()?;
        let places = i32::try_from(parts.fraction.len()).ok()?;
        let (value, scale) = match parts.format {
            QuantityFormat::BinarySi if places == 0 => {
                let unit = 1_i64.checked_shl(u32::try_from(parts.exponent).ok()?)?;
                (digits.checked_mul(unit)?, 0)
            }
            QuantityFormat::BinarySi => (Self::parse(text)?.as_i64()?.abs(), 0),
            _ => (digits, parts.exponent.checked_sub(places)?),
        };
        let value = if parts.is_negative { -value } else { value };
        Some((value, scale, Self::parse(text)?.keeps(text)))
    }

    /// Whether the parser treats the text as canonical. Upstream's check differs from its function that
    /// writes the canonical form.
    ///
    /// # Upstream
    /// The fast path of `ParseQuantity`.
    fn keeps(self, text: &str) -> bool {
        if text == "0" {
            return true;
        }
        let Some(parts) = Parts::of(text) else {
            return false;
        };
        // Without its leading zeros, a number below one has one digit before the point.
        let whole = match parts.whole.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        let digits = format!("{whole}{}", parts.fraction);
        if parts.format == QuantityFormat::BinarySi {
            let value: i64 = digits.parse().unwrap_or_default();
            let power = usize::try_from(parts.exponent / 10).unwrap_or_default();
            return parts.fraction.is_empty() && digits.len() + power * 3 < 15 && value & 7 != 0;
        }
        let places = i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX);
        let scale = i64::from(parts.exponent).saturating_sub(places);
        scale >= NANO.into()
            && scale % 3 == 0
            && digits.len() <= 18
            && !digits.ends_with("000")
            && !digits.starts_with('0')
    }

    fn new(mut mantissa: i128, mut scale: i32, format: QuantityFormat) -> Self {
        if mantissa == 0 {
            scale = 0;
        }
        while mantissa != 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            scale = scale.saturating_add(1);
        }
        Self {
            mantissa,
            scale,
            format,
        }
    }

    /// The suffixes of its canonical form.
    pub const fn format(self) -> QuantityFormat {
        self.format
    }

    /// Rounded away from zero to a multiple of `10^scale`.
    #[must_use]
    pub fn rounded_up(self, scale: i32) -> Self {
        let mut mantissa = self.mantissa.abs();
        // A mantissa of 39 digits is one after as many steps.
        for _ in 0..i64::from(scale).saturating_sub(self.scale.into()).clamp(0, 40) {
            mantissa = mantissa / 10 + i128::from(mantissa % 10 != 0);
        }
        let scale = scale.max(self.scale);
        Self::new(mantissa * self.mantissa.signum(), scale, self.format)
    }

    /// The sum, in the format of the first; the first itself if the sum has too many digits.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let scale = self.scale.min(other.scale);
        let sum = self.at_scale(scale).zip(other.at_scale(scale));
        let sum = sum.and_then(|(one, two)| one.checked_add(two));
        sum.map_or(self, |mantissa| Self::new(mantissa, scale, self.format))
    }

    /// The same amount with the other sign.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self {
            mantissa: -self.mantissa,
            ..self
        }
    }

    /// The amount as a number that may be rounded.
    pub fn as_f64(self) -> f64 {
        self.mantissa as f64 * 10_f64.powi(self.scale)
    }

    /// The amount, if it is an integer that fits.
    pub fn as_i64(self) -> Option<i64> {
        self.at_scale(0).and_then(|amount| amount.try_into().ok())
    }

    /// Whether it is below zero.
    pub const fn is_negative(self) -> bool {
        self.mantissa < 0
    }

    pub const fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    pub const fn is_whole(self) -> bool {
        self.scale >= 0
    }

    /// The amount as a multiple of `10^scale`, if it fits.
    fn at_scale(self, scale: i32) -> Option<i128> {
        let factor = u32::try_from(i64::from(self.scale) - i64::from(scale)).ok()?;
        self.mantissa.checked_mul(10_i128.checked_pow(factor)?)
    }
}

/// Mantissa and scale of an unsigned decimal number, rounded up to billionths; `None` if it has too many
/// digits.
fn decimal(parts: &Parts<'_>) -> Option<(i128, i32)> {
    let digits = [parts.whole, parts.fraction].concat();
    let places = i64::try_from(parts.fraction.len()).ok()?;
    let mut scale = i64::from(parts.exponent).checked_sub(places)?;
    let mut kept = digits.as_str();
    let mut is_inexact = false;
    if scale < NANO.into() {
        let below = usize::try_from(i64::from(NANO) - scale).ok()?.min(digits.len());
        let (before, behind) = digits.split_at(digits.len() - below);
        (kept, scale) = (before, NANO.into());
        is_inexact = behind.bytes().any(|digit| digit != b'0');
    }
    let significant = kept.trim_start_matches('0').trim_end_matches('0');
    let zeros = kept.len() - kept.trim_end_matches('0').len();
    if is_inexact {
        // The last digit counts, regardless of its value.
        let significant = kept.trim_start_matches('0');
        let amount = (significant.len() <= DIGITS_MAX).then(|| number(significant))??;
        return Some((amount + 1, NANO));
    }
    if significant.len() > DIGITS_MAX {
        return None;
    }
    let scale = scale.checked_add(i64::try_from(zeros).ok()?)?;
    Some((number(significant)?, i32::try_from(scale).ok()?))
}

fn number(digits: &str) -> Option<i128> {
    if digits.is_empty() {
        Some(0)
    } else {
        digits.parse().ok()
    }
}

/// Billionths of an unsigned number times a power of two, rounded up and capped.
fn binary_nanos(parts: &Parts<'_>) -> i128 {
    let unit = 1_000_000_000_i128 << parts.exponent;
    let digit = |digit: u8| i128::from(digit - b'0');
    let mut whole: i128 = 0;
    for one in parts.whole.bytes() {
        whole = (whole * 10 + digit(one)).min(BINARY_NANOS_MAX);
    }
    if whole > BINARY_NANOS_MAX / unit {
        return BINARY_NANOS_MAX;
    }
    // From the last digit to the first, each step divides the rest by ten. Rounding down at each step has the
    // same result as rounding down once.
    let (mut part, mut is_inexact) = (0, false);
    for one in parts.fraction.bytes().rev() {
        let sum = digit(one) * unit + part;
        is_inexact |= sum % 10 != 0;
        part = sum / 10;
    }
    (whole * unit + part + i128::from(is_inexact)).min(BINARY_NANOS_MAX)
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.mantissa == other.mantissa && self.scale == other.scale
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.mantissa, self.scale).hash(state);
    }
}

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
            // One of them is farther from zero than any mantissa.
            (None, _) => self.mantissa.cmp(&0),
            (_, None) => 0.cmp(&other.mantissa),
        }
    }
}

impl fmt::Display for Quantity {
    /// The canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.format == QuantityFormat::BinarySi
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
        let zeros = ["", "0", "00"][shift.unsigned_abs() as usize];
        let (mantissa, exponent) = (self.mantissa, i64::from(self.scale) - i64::from(shift));
        let suffix = DECIMAL.iter().find(|(known, _)| i64::from(*known) == exponent);
        match suffix {
            Some((_, suffix)) if self.format != QuantityFormat::DecimalExponent => {
                write!(f, "{mantissa}{zeros}{suffix}")
            }
            _ if exponent == 0 => write!(f, "{mantissa}{zeros}"),
            _ => write!(f, "{mantissa}{zeros}e{exponent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use foldhash::fast::FixedState;

    use super::*;

    /// A text and its canonical form.
    const FORMS: &str = "\
1000m 1
1500m 1500m
0.5 500m
1024Mi 1Gi
1.5Gi 1536Mi
1000Ki 1000Ki
512 512
1000 1k
0.5Ki 512
1e3 1e3
12e2 1200
100000 100k
-1.0 -1
.5 500m
0.1n 1n
-0.1n -1n
0 0
010 10
16.5Ei 9223372036854775807
-16Ei -9223372036854775807
0.0005Ki 512m
1e100 10e99
1.25e1 12500e-3
125e-12 1e-9
125e-2000000000 1e-9
0e2000000000 0
1e+2 100
999999999999999999.9999999999 1E
123456789012345678901234567890123456 123456789012345678901234567890123456
";

    #[test]
    fn quantities_have_one_form() {
        for line in FORMS.lines() {
            let (text, canonical) = line.split_once(' ').expect("two words");
            let parsed = Quantity::parse(text).expect(text);
            assert_eq!(parsed.to_string(), canonical, "{text}");
            let again = Quantity::parse(canonical).expect(canonical);
            assert_eq!((again, again.to_string()), (parsed, canonical.to_owned()));
        }
        for text in ["", " 1", "1 Gi"] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
        let long = "1234567890123456789012345678901234567";
        let bad = "- . x 1K 1.2.3 --1 1e 1e1.5 e3 Mi 1ki 1MB 1Mi1 \u{bd} 1e99999999999";
        for text in bad.split(' ').chain([long]) {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
        // What upstream shows of a text that it has read.
        for text in ["5.", "+1", "01", "1E3"] {
            assert_eq!(Quantity::canonical(text).as_deref(), Some(text));
        }
        for (text, shown) in [("1.1Ki", "1126400m"), ("1000m", "1"), ("1.0", "1")] {
            assert_eq!(Quantity::canonical(text).as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn only_a_part_of_one_changes_the_format() {
        use QuantityFormat::{BinarySi, DecimalSi};
        for (text, format) in [
            ("0Ki", BinarySi),
            ("0.0005Ki", DecimalSi),
            // One.
            ("0.0009765625Ki", BinarySi),
            ("1Ki", BinarySi),
            ("0.5", DecimalSi),
            ("1e3", QuantityFormat::DecimalExponent),
        ] {
            let parsed = Quantity::parse(text).expect(text);
            assert_eq!(parsed.format(), format, "{text}");
        }
    }

    #[test]
    fn quantities_are_compared_by_amount() {
        let parse = |text: &str| Quantity::parse(text).expect(text);
        let ordered = "-1e2000000000 -1e60 -1 0 1n 999m 1 2 10 1k 1Ki 8Ei 1e60 1e2000000000";
        for (at, one) in ordered.split(' ').enumerate() {
            for (other_at, other) in ordered.split(' ').enumerate() {
                let order = at.cmp(&other_at);
                assert_eq!(parse(one).cmp(&parse(other)), order, "{one}, {other}");
                assert_eq!(parse(one) == parse(other), order.is_eq(), "{one}, {other}");
            }
        }
        assert_eq!(parse("1"), parse("1000m"));
        let hash = |text: &str| FixedState::default().hash_one(parse(text));
        assert_eq!(hash("1Ki"), hash("1024"));
        assert_ne!(hash("1"), hash("2"));
        assert_ne!(hash("1"), hash("10"));
    }

    #[test]
    fn binary_amounts_are_exact_to_a_billionth() {
        const MAX: i128 = i64::MAX as i128 * 1_000_000_000;
        for (text, nanos) in [
            ("100Mi", 104_857_600_000_000_000),
            ("0.1Ki", 102_400_000_000),
            ("7Ei", (7 << 60) * 1_000_000_000),
            ("8Ei", MAX),
            // The most Ki that are not too many.
            ("9007199254740991Ki", 9_007_199_254_740_991 * 1024 * 1_000_000_000),
            ("1000000000000000000000000000Ei", MAX),
            ("99999999999999999999999999999999999999999999999999Ki", MAX),
            (
                "0000000000000000000000000000000000000000000000000001Ki",
                1_024_000_000_000,
            ),
            (
                "1.000000000000000000000000000000000000000000000000001Ei",
                (1 << 60) * 1_000_000_000 + 1,
            ),
        ] {
            let parsed = Quantity::parse(text).expect(text);
            assert_eq!(parsed.at_scale(NANO), Some(nanos), "{text}");
        }
    }

    #[test]
    fn the_parser_keeps_some_texts() {
        for (text, parts) in [
            ("0", Some((0, 0, true))),
            ("1.5", Some((15, -1, false))),
            ("1.501", Some((1501, -3, true))),
            ("0.501", Some((501, -3, false))),
            ("-500m", Some((-500, -3, true))),
            ("1000m", Some((1000, -3, false))),
            ("1.5m", Some((15, -4, false))),
            ("1n", Some((1, -9, true))),
            ("12k", Some((12, 3, true))),
            ("12e4", Some((12, 4, false))),
            ("012k", Some((12, 3, true))),
            ("7Ki", Some((7168, 0, true))),
            ("8Ki", Some((8192, 0, false))),
            ("-1Mi", Some((-1_048_576, 0, true))),
            ("0.5Ki", Some((512, 0, false))),
            ("12345678901Ki", Some((12_641_975_194_624, 0, true))),
            ("123456789011Ki", Some((126_419_751_947_264, 0, false))),
            ("123456789012345678", Some((123_456_789_012_345_678, 0, true))),
            ("1234567890123456789", Some((1_234_567_890_123_456_789, 0, false))),
            ("12345678901234567890", None),
            ("9Ei", None),
            ("x", None),
        ] {
            assert_eq!(Quantity::parsed_parts(text), parts, "{text}");
        }
        let amount = Quantity::parse("-1.5Mi").expect("a quantity");
        assert_eq!(
            (amount.format(), amount.is_negative(), amount.is_zero()),
            (QuantityFormat::BinarySi, true, false)
        );
        assert_eq!(
            (amount.negated().to_string(), amount.is_whole()),
            ("1536Ki".to_owned(), true)
        );
        assert!(Quantity::default().is_zero() && !Quantity::default().is_negative());
        assert!(Quantity::parse("1m").is_some_and(|amount| !amount.is_whole()));
        assert_eq!(Quantity::decimal_si(2000).to_string(), "2k");
    }

    #[test]
    fn amounts_are_rounded_and_added() {
        let parse = |text: &str| Quantity::parse(text).expect(text);
        assert_eq!(parse("1.5m").rounded_up(-3), parse("2m"));
        assert_eq!(parse("-1.5m").rounded_up(-3), parse("-2m"));
        assert_eq!(parse("95m").rounded_up(-1), parse("100m"));
        assert_eq!(parse("5").rounded_up(-3), parse("5"));
        assert_eq!(parse("0").rounded_up(3), parse("0"));
        assert_eq!(
            parse("1n").rounded_up(i32::MAX),
            Quantity::new(1, i32::MAX, QuantityFormat::DecimalSi)
        );
        assert_eq!(parse("1Ki").plus(parse("976")).to_string(), "2000");
        assert_eq!(parse("1e2000000000").plus(parse("1n")), parse("1e2000000000"));
        let doubled = |amount: Quantity| Some(amount.plus(amount));
        let mut doublings = std::iter::successors(Some(Quantity::binary_si(1 << 62)), |last| doubled(*last));
        assert_eq!(
            doublings.nth(8).map(|sum| sum.to_string()).as_deref(),
            Some("1024Ei")
        );
        assert_eq!(parse("8Ei").as_i64(), Some(i64::MAX));
        assert_eq!((parse("1500m").as_i64(), parse("1500m").as_f64()), (None, 1.5));
    }
}
