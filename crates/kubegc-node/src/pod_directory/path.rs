//! Checks and order of paths within a directory.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

/// The directory of volumes.
pub(super) const VOLUMES: &str = "volumes";
/// The directory of subpaths of volumes.
pub(super) const SUBPATHS: &str = "volume-subpaths";

/// Returns whether a text is a plain entry name, on every platform of a kubelet.
pub(super) fn is_entry(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', '\0'])
}

/// Returns whether a path is below an entry.
pub(super) fn is_below(path: &str, entry: &str) -> bool {
    path.strip_prefix(entry)
        .and_then(|rest| rest.strip_prefix('/'))
        .is_some_and(|rest| rest.split('/').all(is_entry))
}

/// Each path once, the deepest first, then by text: a path comes before its parent.
pub(super) fn deepest_first(paths: &[Arc<str>]) -> impl Iterator<Item = &Arc<str>> {
    let depth = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
    let all: BTreeSet<_> = paths.iter().map(|path| (Reverse(depth(path)), path)).collect();
    all.into_iter().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_entries() {
        for (name, plain) in [
            ("a", true),
            ("...", true),
            (".hidden", true),
            ("kubernetes.io~csi", true),
            ("ä b", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("/", false),
            ("a\\b", false),
            ("a\0", false),
        ] {
            assert_eq!(is_entry(name), plain, "{name:?}");
        }
    }

    #[test]
    fn only_paths_of_plain_names_are_below() {
        for (path, below) in [
            ("volumes/a", true),
            ("volumes/a/b", true),
            ("volumes", false),
            ("volumes/", false),
            ("volumes//a", false),
            ("volumes/a/", false),
            ("volumes/../a", false),
            ("volumes/./a", false),
            ("volumesx/a", false),
            ("/volumes/a", false),
            ("", false),
        ] {
            assert_eq!(is_below(path, VOLUMES), below, "{path:?}");
        }
    }

    #[test]
    fn what_is_below_comes_first_and_each_path_once() {
        let paths = ["v/b", "v/a/c", "v/a", "v/b", "v/a/c/d"].map(Arc::from);
        let order: Vec<&str> = deepest_first(&paths).map(|path| &**path).collect();
        assert_eq!(order, ["v/a/c/d", "v/a/c", "v/a", "v/b"]);
    }
}
