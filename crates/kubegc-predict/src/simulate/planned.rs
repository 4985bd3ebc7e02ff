//! The objects that controllers act on, found without a simulation.

use kubegc_controllers::{
    End, FieldChange, Input, Key, Manager, Output, Request, Response, Step, Task, Write,
};
use kubegc_core::{StoreError, Timestamp, record::ObjectId};

use crate::facts::Facts;

/// The objects that controllers act on until a time if nothing else happens, and those that depend on missing
/// data.
pub(crate) fn planned(
    facts: &Facts,
    mut manager: Manager,
    began: Timestamp,
    until: Timestamp,
    with_unknown: bool,
) -> Vec<u32> {
    let mut seeds = Vec::new();
    let mut now = began;
    loop {
        match manager.poll_output(now) {
            Output::Perform(task) => {
                seeds.extend(facts.position_of(&task.object));
                let id = task.id;
                let deleted = deletions(facts, &manager, *task, &mut seeds);
                let end = End::Done;
                manager.handle(now, Input::Ended { task: id, end });
                for object in deleted {
                    let (resource, uid) = (object.resource, object.uid);
                    let key = Key::new(object.namespace, object.name);
                    manager.handle(now, Input::Deleted { resource, key, uid });
                }
            }
            Output::Wait { until: Some(at) } if at > now && at <= until => now = at,
            _ => break,
        }
    }
    if with_unknown {
        let unknown = manager.unknown();
        let unknown = unknown.filter_map(|(_, object, ..)| facts.position_of(object));
        seeds.extend(facts.affected_by(unknown));
    }
    seeds
}

/// The objects that a task deletes if reads return the objects of the dump and every write succeeds. Adds the
/// objects that it touches to the seeds: those of its requests, those that it reads, and the owners that it
/// sets, which must exist.
fn deletions(facts: &Facts, manager: &Manager, task: Task, seeds: &mut Vec<u32>) -> Vec<ObjectId> {
    let mut deleted = Vec::new();
    let mut sequence = task.work.into_steps(false).begin();
    let mut response = None;
    while let Step::Perform { request, .. } = sequence.next(response.take()) {
        if !matches!(request, Request::Event(_)) {
            seeds.extend(request.object().and_then(|object| facts.position_of(object)));
        }
        response = Some(match request {
            Request::Get { resource, key } => {
                seeds.extend(facts.by_name(resource, &key.namespace, &key.name));
                match manager.cache().get(resource, &key) {
                    Some(record) => Response::Object(Box::new(record.clone())),
                    None => Response::Failed(StoreError::NotFound),
                }
            }
            Request::Delete { object, .. } => {
                deleted.push(object);
                Response::Done
            }
            Request::Write(Write { changes, .. }) => {
                for change in &changes {
                    if let FieldChange::OwnerReferences(references) = change {
                        let owners = references.iter();
                        seeds.extend(owners.flat_map(|owner| facts.positions_of(&owner.uid)));
                    }
                }
                Response::Written(None)
            }
            Request::Event(_) => Response::Written(None),
            _ => Response::Failed(StoreError::Unlisted),
        });
    }
    deleted
}
