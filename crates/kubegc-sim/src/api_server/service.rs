//! DELETE of Services: the API server itself deletes their Endpoints, without an entry in the audit log, and
//! their IPAddresses.
//!
//! # Upstream
//! [`REST.Delete`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/registry/core/service/storage/rest.go)
//! up to 1.22, from 1.23 on
//! [`REST.afterDelete`](https://github.com/kubernetes/kubernetes/blob/v1.23.0/pkg/registry/core/service/storage/storage.go);
//! [`Allocator.release`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/service/ipallocator/ipallocator.go).

use kubegc_core::{Behavior, DeleteOptions, KindId, ObjectMeta, version::behavior};
use serde_json::Value;

use super::{ApiServer, Key, Response, ResponseBody, Special};
use crate::{
    StoredObject,
    status::{self, Cause, Result},
    types::{service::ALLOCATED_FIRST, validate},
};

/// The removal of a Service deletes its Endpoints; a DELETE that leaves the Service terminating does not.
const ENDPOINTS_FOLLOW_REMOVAL: Behavior = Behavior::since(23, 0, "kubernetes #96684");

/// Deletes a Service. Up to 1.22 every DELETE also deletes the Endpoints and responds with a Status, even if
/// the Service waits for a finalizer.
pub(super) fn delete(server: &mut ApiServer, key: Key<'_>, options: &DeleteOptions) -> Result<Response> {
    let service = server.existing(key)?;
    let mut response = server.delete_object(key, &mut options.clone())?;
    if !server.version.has(ENDPOINTS_FOLLOW_REMOVAL) {
        if !options.dry_run {
            delete_endpoints(server, &service.meta);
        }
        let deleted = status::deleted(server.resource(key.kind), &service.meta.name, &service.meta.uid);
        response.body = ResponseBody::Status(deleted);
    }
    Ok(response)
}

/// Refuses a new service whose name cannot be a part of a path: its address is allocated before it is
/// validated, and an IPAddress refers to a service by its name. A dry run makes no IPAddress.
pub(super) fn refuse_unreferable(server: &mut ApiServer, service: &StoredObject) -> Result<()> {
    let spec = |key: &str| service.text_at(&["spec", key]);
    let name = &*service.meta.name;
    let problems = match name {
        "" => vec!["Required value".to_owned()],
        name => {
            let problems = crate::formats::path_segment(name).into_iter();
            let shown = status::quoted(name);
            problems
                .map(|problem| format!("Invalid value: {shown}: {problem}"))
                .collect()
        }
    };
    if !server.version.has(behavior::ADDRESSES_ARE_OBJECTS)
        || problems.is_empty()
        || server.is_dry_run
        || !validate::service("RequestedAddresses", service, server.version).is_empty()
        || spec("type") == "ExternalName"
        || spec("clusterIP") == "None"
    {
        return Ok(());
    }
    // Addresses are drawn at random, so the next service gets another one.
    let address = crate::types::service::next_address(&server.services(), server.addresses_refused);
    server.addresses_refused += 1;
    let problem = format!(
        "failed to allocate IP: IPAddress.networking.k8s.io {} is invalid: spec.parentRef.name: {}",
        status::quoted(&address),
        problems[0]
    );
    let shown = format!("[{}]", status::quoted(spec("clusterIP")));
    let cause = Cause::invalid("spec.clusterIPs", &shown, &problem);
    let Ok(kind) = server.resolve("", "v1", "services") else {
        return Ok(());
    };
    server.refuse_invalid(kind, name, vec![cause])
}

impl ApiServer {
    /// Whether the addresses and ports of this kind are allocated before an object is validated.
    pub(super) fn is_allocated_first(&self, kind: KindId) -> bool {
        self.special(kind) == Special::Service
            && self.schema(kind).is_some()
            && self.version.has(ALLOCATED_FIRST)
    }

    fn services(&self) -> Vec<std::sync::Arc<StoredObject>> {
        let kind = self.resolve("", "v1", "services");
        kind.map_or_else(|_| Vec::new(), |kind| self.objects(kind, None))
    }
}

/// Deletes the Endpoints and the IPAddresses of a Service that no longer exists, regardless of what removed
/// it.
pub(super) fn removed(server: &mut ApiServer, service: &StoredObject) {
    if server.version.has(ENDPOINTS_FOLLOW_REMOVAL) {
        delete_endpoints(server, &service.meta);
    }
    if server.version.has(behavior::ADDRESSES_ARE_OBJECTS) {
        delete_addresses(server, service);
    }
}

/// Deletes the IPAddresses of the cluster IPs, whatever they refer to. Errors are ignored: the repair loop of
/// the API server deletes those that are left.
fn delete_addresses(server: &mut ApiServer, service: &StoredObject) {
    let addresses = service.list_at(&["spec", "clusterIPs"]);
    if let Ok(kind) = server.resolve("networking.k8s.io", "v1", "ipaddresses") {
        for address in addresses.iter().filter_map(Value::as_str) {
            let _ignored = server.delete_with(kind, "", address, &DeleteOptions::default());
        }
    }
}

fn delete_endpoints(server: &mut ApiServer, service: &ObjectMeta) {
    let Some(kind) = server.shape.catalog.by_resource("", "v1", "endpoints") else {
        return;
    };
    let key = Key::new(kind, &service.namespace, &service.name);
    // Without preconditions the only error is a 404: a Service need not have Endpoints.
    let _ignored = server.without_webhooks(|server| server.delete_object(key, &mut DeleteOptions::default()));
}
