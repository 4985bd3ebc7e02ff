//! Owners of fields: reads, changes and writes `metadata.managedFields`, and refuses conflicts between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    compare::{Comparison, set_of},
    dialect::{FIELDS_FOLLOW_SCHEMAS, OWNED_VALUES_STAY_WHOLE, Place},
    element::{Element, shown},
    field_set::FieldSet,
};
use crate::status::{self, Cause, Details, Refusal, quoted};

/// The operation by which a manager got its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

/// The manager of fields. The same name with another operation or another version is another manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manager {
    #[serde(default, rename = "manager")]
    pub(super) name: String,
    pub(super) operation: Operation,
    #[serde(default)]
    pub(super) api_version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) subresource: String,
}

impl Manager {
    /// Whether both are the same manager. For applies, the version does not count.
    fn is(&self, other: &Self) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    fn shown(&self) -> String {
        let mut text = quoted(&self.name);
        if !self.subresource.is_empty() {
            text.push_str(" with subresource ");
            text.push_str(&quoted(&self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(" using ");
            text.push_str(&self.api_version);
        }
        text
    }
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(flatten)]
    manager: Manager,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    fields_type: FieldsType,
    #[serde(default, rename = "fieldsV1")]
    fields: FieldSet,
}

impl Entry {
    fn new(manager: &Manager, fields: FieldSet) -> Self {
        Self {
            manager: manager.clone(),
            time: None,
            fields_type: FieldsType::FieldsV1,
            fields,
        }
    }
}

/// The only form of field sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum FieldsType {
    FieldsV1,
}

/// The managers of an object, each with at least one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Managers(Vec<Entry>);

impl Managers {
    /// Reads the JSON form; `None` where it is not one.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let mut managers = Self::default();
        for entry in Vec::<Entry>::deserialize(value).ok()? {
            // Of several entries of one manager, the last one counts.
            managers.0.retain(|other| !other.manager.is(&entry.manager));
            managers.0.push(entry);
        }
        Some(managers)
    }

    /// The JSON form, in upstream's order: applies first, then by time and name.
    pub(super) fn to_json(&self) -> Value {
        let mut entries: Vec<&Entry> = self.0.iter().collect();
        entries.sort_by_key(|entry| {
            let Entry { manager, time, .. } = entry;
            // RFC 3339 in UTC and of one precision: the order of the texts is that of the times.
            (
                manager.operation,
                time,
                &manager.name,
                &manager.api_version,
                &manager.subresource,
            )
        });
        json!(entries)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All fields that any manager owns.
    pub(super) fn owned(&self) -> FieldSet {
        let mut owned = FieldSet::default();
        for entry in &self.0 {
            owned.add(&entry.fields);
        }
        owned
    }

    /// Replaces the field set of a manager and returns the previous one.
    pub(super) fn put(&mut self, manager: &Manager, fields: FieldSet) -> FieldSet {
        match self.0.iter_mut().find(|entry| entry.manager.is(manager)) {
            Some(entry) => {
                entry.manager.api_version.clone_from(&manager.api_version);
                std::mem::replace(&mut entry.fields, fields)
            }
            None => {
                self.0.push(Entry::new(manager, fields));
                FieldSet::default()
            }
        }
    }

    /// Changes the owned fields as the types have changed since they were written: what became atomic is
    /// owned as a whole, and what became a map or list of parts is owned with the parts that the live object
    /// has. Managers of other API versions are skipped.
    ///
    /// # Upstream
    /// [`ReconcileFieldSetWithSchema`](https://github.com/kubernetes-sigs/structured-merge-diff/blob/v4.0.2/typed/reconcile_schema.go).
    pub(super) fn follow_schema(&mut self, live: &Value, place: Place<'_>) {
        let version = live.get("apiVersion").and_then(Value::as_str);
        let (Some(version), true) = (version, place.types && place.has(FIELDS_FOLLOW_SCHEMAS)) else {
            return;
        };
        // Fields of an object whose lists have no usable keys are retained.
        let parts = (!place.has(OWNED_VALUES_STAY_WHOLE)).then(|| set_of(live, place).unwrap_or_default());
        let is_of_version = |entry: &&mut Entry| entry.manager.api_version == version;
        for entry in self.0.iter_mut().filter(is_of_version) {
            entry.fields.follow_schema(parts.as_ref(), place);
        }
    }

    /// Records when a manager last changed something. Owners of a scale are passed on without times.
    ///
    /// # Upstream
    /// `ToParent` in
    /// [`scalehandler.go`](https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/util/managedfields/scalehandler.go).
    pub(super) fn touch(&mut self, manager: &Manager, time: &str) {
        if manager.subresource == "scale" {
            return;
        }
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.manager.is(manager)) {
            entry.time = Some(time.to_owned());
        }
    }

    /// Passes the owners of the replicas through a scale: each gets an entry of its own for them.
    ///
    /// # Upstream
    /// `ToSubresource` and `ToParent` in
    /// [`scalehandler.go`](https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/util/managedfields/scalehandler.go).
    pub(super) fn pass_through_scale(&mut self, replicas: &[Element]) {
        let mut path = FieldSet::default();
        path.insert(replicas);
        let mut passed = Vec::new();
        for entry in &mut self.0 {
            // The version of a scale makes another manager, except of one that applies.
            if entry.manager.operation == Operation::Update && !entry.fields.shared(&path).is_empty() {
                entry.fields.remove(replicas);
                passed.push(Entry::new(&entry.manager, path.clone()));
            }
        }
        self.0.retain(|entry| !entry.fields.is_empty());
        self.0.extend(passed);
    }

    /// The changes to fields that other managers own.
    pub(super) fn conflicts(&self, manager: &Manager, comparison: &Comparison) -> Vec<Conflict> {
        let mut changed = comparison.modified.clone();
        changed.add(&comparison.added);
        let others = self.0.iter().filter(|entry| !entry.manager.is(manager));
        others
            .flat_map(|entry| {
                let paths = entry.fields.shared(&changed).paths();
                paths.into_iter().map(|path| Conflict {
                    manager: entry.manager.clone(),
                    path,
                })
            })
            .collect()
    }

    /// Removes the changed fields from the other managers, and the removed fields from all managers. A
    /// manager without fields is dropped.
    ///
    /// # Upstream
    /// `Updater.update` in `structured-merge-diff/v4/merge/update.go`, v4.4.
    pub(super) fn follow(&mut self, manager: Option<&Manager>, comparison: &Comparison) {
        for entry in &mut self.0 {
            if manager.is_some_and(|manager| entry.manager.is(manager)) {
                continue;
            }
            entry.fields = entry.fields.without(&comparison.modified);
            entry.fields = entry.fields.without(&comparison.added);
            entry.fields = entry.fields.without(&comparison.removed);
        }
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Adds the fields that a manager wrote to the fields that it owns.
    pub(super) fn give(&mut self, manager: &Manager, fields: &FieldSet, time: &str) {
        if fields.is_empty() {
            return;
        }
        let mut all = self.put(manager, FieldSet::default());
        all.add(fields);
        self.put(manager, all);
        self.touch(manager, time);
    }
}

/// One field that another manager owns and that the configuration would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) manager: Manager,
    pub(super) path: Vec<Element>,
}

/// The refusal of an apply.
///
/// # Upstream
/// `NewConflictError` in `apimachinery/pkg/util/managedfields/internal/conflict.go`, 1.30.
pub(super) fn refusal(conflicts: &[Conflict]) -> Refusal {
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict",
        field: shown(&conflict.path),
        message: format!("conflict with {}", conflict.manager.shown()),
    });
    let message = match conflicts {
        [only] => format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            only.manager.shown(),
            shown(&only.path)
        ),
        _ => {
            let mut fields = BTreeMap::<String, String>::new();
            for Conflict { manager, path } in conflicts {
                let shown = shown(path);
                *fields.entry(manager.shown()).or_default() += &format!("\n- {shown}");
            }
            let lines = fields.into_iter();
            let lines = lines.map(|(manager, fields)| format!("conflicts with {manager}:{fields}"));
            let lines = Vec::from_iter(lines).join("\n");
            format!("Apply failed with {} conflicts: {lines}", conflicts.len())
        }
    };
    let details = Details::default().with_causes(causes.collect());
    status::refusal(409, "Conflict", message, details)
}
