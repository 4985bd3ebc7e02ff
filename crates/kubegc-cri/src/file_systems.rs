//! Measures the file systems that a runtime uses.
//!
//! The runtime reports mount points and used bytes. Capacity and available bytes are read with `statvfs`.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kubegc_core::{RuntimeError, node_facts::FileSystem};
use rustix::{
    fs::{StatVfs, statvfs},
    io,
};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    Options,
    bindings::FilesystemUsage,
    call::{Failure, Method},
};

/// The file systems of a runtime.
///
/// Image collection frees space on the first of [`images`](Self::images). Eviction uses the first file system
/// of both lists, because images and writable layers can be on different disks. Pass their mount points to
/// [`FileSystems::from_mount_points`](kubegc_node::eviction::FileSystems::from_mount_points), and their
/// measurements to [`FileSystemRole::observations`](kubegc_node::eviction::FileSystemRole::observations).
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSystems {
    /// File systems with images. Upstream uses the first one.
    pub images: Vec<MountedFileSystem>,
    /// File systems with writable layers; empty if the runtime does not distinguish them.
    pub containers: Vec<MountedFileSystem>,
}

/// A file system, and the mount point that the runtime reports.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MountedFileSystem {
    /// A directory on the file system, as a path of the runtime's host; empty if the runtime does not report
    /// it.
    pub mountpoint: Arc<str>,
    /// The measurement. The runtime reports the used bytes. The other fields are `None` if the directory
    /// cannot be measured. With a [`host_root`](Options::host_root) other than `/`, symbolic links are
    /// resolved relative to it, so that no other file system is measured. Where that is not supported (before
    /// Linux 5.6, or not Linux), the fields are `None`.
    pub file_system: FileSystem,
}

/// The method that reports file systems.
pub(crate) const METHOD: Method = Method::of_images("ImageFsInfo");

/// Serializes measurements of file systems, so that at most one thread is blocked.
#[derive(Debug)]
pub(crate) struct Measurements {
    /// One permit: that of the measurement in progress.
    semaphore: Arc<Semaphore>,
    current: Arc<Mutex<Option<Measurement>>>,
}

/// The directory of a measurement in progress, and its start.
type Measurement = (Arc<str>, Instant);

impl Default for Measurements {
    fn default() -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(1)),
            current: Arc::default(),
        }
    }
}

impl Measurements {
    /// Measures the file system that the runtime reports.
    pub(crate) async fn measure(
        &self,
        usage: FilesystemUsage,
        options: &Arc<Options>,
    ) -> Result<MountedFileSystem, RuntimeError> {
        let mountpoint: Arc<str> = usage.fs_id.unwrap_or_default().mountpoint.into();
        let (directory, options) = (Arc::clone(&mountpoint), Arc::clone(options));
        let measured = self.run(&mountpoint, options.request_timeout, move || {
            measure_directory(&options.host_root, &directory)
        });
        let mut file_system = measured.await?.unwrap_or_else(|error| {
            tracing::warn!(%mountpoint, error, "the file system cannot be measured: its capacity is unknown");
            FileSystem::default()
        });
        file_system.used_bytes = usage.used_bytes.map(|used| used.value);
        Ok(MountedFileSystem {
            mountpoint,
            file_system,
        })
    }

    /// Runs a measurement on a thread that may block. It waits for a measurement in progress, until the
    /// timeout of that one. A blocked thread keeps its permit until it ends.
    async fn run<T: Send + 'static>(
        &self,
        mountpoint: &Arc<str>,
        timeout: Duration,
        measure: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RuntimeError> {
        let started = Instant::now();
        let current = || self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let remaining = current()
            .as_ref()
            .map_or(timeout, |(_, since)| timeout.saturating_sub(since.elapsed()));
        let permit = Arc::clone(&self.semaphore).acquire_owned();
        let Ok(permit) = tokio::time::timeout(remaining, permit).await else {
            let blocked = current()
                .as_ref()
                .map_or_else(Arc::default, |(blocked, _)| Arc::clone(blocked));
            let prefix = format!("statvfs {mountpoint}: not started, because statvfs {blocked} is blocked: ");
            return Err(Failure::deadline(&prefix).of_read(METHOD));
        };
        *current() = Some((Arc::clone(mountpoint), Instant::now()));
        let in_progress = Arc::clone(&self.current);
        let measuring = tokio::task::spawn_blocking(move || {
            let measured = measure();
            *in_progress.lock().unwrap_or_else(PoisonError::into_inner) = None;
            drop(permit);
            measured
        });
        match tokio::time::timeout(timeout.saturating_sub(started.elapsed()), measuring).await {
            Ok(Ok(measured)) => Ok(measured),
            // The closure does not panic, so the task was cancelled by a shutdown.
            Ok(Err(_)) => Err(RuntimeError::refused("the tokio runtime is shutting down")),
            Err(_) => Err(Failure::deadline(&format!("statvfs {mountpoint}: ")).of_read(METHOD)),
        }
    }
}

/// Measures the file system of a directory. The error is the reason why that is not possible.
fn measure_directory(host_root: &Path, directory: &str) -> Result<FileSystem, String> {
    if !directory.starts_with('/') {
        return Err("the mount point is not an absolute path".to_owned());
    }
    let stat = if host_root == Path::new("/") {
        retry(|| statvfs(directory)).map_err(|error| error.to_string())?
    } else {
        statvfs_below(host_root, directory)?
    };
    Ok(FileSystem {
        capacity_bytes: Some(stat.f_blocks.saturating_mul(stat.f_frsize)),
        available_bytes: Some(stat.f_bavail.saturating_mul(stat.f_frsize)),
        used_bytes: None,
        inodes: Some(stat.f_files),
        inodes_free: Some(stat.f_ffree),
    })
}

/// Calls `fstatvfs` on a directory of the host. Symbolic links and `..` are resolved relative to `host_root`.
#[cfg(target_os = "linux")]
fn statvfs_below(host_root: &Path, directory: &str) -> Result<StatVfs, String> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatvfs, openat, openat2};
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = retry(|| openat(CWD, host_root, flags | OFlags::DIRECTORY, Mode::empty()))
        .map_err(|error| format!("{}: {error}", host_root.display()))?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let directory =
        retry(|| openat2(&root, directory, flags, Mode::empty(), resolve)).map_err(|error| match error {
            io::Errno::NOSYS => {
                "resolving links relative to the host's root requires openat2 (Linux 5.6)".to_owned()
            }
            error => error.to_string(),
        })?;
    retry(|| fstatvfs(&directory)).map_err(|error| error.to_string())
}

/// Always an error: without `openat2`, the file system of another directory could be measured.
#[cfg(not(target_os = "linux"))]
fn statvfs_below(_host_root: &Path, _directory: &str) -> Result<StatVfs, String> {
    Err("resolving links relative to the host's root requires Linux".to_owned())
}

/// Retries a system call after `EINTR`, and up to 16 times after `EAGAIN`, which `openat2` returns if a path
/// was renamed during the call.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut retries = 0;
    loop {
        match call() {
            Err(io::Errno::INTR) => {}
            Err(io::Errno::AGAIN) if retries < 16 => retries += 1,
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use kubegc_core::RuntimeError;

    use super::Measurements;

    #[tokio::test]
    async fn no_measurement_starts_while_another_is_blocked() {
        let exceeded = |prefix: &str| {
            RuntimeError::refused(format!(
                "rpc error: code = DeadlineExceeded desc = {prefix}context deadline exceeded"
            ))
        };
        let measurements = Measurements::default();
        let (end, ended) = mpsc::channel::<()>();
        let blocked = move || ended.recv().is_ok();
        let timed_out = measurements.run(&"/nfs".into(), Duration::ZERO, blocked).await;
        assert_eq!(timed_out, Err(exceeded("statvfs /nfs: ")));
        for _ in 0..3 {
            let refused = measurements.run(&"/disk".into(), Duration::ZERO, || true).await;
            let prefix = "statvfs /disk: not started, because statvfs /nfs is blocked: ";
            assert_eq!(refused, Err(exceeded(prefix)));
        }
        // A caller with a longer timeout waits for the permit.
        let minute = Duration::from_secs(60);
        let disk = "/disk".into();
        let waiting = measurements.run(&disk, minute, || true);
        let freeing = async { end.send(()) };
        let (measured, freed) = tokio::join!(biased; waiting, freeing);
        assert_eq!((measured, freed), (Ok(true), Ok(())));
        assert_eq!(measurements.run(&disk, minute, || true).await, Ok(true));
    }
}
