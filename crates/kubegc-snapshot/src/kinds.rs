//! The kinds that the dumped cluster serves: built in, listed, defined in the dump itself, or inferred from
//! the objects and their paths where nothing defines them.
//!
//! An object that an API server returned has a namespace exactly where its kind is namespaced, so the scope
//! of an inferred kind is certain if all objects agree. Objects without uid were written by hand and prove
//! nothing without a namespace. The name of the resource is a guess as kubectl makes it, unless a path has
//! it.

use std::{cmp::Reverse, collections::BTreeSet};

use kubegc_core::{
    ApiResource, Catalog, KindId, KubernetesVersion, Scope, Verbs,
    identity::{join_api_version, split_api_version},
};

use crate::{
    CrdDetails, Details, GroupKind, Problem,
    discovery::Discovery,
    finding::Findings,
    layout,
    store::{Store, TypeId},
};

pub(crate) fn catalog(
    version: KubernetesVersion,
    discovery: &Discovery,
    store: &Store,
    findings: &mut Findings,
) -> Catalog {
    let mut kinds = Kinds {
        catalog: Catalog::builtin(version),
        findings,
    };
    let builtin: Vec<_> = kinds
        .catalog
        .iter()
        .map(|(_, resource)| GroupKind::of(resource))
        .collect();
    for resource in &discovery.resources {
        let mut resource = resource.clone();
        resource.custom =
            !builtin.contains(&GroupKind::of(&resource)) && !resource.group.ends_with("metrics.k8s.io");
        kinds.add(resource, "api-resources");
    }
    for resource in &discovery.unversioned {
        if builtin.contains(&GroupKind::of(resource)) {
            continue;
        }
        // The table names no version: the versions are those that objects of the dump have.
        for &(api_version, kind) in store.types.iter() {
            let (group, version) = split_api_version(store.texts.text(api_version));
            if *group == *resource.group && **store.texts.text(kind) == *resource.kind {
                let mut resource = resource.clone();
                resource.version = version.into();
                resource.custom = !resource.group.ends_with("metrics.k8s.io");
                kinds.add(resource, "api-resources");
            }
        }
    }
    for (definition, name) in definitions(store) {
        kinds.define(definition, name);
    }
    kinds.catalog
}

/// The definitions in the dump, and their names.
fn definitions(store: &Store) -> impl Iterator<Item = (&CrdDetails, &str)> {
    let records = store.records.iter();
    records.filter_map(|record| match store.details_of(record)? {
        Details::CustomResourceDefinition(definition) => Some((&**definition, &*record.name)),
        _ => None,
    })
}

struct Kinds<'f> {
    catalog: Catalog,
    findings: &'f mut Findings,
}

impl Kinds<'_> {
    /// Adds a resource unless it exists; an existing one that differs is a finding.
    fn add(&mut self, resource: ApiResource, source: &str) {
        let api_version = resource.api_version();
        let by_resource = || {
            self.catalog
                .by_resource(&resource.group, &resource.version, &resource.resource)
        };
        let known = self
            .catalog
            .mapping(&api_version, &resource.kind)
            .or_else(by_resource);
        let Some(known) = known else {
            // Neither the kind nor the resource exists, so the catalog accepts it.
            let _added = self.catalog.add(resource);
            return;
        };
        let known: &ApiResource = &self.catalog[known];
        if (&known.kind, &known.resource, known.scope) != (&resource.kind, &resource.resource, resource.scope)
        {
            let detail = format!(
                "{source} has it as {}, already known is {}",
                words(&resource),
                words(known)
            );
            self.findings.add_of_kind(
                Problem::ConflictingDefinition,
                &api_version,
                &resource.kind,
                &detail,
            );
        }
    }

    fn define(&mut self, definition: &CrdDetails, name: &str) {
        if definition.established == Some(false) {
            let detail = format!("{name} is not established, so {} is not served", definition.kind);
            self.findings.add_of_kind(
                Problem::NotEstablished,
                &definition.group,
                &definition.kind,
                &detail,
            );
            return;
        }
        let mut served: Vec<_> = definition
            .versions
            .iter()
            .filter(|version| version.served)
            .collect();
        served.sort_by_key(|version| Reverse(preference(&version.name)));
        for (index, version) in served.iter().enumerate() {
            let api_version = join_api_version(&definition.group, &version.name);
            let mut resource = ApiResource::new(
                &api_version,
                &definition.kind,
                &definition.plural,
                definition.scope,
            )
            .custom();
            resource.short_names.clone_from(&definition.short_names);
            resource.categories.clone_from(&definition.categories);
            resource.verbs = Verbs::ALL;
            resource.preferred = index == 0;
            self.add(resource, name);
        }
    }
}

fn words(resource: &ApiResource) -> String {
    let scope = match resource.scope {
        Scope::Cluster => "cluster-scoped",
        Scope::Namespaced => "namespaced",
    };
    format!("{scope} {} ({})", resource.kind, resource.resource)
}

pub(crate) fn resolve(store: &Store, catalog: &Catalog) -> Vec<Option<KindId>> {
    store
        .types
        .iter()
        .map(|&(api_version, kind)| catalog.mapping(store.texts.text(api_version), store.texts.text(kind)))
        .collect()
}

/// The order of API versions, the preferred one last: stable after beta after alpha, then the higher number;
/// all others before them, in reverse order of their names.
///
/// # Upstream
/// `CompareKubeAwareVersionStrings` in `k8s.io/apimachinery/pkg/version/helpers.go`.
fn preference(name: &str) -> (Option<(u8, u64, u64)>, Reverse<&str>) {
    (rank(name), Reverse(name))
}

/// Maturity (3 stable, 2 beta, 1 alpha), major and minor of an API version; `None` for other names.
pub(crate) fn rank(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let digits = rest
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(rest.len());
    let number = |text: &str| {
        (!text.starts_with('0'))
            .then(|| text.parse::<u64>().ok())
            .flatten()
    };
    let (major, maturity) = rest.split_at(digits);
    let major = number(major)?;
    if maturity.is_empty() {
        return Some((3, major, 0));
    }
    let (rank, minor) = match maturity.strip_prefix("beta") {
        Some(minor) => (2, minor),
        None => (1, maturity.strip_prefix("alpha")?),
    };
    Some((rank, major, if minor.is_empty() { 0 } else { number(minor)? }))
}

/// The objects of one type, counted.
#[derive(Clone, Copy, Default)]
struct Shown {
    objects: u64,
    in_namespaces: u64,
    /// Those without namespace that an API server returned.
    in_cluster: u64,
    file: u32,
}

/// Adds the kinds of objects that the catalog lacks: other versions of built-in kinds, and kinds of which
/// nothing is known, which are returned. Versions that a definition or listing does not have are not served,
/// and stay unresolvable.
pub(crate) fn add_inferred(
    catalog: &mut Catalog,
    store: &Store,
    findings: &mut Findings,
) -> BTreeSet<GroupKind> {
    let mut shown = vec![Shown::default(); store.types.len()];
    // A definition of the dump is exhaustive: it has all versions, served or not.
    let defined = definitions(store).map(|(one, _)| (&*one.group, &*one.kind));
    let defined: BTreeSet<(&str, &str)> = defined.collect();
    for record in &store.records {
        let shown = &mut shown[record.type_id as usize];
        let has_namespace = !store.texts.text(record.namespace).is_empty();
        shown.objects += 1;
        shown.in_namespaces += u64::from(has_namespace);
        shown.in_cluster += u64::from(!has_namespace && !record.uid.is_empty());
        shown.file = record.file;
    }
    let mut types: Vec<TypeId> = (0..store.types.len() as TypeId).collect();
    // Of two versions of a kind the first one counts, in any order of reading.
    types.sort_by_key(|&at| store.type_texts(at));
    let mut inferred = BTreeSet::new();
    for at in types {
        let (api_version, kind) = store.type_texts(at);
        let shown = shown[at as usize];
        if shown.objects == 0 || catalog.mapping(api_version, kind).is_some() {
            continue;
        }
        let group = split_api_version(api_version).0;
        let known = catalog
            .iter()
            .map(|(_, resource)| resource)
            .find(|resource| *resource.group == *group && resource.kind == *kind);
        if known.is_some_and(|known| known.custom) || defined.contains(&(group, &**kind)) {
            continue;
        }
        let (resource, detail) = match (known, scope(shown)) {
            (Some(known), _) => {
                let resource = ApiResource::new(api_version, kind, &known.resource, known.scope);
                let detail = format!("taken as another version of {}", known.api_version());
                (resource, detail)
            }
            (None, Some(scope)) => {
                let path = &store.files[shown.file as usize];
                let name = in_path(path, group, kind).unwrap_or_else(|| plural(kind));
                let detail = match scope {
                    Scope::Namespaced => "namespaced, because all of them have a namespace",
                    Scope::Cluster => "cluster-scoped, because none of them has a namespace",
                };
                let mut resource = ApiResource::new(api_version, kind, &name, scope);
                let detail = format!("taken as {}: {detail}", resource.qualified_resource());
                // A kind in a group of Kubernetes is an alpha or beta one that the API server serves.
                let is_builtin = |one: &ApiResource| !one.custom && *one.group == *group;
                if !catalog.iter().any(|(_, one)| is_builtin(one)) {
                    resource = resource.custom();
                    inferred.insert(GroupKind::of(&resource));
                }
                (resource, detail)
            }
            (None, None) => continue,
        };
        let mut resource = resource;
        resource.verbs = Verbs::ALL;
        resource.preferred = known.is_none();
        if catalog.add(resource).is_err() {
            // Its name belongs to another kind: it stays unresolvable.
            inferred.remove(&GroupKind::new(group, kind));
            continue;
        }
        let objects = if shown.objects == 1 { "object" } else { "objects" };
        let detail = format!(
            "{} {objects} of {api_version}/{kind}, which is neither built in nor defined: {detail}",
            shown.objects
        );
        findings.add_of_kind(Problem::InferredKind, api_version, kind, &detail);
    }
    inferred
}

/// The scope that all objects agree on.
fn scope(shown: Shown) -> Option<Scope> {
    if shown.in_namespaces == shown.objects {
        Some(Scope::Namespaced)
    } else if shown.in_cluster == shown.objects {
        Some(Scope::Cluster)
    } else {
        None
    }
}

/// The resource in a path such as `cluster-scoped-resources/<group>/<resource>/a.yaml` of a must-gather,
/// `resources/<resource>.<group>/cluster/a.json` of a Velero backup or
/// `custom-resources/<resource>.<group>.yaml` of a support bundle.
fn in_path(path: &str, group: &str, kind: &str) -> Option<String> {
    let path = layout::unpacked_name(path);
    let segments: Vec<&str> = path
        .split(['/', '\\', ':'])
        .map(layout::without_extension)
        .collect();
    let of_two = segments.windows(2).find(|two| two[0] == group).map(|two| two[1]);
    let of_one = segments
        .iter()
        .find_map(|segment| segment.strip_suffix(group)?.strip_suffix('.'));
    let name = of_two.or(of_one).filter(|_| !group.is_empty())?;
    let singular = kind.to_lowercase();
    // Other layouts name directories in the singular, or after something else.
    let stem = &singular
        .get(..singular.len().saturating_sub(1))
        .unwrap_or_default();
    (name != singular && name.starts_with(stem) && !stem.is_empty()).then(|| name.to_owned())
}

/// The plural of a kind.
///
/// # Upstream
/// `UnsafeGuessKindToResource` in
/// [`restmapper.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/api/meta/restmapper.go).
fn plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    match singular.chars().last() {
        Some('s') => format!("{singular}es"),
        Some('y') => format!("{}ies", &singular[..singular.len() - 1]),
        _ => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rank_as_upstream_ranks_them() {
        let ranked = "v10 v3 v2 v1 v11beta2 v10beta3 v3beta1 v12alpha1 v11alpha2 foo1 foo10";
        let expected: Vec<&str> = ranked.split(' ').collect();
        let mut names = expected.clone();
        names.sort_unstable();
        names.sort_by_key(|name| Reverse(preference(name)));
        assert_eq!(names, expected);
    }
}
