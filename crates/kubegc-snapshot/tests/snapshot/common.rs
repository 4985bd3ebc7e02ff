//! A snapshot as text, and the paths of fixtures: common to the tests.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use kubegc_core::{
    KubernetesVersion,
    record::{Body, Field},
};
use kubegc_snapshot::{Details, ObjectView, Reader, Snapshot, SnapshotError};

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

/// Writes files below a directory.
pub(crate) fn write(directory: &Path, members: &[(&str, &[u8])]) {
    for (path, bytes) in members {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().expect("in the directory")).expect("a directory");
        std::fs::write(path, bytes).expect("a file");
    }
}

/// Reads one text.
pub(crate) fn read(name: &str, text: &[u8]) -> Result<Snapshot, SnapshotError> {
    let mut reader = reader();
    reader.read(name, text)?;
    reader.finish()
}

/// All facts of all objects, a line each, without their places.
pub(crate) fn render(snapshot: &Snapshot) -> String {
    snapshot.objects().map(line).collect()
}

/// Namespace, kind and name.
pub(crate) fn path(object: ObjectView<'_>) -> String {
    match &**object.namespace() {
        "" => format!("{}/{}", object.kind(), object.name()),
        namespace => format!("{namespace}/{}/{}", object.kind(), object.name()),
    }
}

fn line(object: ObjectView<'_>) -> String {
    let meta = object.meta();
    let list = |texts: Vec<String>| Some(texts.join(",")).filter(|text| !text.is_empty());
    let owners = meta.owner_references.iter().map(|owner| {
        let flags = (owner.controller, owner.block_owner_deletion);
        format!("{}:{}:{:?}:{:?}", owner.kind, owner.name, flags.0, flags.1)
    });
    let labels = meta.labels.iter().map(|(key, value)| format!("{key}:{value}"));
    let parts = [
        ("gen", (meta.generation != 0).then(|| meta.generation.to_string())),
        ("deleting", meta.deletion_timestamp.map(|date| date.to_string())),
        (
            "grace",
            meta.deletion_grace_period_seconds.map(|grace| grace.to_string()),
        ),
        (
            "finalizers",
            list(meta.finalizers.iter().map(ToString::to_string).collect()),
        ),
        ("owners", list(owners.collect())),
        ("labels", list(labels.collect())),
        ("details", details(object)),
        ("resolved", object.kind_id().is_none().then(|| "no".to_owned())),
        ("flawed", object.is_flawed().then(|| "yes".to_owned())),
    ];
    let parts = parts
        .into_iter()
        .filter_map(|(name, value)| Some(format!(" {name}={}", value?)));
    let parts: String = parts.collect();
    format!(
        "{} uid={} rv={}{parts}\n",
        path(object),
        meta.uid,
        meta.resource_version
    )
}

/// Some fields of a pod, a namespace or a definition.
fn details(object: ObjectView<'_>) -> Option<String> {
    let details = object.details()?;
    match &*details.body() {
        Body::Pod(pod) => {
            let text = |text: &Field<Arc<str>>| match text.known() {
                Some(text) if !text.is_empty() => text.to_string(),
                Some(_) => "-".to_owned(),
                None => "?".to_owned(),
            };
            let grace = pod.termination_grace_period_seconds.known();
            let grace = grace.map_or("?".to_owned(), |grace| format!("{grace:?}"));
            Some(format!("{}/{}/{grace}", text(&pod.node_name), text(&pod.phase)))
        }
        Body::Namespace(namespace) => {
            let finalizers = namespace.finalizers.known();
            let finalizers = finalizers.map_or("?".to_owned(), |names| names.join(","));
            let phase = namespace.phase.known().map_or("?", |phase| phase);
            Some(format!("{phase}/{finalizers}"))
        }
        _ => {
            let Details::CustomResourceDefinition(definition) = details else {
                return None;
            };
            let versions: Vec<&str> = definition.versions.iter().map(|version| &*version.name).collect();
            let stored = definition.stored_versions.join(",");
            Some(format!("{}/{}/{stored}", definition.kind, versions.join(",")))
        }
    }
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
