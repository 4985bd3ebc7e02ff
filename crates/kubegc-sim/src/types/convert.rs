//! Conversion between the versions of a resource whose shapes differ.
//!
//! Objects are stored in one shape per resource: that of its newest version, except for events that of `v1`.
//!
//! # Upstream
//! `pkg/apis/*/*/conversion.go`, 1.20.2 and 1.22.

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use kubegc_core::{ApiResource, Behavior, KubernetesVersion};
use serde_json::{Map, Value, json};

use super::{
    changes, hpa,
    objects::{is_nil, object_in, object_mut, objects_in, text},
};
use crate::{StoredObject, api_server::crd::beta, object::put_meta};

type Object = Map<String, Value>;

/// Autoscalers are stored as `v2`; before, as `v1`.
pub(super) const AUTOSCALERS_ARE_STORED_AS_V2: Behavior =
    Behavior::since(27, 0, "SetVersionPriority of 1.27");

type Change = fn(&mut Object);

/// The changes from this version of a resource to the stored shape and back; `None` where they are the same.
fn changes(resource: &ApiResource) -> Option<(Change, Change)> {
    const HPA: &str = "HorizontalPodAutoscaler";
    const LEVEL: &str = "PriorityLevelConfiguration";
    Some(match (&*resource.group, &*resource.version, &*resource.kind) {
        ("events.k8s.io", _, "Event") => (
            |event| renamed(event, "Event/stored"),
            |event| renamed(event, "Event/shown"),
        ),
        ("autoscaling", "v1", HPA) => (hpa::from_v1, hpa::to_v1),
        ("autoscaling", "v2beta1", HPA) => (hpa::from_v2beta1, hpa::to_v2beta1),
        ("autoscaling", "v2beta2", HPA) => (hpa::in_order_of_v1, |_| {}),
        ("autoscaling", "v2", HPA) => (hpa::in_order_of_v1, |autoscaler| {
            renamed(autoscaler, "HorizontalPodAutoscaler/shown");
        }),
        ("extensions" | "networking.k8s.io", "v1beta1", "Ingress") => (
            |object| ingress(object, "backend", "defaultBackend", backend_to_stored),
            |object| ingress(object, "defaultBackend", "backend", backend_to_shown),
        ),
        ("rbac.authorization.k8s.io", "v1alpha1", "RoleBinding" | "ClusterRoleBinding") => (
            |binding| objects_in(binding, "subjects").for_each(subject_to_stored),
            |binding| objects_in(binding, "subjects").for_each(subject_to_shown),
        ),
        ("discovery.k8s.io", "v1beta1" | "v1alpha1", "EndpointSlice") => (
            |slice| renamed(slice, "EndpointSlice/stored"),
            |slice| renamed(slice, "EndpointSlice/shown"),
        ),
        ("flowcontrol.apiserver.k8s.io", "v1beta1" | "v1beta2", LEVEL) => (
            |level| renamed(level, "PriorityLevelConfiguration/stored"),
            |level| renamed(level, "PriorityLevelConfiguration/shown"),
        ),
        ("", "v1", "Secret") => (encode_texts, |_| {}),
        ("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition") => (beta::to_v1, beta::from_v1),
        _ => return None,
    })
}

/// Converts an object of this version, with defaults, to the stored shape.
pub(crate) fn to_stored(resource: &ApiResource, object: &mut Object, version: KubernetesVersion) {
    let is_stored = resource.version.starts_with("v2") && version.has(AUTOSCALERS_ARE_STORED_AS_V2);
    match changes(resource) {
        // `v2beta1` converts its own fields in every release.
        Some(_) if is_stored && &*resource.group == "autoscaling" && &*resource.version != "v2beta1" => {}
        Some((change, _)) => change(object),
        None => {}
    }
}

/// Whether this version has the stored shape.
fn is_shown_as_stored(resource: &ApiResource) -> bool {
    &*resource.kind == "Secret" || changes(resource).is_none()
}

/// Converts a stored object to the shape of this version.
fn to_shown(resource: &ApiResource, object: &mut Object) {
    if let Some((_, change)) = changes(resource) {
        change(object);
    }
}

impl StoredObject {
    /// The object in its JSON form, in the API version of `resource`.
    pub fn to_json(&self, resource: &ApiResource) -> Value {
        let mut object = self.to_json_without_managers(resource);
        if let Some(list) = &self.managers {
            object["metadata"]["managedFields"] = Value::clone(list);
        }
        object
    }

    /// The JSON form without `managedFields`.
    pub(crate) fn to_json_without_managers(&self, resource: &ApiResource) -> Value {
        let mut fields = self.body.as_ref().map_or_else(Map::new, |body| Map::clone(body));
        let mut metadata = match fields.remove("metadata") {
            Some(Value::Object(rest)) => rest,
            _ => Map::new(),
        };
        put_meta(&self.meta, &mut metadata);
        fields.insert("apiVersion".to_owned(), resource.api_version().into());
        fields.insert("kind".to_owned(), (&*resource.kind).into());
        fields.insert("metadata".to_owned(), Value::Object(metadata));
        to_shown(resource, &mut fields);
        Value::Object(fields)
    }

    /// The fields of the JSON form except `apiVersion`, `kind`, `managedFields` and the typed metadata, in
    /// the API version of `resource`; empty where only metadata is known.
    pub fn fields(&self, resource: &ApiResource) -> Cow<'_, Map<String, Value>> {
        match &self.body {
            Some(body) if is_shown_as_stored(resource) => Cow::Borrowed(body),
            body => {
                let mut fields = body.as_deref().cloned().unwrap_or_default();
                to_shown(resource, &mut fields);
                Cow::Owned(fields)
            }
        }
    }

    /// The object as a JSON document, in the API version of `resource`.
    pub fn to_document(&self, resource: &ApiResource) -> Vec<u8> {
        // Serialization of a JSON value does not fail.
        serde_json::to_vec(&self.to_json(resource)).unwrap_or_default()
    }
}

/// Applies a section of the table of changes; those of conversions are the same in all releases.
fn renamed(object: &mut Object, section: &str) {
    changes::apply(section, object, KubernetesVersion::LATEST);
}

fn encode_texts(secret: &mut Object) {
    if let Some(Value::Object(texts)) = secret.remove("stringData")
        && let Some(data) = object_in(secret, "data")
    {
        data.extend(texts.into_iter().map(|(key, text)| {
            let text = text.as_str().unwrap_or_default();
            (key, BASE64_STANDARD.encode(text).into())
        }));
    }
}

fn ingress(object: &mut Object, from: &str, to: &str, convert: fn(&mut Object)) {
    let Some(spec) = object_mut(object, "spec") else {
        return;
    };
    if let Some(mut backend) = spec.remove(from) {
        if let Some(backend) = backend.as_object_mut() {
            convert(backend);
        }
        spec.insert(to.to_owned(), backend);
    }
    let rules = objects_in(spec, "rules").filter_map(|rule| object_mut(rule, "http"));
    let paths = rules.flat_map(|http| objects_in(http, "paths"));
    let backends = paths.filter_map(|path| object_mut(path, "backend"));
    backends.for_each(convert);
}

fn backend_to_stored(backend: &mut Object) {
    let named = !text(backend, "serviceName").is_empty();
    let (name, port) = (backend.remove("serviceName"), backend.remove("servicePort"));
    let numbered = port
        .as_ref()
        .is_some_and(|port| !matches!(port.as_i64(), Some(0)) && !port.is_null());
    if !named && !numbered {
        return;
    }
    let port = match port {
        Some(Value::String(name)) => json!({"name": name}),
        Some(number) if numbered => json!({"number": number}),
        _ => json!({}),
    };
    backend.insert(
        "service".to_owned(),
        json!({"name": name.unwrap_or_default(), "port": port}),
    );
}

fn backend_to_shown(backend: &mut Object) {
    let Some(service) = backend.remove("service") else {
        return;
    };
    if let Some(name) = service.get("name").filter(|name| name.as_str() != Some("")) {
        backend.insert("serviceName".to_owned(), name.clone());
    }
    let port = service.get("port");
    let port = port.and_then(|port| port.get("name").or_else(|| port.get("number")));
    backend.insert(
        "servicePort".to_owned(),
        port.cloned().unwrap_or_else(|| 0.into()),
    );
}

const RBAC: &str = "rbac.authorization.k8s.io";

fn subject_to_stored(subject: &mut Object) {
    let version = subject.remove("apiVersion").unwrap_or_default();
    let group = match text(subject, "kind") {
        "ServiceAccount" => "",
        "User" | "Group" => RBAC,
        _ => version
            .as_str()
            .and_then(|version| version.split_once('/'))
            .map_or("", |(group, _)| group),
    };
    if !group.is_empty() {
        subject.insert("apiGroup".to_owned(), group.into());
    }
    // This formerly meant every authenticated user.
    if text(subject, "kind") == "User" && text(subject, "name") == "*" {
        subject.insert("kind".to_owned(), "Group".into());
        subject.insert("name".to_owned(), "system:authenticated".into());
    }
}

fn subject_to_shown(subject: &mut Object) {
    let group = subject.remove("apiGroup").unwrap_or_default();
    let version = match (text(subject, "kind"), group.as_str().unwrap_or_default()) {
        ("ServiceAccount", _) => "v1".to_owned(),
        (_, RBAC) => format!("{RBAC}/v1alpha1"),
        (_, "") => return,
        (_, group) => format!("{group}/"),
    };
    if is_nil(subject, "apiVersion") {
        subject.insert("apiVersion".to_owned(), version.into());
    }
}
