//! Recordings: their files, and the cases in them.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use kubegc_core::KubernetesVersion;
use lzma_rust2::XzReader;
use serde::Deserialize;
use serde_json::Value;

use crate::Failure;

/// The suffix of files in compact form, whose inputs are in the file without it.
const COMPACT: &str = "-1worker";

/// The recordings among files and directories, sorted within each directory. Directories are searched in
/// depth.
///
/// # Errors
/// A path that does not exist, or a directory that cannot be read.
pub fn recordings(paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let mut pending = vec![path.clone()];
        // Ends: links to directories are not followed below the first one.
        while let Some(path) = pending.pop() {
            if !path.is_dir() {
                path.metadata()?;
                found.push(path);
                continue;
            }
            let mut entries = Vec::new();
            for entry in path.read_dir()? {
                let entry = entry?;
                if stem(&entry.path()).is_some() || entry.file_type()?.is_dir() {
                    entries.push(entry.path());
                }
            }
            entries.sort();
            pending.extend(entries.into_iter().rev());
        }
    }
    Ok(found)
}

/// The name of a recording without `.jsonl` or `.jsonl.xz`; `None` for other files.
fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let name = name.strip_suffix(".xz").unwrap_or(&name);
    name.strip_suffix(".jsonl").map(ToOwned::to_owned)
}

/// Opens a file, which is compressed where its name ends in `.xz`.
///
/// # Errors
/// The file cannot be opened.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let file = BufReader::new(File::open(path)?);
    let is_compressed = path.extension().is_some_and(|extension| extension == "xz");
    Ok(if is_compressed {
        Box::new(BufReader::new(XzReader::new(file, true)))
    } else {
        Box::new(file)
    })
}

/// The release that a recording names: a version, which words may follow, or `latest`.
pub(crate) fn release(name: &str) -> Result<KubernetesVersion, Failure> {
    match name.split(' ').next().unwrap_or_default() {
        "latest" => Ok(KubernetesVersion::LATEST),
        version => version.parse().map_err(Failure::unreadable),
    }
}

/// A case of a file.
pub(crate) struct Case<'s> {
    pub(crate) name: String,
    pub(crate) json: Value,
    pub(crate) source: &'s Source,
    /// Whether notes about its steps are wanted.
    pub(crate) is_detailed: bool,
}

impl<'s> Case<'s> {
    /// The case in its recorded form.
    pub(crate) fn read<'c, T: Deserialize<'c>>(&'c self) -> Result<T, Failure> {
        T::deserialize(&self.json).map_err(Failure::unreadable)
    }

    /// The name of its file without `.jsonl`.
    pub(crate) fn file(&self) -> &'s str {
        &self.source.stem
    }

    /// The same scenario, recorded with another number of workers.
    pub(crate) fn sibling<T: Deserialize<'s>>(&self) -> Result<T, Failure> {
        serde_json::from_str(self.source.sibling(&self.name)?).map_err(Failure::unreadable)
    }
}

/// The facts about a recording that are known without reading its lines.
pub(crate) struct Source {
    /// Its name without `.jsonl`.
    stem: String,
    /// The file with the same scenarios, recorded with another number of workers: with the inputs of cases in
    /// compact form, or with cases in compact form.
    sibling_path: PathBuf,
    /// Its lines by name, read once they are needed.
    sibling: OnceLock<Result<BTreeMap<String, String>, Failure>>,
}

impl Source {
    /// `None` for a file that is not a recording.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        let stem = stem(path)?;
        let name = path.file_name()?.to_string_lossy();
        Some(Self {
            sibling_path: path.with_file_name(if name.contains(COMPACT) {
                name.replacen(COMPACT, "", 1)
            } else {
                name.replacen('.', &format!("{COMPACT}."), 1)
            }),
            stem,
            sibling: OnceLock::new(),
        })
    }

    /// The line of the same scenario in the other file.
    fn sibling(&self, name: &str) -> Result<&str, Failure> {
        let lines = self.sibling.get_or_init(|| {
            #[derive(Deserialize)]
            struct Named {
                name: String,
            }
            let lines =
                open(&self.sibling_path).and_then(|file| file.lines().collect::<io::Result<Vec<_>>>());
            let lines = lines.map_err(|problem| {
                Failure::unreadable(format!("{}: {problem}", self.sibling_path.display()))
            })?;
            let named = lines
                .into_iter()
                .filter_map(|line| Some((serde_json::from_str::<Named>(&line).ok()?.name, line)));
            Ok(named.collect())
        });
        let line = lines.as_ref().map_err(Clone::clone)?.get(name);
        line.map(String::as_str)
            .ok_or_else(|| Failure::unreadable(format!("{} has no case {name}", self.sibling_path.display())))
    }
}
