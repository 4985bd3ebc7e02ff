//! The `scale` subresource: reads a scale from an object, and writes it back.
//!
//! # Upstream
//! `ScaleREST` in `pkg/registry/apps/*/storage` and in `apiextensions-apiserver/pkg/registry/customresource`,
//! 1.30.

use std::sync::Arc;

use kubegc_core::{ApiResource, KindId, KubernetesVersion, ObjectMeta, Scope, identity::split_api_version};
use serde_json::{Map, Value, json};

use super::ApiServer;
use crate::{
    Manifest, StoredObject,
    api_server::{Key, Response, apply::ApplyOptions, crd, write::Part},
    label_selector,
    object::put_meta,
    status::{self, Cause, Result},
    types::node::Node,
};

/// Group and version of a scale, and its kind.
pub(super) const API_VERSION: &str = "autoscaling/v1";
pub(super) const KIND: &str = "Scale";

/// The maximum length of a path to a number. Users set paths, and writes nest values as deeply.
const STEPS_MAX: usize = 100;

/// The paths of an object's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    pub(crate) wanted: Vec<String>,
    present: Vec<String>,
    /// The path of a custom resource's selector, as a string.
    selector: Option<Vec<String>>,
    custom: bool,
}

impl ApiServer {
    pub(crate) fn scale_paths(&self, kind: KindId) -> Result<Paths> {
        self.kind(kind)?;
        if !self.has_subresource(kind, Part::Scale.subresource()) {
            return Err(status::unserved());
        }
        let resource = self.resource(kind);
        let scale = self
            .definition(kind)
            .and_then(|definition| crd::scale(definition, &resource.version));
        let path = |key: &str, default: &str| -> Result<Vec<String>> {
            let text = scale
                .and_then(|scale| scale.get(key)?.as_str())
                .unwrap_or(default);
            let steps = text.split('.').filter(|step| !step.is_empty());
            let steps: Vec<String> = steps.take(STEPS_MAX + 1).map(str::to_owned).collect();
            if steps.len() > STEPS_MAX {
                let problem = format!("{key} has more than {STEPS_MAX} steps");
                return Err(status::internal_error(&problem));
            }
            if key == "specReplicasPath" && !(text.starts_with(".spec.") && steps.len() > 1) {
                return Err(status::internal_error("specReplicasPath must lead below .spec"));
            }
            Ok(steps)
        };
        let selector = match scale {
            Some(_) => path("labelSelectorPath", "")?,
            None => Vec::new(),
        };
        Ok(Paths {
            wanted: path("specReplicasPath", ".spec.replicas")?,
            present: path("statusReplicasPath", ".status.replicas")?,
            selector: Some(selector).filter(|path| !path.is_empty()),
            custom: resource.custom,
        })
    }

    pub(super) fn read_scale(&self, key: Key<'_>) -> Result<Value> {
        let paths = self.scale_paths(key.kind)?;
        let existing = self.existing(key)?;
        paths.show(&existing)
    }

    pub(super) fn update_scale(&mut self, key: Key<'_>, scale: &Value) -> Result<Response> {
        let paths = self.scale_paths(key.kind)?;
        let existing = self.existing(key)?;
        let (meta, replicas) = read(scale)?;
        self.write_scale(key.kind, &existing, &paths, &meta, replicas)
    }

    /// Patches the JSON form of the scale.
    pub(crate) fn patch_scale(&mut self, key: Key<'_>, content_type: &str, body: &[u8]) -> Result<Response> {
        let paths = self.scale_paths(key.kind)?;
        let existing = self.existing(key)?;
        let shown = paths.before(&existing);
        let format = self.accepted(key.kind, content_type)?;
        let (patched, _) = self.patched_json(format, shown, Node::Unknown, body)?;
        if let Some(replicas) = patched.pointer("/spec/replicas")
            && !(replicas.is_number() || replicas.is_null())
            && self.settings.types
        {
            let problem = "v1.Scale.Spec: v1.ScaleSpec.Replicas: readUint32: unexpected character";
            return Err(status::invalid_patch(&patched.to_string(), problem));
        }
        let (meta, replicas) = read(&patched)?;
        self.write_scale(key.kind, &existing, &paths, &meta, replicas)
    }

    /// Applies a `Scale`: the manager owns the number of replicas of the object itself.
    pub(crate) fn apply_scale(
        &mut self,
        key: Key<'_>,
        applied: Value,
        options: &ApplyOptions,
    ) -> Result<Response> {
        let Key { kind, name, .. } = key;
        let paths = self.scale_paths(kind)?;
        let existing = self.existing(key)?;
        check_named(&applied)?;
        let (meta, replicas) = read(&applied)?;
        check_replicas(self.version, replicas, name)?;
        let mut metadata = identity(&meta);
        metadata.remove("creationTimestamp");
        if meta.name.is_empty() {
            metadata.remove("name");
        }
        let is_applied = applied.pointer("/spec/replicas").is_some();
        if self.tracks_sent_fields() {
            let stored = paths.before(&existing)["spec"]["replicas"].as_i64().unwrap_or(0);
            if is_applied && replicas != stored && !options.force {
                return Err(self.scale_conflict());
            }
            let wanted = if is_applied { replicas } else { stored };
            return self.write_scale(kind, &existing, &paths, &meta, wanted);
        }
        let is_owned = |list: &Value| {
            let mut entries = list.as_array().into_iter().flatten();
            entries.any(|entry| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some())
        };
        let stored = existing.at(&paths.wanted).and_then(Value::as_i64);
        let changes = is_applied && stored.is_some_and(|stored| stored != replicas);
        if self.settings.types
            && !paths.custom
            && changes
            && !options.force
            && !existing.managers.as_deref().is_some_and(is_owned)
        {
            // The replicas have no manager yet.
            return Err(self.scale_conflict());
        }
        let resource = self.resource(kind);
        let mut whole = StoredObject::from(ObjectMeta::new("", "", ""));
        if is_applied {
            whole.put(&paths.wanted, Some(&replicas.into()));
        }
        let mut whole = whole.to_json(resource);
        whole["metadata"] = Value::Object(metadata);
        let response = self.try_apply(key, Part::Scale, whole, options)?;
        paths.response(response)
    }

    fn write_scale(
        &mut self,
        kind: KindId,
        existing: &Arc<StoredObject>,
        paths: &Paths,
        meta: &ObjectMeta,
        replicas: i64,
    ) -> Result<Response> {
        let key = Key::new(kind, &existing.meta.namespace, &existing.meta.name);
        self.check_names(meta, key)?;
        // For custom resources, the resulting object is validated.
        if !paths.custom || !self.settings.types {
            check_replicas(self.version, replicas, &existing.meta.name)?;
        }
        if !meta.uid.is_empty() && meta.uid != existing.meta.uid {
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                meta.uid, existing.meta.uid
            );
            return Err(status::conflict(self.resource(kind), &existing.meta.name, &why));
        }
        let mut object = StoredObject::clone(existing);
        if !meta.resource_version.is_empty() {
            object.meta.resource_version.clone_from(&meta.resource_version);
        }
        if object.at(&paths.wanted).and_then(Value::as_i64) != Some(replicas) {
            object.put(&paths.wanted, Some(&replicas.into()));
        }
        if self.hooks.is_some() || self.has_policies() {
            let (old, new) = (paths.before(existing), paths.show(&object)?);
            self.review_part(kind, Part::Scale, Some(&old), &new)?;
        }
        let response = self.replace(kind, existing, object, Part::Scale, None, Vec::new())?;
        paths.response(response.with(Vec::new()))
    }
}

impl Paths {
    fn show(&self, object: &StoredObject) -> Result<Value> {
        if self.custom && object.at(&self.wanted).and_then(Value::as_i64).is_none() {
            let path = format!(".{}", self.wanted.join("."));
            return Err(status::internal_error(&format!(
                "the spec replicas field {} does not exist",
                status::quoted(&path)
            )));
        }
        Ok(self.before(object))
    }

    /// The object as a scale that is to be changed: custom resources may not have the number yet.
    fn before(&self, object: &StoredObject) -> Value {
        // The server's default for an object of a built-in kind.
        let default = i64::from(!self.custom);
        let number = |path: &[String]| object.at(path).and_then(Value::as_i64);
        let wanted = number(&self.wanted).unwrap_or(default);
        let spec = match wanted {
            0 => json!({}),
            wanted => json!({"replicas": wanted}),
        };
        let mut status = json!({"replicas": number(&self.present).unwrap_or(0)});
        let selector = match &self.selector {
            Some(path) => {
                let text = object.at(path).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            }
            None if self.custom => String::new(),
            None => selector_text(object.at(&["spec", "selector"])),
        };
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        json!({
            "kind": KIND,
            "apiVersion": API_VERSION,
            "metadata": identity(&object.meta),
            "spec": spec,
            "status": status,
        })
    }

    /// Converts a response with the object to one with its scale.
    fn response(&self, response: Response) -> Result<Response> {
        match response.object() {
            Some(object) => Ok(Response::of_virtual(self.show(object)?).with(response.warnings)),
            None => Ok(response),
        }
    }
}

/// The metadata that a scale has.
fn identity(meta: &ObjectMeta) -> Map<String, Value> {
    let mut metadata = Map::new();
    put_meta(meta, &mut metadata);
    let keys = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    metadata.retain(|key, _| keys.contains(&key.as_str()));
    metadata
}

fn check_replicas(version: KubernetesVersion, replicas: i64, name: &str) -> Result<()> {
    if replicas >= 0 {
        return Ok(());
    }
    let problem = "must be greater than or equal to 0";
    let cause = Cause::invalid("spec.replicas", &replicas.to_string(), problem);
    let scale = ApiResource::new(API_VERSION, KIND, "scales", Scope::Namespaced);
    Err(status::invalid(version, &scale, name, vec![cause]))
}

/// Refuses a configuration without version or kind. Other writes may omit them.
fn check_named(applied: &Value) -> Result<()> {
    let text = |key: &str| applied.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() {
        return Err(status::bad_request(format!(
            "invalid object type: {}, Kind=",
            if api_version.is_empty() { "/" } else { api_version },
        )));
    }
    if api_version.is_empty() {
        return Err(status::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: , expected: {API_VERSION}"
        )));
    }
    Ok(())
}

/// Metadata and replicas of a submitted scale.
fn read(scale: &Value) -> Result<(ObjectMeta, i64)> {
    let manifest = Manifest::read(scale.clone())?;
    let fits = |text: &str, expected: &str| text.is_empty() || text == expected;
    if !fits(&manifest.kind, KIND) || !fits(&manifest.api_version, API_VERSION) {
        let version = split_api_version(&manifest.api_version).1;
        let problem = status::unknown_conversion(version, &manifest.kind, "autoscaling", KIND);
        return Err(status::sent_cannot_be_handled(
            version,
            &manifest.kind,
            KIND,
            &problem,
        ));
    }
    let replicas = match manifest.object.at(&["spec", "replicas"]) {
        None | Some(Value::Null) => 0,
        Some(value) => value
            .as_i64()
            .filter(|replicas| i32::try_from(*replicas).is_ok())
            .ok_or_else(|| status::bad_request("spec.replicas must be a whole number of 32 bits"))?,
    };
    Ok((manifest.object.meta.into(), replicas))
}

/// A selector in the text form: of a map, or of `matchLabels` and `matchExpressions`.
pub(super) fn selector_text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else {
        return String::new();
    };
    let is_structured = ["matchLabels", "matchExpressions"]
        .iter()
        .any(|key| selector.get(key).is_some());
    let labels = json!({ "matchLabels": selector });
    let read = label_selector(if is_structured { selector } else { &labels });
    read.unwrap_or_default().to_string()
}
