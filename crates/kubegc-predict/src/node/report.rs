//! A node forecast as text that a person reads, in 120 columns.

use std::{fmt, sync::Arc, time::Duration};

use kubegc_core::{
    Kept, Plan, PlanOf, Timestamp,
    node_facts::{Container, Image},
};
use kubegc_node::{
    Bytes, Unlisted, container,
    eviction::{Layout, NodeCondition, Threshold},
    image, sandbox,
};

use super::{Due, NodeForecast, RecordsKnown, WhatIf, forecast::plan_bytes};
use crate::words::{Lines, frequencies};

impl fmt::Display for NodeForecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Lines::default();
        let version = self.policy.semantics.version;
        out.plain(format_args!("At {}, Kubernetes {version}", self.frame.now));
        self.write_containers(&mut out);
        self.write_sandboxes(&mut out);
        if let Some(logs) = &self.logs {
            out.plain(format_args!("\nLogs: {} removed with them", logs.actions.len()));
        }
        self.write_images(&mut out);
        out.each("  ! ", &self.in_use_by_digest);
        self.write_disk(&mut out);
        self.write_pressure(&mut out);
        if !self.settings.is_empty() {
            out.plain("\nSettings:");
        }
        out.each("  ! ", &self.settings);
        out.plain("\nAssumed:");
        out.each("  - ", &self.assumptions);
        f.write_str(&out.0)
    }
}

impl NodeForecast {
    fn write_containers(&self, out: &mut Lines) {
        let plan = &self.containers;
        if let Some(why) = unknown_containers(plan) {
            return write_unknown(out, "Containers: ", &why);
        }
        let by = "the next garbage collection, within a minute";
        write_heading(out, "Containers", plan, by);
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
        write_rows(out, rows);
        write_kept(out, &plan.kept, container_stays);
        let findings = plan.findings.iter().map(|finding| match &finding.object {
            container::Subject::Container(container) => {
                format!("container {}: {}", short(&container.id), finding.reason)
            }
            _ => finding.reason.to_string(),
        });
        out.each("  ! ", findings);
    }

    fn write_sandboxes(&self, out: &mut Lines) {
        let plan = &self.sandboxes;
        let unknown = plan.findings.iter().find_map(|finding| match &finding.reason {
            sandbox::Reason::Unlisted(error) => Some(error),
            _ => None,
        });
        if let Some(error) = unknown {
            let why = format!("{error}; give the output of {CONTAINERS} and `crictl pods -o json`");
            return write_unknown(out, "Sandboxes: ", &why);
        }
        write_heading(out, "Sandboxes", plan, "the same garbage collection");
        let rows = plan.actions.iter().map(|action| {
            let sandbox::Action { sandbox, reason } = action;
            let pod = fit(&format!("{}/{}", sandbox.pod.namespace, sandbox.pod.name), 76);
            let created = ago(Some(sandbox.created_at), self.frame.now);
            let id = short(&sandbox.id);
            (reason, format!("{pod:<76} {id:<12} created {created}"))
        });
        write_rows(out, rows);
        write_kept(out, &plan.kept, sandbox_stays);
        out.each("  ! ", plan.findings.iter().map(|finding| &finding.reason));
    }

    fn write_images(&self, out: &mut Lines) {
        let Some(plan) = &self.images else {
            return out.plain("\nImages: none removed, because image garbage collection is off");
        };
        let unknown = unknown_images(plan);
        if let Some(why) = unknown.as_ref().filter(|_| plan.actions.is_empty()) {
            return write_unknown(out, "Images: ", why);
        }
        let by = "the next garbage collection, within five minutes";
        write_heading(out, "Images", plan, by);
        if let (Some(percent), Some(wanted)) = (plan.summary.usage_percent, plan.summary.to_free_bytes) {
            let thresholds = &self.policy.image.thresholds;
            out.plain(format_args!(
                "  {percent} % of the disk is in use: images are removed from {} % on, down to {} %. {} to free, {} removed.",
                thresholds.high_percent,
                thresholds.low_percent,
                Bytes::from(wanted),
                Bytes::from(plan_bytes(plan)),
            ));
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
            let at = at + 1;
            let image = image_row(image);
            out.plain(format_args!(
                "  {at:>3}. {image}  last used {last_used:<10}  {why}"
            ));
        }
        write_kept(out, &plan.kept, image_stays);
        for kept in &plan.kept {
            if let (image::Subject::Image(image), image::Reason::TooYoung { .. }) =
                (&kept.object, &kept.reason)
            {
                let name = fit(&image_name(image), 58);
                out.plain(format_args!("    {name}: {}", kept.reason));
            }
        }
        let findings = plan.findings.iter().map(|finding| &finding.reason);
        let is_other = |reason: &&image::Reason| !matches!(reason, image::Reason::RunFailed(_));
        out.each("  ! ", findings.filter(is_other));
        match (&unknown, &plan.summary.error) {
            (Some(why), _) => out.each("  ! whether more are removed is unknown: ", [why]),
            (None, Some(error)) => out.each("  ! image garbage collection fails: ", [error]),
            (None, None) => {}
        }
        if let Some(restarted) = &self.images_after_restart {
            let instead = match restarted.actions.len() {
                0 => "none".to_owned(),
                many => format!("{many} ({})", Bytes::from(plan_bytes(restarted))),
            };
            out.plain(format_args!(
                "  had the kubelet just restarted, {instead} would be removed"
            ));
        }
    }

    fn write_disk(&self, out: &mut Lines) {
        let Some(disk) = &self.disk else {
            return out.plain("\nDisk: unknown, so no image is removed to free space");
        };
        let [available, capacity] = [disk.file_system.available_bytes, disk.file_system.capacity_bytes]
            .map(|bytes| Bytes::from(bytes.unwrap_or(0)));
        out.plain(format_args!("\nDisk: {available} of {capacity} available"));
        let mut row = |what: &str, due: &str| out.each(&format!("  {what:<52} "), [due]);
        match self.images.as_ref().and_then(|plan| self.none_removed(plan)) {
            Some(why) if disk.collection == Due::Now => {
                row("images are to be removed", &format!("now, and {why}"));
            }
            _ => row("images are removed", &self.due_text(disk.collection)),
        }
        if let Some(again) = disk.again {
            let freed = Bytes::from(self.image_bytes());
            let again_if = format!("and again, if these free {freed}");
            row(&again_if, &self.due_text(again));
        }
        match disk.eviction {
            Some(due) => row("pods are evicted, if no room was made", &self.due_text(due)),
            None => {
                let never = "never: no hard threshold of imagefs.available is configured";
                row("pods are evicted", never);
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

    fn write_pressure(&self, out: &mut Lines) {
        let pressure = &self.pressure;
        let thresholds = self.policy.eviction.effective(Layout::DedicatedImages);
        let (disk, semantics) = (Some(NodeCondition::DiskPressure), self.policy.semantics);
        let is_of_disk = |threshold: &Threshold| threshold.signal.condition(semantics) == disk;
        if !thresholds.iter().any(is_of_disk) {
            return out.plain(
                "\nNo pod is evicted for disk pressure: no eviction threshold of a disk is configured.",
            );
        }
        let unknown = unknown_containers(&pressure.containers).or_else(|| unknown_images(&pressure.images));
        if let Some(why) = unknown {
            let why = format!(
                "which containers and images are removed before any pod is evicted is unknown: {why}"
            );
            out.plain("");
            return out.each("Under disk pressure: ", [why]);
        }
        out.plain(format_args!(
            "\nUnder disk pressure {} containers and {} images ({}) are removed before any pod is evicted.",
            pressure.containers.actions.len(),
            pressure.images.actions.len(),
            Bytes::from(plan_bytes(&pressure.images))
        ));
    }

    /// The rows of a comparison.
    fn figures(&self) -> [(&'static str, String); 5] {
        let next = match self.disk.map(|disk| disk.again.unwrap_or(disk.collection)) {
            Some(Due::At(at)) => format!("in {}", length(at.since(self.frame.now))),
            Some(Due::Now) => "at once".to_owned(),
            Some(Due::Never) => "never".to_owned(),
            Some(Due::NoGrowth) | None => "unknown".to_owned(),
        };
        let images = self.images.as_ref().map_or(0, |plan| plan.actions.len());
        [
            ("containers removed", self.containers.actions.len().to_string()),
            ("sandboxes removed", self.sandboxes.actions.len().to_string()),
            ("images removed", images.to_string()),
            ("their bytes", Bytes::from(self.image_bytes()).to_string()),
            ("next time that room is made", next),
        ]
    }

    /// The time at which an event is due, and the duration until then.
    fn due_text(&self, due: Due) -> String {
        match due {
            Due::At(at) => format!("{due}, in {}", length(at.since(self.frame.now))),
            due => due.to_string(),
        }
    }
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<30} {:>12} {:>12}", "", "present", "changed")?;
        let rows = self.present.figures().into_iter().zip(self.changed.figures());
        for ((title, present), (_, changed)) in rows {
            writeln!(f, "{title:<30} {present:>12} {changed:>12}")?;
        }
        let container_row = |container: &Arc<Container>| {
            let (pod, name) = container_names(container);
            let name = fit(&format!("{name}, attempt {}", container.attempt), 22);
            format!("{pod:<44} {name:<22} {}", short(&container.id))
        };
        let [lost, spared] = [&self.containers_lost, &self.containers_spared]
            .map(|containers| containers.iter().map(container_row).collect::<Vec<_>>());
        let [images_lost, images_spared] = [&self.images_lost, &self.images_spared]
            .map(|images| images.iter().map(|image| image_row(image)).collect());
        for (title, rows) in [
            ("Only with the change these containers", lost),
            ("Only without it these containers", spared),
            ("Only with the change these images", images_lost),
            ("Only without it these images", images_spared),
        ] {
            if !rows.is_empty() {
                writeln!(f, "\n{title} are removed:")?;
            }
            rows.iter().try_for_each(|row| writeln!(f, "  {row}"))?;
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

fn image_row(image: &Image) -> String {
    let (name, size) = (fit(&image_name(image), 58), Bytes::from(image.size_bytes));
    format!("{name:<58} {size:>9}")
}

fn write_unknown(out: &mut Lines, title: &str, why: &str) {
    out.plain("");
    out.each(title, [format!("unknown: {why}")]);
}

fn write_heading<A, O, R, S>(out: &mut Lines, what: &str, plan: &Plan<A, O, R, S>, by: &str) {
    let (go, stay) = (plan.actions.len(), plan.kept.len());
    out.plain(format_args!("\n{what}: {go} of {} removed by {by}", go + stay));
}

/// Writes the objects to remove, below their reasons.
fn write_rows<R: fmt::Display + PartialEq>(out: &mut Lines, rows: impl Iterator<Item = (R, String)>) {
    let mut because = None;
    for (at, (reason, row)) in rows.enumerate() {
        if because.as_ref() != Some(&reason) {
            out.plain(format_args!("  {reason}:"));
        }
        because = Some(reason);
        out.plain(format_args!("  {:>3}. {row}", at + 1));
    }
}

fn write_kept<O, R>(out: &mut Lines, kept: &[Kept<O, R>], name: impl Fn(&R) -> &'static str) {
    if !kept.is_empty() {
        out.plain(format_args!("  stay: {}", kept_text(kept, name)));
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

/// A length of time in its largest unit.
fn length(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// A time before the present; `None` is never.
fn ago(at: Option<Timestamp>, now: Timestamp) -> String {
    match at {
        None => "never".to_owned(),
        Some(at) if at > now => "in the future".to_owned(),
        Some(at) => format!("{} ago", length(now.since(at))),
    }
}

/// The first twelve characters of an id, without the name of its digest.
fn short(id: &str) -> &str {
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    id.char_indices().nth(12).map_or(id, |(end, _)| &id[..end])
}

/// The name of an image; where it is known by a digest or its id alone, a short one.
fn image_name(image: &Image) -> String {
    let name = image.name();
    match name.split_once("@sha256:") {
        Some((repository, digest)) => format!("{repository}@{}", short(digest)),
        None if name == &*image.id => short(name).to_owned(),
        None => name.to_owned(),
    }
}

/// A text of at most this many characters. A longer text is shortened in the middle, because its ends are
/// more distinctive.
fn fit(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head: String = text.chars().take(kept / 2).collect();
    let tail: String = text.chars().skip(count - (kept - kept / 2)).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_their_largest_unit() {
        let now = Timestamp::from_secs(1_000_000);
        let before = |seconds: i64| ago(Some(Timestamp::from_secs(1_000_000 - seconds)), now);
        let texts = ["0 s ago", "1 min ago", "2 h ago", "2 d ago", "in the future"];
        assert_eq!([0, 61, 7_200, 172_800, -1].map(before), texts);
        assert_eq!(ago(None, now), "never");
    }

    #[test]
    fn long_names_keep_their_ends() {
        assert_eq!(fit("abcdefgh", 8), "abcdefgh");
        assert_eq!(fit("abcdefghi", 8), "abc…fghi");
        assert_eq!(fit("äöüäöü", 4), "ä…öü");
        assert_eq!(fit("abc", 0), "…");
        assert_eq!(short("sha256:0123456789abcdef"), "0123456789ab");
    }
}
