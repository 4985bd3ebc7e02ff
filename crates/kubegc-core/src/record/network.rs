//! Fields of services, endpoints and service CIDRs.

use std::sync::Arc;

use super::Field;

/// Fields of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Service {
    /// Whether `spec.selector` is set, even if it is empty.
    pub has_selector: Field<bool>,
}

/// Fields of an Endpoints object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoints {
    /// Whether the annotation `control-plane.alpha.kubernetes.io/leader` is set, with any value.
    pub has_leader_annotation: Field<bool>,
}

/// Fields of a ServiceCIDR.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServiceCidr {
    /// `spec.cidrs`.
    pub cidrs: Field<Vec<Arc<str>>>,
}
