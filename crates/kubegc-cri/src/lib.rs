//! A node's container runtime, file systems and log files, as kubegc's node collector wants them.
//!
//! Nothing is decided here about garbage: [`kubegc_node`] decides, [`CriRuntime`] asks containerd, CRI-O or another runtime over its socket, and does what it is told. For Unix.
//!
//! | what a collector needs | who gives it |
//! |---|---|
//! | containers, sandboxes, images; stopping and removing them | [`CriRuntime`], which is a [`kubegc_core::Runtime`] |
//! | bytes that images use | the runtime, through [`CriRuntime`] |
//! | capacity, free bytes, inodes | the file system itself, at the folder that the runtime names ([`CriRuntime::file_systems`]) |
//! | pod logs and the links to them | [`HostLogs`], which is a [`kubegc_core::LogDirectory`] |
//! | which pods there should be | not the runtime: a [`kubegc_core::PodSource`], such as [`ReadySandboxes`](kubegc_node::driver::ReadySandboxes) |
//! | the image of sandboxes, for releases before 1.29 | [`CriRuntime::status`], where the runtime tells |
//! | the time | [`TokioClock`] |
//!
//! # Safety rules
//!
//! - **The planner protects, not the runtime.** containerd removes a running container, and an image that containers use, when asked. Only call what a plan says.
//! - **A listing is whole or an error.** An answer beyond [`Options::message_bytes_max`] is an error. So is one with an entry that has no id, a container without sandbox or image, a sandbox of no
//!   pod, or two entries that contradict each other: what such an entry holds could be what keeps something else. The error names the entry and the field, and nothing is planned.
//! - **Odd states are taken with care**, and told as a warning: a container's counts as unknown, so that it is stopped before it is removed; a sandbox's as ready, so that it stays.
//! - **Every call has its deadline**, here and, by `grpc-timeout`, in the runtime. A stop may take its grace longer.
//! - **Nothing is repeated.** What became of a write whose answer was lost, the next listing says.
//! - **Calls may be dropped** at any await. A write that was sent may be done all the same.
//!
//! # Failures
//!
//! Why there is no runtime to speak to is a [`ConnectError`]. What an answer means to a collector is a [`kubegc_core::RuntimeError`], whose text is the one that the kubelet logs
//! (`rpc error: code = Unavailable desc = ...`):
//!
//! | answer | reading | writing | was the write carried out? |
//! |---|---|---|---|
//! | `NotFound` | `NotFound` | success: what is gone need not be stopped or removed | it need not be |
//! | `Unimplemented` | `NotSupported` | `NotSupported` | no |
//! | the socket cannot be opened | `Refused` | `Refused` | no |
//! | `InvalidArgument`, `PermissionDenied`, `Unauthenticated` | `Refused` | `Refused` | no |
//! | any other code; `FailedPrecondition` too, as removing a sandbox can fail half-way with it | `Refused` | `Unknown` | perhaps |
//! | no answer: the connection broke, or the deadline passed | `Refused` | `Unknown` | perhaps |
//!
//! # Upstream
//!
//! Calls and messages are those of the kubelet (`cri-client/pkg/remote_runtime.go` and `remote_image.go`, CRI v1). Different are:
//!
//! | | kubelet | here |
//! |---|---|---|
//! | connecting | gRPC dials again and again in the background; any error of `ImageFsInfo` is one of starting | one attempt with each call; of `ImageFsInfo`, only that nobody serves or answers it |
//! | version | `Version` must say `0.1.0` | it must say something, and not another version of CRI |
//! | an entry without metadata, id or image | is passed over, and pins nothing | its listing is an error; without metadata alone, a container has no name |
//! | ids that repeat | the last one holds | twice alike counts once; otherwise an error |
//! | a sandbox of unknown state | is not ready, and may go | is ready, and stays |
//! | `NotFound` when removing | an error | success |
//! | removing an image | by id | by id and runtime handler, where the listing named one |
//! | capacity | cAdvisor, of the device that the folder is on | `statvfs` of the folder |
//!
//! # Examples
//!
//! Errors say what to do:
//! ```
//! # let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # tokio.block_on(async {
//! use kubegc_cri::{ConnectError, CriRuntime, Endpoint, Options};
//! let endpoint: Endpoint = "unix:///run/no/such.sock".parse()?;
//! let error = CriRuntime::connect(&endpoint, Options::default()).await.expect_err("there is none");
//! assert_eq!(error, ConnectError::NoSocket { path: "/run/no/such.sock".into() });
//! assert_eq!(
//!     error.to_string(),
//!     "/run/no/such.sock: no such file: start the runtime, or name the socket that it listens on"
//! );
//! # Ok::<(), kubegc_cri::EndpointError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What would the kubelet remove here? A dry run, with every ready sandbox taken for a pod that should run:
//! ```no_run
//! # let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # tokio.block_on(async {
//! use std::sync::Arc;
//! use kubegc_cri::{CriRuntime, Options, TokioClock};
//! use kubegc_node::{Node, Policy, PolicySpec, World, container::Occasion, driver::{ReadySandboxes, Settings}};
//! let (endpoint, runtime) = CriRuntime::detect(Options::default()).await?;
//! let (runtime, clock) = (Arc::new(runtime), TokioClock::new());
//! let pods = ReadySandboxes::new(runtime.clone());
//! let world = World { runtime: &*runtime, logs: None, pods: &pods, clock: &clock };
//! let policy = Policy::new(&PolicySpec::default(), "1.36.0".parse()?)?;
//! let settings = Settings { dry_run: true, ..Settings::from(&policy) };
//! let report = Node::new(world, settings).collect_containers(Occasion::Periodic).await;
//! println!("{endpoint}, {}: {:#?}", runtime.version(), report.containers.actions);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bindings;
mod call;
mod connect;
mod endpoint;
mod error;
mod file_systems;
mod logs;
mod options;
mod read;
mod runtime;
mod status;

pub use connect::{CriRuntime, RuntimeVersion};
pub use endpoint::{Endpoint, EndpointError};
pub use error::ConnectError;
pub use file_systems::{FileSystems, MountedFileSystem};
pub use kubegc_tokio::TokioClock;
pub use logs::HostLogs;
pub use options::Options;
pub use status::{Condition, RuntimeStatus};
