//! Finalizers of PodGroups, VolumeAttributesClasses and ResourceClaims.

use crate::support::{Change as _, assert_cautious, cache, object, plan, run, secs, version};
use kubegc_controllers::{PodGroupProtection, ResourceClaims, VolumeAttributesClassProtection};
use kubegc_core::{
    Uid,
    record::{
        Body, Consumer, Field, PersistentVolume, PersistentVolumeClaim, Pod, Record, Resource, ResourceClaim,
    },
};

#[test]
fn a_pod_group_waits_for_its_active_pods() {
    let mut controller = PodGroupProtection::new(version(36));
    let group = |name: &str| {
        let record = object("shop", name, Body::Unread).finalizer("scheduling.k8s.io/podgroup-protection");
        (Resource::PodGroups, record.terminating(1))
    };
    let pod = |name: &str, phase: &str, group: &str| {
        let pod = Pod {
            phase: Field::Known(phase.into()),
            pod_group: Field::Known(group.into()),
            ..Pod::default()
        };
        (Resource::Pods, object("shop", name, Body::Pod(pod)))
    };
    let mut live = group("live");
    live.1.meta.deletion_timestamp = None;
    let objects = [
        group("done"),
        group("used"),
        live,
        pod("a", "Succeeded", "done"),
        pod("b", "Failed", "done"),
        pod("c", "Running", "used"),
    ];
    assert!(
        plan(&controller, &cache(&controller, objects.to_vec()), secs(0))
            .iter()
            .all(|line| line.ends_with("Disabled"))
    );
    controller.is_enabled = true;
    let mut known = cache(&controller, objects.to_vec());
    assert_eq!(
        plan(&controller, &known, secs(0)),
        [
            "update podgroup.scheduling.k8s.io/done -n shop: Unused",
            "keep podgroup.scheduling.k8s.io/live -n shop: NotTerminating",
            "keep podgroup.scheduling.k8s.io/used -n shop: Used"
        ]
    );
    assert_cautious(&controller, &objects, secs(0));
    assert_eq!(run(&controller, &mut known, secs(0)).len(), 1);
    let mut unread = pod("d", "Running", "");
    *unread.1.body_mut() = Body::Unread;
    let known = cache(&controller, vec![group("done"), unread]);
    assert_eq!(
        plan(&controller, &known, secs(0)),
        ["unknown podgroup.scheduling.k8s.io/done -n shop: FieldUnread"]
    );
}

#[test]
fn an_attributes_class_waits_for_volumes_and_claims() {
    let controller = VolumeAttributesClassProtection::new(version(34));
    let class = |name: &str, terminating: bool, protected: bool| {
        let mut record = object("", name, Body::Unread);
        if protected {
            record = record.finalizer("kubernetes.io/vac-protection");
        }
        if terminating {
            record = record.terminating(1);
        }
        (Resource::VolumeAttributesClasses, record)
    };
    let volume = PersistentVolume {
        attributes_class: Field::Known("by-volume".into()),
        ..PersistentVolume::default()
    };
    let claim = PersistentVolumeClaim {
        attributes_classes: vec!["by-claim".into()].into(),
        ..PersistentVolumeClaim::default()
    };
    let objects = [
        class("by-claim", true, true),
        class("by-volume", true, true),
        class("bare", false, false),
        class("free", true, true),
        class("live", false, true),
        (
            Resource::PersistentVolumes,
            object("", "pv", Body::PersistentVolume(volume)),
        ),
        (
            Resource::PersistentVolumeClaims,
            object("shop", "pvc", Body::PersistentVolumeClaim(claim)),
        ),
    ];
    let mut known = cache(&controller, objects.to_vec());
    let name = "volumeattributesclass.storage.k8s.io";
    assert_eq!(
        plan(&controller, &known, secs(0)),
        [
            format!("update {name}/bare: Unprotected"),
            format!("update {name}/free: Unused"),
            format!("keep {name}/by-claim: UsedByClaim"),
            format!("keep {name}/by-volume: UsedByVolume"),
            format!("keep {name}/live: Protected")
        ]
    );
    assert_cautious(&controller, &objects, secs(0));
    assert_eq!(run(&controller, &mut known, secs(0)).len(), 2);
    let mut unread = objects.to_vec();
    *unread[6].1.body_mut() = Body::Unread;
    let lines = plan(&controller, &cache(&controller, unread), secs(0));
    assert!(
        lines.contains(&format!("unknown {name}/free: FieldUnread")),
        "{lines:?}"
    );
}

fn consumer(resource: &str, name: &str) -> Consumer {
    Consumer {
        api_group: "".into(),
        resource: resource.into(),
        name: name.into(),
        uid: Uid::new(&format!("u-{name}")),
    }
}

fn claim(name: &str, reserved: Vec<Consumer>) -> (Resource, Record) {
    let claim = ResourceClaim {
        reserved_for: reserved.into(),
        is_allocated: true.into(),
        ..ResourceClaim::default()
    };
    let record = object("shop", name, Body::ResourceClaim(claim));
    (
        Resource::ResourceClaims,
        record.finalizer("resource.kubernetes.io/delete-protection"),
    )
}

fn pod(name: &str, phase: &str, node: &str) -> (Resource, Record) {
    let pod = Pod {
        phase: Field::Known(phase.into()),
        node_name: Field::Known(node.into()),
        ..Pod::default()
    };
    (Resource::Pods, object("shop", name, Body::Pod(pod)))
}

#[test]
fn claims_lose_reservations_and_the_finalizer() {
    let controller = ResourceClaims::new(version(34));
    let id = "resourceclaim.resource.k8s.io/c -n shop";
    let status = format!("update status of {id}");
    let strip = format!("update {id} -resource.kubernetes.io/delete-protection");
    let free = |left: &str| format!("{status} ReservedFor([{left}]), RemoveAllocation");
    let pods = |names: &[&str]| {
        names
            .iter()
            .map(|name| consumer("pods", name))
            .collect::<Vec<_>>()
    };
    let mut terminating = pod("t", "Pending", "");
    terminating.1 = terminating.1.terminating(1);
    let mut on_node = pod("n", "Running", "a");
    on_node.1 = on_node.1.terminating(1);
    let of = || {
        [
            pod("run", "Running", "a"),
            pod("done", "Succeeded", "a"),
            terminating.clone(),
            on_node.clone(),
        ]
    };
    let deleted = |mut claim: (Resource, Record)| {
        claim.1 = claim.1.terminating(5);
        claim
    };
    for (claim, expected) in [
        (claim("c", pods(&["run"])), vec![]),
        (claim("c", pods(&["n"])), vec![]),
        (claim("c", pods(&["gone"])), vec![free(""), strip.clone()]),
        (claim("c", pods(&["done", "t"])), vec![free(""), strip.clone()]),
        (claim("c", vec![]), vec![]),
        (
            deleted(claim("c", vec![])),
            vec![format!("{status} RemoveAllocation"), strip.clone()],
        ),
        (deleted(claim("c", pods(&["run"]))), vec![]),
        (claim("c", vec![consumer("widgets", "w")]), vec![]),
    ] {
        let mut objects = of().to_vec();
        objects.push(claim.clone());
        let mut known = cache(&controller, objects.clone());
        assert_eq!(run(&controller, &mut known, secs(9)), expected, "{claim:?}");
        assert_cautious(&controller, &objects, secs(9));
    }
    let mut objects = of().to_vec();
    objects.push(claim("c", pods(&["run", "done"])));
    let requests = run(&controller, &mut cache(&controller, objects), secs(9));
    assert!(
        requests.len() == 1 && !requests[0].contains("RemoveAllocation"),
        "{requests:?}"
    );
    let old = ResourceClaims::new(version(33));
    let known = cache(&old, vec![claim("c", pods(&["gone"]))]);
    assert_eq!(plan(&old, &known, secs(0)), [format!("keep {id}: Disabled")]);
}

#[test]
fn generated_claims_of_pods_that_are_done_are_deleted() {
    let controller = ResourceClaims::new(version(34));
    let generated = |name: &str, of: &str| {
        let (resource, mut record) = claim(name, vec![]);
        record.meta.finalizers.clear();
        (resource, record.owned_by("v1", "Pod", of))
    };
    let (_, mut replaced) = generated("replaced", "run");
    replaced.meta.owner_references[0].uid = Uid::new("u-before");
    let objects = [
        generated("running", "run"),
        generated("finished", "done"),
        generated("orphan", "gone"),
        (Resource::ResourceClaims, replaced),
        pod("run", "Running", "a"),
        pod("done", "Failed", "a"),
    ];
    let mut known = cache(&controller, objects.to_vec());
    let name = "resourceclaim.resource.k8s.io";
    assert_eq!(
        plan(&controller, &known, secs(0)),
        [
            format!("delete {name}/finished -n shop: PodDone"),
            format!("delete {name}/replaced -n shop: PodReplaced"),
            format!("keep {name}/orphan -n shop: NothingReserved"),
            format!("keep {name}/running -n shop: NothingReserved")
        ]
    );
    assert_cautious(&controller, &objects, secs(0));
    assert_eq!(run(&controller, &mut known, secs(0)).len(), 2);
}
