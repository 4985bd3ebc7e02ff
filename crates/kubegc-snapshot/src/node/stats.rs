//! The kubelet's `/stats/summary`: a node's disks, memory and processes.

use std::sync::Arc;

use kubegc_core::{Timestamp, node_facts::FileSystem};
use serde_json::Value;

use super::{
    fields::Entry,
    finding::{NodeProblem, Notes},
};
use crate::Place;

/// A kubelet's measurements of its node.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeStats {
    /// Name of the node; empty if missing.
    pub node_name: Arc<str>,
    /// The root file system, `node.fs`; `None` if missing.
    pub node_fs: Option<FileSystem>,
    /// The file system of images, `node.runtime.imageFs`; its used bytes are those of the images. `None` if
    /// missing.
    pub image_fs: Option<FileSystem>,
    /// The file system of writable layers, `node.runtime.containerFs`; `None` if missing.
    pub container_fs: Option<FileSystem>,
    /// Free memory, `node.memory.availableBytes`; `None` if missing.
    pub memory_available_bytes: Option<u64>,
    /// Maximum number of process ids, `node.rlimit.maxpid`; `None` if missing.
    pub pids_max: Option<u64>,
    /// Process ids in use, `node.rlimit.curproc`; `None` if missing.
    pub pids_used: Option<u64>,
    /// Time of the root file system's measurement; `None` if missing.
    pub at: Option<Timestamp>,
}

/// Reads the summary; the reason if it cannot be trusted.
pub(crate) fn read(value: &Value, place: &Place, notes: &mut Notes) -> Result<NodeStats, String> {
    let node = match value.get("node") {
        Some(Value::Object(node)) => node,
        other => {
            let found = other.map_or("nothing", crate::tree::type_name);
            let detail = format!("expected a map, found {found}");
            notes.note(NodeProblem::BadField, Some(place), "", "node", &detail);
            return Err(format!("{place}: node: {detail}"));
        }
    };
    let mut entry = Entry::new(node, place, "node", notes);
    if let Some(name) = entry.peek(&["nodeName"]) {
        entry.call(format!("node {name}"));
    }
    let node_name = entry.shared(&["nodeName"]);
    let stats = NodeStats {
        node_fs: file_system(&mut entry, &["fs"]),
        image_fs: file_system(&mut entry, &["runtime", "imageFs"]),
        container_fs: file_system(&mut entry, &["runtime", "containerFs"]),
        memory_available_bytes: entry.number(&["memory", "availableBytes"]),
        pids_max: entry.number(&["rlimit", "maxpid"]),
        pids_used: entry.number(&["rlimit", "curproc"]),
        at: entry.date(&["fs", "time"]),
        node_name,
    };
    entry.checked(stats)
}

fn file_system(entry: &mut Entry<'_, '_>, path: &[&str]) -> Option<FileSystem> {
    entry.map(path)?;
    let mut number = |name: &str| entry.number::<u64>(&[path, &[name]].concat());
    let file_system = FileSystem {
        capacity_bytes: number("capacityBytes"),
        available_bytes: number("availableBytes"),
        used_bytes: number("usedBytes"),
        inodes: number("inodes"),
        inodes_free: number("inodesFree"),
    };
    let FileSystem {
        capacity_bytes,
        available_bytes,
        inodes,
        inodes_free,
        ..
    } = file_system;
    for ([free, all], [free_name, all_name]) in [
        (
            [available_bytes, capacity_bytes],
            ["availableBytes", "capacityBytes"],
        ),
        ([inodes_free, inodes], ["inodesFree", "inodes"]),
    ] {
        if let (Some(free), Some(all)) = (free, all)
            && free > all
        {
            let detail = format!("{free} is more than {all_name}, {all}");
            entry.note(NodeProblem::Implausible, &[path, &[free_name]].concat(), &detail);
        }
    }
    if file_system.capacity_bytes == Some(0) {
        let field = [path, &["capacityBytes"]].concat();
        entry.note(NodeProblem::Implausible, &field, "no capacity at all");
    }
    Some(file_system)
}
