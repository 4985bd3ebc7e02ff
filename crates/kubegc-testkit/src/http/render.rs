//! Objects in a response: in the requested version and the requested form.

use std::{borrow::Borrow, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use kubegc_core::{ApiResource, KindId, KubernetesVersion, Timestamp, version::behavior};
use kubegc_sim::{ApiServer, Response, ResponseBody, StoredObject};
use serde_json::{Value, json};

use super::{
    accept::{Encoding, Form},
    problem::{self, Refusal},
    reply::Reply,
    table::{Table, partial},
};

/// The minor version in which the end of an initial list has an annotation with an empty list: 1.33 has the
/// code, but the feature gate `WatchList` is off.
///
/// # Upstream
/// `newWatchListTransformer` in
/// [`response.go`](https://github.com/kubernetes/kubernetes/blob/v1.32.0/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go).
const BLUEPRINTS_OF: u16 = 32;

/// The way in which one request wants its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) version: KubernetesVersion,
    pub(super) form: Form,
    pub(super) encoding: Encoding,
    pub(super) resource: ApiResource,
    pub(super) list_kind: String,
    pub(super) table: Table,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListMeta {
    pub(super) resource_version: u64,
    pub(super) continue_token: Option<String>,
    pub(super) remaining: Option<usize>,
}

impl View {
    /// A response of the simulated server, in the requested form. `page` is what the metadata of a list says
    /// beyond its version.
    pub(super) fn reply(
        &self,
        server: &ApiServer,
        kind: KindId,
        response: Response,
        page: ListMeta,
    ) -> Result<Reply, Refusal> {
        let now = server.now();
        let body = match &response.body {
            ResponseBody::Object(object) => self.object(&*server.shown(kind, object)?, now)?,
            ResponseBody::Status(status) => status.to_json(),
            ResponseBody::Virtual(object) => Value::clone(object),
            ResponseBody::List(list) => {
                let meta = ListMeta {
                    resource_version: list.revision,
                    ..page
                };
                self.list(server, kind, &list.items, &meta)?
            }
        };
        let mut reply = Reply::object(response.code, body);
        reply.warnings = response.warnings;
        Ok(reply)
    }

    pub(super) fn object(&self, object: &StoredObject, now: Timestamp) -> Result<Value, Refusal> {
        Ok(match self.form {
            Form::Object => object.to_json(&self.resource),
            Form::Partial(version) => partial(object, &self.resource, version),
            Form::PartialList(_) => return Err(self.does_not_fit(false)),
            Form::Table(version) => {
                let meta = json!({"resourceVersion": object.meta.resource_version.as_str()});
                self.rows(version, meta, std::slice::from_ref(object), now)
            }
        })
    }

    pub(super) fn list(
        &self,
        server: &ApiServer,
        kind: KindId,
        items: &[Arc<StoredObject>],
        meta: &ListMeta,
    ) -> Result<Value, Refusal> {
        let items = items.iter().map(|object| server.shown(kind, object));
        let items: Vec<Arc<StoredObject>> = items.collect::<Result<_, _>>()?;
        let mut metadata = meta.to_json();
        if self.resource.custom && self.form == Form::Object && meta.continue_token.is_none() {
            // Lists of custom resources have no type that leaves it out.
            metadata["continue"] = "".into();
        }
        Ok(match self.form {
            Form::Object => {
                let items: Vec<Value> = items.iter().map(|object| self.item(object)).collect();
                json!({
                    "kind": self.list_kind,
                    "apiVersion": self.resource.api_version(),
                    "metadata": metadata,
                    "items": items,
                })
            }
            Form::PartialList(version) => {
                let items = items
                    .iter()
                    .map(|object| partial(object, &self.resource, version));
                json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": version,
                    "metadata": metadata,
                    "items": items.collect::<Vec<_>>(),
                })
            }
            Form::Partial(_) => return Err(self.does_not_fit(true)),
            Form::Table(version) => self.rows(version, metadata, &items, server.now()),
        })
    }

    /// A table with a row for each object.
    fn rows<T: Borrow<StoredObject>>(
        &self,
        version: &'static str,
        metadata: Value,
        objects: &[T],
        now: Timestamp,
    ) -> Value {
        let (release, resource) = (self.version, &self.resource);
        self.table
            .to_json(version, release, resource, metadata, objects, now)
    }

    /// The requested metadata is of one object and the result a list, or the other way round.
    pub(super) fn does_not_fit(&self, is_list: bool) -> Refusal {
        let (form, result, kind) = match is_list {
            true => ("PartialObjectMetadata", "a list", &*self.list_kind),
            false => ("PartialObjectMetadataList", "not a list", &*self.resource.kind),
        };
        let go_type = go_type(&self.resource, kind);
        let message = format!("you requested {form}, but the requested object is {result} ({go_type})");
        problem::refusal(406, "NotAcceptable", message, None)
    }

    /// A bookmark: an object with only a version, and whether a list ends here.
    pub(super) fn bookmark(&self, revision: u64, ends_list: bool) -> Value {
        let (kind, api_version) = match self.form {
            Form::Object => (&*self.resource.kind, self.resource.api_version()),
            Form::Partial(form) | Form::PartialList(form) => ("PartialObjectMetadata", form.to_owned()),
            Form::Table(form) => {
                let meta = json!({"resourceVersion": revision.to_string()});
                return self.rows::<StoredObject>(form, meta, &[], Timestamp::EPOCH);
            }
        };
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if !self.version.has(behavior::ZERO_TIMESTAMPS_ARE_OMITTED) && !self.is_custom_object() {
            metadata["creationTimestamp"] = Value::Null;
        }
        if ends_list {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
            if self.version.minor() == BLUEPRINTS_OF {
                metadata["annotations"]["kubernetes.io/initial-events-list-blueprint"] =
                    BASE64_STANDARD.encode(self.blueprint()).into();
            }
        }
        json!({"kind": kind, "apiVersion": api_version, "metadata": metadata})
    }

    /// Whether objects of a custom resource are shown as they are: they have no Go type.
    fn is_custom_object(&self) -> bool {
        self.resource.custom && self.form == Form::Object
    }

    /// An empty list, as the encoder writes it.
    fn blueprint(&self) -> String {
        let (kind, api_version) = match self.form {
            Form::Partial(form) | Form::PartialList(form) => ("PartialObjectMetadataList", form.to_owned()),
            Form::Object | Form::Table(_) => (&*self.list_kind, self.resource.api_version()),
        };
        let (kind, api_version) = (json!(kind), json!(api_version));
        let mut text = match self.is_custom_object() {
            true => format!(r#"{{"apiVersion":{api_version},"items":[],"kind":{kind}}}"#),
            false => format!(r#"{{"kind":{kind},"apiVersion":{api_version},"metadata":{{}},"items":null}}"#),
        };
        text.push('\n');
        text
    }

    /// An object in a list: lists of built-in kinds do not repeat the kind in each item.
    fn item(&self, object: &StoredObject) -> Value {
        let mut item = object.to_json(&self.resource);
        if !self.resource.custom
            && let Value::Object(fields) = &mut item
        {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        item
    }
}

impl ListMeta {
    fn to_json(&self) -> Value {
        let mut fields = json!({"resourceVersion": self.resource_version.to_string()});
        if let Some(token) = &self.continue_token {
            fields["continue"] = token.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            fields["remainingItemCount"] = remaining.into();
        }
        fields
    }
}

/// The Go type of an object or list, as the server holds it: in the package of the internal version.
fn go_type(resource: &ApiResource, kind: &str) -> String {
    if resource.custom {
        let list = if *kind == *resource.kind { "" } else { "List" };
        return format!("*unstructured.Unstructured{list}");
    }
    let package = match (&*resource.group, &*resource.resource) {
        ("" | "events.k8s.io", _) => "core",
        ("extensions", "ingresses" | "networkpolicies") => "networking",
        ("extensions", "podsecuritypolicies") => "policy",
        ("extensions", _) => "apps",
        (group, _) => group.split('.').next().unwrap_or_default(),
    };
    format!("*{package}.{kind}")
}
