//! Reads an object for export: in a form that can be created again.

use kubegc_core::{Behavior, KindId};
use serde_json::Value;

use super::{ApiServer, Response};
use crate::{
    StoredObject,
    status::{self, Cause, Refusal},
    types::{self, prepare},
};

/// Export is no longer supported.
const EXPORT_IS_REMOVED: Behavior = Behavior::since(21, 0, "kubernetes #98312");

impl ApiServer {
    /// Reads one object for export. `exact`: its namespace and its generated name are retained.
    ///
    /// # Upstream
    /// `getResourceHandler` in `apiserver/pkg/endpoints/handlers/get.go`, `Store.Export` in
    /// `registry/generic/registry/store.go`, 1.20.2.
    #[must_use]
    pub fn exported(&self, kind: KindId, namespace: &str, name: &str, exact: bool) -> Response {
        self.try_export(kind, namespace, name, exact)
            .map(|object| Response::ok(object.into()))
            .into()
    }

    fn try_export(
        &self,
        kind: KindId,
        namespace: &str,
        name: &str,
        exact: bool,
    ) -> Result<StoredObject, Refusal> {
        self.kind(kind)?;
        let resource = self.resource(kind);
        if self.version.has(EXPORT_IS_REMOVED) {
            let why = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(status::bad_request(why));
        }
        if &*resource.group == "rbac.authorization.k8s.io" {
            let why = format!("export of {:?} is not supported", resource.resource);
            return Err(status::bad_request(why));
        }
        let mut object = StoredObject::clone(&*self.existing(kind, namespace, name)?);
        let meta = &mut object.meta;
        meta.uid = "".into();
        meta.creation_timestamp = None;
        meta.deletion_timestamp = None;
        meta.resource_version = "".into();
        if !exact {
            meta.namespace = "".into();
            let generated = object.at(&["metadata", "generateName"]);
            if generated
                .and_then(Value::as_str)
                .is_some_and(|name| !name.is_empty())
            {
                object.meta.name = "".into();
            }
        }
        if self.schema(kind).is_some() {
            self.prepare_exported(kind, &mut object, exact)?;
        }
        Ok(object)
    }

    fn prepare_exported(&self, kind: KindId, object: &mut StoredObject, exact: bool) -> Result<(), Refusal> {
        let resource = self.resource(kind);
        match &*resource.kind {
            "LimitRange" | "PodTemplate" => return Ok(()),
            "Service" => export_service(object, exact),
            _ => prepare::create(object, resource, self.version, self.now),
        }
        match &*resource.kind {
            "CertificateSigningRequest" | "Node" if exact => {}
            "CertificateSigningRequest" | "Node" | "PersistentVolume" | "PersistentVolumeClaim" => {
                object.body_mut().remove("status");
            }
            "Secret" if !exact && is_of_service_account(object) => {
                let why = "can not export service account secrets";
                let cause = Cause::invalid("type", "", why);
                return Err(status::invalid(
                    self.version,
                    resource,
                    &object.meta.name,
                    vec![cause],
                ));
            }
            _ => {}
        }
        types::normalize(object, resource, self.version).map_err(status::bad_request)
    }
}

fn export_service(service: &mut StoredObject, exact: bool) {
    let body = service.body_mut();
    body.remove("status");
    let Some(Value::Object(spec)) = body.get_mut("spec").filter(|_| !exact) else {
        return;
    };
    if spec.get("clusterIP").and_then(Value::as_str) != Some("None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    if spec.get("type").and_then(Value::as_str) == Some("NodePort") {
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
}

fn is_of_service_account(secret: &StoredObject) -> bool {
    let is_token =
        secret.at(&["type"]).and_then(Value::as_str) == Some("kubernetes.io/service-account-token");
    is_token
        || secret
            .at(&["metadata", "annotations", "kubernetes.io/service-account.uid"])
            .is_some()
}
