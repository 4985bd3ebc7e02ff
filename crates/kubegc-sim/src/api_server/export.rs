//! Reads an object for export: in a form that can be created again.

use kubegc_core::{Behavior, KindId};

use super::{ApiServer, Key, Response};
use crate::{
    StoredObject,
    status::{self, Cause, Result},
    types::{
        self,
        defaults::{object_mut, objects_in, text},
        prepare,
    },
};

const EXPORT_IS_REMOVED: Behavior = Behavior::since(21, 0, "kubernetes #98312");

impl ApiServer {
    /// Reads one object for export. `exact`: its namespace and its generated name are retained.
    ///
    /// # Upstream
    /// `getResourceHandler` in `apiserver/pkg/endpoints/handlers/get.go`, `Store.Export` in
    /// `registry/generic/registry/store.go`, 1.20.2.
    pub fn exported(&self, kind: KindId, namespace: &str, name: &str, exact: bool) -> Response {
        self.try_export(Key::new(kind, namespace, name), exact)
            .map(|object| Response::ok(object.into()))
            .into()
    }

    fn try_export(&self, key: Key<'_>, exact: bool) -> Result<StoredObject> {
        let kind = key.kind;
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
        let mut object = StoredObject::clone(&*self.existing(key)?);
        let meta = &mut object.meta;
        meta.uid = "".into();
        meta.creation_timestamp = None;
        meta.deletion_timestamp = None;
        meta.resource_version = "".into();
        if !exact {
            meta.namespace = "".into();
            if !object.text_at(&["metadata", "generateName"]).is_empty() {
                object.meta.name = "".into();
            }
        }
        if self.schema(kind).is_some() {
            self.prepare_exported(kind, &mut object, exact)?;
        }
        Ok(object)
    }

    fn prepare_exported(&self, kind: KindId, object: &mut StoredObject, exact: bool) -> Result<()> {
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
                self.refuse_invalid(kind, &object.meta.name, vec![cause])?;
            }
            _ => {}
        }
        types::normalize(object, resource, self.version).map_err(status::bad_request)
    }
}

fn export_service(service: &mut StoredObject, exact: bool) {
    let body = service.body_mut();
    body.remove("status");
    let Some(spec) = object_mut(body, "spec").filter(|_| !exact) else {
        return;
    };
    if text(spec, "clusterIP") != "None" {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    if text(spec, "type") == "NodePort" {
        for port in objects_in(spec, "ports") {
            port.remove("nodePort");
        }
    }
}

fn is_of_service_account(secret: &StoredObject) -> bool {
    let uid = ["metadata", "annotations", "kubernetes.io/service-account.uid"];
    secret.text_at(&["type"]) == "kubernetes.io/service-account-token" || secret.at(&uid).is_some()
}
