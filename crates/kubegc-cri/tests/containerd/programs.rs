//! Finds containerd and its programs, or prints that they are missing.
//!
//! The tests expect the behaviour of containerd 1.6. A directory that the environment names may have any
//! version; of the programs in the path, only 1.6 is used.

use std::{
    env,
    ffi::OsString,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Once,
};

/// Directories of an unpacked package that hold programs.
const FOLDERS: [&str; 4] = ["usr/bin", "usr/sbin", "bin", "sbin"];

/// A variable of the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "the only way to pass an argument to a test"
)]
pub(crate) fn environment(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// The programs that a real node is built from.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) containerd: PathBuf,
    pub(crate) ctr: PathBuf,
    pub(crate) runc: PathBuf,
    /// Linked statically, because it is the only file of the images.
    pub(crate) busybox: PathBuf,
    /// The path in which the daemon searches for its shim.
    pub(crate) path: OsString,
}

impl Programs {
    /// The programs below the directory that `KUBEGC_CONTAINERD` names, else those of the path, if containerd
    /// is of version 1.6 and busybox linked statically.
    ///
    /// # Errors
    /// The program that is missing or has the wrong version.
    pub(crate) fn find() -> Result<Self, String> {
        let installed = env::var_os("PATH").unwrap_or_default();
        let mut directories: Vec<PathBuf> = env::split_paths(&installed).collect();
        let place = match environment("KUBEGC_CONTAINERD") {
            Some(root) => {
                directories = FOLDERS
                    .iter()
                    .map(|directory| Path::new(&root).join(directory))
                    .collect();
                format!("below {root}, which KUBEGC_CONTAINERD names")
            }
            None => "in the path, and KUBEGC_CONTAINERD is not set".to_owned(),
        };
        let find = |name: &str| {
            let mut candidates = directories.iter().map(|directory| directory.join(name));
            candidates
                .find(|program| program.is_file())
                .ok_or_else(|| format!("there is no {name} {place}"))
        };
        find("containerd-shim-runc-v2")?;
        let programs = Self {
            containerd: find("containerd")?,
            ctr: find("ctr")?,
            runc: find("runc")?,
            busybox: find("busybox")?,
            path: env::join_paths(directories.iter().cloned().chain(env::split_paths(&installed)))
                .map_err(|error| error.to_string())?,
        };
        if environment("KUBEGC_CONTAINERD").is_none() {
            let version = version(&programs.containerd);
            if !version.starts_with("1.6.") {
                return Err(format!(
                    "the containerd in the path is {version:?}, not 1.6, and KUBEGC_CONTAINERD is not set"
                ));
            }
            let busybox = fs::read(&programs.busybox).map_err(|error| error.to_string())?;
            if !is_static(&busybox) {
                return Err(
                    "the busybox in the path is not linked statically, and KUBEGC_CONTAINERD is not set"
                        .to_owned(),
                );
            }
        }
        Ok(programs)
    }
}

/// The version that containerd prints; empty where it prints none.
pub(crate) fn version(containerd: &Path) -> String {
    // Such as `containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3`, or `v1.7.2`.
    let output = Command::new(containerd).arg("--version").output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    said.split_whitespace()
        .nth(2)
        .unwrap_or_default()
        .trim_start_matches('v')
        .to_owned()
}

/// Whether a program of 64 bits, lowest byte first, needs no other to load it: none of the headers of its
/// segments names one (`PT_INTERP`).
fn is_static(program: &[u8]) -> bool {
    const INTERPRETER: u64 = 3;
    let number = |at: usize, bytes: usize| {
        let bytes = program.get(at..at.checked_add(bytes)?)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0_u64, |number, &byte| number << 8 | u64::from(byte)),
        )
    };
    let index = |at, bytes| usize::try_from(number(at, bytes)?).ok();
    let segments = || {
        let (first, size, count) = (index(32, 8)?, index(54, 2)?, index(56, 2)?);
        let header = |segment: usize| number(first.checked_add(segment * size)?, 4);
        (0..count).map(header).collect::<Option<Vec<u64>>>()
    };
    program.starts_with(b"\x7fELF\x02\x01")
        && segments().is_some_and(|kinds| !kinds.is_empty() && !kinds.contains(&INTERPRETER))
}

/// Prints a notice that the test harness does not capture. A closed stderr is
/// ignored.
pub(crate) fn notify(notice: &str) {
    let _unheard = std::io::stderr().write_all(notice.as_bytes());
}

/// Prints that a test was not run; the first call in a process prints the details. Where `CI=true`, that is a
/// failure.
pub(crate) fn skip(test: &str, why: &str) {
    static EXPLAINED: Once = Once::new();
    let mut notice = format!("\nNOT RUN: {test}: {why}\n");
    assert!(environment("CI").as_deref() != Some("true"), "{notice}");
    EXPLAINED.call_once(|| {
        let rule = "=".repeat(100);
        notice = format!(
            "\n{rule}\nNOTHING IS TESTED AGAINST A REAL CONTAINERD: {test} and its neighbours are not run\n  why: {why}\n  \
             to run them, as root on Debian, in an empty directory:\n    apt-get download containerd runc busybox-static\n    \
             for package in *.deb; do dpkg-deb -x \"$package\" root; done\n  \
             then, in the repository:\n    KUBEGC_CONTAINERD=<that directory>/root cargo test -p kubegc-cri --test containerd\n{rule}\n"
        );
    });
    notify(&notice);
}
