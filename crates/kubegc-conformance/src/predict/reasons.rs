//! Compares the reasons that a forecast gives for terminating objects with the recording.
//!
//! The reasons are the conditions that each object waits for. The recording supports them if
//! - there is one for each finalizer that is left, and none for another one;
//! - an owner in foreground deletion waits for the dependents that block it, and for none if none does;
//! - there is one for each write about the object that the API server refused until the end, and for none
//!   that is not recorded. Of an owner that orphans its dependents this includes writes about these, and of a
//!   namespace deletes of its content. Webhooks and policies that the recorded message names are named;
//! - content and discovery failures of a namespace are those of its status conditions, and the content of a
//!   definition consists of its custom resources;
//! - a pod without finalizers waits for the kubelet of a node that is not ready, or for a grace period that
//!   ends later.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kubegc_core::{Timestamp, metadata};
use kubegc_predict::Wait;
use serde_json::Value;

use super::{
    format::{Case, End, Write, is_namespace},
    question::Prediction,
};
use crate::{FailedCase, Failure, Report};

/// Counts the objects whose reasons the recording supports, and adds the differences of the others.
///
/// Only the objects of the dump that are terminating at the end of the first run count: the recording has no
/// writes of other runs.
pub(super) fn compare(name: &str, case: &Case, prediction: &Prediction, report: &mut Report) {
    let ids = case.ids();
    let recording = Recording {
        case,
        resources: &prediction.resources,
        refused: refused(case),
    };
    for object in &case.after {
        let Some(id) = ids.get(uid(object)) else { continue };
        if object["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        let waits = prediction.waits.get(uid(object));
        let differences = match waits {
            Some(waits) => recording.differences(object, waits),
            None => vec!["it is terminating".to_owned()],
        };
        if differences.is_empty() {
            report.supported_reasons += 1;
            continue;
        }
        let said = match waits {
            Some(waits) => format!("waiting for {}", texts(waits.iter()).join("\nand ")),
            None => "not terminating".to_owned(),
        };
        let failure = Failure::new(*id, differences.join("\n"), said);
        report.unsupported_reasons.push(FailedCase {
            name: name.to_owned(),
            failure,
        });
    }
}

/// The writes that the API server refused until the end, each with its resource: the last one of a client to
/// an object counts. Creates do not keep an object, and 404, 409 and 415 are not refusals: the client reads
/// the object again, or sends another kind of patch.
fn refused(case: &Case) -> Vec<(String, &Write)> {
    let mut last = BTreeMap::new();
    let writes = case.writes.iter();
    for write in writes.filter(|write| write.verb != "create" && write.by != "recorder") {
        for resource in write.resources() {
            let request = (&write.by, &write.verb, resource, &write.namespace, &write.name);
            last.insert(request, write);
        }
    }
    let last = last.into_iter();
    last.filter(|(_, write)| write.code >= 400 && ![404, 409, 415].contains(&write.code))
        .map(|((_, _, resource, _, _), write)| (resource, write))
        .collect()
}

struct Recording<'a> {
    case: &'a Case,
    /// By uid.
    resources: &'a BTreeMap<String, String>,
    refused: Vec<(String, &'a Write)>,
}

impl Recording<'_> {
    /// The facts about a terminating object that its waits contradict or leave out.
    fn differences(&self, object: &Value, waits: &[Wait]) -> Vec<String> {
        let mut differences = Vec::new();
        let finalizers = End::unchanged(object).finalizers;
        let named: BTreeSet<&str> = waits.iter().filter_map(Wait::finalizer).collect();
        if !named.into_iter().eq(finalizers.iter().map(String::as_str)) {
            differences.push(format!("finalizers: {}", finalizers.join(", ")));
        }
        differences.extend(self.dependents(object, waits, &finalizers));
        differences.extend(self.refusals(object, waits, &finalizers));
        differences.extend(self.content(object, waits, &finalizers));
        differences.extend(self.discovery(object, waits));
        if finalizers.is_empty() {
            differences.extend(self.end(object, waits));
        }
        differences
    }

    /// The objects that refer to an owner, and whether they block its deletion.
    fn dependents_of(&self, owner: &Value) -> Vec<(&Value, bool)> {
        let owner = uid(owner);
        let dependents = self.case.after.iter().filter_map(|dependent| {
            let references = dependent["metadata"]["ownerReferences"].as_array()?;
            let reference = references.iter().find(|reference| reference["uid"] == *owner)?;
            Some((dependent, reference["blockOwnerDeletion"] == true))
        });
        dependents.collect()
    }

    fn dependents(&self, object: &Value, waits: &[Wait], finalizers: &[String]) -> Option<String> {
        let mut blocking = self.dependents_of(object);
        blocking.retain(|(_, blocks)| *blocks && has(finalizers, metadata::FINALIZER_FOREGROUND));
        let recorded = blocking.iter().map(|(object, _)| uid(object).to_owned());
        let recorded: BTreeSet<String> = recorded.collect();
        let named = waits.iter().filter_map(|wait| match wait {
            Wait::Dependents { blocking, .. } => Some(blocking),
            _ => None,
        });
        let named: Vec<_> = named.collect();
        // A collector that cannot list or read an object says so in place of what blocks it.
        let is_unread = waits.iter().any(|wait| matches!(wait, Wait::Conversion { .. }));
        let is_alive = |uid: &str| {
            let mut alive = blocking
                .iter()
                .filter(|(object, _)| object["metadata"]["deletionTimestamp"].is_null());
            alive.any(|(object, _)| self::uid(object) == uid)
        };
        let mut unexplained = named
            .iter()
            .copied()
            .flatten()
            .filter(|one| one.because.is_none());
        let is_explained = is_unread || !unexplained.any(|one| is_alive(&one.object.uid.to_string()));
        let uids = named.iter().copied().map(|blocking| {
            let uids = blocking.iter().map(|object| object.object.uid.to_string());
            uids.collect::<BTreeSet<String>>()
        });
        let named: Vec<BTreeSet<String>> = uids.collect();
        let is_supported = match named.as_slice() {
            [] => is_unread || recorded.is_empty(),
            [named] => is_explained && *named == recorded && !recorded.is_empty(),
            _ => false,
        };
        let names: Vec<&str> = blocking.iter().map(|(object, _)| name(object)).collect();
        (!is_supported).then(|| format!("blocking dependents: {names:?}"))
    }

    fn refusals(&self, object: &Value, waits: &[Wait], finalizers: &[String]) -> Vec<String> {
        // A dependent that is not deleted is a reason for its owner in the foreground, and need not be given
        // as a wait of the owner.
        let orphans = has(finalizers, metadata::FINALIZER_ORPHAN);
        let dependents = self.dependents_of(object).into_iter();
        let dependents = dependents.map(|(dependent, _)| (dependent, orphans));
        let is_refused = |wait: &&Wait| matches!(wait, Wait::Refused { .. });
        let mut unrecorded = waits.iter().filter(is_refused).count();
        let mut differences = Vec::new();
        for (target, is_required) in [(object, true)].into_iter().chain(dependents) {
            let writes = self.refused_writes(target);
            let failure = condition(target, "NamespaceDeletionContentFailure");
            let messages = writes.iter().map(|write| &*write.message);
            let messages: Vec<&str> = messages.chain(failure).collect();
            let said = waits.iter().filter(|wait| match wait {
                Wait::Refused { object, .. } => *object.uid.to_string() == *uid(target),
                _ => false,
            });
            let said = texts(said);
            let is_named = |name: &str| said.iter().any(|said| said.contains(name));
            let is_supported = match (messages.len(), said.len()) {
                // One that is not recorded is in the count below.
                (0, _) => continue,
                (_, 0) => !is_required,
                // The condition of a namespace repeats its writes.
                (_, said) => {
                    said <= writes.len().max(1) && messages.iter().copied().flat_map(names).all(is_named)
                }
            };
            unrecorded = unrecorded.saturating_sub(said.len());
            if !is_supported {
                let shown = writes.iter().map(ToString::to_string);
                let shown: Vec<String> = shown.chain(failure.map(ToOwned::to_owned)).collect();
                differences.push(format!("refused for {}: {}", name(target), shown.join("; ")));
            }
        }
        if unrecorded > 0 {
            differences.push("no refused write that the object waits for".to_owned());
        }
        differences
    }

    /// The refused writes about an object; of a namespace also those about its content.
    fn refused_writes(&self, object: &Value) -> Vec<&Write> {
        let namespace = text(&object["metadata"]["namespace"]);
        let resource = self.resources.get(uid(object));
        let writes = self.refused.iter().filter(|(of, write)| {
            let within = match &*write.namespace {
                "" => &*self.case.prefix,
                within => within,
            };
            let is_own = resource == Some(of)
                && *write.name == *name(object)
                && (namespace.is_empty() || namespace == within);
            is_own || (is_namespace(object) && write.verb == "deletecollection" && within == name(object))
        });
        writes.map(|&(_, write)| write).collect()
    }

    fn content(&self, object: &Value, waits: &[Wait], finalizers: &[String]) -> Vec<String> {
        let mut named: [BTreeMap<String, usize>; 2] = Default::default();
        let remaining = waits.iter().filter_map(|wait| match wait {
            Wait::Content { remaining, .. } => Some(remaining),
            _ => None,
        });
        for kind in remaining.flatten() {
            *named[0].entry(kind.resource.clone()).or_default() += kind.count;
            for (name, count) in &kind.finalizers {
                *named[1].entry(name.to_string()).or_default() += count;
            }
        }
        let of_definition = has(finalizers, "customresourcecleanup.apiextensions.k8s.io");
        let of_namespace = is_namespace(object) && has(finalizers, "kubernetes");
        let mut left: [BTreeMap<String, usize>; 2] = Default::default();
        for other in &self.case.after {
            let Some(resource) = self.resources.get(uid(other)) else {
                continue;
            };
            let is_meant = (of_definition && resource == name(object))
                || (of_namespace && other["metadata"]["namespace"] == *name(object));
            if is_meant {
                *left[0].entry(resource.clone()).or_default() += 1;
                let finalizers = other["metadata"]["finalizers"].as_array();
                for finalizer in finalizers.into_iter().flatten() {
                    *left[1].entry(text(finalizer).to_owned()).or_default() += 1;
                }
            }
        }
        let mut differences = Vec::new();
        let conditions = [
            ("NamespaceContentRemaining", " has "),
            ("NamespaceFinalizersRemaining", " in "),
        ];
        for ((condition, separator), (named, left)) in conditions.into_iter().zip(named.iter().zip(&left)) {
            let message = self::condition(object, condition).filter(|_| of_namespace);
            let is_supported = match message {
                Some(message) => *named == counts(message, separator),
                // The namespace controller returns before it reports what remains while pods terminate.
                None if of_namespace => named.iter().all(|(name, count)| left.get(name) >= Some(count)),
                None => named == left,
            };
            if !is_supported {
                let shown = message.map_or_else(|| format!("content: {left:?}"), ToOwned::to_owned);
                differences.push(shown);
            }
        }
        differences
    }

    fn discovery(&self, object: &Value, waits: &[Wait]) -> Option<String> {
        let message = condition(object, "NamespaceDeletionDiscoveryFailure").unwrap_or_default();
        // It names the APIs of other cases as well.
        let words: BTreeSet<&str> = message
            .split(' ')
            .map(|word| word.trim_end_matches([':', ',']))
            .collect();
        let objects = self.case.before.iter();
        let recorded: BTreeSet<String> = objects
            .filter(|other| other["kind"] == "APIService")
            .map(|service| &service["spec"])
            .map(|spec| format!("{}/{}", text(&spec["group"]), text(&spec["version"])))
            .filter(|api| words.contains(&**api))
            .collect();
        let named = waits.iter().filter_map(|wait| match wait {
            Wait::Discovery { api_version, .. } => Some(api_version.clone()),
            _ => None,
        });
        let named: BTreeSet<String> = named.collect();
        (named != recorded).then(|| format!("failed discovery: {recorded:?}"))
    }

    /// What a pod without finalizers waits for.
    fn end(&self, object: &Value, waits: &[Wait]) -> Option<String> {
        let node = text(&object["spec"]["nodeName"]);
        let nodes = self.case.before.iter();
        let is_ready = nodes
            .filter(|other| other["kind"] == "Node" && name(other) == node)
            .filter_map(|node| node["status"]["conditions"].as_array())
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        let observed = Duration::from_secs_f64(self.case.observed_s);
        let observed = Timestamp::parse(&self.case.at).map(|at| at.saturating_add(observed));
        let is_supported = waits.iter().all(|wait| match wait {
            Wait::Kubelet { node: named, .. } => !is_ready && named.as_deref() == Some(node),
            Wait::Grace { ends_at, .. } => {
                is_ready && ends_at.is_some_and(|end| observed.as_ref().is_ok_and(|at| end > *at))
            }
            Wait::Refused { .. } => true,
            _ => false,
        });
        let shown = if is_ready { "is ready" } else { "is not ready" };
        (!is_supported).then(|| format!("no finalizers, and node {node:?} {shown}"))
    }
}

/// The message of a status condition that is true.
fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    let found = conditions.find(|condition| condition["type"] == *name && condition["status"] == "True")?;
    found["message"].as_str()
}

/// The counts in a condition's message, such as
/// `Some resources are remaining: pods. has 2 resource instances`.
fn counts(message: &str, separator: &str) -> BTreeMap<String, usize> {
    let (_, list) = message.split_once(": ").unwrap_or_default();
    let counts = list.split(", ").filter_map(|entry| {
        let (name, count) = entry.split_once(separator)?;
        let count = count.split(' ').next()?.parse::<usize>().ok()?;
        Some((name.trim_end_matches('.').to_owned(), count))
    });
    counts.collect()
}

/// The names that a message about a webhook or a policy quotes.
fn names(message: &str) -> impl Iterator<Item = &str> {
    let is_meant = message.contains("webhook") || message.contains("Policy");
    let quotes = ['"', '\''].into_iter().filter(move |_| is_meant);
    let quoted = quotes.flat_map(move |quote| message.split(quote).skip(1).step_by(2));
    quoted.filter(|name| !name.contains(['/', ' ']))
}

fn has(finalizers: &[String], name: &str) -> bool {
    finalizers.iter().any(|finalizer| finalizer == name)
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// A text; empty if the value is none.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts<'a>(waits: impl Iterator<Item = &'a Wait>) -> Vec<String> {
    waits.map(ToString::to_string).collect()
}
