//! Compares single functions: the validation of an image policy, and the functions that a signal triggers.

use kubegc_node::{
    eviction::{FileSystems, Function, Layout, Signal, reclaim_functions},
    image::{self, Thresholds},
};

use super::format::{PolicyCase, SignalCase};
use crate::{Failure, Report, failure::equal, recording::Case};

pub(crate) fn replay_policy(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
    let case: PolicyCase = case.read()?;
    let thresholds = Thresholds {
        high_percent: case.high_threshold_percent,
        low_percent: case.low_threshold_percent,
        ..Thresholds::default()
    };
    let policy = image::FreeSpace::new(thresholds, super::semantics("1.29+", false)?);
    let got = policy.err().map_or_else(String::new, |error| error.to_string());
    equal("error", &case.error, &got)
}

/// Replays which functions a signal triggers.
pub(crate) fn replay_signal(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
    let case: SignalCase = case.read()?;
    let semantics = super::semantics(&case.semantics, false)?;
    let signal: Signal = case.signal.parse().map_err(Failure::unreadable)?;
    let file_systems = FileSystems {
        images_are_dedicated: Ok(case.dedicated_image_fs),
        containers_are_separate: Some(case.split_container_image_fs),
    };
    let layout = Layout::new(&file_systems, semantics).map_err(Failure::unreadable)?;
    let functions = reclaim_functions(signal, layout, semantics);
    let names = functions
        .unwrap_or_default()
        .iter()
        .map(|function| match function {
            Function::DeleteAllUnusedContainers => "delete_all_unused_containers",
            Function::DeleteUnusedImages => "delete_unused_images",
        });
    equal("in_map", &case.in_map, &functions.is_some())?;
    equal("functions", &case.functions, &names.collect::<Vec<_>>())
}
