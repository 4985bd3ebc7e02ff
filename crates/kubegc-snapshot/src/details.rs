//! The few facts outside the metadata that predictions need, by kind.

use std::sync::Arc;

use kubegc_core::{Scope, identity::split_api_version};

use crate::{
    finding::Problem,
    item::{Spec, Status, Text},
    texts::Texts,
};

/// Facts of one object beyond its metadata.
///
/// Kinds without facts of interest have no details at all. New kinds may come.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Details {
    /// Of a Pod.
    Pod(PodDetails),
    /// Of a Namespace.
    Namespace(NamespaceDetails),
    /// Of a CustomResourceDefinition.
    CustomResourceDefinition(CrdDetails),
}

/// What decides how a pod's deletion goes on.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodDetails {
    /// `spec.nodeName`; `None` while the pod is not scheduled.
    pub node_name: Option<Arc<str>>,
    /// `spec.terminationGracePeriodSeconds`.
    pub termination_grace_period_seconds: Option<i64>,
    /// `status.phase`, such as `Running`.
    pub phase: Option<Arc<str>>,
}

/// What decides how a namespace's deletion goes on.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NamespaceDetails {
    /// `status.phase`, such as `Active`.
    pub phase: Option<Arc<str>>,
    /// `spec.finalizers`: the namespace's own, beside those of its metadata.
    pub finalizers: Vec<Arc<str>>,
}

/// Which kind a definition defines.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CrdDetails {
    /// `spec.group`.
    pub group: Arc<str>,
    /// `spec.names.plural`.
    pub plural: Arc<str>,
    /// `spec.names.kind`.
    pub kind: Arc<str>,
    /// `spec.names.shortNames`.
    pub short_names: Vec<Arc<str>>,
    /// `spec.scope`.
    pub scope: Scope,
    /// The versions, in the order of the definition.
    pub versions: Vec<CrdVersion>,
    /// `status.storedVersions`.
    pub stored_versions: Vec<Arc<str>>,
    /// The condition `Established`; `None` where the status does not speak of it.
    pub established: Option<bool>,
}

/// One version of a defined kind.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CrdVersion {
    /// Name, such as `v1beta1`.
    pub name: Arc<str>,
    /// Whether the API server serves it.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
}

/// A field that details miss or cannot use.
pub(crate) type DetailFlaw = (Problem, &'static str, &'static str);

/// Takes the details of a kind out of what was read; `None` where the kind has none, or they cannot be made out.
pub(crate) fn read(
    api_version: &str,
    kind: &str,
    spec: Option<&Spec<'_>>,
    status: Option<&Status<'_>>,
    texts: &mut Texts,
    flaws: &mut Vec<DetailFlaw>,
) -> Option<Details> {
    let (no_spec, no_status) = (Spec::default(), Status::default());
    let (spec, status) = (spec.unwrap_or(&no_spec), status.unwrap_or(&no_status));
    let phase = |texts: &mut Texts, flaws: &mut Vec<DetailFlaw>| {
        if status.phase.is_none() {
            flaws.push((Problem::MissingField, "status.phase", "not there"));
        }
        share(texts, status.phase.as_ref())
    };
    match (split_api_version(api_version).0, kind) {
        ("", "Pod") => Some(Details::Pod(PodDetails {
            node_name: share(texts, spec.node_name.as_ref()).filter(|name| !name.is_empty()),
            termination_grace_period_seconds: spec.termination_grace_period_seconds,
            phase: phase(texts, flaws),
        })),
        ("", "Namespace") => Some(Details::Namespace(NamespaceDetails {
            phase: phase(texts, flaws),
            finalizers: share_all(texts, spec.finalizers.as_deref()),
        })),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            definition(spec, status, texts, flaws).map(Details::CustomResourceDefinition)
        }
        _ => None,
    }
}

fn definition(
    spec: &Spec<'_>,
    status: &Status<'_>,
    texts: &mut Texts,
    flaws: &mut Vec<DetailFlaw>,
) -> Option<CrdDetails> {
    let mut needed = |text: Option<&Text<'_>>, field| {
        let text = text.map_or("", Text::as_str);
        if text.is_empty() {
            flaws.push((Problem::MissingField, field, "not there"));
            return None;
        }
        Some(texts.share(text))
    };
    let names = spec.names.as_ref();
    let group = needed(spec.group.as_ref(), "spec.group");
    let plural = needed(names.and_then(|names| names.plural.as_ref()), "spec.names.plural");
    let kind = needed(names.and_then(|names| names.kind.as_ref()), "spec.names.kind");
    let scope = match needed(spec.scope.as_ref(), "spec.scope").as_deref() {
        Some("Namespaced") => Some(Scope::Namespaced),
        Some("Cluster") => Some(Scope::Cluster),
        Some(_) => {
            flaws.push((Problem::BadField, "spec.scope", "neither Namespaced nor Cluster"));
            None
        }
        None => None,
    };
    let mut versions = Vec::new();
    for version in spec.versions.iter().flatten() {
        match share(texts, version.name.as_ref()).filter(|name| !name.is_empty()) {
            Some(name) => versions.push(CrdVersion {
                name,
                served: version.served == Some(true),
                storage: version.storage == Some(true),
            }),
            None => flaws.push((Problem::MissingField, "spec.versions[*].name", "not there")),
        }
    }
    // The first beta form of definitions had one version only.
    if let (true, Some(name)) = (versions.is_empty(), share(texts, spec.version.as_ref())) {
        versions.push(CrdVersion {
            name,
            served: true,
            storage: true,
        });
    }
    let established = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| {
            condition
                .kind
                .as_ref()
                .is_some_and(|kind| kind.as_str() == "Established")
        })
        .map(|condition| {
            condition
                .status
                .as_ref()
                .is_some_and(|status| status.as_str() == "True")
        });
    Some(CrdDetails {
        group: group?,
        plural: plural?,
        kind: kind?,
        short_names: share_all(texts, names.and_then(|names| names.short_names.as_deref())),
        scope: scope?,
        versions,
        stored_versions: share_all(texts, status.stored_versions.as_deref()),
        established,
    })
}

fn share(texts: &mut Texts, text: Option<&Text<'_>>) -> Option<Arc<str>> {
    text.map(|text| texts.share(text.as_str()))
}

fn share_all(texts: &mut Texts, list: Option<&[Text<'_>]>) -> Vec<Arc<str>> {
    list.unwrap_or_default()
        .iter()
        .map(|text| texts.share(text.as_str()))
        .collect()
}
