//! Facts of Services, Endpoints, EndpointSlices, IP addresses, service CIDRs and resource claims.

use kubegc_core::{
    json::JsonType,
    record::{Consumer, Endpoints, IpAddress, ParentRef, ResourceClaim, Service, ServiceCidr},
};
use serde_json::{Value, json};

use super::{
    facts::{Codec, Fact, Facts, Filled, In, Object, Plain, Present, Set},
    reading::{At, Reading, Unreadable},
};
use crate::fields::ANNOTATION_LEADER;

facts! {
    Service {
        spec {
            selector: "selector" => Plain,
            cluster_ips: "clusterIPs" => Filled,
        }
    }
    Endpoints {
        metadata {
            has_leader_annotation: "annotations" => In(ANNOTATION_LEADER, Set("")),
        }
        object {
            has_ready_address: "subsets" => ReadyAddress,
        }
    }
    IpAddress {
        spec {
            parent: "parentRef" => Plain,
        }
    }
    ServiceCidr {
        spec {
            cidrs: "cidrs" => Plain,
        }
    }
    ResourceClaim {
        spec {
            allocation_mode: "allocationMode" => Plain,
        }
        status {
            reserved_for: "reservedFor" => Plain,
            is_allocated: "allocation" => Present,
        }
    }
}

map_of_facts! {
    ParentRef {
        group: "group" => Filled,
        resource: "resource" => Filled,
        namespace: "namespace" => Filled,
        name: "name" => Filled,
    }
    Consumer {
        api_group: "apiGroup" => Filled,
        resource: "resource" => Filled,
        name: "name" => Filled,
        uid: "uid" => Filled,
    }
}

struct ReadyAddress;

impl Codec<bool> for ReadyAddress {
    fn read(&self, reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<bool, Unreadable> {
        let subsets = reading.list(at, JsonType::Map, |reading, subset| {
            let addresses = reading.values(subset.field("addresses"))?;
            Ok(!addresses.is_empty())
        })?;
        Ok(subsets.contains(&true))
    }

    fn write(&self, value: &bool) -> Value {
        value.then(|| json!([{ "addresses": [{}] }])).into()
    }
}

/// Whether an EndpointSlice has a ready endpoint; `None` if its endpoints cannot be read. One that does not
/// say whether it is ready counts as ready.
pub(super) fn slice(reading: &mut Reading<'_>, object: At<'_, '_>) -> Option<bool> {
    let endpoints = reading.list(object.field("endpoints"), JsonType::Map, |reading, endpoint| {
        let conditions = endpoint.field("conditions");
        reading.map(conditions)?;
        Ok(reading.flag(conditions.field("ready"))?.unwrap_or(true))
    });
    Some(endpoints.ok()?.contains(&true))
}
