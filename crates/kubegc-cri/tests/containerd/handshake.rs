//! Status and disk usage of a runtime, and errors without a runtime or without CRI.

use std::{fs, path::Path};

use kubegc_core::Runtime;
use kubegc_cri::{ConnectError, CriRuntime, Endpoint, Options};

use crate::{
    collector::client,
    daemon::{PAUSE, ROOT, SOCKET},
    host::{Host, until},
    namespace::DISK_BYTES,
    oci::ImageSpec,
};

/// Version and state.
pub(crate) async fn the_runtime_reports_its_version_and_state(host: &Host) {
    let runtime = client().await;
    let version = runtime.version();
    assert_eq!((&*version.name, &*version.api_version), ("containerd", "v1"));
    assert_eq!(*version.version, *host.daemon.version(), "as on its command line");

    let status = runtime.status().await.expect("it responds");
    assert!(status.is_ready());
    // No plugin for networks is configured; nothing here needs one.
    let network = status
        .conditions
        .iter()
        .find(|condition| &*condition.kind == "NetworkReady");
    assert!(network.is_some_and(|network| !network.status), "{status:?}");
    assert_eq!(status.sandbox_image.as_deref(), Some(PAUSE));

    let (endpoint, detected) = CriRuntime::detect(Options::default())
        .await
        .expect("there is one");
    assert_eq!(
        (endpoint.path(), detected.version()),
        (Path::new(SOCKET), version)
    );
}

/// Capacity and free bytes come from the disk, used bytes from the runtime.
pub(crate) async fn the_disk_is_measured(host: &Host) {
    let runtime = client().await;
    let file_systems = runtime.file_systems().await.expect("it responds");
    assert_eq!(file_systems.containers, [], "1.6 reports one file system only");
    let [images] = &*file_systems.images else {
        panic!("one file system: {file_systems:?}");
    };
    assert_eq!(
        *images.mountpoint,
        format!("{ROOT}/io.containerd.snapshotter.v1.overlayfs")
    );
    let before = images.file_system;
    assert_eq!(before.capacity_bytes, Some(DISK_BYTES));
    assert!(
        before.inodes > before.inodes_free && before.inodes_free > Some(0),
        "{before:?}"
    );

    let megabytes = 12 << 20;
    fs::write(format!("{ROOT}/others-data"), vec![1; megabytes]).expect("there is room");
    let after = runtime.image_file_system().await.expect("it responds");
    let less = before.available_bytes.expect("measured") - after.available_bytes.expect("measured");
    // The runtime writes and frees some of its own meanwhile.
    assert!(less.abs_diff(megabytes as u64) < 1 << 20, "{before:?} {after:?}");

    // The runtime counts its own usage once a second.
    let used = async || {
        let now = runtime.image_file_system().await.expect("it responds");
        now.used_bytes.filter(|&used| used > 0)
    };
    let used_before = until("use is counted", used).await;
    host.import(&[ImageSpec {
        names: &["registry.invalid/web:1"],
        filling_bytes: 3 << 20,
    }])
    .await;
    until("use grows with an image", async || {
        used().await.filter(|&now| now >= used_before + (3 << 20))
    })
    .await;
}

/// Without a daemon, and with one that has no CRI.
pub(crate) async fn errors_name_the_problem_of_the_socket(host: &Host) {
    let endpoint = Endpoint::unix(SOCKET);
    let connect = async || CriRuntime::connect(&endpoint, Options::default()).await;

    host.daemon.kill();
    let path = SOCKET.into();
    assert_eq!(
        connect().await.err(),
        Some(ConnectError::NoListener { path }),
        "the killed daemon left its socket"
    );

    host.daemon.start_without_cri();
    // Until the new daemon replaces the old socket, there is no socket or no listener.
    until("a daemon without CRI says so", async || {
        let refused = connect().await.err();
        refused.filter(|error| matches!(error, ConnectError::WrongApi { .. }))
    })
    .await;

    host.daemon.kill();
    fs::remove_file(SOCKET).expect("it was left");
    let path = SOCKET.into();
    assert_eq!(connect().await.err(), Some(ConnectError::NoSocket { path }));
    let detected = CriRuntime::detect(Options::default()).await;
    assert!(
        matches!(detected, Err(ConnectError::NoRuntime { .. })),
        "{detected:?}"
    );
}
