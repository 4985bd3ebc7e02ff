//! Reads a kubelet's command line: the flags that bear on garbage collection, and no others.

use std::{collections::BTreeMap, str::FromStr};

use kubegc_node::{
    GoDuration, PolicySpec,
    policy::{PolicyChanges, Setting, Slot},
};

use super::finding::{NodeProblem, Notes};
use crate::Place;

/// The flags that were set. A kubelet takes the last of several, and for maps all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    set: PolicyChanges,
    /// The image of sandboxes, by name.
    pub(crate) sandbox_image: Option<String>,
}

/// The flag that names the image of sandboxes.
const SANDBOX_IMAGE: &str = "pod-infra-container-image";

/// Whether a flag is read. Each such flag takes a value.
fn is_known(name: &str) -> bool {
    name == SANDBOX_IMAGE || Setting::ALL.iter().any(|setting| setting.flag == Some(name))
}

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
            if !is_known(&name) {
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
        let slot = self
            .set
            .slots()
            .find_map(|(setting, slot)| (setting.flag == Some(name)).then_some(slot));
        match slot {
            None => self.sandbox_image = Some(value.to_owned()),
            Some(Slot::Whole(to)) => *to = Some(whole(value)?),
            Some(Slot::Duration(to)) => *to = Some(duration(value)?),
            Some(Slot::Text(to)) => *to = Some(value.to_owned()),
            Some(Slot::Gates(to)) => {
                extend(to, pairs(value, '=')?, |gate, is_on| {
                    truth(is_on).ok_or_else(|| format!("{gate}={is_on:?} is neither true nor false"))
                })?;
            }
            Some(Slot::Thresholds(to)) => extend(to, pairs(value, '<')?, |_, amount| Ok(amount.to_owned()))?,
            Some(Slot::Amounts(to)) => extend(to, pairs(value, '=')?, |_, amount| Ok(amount.to_owned()))?,
            Some(Slot::Durations(to)) => extend(to, pairs(value, '=')?, |_, text| duration(text))?,
        }
        Ok(())
    }

    /// Lays the flags over settings from a file: flags win, feature gates add up.
    pub(crate) fn apply(&self, spec: &mut PolicySpec) {
        let gates = std::mem::take(&mut spec.feature_gates);
        self.set.apply(spec, false);
        for (gate, is_on) in gates {
            spec.feature_gates.entry(gate).or_insert(is_on);
        }
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
fn pairs(value: &str, separator: char) -> Result<Vec<(&str, &str)>, String> {
    let parts = value.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part
                .split_once(separator)
                .ok_or_else(|| format!("{part:?} has no {separator}"))?;
            Ok((key.trim(), value.trim()))
        })
        .collect()
}

fn extend<T>(
    map: &mut Option<BTreeMap<String, T>>,
    pairs: Vec<(&str, &str)>,
    parse: impl Fn(&str, &str) -> Result<T, String>,
) -> Result<(), String> {
    let map = map.get_or_insert_default();
    for (key, text) in pairs {
        map.insert(key.to_owned(), parse(key, text)?);
    }
    Ok(())
}
