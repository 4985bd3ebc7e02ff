//! A node as a kubelet would set it up: images, sandboxes, containers in every state, log files and links.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use kubegc_core::node_facts::{PodIdentity, label};

use crate::{
    daemon::{Daemon, PAUSE},
    oci::{ImageSpec, layout},
    programs::Programs,
    raw::{
        ContainerConfig, CreateContainerRequest, CreateContainerResponse, LinuxPodSandboxConfig,
        LinuxSandboxSecurityContext, NODE, NamespaceOption, PodSandboxConfig, Raw, RunPodSandboxRequest,
        RunPodSandboxResponse, StartContainerRequest, StartContainerResponse, cri,
    },
};

/// The directory of pod logs; empty when a test begins.
pub(crate) const POD_LOGS: &str = "/var/log/pods";

/// The directory of links to logs; empty when a test begins.
pub(crate) const LOG_LINKS: &str = "/var/log/containers";

/// A command that ends at once.
pub(crate) const ENDS: [&str; 2] = ["/bin/busybox", "true"];

/// A command that does not end by itself.
pub(crate) const RUNS: [&str; 3] = ["/bin/busybox", "sleep", "1000000"];

/// The node that a test is run on.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) daemon: Daemon,
    pub(crate) raw: Raw,
    cgroup: String,
}

/// A sandbox that was started.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) pod: PodIdentity,
    config: PodSandboxConfig,
}

/// A pod in the namespace `shop`.
pub(crate) fn pod(name: &str) -> PodIdentity {
    PodIdentity {
        uid: kubegc_core::Uid::new(&format!("uid-of-{name}")),
        namespace: "shop".into(),
        name: name.into(),
    }
}

/// Repeats a check until it returns a value: 1500 times at most, with 20 ms in between. That is half a minute
/// plus the time of the checks.
pub(crate) async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1500 {
        if let Some(response) = check().await {
            return response;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}: not within half a minute, or 1500 checks")
}

impl Host {
    /// A daemon that responds, with the image of sandboxes and nothing else.
    pub(crate) async fn start(programs: Programs, cgroup: String) -> Self {
        let host = Self {
            daemon: Daemon::start(programs),
            raw: Raw::new(),
            cgroup,
        };
        host.wait_until_ready().await;
        host.import(&[ImageSpec {
            names: &[PAUSE],
            filling_bytes: 0,
        }])
        .await;
        host
    }

    /// Waits until the daemon responds.
    pub(crate) async fn wait_until_ready(&self) {
        until("containerd responds", async || {
            let request = cri::StatusRequest { verbose: false };
            let status: Result<cri::StatusResponse, _> =
                self.raw.call("RuntimeService", "Status", request).await;
            let conditions = status.ok()?.status?.conditions;
            conditions
                .iter()
                .any(|condition| condition.r#type == "RuntimeReady" && condition.status)
                .then_some(())
        })
        .await;
    }

    /// Imports images.
    pub(crate) async fn import(&self, images: &[ImageSpec<'_>]) {
        let file = "/run/containerd/images.tar";
        fs::write(file, layout(&self.daemon.programs.busybox, images)).expect("a directory of our own");
        self.daemon.ctr(&["images", "import", file]);
        fs::remove_file(file).expect("a file of our own");
        // The CRI plugin learns of new images by events.
        until("images are listed", async || {
            let listed = self.raw.listed_images().await;
            let mut names = images.iter().flat_map(|image| image.names);
            let is_listed = |name: &&str| {
                listed
                    .iter()
                    .any(|image| image.repo_tags.iter().any(|tag| tag == name))
            };
            names.all(is_listed).then_some(())
        })
        .await;
    }

    /// Starts a sandbox, the `attempt`-th of its pod, in the host network, so that it needs no network
    /// plugin.
    pub(crate) async fn sandbox(&self, pod: &PodIdentity, attempt: u32) -> Sandbox {
        let logs = format!("{POD_LOGS}/{}_{}_{}", pod.namespace, pod.name, pod.uid);
        fs::create_dir_all(&logs).expect("a directory of our own");
        let uid = pod.uid.to_string();
        let labels = [
            (label::POD_UID, uid.as_str()),
            (label::POD_NAMESPACE, &pod.namespace),
            (label::POD_NAME, &pod.name),
        ];
        let config = PodSandboxConfig {
            metadata: Some(cri::PodSandboxMetadata {
                name: pod.name.to_string(),
                uid: uid.clone(),
                namespace: pod.namespace.to_string(),
                attempt,
            }),
            log_directory: logs,
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            linux: Some(LinuxPodSandboxConfig {
                cgroup_parent: format!("/{}", self.cgroup),
                security_context: Some(LinuxSandboxSecurityContext {
                    namespace_options: Some(NamespaceOption { network: NODE }),
                }),
            }),
        };
        let request = RunPodSandboxRequest {
            config: Some(config.clone()),
        };
        let response: RunPodSandboxResponse = self.raw.runtime("RunPodSandbox", request).await;
        Sandbox {
            id: response.pod_sandbox_id,
            pod: pod.clone(),
            config,
        }
    }

    /// Creates a container without starting it.
    pub(crate) async fn create(
        &self,
        sandbox: &Sandbox,
        name: &str,
        attempt: u32,
        image: &str,
        command: &[&str],
    ) -> String {
        let mut labels = sandbox.config.labels.clone();
        labels.insert(label::CONTAINER_NAME.to_owned(), name.to_owned());
        let logs = Path::new(&sandbox.config.log_directory).join(name);
        fs::create_dir_all(logs).expect("a directory of our own");
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.id.clone(),
            config: Some(ContainerConfig {
                metadata: Some(cri::ContainerMetadata {
                    name: name.to_owned(),
                    attempt,
                }),
                image: Some(cri::ImageSpec {
                    image: image.to_owned(),
                    ..cri::ImageSpec::default()
                }),
                command: command.iter().map(|&word| word.to_owned()).collect(),
                labels,
                annotations: [(
                    "io.kubernetes.container.restartCount".to_owned(),
                    attempt.to_string(),
                )]
                .into(),
                log_path: format!("{name}/{attempt}.log"),
            }),
            sandbox_config: Some(sandbox.config.clone()),
        };
        let response: CreateContainerResponse = self.raw.runtime("CreateContainer", request).await;
        response.container_id
    }

    /// Creates a container, starts it, and links its log as a kubelet does.
    pub(crate) async fn run(
        &self,
        sandbox: &Sandbox,
        name: &str,
        attempt: u32,
        image: &str,
        command: &[&str],
    ) -> String {
        let id = self.create(sandbox, name, attempt, image, command).await;
        let request = StartContainerRequest {
            container_id: id.clone(),
        };
        let _started: StartContainerResponse = self.raw.runtime("StartContainer", request).await;
        let log = Path::new(&sandbox.config.log_directory).join(format!("{name}/{attempt}.log"));
        symlink(log, self.link(sandbox, name, &id)).expect("a directory of our own");
        id
    }

    /// Runs a container to its end.
    pub(crate) async fn ended(&self, sandbox: &Sandbox, name: &str, attempt: u32, image: &str) -> String {
        let id = self.run(sandbox, name, attempt, image, &ENDS).await;
        until("a container ends", async || {
            let state = self.state(&id).await?;
            (state == cri::ContainerState::ContainerExited).then_some(())
        })
        .await;
        id
    }

    /// The link to a container's log.
    pub(crate) fn link(&self, sandbox: &Sandbox, name: &str, id: &str) -> PathBuf {
        let (pod, namespace) = (&sandbox.pod.name, &sandbox.pod.namespace);
        Path::new(LOG_LINKS).join(format!("{pod}_{namespace}_{name}-{id}.log"))
    }

    /// Stops a sandbox and its containers.
    pub(crate) async fn stop(&self, sandbox: &Sandbox) {
        let request = cri::StopPodSandboxRequest {
            pod_sandbox_id: sandbox.id.clone(),
        };
        let _stopped: cri::StopPodSandboxResponse = self.raw.runtime("StopPodSandbox", request).await;
    }

    /// The state that a container is listed in.
    pub(crate) async fn state(&self, id: &str) -> Option<cri::ContainerState> {
        let listed = self.raw.containers().await;
        let container = listed.iter().find(|container| container.id == id)?;
        Some(container.state())
    }

    /// All containers: `pod/name#attempt state`, in order.
    pub(crate) async fn left(&self) -> Vec<String> {
        let listed = self.raw.containers().await;
        let containers = listed.iter().map(|container| {
            let metadata = container.metadata.clone().unwrap_or_default();
            let state = match container.state() {
                cri::ContainerState::ContainerCreated => "created",
                cri::ContainerState::ContainerRunning => "running",
                cri::ContainerState::ContainerExited => "exited",
                cri::ContainerState::ContainerUnknown => "unknown",
            };
            let pod = container.labels.get(label::POD_NAME).map_or("?", String::as_str);
            format!("{pod}/{}#{} {state}", metadata.name, metadata.attempt)
        });
        sorted(containers)
    }

    /// All sandboxes: `pod#attempt state`, in order.
    pub(crate) async fn sandboxes_left(&self) -> Vec<String> {
        let listed = self.raw.sandboxes().await;
        let sandboxes = listed.iter().map(|sandbox| {
            let metadata = sandbox.metadata.clone().unwrap_or_default();
            let state = match sandbox.state() {
                cri::PodSandboxState::SandboxReady => "ready",
                cri::PodSandboxState::SandboxNotready => "not ready",
            };
            format!("{}#{} {state}", metadata.name, metadata.attempt)
        });
        sorted(sandboxes)
    }

    /// Names of all images, sorted.
    pub(crate) async fn image_names(&self) -> Vec<String> {
        let listed = self.raw.listed_images().await;
        sorted(listed.into_iter().flat_map(|image| image.repo_tags))
    }
}

/// Sorted lines.
pub(crate) fn sorted(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().collect();
    lines.sort();
    lines
}
