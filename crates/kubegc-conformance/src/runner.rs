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

use kubegc_core::KubernetesVersion;
use kubegc_sim::ApiServer;
use lzma_rust2::XzReader;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{Failure, api, controllers, graph, node, objects, predict};

/// Replays a case and compares it with the recording.
type Replay = fn(&Case<'_>, &mut Report) -> Result<(), Failure>;

/// The kinds of cases, with keys that every case of the kind has. The first kind that fits counts.
static KINDS: [(&str, &[&str], Replay); 12] = [
    ("Controller", &["mechanism", "case"], controllers::replay),
    ("Requests", &["requests", "managedFields"], api::replay),
    ("Forecast", &["before", "intent", "fates"], predict::replay),
    ("Scenario", &["steps", "outcomes"], objects::replay),
    ("CompactScenario", &["outcomes", "name"], objects::replay_compact),
    ("GraphSequence", &["steps", "ids"], graph::replay_sequence),
    (
        "ConflictingData",
        &["steps", "semantics"],
        graph::replay_conflicting,
    ),
    ("Patch", &["kind", "body"], graph::replay_patch),
    ("ImageGc", &["rounds", "outcomes"], node::replay_images),
    ("ContainerGc", &["call", "outcomes"], node::replay_containers),
    ("ImageGcPolicy", &["high_threshold_percent"], node::replay_policy),
    ("SignalReclaim", &["signal"], node::replay_signal),
];

/// The suffix of files in compact form, whose inputs are in the file without it.
const COMPACT: &str = "-1worker";

/// Which cases to replay.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only the case of this name or id, with notes about its steps.
    pub only: Option<String>,
}

/// The results of the cases of one file.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct FileReport {
    /// The kind of its cases.
    pub kind: &'static str,
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
    let work = || -> io::Result<Vec<Replayed>> {
        let mut done = Vec::new();
        while let Some((at, line)) = next()? {
            let text = String::from_utf8_lossy(&line);
            if !text.trim().is_empty() {
                done.extend(source.replay(at, &text, options));
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
    cases.sort_by_key(|case| case.at);
    let mut report = FileReport {
        kind: cases.iter().find_map(|case| case.kind).unwrap_or("no cases"),
        ..FileReport::default()
    };
    for case in cases {
        let name = case.name;
        if let Some((category, agree, all)) = case.report.requests {
            let counts = report.requests.entry(category).or_default();
            counts.0 += agree;
            counts.1 += all;
        }
        let notes = case.report.notes.into_iter();
        report.notes.extend(notes.map(|note| format!("{name}: {note}")));
        report.supported_reasons += case.report.supported_reasons;
        let unsupported = case.report.unsupported_reasons.into_iter();
        report
            .unsupported_reasons
            .extend(unsupported.map(|failure| FailedCase {
                name: name.clone(),
                failure,
            }));
        match case.result {
            Ok(()) => report.passed += 1,
            Err(failure) => report.failed.push(FailedCase { name, failure }),
        }
    }
    Ok(report)
}

/// Details of a replay, in addition to its result.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) notes: Vec<String>,
    /// The category of a case that consists of requests, how many of them agree, and how many there are.
    pub(crate) requests: Option<(String, usize, usize)>,
    /// The number of reasons of a forecast that the recording supports.
    pub(crate) supported_reasons: usize,
    /// The other reasons.
    pub(crate) unsupported_reasons: Vec<Failure>,
}

/// A case of a file.
pub(crate) struct Case<'s> {
    name: String,
    json: Value,
    source: &'s Source,
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
        self.source.stem.as_deref().unwrap_or_default()
    }

    /// The same scenario, recorded with another number of workers.
    pub(crate) fn sibling<T: Deserialize<'s>>(&self) -> Result<T, Failure> {
        serde_json::from_str(self.source.sibling(&self.name)?).map_err(Failure::unreadable)
    }
}

/// The release that a recording names: a version, which words may follow, or `latest`.
pub(crate) fn release(name: &str) -> Result<KubernetesVersion, Failure> {
    match name.split(' ').next().unwrap_or_default() {
        "latest" => Ok(KubernetesVersion::LATEST),
        version => version.parse().map_err(Failure::unreadable),
    }
}

/// Creates namespaces on a server.
pub(crate) fn create_namespaces<'n>(
    server: &mut ApiServer,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<(), Failure> {
    let namespaces = server.catalog().mapping("v1", "Namespace");
    let namespaces = namespaces.ok_or_else(|| Failure::unreadable("there is no kind Namespace"))?;
    for name in names {
        let response = server.create_json(namespaces, "", json!({"metadata": {"name": name}}));
        if response.code != 201 {
            let body = &response.body;
            return Err(Failure::unreadable(format!(
                "the namespace {name} is not created: {body:?}"
            )));
        }
    }
    Ok(())
}

struct Replayed {
    /// The position of its line.
    at: usize,
    name: String,
    kind: Option<&'static str>,
    report: Report,
    result: Result<(), Failure>,
}

/// The facts about a file that are known without reading its lines.
struct Source {
    /// Its name without `.jsonl`; `None` for a file that is not a recording.
    stem: Option<String>,
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
        Self {
            stem: stem(path),
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

    /// Replays one line; `None` where it is not selected.
    fn replay(&self, at: usize, line: &str, options: &Options) -> Option<Replayed> {
        self.stem.as_ref()?;
        let mut replayed = Replayed {
            at,
            name: format!("line {}", at + 1),
            kind: None,
            report: Report::default(),
            result: Ok(()),
        };
        let keys = match serde_json::from_str::<Map<String, Value>>(line) {
            Ok(keys) => keys,
            Err(problem) => {
                replayed.result = Err(Failure::unreadable(problem));
                return Some(replayed);
            }
        };
        let name = ["name", "id", "case"]
            .iter()
            .find_map(|key| keys.get(*key)?.as_str());
        if let Some(name) = name {
            name.clone_into(&mut replayed.name);
        }
        if options.only.as_ref().is_some_and(|only| *only != replayed.name) {
            return None;
        }
        let kind = KINDS
            .iter()
            .find(|(_, known, _)| known.iter().all(|key| keys.contains_key(*key)));
        let Some((kind, _, replay)) = kind else {
            replayed.result = Err(Failure::unreadable("the kind of the case is unknown"));
            return Some(replayed);
        };
        replayed.kind = Some(*kind);
        let case = Case {
            name: replayed.name.clone(),
            json: Value::Object(keys),
            source: self,
            is_detailed: options.only.is_some(),
        };
        let result = catch_unwind(AssertUnwindSafe(|| replay(&case, &mut replayed.report)));
        replayed.result = result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(Failure::unreadable(format!("panicked: {text}")))
        });
        Some(replayed)
    }
}
