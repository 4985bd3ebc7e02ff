//! A diagnosis as SARIF, the form that code scanning services read.

use std::collections::BTreeSet;

use kubegc_core::ObjectRef;
use serde_json::{Value, json};

use super::fates::sentence;
use crate::Diagnosis;

/// The rule of objects that stay terminating.
const STUCK: &str = "StuckInDeletion";

impl Diagnosis {
    /// The diagnosis as a SARIF 2.1.0 log: a result for each object that is stuck in deletion, and for each
    /// wrong owner reference. References that the dump cannot confirm are notes. Objects are logical
    /// locations, because a dump is not a source file.
    ///
    /// See the [specification](https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html).
    #[must_use]
    pub fn to_sarif(&self) -> Value {
        let stuck = self.terminating.iter().filter(|one| one.is_stuck());
        let stuck = stuck.map(|one| {
            let fixes = one.foreign_finalizers.iter().map(|finalizer| &finalizer.fix);
            let fixes: Vec<&str> = fixes.map(|fix| &*fix.command).collect();
            let message = one.bug.map_or_else(|| sentence(&one.fate), str::to_owned);
            result(STUCK, "error", &one.object, &message, &fixes)
        });
        let references = self.references.iter().map(|one| {
            let level = if one.problem.is_certain() { "error" } else { "note" };
            let name = one.reference.short();
            let message = format!("owner {name} (uid {}): {}", one.reference.uid, one.problem);
            let fixes: Vec<&str> = one.fix.iter().map(|fix| &*fix.command).collect();
            result(one.problem.word(), level, &one.object, &message, &fixes)
        });
        let results: Vec<Value> = stuck.chain(references).collect();
        let rules: BTreeSet<&str> = results
            .iter()
            .filter_map(|result| result["ruleId"].as_str())
            .collect();
        let rules: Vec<Value> = rules.iter().map(|id| json!({ "id": id })).collect();
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": {
                    "name": "kubegc",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                } },
                "results": results,
            }],
        })
    }
}

fn result(rule: &str, level: &str, object: &ObjectRef, message: &str, fixes: &[&str]) -> Value {
    json!({
        "ruleId": rule,
        "level": level,
        "message": { "text": format!("{}: {message}", object.short()) },
        "locations": [{ "logicalLocations": [{
            "name": object.name,
            "fullyQualifiedName": object.short(),
            "kind": "resource",
        }] }],
        "properties": { "uid": object.uid, "fixes": fixes },
    })
}
