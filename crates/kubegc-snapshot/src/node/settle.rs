//! Combines the documents: complete parts, living pods, effective settings, and unknown parts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{
    Timestamp, Uid,
    node_facts::{
        Container, ContainerState, ContainerStatus, FileSystem, Image, PodIdentity, Pods, Sandbox,
        SandboxState,
    },
};
use kubegc_node::{Inventory, Listing, PolicySpec, Unlisted, driver::add_running};

use super::{
    NodeFinding, NodeStats, RuntimeUsage,
    finding::{NodeProblem, Notes},
    parts::{Part, Parts, failed},
};

/// One node as its documents show it.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// The facts on which planners decide. A part in no document is
    /// [`Missing`](kubegc_node::Unlisted::NotRequested); an unreliable part is
    /// [`Failed`](kubegc_node::Unlisted::Failed), with the reason.
    pub inventory: Inventory,
    /// The kubelet's settings; `None` if neither configuration nor flags were given, or if a kubelet
    /// would refuse them.
    pub policy: Option<PolicySpec>,
    pub stats: Option<NodeStats>,
    pub usage: Option<RuntimeUsage>,
    /// The containers that were inspected one by one, by id.
    pub statuses: BTreeMap<Arc<str>, ContainerStatus>,
    /// The findings, in a fixed order; of each problem the first
    /// [`FINDINGS_LISTED_MAX`](crate::FINDINGS_LISTED_MAX).
    pub findings: Vec<NodeFinding>,
    pub finding_counts: BTreeMap<NodeProblem, u64>,
}

/// The declarations of the caller about the documents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    pub(crate) now: Option<Timestamp>,
    pub(crate) containers_whole: bool,
    pub(crate) pods_whole: bool,
    /// A pod without a list does not prove that there are no others.
    pub(crate) pods_in_list: bool,
    pub(crate) no_image_volumes: bool,
    pub(crate) watched_since: Option<Timestamp>,
}

pub(crate) fn settle(mut parts: Parts, declared: &Declared, mut notes: Notes) -> NodeSnapshot {
    if !declared.containers_whole {
        doubt_containers(&mut parts, &mut notes);
    }
    let policy = policy(&parts, &mut notes);
    let pods = pods(&parts, declared, &mut notes);
    let sandbox_image = sandbox_image(&parts, &mut notes);
    let containers = parts.containers.value;
    let image_volumes = match (&containers, &parts.statuses_failed) {
        _ if declared.no_image_volumes => Ok(Vec::new()),
        (_, Some(why)) => Err(failed(why)),
        (Ok(containers), None) if containers.iter().all(|one| parts.statuses.contains_key(&one.id)) => {
            let volumes: BTreeSet<&Arc<str>> = parts
                .statuses
                .values()
                .flat_map(|status| &status.image_volumes)
                .collect();
            Ok(volumes.into_iter().cloned().collect())
        }
        _ => Err(Unlisted::NotRequested),
    };
    let records_read = parts.records.value().cloned();
    let watched_since = declared
        .watched_since
        .or(records_read
            .as_ref()
            .and_then(|records_read| records_read.watched_since))
        .or(declared.now);
    let inventory = Inventory {
        containers,
        sandboxes: parts.sandboxes.value,
        images: parts.images.value,
        image_volumes,
        sandbox_image,
        image_file_system: image_file_system(&parts.stats, &parts.usage),
        pods,
        image_records: records_read
            .map(|records_read| records_read.records)
            .unwrap_or_default(),
        image_gc_began_at: watched_since.unwrap_or(Timestamp::from_nanos(i64::MAX)),
        ..Inventory::default()
    };
    let (findings, finding_counts) = notes.settle();
    NodeSnapshot {
        inventory,
        policy,
        stats: parts.stats.value().cloned(),
        usage: parts.usage.value().cloned(),
        statuses: parts.statuses,
        findings,
        finding_counts,
    }
}

/// Makes a listing of containers unknown if nothing shows that it includes dead and running ones.
fn doubt_containers(parts: &mut Parts, notes: &mut Notes) {
    let (Some(value), Some(place)) = (parts.containers.value(), &parts.containers.place) else {
        return;
    };
    let runs = |one: &Arc<Container>| one.state == ContainerState::Running;
    let is_ready = |one: &Arc<Sandbox>| one.state == SandboxState::Ready;
    let sandboxes = parts.sandboxes.value().map(Vec::as_slice).unwrap_or_default();
    let doubt = if value.iter().all(runs) {
        "no container that does not run: it may come from crictl ps without -a"
    } else if !value.iter().any(runs) && sandboxes.iter().any(is_ready) {
        "no container that runs, and sandboxes are ready: it may be filtered by state"
    } else {
        return;
    };
    let detail = format!("{doubt}; list again with -a, or declare the listing whole");
    notes.note(NodeProblem::MayBePartial, Some(place), "", "containers", &detail);
    let why = format!("{place}: containers: {detail}");
    parts.containers.fail(&why);
}

/// The pods: those in documents, and those with a running container or a ready sandbox.
fn pods(parts: &Parts, declared: &Declared, notes: &mut Notes) -> Pods {
    let containers = parts.containers.value().map(Vec::as_slice).unwrap_or_default();
    let sandboxes = parts.sandboxes.value().map(Vec::as_slice).unwrap_or_default();
    let seen = &parts.pods;
    let gap = if !seen.listed {
        Some("no document lists the pods")
    } else if declared.pods_in_list && !seen.in_list {
        Some("one pod, and no list of pods")
    } else {
        seen.incomplete.as_deref()
    };
    if let Some(gap) = gap.filter(|_| declared.pods_whole) {
        notes.note(NodeProblem::NotWhole, None, "", "", gap);
    }
    let is_whole = declared.pods_whole && gap.is_none();
    let mut pods = Pods {
        known: seen.known.clone(),
        sources_ready: is_whole,
        synced: is_whole,
    };
    let listed: BTreeSet<Uid> = pods.known.keys().cloned().collect();
    // The rule of a live node, so that a dump of it leads to the same plans.
    add_running(&mut pods, containers, sandboxes);
    let of_containers = containers.iter().map(|one| &one.pod);
    let named: BTreeSet<&PodIdentity> = of_containers
        .chain(sandboxes.iter().map(|one| &one.pod))
        .collect();
    let is_new = |pod: &&PodIdentity| pods.known.contains_key(&pod.uid) && !listed.contains(&pod.uid);
    for pod in named
        .into_iter()
        .filter(is_new)
        .filter(|pod| pods.synced && !pod.uid.is_empty())
    {
        let object = format!("pod {}/{}", pod.namespace, pod.name);
        let detail = format!("uid {}: taken as living", pod.uid);
        notes.note(NodeProblem::PodNotListed, None, &object, "", &detail);
    }
    pods
}

/// The effective settings: defaults, then the configuration, then flags. The values of `/configz` override
/// all of them, because it already includes them, except for the flags that have no field.
fn policy(parts: &Parts, notes: &mut Notes) -> Option<PolicySpec> {
    let (config, configz, flags) = (parts.config.value(), parts.configz.value(), parts.flags.value());
    let is_failed = parts.flags.is_failed()
        || parts.configz.is_failed()
        || (parts.config.is_failed() && configz.is_none());
    if is_failed || (config.is_none() && configz.is_none() && flags.is_none()) {
        return None;
    }
    let mut set = config.cloned().unwrap_or_default().to_spec();
    if let Some(flags) = flags {
        flags.apply(&mut set);
    }
    let Some(configz) = configz else {
        return Some(set);
    };
    let runs_with = PolicySpec {
        // A configuration has no fields for these flags.
        minimum_container_ttl: set.minimum_container_ttl,
        maximum_dead_containers_per_container: set.maximum_dead_containers_per_container,
        maximum_dead_containers: set.maximum_dead_containers,
        ..configz.to_spec()
    };
    if config.is_some() && set != runs_with {
        notes.note(
            NodeProblem::Superseded,
            parts.config.place.as_ref(),
            "",
            "",
            "configuration and flags differ from configz",
        );
    }
    Some(runs_with)
}

/// The id of the configured sandbox image.
fn sandbox_image(parts: &Parts, notes: &mut Notes) -> Option<Arc<str>> {
    let wanted = parts.flags.value()?.sandbox_image.as_ref()?;
    let images = parts.images.value()?;
    let is_wanted = |image: &&Arc<Image>| {
        *image.id == **wanted
            || image
                .tags
                .iter()
                .chain(&image.digests)
                .any(|name| **name == **wanted)
    };
    let found = images.iter().find(is_wanted).map(|image| Arc::clone(&image.id));
    if found.is_none() {
        let detail = format!("{wanted} is not listed");
        notes.note(
            NodeProblem::UnresolvedSandboxImage,
            parts.images.place.as_ref(),
            "",
            "images",
            &detail,
        );
    }
    found
}

/// The file system of images: from the kubelet's stats. Its used bytes come from the runtime if the kubelet
/// does not report them.
fn image_file_system(stats: &Part<NodeStats>, usage: &Part<RuntimeUsage>) -> Listing<FileSystem> {
    if let Err(failed @ Unlisted::Failed(_)) = &stats.value {
        return Err(failed.clone());
    }
    let measured = stats.value().and_then(|stats| stats.image_fs);
    let used = usage.value().and_then(|usage| usage.images.first());
    match (measured, used) {
        (Some(measured), used) => Ok(FileSystem {
            used_bytes: measured.used_bytes.or(used.and_then(|used| used.used_bytes)),
            ..measured
        }),
        (None, Some(used)) => Ok(FileSystem {
            used_bytes: used.used_bytes,
            ..FileSystem::default()
        }),
        (None, None) => Err(usage
            .value
            .as_ref()
            .err()
            .cloned()
            .unwrap_or(Unlisted::NotRequested)),
    }
}
