//! Watches through a `kube::Client`: the events of a reflector, and dropped watches.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::DeleteParams,
    discovery::Discovery,
    runtime::{WatchStreamExt, reflector, watcher},
};
use kubegc_testkit::{Cluster, http::Verb};

use crate::support::{config_map, config_maps, create, delete};

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_in_both_ways_of_listing() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let cluster = Cluster::new();
        let api = config_maps(&cluster);
        create(&api, &config_map("a", &[], &[])).await;
        let (store, writer) = reflector::store::<ConfigMap>();
        let stream = reflector(writer, watcher(Api::<ConfigMap>::all(cluster.client()), config));
        let task = tokio::spawn(stream.default_backoff().touched_objects().for_each(|_| async {}));
        create(&api, &config_map("b", &[], &[])).await;
        cluster.settle().await.unwrap();
        delete(&api, "a", &DeleteParams::default()).await;
        cluster.settle().await.unwrap();
        let [one] = &store.state()[..] else { panic!() };
        assert_eq!(one.metadata.name.as_deref(), Some("b"));
        task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout_and_is_opened_again() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let changes = watcher(api.clone(), watcher::Config::default().timeout(20));
    let task = tokio::spawn(changes.applied_objects().try_for_each(|_| async { Ok(()) }));
    cluster.settle_within(Duration::from_secs(61)).await.unwrap();
    assert_eq!(cluster.audit().verb(Verb::Watch).len(), 4);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn dropped_watches_leave_nothing_behind() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    for _ in 0..100 {
        let mut stream = std::pin::pin!(watcher(api.clone(), watcher::Config::default()));
        stream.try_next().await.unwrap();
        stream.try_next().await.unwrap();
        let nothing = tokio::time::timeout(Duration::from_millis(1), stream.try_next()).await;
        assert!(nothing.is_err());
    }
    create(&api, &config_map("a", &[], &[])).await;
    let settled = cluster.settle().await.unwrap();
    assert_eq!(settled.unread, []);
}

#[tokio::test(start_paused = true)]
async fn a_client_discovers_the_served_kinds() {
    let cluster = Cluster::new();
    let client: Client = cluster.client_in("kube-system");
    assert_eq!(client.default_namespace(), "kube-system");
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(format!("{}.{}", version.major, version.minor), "1.36");
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    assert!(discovery.has_group("apps"));
    let aggregated = Discovery::new(client).run_aggregated().await.unwrap();
    assert!(aggregated.has_group("apps"));
}
