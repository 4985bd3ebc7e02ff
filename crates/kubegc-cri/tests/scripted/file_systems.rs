//! The file systems of a runtime.

use std::path::Path;

use kubegc_core::{Runtime, RuntimeError, node_facts::FileSystem};
use kubegc_cri::{CriRuntime, Options};

use crate::{
    server::Server,
    tables::{Reported, Tables},
    wire,
};

/// A file system that the runtime names.
fn usage(mountpoint: &str, used: Option<u64>) -> wire::FilesystemUsage {
    wire::FilesystemUsage {
        fs_id: Some(wire::FilesystemIdentifier {
            mountpoint: mountpoint.to_owned(),
        }),
        used_bytes: used.map(|value| wire::UInt64Value { value }),
        inodes_used: Some(wire::UInt64Value { value: 3 }),
        ..wire::FilesystemUsage::default()
    }
}

/// The file system's total bytes and inodes of a directory, which do not change during a test.
fn capacity_and_inodes(directory: &Path) -> (Option<u64>, Option<u64>) {
    let found = rustix::fs::statvfs(directory).expect("it is there");
    (Some(found.f_blocks * found.f_frsize), Some(found.f_files))
}

#[tokio::test]
async fn split_file_systems_are_measured_separately() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let images = directory.path().join("images");
    std::fs::create_dir(&images).expect("writable");
    let text = images.to_str().expect("UTF-8");
    let server = Server::start(Reported::new(Tables {
        file_systems: wire::ImageFsInfoResponse {
            image_filesystems: vec![usage(text, Some(700)), usage("/nowhere", None)],
            container_filesystems: vec![usage("/proc", Some(0)), wire::FilesystemUsage::default()],
        },
        ..Tables::default()
    }));
    let runtime = server.connect().await;
    let reported = runtime.file_systems().await.expect("a response");
    let [first, nowhere] = &reported.images[..] else {
        panic!("{reported:?}")
    };
    let [proc, nameless] = &reported.containers[..] else {
        panic!("{reported:?}")
    };
    assert_eq!(&*first.mountpoint, text);
    assert_eq!(
        (first.file_system.capacity_bytes, first.file_system.inodes),
        capacity_and_inodes(&images)
    );
    assert!(first.file_system.available_bytes <= first.file_system.capacity_bytes);
    assert!(first.file_system.available_bytes.is_some() && first.file_system.inodes_free.is_some());
    assert_eq!(first.file_system.used_bytes, Some(700));
    // N5.1: a file system that cannot be read has neither capacity nor free bytes.
    assert_eq!(
        (&*nowhere.mountpoint, nowhere.file_system),
        ("/nowhere", FileSystem::default())
    );
    assert_eq!(
        (&*nameless.mountpoint, nameless.file_system),
        ("", FileSystem::default())
    );
    assert_eq!(proc.file_system.capacity_bytes, Some(0), "it has no blocks");

    let first = runtime.image_file_system().await.expect("a response");
    assert_eq!(
        (first.capacity_bytes, first.used_bytes),
        (capacity_and_inodes(&images).0, Some(700))
    );
    server.backend.tables().file_systems.image_filesystems.clear();
    assert_eq!(
        runtime.image_file_system().await,
        Err(RuntimeError::refused("imageFs information is unavailable"))
    );
}

#[tokio::test]
async fn file_systems_of_the_host_are_searched_for_below_its_root() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().expect("a directory can be made");
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir(at("images")).expect("writable");
    // On this machine the targets of the links have no blocks; below the host's root they do not exist.
    symlink("/proc", at("absolute")).expect("writable");
    symlink("../../../../../../../../proc", at("above")).expect("writable");
    // On this machine the target of the link does not exist; below the host's root it is the images.
    symlink("/images", at("data")).expect("writable");
    let cases = [
        ("/images", true),
        ("//images", true),
        ("/data/.", true),
        ("/../images", true),
        ("images", false),
        ("/absolute", false),
        ("/above", false),
        ("/missing", false),
    ];
    let server = Server::start(Reported::new(Tables {
        file_systems: wire::ImageFsInfoResponse {
            image_filesystems: cases
                .iter()
                .map(|(directory, _)| usage(directory, None))
                .collect(),
            container_filesystems: Vec::new(),
        },
        ..Tables::default()
    }));
    let mut options = Options::default();
    options.host_root = directory.path().into();
    let runtime = CriRuntime::connect(&server.endpoint(), options)
        .await
        .expect("it speaks CRI v1");
    let reported = runtime.file_systems().await.expect("a response");
    for ((directory, is_known), found) in cases.iter().zip(&reported.images) {
        // On other systems than Linux links cannot be followed as on the host, and nothing is measured.
        let expected = if *is_known && cfg!(target_os = "linux") {
            capacity_and_inodes(&at("images"))
        } else {
            (None, None)
        };
        let known = (found.file_system.capacity_bytes, found.file_system.inodes);
        assert_eq!(known, expected, "{directory}");
    }
    let elsewhere = server
        .connect()
        .await
        .image_file_system()
        .await
        .expect("a response");
    assert_eq!(elsewhere, FileSystem::default());
}
