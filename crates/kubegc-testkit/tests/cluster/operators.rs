//! Requests that operators send through kube-rs, in addition to those of the operators in other tests.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Event, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Error, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{GroupVersionKind, PartialObjectMeta},
    discovery::{Discovery, Scope, pinned_kind},
    runtime::{
        WatchStreamExt,
        events::{Event as NewEvent, EventType, Recorder, Reporter},
        predicates, reflector,
        wait::{await_condition, conditions},
        watcher,
    },
};
use kubegc_testkit::{Cluster, Workloads};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn code(error: &Error) -> u16 {
    match error {
        Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

fn deployment(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}

/// A cluster with a Deployment of three running pods.
async fn running() -> Cluster {
    let cluster = Cluster::builder()
        .workloads(Workloads::default())
        .object(deployment(3))
        .build()
        .unwrap();
    cluster.settle().await.unwrap();
    cluster
}

/// Settles after the grace periods of terminating pods.
async fn after_grace_periods(cluster: &Cluster) {
    cluster.settle().await.unwrap();
    cluster.advance(Duration::from_secs(60)).await;
    cluster.settle().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_installed_established_and_discovered() {
    let cluster = Cluster::new();
    let client = cluster.client_as("operator");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.dev"},
        "spec": {
            "group": "x.dev", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                }}},
            }],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let (name, force) = ("widgets.x.dev", PatchParams::apply("installer").force());
    let applied = Patch::Apply(&definition);
    definitions.patch(name, &force, &applied).await.unwrap();
    let established = await_condition(definitions.clone(), name, conditions::is_crd_established());
    let established = tokio::time::timeout(Duration::from_secs(10), established).await;
    established.expect("established in time").unwrap();

    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let gvk = GroupVersionKind::gvk("x.dev", "v1", "Widget");
    let (resource, capabilities) = discovery.resolve_gvk(&gvk).unwrap();
    assert_eq!(
        (&*resource.plural, capabilities.scope),
        ("widgets", Scope::Namespaced)
    );
    let (pinned, _) = pinned_kind(&client, &gvk).await.unwrap();
    assert_eq!(pinned, resource);

    let widgets: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let widget = DynamicObject::new("a", &resource).data(json!({"spec": {"size": 1}}));
    let post = PostParams::default();
    let created = widgets.create(&post, &widget).await.unwrap();
    let mut ready = created.clone();
    ready.data["status"] = json!({"ready": true});
    let ready = widgets.replace_status("a", &post, &ready).await.unwrap();
    assert_eq!(ready.data["status"]["ready"], true);
    assert_eq!(ready.metadata.generation, Some(1));
    let stale = widgets.replace_status("a", &post, &created).await.unwrap_err();
    assert_eq!(code(&stale), 409);
    definitions
        .delete(name, &DeleteParams::background())
        .await
        .unwrap();
    cluster.settle().await.unwrap();
    assert_eq!(code(&widgets.get("a").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_scaled_and_restarted() {
    let cluster = running().await;
    let client = cluster.client_as("operator");
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let mut scale = deployments.get_scale("web").await.unwrap();
    assert_eq!(scale.status.as_ref().map(|status| status.replicas), Some(3));
    scale.spec.as_mut().unwrap().replicas = Some(1);
    let replaced = deployments
        .replace_scale("web", &PostParams::default(), &scale)
        .await;
    replaced.unwrap();
    after_grace_periods(&cluster).await;
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
    let patched = deployments
        .patch_scale("web", &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
    after_grace_periods(&cluster).await;
    let before = pods.list(&ListParams::default()).await.unwrap();
    assert_eq!(before.items.len(), 2);
    deployments.restart("web").await.unwrap();
    after_grace_periods(&cluster).await;
    let after = pods.list(&ListParams::default()).await.unwrap();
    assert_eq!(after.items.len(), 2);
    let uids =
        |list: &kube::api::ObjectList<Pod>| list.iter().filter_map(ResourceExt::uid).collect::<Vec<_>>();
    assert!(uids(&after).iter().all(|uid| !uids(&before).contains(uid)));
}

#[tokio::test(start_paused = true)]
async fn metadata_is_listed_watched_and_patched_alone() {
    let cluster = running().await;
    let client = cluster.client_as("operator");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let web = ListParams::default().labels("app=web");
    let listed = pods.list_metadata(&web).await.unwrap();
    assert_eq!(listed.items.len(), 3);
    let name = listed.items[0].name_any();
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "debug"}}}));
    let patched = pods.patch_metadata(&name, &PatchParams::default(), &patch).await;
    assert_eq!(patched.unwrap().labels()["app"], "debug");
    let metadata: Api<PartialObjectMeta<Pod>> = Api::default_namespaced(client);
    let events = watcher(metadata, watcher::Config::default().labels("app=web"))
        .applied_objects()
        .take(2);
    assert_eq!(events.try_collect::<Vec<_>>().await.unwrap().len(), 2);
    // The controller replaces the pod that its selector no longer matches.
    cluster.settle().await.unwrap();
    let owned = pods.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(owned.items.len(), 4);
    let orphan = pods.get_metadata(&name).await.unwrap();
    assert!(orphan.owner_references().is_empty());
    let deleted = pods.delete_collection(&DeleteParams::default(), &web).await;
    deleted.unwrap();
    after_grace_periods(&cluster).await;
    assert_eq!(pods.list(&web).await.unwrap().items.len(), 3);
    assert_eq!(pods.get(&name).await.unwrap().name_any(), name);
}

#[tokio::test(start_paused = true)]
async fn repeated_events_are_one_object() {
    let cluster = Cluster::new();
    let client = cluster.client_as("operator");
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let object = read(json!({"metadata": {"name": "a"}}));
    let object = api.create(&PostParams::default(), &object).await.unwrap();
    let recorder = Recorder::new(client.clone(), Reporter::from("operator"));
    for _ in 0..3 {
        let event = NewEvent {
            type_: EventType::Warning,
            reason: "Failed".to_owned(),
            note: Some("it does not work".to_owned()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        recorder.publish(&event, &object.object_ref(&())).await.unwrap();
    }
    let events: Api<Event> = Api::default_namespaced(client);
    let events = events.list(&ListParams::default()).await.unwrap();
    assert_eq!(events.items.len(), 1);
    let event = &events.items[0];
    assert_eq!(event.involved_object.name.as_deref(), Some("a"));
    assert_eq!(event.series.as_ref().and_then(|series| series.count), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_store_follows_changes_of_the_generation_only() {
    let cluster = Cluster::builder().object(deployment(1)).build().unwrap();
    let api: Api<Deployment> = Api::default_namespaced(cluster.client_as("operator"));
    let (store, writer) = reflector::store();
    let seen = reflector(writer, watcher(api.clone(), watcher::Config::default()))
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default());
    let mut seen = Box::pin(seen);
    assert_eq!(seen.next().await.unwrap().unwrap().metadata.generation, Some(1));
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    api.patch("web", &PatchParams::default(), &label).await.unwrap();
    let json_patch = json!([{"op": "replace", "path": "/spec/replicas", "value": 2}]);
    let json_patch = Patch::<Deployment>::Json(serde_json::from_value(json_patch).unwrap());
    let patched = api.patch("web", &PatchParams::default(), &json_patch).await;
    patched.unwrap();
    assert_eq!(seen.next().await.unwrap().unwrap().metadata.generation, Some(2));
    assert_eq!(store.state()[0].labels()["a"], "b");
    let resource = ApiResource::erase::<Deployment>(&());
    let dynamic: Api<DynamicObject> = Api::default_namespaced_with(cluster.client(), &resource);
    let read = dynamic.get("web").await.unwrap();
    assert_eq!(read.data["spec"]["replicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn pods_run_as_service_accounts() {
    let cluster = Cluster::new();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client_as("operator"));
    for (account, expected) in [("missing", Some(403)), ("default", None)] {
        let pod = read(json!({
            "metadata": {"name": "a"},
            "spec": {"serviceAccountName": account, "containers": [{"name": "c", "image": "c:1"}]},
        }));
        let created = pods.create(&PostParams::default(), &pod).await;
        assert_eq!(created.err().as_ref().map(code), expected, "{account}");
    }
}
