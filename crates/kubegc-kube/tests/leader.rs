//! Elections that cannot be held are errors, not panics.

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
        // The API server refuses the lease.
        good.clone(),
    ] {
        let script = Script::new(|_| Some(status(403)));
        let collector = GarbageCollector::new(script.client()).leader_election(election.clone());
        let run = collector.run(std::future::pending()).await;
        assert!(matches!(run, Err(Error::Lease { .. })), "{election:?}: {run:?}");
    }
}
