//! Capacity and free space of the file systems that a runtime names.
//!
//! A runtime reports its own usage. Capacity and free space come from the file system itself.

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
    CriRuntime,
    bindings::{FilesystemUsage, ImageFsInfoRequest, ImageFsInfoResponse},
    call::{Failure, Method},
};

/// The file systems of a runtime.
///
/// A collector frees space on the first of [`images`](Self::images). Eviction uses both lists: if writable
/// layers are on a disk separate from images, that disk's usage counts too, and space freed on one does not
/// show on the other. See [`kubegc_node::eviction`]:
/// [`FileSystems::from_mount_points`](kubegc_node::eviction::FileSystems::from_mount_points) takes the first
/// mount point of each list, and
/// [`insert_file_system`](kubegc_node::eviction::Observations::insert_file_system) the measurement there.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSystems {
    /// File systems with images. Upstream reads the first.
    pub images: Vec<MountedFileSystem>,
    /// File systems with writable layers; empty if the runtime does not distinguish them.
    pub containers: Vec<MountedFileSystem>,
}

/// A file system, and the mount point that the runtime reports.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MountedFileSystem {
    /// A folder on it, on the runtime's host; empty if the runtime does not say.
    pub mountpoint: Arc<str>,
    /// Usage and capacity. Used bytes are the runtime's; all else is the file system's, and `None` if the
    /// folder cannot be read. It is never another file system's: below a
    /// [`host_root`](crate::Options::host_root) links are followed as the host follows them. If the system
    /// cannot do that (before Linux 5.6, or not Linux), nothing is known.
    pub file_system: FileSystem,
}

const METHOD: Method = Method::reads("ImageFsInfo");

impl CriRuntime {
    /// All file systems that the runtime names, in its order, each measured now.
    ///
    /// # Errors
    /// The runtime reports an error, or measuring one of the file systems takes longer than a call may: its
    /// server may be unavailable. File systems are measured one by one, for all clones together. While one
    /// is blocked beyond that time, every further call fails at once.
    ///
    /// # Upstream
    /// `ImageFsStats` of `stats/cri_stats_provider.go`. There a folder that does not exist, or is on no known
    /// device, leaves capacity and free bytes out too.
    pub async fn file_systems(&self) -> Result<FileSystems, RuntimeError> {
        let usages = self.usages().await?;
        Ok(FileSystems {
            images: self.measured(usages.image_filesystems).await?,
            containers: self.measured(usages.container_filesystems).await?,
        })
    }

    /// The first file system with images, measured now; no other is touched.
    pub(crate) async fn first_image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        match self.usages().await?.image_filesystems.into_iter().next() {
            Some(first) => Ok(self.measure(first).await?.file_system),
            None => Err(RuntimeError::refused("imageFs information is unavailable")),
        }
    }

    async fn usages(&self) -> Result<ImageFsInfoResponse, RuntimeError> {
        let (message, timeout) = (ImageFsInfoRequest {}, self.request_timeout);
        let response = self
            .images
            .read(METHOD, "", timeout, message, |mut link, request| async move {
                link.images.image_fs_info(request).await
            });
        match response.await {
            Ok((usages, _)) => Ok(usages),
            Err(failure) => Err(failure.of(METHOD)),
        }
    }

    async fn measured(&self, usages: Vec<FilesystemUsage>) -> Result<Vec<MountedFileSystem>, RuntimeError> {
        let mut mounted = Vec::with_capacity(usages.len());
        for usage in usages {
            mounted.push(self.measure(usage).await?);
        }
        Ok(mounted)
    }

    /// Measures one file system.
    async fn measure(&self, usage: FilesystemUsage) -> Result<MountedFileSystem, RuntimeError> {
        let mountpoint: Arc<str> = usage.fs_id.unwrap_or_default().mountpoint.into();
        let (folder, host_root) = (Arc::clone(&mountpoint), Arc::clone(&self.host_root));
        let found = self
            .measuring
            .run(&mountpoint, self.request_timeout, move || {
                look(&host_root, &folder)
            })
            .await?;
        let mut file_system = found.unwrap_or_else(|why| {
            tracing::warn!(%mountpoint, why, "the file system cannot be measured: its capacity is not known");
            FileSystem::default()
        });
        file_system.used_bytes = usage.used_bytes.map(|used| used.value);
        Ok(MountedFileSystem {
            mountpoint,
            file_system,
        })
    }
}

/// Serializes measurements of file systems, so that at most one thread is blocked.
#[derive(Debug)]
pub(crate) struct Measuring {
    turn: Arc<Semaphore>,
    /// The folder being measured, and since when.
    under_way: Arc<Mutex<Option<UnderWay>>>,
}

/// A folder being measured, and since when.
type UnderWay = (Arc<str>, Instant);

impl Default for Measuring {
    fn default() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            under_way: Arc::default(),
        }
    }
}

impl Measuring {
    /// Measures, on a thread that may block. Waits for a measurement in progress, but no longer than it may
    /// take. A thread that is blocked keeps the slot until it ends.
    async fn run<T: Send + 'static>(
        &self,
        mountpoint: &Arc<str>,
        timeout: Duration,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RuntimeError> {
        let began = Instant::now();
        let now = || self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = now()
            .as_ref()
            .map_or(timeout, |(_, since)| timeout.saturating_sub(since.elapsed()));
        let turn = Arc::clone(&self.turn).acquire_owned();
        let Ok(turn) = tokio::time::timeout(patience, turn).await else {
            let hanging = now()
                .as_ref()
                .map_or_else(Arc::default, |(hanging, _)| Arc::clone(hanging));
            let what = format!("statvfs {mountpoint}: not begun, as statvfs {hanging} is blocked: ");
            return Err(Failure::deadline(&what).of(METHOD));
        };
        *now() = Some((Arc::clone(mountpoint), Instant::now()));
        let under_way = Arc::clone(&self.under_way);
        let looking = tokio::task::spawn_blocking(move || {
            let found = look();
            *under_way.lock().unwrap_or_else(PoisonError::into_inner) = None;
            drop(turn);
            found
        });
        match tokio::time::timeout(timeout.saturating_sub(began.elapsed()), looking).await {
            Ok(Ok(found)) => Ok(found),
            // The thread does not panic; it is given up where tokio ends.
            Ok(Err(_)) => Err(RuntimeError::refused("the tokio runtime is shutting down")),
            Err(_) => Err(Failure::deadline(&format!("statvfs {mountpoint}: ")).of(METHOD)),
        }
    }
}

/// Capacity and free space, or the reason why they are unknown.
fn look(host_root: &Path, folder: &str) -> Result<FileSystem, String> {
    if !folder.starts_with('/') {
        return Err("the runtime names no absolute path".to_owned());
    }
    let found = if host_root == Path::new("/") {
        patiently(|| statvfs(folder)).map_err(|error| error.to_string())?
    } else {
        below(host_root, folder)?
    };
    Ok(FileSystem {
        capacity_bytes: Some(found.f_blocks.saturating_mul(found.f_frsize)),
        available_bytes: Some(found.f_bavail.saturating_mul(found.f_frsize)),
        used_bytes: None,
        inodes: Some(found.f_files),
        inodes_free: Some(found.f_ffree),
    })
}

/// Calls `fstatvfs` on a folder of the host, whose file systems are mounted below this root. Links and `..`
/// are resolved as on the host.
#[cfg(target_os = "linux")]
fn below(host_root: &Path, folder: &str) -> Result<StatVfs, String> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatvfs, openat, openat2};
    let place = OFlags::PATH | OFlags::CLOEXEC;
    let root = patiently(|| openat(CWD, host_root, place | OFlags::DIRECTORY, Mode::empty()))
        .map_err(|error| format!("{}: {error}", host_root.display()))?;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let folder =
        patiently(|| openat2(&root, folder, place, Mode::empty(), inside)).map_err(|error| match error {
            io::Errno::NOSYS => {
                "the system cannot follow links as the host does (openat2, Linux 5.6)".to_owned()
            }
            error => error.to_string(),
        })?;
    patiently(|| fstatvfs(&folder)).map_err(|error| error.to_string())
}

/// Without a way to follow links as the host does, another disk might be measured.
#[cfg(not(target_os = "linux"))]
fn below(_host_root: &Path, _folder: &str) -> Result<StatVfs, String> {
    Err("below another root, only Linux can follow links as the host does".to_owned())
}

/// Repeats a call that signals interrupt, and a few times more if a file is being renamed meanwhile.
fn patiently<T>(mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut renamed = 0;
    loop {
        match read() {
            Err(io::Errno::INTR) => {}
            Err(io::Errno::AGAIN) if renamed < 16 => renamed += 1,
            response => return response,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use kubegc_core::RuntimeError;

    use super::Measuring;

    #[tokio::test]
    async fn no_measurement_starts_while_another_hangs() {
        let late = |what: &str| {
            RuntimeError::refused(format!(
                "rpc error: code = DeadlineExceeded desc = {what}context deadline exceeded"
            ))
        };
        let measuring = Measuring::default();
        let (end, ended) = mpsc::channel::<()>();
        let hanging = move || ended.recv().is_ok();
        let given_up = measuring.run(&"/nfs".into(), Duration::ZERO, hanging).await;
        assert_eq!(given_up, Err(late("statvfs /nfs: ")));
        for _ in 0..3 {
            let refused = measuring.run(&"/disk".into(), Duration::ZERO, || true).await;
            let why = "statvfs /disk: not begun, as statvfs /nfs is blocked: ";
            assert_eq!(refused, Err(late(why)));
        }
        // A caller with a longer timeout waits for its slot.
        let minute = Duration::from_secs(60);
        let disk = "/disk".into();
        let waiting = measuring.run(&disk, minute, || true);
        let freeing = async { end.send(()) };
        let (measured, freed) = tokio::join!(biased; waiting, freeing);
        assert_eq!((measured, freed), (Ok(true), Ok(())));
        assert_eq!(measuring.run(&disk, minute, || true).await, Ok(true));
    }
}
