//! Replays recordings of a kubelet's garbage collection: containers, images, and single functions.

mod answers;
mod containers;
mod format;
mod images;
mod rounds;
mod world;

use std::collections::BTreeMap;

use kubegc_core::KubernetesVersion;
use kubegc_node::{Semantics, semantics::gate};

use crate::Failure;

pub(crate) use self::{
    answers::{replay_policy, replay_signal},
    containers::replay as replay_containers,
    images::replay as replay_images,
};

/// The behaviour that a recording names: `1.28`, or `1.29+` for the time between the maximum age and the new
/// words of 1.34.
fn semantics(name: &str, per_runtime_handler: bool) -> Result<Semantics, Failure> {
    let minor = match name {
        "1.28" => 28,
        "1.29+" => 31,
        other => return Err(Failure::unreadable(format!("unknown semantics {other:?}"))),
    };
    let version = KubernetesVersion::new(minor, 0).map_err(Failure::unreadable)?;
    let gates = BTreeMap::from([(
        gate::RUNTIME_CLASS_IN_IMAGE_CRI_API.to_owned(),
        per_runtime_handler,
    )]);
    Ok(Semantics::with_gates(version, &gates))
}
