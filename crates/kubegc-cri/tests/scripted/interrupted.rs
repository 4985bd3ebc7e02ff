//! Whole runs with failing calls: nothing else is removed instead, and a later run finishes.

use kubegc_node::driver::Outcome;
use tonic::Code;

use crate::{
    busy::{busy_node as busy, left},
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
