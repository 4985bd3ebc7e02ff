//! Replays recordings of a kubelet's garbage collection: containers, images, and single functions.

mod containers;
mod format;
mod functions;
mod images;
mod rounds;
mod world;

use std::collections::BTreeMap;

use kubegc_core::KubernetesVersion;
use kubegc_node::Semantics;

use crate::Failure;

pub(crate) use self::{
    containers::replay as replay_containers,
    functions::{replay_policy, replay_signal},
    images::replay as replay_images,
};

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
