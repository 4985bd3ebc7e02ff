//! Objects and kinds by the names that people give.

use std::sync::Arc;

use kubegc_core::{ApiResource, KindId, ObjectRef};

use super::Facts;
use crate::{ObjectName, PredictError, Target};

impl Facts {
    /// The object of a name, if it certainly does not exist.
    pub(crate) fn absent(&self, name: &ObjectName) -> Result<Option<ObjectRef>, PredictError> {
        let (_, resource) = self.kind(&name.kind)?;
        let (namespace, name) = (&name.namespace, &name.name);
        let may_exist =
            self.find(resource, namespace, name).is_some() || self.is_unlisted(resource, namespace);
        let absent = || ObjectRef::new(&resource.api_version(), &resource.kind, namespace, name, "");
        Ok((!may_exist).then(absent))
    }

    pub(crate) fn resolve(&self, target: &Target) -> Result<Vec<u32>, PredictError> {
        match target {
            Target::Object(name) => Ok(vec![self.position(name)?]),
            Target::Labelled {
                kind,
                namespace,
                selector,
            } => {
                let (_, resource) = self.kind(kind)?;
                let is_meant = |position: &u32| {
                    let meta = self.view(*position).meta();
                    namespace.as_ref().is_none_or(|one| *one == meta.namespace) && selector.matches(&meta)
                };
                Ok(self.of_kind(resource).filter(is_meant).collect())
            }
        }
    }

    /// The position of an object.
    ///
    /// # Errors
    /// The kind is unknown or ambiguous, or there is no such object.
    pub(crate) fn position(&self, name: &ObjectName) -> Result<u32, PredictError> {
        let (_, resource) = self.kind(&name.kind)?;
        let found = self.find(resource, &name.namespace, &name.name);
        found.ok_or_else(|| {
            let namespace = Some(&*name.namespace).filter(|_| resource.is_namespaced());
            unknown_object(self, namespace, resource, &name.name)
        })
    }

    pub(crate) fn kind(&self, name: &str) -> Result<(KindId, &ApiResource), PredictError> {
        let catalog = self.catalog();
        let mut found = catalog.named(name);
        // As in kubectl, the core group takes precedence; then a group of which the dump has objects.
        if let Some(core) = found.iter().position(|kind| catalog[*kind].group.is_empty()) {
            found = vec![found.swap_remove(core)];
        }
        let has_objects = |kind: &KindId| self.of_kind(&catalog[*kind]).next().is_some();
        let with_objects: Vec<KindId> = found.iter().copied().filter(has_objects).collect();
        match (found.as_slice(), with_objects.as_slice()) {
            ([], _) => Err(unknown_kind(self, name)),
            ([kind], _) | (_, [kind]) => Ok((*kind, &catalog[*kind])),
            (several, _) => Err(self.ambiguous_kind(name, several)),
        }
    }

    pub(crate) fn ambiguous_kind(&self, name: &str, kinds: &[KindId]) -> PredictError {
        let candidates = kinds
            .iter()
            .map(|kind| self.catalog()[*kind].qualified_resource());
        PredictError::AmbiguousKind {
            name: name.to_owned(),
            candidates: candidates.collect(),
        }
    }
}

pub(crate) const SIMILAR_MAX: usize = 3;
/// From which similarity on a name is offered, up to 1 for equal names.
const SIMILARITY_MIN: f64 = 0.8;

/// The names that are most similar to one that was not found.
pub(crate) fn similar(name: &str, known: impl Iterator<Item = (Arc<str>, String)>) -> Vec<String> {
    let name = name.to_lowercase();
    let similarity = |known: &str| strsim::jaro_winkler(&name, &known.to_lowercase());
    let found = known.map(|(known, shown)| (similarity(&known), shown));
    let mut found: Vec<(f64, String)> = found.filter(|(one, _)| *one >= SIMILARITY_MIN).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.dedup_by(|a, b| a.1 == b.1);
    found.truncate(SIMILAR_MAX);
    found.into_iter().map(|(_, shown)| shown).collect()
}

/// The error for a name of no kind, with the similar kinds; or with the objects of this name.
pub(crate) fn unknown_kind(facts: &Facts, name: &str) -> PredictError {
    let plain = name.split(['.', '/']).next_back().filter(|_| name.contains('/'));
    let plain = plain.unwrap_or_else(|| name.split('.').next().unwrap_or(name));
    let kinds = facts.catalog().iter().map(|(_, resource)| resource);
    let names = kinds.filter(|resource| resource.preferred).flat_map(|resource| {
        let all = [&resource.kind, &resource.resource].into_iter();
        let all = all.chain(&resource.short_names);
        all.map(|name| (Arc::clone(name), resource.qualified_resource()))
    });
    PredictError::UnknownKind {
        name: name.to_owned(),
        similar: similar(plain, names),
    }
}

/// The error for an object that the dump does not have, with the names of similar objects.
pub(crate) fn unknown_object(
    facts: &Facts,
    namespace: Option<&str>,
    kind: &ApiResource,
    name: &str,
) -> PredictError {
    let views = facts.of_kind(kind).map(|position| facts.view(position));
    let names = views.map(|view| {
        let shown = match &**view.namespace() {
            in_same if in_same.is_empty() || Some(in_same) == namespace => view.name().to_string(),
            other => format!("{} -n {other}", view.name()),
        };
        (Arc::clone(view.name()), shown)
    });
    let similar = similar(name, names);
    let is_namespace = kind.group.is_empty() && *kind.kind == *"Namespace";
    let content = if is_namespace {
        facts.content(name).len()
    } else {
        0
    };
    PredictError::UnknownObject {
        resource: kind.qualified_resource(),
        namespace: namespace.filter(|_| kind.is_namespaced()).map(Into::into),
        name: name.to_owned(),
        similar,
        content,
    }
}
