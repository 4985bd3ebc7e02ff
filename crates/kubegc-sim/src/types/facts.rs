//! Facts about built-in resources, from a table.
//!
//! # Upstream
//! The strategies in `pkg/registry`, 1.20.2 to 1.36, and `AddFieldLabelConversionFunc` in
//! `pkg/apis/*/v1/conversion.go`, 1.30.

use std::sync::LazyLock;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{ApiResource, KubernetesVersion};

/// The lines of the table by plural, or by plural and group.
static TABLE: LazyLock<HashMap<&'static str, &'static str, FixedState>> = LazyLock::new(|| {
    let lines = include_str!("resources.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).collect()
});

/// The facts about one resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts(&'static str);

impl Facts {
    /// The facts about a built-in resource; none about others.
    pub(crate) fn of(resource: &ApiResource) -> Self {
        if resource.custom {
            return Self("");
        }
        let own = match &*resource.group {
            "events.k8s.io" => TABLE.get("events.events.k8s.io"),
            _ => TABLE.get(&*resource.resource),
        };
        Self(own.copied().unwrap_or_default())
    }

    /// Whether a fact holds in a release.
    pub(crate) fn has(self, fact: &str, version: KubernetesVersion) -> bool {
        let mut words = self.0.split(' ');
        words.any(|word| {
            let (name, since) = since(word);
            name == fact && version.minor() >= since
        })
    }

    /// The value of a fact in a release.
    pub(crate) fn value(self, fact: &str, version: KubernetesVersion) -> Option<&'static str> {
        let values = self
            .0
            .split(' ')
            .find_map(|word| word.strip_prefix(fact)?.strip_prefix('='))?;
        let known = values.split(',').map(since);
        let mut known = known.filter(|(_, since)| version.minor() >= *since);
        known.next_back().map(|(value, _)| value)
    }
}

/// A word, and the first minor release in which it holds.
fn since(word: &'static str) -> (&'static str, u16) {
    match word.split_once('>') {
        // The table has valid numbers only, as the test shows.
        Some((word, since)) => (word, since.parse().unwrap_or(u16::MAX)),
        None => (word, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_table_is_known() {
        const FACTS: [&str; 21] = [
            "status",
            "scale",
            "approval",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "finalize",
            "resize",
            "reset",
            "generation",
            "guarded",
            "creates",
            "unqualified",
            "names",
            "created",
            "counts",
            "updated",
            "select",
            "keepsmeta",
            "unowned",
            "key",
        ];
        for (resource, facts) in TABLE.iter() {
            for word in facts.split(' ') {
                let (name, values) = word.split_once('=').unwrap_or((word, ""));
                assert!(FACTS.contains(&since(name).0), "{resource}: {word}");
                for part in values.split(',').chain([name]) {
                    assert!(since(part).1 < 100, "{resource}: {word}");
                }
            }
        }
    }
}
