//! A disk on which plans of pod directories are executed: directories, files and mount points, with every
//! loss detected.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::RuntimeError;
use kubegc_node::pod_directory::{Directory, Means, Removal};

/// The entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Directory,
    File,
    /// A directory with a mount: its content belongs to the mount.
    Mount,
}

/// All paths, relative to the pods directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Disk(pub(super) BTreeMap<String, Node>);

impl Disk {
    /// Puts an entry at a path, and creates its parents.
    pub(super) fn put(&mut self, path: &str, node: Node) {
        for (at, _) in path.match_indices('/') {
            self.0.entry(path[..at].to_owned()).or_insert(Node::Directory);
        }
        self.0.entry(path.to_owned()).or_insert(node);
    }

    /// The entries below a path, at any depth.
    fn below(&self, path: &str) -> impl Iterator<Item = (&str, Node)> {
        let prefix = format!("{path}/");
        let all = self.0.iter().map(|(path, node)| (&**path, *node));
        all.filter(move |(path, _)| path.starts_with(&prefix))
    }

    /// The entries of mounts: the mount points and everything below.
    pub(super) fn mounted(&self) -> BTreeSet<&str> {
        let mounts = self.0.iter().filter(|(_, node)| **node == Node::Mount);
        let within = |(mount, _): (&'_ String, &Node)| {
            let below = self.below(mount).map(|(path, _)| path.to_owned());
            below.chain([mount.clone()]).collect::<Vec<_>>()
        };
        let all: BTreeSet<String> = mounts.flat_map(within).collect();
        self.0
            .keys()
            .map(|path| &**path)
            .filter(|path| all.contains(*path))
            .collect()
    }

    /// The entries in or below an entry of the pods directory.
    pub(super) fn within(&self, name: &str) -> BTreeMap<&str, Node> {
        let own = self.0.get_key_value(name).map(|(path, node)| (&**path, *node));
        self.below(name).chain(own).collect()
    }

    /// The facts that a kubelet finds in a pod's directory.
    pub(super) fn read(&self, name: &str) -> Directory {
        let prefix = format!("{name}/");
        let paths = |top: &str, depth: usize| {
            let within = format!("{top}/");
            let at_depth = self.below(name).filter_map(|(path, _)| {
                let path = &path[prefix.len()..];
                let names = path.strip_prefix(&within)?.split('/').count();
                let of_driver = names == depth + 1 && path.ends_with("/mount");
                (names == depth || of_driver).then(|| Arc::from(path))
            });
            at_depth.collect::<Vec<_>>()
        };
        Directory {
            volume_paths: Ok(paths("volumes", 2)),
            subpaths: Ok(paths("volume-subpaths", 3)),
            entries: Ok(self.entries(name)),
            ..Directory::empty(name)
        }
    }

    /// The names in a pod's directory.
    pub(super) fn entries(&self, name: &str) -> Vec<Arc<str>> {
        let prefix = format!("{name}/");
        let names = self.below(name).map(|(path, _)| &path[prefix.len()..]);
        names.filter(|path| !path.contains('/')).map(Arc::from).collect()
    }

    /// Performs a removal as far as possible.
    pub(super) fn remove(&mut self, removal: &Removal) -> Result<(), RuntimeError> {
        let path = &*removal.path;
        let node = *self.0.get(path).ok_or(RuntimeError::NotFound)?;
        let is_empty = self.below(path).next().is_none();
        let goes: Vec<String> = match (removal.means, node) {
            (_, Node::Mount) => return Err(RuntimeError::refused("busy")),
            (Means::EmptyDirectory | Means::Directories, Node::File) => {
                return Err(RuntimeError::refused("not a directory"));
            }
            (Means::EmptyDirectory | Means::FileOrEmptyDirectory, _) if !is_empty => {
                return Err(RuntimeError::refused("not empty"));
            }
            (Means::EmptyDirectory | Means::FileOrEmptyDirectory, _) => vec![path.to_owned()],
            (Means::Directories, _) => self.directories(path),
            (Means::Tree, _) => self.tree(path),
        };
        for gone in goes {
            self.0.remove(&gone);
        }
        match self.0.contains_key(path) {
            true => Err(RuntimeError::refused("something stayed")),
            false => Ok(()),
        }
    }

    /// The directories at and below a path that contain only such directories.
    fn directories(&self, path: &str) -> Vec<String> {
        let only_directories = |path: &str| self.below(path).all(|(_, node)| node == Node::Directory);
        let all = self.below(path).chain([(path, Node::Directory)]);
        let bare = all.filter(|(path, node)| *node == Node::Directory && only_directories(path));
        bare.map(|(path, _)| path.to_owned()).collect()
    }

    /// The entries at and below a path, except for mounts and their parents.
    fn tree(&self, path: &str) -> Vec<String> {
        let mounted = self.mounted();
        let holds = |path: &str| self.below(path).any(|(path, _)| mounted.contains(path));
        let all = self.below(path).map(|(path, _)| path).chain([path]);
        let loose = all.filter(|path| !mounted.contains(path) && !holds(path));
        loose.map(str::to_owned).collect()
    }
}
