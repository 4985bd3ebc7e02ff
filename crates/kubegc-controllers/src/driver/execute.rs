//! Executes the actions of a plan.

use std::collections::BTreeSet;

use super::Performer;
use crate::{Action, End, Reason, Request, Step};

/// The result of an action. Its display form is such as
/// `delete job.batch/report -n shop: it finished 100s ago, ...: done`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{action}{}", end.as_ref().map_or(" (dry run)".to_owned(), |end| format!(": {end}")))]
pub struct Executed {
    pub action: Action,
    /// The requests that change something and were sent; in a dry run, those that would be sent.
    pub requests: Vec<Request>,
    /// How the action ended; `None` in a dry run.
    pub end: Option<End>,
}

/// Executes the actions of a plan in order, such as those of a [`BatchPlanner`](crate::BatchPlanner).
///
/// Each action first reads the objects that it depends on, as [`Action::into_steps`] does. An error of one
/// action does not stop the others. It only stops later actions on the same object and on the object that the
/// action is [part of](Action::part_of): these end as [`End::Kept`].
///
/// A dry run performs nothing, not even the reads, so it does not notice changes since the plan was made.
pub async fn execute(actions: Vec<Action>, performer: &Performer<'_>, dry_run: bool) -> Vec<Executed> {
    let mut blocked = BTreeSet::new();
    let mut all = Vec::with_capacity(actions.len());
    for action in actions {
        let (requests, end) = if dry_run {
            (action.requests.clone(), None)
        } else if blocked.contains(&action.object) {
            let message = "an earlier action that it depends on was not performed";
            (
                Vec::new(),
                Some(End::Kept(Reason::new("EarlierActionNotDone", message))),
            )
        } else {
            let (requests, end) = carry_out(action.clone(), performer).await;
            (requests, Some(end))
        };
        if end.as_ref().is_some_and(|end| *end != End::Done) {
            blocked.insert(action.object.clone());
            blocked.extend(action.part_of.as_deref().cloned());
        }
        all.push(Executed {
            action,
            requests,
            end,
        });
    }
    all
}

/// Executes one action. Returns the requests that were sent, without the reads, and how it ended.
async fn carry_out(action: Action, performer: &Performer<'_>) -> (Vec<Request>, End) {
    let mut sequence = action.into_steps(true).begin();
    let (mut sent, mut response) = (Vec::new(), None);
    loop {
        match sequence.next(response.take()) {
            Step::Perform { request, .. } => {
                response = Some(performer.perform(&request).await);
                if request.is_write() {
                    sent.push(request);
                }
            }
            Step::End(end) => return (sent, end),
        }
    }
}
