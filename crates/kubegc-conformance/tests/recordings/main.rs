//! The recordings match except where `UNMATCHED.md` says otherwise, and changed recordings do not match.

mod changed;
mod predict;
mod tables;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::BufRead as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use kubegc_conformance::{Report, open, recordings, replay};

/// The directory with the recordings.
fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

/// The tables of `UNMATCHED.md`.
#[derive(Default)]
struct Unmatched {
    /// The cases that do not match, by file.
    named: BTreeMap<String, BTreeSet<String>>,
    /// How many cases of a file match, where not all of them do yet.
    floors: BTreeMap<String, usize>,
    /// How many reasons of forecasts the recordings of a directory support at least.
    reasons: BTreeMap<String, usize>,
}

impl Unmatched {
    fn read() -> Self {
        let text = fs::read_to_string(vectors().join("UNMATCHED.md")).expect("in the repository");
        let mut unmatched = Self::default();
        for row in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            let (file, case) = (cells[1].to_owned(), cells[2]);
            match case.parse() {
                Ok(floor) if file.ends_with(".jsonl") => drop(unmatched.floors.insert(file, floor)),
                Ok(floor) => drop(unmatched.reasons.insert(file, floor)),
                Err(_) => {
                    unmatched.named.entry(file).or_default().insert(case.to_owned());
                }
            }
        }
        unmatched
    }

    /// Compares one file's failed cases with the tables.
    fn check(&self, name: &str, report: &Report) -> Result<(), String> {
        if let Some(&floor) = self.floors.get(name) {
            return if report.passed == floor {
                Ok(())
            } else {
                let better = if report.passed > floor { "more" } else { "fewer" };
                Err(format!(
                    "{better} cases match than `UNMATCHED.md` says: {} of {floor}",
                    report.passed
                ))
            };
        }
        let none = BTreeSet::new();
        let named = self.named.get(name).unwrap_or(&none);
        let failed: BTreeSet<String> = report.failed.iter().map(|case| case.name.clone()).collect();
        if failed == *named {
            return Ok(());
        }
        Err(format!(
            "`UNMATCHED.md` names {named:?}; these fail:\n{}",
            failures(report).join("\n")
        ))
    }
}

/// Replays all recordings of a directory. Returns how many match, by directory.
fn assert_matches(directory: &str, cases_min: usize) -> BTreeMap<String, String> {
    let unmatched = Unmatched::read();
    let mut problems = Vec::new();
    let mut totals: BTreeMap<String, Report> = BTreeMap::new();
    for path in recordings(&[vectors().join(directory)]).expect("in the repository") {
        let report = replay_file(&path);
        let name = path.strip_prefix(vectors()).expect("below the directory");
        let name = name.display().to_string();
        let name = name.trim_end_matches(".xz");
        if let Err(problem) = unmatched.check(name, &report) {
            problems.push(format!("{name}: {problem}"));
        }
        let (directory, _) = name.rsplit_once('/').expect("files are in directories");
        totals.entry(directory.to_owned()).or_default().add(report);
    }
    for (directory, total) in &totals {
        let floor = unmatched.reasons.get(directory).copied().unwrap_or_default();
        let (supported, all) = (total.supported_reasons, total.reasons());
        if supported < floor {
            problems.push(format!(
                "{directory}: {supported} of {all} reasons are supported, and `UNMATCHED.md` says {floor}"
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    let cases: usize = totals.values().map(Report::cases).sum();
    assert!(cases >= cases_min, "{directory} has only {cases} cases");
    let matches = |total: Report| format!("{} of {}", total.passed, total.cases());
    let totals = totals.into_iter();
    totals
        .map(|(directory, total)| (directory, matches(total)))
        .collect()
}

/// Compares the numbers that the README and the guide show.
fn assert_shown(matches: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in ["README.md", "crates/kubegc/guide/support.md"] {
        let text = fs::read_to_string(root.join(page)).expect("in the repository");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(matches), "{page} does not say {matches}");
    }
}

#[test]
fn graph_builder_and_patches() {
    assert_matches("graph", 2_700);
}

#[test]
fn api_server_and_collector() {
    assert_matches("objects", 1_240);
}

#[test]
fn kubelets() {
    assert_matches("node", 3_390);
}

#[test]
fn other_controllers() {
    assert_matches("controllers", 5_860);
}

#[test]
fn whole_control_planes() {
    assert_shown(&assert_matches("predict", 730)["predict"]);
}

#[test]
fn requests_to_an_api_server() {
    assert_matches("api", 470);
}

#[test]
fn release_1_36() {
    assert_shown(&assert_matches("1.36", 3_060)["1.36/predict"]);
}

#[test]
fn release_1_32() {
    assert_matches("1.32", 1_270);
}

#[test]
fn every_named_file_and_directory_exists() {
    let Unmatched {
        named,
        floors,
        reasons,
    } = Unmatched::read();
    for file in named.keys().chain(floors.keys()) {
        assert!(vectors().join(format!("{file}.xz")).is_file(), "{file}");
    }
    for directory in reasons.keys() {
        assert!(vectors().join(directory).is_dir(), "{directory}");
    }
}

fn replay_file(path: &Path) -> Report {
    replay(path, None).expect("the vectors can be read")
}

/// The first line of a recording that contains a text.
fn line_with(file: &str, text: &str) -> String {
    let lines = open(&vectors().join(format!("{file}.xz"))).expect("in the repository");
    let mut lines = lines.lines().map(|line| line.expect("text"));
    lines
        .find(|line| line.contains(text))
        .unwrap_or_else(|| panic!("{file} has no line with {text}"))
}

/// Replays lines as a file of this name. Tests run concurrently: each call has a directory of its own.
fn replay_lines(name: &str, lines: &str) -> Report {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("changed-{call}"));
    fs::create_dir_all(&directory).expect("a directory can be made");
    let path = directory.join(name);
    fs::write(&path, lines).expect("writable");
    let report = replay_file(&path);
    fs::remove_dir_all(&directory).expect("a directory can be removed");
    report
}

/// The names of failed cases and of those with reasons that are not supported, with the differences.
fn failures(report: &Report) -> Vec<String> {
    let failed = report.failed.iter().chain(&report.unsupported_reasons);
    failed
        .map(|case| format!("{}\n{}", case.name, case.failure))
        .collect()
}
