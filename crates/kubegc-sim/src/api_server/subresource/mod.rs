//! Subresources of each kind, and the part of an object that each of them reads and writes.

mod pod;
mod scale;

use kubegc_core::{ApiResource, Behavior, KindId, Scope};
use serde_json::Value;

use super::{
    ApiServer, Key, Response, Special, crd,
    write::{Part, Request},
};
use crate::{
    Manifest,
    status::{self, Result},
    types::facts::Facts,
};

/// `policy/v1` has evictions.
const EVICTIONS_ARE_STABLE: Behavior = Behavior::since(22, 0, "kubernetes #100724");

/// One subresource of a kind, as discovery returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subresource {
    /// The path segment after the object's name, such as `status`.
    pub name: &'static str,
    /// Group and version of the body; empty if they are those of the resource.
    pub api_version: &'static str,
    /// Kind of the body; empty if it is that of the resource.
    pub kind: &'static str,
    /// The supported verbs, in order.
    pub verbs: &'static [&'static str],
}

const EDIT: &[&str] = &["get", "patch", "update"];
const CREATE: &[&str] = &["create"];

/// All subresources by name, with group and version and kind of their bodies, and their verbs. The table of
/// resources has the built-in kinds that have them.
const ALL: [(Part, (&str, &str), &[&str]); 8] = [
    (Part::Approval, ("", ""), EDIT),
    (Part::Binding, ("v1", "Binding"), CREATE),
    (Part::EphemeralContainers, ("", ""), EDIT),
    (Part::Eviction, ("policy/v1", "Eviction"), CREATE),
    (Part::Finalize, ("", ""), &["update"]),
    (Part::Resize, ("", ""), EDIT),
    (Part::Scale, (scale::API_VERSION, scale::KIND), EDIT),
    (Part::Status, ("", ""), EDIT),
];

impl ApiServer {
    /// The subresources of a kind that this server supports, ordered by name; none for kinds that it does not
    /// serve.
    ///
    /// The definition of a custom kind declares its subresources. A custom kind that was registered without a
    /// definition has a status.
    pub fn subresources(&self, kind: KindId) -> Vec<Subresource> {
        let Ok(known) = self.kind(kind) else {
            return Vec::new();
        };
        let resource = self.resource(kind);
        let definition = self
            .definition(kind)
            .filter(|definition| definition.body.is_some());
        let has_scale = |definition| crd::scale(definition, &resource.version).is_some();
        let is_supported = |part: Part| match part {
            // There are `pods` of other groups.
            Part::Binding | Part::EphemeralContainers | Part::Eviction | Part::Resize
                if known.special != Special::Pod =>
            {
                false
            }
            part if !resource.custom => Facts::of(resource).has(part.subresource(), self.version),
            Part::Status => definition.is_none() || known.status_subresource,
            Part::Scale => definition.is_some_and(|definition| has_scale(definition)),
            _ => false,
        };
        let supported = ALL.into_iter().filter(|(part, ..)| is_supported(*part));
        let shown = supported.map(|(part, (api_version, kind), verbs)| Subresource {
            name: part.subresource(),
            api_version: match part {
                Part::Eviction if !self.version.has(EVICTIONS_ARE_STABLE) => "policy/v1beta1",
                _ => api_version,
            },
            kind,
            verbs,
        });
        shown.collect()
    }

    /// Whether a kind has a subresource that this server supports.
    pub fn has_subresource(&self, kind: KindId, name: &str) -> bool {
        let all = self.subresources(kind);
        all.iter().any(|subresource| subresource.name == name)
    }

    /// Reads a subresource: the object itself, or a virtual object such as a `Scale`.
    ///
    /// # Errors
    /// In the response: 404 for a subresource that the kind does not have, 405 for one that supports only
    /// create.
    pub fn read_subresource(&self, kind: KindId, namespace: &str, name: &str, subresource: &str) -> Response {
        let key = Key::new(kind, namespace, name);
        if subresource == "scale" {
            return self.read_scale(key).map(Response::of_virtual).into();
        }
        self.part(kind, subresource)
            .and_then(|_| self.existing(key))
            .map(Response::ok)
            .into()
    }

    /// Replaces a subresource by its JSON form (PUT), or the object if `subresource` is empty. `apiVersion`
    /// and `kind` may be missing; otherwise they must match.
    ///
    /// # Errors
    /// In the response: 404 for a subresource that the kind does not have, and the errors of any other write.
    pub fn update_subresource(
        &mut self,
        kind: KindId,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Value,
    ) -> Response {
        if subresource == "scale" {
            return self.update_scale(Key::new(kind, namespace, name), &object).into();
        }
        self.part(kind, subresource)
            .and_then(|part| Ok((part, self.manifest(kind, object)?)))
            .and_then(|(part, object)| self.try_update(Key::new(kind, namespace, name), object, part))
            .into()
    }

    /// Creates a subresource (POST): the `eviction` or the `binding` of a pod. The response has status 201
    /// and no object.
    ///
    /// An eviction is a deletion with the eviction's options, unless a PodDisruptionBudget that selects the
    /// pod allows none: 429. An allowed eviction decrements the budget. A binding sets the node of a pod that
    /// has none.
    ///
    /// # Upstream
    /// `EvictionREST` and `BindingREST` in `pkg/registry/core/pod/storage`, 1.30.
    pub fn create_subresource(
        &mut self,
        kind: KindId,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Value,
    ) -> Response {
        let special = match self.kind(kind) {
            Ok(known) => known.special,
            Err(refusal) => return refusal.into(),
        };
        let key = Key::new(kind, namespace, name);
        match (special, subresource) {
            (Special::Pod, "eviction") => self.evict(key, &object).into(),
            (Special::Pod, "binding") => self.bind(key, &object).into(),
            _ if self.has_subresource(kind, subresource) => {
                status::method_not_allowed(self.resource(kind), None).into()
            }
            _ => status::unserved().into(),
        }
    }

    /// Calls the webhooks for a subresource whose body has a kind of its own.
    fn review_part(&mut self, kind: KindId, part: Part, old: Option<&Value>, new: &Value) -> Result<()> {
        let mut known = self.subresources(kind).into_iter();
        let Some(known) = known.find(|known| known.name == part.subresource()) else {
            return Ok(());
        };
        let api_version = new.get("apiVersion").and_then(Value::as_str);
        let api_version = api_version.unwrap_or(known.api_version);
        let body = ApiResource::new(api_version, known.kind, known.name, Scope::Namespaced);
        let read = |value: &Value| Manifest::read(value.clone()).map(|manifest| manifest.object);
        let (old, new) = (old.map(read).transpose()?, read(new)?);
        let request = Request {
            body: Some(&body),
            ..Request::new(kind, part, old.as_ref(), Some(&new))
        };
        self.mutate(request, Some(&mut new.clone()), |_| Ok(()))?;
        self.call_validating(request).map(drop)
    }

    /// The part of an object that a subresource writes; all of it if that is empty.
    pub(super) fn part(&self, kind: KindId, subresource: &str) -> Result<Part> {
        self.kind(kind)?;
        if subresource.is_empty() {
            return Ok(Part::Whole);
        }
        if !self.has_subresource(kind, subresource) {
            return Err(status::unserved());
        }
        let mut parts = ALL.into_iter().map(|(part, ..)| part);
        let part = parts.find(|part| part.subresource() == subresource && part.is_reviewed());
        part.ok_or_else(|| status::method_not_allowed(self.resource(kind), None))
    }
}
