//! Reads a kubelet's command line: the flags that bear on garbage collection, and no others.

use std::{collections::BTreeMap, str::FromStr};

use kubegc_node::{GoDuration, PolicySpec};

use super::finding::{NodeProblem, Notes};
use crate::Place;

/// The flags that were set. A kubelet takes the last of several, and for maps all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    high_percent: Option<i32>,
    low_percent: Option<i32>,
    age_min: Option<GoDuration>,
    container_ttl: Option<GoDuration>,
    per_container_max: Option<i32>,
    node_max: Option<i32>,
    feature_gates: BTreeMap<String, bool>,
    eviction_hard: Option<BTreeMap<String, String>>,
    eviction_soft: Option<BTreeMap<String, String>>,
    eviction_soft_grace_period: Option<BTreeMap<String, GoDuration>>,
    eviction_minimum_reclaim: Option<BTreeMap<String, String>>,
    /// The image of sandboxes, by name.
    pub(crate) sandbox_image: Option<String>,
}

/// The flags that are read. Each takes a value.
const KNOWN: [&str; 12] = [
    "image-gc-high-threshold",
    "image-gc-low-threshold",
    "minimum-image-ttl-duration",
    "minimum-container-ttl-duration",
    "maximum-dead-containers-per-container",
    "maximum-dead-containers",
    "feature-gates",
    "eviction-hard",
    "eviction-soft",
    "eviction-soft-grace-period",
    "eviction-minimum-reclaim",
    "pod-infra-container-image",
];

impl Flags {
    /// Takes the words of a command line; the reason if a kubelet would not start with them.
    pub(crate) fn read<'w>(
        &mut self,
        words: impl IntoIterator<Item = &'w str>,
        place: &Place,
        notes: &mut Notes,
    ) -> Result<(), String> {
        let mut failed = None;
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if word == "--" {
                break;
            }
            let Some(flag) = word.strip_prefix("--") else {
                continue;
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (flag, None),
            };
            // As the kubelet reads its flags: underscores are dashes.
            let name = name.replace('_', "-");
            if !KNOWN.contains(&name.as_str()) {
                continue;
            }
            let set = match value.or_else(|| words.next()) {
                Some(value) => self.set(&name, value),
                None => Err("needs a value".to_owned()),
            };
            if let Err(detail) = set {
                let field = format!("--{name}");
                notes.note(NodeProblem::BadField, Some(place), "", &field, &detail);
                failed.get_or_insert(format!("{place}: {field}: {detail}"));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "image-gc-high-threshold" => self.high_percent = Some(whole(value)?),
            "image-gc-low-threshold" => self.low_percent = Some(whole(value)?),
            "minimum-image-ttl-duration" => self.age_min = Some(duration(value)?),
            "minimum-container-ttl-duration" => self.container_ttl = Some(duration(value)?),
            "maximum-dead-containers-per-container" => self.per_container_max = Some(whole(value)?),
            "maximum-dead-containers" => self.node_max = Some(whole(value)?),
            "feature-gates" => {
                for (gate, is_on) in pairs(value, '=')? {
                    let is_on =
                        truth(&is_on).ok_or_else(|| format!("{gate}={is_on:?} is neither true nor false"))?;
                    self.feature_gates.insert(gate, is_on);
                }
            }
            "eviction-hard" => extend(&mut self.eviction_hard, pairs(value, '<')?),
            "eviction-soft" => extend(&mut self.eviction_soft, pairs(value, '<')?),
            "eviction-soft-grace-period" => {
                let mut graces = Vec::new();
                for (signal, grace) in pairs(value, '=')? {
                    graces.push((signal, duration(&grace)?));
                }
                extend(&mut self.eviction_soft_grace_period, graces);
            }
            "eviction-minimum-reclaim" => extend(&mut self.eviction_minimum_reclaim, pairs(value, '=')?),
            _ => self.sandbox_image = Some(value.to_owned()),
        }
        Ok(())
    }

    /// Lays the flags over settings from a file: flags win, feature gates add up.
    pub(crate) fn apply(&self, spec: &mut PolicySpec) {
        fn over<T: Clone>(field: &mut T, flag: Option<&T>) {
            if let Some(value) = flag {
                field.clone_from(value);
            }
        }
        over(
            &mut spec.image_gc_high_threshold_percent,
            self.high_percent.as_ref(),
        );
        over(
            &mut spec.image_gc_low_threshold_percent,
            self.low_percent.as_ref(),
        );
        over(&mut spec.image_minimum_gc_age, self.age_min.as_ref());
        over(&mut spec.eviction_hard, self.eviction_hard.as_ref());
        over(&mut spec.eviction_soft, self.eviction_soft.as_ref());
        over(
            &mut spec.eviction_soft_grace_period,
            self.eviction_soft_grace_period.as_ref(),
        );
        over(
            &mut spec.eviction_minimum_reclaim,
            self.eviction_minimum_reclaim.as_ref(),
        );
        let gates = self
            .feature_gates
            .iter()
            .map(|(gate, is_on)| (gate.clone(), *is_on));
        spec.feature_gates.extend(gates);
        self.apply_to_containers(spec);
    }

    /// Lays only those flags over the settings that have no field in a configuration.
    pub(crate) fn apply_to_containers(&self, spec: &mut PolicySpec) {
        spec.minimum_container_ttl = self.container_ttl.unwrap_or(spec.minimum_container_ttl);
        spec.maximum_dead_containers_per_container = self
            .per_container_max
            .unwrap_or(spec.maximum_dead_containers_per_container);
        spec.maximum_dead_containers = self.node_max.unwrap_or(spec.maximum_dead_containers);
    }
}

fn whole(value: &str) -> Result<i32, String> {
    i32::from_str(value).map_err(|_| format!("{value:?} is not a whole number of 32 bits"))
}

fn duration(value: &str) -> Result<GoDuration, String> {
    value
        .parse()
        .map_err(|_| format!("{value:?} is not a duration such as 2m0s"))
}

/// The values that Go's `strconv.ParseBool` accepts.
fn truth(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Pairs between commas.
fn pairs(value: &str, separator: char) -> Result<Vec<(String, String)>, String> {
    let parts = value.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part
                .split_once(separator)
                .ok_or_else(|| format!("{part:?} has no {separator}"))?;
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

fn extend<T>(map: &mut Option<BTreeMap<String, T>>, pairs: Vec<(String, T)>) {
    map.get_or_insert_default().extend(pairs);
}
