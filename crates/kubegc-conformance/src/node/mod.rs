//! Replays recordings of a kubelet's garbage collection: containers, images, and single functions.

mod containers;
mod format;
mod images;
mod world;

use std::collections::BTreeMap;

use kubegc_core::KubernetesVersion;
use kubegc_node::{
    Semantics,
    eviction::{FileSystems, Function, Layout, Signal, reclaim_functions},
    image::{self, Thresholds},
};

use self::format::{PolicyCase, SignalCase};
pub(crate) use self::{containers::replay as replay_containers, images::replay as replay_images};
use crate::{Failure, Report, failure::equal, recording::Case};

/// The behaviour that a recording names: `1.28`, or `1.29+` for the releases from the maximum age to the new
/// messages of 1.34.
fn semantics(name: &str, per_runtime_handler: bool) -> Result<Semantics, Failure> {
    let minor = match name {
        "1.28" => 28,
        "1.29+" => 31,
        other => return Err(Failure::unreadable(format!("unknown semantics {other:?}"))),
    };
    let version = KubernetesVersion::new(minor, 0).map_err(Failure::unreadable)?;
    let gates = BTreeMap::from([("RuntimeClassInImageCriApi".to_owned(), per_runtime_handler)]);
    Ok(Semantics::with_gates(version, &gates))
}

/// Compares the validation of an image policy.
pub(crate) fn replay_policy(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
    let case: PolicyCase = case.read()?;
    let thresholds = Thresholds {
        high_percent: case.high_threshold_percent,
        low_percent: case.low_threshold_percent,
        ..Thresholds::default()
    };
    let policy = image::FreeSpace::new(thresholds, semantics("1.29+", false)?);
    let got = policy.err().map_or_else(String::new, |error| error.to_string());
    equal("error", &case.error, &got)
}

/// Compares the functions that a signal triggers.
pub(crate) fn replay_signal(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
    let case: SignalCase = case.read()?;
    let semantics = semantics(&case.semantics, false)?;
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
