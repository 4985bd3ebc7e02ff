//! Reads the kubelet's settings for garbage collection: its configuration file, and the running configuration
//! from `/configz`.

use std::collections::BTreeMap;

use kubegc_node::{
    GoDuration, PolicySpec,
    policy::{PolicyChanges, Setting, Slot},
};
use serde_json::{Map, Value};

use super::{
    fields::Entry,
    finding::{NodeProblem, Notes},
};
use crate::Place;

/// The field of GKE's API in which a node pool has its configuration.
pub(crate) const GKE_WRAPPER: &str = "kubeletConfig";

/// Whether a field shows that a document without kind is a configuration.
pub(crate) fn is_field(name: &str) -> bool {
    let mut fields = Setting::ALL.iter().filter_map(|setting| setting.field);
    name == GKE_WRAPPER || fields.any(|field| field == name || of_gke(field) == name)
}

/// The name of a field in GKE's API.
fn of_gke(field: &str) -> String {
    field.replace("GC", "Gc")
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    set: PolicyChanges,
    /// Signals that `evictionHard` does not name keep their defaults.
    merge_default_eviction: bool,
}

impl Config {
    /// The settings with upstream's defaults. An unset setting gets its default, and so does a duration of
    /// zero or an empty path. Default eviction thresholds apply only if none were set, or if merging was
    /// requested.
    pub(crate) fn to_spec(&self) -> PolicySpec {
        let mut set = self.set.clone();
        for (_, slot) in set.slots() {
            match slot {
                Slot::Duration(value) => *value = value.filter(|&age| age != GoDuration::ZERO),
                Slot::Text(value) => *value = value.take().filter(|path| !path.is_empty()),
                _ => {}
            }
        }
        let mut spec = PolicySpec::default();
        set.apply(&mut spec, self.merge_default_eviction);
        spec
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
    let mut config = Config::default();
    for (setting, slot) in config.set.slots() {
        let Some(name) = setting.field else { continue };
        match slot {
            Slot::Whole(value) => {
                *value = either(&mut entry, name, |entry, name| entry.plain_number(&[name]))
            }
            Slot::Duration(value) => *value = either(&mut entry, name, |entry, name| entry.duration(&[name])),
            Slot::Text(value) => *value = entry.text(&[name]).map(str::to_owned),
            Slot::Gates(value) => *value = gates(&mut entry, name),
            // No thresholds at all is something else than the default ones.
            Slot::Thresholds(value) if name == "evictionHard" => *value = texts(&mut entry, name),
            Slot::Thresholds(value) | Slot::Amounts(value) => {
                *value = texts(&mut entry, name).filter(|texts| !texts.is_empty());
            }
            Slot::Durations(value) => *value = durations(&mut entry, name),
        }
    }
    config.merge_default_eviction = entry.flag(&["mergeDefaultEvictionSettings"]).unwrap_or(false);
    entry.checked(config)
}

/// One setting in its two spellings: Kubernetes' own, and the one of GKE's API.
fn either<T: PartialEq>(
    entry: &mut Entry<'_, '_>,
    name: &str,
    read: impl Fn(&mut Entry<'_, '_>, &str) -> Option<T>,
) -> Option<T> {
    let other = of_gke(name);
    let (one, two) = (read(entry, name), read(entry, &other));
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

fn gates(entry: &mut Entry<'_, '_>, name: &str) -> Option<BTreeMap<String, bool>> {
    let mut gates = BTreeMap::new();
    for gate in entry.map(&[name]).into_iter().flat_map(Map::keys) {
        if let Some(is_on) = entry.flag(&[name, gate]) {
            gates.insert(gate.clone(), is_on);
        }
    }
    Some(gates).filter(|gates| !gates.is_empty())
}

fn texts(entry: &mut Entry<'_, '_>, name: &str) -> Option<BTreeMap<String, String>> {
    let pairs = entry.pairs(&[name])?;
    let owned = pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    Some(owned.collect())
}

fn durations(entry: &mut Entry<'_, '_>, name: &str) -> Option<BTreeMap<String, GoDuration>> {
    let mut durations = BTreeMap::new();
    for (signal, text) in entry.pairs(&[name]).unwrap_or_default() {
        if let Some(duration) = entry.as_duration(&[name, signal], text) {
            durations.insert(signal.to_owned(), duration);
        }
    }
    Some(durations).filter(|durations| !durations.is_empty())
}
