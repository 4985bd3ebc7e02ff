//! The client of a scenario: plain requests through a `kube::Client`, and the recorded aliases of values that
//! the server generated.

use std::collections::BTreeMap;

use http::{Method, Request, header::CONTENT_TYPE};
use kube::{Client, client::Body};
use kubegc_core::{ApiResource, Catalog};
use serde_json::{Value, json};

use crate::format::{Object, Scenario};

/// Maximum number of retries of a read and patch after conflicts.
const CONFLICTS_MAX: usize = 20;

/// The client of a scenario.
pub(crate) struct Recorder<'a> {
    scenario: &'a Scenario,
    catalog: Catalog,
    client: Client,
    /// The uid of each alias, as the server generated it.
    uids: BTreeMap<String, String>,
    /// The versions that objects had at their creation.
    versions: BTreeMap<String, String>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(scenario: &'a Scenario, catalog: Catalog, client: Client) -> Self {
        Self {
            scenario,
            catalog,
            client,
            uids: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    pub(crate) async fn create(&mut self, alias: &str) {
        let object = self.object(alias);
        let mut body = object.extra.clone();
        body.insert("apiVersion".to_owned(), object.api_version.as_str().into());
        body.insert("kind".to_owned(), object.kind.as_str().into());
        let mut metadata = json!({
            "name": object.name, "finalizers": object.finalizers, "ownerReferences": object.owner_references,
        });
        if !object.namespace.is_empty() {
            metadata["namespace"] = object.namespace.as_str().into();
        }
        body.insert("metadata".to_owned(), metadata);
        let body = self.outgoing(&Value::Object(body).to_string());
        let (code, created) = self
            .send(
                Method::POST,
                &self.collection_url(object),
                "application/json",
                &body,
            )
            .await;
        if code == 201 {
            let text = |key: &str| created["metadata"][key].as_str().unwrap_or_default().to_owned();
            self.uids.insert(alias.to_owned(), text("uid"));
            self.versions.insert(alias.to_owned(), text("resourceVersion"));
        }
    }

    pub(crate) async fn delete(&self, alias: &str, options: &serde_json::Map<String, Value>) {
        let mut options = options.clone();
        if let Some(Value::Object(preconditions)) = options.get_mut("preconditions")
            && let Some(version) = preconditions.get_mut("resourceVersion")
        {
            let given = match version.as_str() {
                Some("current") => Some(self.current_version(alias).await),
                Some("stale") => self.versions.get(alias).cloned(),
                other => other.map(ToOwned::to_owned),
            };
            *version = given.unwrap_or_default().into();
        }
        let body = self.outgoing(&Value::Object(options).to_string());
        self.send(Method::DELETE, &self.url(alias), "application/json", &body)
            .await;
    }

    pub(crate) async fn merge(&self, alias: &str, metadata: Value) -> u16 {
        let body = self.outgoing(&json!({ "metadata": metadata }).to_string());
        let (code, _) = self
            .send(
                Method::PATCH,
                &self.url(alias),
                "application/merge-patch+json",
                &body,
            )
            .await;
        code
    }

    pub(crate) async fn change_finalizers(&self, alias: &str, change: impl Fn(&mut Vec<Value>)) {
        for _ in 0..CONFLICTS_MAX {
            let (code, object) = self.get(alias).await;
            if code != 200 {
                return;
            }
            let metadata = &object["metadata"];
            let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
            change(&mut finalizers);
            let patch = json!({"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers});
            if self.merge(alias, patch).await != 409 {
                return;
            }
        }
    }

    pub(crate) async fn patch(&self, alias: &str, content_type: &str, body: &Value) {
        let current = self.current_version(alias).await;
        let stale = self.versions.get(alias).cloned().unwrap_or_default();
        let body = body
            .to_string()
            .replace("<rv>", &current)
            .replace("<stale-rv>", &stale);
        self.send(
            Method::PATCH,
            &self.url(alias),
            content_type,
            &self.outgoing(&body),
        )
        .await;
    }

    pub(crate) async fn delete_namespace(&self, name: &str) {
        let url = format!("/api/v1/namespaces/{name}");
        self.send(Method::DELETE, &url, "application/json", "{}").await;
    }

    /// The existing objects by alias, in the recorded form.
    pub(crate) async fn state(&self) -> Value {
        let mut state = serde_json::Map::new();
        for Object { alias, .. } in &self.scenario.objects {
            let (code, object) = self.get(alias).await;
            let metadata = &object["metadata"];
            let uid = self.uids.get(alias).map(String::as_str);
            let there = code == 200 && uid.is_some() && metadata["uid"].as_str() == uid;
            let list = |key: &str| metadata.get(key).cloned().unwrap_or_else(|| json!([]));
            let value = if there {
                json!({
                    "present": true,
                    "deletionTimestamp": metadata.get("deletionTimestamp").is_some(),
                    "finalizers": list("finalizers"),
                    "ownerReferences": list("ownerReferences"),
                })
            } else {
                json!({"present": false})
            };
            state.insert(alias.clone(), value);
        }
        let mut text = Value::Object(state).to_string();
        for (alias, uid) in &self.uids {
            text = text.replace(uid, &format!("uid:{alias}"));
        }
        serde_json::from_str(&text).expect("texts were replaced by texts")
    }

    fn object(&self, alias: &str) -> &'a Object {
        let mut objects = self.scenario.objects.iter();
        objects
            .find(|object| object.alias == alias)
            .unwrap_or_else(|| panic!("no object has the alias {alias}"))
    }

    async fn get(&self, alias: &str) -> (u16, Value) {
        self.send(Method::GET, &self.url(alias), "application/json", "")
            .await
    }

    async fn current_version(&self, alias: &str) -> String {
        let (_, object) = self.get(alias).await;
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Writes the real uids for `"uid:alias"`. An alias without an object yet becomes a uid of no object.
    fn outgoing(&self, body: &str) -> String {
        let mut body = body.to_owned();
        for (alias, uid) in &self.uids {
            body = body.replace(&format!("\"uid:{alias}\""), &format!("\"{uid}\""));
        }
        body
    }

    fn resource(&self, object: &Object) -> &ApiResource {
        let kind = self.catalog.mapping(&object.api_version, &object.kind);
        &self.catalog[kind.expect("the recorded kinds are all in the catalog")]
    }

    fn collection_url(&self, object: &Object) -> String {
        let resource = self.resource(object);
        let prefix = if resource.group.is_empty() {
            "/api"
        } else {
            "/apis"
        };
        let namespace = match object.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        format!("{prefix}/{}{namespace}/{}", object.api_version, resource.resource)
    }

    fn url(&self, alias: &str) -> String {
        let object = self.object(alias);
        format!("{}/{}", self.collection_url(object), object.name)
    }

    async fn send(&self, method: Method, url: &str, content_type: &str, body: &str) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header(CONTENT_TYPE, content_type)
            .body(Body::from(body.as_bytes().to_vec()))
            .expect("the parts of a request are valid");
        let response = self
            .client
            .send(request)
            .await
            .expect("no fault is injected here");
        let code = response.status().as_u16();
        let body = response
            .into_body()
            .collect_bytes()
            .await
            .expect("the response is complete");
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }
}
