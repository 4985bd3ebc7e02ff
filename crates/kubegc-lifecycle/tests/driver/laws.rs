//! Whatever changes, fails, lags or comes twice: no job goes before its time, and in the end every one whose time is up has gone.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kubegc_core::{
    ApiResource, Clock as _, DeleteOptions, ObjectMeta, ObjectStore, PatchType, ResourceVersion, StoreError,
    Timestamp, WatchStream,
    store::{Address, Deleted, Discovered, MetaList},
};
use kubegc_lifecycle::{controller::Mechanism, object::Wire};
use kubegc_sim::{FaultPlan, Faulty, SharedApiServer, SimClock, fault::Fault};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Bench, at, job, only, with};

/// When a job may go at the earliest, as it is now; `None`: not at all.
fn expires(job: &Value) -> Option<Timestamp> {
    let ttl = job["spec"]["ttlSecondsAfterFinished"].as_i64()?;
    if !job["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let conditions = job["status"]["conditions"].as_array()?;
    let complete = conditions
        .iter()
        .find(|condition| condition["status"] == "True")?;
    let finished = Timestamp::parse(complete["lastTransitionTime"].as_str()?).ok()?;
    Some(finished.saturating_add(Duration::from_secs(u64::try_from(ttl).ok()?)))
}

/// Looks at every job right before it is deleted.
struct Judge {
    server: SharedApiServer,
    clock: SimClock,
}

#[async_trait]
impl ObjectStore for Judge {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        self.server.discover().await
    }

    async fn get(&self, address: Address<'_>) -> Result<ObjectMeta, StoreError> {
        self.server.get(address).await
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        self.server.list(resource, namespace).await
    }

    async fn watch(
        &self,
        resource: &ApiResource,
        since: &ResourceVersion,
    ) -> Result<Box<dyn WatchStream>, StoreError> {
        self.server.watch(resource, since).await
    }

    async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<Deleted, StoreError> {
        let live = self.server.get_object(address).await;
        let before = live.map(|live| serde_json::from_slice::<Value>(&live).expect("an object"));
        let deleted = self.server.delete(address, options).await;
        if deleted.is_ok() {
            let job = before.expect("what was deleted was there");
            let may_go = expires(&job).is_some_and(|at| at <= self.clock.now());
            assert!(may_go, "{} at {}", job, self.clock.now());
        }
        deleted
    }

    async fn patch(
        &self,
        address: Address<'_>,
        format: PatchType,
        body: &[u8],
    ) -> Result<ObjectMeta, StoreError> {
        self.server.patch(address, format, body).await
    }

    async fn get_object(&self, address: Address<'_>) -> Result<Vec<u8>, StoreError> {
        self.server.get_object(address).await
    }

    async fn list_objects(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        self.server.list_objects(resource, namespace).await
    }
}

/// What somebody does with a job.
#[derive(Clone, Debug)]
enum Deed {
    Ttl(Option<i32>),
    Finish,
    Touch,
    Delete,
    Create(i32),
    Forget,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => proptest::option::of(0..120_i32).prop_map(Deed::Ttl),
        3 => Just(Deed::Finish),
        2 => Just(Deed::Touch),
        1 => Just(Deed::Delete),
        2 => (0..120_i32).prop_map(Deed::Create),
        1 => Just(Deed::Forget),
    ]
}

fn name(index: usize) -> String {
    format!("job-{index}")
}

fn perform(bench: &Bench, index: usize, seconds: i64, deed: &Deed) {
    let name = name(index);
    if matches!(deed, Deed::Forget) {
        return bench.shared.with(|server| server.prune_events(server.revision()));
    }
    if let Deed::Create(ttl) = deed {
        if !bench.there("Job", "shop", &name) {
            let new = json!({ "metadata": { "uid": null, "creationTimestamp": null } });
            bench.create(with(job(&name, seconds, Some(*ttl)), new));
        }
        return;
    }
    if !bench.alive("Job", "shop", &name) {
        return;
    }
    match deed {
        Deed::Ttl(ttl) => {
            let patch = json!({ "spec": { "ttlSecondsAfterFinished": ttl } });
            bench.patch("Job", "shop", &name, &patch);
        }
        Deed::Finish => {
            let complete = json!([{ "type": "Complete", "status": "True", "lastTransitionTime": at(seconds).to_string() }]);
            bench.patch_status(
                "Job",
                "shop",
                &name,
                &json!({ "status": { "conditions": complete } }),
            );
        }
        Deed::Touch => {
            let patch = json!({ "metadata": { "labels": { "touched": seconds.to_string() } } });
            bench.patch("Job", "shop", &name, &patch);
        }
        _ => bench.delete("Job", "shop", &name),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn jobs_go_when_their_time_is_up_and_never_before(
        jobs in proptest::collection::vec((-200..100_i64, proptest::option::of(0..200_i32)), 1..6),
        deeds in proptest::collection::vec((1..300_i64, 0..6_usize, deed()), 0..25),
        seed in any::<u64>(),
        faults_per_mille in 0..300_u16,
        lag_secs in 0..90_u64,
        is_strict in any::<bool>(),
        workers in 1..4_usize,
    ) {
        let objects: Vec<Value> = jobs
            .iter()
            .enumerate()
            .map(|(index, (finished, ttl))| job(&name(index), *finished, *ttl))
            .collect();
        let bench = Bench::new(&objects);
        let judge = Judge { server: bench.shared.clone(), clock: bench.clock.clone() };
        let plan = FaultPlan {
            seed,
            faults_per_mille,
            faults: [500, 409, 429].iter().filter_map(|code| Fault::of_code(*code)).chain([Fault::LoseAnswer]).collect(),
            duplicates_per_mille: 200,
            coalesced_per_mille: 200,
            watch_delay_max: Duration::from_secs(lag_secs),
            ..FaultPlan::default()
        };
        let store = Arc::new(Faulty::new(judge, plan).with_clock(Arc::new(bench.clock.clone())));
        let wire = if is_strict { Wire::Strict } else { Wire::AsUpstream };
        let driver = bench.driver(store, only([Mechanism::Jobs])).wire(wire).workers(workers);
        let mut deeds = deeds;
        deeds.sort_by_key(|deed| deed.0);
        bench.run_beside(driver, 4_000, async {
            for (seconds, index, deed) in &deeds {
                bench.until(*seconds).await;
                perform(&bench, *index, *seconds, deed);
            }
        });
        for index in 0..6 {
            if let Some(job) = bench.object("Job", "shop", &name(index)) {
                prop_assert!(expires(&job).is_none_or(|expires| expires > at(4_000)), "{job}");
            }
        }
    }
}
