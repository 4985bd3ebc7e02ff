//! A node forecast as JSON, for programs.

use std::sync::Arc;

use kubegc_core::{
    PlanOf,
    node_facts::{Container, Image},
};
use kubegc_node::{GoDuration, container, image, sandbox};
use serde_json::{Value, json};

use super::{NodeForecast, RecordsKnown, WhatIf};

impl NodeForecast {
    /// The forecast as a JSON value: `containers`, `sandboxes`, `images`, `pressure`, `disk`, `settings`,
    /// `assumptions` and more.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "now": self.frame.now.to_string(),
            "version": self.policy.semantics().version.to_string(),
            "containers": containers_json(&self.containers),
            "sandboxes": {
                "removed": self.sandboxes.actions.iter().map(|action| {
                    let sandbox::Action::Remove { sandbox, reason } = action;
                    json!({
                        "id": sandbox.id, "namespace": sandbox.pod.namespace, "pod": sandbox.pod.name,
                        "uid": sandbox.pod.uid, "reason": reason.as_str(), "message": reason.to_string(),
                    })
                }).collect::<Vec<_>>(),
                "kept": self.sandboxes.kept.len(),
            },
            "logsRemoved": self.logs.as_ref().map(|plan| plan.actions.len()),
            "images": self.images.as_ref().map(images_json),
            "imageRecords": match self.records {
                RecordsKnown::Given => "given",
                RecordsKnown::AssumedOld => "assumed old",
            },
            "imagesAfterRestart": self.images_after_restart.as_ref().map(images_json),
            "pressure": {
                "containers": containers_json(&self.pressure.containers),
                "images": images_json(&self.pressure.images),
            },
            "disk": self.disk.map(|disk| json!({
                "usagePercent": disk.usage_percent,
                "highThresholdPercent": disk.high_percent,
                "capacityBytes": disk.file_system.capacity_bytes,
                "availableBytes": disk.file_system.available_bytes,
                "collection": disk.collection.to_string(),
                "collectionAgain": disk.again.map(|due| due.to_string()),
                "eviction": disk.eviction.map(|due| due.to_string()),
            })),
            "settings": self.settings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "assumptions": self.assumptions.iter().map(|assumption| json!({
                "assumption": assumption.as_str(), "message": assumption.to_string(),
            })).collect::<Vec<_>>(),
        })
    }
}

impl WhatIf {
    /// The comparison as a JSON value: both forecasts, and the objects that only one of them removes.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let containers = |containers: &[Arc<Container>]| -> Vec<Value> {
            containers.iter().map(|container| json!(container.id)).collect()
        };
        let images = |images: &[Arc<Image>]| -> Vec<Value> {
            images
                .iter()
                .map(|image| json!({"id": image.id, "tags": image.tags, "sizeBytes": image.size_bytes}))
                .collect()
        };
        json!({
            "present": self.present.to_json(),
            "changed": self.changed.to_json(),
            "containersLost": containers(&self.containers_lost),
            "containersSpared": containers(&self.containers_spared),
            "imagesLost": images(&self.images_lost),
            "imagesSpared": images(&self.images_spared),
        })
    }
}

fn containers_json(plan: &PlanOf<container::EvictUnits>) -> Value {
    json!({
        "removed": plan.actions.iter().map(|action| {
            let container::Action::Remove { container, stop_first, reason } = action;
            json!({
                "id": container.id, "namespace": container.pod.namespace, "pod": container.pod.name,
                "uid": container.pod.uid, "name": container.name, "attempt": container.attempt,
                "createdAt": container.created_at.to_string(), "stopFirstSeconds": stop_first,
                "reason": reason.as_str(), "message": reason.to_string(),
            })
        }).collect::<Vec<_>>(),
        "kept": plan.kept.iter().map(|kept| json!({
            "id": match &kept.object {
                container::Subject::Container(container) => Some(&container.id),
                container::Subject::Node => None,
            },
            "reason": kept.reason.as_str(), "message": kept.reason.to_string(),
        })).collect::<Vec<_>>(),
        "findings": plan.findings.iter().map(|finding| finding.reason.to_string()).collect::<Vec<_>>(),
        "nextAt": plan.next_at.map(|at| at.to_string()),
    })
}

fn images_json(plan: &PlanOf<image::FreeSpace>) -> Value {
    let summary = &plan.summary;
    json!({
        "removed": plan.actions.iter().map(|action| {
            let image::Action::Remove { image, reason, .. } = action;
            json!({
                "id": image.id, "tags": image.tags, "sizeBytes": image.size_bytes,
                "idleSeconds": match reason {
                    image::RemovalReason::Age { idle, .. } if *idle != GoDuration::MAX => Some(idle.as_nanos() / 1_000_000_000),
                    _ => None,
                },
                "reason": reason.as_str(), "message": reason.to_string(),
            })
        }).collect::<Vec<_>>(),
        "kept": plan.kept.iter().map(|kept| json!({
            "id": match &kept.object {
                image::Subject::Image(image) => Some(&image.id),
                image::Subject::Container(_) | image::Subject::Node => None,
            },
            "message": kept.reason.to_string(),
        })).collect::<Vec<_>>(),
        "usagePercent": summary.usage_percent,
        "toFreeBytes": summary.to_free_bytes,
        "freedBytes": summary.freed_bytes,
        "shortfallBytes": summary.shortfall_bytes(),
        "error": summary.error.as_ref().map(ToString::to_string),
        "findings": plan.findings.iter().map(|finding| finding.reason.to_string()).collect::<Vec<_>>(),
        "nextAt": plan.next_at.map(|at| at.to_string()),
    })
}
