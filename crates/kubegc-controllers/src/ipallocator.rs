//! Deletes IPAddresses of Services that do not exist.
//!
//! - it does not have the label `ipaddress.kubernetes.io/managed-by: ipallocator.k8s.io`: it is ignored.
//! - its parent is not a Service: it is deleted.
//! - its Service exists and has the address among its `spec.clusterIPs`: it is kept.
//! - its Service exists and does not have the address: it is deleted.
//! - its Service does not exist: it is deleted 60 s after its creation, because the API server creates the
//!   IPAddress before the Service.
//!
//! The API server itself runs this repair loop, and examines an IPAddress when it changes and every 3
//! minutes. It deletes the IPAddresses of a Service with the Service, without this loop. The same loop
//! creates missing IPAddresses of Services, which is not covered.
//!
//! The loop exists from 1.33 on (feature gate `MultiCIDRServiceAllocator`: alpha from 1.27, beta and off from
//! 1.31).
//!
//! # Upstream
//! [`syncIPAddress`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/ipallocator/controller/repairip.go)
//! in `repairip.go`.

use std::{sync::Arc, time::Duration};

use kubegc_core::{
    DeleteOptions,
    record::{ObjectId, Record, Resource},
    version::behavior::ADDRESSES_ARE_OBJECTS,
};

use crate::{
    Action, Decision, Info, Key, Missing, OnError, Reason, Rule, Sent, Timing, controller::Reads as _,
    rule::RuleContext,
};

/// The label of IPAddresses that the API server has created, and its value.
pub(crate) const MANAGED_BY: [&str; 2] = ["ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"];
/// The time that the creation of a Service may need after that of its IPAddress.
const CREATION: Duration = Duration::from_secs(60);
/// The period in which the API server examines every IPAddress.
const PERIOD: Duration = Duration::from_secs(180);

/// The part of the API server's repair loop for cluster IPs that deletes IPAddresses.
pub static RULE: Rule = Rule {
    info: Info {
        name: "ipallocator-repair-controller",
        summary: "deletes IPAddresses of Services that do not exist",
        resources: &[Resource::IpAddresses, Resource::Services],
        // The removal of a Service does not affect its IPAddresses before the next period.
        timing: Timing {
            resync: Some(PERIOD),
            ..Timing::DEFAULT
        },
        since: Some(ADDRESSES_ARE_OBJECTS),
        permissions: &[(Resource::IpAddresses, "", &["delete"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/ipallocator/controller/repairip.go",
        ..Info::BASE
    },
    gate: Some((ADDRESSES_ARE_OBJECTS, "MultiCIDRServiceAllocator")),
    decide,
    ..Rule::BASE
};

fn decide(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let [label, manager] = MANAGED_BY;
    if record
        .meta
        .labels
        .get(label)
        .is_none_or(|value| **value != *manager)
    {
        return id.keep("NotManaged", "the API server has not created it");
    }
    if record.meta.is_deleting() {
        return id.keep("Terminating", "it is being deleted");
    }
    let name = &id.name;
    let delete = |code: &'static str, event: &'static str, message: String, text: String| {
        let action = Action::new(Resource::IpAddresses, &record.meta, Reason::new(code, message))
            .event(true, event, text)
            .delete(cx.wire, Sent::Nothing, DeleteOptions::default())
            .on_error(OnError::RetryUnlessNotFound);
        Ok(action.into())
    };
    let address = id.body(record, Record::ip_address)?;
    let parent = id.read(&address.parent, "spec.parentRef")?;
    if !parent.is_service() {
        let text =
            format!("IPAddress {name} appears to have been modified, not referencing a Service: cleaning up");
        let message = "it does not refer to a Service".to_owned();
        return delete("NoServiceReference", "IPAddressNotAllocated", message, text);
    }
    let service = format!("{}/{}", parent.namespace, parent.name);
    let key = Key::new(Arc::clone(&parent.namespace), Arc::clone(&parent.name));
    let Some(found) = cx.cache.find(Resource::Services, &key)? else {
        let created = record.meta.creation_timestamp;
        if let Some(at) = created.map(|created| created.saturating_add(CREATION))
            && at > cx.now
        {
            let reason = "its Service does not exist, and it was created less than 60s ago";
            return Ok(id.keep("ServicePending", reason)?.requeue_at(at));
        }
        let text = format!("IPAddress: {name} for Service {service} appears to have leaked: cleaning up");
        let message = format!("its Service {service} does not exist");
        return delete("ServiceDeleted", "IPAddressNotAllocated", message, text);
    };
    let service_id = found.id(Resource::Services);
    let body = service_id.body(found, Record::service)?;
    if service_id
        .read(&body.cluster_ips, "spec.clusterIPs")?
        .contains(name)
    {
        return id.keep("Allocated", "it is a cluster IP of its Service");
    }
    let text = format!("IPAddress: {name} for Service {service} has a wrong reference; cleaning up");
    let message = format!("its Service {service} does not have this cluster IP");
    delete("WrongReference", "IPAddressWrongReference", message, text)
}
