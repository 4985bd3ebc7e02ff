//! Small clusters: as proptest generates them, as JSON, and as what is read of that.

use std::fmt::Write;

use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy, deletion::Propagation};
use kubegc_predict::{Assumptions, Cluster, Forecast, Intent};
use kubegc_snapshot::Reader;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A kind of the generated clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
    ReplicaSet,
    Pod,
    Widget,
    ClusterRole,
}

pub(crate) const KINDS: [Kind; 6] = [
    Kind::ConfigMap,
    Kind::Secret,
    Kind::ReplicaSet,
    Kind::Pod,
    Kind::Widget,
    Kind::ClusterRole,
];

impl Kind {
    pub(crate) const fn api_version(self) -> &'static str {
        match self {
            Self::ConfigMap | Self::Secret | Self::Pod => "v1",
            Self::ReplicaSet => "apps/v1",
            Self::Widget => "example.com/v1",
            Self::ClusterRole => "rbac.authorization.k8s.io/v1",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::ReplicaSet => "ReplicaSet",
            Self::Pod => "Pod",
            Self::Widget => "Widget",
            Self::ClusterRole => "ClusterRole",
        }
    }

    const fn is_namespaced(self) -> bool {
        !matches!(self, Self::ClusterRole)
    }
}

/// An owner reference of a generated object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    /// Number of the object that is referred to.
    pub(crate) to: usize,
    pub(crate) blocking: bool,
    /// Whether the uid is that of nobody.
    pub(crate) dangling: bool,
}

/// One generated object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) namespace: &'static str,
    pub(crate) owners: Vec<Reference>,
    pub(crate) finalizers: Vec<&'static str>,
    pub(crate) is_deleting: bool,
}

/// What a generated cluster may contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) objects_max: usize,
    /// Whether objects may carry the collector's finalizers and be in deletion.
    pub(crate) deletions: bool,
}

pub(crate) fn clusters(shape: Shape) -> impl Strategy<Value = Vec<Object>> {
    (1..=shape.objects_max).prop_flat_map(move |count| {
        let reference = (0..count, any::<bool>(), prop::bool::weighted(0.12));
        let reference = reference.prop_map(|(to, blocking, dangling)| Reference {
            to,
            blocking,
            dangling,
        });
        let finalizers = if shape.deletions {
            prop_oneof![
                6 => Just(vec![]),
                2 => Just(vec!["example.com/held"]),
                1 => Just(vec!["foregroundDeletion"]),
                1 => Just(vec!["orphan"]),
                1 => Just(vec!["example.com/held", "foregroundDeletion"]),
            ]
            .boxed()
        } else {
            prop_oneof![5 => Just(vec![]), 1 => Just(vec!["example.com/held"])].boxed()
        };
        let object = (
            prop::sample::select(&KINDS[..]),
            prop::sample::select(&["one", "one", "one", "two"][..]),
            prop::collection::vec(reference, 0..=3),
            finalizers,
            prop::bool::weighted(0.15),
        );
        let object = object.prop_map(move |(kind, namespace, mut owners, finalizers, is_deleting)| {
            owners.sort_by_key(|owner| (owner.to, owner.dangling));
            owners.dedup_by_key(|owner| owner.to);
            Object {
                kind,
                namespace: if kind.is_namespaced() { namespace } else { "" },
                owners,
                // The server removes what is being deleted and held by nothing.
                is_deleting: shape.deletions && is_deleting && !finalizers.is_empty(),
                finalizers,
            }
        });
        prop::collection::vec(object, count)
    })
}

/// The name of an object by its number.
pub(crate) fn name(number: usize) -> String {
    format!("object-{number:02}")
}

/// The uid of an object by its number.
pub(crate) fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// The objects as JSON, with the definition of Widgets and the node of the pods last.
pub(crate) fn items(objects: &[Object]) -> Vec<Value> {
    let mut items: Vec<Value> = (0..objects.len()).map(|number| item(objects, number)).collect();
    items.push(widget_definition());
    items.push(node());
    items
}

/// The node of the pods.
pub(crate) fn node() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": "node-1", "uid": "uid-of-node-1", "resourceVersion": "998" },
        "spec": {},
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

fn item(objects: &[Object], number: usize) -> Value {
    let object = &objects[number];
    let owners: Vec<Value> = object
        .owners
        .iter()
        .map(|owner| {
            let kind = objects[owner.to].kind;
            json!({
                "apiVersion": kind.api_version(),
                "kind": kind.name(),
                "name": name(owner.to),
                "uid": uid(if owner.dangling { 900 + owner.to } else { owner.to }),
                "blockOwnerDeletion": owner.blocking,
            })
        })
        .collect();
    let mut item = json!({
        "apiVersion": object.kind.api_version(),
        "kind": object.kind.name(),
        "metadata": {
            "name": name(number),
            "uid": uid(number),
            "resourceVersion": (number + 1).to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": owners,
            "finalizers": object.finalizers,
        },
    });
    if !object.namespace.is_empty() {
        item["metadata"]["namespace"] = object.namespace.into();
    }
    if object.is_deleting {
        item["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z".into();
        item["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    }
    match object.kind {
        Kind::Pod => {
            item["spec"] = json!({ "nodeName": "node-1", "terminationGracePeriodSeconds": 30 });
            item["status"] = json!({ "phase": "Running" });
        }
        // It selects none of the pods, which have no labels.
        Kind::ReplicaSet => {
            let selector = json!({ "matchLabels": { "app": name(number) } });
            item["spec"] = json!({ "replicas": 1, "selector": selector });
        }
        Kind::Secret => item["type"] = "Opaque".into(),
        _ => {}
    }
    item
}

/// The definition of Widgets, established.
pub(crate) fn widget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "widgets.example.com",
            "uid": "00000000-0000-4000-8000-000000000999",
            "resourceVersion": "999",
        },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true }],
        },
        "status": {
            "conditions": [{ "type": "Established", "status": "True" }],
            "storedVersions": ["v1"],
        },
    })
}

/// A list of items as one document.
pub(crate) fn list(items: &[Value]) -> Vec<u8> {
    serde_json::to_vec(&json!({ "apiVersion": "v1", "kind": "List", "items": items }))
        .expect("values are JSON")
}

/// Reads documents, all kinds complete that are named.
pub(crate) fn read(documents: &[Vec<u8>], complete: &[&str], assumptions: Assumptions) -> Cluster {
    let version = KubernetesVersion::LATEST;
    let mut reader = Reader::new(version);
    for kind in complete {
        reader = reader.complete(kind);
    }
    for (at, document) in documents.iter().enumerate() {
        reader
            .read(&format!("document-{at}"), &document[..])
            .expect("the document is a list");
    }
    Cluster::new(
        version,
        reader.finish().expect("the kinds are known"),
        assumptions,
    )
}

/// A cluster of which everything is known.
pub(crate) fn complete(items: &[Value]) -> Cluster {
    read(&[list(items)], &["all"], Assumptions::default())
}

/// The intent to delete an object by its number.
pub(crate) fn delete(objects: &[Object], number: usize, policy: PropagationPolicy) -> Intent {
    let object = &objects[number];
    let mut text = String::new();
    if !object.namespace.is_empty() {
        // Writing to a String cannot fail.
        let _written = write!(text, "{}/", object.namespace);
    }
    let _written = write!(text, "{}/{}", object.kind.name(), name(number));
    let options = DeleteOptions {
        propagation: Some(Propagation::Policy(policy)),
        ..DeleteOptions::default()
    };
    Intent::delete(text.parse().expect("a name in two or three parts"), options)
}

pub(crate) fn policies() -> impl Strategy<Value = PropagationPolicy> {
    prop::sample::select(
        &[
            PropagationPolicy::Background,
            PropagationPolicy::Foreground,
            PropagationPolicy::Orphan,
        ][..],
    )
}

/// The word for the fate of an object after what is pending and the intent. A forecast has what is pending in
/// reach of its intent.
pub(crate) fn word(cluster: &Cluster, forecast: &Forecast, uid: &str) -> &'static str {
    let of = |forecast: &Forecast| {
        let fates = forecast.fates.iter();
        let mut fates = fates.filter(|fate| *fate.object.uid.text() == *uid);
        fates.next().map(|fate| fate.fate.word())
    };
    of(forecast).or_else(|| of(cluster.pending())).unwrap_or("kept")
}
