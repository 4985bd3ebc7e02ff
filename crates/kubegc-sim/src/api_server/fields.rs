//! Field selectors: the selectable fields of each kind and their values.

use kubegc_core::{ApiResource, KindId, KubernetesVersion};
use serde_json::Value;

use super::{ApiServer, Response, crd};
use crate::{
    Filter, StoredObject,
    status::{self, Result},
    types::facts::Facts,
};

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// The selectable fields of a built-in resource other than name and namespace.
fn built_in(resource: &ApiResource, version: KubernetesVersion) -> Vec<&'static str> {
    let fields = Facts::of(resource).value("select", version);
    fields.into_iter().flat_map(|fields| fields.split('|')).collect()
}

impl ApiServer {
    /// Checks that a filter is valid for a kind.
    ///
    /// # Errors
    /// The server's 400 if objects of the kind cannot be selected by one of the fields, its 404 if it does
    /// not serve the kind.
    pub fn check_filter(&self, kind: KindId, filter: &Filter) -> Result<(), Box<Response>> {
        self.supports(kind, filter)
            .map_err(|refusal| Box::new(refusal.into()))
    }

    pub(super) fn supports(&self, kind: KindId, filter: &Filter) -> Result<()> {
        self.kind(kind)?;
        let resource = self.resource(kind);
        for label in filter.fields.fields() {
            let common =
                label == NAME || (label == NAMESPACE && (resource.is_namespaced() || !resource.custom));
            let own = || match self.definition(kind) {
                Some(definition) => crd::is_selectable(definition, &resource.version, label),
                None => built_in(resource, self.version).contains(&label),
            };
            if !common && !own() {
                return Err(status::bad_request(unsupported(resource, label, self.version)));
            }
        }
        Ok(())
    }

    /// Whether a filter matches an object of a kind. The filter is valid for the kind.
    pub fn matches(&self, kind: KindId, filter: &Filter, object: &StoredObject) -> bool {
        filter.labels.matches(&object.meta)
            && filter
                .fields
                .matches_by(|field| value(self.resource(kind), object, field))
    }
}

fn unsupported(resource: &ApiResource, label: &str, version: KubernetesVersion) -> String {
    let quoted = status::quoted(label);
    match (&*resource.group, &*resource.resource) {
        ("batch", "jobs") => format!("field label {quoted} not supported for Job"),
        _ if resource.custom || !built_in(resource, version).is_empty() => {
            format!("field label not supported: {label}")
        }
        _ => {
            format!("{quoted} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    }
}

/// The value of a field in the form that selectors compare; empty where there is none.
fn value(resource: &ApiResource, object: &StoredObject, field: &str) -> String {
    let is_set = |path: &[&str]| !object.text_at(path).is_empty();
    let regarding = field.strip_prefix("regarding.");
    let about = regarding.map(|rest| format!("involvedObject.{rest}"));
    let stored = match field {
        NAME => return object.meta.name.to_string(),
        NAMESPACE => return object.meta.namespace.to_string(),
        field if resource.custom => field,
        "spec.host" => "spec.nodeName",
        "status.successful" => "status.succeeded",
        "source" if is_set(&["source", "component"]) => "source.component",
        // Events are stored as those of the core group, if their types are known.
        "source" => "reportingComponent",
        "reportingController" if object.at(&["reportingComponent"]).is_some() => "reportingComponent",
        "status.podIP" | "status.podIPs" => {
            let ips = object.list_at(&["status", "podIPs"]).iter();
            let ips: Vec<&str> = ips.filter_map(|entry| entry.get("ip")?.as_str()).collect();
            match ips.as_slice() {
                [] => "status.podIP",
                [first, ..] if field == "status.podIP" => return (*first).to_owned(),
                all => return all.join(","),
            }
        }
        _ => match &about {
            Some(about) if object.at(&["involvedObject"]).is_some() => about,
            _ => field,
        },
    };
    let path: Vec<&str> = stored.split('.').collect();
    match object.at(&path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ if resource.custom => String::new(),
        // The default of a field that the object does not set.
        _ => match field {
            "spec.unschedulable" | "spec.hostNetwork" => "false".to_owned(),
            "status.successful" | "status.replicas" => "0".to_owned(),
            _ => String::new(),
        },
    }
}
