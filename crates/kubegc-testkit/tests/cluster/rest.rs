//! `settle` and `step`, and tasks that keep a cluster busy.

use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use kubegc_testkit::{Cluster, Fault, Name, Rest, Rule, http::Verb};
use serde_json::json;

use crate::support::{config_map, config_maps, create, delete, owner};

/// A task that adds a label after the first change of each ConfigMap.
async fn labels_everything(api: Api<ConfigMap>) {
    let changes = watcher(api.clone(), watcher::Config::default()).applied_objects();
    let labelled = changes.try_for_each(|object| {
        let api = api.clone();
        async move {
            if object.metadata.labels.is_none() {
                let label = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
                let name = object.metadata.name.unwrap();
                api.patch(&name, &PatchParams::default(), &label).await.unwrap();
            }
            Ok(())
        }
    });
    labelled.await.unwrap();
}

async fn tasks_have_reacted_when_the_cluster_is_at_rest() {
    // On a busy machine, other threads may take their time.
    let cluster = Cluster::builder()
        .patience(Duration::from_millis(250))
        .build()
        .unwrap();
    let api = config_maps(&cluster);
    let labelled = Api::default_namespaced(cluster.client_as("labeller"));
    let task = tokio::spawn(labels_everything(labelled));
    for name in ["a", "b", "c"] {
        create(&api, &config_map(name, &[], &[])).await;
    }
    let settled = cluster.settle().await.unwrap();
    assert_eq!(settled.rest, Rest::Quiet);
    assert_eq!(settled.unread, []);
    let mut labelled = cluster.find_all::<ConfigMap>();
    labelled.retain(|one| one.metadata.labels.is_some());
    assert_eq!(labelled.len(), 3);
    assert_eq!(cluster.audit().by("labeller").writes().len(), 3);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn tasks_have_reacted_with_a_paused_clock() {
    tasks_have_reacted_when_the_cluster_is_at_rest().await;
}

#[tokio::test]
async fn tasks_have_reacted_with_a_running_clock() {
    tasks_have_reacted_when_the_cluster_is_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_have_reacted_on_other_threads() {
    tasks_have_reacted_when_the_cluster_is_at_rest().await;
}

#[tokio::test(start_paused = true)]
async fn steps_are_single_requests_between_which_a_test_can_act() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let a = create(&api, &config_map("a", &[], &[])).await;
    let b = create(&api, &config_map("b", &[owner(&a)], &[])).await;
    delete(&api, "a", &DeleteParams::background()).await;
    let mut steps = Vec::new();
    while let Some(step) = cluster.step().await {
        steps.push(step.to_string());
    }
    assert_eq!(
        steps,
        [
            "+0s garbage-collector get configmaps default/b -> 200 because its owners are to be verified",
            "+0s garbage-collector delete configmaps default/b -> 200 because no owner of it is left",
        ]
    );
    assert_eq!(cluster.step().await, None);
    cluster.assert_collected(&b);
}

#[tokio::test(start_paused = true)]
async fn a_replaced_collector_continues() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let a = create(&api, &config_map("a", &[], &[])).await;
    let b = create(&api, &config_map("b", &[owner(&a)], &[])).await;
    delete(&api, "a", &DeleteParams::background()).await;
    assert!(cluster.step().await.is_some());
    cluster.stop_collector();
    assert!(!cluster.has_collector());
    cluster.settle().await.unwrap();
    cluster.assert_survives(&b);
    cluster.restart_collector();
    cluster.settle().await.unwrap();
    cluster.assert_collected(&b);
}

#[tokio::test(start_paused = true)]
async fn without_a_collector_only_garbage_stays() {
    let cluster = Cluster::builder()
        .without_collector()
        .namespace("shop")
        .yaml(
            "
apiVersion: v1
kind: Secret
metadata: {name: s, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: gone}]}
---
apiVersion: v1
kind: Secret
metadata: {name: t, namespace: shop}
",
        )
        .build()
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    delete(&namespaces, "shop", &DeleteParams::default()).await;
    cluster.settle_within(Duration::from_secs(60)).await.unwrap();
    cluster.assert_survives(Name::of::<Secret>("default", "s"));
    cluster.assert_collected(Name::of::<Secret>("shop", "t"));
    cluster.assert_collected(Name::of::<Namespace>("", "shop"));
}

#[tokio::test(start_paused = true)]
async fn a_hot_loop_with_the_collector_is_reported() {
    let cluster = Cluster::builder().calls_max(2_000).build().unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("eager-operator"));
    // Creates an object whose owner does not exist, again and again.
    let missing = json!({"apiVersion": "v1", "kind": "Secret", "name": "missing", "uid": "u-1"});
    let missing: OwnerReference = serde_json::from_value(missing).unwrap();
    let task = tokio::spawn(async move {
        loop {
            if api.get_opt("child").await.unwrap().is_none() {
                create(&api, &config_map("child", std::slice::from_ref(&missing), &[])).await;
            }
            let mut changes = std::pin::pin!(watcher(api.clone(), watcher::Config::default()));
            loop {
                if let watcher::Event::Delete(_) = changes.try_next().await.unwrap().unwrap() {
                    break;
                }
            }
        }
    });
    let error = cluster.settle().await.unwrap_err();
    assert!(error.calls > 2_000);
    let busiest: Vec<&str> = error.busiest.iter().map(|(what, _)| &**what).collect();
    for expected in [
        "eager-operator create configmaps default/child",
        "garbage-collector delete configmaps default/child because no owner of it is left",
    ] {
        assert!(busiest.contains(&expected), "{busiest:?}");
    }
    let text = error.to_string();
    assert!(text.starts_with("the cluster is not idle after 2"), "{text}");
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_unread_watch_is_reported_and_does_not_delay_quiet() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let mut changes = std::pin::pin!(watcher(
        Api::<ConfigMap>::default_namespaced(cluster.client_as("sleepy")),
        watcher::Config::default()
    ));
    // Init, and the end of the first list.
    changes.try_next().await.unwrap();
    changes.try_next().await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_secs(1), changes.try_next()).await;
    assert!(nothing.is_err());
    create(&api, &config_map("a", &[], &[])).await;
    let settled = cluster.settle().await.unwrap();
    assert_eq!(settled.unread, ["sleepy watching configmaps in default".into()]);
    let change = changes.try_next().await.unwrap().unwrap();
    assert!(matches!(change, watcher::Event::Apply(_)), "{change:?}");
    let nothing = tokio::time::timeout(Duration::from_secs(1), changes.try_next()).await;
    assert!(nothing.is_err());
    assert_eq!(cluster.settle().await.unwrap().unread, []);
}

#[tokio::test(start_paused = true)]
async fn settle_waits_for_a_delayed_request() {
    let cluster = Cluster::new();
    let late = Fault::Delay(Duration::from_secs(5));
    cluster.faults().add(Rule::new(late).on(Verb::Create));
    let api = config_maps(&cluster);
    let task = tokio::spawn(async move { create(&api, &config_map("late", &[], &[])).await });
    let settled = cluster.settle().await.unwrap();
    assert_eq!(
        settled.rest.to_string(),
        "waiting until 2026-01-01T00:00:05Z for a request that is held back"
    );
    let settled = cluster.settle_within(Duration::from_secs(5)).await.unwrap();
    assert_eq!(
        settled.to_string(),
        "quiet\n+5s client create configmaps default/late -> 201 (injected: delayed)\n"
    );
    task.await.unwrap();
}

/// A panic of an operator ends its watches.
#[tokio::test(start_paused = true)]
async fn settle_reports_clients_that_have_ended() {
    let cluster = Cluster::new();
    let api = Api::<ConfigMap>::default_namespaced(cluster.client_as("my-operator"));
    let operator = tokio::spawn(async move {
        let mut changes = std::pin::pin!(watcher(api, watcher::Config::default()).applied_objects());
        let change = changes.try_next().await;
        panic!("a bug: {change:?}");
    });
    assert!(cluster.settle().await.unwrap().ended.is_empty());
    create(&config_maps(&cluster), &config_map("a", &[], &[])).await;
    let settled = cluster.settle().await.unwrap();
    assert!(operator.await.unwrap_err().is_panic());
    assert_eq!(
        settled.to_string(),
        "quiet; without a watch by now: my-operator\n"
    );
}

/// A task that writes whenever it sees its own write.
async fn writes_after_each_own_write(api: Api<ConfigMap>) {
    let mut changes = std::pin::pin!(watcher(api.clone(), watcher::Config::default()).applied_objects());
    let mut round = 0;
    while let Some(object) = changes.try_next().await.unwrap() {
        round += 1;
        let touch = Patch::Merge(json!({"data": {"round": round.to_string()}}));
        let name = object.metadata.name.unwrap();
        api.patch(&name, &PatchParams::default(), &touch).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_never_rests_does_not_block_its_test() {
    let cluster = Cluster::builder().calls_max(500).build().unwrap();
    create(&config_maps(&cluster), &config_map("a", &[], &[])).await;
    let chased = Api::default_namespaced(cluster.client_as("tail-chaser"));
    let task = tokio::spawn(writes_after_each_own_write(chased));
    let error = cluster.settle().await.unwrap_err();
    assert_eq!(error.busiest[0].0, "tail-chaser patch configmaps default/a");
    assert_eq!(cluster.step().await, None);
    let other = cluster.clone();
    let advancing = tokio::spawn(async move { other.advance(Duration::from_secs(1)).await });
    let panic = advancing.await.unwrap_err().into_panic();
    let message = panic.downcast::<String>().unwrap();
    let busiest = "times: tail-chaser patch configmaps default/a";
    assert!(message.contains(busiest), "{message}");
    task.abort();
}
