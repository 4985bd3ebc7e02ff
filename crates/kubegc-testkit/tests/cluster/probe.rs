//! Seven objects whose fates distinguish a collector from a plain cascade: shared, terminating, misnamed and
//! missing owners.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DeleteParams;
use kubegc_testkit::{Cluster, Rest};

use crate::support::{blocking_owner, config_map, config_maps, create, delete, owner};

#[tokio::test(start_paused = true)]
async fn seven_objects_end_as_in_a_real_cluster() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let a = create(&api, &config_map("a", &[], &[])).await;
    let b = create(&api, &config_map("b", &[], &[])).await;
    let two_owners = create(&api, &config_map("two-owners", &[owner(&a), owner(&b)], &[])).await;
    let held = create(
        &api,
        &config_map("child-with-finalizer", &[blocking_owner(&a)], &["probe/hold"]),
    )
    .await;
    let misnamed = OwnerReference {
        kind: "Secret".to_owned(),
        ..owner(&a)
    };
    let misnamed = create(&api, &config_map("wrong-kind-ref", &[misnamed], &[])).await;
    let missing = OwnerReference {
        name: "missing".to_owned(),
        uid: "11111111-2222-3333-4444-555555555555".to_owned(),
        ..owner(&a)
    };
    let dangling = create(&api, &config_map("dangling", &[missing], &[])).await;
    let held_owner = create(&api, &config_map("owner-with-finalizer", &[], &["probe/hold"])).await;

    delete(&api, "a", &DeleteParams::foreground()).await;
    delete(&api, "owner-with-finalizer", &DeleteParams::default()).await;
    let settled = cluster.settle().await.unwrap();
    assert_eq!(settled.rest, Rest::Quiet);

    cluster.assert_survives(&b);
    cluster.assert_survives(&two_owners);
    cluster.assert_stuck(&held);
    cluster.assert_stuck(&a);
    cluster.assert_stuck(&held_owner);
    cluster.assert_collected(&misnamed);
    cluster.assert_collected(&dangling);
    let owners = api
        .get("two-owners")
        .await
        .unwrap()
        .metadata
        .owner_references
        .unwrap();
    assert_eq!(owners, [owner(&b)]);

    // Once the dependent has no finalizer, it is removed, and then its owner.
    let free = kube::api::Patch::Merge(serde_json::json!({"metadata": {"finalizers": null}}));
    api.patch("child-with-finalizer", &Default::default(), &free)
        .await
        .unwrap();
    cluster.settle().await.unwrap();
    cluster.assert_collected(&held);
    cluster.assert_collected(&a);
    cluster.assert_survives(&two_owners);
    cluster.assert_stuck(&held_owner);
}
