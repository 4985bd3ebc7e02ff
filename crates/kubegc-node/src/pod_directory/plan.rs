//! The plan: evaluates each pod directory, and lists the removals of an orphaned one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{Kept, Plan, PlanOf, Planner, Timestamp, Uid};

use super::{
    Action, Directory, Error, Expect, Facts, Gauges, Means, Reason, Removal, RemovedBecause, Settings,
    Subject, Summary,
    path::{SUBPATHS, VOLUMES, deepest_first, is_below, is_entry},
    reason::text,
};
use crate::{Listing, Unlisted};

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Subject;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans for all directories, by name. `next_at` is always `None`: time alone changes nothing.
    fn plan(&self, facts: &Facts, _now: Timestamp) -> PlanOf<Self> {
        let mut plan = Plan::default();
        let directories = match &facts.directories {
            Ok(directories) => directories,
            Err(why) => {
                fail(&mut plan, Error::directories(why));
                return plan;
            }
        };
        let running = match (&facts.running, facts.pods.sources_ready) {
            (_, false) => Err(Error::SourcesNotReady),
            (Err(why), true) => Err(Error::running(why)),
            (Ok(running), true) => Ok(running),
        };
        let mut by_name: BTreeMap<&Arc<str>, Vec<&Directory>> = BTreeMap::new();
        for directory in directories {
            by_name.entry(&directory.name).or_default().push(directory);
        }
        let mut gauges = Gauges::default();
        for (name, listed) in by_name {
            let verdict = unclaimed(facts, name)
                .and_then(|pod| match &running {
                    Ok(_) => Ok(pod),
                    Err(_) => Err(Reason::PassFailed),
                })
                .and_then(|pod| self.judge(pod, &listed));
            let object = Subject::Directory(Arc::clone(name));
            if listed.len() > 1 {
                plan.findings.push(Kept {
                    object: object.clone(),
                    reason: Reason::Repeated,
                });
            }
            let is_error = verdict.as_ref().is_err_and(Reason::is_error);
            gauges.orphan_pod_cleaned_volumes += u64::from(is_error || verdict.is_ok());
            gauges.orphan_pod_cleaned_volumes_errors += u64::from(is_error);
            match verdict {
                Ok(action) => plan.actions.push(action),
                Err(reason) => {
                    plan.summary.volume_errors += u64::from(reason.is_volume_error());
                    plan.kept.push(Kept { object, reason });
                }
            }
        }
        match running {
            Ok(_) => plan.summary.gauges = Some(gauges),
            Err(error) => fail(&mut plan, error),
        }
        plan
    }
}

/// Adds the reason why nothing is planned.
fn fail(plan: &mut PlanOf<Settings>, error: Error) {
    plan.summary.error = Some(error.clone());
    plan.findings.push(Kept {
        object: Subject::Node,
        reason: Reason::Failed(error),
    });
}

/// [L13.1](crate::rules#l13-1): the pod of a directory that no known pod uses. Without a listing of running
/// pods it is unknown.
fn unclaimed(facts: &Facts, name: &str) -> Result<Uid, Reason> {
    if !is_entry(name) {
        return Err(Reason::NotAnEntry);
    }
    let pod = Uid::new(name);
    if facts.pods.known.contains_key(&pod) {
        return Err(Reason::PodKnown);
    }
    match &facts.running {
        Ok(running) if running.contains(&pod) => Err(Reason::PodRuns),
        _ => Ok(pod),
    }
}

impl Settings {
    /// [L13.2](crate::rules#l13-2) to [L13.4](crate::rules#l13-4), for all facts about one orphaned
    /// directory.
    fn judge(&self, pod: Uid, listed: &[&Directory]) -> Result<Action, Reason> {
        let directory = match listed {
            [first, rest @ ..] if rest.iter().all(|other| is_alike(first, other)) => *first,
            _ => return Err(Reason::Contradiction),
        };
        match &directory.has_mounts {
            Ok(false) => {}
            Ok(true) => return Err(Reason::Mounted),
            Err(why) => return Err(Reason::MountsUnknown(text(why))),
        }
        let unread = |reason: fn(Box<str>) -> Reason| move |why: &Unlisted| reason(text(why));
        let volume_paths = directory.volume_paths.as_ref();
        let volume_paths = volume_paths.map_err(unread(Reason::VolumesUnread))?;
        let subpaths = directory.subpaths.as_ref();
        let subpaths = subpaths.map_err(unread(Reason::SubpathsUnread))?;
        let entries = directory.entries.as_ref();
        let entries = entries.map_err(unread(Reason::EntriesUnread))?;
        if self.removes_volumes {
            self.piecemeal(pod, &directory.name, volume_paths, subpaths, entries)
        } else {
            whole(pod, &directory.name, volume_paths, subpaths, entries)
        }
    }

    /// [L13.4](crate::rules#l13-4): the remains of volumes, then everything else, then the directory.
    fn piecemeal(
        &self,
        pod: Uid,
        directory: &Arc<str>,
        volume_paths: &[Arc<str>],
        subpaths: &[Arc<str>],
        entries: &[Arc<str>],
    ) -> Result<Action, Reason> {
        let away = volume_paths
            .iter()
            .filter(|path| !is_below(path, VOLUMES))
            .chain(subpaths.iter().filter(|path| !is_below(path, SUBPATHS)))
            .chain(entries.iter().filter(|entry| !is_entry(entry)));
        if let Some(path) = away.min() {
            return Err(Reason::OutsideDirectory(Arc::clone(path)));
        }
        let has_volumes = !volume_paths.is_empty() || entries.iter().any(|entry| &**entry == VOLUMES);
        let by = |means: Means| move |path: &Arc<str>| removal(directory, path, means);
        let of_subpaths = if self.removes_subpath_files {
            Means::FileOrEmptyDirectory
        } else {
            Means::EmptyDirectory
        };
        let volumes = deepest_first(volume_paths)
            .map(by(Means::EmptyDirectory))
            .chain(deepest_first(subpaths).map(by(of_subpaths)))
            .chain(has_volumes.then(|| removal(directory, VOLUMES, Means::Directories)))
            .collect();
        Ok(Action::Remove {
            directory: Arc::clone(directory),
            expect: Expect {
                pod,
                without_volumes: false,
            },
            volumes,
            entries: remaining(directory, entries),
            itself: Removal {
                path: Arc::clone(directory),
                means: Means::EmptyDirectory,
            },
            reason: RemovedBecause::Orphaned,
        })
    }
}

/// [L13.3](crate::rules#l13-3): the directory as one tree, if no remains of volumes exist.
fn whole(
    pod: Uid,
    directory: &Arc<str>,
    volume_paths: &[Arc<str>],
    subpaths: &[Arc<str>],
    entries: &[Arc<str>],
) -> Result<Action, Reason> {
    if !volume_paths.is_empty() {
        let volumes = volume_paths.iter().collect::<BTreeSet<_>>().len();
        return Err(Reason::VolumesLeft { volumes });
    }
    if !subpaths.is_empty() || entries.iter().any(|entry| &**entry == SUBPATHS) {
        return Err(Reason::SubpathsLeft);
    }
    Ok(Action::Remove {
        directory: Arc::clone(directory),
        expect: Expect {
            pod,
            without_volumes: true,
        },
        volumes: Vec::new(),
        entries: Vec::new(),
        itself: Removal {
            path: Arc::clone(directory),
            means: Means::Tree,
        },
        reason: RemovedBecause::Orphaned,
    })
}

/// The removal of all these entries of a directory, in the order of their names, but never of `volumes`.
pub(super) fn remaining(directory: &str, entries: &[Arc<str>]) -> Vec<Removal> {
    let entries: BTreeSet<&Arc<str>> = entries.iter().collect();
    let others = entries.into_iter().filter(|entry| &***entry != VOLUMES);
    others
        .map(|entry| removal(directory, entry, Means::Tree))
        .collect()
}

fn removal(directory: &str, path: &str, means: Means) -> Removal {
    Removal {
        path: format!("{directory}/{path}").into(),
        means,
    }
}

/// Returns whether two descriptions of a directory are equal, whatever the order of the listings.
fn is_alike(one: &Directory, other: &Directory) -> bool {
    type Set<'a> = Result<BTreeSet<&'a Arc<str>>, &'a Unlisted>;
    fn set(listing: &Listing<Vec<Arc<str>>>) -> Set<'_> {
        listing.as_ref().map(|all| all.iter().collect())
    }
    one.has_mounts == other.has_mounts
        && set(&one.volume_paths) == set(&other.volume_paths)
        && set(&one.subpaths) == set(&other.subpaths)
        && set(&one.entries) == set(&other.entries)
}
