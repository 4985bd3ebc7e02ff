//! Says in a few words why something is done, with times as seen from the instant at which it is done.

use kubegc_core::{ObjectRef, Timestamp};
use kubegc_lifecycle::{
    certificate::{self, pod_request},
    controller::Reason,
    history, job, node, pod, statefulset,
    token::{bootstrap, legacy},
    volume::{external, protection, reclaim},
};

use kubegc_objects::{
    classify::{Class, Resolved},
    reason::Reason as CollectorReason,
};

use super::words::{clock, span};
use crate::timeline::Why;

/// Why a write is made at a time, as told of an object that it changes.
pub(super) fn because(why: &Why, object: &ObjectRef, at: Timestamp) -> String {
    match why {
        Why::Intent(_) => "asked for".to_owned(),
        Why::Collector(CollectorReason::NoOwnerLeft(owners)) if !owners.iter().any(waits) => {
            "no owner is left".to_owned()
        }
        Why::Collector(reason) => reason.to_string(),
        Why::NamespaceTerminating if is_kind(object, "", "Namespace") => {
            "deleted before, and emptied".to_owned()
        }
        Why::NamespaceTerminating => "its namespace is being deleted".to_owned(),
        Why::DefinitionTerminating if is_kind(object, "apiextensions.k8s.io", "CustomResourceDefinition") => {
            "deleted before, and goes with its objects".to_owned()
        }
        Why::DefinitionTerminating => "the definition of its kind is being deleted".to_owned(),
        Why::GraceOver => "it was deleted before, and ends".to_owned(),
        Why::FinalizerReleased(name) => format!("finalizer {name} is assumed to be released"),
        Why::Cleaner(reason) => of_cleaner(reason, at),
    }
}

fn is_kind(object: &ObjectRef, group: &str, kind: &str) -> bool {
    *object.kind == *kind && object.group() == group
}

/// Whether an owner is there, and waits for its dependents to go.
fn waits(owner: &Resolved) -> bool {
    owner.class() == Class::Waiting
}

fn of_cleaner(reason: &Reason, at: Timestamp) -> String {
    match reason {
        Reason::Pod(pod::Reason::Terminated {
            terminated,
            threshold,
        }) => format!("{terminated} pods have ended, and {threshold} may stay"),
        Reason::Pod(pod::Reason::Orphaned { node }) => format!("node {node} is gone"),
        Reason::Pod(pod::Reason::OutOfService { node }) => format!("node {node} is out of service"),
        Reason::Pod(pod::Reason::Unscheduled) => "deleted before it had a node".to_owned(),
        Reason::Job(
            job::Reason::AsListed(job::State::Expired {
                finished_at,
                expired_at,
            })
            | job::Reason::AsRead(job::State::Expired {
                finished_at,
                expired_at,
            }),
        ) => {
            let ttl = span(expired_at.since(*finished_at));
            match at.since(*expired_at).as_secs() {
                0 => format!("finished {ttl} ago, and may stay no longer"),
                _ => format!(
                    "finished {} ago, and may stay {ttl}",
                    span(at.since(*finished_at))
                ),
            }
        }
        Reason::History(history::Reason::OverLimit {
            class,
            finished,
            limit,
        }) => format!("{finished} {class} jobs of a cron job, and {limit} may stay"),
        Reason::Certificate(certificate::Reason::Due { rule, since }) => {
            let state = match rule {
                certificate::Rule::CertificateExpired => {
                    return format!("certificate expired at {}", clock(*since, at));
                }
                certificate::Rule::Issued => "issued".to_owned(),
                certificate::Rule::Denied => "denied".to_owned(),
                certificate::Rule::Pending => "nobody has decided".to_owned(),
                other => other.to_string(),
            };
            format!("{state}, and time was up at {}", clock(*since, at))
        }
        Reason::PodCertificate(pod_request::Reason::Due { since }) => {
            format!("time was up at {}", clock(*since, at))
        }
        Reason::ExternalVolume(external::Reason::Released) => "claim gone, policy Delete".to_owned(),
        Reason::Volume(reclaim::Reason::StorageDeleted) => "storage deleted".to_owned(),
        Reason::Protection(protection::Reason::Unused) => "deleted before, and no longer in use".to_owned(),
        Reason::Node(node::Reason::Absent) => "no longer in the cloud".to_owned(),
        Reason::LegacyToken(legacy::Reason::Unused { last_used }) => match last_used {
            Some(date) => format!("last used on {date}"),
            None => "never used since uses are tracked".to_owned(),
        },
        Reason::LegacyToken(legacy::Reason::Invalid { since }) => format!("marked as invalid since {since}"),
        Reason::BootstrapToken(bootstrap::Reason::Expired { since }) => {
            format!("expired at {}", clock(*since, at))
        }
        other => other.to_string(),
    }
}

/// What is done to an object that stays, as the rest of a sentence that begins with the object; with several of them.
pub(super) const fn changes(why: &Why) -> [&'static str; 2] {
    let Why::Cleaner(reason) = why else {
        return match why {
            Why::Collector(_) => ["loses owners", "lose owners"],
            _ => ["changes", "change"],
        };
    };
    match **reason {
        Reason::Pod(_) => ["is marked as failed", "are marked as failed"],
        Reason::LegacyToken(_) => ["is marked as invalid", "are marked as invalid"],
        Reason::Node(node::Reason::Shutdown) => ["is tainted", "are tainted"],
        Reason::Node(node::Reason::ReadyAgain) => ["loses a taint", "lose a taint"],
        Reason::Protection(protection::Reason::Unused) => ["loses its protection", "lose their protection"],
        Reason::Protection(_) => ["is protected", "are protected"],
        Reason::StatefulSet(statefulset::Reason::OwnersUnfit { .. }) => {
            ["gets other owners", "get other owners"]
        }
        Reason::Volume(reclaim::Reason::Recycled) => ["is free again", "are free again"],
        _ => ["changes", "change"],
    }
}
