//! A node forecast as JSON, for programs.

use std::sync::Arc;

use kubegc_core::{
    PlanOf, Uid,
    node_facts::{Container, Image},
};
use kubegc_node::{GoDuration, container, image, sandbox};
use serde::Serialize;
use serde_json::Value;

use super::{Assumption, Disk, NodeForecast, RecordsKnown, WhatIf};

/// Name and version of the document of a [`NodeForecast`].
pub(crate) const FORECAST_SCHEMA: &str = "kubegc-node-forecast/1";
/// Name and version of the document of a [`WhatIf`].
pub(crate) const COMPARISON_SCHEMA: &str = "kubegc-node-comparison/1";

/// The next actions of a node's collector.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForecastDocument<'a> {
    /// Name and version of this form.
    schema: &'static str,
    /// The present.
    now: String,
    /// The Kubernetes version of the node.
    version: String,
    /// Dead containers that are removed within a minute.
    containers: ContainersDocument<'a>,
    /// Sandboxes that are removed in the same pass.
    sandboxes: SandboxesDocument<'a>,
    /// Number of logs that are removed in the same pass; null if they were not listed.
    logs_removed: Option<usize>,
    /// Images that are removed within five minutes; null if image garbage collection is off.
    images: Option<ImagesDocument<'a>>,
    /// `given`, or `assumed old`: the use of images is unknown.
    image_records: &'static str,
    /// The images that a kubelet removes that has just started; null if records were given.
    images_after_restart: Option<ImagesDocument<'a>>,
    /// Images of these plans that the runtime will not remove, because a container has them by a digest.
    in_use_by_digest: Vec<String>,
    /// The removals under disk pressure, before any pod is evicted.
    pressure: PressureDocument<'a>,
    /// The image file system; null if it is unknown.
    disk: Option<DiskDocument>,
    /// Valid settings that are likely not intended.
    settings: Vec<String>,
    /// The assumptions, in the order in which they were made.
    assumptions: Vec<AssumptionDocument>,
}

/// A plan for containers.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct ContainersDocument<'a> {
    /// Containers that are removed, in order.
    removed: Vec<ContainerDocument<'a>>,
    /// Containers that are kept.
    kept: Vec<KeptContainerDocument<'a>>,
    /// Findings about the listings.
    findings: Vec<String>,
    /// The time at which more is removed, if that is known.
    next_at: Option<String>,
}

/// A container that is removed.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct ContainerDocument<'a> {
    /// Its id.
    id: &'a str,
    /// The namespace of its pod.
    namespace: &'a str,
    /// The name of its pod.
    pod: &'a str,
    /// The uid of its pod.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    uid: &'a Uid,
    /// Its name; null if the runtime does not report it.
    name: Option<&'a str>,
    /// The number of its start.
    attempt: u32,
    /// The time of its creation.
    created_at: String,
    /// The grace period of the stop before the removal; null if it is not running.
    stop_first_seconds: Option<u32>,
    /// Name of the reason.
    reason: &'static str,
    /// The reason as a sentence.
    message: String,
}

/// A container that is kept.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct KeptContainerDocument<'a> {
    /// Its id; null if the reason is about the node.
    id: Option<&'a str>,
    /// Name of the reason.
    reason: &'static str,
    /// The reason as a sentence.
    message: String,
}

/// A plan for sandboxes.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct SandboxesDocument<'a> {
    /// Sandboxes that are removed, in order.
    removed: Vec<SandboxDocument<'a>>,
    /// Number of sandboxes that are kept.
    kept: usize,
}

/// A sandbox that is removed.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct SandboxDocument<'a> {
    /// Its id.
    id: &'a str,
    /// The namespace of its pod.
    namespace: &'a str,
    /// The name of its pod.
    pod: &'a str,
    /// The uid of its pod.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    uid: &'a Uid,
    /// Name of the reason.
    reason: &'static str,
    /// The reason as a sentence.
    message: String,
}

/// A plan for images.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct ImagesDocument<'a> {
    /// Images that are removed, in order.
    removed: Vec<RemovedImageDocument<'a>>,
    /// Images that are kept.
    kept: Vec<KeptImageDocument<'a>>,
    /// The usage of the image file system; null if it was not measured.
    usage_percent: Option<i64>,
    /// The bytes to free; null if the usage is below the high threshold.
    to_free_bytes: Option<i64>,
    /// The bytes that are freed, by the sizes of the listing; null if nothing is to be freed.
    freed_bytes: Option<i64>,
    /// The bytes to free that are not freed.
    shortfall_bytes: i64,
    /// The error of the run; null if it succeeds.
    error: Option<String>,
    /// Findings about the listings.
    findings: Vec<String>,
    /// The time at which more is removed, if that is known.
    next_at: Option<String>,
}

/// An image.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct ImageDocument<'a> {
    /// Its id.
    id: &'a str,
    /// Its tags.
    tags: &'a [Arc<str>],
    /// Its size.
    size_bytes: u64,
}

/// An image that is removed.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct RemovedImageDocument<'a> {
    /// The image.
    #[serde(flatten)]
    image: ImageDocument<'a>,
    /// The time since its last use, if it is removed for its age.
    idle_seconds: Option<i64>,
    /// Name of the reason.
    reason: &'static str,
    /// The reason as a sentence.
    message: String,
}

/// An image that is kept.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct KeptImageDocument<'a> {
    /// Its id; null if the reason is about a container or the node.
    id: Option<&'a str>,
    /// The reason as a sentence.
    message: String,
}

/// The removals of a node under disk pressure.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct PressureDocument<'a> {
    /// Dead containers.
    containers: ContainersDocument<'a>,
    /// Unused images.
    images: ImagesDocument<'a>,
}

/// The image file system.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct DiskDocument {
    /// The usage.
    usage_percent: i64,
    /// The usage at which image garbage collection begins.
    high_threshold_percent: i32,
    /// Its size.
    capacity_bytes: Option<u64>,
    /// The free space.
    available_bytes: Option<u64>,
    /// The time of the next image garbage collection.
    collection: String,
    /// The time of the one after it; null if that is unknown.
    collection_again: Option<String>,
    /// The time at which pods are evicted; null if no threshold is set.
    eviction: Option<String>,
}

/// An assumption.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct AssumptionDocument {
    /// Its name.
    assumption: &'static str,
    /// The assumption as a sentence.
    message: String,
}

/// Two forecasts of one node.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComparisonDocument<'a> {
    /// Name and version of this form.
    schema: &'static str,
    /// With the present settings.
    present: ForecastDocument<'a>,
    /// With the changed settings.
    changed: ForecastDocument<'a>,
    /// Ids of the containers that are removed with the changed settings only.
    containers_lost: Vec<&'a str>,
    /// Ids of the containers that are removed with the present settings only.
    containers_spared: Vec<&'a str>,
    /// The images that are removed with the changed settings only.
    images_lost: Vec<ImageDocument<'a>>,
    /// The images that are removed with the present settings only.
    images_spared: Vec<ImageDocument<'a>>,
}

impl NodeForecast {
    /// The forecast as a JSON value: `containers`, `sandboxes`, `images`, `pressure`, `disk`, `settings`,
    /// `assumptions` and more.
    #[must_use]
    pub fn to_json(&self) -> Value {
        // Documents have only texts as keys, so this does not fail.
        serde_json::to_value(forecast(self)).unwrap_or_default()
    }
}

impl WhatIf {
    /// The comparison as a JSON value: both forecasts, and the objects that only one of them removes.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let document = ComparisonDocument {
            schema: COMPARISON_SCHEMA,
            present: forecast(&self.present),
            changed: forecast(&self.changed),
            containers_lost: ids(&self.containers_lost),
            containers_spared: ids(&self.containers_spared),
            images_lost: self.images_lost.iter().map(|one| image(one)).collect(),
            images_spared: self.images_spared.iter().map(|one| image(one)).collect(),
        };
        serde_json::to_value(document).unwrap_or_default()
    }
}

fn ids(containers: &[Arc<Container>]) -> Vec<&str> {
    containers.iter().map(|container| &*container.id).collect()
}

fn image(image: &Image) -> ImageDocument<'_> {
    ImageDocument {
        id: &image.id,
        tags: &image.tags,
        size_bytes: image.size_bytes,
    }
}

fn forecast(forecast: &NodeForecast) -> ForecastDocument<'_> {
    let sandboxes = forecast.sandboxes.actions.iter().map(|action| {
        let sandbox::Action::Remove { sandbox, reason } = action;
        SandboxDocument {
            id: &sandbox.id,
            namespace: &sandbox.pod.namespace,
            pod: &sandbox.pod.name,
            uid: &sandbox.pod.uid,
            reason: reason.as_str(),
            message: reason.to_string(),
        }
    });
    ForecastDocument {
        schema: FORECAST_SCHEMA,
        now: forecast.frame.now.to_string(),
        version: forecast.policy.semantics().version.to_string(),
        containers: containers(&forecast.containers),
        sandboxes: SandboxesDocument {
            removed: sandboxes.collect(),
            kept: forecast.sandboxes.kept.len(),
        },
        logs_removed: forecast.logs.as_ref().map(|plan| plan.actions.len()),
        images: forecast.images.as_ref().map(images),
        image_records: match forecast.records {
            RecordsKnown::Given => "given",
            RecordsKnown::AssumedOld => "assumed old",
        },
        images_after_restart: forecast.images_after_restart.as_ref().map(images),
        in_use_by_digest: forecast
            .in_use_by_digest
            .iter()
            .map(ToString::to_string)
            .collect(),
        pressure: PressureDocument {
            containers: containers(&forecast.pressure.containers),
            images: images(&forecast.pressure.images),
        },
        disk: forecast.disk.as_ref().map(disk),
        settings: forecast.settings.iter().map(ToString::to_string).collect(),
        assumptions: forecast.assumptions.iter().map(assumption).collect(),
    }
}

fn disk(disk: &Disk) -> DiskDocument {
    DiskDocument {
        usage_percent: disk.usage_percent,
        high_threshold_percent: disk.high_percent,
        capacity_bytes: disk.file_system.capacity_bytes,
        available_bytes: disk.file_system.available_bytes,
        collection: disk.collection.to_string(),
        collection_again: disk.again.map(|due| due.to_string()),
        eviction: disk.eviction.map(|due| due.to_string()),
    }
}

fn assumption(assumption: &Assumption) -> AssumptionDocument {
    AssumptionDocument {
        assumption: assumption.as_str(),
        message: assumption.to_string(),
    }
}

fn containers(plan: &PlanOf<container::EvictUnits>) -> ContainersDocument<'_> {
    let removed = plan.actions.iter().map(|action| {
        let container::Action::Remove {
            container,
            stop_first,
            reason,
        } = action;
        ContainerDocument {
            id: &container.id,
            namespace: &container.pod.namespace,
            pod: &container.pod.name,
            uid: &container.pod.uid,
            name: container.name.as_deref(),
            attempt: container.attempt,
            created_at: container.created_at.to_string(),
            stop_first_seconds: *stop_first,
            reason: reason.as_str(),
            message: reason.to_string(),
        }
    });
    let kept = plan.kept.iter().map(|kept| KeptContainerDocument {
        id: match &kept.object {
            container::Subject::Container(container) => Some(&container.id),
            _ => None,
        },
        reason: kept.reason.as_str(),
        message: kept.reason.to_string(),
    });
    ContainersDocument {
        removed: removed.collect(),
        kept: kept.collect(),
        findings: plan
            .findings
            .iter()
            .map(|finding| finding.reason.to_string())
            .collect(),
        next_at: plan.next_at.map(|at| at.to_string()),
    }
}

fn images(plan: &PlanOf<image::FreeSpace>) -> ImagesDocument<'_> {
    let summary = &plan.summary;
    let removed = plan.actions.iter().map(|action| {
        let image::Action::Remove { image, reason, .. } = action;
        RemovedImageDocument {
            image: self::image(image),
            idle_seconds: match reason {
                image::RemovalReason::Age { idle, .. } if *idle != GoDuration::MAX => {
                    Some(idle.as_nanos() / 1_000_000_000)
                }
                _ => None,
            },
            reason: reason.as_str(),
            message: reason.to_string(),
        }
    });
    let kept = plan.kept.iter().map(|kept| KeptImageDocument {
        id: match &kept.object {
            image::Subject::Image(image) => Some(&*image.id),
            _ => None,
        },
        message: kept.reason.to_string(),
    });
    ImagesDocument {
        removed: removed.collect(),
        kept: kept.collect(),
        usage_percent: summary.usage_percent,
        to_free_bytes: summary.to_free_bytes,
        freed_bytes: summary.freed_bytes,
        shortfall_bytes: summary.shortfall_bytes(),
        error: summary.error.as_ref().map(ToString::to_string),
        findings: plan
            .findings
            .iter()
            .map(|finding| finding.reason.to_string())
            .collect(),
        next_at: plan.next_at.map(|at| at.to_string()),
    }
}
