//! The differences between two forecasts, and their text.

use std::collections::BTreeMap;

use kubegc_core::ObjectRef;
use serde::Serialize;

use crate::{
    Fate, Forecast,
    words::{Lines, Name, line_text, names_of_kind, number},
};

/// The objects whose fates differ in two forecasts: of two cascades, two versions of Kubernetes, or two
/// dumps.
///
/// Objects are matched by group, kind, namespace and name.
///
/// # Examples
/// ```
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/owner_and_key.in"));
/// use kubegc_core::{DeleteOptions, PropagationPolicy};
/// let forecast = |policy| {
///     let owner = "shop/ConfigMap/owner".parse().expect("a name");
///     cluster.predict(&[Intent::delete(owner, DeleteOptions::policy(policy))])
/// };
/// let (background, orphan) = (forecast(PropagationPolicy::Background)?, forecast(PropagationPolicy::Orphan)?);
/// let comparison = background.compare(&orphan);
/// assert_eq!(comparison.differences.len(), 1);
/// assert_eq!(comparison.to_text("background", "orphan", 8), "\
/// 1 object differs
///
/// background: deleted, orphan: released
///   - secret/key -n shop
/// ");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Comparison<'a> {
    /// The differences, in the order of group, kind, namespace and name.
    pub differences: Vec<Difference<'a>>,
}

/// An object whose fates differ.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Difference<'a> {
    pub object: &'a ObjectRef,
    /// Its fate in the first forecast; `None` if it is not affected.
    pub left: Option<&'a Fate>,
    /// Its fate in the second forecast; `None` if it is not affected.
    pub right: Option<&'a Fate>,
}

impl Forecast {
    /// The objects whose fates differ in another forecast. An object that is kept in one forecast and not
    /// affected in the other does not differ, nor does a terminating object that waits for other conditions.
    ///
    /// # Complexity
    /// O(n log n) for n fates in both.
    pub fn compare<'a>(&'a self, other: &'a Self) -> Comparison<'a> {
        let mut fates: BTreeMap<Name<'_>, Difference<'_>> = BTreeMap::new();
        let left = self.fates.iter().map(|fate| (fate, true));
        for (fate, is_left) in left.chain(other.fates.iter().map(|fate| (fate, false))) {
            let found = fates.entry(Name::from(&*fate.object)).or_insert(Difference {
                object: &fate.object,
                left: None,
                right: None,
            });
            match is_left {
                true => found.left = Some(&fate.fate),
                false => found.right = Some(&fate.fate),
            }
        }
        let differences = fates.into_values().filter(|difference| {
            let [left, right] = difference.words();
            left != right
        });
        Comparison {
            differences: differences.collect(),
        }
    }
}

impl Difference<'_> {
    /// The fates in one word each.
    pub fn words(&self) -> [&'static str; 2] {
        [self.left, self.right].map(|fate| fate.map_or("kept", Fate::word))
    }
}

impl Comparison<'_> {
    /// Writes the objects that differ, by their two fates and by kind, `objects_max` names of each, for
    /// forecasts with these names.
    pub fn to_text(&self, left: &str, right: &str, objects_max: usize) -> String {
        let mut out = Lines::default();
        let count = self.differences.len();
        let differ = if count == 1 { "differs" } else { "differ" };
        out.plain(format_args!("{} {differ}", number(count, "object")));
        let mut groups: BTreeMap<[&str; 2], Vec<Name<'_>>> = BTreeMap::new();
        for difference in &self.differences {
            let names = groups.entry(difference.words()).or_default();
            names.push(Name::from(difference.object));
        }
        for (words, names) in groups {
            let title = format!("{left}: {}, {right}: {}", words[0], words[1]);
            out.plain(format_args!("\n{}", line_text(&title)));
            for of_kind in names.chunk_by(|a, b| (a.group, a.kind) == (b.group, b.kind)) {
                out.line("  - ", &names_of_kind(of_kind, objects_max));
            }
        }
        out.0
    }
}
