//! Preparation, admission and allocation for objects of built-in types, and the fields that a kind does not
//! have.

use kubegc_core::{Behavior, KindId};
use serde_json::Value;

use super::{ApiServer, EventType, write::Part};
use crate::{
    StoredObject,
    status::{self, Result},
    types::{
        self, admission, certificates,
        node::{Node, Sent, undeclared},
        pod, prepare, service, validate,
    },
};

/// The conversion from the unstructured form makes empty bytes of empty texts, not nil.
const NIL_BYTES_ARE_EMPTY: [Behavior; 5] = [
    Behavior::since(24, 16, "converter.go of 1.24.16"),
    Behavior::since(25, 12, "converter.go of 1.25.12"),
    Behavior::since(26, 7, "converter.go of 1.26.7"),
    Behavior::since(27, 4, "converter.go of 1.27.4"),
    Behavior::since(28, 0, "converter.go of 1.28"),
];

impl ApiServer {
    /// Prepares an object that is created, or that replaces `old`, for validation.
    pub(super) fn prepare_typed(
        &self,
        kind: KindId,
        object: &mut StoredObject,
        old: Option<&StoredObject>,
        part: Part,
    ) -> Result<()> {
        let (resource, version) = (self.resource(kind), self.version);
        let is_whole = part == Part::Whole;
        match old {
            None => prepare::create(object, resource, version, self.now),
            Some(old) => {
                if is_whole {
                    admission::complete(self, resource, object, Some(old))?;
                }
                prepare::update(
                    object,
                    old,
                    (&*resource.kind, part.subresource()),
                    version,
                    self.now,
                );
            }
        }
        match (&*resource.kind, &*resource.version, old) {
            ("Service", _, Some(old)) if is_whole => service::prepare_ports(object, old, version),
            ("Pod", _, None) => pod::prepare(object, version),
            ("EndpointSlice", "v1", _) => prepare::without_topology(object, old),
            ("CertificateSigningRequest", _, None) => {
                certificates::prepare(object, self.user_info(self.user()));
            }
            ("CertificateSigningRequest", _, Some(old)) => {
                certificates::prepare_updated(object, old, part.subresource(), self.now);
            }
            _ => {}
        }
        types::normalize(object, resource, version).map_err(status::bad_request)?;
        if let Some(old) = old.filter(|_| part.can_increment_generation()) {
            prepare::count(object, old, resource, version);
        }
        Ok(())
    }

    /// Whether a write that changes nothing is stored anyway: the first update of a volume or claim, an
    /// update of an Event that another API group created, and a write of a Secret or ConfigMap whose empty
    /// bytes are or were nil. `old` is the stored object.
    ///
    /// # Upstream
    /// `fromUnstructured` in `apimachinery/pkg/runtime/converter.go`, and the comparison with the cached
    /// object in `GuaranteedUpdate` of `apiserver/pkg/storage/etcd3/store.go`, 1.20.2.
    pub(super) fn stores_unchanged(&self, kind: KindId, object: &StoredObject, old: &StoredObject) -> bool {
        let resource = self.resource(kind);
        if self.schema(kind).is_none() {
            return false;
        }
        match &*resource.kind {
            "Secret" | "ConfigMap" if self.version.has_change(&NIL_BYTES_ARE_EMPTY) => false,
            "Secret" | "ConfigMap" => object.has_nil_bytes || old.has_nil_bytes,
            "Event" => {
                let version = resource.api_version();
                let managers = object.managers.as_deref().and_then(Value::as_array);
                managers
                    .is_some_and(|managers| managers.iter().all(|manager| manager["apiVersion"] != *version))
            }
            "PersistentVolume" if self.version.minor() >= 29 => false,
            "PersistentVolume" | "PersistentVolumeClaim" => self.is_as_created(kind, old),
            _ => false,
        }
    }

    /// Whether an object was not written since it was created, as far as the changes are retained.
    fn is_as_created(&self, kind: KindId, object: &StoredObject) -> bool {
        let Ok(revision) = object.meta.resource_version.as_str().parse::<u64>() else {
            return false;
        };
        let table = self.table(kind);
        let first = table.and_then(|table| table.log.retained_since(revision.saturating_sub(1)).next());
        first.is_some_and(|event| {
            event.event_type == EventType::Added
                && event.object.meta.uid == object.meta.uid
                && event.object.meta.resource_version == object.meta.resource_version
        })
    }

    /// Allocates the addresses and ports of a service.
    pub(super) fn allocate(
        &self,
        kind: KindId,
        object: &mut StoredObject,
        old: Option<&StoredObject>,
    ) -> Result<()> {
        if &*self.resource(kind).kind != "Service" {
            return Ok(());
        }
        let taken = self.objects(kind, None);
        if self.is_allocated_first(kind) {
            self.refuse_invalid(
                kind,
                &object.meta.name,
                validate::service("RequestedAddresses", object, self.version),
            )?;
        }
        let (is_dry_run, refused) = (self.is_dry_run, self.addresses_refused);
        let allocated = service::allocate(&taken, object, old, self.version, is_dry_run, refused);
        self.refuse_invalid(kind, &object.meta.name, allocated.err().unwrap_or_default())?;
        let problems = validate::service("TrafficFields", object, self.version);
        self.refuse_invalid(kind, &object.meta.name, problems)
    }

    /// Whether the values of a sent object have the types of its kind.
    pub fn can_decode(&self, kind: KindId, sent: &Value) -> bool {
        !self.is_decoded(kind) || self.decoded(kind, sent.clone()).is_ok()
    }

    /// The paths of the fields that a kind does not have, such as `spec.replica`, in an object, or in a merge
    /// patch, whose nulls and directives are not fields. Nothing is known of kinds without a type or schema.
    pub fn unknown_fields(&self, kind: KindId, sent: &Value, is_patch: bool) -> Vec<String> {
        if !self.is_decoded(kind) {
            return Vec::new();
        }
        let node = match self.resource(kind) {
            resource if resource.custom => Node::Custom(self.pruning_schema(kind)),
            resource => Node::of(resource),
        };
        let form = match is_patch {
            true => Sent::Patch(self.version),
            false => Sent::Object(self.version),
        };
        let mut found = Vec::new();
        undeclared(sent, node, form, "", &mut found);
        for path in &mut found {
            path.remove(0);
        }
        found.sort_unstable();
        found
    }
}
