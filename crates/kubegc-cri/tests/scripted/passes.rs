//! Whole passes while things go wrong: whatever fails, nothing else goes in its place, and a later pass
//! finishes.

use kubegc_core::{Runtime, RuntimeError, node_facts::ContainerState};
use kubegc_node::driver::Outcome;
use tonic::Code;

use crate::{
    server::{Act, Rule, Server},
    sim::Simulated,
    world::{Reports, Through, busy, collect, left},
};

/// The release whose rules the passes go by.
const RELEASE: &str = "1.36.0";

/// The methods that only read, but list nothing.
const READS: [&str; 2] = ["ContainerStatus", "ImageFsInfo"];

fn outcomes(reports: &Reports) -> impl Iterator<Item = &Outcome> {
    let performed = reports
        .containers
        .performed
        .iter()
        .chain(&reports.images.performed);
    performed.map(|performed| &performed.outcome)
}

/// Whether a pass reports an error.
fn tells(reports: &Reports) -> bool {
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
        collect(
            &Through {
                runtime: &runtime,
                sim: &sim,
            },
            &sim,
            &clock,
            RELEASE,
        )
        .await;
        assert_eq!(left(&sim), after);
        server.take_methods()
    };
    assert!(calls.len() > 30, "{calls:?}");
    for act in [
        Act::Fail(Code::Unavailable, "try again"),
        Act::Fail(Code::Unimplemented, "unknown method"),
        Act::Vanish,
        Act::Cut,
        Act::CutAfter,
    ] {
        for (skip, method) in calls.iter().enumerate() {
            let at = format!("{act:?} of call {skip}, {method}");
            let (sim, clock) = busy();
            let server = Server::start(Simulated(sim.clone()));
            let runtime = server.connect().await;
            let through = Through {
                runtime: &runtime,
                sim: &sim,
            };
            server.script([Rule::once("*", skip, act.clone())]);
            let reports = collect(&through, &sim, &clock, RELEASE).await;
            let now = left(&sim);
            assert!(
                after.is_subset(&now),
                "{at}: gone in place of another: {:?}",
                &after - &now
            );
            assert!(now.is_subset(&before), "{at}");
            // What is not found any more is as good as stopped or removed.
            let is_success =
                matches!(act, Act::Vanish) && !method.starts_with("List") && !READS.contains(method);
            assert_eq!(tells(&reports), !is_success, "{at}: {reports:?}");
            assert!(server.take_calls().len() > 5, "{at}");
            server.script([]);
            for _ in 0..2 {
                collect(&through, &sim, &clock, RELEASE).await;
            }
            assert_eq!(left(&sim), after, "{at}");
            let violations = sim.violations();
            assert_eq!(violations, [], "{at}");
        }
    }
}

#[tokio::test]
async fn a_runtime_that_dies_in_the_middle_of_a_pass_gives_errors_and_the_next_pass_finishes() {
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
        let through = Through {
            runtime: &runtime,
            sim: &sim,
        };
        server.script([Rule::once(method, skip, Act::Hang)]);
        let dying = async {
            server.reached(method, skip + 1).await;
            server.die().await;
        };
        let (reports, ()) = tokio::join!(collect(&through, &sim, &clock, RELEASE), dying);
        assert!(tells(&reports), "{method}");
        let now = left(&sim);
        assert!(after.is_subset(&now), "{method}: {:?}", &after - &now);
        // Dead, it plans and performs nothing.
        let reports = collect(&through, &sim, &clock, RELEASE).await;
        assert!(
            tells(&reports) && outcomes(&reports).all(|outcome| *outcome == Outcome::Done),
            "{reports:?}"
        );
        server.clear();
        server.restart();
        collect(&through, &sim, &clock, RELEASE).await;
        assert_eq!(left(&sim), after, "{method}");
        assert_eq!(sim.violations(), [], "{method}");
    }
}

#[tokio::test]
async fn a_listing_that_is_half_or_too_long_plans_nothing() {
    let (sim, clock) = busy();
    let first = sim.all_containers();
    let dead = first
        .iter()
        .find(|container| container.state == ContainerState::Exited)
        .expect("there are some");
    sim.edit_container(&dead.id, |container| container.image = Default::default())
        .expect("there is one");
    let before = left(&sim);
    let server = Server::start(Simulated(sim.clone()));
    let runtime = server.connect().await;
    let through = Through {
        runtime: &runtime,
        sim: &sim,
    };
    let message = match runtime.containers().await {
        Err(RuntimeError::Refused { message }) => message,
        other => panic!("{other:?}"),
    };
    assert!(message.ends_with("image_ref is missing"), "{message}");
    let reports = collect(&through, &sim, &clock, RELEASE).await;
    assert_eq!(reports.containers.containers.actions, []);
    assert_eq!(reports.containers.sandboxes.actions, []);
    assert_eq!(reports.images.plan.actions, []);
    assert!(
        reports.containers.error().expect("a response").contains(&message),
        "{:?}",
        reports.containers.error()
    );
    assert!(
        reports.images.error().expect("a response").contains(&message),
        "{:?}",
        reports.images.error()
    );
    let gone = &before - &left(&sim);
    assert!(
        gone.iter()
            .all(|gone| gone.starts_with("entry ") || gone.starts_with("link ")),
        "{gone:?}"
    );

    sim.edit_container(&dead.id, |container| {
        container.image = dead.image.clone();
        container
            .annotations
            .insert("note".into(), "x".repeat(17 * 1024 * 1024).into());
    })
    .expect("there is one");
    let reports = collect(&through, &sim, &clock, RELEASE).await;
    assert!(
        reports
            .images
            .error()
            .expect("a response")
            .contains("decoded message length too large"),
        "{:?}",
        reports.images.error()
    );
    assert_eq!(reports.containers.containers.actions, []);
    assert_eq!(reports.images.plan.actions, []);
    let gone = &before - &left(&sim);
    assert!(
        gone.iter()
            .all(|gone| gone.starts_with("entry ") || gone.starts_with("link ")),
        "{gone:?}"
    );
}
