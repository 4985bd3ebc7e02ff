//! Elections that cannot be held are errors, not panics, and the collector waits for a Lease that is not
//! available yet.

use std::time::Duration;

use kubegc_kube::{Error, GarbageCollector, LeaderElection};

use crate::common::{Script, status};

#[tokio::test(start_paused = true)]
async fn an_election_that_cannot_be_held_is_an_error() {
    let good = LeaderElection::new("me");
    let with = |change: &dyn Fn(&mut LeaderElection)| {
        let mut election = good.clone();
        change(&mut election);
        election
    };
    for election in [
        with(&|election| election.grace_seconds = 0),
        with(&|election| election.duration_seconds = 0),
        with(&|election| election.grace_seconds = election.duration_seconds),
        with(&|election| election.identity.clear()),
    ] {
        let script = Script::new(|_| Some(status(403)));
        let collector = GarbageCollector::new(script.client()).leader_election(election.clone());
        let run = collector.run(std::future::pending()).await;
        assert!(matches!(run, Err(Error::Lease { .. })), "{election:?}: {run:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_for_an_unavailable_lease_are_repeated_until_the_stop() {
    for script in [Script::new(|_| None), Script::new(|_| Some(status(403)))] {
        let collector = GarbageCollector::new(script.client()).leader_election(LeaderElection::new("me"));
        let summary = collector.run(tokio::time::sleep(Duration::from_secs(40))).await;
        assert_eq!(summary.expect("a stop is not an error").terms, 0);
        // After 0, 1, 3, 7, 15 and 31 s.
        assert_eq!(script.requests().len(), 6, "{:?}", script.lines());
    }
}
