//! Whole runs with failing calls and broken connections: nothing else is removed instead, writes are sent
//! only on the connection of their listings, and a later run finishes.

use kubegc_core::{Runtime, RuntimeError};
use kubegc_node::driver::Outcome;
use tonic::Code;

use crate::{
    busy::{busy_node as busy, left},
    calls::{call, small},
    server::{Fault, Rule, Server},
    sim::{Reports, Simulated, collect},
};

/// The release whose rules the runs follow.
const RELEASE: &str = "1.36.0";

fn outcomes(reports: &Reports) -> impl Iterator<Item = &Outcome> {
    let performed = reports
        .containers
        .performed
        .iter()
        .chain(&reports.images.performed);
    performed.map(|performed| &performed.outcome)
}

/// Whether a run reports an error.
fn has_error(reports: &Reports) -> bool {
    reports.containers.error().is_some()
        || reports.images.error().is_some()
        || !outcomes(reports).all(|outcome| *outcome == Outcome::Done)
}

#[tokio::test]
async fn a_failed_call_removes_nothing_else_and_later_collections_finish() {
    let (undisturbed, clock) = busy();
    let before = left(&undisturbed);
    collect(&undisturbed, &undisturbed, &clock, RELEASE).await;
    let after = left(&undisturbed);
    let calls = {
        let (sim, clock) = busy();
        let server = Server::start(Simulated(sim.clone()));
        let runtime = server.connect().await;
        collect(&runtime, &sim, &clock, RELEASE).await;
        assert_eq!(left(&sim), after);
        server.take_methods()
    };
    assert!(calls.len() > 25, "{calls:?}");
    for fault in [
        Fault::Fail(Code::Unavailable, "try again"),
        Fault::Fail(Code::Unimplemented, "unknown method"),
        Fault::Vanish,
        Fault::Cut,
        Fault::CutAfter,
    ] {
        for (skip, method) in calls.iter().enumerate() {
            let at = format!("{fault:?} of call {skip}, {method}");
            let (sim, clock) = busy();
            let server = Server::start(Simulated(sim.clone()));
            let runtime = server.connect().await;
            server.script([Rule::once("*", skip, fault.clone())]);
            let reports = collect(&runtime, &sim, &clock, RELEASE).await;
            let now = left(&sim);
            assert!(
                after.is_subset(&now),
                "{at}: removed instead of another: {:?}",
                &after - &now
            );
            assert!(now.is_subset(&before), "{at}");
            // A stop or removal of a missing object counts as done.
            let is_write = !method.starts_with("List") && *method != "ContainerStatus";
            let is_success = matches!(fault, Fault::Vanish) && is_write;
            assert_eq!(has_error(&reports), !is_success, "{at}: {reports:?}");
            assert!(server.take_calls().len() > 5, "{at}");
            server.script([]);
            for _ in 0..2 {
                collect(&runtime, &sim, &clock, RELEASE).await;
            }
            assert_eq!(left(&sim), after, "{at}");
            let violations = sim.violations();
            assert_eq!(violations, [], "{at}");
        }
    }
}

#[tokio::test]
async fn a_runtime_killed_during_a_run_causes_errors_and_the_next_run_finishes() {
    let (undisturbed, clock) = busy();
    collect(&undisturbed, &undisturbed, &clock, RELEASE).await;
    let after = left(&undisturbed);
    for (method, skip) in [
        ("RemoveContainer", 2),
        ("ListPodSandbox", 0),
        ("RemovePodSandbox", 1),
        ("RemoveImage", 0),
    ] {
        let (sim, clock) = busy();
        let mut server = Server::start(Simulated(sim.clone()));
        let runtime = server.connect().await;
        server.script([Rule::once(method, skip, Fault::Hang)]);
        let kill = async {
            server.reached(method, skip + 1).await;
            server.kill().await;
        };
        let (reports, ()) = tokio::join!(collect(&runtime, &sim, &clock, RELEASE), kill);
        assert!(has_error(&reports), "{method}");
        let now = left(&sim);
        assert!(after.is_subset(&now), "{method}: {:?}", &after - &now);
        // While the runtime is down, a run plans and performs nothing.
        let reports = collect(&runtime, &sim, &clock, RELEASE).await;
        assert!(
            has_error(&reports) && outcomes(&reports).all(|outcome| *outcome == Outcome::Done),
            "{reports:?}"
        );
        server.clear();
        server.restart();
        collect(&runtime, &sim, &clock, RELEASE).await;
        assert_eq!(left(&sim), after, "{method}");
        assert_eq!(sim.violations(), [], "{method}");
    }
}

#[tokio::test]
async fn after_a_broken_connection_writes_wait_for_new_listings() {
    // The listings that a write depends on; the write is sent once all of them are repeated.
    for (method, rests_on) in [
        ("StopContainer", &["ListContainers"][..]),
        ("RemoveContainer", &["ListContainers"]),
        ("StopPodSandbox", &["ListContainers", "ListPodSandbox"]),
        ("RemovePodSandbox", &["ListPodSandbox", "ListContainers"]),
        ("RemoveImage", &["ListContainers", "ListImages"]),
        ("RemoveImage", &["ListImages", "ListContainers"]),
    ] {
        let mut server = small();
        let runtime = server.connect().await;
        let write = async || call(&runtime, method).await;
        for listing in ["ListContainers", "ListPodSandbox", "ListImages"] {
            assert_eq!(call(&runtime, listing).await, Ok(()));
        }
        server.kill().await;
        server.clear();
        server.restart();
        server.take_calls();
        let list_again = Err(RuntimeError::refused(format!(
            "rpc error: code = Unavailable desc = connection error: {}: the connection of the listing is closed, and another runtime may listen there now: list again",
            server.path().display()
        )));
        // The client may not have detected the broken connection yet; then this call finds that it is lost.
        assert!(write().await.is_err(), "{method}");
        // First there is no new connection; then a call without a listing opens one; then one listing of two
        // is not enough.
        assert_eq!(write().await, list_again, "{method}");
        runtime.status().await.expect_err("it says nothing");
        assert_eq!(server.take_methods(), ["Status"], "{method}");
        for listing in rests_on {
            assert_eq!(write().await, list_again, "{method} before {listing}");
            // A failed listing does not count.
            server.script([Rule::once(listing, 0, Fault::Fail(Code::Unknown, "not now"))]);
            assert!(call(&runtime, listing).await.is_err(), "it fails");
            assert_eq!(write().await, list_again, "{method} after {listing} failed");
            assert_eq!(call(&runtime, listing).await, Ok(()));
        }
        assert!(!server.take_methods().contains(&method));
        assert_eq!(write().await, Ok(()), "{method}");
        assert_eq!(server.take_methods(), [method]);
    }
}

#[tokio::test]
async fn missing_listings_do_not_block_writes_and_reads_open_the_connection() {
    let mut server = small();
    let runtime = server.connect().await;
    server.kill().await;
    server.clear();
    server.restart();
    // The first connection is closed, and a write opens no other.
    assert!(runtime.remove_image("i", "").await.is_err());
    assert_eq!(runtime.container_status("d").await, Err(RuntimeError::NotFound));
    assert_eq!(runtime.remove_image("i", "").await, Ok(()));
}

#[tokio::test]
async fn no_action_of_a_plan_is_sent_to_another_runtime_that_takes_over_the_socket() {
    for (method, skip) in [
        ("ContainerStatus", 0),
        ("RemoveContainer", 1),
        ("ListPodSandbox", 0),
        ("StopPodSandbox", 0),
        ("RemovePodSandbox", 1),
        ("ListImages", 0),
        ("RemoveImage", 0),
    ] {
        let (sim, clock) = busy();
        let mut server = Server::start(Simulated(sim.clone()));
        let runtime = server.connect().await;
        // With the same containers, so that all that is planned could be done to it as well.
        let (other_sim, _) = busy();
        let mut other = Server::start(Simulated(other_sim.clone()));
        other.kill().await;
        let before = left(&other_sim);
        server.script([Rule::once(method, skip, Fault::Hang)]);
        let taking = async {
            server.reached(method, skip + 1).await;
            server.kill().await;
            server.clear();
            other.listen_at(&server.path());
        };
        let (reports, ()) = tokio::join!(collect(&runtime, &sim, &clock, RELEASE), taking);
        // It receives writes only for objects that it has listed before, in the same stage.
        let calls = other.take_methods();
        let position = |name: &str| calls.iter().position(|call| *call == name);
        for (write, listing) in [
            ("StopContainer", "ListContainers"),
            ("RemoveContainer", "ListContainers"),
            ("StopPodSandbox", "ListPodSandbox"),
            ("StopPodSandbox", "ListContainers"),
            ("RemovePodSandbox", "ListPodSandbox"),
            ("RemoveImage", "ListImages"),
            ("RemoveImage", "ListContainers"),
        ] {
            if let Some(written) = position(write) {
                let listed = position(listing);
                assert!(
                    listed.is_some_and(|listed| listed < written),
                    "{method}: {calls:?}"
                );
            }
        }
        let stage = match method {
            "ContainerStatus" | "RemoveContainer" => "container ",
            "ListPodSandbox" | "StopPodSandbox" | "RemovePodSandbox" => "sandbox ",
            _ => "image ",
        };
        let removed = &before - &left(&other_sim);
        assert!(
            removed.iter().all(|object| !object.starts_with(stage)),
            "{method}: {removed:?}"
        );
        let refused = outcomes(&reports).filter(|outcome| match outcome {
            Outcome::NotRemoved(error) | Outcome::NotStopped(error) => {
                error.to_string().ends_with("list again")
            }
            _ => false,
        });
        if method.starts_with("Remove") || method == "StopPodSandbox" {
            assert!(refused.count() > 0, "{method}: {reports:?}");
        }
        assert_eq!(other_sim.violations(), [], "{method}");
    }
}
