//! Fates as parts of sentences.

use std::collections::BTreeSet;

use kubegc_core::{ObjectRef, OwnerReference, record::Resource};

use super::{Fate, Missing, add_list};

/// The sentence that follows the name of a fate.
pub(crate) fn sentence(fate: &Fate) -> String {
    match fate {
        Fate::Terminating { waits_for } => {
            let waits: Vec<String> = waits_for.iter().map(ToString::to_string).collect();
            format!("waiting for {}", waits.join(", and for "))
        }
        Fate::Released { owners } => {
            let names: Vec<String> = owners.iter().map(OwnerReference::short).collect();
            format!("released from {}", names.join(" and "))
        }
        _ => String::new(),
    }
}

/// The sentence about the fate of an object, with the missing facts.
pub(crate) fn detail(fate: &Fate, of: &ObjectRef) -> String {
    let Fate::Undetermined { missing, .. } = fate else {
        return sentence(fate);
    };
    let text = missing_text(missing, of);
    match text.is_empty() {
        true => format!("whether it is cleaned up: {}", own_reasons(missing, of)),
        false => text,
    }
}

/// The facts that controllers need to decide about the object itself.
pub(crate) fn own_reasons(missing: &[Missing], of: &ObjectRef) -> String {
    let own = missing.iter().filter_map(|missing| match missing {
        Missing::Controller { object, reason } if *object == *of => Some(&**reason),
        _ => None,
    });
    let own: Vec<&str> = own.collect::<BTreeSet<&str>>().into_iter().collect();
    own.join("; ")
}

/// The missing facts about the owners of an object and other objects that it depends on. Empty if all facts
/// are about the object itself.
pub(crate) fn missing_text(missing: &[Missing], of: &ObjectRef) -> String {
    let own_end = missing.iter().find_map(|missing| match missing {
        Missing::Ending { pod, reason } if *pod == *of => Some(reason),
        _ => None,
    });
    let claim = match *of.kind == *Resource::PersistentVolumeClaims.kind() {
        true => "it",
        false => "the claim that it belongs to",
    };
    let unknown = missing.iter().filter(|missing| match missing {
        Missing::Controller { object, .. } => *object != *of,
        // The same reason as for the object itself.
        Missing::Ending { pod, reason } => *pod == *of || own_end != Some(reason),
        _ => true,
    });
    let unknown = unknown.map(|missing| match missing {
        Missing::Owner { resource, .. } => format!("whether an owner exists: {}", add_list(resource)),
        Missing::Controller { object, reason } if *object.kind == *Resource::StatefulSets.kind() => {
            format!("whether {claim} is deleted with a {}: {reason}", object.kind)
        }
        Missing::Controller { object, reason } => {
            let kind = &object.kind;
            format!("whether the {kind} that it depends on is deleted: {reason}")
        }
        Missing::Ending { pod, reason } if *pod == *of => format!("when it ends: {reason}"),
        Missing::Ending { pod, reason } => {
            format!("when the {} that it waits for ends: {reason}", pod.kind)
        }
        other => other.to_string(),
    });
    let unknown: Vec<String> = unknown.collect::<BTreeSet<_>>().into_iter().collect();
    unknown.join("; ")
}

/// A fate as the end of a sentence.
pub(crate) fn fate_text(fate: &Fate) -> String {
    match fate {
        Fate::Deleted { .. } => "is deleted".to_owned(),
        Fate::Kept => "is kept".to_owned(),
        Fate::Released { .. } => format!("is kept and {}", sentence(fate)),
        Fate::Terminating { .. } => format!("is terminating, {}", sentence(fate)),
        Fate::Undetermined { outcomes, missing } => {
            let missing: Vec<String> = missing.iter().take(3).map(ToString::to_string).collect();
            format!("is undetermined ({outcomes}): unknown is {}", missing.join("; "))
        }
    }
}
