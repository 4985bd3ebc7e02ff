//! The extensions of the API server that a dump shows: admission webhooks, conversion webhooks and
//! APIServices of extension API servers, each with the reason why it cannot be reached; admission policies.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_control_plane::{
    AggregatedApi, Assumptions, CONTROLLER_MANAGER,
    finalizers::{self, FINALIZERS, Owner},
    no_service,
};
use kubegc_controllers::default_controllers;
use kubegc_core::{
    ObjectRef, Timestamp,
    admission::{Policy, PolicyBinding},
    identity::{join_api_version, split_api_version},
    record::{Condition, Resource},
};
use kubegc_sim::{AdmissionWebhook, ConversionWebhook, service_not_found};
use kubegc_snapshot::{Details, ObjectView, Snapshot};

use super::{
    Facts, conditions,
    services::{self, ServiceName},
    similar,
};
use crate::PredictError;

const ADMISSION: &str = "admissionregistration.k8s.io";
const WEBHOOKS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
const EXTENSIONS: &str = "apiextensions.k8s.io";
const REGISTRATION: &str = "apiregistration.k8s.io";

/// The webhooks, mutating ones first, as the API server calls them.
pub(super) fn webhooks(snapshot: &Snapshot, assumptions: &Assumptions) -> Vec<AdmissionWebhook> {
    let mut webhooks = Vec::new();
    for configuration in WEBHOOKS
        .iter()
        .flat_map(|kind| objects(snapshot, ADMISSION, kind))
    {
        let Some(Details::Webhooks(of_configuration)) = configuration.details() else {
            continue;
        };
        for webhook in of_configuration {
            webhooks.push(AdmissionWebhook {
                kind: Arc::clone(configuration.kind()),
                configuration: Arc::clone(configuration.name()),
                failure: failure(snapshot, assumptions, webhook.service.as_ref(), &webhook.name),
                webhook: webhook.clone(),
            });
        }
    }
    webhooks
}

/// The conversion webhooks of definitions with a storage version.
pub(super) fn conversions(snapshot: &Snapshot, assumptions: &Assumptions) -> Vec<ConversionWebhook> {
    let definitions = objects(snapshot, EXTENSIONS, "CustomResourceDefinition");
    let conversions = definitions.filter_map(|definition| {
        let Some(Details::CustomResourceDefinition(details)) = definition.details() else {
            return None;
        };
        let converter = details.converter.as_ref()?;
        let stored = details.versions.iter().find(|version| version.storage)?;
        let name = definition.name();
        Some(ConversionWebhook {
            definition: Arc::clone(name),
            storage_version: Arc::clone(&stored.name),
            service: converter.service.clone(),
            url: Arc::clone(&converter.url),
            failure: failure(snapshot, assumptions, converter.service.as_ref(), name),
        })
    });
    conversions.collect()
}

/// The ValidatingAdmissionPolicies and their bindings, by name.
pub(super) fn policies(
    snapshot: &Snapshot,
) -> (BTreeMap<Arc<str>, Policy>, BTreeMap<Arc<str>, PolicyBinding>) {
    let (mut policies, mut bindings) = (BTreeMap::new(), BTreeMap::new());
    let kinds = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
    for object in kinds.iter().flat_map(|kind| objects(snapshot, ADMISSION, kind)) {
        let name = Arc::clone(object.name());
        match object.details() {
            Some(Details::AdmissionPolicy(policy)) => drop(policies.insert(name, Policy::clone(policy))),
            Some(Details::AdmissionBinding(one)) => drop(bindings.insert(name, PolicyBinding::clone(one))),
            _ => {}
        }
    }
    (policies, bindings)
}

/// Why a webhook cannot be reached: no request reaches its Service, or its name is among the assumptions.
fn failure(
    snapshot: &Snapshot,
    assumptions: &Assumptions,
    service: Option<&ServiceName>,
    name: &Arc<str>,
) -> Option<Arc<str>> {
    if let Some(service) = service
        && let Some(failure) = services::failure(snapshot, service)
    {
        return Some(match failure {
            services::Failure::NotFound => service_not_found(&service.1),
            services::Failure::NotReady(failure) => failure,
        });
    }
    let is_assumed = assumptions.unreachable_webhooks.contains(name);
    is_assumed.then(|| "it is assumed to be unreachable".into())
}

/// The APIs of extension API servers, by name of their APIService: those of the dump, and those whose
/// discovery fails as the condition of a namespace says.
pub(super) fn aggregated_apis(
    snapshot: &Snapshot,
    assumptions: &Assumptions,
) -> BTreeMap<Arc<str>, AggregatedApi> {
    let mut apis = BTreeMap::new();
    for object in objects(snapshot, REGISTRATION, "APIService") {
        let Some(Details::ApiService(details)) = object.details() else {
            continue;
        };
        let Some(service) = &details.service else { continue };
        // The API server has checked the endpoints of an API that is available.
        let available = details.available.as_ref();
        let failure = match (available, services::failure(snapshot, service)) {
            (Some(available), _) if *available.status != *"True" => Some(because(available)),
            (_, Some(services::Failure::NotFound)) => Some(no_service(&service.0, &service.1)),
            (None, Some(services::Failure::NotReady(failure))) => Some(failure),
            _ => None,
        };
        let api = AggregatedApi {
            api_version: join_api_version(&details.group, &details.version),
            service: Some(service.clone()),
            since: available.and_then(|one| one.last_transition_time),
            failure,
        };
        apis.insert(Arc::clone(object.name()), api);
    }
    // Every API server has APIServices: a dump without any was taken without them, whatever it declares.
    let is_dumped = !snapshot.positions_of_kind(REGISTRATION, "APIService").is_empty();
    if !is_dumped || !snapshot.completeness.of(REGISTRATION, "APIService").is_complete() {
        for (api_version, (failure, since)) in failed_discoveries(snapshot) {
            let (group, version) = split_api_version(&api_version);
            let name: Arc<str> = format!("{version}.{group}").into();
            if snapshot.position(REGISTRATION, "APIService", "", &name).is_none() {
                let api = AggregatedApi {
                    api_version,
                    service: None,
                    failure: Some(failure),
                    since,
                };
                apis.insert(name, api);
            }
        }
    }
    for (name, api) in &mut apis {
        let mut assumed = assumptions.unavailable_apis.iter();
        if assumed.any(|one| one == name || **one == *api.api_version) {
            let assumed = || "it is assumed to be unavailable".into();
            api.failure.get_or_insert_with(assumed);
        }
    }
    apis
}

/// An extension of the API server that cannot be reached.
///
/// # Examples
/// The example of [`Cluster::broken_extensions`](crate::Cluster::broken_extensions) reads one.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BrokenExtension {
    /// The configuration of the webhook, the CustomResourceDefinition, or the APIService.
    pub object: ObjectRef,
    pub extension: Extension,
    /// Namespace and name of its Service; `None` if it has a URL, or the dump does not show it.
    pub service: Option<(Arc<str>, Arc<str>)>,
    /// Why it cannot be reached.
    pub failure: Arc<str>,
    /// Since when, if the dump says so.
    pub since: Option<Timestamp>,
}

/// An extension of the API server.
///
/// # Examples
/// The example of [`Cluster::broken_extensions`](crate::Cluster::broken_extensions) reads one.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Extension {
    /// An admission webhook whose failure policy is `Fail`.
    Webhook {
        name: Arc<str>,
        /// The requests that it must allow, such as "DELETE of pods".
        requests: Vec<String>,
    },
    /// The conversion webhook of a CustomResourceDefinition.
    Conversion,
    /// An API of another server.
    Api {
        /// Its group and version.
        api_version: String,
    },
}

pub(super) fn broken(
    snapshot: &Snapshot,
    webhooks: &[AdmissionWebhook],
    conversions: &[ConversionWebhook],
    apis: &BTreeMap<Arc<str>, AggregatedApi>,
) -> Vec<BrokenExtension> {
    let webhooks = webhooks.iter().filter(|one| one.webhook.refuses_on_failure);
    let webhooks = webhooks.filter_map(|one| Some(of_webhook(snapshot, one, one.failure.as_ref()?)));
    let conversions = conversions.iter().filter_map(|one| {
        Some(BrokenExtension {
            object: object_ref(snapshot, EXTENSIONS, "CustomResourceDefinition", &one.definition),
            extension: Extension::Conversion,
            service: one.service.clone(),
            failure: Arc::clone(one.failure.as_ref()?),
            since: None,
        })
    });
    let apis = apis.iter().filter_map(|(name, api)| {
        Some(BrokenExtension {
            object: object_ref(snapshot, REGISTRATION, "APIService", name),
            extension: Extension::Api {
                api_version: api.api_version.clone(),
            },
            service: api.service.clone(),
            failure: Arc::clone(api.failure.as_ref()?),
            since: api.since,
        })
    });
    apis.chain(webhooks).chain(conversions).collect()
}

fn object_ref(snapshot: &Snapshot, group: &str, kind: &str, name: &str) -> ObjectRef {
    match snapshot.find(group, kind, "", name) {
        Some(object) => object.object_ref(),
        None => ObjectRef::new(&join_api_version(group, "v1"), kind, "", name, ""),
    }
}

fn of_webhook(snapshot: &Snapshot, one: &AdmissionWebhook, failure: &Arc<str>) -> BrokenExtension {
    BrokenExtension {
        object: object_ref(snapshot, ADMISSION, &one.kind, &one.configuration),
        extension: Extension::Webhook {
            name: Arc::clone(&one.webhook.name),
            requests: one.webhook.rules.iter().map(ToString::to_string).collect(),
        },
        service: one.webhook.service.clone(),
        failure: Arc::clone(failure),
        since: None,
    }
}

impl Facts {
    /// The admission webhooks that a message of the API server blames. What it says about each is the failure
    /// of one that the dump does not show to be broken.
    pub(crate) fn webhooks_in(&self, message: &str) -> Vec<BrokenExtension> {
        let webhooks = webhooks(&self.snapshot, &self.assumptions);
        let blamed = webhooks.iter().filter_map(|one| {
            let (_, after) = message.split_once(&format!("webhook \"{}\"", one.webhook.name))?;
            let (said, _) = after.split_once(", Internal error").unwrap_or((after, ""));
            let said = Arc::from(said.trim_start_matches([':', ' ']));
            let failure = one.failure.as_ref().unwrap_or(&said);
            Some(of_webhook(&self.snapshot, one, failure))
        });
        blamed.collect()
    }

    pub(crate) fn check_names(&self) -> Result<(), PredictError> {
        let (snapshot, assumptions) = (&*self.snapshot, &*self.assumptions);
        let is_dumped = |group: &str, kind: &str| !snapshot.positions_of_kind(group, kind).is_empty();
        let is_known = |kind: &&str| {
            is_dumped(ADMISSION, kind) || snapshot.completeness.of(ADMISSION, kind).is_complete()
        };
        let are_known = WEBHOOKS.iter().any(is_known);
        let webhooks = webhooks(snapshot, &Assumptions::default());
        let names = webhooks.iter().map(|one| &*one.webhook.name).collect();
        let assumed = assumptions.unreachable_webhooks.iter();
        check("admission webhook", assumed.filter(|_| are_known), names)?;
        let apis = aggregated_apis(snapshot, &Assumptions::default());
        let names = apis.iter().flat_map(|(name, api)| [&**name, &*api.api_version]);
        let are_known = is_dumped(REGISTRATION, "APIService");
        let assumed = assumptions.unavailable_apis.iter().filter(|_| are_known);
        check("aggregated API", assumed, names.collect())?;
        let controllers = default_controllers(snapshot.version());
        let mut names: BTreeSet<&str> = controllers.iter().map(|one| one.info().name).collect();
        names.insert(CONTROLLER_MANAGER);
        for finalizer in FINALIZERS.iter() {
            names.insert(finalizer.name);
            // The API server always runs.
            names.extend((finalizer.owner != Owner::ApiServer).then(|| finalizer.owner.name()));
        }
        let mut assumed: Vec<&Arc<str>> = assumptions.acting.keys().collect();
        assumed.retain(|name| finalizers::find(name).is_none() && !names.contains(&***name));
        for view in snapshot.objects().filter(|_| !assumed.is_empty()) {
            names.extend(view.finalizers().map(|name| &**name));
        }
        check("finalizer or component", assumed.into_iter(), names)
    }
}

/// An error unless all names that are assumed are known.
fn check<'n>(
    what: &'static str,
    mut assumed: impl Iterator<Item = &'n Arc<str>>,
    known: BTreeSet<&str>,
) -> Result<(), PredictError> {
    let Some(name) = assumed.find(|name| !known.contains(&***name)) else {
        return Ok(());
    };
    Err(PredictError::UnknownName {
        what,
        name: name.to_string(),
        similar: similar(name, known.into_iter().map(|name| (name.into(), name.to_owned()))),
    })
}

/// Reason and message of a condition.
fn because(condition: &Condition) -> Arc<str> {
    match (&*condition.reason, &*condition.message) {
        ("", "") => "its condition Available is not True".into(),
        (reason, "") => reason.into(),
        ("", message) => message.into(),
        (reason, message) => format!("{reason}: {message}").into(),
    }
}

/// The group versions whose discovery fails, as the conditions of terminating namespaces say, with the
/// reason.
fn failed_discoveries(snapshot: &Snapshot) -> BTreeMap<String, (Arc<str>, Option<Timestamp>)> {
    const BEGIN: &str = "unable to retrieve the complete list of server APIs: ";
    let mut failed = BTreeMap::new();
    for position in snapshot.positions_of_kind("", Resource::Namespaces.kind()) {
        let record = snapshot.object(position).map(|object| object.record());
        let Some(record) = record.filter(|record| record.meta.is_deleting()) else {
            continue;
        };
        let is_failure = |condition: &&Condition| {
            *condition.condition_type == *"NamespaceDeletionDiscoveryFailure" && condition.is_true()
        };
        let condition = conditions(&record).iter().find(is_failure);
        let list = condition.and_then(|condition| condition.message.split_once(BEGIN));
        let (Some(condition), Some((_, list))) = (condition, list) else {
            continue;
        };
        // Entries are "group/version: error", and an error can have commas.
        for entry in list.split(", ") {
            if let Some((api_version, error)) = entry.split_once(": ")
                && api_version.contains('/')
                && !api_version.contains(' ')
            {
                let error = format!("the condition of namespace {} says: {error}", record.meta.name);
                let since = condition.last_transition_time;
                failed.insert(api_version.to_owned(), (error.into(), since));
            }
        }
    }
    failed
}

fn objects<'s>(snapshot: &'s Snapshot, group: &str, kind: &str) -> impl Iterator<Item = ObjectView<'s>> {
    let positions = snapshot.positions_of_kind(group, kind);
    positions.filter_map(|position| snapshot.object(position))
}
