//! Fields of services, endpoints, IP addresses and service CIDRs.

use kubegc_core::record::{Endpoints, IpAddress, ParentRef, Service, ServiceCidr};

use super::{
    SPEC, has_annotation,
    reading::{Path, Reading},
    spec_of,
};
use crate::body::{ANNOTATION_LEADER, Body};

pub(super) fn service(reading: &mut Reading<'_>, body: &Body<'_>) -> Service {
    let spec = spec_of(reading, body);
    Service {
        selector: reading.field(spec, |reading, spec| {
            let path = SPEC.field("selector");
            match reading.value(&spec.selector, path)? {
                Some(selector) => reading.labels(&selector.of_service, path).map(Some),
                None => Ok(None),
            }
        }),
        cluster_ips: field!(reading, spec.cluster_ips => all_texts("clusterIPs")),
    }
}

pub(super) fn ip_address(reading: &mut Reading<'_>, body: &Body<'_>) -> IpAddress {
    let spec = spec_of(reading, body);
    IpAddress {
        parent: reading.field(spec, |reading, spec| {
            let path = SPEC.field("parentRef");
            let Some(parent) = reading.value(&spec.parent_ref, path)? else {
                return Ok(ParentRef::default());
            };
            Ok(ParentRef {
                group: reading.text_or_empty(&parent.group, path.field("group"))?,
                resource: reading.text_or_empty(&parent.resource, path.field("resource"))?,
                namespace: reading.text_or_empty(&parent.namespace, path.field("namespace"))?,
                name: reading.text_or_empty(&parent.name, path.field("name"))?,
            })
        }),
    }
}

pub(super) fn endpoints(reading: &mut Reading<'_>, body: &Body<'_>) -> Endpoints {
    Endpoints {
        has_leader_annotation: has_annotation(reading, body, ANNOTATION_LEADER),
        has_ready_address: reading.field(Some(body), |reading, body| {
            let path = Path::of("subsets");
            let subsets = reading.list(&body.subsets, path, |reading, subset, path| {
                let addresses = reading.value(&subset.addresses, path.field("addresses"))?;
                Ok(addresses.is_some_and(|addresses| !addresses.is_empty()))
            })?;
            Ok(subsets.contains(&true))
        }),
    }
}

/// Whether an EndpointSlice has a ready endpoint; `None` if its endpoints cannot be read. One that does not
/// say whether it is ready counts as ready.
pub(super) fn slice(reading: &mut Reading<'_>, body: &Body<'_>) -> Option<bool> {
    let path = Path::of("endpoints");
    let endpoints = reading.list(&body.endpoints, path, |reading, endpoint, path| {
        let path = path.field("conditions");
        let ready = match reading.value(&endpoint.conditions, path)? {
            Some(conditions) => reading.value(&conditions.ready, path.field("ready"))?,
            None => None,
        };
        Ok(ready.copied().unwrap_or(true))
    });
    Some(endpoints.ok()?.contains(&true))
}

pub(super) fn service_cidr(reading: &mut Reading<'_>, body: &Body<'_>) -> ServiceCidr {
    let spec = spec_of(reading, body);
    ServiceCidr {
        cidrs: field!(reading, spec.cidrs => all_texts("cidrs")),
    }
}
