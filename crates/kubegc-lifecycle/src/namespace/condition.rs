//! Says how a deletion goes: the conditions of the namespace, with upstream's exact reasons and messages.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::Timestamp;

use super::{DiscoveryFailure, GroupVersionResource, Settings};

/// One entry of `status.conditions`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Type, such as `NamespaceContentRemaining`.
    pub condition_type: Arc<str>,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one word.
    pub reason: Arc<str>,
    /// Why, for people.
    pub message: Arc<str>,
    /// When the status last changed, in whole seconds.
    pub last_transition_time: Option<Timestamp>,
}

/// Whether a condition holds.
#[expect(clippy::exhaustive_enums, reason = "the API knows these three")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell.
    Unknown,
}

/// What a visit has to tell.
pub(super) struct Report<'a> {
    pub(super) discovery_failure: Option<&'a DiscoveryFailure>,
    pub(super) unparsable: Option<&'a str>,
    /// Messages of what failed while content was deleted.
    pub(super) content_errors: &'a [String],
    pub(super) remaining: &'a BTreeMap<GroupVersionResource, u64>,
    pub(super) finalizers_remaining: &'a BTreeMap<Arc<str>, u64>,
}

/// Brings conditions up to date; `None` where nothing that counts has changed.
///
/// Conditions of other types stay as they are. The time of a condition changes only with its status.
///
/// # Upstream
/// `updateConditions` in `status_condition_utils.go`.
pub(super) fn updated(
    old: &[Condition],
    report: &Report<'_>,
    settings: &Settings,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let mut conditions = old.to_vec();
    let mut changed = false;
    for (kind, failure) in report.failures(settings) {
        let (status, reason, message) = match failure {
            Some(message) => (ConditionStatus::True, kind.failing, message),
            None => (ConditionStatus::False, kind.fine, kind.fine_message.to_owned()),
        };
        let found = conditions
            .iter_mut()
            .find(|condition| *condition.condition_type == *kind.name);
        if let Some(condition) = found {
            let same =
                condition.status == status && *condition.reason == *reason && *condition.message == *message;
            if same {
                continue;
            }
            if condition.status != status {
                condition.last_transition_time = Some(now.truncate_to_secs());
            }
            condition.status = status;
            condition.reason = reason.into();
            condition.message = message.into();
        } else {
            conditions.push(Condition {
                condition_type: kind.name.into(),
                status,
                reason: reason.into(),
                message: message.into(),
                last_transition_time: Some(now.truncate_to_secs()),
            });
        }
        changed = true;
    }
    changed.then_some(conditions)
}

/// A type of condition with its two reasons and the message of the good case.
struct Kind {
    name: &'static str,
    failing: &'static str,
    fine: &'static str,
    fine_message: &'static str,
}

const DISCOVERY: Kind = Kind {
    name: "NamespaceDeletionDiscoveryFailure",
    failing: "DiscoveryFailed",
    fine: "ResourcesDiscovered",
    fine_message: "All resources successfully discovered",
};
const PARSING: Kind = Kind {
    name: "NamespaceDeletionGroupVersionParsingFailure",
    failing: "GroupVersionParsingFailed",
    fine: "ParsedGroupVersions",
    fine_message: "All legacy kube types successfully parsed",
};
const DELETION: Kind = Kind {
    name: "NamespaceDeletionContentFailure",
    failing: "ContentDeletionFailed",
    fine: "ContentDeleted",
    fine_message: "All content successfully deleted, may be waiting on finalization",
};
const REMAINDER: Kind = Kind {
    name: "NamespaceContentRemaining",
    failing: "SomeResourcesRemain",
    fine: "ContentRemoved",
    fine_message: "All content successfully removed",
};
const FINALIZERS: Kind = Kind {
    name: "NamespaceFinalizersRemaining",
    failing: "SomeFinalizersRemain",
    fine: "ContentHasNoFinalizers",
    fine_message: "All content-preserving finalizers finished",
};

impl Report<'_> {
    /// Each type that this release writes, in upstream's order, with its message where there is something to complain of.
    fn failures(&self, settings: &Settings) -> Vec<(Kind, Option<String>)> {
        let mut all = Vec::new();
        if settings.conditions_tell_failures {
            all.push((DISCOVERY, self.discovery_failure.map(discovery_message)));
            all.push((PARSING, self.unparsable.map(str::to_owned)));
            all.push((DELETION, content_message(self.content_errors)));
        }
        if settings.conditions_tell_remainder {
            all.push((REMAINDER, remainder_message(self.remaining)));
            all.push((FINALIZERS, finalizers_message(self.finalizers_remaining)));
        }
        all
    }
}

fn discovery_message(failure: &DiscoveryFailure) -> String {
    match failure {
        DiscoveryFailure::Groups(groups) => {
            format!(
                "Discovery failed for some groups, {} failing: {failure}",
                groups.len()
            )
        }
        DiscoveryFailure::Other(message) => message.clone(),
    }
}

fn content_message(errors: &[String]) -> Option<String> {
    let mut sorted: Vec<&str> = errors.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    (!errors.is_empty()).then(|| {
        let count = errors.len();
        let list = sorted.join(", ");
        format!("Failed to delete all resource types, {count} remaining: {list}")
    })
}

fn remainder_message(remaining: &BTreeMap<GroupVersionResource, u64>) -> Option<String> {
    let texts = remaining.iter().map(|(id, count)| {
        // The core group leaves its dot behind.
        format!("{}.{} has {count} resource instances", id.resource, id.group)
    });
    sorted_list(texts).map(|list| format!("Some resources are remaining: {list}"))
}

fn finalizers_message(remaining: &BTreeMap<Arc<str>, u64>) -> Option<String> {
    let texts = remaining
        .iter()
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
    sorted_list(texts).map(|list| format!("Some content in the namespace has finalizers remaining: {list}"))
}

fn sorted_list(texts: impl Iterator<Item = String>) -> Option<String> {
    let mut sorted: Vec<String> = texts.collect();
    sorted.sort_unstable();
    (!sorted.is_empty()).then(|| sorted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(conditions: &[Condition]) -> Vec<(&str, ConditionStatus, &str, &str)> {
        let parts = conditions.iter().map(|condition| {
            let Condition {
                condition_type,
                status,
                reason,
                message,
                ..
            } = condition;
            (&**condition_type, *status, &**reason, &**message)
        });
        parts.collect()
    }

    #[test]
    fn messages_are_upstreams() {
        let groups = [("b.io/v1", "refused"), ("a.io/v1", "timeout")];
        let failure =
            DiscoveryFailure::Groups(groups.map(|(name, error)| (name.into(), error.to_owned())).into());
        let remaining = [
            (GroupVersionResource::new("apps", "v1", "deployments"), 2),
            (GroupVersionResource::new("", "v1", "pods"), 1),
        ];
        let report = Report {
            discovery_failure: Some(&failure),
            unparsable: Some("unexpected GroupVersion string: a/b/c"),
            content_errors: &["zeta".to_owned(), "alpha".to_owned()],
            remaining: &remaining.into(),
            finalizers_remaining: &[("z.io/f".into(), 1), ("a.io/f".into(), 2)].into(),
        };
        let now = Timestamp::from_nanos(5_500_000_000);
        let conditions = updated(&[], &report, &Settings::default(), now).expect("all are new");
        let expected = [
            (
                "NamespaceDeletionDiscoveryFailure",
                ConditionStatus::True,
                "DiscoveryFailed",
                "Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: \
                 a.io/v1: timeout, b.io/v1: refused",
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                ConditionStatus::True,
                "GroupVersionParsingFailed",
                "unexpected GroupVersion string: a/b/c",
            ),
            (
                "NamespaceDeletionContentFailure",
                ConditionStatus::True,
                "ContentDeletionFailed",
                "Failed to delete all resource types, 2 remaining: alpha, zeta",
            ),
            (
                "NamespaceContentRemaining",
                ConditionStatus::True,
                "SomeResourcesRemain",
                "Some resources are remaining: deployments.apps has 2 resource instances, pods. has 1 resource instances",
            ),
            (
                "NamespaceFinalizersRemaining",
                ConditionStatus::True,
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: a.io/f in 2 resource instances, \
                 z.io/f in 1 resource instances",
            ),
        ];
        assert_eq!(messages(&conditions), expected);
        assert_eq!(conditions[0].last_transition_time, Some(Timestamp::from_secs(5)));
    }

    #[test]
    fn only_a_new_status_moves_the_time_and_strangers_are_left_alone() {
        let fine = Report {
            discovery_failure: None,
            unparsable: None,
            content_errors: &[],
            remaining: &BTreeMap::new(),
            finalizers_remaining: &BTreeMap::new(),
        };
        let settings = Settings::default();
        let stranger = Condition {
            condition_type: "example.com/Audited".into(),
            status: ConditionStatus::Unknown,
            reason: "Never".into(),
            message: "".into(),
            last_transition_time: None,
        };
        let at = Timestamp::from_secs;
        let first = updated(std::slice::from_ref(&stranger), &fine, &settings, at(1)).expect("five are new");
        assert_eq!(first.len(), 6);
        assert_eq!(first[0], stranger);
        assert_eq!(updated(&first, &fine, &settings, at(2)), None);

        let pods = |count| [(GroupVersionResource::new("", "v1", "pods"), count)].into();
        let (one, two) = (pods(1), pods(2));
        let second = updated(
            &first,
            &Report {
                remaining: &one,
                ..fine
            },
            &settings,
            at(3),
        )
        .expect("a pod remains");
        assert_eq!(second[4].last_transition_time, Some(at(3)));
        let third = updated(
            &second,
            &Report {
                remaining: &two,
                ..fine
            },
            &settings,
            at(4),
        )
        .expect("two remain");
        assert_eq!(third[4].last_transition_time, Some(at(3)));
        assert_eq!(
            &*third[4].message,
            "Some resources are remaining: pods. has 2 resource instances"
        );
        assert_eq!(third[3], first[3]);
    }

    #[test]
    fn old_releases_tell_less() {
        let settings = |text: &str| Settings::new(text.parse().expect("a release in range"));
        let report = Report {
            discovery_failure: None,
            unparsable: None,
            content_errors: &[],
            remaining: &BTreeMap::new(),
            finalizers_remaining: &BTreeMap::new(),
        };
        for (release, count) in [("1.15", None), ("1.16", Some(3)), ("1.17", Some(5))] {
            let conditions = updated(&[], &report, &settings(release), Timestamp::EPOCH);
            assert_eq!(conditions.map(|all| all.len()), count, "{release}");
        }
    }
}
