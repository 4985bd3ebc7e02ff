//! Compares single functions: the validation of an image policy, and the functions that a signal triggers.

use kubegc_node::{
    eviction::{FileSystems, Function, Layout, Signal, reclaim_functions},
    image::{self, Thresholds},
};

use super::format::{PolicyCase, SignalCase};
use crate::{Failure, failure::equal};

/// Replays the validation of an image policy.
pub(crate) fn replay_policy(line: &str) -> Result<(), Failure> {
    let case: PolicyCase = serde_json::from_str(line).map_err(Failure::unreadable)?;
    let thresholds = Thresholds {
        high_percent: case.high_threshold_percent,
        low_percent: case.low_threshold_percent,
        ..Thresholds::default()
    };
    let policy = image::FreeSpace::new(thresholds, super::semantics("1.29+", false)?);
    let got = policy.err().map_or_else(String::new, |error| error.to_string());
    equal("error", case.error, got)
}

/// Replays which functions a signal triggers.
pub(crate) fn replay_signal(line: &str) -> Result<(), Failure> {
    let case: SignalCase = serde_json::from_str(line).map_err(Failure::unreadable)?;
    let semantics = super::semantics(&case.semantics, false)?;
    let signal: Signal = case.signal.parse().map_err(Failure::unreadable)?;
    let file_systems = FileSystems {
        images_are_dedicated: Ok(case.dedicated_image_fs),
        containers_are_separate: Some(case.split_container_image_fs),
    };
    let layout = Layout::new(&file_systems, semantics).map_err(Failure::unreadable)?;
    let functions = reclaim_functions(signal, layout, semantics);
    let text = |is_in_map: bool, functions: &[&str]| {
        if is_in_map {
            format!("an entry: {functions:?}")
        } else {
            format!("no entry: {functions:?}")
        }
    };
    let names: Vec<&str> = functions
        .unwrap_or_default()
        .iter()
        .map(|function| match function {
            Function::DeleteAllUnusedContainers => "delete_all_unused_containers",
            Function::DeleteUnusedImages => "delete_unused_images",
        })
        .collect();
    let expected: Vec<&str> = case.functions.iter().map(String::as_str).collect();
    equal(
        "functions",
        text(case.in_map, &expected),
        text(functions.is_some(), &names),
    )
}
