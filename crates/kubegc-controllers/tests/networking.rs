//! Endpoints, mirrored slices and ServiceCIDRs.

use crate::support::{Change as _, assert_cautious, cache, object, plan, run, secs, version};
use kubegc_controllers::{
    EndpointSliceMirroring, EndpointSlicesOfServices, EndpointsOfServices, ServiceCidrs,
};
use kubegc_core::{
    OwnerReference, StoreError,
    record::{Body, Endpoints, Record, Resource, Service, ServiceCidr},
};

fn endpoints(name: &str, leader: bool) -> (Resource, Record) {
    let body = Endpoints {
        has_leader_annotation: leader.into(),
    };
    (Resource::Endpoints, object("shop", name, Body::Endpoints(body)))
}

fn service(name: &str, selector: bool) -> (Resource, Record) {
    let body = Service {
        has_selector: selector.into(),
    };
    (Resource::Services, object("shop", name, Body::Service(body)))
}

fn slice(name: &str, of: &str) -> (Resource, Record) {
    let record = object("shop", name, Body::Unread)
        .label(
            "endpointslice.kubernetes.io/managed-by",
            "endpointslicemirroring-controller.k8s.io",
        )
        .label("kubernetes.io/service-name", of);
    (Resource::EndpointSlices, record)
}

#[test]
fn endpoints_without_a_service_are_deleted() {
    let controller = EndpointsOfServices::new(version(34));
    let mut terminating = service("held", true);
    terminating.1 = terminating.1.terminating(1);
    let objects = [
        endpoints("gone", false),
        endpoints("held", false),
        endpoints("lock", true),
        terminating,
    ];
    let mut known = cache(&controller, objects.to_vec());
    assert_eq!(
        plan(&controller, &known, secs(0)),
        [
            "delete endpoints/gone -n shop: ServiceDeleted",
            "keep endpoints/held -n shop: ServiceExists",
            "keep endpoints/lock -n shop: LeaderElection"
        ]
    );
    assert_cautious(&controller, &objects, secs(0));
    assert_eq!(
        run(&controller, &mut known, secs(0)),
        ["delete endpoints/gone -n shop"]
    );
}

#[test]
fn mirrored_slices_follow_their_endpoints_and_service() {
    let controller = EndpointSliceMirroring::new(version(34));
    let mut skipped = endpoints("skipped", false);
    skipped.1 = skipped.1.label("endpointslice.kubernetes.io/skip-mirror", "true");
    let mut own = slice("own", "gone");
    own.1 = own.1.label(
        "endpointslice.kubernetes.io/managed-by",
        "endpointslice-controller.k8s.io",
    );
    let objects = [
        own,
        slice("a", "gone"),
        slice("b", "alone"),
        endpoints("alone", false),
        slice("c", "skipped"),
        skipped,
        service("skipped", false),
        slice("d", "lock"),
        endpoints("lock", true),
        service("lock", false),
        slice("e", "selects"),
        endpoints("selects", false),
        service("selects", true),
        slice("f", "fine"),
        endpoints("fine", false),
        service("fine", false),
    ];
    let mut known = cache(&controller, objects.to_vec());
    assert_eq!(
        plan(&controller, &known, secs(0)),
        [
            "delete endpointslice.discovery.k8s.io/b -n shop: ServiceDeleted",
            "delete endpointslice.discovery.k8s.io/a -n shop: EndpointsDeleted",
            "delete endpointslice.discovery.k8s.io/d -n shop: LeaderElection",
            "delete endpointslice.discovery.k8s.io/e -n shop: ServiceHasSelector",
            "delete endpointslice.discovery.k8s.io/c -n shop: MirroringSkipped",
            "keep endpointslice.discovery.k8s.io/f -n shop: Mirrored"
        ]
    );
    assert_cautious(&controller, &objects, secs(0));
    assert_eq!(run(&controller, &mut known, secs(0)).len(), 5);
    let old = EndpointSliceMirroring::new(version(18));
    assert!(
        plan(&old, &cache(&old, objects.to_vec()), secs(0))
            .iter()
            .all(|line| line.starts_with("keep"))
    );
}

fn cidr(name: &str, ranges: &[&str]) -> (Resource, Record) {
    let body = ServiceCidr {
        cidrs: ranges
            .iter()
            .map(|range| (*range).into())
            .collect::<Vec<_>>()
            .into(),
    };
    let record =
        object("", name, Body::ServiceCidr(body)).finalizer("networking.k8s.io/service-cidr-finalizer");
    (Resource::ServiceCidrs, record)
}

fn deleted((resource, record): (Resource, Record)) -> (Resource, Record) {
    (resource, record.terminating(100))
}

fn address(ip: &str) -> (Resource, Record) {
    let record =
        object("", ip, Body::Unread).label("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
    (Resource::IpAddresses, record)
}

#[test]
fn service_cidrs_wait_for_addresses_that_only_they_have() {
    let controller = ServiceCidrs::new(version(34));
    let removed = "patch servicecidr.networking.k8s.io/x: Unused";
    let used = "keep servicecidr.networking.k8s.io/x: Used";
    let x = || deleted(cidr("x", &["10.1.0.0/16", "fd00:1::/64"]));
    for (objects, expected) in [
        (vec![x()], removed),
        (vec![x(), address("10.1.2.3")], used),
        (vec![x(), address("fd00:1::7")], used),
        (vec![x(), address("10.2.2.3"), address("fd00:2::7")], removed),
        // Another ServiceCIDR has the address.
        (
            vec![x(), address("10.1.2.3"), cidr("y", &["10.1.2.0/24"])],
            removed,
        ),
        (vec![x(), address("10.1.3.3"), cidr("y", &["10.1.2.0/24"])], used),
        // Other ServiceCIDRs have all ranges, though one of them is terminating.
        (
            vec![x(), address("10.1.2.3"), cidr("y", &["10.0.0.0/8"])],
            removed,
        ),
        (vec![x(), address("fd00:1::7"), cidr("y", &["10.0.0.0/8"])], used),
        (
            vec![
                x(),
                address("fd00:1::7"),
                cidr("y", &["10.0.0.0/8"]),
                deleted(cidr("z", &["fd00::/16"])),
            ],
            removed,
        ),
    ] {
        let lines = plan(&controller, &cache(&controller, objects.clone()), secs(110));
        assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:?}");
        assert_cautious(&controller, &objects, secs(110));
    }
    let mut unmanaged = address("10.1.2.3");
    unmanaged.1.meta.labels.clear();
    let known = cache(&controller, vec![x(), unmanaged]);
    assert_eq!(plan(&controller, &known, secs(110)), [removed]);
    assert_eq!(
        plan(&controller, &known, secs(109)),
        [
            "keep servicecidr.networking.k8s.io/x: DeletionRecent",
            "next at 110"
        ]
    );
    let mut without_finalizer = cidr("bare", &["10.0.0.0/8"]);
    without_finalizer.1.meta.finalizers.clear();
    let mut known = cache(&controller, vec![without_finalizer]);
    known.set_listed(Resource::IpAddresses, Err(StoreError::Unlisted));
    assert_eq!(
        run(&controller, &mut known, secs(0)),
        ["patch servicecidr.networking.k8s.io/bare +networking.k8s.io/service-cidr-finalizer"]
    );
    let old = ServiceCidrs::new(version(32));
    assert_eq!(
        plan(&old, &cache(&old, vec![x()]), secs(110)),
        ["keep servicecidr.networking.k8s.io/x: Disabled"]
    );
}

#[test]
fn slices_that_their_service_does_not_own_are_deleted() {
    let controller = EndpointSlicesOfServices::new(version(34));
    let of_controller = |name: &str, of: &str| {
        let manager = "endpointslice-controller.k8s.io";
        let (resource, record) = slice(name, of);
        (
            resource,
            record.label("endpointslice.kubernetes.io/managed-by", manager),
        )
    };
    let held = service("held", true);
    let mut owned = of_controller("held-owned", "held");
    owned.1.meta.owner_references.push(OwnerReference {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: "held".into(),
        uid: held.1.meta.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    });
    let objects = [
        held,
        service("plain", false),
        owned,
        of_controller("held-released", "held"),
        of_controller("plain-a", "plain"),
        of_controller("gone-a", "gone"),
        slice("mirrored", "held"),
    ];
    let mut known = cache(&controller, objects.to_vec());
    assert_eq!(
        plan(&controller, &known, secs(0)),
        [
            "delete endpointslice.discovery.k8s.io/held-released -n shop: NotOwned",
            "keep endpointslice.discovery.k8s.io/held-owned -n shop: Owned",
            "keep endpointslice.discovery.k8s.io/plain-a -n shop: NoSelector",
        ]
    );
    assert_cautious(&controller, &objects, secs(0));
    assert_eq!(
        run(&controller, &mut known, secs(0)),
        ["delete endpointslice.discovery.k8s.io/held-released -n shop"]
    );
}
