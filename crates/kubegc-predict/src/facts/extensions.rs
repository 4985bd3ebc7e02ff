//! The extensions of the API server that a dump shows: admission webhooks, conversion webhooks and
//! APIServices of extension API servers, each with the reason why it cannot be reached; admission policies.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_control_plane::{
    AggregatedApi, CONTROLLER_MANAGER,
    finalizers::{self, FINALIZERS, Owner},
    no_service,
};
use kubegc_controllers::default_controllers;
use kubegc_core::{
    LabelSelector, ObjectRef, Timestamp,
    identity::{join_api_version, split_api_version},
    record::{Condition, Field, Pod, Resource},
};
use kubegc_sim::{AdmissionWebhook, ConversionWebhook, service_not_found};
use kubegc_snapshot::{Details, ObjectView};

use super::{API_SERVICE, DEFINITION, EXTENSIONS, Facts, REGISTRATION, conditions, similar};
use crate::PredictError;

const ADMISSION: &str = "admissionregistration.k8s.io";
const WEBHOOKS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

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

impl Facts {
    /// Reads the extensions of the dump, and installs the webhooks and policies in the empty server.
    pub(crate) fn add_extensions(&mut self) {
        let (webhooks, conversions) = (self.webhooks(), self.conversions());
        let (mut policies, mut bindings) = (BTreeMap::new(), BTreeMap::new());
        for kind in ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] {
            for object in self.objects(ADMISSION, kind) {
                let name = Arc::clone(object.name());
                match object.details() {
                    Some(Details::AdmissionPolicy(policy)) => drop(policies.insert(name, (**policy).clone())),
                    Some(Details::AdmissionBinding(one)) => drop(bindings.insert(name, (**one).clone())),
                    _ => {}
                }
            }
        }
        self.aggregated_apis = self.aggregated_apis();
        self.broken_extensions = self.broken(&webhooks, &conversions).collect();
        self.has_reviewers = !webhooks.is_empty() || !policies.is_empty() || !conversions.is_empty();
        let server = self.empty_server.clone().with_webhooks(webhooks);
        self.empty_server = server
            .with_policies(policies, bindings)
            .with_conversions(conversions);
    }

    fn objects(&self, group: &str, kind: &str) -> impl Iterator<Item = ObjectView<'_>> {
        self.named(group, kind).map(|position| self.view(position))
    }

    /// The webhooks, mutating ones first, as the API server calls them.
    fn webhooks(&self) -> Vec<AdmissionWebhook> {
        let mut webhooks = Vec::new();
        for configuration in WEBHOOKS.iter().flat_map(|kind| self.objects(ADMISSION, kind)) {
            let Some(Details::Webhooks(of_configuration)) = configuration.details() else {
                continue;
            };
            webhooks.extend(of_configuration.iter().map(|webhook| AdmissionWebhook {
                kind: Arc::clone(configuration.kind()),
                configuration: Arc::clone(configuration.name()),
                failure: self.webhook_failure(webhook.service.as_ref(), &webhook.name),
                webhook: webhook.clone(),
            }));
        }
        webhooks
    }

    /// The conversion webhooks of definitions with a storage version.
    fn conversions(&self) -> Vec<ConversionWebhook> {
        let definitions = self.objects(EXTENSIONS, DEFINITION);
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
                failure: self.webhook_failure(converter.service.as_ref(), name),
            })
        });
        conversions.collect()
    }

    /// Why a webhook cannot be reached: no request reaches its Service, or its name is among the assumptions.
    fn webhook_failure(&self, service: Option<&ServiceName>, name: &Arc<str>) -> Option<Arc<str>> {
        let failure = service.and_then(|service| match self.service_failure(service)? {
            Failure::NotFound => Some(service_not_found(&service.1)),
            Failure::NotReady(failure) => Some(failure),
        });
        let is_assumed = self.assumptions.unreachable_webhooks.contains(name);
        failure.or_else(|| is_assumed.then(|| "it is assumed to be unreachable".into()))
    }

    /// The APIs of extension API servers, by name of their APIService: those of the dump, and those whose
    /// discovery fails as the condition of a namespace says.
    fn aggregated_apis(&self) -> BTreeMap<Arc<str>, AggregatedApi> {
        let mut apis = BTreeMap::new();
        for object in self.objects(REGISTRATION, API_SERVICE) {
            let Some(Details::ApiService(details)) = object.details() else {
                continue;
            };
            let Some(service) = &details.service else { continue };
            // The API server has checked the endpoints of an API that is available.
            let available = details.available.as_ref();
            let failure = match (available, self.service_failure(service)) {
                (Some(available), _) if *available.status != *"True" => Some(because(available)),
                (_, Some(Failure::NotFound)) => Some(no_service(&service.0, &service.1)),
                (None, Some(Failure::NotReady(failure))) => Some(failure),
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
        let completeness = &self.snapshot.completeness;
        if !self.has_any(REGISTRATION, API_SERVICE)
            || !completeness.of(REGISTRATION, API_SERVICE).is_complete()
        {
            for (api_version, (failure, since)) in self.failed_discoveries() {
                let (group, version) = split_api_version(&api_version);
                let name: Arc<str> = format!("{version}.{group}").into();
                if self.at(REGISTRATION, API_SERVICE, "", &name).is_none() {
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
            let mut assumed = self.assumptions.unavailable_apis.iter();
            if assumed.any(|one| one == name || **one == *api.api_version) {
                let assumed = || "it is assumed to be unavailable".into();
                api.failure.get_or_insert_with(assumed);
            }
        }
        apis
    }

    fn has_any(&self, group: &str, kind: &str) -> bool {
        self.named(group, kind).next().is_some()
    }

    fn broken<'a>(
        &'a self,
        webhooks: &'a [AdmissionWebhook],
        conversions: &'a [ConversionWebhook],
    ) -> impl Iterator<Item = BrokenExtension> + 'a {
        let webhooks = webhooks.iter().filter(|one| one.webhook.refuses_on_failure);
        let webhooks = webhooks.filter_map(|one| Some(self.broken_webhook(one, one.failure.as_ref()?)));
        let conversions = conversions.iter().filter_map(|one| {
            Some(BrokenExtension {
                object: self.extension(EXTENSIONS, DEFINITION, &one.definition),
                extension: Extension::Conversion,
                service: one.service.clone(),
                failure: Arc::clone(one.failure.as_ref()?),
                since: None,
            })
        });
        let apis = self.aggregated_apis.iter().filter_map(|(name, api)| {
            let api_version = api.api_version.clone();
            Some(BrokenExtension {
                object: self.extension(REGISTRATION, API_SERVICE, name),
                extension: Extension::Api { api_version },
                service: api.service.clone(),
                failure: Arc::clone(api.failure.as_ref()?),
                since: api.since,
            })
        });
        apis.chain(webhooks).chain(conversions)
    }

    fn broken_webhook(&self, one: &AdmissionWebhook, failure: &Arc<str>) -> BrokenExtension {
        BrokenExtension {
            object: self.extension(ADMISSION, &one.kind, &one.configuration),
            extension: Extension::Webhook {
                name: Arc::clone(&one.webhook.name),
                requests: one.webhook.rules.iter().map(ToString::to_string).collect(),
            },
            service: one.webhook.service.clone(),
            failure: Arc::clone(failure),
            since: None,
        }
    }

    /// The object that registers an extension. The dump may not have it.
    fn extension(&self, group: &str, kind: &str, name: &str) -> ObjectRef {
        match self.snapshot.find(group, kind, "", name) {
            Some(object) => object.object_ref(),
            None => ObjectRef::new(&join_api_version(group, "v1"), kind, "", name, ""),
        }
    }

    /// The admission webhooks that a message of the API server blames. What it says about each is the failure
    /// of one that the dump does not show to be broken.
    pub(crate) fn webhooks_in(&self, message: &str) -> Vec<BrokenExtension> {
        let webhooks = self.webhooks();
        let blamed = webhooks.iter().filter_map(|one| {
            let (_, after) = message.split_once(&format!("webhook \"{}\"", one.webhook.name))?;
            let (said, _) = after.split_once(", Internal error").unwrap_or((after, ""));
            let said = Arc::from(said.trim_start_matches([':', ' ']));
            Some(self.broken_webhook(one, one.failure.as_ref().unwrap_or(&said)))
        });
        blamed.collect()
    }

    /// Checks that the webhooks, APIs, finalizers and components that assumptions name exist.
    ///
    /// # Errors
    /// The first name that does not.
    pub(crate) fn check_assumptions(&self) -> Result<(), PredictError> {
        let (completeness, assumptions) = (&self.snapshot.completeness, &self.assumptions);
        let is_known =
            |kind: &&str| self.has_any(ADMISSION, kind) || completeness.of(ADMISSION, kind).is_complete();
        let are_known = WEBHOOKS.iter().any(is_known);
        let webhooks = self.webhooks();
        let names = webhooks.iter().map(|one| &*one.webhook.name).collect();
        let assumed = assumptions.unreachable_webhooks.iter();
        check("admission webhook", assumed.filter(|_| are_known), names)?;
        let apis = self.aggregated_apis.iter();
        let names = apis.flat_map(|(name, api)| [&**name, &*api.api_version]);
        let are_known = self.has_any(REGISTRATION, API_SERVICE);
        let assumed = assumptions.unavailable_apis.iter().filter(|_| are_known);
        check("aggregated API", assumed, names.collect())?;
        let controllers = default_controllers(self.snapshot.version());
        let mut names: BTreeSet<&str> = controllers.iter().map(|one| one.info().name).collect();
        names.insert(CONTROLLER_MANAGER);
        for finalizer in FINALIZERS.iter() {
            names.insert(finalizer.name);
            // The API server always runs.
            names.extend((finalizer.owner != Owner::ApiServer).then(|| finalizer.owner.name()));
        }
        let mut assumed: Vec<&Arc<str>> = assumptions.acting.keys().collect();
        assumed.retain(|name| finalizers::find(name).is_none() && !names.contains(&***name));
        for view in self.snapshot.objects().filter(|_| !assumed.is_empty()) {
            names.extend(view.finalizers().map(|name| &**name));
        }
        check("finalizer or component", assumed.into_iter(), names)
    }

    /// The group versions whose discovery fails, as the conditions of terminating namespaces say, with the
    /// reason.
    fn failed_discoveries(&self) -> BTreeMap<String, (Arc<str>, Option<Timestamp>)> {
        const BEGIN: &str = "unable to retrieve the complete list of server APIs: ";
        let mut failed = BTreeMap::new();
        let namespaces = self
            .all(Resource::Namespaces)
            .map(|position| self.record(position));
        for record in namespaces.filter(|record| record.meta.is_deleting()) {
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

/// Namespace and name of a Service.
type ServiceName = (Arc<str>, Arc<str>);

/// The label of an EndpointSlice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Why no request reaches a Service.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    NotFound,
    NotReady(Arc<str>),
}

/// Whether a Service has a ready endpoint, or the fact that shows that it has none.
type Ready = Result<(), String>;

/// The result for endpoints of which each is ready, not ready, or not read; `None` if it is not known.
fn ready(endpoints: &[Option<bool>], are_all: bool, why_not: impl FnOnce() -> String) -> Option<Ready> {
    if endpoints.contains(&Some(true)) {
        return Some(Ok(()));
    }
    (are_all && !endpoints.contains(&None)).then(|| Err(why_not()))
}

impl Facts {
    /// Why no request reaches a Service; `None` if requests reach it, or if the dump does not show it.
    fn service_failure(&self, service: &ServiceName) -> Option<Failure> {
        let (namespace, name) = service;
        let Some(position) = self.by_name(Resource::Services, namespace, name) else {
            let is_complete = self.is_complete_in(Resource::Services, namespace);
            return is_complete.then_some(Failure::NotFound);
        };
        let record = self.record(position);
        let selector = record.service()?.selector.known()?.as_ref();
        // The endpoints of a Service without a selector are written by hand, or it is another name of a host.
        let selector = selector.filter(|labels| !labels.is_empty())?;
        let selector = LabelSelector {
            match_labels: selector.clone(),
            match_expressions: Vec::new(),
        };
        let ready = self
            .ready_by_slices(service)
            .or_else(|| self.ready_by_endpoints(service))
            .or_else(|| self.ready_by_pods(namespace, &selector))?;
        let why = ready.err()?;
        let failure = format!("service {namespace}/{name} has no ready endpoints: {why}");
        Some(Failure::NotReady(failure.into()))
    }

    /// By its EndpointSlices. A dump without any was taken without them, whatever it declares.
    fn ready_by_slices(&self, (namespace, name): &ServiceName) -> Option<Ready> {
        let resource = Resource::EndpointSlices;
        let are_all = self.all(resource).next().is_some() && self.is_complete_in(resource, namespace);
        let mut slices: Vec<_> = self.all(resource).map(|position| self.view(position)).collect();
        slices.retain(|slice| {
            slice.namespace() == namespace && slice.meta().labels.get(SERVICE_NAME) == Some(name)
        });
        let endpoints = slices.iter().map(|slice| match slice.details() {
            Some(Details::EndpointSlice { has_ready }) => Some(*has_ready),
            _ => None,
        });
        ready(&endpoints.collect::<Vec<_>>(), are_all, || {
            match slices.is_empty() {
                true => "it has no endpointslice".to_owned(),
                false => "no endpoint in its endpointslices is ready".to_owned(),
            }
        })
    }

    /// By its Endpoints, which have the same name.
    fn ready_by_endpoints(&self, (namespace, name): &ServiceName) -> Option<Ready> {
        let record = self.record(self.by_name(Resource::Endpoints, namespace, name)?);
        Some(match *record.endpoints()?.has_ready_address.known()? {
            true => Ok(()),
            false => Err(format!("endpoints/{name} has no addresses")),
        })
    }

    /// By the pods that its selector matches.
    fn ready_by_pods(&self, namespace: &Arc<str>, selector: &LabelSelector) -> Option<Ready> {
        let pods = self.all(Resource::Pods).map(|position| self.view(position));
        let pods = pods.filter(|pod| pod.namespace() == namespace);
        let pods = pods.map(|pod| pod.record());
        let pods: Vec<_> = pods.filter(|pod| selector.matches(&pod.meta)).collect();
        let endpoints = pods.iter().map(|pod| pod.pod().and_then(is_ready));
        let are_all = self.is_complete_in(Resource::Pods, namespace);
        ready(&endpoints.collect::<Vec<_>>(), are_all, || {
            match pods.as_slice() {
                [] => match self.scaled_to_zero(namespace, selector) {
                    Some(workload) => format!("{workload} is scaled to 0"),
                    None => format!("no pod matches its selector {selector}"),
                },
                [pod] => format!("pod/{} is not ready", pod.meta.name),
                several => format!(
                    "none of the {} pods that match its selector {selector} is ready",
                    several.len()
                ),
            }
        })
    }

    /// The first Deployment without replicas whose pods a selector would match.
    fn scaled_to_zero(&self, namespace: &Arc<str>, selector: &LabelSelector) -> Option<String> {
        self.all(Resource::Deployments).find_map(|position| {
            let record = self.record(position);
            let deployment = record.deployment()?;
            let mut labels = deployment.selector.known()?.match_labels.iter();
            let is_theirs = labels.any(|(key, value)| selector.match_labels.get(key) == Some(value));
            let is_meant = record.meta.namespace == *namespace && deployment.replicas == Field::Known(0);
            (is_meant && is_theirs).then(|| self.object_ref(position).short())
        })
    }
}

/// Whether a pod is ready; `None` if that was not read.
fn is_ready(pod: &Pod) -> Option<bool> {
    Some(!pod.has_final_phase()? && pod.ready_at.known()?.is_some())
}
