//! Says how much there is of the file systems that a runtime names.
//!
//! A runtime knows what it uses. What there is, and what is free, the file system itself tells.

use std::{path::Path, sync::Arc};

use kubegc_core::{RuntimeError, node_facts::FileSystem};
use rustix::{fs::statvfs, io};

use crate::{
    CriRuntime,
    bindings::{FilesystemUsage, ImageFsInfoRequest, ImageFsInfoResponse},
    call::{Failure, Method, call},
};

/// The file systems of a runtime.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSystems {
    /// File systems with images. Upstream looks at the first.
    pub images: Vec<MountedFileSystem>,
    /// File systems with writable layers; empty where the runtime does not tell them apart.
    pub containers: Vec<MountedFileSystem>,
}

/// A file system, and where the runtime says that it is.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MountedFileSystem {
    /// A folder on it, on the runtime's host; empty where the runtime does not say.
    pub mountpoint: Arc<str>,
    /// How full it is. Used bytes are the runtime's; all else is the file system's, and `None` where the folder cannot be looked at.
    pub file_system: FileSystem,
}

const METHOD: Method = Method::reads("ImageFsInfo");

impl CriRuntime {
    /// All file systems that the runtime names, in its order, each measured now.
    ///
    /// # Errors
    /// The runtime reports an error, or looking at the file systems takes longer than a call may.
    ///
    /// # Upstream
    /// `ImageFsStats` of `stats/cri_stats_provider.go`. There a folder that does not exist, or is on no known device, leaves capacity and free bytes out too.
    pub async fn file_systems(&self) -> Result<FileSystems, RuntimeError> {
        let told = self.usages().await?;
        Ok(FileSystems {
            images: self.measured(told.image_filesystems).await?,
            containers: self.measured(told.container_filesystems).await?,
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
        let mut client = self.images.clone();
        call(
            METHOD,
            "",
            self.request_timeout,
            ImageFsInfoRequest {},
            |request| async move { client.image_fs_info(request).await },
        )
        .await
        .map_err(|failure| failure.of(METHOD))
    }

    async fn measured(&self, usages: Vec<FilesystemUsage>) -> Result<Vec<MountedFileSystem>, RuntimeError> {
        let mut mounted = Vec::with_capacity(usages.len());
        for usage in usages {
            mounted.push(self.measure(usage).await?);
        }
        Ok(mounted)
    }

    /// Measures one file system, on a thread where it may block: it can be one whose server is away.
    async fn measure(&self, usage: FilesystemUsage) -> Result<MountedFileSystem, RuntimeError> {
        let mountpoint: Arc<str> = usage.fs_id.unwrap_or_default().mountpoint.into();
        let (folder, host_root) = (Arc::clone(&mountpoint), Arc::clone(&self.host_root));
        let looking = tokio::task::spawn_blocking(move || look(&host_root, &folder));
        let looked = tokio::time::timeout(self.request_timeout, looking).await;
        let found = match looked {
            Ok(Ok(found)) => found,
            // The thread does not panic; it is given up where tokio ends.
            Ok(Err(_)) => return Err(RuntimeError::refused("the tokio runtime is shutting down")),
            Err(_) => {
                let what = format!("statvfs {mountpoint}: ");
                return Err(Failure::deadline(&what).of(METHOD));
            }
        };
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

/// How much there is, and how much is free; why that is not known.
fn look(host_root: &Path, folder: &str) -> Result<FileSystem, String> {
    let Some(below) = folder.strip_prefix('/') else {
        return Err("the runtime names no absolute path".to_owned());
    };
    // Ends: repeated only while signals come in between.
    let found = loop {
        match statvfs(host_root.join(below.trim_start_matches('/'))) {
            Err(io::Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
            Ok(found) => break found,
        }
    };
    Ok(FileSystem {
        capacity_bytes: Some(found.f_blocks.saturating_mul(found.f_frsize)),
        available_bytes: Some(found.f_bavail.saturating_mul(found.f_frsize)),
        used_bytes: None,
        inodes: Some(found.f_files),
        inodes_free: Some(found.f_ffree),
    })
}
