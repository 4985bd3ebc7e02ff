//! A forecast as a DOT graph: owners above their dependents, coloured by fate.

use std::collections::BTreeMap;

use kubegc_core::Uid;

use crate::{Fate, Forecast, lines::line_text};

impl Forecast {
    /// The affected objects and their references, coloured by fate.
    ///
    /// # Complexity
    /// O(o log o + r) for o objects with r references.
    pub fn to_dot(&self) -> String {
        let mut out = String::from("digraph forecast {\n  rankdir=BT;\n  node [shape=box, style=filled];\n");
        let uids = self.fates.iter().map(|fate| &fate.object.uid);
        let numbers: BTreeMap<&Uid, usize> = uids.zip(0..).collect();
        for (at, fate) in self.fates.iter().enumerate() {
            let label = format!("{}\\n{}", escape(&fate.object.short()), fate.fate.word());
            let colour = colour(&fate.fate);
            out.push_str(&format!("  n{at} [label=\"{label}\", fillcolor=\"{colour}\"];\n"));
        }
        for (at, fate) in self.fates.iter().enumerate() {
            for reference in fate.before().owner_references() {
                let Some(owner) = numbers.get(&reference.uid) else {
                    continue;
                };
                let style = match reference.is_blocking() {
                    true => "solid",
                    false => "dashed",
                };
                out.push_str(&format!("  n{at} -> n{owner} [style={style}];\n"));
            }
        }
        out.push_str("}\n");
        out
    }
}

const fn colour(fate: &Fate) -> &'static str {
    match fate {
        Fate::Deleted { .. } => "#f4b6b6",
        Fate::Kept => "#cfe8cf",
        Fate::Released { .. } => "#cfe0f4",
        Fate::Terminating { .. } => "#f7dca0",
        Fate::Undetermined { .. } => "#dddddd",
    }
}

fn escape(text: &str) -> String {
    line_text(text).replace('\\', "\\\\").replace('"', "\\\"")
}
