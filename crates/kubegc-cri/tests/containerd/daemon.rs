//! A containerd of our own: started, killed, started again on the same directories.

use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
};

use crate::programs::{Programs, version};

/// The socket: containerd's default path, in a `/run` that only this test sees.
pub(crate) const SOCKET: &str = "/run/containerd/containerd.sock";

/// The directory of its data, which is a disk of its own.
pub(crate) const ROOT: &str = "/run/containerd/root";

/// The image of sandboxes.
pub(crate) const PAUSE: &str = "registry.invalid/pause:1";

const CONFIG: &str = "/run/containerd/config.toml";
const LOG: &str = "/run/containerd/log";

/// The daemon. A panic prints the end of its log.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) programs: Programs,
    child: Mutex<Option<Child>>,
}

impl Daemon {
    /// Starts it; it does not respond yet.
    pub(crate) fn start(programs: Programs) -> Self {
        let runc = programs.runc.display();
        // The configuration avoids what a test does not need: to make a process less likely to be
        // killed takes a permission that root in a container may lack, and a profile of AppArmor can be
        // loaded only where the kernel has it.
        let config = format!(
            r#"
version = 2
root = "{ROOT}"
state = "/run/containerd/state"
[grpc]
address = "{SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
path = "/run/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true
stats_collect_period = 1
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/run/containerd/cni"
conf_dir = "/run/containerd/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{runc}"
Root = "/run/containerd/runc"
"#
        );
        fs::write(CONFIG, config).expect("a directory of our own");
        let daemon = Self {
            programs,
            child: Mutex::new(None),
        };
        daemon.start_again();
        daemon
    }

    /// Starts it after it was killed, without the CRI plugin.
    pub(crate) fn start_without_cri(&self) {
        let config = fs::read_to_string(CONFIG).expect("a file of our own");
        let disabled = "disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]";
        fs::write(CONFIG, config.replace("[grpc]", disabled)).expect("a file of our own");
        self.start_again();
    }

    /// Starts it after it was killed.
    pub(crate) fn start_again(&self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(LOG)
            .expect("a directory of our own");
        let said = log.try_clone().expect("a file that is open");
        let child = Command::new(&self.programs.containerd)
            .args(["--config", CONFIG])
            .env("PATH", &self.programs.path)
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(log)
            .spawn()
            .expect("containerd was found");
        let before = self.child().replace(child);
        assert!(before.is_none(), "it runs already");
    }

    /// Kills it at once. Its shims and containers continue to run.
    pub(crate) fn kill(&self) {
        let Some(mut child) = self.child().take() else {
            return;
        };
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
    }

    /// Kills it, its shims and its containers: all processes but those of the test.
    pub(crate) fn kill_all(&self) {
        self.kill();
        let processes = fs::read_dir("/proc").expect("it is mounted").flatten();
        let ids = processes.filter_map(|process| process.file_name().to_string_lossy().parse::<u32>().ok());
        // The first process is the shell that waits for the test; in this namespace there is nothing else.
        for id in ids.filter(|id| ![1, std::process::id()].contains(id)) {
            let kill = Command::new(&self.programs.busybox)
                .args(["kill", "-9", &id.to_string()])
                .output();
            kill.expect("busybox was found");
        }
    }

    /// The version that the daemon reports.
    pub(crate) fn version(&self) -> String {
        version(&self.programs.containerd)
    }

    /// Runs its client on the namespace of CRI.
    pub(crate) fn ctr(&self, arguments: &[&str]) {
        let output = Command::new(&self.programs.ctr)
            .args(["--address", SOCKET, "--namespace", "k8s.io"])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("ctr was found");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ctr {arguments:?}: {said}");
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = fs::read_to_string(LOG).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            #[expect(clippy::print_stderr, reason = "a failed test prints the log of the daemon")]
            {
                eprintln!(
                    "containerd {}; what it does is recorded of 1.6.20",
                    self.version()
                );
                for line in &lines[lines.len().saturating_sub(30)..] {
                    eprintln!("containerd: {line}");
                }
            }
        }
        self.kill();
    }
}
