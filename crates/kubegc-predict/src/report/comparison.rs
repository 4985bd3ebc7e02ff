//! A comparison as text.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use super::names::{Name, names_of_kind};
use crate::words::{line_text, number};
use crate::{Comparison, comparison::Difference, node::units::wrapped};

impl Comparison<'_> {
    /// Writes the objects that differ, by their two fates and by kind, `objects_max` names of each, for
    /// forecasts with these names.
    #[must_use]
    pub fn to_text(&self, left: &str, right: &str, objects_max: usize) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _infallible = self.write(&mut out, [left, right], objects_max);
        out
    }

    fn write(&self, out: &mut String, names: [&str; 2], objects_max: usize) -> fmt::Result {
        let count = self.differences.len();
        let differ = if count == 1 { "differs" } else { "differ" };
        writeln!(out, "{} {differ}", number(count, "object"))?;
        let mut groups: BTreeMap<[&str; 2], Vec<&Difference<'_>>> = BTreeMap::new();
        for difference in &self.differences {
            groups.entry(difference.words()).or_default().push(difference);
        }
        for (words, differences) in groups {
            let title = format!("{}: {}, {}: {}", names[0], words[0], names[1], words[1]);
            writeln!(out, "\n{}", line_text(&title))?;
            let names: Vec<Name<'_>> = differences.iter().map(|one| Name::from(one.object)).collect();
            for of_kind in names.chunk_by(|a, b| (a.group, a.kind) == (b.group, b.kind)) {
                let text = names_of_kind(of_kind, objects_max);
                writeln!(out, "{}", wrapped("  - ", &line_text(&text)))?;
            }
        }
        Ok(())
    }
}
