//! Reads the kubelet's settings for garbage collection: its configuration file, and the running configuration
//! from `/configz`.

use std::collections::BTreeMap;

use kubegc_node::{GoDuration, PolicySpec};
use serde_json::{Map, Value};

use super::{
    fields::Entry,
    finding::{NodeProblem, Notes},
};
use crate::Place;

/// Fields by which a configuration without kind is recognised.
pub(crate) const FIELDS: [&str; 15] = [
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "imageMinimumGCAge",
    "imageMaximumGCAge",
    "imageGcHighThresholdPercent",
    "imageGcLowThresholdPercent",
    "imageMinimumGcAge",
    "imageMaximumGcAge",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMinimumReclaim",
    "featureGates",
    "podLogsDir",
    "kubeletConfig",
];

type Texts = BTreeMap<String, String>;

/// The settings that a configuration sets; `None` if it leaves them to the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) high_percent: Option<i32>,
    pub(crate) low_percent: Option<i32>,
    pub(crate) age_min: Option<GoDuration>,
    pub(crate) age_max: Option<GoDuration>,
    pub(crate) feature_gates: BTreeMap<String, bool>,
    pub(crate) pod_logs_directory: Option<String>,
    pub(crate) eviction_hard: Option<Texts>,
    pub(crate) eviction_soft: Texts,
    pub(crate) eviction_soft_grace_period: BTreeMap<String, GoDuration>,
    pub(crate) eviction_minimum_reclaim: Texts,
    /// Signals that `evictionHard` does not name keep their defaults.
    pub(crate) merge_default_eviction: bool,
}

impl Config {
    /// The settings with upstream's defaults. An unset setting gets its default, and so does a minimum age of
    /// zero. Default eviction thresholds apply only if none were set, or if merging was requested.
    pub(crate) fn to_spec(&self) -> PolicySpec {
        let default = PolicySpec::default();
        let eviction_hard = match &self.eviction_hard {
            None => default.eviction_hard.clone(),
            Some(set) if self.merge_default_eviction => {
                let mut merged = default.eviction_hard.clone();
                merged.extend(set.clone());
                merged
            }
            Some(set) => set.clone(),
        };
        PolicySpec {
            image_gc_high_threshold_percent: self
                .high_percent
                .unwrap_or(default.image_gc_high_threshold_percent),
            image_gc_low_threshold_percent: self
                .low_percent
                .unwrap_or(default.image_gc_low_threshold_percent),
            image_minimum_gc_age: self
                .age_min
                .filter(|&age| age != GoDuration::ZERO)
                .unwrap_or(default.image_minimum_gc_age),
            image_maximum_gc_age: self.age_max.unwrap_or(default.image_maximum_gc_age),
            feature_gates: self.feature_gates.clone(),
            pod_logs_directory: self
                .pod_logs_directory
                .clone()
                .filter(|path| !path.is_empty())
                .unwrap_or_else(|| default.pod_logs_directory.clone()),
            eviction_hard,
            eviction_soft: self.eviction_soft.clone(),
            eviction_soft_grace_period: self.eviction_soft_grace_period.clone(),
            eviction_minimum_reclaim: self.eviction_minimum_reclaim.clone(),
            ..default
        }
    }
}

/// Reads a configuration from a document, under a wrapper's name if it has one; the error is the reason why a
/// kubelet would refuse it.
pub(crate) fn read(
    value: &Value,
    wrapper: Option<&str>,
    place: &Place,
    notes: &mut Notes,
) -> Result<Config, String> {
    let found = wrapper.map_or(Some(value), |name| value.get(name));
    let path = wrapper.unwrap_or_default();
    match found {
        Some(Value::Object(map)) => fields(map, path, place, notes),
        _ => {
            notes.note(
                NodeProblem::MissingField,
                Some(place),
                "",
                path,
                "missing, or no map",
            );
            Err(format!("{place}: {path}: missing, or no map"))
        }
    }
}

fn fields(map: &Map<String, Value>, path: &str, place: &Place, notes: &mut Notes) -> Result<Config, String> {
    let mut entry = Entry::new(map, place, path, notes);
    let config = Config {
        high_percent: percent(
            &mut entry,
            "imageGCHighThresholdPercent",
            "imageGcHighThresholdPercent",
        ),
        low_percent: percent(
            &mut entry,
            "imageGCLowThresholdPercent",
            "imageGcLowThresholdPercent",
        ),
        age_min: age(&mut entry, "imageMinimumGCAge", "imageMinimumGcAge"),
        age_max: age(&mut entry, "imageMaximumGCAge", "imageMaximumGcAge"),
        feature_gates: gates(&mut entry),
        pod_logs_directory: entry.text(&["podLogsDir"]).map(str::to_owned),
        eviction_hard: texts(&mut entry, "evictionHard"),
        eviction_soft: texts(&mut entry, "evictionSoft").unwrap_or_default(),
        eviction_soft_grace_period: graces(&mut entry),
        eviction_minimum_reclaim: texts(&mut entry, "evictionMinimumReclaim").unwrap_or_default(),
        merge_default_eviction: entry.flag(&["mergeDefaultEvictionSettings"]).unwrap_or(false),
    };
    match entry.flaw() {
        None => Ok(config),
        Some(flaw) => Err(format!("{place}: {flaw}")),
    }
}

fn percent(entry: &mut Entry<'_, '_>, name: &str, other: &str) -> Option<i32> {
    let (one, two) = (entry.plain_number(&[name]), entry.plain_number(&[other]));
    same(entry, name, other, one, two)
}

fn age(entry: &mut Entry<'_, '_>, name: &str, other: &str) -> Option<GoDuration> {
    let (one, two) = (entry.duration(&[name]), entry.duration(&[other]));
    same(entry, name, other, one, two)
}

/// One setting in its two spellings: Kubernetes' own, and the one of GKE's API.
fn same<T: PartialEq>(
    entry: &mut Entry<'_, '_>,
    name: &str,
    other: &str,
    one: Option<T>,
    two: Option<T>,
) -> Option<T> {
    if let (Some(one), Some(two)) = (&one, &two)
        && one != two
    {
        entry.wrong(
            NodeProblem::Contradiction,
            &[name],
            &format!("{other} has another value"),
        );
    }
    one.or(two)
}

fn gates(entry: &mut Entry<'_, '_>) -> BTreeMap<String, bool> {
    let mut gates = BTreeMap::new();
    for name in entry.map(&["featureGates"]).into_iter().flat_map(Map::keys) {
        if let Some(is_on) = entry.flag(&["featureGates", name]) {
            gates.insert(name.clone(), is_on);
        }
    }
    gates
}

fn texts(entry: &mut Entry<'_, '_>, name: &str) -> Option<Texts> {
    let pairs = entry.pairs(&[name])?;
    let owned = pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    Some(owned.collect())
}

fn graces(entry: &mut Entry<'_, '_>) -> BTreeMap<String, GoDuration> {
    let name = "evictionSoftGracePeriod";
    let mut graces = BTreeMap::new();
    for (signal, text) in entry.pairs(&[name]).unwrap_or_default() {
        if let Some(grace) = entry.as_duration(&[name, signal], text) {
            graces.insert(signal.to_owned(), grace);
        }
    }
    graces
}
