//! Log files in temporary directories: listing and removal. No name and no link makes other files disappear.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
};

use kubegc_core::{LogDirectory, RuntimeError, node_facts::LogTarget};
use kubegc_cri::HostLogs;
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

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path as the driver has it.
    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    /// A file, with the directories above it.
    fn file(&self, name: impl AsRef<Path>) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("below the directory")).expect("a directory");
        fs::write(path, "log").expect("written");
    }

    fn directory(&self, name: &str) {
        fs::create_dir_all(self.path(name)).expect("a directory");
    }

    fn link(&self, name: &str, target: &str) {
        symlink(target, self.path(name)).expect("a link");
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

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|&name| name.to_owned()).collect()
}

fn message(error: &RuntimeError) -> &str {
    match error {
        RuntimeError::Refused { message } | RuntimeError::Unknown { message } => message,
        _ => "",
    }
}

#[test]
fn n2_41_every_entry_is_listed_except_names_that_are_not_utf_8() {
    let disk = Disk::new();
    disk.directory("pods/shop_web_1/main");
    disk.file("pods/shop_web_1/main/0.log");
    disk.file("pods/b_file_2");
    disk.link("pods/a_link_3", "../outside");
    disk.link("pods/dangling", "nowhere");
    disk.file("pods/[a-z]*?_4");
    disk.file("pods/.hidden");
    disk.file("pods/uml\u{e4}ut_5");
    disk.file(Path::new("pods").join(OsStr::from_bytes(b"no_text\xff_6")));
    let listed = wait(disk.logs().pod_entries()).expect("listed");
    let listed: Vec<&str> = listed.iter().map(|name| &**name).collect();
    assert_eq!(
        listed,
        [
            ".hidden",
            "[a-z]*?_4",
            "a_link_3",
            "b_file_2",
            "dangling",
            "shop_web_1",
            "uml\u{e4}ut_5"
        ]
    );
    for entry in listed {
        assert_eq!(wait(disk.logs().remove_pod_entry(entry)), Ok(()), "{entry}");
    }
    assert_eq!(disk.all(), names(&["pods/no_text\u{fffd}_6"]));
}

#[test]
fn n2_40_an_unreadable_pod_log_directory_is_an_error_that_names_it() {
    let disk = Disk::new();
    disk.file("file");
    disk.link("loop", "loop");
    for directory in ["missing", "file", "loop", "pods/below"] {
        let path = disk.text(directory);
        let logs = HostLogs::new(&path, disk.path("containers"));
        let error = wait(logs.pod_entries()).expect_err(directory);
        assert!(
            matches!(error, RuntimeError::Refused { .. }),
            "{directory}: {error:?}"
        );
        assert!(
            message(&error).starts_with(&format!("{path}: ")),
            "{directory}: {error}"
        );
    }
    disk.link("to-pods", "pods");
    disk.directory("pods/one");
    let logs = HostLogs::new(disk.path("to-pods"), disk.path("containers"));
    assert_eq!(
        wait(logs.pod_entries()).map(|entries| entries.len()),
        Ok(1),
        "a link is followed"
    );
    assert_eq!(wait(logs.remove_pod_entry("one")), Ok(()));
    assert_eq!(disk.all(), names(&["file", "loop", "to-pods"]));
}

#[test]
fn n2_42_an_entry_is_removed_with_everything_below_it_and_nothing_else() {
    let disk = Disk::new();
    disk.file("pods/shop_web_1/main/0.log");
    disk.file("pods/shop_web_1/main/0.log.20260101-000000.gz");
    disk.file("pods/shop_web_1/side/0.log");
    disk.link("pods/shop_web_1/out", "../../outside");
    disk.link("pods/shop_web_1/main/up", "../..");
    disk.link("pods/shop_web_1/loop", "loop");
    disk.file("pods/shop_web_1*/main/0.log");
    disk.file("pods/shop_web_12/main/0.log");
    disk.file("pods/a_file_2");
    disk.link("pods/to_outside_3", "../outside");
    disk.link("pods/to_file_4", "../keep.log");
    disk.link("pods/to_sibling_5", "shop_web_12");
    disk.link("pods/dangles_6", "nowhere");
    disk.link("pods/loops_7", "loops_7");
    for entry in [
        "shop_web_1",
        "shop_web_1*",
        "a_file_2",
        "to_outside_3",
        "to_file_4",
        "to_sibling_5",
        "dangles_6",
        "loops_7",
        "was never there",
        "shop_web_1",
        "[a-z]*",
        "*",
    ] {
        let before = disk.all();
        assert_eq!(wait(disk.logs().remove_pod_entry(entry)), Ok(()), "{entry}");
        let path = format!("pods/{entry}");
        let below = format!("{path}/");
        let stays = |one: &&String| **one != path && !one.starts_with(&below);
        let expected: BTreeSet<String> = before.iter().filter(stays).cloned().collect();
        assert_eq!(disk.all(), expected, "{entry}");
    }
    assert_eq!(
        disk.all(),
        names(&[
            "pods/shop_web_12",
            "pods/shop_web_12/main",
            "pods/shop_web_12/main/0.log"
        ])
    );
}

#[test]
fn n6_2_a_name_outside_the_directory_is_refused() {
    let disk = Disk::new();
    disk.file("pods/a/b");
    let before = disk.all();
    let outside = disk.text("outside");
    for entry in [
        "",
        ".",
        "..",
        "/",
        "a/b",
        "a/",
        "/a",
        "../outside",
        "../keep.log",
        "a/../../outside",
        "./a",
        "a/.",
        &outside,
    ] {
        let error = wait(disk.logs().remove_pod_entry(entry)).expect_err(entry);
        assert!(
            matches!(error, RuntimeError::Refused { .. }),
            "{entry}: {error:?}"
        );
        let expected = format!("{entry:?}: not an entry of {}", disk.text("pods"));
        assert_eq!(message(&error), expected);
        assert_eq!(disk.all(), before, "{entry}");
    }
    for entry in ["a\0", &"n".repeat(300)] {
        let error = wait(disk.logs().remove_pod_entry(entry)).expect_err("no such name can be");
        assert!(message(&error).starts_with(&disk.text("pods")), "{error}");
        assert_eq!(disk.all(), before);
    }
}

#[test]
fn n2_44_n2_45_links_are_listed_with_the_state_of_their_targets() {
    let disk = Disk::new();
    disk.file("pods/p/0.log");
    disk.link("containers/whole-1.log", "../pods/p/0.log");
    disk.link("containers/by-way-2.log", "whole-1.log");
    disk.link("containers/directory-3.log", "../pods");
    disk.file("containers/file-4.log");
    disk.link("containers/dangles-5.log", "../pods/p/1.log");
    disk.link("containers/by-way-dangles-6.log", "dangles-5.log");
    disk.link("containers/loops-7.log", "loops-7.log");
    disk.link("containers/through-a-file-8.log", "file-4.log/0.log");
    disk.link("containers/long-9.log", &"n".repeat(300));
    disk.link("containers/.log", "nowhere");
    disk.link("containers/[a-z]*.log", "nowhere");
    disk.directory("containers/below.log");
    disk.link("containers/below.log/x.log", "nowhere");
    disk.link("containers/other.txt", "nowhere");
    disk.link("containers/other.log.1", "nowhere");
    disk.link("containers/log", "nowhere");
    let odd = Path::new("containers").join(OsStr::from_bytes(b"odd\xff.log"));
    disk.file(odd);
    let listed = wait(disk.logs().container_links()).expect("listed");
    let directory = format!("{}/", disk.text("containers"));
    let listed: Vec<(&str, LogTarget)> = listed
        .iter()
        .map(|link| {
            let name = link.path.strip_prefix(&directory).expect("a whole path");
            (name, link.target)
        })
        .collect();
    assert_eq!(
        listed,
        [
            (".log", LogTarget::Missing),
            ("[a-z]*.log", LogTarget::Missing),
            ("below.log", LogTarget::Exists),
            ("by-way-2.log", LogTarget::Exists),
            ("by-way-dangles-6.log", LogTarget::Missing),
            ("dangles-5.log", LogTarget::Missing),
            ("directory-3.log", LogTarget::Exists),
            ("file-4.log", LogTarget::Exists),
            ("long-9.log", LogTarget::Unknown),
            ("loops-7.log", LogTarget::Unknown),
            ("through-a-file-8.log", LogTarget::Unknown),
            ("whole-1.log", LogTarget::Exists),
        ]
    );
}

#[test]
fn n2_44_a_missing_directory_has_no_links() {
    let disk = Disk::new();
    disk.file("file");
    for (directory, missing) in [("missing", true), ("outside/missing/too", true), ("file", false)] {
        let logs = HostLogs::new(disk.path("pods"), disk.path(directory));
        let listed = wait(logs.container_links());
        if missing {
            assert_eq!(listed, Ok(vec![]), "{directory}");
        } else {
            let error = listed.expect_err(directory);
            assert!(message(&error).starts_with(&disk.text(directory)), "{error}");
        }
    }
}

#[test]
fn n2_52_a_link_is_removed_and_its_target_stays() {
    let disk = Disk::new();
    disk.file("pods/p/0.log");
    disk.link("containers/whole-1.log", "../pods/p/0.log");
    disk.link("containers/dangles-2.log", "nowhere");
    disk.link("containers/loops-3.log", "loops-3.log");
    disk.link("containers/directory-4.log", "../outside");
    disk.file("containers/file-5.log");
    disk.link("containers/[a-z]*.log", "nowhere");
    disk.link("containers/other-6.log", "nowhere");
    for name in [
        "whole-1.log",
        "dangles-2.log",
        "loops-3.log",
        "directory-4.log",
        "file-5.log",
        "[a-z]*.log",
    ] {
        let path = disk.text(&format!("containers/{name}"));
        assert_eq!(wait(disk.logs().remove_container_link(&path)), Ok(()), "{name}");
        assert_eq!(
            wait(disk.logs().remove_container_link(&path)),
            Err(RuntimeError::NotFound),
            "{name}: it is removed"
        );
    }
    assert_eq!(
        disk.all(),
        names(&["pods/p", "pods/p/0.log", "containers/other-6.log"])
    );
}

#[test]
fn a_link_is_named_by_its_real_directory_or_by_the_default_one() {
    let disk = Disk::new();
    disk.directory("containers/below");
    disk.file("containers/below/x.log");
    disk.directory("containers/directory.log");
    disk.file("containers/x.txt");
    disk.file("containers/log");
    let in_directory = |name: &str| disk.text(&format!("containers/{name}"));
    for path in [
        in_directory("below/x.log"),
        in_directory("directory.log"),
        in_directory("x.txt"),
        in_directory("log"),
        in_directory(".."),
        in_directory("../keep.log"),
        in_directory("../containers/x.log"),
        in_directory("x.log/"),
        in_directory("x.log/."),
        in_directory(""),
        disk.text("keep.log"),
        disk.text("outside/keep.log"),
        "x.log".to_owned(),
        "/x.log".to_owned(),
        String::new(),
        "containers/x.log".to_owned(),
        "/var/log/containers/below/x.log".to_owned(),
        "/var/log/containers/../containers/x.log".to_owned(),
        "/var/log/pods/x.log".to_owned(),
    ] {
        let before = disk.all();
        let error = wait(disk.logs().remove_container_link(&path)).expect_err(&path);
        assert!(matches!(error, RuntimeError::Refused { .. }), "{path}: {error:?}");
        assert!(message(&error).starts_with(&path), "{path}: {error}");
        assert_eq!(disk.all(), before, "{path}");
    }
    for path in [
        in_directory("x.log"),
        in_directory("/x.log"),
        "/var/log/containers/x.log".to_owned(),
    ] {
        disk.link("containers/x.log", "../keep.log");
        assert_eq!(wait(disk.logs().remove_container_link(&path)), Ok(()), "{path}");
        assert!(!disk.path("containers/x.log").exists(), "{path}");
    }
}

#[test]
fn n2_52_a_log_is_removed_with_its_rotated_copies_and_no_log_with_the_same_prefix() {
    let disk = Disk::new();
    let main = "pods/shop_web_1/main";
    let all = [
        "0.log",
        "0.log.20260101-000000",
        "0.log.20260101-000000.gz",
        "0.log.tmp",
        "1.log",
        "10.log",
        "0xlog",
        "00.log",
        "[0-9].log",
        "[0-9].log.1",
        "*",
        "*.log",
        "app",
        "app.1",
        "app2",
        "app2.1",
        "app-old",
        "app~",
        "0.logs",
        "0.log-1",
        "0.log_",
        "0.log..",
    ];
    let fill = || all.iter().for_each(|name| disk.file(format!("{main}/{name}")));
    disk.file("pods/shop_web_1/side/0.log");
    disk.file("pods/shop_web_1/0.log");
    for (log, removed) in [
        (
            "0.log",
            &[
                "0.log",
                "0.log.20260101-000000",
                "0.log.20260101-000000.gz",
                "0.log.tmp",
                "0.log..",
            ][..],
        ),
        ("app", &["app", "app.1"]),
        ("app2", &["app2", "app2.1"]),
        ("ap", &[]),
        ("10", &["10.log"]),
        ("1.log", &["1.log"]),
        ("0.log.2026", &[]),
        (
            "0.log.20260101-000000",
            &["0.log.20260101-000000", "0.log.20260101-000000.gz"],
        ),
        ("[0-9].log", &["[0-9].log", "[0-9].log.1"]),
        ("*", &["*", "*.log"]),
        ("*.log", &["*.log"]),
        ("?.log", &[]),
        ("2.log", &[]),
    ] {
        fill();
        let before = disk.all();
        let path = disk.text(&format!("{main}/{log}"));
        assert_eq!(wait(disk.logs().remove_container_logs(&path)), Ok(()), "{log}");
        let lost: BTreeSet<String> = before.difference(&disk.all()).cloned().collect();
        let removed: BTreeSet<String> = removed.iter().map(|name| format!("{main}/{name}")).collect();
        assert_eq!(lost, removed, "{log}");
    }
}

#[test]
fn n2_52_links_and_directories_among_the_logs() {
    let disk = Disk::new();
    disk.file("outside/0.log");
    disk.directory("pods/p/main/0.log.empty");
    disk.link("pods/p/main/0.log", "../../../outside/0.log");
    disk.link("pods/p/main/0.log.dangles", "nowhere");
    disk.link("pods/p/main/0.log.directory", "../../../outside");
    disk.link("pods/p/main/0.log.loops", "0.log.loops");
    disk.file(Path::new("pods/p/main").join(OsStr::from_bytes(b"0.log.\xff")));
    let path = disk.text("pods/p/main/0.log");
    assert_eq!(wait(disk.logs().remove_container_logs(&path)), Ok(()));
    let kept = [
        "outside/0.log",
        "pods/p",
        "pods/p/main",
        "pods/p/main/0.log.empty",
    ];
    assert_eq!(disk.all(), names(&kept), "directories are not removed");

    disk.file("pods/p/main/0.log.1");
    disk.file("pods/p/main/0.log.2/full");
    disk.file("pods/p/main/0.log.3");
    assert_eq!(wait(disk.logs().remove_container_logs(&path)), Ok(()));
    let kept = [&kept[..], &["pods/p/main/0.log.2", "pods/p/main/0.log.2/full"]].concat();
    assert_eq!(disk.all(), names(&kept), "the logs after a directory are removed");
    disk.directory("pods/p/main/0.log");
    assert_eq!(wait(disk.logs().remove_container_logs(&path)), Ok(()));
    assert!(disk.path("pods/p/main/0.log").is_dir());
}

#[test]
fn a_log_path_without_a_file_removes_nothing_and_is_no_error() {
    let disk = Disk::new();
    disk.file("pods/p/main/0.log");
    disk.file("pods/p/main/.hidden");
    let before = disk.all();
    let below = |name: &str| disk.text(&format!("pods/p/main/{name}"));
    for path in [
        String::new(),
        "/".to_owned(),
        "0.log".to_owned(),
        "pods/p/main/0.log".to_owned(),
        "./0.log".to_owned(),
        "..".to_owned(),
        format!("{}/", disk.text("pods/p/main")),
        below("0.log/"),
        below("."),
        below(".."),
        below("../main/0.log"),
        below("../../../keep.log"),
        "/../keep.log".to_owned(),
    ] {
        assert_eq!(wait(disk.logs().remove_container_logs(&path)), Ok(()), "{path}");
        assert_eq!(
            disk.all(),
            before,
            "{path}: the container may be removed, its logs stay"
        );
    }
    for path in [
        disk.text("pods/removed/main/0.log"),
        "/0.log-that-no-machine-has".to_owned(),
    ] {
        assert_eq!(wait(disk.logs().remove_container_logs(&path)), Ok(()), "{path}");
    }
    disk.file("file");
    let through_file = disk.text("file/0.log");
    let error = wait(disk.logs().remove_container_logs(&through_file)).expect_err("no directory");
    assert!(message(&error).starts_with(&disk.text("file: ")), "{error}");
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
