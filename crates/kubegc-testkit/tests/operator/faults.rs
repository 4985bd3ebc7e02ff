//! An operator with faults: errors, lost responses, watches that break, expire or cannot be opened.

use std::time::Duration;

use kube::api::DeleteParams;
use kubegc_testkit::{Fault, Rule, http::Verb};

use crate::{Stage, website::OPERATOR};

/// Creates two websites and deletes one, with time between.
async fn live(stage: &Stage) {
    let going = stage.create("going").await;
    let staying = stage.create("staying").await;
    stage.settle_within(120).await;
    let deleted = stage.owned("going");
    stage.delete("going", &DeleteParams::background()).await;
    stage.settle_within(120).await;
    stage.cluster.assert_collected(&going);
    stage.cluster.assert_survives(&staying);
    stage.assert_all(&deleted, |cluster, owned| cluster.assert_collected(owned));
    stage.assert_all(&stage.owned("staying"), |cluster, owned| {
        cluster.assert_survives(owned)
    });
    assert_eq!(stage.names(), ["staying"]);
}

#[tokio::test(start_paused = true)]
async fn an_operator_recovers_from_single_faults_of_every_sort() {
    let of = |fault: Fault| Rule::new(fault).client(OPERATOR);
    let on_writes = |fault: Fault| of(fault).on_writes();
    let slow = Fault::Delay(Duration::from_secs(3));
    let rows = [
        ("errors on writes", on_writes(Fault::status(500)).times(4)),
        ("conflicts", of(Fault::status(409)).on(Verb::Update).times(6)),
        ("too many requests", on_writes(Fault::status(429)).times(3)),
        ("lost responses", on_writes(Fault::LoseResponse).times(6)),
        (
            "lost responses of removed finalizers",
            on_writes(Fault::LoseResponse)
                .resource("websites")
                .skip(2)
                .times(2),
        ),
        ("broken connections", of(Fault::Disconnect).skip(3).times(5)),
        ("lists that fail", of(Fault::status(503)).on(Verb::List).times(5)),
        ("slow responses", of(slow).times(20)),
        (
            "watches that end",
            of(Fault::EndWatch { after_events: 1 }).times(20),
        ),
        (
            "watches that break",
            of(Fault::BreakWatch { after_events: 0 }).times(5),
        ),
        (
            "watches that expire",
            of(Fault::ExpireWatch { after_events: 1 }).times(5),
        ),
    ];
    for (what, rule) in rows {
        let stage = Stage::new();
        stage.cluster.faults().add(rule);
        live(&stage).await;
        assert!(stage.cluster.faults().injected() > 0, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn random_faults_cause_no_wrong_and_no_missing_deletion() {
    let mut injected = 0;
    for seed in 0..8 {
        let stage = Stage::new();
        let faults = vec![
            Fault::status(500),
            Fault::status(409),
            Fault::Disconnect,
            Fault::LoseResponse,
            Fault::EndWatch { after_events: 0 },
            Fault::ExpireWatch { after_events: 2 },
        ];
        // The user's requests meet no faults.
        stage.create("going").await;
        stage.create("staying").await;
        stage.cluster.faults().draw(seed, 300, faults);
        stage.settle_within(300).await;
        stage.cluster.faults().clear();
        let (going, staying) = (stage.owned("going"), stage.owned("staying"));
        stage.delete("going", &DeleteParams::foreground()).await;
        let faults = vec![Fault::LoseResponse, Fault::status(503)];
        stage.cluster.faults().draw(seed, 300, faults);
        stage.settle_within(300).await;
        injected += stage.cluster.faults().injected();
        stage.cluster.faults().clear();
        stage.settle_within(300).await;
        stage.assert_all(&going, |cluster, owned| cluster.assert_collected(owned));
        stage.assert_all(&staying, |cluster, owned| cluster.assert_survives(owned));
        assert_eq!(stage.names(), ["staying"], "seed {seed}");
    }
    assert!(injected > 30, "{injected}");
}
