//! Turns bytes into choices: the few kinds, names and uids that objects of the fuzz targets are made of.
//!
//! `cargo fuzz run -s none collector` (or `snapshot`, `patch`, `dot`, `crictl`, `node_plan`, `requests`, `protobuf`) runs one target; nothing of a run is kept in the repository.

use kubegc_core::{
    ApiResource, Catalog, KubernetesVersion, ObjectMeta, OwnerReference, ResourceVersion, Scope, Timestamp,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};

/// apiVersion, kind, resource, whether namespaced, whether custom.
const KINDS: [(&str, &str, &str, bool, bool); 6] = [
    ("v1", "ConfigMap", "configmaps", true, false),
    ("v1", "Pod", "pods", true, false),
    ("apps/v1", "ReplicaSet", "replicasets", true, false),
    (
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "clusterroles",
        false,
        false,
    ),
    ("example.com/v1", "Widget", "widgets", true, true),
    ("example.com/v1", "ClusterWidget", "clusterwidgets", false, true),
];

/// Releases on both sides of each change of behaviour.
const VERSIONS: [&str; 8] = ["1.13", "1.15", "1.17", "1.20", "1.23", "1.28", "1.34", "1.36"];

/// Bytes that are used up choice by choice; zeros once they are at an end.
pub struct Choices<'a>(pub &'a [u8]);

impl<'a> Choices<'a> {
    /// Whether every byte was used.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    /// One of two.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// One of several.
    pub fn of<'b, T>(&mut self, all: &'b [T]) -> &'b T {
        &all[self.below(all.len())]
    }

    /// One of the releases.
    pub fn version(&mut self) -> KubernetesVersion {
        let text = self.of(&VERSIONS);
        text.parse().expect("a release that kubegc knows")
    }

    /// One of the kinds, by apiVersion and kind, and whether it is namespaced. Rarely one that no catalog has.
    pub fn kind(&mut self) -> (&'static str, &'static str, bool) {
        match self.below(32) {
            31 => ("example.com/v1beta1", "Widget", true),
            30 => ("gone.example.com/v1", "Gadget", true),
            other => {
                let (api_version, kind, _, namespaced, _) = KINDS[other % KINDS.len()];
                (api_version, kind, namespaced)
            }
        }
    }

    /// A uid of the small universe.
    pub fn uid(&mut self) -> String {
        // The first half are canonical UUIDs, the others are not.
        match self.below(12) {
            other @ 0..6 => format!("00000000-0000-4000-8000-00000000000{other}"),
            other => format!("uid-{other}"),
        }
    }

    /// A reference to anything, with the coordinates that `uid` usually has or others.
    pub fn reference(&mut self) -> OwnerReference {
        let (api_version, kind, _) = self.kind();
        let flags = self.byte();
        let option = |bits: u8| match bits & 3 {
            0 => None,
            1 => Some(false),
            _ => Some(true),
        };
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: format!("n{}", self.below(4)).into(),
            uid: self.uid().into(),
            controller: option(flags >> 2),
            block_owner_deletion: option(flags),
        }
    }

    /// Metadata of an object in one of two namespaces, or in none.
    pub fn meta(&mut self, namespaced: bool) -> ObjectMeta {
        let namespace = if namespaced { *self.of(&["a", "b"]) } else { "" };
        let name = format!("n{}", self.below(4));
        let mut meta = ObjectMeta::new(namespace, &name, &self.uid());
        let flags = self.byte();
        meta.resource_version = ResourceVersion::new(&self.below(8).to_string());
        if flags & 1 == 1 {
            meta.deletion_timestamp = Some(Timestamp::from_secs(1));
        }
        for (bit, finalizer) in [
            (2, FINALIZER_FOREGROUND),
            (4, FINALIZER_ORPHAN),
            (8, "example.com/hold"),
        ] {
            if flags & bit != 0 {
                meta.finalizers.push(finalizer.into());
            }
        }
        for _ in 0..(flags >> 4) % 4 {
            let reference = self.reference();
            meta.owner_references.push(reference);
        }
        meta
    }

    /// A text of any characters, never empty.
    pub fn text(&mut self) -> String {
        let length = 1 + self.below(12);
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        match String::from_utf8_lossy(taken) {
            empty if empty.is_empty() => "x".to_owned(),
            text => text.into_owned(),
        }
    }
}

/// The catalog of the kinds whose bit is set.
pub fn catalog(mask: u8) -> Catalog {
    let mut catalog = Catalog::new();
    for (at, (api_version, kind, resource, namespaced, custom)) in KINDS.into_iter().enumerate() {
        if mask >> at & 1 == 1 {
            let scope = if namespaced {
                Scope::Namespaced
            } else {
                Scope::Cluster
            };
            let mut resource = ApiResource::new(api_version, kind, resource, scope);
            resource.custom = custom;
            catalog.add(resource).expect("the kinds are different");
        }
    }
    catalog
}
