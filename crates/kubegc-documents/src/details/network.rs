//! Fields of services, endpoints and service CIDRs.

use kubegc_core::record::{Endpoints, Service, ServiceCidr};

use super::{SPEC, has_annotation, reading::Reading, spec_of};
use crate::body::{ANNOTATION_LEADER, Body};

pub(super) fn service(reading: &mut Reading<'_>, body: &Body<'_>) -> Service {
    let spec = spec_of(reading, body);
    Service {
        has_selector: field!(reading, spec.selector => is_there("selector")),
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
