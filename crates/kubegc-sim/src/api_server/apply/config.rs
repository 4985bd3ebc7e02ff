//! Validation of an applied configuration and of its options, and the fields of it that are applied.

use kubegc_core::{Behavior, KindId, KubernetesVersion};
use serde_json::{Value, json};

use super::{ApplyOptions, REFUSALS_NAME_THE_OBJECT};
use crate::{
    Manifest,
    api_server::{ApiServer, write::Part},
    status::{self, Cause, Result},
};

/// A configuration of another type is an invalid type.
const OTHER_TYPES_ARE_INVALID: Behavior = Behavior::since(28, 0, "apimachinery 1c1ede21");

impl ApiServer {
    /// The fields of the configuration that are applied to a part, if the configuration is of this kind.
    pub(super) fn configuration(&self, kind: KindId, applied: Value, part: Part) -> Result<Value> {
        let resource = self.resource(kind);
        let Value::Object(mut fields) = applied else {
            return Err(status::bad_request("the configuration must be an object"));
        };
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, its_kind) = (text("apiVersion"), text("kind"));
        let names_object = self.version.has(REFUSALS_NAME_THE_OBJECT);
        if its_kind.is_empty() && names_object {
            return Err(status::bad_request(format!(
                "invalid object type: {}, Kind={its_kind}",
                if api_version.is_empty() { "/" } else { api_version },
            )));
        }
        if names_object && self.version.has(OTHER_TYPES_ARE_INVALID) {
            let is_other =
                *its_kind != *resource.kind || self.shape.catalog.mapping(api_version, its_kind).is_none();
            if is_other {
                let (group, version) = kubegc_core::identity::split_api_version(api_version);
                return Err(status::bad_request(format!(
                    "invalid object type: {group}/{version}, Kind={its_kind}"
                )));
            }
        }
        if api_version != resource.api_version() {
            return Err(status::bad_request(format!(
                "Incorrect version specified in apply patch. Specified patch version: {api_version}, expected: {}",
                resource.api_version()
            )));
        }
        let managers = fields
            .get("metadata")
            .and_then(|metadata| metadata.get("managedFields"));
        if managers.is_some_and(|list| !list.is_null() && *list != json!([])) {
            return Err(status::bad_request("metadata.managedFields must be nil"));
        }
        if *its_kind != *resource.kind && !names_object {
            return Err(status::internal(
                "failed to merge config: expected objects of the same type, but got {<ptr> {<nil> <nil> <nil>}} and \
                 {<ptr> {<nil> <nil> <nil>}}",
            ));
        }
        if *its_kind != *resource.kind {
            return Err(status::bad_request(format!(
                "{its_kind} in version \"{}\" cannot be handled as a {}",
                resource.version, resource.kind
            )));
        }
        match part {
            // Fields that the part does not have are owned nevertheless.
            _ if self.tracks_sent_fields() => {}
            Part::Whole if self.shape.kinds[kind.index()].status_subresource => {
                fields.remove("status");
            }
            Part::Status => {
                fields.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
                let resets = self.status_resets_metadata(resource);
                if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                    metadata.retain(|key, _| match key.as_str() {
                        "name" | "namespace" | "uid" | "resourceVersion" => true,
                        "labels" if !resource.custom && &*resource.kind == "Deployment" => false,
                        "ownerReferences" if !resource.custom && &*resource.kind == "Pod" => false,
                        _ => !resets,
                    });
                }
            }
            _ => {}
        }
        let fields = Value::Object(fields);
        // Refused here, before anything is merged with it.
        Manifest::read(fields.clone())?;
        Ok(fields)
    }
}

/// Whether the options are consistent.
///
/// # Upstream
/// `ValidatePatchOptions` and `ValidateFieldManager` in `apimachinery/pkg/apis/meta/v1/validation`, 1.20.2.
pub(super) fn validate(options: &ApplyOptions, version: KubernetesVersion) -> Result<()> {
    const FIELD: &str = "fieldManager";
    const LENGTH_MAX: usize = 128;
    let manager = &options.field_manager;
    let mut causes = Vec::new();
    if manager.is_empty() {
        causes.push(Cause::required(FIELD, "is required for apply patch"));
    }
    if manager.len() > LENGTH_MAX {
        causes.push(Cause::too_long(version, FIELD, LENGTH_MAX));
    }
    if let Some(odd) = manager.chars().position(|c| c.is_control()) {
        let problem = format!("should only contain printable characters, found one at {odd}");
        causes.push(Cause::invalid(FIELD, &status::quoted(manager), &problem));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(status::invalid_options("PatchOptions", causes))
    }
}
