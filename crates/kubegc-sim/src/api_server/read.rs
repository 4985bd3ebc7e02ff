//! GET, LIST, exports, and the events of watches. Filters select by labels and by the fields of each kind.

use std::sync::Arc;

use kubegc_core::{ApiResource, Behavior, KindId, KubernetesVersion};
use serde_json::Value;

use super::{ApiServer, Event, Key, Response, crd};
use crate::{
    Filter, StoredObject,
    status::{self, Cause, Result},
    types::{
        self,
        facts::Facts,
        objects::{object_mut, objects_in, text},
        prepare,
    },
};

const EXPORT_IS_REMOVED: Behavior = Behavior::since(21, 0, "kubernetes #98312");

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// The selectable fields of a built-in resource other than name and namespace.
fn built_in(resource: &ApiResource, version: KubernetesVersion) -> Vec<&'static str> {
    let fields = Facts::of(resource).value("select", version);
    fields.into_iter().flat_map(|fields| fields.split('|')).collect()
}

/// One change of any resource.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The kind of the object, in the version that a garbage collector watches.
    pub kind: KindId,
    pub event: &'a Event,
}

impl ApiServer {
    pub fn read(&self, kind: KindId, namespace: &str, name: &str) -> Response {
        self.kind(kind)
            .and_then(|_| self.existing(Key::new(kind, namespace, name)))
            .map(Response::ok)
            .into()
    }

    /// Lists the objects of a resource, or those of one namespace, that a filter or label selector matches.
    ///
    /// # Errors
    /// In the response: 400 if objects of the kind cannot be selected by one of the fields.
    pub fn list(&self, kind: KindId, namespace: Option<&str>, filter: impl Into<Filter>) -> Response {
        self.listed(kind, namespace, &filter.into()).into()
    }

    pub(super) fn listed(&self, kind: KindId, namespace: Option<&str>, filter: &Filter) -> Result<Response> {
        self.supports(kind, filter)?;
        let mut items = self.objects(kind, namespace.filter(|_| self.resource(kind).is_namespaced()));
        if !items.is_empty() {
            self.check_conversion(kind)?;
        }
        items.retain(|object| self.matches(kind, filter, object));
        Ok(Response::list(items, self.revision))
    }

    /// The changes of a resource after a revision, oldest first. The versions of a resource share its
    /// changes.
    ///
    /// # Errors
    /// The server's 410 if some of them are no longer retained, its 404 if it does not serve the kind.
    ///
    /// # Complexity
    /// O(log n) to find the first of n retained changes.
    pub fn events_since(
        &self,
        kind: KindId,
        revision: u64,
    ) -> Result<impl Iterator<Item = &Event>, Box<Response>> {
        if let Err(refusal) = self.kind(kind) {
            return Err(Box::new(refusal.into()));
        }
        let Some(table) = self.table(kind) else {
            return Ok(None.into_iter().flatten());
        };
        match table.log.since(revision) {
            Some(events) => Ok(Some(events).into_iter().flatten()),
            None => {
                let oldest = table.log.forgotten.saturating_add(1);
                let message = format!("too old resource version: {revision} ({oldest})");
                Err(Box::new(status::refusal(410, "Expired", message, None).into()))
            }
        }
    }

    /// The changes of all resources after a revision, in the order of their revisions. Changes that are no
    /// longer retained are left out.
    ///
    /// # Complexity
    /// O(c log c) for c changes, and O(log n) for each resource that has changed since, with n changes.
    pub fn changes_since(&self, revision: u64) -> impl Iterator<Item = Change<'_>> {
        let mut changes = Vec::new();
        let recent = self.tables_by_change.iter().rev();
        let recent =
            recent.filter_map(|&table| Some((&self.shape.tables[table], self.tables[table].as_ref()?)));
        for (info, table) in recent.take_while(|(_, table)| table.log.newest() > revision) {
            let kind = info.watched_as;
            let events = table.log.retained_since(revision);
            changes.extend(events.map(|event| Change { kind, event }));
        }
        changes.sort_unstable_by_key(|change| change.event.revision);
        changes.into_iter()
    }

    /// Drops all changes up to a revision: watches that begin earlier get *expired*.
    pub fn prune_events(&mut self, through: u64) {
        for table in self.tables.iter_mut().flatten() {
            if table.log.oldest().is_some_and(|oldest| oldest <= through) {
                Arc::make_mut(table).log.forget(through);
            }
        }
    }

    /// Checks that a filter is valid for a kind.
    ///
    /// # Errors
    /// The server's 400 if objects of the kind cannot be selected by one of the fields, its 404 if it does
    /// not serve the kind.
    pub fn check_filter(&self, kind: KindId, filter: &Filter) -> Result<(), Box<Response>> {
        self.supports(kind, filter)
            .map_err(|refusal| Box::new(refusal.into()))
    }

    pub(super) fn supports(&self, kind: KindId, filter: &Filter) -> Result<()> {
        self.kind(kind)?;
        let resource = self.resource(kind);
        for label in filter.fields.fields() {
            let common =
                label == NAME || (label == NAMESPACE && (resource.is_namespaced() || !resource.custom));
            let own = || match self.definition(kind) {
                Some(definition) => crd::is_selectable(definition, &resource.version, label),
                None => built_in(resource, self.version).contains(&label),
            };
            if !common && !own() {
                return Err(status::bad_request(unsupported(resource, label, self.version)));
            }
        }
        Ok(())
    }

    /// Whether a filter matches an object of a kind. The filter is valid for the kind.
    pub fn matches(&self, kind: KindId, filter: &Filter, object: &StoredObject) -> bool {
        filter.labels.matches(&object.meta)
            && filter
                .fields
                .matches_by(|field| value(self.resource(kind), object, field))
    }

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

fn unsupported(resource: &ApiResource, label: &str, version: KubernetesVersion) -> String {
    let quoted = status::quoted(label);
    match (&*resource.group, &*resource.resource) {
        ("batch", "jobs") => format!("field label {quoted} not supported for Job"),
        _ if resource.custom || !built_in(resource, version).is_empty() => {
            format!("field label not supported: {label}")
        }
        _ => {
            format!("{quoted} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    }
}

/// The value of a field in the form that selectors compare; empty where there is none.
fn value(resource: &ApiResource, object: &StoredObject, field: &str) -> String {
    let is_set = |path: &[&str]| !object.text_at(path).is_empty();
    let regarding = field.strip_prefix("regarding.");
    let about = regarding.map(|rest| format!("involvedObject.{rest}"));
    let stored = match field {
        NAME => return object.meta.name.to_string(),
        NAMESPACE => return object.meta.namespace.to_string(),
        field if resource.custom => field,
        "spec.host" => "spec.nodeName",
        "status.successful" => "status.succeeded",
        "source" if is_set(&["source", "component"]) => "source.component",
        // Events are stored as those of the core group, if their types are known.
        "source" => "reportingComponent",
        "reportingController" if object.at(&["reportingComponent"]).is_some() => "reportingComponent",
        "status.podIP" | "status.podIPs" => {
            let ips = object.list_at(&["status", "podIPs"]).iter();
            let ips: Vec<&str> = ips.filter_map(|entry| entry.get("ip")?.as_str()).collect();
            match ips.as_slice() {
                [] => "status.podIP",
                [first, ..] if field == "status.podIP" => return (*first).to_owned(),
                all => return all.join(","),
            }
        }
        _ => match &about {
            Some(about) if object.at(&["involvedObject"]).is_some() => about,
            _ => field,
        },
    };
    let path: Vec<&str> = stored.split('.').collect();
    match object.at(&path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ if resource.custom => String::new(),
        // The default of a field that the object does not set.
        _ => match field {
            "spec.unschedulable" | "spec.hostNetwork" => "false".to_owned(),
            "status.successful" | "status.replicas" => "0".to_owned(),
            _ => String::new(),
        },
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
