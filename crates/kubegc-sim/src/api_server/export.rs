//! Decides what an object looks like without what one cluster knows of it: the parameter `export`, which was removed in 1.21.
//!
//! # Upstream
//! `Store.Export` in `apiserver/pkg/registry/generic/registry/store.go` and the strategies in `pkg/registry`, 1.20.2.

use kubegc_core::{Behavior, KindId, ResourceVersion, Uid};
use serde_json::{Value, json};

use super::{ApiServer, Special};
use crate::StoredObject;

/// Objects are exported no more.
const EXPORT_IS_IGNORED: Behavior = Behavior::since(21, 0, "kubernetes #98312");

impl ApiServer {
    /// Whether the release knows the parameter `export`.
    #[must_use]
    pub fn exports(&self) -> bool {
        !self.version.has(EXPORT_IS_IGNORED)
    }

    /// An object as it can be created elsewhere; with `exact`, of the same name in the same namespace. `None` for a kind that cannot
    /// be exported.
    #[must_use]
    pub fn exported(&self, kind: KindId, object: &StoredObject, exact: bool) -> Option<StoredObject> {
        let resource = self.resource(kind);
        if &*resource.group == "rbac.authorization.k8s.io" {
            return None;
        }
        let mut object = object.clone();
        let meta = &mut object.meta;
        meta.uid = Uid::default();
        meta.creation_timestamp = None;
        meta.deletion_timestamp = None;
        meta.resource_version = ResourceVersion::default();
        if !exact {
            meta.namespace = "".into();
            if object.at(&["metadata", "generateName"]).is_some() {
                object.meta.name = "".into();
            }
        }
        if object.meta.generation > 0 {
            object.meta.generation = 1;
        }
        let known = &self.shape.kinds[kind.index()];
        let keeps_status = resource.custom && !known.status_subresource;
        let is_service = known.special == Special::Service;
        let body = object.body_mut();
        match known.special {
            Special::Namespace => {
                body.insert("status".to_owned(), json!({"phase": "Active"}));
            }
            Special::Pod => {
                let status = body.get("status").and_then(|status| status.get("qosClass"));
                let status = json!({"phase": "Pending", "qosClass": status});
                body.insert("status".to_owned(), status);
            }
            _ if keeps_status || (exact && &*resource.kind == "Node") => {}
            _ => {
                body.remove("status");
            }
        }
        if is_service
            && !exact
            && let Some(Value::Object(spec)) = body.get_mut("spec")
        {
            if spec.get("clusterIP").is_some_and(|ip| ip != "None") {
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
            }
            if spec.get("type").is_some_and(|of_type| of_type == "NodePort")
                && let Some(Value::Array(ports)) = spec.get_mut("ports")
            {
                for port in ports.iter_mut().filter_map(Value::as_object_mut) {
                    port.remove("nodePort");
                }
            }
        }
        if self.schema(kind).is_some() {
            // What was read by its type fits it.
            let _fits = self.normalized(kind, &mut object);
        }
        Some(object)
    }
}
