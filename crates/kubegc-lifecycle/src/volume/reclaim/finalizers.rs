//! Says what the finalizers and the note of a migration of a volume lack.
//!
//! # Upstream
//! `updateVolumeMigrationAnnotationsAndFinalizers` in `pv_controller.go`.

use super::super::{
    ANNOTATION_MIGRATED_TO, FINALIZER_EXTERNAL, FINALIZER_IN_TREE, Migration, Policy, Volume,
};
use crate::object::Change;

/// What the note of the migration lacks.
pub(super) fn migration_changes(volume: &Volume) -> Vec<Change> {
    let change = match (&volume.migration, volume.driver()) {
        (Migration::On { driver }, noted) if volume.is_in_tree() && noted != Some(driver) => {
            Some(Change::Annotation {
                key: ANNOTATION_MIGRATED_TO,
                value: driver.to_string(),
            })
        }
        (Migration::Off, Some(_)) if volume.provisioner().is_some() => {
            Some(Change::RemoveAnnotation(ANNOTATION_MIGRATED_TO))
        }
        _ => None,
    };
    change.into_iter().collect()
}

/// What the finalizers lack, first match wins.
pub(super) fn finalizer_changes(volume: &Volume) -> Vec<Change> {
    let remove = |name: &'static str| {
        let is_there = volume.meta.has_finalizer(name);
        is_there.then_some(Change::RemoveFinalizer(name))
    };
    let in_tree = match (&volume.migration, &volume.policy) {
        _ if !volume.is_in_tree() => return Vec::new(),
        (Migration::On { .. }, _) => return remove(FINALIZER_IN_TREE).into_iter().collect(),
        (Migration::Unknown, _) => return Vec::new(),
        (Migration::Off, Policy::Delete) => {
            let is_there = volume.meta.has_finalizer(FINALIZER_IN_TREE);
            (!is_there).then_some(Change::AddFinalizer(FINALIZER_IN_TREE))
        }
        (Migration::Off, Policy::Retain | Policy::Recycle) => remove(FINALIZER_IN_TREE),
        (Migration::Off, Policy::Unknown | Policy::Other(_)) => return Vec::new(),
    };
    in_tree.into_iter().chain(remove(FINALIZER_EXTERNAL)).collect()
}
