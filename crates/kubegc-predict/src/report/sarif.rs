//! A diagnosis as SARIF, the form that code scanning services read.

use std::collections::BTreeSet;

use kubegc_core::ObjectRef;
use serde_json::{Value, json};

use crate::Diagnosis;

impl Diagnosis {
    /// The diagnosis as a SARIF 2.1.0 log: a result for each cause that keeps objects in deletion, for each
    /// broken extension, and for each wrong owner reference. References that the dump cannot confirm are
    /// notes. Objects are logical locations, because a dump is not a source file.
    ///
    /// See the [specification](https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html).
    pub fn to_sarif(&self) -> Value {
        let causes = self.causes.iter().filter(|cause| !cause.is_recent);
        let causes = causes.filter_map(|one| {
            let blocked = one.blocks.iter().map(|blocked| &blocked.object);
            let object = one.objects.iter().chain(blocked).next()?;
            let level = if one.blocks.is_empty() { "warning" } else { "error" };
            let fixes: Vec<&str> = one.fixes.iter().map(|fix| &*fix.command).collect();
            Some(result(one.cause, level, object, &one.message, &fixes))
        });
        let references = self.references.iter().map(|one| {
            let level = if one.is_certain { "error" } else { "note" };
            let name = one.reference.short();
            let message = format!("owner {name} (uid {}): {}", one.reference.uid, one.message);
            let fixes: Vec<&str> = one.fix.iter().map(|fix| &*fix.command).collect();
            result(one.problem, level, &one.object, &message, &fixes)
        });
        let results: Vec<Value> = causes.chain(references).collect();
        let rules = results.iter().filter_map(|result| result["ruleId"].as_str());
        let rules: BTreeSet<&str> = rules.collect();
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
