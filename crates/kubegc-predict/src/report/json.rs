//! Forecasts, comparisons and diagnoses as JSON documents.

use std::collections::BTreeMap;

use kubegc_controllers::{Cloud, Operation};
use kubegc_core::{ObjectRef, OwnerReference};
use kubegc_objects::{classify::Resolved, collector::InvalidNamespace};
use serde::Serialize;
use serde_json::Value;

use super::{
    document::{
        AssumptionsDocument, COMPARISON_SCHEMA, ChangeDocument, ComparisonDocument, DIAGNOSIS_SCHEMA,
        DiagnosisDocument, DifferenceDocument, EndDocument, EventDocument, FORECAST_SCHEMA, FateDocument,
        FixDocument, ForecastDocument, ForeignFinalizerDocument, InstanceDocument, ObjectDocument,
        ObjectFateDocument, ReferenceDocument, ResolvedDocument, StepDocument, SubjectDocument,
        TerminatingDocument, UndeterminedDocument, WaitCauseDocument, WaitDocument, WarningDocument,
        WrongReferenceDocument,
    },
    events::{End, Event, Subject, events},
    reasons::because,
};
use crate::{
    Assumptions, Comparison, Diagnosis, Fate, Forecast, Step, Wait,
    doctor::{Fix, ForeignFinalizer, Terminating, WrongReference},
    explain::StepText,
    trace::{Act, Outcome, Why},
};

impl Forecast {
    /// The forecast as a document for programs.
    ///
    /// # Complexity
    /// O(n log n) for n steps and fates.
    #[must_use]
    pub fn document(&self) -> ForecastDocument<'_> {
        let mut removals: BTreeMap<String, usize> = BTreeMap::new();
        for removal in self.removals() {
            let ObjectRef {
                api_version, kind, ..
            } = removal.object;
            *removals.entry(format!("{api_version}/{kind}")).or_default() += 1;
        }
        let fates = self.fates.iter().map(|fate| ObjectFateDocument {
            object: object(&fate.object),
            fate: fate_document(&fate.fate),
        });
        let undetermined = self.undetermined.iter().map(|one| UndeterminedDocument {
            controller: one.controller,
            kind: one.object.resource.kind(),
            namespace: &one.object.namespace,
            name: &one.object.name,
            uid: &one.object.uid,
            message: one.missing.to_string(),
        });
        let warnings = self.warnings.iter().map(|warning| WarningDocument {
            object: object(&warning.dependent),
            reason: InvalidNamespace::REASON,
            message: warning.to_string(),
        });
        ForecastDocument {
            schema: FORECAST_SCHEMA,
            began: self.began.to_string(),
            until: self.until().to_string(),
            next_at: self.next_at.map(|at| at.to_string()),
            duration_seconds: self.duration.as_secs_f64(),
            targets: self.targets.iter().map(object).collect(),
            summary: self.counts(),
            removals,
            fates: fates.collect(),
            events: events(self).iter().map(event).collect(),
            undetermined: undetermined.collect(),
            timeline: self.timeline.iter().map(step).collect(),
            warnings: warnings.collect(),
            findings: self.findings.iter().map(ToString::to_string).collect(),
            controllers: self.controllers.clone(),
            assumptions: assumptions(&self.assumptions),
        }
    }

    /// The [document](Self::document) as a JSON value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        value(&self.document())
    }
}

impl Comparison<'_> {
    /// The comparison as a document for programs.
    #[must_use]
    pub fn document(&self) -> ComparisonDocument<'_> {
        let differences = self.differences.iter().map(|one| DifferenceDocument {
            object: object(one.object),
            left: one.left.map(fate_document),
            right: one.right.map(fate_document),
        });
        ComparisonDocument {
            schema: COMPARISON_SCHEMA,
            differences: differences.collect(),
        }
    }

    /// The [document](Self::document) as a JSON value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        value(&self.document())
    }
}

impl Diagnosis {
    /// The diagnosis as a document for programs.
    #[must_use]
    pub fn document(&self) -> DiagnosisDocument<'_> {
        DiagnosisDocument {
            schema: DIAGNOSIS_SCHEMA,
            now: self.now.to_string(),
            terminating: self.terminating.iter().map(terminating).collect(),
            references: self.references.iter().map(wrong_reference).collect(),
        }
    }

    /// The [document](Self::document) as a JSON value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        value(&self.document())
    }
}

/// A document as a value. Documents have only texts as keys, so this does not fail.
fn value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap_or_default()
}

fn object(object: &ObjectRef) -> ObjectDocument<'_> {
    ObjectDocument {
        api_version: &object.api_version,
        kind: &object.kind,
        namespace: &object.namespace,
        name: &object.name,
        uid: &object.uid,
    }
}

fn reference(reference: &OwnerReference) -> ReferenceDocument<'_> {
    ReferenceDocument {
        api_version: &reference.api_version,
        kind: &reference.kind,
        name: &reference.name,
        uid: &reference.uid,
        controller: reference.controller,
        block_owner_deletion: reference.block_owner_deletion,
    }
}

fn fate_document(fate: &Fate) -> FateDocument<'_> {
    match fate {
        Fate::Deleted { by } => FateDocument::Deleted { by: by.to_string() },
        Fate::Released { owners } => FateDocument::Released {
            owners: owners.iter().map(reference).collect(),
        },
        Fate::Terminating { waits_for } => FateDocument::Terminating {
            waits_for: waits_for.iter().map(wait).collect(),
        },
        Fate::Undetermined { missing } => FateDocument::Undetermined {
            missing: missing.iter().map(ToString::to_string).collect(),
        },
        Fate::Kept => FateDocument::Kept,
    }
}

fn wait(wait: &Wait) -> WaitDocument<'_> {
    let cause = match wait {
        Wait::Dependents { blocking } => WaitCauseDocument::Dependents {
            dependents: blocking.iter().map(object).collect(),
        },
        Wait::Content { remaining, .. } => WaitCauseDocument::Content { remaining },
        Wait::Finalizer { known, reason, .. } => WaitCauseDocument::Finalizer {
            removed_by: known.map(|known| known.owner.to_string()),
            removed_when: known.map(|known| known.removed),
            reason: reason.as_deref(),
        },
        Wait::Grace { ends_at } => WaitCauseDocument::Grace {
            grace_period_ends_at: ends_at.map(|at| at.to_string()),
        },
        Wait::Kubelet { node } => WaitCauseDocument::Kubelet {
            node: node.as_deref(),
        },
    };
    WaitDocument {
        finalizer: wait.finalizer(),
        text: wait.to_string(),
        cause,
    }
}

fn subject<'a>(subject: &Subject<'a>) -> SubjectDocument<'a> {
    let (end, removed_at) = match subject.end {
        End::Removed(at) => (EndDocument::Removed, Some(at.to_string())),
        End::Terminating => (EndDocument::Terminating, None),
        End::Changed => (EndDocument::Changed, None),
    };
    SubjectDocument {
        object: object(subject.object),
        end,
        removed_at,
    }
}

fn event<'a>(event: &Event<'a>) -> EventDocument<'a> {
    EventDocument {
        subject: subject(&event.subject),
        at: event.at.to_string(),
        actor: event.step.actor.to_string(),
        reason: reason_name(&event.step.why),
        message: because(&event.step.why, event.subject.object),
        certain: event.is_certain,
        with: event.followers.iter().map(subject).collect(),
    }
}

fn assumptions(assumptions: &Assumptions) -> AssumptionsDocument<'_> {
    // There may be no response.
    let response = |response: &Cloud| match response {
        Cloud::Yes => Some(true),
        Cloud::No => Some(false),
        Cloud::NotImplemented | Cloud::Failed(_) => None,
    };
    let cloud = assumptions.cloud.iter().map(|(node, instance)| InstanceDocument {
        node,
        exists: response(&instance.exists),
        is_shutdown: response(&instance.is_shutdown),
    });
    AssumptionsDocument {
        pods_end: assumptions.pods_end,
        finalizers_released: assumptions
            .finalizers_released
            .iter()
            .map(|name| &**name)
            .collect(),
        unreachable_webhooks: assumptions
            .unreachable_webhooks
            .iter()
            .map(|name| &**name)
            .collect(),
        storage_is_deleted: assumptions.storage_is_deleted,
        external_controllers_run: assumptions.external_controllers_run,
        cloud: cloud.collect(),
    }
}

const fn reason_name(why: &Why) -> &'static str {
    match why {
        Why::Collector(reason) => reason.name(),
        Why::Intent(_) => "Intent",
        Why::DefinitionTerminating => "DefinitionTerminating",
        Why::DefinitionsChanged => "DefinitionsChanged",
        Why::GracePeriodExpired => "GracePeriodExpired",
        Why::FinalizerReleased(_) => "FinalizerReleased",
        Why::Controller(reason) => reason.code(),
    }
}

fn step(step: &Step) -> StepDocument<'_> {
    let (act, propagation_policy) = match step.act {
        Act::Delete { propagation } => ("delete", propagation.map(|policy| policy.as_str())),
        Act::DeleteCollection => ("deleteCollection", None),
        Act::Patch { .. } => ("patch", None),
        Act::Create => ("create", None),
        Act::Update => ("update", None),
        Act::Storage(Operation::DeleteVolume) => ("deleteStorage", None),
        Act::Storage(Operation::RecycleVolume) => ("recycleStorage", None),
    };
    let owners: &[Resolved] = match &step.why {
        Why::Collector(reason) => reason.owners(),
        _ => &[],
    };
    let owners = owners.iter().map(|owner| ResolvedDocument {
        reference: reference(&owner.reference),
        class: owner.class().to_string(),
        state: owner.state.to_string(),
    });
    let changes = step.changes.iter().map(|change| ChangeDocument {
        object: object(&change.object),
        outcome: match change.outcome {
            Outcome::Removed => "removed",
            Outcome::Terminating => "terminating",
            Outcome::Changed => "changed",
            Outcome::Created => "created",
        },
    });
    StepDocument {
        at_seconds: step.at.as_secs_f64(),
        actor: step.actor.to_string(),
        act,
        propagation_policy,
        object: object(&step.object),
        code: step.code,
        failure: step.failure.as_deref(),
        reason: reason_name(&step.why),
        owners: owners.collect(),
        changes: changes.collect(),
        causes: &step.causes,
        text: StepText(step).to_string(),
    }
}

fn terminating(one: &Terminating) -> TerminatingDocument<'_> {
    TerminatingDocument {
        object: object(&one.object),
        fate: fate_document(&one.fate),
        since: one.since.map(|since| since.to_string()),
        foreign_finalizers: one.foreign_finalizers.iter().map(foreign_finalizer).collect(),
    }
}

fn foreign_finalizer(finalizer: &ForeignFinalizer) -> ForeignFinalizerDocument<'_> {
    ForeignFinalizerDocument {
        name: &finalizer.name,
        component: finalizer.known.map(|known| known.owner.to_string()),
        similar_workloads: finalizer.similar_workloads.iter().map(object).collect(),
        workloads_are_complete: finalizer.workloads_are_complete,
        fix: fix(&finalizer.fix),
    }
}

fn wrong_reference(one: &WrongReference) -> WrongReferenceDocument<'_> {
    WrongReferenceDocument {
        object: object(&one.object),
        fate: fate_document(&one.fate),
        index: one.index,
        reference: reference(&one.reference),
        problem: one.problem.word(),
        message: one.problem.to_string(),
        is_certain: one.problem.is_certain(),
        fix: one.fix.as_ref().map(fix),
    }
}

fn fix(fix: &Fix) -> FixDocument<'_> {
    FixDocument {
        command: &fix.command,
        risk: &fix.risk,
    }
}
