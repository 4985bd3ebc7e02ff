//! Resolves what a caller declares complete: `configmaps`, `deployments.apps`, `Widget.example.com`,
//! `pods@shop`, `all`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{ApiResource, Catalog};

use crate::{GroupKind, Proof, SnapshotError, completeness::Proofs};

/// Every kind of the catalog with its declared completeness. `all` does not cover kinds that were only
/// inferred.
///
/// # Errors
/// A declaration names no kind of the catalog, or several.
pub(crate) fn resolve(
    declarations: &[String],
    catalog: &Catalog,
    inferred: &BTreeSet<GroupKind>,
) -> Result<BTreeMap<GroupKind, Proofs>, SnapshotError> {
    let mut kinds: BTreeMap<GroupKind, Proofs> = BTreeMap::new();
    for (_, resource) in catalog.iter() {
        kinds.entry(key_of(resource)).or_default();
    }
    for declaration in declarations {
        let bad = |problem: String| SnapshotError::Declaration {
            declaration: declaration.as_str().into(),
            problem,
        };
        let (name, namespace) = match declaration.split_once('@') {
            Some((_, "")) => return Err(bad("there is no namespace after the @".to_owned())),
            Some((name, namespace)) => (name, Some(namespace)),
            None => (declaration.as_str(), None),
        };
        if name == "all" {
            for (_, resource) in catalog
                .iter()
                .filter(|(_, one)| namespace.is_none() || one.is_namespaced())
                .filter(|(_, one)| !inferred.contains(&key_of(one)))
            {
                declare(&mut kinds, key_of(resource), namespace);
            }
            continue;
        }
        let found = named(name, catalog);
        let is_builtin = |key: &GroupKind| {
            let mut kinds = catalog.iter().map(|(_, resource)| resource);
            kinds.any(|resource| key_of(resource) == *key && !resource.custom)
        };
        let keys = match found.as_slice() {
            [] => {
                return Err(bad(
                    "no kind of the catalog has this name; a custom kind needs its CustomResourceDefinition or api-resources".to_owned(),
                ));
            }
            [_] => found,
            // kubectl takes the core group where a bare name fits it and others.
            several => match several.iter().find(|key| key.group.is_empty()) {
                Some(core) => vec![core.clone()],
                // Several groups served the same objects up to 1.21, such as Ingresses.
                None if several.iter().all(is_builtin) => found,
                None => {
                    let names: Vec<String> = several.iter().map(GroupKind::to_string).collect();
                    return Err(bad(format!("it may mean {}", names.join(" or "))));
                }
            },
        };
        for key in keys {
            let is_cluster_scoped = catalog
                .iter()
                .any(|(_, resource)| key_of(resource) == key && !resource.is_namespaced());
            if namespace.is_some() && is_cluster_scoped {
                return Err(bad(format!("{key} is in no namespace")));
            }
            declare(&mut kinds, key, namespace);
        }
    }
    Ok(kinds)
}

fn declare(kinds: &mut BTreeMap<GroupKind, Proofs>, key: GroupKind, namespace: Option<&str>) {
    let proofs = kinds.entry(key).or_default();
    proofs.insert(namespace.unwrap_or_default().into(), Proof::Declared);
}

/// The kinds that a name may mean, sorted.
fn named(name: &str, catalog: &Catalog) -> Vec<GroupKind> {
    let mut found: Vec<GroupKind> = catalog
        .named(name)
        .into_iter()
        .map(|kind| key_of(&catalog[kind]))
        .collect();
    found.sort();
    found.dedup();
    found
}

pub(crate) fn key_of(resource: &ApiResource) -> GroupKind {
    GroupKind {
        group: Arc::clone(&resource.group),
        kind: Arc::clone(&resource.kind),
    }
}
