//! A node forecast as JSON, for programs. `schemas/node-forecast.json` and `schemas/node-comparison.json`
//! describe each field.

use std::sync::Arc;

use kubegc_core::{
    PlanOf,
    node_facts::{Container, Image},
};
use kubegc_node::{GoDuration, container, image, sandbox};
use serde_json::{Value, json};

use super::{NodeForecast, RecordsKnown, WhatIf};

/// Name and version of the document of a [`NodeForecast`].
pub(crate) const FORECAST_SCHEMA: &str = "kubegc-node-forecast/1";
/// Name and version of the document of a [`WhatIf`].
pub(crate) const COMPARISON_SCHEMA: &str = "kubegc-node-comparison/1";

impl NodeForecast {
    /// The forecast as a JSON value: `containers`, `sandboxes`, `images`, `pressure`, `disk`, `settings`,
    /// `assumptions` and more.
    pub fn to_json(&self) -> Value {
        let sandboxes = self.sandboxes.actions.iter().map(|action| {
            let sandbox::Action { sandbox, reason } = action;
            json!({
                "id": sandbox.id,
                "namespace": sandbox.pod.namespace,
                "pod": sandbox.pod.name,
                "uid": sandbox.pod.uid,
                "reason": reason.name(),
                "message": reason.to_string(),
            })
        });
        let disk = self.disk.as_ref().map(|disk| {
            json!({
                "usagePercent": disk.usage_percent,
                "highThresholdPercent": disk.high_percent,
                "capacityBytes": disk.file_system.capacity_bytes,
                "availableBytes": disk.file_system.available_bytes,
                "collection": disk.collection.to_string(),
                "collectionAgain": disk.again.map(|due| due.to_string()),
                "eviction": disk.eviction.map(|due| due.to_string()),
            })
        });
        let assumptions = self.assumptions.iter();
        let assumptions =
            assumptions.map(|one| json!({ "assumption": one.as_str(), "message": one.to_string() }));
        json!({
            "schema": FORECAST_SCHEMA,
            "now": self.frame.now,
            "version": self.policy.semantics.version.to_string(),
            "containers": containers(&self.containers),
            "sandboxes": {
                "removed": sandboxes.collect::<Value>(),
                "kept": self.sandboxes.kept.len(),
            },
            "logsRemoved": self.logs.as_ref().map(|plan| plan.actions.len()),
            "images": self.images.as_ref().map(images),
            "imageRecords": match self.records {
                RecordsKnown::Given => "given",
                RecordsKnown::AssumedOld => "assumed old",
            },
            "imagesAfterRestart": self.images_after_restart.as_ref().map(images),
            "inUseByDigest": texts(&self.in_use_by_digest),
            "pressure": {
                "containers": containers(&self.pressure.containers),
                "images": images(&self.pressure.images),
            },
            "disk": disk,
            "settings": texts(&self.settings),
            "assumptions": assumptions.collect::<Value>(),
        })
    }
}

impl WhatIf {
    /// The comparison as a JSON value: both forecasts, and the objects that only one of them removes.
    pub fn to_json(&self) -> Value {
        let ids = |containers: &[Arc<Container>]| -> Value {
            containers.iter().map(|container| json!(container.id)).collect()
        };
        let all = |images: &[Arc<Image>]| images.iter().map(|one| image(one)).collect::<Value>();
        json!({
            "schema": COMPARISON_SCHEMA,
            "present": self.present.to_json(),
            "changed": self.changed.to_json(),
            "containersLost": ids(&self.containers_lost),
            "containersSpared": ids(&self.containers_spared),
            "imagesLost": all(&self.images_lost),
            "imagesSpared": all(&self.images_spared),
        })
    }
}

fn texts(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn image(image: &Image) -> Value {
    json!({ "id": image.id, "tags": image.tags, "sizeBytes": image.size_bytes })
}

fn containers(plan: &PlanOf<container::EvictUnits>) -> Value {
    let removed = plan.actions.iter().map(|action| {
        let container::Action {
            container,
            stop_first,
            reason,
        } = action;
        json!({
            "id": container.id,
            "namespace": container.pod.namespace,
            "pod": container.pod.name,
            "uid": container.pod.uid,
            "name": container.name,
            "attempt": container.attempt,
            "createdAt": container.created_at,
            "stopFirstSeconds": stop_first,
            "reason": reason.name(),
            "message": reason.to_string(),
        })
    });
    let kept = plan.kept.iter().map(|kept| {
        let id = match &kept.object {
            container::Subject::Container(container) => Some(&container.id),
            _ => None,
        };
        json!({ "id": id, "reason": kept.reason.name(), "message": kept.reason.to_string() })
    });
    let findings = plan.findings.iter().map(|finding| finding.reason.to_string());
    json!({
        "removed": removed.collect::<Value>(),
        "kept": kept.collect::<Value>(),
        "findings": findings.collect::<Value>(),
        "nextAt": plan.next_at,
    })
}

fn images(plan: &PlanOf<image::FreeSpace>) -> Value {
    let summary = &plan.summary;
    let removed = plan.actions.iter().map(|action| {
        let image::Action { image, reason, .. } = action;
        let mut removed = self::image(image);
        removed["idleSeconds"] = match reason {
            image::RemovalReason::Age { idle, .. } if *idle != GoDuration::MAX => {
                json!(idle.as_nanos() / 1_000_000_000)
            }
            _ => Value::Null,
        };
        removed["reason"] = reason.name().into();
        removed["message"] = reason.to_string().into();
        removed
    });
    let kept = plan.kept.iter().map(|kept| {
        let id = match &kept.object {
            image::Subject::Image(image) => Some(&image.id),
            _ => None,
        };
        json!({ "id": id, "message": kept.reason.to_string() })
    });
    let findings = plan.findings.iter().map(|finding| finding.reason.to_string());
    json!({
        "removed": removed.collect::<Value>(),
        "kept": kept.collect::<Value>(),
        "usagePercent": summary.usage_percent,
        "toFreeBytes": summary.to_free_bytes,
        "freedBytes": summary.freed_bytes,
        "shortfallBytes": summary.shortfall_bytes(),
        "error": summary.error.as_ref().map(ToString::to_string),
        "findings": findings.collect::<Value>(),
        "nextAt": plan.next_at,
    })
}
