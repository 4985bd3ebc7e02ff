//! Creation, drift, restart, two at once.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use kubegc_testkit::Rest;
use serde_json::json;

use crate::{
    Stage,
    website::{FINALIZER, OPERATOR, Website},
};

#[tokio::test(start_paused = true)]
async fn a_website_gets_its_dependents() {
    let stage = Stage::new();
    let site = stage.create("blog").await;
    let settled = stage.settle().await;
    assert_eq!(settled.rest, Rest::Quiet);
    assert_eq!(
        settled.calls.by(OPERATOR).writes().to_string(),
        "\
+0s website-operator patch websites.example.com shop/blog -> 200
+0s website-operator patch configmaps shop/blog -> 201
+0s website-operator patch deployments.apps shop/blog -> 201
+0s website-operator update configmaps dns/names -> 200
+0s website-operator patch websites.example.com shop/blog/status -> 200
+0s website-operator patch configmaps shop/blog -> 200
+0s website-operator patch deployments.apps shop/blog -> 200
"
    );
    let site: Website = stage.cluster.find("shop", &site.metadata.name.unwrap()).unwrap();
    assert_eq!(site.metadata.finalizers.unwrap(), [FINALIZER]);
    assert_eq!(site.status.unwrap().url, "https://blog.example.com");
    assert_eq!(stage.names(), ["blog"]);
    stage.assert_all(&stage.owned("blog"), |cluster, owned| {
        cluster.assert_survives(owned)
    });
    // Nothing changed, so nothing is written.
    assert!(stage.settle().await.calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn drift_is_corrected() {
    let stage = Stage::new();
    stage.create("blog").await;
    stage.settle().await;
    let contents: Api<ConfigMap> = Api::namespaced(stage.cluster.client_as("vandal"), "shop");
    let [content, servers] = stage.owned("blog");

    let change = Patch::Merge(json!({"data": {"index.html": "hacked"}}));
    let patched = contents.patch("blog", &PatchParams::default(), &change).await;
    patched.unwrap();
    stage.settle().await;
    let data = stage.content("blog").unwrap().data.unwrap();
    assert_eq!(data["index.html"], "<p>hello");
    stage.cluster.assert_survives(&content);

    contents.delete("blog", &DeleteParams::default()).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(stage.cluster.client_as("vandal"), "shop");
    let deleted = deployments.delete("blog", &DeleteParams::foreground()).await;
    deleted.unwrap();
    stage.settle().await;
    // The deleted objects no longer exist, and others have their names.
    stage.cluster.assert_collected(&content);
    stage.cluster.assert_collected(&servers);
    stage.assert_all(&stage.owned("blog"), |cluster, owned| {
        cluster.assert_survives(owned)
    });
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_catches_up() {
    let mut stage = Stage::new();
    stage.create("old").await;
    stage.settle().await;
    let old = stage.owned("old");
    stage.stop_operator().await;
    let new = stage.create("new").await;
    stage.delete("old", &DeleteParams::background()).await;
    let deleted = stage.cluster.object::<Website>("shop", "old");
    stage.settle().await;
    stage.cluster.assert_survives(&new);
    assert!(stage.content("new").is_none());
    // No controller removes its finalizer, and nothing of it is deleted.
    stage.cluster.assert_stuck(&deleted);
    stage.assert_all(&old, |cluster, owned| cluster.assert_survives(owned));
    stage.start_operator();
    stage.settle().await;
    stage.cluster.assert_collected(&deleted);
    stage.assert_all(&old, |cluster, owned| cluster.assert_collected(owned));
    assert_eq!(stage.names(), ["new"]);
    stage.assert_all(&stage.owned("new"), |cluster, owned| {
        cluster.assert_survives(owned)
    });
}

#[tokio::test(start_paused = true)]
async fn many_websites_share_one_list() {
    let mut stage = Stage::new();
    stage.stop_operator().await;
    for number in 0..10 {
        stage.create(&format!("site-{number}")).await;
    }
    stage.start_operator();
    // Those that lost the race for the list try again after five seconds.
    stage.settle_within(120).await;
    assert_eq!(stage.names().len(), 10);
    let audit = stage.cluster.audit().by(OPERATOR);
    let conflicts = audit.filter(|entry| entry.code == Some(409));
    assert!(!conflicts.is_empty(), "some of them wrote stale data");
}
