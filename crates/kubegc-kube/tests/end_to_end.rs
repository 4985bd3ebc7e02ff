//! The collector on a simulated cluster, through a client: cascades, kinds that fail, appear and disappear,
//! leadership, dry runs, snapshots.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Event, Namespace, Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
};
use kubegc_kube::{Error, GarbageCollector, SnapshotOptions, Summary, snapshot};
use kubegc_testkit::{Cluster, Fault, Rule, http::Verb};
use serde_json::json;
use tokio::{sync::watch, task::JoinHandle, time::sleep};

const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];

fn cluster(version: &str) -> Cluster {
    let version = version.parse().expect("known");
    Cluster::builder()
        .version(version)
        .namespace("shop")
        .without_collector()
        .build()
        .expect("valid")
}

fn owner<K: Resource<DynamicType = ()>>(of: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: of.name_any(),
        uid: of.uid().expect("stored"),
        controller: None,
        block_owner_deletion: Some(true),
    }
}

async fn config_map(client: &Client, name: &str, owners: Vec<OwnerReference>) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.owner_references = Some(owners).filter(|owners| !owners.is_empty());
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");
    api.create(&PostParams::default(), &object)
        .await
        .expect("created")
}

async fn secret(client: &Client, name: &str, owners: Vec<OwnerReference>) -> Secret {
    let mut object = Secret::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.owner_references = Some(owners).filter(|owners| !owners.is_empty());
    let api: Api<Secret> = Api::namespaced(client.clone(), "shop");
    api.create(&PostParams::default(), &object)
        .await
        .expect("created")
}

/// root (config map) <- middle (secret) <- leaf (config map), and another secret.
async fn family(client: &Client) {
    let root = config_map(client, "root", Vec::new()).await;
    let middle = secret(client, "middle", vec![owner(&root)]).await;
    config_map(client, "leaf", vec![owner(&middle)]).await;
    secret(client, "other", Vec::new()).await;
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
    let maps = cluster
        .find_all::<ConfigMap>()
        .into_iter()
        .map(|map| map.name_any());
    let secrets = cluster
        .find_all::<Secret>()
        .into_iter()
        .map(|secret| secret.name_any());
    maps.chain(secrets).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A collector in a task of its own.
struct Collecting {
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<Summary, Error>>,
}

impl Collecting {
    fn start(collector: GarbageCollector) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let stopped = async move {
            // A test that fails drops the sender.
            let _stopped = stopped.wait_for(|&stop| stop).await;
        };
        let task = tokio::spawn(collector.run(stopped));
        Self { stop, task }
    }

    async fn end(self) -> Summary {
        self.stop.send_replace(true);
        self.task.await.expect("no panic").expect("a summary")
    }
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
            let collecting = Collecting::start(collector(&cluster));
            sleep(Duration::from_secs(5)).await;
            delete_root(&client, policy).await;
            sleep(Duration::from_secs(20)).await;
            let left = if policy == "Orphan" {
                set(&["middle", "leaf", "other"])
            } else {
                set(&["other"])
            };
            assert_eq!(names(&cluster), left, "{version} {policy}");
            if let Some(middle) = cluster.find::<Secret>("shop", "middle") {
                assert!(middle.owner_references().is_empty(), "{version}: it was released");
            }
            let summary = collecting.end().await;
            assert_eq!(
                (summary.terms, summary.writes_failed),
                (1, 0),
                "{version} {policy}"
            );
            assert!(summary.writes > 0 && summary.unsynced.is_empty(), "{summary:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_list_always_fails_stops_the_others_before_1_32_only() {
    for (version, collects) in [("1.31.0", false), ("1.32.0", true), ("1.36.0", true)] {
        let cluster = cluster(version);
        let client = cluster.client();
        family(&client).await;
        cluster.faults().add(
            Rule::new(Fault::status(500))
                .on(Verb::List)
                .resource("services")
                .client("kubegc")
                .always(),
        );
        let collecting = Collecting::start(collector(&cluster));
        sleep(Duration::from_secs(1)).await;
        delete_root(&client, "Background").await;
        sleep(Duration::from_secs(25)).await;
        assert!(
            names(&cluster).contains("middle"),
            "{version}: no dependent is deleted before 30 s"
        );
        sleep(Duration::from_secs(60)).await;
        assert_eq!(!names(&cluster).contains("middle"), collects, "{version}");
        assert_eq!(collecting.end().await.unsynced, ["services"], "{version}");
    }
}

fn definition() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    })
}

#[tokio::test(start_paused = true)]
async fn kinds_appear_and_disappear_while_it_runs() {
    let cluster = cluster("1.36.0");
    let client = cluster.client();
    let root = config_map(&client, "root", Vec::new()).await;
    let collecting = Collecting::start(collector(&cluster));
    let others = cluster.run();
    sleep(Duration::from_secs(5)).await;
    let crds = ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    };
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &crds);
    let definition: DynamicObject = serde_json::from_value(definition()).expect("an object");
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .expect("created");
    let widgets = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    };
    let widgets_api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "shop", &widgets);
    sleep(Duration::from_secs(1)).await;
    let mut widget = DynamicObject::new("widget", &widgets);
    widget.metadata.owner_references = Some(vec![owner(&root)]);
    widgets_api
        .create(&PostParams::default(), &widget)
        .await
        .expect("served");
    // Discovery runs every 30 s.
    sleep(Duration::from_secs(40)).await;
    delete_root(&client, "Foreground").await;
    sleep(Duration::from_secs(20)).await;
    assert!(
        widgets_api.get_opt("widget").await.expect("served").is_none(),
        "a custom resource is collected"
    );
    definitions
        .delete("widgets.example.com", &DeleteParams::default())
        .await
        .expect("deleted");
    sleep(Duration::from_secs(90)).await;
    let later = config_map(&client, "later", Vec::new()).await;
    secret(&client, "dependent", vec![owner(&later)]).await;
    Api::<ConfigMap>::namespaced(client.clone(), "shop")
        .delete("later", &DeleteParams::background())
        .await
        .expect("deleted");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(
        names(&cluster),
        BTreeSet::new(),
        "others are collected after a kind was removed"
    );
    drop(others);
    assert!(collecting.end().await.unsynced.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_former_leader_starts_no_write_and_loses_no_response() {
    let cluster = cluster("1.36.0");
    let client = cluster.client();
    let root = config_map(&client, "root", Vec::new()).await;
    for at in 0..60 {
        secret(&client, &format!("dependent-{at}"), vec![owner(&root)]).await;
    }
    cluster.faults().add(
        Rule::new(Fault::Delay(Duration::from_secs(1)))
            .on(Verb::Delete)
            .client("kubegc")
            .always(),
    );
    let (leads, leading) = watch::channel(false);
    let (stop, mut stopped) = watch::channel(false);
    let run = collector(&cluster).run_while_leading(leading, async move {
        let _stopped = stopped.wait_for(|&stop| stop).await;
    });
    let task = tokio::spawn(run);
    sleep(Duration::from_secs(60)).await;
    assert!(
        cluster
            .audit()
            .by("kubegc")
            .filter(|entry| entry.is_write())
            .is_empty()
    );
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
    stop.send_replace(true);
    let summary = task.await.expect("no panic").expect("a summary");
    assert_eq!(summary.terms, 2);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing_and_predicts_the_writes_of_a_run() {
    for version in ["1.28.0", "1.36.0"] {
        for policy in POLICIES {
            let cluster = cluster(version);
            let client = cluster.client();
            family(&client).await;
            let held = secret(&client, "held", Vec::new()).await;
            let mut held_map = ConfigMap::default();
            held_map.metadata.name = Some("held-map".to_owned());
            held_map.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
            held_map.metadata.owner_references = Some(vec![owner(&held)]);
            Api::<ConfigMap>::namespaced(client.clone(), "shop")
                .create(&PostParams::default(), &held_map)
                .await
                .expect("created");
            Api::<Secret>::namespaced(client.clone(), "shop")
                .delete("held", &DeleteParams::background())
                .await
                .expect("deleted");
            delete_root(&client, policy).await;
            let before = (names(&cluster), cluster.server().with(|server| server.revision()));
            let summary = collector(&cluster)
                .dry_run(true)
                .run(std::future::pending())
                .await
                .expect("a summary");
            let report = summary.dry_run.expect("requested");
            let after = (names(&cluster), cluster.server().with(|server| server.revision()));
            assert_eq!(before, after, "{version} {policy}: nothing changed\n{report}");
            assert!(
                report.complete && report.not_followed.is_empty(),
                "{version} {policy}\n{report}"
            );
            let predicted: BTreeSet<String> = report
                .removed
                .iter()
                .map(|object| object.name.to_string())
                .collect();
            let marked: BTreeSet<String> = report
                .terminating
                .iter()
                .map(|left| left.object.name.to_string())
                .collect();
            let collecting = Collecting::start(collector(&cluster));
            sleep(Duration::from_secs(60)).await;
            let real = collecting.end().await;
            let removed: BTreeSet<String> = before.0.difference(&names(&cluster)).cloned().collect();
            assert_eq!(predicted, removed, "{version} {policy}\n{report}");
            assert_eq!(marked, set(&["held-map"]), "{version} {policy}\n{report}");
            let written = report.writes.iter().filter(|write| write.tries == 1).count() as u64;
            assert_eq!(written, real.writes, "{version} {policy}\n{report}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reference_into_another_namespace_is_an_event() {
    let cluster = cluster("1.36.0");
    let client = cluster.client();
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("yard".to_owned());
    Api::<Namespace>::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .expect("created");
    let root = config_map(&client, "root", Vec::new()).await;
    let collecting = Collecting::start(collector(&cluster));
    sleep(Duration::from_secs(5)).await;
    let mut stray = Secret::default();
    stray.metadata.name = Some("stray".to_owned());
    stray.metadata.owner_references = Some(vec![owner(&root)]);
    Api::<Secret>::namespaced(client.clone(), "yard")
        .create(&PostParams::default(), &stray)
        .await
        .expect("created");
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
    let snapshot = snapshot(&me, &SnapshotOptions::default())
        .await
        .expect("a snapshot");
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
        assert_eq!(
            of(group, kind).is_complete(),
            complete,
            "{kind}: {:?}",
            of(group, kind)
        );
    }
    assert!(
        format!("{:?}", of("", "Secret")).contains("forbidden"),
        "{:?}",
        of("", "Secret")
    );
    assert!(snapshot.find("", "ConfigMap", "shop", "leaf").is_some());
    let shop = snapshot.find("", "Namespace", "", "shop").expect("there");
    assert!(shop.details.is_some(), "namespaces are read whole");
    assert!(snapshot.findings.is_empty(), "{:?}", snapshot.findings);
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
        let snapshot = snapshot(&cluster.client(), &SnapshotOptions::default())
            .await
            .expect("a snapshot");
        let of = |group: &str| snapshot.completeness.of(group, "Event").is_complete();
        assert_eq!((of(""), of("events.k8s.io")), (false, complete), "{version}");
    }
}
