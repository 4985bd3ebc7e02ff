//! A CRI client, file system measurements and log file access for the garbage collection of a node.
//!
//! The planners of [`kubegc_node`] decide what is removed. [`CriRuntime`] sends CRI requests to containerd,
//! CRI-O or another runtime over its unix socket. Unix only.
//!
//! | needed by [`kubegc_node`] | provided by |
//! |---|---|
//! | containers, sandboxes, images; stopping and removing them | [`CriRuntime`], which is a [`kubegc_core::Runtime`] |
//! | bytes that images use | the runtime, through [`CriRuntime`] |
//! | capacity, available bytes, inodes | `statvfs` of the directory that the runtime reports ([`CriRuntime::file_systems`]) |
//! | pod logs and the links to container logs | [`HostLogs`], which is a [`kubegc_core::LogDirectory`] |
//! | the pods that exist | a [`kubegc_core::PodSource`], such as [`ReadySandboxes`] |
//! | the sandbox image, for releases before 1.29 | [`CriRuntime::status`], if the runtime reports it |
//! | the clock | [`TokioClock`] |
//!
//! # Safety rules
//!
//! - **Only the planner protects objects in use.** If requested, containerd removes a running container, or
//!   an image that containers use. Send only the requests of a plan.
//! - **A listing is complete or an error.** These are errors: a response larger than
//!   [`Options::message_bytes_max`], an entry without an id, a container without a sandbox or an image, a
//!   sandbox without a pod, and different entries with the same id. Such an entry could be the reason to keep
//!   another object. The error names the entry and the field.
//! - **Unexpected states are handled conservatively**, and logged as a warning. Such a container counts as
//!   unknown, so that it is stopped before it is removed. Such a sandbox counts as ready, so that it is kept.
//! - **Every CRI request has a deadline**, enforced here and, with `grpc-timeout`, in the runtime. That of
//!   stopping a container is longer by the grace period. Measuring a file system has a deadline too. The file
//!   operations of [`HostLogs`] have none.
//! - **Writes are not retried.** If the response to a write was lost, the next listing shows its outcome.
//! - **A write uses the connection of its listing.** If the connection broke after a listing, writes that
//!   depend on it are refused until the next listing, because another runtime may listen on the socket. The
//!   run ends with errors, and the next one continues. See [`CriRuntime`].
//! - **Futures can be dropped** at any await point. A write that was sent may still be performed.
//!
//! # Failures
//!
//! A failure to connect to a runtime is a [`ConnectError`]. A failed request is a
//! [`kubegc_core::RuntimeError`], with the text that the kubelet logs
//! (`rpc error: code = Unavailable desc = ...`):
//!
//! | response | read | write | was the write performed? |
//! |---|---|---|---|
//! | `NotFound` | `NotFound` | success: the object does not exist | not necessary |
//! | `Unimplemented` | `NotSupported` | `NotSupported` | no: the server does not have the method |
//! | none: the socket cannot be opened, or the connection of the listing is closed | `Refused` | `Refused` | no: the request was not sent |
//! | any other code | `Refused` | `Unknown` | perhaps: a runtime may fail after a part of the operation, and it forwards errors of other services |
//! | no response: the connection broke, or the deadline was exceeded | `Refused` | `Unknown` | perhaps |
//!
//! # Upstream
//!
//! Requests and messages are those of the kubelet (`cri-client/pkg/remote_runtime.go` and `remote_image.go`,
//! CRI v1). Differences:
//!
//! | | kubelet | here |
//! |---|---|---|
//! | connecting | gRPC retries in the background; any error of `ImageFsInfo` fails the start | one attempt for each request; `ImageFsInfo` fails the connection only if it is not served or has no response |
//! | a broken connection | the next request uses a new one | the next read uses a new one; a write needs a new listing first |
//! | version | the field `version` must be `0.1.0` | it must not be empty; `runtime_api_version` must not be another version of CRI |
//! | an entry without metadata, id or image | is skipped, and keeps no other object | its listing is an error; a container without metadata is listed without a name |
//! | a sandbox whose metadata has no uid, or another one than its labels | belongs to the pod of its metadata, even if the uid is empty | its listing is an error; a crictl dump is read as upstream does, with a finding if there is no uid |
//! | duplicate ids | the last entry is used | equal entries are merged; others are an error |
//! | a sandbox of unknown state | is not ready, and can be removed | is ready, and kept |
//! | `NotFound` when removing | an error | success |
//! | removing an image | by id | by id, and by runtime handler if the listing has one |
//! | capacity | cAdvisor, of the device of the directory | `statvfs` of the directory |
//!
//! # The sandbox image
//!
//! No container uses the sandbox image, so image collection treats it as unused. How it is protected depends
//! on the Kubernetes version of the policy:
//!
//! - **Before 1.29**, the planner protects the image of
//!   [`Settings::sandbox_image`](kubegc_node::driver::Settings::sandbox_image). For a kubelet that is the
//!   flag `--pod-infra-container-image`; here use [`RuntimeStatus::sandbox_image`], if the runtime reports
//!   it. Each image run requests the id of the image from the runtime.
//! - **From 1.29**, the runtime must pin it. containerd 1.6 does not; for such a runtime set
//!   [`Settings::keep_images`](kubegc_node::driver::Settings::keep_images).
//!
//! `keep_images` is compared with names as texts, and the configured name of the image can be shorter than
//! the listed one: k3s configures `rancher/mirrored-pause:3.6` and lists
//! `docker.io/rancher/mirrored-pause:3.6`. So set both references: the configured name, for an image that is
//! pulled later, and the current id from [`image_id`](kubegc_core::Runtime::image_id). The last example does
//! that.
//!
//! # Examples
//!
//! An error names the problem and how to solve it:
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
//! A dry run of the kubelet's garbage collection, in which the running pods are derived from the runtime:
//! ```no_run
//! # let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # tokio.block_on(async {
//! use std::sync::Arc;
//! use kubegc_cri::{CriRuntime, Options, ReadySandboxes, TokioClock};
//! use kubegc_node::{Node, Policy, PolicySpec, Environment, container::Mode, driver::Settings};
//! let (endpoint, runtime) = CriRuntime::detect(Options::default()).await?;
//! let (runtime, clock) = (Arc::new(runtime), TokioClock::new());
//! let pods = ReadySandboxes::new(runtime.clone());
//! let environment = Environment { runtime: &*runtime, logs: None, pods: &pods, clock: &clock };
//! let policy = Policy::new(&PolicySpec::default(), "1.36.0".parse()?)?;
//! let settings = Settings { dry_run: true, ..Settings::from(&policy) };
//! let report = Node::new(environment, settings).collect_containers(Mode::Periodic).await;
//! println!("{endpoint}, {}: {:#?}", runtime.version(), report.containers.actions);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Image collection that keeps the sandbox image:
//! ```no_run
//! # let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # tokio.block_on(async {
//! use std::{sync::Arc, time::Duration};
//! use kubegc_core::{Clock, Runtime};
//! use kubegc_cri::{CriRuntime, Options, ReadySandboxes, TokioClock};
//! use kubegc_node::{Node, Policy, PolicySpec, Environment, driver::Settings};
//! let (_, runtime) = CriRuntime::detect(Options::default()).await?;
//! let mut keep_images: Vec<Arc<str>> = Vec::new();
//! let sandbox_image = runtime.status().await?.sandbox_image;
//! if let Some(reference) = &sandbox_image {
//!     keep_images.extend(runtime.image_id(reference).await?);
//!     keep_images.push(reference.clone());
//! }
//! let runtime = Arc::new(runtime);
//! let (pods, clock) = (ReadySandboxes::new(runtime.clone()), TokioClock::new());
//! let environment = Environment { runtime: &*runtime, logs: None, pods: &pods, clock: &clock };
//! let policy = Policy::new(&PolicySpec::default(), "1.36.0".parse()?)?;
//! // Before 1.29, the planner protects the sandbox image.
//! let mut node = Node::new(environment, Settings { sandbox_image, keep_images, ..Settings::from(&policy) });
//! loop {
//!     // From the high threshold on, the least recently used images are removed. The first run records their use.
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
mod pods;
mod read;
mod runtime;
mod socket;
mod status;
mod version;

pub use connect::CriRuntime;
pub use endpoint::{Endpoint, EndpointError};
pub use error::ConnectError;
pub use file_systems::{FileSystems, MountedFileSystem};
pub use kubegc_tokio::TokioClock;
pub use logs::HostLogs;
pub use options::Options;
pub use pods::ReadySandboxes;
pub use status::{Condition, RuntimeStatus};
pub use version::RuntimeVersion;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
