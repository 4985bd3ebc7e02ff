//! Adds the finalizer `networking.k8s.io/service-cidr-finalizer` to ServiceCIDRs, and removes it from those
//! that no IPAddress needs.
//!
//! - it is not being deleted and does not have the finalizer: a patch adds the finalizer.
//! - it is being deleted, and each of its ranges lies in a range of another ServiceCIDR: it can be removed.
//! - it is being deleted, and an IPAddress of the API server lies in its ranges and in those of no other
//!   ServiceCIDR: the finalizer stays.
//! - it is being deleted, and no such IPAddress exists: it can be removed.
//! - it can be removed, 10 s after the deletion: a patch removes the finalizer.
//!
//! Other ServiceCIDRs count though they are being deleted. IPAddresses of the API server have the label
//! `ipaddress.kubernetes.io/managed-by: ipallocator.k8s.io`. IPAddresses have no finalizer: the API server
//! deletes them with their Service. The `Ready` condition is not covered.
//!
//! The controller is off before 1.33 (feature gate `MultiCIDRServiceAllocator`: alpha from 1.27, beta and off
//! from 1.31).
//!
//! # Upstream
//! [`sync` and
//! `canDeleteCIDR`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/servicecidrs/servicecidrs_controller.go)
//! in `servicecidrs_controller.go`.

use std::{net::IpAddr, time::Duration};

use kubegc_core::{
    PatchType,
    record::{ObjectId, Record, Resource},
    version::behavior::ADDRESSES_ARE_OBJECTS,
};

use crate::{
    Context, Form, Info, Key, Missing, OnError, Rule,
    controller::Reads as _,
    ipallocator::MANAGED_BY,
    protection::{Protection, Text},
};

static PROTECTION: Protection = Protection {
    form: Form::Patch(PatchType::Strategic),
    on_error: OnError::RetryUnlessNotFound,
    in_use,
    // Allocators may not have observed the deletion.
    grace: Duration::from_secs(10),
    unused: ("Unused", "it is being deleted, and no IPAddress needs it"),
    ..Protection::new("networking.k8s.io/service-cidr-finalizer")
};

#[derive(Clone, Copy, Debug)]
struct Range {
    address: IpAddr,
    bits: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let (address, bits) = (address.parse().ok()?, bits.parse().ok()?);
        let width = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        (bits <= width).then_some(Self { address, bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let differs = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
            (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
            _ => return false,
        };
        differs.leading_zeros() >= self.bits
    }

    fn contains_range(&self, other: &Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

fn ranges(id: &ObjectId, record: &Record) -> Result<Vec<Range>, Missing> {
    let cidr = id.body(record, Record::service_cidr)?;
    let texts = id.read(&cidr.cidrs, "spec.cidrs")?;
    Ok(texts.iter().filter_map(|text| Range::parse(text)).collect())
}

fn in_use(cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Option<Text>, Missing> {
    let own = ranges(id, record)?;
    let mut others = Vec::new();
    let mut unread = cx.cache.require(Resource::ServiceCidrs).err();
    let all = cx.cache.records(Resource::ServiceCidrs);
    for other in all.filter(|other| other.meta.name != record.meta.name) {
        match ranges(&other.id(Resource::ServiceCidrs), other) {
            Ok(ranges) => others.extend(ranges),
            Err(missing) => unread = Some(missing),
        }
    }
    let has_parent = |range: &Range| others.iter().any(|other| other.contains_range(range));
    if own.iter().all(has_parent) {
        return Ok(None);
    }
    let [label, manager] = MANAGED_BY;
    let addresses = cx.cache.records(Resource::IpAddresses).filter(|address| {
        let value = address.meta.labels.get(label);
        value.is_some_and(|value| **value == *manager) || !address.has_whole_meta
    });
    for address in addresses {
        let Ok(ip) = address.meta.name.parse::<IpAddr>() else {
            continue;
        };
        let is_own = own.iter().any(|range| range.contains(ip));
        if !is_own || others.iter().any(|range| range.contains(ip)) {
            continue;
        }
        if let Some(missing) = unread {
            return Err(missing);
        }
        if !address.has_whole_meta {
            return Err(Missing::metadata(Resource::IpAddresses, address));
        }
        return Ok(Some(("Used", "an IPAddress lies in its ranges only")));
    }
    cx.cache.require(Resource::IpAddresses).map(|()| None)
}

/// The part of the ServiceCIDR controller that adds and removes finalizers.
pub static RULE: Rule = Rule {
    info: Info {
        name: "service-cidr-controller",
        summary: "adds and removes the finalizer of ServiceCIDRs",
        resources: &[Resource::ServiceCidrs, Resource::IpAddresses],
        since: Some(ADDRESSES_ARE_OBJECTS),
        permissions: &[(Resource::ServiceCidrs, "", &["patch"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/servicecidrs/servicecidrs_controller.go",
        ..Info::BASE
    },
    gate: Some((ADDRESSES_ARE_OBJECTS, "MultiCIDRServiceAllocator")),
    // Every change concerns the ServiceCIDRs that are being deleted: there are few.
    affected: Some(|_, cache, change, keys| {
        if change.resource == Resource::ServiceCidrs {
            keys.push(change.key.clone());
        }
        let cidrs = cache.records(Resource::ServiceCidrs);
        let terminating = cidrs.filter(|cidr| cidr.meta.is_deleting());
        keys.extend(terminating.map(|cidr| Key::from(&cidr.meta)));
    }),
    decide: |cx, id, record| PROTECTION.decide(cx, id, record),
    ..Rule::BASE
};
