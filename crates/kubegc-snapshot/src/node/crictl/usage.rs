//! The output of `crictl imagefsinfo`: usage by images and writable layers. It contains neither capacities
//! nor free space.

use std::sync::Arc;

use kubegc_core::Timestamp;
use serde_json::Value;

use crate::{
    Place,
    node::{fields::Entry, finding::Notes},
};

/// The runtime's usage of one file system.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSystemUsage {
    /// The mount point; empty if the runtime does not report it.
    pub mountpoint: Arc<str>,
    /// Bytes used; `None` if unknown.
    pub used_bytes: Option<u64>,
    /// Inodes used; `None` if unknown.
    pub inodes_used: Option<u64>,
    /// The time of the measurement; `None` if unknown.
    pub at: Option<Timestamp>,
}

/// The runtime's usage of the file systems of images, and of those of writable layers.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuntimeUsage {
    /// File systems with images. Upstream reads the first.
    pub images: Vec<FileSystemUsage>,
    /// File systems with writable layers; empty if the runtime does not distinguish them.
    pub containers: Vec<FileSystemUsage>,
}

/// Reads the usage, with or without the wrapper `status`, as lists or as the one file system of old versions.
pub(crate) fn read(value: &Value, place: &Place, notes: &mut Notes) -> Result<RuntimeUsage, String> {
    let (inner, path) = match value.get("status") {
        None | Some(Value::Null) => (value, ""),
        Some(status) => (status, "status"),
    };
    let is_one = ["usedBytes", "fsId"].iter().any(|name| inner.get(name).is_some());
    if is_one {
        return Ok(RuntimeUsage {
            images: vec![one(inner, place, path, notes)?],
            containers: Vec::new(),
        });
    }
    let images = list(inner, "imageFilesystems", place, path, notes)?;
    let containers = list(inner, "containerFilesystems", place, path, notes)?;
    Ok(RuntimeUsage { images, containers })
}

fn list(
    value: &Value,
    name: &str,
    place: &Place,
    path: &str,
    notes: &mut Notes,
) -> Result<Vec<FileSystemUsage>, String> {
    let mut entry = Entry::of(value, place, path, notes)?;
    let values = entry.list(&[name]).unwrap_or_default();
    let values = entry.checked(values)?;
    let dot = if path.is_empty() { "" } else { "." };
    let usages = values.iter().enumerate();
    usages
        .map(|(index, value)| one(value, place, &format!("{path}{dot}{name}[{index}]"), notes))
        .collect()
}

fn one(value: &Value, place: &Place, path: &str, notes: &mut Notes) -> Result<FileSystemUsage, String> {
    let mut entry = Entry::of(value, place, path, notes)?;
    let usage = FileSystemUsage {
        mountpoint: entry.shared(&["fsId", "mountpoint"]),
        used_bytes: entry.wrapped_number("usedBytes"),
        inodes_used: entry.wrapped_number("inodesUsed"),
        at: entry
            .number(&["timestamp"])
            .filter(|&nanos| nanos != 0)
            .map(Timestamp::from_nanos),
    };
    entry.checked(usage)
}
