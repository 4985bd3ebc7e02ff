//! Validation of objects of built-in kinds, with upstream's causes. Metadata is validated elsewhere.
//!
//! Most rules are rows of `rules.txt`, in the order of the causes; the others are functions that rows name.
//!
//! # Upstream
//! `Validate` and `ValidateUpdate` of the strategies in `pkg/registry`, and `pkg/apis/*/validation`, 1.20.2
//! to 1.36.

mod admission_policies;
mod amounts;
mod certificates;
mod cluster;
mod config;
mod devices;
mod flow_control;
pub(crate) mod go_syntax;
mod jobs;
mod networking;
mod pod;
mod pod_changes;
pub(super) mod rules;
mod schedule;
mod selector;
mod services;
mod storage;
mod volumes;
mod webhooks;
mod workloads;

use kubegc_core::{ApiResource, KubernetesVersion, version::behavior::VALUES_ARE_JSON};
use serde_json::Value;

use super::{
    field::{At, Check},
    qos,
    service::POLICIES_ARE_VALIDATED_FIRST,
};
use crate::{
    StoredObject,
    api_server::crd::{selectable, structural, validation as definitions},
    status::Cause,
};
#[cfg(feature = "cel")]
pub(crate) use networking::masked;
pub(crate) use networking::parse_cidr;
pub(crate) use rules::apply as section;

/// The functions of the rows of `rules.txt` with `fn`.
fn code(name: &str) -> Option<rules::Code> {
    macro_rules! functions {
        ($($module:ident: $($function:ident)*;)*) => {
            match name {
                $($(concat!(stringify!($module), ".", stringify!($function)) => $module::$function,)*)*
                _ => return None,
            }
        };
    }
    let code: rules::Code = functions! {
        admission_policies: audit_annotation group_version kind;
        amounts: name_of_container_resource of_container positive;
        certificates: bundle certificate conditions signed_content signer_name;
        cluster: former_time hard limit namespace_of_event overhead pod_ranges quota
            resources scopes_updated taints;
        config: config_map docker_config secret;
        definitions: approval name schema stored_versions versions warning;
        selectable: fields;
        structural: keys_of_map map_list root_metadata value_validation;
        devices: added_consumers attributes counters extended_resource full_name known_request
            nodes_of_device nodes_of_slice pool_name request_name;
        flow_control: hand_size known_verbs namespace;
        jobs: generated_selector indexes name_of_cron_job ordered schedule success_rule
            template_updated time_zone;
        networking: domain_prefixed_path ingress ingress_class_annotation ip_block
            service_ranges service_ranges_updated;
        pod: annotations annotations_of_pod annotations_of_template app_armor_matches host_ports
            overhead resources search_paths selected_keys sleep spread_constraints subscript;
        pod_changes: conditions families first_host_address restarts updated;
        selector: labels;
        services: address_families addresses_updated external_name name_of_slice ordinary_ip source_ranges
            unique_ports;
        storage: affinity_updated attachment_status claim_updated drivers_updated parameters provisioner
            same_source source_updated topology;
        volumes: add begin device driver_name known unique;
        webhooks: client_url path recognized_versions unique_name;
        workloads: data_updated labels_select_template
            selects_template stateful_set_updated template_of_stateful_set;
    };
    Some(code)
}

pub(super) fn body(object: &StoredObject) -> Value {
    object.body.as_deref().cloned().unwrap_or_default().into()
}

/// The problems that a check of an object finds, maybe beside the object that it replaces.
fn problems(
    version: KubernetesVersion,
    resource: &ApiResource,
    new: &StoredObject,
    old: &Value,
    check: impl FnOnce(&At<'_>, &mut Check),
) -> Vec<Cause> {
    if !rules::have(&resource.kind) {
        return Vec::new();
    }
    let body = body(new);
    let mut c = Check::new(version, new.decoded.clone());
    (c.new, c.old, c.object) = (&body, old, Some(new));
    (c.group, c.api) = (&resource.group, &resource.version);
    check(&At::of_object(&body), &mut c);
    c.causes
}

/// The problems of an object that is to be created.
pub(crate) fn created(
    resource: &ApiResource,
    object: &StoredObject,
    version: KubernetesVersion,
) -> Vec<Cause> {
    problems(version, resource, object, &Value::Null, |at, c| {
        rules::apply(&resource.kind, at, c);
    })
}

/// The problems of an object that is to replace another, in one of its parts.
pub(crate) fn updated(
    resource: &ApiResource,
    new: &StoredObject,
    old: &StoredObject,
    subresource: &str,
    version: KubernetesVersion,
) -> Vec<Cause> {
    let kind = &*resource.kind;
    problems(version, resource, new, &body(old), |at, c| match subresource {
        "" => rules::apply_to_update(kind, at, c),
        "scale" => rules::apply(kind, at, c),
        "ephemeralcontainers" => pod_changes::ephemeral_updated(at, c),
        "resize" => pod_changes::resized(at, [new, old].map(qos::class), c),
        part => rules::apply_twice(&format!("{kind}/{part}"), at, c),
    })
}

/// Validates the addresses of a service before others are allocated.
pub(crate) fn service_addresses(service: &StoredObject, version: KubernetesVersion) -> Vec<Cause> {
    let mut c = Check::new(version, None);
    services::addresses(&At::of_object(&body(service)), &mut c);
    c.causes
}

/// Validates a service after its addresses and ports were allocated.
pub(crate) fn allocated(service: &StoredObject, version: KubernetesVersion) -> Vec<Cause> {
    let mut c = Check::new(version, None);
    if !version.has(POLICIES_ARE_VALIDATED_FIRST) {
        rules::apply(
            "TrafficFields",
            &At::of_object(&body(service)).get("spec"),
            &mut c,
        );
    }
    c.causes
}
