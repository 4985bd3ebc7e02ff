//! Log directories of a simulated node: entries, files, and links that may be dangling.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::node_facts::{LogLink, LogTarget, PodIdentity};

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
    let mut stem = format!("{}_{}_{container}-{id}", pod.name, pod.namespace);
    let room = stem.len().min(FILE_NAME_BYTES - LINK_SUFFIX.len());
    stem.truncate(
        (0..=room)
            .rev()
            .find(|end| stem.is_char_boundary(*end))
            .unwrap_or(0),
    );
    format!("{CONTAINER_LOG_DIRECTORY}/{stem}{LINK_SUFFIX}")
}

/// The uid in the name of an entry, as the kubelet reads it: everything after the last `_`.
pub(super) fn entry_uid(entry: &str) -> &str {
    entry.rsplit_once('_').map_or(entry, |(_, uid)| uid)
}

#[derive(Clone, Debug)]
pub(super) enum Link {
    /// To the log of a container.
    Log { path: Arc<str>, container_id: Arc<str> },
    /// Following the link always has this result.
    Fixed(LogTarget),
}

#[derive(Clone, Debug, Default)]
pub(super) struct LogTree {
    pub(super) entries: BTreeSet<Arc<str>>,
    /// The bytes of files by path.
    pub(super) files: BTreeMap<Arc<str>, u64>,
    pub(super) links: BTreeMap<Arc<str>, Link>,
}

impl LogTree {
    /// Removes an entry and all files below it.
    pub(super) fn remove_entry(&mut self, name: &str) {
        if self.entries.remove(name) {
            self.remove_files(&format!("{POD_LOG_DIRECTORY}/{name}/"));
        }
    }

    /// Removes all files whose paths begin with a prefix. An empty prefix matches no path.
    pub(super) fn remove_files(&mut self, prefix: &str) {
        self.files
            .retain(|path, _| prefix.is_empty() || !path.starts_with(prefix));
    }

    pub(super) fn target(&self, link: &Link) -> LogTarget {
        match link {
            Link::Log { path, .. } if self.files.contains_key(path) => LogTarget::Exists,
            Link::Log { .. } => LogTarget::Missing,
            Link::Fixed(target) => *target,
        }
    }

    /// The matches of `/var/log/containers/*.log`, by path.
    pub(super) fn listed_links(&self) -> Vec<LogLink> {
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

    #[test]
    fn n2_49_link_names_have_at_most_255_bytes_and_whole_characters() {
        let id = "a".repeat(64);
        for (name, bytes) in [
            ("web".to_owned(), 81),
            ("x".repeat(253), 255),
            ("ü".repeat(126), 254),
        ] {
            let pod = PodIdentity {
                uid: "u1".into(),
                namespace: "shop".into(),
                name: name.into(),
            };
            let path = container_log_link(&pod, "app", &id);
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
