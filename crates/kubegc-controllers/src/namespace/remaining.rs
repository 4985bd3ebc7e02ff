//! The remaining content of a namespace, and the conditions that report it.

use std::{collections::BTreeMap, fmt};

use kubegc_core::ApiResource;

use super::{REPORTS_FAILURES, REPORTS_REMAINING};
use crate::prelude::*;

/// The remaining content of a namespace that a sync could list.
///
/// Its text is the reason of the [`End::RequeueAfter`](crate::End::RequeueAfter) of the sync.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Remaining {
    /// Seconds until the content is expected to be removed: the longest grace period of a pod, 15 if
    /// an object has finalizers.
    pub(super) estimate_seconds: i64,
    /// The number of objects of each resource that is not empty, in the order of the sync.
    pub(super) resources: Vec<(Arc<ApiResource>, u64)>,
    /// The number of objects that have each finalizer.
    pub(super) finalizers: BTreeMap<Arc<str>, u64>,
}

impl fmt::Display for Remaining {
    /// Upstream's message of `ResourcesRemainingError`, with the counts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.estimate_seconds;
        write!(
            f,
            "some content remains in the namespace, estimate {seconds} seconds before it is removed"
        )?;
        let mut separator = ": ";
        for (resource, count) in &self.resources {
            write!(f, "{separator}{count} {}", resource.qualified_resource())?;
            separator = ", ";
        }
        let mut separator = "; waiting for finalizers ";
        for (finalizer, count) in &self.finalizers {
            write!(f, "{separator}{finalizer} ({count})")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl Remaining {
    /// Upstream's text about the resources; `None` if all are empty. The core group leaves its dot behind.
    pub(super) fn resources_message(&self) -> Option<String> {
        let text = |(resource, count): &(Arc<ApiResource>, u64)| {
            format!(
                "{}.{} has {count} resource instances",
                resource.resource, resource.group
            )
        };
        let list = sorted_list(self.resources.iter().map(text))?;
        Some(format!("Some resources are remaining: {list}"))
    }

    /// Upstream's text about the finalizers; `None` if there are none.
    pub(super) fn finalizers_message(&self) -> Option<String> {
        let text =
            |(finalizer, count): (&Arc<str>, &u64)| format!("{finalizer} in {count} resource instances");
        let list = sorted_list(self.finalizers.iter().map(text))?;
        Some(format!(
            "Some content in the namespace has finalizers remaining: {list}"
        ))
    }
}

/// The texts, sorted and joined; `None` if there are none.
pub(super) fn sorted_list(texts: impl Iterator<Item = String>) -> Option<String> {
    let mut sorted: Vec<String> = texts.collect();
    sorted.sort_unstable();
    (!sorted.is_empty()).then(|| sorted.join(", "))
}

/// The conditions in upstream's order: type, reason of `True`, reason and message of `False`. The message of
/// `True` comes from the sync.
const CONDITIONS: [[&str; 4]; 5] = [
    [
        "NamespaceDeletionDiscoveryFailure",
        "DiscoveryFailed",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ],
    [
        "NamespaceDeletionGroupVersionParsingFailure",
        "GroupVersionParsingFailed",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ],
    [
        "NamespaceDeletionContentFailure",
        "ContentDeletionFailed",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ],
    [
        "NamespaceContentRemaining",
        "SomeResourcesRemain",
        "ContentRemoved",
        "All content successfully removed",
    ],
    [
        "NamespaceFinalizersRemaining",
        "SomeFinalizersRemain",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ],
];

/// The conditions after a sync with these messages, one for each of [`CONDITIONS`]; `None` if nothing that
/// counts has changed.
///
/// Conditions of other types stay. The time of a condition changes only with its status.
pub(super) fn updated(
    old: &[Condition],
    messages: [Option<String>; 5],
    version: KubernetesVersion,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let mut conditions = old.to_vec();
    let mut has_changed = false;
    // The first three are about failures, the others about what remains.
    let since = |at: usize| [REPORTS_FAILURES, REPORTS_REMAINING][usize::from(at >= 3)];
    let all = CONDITIONS.into_iter().zip(messages).enumerate();
    let reported = all.filter(|(at, _)| version.has(since(*at)));
    for (_, ([kind, failed, succeeded, success], message)) in reported {
        let (status, reason) = if message.is_some() {
            ("True", failed)
        } else {
            ("False", succeeded)
        };
        let message = message.unwrap_or_else(|| success.to_owned());
        let position = conditions
            .iter()
            .position(|condition| *condition.condition_type == *kind);
        let position = position.unwrap_or_else(|| {
            conditions.push(Condition::new(kind, ""));
            conditions.len() - 1
        });
        let Some(condition) = conditions.get_mut(position) else {
            continue;
        };
        if (&*condition.status, &*condition.reason, &*condition.message) == (status, reason, &*message) {
            continue;
        }
        if *condition.status != *status {
            condition.status = status.into();
            condition.last_transition_time = Some(now.truncate_to_secs());
        }
        condition.reason = reason.into();
        condition.message = message.into();
        has_changed = true;
    }
    has_changed.then_some(conditions)
}
