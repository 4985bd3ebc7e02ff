//! Finds containerd and its programs, or prints that they are missing.
//!
//! The tests expect the behaviour of containerd 1.6.

use std::{
    env,
    ffi::OsString,
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
    /// The programs below the directory that `KUBEGC_CONTAINERD` names.
    ///
    /// # Errors
    /// The program that is missing.
    pub(crate) fn find() -> Result<Self, String> {
        let root = environment("KUBEGC_CONTAINERD").ok_or("KUBEGC_CONTAINERD is not set")?;
        let directories = FOLDERS.map(|directory| Path::new(&root).join(directory));
        let find = |name: &str| {
            let mut candidates = directories.iter().map(|directory| directory.join(name));
            candidates
                .find(|program| program.is_file())
                .ok_or_else(|| format!("there is no {name} below {root}, which KUBEGC_CONTAINERD names"))
        };
        find("containerd-shim-runc-v2")?;
        let installed = env::var_os("PATH").unwrap_or_default();
        let path = directories.iter().cloned().chain(env::split_paths(&installed));
        Ok(Self {
            containerd: find("containerd")?,
            ctr: find("ctr")?,
            runc: find("runc")?,
            busybox: find("busybox")?,
            path: env::join_paths(path).map_err(|error| error.to_string())?,
        })
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
