//! Fields of services, endpoints, IP addresses and service CIDRs.

use std::sync::Arc;

use super::{Condition, Field};

/// Fields of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Service {
    /// Whether `spec.selector` has an entry.
    pub has_selector: Field<bool>,
}

/// Fields of an Endpoints object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoints {
    /// Whether the annotation `control-plane.alpha.kubernetes.io/leader` is set, with any value.
    pub has_leader_annotation: Field<bool>,
}

/// Fields of an IPAddress, whose name is the address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IpAddress {
    /// `spec.parentRef`; `None` where unset.
    pub parent: Field<Option<ParentReference>>,
}

/// `spec.parentRef` of an IPAddress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParentReference {
    /// `group`; empty for the core group.
    pub group: Arc<str>,
    /// `resource`, such as `services`.
    pub resource: Arc<str>,
    /// `namespace`.
    pub namespace: Arc<str>,
    /// `name`.
    pub name: Arc<str>,
}

/// Fields of a ServiceCIDR.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServiceCidr {
    /// `spec.cidrs`.
    pub cidrs: Field<Vec<Arc<str>>>,
    /// `status.conditions`.
    pub conditions: Field<Vec<Condition>>,
}
