//! Custom resources under the schemas of their definition: decoding, validation, storage version and
//! conversion to served versions.
//!
//! # Upstream
//! `pkg/apiserver/customresource_handler.go` and `pkg/registry/customresource` in `apiextensions-apiserver`,
//! 1.20.2.

use std::sync::Arc;

use kubegc_core::{Behavior, KindId};
use serde_json::Value;

#[cfg(feature = "cel")]
use super::cel;
use super::{instance, openapi, scale, schema, set_condition, storage_version};
use crate::{
    Manifest, StoredObject,
    api_server::{
        ApiServer, EventType,
        write::{Part, Write},
    },
    go,
    status::{self, Cause, Refusal, Result, Status},
    types::{self, field::At},
};

/// Missing fields of embedded objects are required without a word.
const EMBEDDED_IS_REQUIRED: Behavior = Behavior::since(34, 0, "kubernetes #132472");

const STATUS_IS_VALIDATED_ALONE: Behavior = Behavior::since(28, 0, "ValidateStatusUpdate of 1.28");
/// Its problems have paths from the root.
const STATUS_HAS_A_PATH: Behavior = Behavior::since(31, 0, "ValidateStatusUpdate of 1.31");

const REPLICAS_MAX: i64 = i32::MAX as i64;

impl ApiServer {
    /// Whether objects of a custom kind are decoded by the schema in its definition.
    pub(crate) fn is_decoded_by_schema(&self, kind: KindId) -> bool {
        let definition = self.definition(kind).filter(|_| self.settings.types);
        definition.is_some_and(|definition| definition.body.is_some())
    }

    /// Decodes a custom resource by the schema of its version: pruned, and with defaults. The result of an
    /// apply only gets defaults.
    ///
    /// # Errors
    /// Names the field with a value of the wrong type.
    pub(crate) fn decode_custom(
        &self,
        kind: KindId,
        mut object: Value,
        is_applied: bool,
    ) -> Result<StoredObject, String> {
        if !is_applied {
            whole_numbers(&mut object);
            if let Some(metadata) = object.get_mut("metadata") {
                *metadata = types::decoded_metadata(metadata.take(), self.version)?;
            }
        }
        let mut object = Manifest::read(object).map_err(|error| error.to_string())?.object;
        if let Some(schema) = self.schema_of(kind, &self.resource(kind).version) {
            change_fields(&mut object, |fields| {
                if !is_applied {
                    instance::prune(fields, schema);
                    instance::coerce(fields, schema, self.version)?;
                }
                instance::fill(fields, schema);
                Ok::<_, String>(())
            })?;
        }
        object.tidy();
        Ok(object)
    }

    /// The schema by which objects that are sent to a kind's URL are pruned.
    pub(crate) fn pruning_schema(&self, kind: KindId) -> Option<&Value> {
        self.schema_of(kind, &self.resource(kind).version)
            .filter(|_| self.is_decoded_by_schema(kind))
    }

    /// The schema of a version of a custom kind, if it prunes or completes objects. Without it, they are
    /// stored as they were sent.
    fn schema_of(&self, kind: KindId, version: &str) -> Option<&Value> {
        let definition = self.definition(kind)?;
        let preserves = definition.at(&["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true));
        schema(definition, version).filter(|schema| !preserves && has_effect(schema))
    }

    /// The problems of a custom resource that is to be written, except those of metadata.
    pub(crate) fn custom_problems(&self, write: Write<'_>) -> Vec<Cause> {
        let Write { part, old, .. } = write;
        let mut causes = Vec::new();
        let resource = self.resource(write.kind);
        let Some(definition) = self.definition(write.kind) else {
            return causes;
        };
        let scale = scale(definition, &resource.version);
        let schema = schema(definition, &resource.version).filter(|schema| has_effect(schema));
        if scale.is_none() && schema.is_none() {
            return causes;
        }
        // Schemas do not restrict `managedFields`, and rules cannot read them.
        let whole = write.new.to_json_without_managers(resource);
        let old_whole = |old: &StoredObject| old.to_json_without_managers(resource);
        if let Some(schema) = schema {
            causes.extend(self.schema_problems(&whole, old.is_some() && part == Part::Status, schema));
        }
        if let (Some(old), Some(schema)) = (old, schema)
            && !causes.is_empty()
            && self.version.has(instance::UNCHANGED_VALUES_MAY_STAY)
        {
            instance::retain_changed(&mut causes, &whole, &old_whole(old), schema);
        }
        if let Some(scale) = scale {
            let sets_replicas = matches!(part, Part::Whole | Part::Scale) || old.is_none();
            let paths = ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"];
            for key in paths.into_iter().skip(usize::from(!sets_replicas)) {
                let Some(path) = scale[key].as_str() else {
                    continue;
                };
                let problem = scale_problem(&whole, path, key == "labelSelectorPath");
                causes.extend(problem.map(|(shown, problem)| Cause::invalid(path, &shown, &problem)));
            }
        }
        if let Some(schema) = schema.filter(|_| part != Part::Status) {
            instance::embedded_problems(At::of_object(&whole), schema, &mut causes);
            let is_bare = self.version.has(EMBEDDED_IS_REQUIRED);
            for cause in causes.iter_mut().filter(|_| is_bare) {
                if cause.reason == "FieldValueRequired" {
                    "Required value".clone_into(&mut cause.message);
                }
            }
            let repeated = instance::duplicates(&whole, schema, self.version);
            let before = old.filter(|_| !repeated.is_empty()).map(old_whole);
            // Existing duplicates may remain.
            if before.is_none_or(|before| instance::duplicates(&before, schema, self.version).is_empty()) {
                causes.extend(repeated);
            }
        }
        #[cfg(feature = "cel")]
        if let Some(schema) = schema.filter(|schema| cel::has_rules(schema)) {
            let old = old.map(old_whole);
            self.rules().instance(&whole, old.as_ref(), schema, &mut causes);
        }
        causes
    }

    /// The problems of an object, or of its status alone.
    fn schema_problems(&self, whole: &Value, is_status: bool, schema: &Value) -> Vec<Cause> {
        if !is_status || !self.version.has(STATUS_IS_VALIDATED_ALONE) {
            return openapi::problems("", whole, schema, self.version);
        }
        let path = match self.version.has(STATUS_HAS_A_PATH) {
            true => "status",
            false => "",
        };
        match (whole.get("status"), schema.pointer("/properties/status")) {
            (Some(status), Some(schema)) => openapi::problems(path, status, schema, self.version),
            _ => Vec::new(),
        }
    }

    /// The CEL engine for this release.
    #[cfg(feature = "cel")]
    pub(crate) fn rules(&self) -> cel::Engine<'_> {
        cel::Engine {
            programs: &self.programs,
            version: self.version,
        }
    }

    /// Converts a custom resource to the storage version.
    ///
    /// # Errors
    /// 500 if a webhook does not convert it.
    pub(crate) fn to_stored_version(&self, kind: KindId, object: &mut StoredObject) -> Result<()> {
        let Some(definition) = self.definition(kind) else {
            return Ok(());
        };
        let (stored, sent) = (storage_version(definition), &*self.resource(kind).version);
        if stored == sent {
            return Ok(());
        }
        if self.is_decoded_by_schema(kind) {
            self.convert_custom(kind, definition, object, sent, stored)?;
        }
        if let Some(schema) = self.schema_of(kind, stored) {
            change_fields(object, |fields| instance::prune(fields, schema));
        }
        Ok(())
    }

    /// A stored object as a version of the API shows it. Custom resources are pruned, get the defaults of the
    /// storage version, and are converted by the [converter](Self::set_converter) of their definition.
    ///
    /// # Errors
    /// 500 if a webhook does not convert it.
    ///
    /// # Complexity
    /// Linear in the size of a custom resource and its schema; constant for other objects.
    pub fn shown(&self, kind: KindId, object: &Arc<StoredObject>) -> Result<Arc<StoredObject>, Box<Status>> {
        let is_converted = |_: &&Arc<_>| self.is_decoded_by_schema(kind) && object.body.is_some();
        let Some(definition) = self.definition(kind).filter(is_converted) else {
            return Ok(Arc::clone(object));
        };
        let (stored, version) = (storage_version(definition), &*self.resource(kind).version);
        if stored == version && self.schema_of(kind, stored).is_none() {
            return Ok(Arc::clone(object));
        }
        let mut shown = StoredObject::clone(object);
        if let Some(schema) = self.schema_of(kind, stored) {
            change_fields(&mut shown, |fields| {
                instance::prune(fields, schema);
                instance::fill(fields, schema);
            });
        }
        if stored != version {
            self.convert_custom(kind, definition, &mut shown, stored, version)?;
            if let Some(schema) = self.schema_of(kind, version) {
                change_fields(&mut shown, |fields| instance::prune(fields, schema));
            }
        }
        shown.tidy();
        Ok(if shown == **object {
            Arc::clone(object)
        } else {
            Arc::new(shown)
        })
    }

    /// Serves the kinds of a definition that was created or changed, and records it in its status, as the
    /// controllers of the API server do right after the write.
    pub(crate) fn accept_names(&mut self, kind: KindId, stored: &Arc<StoredObject>) {
        let mut object = StoredObject::clone(stored);
        if stored.condition("Established")["status"].is_null() {
            super::serve(self, &mut object);
        } else if super::is_established(stored) {
            let names = stored.at(&["spec", "names"]).cloned().unwrap_or(Value::Null);
            if stored.at(&["status", "acceptedNames"]) != Some(&names)
                && let Some(Value::Object(status)) = object.body_mut().get_mut("status")
            {
                status.insert("acceptedNames".to_owned(), names);
                set_condition(&mut object, "NamesAccepted", true, "NoConflicts", self.now);
            }
        }
        object.tidy();
        if !object.equals(stored) {
            let former = std::mem::replace(&mut self.field_manager, "kube-apiserver".into());
            object.managers = self.tracked(kind, Some(stored), &object, Part::Status);
            self.field_manager = former;
            self.commit(kind, object, EventType::Modified);
        }
    }

    /// Refuses an object whose `kind` is another one.
    pub(crate) fn refuse_other_kind(&self, kind: KindId, name: &str, sent: &str) -> Refusal {
        let resource = self.resource(kind);
        let problem = format!("must be {}", resource.kind);
        let cause = Cause::invalid("kind", &status::quoted(sent), &problem);
        let mut named = resource.clone();
        named.kind = sent.into();
        status::invalid(self.version, &named, name, vec![cause])
    }
}

/// Sets the initial status of a new definition.
pub(crate) fn set_initial_status(object: &mut StoredObject) {
    let stored: Vec<Value> = stored_version(object).into_iter().collect();
    let status = serde_json::json!({
        "acceptedNames": {"kind": "", "plural": ""},
        "conditions": null,
        "storedVersions": stored,
    });
    object.body_mut().insert("status".to_owned(), status);
}

/// Adds the storage version to the stored versions of the status.
pub(crate) fn add_stored_version(object: &mut StoredObject) {
    let Some(version) = stored_version(object) else {
        return;
    };
    let versions = object
        .body_mut()
        .get_mut("status")
        .and_then(|status| status.get_mut("storedVersions"));
    if let Some(Value::Array(versions)) = versions
        && !versions.contains(&version)
    {
        versions.push(version);
    }
}

fn stored_version(object: &StoredObject) -> Option<Value> {
    let version = storage_version(object);
    (!version.is_empty()).then(|| version.into())
}

/// Whether a schema prunes, completes or restricts objects: all do but those that preserve every field.
fn has_effect(schema: &Value) -> bool {
    const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";
    let is_plain = |key: &String| matches!(key.as_str(), "type" | "description" | "title" | PRESERVES);
    let fields = schema.as_object();
    !fields.is_some_and(|fields| fields.keys().all(is_plain) && fields.get(PRESERVES) == Some(&true.into()))
}

/// Changes the fields of an object other than its metadata.
fn change_fields<T>(object: &mut StoredObject, change: impl FnOnce(&mut Value) -> T) -> T {
    let body = object.body_mut();
    let metadata = body.remove("metadata");
    let mut fields = Value::Object(std::mem::take(body));
    let result = change(&mut fields);
    if let Value::Object(fields) = fields {
        *body = fields;
    }
    body.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
    result
}

/// Stores numbers without a fractional part as integers. Depth is bounded by the parser that read the value.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            // Below 2^53 every whole number has one form.
            if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 {
                *number = (float as i64).into();
            }
        }
        _ => {}
    }
}

/// The value at a path such as `.spec.replicas`.
fn at<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let (mut value, mut read) = (object, String::new());
    for part in path.trim_start_matches('.').split('.') {
        read = format!("{read}.{part}");
        let Value::Object(fields) = value else {
            return Err(mistyped(&read, value, "map[string]interface{}"));
        };
        match fields.get(part) {
            None => return Ok(None),
            Some(below) => value = below,
        }
    }
    Ok(Some(value))
}

/// The error message for a value of the wrong type at a path.
fn mistyped(path: &str, value: &Value, expected: &str) -> String {
    let (printed, found) = (go::printed(value), go::type_name(value));
    format!("{path} accessor error: {printed} is of the type {found}, expected {expected}")
}

/// The problem of the number or the text at a path of a scale, and the value with it.
fn scale_problem(object: &Value, path: &str, is_text: bool) -> Option<(String, String)> {
    let shown = if is_text { "\"\"" } else { "0" }.to_owned();
    match at(object, path) {
        Err(problem) => Some((shown, problem)),
        Ok(None) => None,
        Ok(Some(Value::String(_))) if is_text => None,
        Ok(Some(value)) if is_text => Some((shown, mistyped(path, value, "string"))),
        Ok(Some(value)) => match value.as_i64() {
            None => Some((shown, mistyped(path, value, "int64"))),
            Some(..0) => Some((value.to_string(), "should be a non-negative integer".to_owned())),
            Some(count) => (count > REPLICAS_MAX).then(|| {
                let problem = format!("should be less than or equal to {REPLICAS_MAX}");
                (count.to_string(), problem)
            }),
        },
    }
}
