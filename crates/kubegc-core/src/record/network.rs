//! Fields of services, endpoints, IP addresses and service CIDRs.

use std::{collections::BTreeMap, sync::Arc};

use super::Field;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Service {
    /// `spec.selector`; `None` if unset.
    pub selector: Field<Option<BTreeMap<Arc<str>, Arc<str>>>>,
    /// `spec.clusterIPs`: addresses, or `None` for a headless Service.
    pub cluster_ips: Field<Vec<Arc<str>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IpAddress {
    /// `spec.parentRef`.
    pub parent: Field<ParentRef>,
}

/// The object that an IPAddress belongs to; an omitted field is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ParentRef {
    pub group: Arc<str>,
    /// `resource`, such as `services`.
    pub resource: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ParentRef {
    pub fn is_service(&self) -> bool {
        self.group.is_empty() && *self.resource == *"services"
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoints {
    /// Whether the annotation `control-plane.alpha.kubernetes.io/leader` is set, with any value.
    pub has_leader_annotation: Field<bool>,
    /// Whether one of `subsets` has `addresses`, which are those of ready pods.
    pub has_ready_address: Field<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServiceCidr {
    /// `spec.cidrs`.
    pub cidrs: Field<Vec<Arc<str>>>,
}
