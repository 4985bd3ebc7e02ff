//! An operator with kube 5 in two replicas: the one that holds the Lease works, the other waits until it is
//! not renewed.

use std::time::Duration;

use kube_5::{
    Api, Client, Error,
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use kubegc_testkit::{Cluster, Fault, Rule};
use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

const LEASE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);

fn resource(group: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind))
}

/// One replica's view of the Lease. As in client-go, a leader counts as lost when its record has not changed
/// for the duration of the lease by the clock of this replica; the times in it are ignored.
struct Candidate {
    name: &'static str,
    leases: Api<DynamicObject>,
    observed: Option<(Value, Instant)>,
}

impl Candidate {
    /// Takes or renews the Lease if it is free, expired or held already. Returns whether it is held.
    async fn try_acquire(&mut self) -> Result<bool, Error> {
        let lease = self.leases.get_opt("worker").await?;
        let held = lease.as_ref().map(|lease| &lease.data["spec"]);
        let is_own = held.is_some_and(|spec| spec["holderIdentity"] == self.name);
        if let Some(spec) = held
            && self.observed.as_ref().is_none_or(|(known, _)| known != spec)
        {
            self.observed = Some((spec.clone(), Instant::now()));
        }
        let is_fresh = |(_, since): &(Value, Instant)| since.elapsed() < LEASE;
        if held.is_some() && !is_own && self.observed.as_ref().is_some_and(is_fresh) {
            return Ok(false);
        }
        let transitions = held
            .and_then(|spec| spec["leaseTransitions"].as_i64())
            .unwrap_or(0);
        let spec = json!({
            "holderIdentity": self.name,
            "leaseDurationSeconds": LEASE.as_secs(),
            "leaseTransitions": transitions + i64::from(held.is_some() && !is_own),
            "renewTime": format!("{:.6}", jiff::Timestamp::now()),
        });
        let params = PostParams::default();
        match lease {
            Some(mut lease) => {
                lease.data["spec"] = spec;
                self.leases.replace("worker", &params, &lease).await?;
            }
            None => {
                let kind = resource("coordination.k8s.io", "Lease");
                let lease = DynamicObject::new("worker", &kind).data(json!({"spec": spec}));
                self.leases.create(&params, &lease).await?;
            }
        }
        Ok(true)
    }
}

/// Renews the Lease and, while it is held, does the work: records who works.
async fn run(name: &'static str, client: Client) {
    let leases = Api::default_namespaced_with(client.clone(), &resource("coordination.k8s.io", "Lease"));
    let work = Api::<DynamicObject>::default_namespaced_with(client, &resource("", "ConfigMap"));
    let mut candidate = Candidate {
        name,
        leases,
        observed: None,
    };
    let mut held_until = None;
    loop {
        match candidate.try_acquire().await {
            Ok(true) => held_until = Some(Instant::now() + LEASE / 2),
            Ok(false) => held_until = None,
            // Another one was faster, or the API server does not respond: the Lease is given up in time.
            Err(_) => {}
        }
        if held_until.is_some_and(|until| Instant::now() < until) {
            let worker = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "work"}, "data": {"worker": name}});
            // Tried again in the next iteration.
            let _ = work
                .patch("work", &PatchParams::apply(name).force(), &Patch::Apply(worker))
                .await;
        }
        sleep(RETRY).await;
    }
}

fn start(cluster: &Cluster, name: &'static str) -> JoinHandle<()> {
    tokio::spawn(run(name, Client::new(cluster.service(name), "default")))
}

fn worker(cluster: &Cluster) -> Value {
    let work = cluster
        .get("v1", "ConfigMap", "default", "work")
        .unwrap_or_default();
    work["data"]["worker"].clone()
}

fn writes(cluster: &Cluster, name: &str) -> usize {
    cluster.audit().by(name).resource("configmaps").len()
}

#[tokio::test(start_paused = true)]
async fn another_replica_takes_over_when_the_leader_stops() {
    let cluster = Cluster::new();
    let first = start(&cluster, "replica-1");
    sleep(RETRY / 2).await;
    let second = start(&cluster, "replica-2");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(worker(&cluster), "replica-1");
    assert_eq!(writes(&cluster, "replica-2"), 0);

    first.abort();
    sleep(LEASE - RETRY * 2).await;
    assert_eq!(worker(&cluster), "replica-1");
    sleep(RETRY * 4).await;
    assert_eq!(worker(&cluster), "replica-2");
    let lease = cluster
        .get("coordination.k8s.io/v1", "Lease", "default", "worker")
        .unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1);

    // The old leader comes back and waits.
    let before = writes(&cluster, "replica-1");
    let first = start(&cluster, "replica-1");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(writes(&cluster, "replica-1"), before);
    first.abort();
    second.abort();
}

/// A leader without a response of the API server stops before another one begins.
#[tokio::test(start_paused = true)]
async fn a_leader_without_an_api_server_stops_in_time() {
    let cluster = Cluster::new();
    let first = start(&cluster, "replica-1");
    sleep(RETRY / 2).await;
    let second = start(&cluster, "replica-2");
    sleep(Duration::from_secs(10)).await;
    let outage = Fault::Refuse {
        code: 503,
        retry_after_seconds: None,
    };
    cluster
        .faults()
        .add(Rule::new(outage).client("replica-1").resource("leases").always());
    sleep(Duration::from_secs(60)).await;
    let audit = cluster.audit().resource("configmaps");
    let clients: Vec<&str> = audit.entries().map(|entry| &*entry.client).collect();
    let handed_over = clients.iter().position(|client| *client == "replica-2").unwrap();
    assert!(
        clients[handed_over..].iter().all(|client| *client == "replica-2"),
        "{audit}"
    );
    assert_eq!(worker(&cluster), "replica-2");
    first.abort();
    second.abort();
}
