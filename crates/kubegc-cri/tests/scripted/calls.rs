//! Single calls: messages on the wire, the meaning of errors, large listings, deadlines, and the client's
//! recovery.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_core::{Runtime, RuntimeError};
use kubegc_cri::{CriRuntime, Options};
use tokio::{sync::Notify, time::Instant};
use tonic::Code;

use crate::{
    convert::spec,
    server::{Call, Fault, Rule, Server},
    tables::{Reported, Tables, container, image, sandbox},
    wire,
};

/// A runtime with one container, one sandbox and one image.
pub(crate) fn small() -> Server<Reported> {
    let status = wire::ContainerStatus {
        id: "c".to_owned(),
        state: 2,
        ..wire::ContainerStatus::default()
    };
    Server::start(Reported::new(Tables {
        containers: vec![container("c")],
        sandboxes: vec![sandbox("s")],
        images: vec![image("i")],
        statuses: [("c".to_owned(), Some(status))].into(),
        ..Tables::default()
    }))
}

/// The calls that only read, by CRI's names.
const READS: [&str; 7] = [
    "ListContainers",
    "ListPodSandbox",
    "ListImages",
    "ImageFsInfo",
    "ContainerStatus",
    "ImageStatus",
    "Status",
];

/// The calls that change something.
const WRITES: [&str; 5] = [
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
    "RemoveImage",
];

/// Performs a call on the objects of [`small`].
pub(crate) async fn call(runtime: &CriRuntime, method: &str) -> Result<(), RuntimeError> {
    let object = match method {
        "StopPodSandbox" | "RemovePodSandbox" => "s",
        "RemoveImage" | "ImageStatus" => "i",
        _ => "c",
    };
    call_on(runtime, method, object).await
}

/// Performs a call on this id.
async fn call_on(runtime: &CriRuntime, method: &str, id: &str) -> Result<(), RuntimeError> {
    match method {
        "ListContainers" => runtime.containers().await.map(drop),
        "ListPodSandbox" => runtime.sandboxes().await.map(drop),
        "ListImages" => runtime.images().await.map(drop),
        "ImageFsInfo" => runtime.image_file_system().await.map(drop),
        "ContainerStatus" => runtime.container_status(id).await.map(drop),
        "ImageStatus" => runtime.image_id(id).await.map(drop),
        "Status" => runtime.status().await.map(drop),
        "StopContainer" => runtime.stop_container(id, 30).await,
        "RemoveContainer" => runtime.remove_container(id).await,
        "StopPodSandbox" => runtime.stop_sandbox(id).await,
        "RemovePodSandbox" => runtime.remove_sandbox(id).await,
        "RemoveImage" => runtime.remove_image(id, "").await,
        other => panic!("there is no call {other}"),
    }
}

#[tokio::test]
async fn without_an_id_nothing_is_sent() {
    let server = small();
    let runtime = server.connect().await;
    for method in WRITES {
        let refused = RuntimeError::refused(format!("{method}: the id is empty"));
        assert_eq!(call_on(&runtime, method, "").await, Err(refused));
    }
    assert_eq!(server.take_calls(), []);
}

#[tokio::test]
async fn requests_have_the_kubelets_fields_and_a_deadline() {
    let server = small();
    let runtime = server.connect().await;
    for method in READS {
        drop(call(&runtime, method).await);
    }
    runtime
        .remove_image("i", "kata")
        .await
        .expect("there is none of this handler");
    for method in WRITES {
        call(&runtime, method).await.expect("done");
    }
    runtime
        .stop_container("c", u32::MAX)
        .await
        .expect("there is none any more");
    let line = |call: &Call| format!("{} {}: {}", call.grpc_timeout, call.method, call.request);
    let lines: Vec<String> = server.take_calls().iter().map(line).collect();
    let (image, of_kata) = (spec("i", ""), spec("i", "kata"));
    // No request has a filter: objects that a filter leaves out would count as absent.
    let expected = [
        "120000m ListContainers: ListContainersRequest",
        "120000m ListPodSandbox: ListPodSandboxRequest",
        "120000m ListImages: ListImagesRequest",
        "120000m ImageFsInfo: ImageFsInfoRequest",
        "120000m ContainerStatus: ContainerStatusRequest { container_id: \"c\", verbose: false }",
        &format!("120000m ImageStatus: ImageStatusRequest {{ image: Some({image:?}), verbose: false }}"),
        "120000m Status: StatusRequest { verbose: true }",
        &format!("120000m RemoveImage: RemoveImageRequest {{ image: Some({of_kata:?}) }}"),
        "150000m StopContainer: StopContainerRequest { container_id: \"c\", timeout: 30 }",
        "120000m RemoveContainer: RemoveContainerRequest { container_id: \"c\" }",
        "120000m StopPodSandbox: StopPodSandboxRequest { pod_sandbox_id: \"s\" }",
        "120000m RemovePodSandbox: RemovePodSandboxRequest { pod_sandbox_id: \"s\" }",
        &format!("120000m RemoveImage: RemoveImageRequest {{ image: Some({image:?}) }}"),
        "71582790M StopContainer: StopContainerRequest { container_id: \"c\", timeout: 4294967295 }",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn errors_of_reads_mean_no_change_and_errors_of_writes_a_possible_change() {
    let server = small();
    let runtime = server.connect().await;
    for (code, name) in [
        (Code::InvalidArgument, "InvalidArgument"),
        (Code::PermissionDenied, "PermissionDenied"),
        (Code::Unauthenticated, "Unauthenticated"),
        (Code::FailedPrecondition, "FailedPrecondition"),
        (Code::Unavailable, "Unavailable"),
        (Code::DeadlineExceeded, "DeadlineExceeded"),
        (Code::Cancelled, "Canceled"),
        (Code::Unknown, "Unknown"),
        (Code::Internal, "Internal"),
        (Code::ResourceExhausted, "ResourceExhausted"),
        (Code::Aborted, "Aborted"),
        (Code::OutOfRange, "OutOfRange"),
        (Code::DataLoss, "DataLoss"),
        (Code::AlreadyExists, "AlreadyExists"),
    ] {
        server.script([Rule::always("*", Fault::Fail(code, "input/output error"))]);
        let text = format!("rpc error: code = {name} desc = input/output error");
        for method in READS {
            let refused = Err(RuntimeError::refused(&*text));
            assert_eq!(call(&runtime, method).await, refused, "{method}");
        }
        for method in WRITES {
            let unknown = Err(RuntimeError::unknown(&*text));
            assert_eq!(call(&runtime, method).await, unknown, "{method}");
        }
    }
    server.script([Rule::always(
        "*",
        Fault::Fail(Code::Unimplemented, "unknown method"),
    )]);
    for operation in READS.into_iter().chain(WRITES) {
        let not_supported = Err(RuntimeError::NotSupported { operation });
        assert_eq!(call(&runtime, operation).await, not_supported);
    }
}

#[tokio::test]
async fn a_removed_object_is_stopped_and_removed_and_has_no_status() {
    let server = small();
    let runtime = server.connect().await;
    let tables = || server.backend.tables();
    tables().containers.clear();
    tables().sandboxes.clear();
    tables().images.clear();
    tables().statuses.clear();
    for method in WRITES {
        assert_eq!(call(&runtime, method).await, Ok(()), "{method}");
    }
    assert_eq!(runtime.container_status("c").await, Err(RuntimeError::NotFound));
    assert_eq!(runtime.image_id("i").await, Ok(None));
    // NotFound is an error of a listing, not an empty one.
    server.script([Rule::always(
        "ListContainers",
        Fault::Fail(Code::NotFound, "nothing"),
    )]);
    assert_eq!(runtime.containers().await, Err(RuntimeError::NotFound));
}

#[tokio::test]
async fn a_broken_connection_makes_the_outcome_of_writes_unknown_and_the_next_call_reconnects() {
    for fault in [Fault::Cut, Fault::CutAfter] {
        for method in WRITES.into_iter().chain(READS) {
            let server = small();
            let runtime = server.connect().await;
            server.script([Rule::once(method, 0, fault.clone())]);
            let is_write = WRITES.contains(&method);
            let message = match call(&runtime, method).await {
                Err(RuntimeError::Unknown { message }) if is_write => message,
                Err(RuntimeError::Refused { message }) if !is_write => message,
                other => panic!("{method}: {other:?}"),
            };
            let start = "rpc error: code = Unavailable desc = connection lost: ";
            assert!(
                message.starts_with(start) && message.len() > start.len(),
                "{method}: {message}"
            );
            assert!(runtime.containers().await.is_ok(), "{method}");
            if is_write {
                assert_eq!(call(&runtime, method).await, Ok(()), "{method}");
            }
        }
    }
}

#[tokio::test]
async fn a_runtime_that_stops_is_an_error_until_it_runs_again() {
    let mut server = small();
    let runtime = server.connect().await;
    for _ in 0..3 {
        server.kill().await;
        // The client may not have detected the broken connection yet; then this call finds that it is lost.
        drop(runtime.containers().await);
        let text = |cause: &str| {
            format!(
                "rpc error: code = Unavailable desc = connection error: {}: {cause}",
                server.path().display()
            )
        };
        let refused = text("connection refused: no process listens on the socket; start the runtime");
        // A write was never sent, so it changed nothing.
        for method in READS.into_iter().chain(WRITES) {
            let refused = Err(RuntimeError::refused(&*refused));
            assert_eq!(call(&runtime, method).await, refused, "{method}");
        }
        server.clear();
        let missing = text("no such file: start the runtime, or name the socket that it listens on");
        let missing = Err(RuntimeError::refused(missing));
        assert_eq!(call(&runtime, "RemoveImage").await, missing);
        server.restart();
        let containers = runtime.containers().await.expect("it is back");
        assert_eq!(containers.len(), 1);
    }
}

#[tokio::test]
async fn a_dropped_call_leaves_the_client_usable() {
    let server = small();
    let runtime = server.connect().await;
    let release = Arc::new(Notify::new());
    server.script([Rule::once(
        "RemoveContainer",
        0,
        Fault::Hold(Arc::clone(&release)),
    )]);
    tokio::select! {
        biased;
        done = runtime.remove_container("c") => panic!("held, but {done:?}"),
        () = server.called("RemoveContainer") => {}
    }
    assert_eq!(runtime.containers().await.expect("listed").len(), 1);
    release.notify_one();
    assert_eq!(
        runtime.remove_container("c").await,
        Ok(()),
        "whether or not the dropped call removed it"
    );
    assert_eq!(runtime.containers().await.expect("listed").len(), 0);
    // Dropped after any number of polls, before the request is sent too.
    for polls in 0..50 {
        let mut call = runtime.images();
        for _ in 0..polls {
            let poll = async {
                tokio::select! { biased; _ = &mut call => true, () = tokio::task::yield_now() => false }
            };
            if poll.await {
                break;
            }
        }
    }
    assert_eq!(runtime.images().await.expect("listed").len(), 1);
}

#[tokio::test]
async fn clones_share_a_runtime_and_calls_run_concurrently() {
    let server = small();
    let runtime = server.connect().await;
    let until = Arc::new(Notify::new());
    server.script([Rule::once("ListContainers", 0, Fault::Hold(Arc::clone(&until)))]);
    let held = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.containers().await }
    });
    server.called("ListContainers").await;
    assert_eq!(
        runtime
            .sandboxes()
            .await
            .expect("not delayed by the other call")
            .len(),
        1
    );
    until.notify_one();
    assert_eq!(held.await.expect("no panic").expect("listed").len(), 1);
}

#[tokio::test]
async fn a_long_listing_is_read_and_one_beyond_the_limit_is_an_error() {
    let annotations: BTreeMap<_, _> = [("note".to_owned(), "x".repeat(10_000))].into();
    let wordy = |index: usize| wire::Container {
        annotations: annotations.clone(),
        ..container(&format!("c{index}"))
    };
    let server = Server::start(Reported::new(Tables {
        containers: (0..600).map(wordy).collect(),
        ..Tables::default()
    }));
    let runtime = server.connect().await;
    assert_eq!(
        runtime
            .containers()
            .await
            .expect("6 MB are below the limit")
            .len(),
        600
    );
    server.backend.tables().containers.extend((600..1_700).map(wordy));
    let error = runtime.containers().await.expect_err("17 MB are above the limit");
    let RuntimeError::Refused { message } = &error else {
        panic!("{error:?}")
    };
    assert!(
        message.starts_with(
            "rpc error: code = OutOfRange desc = Error, decoded message length too large: found 17"
        ) && message.ends_with("bytes, the limit is: 16777216 bytes"),
        "{message}"
    );
    let mut options = Options::default();
    options.message_bytes_max = 32 * 1024 * 1024;
    let roomy = CriRuntime::connect(&server.endpoint(), options)
        .await
        .expect("it speaks CRI v1");
    assert_eq!(roomy.containers().await.expect("32 MiB are allowed").len(), 1_700);
    assert_eq!(
        runtime.images().await.map(|images| images.len()),
        Ok(0),
        "the connection is still good"
    );
}

// Calls without a response in time. Tokio's clock is paused once the runtime has the call, so no test waits.

/// The error of a late call.
const LATE: &str = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";

/// A runtime that does not respond after the handshake, and a client.
async fn unresponsive(request_timeout: Duration) -> (Server<Reported>, CriRuntime) {
    let server = small();
    let mut options = Options::default();
    options.request_timeout = request_timeout;
    let runtime = CriRuntime::connect(&server.endpoint(), options)
        .await
        .expect("it speaks CRI v1");
    server.take_calls();
    server.script([Rule::always("*", Fault::Hang)]);
    (server, runtime)
}

/// The result of a call, and its duration by tokio's clock, which advances only to the next timer once
/// the runtime has the call.
async fn late<T>(server: &Server<Reported>, method: &str, call: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    let stopping = async {
        server.called(method).await;
        tokio::time::pause();
    };
    let (result, ()) = tokio::join!(call, stopping);
    let passed = began.elapsed();
    tokio::time::resume();
    server.take_calls();
    (result, passed)
}

#[tokio::test]
async fn a_missed_deadline_refuses_a_read_and_makes_a_write_unknown() {
    // Another one than the default.
    let timeout = Duration::from_secs(130);
    let (server, runtime) = unresponsive(timeout).await;
    let refused = || RuntimeError::refused(LATE);
    let unknown = || RuntimeError::unknown(LATE);
    let took = |passed: Duration, timeout: Duration| {
        assert!(
            passed >= timeout && passed < timeout + Duration::from_secs(60),
            "{passed:?}"
        );
    };
    let (result, passed) = late(&server, "ListContainers", runtime.containers()).await;
    assert_eq!(result, Err(refused()));
    took(passed, timeout);
    let (result, passed) = late(&server, "ListImages", runtime.images()).await;
    assert_eq!(result, Err(refused()));
    took(passed, timeout);
    let (result, passed) = late(&server, "RemoveImage", runtime.remove_image("i", "")).await;
    assert_eq!(result, Err(unknown()));
    took(passed, timeout);
    // The grace period is added, so the deadline does not end before it.
    let (result, passed) = late(&server, "StopContainer", runtime.stop_container("c", 300)).await;
    assert_eq!(result, Err(unknown()));
    took(passed, Duration::from_secs(430));

    server.script([]);
    assert_eq!(
        runtime
            .containers()
            .await
            .expect("the client is still good")
            .len(),
        1
    );
}
