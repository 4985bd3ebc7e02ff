//! Runs each test in namespaces of its own: its mounts and processes are invisible to others, and end with
//! it, however it ends.
//!
//! The test starts its own program again, for this test alone, as a child of the first process of a new
//! process namespace: when that one ends, the kernel ends daemon, shims and containers. In the new mount
//! namespace `/run` and `/var/log` are empty, so that a containerd of the machine is neither seen nor hidden,
//! and paths are the usual ones. Only the directories of the control groups are left; they are removed at the
//! end.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::{
    host::Host,
    programs::{Programs, environment, notify, skip},
};

/// The variable that is set within the namespaces of a test; its value is the name of the control group.
const INSIDE: &str = "KUBEGC_CONTAINERD_INSIDE";

/// Written to the new `/run`; nothing else has it.
const MARK: &str = "/run/containerd/of-a-test";

/// The daemon's root lies on a disk of its own, of this size.
pub(crate) const DISK_BYTES: u64 = 96 << 20;

/// Prepares the namespaces and runs the rest of the arguments. The shell stays, to reap what is left by its
/// parent.
const PREPARE: &str = "
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mkdir -p /run/containerd/root /var/log/pods /var/log/containers
mount -t tmpfs -o size=\"$1\" tmpfs /run/containerd/root
touch \"$2\"
shift 2
\"$@\"
exit 0
";

/// Runs a test on a node of its own, or says that it cannot be run.
pub(crate) fn on_a_node(test: &str, scenario: impl AsyncFnOnce(&Host)) {
    match environment(INSIDE) {
        Some(cgroup) => inside(cgroup, scenario),
        None => outside(test),
    }
}

fn inside(cgroup: String, scenario: impl AsyncFnOnce(&Host)) {
    assert!(
        Path::new(MARK).exists(),
        "{INSIDE} is set by the test itself only"
    );
    let programs = Programs::find().expect("they were found before");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads can be made");
    runtime.block_on(async {
        let host = Host::start(programs, cgroup).await;
        let done = tokio::time::timeout(Duration::from_secs(120), scenario(&host));
        done.await.expect("a scenario ends within two minutes");
    });
}

fn outside(test: &str) {
    if let Err(why) = Programs::find() {
        return skip(test, &why);
    }
    let probe = unshare().arg("true").output();
    match probe {
        Err(error) => return skip(test, &format!("unshare: {error}")),
        Ok(output) if !output.status.success() => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return skip(test, &format!("namespaces need root: {}", said.trim()));
        }
        Ok(_) => {}
    }
    let cgroup = Cgroup(format!("kubegc-test-{}-{test}", std::process::id()));
    let output = unshare()
        .arg(env::current_exe().expect("a test knows where it lies"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, &cgroup.0)
        .output()
        .expect("unshare was run before");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // A name that no test has would run none, and succeed.
    let ran = output.status.success() && said.contains("1 passed");
    assert!(ran, "within its namespaces ({}):\n{said}", output.status);
}

/// A command line that continues within new namespaces.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private"])
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-ec", PREPARE, "sh", &DISK_BYTES.to_string(), MARK])
        .stdin(Stdio::null());
    command
}

/// The control group of a test's sandboxes, in every hierarchy; removed at the end.
struct Cgroup(String);

impl Drop for Cgroup {
    fn drop(&mut self) {
        let hierarchies = Path::new("/sys/fs/cgroup");
        let mut groups: Vec<PathBuf> = vec![hierarchies.join(&self.0)];
        for hierarchy in fs::read_dir(hierarchies).into_iter().flatten().flatten() {
            groups.push(hierarchy.path().join(&self.0));
        }
        // All processes have ended; the kernel may need a moment to see that a group is empty.
        for _ in 0..100 {
            groups.retain(|group| group.is_dir() && remove(group).is_err());
            if groups.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        // That is not a fault of what was tested.
        notify(&format!(
            "\nLEFT BEHIND: control groups without processes: {groups:?}\n"
        ));
    }
}

/// Removes a control group and those in it.
fn remove(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group)? {
        let path = entry?.path();
        if path.is_dir() {
            remove(&path)?;
        }
    }
    fs::remove_dir(group)
}
