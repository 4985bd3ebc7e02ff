//! The files of the repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The directories of the crates, sorted.
pub(crate) fn crates() -> Vec<PathBuf> {
    entries(&root().join("crates"))
}

/// The files below some directories, sorted, without generated code and build directories.
pub(crate) fn files(directories: &[&str], extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories: Vec<PathBuf> = directories
        .iter()
        .map(|directory| root().join(directory))
        .collect();
    while let Some(directory) = directories.pop() {
        for path in entries(&directory) {
            if path.is_dir() {
                let is_made = ["target", "generated"].iter().any(|name| path.ends_with(name));
                directories.extend((!is_made).then_some(path));
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Whether a path within the repository has this directory.
pub(crate) fn is_in(path: &Path, directory: &str) -> bool {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.components().any(|part| part.as_os_str() == directory)
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    paths.sort();
    paths
}

/// Fails with all problems, if there are any.
pub(crate) fn report(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
}
