//! A node's container runtime, file systems and log files, as kubegc's node collector wants them.
//!
//! This crate decides nothing about garbage: [`kubegc_node`] decides, and [`CriRuntime`] calls containerd,
//! CRI-O or another runtime over its socket. For Unix.
//!
//! | needed by a collector | provided by |
//! |---|---|
//! | containers, sandboxes, images; stopping and removing them | [`CriRuntime`], which is a [`kubegc_core::Runtime`] |
//! | bytes that images use | the runtime, through [`CriRuntime`] |
//! | capacity, free bytes, inodes | the file system itself, at the folder that the runtime names ([`CriRuntime::file_systems`]) |
//! | pod logs and the links to them | [`HostLogs`], which is a [`kubegc_core::LogDirectory`] |
//! | which pods there should be | not the runtime: a [`kubegc_core::PodSource`], such as [`ReadySandboxes`](kubegc_node::driver::ReadySandboxes) |
//! | the image of sandboxes, for releases before 1.29 | [`CriRuntime::status`], where the runtime reports it |
//! | the time | [`TokioClock`] |
//!
//! # Safety rules
//!
//! - **The planner protects, not the runtime.** containerd removes a running container, and an image that
//!   containers use, on request. Only perform calls that a plan contains.
//! - **A listing is complete or an error.** A response beyond [`Options::message_bytes_max`] is an error. So
//!   is one with an entry that has no id, a container without sandbox or image, a sandbox of no pod, or two
//!   entries that contradict each other: such an entry could be the reason to keep another object. The error
//!   names the entry and the field, and nothing is planned.
//! - **Unexpected states are handled conservatively**, and logged as a warning. A container's state counts as
//!   unknown, so that it is stopped before it is removed; a sandbox's counts as ready, so that it stays.
//! - **Every call to the socket has its deadline**, here and, by `grpc-timeout`, in the runtime. The deadline
//!   of a stop additionally has its grace period. Measuring a file system has a deadline too. [`HostLogs`]
//!   has none: it reads and removes files, which the system does in its own time.
//! - **Nothing is repeated.** The next listing shows the outcome of a write whose response was lost.
//! - **A write follows its listing.** If the connection broke after a listing, the writes planned on it are
//!   refused until there is another: another runtime may have taken the socket. Such a pass ends with errors,
//!   and the next one continues. See [`CriRuntime`].
//! - **Calls may be dropped** at any await. A write that was sent may still be performed.
//!
//! # Failures
//!
//! A failure to connect to a runtime is a [`ConnectError`]. A failed call is a [`kubegc_core::RuntimeError`],
//! whose text is the one that the kubelet logs (`rpc error: code = Unavailable desc = ...`):
//!
//! | response | reading | writing | was the write carried out? |
//! |---|---|---|---|
//! | `NotFound` | `NotFound` | success: a missing object need not be stopped or removed | it need not be |
//! | `Unimplemented` | `NotSupported` | `NotSupported` | no: a server without the method starts nothing |
//! | none: the socket cannot be opened, or the connection of the listing is closed | `Refused` | `Refused` | no: it was not sent |
//! | any other code | `Refused` | `Unknown` | perhaps: a runtime may fail half-way, and it forwards the errors of other services |
//! | no response: the connection broke, or the deadline passed | `Refused` | `Unknown` | perhaps |
//!
//! # Upstream
//!
//! Calls and messages are those of the kubelet (`cri-client/pkg/remote_runtime.go` and `remote_image.go`, CRI
//! v1). Differences:
//!
//! | | kubelet | here |
//! |---|---|---|
//! | connecting | gRPC dials again and again in the background; any error of `ImageFsInfo` is one of starting | one attempt with each call; of `ImageFsInfo`, only that it is not served or gets no response |
//! | a connection that broke | the next call goes over a new one | so does the next that reads; one that writes waits for a listing |
//! | version | `Version` must say `0.1.0` | it must say something, and not another version of CRI |
//! | an entry without metadata, id or image | is skipped, and pins nothing | its listing is an error; without metadata alone, a container has no name |
//! | a sandbox whose metadata name no uid, or another than its label | belongs to the pod of its metadata, even if that uid is empty | its listing is an error; a dump of crictl, which cannot be listed again, is read as upstream does, with a finding if there is no uid |
//! | ids that repeat | the last one counts | equal entries count once; otherwise an error |
//! | a sandbox of unknown state | is not ready, and may be removed | is ready, and stays |
//! | `NotFound` when removing | an error | success |
//! | removing an image | by id | by id and runtime handler, where the listing named one |
//! | capacity | cAdvisor, of the device that the folder is on | `statvfs` of the folder |
//!
//! # The image of sandboxes
//!
//! No container uses it, so a collector takes it for unused. What keeps it depends on the release whose rules
//! are followed:
//!
//! - **Before 1.29**, the planner protects the one that
//!   [`Settings::sandbox_image`](kubegc_node::driver::Settings::sandbox_image) names. Kubelets have it as
//!   `--pod-infra-container-image`; here it is [`RuntimeStatus::sandbox_image`], if the runtime reports it.
//!   Each pass requests its id from the runtime.
//! - **From 1.29 on**, only that the runtime pins it; containerd 1.6 does not. For such,
//!   [`KeepImages`](kubegc_node::driver::KeepImages) does.
//!
//! `KeepImages` compares texts, and the runtime may be configured with a shorter name than it lists: k3s has
//! `rancher/mirrored-pause:3.6` and lists `docker.io/rancher/mirrored-pause:3.6`. So it is given both: the
//! text, for an image that is pulled later, and the current id from
//! [`image_id`](kubegc_core::Runtime::image_id), which is valid under every name. The last example does that.
//!
//! # Examples
//!
//! Errors contain advice:
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
//! A dry run of the kubelet's collection, in which every ready sandbox counts as a pod that should run:
//! ```no_run
//! # let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # tokio.block_on(async {
//! use std::sync::Arc;
//! use kubegc_cri::{CriRuntime, Options, TokioClock};
//! use kubegc_node::{Node, Policy, PolicySpec, Environment, container::Mode, driver::{ReadySandboxes, Settings}};
//! let (endpoint, runtime) = CriRuntime::detect(Options::default()).await?;
//! let (runtime, clock) = (Arc::new(runtime), TokioClock::new());
//! let pods = ReadySandboxes::new(runtime.clone());
//! let world = Environment { runtime: &*runtime, logs: None, pods: &pods, clock: &clock };
//! let policy = Policy::new(&PolicySpec::default(), "1.36.0".parse()?)?;
//! let settings = Settings { dry_run: true, ..Settings::from(&policy) };
//! let report = Node::new(world, settings).collect_containers(Mode::Periodic).await;
//! println!("{endpoint}, {}: {:#?}", runtime.version(), report.containers.actions);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Room for images, with the one of sandboxes kept:
//! ```no_run
//! # let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # tokio.block_on(async {
//! use std::{sync::Arc, time::Duration};
//! use kubegc_core::{Clock, Runtime};
//! use kubegc_cri::{CriRuntime, Options, TokioClock};
//! use kubegc_node::{Node, Policy, PolicySpec, Environment, driver::{KeepImages, ReadySandboxes, Settings}};
//! let (_, runtime) = CriRuntime::detect(Options::default()).await?;
//! let mut kept: Vec<Arc<str>> = Vec::new();
//! let sandbox_image = runtime.status().await?.sandbox_image;
//! if let Some(reference) = &sandbox_image {
//!     kept.extend(runtime.image_id(reference).await?);
//!     kept.push(reference.clone());
//! }
//! let runtime = Arc::new(KeepImages::new(runtime, kept));
//! println!("not there, or misspelled: {:?}", runtime.unmatched().await?);
//! let (pods, clock) = (ReadySandboxes::new(runtime.clone()), TokioClock::new());
//! let world = Environment { runtime: &*runtime, logs: None, pods: &pods, clock: &clock };
//! let policy = Policy::new(&PolicySpec::default(), "1.36.0".parse()?)?;
//! // Before 1.29, the planner itself protects it.
//! let mut node = Node::new(world, Settings { sandbox_image, ..Settings::from(&policy) });
//! loop {
//!     // Above the high threshold, the least recently used images are removed. Their use is known from the first
//!     // run on.
//!     let report = node.collect_images().await;
//!     println!("{:#?} {:?}", report.performed, report.error());
//!     clock.sleep_until(clock.now().saturating_add(Duration::from_secs(300))).await;
//! }
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
mod socket;
mod status;

pub use connect::{CriRuntime, RuntimeVersion};
pub use endpoint::{Endpoint, EndpointError};
pub use error::ConnectError;
pub use file_systems::{FileSystems, MountedFileSystem};
pub use kubegc_tokio::TokioClock;
pub use logs::HostLogs;
pub use options::Options;
pub use status::{Condition, RuntimeStatus};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
