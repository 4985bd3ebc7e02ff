//! A node forecast as text that a person reads, and as JSON for programs.

use std::{collections::BTreeMap, fmt};

use kubegc_core::{Kept, PlanOf, Timestamp};
use kubegc_node::{GoDuration, container, image, sandbox};
use serde_json::{Value, json};

use super::{Due, NodeForecast, RecordsKnown, WhatIf, forecast::plan_bytes};

/// A number of bytes in decimal units, short enough for a column.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            bytes @ 0..1_000 => format!("{bytes} B"),
            bytes @ 1_000..1_000_000 => tenths(bytes, 1_000, "kB"),
            bytes @ 1_000_000..1_000_000_000 => tenths(bytes, 1_000_000, "MB"),
            bytes @ 1_000_000_000..1_000_000_000_000 => tenths(bytes, 1_000_000_000, "GB"),
            bytes => tenths(bytes, 1_000_000_000_000, "TB"),
        };
        f.pad(&text)
    }
}

/// Cut, not rounded: what is printed is never more than what is there.
fn tenths(bytes: u64, unit: u64, name: &str) -> String {
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
}

/// A time before the present, in its largest unit.
struct Ago(Option<Timestamp>, Timestamp);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Some(at), now) = self else {
            return f.pad("never");
        };
        let seconds = now.since(*at).as_secs();
        let text = match seconds {
            _ if at > now => "in the future".to_owned(),
            0..60 => format!("{seconds} s ago"),
            60..3_600 => format!("{} min ago", seconds / 60),
            3_600..172_800 => format!("{} h ago", seconds / 3_600),
            _ => format!("{} d ago", seconds / 86_400),
        };
        f.pad(&text)
    }
}

/// The first twelve characters of an id, without the name of its digest.
fn short(id: &str) -> &str {
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    id.char_indices().nth(12).map_or(id, |(end, _)| &id[..end])
}

impl fmt::Display for NodeForecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "At {}, Kubernetes {}",
            self.frame.now,
            self.policy.semantics().version
        )?;
        self.write_containers(f)?;
        self.write_sandboxes(f)?;
        if let Some(logs) = &self.logs {
            writeln!(f, "\nLogs: {} removed with them", logs.actions.len())?;
        }
        self.write_images(f)?;
        self.write_disk(f)?;
        self.write_pressure(f)?;
        writeln!(f, "\nAssumed:")?;
        for assumption in &self.assumptions {
            writeln!(f, "  - {assumption}")?;
        }
        Ok(())
    }
}

impl NodeForecast {
    fn write_containers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.containers;
        let goes = plan.actions.len();
        writeln!(
            f,
            "\nContainers: {goes} go at the next pass, within a minute; {} stay",
            plan.kept.len()
        )?;
        for action in &plan.actions {
            let container = action.container();
            let place = format!("{}/{}", container.pod.namespace, container.pod.name);
            let name = container.name.as_deref().unwrap_or("?");
            writeln!(
                f,
                "  {place:<44} {name:<14} {:<12} created {:<12} {}",
                short(&container.id),
                Ago(Some(container.created_at), self.frame.now),
                action.reason(),
            )?;
        }
        write_kept(f, &plan.kept, |reason| reason.as_str())?;
        for finding in &plan.findings {
            writeln!(f, "  ! {}{}", of_container(&finding.object), finding.reason)?;
        }
        Ok(())
    }

    fn write_sandboxes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.sandboxes;
        writeln!(
            f,
            "\nSandboxes: {} go in the same pass; {} stay",
            plan.actions.len(),
            plan.kept.len()
        )?;
        for action in &plan.actions {
            let sandbox::Action::Remove { sandbox, reason } = action;
            let place = format!("{}/{}", sandbox.pod.namespace, sandbox.pod.name);
            writeln!(
                f,
                "  {place:<59} {:<12} created {:<12} {reason}",
                short(&sandbox.id),
                Ago(Some(sandbox.created_at), self.frame.now)
            )?;
        }
        for finding in &plan.findings {
            writeln!(f, "  ! {}", finding.reason)?;
        }
        Ok(())
    }

    fn write_images(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(plan) = &self.images else {
            return writeln!(f, "\nImages: the loop is off");
        };
        write!(f, "\nImages: ")?;
        if let (Some(percent), Some(wanted)) = (plan.summary.usage_percent, plan.summary.to_free_bytes) {
            let high = self.policy.image().thresholds().high_percent;
            write!(
                f,
                "the disk is {percent}% full, images go from {high}% on; {} to free; ",
                signed(wanted)
            )?;
        }
        writeln!(
            f,
            "{} of {} go at the next pass, within five minutes",
            Bytes(self.image_bytes()),
            Bytes(plan_bytes(plan) + kept_bytes(plan)),
        )?;
        for (at, action) in plan.actions.iter().enumerate() {
            let image::Action::Remove { image, reason, .. } = action;
            let record = plan_record(self, &image.id);
            writeln!(
                f,
                "  {:>3}. {:<50} {:>9}  last used {:<12} {reason}",
                at + 1,
                image.name(),
                Bytes(image.size_bytes),
                record,
            )?;
        }
        write_kept(f, &plan.kept, |reason| reason_name(reason))?;
        for finding in &plan.findings {
            writeln!(f, "  ! {}", finding.reason)?;
        }
        if let Some(error) = &plan.summary.error {
            writeln!(f, "  the pass fails: {error}")?;
        }
        if let Some(restarted) = &self.images_after_restart {
            writeln!(
                f,
                "  Right after a restart of the kubelet {} would go instead.",
                match restarted.actions.len() {
                    0 => "none".to_owned(),
                    many => format!("{many} ({})", Bytes(plan_bytes(restarted))),
                }
            )?;
        }
        Ok(())
    }

    fn write_disk(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(disk) = &self.disk else {
            return writeln!(f, "\nDisk: unknown, so no image goes to make room");
        };
        let bytes = |bytes: Option<u64>| Bytes(bytes.unwrap_or(0));
        writeln!(
            f,
            "\nDisk: {}% full, {} of {} available",
            disk.usage_percent,
            bytes(disk.file_system.available_bytes),
            bytes(disk.file_system.capacity_bytes)
        )?;
        writeln!(f, "  images go to make room: {}", disk.collection)?;
        if let Some(eviction) = disk.eviction {
            writeln!(f, "  pods are evicted if no room was made: {eviction}")?;
        }
        Ok(())
    }

    fn write_pressure(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pressure = &self.pressure;
        writeln!(
            f,
            "\nUnder disk pressure {} containers and {} images ({}) go before any pod is evicted.",
            pressure.containers.actions.len(),
            pressure.images.actions.len(),
            Bytes(plan_bytes(&pressure.images))
        )
    }

    /// The forecast as a JSON value: `containers`, `sandboxes`, `logs`, `images`, `disk`, `pressure`, `assumptions`.
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
                "eviction": disk.eviction.map(|due| due.to_string()),
            })),
            "assumptions": self.assumptions.iter().map(|assumption| json!({
                "assumption": assumption.as_str(), "message": assumption.to_string(),
            })).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::At(at) => write!(f, "from {at} on"),
            Self::Never => f.write_str("never"),
            Self::NoGrowth => f.write_str("not now; when is open, for no growth was given"),
        }
    }
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, what: &str, present: String, changed: String| {
            writeln!(f, "{what:<34} {present:>12} {changed:>12}")
        };
        let forecasts = [&self.present, &self.changed];
        let [containers, images] = [
            forecasts.map(|forecast| forecast.containers.actions.len().to_string()),
            forecasts.map(|forecast| {
                forecast
                    .images
                    .iter()
                    .map(|plan| plan.actions.len())
                    .sum::<usize>()
                    .to_string()
            }),
        ];
        let bytes = forecasts.map(|forecast| Bytes(forecast.image_bytes()).to_string());
        row(f, "", "present".to_owned(), "changed".to_owned())?;
        for (what, [present, changed]) in [
            ("containers removed", containers),
            ("images removed", images),
            ("bytes of images removed", bytes),
        ] {
            row(f, what, present, changed)?;
        }
        for (what, images) in [("lost", &self.images_lost), ("spared", &self.images_spared)] {
            for image in images {
                writeln!(
                    f,
                    "  {what:<7} {:<50} {:>9}",
                    image.name(),
                    Bytes(image.size_bytes)
                )?;
            }
        }
        Ok(())
    }
}

/// How many stay for each reason, most first.
fn write_kept<O, R>(
    f: &mut fmt::Formatter<'_>,
    kept: &[Kept<O, R>],
    name: impl Fn(&R) -> &'static str,
) -> fmt::Result {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for kept in kept {
        *counts.entry(name(&kept.reason)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    if counts.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    writeln!(f, "  stay: {}", texts.join(", "))
}

/// A kept image's reason, as a name.
fn reason_name(reason: &image::Reason) -> &'static str {
    match reason {
        image::Reason::InUse => "in use",
        image::Reason::Pinned => "pinned",
        image::Reason::TooYoung { .. } => "too young",
        image::Reason::UsedSince => "used since",
        image::Reason::EnoughFreed { .. } => "not needed",
        image::Reason::BelowThreshold { .. } => "below the threshold",
        image::Reason::PassEnded(_) => "the pass ended before",
        _ => "other",
    }
}

fn of_container(subject: &container::Subject) -> String {
    match subject {
        container::Subject::Container(container) => format!("container {}: ", short(&container.id)),
        container::Subject::Node => String::new(),
    }
}

fn signed(bytes: i64) -> String {
    u64::try_from(bytes).map_or_else(|_| format!("{bytes} B"), |bytes| Bytes(bytes).to_string())
}

fn kept_bytes(plan: &PlanOf<image::Policy>) -> u64 {
    let sizes = plan.kept.iter().map(|kept| match &kept.object {
        image::Subject::Image(image) => image.size_bytes,
        image::Subject::Container(_) | image::Subject::Node => 0,
    });
    sizes.fold(0, u64::saturating_add)
}

/// When the image was last used, as far as the forecast knows.
fn plan_record(forecast: &NodeForecast, id: &str) -> String {
    match forecast.records {
        RecordsKnown::AssumedOld => "unknown".to_owned(),
        RecordsKnown::Given => {
            let used = forecast.last_used.get(id).copied();
            Ago(used, forecast.frame.now).to_string()
        }
    }
}

fn containers_json(plan: &PlanOf<container::Policy>) -> Value {
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

fn images_json(plan: &PlanOf<image::Policy>) -> Value {
    let summary = &plan.summary;
    json!({
        "removed": plan.actions.iter().map(|action| {
            let image::Action::Remove { image, reason, .. } = action;
            json!({
                "id": image.id, "tags": image.tags, "sizeBytes": image.size_bytes,
                "idleSeconds": match reason {
                    image::RemovedBecause::Age { idle, .. } if *idle != GoDuration::MAX => Some(idle.as_nanos() / 1_000_000_000),
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
