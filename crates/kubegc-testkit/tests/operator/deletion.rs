//! Deletion in all three policies, and a finalizer that is never removed.

use kube::api::{DeleteParams, PropagationPolicy};
use kubegc_testkit::{Fault, Rest, Rule, http::Verb};

use crate::{
    Stage,
    website::{NAMES, OPERATOR},
};

async fn deleted_with(policy: PropagationPolicy) -> (Stage, String) {
    let stage = Stage::new();
    let site = stage.create("blog").await;
    stage.settle().await;
    let owned = stage.owned("blog");
    let how = DeleteParams {
        propagation_policy: Some(policy.clone()),
        ..DeleteParams::default()
    };
    stage.delete("blog", &how).await;
    let settled = stage.settle().await;
    assert_eq!(settled.rest, Rest::Quiet);
    stage.cluster.assert_collected(&site);
    assert!(stage.names().is_empty());
    for owned in &owned {
        match policy {
            PropagationPolicy::Orphan => stage.cluster.assert_survives(owned),
            _ => stage.cluster.assert_collected(owned),
        }
    }
    (stage, settled.calls.writes().to_string())
}

#[tokio::test(start_paused = true)]
async fn in_the_background_the_website_is_removed_first() {
    let (_, writes) = deleted_with(PropagationPolicy::Background).await;
    assert_eq!(
        writes,
        "\
+0s website-operator update configmaps dns/names -> 200
+0s website-operator patch websites.example.com shop/blog -> 200
+0s garbage-collector delete configmaps shop/blog -> 200 because no owner of it is left
+0s garbage-collector delete deployments.apps shop/blog -> 200 because no owner of it is left
"
    );
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_it_is_removed_last() {
    let (_, writes) = deleted_with(PropagationPolicy::Foreground).await;
    assert_eq!(
        writes,
        "\
+0s website-operator update configmaps dns/names -> 200
+0s website-operator patch websites.example.com shop/blog -> 200
+0s garbage-collector delete configmaps shop/blog -> 200 because its only remaining owner is being deleted in the foreground and waits for it
+0s garbage-collector delete deployments.apps shop/blog -> 200 because its only remaining owner is being deleted in the foreground and waits for it
+0s garbage-collector patch websites.example.com shop/blog -> 200 because none of its 2 dependents blocks its deletion: blockOwnerDeletion is not set in their owner references
"
    );
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_have_no_owner() {
    let (stage, writes) = deleted_with(PropagationPolicy::Orphan).await;
    assert_eq!(stage.content("blog").unwrap().metadata.owner_references, None);
    assert!(writes.contains("garbage-collector patch websites.example.com shop/blog -> 200 because all its dependents are released"), "{writes}");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_fails_is_reported() {
    let stage = Stage::new();
    let site = stage.create("blog").await;
    stage.settle().await;
    let owned = stage.owned("blog");
    let refused = Rule::new(Fault::status(500)).on(Verb::Update).name(NAMES);
    stage.cluster.faults().add(refused.client(OPERATOR).always());
    stage.delete("blog", &DeleteParams::background()).await;
    stage.settle_within(60).await;
    stage.cluster.assert_stuck(&site);
    stage.assert_all(&owned, |cluster, owned| cluster.assert_survives(owned));
    let text = stage.cluster.fate(&site).to_string();
    let state = "website.example.com/blog -n shop is terminating, waiting for example.com/names\n";
    let once = "it is deleted once its controller removes finalizer example.com/names";
    assert!(text.starts_with(state) && text.ends_with(once), "{text}");
    let audit = stage.cluster.audit().by(OPERATOR);
    let failed = audit.filter(|entry| entry.code == Some(500)).len();
    assert!((10..=14).contains(&failed), "every five seconds: {failed}");

    stage.cluster.faults().clear();
    stage.settle_within(5).await;
    stage.cluster.assert_collected(&site);
    stage.assert_all(&owned, |cluster, owned| cluster.assert_collected(owned));
}
