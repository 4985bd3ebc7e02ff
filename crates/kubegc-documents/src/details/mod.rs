//! The fields outside the metadata that controllers and predictions read, by kind.

#[macro_use]
mod facts;

mod admission;
mod apps;
mod definition;
mod kind;
mod network;
mod node;
mod pod;
mod reading;
mod refusal;
mod security;
mod storage;
mod workload;

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    ObjectRef, Scope, Timestamp,
    admission::{Policy, PolicyBinding, Webhook},
    record::{self, Field, Pod},
};

use self::reading::{At, Reading};
pub(crate) use self::{
    facts::Object,
    kind::{may_read, write},
    node::{with_condition, with_taint},
};
pub use self::{
    kind::Kind,
    reading::{DetailFlaw, Flaw, Origin},
};
use crate::{body::Raw, texts::Texts};

/// Fields of one object other than its metadata. Kinds without fields of interest have no details.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Details {
    CustomResourceDefinition(Box<CrdDetails>),
    /// Of a ValidatingWebhookConfiguration or MutatingWebhookConfiguration: the webhooks that could be read.
    Webhooks(Vec<Webhook>),
    AdmissionPolicy(Box<Policy>),
    AdmissionBinding(Box<PolicyBinding>),
    ApiService(Box<ApiServiceDetails>),
    EndpointSlice {
        /// Whether one of `endpoints` is ready.
        has_ready: bool,
    },
    /// Of an Event that quotes a refused request.
    Refusal(Box<EventDetails>),
    Quota(Box<QuotaDetails>),
    /// Of any other kind.
    Body(Arc<record::Body>),
}

impl Details {
    pub fn body(&self) -> Arc<record::Body> {
        match self {
            Self::Body(body) => Arc::clone(body),
            _ => record::Body::unread(),
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
    pub group: Arc<str>,
    pub plural: Arc<str>,
    pub kind: Arc<str>,
    pub short_names: Vec<Arc<str>>,
    pub categories: Vec<Arc<str>>,
    pub scope: Scope,
    /// The versions, in the order of the definition.
    pub versions: Vec<CrdVersion>,
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
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
}

/// The group and version that an APIService registers, and the service behind it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApiServiceDetails {
    pub group: Arc<str>,
    pub version: Arc<str>,
    /// Namespace and name of `spec.service`; `None` if the API server itself serves it.
    pub service: Option<(Arc<str>, Arc<str>)>,
    /// The condition `Available`; `None` if the status lacks it.
    pub available: Option<record::Condition>,
}

impl ApiServiceDetails {
    /// Whether the condition says that it is available; `None` if there is no such condition.
    pub fn is_available(&self) -> Option<bool> {
        let available = self.available.as_ref()?;
        Some(*available.status == *"True")
    }
}

/// An Event whose message quotes a refusal of the API server.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventDetails {
    /// `involvedObject`.
    pub about: ObjectRef,
    pub reason: Arc<str>,
    pub message: Arc<str>,
    /// `count`: how often it happened.
    pub count: i64,
}

/// The amounts of a ResourceQuota.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct QuotaDetails {
    /// `status.hard`, by name of the resource.
    pub hard: BTreeMap<Arc<str>, Arc<str>>,
    /// `status.used`.
    pub used: BTreeMap<Arc<str>, Arc<str>>,
    /// Whether it counts only some of the objects: it has `spec.scopes` or `spec.scopeSelector`.
    pub is_scoped: bool,
}

/// Reads the details of a kind; `None` if the kind has none.
///
/// A field that cannot be read is unread, and a flaw. What an absent field means depends on the origin. In
/// dumps an absent `spec` or `status` was stripped, and so was an absent field that the API server always
/// fills.
pub fn read(
    kind: Kind,
    body: &Raw<'_>,
    origin: Origin,
    texts: &mut Texts,
    flaws: &mut Vec<DetailFlaw>,
) -> Option<Details> {
    let lacks_status = origin == Origin::Dump && lacks_first_status(kind, body);
    let origin = if lacks_status { Origin::Manifest } else { origin };
    let reading = &mut Reading {
        texts,
        flaws,
        origin,
        may_lack_spec: kind == Kind::Node,
    };
    let object = At::object(body);
    if lacks_status {
        reading.assumed(object.field("status"), "that of a new object");
    }
    let has_no_phase = origin == Origin::Dump && body.get("status").is_null();
    if has_no_phase && matches!(kind, Kind::Pod | Kind::PersistentVolume) {
        reading.missing(object.field("status").field("phase"));
    }
    Some(match kind {
        Kind::CustomResourceDefinition => {
            Details::CustomResourceDefinition(definition::read(reading, object)?.into())
        }
        Kind::ApiService => Details::ApiService(admission::api_service(reading, object)?.into()),
        Kind::EndpointSlice => Details::EndpointSlice {
            has_ready: network::slice(reading, object)?,
        },
        Kind::Event => Details::Refusal(refusal::event(reading, object)?.into()),
        Kind::ResourceQuota => Details::Quota(refusal::quota(reading, object)?.into()),
        Kind::AdmissionPolicy => Details::AdmissionPolicy(admission::policy(reading, object).ok()?.into()),
        Kind::AdmissionPolicyBinding => {
            Details::AdmissionBinding(admission::binding(reading, object).ok()?.into())
        }
        Kind::WebhookConfiguration | Kind::BetaWebhookConfiguration => {
            let is_beta = kind == Kind::BetaWebhookConfiguration;
            Details::Webhooks(admission::webhooks(reading, object, is_beta)?)
        }
        _ => {
            let facts = kind.facts(reading, object);
            // Whether a part that the kind does not use was read depends on the order of the document.
            let parts = ["spec", "status"].into_iter().filter(|part| kind.has(part));
            let mut parts = parts.map(|part| body.get(part).is_null()).peekable();
            if origin == Origin::Dump && parts.peek().is_some() && parts.all(|is_absent| is_absent) {
                return None;
            }
            Details::Body(facts.into())
        }
    })
}

/// Whether the object lacks the status that the API server gives each new one, and has all other fields: it
/// was written by hand.
fn lacks_first_status(kind: Kind, body: &Raw<'_>) -> bool {
    let may_lack_spec = match kind {
        Kind::Namespace => true,
        Kind::Pod => false,
        _ => return false,
    };
    body.get("status").is_null() && (may_lack_spec || !body.get("spec").is_null())
}
