//! Validation of objects of built-in kinds, with upstream's causes. Metadata is validated elsewhere.
//!
//! Most rules are rows of `rules.txt`, in the order of the causes; the others are functions that rows name.
//!
//! # Upstream
//! `Validate` and `ValidateUpdate` of the strategies in `pkg/registry`, and `pkg/apis/*/validation`, 1.20.2
//! to 1.36.

mod admission;
mod amounts;
mod certificates;
mod cluster;
mod config;
mod devices;
mod jobs;
mod networking;
mod pod;
mod pod_changes;
mod storage;
mod workloads;

use std::sync::LazyLock;

use kubegc_core::{ApiResource, KubernetesVersion};
use serde_json::Value;

use super::{
    body,
    field::{At, Check},
    rules::{Table, Word},
};
use crate::{StoredObject, status::Cause};

const TABLE: &str = include_str!("rules.txt");

/// The sections of the table. A bad row fails the test of this module.
static RULES: LazyLock<Table> = LazyLock::new(|| Table::parse(TABLE, function).unwrap_or_default());

/// Applies a section to a value.
fn apply(section: &str, at: &At<'_>, c: &mut Check) {
    RULES.apply(section, at, c);
}

/// The functions of the rows of `rules.txt` with `fn`: those that report problems, and conditions.
fn function(name: &str) -> Option<Word> {
    macro_rules! functions {
        ($word:ident, $($module:ident: $($function:ident)*;)*) => {
            match name {
                $($(concat!(stringify!($module), ".", stringify!($function)) => {
                    return Some(Word::$word($module::$function));
                })*)*
                _ => {}
            }
        };
    }
    functions! { Code,
        admission: audit_annotation client_url group_version kind path;
        amounts: name_of_container_resource name_of_resource of_container of_quota positive quantity;
        certificates: bundle certificate signed_content signer_name;
        cluster: former_time hand_size limit namespace quota;
        config: docker_config size;
        devices: attributes full_name nodes_of_device nodes_of_slice pool_name request_name resource_name;
        jobs: generated_selector indexes name_of_cron_job schedule success_rule;
        networking: domain_and_path external_name ip_block name_of_slice secret_name source_ranges
            unique_ports wildcard_rule;
        pod: add_volume annotations_of_pod annotations_of_template app_armor_matches host_ports no_volumes
            overhead resources search_paths spread_constraints subscript;
        pod_changes: kept_containers resized restarts;
        storage: drivers_updated provisioner size_updated topology;
        workloads: data_updated stored_stateful_set template_of_stateful_set;
    }
    functions! { When,
        admission: repeated_name unrecognized_versions;
        amounts: is_extended;
        certificates: contradicts;
        cluster: scopes_differ;
        config: is_large;
        devices: added_consumers is_request;
        jobs: is_time_zone;
        pod: is_device is_volume;
        pod_changes: lost_entries lost_tolerations;
        storage: affinity_differs;
        workloads: labels_select_template selects_template;
    }
    None
}

/// The problems of an object that is to be created, or that is to replace `old` in one of its parts.
pub(crate) fn problems(
    resource: &ApiResource,
    new: &StoredObject,
    old: Option<&StoredObject>,
    part: &str,
    version: KubernetesVersion,
) -> Vec<Cause> {
    let kind = &*resource.kind;
    if !RULES.has(kind) {
        return Vec::new();
    }
    let (value, stored) = (body(new), old.map_or(Value::Null, body));
    let mut c = Check::new(version, new.decoded.clone());
    (c.new, c.old, c.object) = (&value, &stored, Some(new));
    (c.group, c.api) = (&resource.group, &resource.version);
    let at = At::of_object(&value);
    let update = format!("{kind}/update");
    match (old, part) {
        (Some(_), "") if RULES.has(&update) => apply(&update, &at, &mut c),
        (None, _) | (_, "" | "scale") => apply(kind, &at, &mut c),
        (_, part) => apply(&format!("{kind}/{part}"), &at, &mut c),
    }
    c.causes
}

/// The problems of a service by the section `RequestedAddresses`, before missing addresses are allocated, or
/// by `TrafficFields`, afterwards.
pub(crate) fn service(section: &str, service: &StoredObject, version: KubernetesVersion) -> Vec<Cause> {
    let mut c = Check::new(version, None);
    let service = body(service);
    apply(section, &At::of_object(&service).get("spec"), &mut c);
    c.causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let table = Table::parse(TABLE, function).unwrap_or_else(|line| panic!("{line}"));
        assert!(table.has("Pod"));
    }
}
