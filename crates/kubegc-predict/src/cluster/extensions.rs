//! The extensions of the API server that a dump shows: admission webhooks and APIServices of extension API
//! servers.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_control_plane::{AggregatedApi, Assumptions};
use kubegc_core::{identity::join_api_version, record::Resource};
use kubegc_sim::AdmissionWebhook;
use kubegc_snapshot::{Details, Snapshot, SnapshotObject};

const ADMISSION: &str = "admissionregistration.k8s.io";

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
        webhooks.extend(of_configuration.iter().map(|webhook| {
            AdmissionWebhook {
                kind: Arc::clone(&configuration.kind),
                configuration: Arc::clone(&configuration.meta.name),
                is_reachable: !assumptions.unreachable_webhooks.contains(&webhook.name)
                    && webhook
                        .service
                        .as_ref()
                        .is_none_or(|service| may_exist(snapshot, service)),
                webhook: webhook.clone(),
            }
        }));
    }
    webhooks
}

/// The APIs of extension API servers, by name of their APIService.
pub(super) fn aggregated_apis(snapshot: &Snapshot) -> BTreeMap<Arc<str>, AggregatedApi> {
    let services = objects(snapshot, "apiregistration.k8s.io", "APIService");
    services
        .filter_map(|object| {
            let Some(Details::ApiService(details)) = object.details.as_deref() else {
                return None;
            };
            let service = details.service.clone()?;
            let api = AggregatedApi {
                api_version: join_api_version(&details.group, &details.version),
                is_available: details.is_available != Some(false) && may_exist(snapshot, &service),
                service,
            };
            Some((Arc::clone(&object.meta.name), api))
        })
        .collect()
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
