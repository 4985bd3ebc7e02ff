//! Kinds of objects that nothing defines: inferred from the objects and their paths.
//!
//! An object that an API server returned has a namespace exactly where its kind is namespaced, so the scope
//! is certain if all objects agree. Objects without uid were written by hand and prove nothing without a
//! namespace. The name of the resource is a guess as kubectl makes it, unless a path has it.

use std::collections::BTreeSet;

use kubegc_core::{ApiResource, Catalog, Scope, Verbs, identity::split_api_version};

use crate::{
    Details, GroupKind, Problem,
    finding::Findings,
    layout,
    store::{Store, TypeId},
};

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
pub(crate) fn add(catalog: &mut Catalog, store: &Store, findings: &mut Findings) -> BTreeSet<GroupKind> {
    let mut shown = vec![Shown::default(); store.types.len()];
    // A definition of the dump is exhaustive: it has all versions, served or not.
    let mut defined = BTreeSet::new();
    for record in &store.records {
        if let Some(Details::CustomResourceDefinition(one)) = store.details_of(record) {
            defined.insert((&*one.group, &*one.kind));
        }
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
