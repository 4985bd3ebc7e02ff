//! Why an object has its fate: a chain of facts that leads back to the intent, or to the state that was found.
//!
//! The explanation is data, taken from the writes of the simulation and from the reasons that the collector gave for them; nothing is made up afterwards.
//! A cause that several things share is told once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kubegc_controllers::Operation;
use kubegc_core::{ObjectRef, Uid};
use kubegc_objects::{
    classify::{Class, Resolved},
    reason::Reason,
};

use crate::{Act, Actor, Fate, Forecast, ObjectFate, Outcome, Step, Why};

/// One statement of an explanation, with what it rests on.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Statement {
    /// How deep it stands below the question.
    pub depth: usize,
    /// The fact.
    pub fact: Fact,
}

/// A fact of an explanation.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The object has this fate.
    Fate {
        /// The object.
        object: ObjectRef,
        /// Its fate.
        fate: Fate,
    },
    /// A write happened: the step at this position of the timeline.
    Step {
        /// Position in [`Forecast::timeline`].
        index: usize,
        /// The step.
        step: Box<Step>,
    },
    /// What was found out about an owner.
    Owner {
        /// The owner.
        owner: Resolved,
    },
    /// Nothing reaches the object.
    NotReached {
        /// The object.
        object: ObjectRef,
    },
    /// The fact was told further up.
    ToldAbove {
        /// Position of the step.
        index: usize,
        /// The object it was about.
        object: ObjectRef,
    },
}

/// Why an object has its fate.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Explanation {
    /// The statements, each below what it explains.
    pub statements: Vec<Statement>,
}

impl Forecast {
    /// Explains the fate of an object.
    ///
    /// # Complexity
    /// O(s log s + c) for s steps and fates of the forecast and c statements.
    #[must_use]
    pub fn explain(&self, object: &ObjectRef) -> Explanation {
        let mut statements = Vec::new();
        let Some(fate) = self.fate(object) else {
            statements.push(Statement {
                depth: 0,
                fact: Fact::NotReached {
                    object: object.clone(),
                },
            });
            return Explanation { statements };
        };
        let fact = Fact::Fate {
            object: fate.object.clone(),
            fate: fate.fate.clone(),
        };
        statements.push(Statement { depth: 0, fact });
        let firsts = Firsts::of(&self.timeline);
        let mut told = BTreeSet::new();
        // A stack of what is still to be told, instead of recursion over chains of owners.
        let mut pending: Vec<Statement> = Vec::new();
        if let Some(index) = self.last_failure(object) {
            pending.push(Statement {
                depth: 1,
                fact: self.step_fact(index),
            });
        }
        if let Some(index) = self.decisive_step(object) {
            pending.push(Statement {
                depth: 1,
                fact: self.step_fact(index),
            });
        } else if pending.is_empty() {
            pending.extend(self.standing(object));
        }
        while let Some(statement) = pending.pop() {
            let depth = statement.depth;
            let mut below: Vec<Statement> = Vec::new();
            let mut fact = statement.fact;
            match &fact {
                Fact::Step { index, step } => {
                    if !told.insert(*index) {
                        fact = Fact::ToldAbove {
                            index: *index,
                            object: step.object.clone(),
                        };
                    } else if let Why::Collector(reason) = &step.why {
                        below.extend(self.causes(&firsts, reason, *index, depth + 1));
                    }
                }
                Fact::Owner { owner } => {
                    let uid = &owner.reference.uid;
                    let wanted = match owner.class() {
                        Class::Dangling => Some(Outcome::Gone),
                        Class::Waiting => Some(Outcome::Terminating),
                        Class::Solid => None,
                    };
                    if let Some(wanted) = wanted {
                        let found = firsts.of_outcome(uid, wanted);
                        if let Some(index) = found {
                            below.push(Statement {
                                depth: depth + 1,
                                fact: self.step_fact(index),
                            });
                        }
                    }
                }
                _ => {}
            }
            statements.push(Statement { depth, fact });
            pending.extend(below.into_iter().rev());
        }
        Explanation { statements }
    }

    fn step_fact(&self, index: usize) -> Fact {
        Fact::Step {
            index,
            step: Box::new(self.timeline[index].clone()),
        }
    }

    /// The write that settled the fate of an object: the one that made it go, or the last that changed it.
    fn decisive_step(&self, object: &ObjectRef) -> Option<usize> {
        let changes = |wanted: fn(Outcome) -> bool| {
            self.timeline.iter().rposition(|step| {
                step.changes.iter().any(|change| {
                    change.object.uid == object.uid
                        && change.object.name == object.name
                        && wanted(change.outcome)
                })
            })
        };
        // A finalizer's removal ends a deletion; what began it is what people want to know.
        let began = self.timeline.iter().position(|step| {
            let deletes = matches!(step.act, Act::Delete { .. } | Act::DeleteCollection)
                && step.actor != Actor::Kubelet;
            deletes
                && step
                    .changes
                    .iter()
                    .any(|change| change.object.uid == object.uid && change.outcome != Outcome::Changed)
        });
        began
            .or_else(|| changes(|outcome| outcome != Outcome::Changed))
            .or_else(|| changes(|_| true))
    }

    /// The last request about an object, where the API server failed to perform it.
    fn last_failure(&self, object: &ObjectRef) -> Option<usize> {
        let last = self.timeline.iter().rposition(|step| step.object == *object)?;
        self.timeline[last].failure.is_some().then_some(last)
    }

    fn causes(&self, firsts: &Firsts<'_>, reason: &Reason, index: usize, depth: usize) -> Vec<Statement> {
        let mut causes: Vec<Statement> = reason
            .owners()
            .iter()
            .map(|owner| Statement {
                depth,
                fact: Fact::Owner { owner: owner.clone() },
            })
            .collect();
        if let Reason::OwnerOrphans(owner) = reason {
            let began = firsts
                .of_outcome(&owner.uid, Outcome::Terminating)
                .filter(|&began| began < index);
            causes.extend(began.map(|index| Statement {
                depth,
                fact: self.step_fact(index),
            }));
        }
        causes
    }

    /// Why an object that nothing writes to stays: its owners stand.
    fn standing(&self, object: &ObjectRef) -> Vec<Statement> {
        let Some(fate) = self.fate(object) else {
            return Vec::new();
        };
        let wanted = &fate.before.owner_references;
        if wanted.is_empty() {
            return Vec::new();
        }
        let by_uid: BTreeMap<&Uid, &ObjectFate> =
            self.fates.iter().map(|fate| (&fate.object.uid, fate)).collect();
        wanted
            .iter()
            .filter_map(|reference| by_uid.get(&reference.uid))
            .map(|owner| Statement {
                depth: 1,
                fact: Fact::Fate {
                    object: owner.object.clone(),
                    fate: owner.fate.clone(),
                },
            })
            .collect()
    }
}

/// Where each object first went, and where it first began to go.
struct Firsts<'a>(BTreeMap<&'a Uid, [Option<usize>; 2]>);

impl<'a> Firsts<'a> {
    fn of(timeline: &'a [Step]) -> Self {
        let mut firsts: BTreeMap<&Uid, [Option<usize>; 2]> = BTreeMap::new();
        for (index, step) in timeline.iter().enumerate() {
            for change in &step.changes {
                let slot = match change.outcome {
                    Outcome::Gone => 0,
                    Outcome::Terminating => 1,
                    Outcome::Changed | Outcome::Created => continue,
                };
                firsts.entry(&change.object.uid).or_default()[slot].get_or_insert(index);
            }
        }
        Self(firsts)
    }

    fn of_outcome(&self, uid: &Uid, outcome: Outcome) -> Option<usize> {
        let [gone, terminating] = self.0.get(uid)?;
        match outcome {
            Outcome::Gone => *gone,
            Outcome::Terminating => *terminating,
            Outcome::Changed | Outcome::Created => None,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Statement { depth, fact } in &self.statements {
            let indent = "  ".repeat((*depth).min(40));
            let because = if *depth == 0 { "" } else { "because " };
            writeln!(f, "{indent}{because}{fact}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fate { object, fate } => write!(f, "{} {}", object.short(), Sentence(fate)),
            Self::Step { step, .. } => {
                write!(f, "{}", Told(step))?;
                match &step.failure {
                    Some(message) => write!(f, ", but the API server refuses: {message}"),
                    None => Ok(()),
                }
            }
            Self::Owner { owner } => {
                write!(
                    f,
                    "its owner {} {} {}",
                    owner.reference.kind, owner.reference.name, owner.state
                )
            }
            Self::NotReached { object } => write!(
                f,
                "{} is not reached: nothing that goes or changes is an owner of it",
                object.short()
            ),
            Self::ToldAbove { index, object } => {
                write!(f, "of step {} about {}, told above", index + 1, object.short())
            }
        }
    }
}

/// A fate as the end of a sentence.
pub(crate) struct Sentence<'a>(pub(crate) &'a Fate);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fate::Deleted { .. } => f.write_str("is deleted"),
            Fate::Kept => f.write_str("stays"),
            Fate::Released { owners } => {
                let names: Vec<String> = owners
                    .iter()
                    .map(|owner| format!("{} {}", owner.kind, owner.name))
                    .collect();
                write!(f, "stays and is released from {}", names.join(" and "))
            }
            Fate::Stuck {
                finalizers,
                blocked_by,
                in_grace,
            } => {
                f.write_str("is stuck terminating")?;
                if *in_grace {
                    return f.write_str(", waiting for its end");
                }
                write!(f, ", held by {}", finalizers.join(", "))?;
                if !blocked_by.is_empty() {
                    let names: Vec<String> = blocked_by.iter().take(5).map(ObjectRef::short).collect();
                    write!(f, ", waiting for {}", names.join(", "))?;
                    if blocked_by.len() > 5 {
                        write!(f, " and {} more", blocked_by.len() - 5)?;
                    }
                }
                Ok(())
            }
            Fate::Undecided { missing } => {
                f.write_str("cannot be decided")?;
                for (at, missing) in missing.iter().take(3).enumerate() {
                    write!(f, "{} {missing}", if at == 0 { ": unknown is" } else { ";" })?;
                }
                Ok(())
            }
        }
    }
}

/// A step as a clause.
pub(crate) struct Told<'a>(pub(crate) &'a Step);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step {
            actor,
            act,
            object,
            why,
            ..
        } = self.0;
        match (why, act) {
            (Why::Intent(_), Act::Delete { propagation }) => {
                write!(f, "you delete {}", object.short())?;
                match propagation {
                    Some(policy) => write!(f, " ({policy})"),
                    None => Ok(()),
                }
            }
            (Why::Collector(reason), Act::Delete { propagation }) => {
                write!(f, "the garbage collector deletes {}", object.short())?;
                if let Some(policy) = propagation {
                    write!(f, " ({policy})")?;
                }
                write!(f, ": {reason}")
            }
            (Why::Collector(reason), _) => {
                write!(f, "the garbage collector patches {}: {reason}", object.short())
            }
            (Why::DefinitionTerminating, _) => {
                write!(
                    f,
                    "the API server deletes the custom resources of {}",
                    object.short()
                )
            }
            (Why::DefinitionsChanged, Act::Delete { .. }) => write!(
                f,
                "the API server deletes {}: no CustomResourceDefinition of its group and version is left",
                object.short()
            ),
            (Why::DefinitionsChanged, _) => write!(
                f,
                "the API server writes {} for its CustomResourceDefinitions",
                object.short()
            ),
            (Why::GracePeriodExpired, _) => write!(f, "{} has ended", object.short()),
            (Why::FinalizerReleased(name), _) => write!(
                f,
                "finalizer {name} of {} is assumed to be released",
                object.short()
            ),
            (Why::Controller(reason), act) => {
                write!(f, "the {actor} {} {}: {reason}", verb(*act), object.short())
            }
            (Why::Intent(_), _) => write!(f, "{actor}: {act} {}", object.short()),
        }
    }
}

/// What a controller does.
const fn verb(act: Act) -> &'static str {
    match act {
        Act::Delete { .. } => "deletes",
        Act::DeleteCollection => "deletes the content of",
        Act::Create => "creates",
        Act::Patch { .. } | Act::Update => "changes",
        Act::Storage(Operation::DeleteVolume) => "deletes the storage of",
        Act::Storage(Operation::RecycleVolume) => "empties the storage of",
    }
}
