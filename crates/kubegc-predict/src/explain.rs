//! Explanations: the chain of facts from the fate of an object back to the intent, or to the state of the
//! dump.
//!
//! An explanation reads the steps of the trace, with their reasons and causes. A cause that several facts
//! share is explained once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kubegc_control_plane::Refusals;
use kubegc_core::{ObjectRef, OwnerReference, Uid, printable, record::Resource};
use kubegc_objects::classify::Resolved;

use crate::{
    Forecast, ObjectFate, Step,
    judge::fate_text,
    trace::{Act, Change, Outcome, Why},
};

/// One statement of an explanation: a fate, a write, the result of the lookup of an owner.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Statement {
    /// Its depth below the question.
    pub depth: usize,
    /// The write that it is about, by its position in [`Forecast::timeline`].
    pub step: Option<usize>,
    /// The owner whose lookup it is about.
    pub owner: Option<Resolved>,
    pub text: String,
}

/// A reason for the fate of an object.
///
/// # Examples
/// A ConfigMap owns a Secret.
/// ```
/// # use kubegc_core::DeleteOptions;
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/owner_and_key.in"));
/// let delete = Intent::delete("shop/ConfigMap/owner".parse()?, DeleteOptions::default());
/// let forecast = cluster.predict(&[delete])?;
/// let explanation = forecast.explain(&forecast.fates[1].object);
/// assert!(explanation.to_string().starts_with("secret/key"), "{explanation}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Explanation {
    /// The statements, each below the one that it explains.
    pub statements: Vec<Statement>,
}

impl Forecast {
    /// Explains the fate of an object.
    ///
    /// # Complexity
    /// O(s log s + c) for s steps and fates of the forecast and c statements.
    pub fn explain(&self, object: &ObjectRef) -> Explanation {
        let Some(fate) = self.fate(object) else {
            let name = object.short();
            let text = format!("{name} is not affected: no write changes it or an owner of it");
            let statements = vec![statement(0, text)];
            return Explanation { statements };
        };
        let mut statements = vec![of_fate(0, fate)];
        let mut seen = BTreeSet::new();
        // A stack instead of recursion: chains of owners may be long.
        let mut pending: Vec<Statement> = Vec::new();
        if let Some(index) = self.last_failure(object) {
            pending.push(self.of_step(1, index, None));
        }
        if let Some(index) = self.decisive_step(object) {
            let deleted_with = is_deleted_with(object, &self.timeline[index]).then_some(object);
            pending.push(self.of_step(1, index, deleted_with));
        } else if pending.is_empty() {
            pending.extend(self.standing(fate));
        }
        while let Some(mut next) = pending.pop() {
            if let Some(index) = next.step {
                let step = &self.timeline[index];
                if seen.insert(index) {
                    pending.extend(self.causes(step, next.depth + 1).into_iter().rev());
                } else {
                    next.text = format!("of step {} about {}, see above", index + 1, step.object.short());
                }
            }
            statements.push(next);
        }
        Explanation { statements }
    }

    /// The statement about a step. The API server deleted `deleted_with` together with the object of the
    /// step: the IPAddresses and Endpoints of a Service.
    fn of_step(&self, depth: usize, index: usize, deleted_with: Option<&ObjectRef>) -> Statement {
        let step = &self.timeline[index];
        let mut text = step.to_string();
        if let Some(object) = deleted_with {
            text.push_str(&format!(
                ", and the API server deletes {} with it",
                object.short()
            ));
        }
        if let Some(refusal) = &step.failure {
            text.push_str(&format!(", but the API server refuses: {refusal}"));
        }
        Statement {
            step: Some(index),
            ..statement(depth, text)
        }
    }

    /// The write that settled the fate of an object: the one that made it go, or the last that changed it.
    fn decisive_step(&self, object: &ObjectRef) -> Option<usize> {
        let is_its = |change: &&Change| change.object.uid == object.uid;
        let ends = |change: &Change| change.outcome != Outcome::Changed;
        let last = |wanted: &dyn Fn(&Change) -> bool| {
            self.timeline.iter().rposition(|step| {
                let mut changes = step.changes.iter().filter(is_its);
                changes.any(|change| change.object.name == object.name && wanted(change))
            })
        };
        // The removal of a finalizer only ends a deletion.
        let mut steps = self.timeline.iter();
        let began = steps.position(|step| step.is_delete() && step.changes.iter().filter(is_its).any(ends));
        began.or_else(|| last(&ends)).or_else(|| last(&|_| true))
    }

    /// The last request about an object, if the API server failed to perform it.
    fn last_failure(&self, object: &ObjectRef) -> Option<usize> {
        let last = self.timeline.iter().rposition(|step| *step.object == *object)?;
        let step = &self.timeline[last];
        let lasts = !step.is_conflict() || Refusals::of(&self.timeline).contains(step);
        (step.failure.is_some() && lasts).then_some(last)
    }

    /// The owners and the earlier steps that led to a step. A step that deleted an owner is below that owner.
    fn causes(&self, step: &Step, depth: usize) -> Vec<Statement> {
        let mut causes = Vec::new();
        let mut of_owners = BTreeSet::new();
        let owners = match &step.why {
            Why::Collector(reason) => reason.owners(),
            _ => &[],
        };
        for owner in owners {
            let text = format!("its owner {} {}", owner.reference.short(), owner.state);
            causes.push(Statement {
                owner: Some(owner.clone()),
                ..statement(depth, text)
            });
            let is_about = |cause: &&usize| {
                let mut changes = self.timeline[**cause].changes.iter();
                changes.any(|change| change.object.uid == owner.reference.uid)
            };
            if let Some(&cause) = step.causes.iter().find(is_about) {
                of_owners.insert(cause);
                causes.push(self.of_step(depth + 1, cause, None));
            }
        }
        let others = step.causes.iter().filter(|cause| !of_owners.contains(cause));
        causes.extend(others.map(|&cause| self.of_step(depth, cause, None)));
        causes
    }

    /// The reasons that keep an object that no request changes: its owners.
    fn standing(&self, fate: &ObjectFate) -> Vec<Statement> {
        let owners: Vec<OwnerReference> = fate.before().owner_references().collect();
        let fates = self.fates.iter().filter(|_| !owners.is_empty());
        let by_uid: BTreeMap<&Uid, &ObjectFate> = fates.map(|fate| (&fate.object.uid, fate)).collect();
        let owners = owners.iter().filter_map(|owner| by_uid.get(&owner.uid));
        owners.map(|owner| of_fate(1, owner)).collect()
    }
}

fn statement(depth: usize, text: String) -> Statement {
    Statement {
        depth,
        step: None,
        owner: None,
        text,
    }
}

fn of_fate(depth: usize, of: &ObjectFate) -> Statement {
    statement(depth, format!("{} {}", of.object.short(), fate_text(&of.fate)))
}

/// Whether a step about another object removed an object. A request changes one object, unless it deletes a
/// collection.
fn is_deleted_with(object: &ObjectRef, step: &Step) -> bool {
    let is_of_request = match step.act {
        Act::DeleteCollection => *object.kind != *Resource::IpAddresses.kind(),
        _ => step.object.uid == object.uid,
    };
    let is_removed = |change: &Change| change.object.uid == object.uid && change.outcome == Outcome::Removed;
    !is_of_request && step.changes.iter().any(is_removed)
}

/// Control characters in names are written as escapes.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Statement { depth, text, .. } in &self.statements {
            let indent = "  ".repeat((*depth).min(40));
            let because = if *depth == 0 { "" } else { "because " };
            writeln!(f, "{indent}{because}{}", printable(text))?;
        }
        Ok(())
    }
}
