//! One pass over all nodes.

use std::sync::Arc;

use kubegc_core::{Kept, Plan, PlanOf, Planner, Timestamp};

use super::{Action, Cloud, Facts, Node, Reason, Settings, Summary, TAINT_SHUTDOWN, TAINT_UNINITIALIZED};
use crate::object::{Object, Resource, by_identity, expected};

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans one pass. `next_at` is when the next young node comes of age; what the cloud is to be asked is in the summary, and due now.
    fn plan(&self, facts: &Facts, now: Timestamp) -> PlanOf<Self> {
        let mut plan = Plan::default();
        let nodes = match &facts.nodes {
            Ok(nodes) => nodes,
            Err(error) => {
                plan.summary = Summary {
                    error: Some(error.clone()),
                    ..Summary::default()
                };
                return plan;
            }
        };
        for (object, node) in by_identity(Resource::Nodes, nodes, |node| &node.meta) {
            let verdict = match node {
                Some(node) => match self.judge(node, now) {
                    Verdict::Delete | Verdict::AddTaint | Verdict::RemoveTaint
                        if node.meta.uid.is_empty() =>
                    {
                        Verdict::Keep(Reason::IdentityUnknown)
                    }
                    verdict => verdict,
                },
                None => Verdict::Keep(Reason::ListedTwice),
            };
            let expect = node.map(|node| expected(&node.meta)).unwrap_or_default();
            match verdict {
                Verdict::Delete => plan.actions.push(Action::Delete {
                    object,
                    expect,
                    reason: Reason::Absent,
                }),
                Verdict::AddTaint => plan.actions.push(Action::AddShutdownTaint {
                    object,
                    expect,
                    reason: Reason::Shutdown,
                }),
                Verdict::RemoveTaint => plan.actions.push(Action::RemoveShutdownTaint {
                    object,
                    expect,
                    reason: Reason::ReadyAgain,
                }),
                Verdict::Keep(reason) => {
                    match &reason {
                        Reason::Uninitialized { until } => {
                            plan.next_at = plan.next_at.into_iter().chain([*until]).min();
                        }
                        Reason::ExistenceNotAsked => {
                            plan.summary.ask_exists.push(Arc::clone(&object.name));
                        }
                        Reason::ShutdownNotAsked => {
                            plan.summary.ask_shutdown.push(Arc::clone(&object.name));
                        }
                        _ => {}
                    }
                    plan.kept.push(Kept { object, reason });
                }
            }
        }
        plan
    }
}

/// What becomes of one node.
enum Verdict {
    Delete,
    AddTaint,
    RemoveTaint,
    Keep(Reason),
}

impl Settings {
    /// L8.1 to L8.5.
    fn judge(&self, node: &Node, now: Timestamp) -> Verdict {
        match (node.is_ready(), node.has_taint(TAINT_SHUTDOWN)) {
            (None, _) => return Verdict::Keep(Reason::ConditionsUnknown),
            (Some(true), Some(true)) => return Verdict::RemoveTaint,
            (Some(true), Some(false)) => return Verdict::Keep(Reason::Ready),
            (Some(true), None) => return Verdict::Keep(Reason::TaintsUnknown),
            (Some(false), _) => {}
        }
        let may_lack_provider_id = node.provider_id.as_ref().is_none_or(|id| id.is_empty());
        if may_lack_provider_id && node.has_taint(TAINT_UNINITIALIZED) != Some(false) {
            let Some(created) = node.meta.creation_timestamp else {
                return Verdict::Keep(Reason::AgeUnknown);
            };
            let until = created.saturating_add(self.uninitialized_grace);
            if now < until {
                return Verdict::Keep(Reason::Uninitialized { until });
            }
        }
        match &node.exists {
            Cloud::No => Verdict::Delete,
            Cloud::Yes => shutdown(node),
            Cloud::NotAsked => Verdict::Keep(Reason::ExistenceNotAsked),
            Cloud::NotImplemented => Verdict::Keep(Reason::ExistenceUnknown {
                message: "not implemented".into(),
            }),
            Cloud::Failed(message) => Verdict::Keep(Reason::ExistenceUnknown {
                message: Arc::clone(message),
            }),
        }
    }
}

/// L8.5: of a node that exists.
fn shutdown(node: &Node) -> Verdict {
    Verdict::Keep(match &node.is_shutdown {
        Cloud::Yes => match node.has_taint(TAINT_SHUTDOWN) {
            Some(false) => return Verdict::AddTaint,
            Some(true) => Reason::AlreadyTainted,
            None => Reason::TaintsUnknown,
        },
        Cloud::No | Cloud::NotImplemented => Reason::Running,
        Cloud::NotAsked => Reason::ShutdownNotAsked,
        Cloud::Failed(message) => Reason::ShutdownUnknown {
            message: Arc::clone(message),
        },
    })
}
