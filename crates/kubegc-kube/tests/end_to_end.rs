//! The collector on a simulated cluster, through a client: cascades, leadership, events, snapshots.

use std::{collections::BTreeSet, fmt::Debug, time::Duration};

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Event, Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, PostParams},
};
use kubegc_kube::{GarbageCollector, SnapshotOptions, snapshot};
use kubegc_testkit::{Cluster, Fault, Rule, http::Verb};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::watch, time::sleep};

use crate::common::{Running, cluster, set};

const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];

fn owner<K: Resource<DynamicType = ()>>(of: &K) -> OwnerReference {
    OwnerReference {
        block_owner_deletion: Some(true),
        ..of.owner_ref(&()).expect("stored")
    }
}

async fn create<K>(client: &Client, namespace: &str, name: &str, owners: Vec<OwnerReference>) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Default + Clone + Debug,
    K: Serialize + DeserializeOwned,
{
    let mut object = K::default();
    object.meta_mut().name = Some(name.to_owned());
    object.meta_mut().owner_references = Some(owners).filter(|owners| !owners.is_empty());
    let api = Api::namespaced(client.clone(), namespace);
    let created = api.create(&PostParams::default(), &object).await;
    created.expect("created")
}

/// root (config map) <- middle (secret) <- leaf (config map), and another secret.
async fn family(client: &Client) {
    let root: ConfigMap = create(client, "shop", "root", Vec::new()).await;
    let middle: Secret = create(client, "shop", "middle", vec![owner(&root)]).await;
    create::<ConfigMap>(client, "shop", "leaf", vec![owner(&middle)]).await;
    create::<Secret>(client, "shop", "other", Vec::new()).await;
}

async fn delete_root(client: &Client, policy: &str) {
    let params = match policy {
        "Background" => DeleteParams::background(),
        "Foreground" => DeleteParams::foreground(),
        _ => DeleteParams::orphan(),
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");
    api.delete("root", &params).await.expect("deleted");
}

/// The names of all config maps and secrets.
fn names(cluster: &Cluster) -> BTreeSet<String> {
    let maps = cluster.find_all::<ConfigMap>().into_iter();
    let secrets = cluster.find_all::<Secret>().into_iter();
    let secrets = secrets.map(|secret| secret.name_any());
    maps.map(|map| map.name_any()).chain(secrets).collect()
}

fn collector(cluster: &Cluster) -> GarbageCollector {
    GarbageCollector::new(cluster.client_as("kubegc"))
}

#[tokio::test(start_paused = true)]
async fn a_cascade_completes_under_all_three_policies() {
    for version in ["1.14.0", "1.20.2", "1.28.0", "1.36.0"] {
        for policy in POLICIES {
            let cluster = cluster(version);
            let client = cluster.client();
            family(&client).await;
            let collecting = Running::start(|stop| collector(&cluster).run(stop));
            sleep(Duration::from_secs(5)).await;
            delete_root(&client, policy).await;
            sleep(Duration::from_secs(20)).await;
            let left: &[&str] = match policy {
                "Orphan" => &["middle", "leaf", "other"],
                _ => &["other"],
            };
            assert_eq!(names(&cluster), set(left), "{version} {policy}");
            if let Some(middle) = cluster.find::<Secret>("shop", "middle") {
                assert!(middle.owner_references().is_empty(), "{version}: it was released");
            }
            let summary = collecting.end().await;
            assert_eq!(summary.terms, 1, "{version} {policy}");
            assert_eq!(summary.writes_failed, 0, "{version} {policy}");
            assert!(summary.writes > 0 && summary.unsynced.is_empty(), "{summary:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_former_leader_starts_no_write_and_loses_no_response() {
    let cluster = cluster("1.36.0");
    let client = cluster.client();
    let root: ConfigMap = create(&client, "shop", "root", Vec::new()).await;
    for at in 0..60 {
        create::<Secret>(&client, "shop", &format!("dependent-{at}"), vec![owner(&root)]).await;
    }
    let slow = Rule::new(Fault::Delay(Duration::from_secs(1))).on(Verb::Delete);
    cluster.faults().add(slow.client("kubegc").always());
    let (leads, leading) = watch::channel(false);
    let running = Running::start(|stop| collector(&cluster).run_while_leading(leading, stop));
    sleep(Duration::from_secs(60)).await;
    assert!(cluster.audit().by("kubegc").writes().is_empty());
    leads.send_replace(true);
    sleep(Duration::from_secs(5)).await;
    delete_root(&client, "Foreground").await;
    sleep(Duration::from_millis(1_500)).await;
    leads.send_replace(false);
    sleep(Duration::from_millis(100)).await;
    let begun = cluster.audit().by("kubegc").verb(Verb::Delete).len();
    sleep(Duration::from_secs(60)).await;
    let deletes = cluster.audit().by("kubegc").verb(Verb::Delete).len();
    assert!(begun > 0 && begun < 60, "in the middle of the cascade: {begun}");
    // Requests in flight are reported when they end.
    assert!(deletes <= begun + 20, "{begun} and then {deletes}");
    assert!(names(&cluster).len() > 1, "some are left");
    leads.send_replace(true);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(names(&cluster), BTreeSet::new());
    assert_eq!(running.end().await.terms, 2);
}

#[tokio::test(start_paused = true)]
async fn a_reference_into_another_namespace_is_an_event() {
    let cluster = cluster("1.36.0");
    let client = cluster.client();
    let root: ConfigMap = create(&client, "shop", "root", Vec::new()).await;
    let collecting = Running::start(|stop| collector(&cluster).run(stop));
    sleep(Duration::from_secs(5)).await;
    create::<Secret>(&client, "yard", "stray", vec![owner(&root)]).await;
    sleep(Duration::from_secs(20)).await;
    let events = cluster.find_all::<Event>();
    assert!(!events.is_empty());
    let event = &events[0];
    assert_eq!(event.metadata.namespace.as_deref(), Some("yard"));
    assert_eq!(event.reason.as_deref(), Some("OwnerRefInvalidNamespace"));
    assert_eq!(event.involved_object.name.as_deref(), Some("stray"));
    assert!(names(&cluster).contains("root"));
    assert!(collecting.end().await.warnings > 0);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_declares_the_kinds_that_it_listed_complete() {
    let cluster = cluster("1.36.0");
    let client = cluster.client();
    family(&client).await;
    let me = cluster.client_as("reader");
    for (resource, code) in [("secrets", 403), ("services", 500)] {
        let rule = Rule::new(Fault::status(code)).on(Verb::List).resource(resource);
        cluster.faults().add(rule.always());
    }
    let mut options = SnapshotOptions::default();
    let snapshot = snapshot(&me, &options).await.expect("a snapshot");
    let of = |group: &str, kind: &str| snapshot.completeness.of(group, kind);
    for (group, kind, complete) in [
        ("", "ConfigMap", true),
        ("", "Pod", true),
        ("", "Namespace", true),
        ("apps", "Deployment", true),
        ("", "Secret", false),
        ("", "Service", false),
        ("", "Event", false),
        ("", "Binding", false),
        ("example.com", "Widget", false),
    ] {
        let got = of(group, kind);
        assert_eq!(got.is_complete(), complete, "{kind}: {got:?}");
    }
    let secrets = format!("{:?}", of("", "Secret"));
    assert!(secrets.contains("forbidden"), "{secrets}");
    let shop = snapshot.find("", "Namespace", "", "shop").expect("there");
    assert!(shop.details().is_some(), "namespaces are read whole");
    let leaf = snapshot.find("", "ConfigMap", "shop", "leaf").expect("there");
    assert!(leaf.details().is_none(), "only metadata is read of others");
    assert!(snapshot.findings.is_empty(), "{:?}", snapshot.findings);
    options.whole = true;
    let snapshot = kubegc_kube::snapshot(&me, &options).await.expect("a snapshot");
    let leaf = snapshot.find("", "ConfigMap", "shop", "leaf").expect("there");
    assert!(leaf.details().is_some(), "all kinds are read whole");
}

/// All kinds that the collector of a version monitors are listed, so that a forecast misses no dependent.
#[tokio::test(start_paused = true)]
async fn a_snapshot_omits_kinds_that_the_collector_of_the_version_ignores() {
    for (version, complete) in [
        ("1.20.2", true),
        ("1.24.0", true),
        ("1.25.0", false),
        ("1.36.0", false),
    ] {
        let cluster = cluster(version);
        let snapshot = snapshot(&cluster.client(), &SnapshotOptions::default()).await;
        let snapshot = snapshot.expect("a snapshot");
        let of = |group: &str| snapshot.completeness.of(group, "Event").is_complete();
        assert_eq!((of(""), of("events.k8s.io")), (false, complete), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_leaves_out_the_resources_that_it_is_told_to() {
    let cluster = cluster("1.36.0");
    let mut options = SnapshotOptions::default();
    options.left_out = vec![("apps".to_owned(), "deployments".to_owned())];
    let snapshot = snapshot(&cluster.client(), &options).await.expect("a snapshot");
    let is_listed =
        ["Deployment", "ReplicaSet"].map(|kind| snapshot.completeness.of("apps", kind).is_complete());
    assert_eq!(is_listed, [false, true]);
}
