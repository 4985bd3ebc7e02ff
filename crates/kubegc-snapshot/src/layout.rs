//! Which files of a folder are dumps: must-gather, `cluster-info dump`, plain folders; and which layouts are refused.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::SnapshotError;

/// Files in one walk.
const FILES_MAX: usize = 10_000_000;
/// Folders within folders.
const DEPTH_MAX: usize = 64;

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The files to read, sorted.
    pub(crate) files: Vec<PathBuf>,
    /// What was left, with the reason, sorted.
    pub(crate) passed_over: Vec<(Arc<str>, &'static str)>,
}

/// Layouts that look like dumps and are not read: an entry that gives them away, all others that must be there too, their name, advice.
const LAYOUTS: [(&str, &str, &str, &str); 4] = [
    (
        "velero-backup.json",
        "velero-backup.json",
        "a Velero backup",
        "restored objects get new uids; dump the cluster with kubectl get -o json",
    ),
    (
        "resources",
        "metadata",
        "a Velero backup",
        "restored objects get new uids; dump the cluster with kubectl get -o json",
    ),
    (
        "Chart.yaml",
        "templates",
        "a Helm chart",
        "dump the objects from the cluster with kubectl get -o json: a chart has no uids",
    ),
    (
        "member",
        "member",
        "the data folder of etcd",
        "export the objects as YAML with auger, or dump them with kubectl get -o json",
    ),
];

/// The files of a path: itself, or what its folder holds.
pub(crate) fn walk(path: &Path) -> Result<Found, SnapshotError> {
    let meta = fs::metadata(path).map_err(|error| io_error(path, error))?;
    if !meta.is_dir() {
        return Ok(Found {
            files: vec![path.to_owned()],
            passed_over: Vec::new(),
        });
    }
    let found = walk_folder(path, &|_| true)?;
    if found.files.is_empty() {
        return Err(SnapshotError::Nothing {
            file: name(path),
            problem: "no .json, .yaml or .yml file in this folder",
        });
    }
    Ok(found)
}

/// The files that a pattern matches.
pub(crate) fn glob(pattern: &str) -> Result<Found, SnapshotError> {
    let segments: Vec<&str> = pattern.split('/').collect();
    let is_plain = |segment: &&&str| !segment.contains(['*', '?']);
    let plain = segments.iter().take_while(is_plain).count();
    if plain == segments.len() {
        return walk(Path::new(pattern));
    }
    let root = match segments[..plain].join("/") {
        empty if empty.is_empty() && pattern.starts_with('/') => PathBuf::from("/"),
        empty if empty.is_empty() => PathBuf::from("."),
        root => PathBuf::from(root),
    };
    let wanted = &segments[plain..];
    let mut found = walk_folder(&root, &|path| {
        let relative = path
            .strip_prefix(&root)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned();
        let parts: Vec<&str> = relative.split('/').collect();
        matches_path(wanted, &parts)
    })?;
    found.passed_over.clear();
    if found.files.is_empty() {
        return Err(SnapshotError::Nothing {
            file: pattern.into(),
            problem: "no .json, .yaml or .yml file matches",
        });
    }
    Ok(found)
}

fn walk_folder(root: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Found, SnapshotError> {
    let mut found = Found::default();
    let mut folders = vec![(root.to_owned(), 0)];
    // Each turn takes one folder; links to folders are not followed, so there are no circles.
    while let Some((folder, depth)) = folders.pop() {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|error| io_error(&folder, error))? {
            let entry = entry.map_err(|error| io_error(&folder, error))?;
            let kind = entry
                .file_type()
                .map_err(|error| io_error(&entry.path(), error))?;
            entries.push((
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
                kind,
            ));
        }
        let has = |wanted: &str| entries.iter().any(|(name, ..)| name == wanted);
        if let Some((.., looks_like, advice)) = LAYOUTS.iter().find(|(one, other, ..)| has(one) && has(other))
        {
            return Err(SnapshotError::Refused {
                file: name(&folder),
                looks_like,
                advice,
            });
        }
        let is_root = |(name, _, kind): &(String, PathBuf, fs::FileType)| {
            kind.is_dir() && matches!(name.as_str(), "cluster-scoped-resources" | "namespaces")
        };
        let is_must_gather = entries.iter().any(is_root);
        for entry in entries {
            let (_, path, kind) = &entry;
            let is_link = kind.is_symlink();
            let is_dir = kind.is_dir() || (is_link && fs::metadata(path).is_ok_and(|meta| meta.is_dir()));
            let is_dump = path.extension().is_some_and(|extension| {
                ["json", "yaml", "yml"]
                    .iter()
                    .any(|known| extension.eq_ignore_ascii_case(known))
            });
            if is_must_gather && !is_root(&entry) {
                found
                    .passed_over
                    .push((name(path), "beside the objects of a must-gather"));
            } else if is_dir && is_link {
                found.passed_over.push((name(path), "a link to a folder"));
            } else if is_dir && depth >= DEPTH_MAX {
                return Err(too_many(root, DEPTH_MAX, "folders within folders"));
            } else if is_dir {
                folders.push((path.clone(), depth + 1));
            } else if !is_dump {
                found
                    .passed_over
                    .push((name(path), "not a .json, .yaml or .yml file"));
            } else if wanted(path) {
                found.files.push(path.clone());
            }
        }
        if found.files.len() + found.passed_over.len() + folders.len() > FILES_MAX {
            return Err(too_many(root, FILES_MAX, "files"));
        }
    }
    found.files.sort();
    found.passed_over.sort();
    Ok(found)
}

/// Whether a path matches a pattern, both cut at their slashes.
///
/// # Complexity
/// O(segments × parts).
fn matches_path(segments: &[&str], parts: &[&str]) -> bool {
    wildcard(
        segments,
        parts,
        |segment| *segment == "**",
        |segment, part| {
            let (segment, part): (Vec<char>, Vec<char>) = (segment.chars().collect(), part.chars().collect());
            wildcard(
                &segment,
                &part,
                |&one| one == '*',
                |&one, &other| one == '?' || one == other,
            )
        },
    )
}

/// Matches where one kind of pattern element stands for any run of others: forward, with one place to fall back to.
fn wildcard<P, T>(
    pattern: &[P],
    text: &[T],
    is_run: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut fallback = None;
    while from < text.len() {
        if pattern.get(at).is_some_and(&is_run) {
            fallback = Some((at, from));
            at += 1;
        } else if pattern.get(at).is_some_and(|one| fits(one, &text[from])) {
            at += 1;
            from += 1;
        } else if let Some((run, begun)) = fallback {
            fallback = Some((run, begun + 1));
            at = run + 1;
            from = begun + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(is_run)
}

fn name(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}

fn io_error(path: &Path, source: io::Error) -> SnapshotError {
    SnapshotError::Io {
        path: name(path),
        source,
    }
}

fn too_many(root: &Path, limit: usize, what: &'static str) -> SnapshotError {
    SnapshotError::TooMany {
        file: name(root),
        limit,
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_shell_has_them() {
        for (pattern, path, expected) in [
            ("*.json", "a.json", true),
            ("*.json", "a/b.json", false),
            ("**/*.json", "a/b.json", true),
            ("**/*.json", "b.json", true),
            ("a/**/c.yaml", "a/b/b/c.yaml", true),
            ("a/**/c.yaml", "a/b/b/d.yaml", false),
            ("p?ds*.json", "pods-1.json", true),
            ("p?ds*.json", "pds-1.json", false),
            ("**", "a/b", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
        ] {
            let (pattern, path): (Vec<&str>, Vec<&str>) =
                (pattern.split('/').collect(), path.split('/').collect());
            assert_eq!(matches_path(&pattern, &path), expected, "{pattern:?} {path:?}");
        }
    }
}
