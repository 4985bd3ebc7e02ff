//! The fields outside the metadata that controllers and predictions read, by kind.

macro_rules! path {
    (spec) => {
        SPEC
    };
    (status) => {
        STATUS
    };
}

/// Reads a field of `spec` or `status`, by its name in the API, with a function of [`Reading`].
macro_rules! field {
    ($reading:ident, $part:ident.$field:ident => $read:ident($key:literal)) => {
        $reading.field($part, |reading, part| {
            reading.$read(&part.$field, path!($part).field($key))
        })
    };
}

mod admission;
mod apps;
mod claim;
mod definition;
mod kind;
mod network;
mod node;
mod pod;
pub mod reading;
mod request;
mod selector;
mod storage;
mod token;
mod workload;

use std::sync::{Arc, LazyLock};

use kubegc_core::json::{Soft, Text};
use kubegc_core::{
    Scope, Timestamp,
    admission::{Policy, PolicyBinding, Webhook},
    record::{self, Field, Pod},
};

use crate::{
    body::{Annotations, Body, Spec, Status},
    texts::Texts,
};

use self::reading::Found;
pub use self::{
    kind::{Kind, Part, may_read},
    reading::{DetailFlaw, Origin, Path, Reading},
};

/// Fields of one object other than its metadata. Kinds without fields of interest have no details.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Details {
    /// Of a CustomResourceDefinition.
    CustomResourceDefinition(CrdDetails),
    /// Of a ValidatingWebhookConfiguration or MutatingWebhookConfiguration: the webhooks that could be read.
    Webhooks(Vec<Webhook>),
    /// Of a ValidatingAdmissionPolicy.
    AdmissionPolicy(Box<Policy>),
    /// Of a ValidatingAdmissionPolicyBinding.
    AdmissionBinding(Box<PolicyBinding>),
    /// Of an APIService.
    ApiService(ApiServiceDetails),
    /// Of an EndpointSlice.
    EndpointSlice {
        /// Whether one of `endpoints` is ready.
        has_ready: bool,
    },
    /// Of any other kind.
    Body(Arc<record::Body>),
}

impl Details {
    /// The body of the object's record.
    #[must_use]
    pub fn body(&self) -> Arc<record::Body> {
        match self {
            Self::Body(body) => Arc::clone(body),
            Self::CustomResourceDefinition(_)
            | Self::Webhooks(_)
            | Self::AdmissionPolicy(_)
            | Self::AdmissionBinding(_)
            | Self::ApiService(_)
            | Self::EndpointSlice { .. } => record::Body::unread(),
        }
    }

    /// The time at which a ready pod became ready.
    pub fn ready_at_mut(&mut self) -> Option<&mut Timestamp> {
        let Self::Body(body) = self else {
            return None;
        };
        match Arc::make_mut(body) {
            record::Body::Pod(Pod {
                ready_at: Field::Known(at),
                ..
            }) => at.as_mut(),
            _ => None,
        }
    }
}

/// The kind that a definition defines.
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
    /// `spec.names.categories`.
    pub categories: Vec<Arc<str>>,
    /// `spec.scope`.
    pub scope: Scope,
    /// The versions, in the order of the definition.
    pub versions: Vec<CrdVersion>,
    /// `status.storedVersions`.
    pub stored_versions: Vec<Arc<str>>,
    /// The condition `Established`; `None` if the status lacks it.
    pub established: Option<bool>,
    /// The conversion webhook; `None` if versions differ in `apiVersion` only.
    pub converter: Option<CrdConverter>,
}

/// The conversion webhook of a definition.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CrdConverter {
    /// Namespace and name of its Service; `None` if it has a URL.
    pub service: Option<(Arc<str>, Arc<str>)>,
    /// The URL that the API server calls, without parameters.
    pub url: Arc<str>,
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

/// The group and version that an APIService registers, and the service behind it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApiServiceDetails {
    /// `spec.group`.
    pub group: Arc<str>,
    /// `spec.version`.
    pub version: Arc<str>,
    /// Namespace and name of `spec.service`; `None` if the API server itself serves it.
    pub service: Option<(Arc<str>, Arc<str>)>,
    /// The condition `Available`; `None` if the status lacks it.
    pub available: Option<record::Condition>,
}

impl ApiServiceDetails {
    /// Whether the condition says that it is available; `None` if there is no such condition.
    #[must_use]
    pub fn is_available(&self) -> Option<bool> {
        let available = self.available.as_ref()?;
        Some(*available.status == *"True")
    }
}

pub static SPEC: Path<'static> = Path::of("spec");
pub static STATUS: Path<'static> = Path::of("status");
static METADATA: Path<'static> = Path::of("metadata");
static ANNOTATIONS: Path<'static> = METADATA.field("annotations");

/// Reads the details of a kind; `None` if the kind has none.
///
/// A field that cannot be read is unread, and a flaw. What an absent field means depends on the origin. In
/// dumps an absent `spec` or `status` was stripped, and so was an absent field that the API server always
/// fills.
pub fn read(
    kind: Kind,
    body: &Body<'_>,
    origin: Origin,
    texts: &mut Texts,
    flaws: &mut Vec<DetailFlaw>,
) -> Option<Details> {
    let lacks_status = origin == Origin::Dump && lacks_first_status(kind, body);
    let origin = if lacks_status { Origin::Manifest } else { origin };
    let mut reading = Reading { texts, flaws, origin };
    let reading = &mut reading;
    if lacks_status {
        reading.assumed(STATUS, "that of a new object");
    }
    match kind {
        Kind::CustomResourceDefinition => {
            return definition::read(reading, body).map(Details::CustomResourceDefinition);
        }
        Kind::ApiService => return admission::api_service(reading, body).map(Details::ApiService),
        Kind::EndpointSlice => {
            let has_ready = network::slice(reading, body);
            return has_ready.map(|has_ready| Details::EndpointSlice { has_ready });
        }
        Kind::AdmissionPolicy => {
            let policy = admission::policy(reading, body);
            return policy.map(|policy| Details::AdmissionPolicy(policy.into()));
        }
        Kind::AdmissionPolicyBinding => {
            let binding = admission::binding(reading, body);
            return binding.map(|binding| Details::AdmissionBinding(binding.into()));
        }
        Kind::WebhookConfiguration | Kind::BetaWebhookConfiguration => {
            let is_beta = kind == Kind::BetaWebhookConfiguration;
            return admission::webhooks(reading, body, is_beta).map(Details::Webhooks);
        }
        _ => {}
    }
    let fields = record_body(reading, kind, body);
    // Whether a part that the kind does not use was read depends on the order of the document.
    let [has_spec, has_status] = [Part::Spec, Part::Status].map(|part| kind.has(part));
    let is_stripped = (!has_spec || body.spec.is_absent()) && (!has_status || body.status.is_absent());
    if origin == Origin::Dump && is_stripped && (has_spec || has_status) {
        return None;
    }
    Some(Details::Body(fields.into()))
}

fn record_body(reading: &mut Reading<'_>, kind: Kind, body: &Body<'_>) -> record::Body {
    use record::Body as Is;
    match kind {
        Kind::CertificateSigningRequest => Is::CertificateSigningRequest(request::request(reading, body)),
        Kind::ConfigMap => Is::ConfigMap(token::config_map(reading, body)),
        Kind::ControllerRevision => Is::ControllerRevision(apps::controller_revision(reading, body)),
        Kind::CronJob => Is::CronJob(workload::cron_job(reading, body)),
        Kind::AdmissionPolicy
        | Kind::AdmissionPolicyBinding
        | Kind::ApiService
        | Kind::CustomResourceDefinition
        | Kind::EndpointSlice
        | Kind::WebhookConfiguration
        | Kind::BetaWebhookConfiguration => Is::Unread,
        Kind::DaemonSet => Is::DaemonSet(apps::daemon_set(reading, body)),
        Kind::Deployment => Is::Deployment(apps::deployment(reading, body)),
        Kind::Endpoints => Is::Endpoints(network::endpoints(reading, body)),
        Kind::IpAddress => Is::IpAddress(network::ip_address(reading, body)),
        Kind::Job => Is::Job(workload::job(reading, body)),
        Kind::Lease => Is::Lease(node::lease(reading, body)),
        Kind::Namespace => Is::Namespace(node::namespace(reading, body)),
        Kind::Node => Is::Node(node::node(reading, body)),
        Kind::PersistentVolume => Is::PersistentVolume(storage::volume(reading, body)),
        Kind::PersistentVolumeClaim => Is::PersistentVolumeClaim(storage::claim(reading, body)),
        Kind::Pod => Is::Pod(pod::read(reading, body)),
        Kind::ReplicaSet => Is::ReplicaSet(apps::replica_set(reading, body)),
        Kind::ResourceClaim => Is::ResourceClaim(claim::resource_claim(reading, body)),
        Kind::Secret => Is::Secret(token::secret(reading, body)),
        Kind::Service => Is::Service(network::service(reading, body)),
        Kind::ServiceAccount => Is::ServiceAccount(token::service_account(reading, body)),
        Kind::ServiceCidr => Is::ServiceCidr(network::service_cidr(reading, body)),
        Kind::StatefulSet => Is::StatefulSet(apps::stateful_set(reading, body)),
        Kind::VolumeAttachment => Is::VolumeAttachment(storage::attachment(reading, body)),
    }
}

static NO_SPEC: LazyLock<Spec<'static>> = LazyLock::new(Spec::default);
static NO_STATUS: LazyLock<Status<'static>> = LazyLock::new(Status::default);

/// The spec; `None` if it was not read.
fn spec_of<'b, 'a>(reading: &mut Reading<'_>, body: &'b Body<'a>) -> Option<&'b Spec<'a>> {
    let spec = reading.part(&body.spec, SPEC)?;
    Some(spec.unwrap_or(&NO_SPEC))
}

/// The status; `None` if it was not read.
fn status_of<'b, 'a>(reading: &mut Reading<'_>, body: &'b Body<'a>) -> Option<&'b Status<'a>> {
    Some(reading.part(&body.status, STATUS)?.unwrap_or(&NO_STATUS))
}

/// Whether a condition is true; `None` if the status lacks it.
fn condition_is_true(
    reading: &mut Reading<'_>,
    status: &Status<'_>,
    path: Path<'_>,
    condition_type: &str,
) -> Option<bool> {
    let (conditions, _) = reading.entries(&status.conditions, path, |reading, condition, path| {
        let kind = reading.value(&condition.condition_type, path.field("type"));
        let status = reading.value(&condition.status, path.field("status"));
        let is =
            |text: Found<&Text<'_>>, expected| matches!(text, Ok(Some(text)) if text.as_str() == expected);
        Ok((is(kind, condition_type), is(status, "True")))
    });
    let found = conditions.into_iter().find(|(is_it, _)| *is_it);
    found.map(|(_, is_true)| is_true)
}

/// The annotations, if there are any.
fn annotations_of<'b, 'a>(reading: &mut Reading<'_>, body: &'b Body<'a>) -> Found<&'b Annotations<'a>> {
    match &body.metadata {
        Soft::Is(meta) => reading.value(&meta.annotations, ANNOTATIONS),
        // Metadata of another shape has no name either, so the object is not read.
        Soft::Absent | Soft::Wrong(_) => Ok(None),
    }
}

/// An annotation, if it exists.
fn annotation(reading: &mut Reading<'_>, body: &Body<'_>, key: &str) -> Found<Arc<str>> {
    match annotations_of(reading, body)? {
        Some(annotations) => reading.text(annotations.at(key), ANNOTATIONS.key(key)),
        None => Ok(None),
    }
}

/// Whether an annotation is set, with any value.
fn has_annotation(reading: &mut Reading<'_>, body: &Body<'_>, key: &str) -> Field<bool> {
    reading.field(Some(body), |reading, body| {
        Ok(annotation(reading, body, key)?.is_some())
    })
}

/// `status.phase`. The API server always fills it, first with the initial phase.
fn phase_or_initial(
    reading: &mut Reading<'_>,
    body: &Body<'_>,
    status: Option<&Status<'_>>,
    initial: &str,
) -> Field<Arc<str>> {
    let path = STATUS.field("phase");
    if body.status.is_absent() && reading.origin == Origin::Dump {
        reading.missing(path);
    }
    reading.field(status, |reading, status| {
        let phase = reading.text(&status.phase, path)?;
        Ok(match phase {
            Some(phase) => phase,
            None if reading.origin == Origin::Whole => Arc::default(),
            None => {
                if reading.origin == Origin::Dump {
                    reading.assumed(path, initial);
                }
                reading.texts.share(initial)
            }
        })
    })
}

/// Whether the object lacks the status that the API server gives each new one, and has all other fields: it
/// was written by hand.
fn lacks_first_status(kind: Kind, body: &Body<'_>) -> bool {
    let may_lack_spec = match kind {
        Kind::Namespace => true,
        Kind::Pod => false,
        _ => return false,
    };
    body.status.is_absent() && (may_lack_spec || !body.spec.is_absent())
}
