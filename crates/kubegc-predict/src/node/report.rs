//! A node forecast as text that a person reads, in 120 columns.

use std::fmt;

use kubegc_core::{Kept, PlanOf, node_facts::Container};
use kubegc_node::{
    Bytes, Unlisted, container,
    eviction::{Layout, NodeCondition, Threshold},
    image, sandbox,
};

use super::{
    Due, NodeForecast, RecordsKnown, WhatIf,
    forecast::plan_bytes,
    units::{ago, fit, image_name, length, short, wrapped},
};
use crate::words::frequencies;

impl fmt::Display for NodeForecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.policy.semantics.version;
        writeln!(f, "At {}, Kubernetes {version}", self.frame.now)?;
        self.write_containers(f)?;
        self.write_sandboxes(f)?;
        if let Some(logs) = &self.logs {
            writeln!(f, "\nLogs: {} removed with them", logs.actions.len())?;
        }
        self.write_images(f)?;
        for image in &self.in_use_by_digest {
            line(f, "  ! ", image)?;
        }
        self.write_disk(f)?;
        self.write_pressure(f)?;
        if !self.settings.is_empty() {
            writeln!(f, "\nSettings:")?;
        }
        for finding in &self.settings {
            line(f, "  ! ", finding)?;
        }
        writeln!(f, "\nAssumed:")?;
        for assumption in &self.assumptions {
            line(f, "  - ", assumption)?;
        }
        Ok(())
    }
}

impl NodeForecast {
    fn write_containers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.containers;
        if let Some(why) = unknown_containers(plan) {
            return writeln!(f, "\n{}", wrapped("Containers: ", &format!("unknown: {why}")));
        }
        let heading = of_all("Containers", plan.actions.len(), plan.kept.len());
        writeln!(f, "\n{heading} by the next garbage collection, within a minute")?;
        let rows = plan.actions.iter().map(|action| {
            let container::Action {
                container,
                stop_first,
                reason,
            } = action;
            let (pod, name) = container_names(container);
            let (attempt, id) = (container.attempt, short(&container.id));
            let created = ago(Some(container.created_at), self.frame.now);
            let name = fit(name, 20);
            let mut row = format!("{pod:<41} {name:<20} attempt {attempt:<5} {id:<12} created {created}");
            if let Some(seconds) = stop_first {
                let stopped = format!("is stopped first, within {seconds} s: its state is unknown");
                row.push_str(&format!("\n       {stopped}"));
            }
            (reason, row)
        });
        write_rows(f, rows)?;
        write_kept(f, &plan.kept, container_stays)?;
        for finding in &plan.findings {
            let about = match &finding.object {
                container::Subject::Container(container) => format!("container {}: ", short(&container.id)),
                _ => String::new(),
            };
            line(f, "  ! ", &format!("{about}{}", finding.reason))?;
        }
        Ok(())
    }

    fn write_sandboxes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.sandboxes;
        let unknown = plan.findings.iter().find_map(|finding| match &finding.reason {
            sandbox::Reason::Unlisted(error) => Some(error),
            _ => None,
        });
        if let Some(error) = unknown {
            let why = format!("unknown: {error}; give the output of {CONTAINERS} and `crictl pods -o json`");
            return writeln!(f, "\n{}", wrapped("Sandboxes: ", &why));
        }
        let heading = of_all("Sandboxes", plan.actions.len(), plan.kept.len());
        writeln!(f, "\n{heading} by the same garbage collection")?;
        let rows = plan.actions.iter().map(|action| {
            let sandbox::Action { sandbox, reason } = action;
            let pod = fit(&format!("{}/{}", sandbox.pod.namespace, sandbox.pod.name), 76);
            let created = ago(Some(sandbox.created_at), self.frame.now);
            let id = short(&sandbox.id);
            (reason, format!("{pod:<76} {id:<12} created {created}"))
        });
        write_rows(f, rows)?;
        write_kept(f, &plan.kept, sandbox_stays)?;
        for finding in &plan.findings {
            line(f, "  ! ", &finding.reason)?;
        }
        Ok(())
    }

    fn write_images(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(plan) = &self.images else {
            let off = "image garbage collection is off";
            return writeln!(f, "\nImages: none removed, because {off}");
        };
        let unknown = unknown_images(plan);
        if let Some(why) = unknown.as_ref().filter(|_| plan.actions.is_empty()) {
            return writeln!(f, "\n{}", wrapped("Images: ", &format!("unknown: {why}")));
        }
        let heading = of_all("Images", plan.actions.len(), plan.kept.len());
        writeln!(
            f,
            "\n{heading} by the next garbage collection, within five minutes"
        )?;
        if let (Some(percent), Some(wanted)) = (plan.summary.usage_percent, plan.summary.to_free_bytes) {
            let thresholds = self.policy.image.thresholds();
            writeln!(
                f,
                "  {percent} % of the disk is in use: images are removed from {} % on, down to {} %. {} to free, {} removed.",
                thresholds.high_percent,
                thresholds.low_percent,
                Bytes::from(wanted),
                Bytes::from(plan_bytes(plan)),
            )?;
        }
        for (at, action) in plan.actions.iter().enumerate() {
            let image::Action { image, reason, .. } = action;
            let why = match reason {
                image::RemovalReason::Space { wanted_bytes } => {
                    format!("{} left to free", Bytes::from(*wanted_bytes))
                }
                reason => reason.to_string(),
            };
            let last_used = match self.records {
                RecordsKnown::AssumedOld => "unknown".to_owned(),
                RecordsKnown::Given => ago(self.last_used.get(&image.id).copied(), self.frame.now),
            };
            writeln!(
                f,
                "  {:>3}. {:<58} {:>9}  last used {:<10}  {why}",
                at + 1,
                fit(&image_name(image), 58),
                Bytes::from(image.size_bytes),
                last_used,
            )?;
        }
        write_kept(f, &plan.kept, image_stays)?;
        for kept in &plan.kept {
            if let (image::Subject::Image(image), image::Reason::TooYoung { .. }) =
                (&kept.object, &kept.reason)
            {
                writeln!(f, "    {}: {}", fit(&image_name(image), 58), kept.reason)?;
            }
        }
        let is_other = |reason: &image::Reason| !matches!(reason, image::Reason::RunFailed(_));
        for finding in plan.findings.iter().filter(|finding| is_other(&finding.reason)) {
            line(f, "  ! ", &finding.reason)?;
        }
        match (&unknown, &plan.summary.error) {
            (Some(why), _) => line(f, "  ! whether more are removed is unknown: ", why)?,
            (None, Some(error)) => line(f, "  ! image garbage collection fails: ", error)?,
            (None, None) => {}
        }
        if let Some(restarted) = &self.images_after_restart {
            let instead = match restarted.actions.len() {
                0 => "none".to_owned(),
                many => format!("{many} ({})", Bytes::from(plan_bytes(restarted))),
            };
            writeln!(f, "  had the kubelet just restarted, {instead} would be removed")?;
        }
        Ok(())
    }

    fn write_disk(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(disk) = &self.disk else {
            return writeln!(f, "\nDisk: unknown, so no image is removed to free space");
        };
        let bytes = |bytes: Option<u64>| Bytes::from(bytes.unwrap_or(0));
        writeln!(
            f,
            "\nDisk: {} of {} available",
            bytes(disk.file_system.available_bytes),
            bytes(disk.file_system.capacity_bytes)
        )?;
        let row =
            |f: &mut fmt::Formatter<'_>, what: &str, due: &str| line(f, &format!("  {what:<52} "), &due);
        match self.images.as_ref().and_then(|plan| self.none_removed(plan)) {
            Some(why) if disk.collection == Due::Now => {
                row(f, "images are to be removed", &format!("now, and {why}"))?;
            }
            _ => row(f, "images are removed", &self.due_text(disk.collection))?,
        }
        if let Some(again) = disk.again {
            let freed = Bytes::from(self.image_bytes());
            let again_if = format!("and again, if these free {freed}");
            row(f, &again_if, &self.due_text(again))?;
        }
        match disk.eviction {
            Some(due) => row(f, "pods are evicted, if no room was made", &self.due_text(due)),
            None => {
                let never = "never: no hard threshold of imagefs.available is configured";
                row(f, "pods are evicted", never)
            }
        }
    }

    /// The reason why a plan removes no image; `None` if it removes one.
    fn none_removed(&self, plan: &PlanOf<image::FreeSpace>) -> Option<String> {
        let is_refused = |action: &image::Action| {
            let image::Action { image, .. } = action;
            self.in_use_by_digest.iter().any(|used| used.image.id == image.id)
        };
        if !plan.actions.iter().all(is_refused) {
            return None;
        }
        Some(if !plan.actions.is_empty() {
            "the runtime refuses it: all are in use by their digests".to_owned()
        } else if unknown_images(plan).is_some() {
            "it is unknown which ones".to_owned()
        } else if plan.kept.is_empty() {
            "none is listed".to_owned()
        } else {
            format!("none can be: {}", kept_text(&plan.kept, image_stays))
        })
    }

    fn write_pressure(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pressure = &self.pressure;
        let thresholds = self.policy.eviction.effective(Layout::DedicatedImages);
        let (disk, semantics) = (Some(NodeCondition::DiskPressure), self.policy.semantics);
        let is_of_disk = |threshold: &Threshold| threshold.signal.condition(semantics) == disk;
        if !thresholds.iter().any(is_of_disk) {
            return writeln!(
                f,
                "\nNo pod is evicted for disk pressure: no eviction threshold of a disk is configured."
            );
        }
        let unknown = unknown_containers(&pressure.containers).or_else(|| unknown_images(&pressure.images));
        if let Some(why) = unknown {
            let text = format!(
                "which containers and images are removed before any pod is evicted is unknown: {why}"
            );
            return writeln!(f, "\n{}", wrapped("Under disk pressure: ", &text));
        }
        writeln!(
            f,
            "\nUnder disk pressure {} containers and {} images ({}) are removed before any pod is evicted.",
            pressure.containers.actions.len(),
            pressure.images.actions.len(),
            Bytes::from(plan_bytes(&pressure.images))
        )
    }

    /// The time at which an event is due, and the duration until then.
    fn due_text(&self, due: Due) -> String {
        match due {
            Due::At(at) => format!("{due}, in {}", length(at.since(self.frame.now))),
            due => due.to_string(),
        }
    }
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::At(at) => write!(f, "from {at} on"),
            Self::Never => f.write_str("never"),
            Self::NoGrowth => f.write_str("not now; give --growth to know when"),
        }
    }
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next =
            |forecast: &NodeForecast| match forecast.disk.map(|disk| disk.again.unwrap_or(disk.collection)) {
                Some(Due::At(at)) => format!("in {}", length(at.since(forecast.frame.now))),
                Some(Due::Now) => "at once".to_owned(),
                Some(Due::Never) => "never".to_owned(),
                Some(Due::NoGrowth) | None => "unknown".to_owned(),
            };
        let images = |forecast: &NodeForecast| forecast.images.as_ref().map_or(0, |plan| plan.actions.len());
        let figures = |forecast: &NodeForecast| {
            [
                forecast.containers.actions.len().to_string(),
                forecast.sandboxes.actions.len().to_string(),
                images(forecast).to_string(),
                Bytes::from(forecast.image_bytes()).to_string(),
                next(forecast),
            ]
        };
        let titles = [
            "containers removed",
            "sandboxes removed",
            "images removed",
            "their bytes",
            "next time that room is made",
        ];
        writeln!(f, "{:<30} {:>12} {:>12}", "", "present", "changed")?;
        let rows = figures(&self.present).into_iter().zip(figures(&self.changed));
        for (title, (present, changed)) in titles.into_iter().zip(rows) {
            writeln!(f, "{title:<30} {present:>12} {changed:>12}")?;
        }
        let which = ["Only with the change", "Only without it"];
        let containers = [&self.containers_lost, &self.containers_spared];
        for (which, containers) in which.into_iter().zip(containers) {
            if !containers.is_empty() {
                writeln!(f, "\n{which} these containers are removed:")?;
            }
            for container in containers {
                let (pod, name) = container_names(container);
                let name = format!("{name}, attempt {}", container.attempt);
                let (name, id) = (fit(&name, 22), short(&container.id));
                writeln!(f, "  {pod:<44} {name:<22} {id}")?;
            }
        }
        for (which, images) in which.into_iter().zip([&self.images_lost, &self.images_spared]) {
            if !images.is_empty() {
                writeln!(f, "\n{which} these images are removed:")?;
            }
            for image in images {
                let (name, size) = (fit(&image_name(image), 58), Bytes::from(image.size_bytes));
                writeln!(f, "  {name:<58} {size:>9}")?;
            }
        }
        Ok(())
    }
}

const CONTAINERS: &str = "`crictl ps -a -o json`";

/// The reason why it is unknown which containers are removed.
fn unknown_containers(plan: &PlanOf<container::EvictUnits>) -> Option<String> {
    plan.findings.iter().find_map(|finding| match &finding.reason {
        container::Reason::Unlisted(error) => Some(format!("{error}; give the output of {CONTAINERS}")),
        _ => None,
    })
}

/// The reason why it is unknown which images are removed. `None` for an error of the kubelet itself.
fn unknown_images(plan: &PlanOf<image::FreeSpace>) -> Option<String> {
    let (what, unlisted, command) = match plan.summary.error.as_ref()? {
        image::Error::ListImages(unlisted) => ("images", unlisted, "`crictl images -o json`"),
        image::Error::ListPods(unlisted) => ("containers", unlisted, CONTAINERS),
        image::Error::ImageVolumes(unlisted) => (
            "images that containers mount",
            unlisted,
            "`crictl inspect -o json`",
        ),
        image::Error::FileSystem(unlisted) => (
            "usage of the image file system",
            unlisted,
            "`crictl imagefsinfo -o json` or the kubelet's /stats/summary",
        ),
        error @ image::Error::UseUnknown(_) => return Some(error.to_string()),
        _ => return None,
    };
    let why = match unlisted {
        Unlisted::NotRequested => format!("no {what} given"),
        Unlisted::Failed(error) => error.to_string(),
    };
    Some(format!("{why}; give the output of {command}"))
}

/// The pod of a container, shortened, and the name of the container.
fn container_names(container: &Container) -> (String, &str) {
    let pod = format!("{}/{}", container.pod.namespace, container.pod.name);
    (fit(&pod, 41), container.name.as_deref().unwrap_or("?"))
}

/// Writes the objects to remove, below their reasons.
fn write_rows<R: fmt::Display + PartialEq>(
    f: &mut fmt::Formatter<'_>,
    rows: impl Iterator<Item = (R, String)>,
) -> fmt::Result {
    let mut because = None;
    for (at, (reason, row)) in rows.enumerate() {
        if because.as_ref() != Some(&reason) {
            writeln!(f, "  {reason}:")?;
        }
        because = Some(reason);
        writeln!(f, "  {:>3}. {row}", at + 1)?;
    }
    Ok(())
}

/// Writes a text after a mark, in several lines if it is long.
fn line(f: &mut fmt::Formatter<'_>, mark: &str, text: &impl fmt::Display) -> fmt::Result {
    writeln!(f, "{}", wrapped(mark, &text.to_string()))
}

fn of_all(what: &str, go: usize, stay: usize) -> String {
    format!("{what}: {go} of {} removed", go + stay)
}

fn write_kept<O, R>(
    f: &mut fmt::Formatter<'_>,
    kept: &[Kept<O, R>],
    name: impl Fn(&R) -> &'static str,
) -> fmt::Result {
    match kept.is_empty() {
        true => Ok(()),
        false => writeln!(f, "  stay: {}", kept_text(kept, name)),
    }
}

/// Number of kept objects by reason, most frequent first.
fn kept_text<O, R>(kept: &[Kept<O, R>], name: impl Fn(&R) -> &'static str) -> String {
    let counts = frequencies(kept.iter().map(|kept| name(&kept.reason))).into_iter();
    let texts: Vec<String> = counts.map(|(name, count)| format!("{count} {name}")).collect();
    texts.join(", ")
}

/// The reason for keeping a container, in a few words.
fn container_stays(reason: &container::Reason) -> &'static str {
    match reason {
        container::Reason::Running => "running",
        container::Reason::WithinLimits { .. } => "dead and within limits",
        container::Reason::TooYoung { .. } => "too young",
        container::Reason::CreatedInFuture { .. } => "created in the future",
        container::Reason::SourcesNotReady => "whose pod may have been deleted",
        other => other.name(),
    }
}

/// The reason for keeping a sandbox, in a few words.
fn sandbox_stays(reason: &sandbox::Reason) -> &'static str {
    match reason {
        sandbox::Reason::Ready => "ready",
        sandbox::Reason::HasContainers { .. } => "with containers in them",
        sandbox::Reason::Newest => "newest of their pod",
        _ => "for other reasons",
    }
}

/// The reason for keeping an image, in a few words.
fn image_stays(reason: &image::Reason) -> &'static str {
    match reason {
        image::Reason::InUse => "in use",
        image::Reason::Pinned => "pinned",
        image::Reason::TooYoung { .. } => "too young",
        image::Reason::UsedSince => "used since",
        image::Reason::EnoughFreed { .. } => "unused, but not needed for room",
        image::Reason::BelowThreshold { .. } => "unused, but there is room",
        image::Reason::RunFailed(_) => "unused, but the garbage collection ends before",
        _ => "for other reasons",
    }
}
