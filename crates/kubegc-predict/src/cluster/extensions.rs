//! The extensions of the API server that a dump shows: admission webhooks and APIServices of extension API
//! servers, each with the reason why it cannot be reached.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_control_plane::{AggregatedApi, Assumptions, no_service};
use kubegc_core::{
    identity::{join_api_version, split_api_version},
    record::{Condition, Resource},
};
use kubegc_sim::{AdmissionWebhook, service_not_found};
use kubegc_snapshot::{Details, Snapshot, SnapshotObject};

const ADMISSION: &str = "admissionregistration.k8s.io";
const REGISTRATION: &str = "apiregistration.k8s.io";

/// The webhooks, mutating ones first, as the API server calls them.
pub(super) fn webhooks(snapshot: &Snapshot, assumptions: &Assumptions) -> Vec<AdmissionWebhook> {
    let kinds = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    let configurations = kinds
        .into_iter()
        .flat_map(|kind| objects(snapshot, ADMISSION, kind));
    let mut webhooks = Vec::new();
    for configuration in configurations {
        let Some(Details::Webhooks(of_configuration)) = configuration.details.as_deref() else {
            continue;
        };
        for webhook in of_configuration {
            let missing = webhook
                .service
                .as_ref()
                .filter(|service| !may_exist(snapshot, service));
            let failure = match missing {
                Some((_, name)) => Some(service_not_found(name)),
                None => assumptions
                    .unreachable_webhooks
                    .contains(&webhook.name)
                    .then(|| "it is assumed to be unreachable".into()),
            };
            webhooks.push(AdmissionWebhook {
                kind: Arc::clone(&configuration.kind),
                configuration: Arc::clone(&configuration.meta.name),
                failure,
                webhook: webhook.clone(),
            });
        }
    }
    webhooks
}

/// The APIs of extension API servers, by name of their APIService: those of the dump, and those whose
/// discovery fails as the condition of a namespace says.
pub(super) fn aggregated_apis(snapshot: &Snapshot) -> BTreeMap<Arc<str>, AggregatedApi> {
    let mut apis = BTreeMap::new();
    for object in objects(snapshot, REGISTRATION, "APIService") {
        let Some(Details::ApiService(details)) = object.details.as_deref() else {
            continue;
        };
        let Some(service) = &details.service else {
            continue;
        };
        let failure = match &details.available {
            Some(available) if *available.status != *"True" => Some(because(available)),
            _ if !may_exist(snapshot, service) => Some(no_service(&service.0, &service.1)),
            _ => None,
        };
        let api = AggregatedApi {
            api_version: join_api_version(&details.group, &details.version),
            service: Some(service.clone()),
            failure,
        };
        apis.insert(Arc::clone(&object.meta.name), api);
    }
    if !snapshot.completeness.of(REGISTRATION, "APIService").is_complete() {
        for (api_version, failure) in failed_discoveries(snapshot) {
            let (group, version) = split_api_version(&api_version);
            let name: Arc<str> = format!("{version}.{group}").into();
            if snapshot.position(REGISTRATION, "APIService", "", &name).is_none() {
                let failure = Some(failure.into());
                apis.insert(
                    name,
                    AggregatedApi {
                        api_version,
                        service: None,
                        failure,
                    },
                );
            }
        }
    }
    apis
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

/// The group versions whose discovery fails, as the conditions of terminating namespaces say, with the reason.
fn failed_discoveries(snapshot: &Snapshot) -> BTreeMap<String, String> {
    const BEGIN: &str = "unable to retrieve the complete list of server APIs: ";
    let mut failed = BTreeMap::new();
    for position in snapshot.positions_of_kind("", Resource::Namespaces.kind()) {
        let Some(record) = snapshot
            .record_at(position)
            .filter(|record| record.meta.is_deleting())
        else {
            continue;
        };
        let conditions = record
            .namespace()
            .and_then(|namespace| namespace.conditions.known());
        let is_failure = |condition: &&Condition| {
            *condition.condition_type == *"NamespaceDeletionDiscoveryFailure" && condition.is_true()
        };
        let Some(condition) = conditions.into_iter().flatten().find(is_failure) else {
            continue;
        };
        let Some((_, list)) = condition.message.split_once(BEGIN) else {
            continue;
        };
        // Entries are "group/version: error", and an error can have commas.
        for entry in list.split(", ") {
            if let Some((api_version, error)) = entry.split_once(": ")
                && api_version.contains('/')
                && !api_version.contains(' ')
            {
                failed.insert(api_version.to_owned(), error.to_owned());
            }
        }
    }
    failed
}

fn objects<'s>(snapshot: &'s Snapshot, group: &str, kind: &str) -> impl Iterator<Item = SnapshotObject> + 's {
    let positions = snapshot.positions_of_kind(group, kind);
    positions.filter_map(|position| snapshot.object(position))
}

/// Whether a Service, given by its namespace and name, is in the dump or may be missing from it.
fn may_exist(snapshot: &Snapshot, (namespace, name): &(Arc<str>, Arc<str>)) -> bool {
    let kind = Resource::Services.kind();
    let is_listed = snapshot.position("", kind, namespace, name).is_some();
    is_listed
        || !snapshot
            .completeness
            .in_namespace("", kind, namespace)
            .is_complete()
}
