//! Says where containerd and what it needs are, or loudly what is missing.

use std::{
    env,
    ffi::OsString,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Once,
};

/// Folders of an unpacked package that hold programs.
const FOLDERS: [&str; 4] = ["usr/bin", "usr/sbin", "bin", "sbin"];

/// A variable of the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "the one way to hand an argument to a test"
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
    /// Linked statically, since it is all that the images hold.
    pub(crate) busybox: PathBuf,
    /// What the daemon searches for its shim.
    pub(crate) path: OsString,
}

impl Programs {
    /// The programs below the folder that `KUBEGC_CONTAINERD` names, else those of the path.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn find() -> Result<Self, String> {
        let installed = env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = env::split_paths(&installed).collect();
        let place = match environment("KUBEGC_CONTAINERD") {
            Some(root) => {
                folders = FOLDERS
                    .iter()
                    .map(|folder| Path::new(&root).join(folder))
                    .collect();
                format!("below {root}, which KUBEGC_CONTAINERD names")
            }
            None => "in the path, and KUBEGC_CONTAINERD is not set".to_owned(),
        };
        let find = |name: &str| {
            let mut candidates = folders.iter().map(|folder| folder.join(name));
            candidates
                .find(|program| program.is_file())
                .ok_or_else(|| format!("there is no {name} {place}"))
        };
        find("containerd-shim-runc-v2")?;
        Ok(Self {
            containerd: find("containerd")?,
            ctr: find("ctr")?,
            runc: find("runc")?,
            busybox: find("busybox")?,
            path: env::join_paths(folders.iter().cloned().chain(env::split_paths(&installed)))
                .map_err(|error| error.to_string())?,
        })
    }
}

/// Says that a test was not run; the first one to do so says why at length. Where `CI=true`, that is a failure.
pub(crate) fn skip(test: &str, why: &str) {
    static TOLD: Once = Once::new();
    let mut notice = format!("\nNOT RUN: {test}: {why}\n");
    assert!(environment("CI").as_deref() != Some("true"), "{notice}");
    TOLD.call_once(|| {
        let rule = "=".repeat(100);
        notice = format!(
            "\n{rule}\nNOTHING IS TESTED AGAINST A REAL CONTAINERD: {test} and its neighbours are not run\n  why: {why}\n  \
             to run them, as root on Debian, in an empty folder:\n    apt-get download containerd runc busybox-static\n    \
             for package in *.deb; do dpkg-deb -x \"$package\" root; done\n  \
             then, in the repository:\n    KUBEGC_CONTAINERD=<that folder>/root cargo test -p kubegc-cri --test containerd\n{rule}\n"
        );
    });
    // Written past the capture of passing tests, so that whoever runs them sees it. Where nobody listens, nobody is told.
    let _unheard = std::io::stderr().write_all(notice.as_bytes());
}
