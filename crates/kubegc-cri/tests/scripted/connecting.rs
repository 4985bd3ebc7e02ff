//! Connections: the socket, its listener, and the version of CRI.

use std::{
    fs,
    os::unix::net::{UnixDatagram, UnixListener as StdListener},
    path::PathBuf,
    time::Duration,
};

use kubegc_core::Runtime;
use kubegc_cri::{ConnectError, CriRuntime, Endpoint, Options};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixListener,
};
use tonic::Code;

use crate::{
    server::{Call, Fault, Rule, Server, Serves},
    tables::{Reported, Tables, version},
    wire,
};

/// A runtime of this version.
fn of_version(name: &str, reported: &str, api: &str) -> Server<Reported> {
    Server::start(Reported::new(Tables {
        version: version(name, reported, api),
        ..Tables::default()
    }))
}

/// The error of a failed connection.
async fn failure(endpoint: &Endpoint, options: Options) -> ConnectError {
    match CriRuntime::connect(endpoint, options).await {
        Ok(connected) => panic!("connected to {}", connected.version()),
        Err(error) => error,
    }
}

/// Connects to a runtime whose connection is lost at this call.
async fn fails(endpoint: &Endpoint, method: &str) {
    let error = failure(endpoint, Options::default()).await.to_string();
    let start = format!(
        "{}: {method} failed; check whether a container runtime listens on the socket and is healthy: \
         rpc error: code = Unavailable desc = connection lost: ",
        endpoint.path().display()
    );
    assert!(error.starts_with(&start), "{error}");
}

/// The error of a detection.
async fn undetected(among: &[Endpoint], options: &Options) -> ConnectError {
    match CriRuntime::detect_among(among, options.clone()).await {
        Ok((endpoint, _)) => panic!("detected {endpoint}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_socket_that_cannot_be_opened_is_an_error_with_its_path_and_advice() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let at = |name: &str| directory.path().join(name);
    fs::write(at("file"), "").expect("writable");
    fs::create_dir(at("directory")).expect("writable");
    drop(StdListener::bind(at("left")).expect("free"));
    let _datagrams = UnixDatagram::bind(at("datagrams")).expect("free");
    std::os::unix::fs::symlink(at("gone"), at("dangling")).expect("writable");

    let long = "x".repeat(200);
    let start = ": no such file: start the runtime, or name the socket that it listens on";
    let name = ": not a socket: name the socket that the runtime listens on";
    let listen = ": connection refused: no process listens on the socket; start the runtime";
    let datagrams = ": cannot be opened: Protocol wrong type for socket (os error 91)";
    let too_long = ": cannot be opened: path must be shorter than SUN_LEN";
    for (name, text) in [
        ("missing", start),
        ("missing/runtime.sock", start),
        ("file/runtime.sock", start),
        ("dangling", start),
        ("file", name),
        ("directory", name),
        ("left", listen),
        ("datagrams", datagrams),
        (&*long, too_long),
    ] {
        let path = at(name);
        let error = failure(&Endpoint::unix(&path), Options::default()).await;
        assert_eq!(error.to_string(), format!("{}{text}", path.display()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_sends_no_response_is_abandoned_after_the_connect_timeout() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let path = directory.path().join("runtime.sock");
    let _never_accepts = UnixListener::bind(&path).expect("free");
    let began = tokio::time::Instant::now();
    let mut options = Options::default();
    options.connect_timeout = Duration::from_secs(7);
    let error = failure(&Endpoint::unix(&path), options).await;
    let waited = Duration::from_secs(7);
    assert_eq!(
        error.to_string(),
        format!(
            "{}: no response within 7s: check whether the runtime is blocked, or increase the timeout",
            path.display()
        )
    );
    let passed = began.elapsed();
    assert!(
        passed >= waited && passed < waited + Duration::from_secs(1),
        "{passed:?}"
    );
}

#[tokio::test]
async fn another_protocol_is_an_error_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let path = directory.path().join("web.sock");
    let listener = UnixListener::bind(&path).expect("free");
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut some = [0; 16];
            // The text and whether the client receives it do not matter.
            let _read = stream.read(&mut some).await;
            let _wrote = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    fails(&Endpoint::unix(&path), "Version").await;
    serving.abort();
}

#[tokio::test]
async fn the_handshake_requests_the_version_as_the_kubelet_does_and_the_image_file_system() {
    let server = Server::start(Reported::default());
    let connected = CriRuntime::connect(&server.endpoint(), Options::default())
        .await
        .expect("it speaks CRI v1");
    assert_eq!(connected.version().to_string(), "containerd 1.7.2 (CRI v1)");
    let call = |method, request: &dyn std::fmt::Debug, grpc_timeout: &str| Call {
        method,
        request: format!("{request:?}"),
        grpc_timeout: grpc_timeout.to_owned(),
    };
    let version = wire::VersionRequest {
        version: "0.1.0".to_owned(),
    };
    assert_eq!(
        server.take_calls(),
        [
            call("Version", &version, "10000000u"),
            call("ImageFsInfo", &wire::ImageFsInfoRequest {}, "120000m"),
        ]
    );
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_handshake_is_an_error() {
    let server = Server::start(Reported::default());
    server.script([Rule::always("ImageFsInfo", Fault::Cut)]);
    fails(&server.endpoint(), "ImageFsInfo").await;
}

#[tokio::test]
async fn images_can_have_an_endpoint_of_their_own() {
    let tables = |id: &str| Tables {
        images: vec![wire::Image {
            id: id.to_owned(),
            ..wire::Image::default()
        }],
        ..Tables::default()
    };
    let runtime = Server::serving(Serves::RuntimeOnly, Reported::new(tables("here")));
    let images = Server::serving(Serves::ImagesOnly, Reported::new(tables("there")));
    let mut options = Options::default();
    options.image_endpoint = Some(images.endpoint());
    let connected = CriRuntime::connect(&runtime.endpoint(), options.clone())
        .await
        .expect("both serve");
    let listed = connected.images().await.expect("listed");
    assert_eq!(
        listed.iter().map(|image| &*image.id).collect::<Vec<_>>(),
        ["there"]
    );
    assert!(connected.containers().await.is_ok());
    assert_eq!(runtime.take_methods(), ["Version", "ListContainers"]);
    assert_eq!(images.take_methods(), ["ImageFsInfo", "ListImages"]);

    let missing = runtime.directory().join("images.sock");
    options.image_endpoint = Some(Endpoint::unix(&missing));
    let error = failure(&runtime.endpoint(), options).await;
    assert_eq!(error, ConnectError::NoSocket { path: missing });
}

#[tokio::test]
async fn the_only_runtime_among_known_sockets_is_found() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let missing = Endpoint::unix(directory.path().join("missing.sock"));
    let containerd = Server::start(Reported::default());
    let disabled = Server::serving(Serves::ImagesOnly, Reported::default());
    let link = Endpoint::unix(directory.path().join("link.sock"));
    std::os::unix::fs::symlink(containerd.path(), link.path()).expect("writable");
    let crio = of_version("cri-o", "1.30.1", "v1");

    let among = [
        missing.clone(),
        disabled.endpoint(),
        link.clone(),
        containerd.endpoint(),
    ];
    let (endpoint, connected) = CriRuntime::detect_among(&among, Options::default())
        .await
        .expect("one, by two names");
    assert_eq!((endpoint, &*connected.version().name), (link, "containerd"));

    let among = [containerd.endpoint(), missing.clone(), crio.endpoint()];
    let options = Options::default();
    assert_eq!(
        undetected(&among, &options).await.to_string(),
        format!(
            "several container runtimes found: {} (containerd 1.7.2 (CRI v1)), {} (cri-o 1.30.1 (CRI v1)); set the endpoint of one of them",
            containerd.endpoint(),
            crio.endpoint()
        )
    );

    let error = undetected(&[missing.clone(), disabled.endpoint()], &options).await;
    let shown = error.to_string();
    let ConnectError::NoRuntime { tried } = error else {
        panic!("{error:?}")
    };
    let path = PathBuf::from(missing.path());
    let [no_socket, wrong_api] = &*tried else {
        panic!("{tried:?}")
    };
    assert_eq!(
        shown,
        format!("no container runtime found; tried:\n  {no_socket}\n  {wrong_api}")
    );
    assert_eq!(*no_socket, ConnectError::NoSocket { path });
    assert!(
        matches!(wrong_api, ConnectError::WrongApi { .. }),
        "{wrong_api:?}"
    );
}

#[tokio::test]
async fn a_runtime_next_to_an_unknown_socket_is_not_taken_for_the_only_one() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let mut options = Options::default();
    options.connect_timeout = Duration::from_millis(50);
    let silent = Endpoint::unix(directory.path().join("silent.sock"));
    let _never_accepts = UnixListener::bind(silent.path()).expect("free");
    let half = of_version("", "1.30.1", "v1");
    let starting = Server::start(Reported::default());
    starting.script([Rule::always(
        "Version",
        Fault::Fail(Code::Unavailable, "still starting"),
    )]);
    let datagrams = Endpoint::unix(directory.path().join("datagrams"));
    let _datagrams = UnixDatagram::bind(datagrams.path()).expect("free");
    let old = of_version("containerd", "1.5", "v1alpha2");
    let missing = Endpoint::unix(directory.path().join("missing.sock"));
    let found = Server::start(Reported::default());

    for undetermined in [silent, half.endpoint(), starting.endpoint(), datagrams] {
        let why = failure(&undetermined, options.clone()).await;
        let among = [
            missing.clone(),
            found.endpoint(),
            undetermined.clone(),
            old.endpoint(),
        ];
        let others = [2, 3, 0, 1].map(|at| among[at].clone());
        for among in [among, others] {
            let error = undetected(&among, &options).await;
            let shown = error.to_string();
            let ConnectError::Undetermined {
                found: reported,
                undetermined,
            } = error
            else {
                panic!("{error:?}")
            };
            assert_eq!((reported.len(), &reported[0].0), (1, &found.endpoint()));
            let [undetermined] = &*undetermined else {
                panic!("{undetermined:?}")
            };
            // The texts of a handshake are those of its connection.
            let is_same = matches!(
                (undetermined, &why),
                (ConnectError::Handshake { .. }, ConnectError::Handshake { .. })
            );
            assert!(is_same || *undetermined == why, "{undetermined:?}");
            assert_eq!(
                shown,
                format!(
                    "set the endpoint of the container runtime: found {} (containerd 1.7.2 (CRI v1)), and there may be another one; tried:\n  {undetermined}",
                    found.endpoint(),
                )
            );
        }
    }
    // A socket that does not support CRI v1, or does not exist, is not a runtime.
    let among = [old.endpoint(), missing, found.endpoint()];
    let (endpoint, _) = CriRuntime::detect_among(&among, options).await.expect("one");
    assert_eq!(endpoint, found.endpoint());
}
