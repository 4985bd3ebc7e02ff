//! The report of a dry run: the writes, the outcomes of objects, and the writes that it could not follow.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_core::ObjectRef;
use kubegc_objects::{Operation, Request, Response};

/// One write that the collector would make, with the API server's response.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The request, its preconditions, and its reason.
    pub request: Request,
    /// The response of the API server, or of the overlay for objects that earlier writes would have changed.
    pub response: Response,
    /// Number of attempts. More than one only if it failed.
    pub tries: u32,
}

/// An object that would remain terminating.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminating {
    /// The object.
    pub object: ObjectRef,
    /// Its finalizers.
    pub finalizers: Vec<Arc<str>>,
    /// Its grace period in seconds, if it waits for that.
    pub grace_period_seconds: Option<i64>,
}

/// An object whose further changes the dry run does not know.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFollowed {
    /// The object.
    pub object: ObjectRef,
    /// The event that would happen to it, or happened.
    pub what: &'static str,
}

/// The actions of a collector on the cluster as it is, to the end of every cascade.
///
/// # Guarantees
/// Every write was sent with `dryRun=All`, or was decided on the responses to such writes: the API server
/// itself evaluated finalizers, preconditions and admission. Nothing was changed.
///
/// # Assumptions
/// No other controller acts: pods in their grace period, terminating namespaces and definitions, and
/// finalizers of other controllers stay as they are.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRunReport {
    /// The writes, in their order.
    pub writes: Vec<Write>,
    /// The objects that would be removed, sorted by resource, namespace and name.
    pub removed: Vec<ObjectRef>,
    /// The objects that would be terminating, sorted likewise.
    pub terminating: Vec<Terminating>,
    /// The writes that could not be followed, sorted.
    pub not_followed: Vec<NotFollowed>,
    /// Resources that could not be listed, as `resource.group`: dependents there were not seen.
    pub unsynced: Vec<String>,
    /// Whether the run ended; otherwise it was stopped, or waited for too long, and more writes may follow.
    pub complete: bool,
}

impl DryRunReport {
    /// Records a write and its response. A failed write and its retries are one write.
    pub(super) fn note(
        &mut self,
        request: Request,
        response: Response,
        failed: &mut BTreeMap<Arc<ObjectRef>, usize>,
    ) {
        if let Some(&at) = failed.get(&request.target)
            && let Some(known) = self.writes.get_mut(at)
            && known.request.operation == request.operation
        {
            known.tries = known.tries.saturating_add(1);
            known.response = response;
            return;
        }
        if !matches!(response, Response::Applied(_)) {
            failed.insert(Arc::clone(&request.target), self.writes.len());
        }
        self.writes.push(Write {
            request,
            response,
            tries: 1,
        });
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.request.target.short();
        match &self.request.operation {
            Operation::Get => write!(f, "read {object}")?,
            Operation::Delete { propagation, .. } => write!(f, "delete {object} ({propagation})")?,
            Operation::Patch { .. } => write!(f, "patch {object}")?,
            Operation::Put { .. } => write!(f, "replace {object}")?,
        }
        write!(f, ": {} [{}]", self.request.reason, self.request.reason.name())?;
        match &self.response {
            Response::Applied(_) => Ok(()),
            response => write!(f, "; refused {} times: {response:?}", self.tries),
        }
    }
}

impl fmt::Display for DryRunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "writes: {}", self.writes.len())?;
        for write in &self.writes {
            writeln!(f, "  {write}")?;
            for owner in write.request.reason.owners() {
                writeln!(f, "    owner {}: {}", owner.reference, owner.state)?;
            }
        }
        writeln!(f, "removed: {}", self.removed.len())?;
        for object in &self.removed {
            writeln!(f, "  {}", object.short())?;
        }
        writeln!(f, "terminating: {}", self.terminating.len())?;
        for left in &self.terminating {
            write!(f, "  {}", left.object.short())?;
            match left.grace_period_seconds {
                _ if !left.finalizers.is_empty() => {
                    writeln!(f, ": waiting for finalizers {}", left.finalizers.join(", "))?
                }
                Some(seconds) if seconds > 0 => writeln!(f, ": has {seconds} s to end")?,
                _ => writeln!(f)?,
            }
        }
        for (title, lines) in [
            (
                "not followed",
                self.not_followed
                    .iter()
                    .map(|one| format!("{}: {}", one.object.short(), one.what))
                    .collect::<Vec<_>>(),
            ),
            ("not listed", self.unsynced.clone()),
        ] {
            if !lines.is_empty() {
                writeln!(f, "{title}: {}", lines.len())?;
                for line in lines {
                    writeln!(f, "  {line}")?;
                }
            }
        }
        if !self.complete {
            writeln!(f, "ended early: more writes may follow")?;
        }
        Ok(())
    }
}
