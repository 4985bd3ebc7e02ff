//! The few facts outside the metadata that predictions and the lifecycle mechanisms need, by kind.

mod definition;
mod kind;
mod node;
mod pod;
mod reading;
mod request;
mod storage;
mod token;
mod workload;

use std::sync::Arc;

use kubegc_core::Scope;
use kubegc_lifecycle::fields::{self, Fields};

use crate::{
    body::{Annotations, AnySpec, Body, Spec, Status},
    mentions::Mentions,
    soft::Soft,
    texts::Texts,
};

pub(crate) use self::{
    kind::{Kind, Part, may_read},
    reading::{DetailFlaw, Found, Path, Reading, Unreadable},
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
    /// Of any other kind that a lifecycle mechanism looks at.
    Lifecycle(Fields),
}

impl Details {
    /// What the lifecycle mechanisms read of it.
    #[must_use]
    pub fn fields(&self) -> Fields {
        match self {
            Self::Pod(pod) => Fields::Pod(pod.fields.clone()),
            Self::Lifecycle(fields) => fields.clone(),
            Self::Namespace(_) | Self::CustomResourceDefinition(_) => Fields::Unread,
        }
    }
}

/// What decides how a pod's deletion goes on, and what the lifecycle mechanisms read of it.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodDetails {
    /// What the mechanisms read. Of its volumes only those with a claim behind them are kept.
    pub fields: fields::Pod,
    /// `spec.terminationGracePeriodSeconds`.
    pub termination_grace_period_seconds: Option<i64>,
}

impl PodDetails {
    /// `spec.nodeName`; `None` while the pod is not scheduled, or where that is not known.
    #[must_use]
    pub fn node_name(&self) -> Option<&Arc<str>> {
        self.fields.node_name.as_ref().filter(|name| !name.is_empty())
    }

    /// `status.phase`, such as `Running`; `None` where there is none, or the status is not known.
    #[must_use]
    pub fn phase(&self) -> Option<&Arc<str>> {
        let phase = self.fields.status.as_ref().map(|status| &status.phase);
        phase.filter(|phase| !phase.is_empty())
    }
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

pub(crate) static SPEC: Path<'static> = Path::of("spec");
pub(crate) static STATUS: Path<'static> = Path::of("status");
static METADATA: Path<'static> = Path::of("metadata");
static ANNOTATIONS: Path<'static> = METADATA.field("annotations");

/// Takes the details of a kind out of what was read; `None` where they cannot be made out.
///
/// A spec that is absent says nothing of its fields, as in lists of metadata; in one that is there, an absent field is unset. What cannot be read is
/// unknown, and a flaw; of pods nothing is looked into that can name nothing of concern, as their text shows. Where the facts of a kind have no word for what is unknown, the object has no details.
pub(crate) fn read(
    kind: Kind,
    body: &Body<'_>,
    mentions: Mentions,
    texts: &mut Texts,
    flaws: &mut Vec<DetailFlaw>,
) -> Option<Details> {
    let mut reading = Reading { texts, flaws };
    let reading = &mut reading;
    match kind {
        Kind::Pod => Some(Details::Pod(pod::read(reading, body, mentions))),
        Kind::Namespace => Some(Details::Namespace(namespace(reading, body))),
        Kind::CustomResourceDefinition => {
            definition::read(reading, body).map(Details::CustomResourceDefinition)
        }
        _ => fields(reading, kind, body).map(Details::Lifecycle),
    }
}

fn fields(reading: &mut Reading<'_>, kind: Kind, body: &Body<'_>) -> Option<Fields> {
    Some(match kind {
        Kind::CertificateSigningRequest => Fields::CertificateSigningRequest(request::request(reading, body)),
        Kind::ConfigMap => Fields::ConfigMap(token::config_map(reading, body)?),
        Kind::CronJob => Fields::CronJob(workload::cron_job(reading, body)),
        Kind::Job => Fields::Job(workload::job(reading, body)),
        Kind::Node => Fields::Node(node::node(reading, body)),
        Kind::PersistentVolume => Fields::PersistentVolume(storage::volume(reading, body)?),
        Kind::PersistentVolumeClaim => Fields::PersistentVolumeClaim(storage::claim(reading, body)?),
        Kind::Secret => Fields::Secret(token::secret(reading, body)),
        Kind::ServiceAccount => Fields::ServiceAccount(token::service_account(reading, body)),
        Kind::StatefulSet => Fields::StatefulSet(workload::stateful_set(reading, body)?),
        Kind::Pod | Kind::Namespace | Kind::CustomResourceDefinition => return None,
    })
}

fn namespace(reading: &mut Reading<'_>, body: &Body<'_>) -> NamespaceDetails {
    let finalizers = match spec_of(reading, body) {
        Ok(Some(spec)) => reading.texts_of(&spec.finalizers, SPEC.field("finalizers")),
        Ok(None) | Err(Unreadable) => Vec::new(),
    };
    let phase = match status_of(reading, body) {
        Ok(status) => phase_of(reading, status).ok().flatten(),
        Err(Unreadable) => None,
    };
    NamespaceDetails { phase, finalizers }
}

/// The spec of what is no pod, where there is one.
fn spec_of<'b, 'a>(reading: &mut Reading<'_>, body: &'b Body<'a>) -> Found<&'b Spec<'a>> {
    Ok(reading.value(&body.spec, SPEC)?.and_then(AnySpec::of_others))
}

/// The status, where there is one.
fn status_of<'b, 'a>(reading: &mut Reading<'_>, body: &'b Body<'a>) -> Found<&'b Status<'a>> {
    reading.value(&body.status, STATUS)
}

/// The annotations, where there are any.
fn annotations_of<'b, 'a>(reading: &mut Reading<'_>, body: &'b Body<'a>) -> Found<&'b Annotations<'a>> {
    match &body.metadata {
        Soft::Is(meta) => reading.value(&meta.annotations, ANNOTATIONS),
        // Metadata of another shape has no name either, so that there is no object.
        Soft::Absent | Soft::Wrong(_) => Ok(None),
    }
}

/// The phase, which the API server always fills.
fn phase_of(reading: &mut Reading<'_>, status: Option<&Status<'_>>) -> Found<Arc<str>> {
    let path = STATUS.field("phase");
    let phase = match status {
        Some(status) => reading.text(&status.phase, path)?,
        None => None,
    };
    if phase.is_none() {
        reading.missing(path);
    }
    Ok(phase)
}
