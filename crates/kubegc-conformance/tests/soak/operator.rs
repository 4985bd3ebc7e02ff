//! A client that performs random operations from a seed: it creates, deletes and edits, in every way that
//! matters to a collector.

use std::collections::BTreeSet;

use http::{Method, Request, header::CONTENT_TYPE};
use kube::{Client, client::Body};
use kubegc_core::ObjectMeta;
use kubegc_sim::rng::Rng;
use kubegc_testkit::Cluster;
use serde_json::{Value, json};

use crate::world::{KINDS, Key, collection};

/// The finalizer that only the client removes.
pub(crate) const HOLD: &str = "soak.example.com/hold";
/// The namespaces of the soak.
pub(crate) const NAMESPACES: [&str; 2] = ["blue", "green"];
/// The number of names of each kind in each namespace: few, so that they are used again.
const NAMES: u64 = 5;
/// The propagation policies, and none.
const POLICIES: [Option<&str>; 4] = [None, Some("Background"), Some("Foreground"), Some("Orphan")];

/// An object that was created, now or some time ago.
#[derive(Clone, Debug)]
struct Known {
    key: Key,
    uid: String,
}

pub(crate) struct Operator {
    cluster: Cluster,
    client: Client,
    rng: Rng,
    known: Vec<Known>,
    /// The performed operations, for messages.
    pub(crate) done: Vec<String>,
}

impl Operator {
    pub(crate) fn new(cluster: &Cluster, seed: u64) -> Self {
        Self {
            cluster: cluster.clone(),
            client: cluster.client_as("operator"),
            rng: Rng::new(seed),
            known: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Performs one operation.
    pub(crate) async fn act(&mut self) {
        match self.rng.below(100) {
            0..45 => self.create().await,
            45..70 => self.delete().await,
            70..80 => self.edit_owners().await,
            80..88 => self.release_one().await,
            88..96 => self.touch().await,
            _ => self.delete_collection().await,
        }
    }

    fn draw<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let at = self.rng.below(from.len() as u64);
        from.get(usize::try_from(at).unwrap_or(0)).cloned()
    }

    async fn create(&mut self) {
        let kind = usize::try_from(self.rng.below(KINDS.len() as u64)).unwrap_or(0);
        let namespace = if KINDS[kind].is_namespaced() {
            self.draw(&NAMESPACES).unwrap_or_default()
        } else {
            ""
        };
        let key = Key {
            kind,
            namespace: namespace.to_owned(),
            name: format!("n{}", self.rng.below(NAMES)),
        };
        let owners = self.owners(&key);
        let held = self.rng.chance(200);
        self.create_as(&key, owners, held).await;
    }

    /// Creates an object, unless there is one under the name.
    pub(crate) async fn create_as(&mut self, key: &Key, owners: Vec<Value>, held: bool) {
        let kind = &KINDS[key.kind];
        let mut metadata = json!({"name": key.name, "ownerReferences": owners});
        if held {
            metadata["finalizers"] = json!([HOLD]);
        }
        let mut body = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata});
        if &*kind.kind == "ReplicaSet" {
            body["spec"] = json!({
                "replicas": 0,
                "selector": {"matchLabels": {"app": "soak"}},
                "template": {"metadata": {"labels": {"app": "soak"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            });
        }
        let url = collection(kind, &key.namespace);
        let (code, created) = self.send(Method::POST, &url, "application/json", &body).await;
        assert!(matches!(code, 201 | 409), "{code} {created} for {body}");
        if let (201, Some(uid)) = (code, created["metadata"]["uid"].as_str()) {
            self.known.push(Known {
                key: key.clone(),
                uid: uid.to_owned(),
            });
        }
    }

    /// A correct reference to an object that exists or existed.
    pub(crate) fn reference(owner: &Key, uid: &str, blocking: Option<bool>) -> Value {
        let kind = &KINDS[owner.kind];
        let mut reference =
            json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": owner.name, "uid": uid});
        if let Some(blocking) = blocking {
            reference["blockOwnerDeletion"] = blocking.into();
        }
        reference
    }

    /// Owners for an object: mostly one that is right.
    fn owners(&mut self, of: &Key) -> Vec<Value> {
        let count = [0, 1, 1, 1, 1, 1, 2, 2, 3, 0][usize::try_from(self.rng.below(10)).unwrap_or(0)];
        let mut uids = BTreeSet::new();
        let mut owners = Vec::new();
        for _ in 0..count {
            let recent = self.known.len().saturating_sub(25);
            let fits = |known: &&Known| {
                let namespaced = KINDS[known.key.kind].is_namespaced();
                !namespaced || (KINDS[of.kind].is_namespaced() && known.key.namespace == of.namespace)
            };
            // One in ten references may name anything: to other namespaces, and from cluster-scoped objects
            // to namespaced ones.
            let anywhere = self.rng.chance(100);
            let candidates: Vec<Known> = self.known[recent..]
                .iter()
                .filter(|known| anywhere || fits(known))
                .cloned()
                .collect();
            let Some(owner) = self.draw(&candidates) else {
                continue;
            };
            if !uids.insert(owner.uid.clone()) {
                continue;
            }
            let blocking =
                [None, Some(false), Some(true), Some(true)][usize::try_from(self.rng.below(4)).unwrap_or(0)];
            let mut reference = Self::reference(&owner.key, &owner.uid, blocking);
            match self.rng.below(40) {
                0 => reference["uid"] = format!("never-there-{}", self.rng.below(3)).into(),
                1 => reference["kind"] = "Secret".into(),
                2 => reference["name"] = "other".into(),
                3 => reference["apiVersion"] = "soak.example.com/v9".into(),
                4 => {
                    // The same owner twice, once wrong.
                    let mut twice = reference.clone();
                    twice["name"] = "other".into();
                    owners.push(twice);
                }
                _ => {}
            }
            owners.push(reference);
        }
        owners
    }

    /// An existing object, or in most cases a name, which may be used again.
    fn some(&mut self) -> Option<(Known, ObjectMeta)> {
        for _ in 0..20 {
            let known = self.draw(&self.known.clone())?;
            if let Some(meta) = self.live(&known.key) {
                return Some((known, meta));
            }
        }
        None
    }

    fn live(&self, key: &Key) -> Option<ObjectMeta> {
        let kind = &KINDS[key.kind];
        self.cluster.server().with(|server| {
            let kind = server.resolve(&kind.group, &kind.version, &kind.resource).ok()?;
            server
                .object(kind, &key.namespace, &key.name)
                .map(|object| ObjectMeta::clone(&object.meta))
        })
    }

    /// The uid that an object has now.
    pub(crate) fn uid(&self, key: &Key) -> Option<String> {
        self.live(key).map(|meta| meta.uid.to_string())
    }

    async fn delete(&mut self) {
        let Some((known, _)) = self.some() else { return };
        let policy = self.draw(&POLICIES).flatten();
        self.delete_with(&known.key, policy).await;
    }

    pub(crate) async fn delete_with(&mut self, key: &Key, policy: Option<&str>) {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(policy) = policy {
            options["propagationPolicy"] = policy.into();
        }
        self.send(Method::DELETE, &url(key), "application/json", &options)
            .await;
    }

    async fn delete_collection(&mut self) {
        let Some((known, _)) = self.some() else { return };
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(policy) = self.draw(&POLICIES).flatten() {
            options["propagationPolicy"] = policy.into();
        }
        let url = collection(&KINDS[known.key.kind], &known.key.namespace);
        self.send(Method::DELETE, &url, "application/json", &options)
            .await;
    }

    async fn edit_owners(&mut self) {
        let Some((known, meta)) = self.some() else { return };
        let mut owners: Vec<Value> = meta
            .owner_references
            .iter()
            .map(|owner| serde_json::to_value(owner).expect("plain data"))
            .collect();
        match self.rng.below(5) {
            0 => owners = self.owners(&known.key),
            1 => owners.clear(),
            2 => {
                owners.pop();
            }
            3 => {
                for owner in &mut owners {
                    owner["blockOwnerDeletion"] = self.rng.chance(500).into();
                }
            }
            _ => {
                if self.rng.chance(200) {
                    owners.push(Self::reference(
                        &known.key,
                        &meta.uid.to_string(),
                        Some(self.rng.chance(300)),
                    ));
                } else {
                    for owner in self.owners(&known.key) {
                        if !owners.iter().any(|there| there["uid"] == owner["uid"]) {
                            owners.push(owner);
                        }
                    }
                }
            }
        }
        self.set_owners(&known.key, owners).await;
    }

    pub(crate) async fn set_owners(&mut self, key: &Key, owners: Vec<Value>) {
        self.merge(key, json!({ "ownerReferences": owners })).await;
    }

    async fn touch(&mut self) {
        let Some((known, _)) = self.some() else { return };
        let value = format!("v{}", self.rng.below(1_000));
        self.merge(&known.key, json!({"labels": {"touched": value}}))
            .await;
    }

    async fn release_one(&mut self) {
        let held = |known: &&Known| {
            self.live(&known.key)
                .is_some_and(|meta| meta.finalizers.iter().any(|name| &**name == HOLD))
        };
        let held: Vec<Known> = self.known.iter().filter(held).cloned().collect();
        if let Some(known) = self.draw(&held) {
            self.release(&known.key).await;
        }
    }

    /// Removes all finalizers of the client.
    pub(crate) async fn release_all(&mut self) {
        let keys: BTreeSet<Key> = self.known.iter().map(|known| known.key.clone()).collect();
        for key in keys {
            self.release(&key).await;
        }
    }

    async fn release(&mut self, key: &Key) {
        let Some(meta) = self.live(key) else { return };
        let kept: Vec<&str> = meta
            .finalizers
            .iter()
            .map(|name| &**name)
            .filter(|name| *name != HOLD)
            .collect();
        if kept.len() < meta.finalizers.len() {
            let patch = json!({"resourceVersion": meta.resource_version.as_str(), "finalizers": kept});
            self.merge(key, patch).await;
        }
    }

    pub(crate) async fn merge(&mut self, key: &Key, metadata: Value) {
        let patch = json!({ "metadata": metadata });
        self.send(Method::PATCH, &url(key), "application/merge-patch+json", &patch)
            .await;
    }

    async fn send(&mut self, method: Method, url: &str, content_type: &str, body: &Value) -> (u16, Value) {
        let line = format!("{method} {url} {body}");
        let (code, answer) = send(&self.client, method, url, content_type, body).await;
        self.done.push(format!("{line} -> {code}"));
        (code, answer)
    }
}

/// Sends a request as a client that meets no faults. Returns the status code and the body.
pub(crate) async fn send(
    client: &Client,
    method: Method,
    url: &str,
    content_type: &str,
    body: &Value,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(url)
        .header(CONTENT_TYPE, content_type)
        .body(Body::from(body.to_string().into_bytes()))
        .expect("the parts of a request are valid");
    let response = client.send(request).await.expect("no fault");
    let code = response.status().as_u16();
    let answer = response.into_body().collect_bytes().await;
    let answer = answer.expect("the response is complete");
    (code, serde_json::from_slice(&answer).unwrap_or_default())
}

/// The path of an object.
pub(crate) fn url(key: &Key) -> String {
    format!("{}/{}", collection(&KINDS[key.kind], &key.namespace), key.name)
}
