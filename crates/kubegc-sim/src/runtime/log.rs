//! Log directories of a simulated node: entries, files, and links that may be dangling.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::node_facts::{LogLink, LogTarget, PodIdentity};

use super::table::beginning_with;

/// The parent of the pods' log directories.
pub(super) const POD_LOG_DIRECTORY: &str = "/var/log/pods";
/// The directory of links to the logs of containers.
const CONTAINER_LOG_DIRECTORY: &str = "/var/log/containers";

/// The maximum length of a file name in bytes.
const FILE_NAME_BYTES: usize = 255;
const LINK_SUFFIX: &str = ".log";

/// The name of a pod's entry in the pod log directory: `<namespace>_<name>_<uid>`.
pub(super) fn pod_log_entry(pod: &PodIdentity) -> String {
    format!("{}_{}_{}", pod.namespace, pod.name, pod.uid)
}

/// The path of the link to a container's log: `<pod>_<namespace>_<container>-<id>.log`, truncated before
/// `.log` so that the file name has at most 255 bytes (rule N2.49). Truncation respects character boundaries.
pub(super) fn container_log_link(pod: &PodIdentity, container: &str, id: &str) -> String {
    let stem = format!("{}_{}_{container}-{id}", pod.name, pod.namespace);
    let room = stem.len().min(FILE_NAME_BYTES - LINK_SUFFIX.len());
    let whole = (0..=room).rev().find(|end| stem.is_char_boundary(*end));
    let stem = whole.and_then(|end| stem.get(..end)).unwrap_or_default();
    format!("{CONTAINER_LOG_DIRECTORY}/{stem}{LINK_SUFFIX}")
}

/// The uid in the name of an entry, as the kubelet reads it: everything after the last `_`.
pub(super) fn entry_uid(entry: &str) -> &str {
    entry.rsplit_once('_').map_or(entry, |(_, uid)| uid)
}

#[derive(Clone, Debug)]
pub(super) enum LinkTo {
    Path(Arc<str>),
    /// Following the link always has this result.
    Fixed(LogTarget),
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) to: LinkTo,
    /// The container of the log.
    pub(super) container_id: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct LogTree {
    entries: BTreeSet<Arc<str>>,
    files: BTreeMap<Arc<str>, u64>,
    links: BTreeMap<Arc<str>, Link>,
}

impl LogTree {
    pub(super) fn entries(&self) -> Vec<Arc<str>> {
        self.entries.iter().cloned().collect()
    }

    pub(super) fn add_entry(&mut self, name: &str) {
        self.entries.insert(name.into());
    }

    pub(super) fn has_entry(&self, name: &str) -> bool {
        self.entries.contains(name)
    }

    /// Removes an entry and all files below it; returns their bytes.
    pub(super) fn remove_entry(&mut self, name: &str) -> u64 {
        if !self.entries.remove(name) {
            return 0;
        }
        let path = format!("{POD_LOG_DIRECTORY}/{name}");
        let file = self.files.remove(path.as_str()).unwrap_or(0);
        file.saturating_add(self.remove_files(&format!("{path}/")))
    }

    /// Whether a file can be created at this path: the entry of its pod exists, or the path is elsewhere.
    pub(super) fn has_directory_of(&self, path: &str) -> bool {
        path.strip_prefix(POD_LOG_DIRECTORY)
            .and_then(|rest| rest.strip_prefix('/'))
            .and_then(|rest| rest.split('/').next())
            .is_none_or(|entry| self.entries.contains(entry))
    }

    pub(super) fn add_file(&mut self, path: Arc<str>, bytes: u64) {
        let size = self.files.entry(path).or_default();
        *size = size.saturating_add(bytes);
    }

    pub(super) fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Removes one file; returns its bytes.
    pub(super) fn remove_file(&mut self, path: &str) -> Option<u64> {
        self.files.remove(path)
    }

    /// Removes all files whose paths begin with a prefix; returns their bytes. An empty prefix matches no
    /// path.
    pub(super) fn remove_files(&mut self, prefix: &str) -> u64 {
        if prefix.is_empty() {
            return 0;
        }
        let mut freed: u64 = 0;
        let doomed = beginning_with(&self.files, prefix);
        for path in doomed.map(|(path, _)| Arc::clone(path)).collect::<Vec<_>>() {
            freed = freed.saturating_add(self.files.remove(&path).unwrap_or(0));
        }
        freed
    }

    /// Adds a link, or replaces the existing one.
    pub(super) fn add_link(&mut self, path: &str, link: Link) {
        self.links.insert(path.into(), link);
    }

    pub(super) fn link(&self, path: &str) -> Option<&Link> {
        self.links.get(path)
    }

    pub(super) fn remove_link(&mut self, path: &str) -> bool {
        self.links.remove(path).is_some()
    }

    pub(super) fn target(&self, link: &Link) -> LogTarget {
        match &link.to {
            LinkTo::Path(path) if self.files.contains_key(path) => LogTarget::Exists,
            LinkTo::Path(_) => LogTarget::Missing,
            LinkTo::Fixed(target) => *target,
        }
    }

    /// The matches of `/var/log/containers/*.log`, by path.
    pub(super) fn links(&self) -> Vec<LogLink> {
        let listed = self.links.iter().filter(|(path, _)| {
            path.strip_prefix(CONTAINER_LOG_DIRECTORY)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|name| name.ends_with(LINK_SUFFIX) && !name.contains('/'))
        });
        listed
            .map(|(path, link)| LogLink {
                path: Arc::clone(path),
                target: self.target(link),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> PodIdentity {
        PodIdentity {
            uid: "u1".into(),
            namespace: "shop".into(),
            name: name.into(),
        }
    }

    #[test]
    fn n2_49_link_names_have_at_most_255_bytes_and_whole_characters() {
        let id = "a".repeat(64);
        assert_eq!(
            container_log_link(&pod("web"), "app", &id),
            format!("/var/log/containers/web_shop_app-{id}.log")
        );
        for (name, bytes) in [("x".repeat(253), 255), ("ü".repeat(126), 254)] {
            let path = container_log_link(&pod(&name), "app", &id);
            let file = path.rsplit('/').next().unwrap_or_default();
            assert_eq!(file.len(), bytes, "{file}");
            assert!(file.ends_with(".log"));
        }
    }

    #[test]
    fn n2_43_an_entry_belongs_to_the_uid_after_its_last_underscore() {
        for (entry, uid) in [("abc", "abc"), ("a_b_", ""), ("_", ""), ("a_b_c_d", "d")] {
            assert_eq!(entry_uid(entry), uid, "{entry}");
        }
    }
}
