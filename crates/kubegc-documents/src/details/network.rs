//! Fields of services, endpoints, IP addresses and service CIDRs.

use kubegc_core::record::{Endpoints, IpAddress, ParentRef, Service, ServiceCidr};

use super::{SPEC, has_annotation, reading::Reading, spec_of};
use crate::body::{ANNOTATION_LEADER, Body};

pub(super) fn service(reading: &mut Reading<'_>, body: &Body<'_>) -> Service {
    let spec = spec_of(reading, body);
    Service {
        has_selector: field!(reading, spec.selector => is_there("selector")),
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
    }
}

pub(super) fn service_cidr(reading: &mut Reading<'_>, body: &Body<'_>) -> ServiceCidr {
    let spec = spec_of(reading, body);
    ServiceCidr {
        cidrs: field!(reading, spec.cidrs => all_texts("cidrs")),
    }
}
