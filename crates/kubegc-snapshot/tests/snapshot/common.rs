//! A snapshot as text, and the paths of fixtures: common to the tests.

use std::{fmt::Write, path::PathBuf, sync::Arc};

use kubegc_core::{
    KubernetesVersion,
    record::{Body, Field},
};
use kubegc_snapshot::{Details, Reader, Snapshot, SnapshotError, SnapshotObject};

/// A reader for 1.28.
pub(crate) fn reader() -> Reader {
    Reader::new(KubernetesVersion::new(28, 0).expect("1.28 is known"))
}

/// Path of a fixture.
pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// Bytes of a fixture.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(data(name)).expect("the fixture is in the repository")
}

/// Reads one text.
pub(crate) fn read(name: &str, text: &[u8]) -> Result<Snapshot, SnapshotError> {
    let mut reader = reader();
    reader.read(name, text)?;
    reader.finish()
}

/// All facts of all objects, a line each, without their places.
pub(crate) fn render(snapshot: &Snapshot) -> String {
    snapshot.objects().map(|object| line(&object)).collect()
}

/// Namespace, kind and name.
pub(crate) fn path(object: &SnapshotObject) -> String {
    match &*object.meta.namespace {
        "" => format!("{}/{}", object.kind, object.meta.name),
        namespace => format!("{namespace}/{}/{}", object.kind, object.meta.name),
    }
}

fn line(object: &SnapshotObject) -> String {
    let meta = &object.meta;
    let mut text = format!("{} uid={} rv={}", path(object), meta.uid, meta.resource_version);
    let mut part = |name: &str, value: String| {
        if !value.is_empty() {
            // Writing to a String cannot fail.
            let _written = write!(text, " {name}={value}");
        }
    };
    part(
        "gen",
        if meta.generation == 0 {
            String::new()
        } else {
            meta.generation.to_string()
        },
    );
    part(
        "deleting",
        meta.deletion_timestamp
            .map_or_else(String::new, |date| date.to_string()),
    );
    part(
        "grace",
        meta.deletion_grace_period_seconds
            .map_or_else(String::new, |grace| grace.to_string()),
    );
    part("finalizers", meta.finalizers.join(","));
    let owners: Vec<String> = meta
        .owner_references
        .iter()
        .map(|owner| {
            format!(
                "{}:{}:{:?}:{:?}",
                owner.kind, owner.name, owner.controller, owner.block_owner_deletion
            )
        })
        .collect();
    part("owners", owners.join(","));
    let labels: Vec<String> = meta
        .labels
        .iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    part("labels", labels.join(","));
    let details = object.details.as_deref();
    let body = details.map(Details::body);
    part(
        "details",
        match (body.as_deref(), details) {
            (Some(Body::Pod(pod)), _) => {
                let text = |text: &Field<Arc<str>>| match text.known() {
                    Some(text) if !text.is_empty() => text.to_string(),
                    Some(_) => "-".to_owned(),
                    None => "?".to_owned(),
                };
                let grace = pod.termination_grace_period_seconds.known();
                let grace = grace.map_or("?".to_owned(), |grace| format!("{grace:?}"));
                format!("{}/{}/{grace}", text(&pod.node_name), text(&pod.phase))
            }
            (Some(Body::Namespace(namespace)), _) => {
                let finalizers = namespace.finalizers.known();
                let phase = namespace.phase.known().map_or("?", |phase| phase);
                format!(
                    "{phase}/{}",
                    finalizers.map_or("?".to_owned(), |names| names.join(","))
                )
            }
            (_, Some(Details::CustomResourceDefinition(definition))) => {
                let versions: Vec<&str> = definition.versions.iter().map(|version| &*version.name).collect();
                format!(
                    "{}/{}/{}",
                    definition.kind,
                    versions.join(","),
                    definition.stored_versions.join(",")
                )
            }
            _ => String::new(),
        },
    );
    part(
        "resolved",
        if object.kind_id.is_some() {
            String::new()
        } else {
            "no".to_owned()
        },
    );
    part(
        "flawed",
        if object.flawed {
            "yes".to_owned()
        } else {
            String::new()
        },
    );
    text.push('\n');
    text
}

/// The listed findings, a line each, with their files cut to the last name.
pub(crate) fn findings(snapshot: &Snapshot) -> Vec<String> {
    let root = format!("{}/", data("").display()).replace("//", "/");
    snapshot
        .findings
        .iter()
        .map(|finding| finding.to_string().replace(&root, ""))
        .collect()
}
