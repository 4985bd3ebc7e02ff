//! Log files in temporary directories: listing and removal. No name and no link makes other files disappear.
//!
//! The inputs of `logs.txt` are files and operations. Each line of operations begins with all files of its
//! input. `$` is the temporary directory, and `%FF` a byte.
//!
//! | line | meaning |
//! |---|---|
//! | `file PATH`, `directory PATH`, `link PATH -> TARGET` | exists at the beginning |
//! | `pods DIRECTORY`, `containers DIRECTORY` | the directories of logs and of links |
//! | `entries`, `links` | lists the directories |
//! | `remove entry NAME`, `remove link PATH`, `remove logs PATH` | removals; `; ` separates several |

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fmt::Debug,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
};

use kubegc_core::{LogDirectory, RuntimeError};
use kubegc_cri::HostLogs;
use kubegc_fixtures::check_transcript;
use proptest::prelude::*;
use tempfile::TempDir;

/// A temporary directory with a node's two log directories, and a file next to them that must stay.
struct Disk(TempDir);

impl Disk {
    fn new() -> Self {
        let disk = Self(tempfile::tempdir().expect("a directory"));
        for directory in ["pods", "containers", "outside"] {
            fs::create_dir(disk.path(directory)).expect("a directory");
        }
        disk.file("outside/keep.log");
        disk.file("keep.log");
        disk
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path as the driver has it.
    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    /// A file, with the directories above it.
    fn file(&self, name: impl AsRef<Path>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("below the directory")).expect("a directory");
        fs::write(path, "log").expect("written");
    }

    fn logs(&self) -> HostLogs {
        HostLogs::new(self.path("pods"), self.path("containers"))
    }

    /// All paths without following links, except the files that must stay, whose presence it checks.
    fn all(&self) -> BTreeSet<String> {
        for kept in ["keep.log", "outside/keep.log"] {
            assert!(self.path(kept).exists(), "{kept}");
        }
        let mut all = BTreeSet::new();
        let mut directories = vec![self.0.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                let name = path.strip_prefix(self.0.path()).expect("below").to_string_lossy();
                all.insert(name.into_owned());
                if fs::symlink_metadata(&path).expect("there").is_dir() {
                    directories.push(path);
                }
            }
        }
        let keep = ["pods", "containers", "outside", "keep.log", "outside/keep.log"];
        keep.iter().for_each(|name| assert!(all.remove(*name), "{name}"));
        all
    }
}

/// Performs the work, and waits for it.
fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(work)
}

/// The bytes of a text with the escapes of `logs.txt`.
fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(part.len().min(2));
        bytes.extend(u8::from_str_radix(digits, 16).ok());
        bytes.extend(rest.bytes());
    }
    bytes
}

fn outcome<T: Debug>(result: Result<T, RuntimeError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{error:?}"),
    }
}

/// The result of each operation, and the files that exist no longer.
fn perform(setup: &[&str], operations: &str) -> String {
    let disk = Disk::new();
    let root = disk.0.path().to_str().expect("UTF-8");
    let path = |text: &str| disk.path(OsStr::from_bytes(&unescaped(&text.replace('$', root))));
    let (mut pods, mut containers) = (disk.path("pods"), disk.path("containers"));
    for line in setup {
        let (verb, rest) = line.split_once(' ').expect("a verb and a path");
        match verb {
            "file" => disk.file(path(rest)),
            "directory" => fs::create_dir_all(path(rest)).expect("a directory"),
            "link" => {
                let (link, target) = rest.split_once(" -> ").expect("a target");
                symlink(path(target).strip_prefix(root).expect("relative"), path(link)).expect("a link");
            }
            "pods" => pods = path(rest),
            "containers" => containers = path(rest),
            other => panic!("there is no line {other}"),
        }
    }
    let logs = HostLogs::new(pods, containers);
    let before = disk.all();
    let results = operations.split("; ").map(|operation| {
        let argument = |verb: &str| {
            let rest = operation.strip_prefix(verb)?.trim_start().replace('$', root);
            Some(String::from_utf8(unescaped(&rest)).expect("UTF-8"))
        };
        if let Some(entry) = argument("remove entry") {
            outcome(wait(logs.remove_pod_entry(&entry)))
        } else if let Some(path) = argument("remove link") {
            outcome(wait(logs.remove_container_link(&path)))
        } else if let Some(path) = argument("remove logs") {
            outcome(wait(logs.remove_container_logs(&path)))
        } else if operation == "entries" {
            outcome(wait(logs.pod_entries()))
        } else {
            let links = wait(logs.container_links());
            let shown = links.map(|links| links.into_iter().map(|link| (link.path, link.target)).collect());
            outcome::<Vec<_>>(shown)
        }
    });
    let results: Vec<String> = results.collect();
    let lost: Vec<String> = before.difference(&disk.all()).cloned().collect();
    let text = format!("{operations}: {} lost {}", results.join(" "), lost.join(" "));
    text.replace(root, "$").trim_end_matches(" lost ").to_owned()
}

#[test]
fn operations_have_these_results() {
    check_transcript("tests/logs.txt", |input| {
        let is_operation = |line: &&str| matches!(*line, "entries" | "links") || line.starts_with("remove ");
        let (operations, setup): (Vec<&str>, Vec<&str>) = input.lines().partition(is_operation);
        let results: Vec<String> = operations.iter().map(|line| perform(&setup, line)).collect();
        results.join("\n")
    });
}

#[test]
fn the_default_directories_are_the_kubelets() {
    assert_eq!(
        HostLogs::default(),
        HostLogs::new("/var/log/pods", "/var/log/containers")
    );
    assert_ne!(HostLogs::default(), HostLogs::new("/var/log/pods", "/elsewhere"));
}

/// Names of characters that are special in paths and patterns.
fn odd_name() -> impl Strategy<Value = String> {
    let parts = [
        "a", "b", ".", "..", "/", "*", "[", "]", "?", "\\", " ", "_", "-", "\u{e4}", ".log", "~", "\n",
    ];
    proptest::collection::vec(proptest::sample::select(parts.to_vec()), 0..5).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_name_removes_nothing_but_its_own_files(name in odd_name(), there in proptest::collection::vec(odd_name(), 0..5)) {
        let disk = Disk::new();
        for name in there.iter().filter(|name| !name.is_empty() && !name.contains('/') && *name != "." && *name != "..") {
            disk.file(format!("pods/{name}"));
            disk.file(format!("containers/{name}"));
            disk.file(format!("outside/logs/{name}"));
        }
        let before = disk.all();
        let lost = |before: &BTreeSet<String>| before.difference(&disk.all()).cloned().collect::<Vec<_>>();
        let expected = |before: &BTreeSet<String>, directory: &str, is_removed: &dyn Fn(&str) -> bool| {
            let in_directory = |path: &&String| path.strip_prefix(directory).is_some_and(is_removed);
            before.iter().filter(in_directory).cloned().collect::<Vec<_>>()
        };
        let _ = wait(disk.logs().remove_pod_entry(&name));
        prop_assert_eq!(lost(&before), expected(&before, "pods/", &|one| one == name));

        // Empty parts of a path, and `.`, are ignored; the named directories are the only ones.
        let (above, file) = name.rsplit_once('/').unwrap_or(("", &name));
        let is_in_directory = above.split('/').all(|part| matches!(part, "" | "."));

        let before = disk.all();
        let _ = wait(disk.logs().remove_container_link(&disk.text(&format!("containers/{name}"))));
        let is_link = |one: &str| is_in_directory && one == file && one.ends_with(".log");
        prop_assert_eq!(lost(&before), expected(&before, "containers/", &is_link));

        let before = disk.all();
        let _ = wait(disk.logs().remove_container_logs(&disk.text(&format!("outside/logs/{name}"))));
        let is_of_log = |one: &str| {
            let rest = one.strip_prefix(file).filter(|_| is_in_directory && !matches!(file, "" | "." | ".."));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        prop_assert_eq!(lost(&before), expected(&before, "outside/logs/", &is_of_log));
    }
}
