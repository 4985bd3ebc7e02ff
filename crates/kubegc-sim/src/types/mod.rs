//! The types of built-in kinds: processing between a request and the store, with
//! [`Settings::types`](crate::Settings::types).
//!
//! An object is decoded by its version, gets that version's defaults and is converted to the one stored
//! shape. Strategies prepare and validate it in that shape. Responses show it in the requested version.
//!
//! - [`schema`]: the structs, from a table; [`node`]: positions in objects of built-in kinds and of custom
//!   resources, with what is known there; [`facts`]: facts about resources, from a table; [`rules`]: rules of
//!   fields, from tables.
//! - [`value`]: decoding; [`defaults`], [`convert`]; [`changes`]: what depends on other fields, from a table.

pub(crate) mod admission;
pub(crate) mod certificates;
mod changes;
pub(crate) mod convert;
pub(crate) mod defaults;
pub(crate) mod facts;
pub(crate) mod field;
mod gated;
pub(crate) mod go_syntax;
mod hpa;
mod limits;
mod mismatch;
pub(crate) mod node;
pub(crate) mod objects;
pub(crate) mod pod;
pub(crate) mod prepare;
pub(crate) mod qos;
pub(crate) mod rules;
pub(crate) mod schema;
pub(crate) mod service;
pub(crate) mod validate;
mod value;

use kubegc_core::{ApiResource, KubernetesVersion};
use serde_json::{Map, Value};

use crate::StoredObject;
pub(crate) use defaults::NAMESPACES_ARE_LABELLED;
use mismatch::{Mismatch, Step};
pub(crate) use schema::StructId;
use value::Form;

/// Decodes an object by its version: pruned, with defaults, in the stored shape. `apiVersion` and `kind` are
/// dropped. Returns it and whether it differs from its normal form.
pub(crate) fn decode(
    sent: Value,
    resource: &ApiResource,
    id: StructId,
    version: KubernetesVersion,
) -> Result<(Value, bool), String> {
    let Value::Object(mut sent) = sent else {
        return Err(format!(
            "v1.{}: expects {{ or n, but found another value",
            resource.kind
        ));
    };
    let named = |error: Mismatch| error.text(&resource.kind, version);
    let metadata = sent.remove("metadata").unwrap_or_default();
    let metadata =
        value::metadata(metadata, version).map_err(|error| error.within(Step::Field(id, "metadata")));
    let form = Form::decoded(version);
    // The first error is that of the first field.
    let (mut object, metadata) = match (value::fields(sent, id, &form), metadata) {
        (Ok(object), Ok(metadata)) => (object, metadata),
        (Err(error), Err(_)) if error.precedes("metadata") => return Err(named(error)),
        (_, Err(error)) | (Err(error), _) => return Err(named(error)),
    };
    object.insert("metadata".to_owned(), metadata);
    gated::drop_disabled(&mut object, id, version);
    defaults::fill(&mut object, id, version);
    convert::to_stored(resource, &mut object, version);
    Ok((Value::Object(object), form.differs()))
}

/// Decodes the metadata of a custom resource.
pub(crate) fn decoded_metadata(sent: Value, version: KubernetesVersion) -> Result<Value, String> {
    value::metadata(sent, version).map_err(|error| error.text("ObjectMeta", version))
}

/// Whether the objects of a built-in kind have a type here. With [`Settings::types`](crate::Settings::types)
/// they are decoded, defaulted and validated. Objects of other built-in kinds are stored as they were sent.
pub fn has_type(resource: &ApiResource) -> bool {
    StructId::of(resource).is_some()
}

/// The struct of a kind's stored shape.
pub(crate) fn stored_as(resource: &ApiResource, version: KubernetesVersion) -> Option<StructId> {
    let name = match &*resource.kind {
        // `v2` omits numbers that earlier versions write.
        "HorizontalPodAutoscaler" if !version.has(convert::AUTOSCALERS_ARE_STORED_AS_V2) => {
            "HorizontalPodAutoscaler.autoscaling.v2beta2"
        }
        kind => kind,
    };
    StructId::named(name)
}

/// Converts the body of an object that strategies have changed to its normal form.
///
/// # Errors
/// A value of the wrong type: none, after [`decode`].
pub(crate) fn normalize(
    object: &mut StoredObject,
    resource: &ApiResource,
    version: KubernetesVersion,
) -> Result<(), String> {
    let Some(id) = stored_as(resource, version) else {
        return Ok(());
    };
    let body = std::mem::take(object.body_mut());
    let mut body = body;
    let metadata = body.remove("metadata");
    let mut normal = value::fields(body, id, &Form::normal(version))
        .map_err(|error| error.text(&resource.kind, version))?;
    if let Some(Value::Object(mut rest)) = metadata {
        rest.retain(|_, value| !value.is_null() && value.as_str() != Some(""));
        if !rest.is_empty() {
            normal.insert("metadata".to_owned(), Value::Object(rest));
        }
    }
    *object.body_mut() = normal;
    Ok(())
}

/// The fields of an object beside its metadata.
fn body(object: &StoredObject) -> Value {
    object.body.as_deref().cloned().unwrap_or_default().into()
}

/// The annotations of an object.
pub(crate) fn annotations(object: &StoredObject) -> Option<&Map<String, Value>> {
    object.at(&["metadata", "annotations"])?.as_object()
}
