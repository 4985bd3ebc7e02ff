//! Hands out what is to be done, and takes how it ended.

use std::time::Duration;

use super::{Controller, Left, Out};
use crate::{
    controller::{
        Ended, Mechanism, Task, TaskId, Work,
        agenda::Back,
        cadence::{STALE_MAX, has_passes},
        retry,
        unit::{self, Unit},
    },
    object::Failure,
};

impl Controller {
    /// The next task of the last look. What is overtaken by changes is dropped: the unit is looked at again.
    pub(super) fn hand_out(&mut self) -> Option<Task> {
        let unit = self.left.unit.clone()?;
        let mechanism = unit.0;
        let mut task = None;
        while task.is_none()
            && let Some(mut work) = self.left.works.pop_front()
        {
            if !has_passes(mechanism) && self.agenda.is_due(&unit, self.now) {
                self.left.works.clear();
            } else if !self.is_overtaken(&work) {
                if let Work::Namespace { failures, .. } = &mut work {
                    *failures = self.agenda.failures(&unit);
                }
                let id = TaskId(self.next_id);
                self.next_id = self.next_id.wrapping_add(1);
                let on_failure = unit::on_failure(mechanism, &work);
                let unit = unit.clone();
                self.agenda.start(&unit);
                let object = match &work {
                    Work::Act(planned) => Some(planned.object.clone()),
                    _ => None,
                };
                let out = Out {
                    unit,
                    on_failure,
                    object,
                };
                self.out.insert(id, out);
                task = Some(Task { id, mechanism, work });
            }
        }
        if self.left.works.is_empty() {
            self.left = Left::default();
            self.back(&unit, Back::Neither);
        }
        task
    }

    /// Whether the object of an action is gone, or has changed since it was decided on.
    fn is_overtaken(&self, work: &Work) -> bool {
        let Work::Act(planned) = work else {
            return false;
        };
        let Some(record) = self.record(&planned.object) else {
            return true;
        };
        let version = planned.expect.resource_version.as_ref();
        version.is_some_and(|version| *version != record.meta.resource_version)
    }

    /// Takes the end of a task.
    pub(super) fn end(&mut self, task: TaskId, ended: Ended) {
        let Some(Out {
            unit,
            on_failure,
            object,
        }) = self.out.remove(&task)
        else {
            return;
        };
        let mechanism = unit.0;
        if self.tables.is_still && mechanism == Mechanism::Pods && ended == Ended::Done {
            self.tables.spend(object.as_ref());
        }
        let back = match ended {
            Ended::Done => Back::Done,
            Ended::Stale => {
                let wait = if has_passes(mechanism) {
                    Duration::ZERO
                } else {
                    STALE_MAX
                };
                self.touch(&unit, self.now.saturating_add(wait));
                Back::Neither
            }
            Ended::Again(wait) => {
                self.touch(&unit, self.now.saturating_add(wait));
                Back::Neither
            }
            Ended::Failed(error) => match on_failure(&error) {
                Failure::Ignored => Back::Done,
                Failure::Told => {
                    let wait = self
                        .resync(mechanism)
                        .or(has_passes(mechanism).then_some(Duration::ZERO));
                    if let Some(wait) = wait {
                        self.touch(&unit, self.now.saturating_add(wait));
                    }
                    Back::Neither
                }
                Failure::Retried => Back::Failed,
            },
        };
        self.back(&unit, back);
    }

    /// Something that kept a unit busy is over. Where all is and any of it has failed, it is tried again.
    fn back(&mut self, unit: &Unit, back: Back) {
        let Some(failures) = self.agenda.end(unit, back) else {
            return;
        };
        if let Some(resync) = self.resync(unit.0) {
            let (until, again_at) = retry::blocked(self.now, failures, resync);
            return self.agenda.hold(unit, until, again_at);
        }
        let wait = match &self.settings.namespaces {
            Some(settings) if unit.0 == Mechanism::Namespaces => settings.retry_after(failures),
            _ => retry::wait(unit.0, failures),
        };
        self.touch(unit, self.now.saturating_add(wait));
    }

    /// How often a mechanism goes through all its units again, where it does.
    fn resync(&self, mechanism: Mechanism) -> Option<Duration> {
        let volumes = self.settings.volumes.as_ref();
        volumes
            .filter(|_| mechanism == Mechanism::Volumes)
            .map(|settings| settings.resync)
    }
}
