//! Reasons of steps in a few words.

use kubegc_core::ObjectRef;
use kubegc_objects::{
    Reason as CollectorReason,
    classify::{Class, Resolved},
};

use crate::trace::Why;

/// The reason of a step that affects this object.
pub(super) fn because(why: &Why, object: &ObjectRef) -> String {
    let kind = (object.group(), &*object.kind);
    match why {
        Why::Intent(_) => "requested".to_owned(),
        Why::Collector(CollectorReason::NoOwnerLeft(owners)) if !owners.iter().any(waits) => {
            "no owner is left".to_owned()
        }
        Why::Collector(reason) => reason.to_string(),
        Why::DefinitionTerminating if kind == ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            "it is terminating, and no object of it is left".to_owned()
        }
        Why::DefinitionTerminating => "the CustomResourceDefinition of its kind is terminating".to_owned(),
        Why::DefinitionsChanged => "the CustomResourceDefinitions of its group have changed".to_owned(),
        Why::GracePeriodExpired => "its grace period ends".to_owned(),
        Why::FinalizerReleased(name) => format!("its owner is assumed to remove finalizer {name}"),
        Why::Controller(reason) => reason.to_string(),
    }
}

/// Whether an owner is terminating and waits for its dependents.
fn waits(owner: &Resolved) -> bool {
    owner.class() == Class::Waiting
}

/// The change of an object that is kept, as the rest of a sentence that begins with the object, or with
/// several.
pub(super) fn changes(why: &Why) -> [&'static str; 2] {
    let Why::Controller(reason) = why else {
        return match why {
            Why::Collector(_) => [" loses owners", " lose owners"],
            _ => [" changes", " change"],
        };
    };
    match reason.code() {
        "Terminated" | "Orphaned" | "OutOfService" | "Unscheduled" => {
            [" is marked as failed", " are marked as failed"]
        }
        "TokenUnused" => [" is marked as invalid", " are marked as invalid"],
        "Unused" | "NotBound" => [" loses its protection", " lose their protection"],
        "ShutDown" => [" is tainted", " are tainted"],
        "ReadyAgain" => [" loses a taint", " lose a taint"],
        "Unprotected" | "FinalizerMissing" => [" is protected", " are protected"],
        "OwnersDiffer" => [" gets other owners", " get other owners"],
        "Unbound" => [" is available again", " are available again"],
        _ => [" changes", " change"],
    }
}
