//! Calls without a response in time. Tokio's clock is paused once the runtime has the call, so no test waits.

use std::time::Duration;

use kubegc_core::{Runtime, RuntimeError};
use kubegc_cri::{CriRuntime, Options};
use tokio::time::Instant;

use crate::{
    server::{Fault, Rule, Server},
    tables::{Reported, Tables, container},
};

/// The error of a late call.
const LATE: &str = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";

/// A runtime that does not respond after the handshake, and a client.
async fn unresponsive(request_timeout: Duration) -> (Server<Reported>, CriRuntime) {
    let tables = Tables {
        containers: vec![container("c")],
        ..Tables::default()
    };
    let server = Server::start(Reported::new(tables));
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
