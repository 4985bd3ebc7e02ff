//! PATCH: the formats that a resource accepts, and the patched object before validation and storage.

mod json;
mod strategic;

use kubegc_core::{Behavior, KindId, KubernetesVersion, ObjectMeta, PatchType};
use serde_json::Value;

use super::{ApiServer, Key, Response, update::AFTER_ADMISSION, write::Part};
pub(super) use json::Operations;

use crate::{
    StoredObject, go,
    status::{self, Details, Refusal, Result},
    types::node::Node,
};

pub(super) const APPLY_IS_SERVED: Behavior = Behavior::since(16, 0, "kubernetes #81956");
/// Directives of a strategic merge patch that apply to no list are dropped; before, they became items.
const UNMET_DIRECTIVES_ARE_DROPPED: Behavior = Behavior::since(28, 0, "kubernetes #117568");

/// The body of a patch is decoded for its own sake, to find unknown and repeated fields.
const PATCHES_ARE_DECODED_FIRST: Behavior = Behavior::since(25, 0, "ServerSideFieldValidation");

const APPLY: &str = "application/apply-patch+yaml";

impl ApiServer {
    /// Patches an object. The format is the request's content type. An unsupported format is refused before
    /// all other checks.
    ///
    /// Server-side apply is not supported here: see [`apply`](Self::apply).
    ///
    /// # Upstream
    /// `PatchResource` in `apiserver/pkg/endpoints/handlers/patch.go`, 1.20.2.
    pub fn patch(
        &mut self,
        kind: KindId,
        namespace: &str,
        name: &str,
        content_type: &str,
        body: &[u8],
    ) -> Response {
        self.patch_subresource(kind, namespace, name, "", content_type, body)
    }

    /// Patches a subresource. A `scale` is patched as the object that
    /// [`read_subresource`](Self::read_subresource) shows.
    pub fn patch_subresource(
        &mut self,
        kind: KindId,
        namespace: &str,
        name: &str,
        subresource: &str,
        content_type: &str,
        body: &[u8],
    ) -> Response {
        let key = Key::new(kind, namespace, name);
        if subresource == "scale" {
            return self.patch_scale(key, content_type, body).into();
        }
        self.part(kind, subresource)
            .and_then(|part| self.try_patch(key, part, content_type, body))
            .into()
    }

    fn try_patch(&mut self, key: Key<'_>, part: Part, content_type: &str, body: &[u8]) -> Result<Response> {
        let kind = key.kind;
        self.kind(kind)?;
        let format = self.accepted(kind, content_type)?;
        let existing = self.existing(key)?;
        let shown = self.shown(kind, &existing)?;
        let mut object = self.patched(kind, &shown, format, body)?;
        self.check_names(&object.meta, key)?;
        if object.meta.namespace != existing.meta.namespace {
            object.meta.namespace.clone_from(&existing.meta.namespace);
        }
        let warnings = self.without_equal_references(&mut object.meta, AFTER_ADMISSION);
        self.replace(kind, &existing, object, part, None, warnings)
    }

    /// An object as a patch would leave it, before it is decoded, and the value that errors of its fields
    /// show. `None` for a patch that is refused.
    pub fn preview_patch(
        &self,
        kind: KindId,
        namespace: &str,
        name: &str,
        content_type: &str,
        body: &[u8],
    ) -> Option<(Value, String)> {
        let resource = self.resource(kind);
        let format = self.accepted(kind, content_type).ok()?;
        let existing = self.existing(Key::new(kind, namespace, name)).ok()?;
        let shown = self.shown(kind, &existing).ok()?;
        let (shown, node) = (shown.to_json(resource), Node::of(resource));
        let (patched, printed) = self.patched_json(format, shown, node, body).ok()?;
        let printed = printed.unwrap_or_else(|| patched.to_string());
        Some((patched, printed))
    }

    /// A patched value, and a strategic merge patch as errors print it.
    pub(super) fn patched_json(
        &self,
        format: PatchType,
        mut original: Value,
        place: Node<'_>,
        body: &[u8],
    ) -> Result<(Value, Option<String>)> {
        // The parser refuses a nesting deeper than 128, and so do JSON patches for the values that they
        // build. That bounds every recursion.
        let patch = read(self.version, format, body)?;
        let patched = match format {
            PatchType::Merge if patch.is_object() => {
                json_patch::merge(&mut original, &patch);
                original
            }
            PatchType::Merge if patch.is_null() => original,
            PatchType::Merge => {
                let problem = format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type \
                     struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                    go::json_kind(&patch)
                );
                return Err(unreadable(body, &problem));
            }
            PatchType::Strategic => {
                let printed = go::printed(&patch);
                let drops_directives = self.version.has(UNMET_DIRECTIVES_ARE_DROPPED);
                let patched = strategic::apply(original, patch, place, drops_directives)?;
                return Ok((patched, Some(printed)));
            }
            PatchType::Json => Operations::read(patch)?
                .apply(original)
                .map_err(|_| status::rejected_patch())?,
        };
        Ok((patched, None))
    }

    fn patched(
        &self,
        kind: KindId,
        existing: &StoredObject,
        format: PatchType,
        body: &[u8],
    ) -> Result<StoredObject> {
        let resource = self.resource(kind);
        let patch = || self.patched_json(format, existing.to_json(resource), Node::of(resource), body);
        let (patched, printed) = patch()?;
        if let Some(printed) = &printed
            && let Some(problem) = unconvertible(&patched)
        {
            return Err(status::invalid_patch(printed, &problem));
        }
        let is_strategic = printed.is_some();
        let mut object = self.decoded(kind, patched).map_err(|problem| {
            let shows_object = self.is_decoded(kind) && self.version.has(PATCHES_ARE_DECODED_FIRST);
            match patch() {
                Ok((patched, printed)) if shows_object => {
                    let printed = printed.unwrap_or_else(|| patched.to_string());
                    status::invalid_patch(&printed, &problem)
                }
                _ => unreadable(body, &problem),
            }
        })?;
        keep_precision(&mut object.meta, &existing.meta);
        if is_strategic {
            object.convert_from_unstructured(resource);
        }
        if object.body == existing.body {
            // Shared, so that patches of metadata need no memory for another body.
            object.body.clone_from(&existing.body);
        }
        Ok(object)
    }

    /// The format, if the resource accepts it.
    pub(super) fn accepted(&self, kind: KindId, content_type: &str) -> Result<PatchType> {
        let resource = self.resource(kind);
        let plain = content_type.split(';').next().unwrap_or_default().trim();
        let formats = [PatchType::Json, PatchType::Merge, PatchType::Strategic];
        let formats = formats
            .into_iter()
            .filter(|format| *format != PatchType::Strategic || !resource.custom);
        if let Some(format) = formats.clone().find(|format| format.content_type() == plain) {
            return Ok(format);
        }
        let mut accepted: Vec<&str> = formats.map(PatchType::content_type).collect();
        if self.version.has(APPLY_IS_SERVED) {
            accepted.push(APPLY);
        }
        // The routes of built-in resources declare their formats, so no handler is called.
        let (message, details) = match resource.custom {
            true => {
                let accepted = accepted.join(", ");
                let problem =
                    "the body of the request was in an unknown format - accepted media types include";
                (format!("{problem}: {accepted}"), None)
            }
            false => ("415: Unsupported Media Type".to_owned(), Some(Details::default())),
        };
        Err(status::refusal(415, "UnsupportedMediaType", message, details))
    }
}

/// The patched object cannot be decoded.
fn unreadable(body: &[u8], problem: &str) -> Refusal {
    status::invalid_patch(str::from_utf8(body).unwrap_or_default(), problem)
}

/// Reads the body of a patch.
///
/// # Errors
/// 400 for a body that is not JSON; 400, before 1.25 500, for a merge patch that is not an object (nor a
/// list).
///
/// # Upstream
/// `applyJSPatch` in
/// [`patch.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go).
fn read(version: KubernetesVersion, format: PatchType, body: &[u8]) -> Result<Value> {
    let read = serde_json::from_slice::<Value>(body);
    if version.has(PATCHES_ARE_DECODED_FIRST) {
        let problem = match &read {
            Err(error) => Some(go::json_syntax_error(body).unwrap_or_else(|| error.to_string())),
            Ok(Value::Null) => None,
            Ok(patch) => {
                let (fits, expected) = match format {
                    PatchType::Json => (patch.is_array(), "[]handlers.jsonPatchOp"),
                    PatchType::Merge | PatchType::Strategic => (patch.is_object(), "map[string]interface {}"),
                };
                (!fits).then(|| {
                    let found = go::json_kind(patch);
                    format!("json: cannot unmarshal {found} into Go value of type {expected}")
                })
            }
        };
        return match (problem, read) {
            (Some(problem), _) if format == PatchType::Strategic => Err(status::bad_request(problem)),
            (Some(problem), _) => Err(status::bad_request(format!("error decoding patch: {problem}"))),
            (None, Ok(patch)) => Ok(patch),
            // An error is a problem.
            (None, Err(error)) => Err(status::bad_request(error.to_string())),
        };
    }
    match (format, read) {
        (PatchType::Merge, Ok(Value::Bool(_) | Value::Number(_) | Value::String(_)) | Err(_)) => {
            Err(status::internal("Invalid JSON Patch"))
        }
        (_, Ok(patch)) => Ok(patch),
        (_, Err(error)) => {
            let problem = go::json_syntax_error(body);
            Err(status::bad_request(problem.unwrap_or_else(|| error.to_string())))
        }
    }
}

/// The reason why the metadata of an object cannot be converted to its type.
///
/// # Upstream
/// `fromUnstructured` in `apimachinery/pkg/runtime/converter.go`, 1.20.2.
fn unconvertible(object: &Value) -> Option<String> {
    let metadata = object.get("metadata")?;
    ["labels", "annotations"].iter().find_map(|field| {
        let values = metadata.get(*field)?.as_object()?.values();
        let of_another_type = values.filter(|value| !value.is_string() && !value.is_null());
        of_another_type
            .map(go::type_name)
            .next()
            .map(|found| format!("cannot convert {found} to string"))
    })
}

/// Timestamps that a write does not change retain their stored precision.
pub(super) fn keep_precision(meta: &mut ObjectMeta, existing: &ObjectMeta) {
    if meta.deletion_timestamp == existing.deletion_timestamp.map(|time| time.truncate_to_secs()) {
        meta.deletion_timestamp = existing.deletion_timestamp;
    }
    meta.creation_timestamp = existing.creation_timestamp;
}
