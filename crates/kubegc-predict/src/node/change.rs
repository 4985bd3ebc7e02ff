//! Parses a change of a node: one setting of its policy, or the growth rate of its disk.

use std::{collections::BTreeMap, fmt, str::FromStr};

use kubegc_core::FieldError;
use kubegc_node::{
    GoDuration, PolicySpec,
    policy::{PolicyChanges, Slot},
};

/// One setting of a node's policy, changed: `imageGCHighThresholdPercent=70`,
/// `evictionHard.imagefs.available=5%`.
///
/// Settings are named by their field of the kubelet's configuration, or by their flag without leading dashes.
/// [`Policy::new`](kubegc_node::Policy::new) checks whether the settings are consistent. Zero means zero,
/// although a configuration file cannot express it for `imageMinimumGCAge`.
///
/// # Examples
/// ```
/// use kubegc_node::PolicySpec;
/// use kubegc_predict::node::Change;
/// let change: Change = "imageMaximumGCAge=168h".parse()?;
/// let spec = change.apply(&PolicySpec::default());
/// assert_eq!(spec.image_maximum_gc_age.to_string(), "168h0m0s");
/// assert!("imageMaximumGCAge=a week".parse::<Change>().is_err());
/// assert!("imageMaximumAge=168h".parse::<Change>().is_err());
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    text: String,
    set: PolicyChanges,
}

impl Change {
    /// The settings with this one changed.
    pub fn apply(&self, spec: &PolicySpec) -> PolicySpec {
        let mut spec = spec.clone();
        self.set.apply(&mut spec, true);
        spec
    }
}

impl FromStr for Change {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| FieldError::invalid("change", text, "not of the form setting=value"))?;
        let duration = || parsed::<GoDuration>(key, value, "not a duration such as 2m0s or 168h");
        let mut set = PolicyChanges::default();
        // A key of a map follows the map's name: `evictionHard.imagefs.available`.
        let (name, entry) = match key.split_once('.') {
            Some((name, entry)) => (name, Some(entry.to_owned())),
            None => (key, None),
        };
        let slot = set.slots().find(|(setting, _)| {
            setting.field == Some(name) || (entry.is_none() && setting.flag == Some(name))
        });
        match (slot.map(|(_, slot)| slot), entry) {
            (Some(Slot::Whole(to)), None) => *to = Some(parsed(key, value, "not a whole number")?),
            (Some(Slot::Duration(to)), None) => *to = Some(duration()?),
            (Some(Slot::Gates(to)), Some(gate)) => {
                let is_on = parsed(key, value, "not true or false")?;
                *to = Some(BTreeMap::from([(gate, is_on)]));
            }
            (Some(Slot::Thresholds(to) | Slot::Amounts(to)), Some(signal)) => {
                *to = Some(BTreeMap::from([(signal, value.to_owned())]));
            }
            (Some(Slot::Durations(to)), Some(signal)) => {
                *to = Some(BTreeMap::from([(signal, duration()?)]));
            }
            _ => {
                return Err(FieldError::NotSupported {
                    field: "change".to_owned(),
                    value: key.to_owned(),
                    supported: changeable(),
                });
            }
        }
        Ok(Self {
            text: text.to_owned(),
            set,
        })
    }
}

fn parsed<T: FromStr>(key: &str, value: &str, problem: &'static str) -> Result<T, FieldError> {
    value
        .parse()
        .map_err(|_| FieldError::invalid(key, value, problem))
}

/// The settings that can be changed: all but the directory of logs.
fn changeable() -> Vec<&'static str> {
    let mut all = PolicyChanges::default();
    let changeable = all.slots().filter(|(_, slot)| !matches!(slot, Slot::Text(_)));
    changeable.map(|(setting, _)| setting.name).collect()
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Growth rate of a disk, as the user writes it: `2GB/h`, `500MB/d`, `1.5GiB/h`.
///
/// # Examples
/// ```
/// use kubegc_predict::node::Growth;
/// assert_eq!("2GB/h".parse(), Ok(Growth { bytes_per_hour: 2_000_000_000 }));
/// assert_eq!("12GiB/d".parse(), Ok(Growth { bytes_per_hour: 512 << 20 }));
/// assert!("2GB".parse::<Growth>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Growth {
    /// Bytes an hour, rounded down.
    pub bytes_per_hour: u64,
}

impl FromStr for Growth {
    type Err = FieldError;

    /// Reads digits with at most one point, a unit (`B kB MB GB TB` by thousands, `KiB MiB GiB TiB` by 1024,
    /// the `B` may be left out), and `/min`, `/h` or `/d`.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        let expected = "not an amount per time such as 2GB/h or 500MB/d";
        let bytes_per_hour = growth(text).ok_or_else(|| FieldError::invalid("growth", text, expected))?;
        Ok(Self { bytes_per_hour })
    }
}

/// Digits after the point that count.
const DECIMALS_MAX: usize = 9;

fn growth(text: &str) -> Option<u64> {
    let (amount, period) = text.split_once('/')?;
    let (hours, parts_of_hour) = match period {
        "min" => (1_u128, 60_u128),
        "h" => (1, 1),
        "d" => (24, 1),
        _ => return None,
    };
    let unit = amount.trim_start_matches(|at: char| at.is_ascii_digit() || at == '.');
    let number = &amount[..amount.len() - unit.len()];
    let unit = unit.trim();
    let unit: u128 = match unit.strip_suffix('B').unwrap_or(unit) {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || part.len() > DECIMALS_MAX || part.contains('.') {
        return None;
    }
    // At most 64 bits times 2^40, and nine more digits: below 2^127 together.
    let whole = u128::from(whole.parse::<u64>().ok()?);
    let part: u128 = format!("{part:0<DECIMALS_MAX$}").parse().ok()?;
    let bytes = whole * unit + part * unit / 1_000_000_000;
    u64::try_from(bytes.checked_mul(parts_of_hour)? / hours).ok()
}
