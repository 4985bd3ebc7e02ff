//! Reads recordings, replays their cases on two threads, and reports in the file's order.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock},
    thread,
};

use lzma_rust2::XzReader;
use serde_json::Value;

use crate::{
    Failure, api, controllers, graph,
    kind::{COMPACT, Kind, semantics_of_name},
    node, objects, predict,
};

/// Which cases to replay.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only the case of this name or id, with notes about its steps.
    pub only: Option<String>,
}

/// The results of the cases of one file.
#[non_exhaustive]
#[derive(Debug)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// The kind of its cases.
    pub kind: String,
    /// Cases that match.
    pub passed: usize,
    /// Cases that do not, in the file's order.
    pub failed: Vec<FailedCase>,
    /// Notes, in the file's order.
    pub notes: Vec<String>,
    /// Of cases that consist of requests, by category: how many responses agree, of how many.
    pub requests: BTreeMap<String, (usize, usize)>,
    /// Number of terminating objects whose forecast reason is one that the recording supports.
    pub supported_reasons: usize,
    /// The other terminating objects, in the file's order, with the names of their cases.
    pub unsupported_reasons: Vec<FailedCase>,
}

/// One case that does not match its recording.
#[non_exhaustive]
#[derive(Debug)]
pub struct FailedCase {
    /// Name or id, or the line's number.
    pub name: String,
    /// The difference.
    pub failure: Failure,
}

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

/// Replays one file, which may be compressed (`.jsonl.xz`).
///
/// # Errors
/// The file cannot be read. Its content is never an error: a line that is not a case is a failed case.
pub fn replay(path: &Path, options: &Options) -> io::Result<FileReport> {
    let source = Source::new(path);
    let lines = Mutex::new(open(path)?.split(b'\n').enumerate());
    let next = || -> io::Result<Option<(usize, Vec<u8>)>> {
        // No thread panics while it holds the lock.
        let mut lines = lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        lines.next().map(|(at, line)| Ok((at, line?))).transpose()
    };
    let work = || -> io::Result<Vec<(usize, String, CaseReport)>> {
        let mut done = Vec::new();
        while let Some((at, line)) = next()? {
            let text = String::from_utf8_lossy(&line);
            if text.trim().is_empty() {
                continue;
            }
            if let Some((name, report)) = source.case(at, &text, options) {
                done.push((at, name, report));
            }
        }
        Ok(done)
    };
    let mut cases = thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut cases = work()?;
        // Panics of cases are caught; a panic elsewhere is a bug and is passed on.
        cases.extend(
            other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
        );
        io::Result::Ok(cases)
    })?;
    cases.sort_by_key(|&(at, ..)| at);
    let mut report = FileReport {
        path: path.to_owned(),
        kind: source.kind_text(),
        passed: 0,
        failed: Vec::new(),
        notes: Vec::new(),
        requests: BTreeMap::new(),
        supported_reasons: 0,
        unsupported_reasons: Vec::new(),
    };
    for (_, name, case) in cases {
        if let Some((category, agree, all)) = case.requests {
            report.kind = format!("{:?}", Kind::Requests);
            let counts = report.requests.entry(category).or_default();
            counts.0 += agree;
            counts.1 += all;
        }
        report
            .notes
            .extend(case.notes.into_iter().map(|note| format!("{name}: {note}")));
        let (supported, unsupported) = case.reasons;
        report.supported_reasons += supported;
        let unsupported = unsupported.into_iter().map(|failure| FailedCase {
            name: name.clone(),
            failure,
        });
        report.unsupported_reasons.extend(unsupported);
        match case.result {
            Ok(()) => report.passed += 1,
            Err(failure) => report.failed.push(FailedCase { name, failure }),
        }
    }
    Ok(report)
}

/// The result of a replayed case.
pub(crate) struct CaseReport {
    pub(crate) result: Result<(), Failure>,
    pub(crate) notes: Vec<String>,
    /// The category of a case that consists of requests, how many of them agree, and how many there are.
    pub(crate) requests: Option<(String, usize, usize)>,
    /// The number of reasons of a forecast that the recording supports, and those that it does not support.
    pub(crate) reasons: (usize, Vec<Failure>),
}

impl From<Result<(), Failure>> for CaseReport {
    fn from(result: Result<(), Failure>) -> Self {
        Self {
            result,
            notes: Vec::new(),
            requests: None,
            reasons: (0, Vec::new()),
        }
    }
}

/// The facts about a file that are known without reading its lines.
struct Source {
    is_recording: bool,
    kind: Option<Kind>,
    semantics: &'static str,
    /// The file with the same scenarios, recorded with another number of workers: with the inputs of cases in
    /// compact form, or with cases in compact form.
    sibling_path: PathBuf,
    /// Its lines by name, read once they are needed.
    sibling: OnceLock<Result<BTreeMap<String, String>, Failure>>,
}

impl Source {
    fn new(path: &Path) -> Self {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let stem = stem(path);
        Self {
            is_recording: stem.is_some(),
            kind: stem.as_deref().and_then(Kind::of_name),
            semantics: semantics_of_name(stem.as_deref().unwrap_or_default()),
            sibling_path: path.with_file_name(if name.contains(COMPACT) {
                name.replacen(COMPACT, "", 1)
            } else {
                name.replacen('.', &format!("{COMPACT}."), 1)
            }),
            sibling: OnceLock::new(),
        }
    }

    /// The line of the same scenario in the other file.
    fn sibling(&self, name: &str) -> Result<&str, Failure> {
        let lines = self.sibling.get_or_init(|| {
            #[derive(serde::Deserialize)]
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

    fn kind_text(&self) -> String {
        match (self.is_recording, self.kind) {
            (false, _) => "no recording".to_owned(),
            (true, Some(kind)) => format!("{kind:?}"),
            (true, None) => "by content".to_owned(),
        }
    }

    /// Replays one line; `None` where it is not selected.
    fn case(&self, at: usize, line: &str, options: &Options) -> Option<(String, CaseReport)> {
        if !self.is_recording {
            return None;
        }
        let number = || format!("line {}", at + 1);
        let keys = match serde_json::from_str::<Value>(line) {
            Ok(Value::Object(keys)) => keys,
            Ok(_) => {
                return Some((
                    number(),
                    Err(Failure::unreadable("the line is not an object")).into(),
                ));
            }
            Err(problem) => return Some((number(), Err(Failure::unreadable(problem)).into())),
        };
        let name = ["name", "id", "case"]
            .iter()
            .find_map(|key| keys.get(*key)?.as_str())
            .map_or_else(number, ToOwned::to_owned);
        if options.only.as_ref().is_some_and(|only| *only != name) {
            return None;
        }
        let kind = match Kind::of_keys(&keys) {
            Some(Kind::Requests) => Some(Kind::Requests),
            by_content => self.kind.or(by_content),
        };
        drop(keys);
        let report = catch_unwind(AssertUnwindSafe(|| {
            self.replay(kind, &name, line, options.only.is_some())
        }));
        let report = report.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(Failure::unreadable(format!("panicked: {text}"))).into()
        });
        Some((name, report))
    }

    fn replay(&self, kind: Option<Kind>, name: &str, line: &str, is_detailed: bool) -> CaseReport {
        match kind {
            Some(Kind::GraphSequence) => graph::replay_sequence(line, self.semantics).into(),
            Some(Kind::ConflictingData) => graph::replay_conflicting(line).into(),
            Some(Kind::Patch) => graph::replay_patch(line, self.semantics).into(),
            Some(Kind::Scenario) => objects::replay(line, self.sibling(name).ok()),
            Some(Kind::CompactScenario) => match self.sibling(name) {
                Ok(inputs) => objects::replay_compact(line, inputs),
                Err(failure) => Err(failure).into(),
            },
            Some(Kind::ContainerGc) => node::replay_containers(line),
            Some(Kind::ImageGc) => node::replay_images(line),
            Some(Kind::ImageGcPolicy) => node::replay_policy(line).into(),
            Some(Kind::SignalReclaim) => node::replay_signal(line).into(),
            Some(Kind::Controller) => controllers::replay(line).into(),
            Some(Kind::Requests) => api::replay(line),
            Some(Kind::Forecast) => predict::replay(line, is_detailed),
            None => Err(Failure::unreadable(
                "the kind of the case is unknown from the file's name and from the line",
            ))
            .into(),
        }
    }
}
