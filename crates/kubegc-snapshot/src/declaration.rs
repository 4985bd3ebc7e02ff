//! Resolves what a caller declares complete: `configmaps`, `deployments.apps`, `Widget.example.com`,
//! `pods@shop`, `all`.

use std::collections::{BTreeMap, BTreeSet};

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
    let resources = || catalog.iter().map(|(_, one)| (GroupKind::of(one), one));
    let mut kinds: BTreeMap<GroupKind, Proofs> = resources().map(|(key, _)| (key, Proofs::new())).collect();
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
        let keys: Vec<GroupKind> = if name == "all" {
            let is_meant = |(key, one): &(GroupKind, &ApiResource)| {
                (namespace.is_none() || one.is_namespaced()) && !inferred.contains(key)
            };
            resources().filter(is_meant).map(|(key, _)| key).collect()
        } else {
            let keys = named(name, catalog).map_err(bad)?;
            let in_cluster =
                |key: &&GroupKind| resources().any(|(of, one)| of == **key && !one.is_namespaced());
            if namespace.is_some()
                && let Some(key) = keys.iter().find(in_cluster)
            {
                return Err(bad(format!("{key} is in no namespace")));
            }
            keys
        };
        for key in keys {
            let proofs = kinds.entry(key).or_default();
            proofs.insert(namespace.unwrap_or_default().into(), Proof::Declared);
        }
    }
    Ok(kinds)
}

const UNKNOWN: &str = "no kind of the catalog has this name; a custom kind needs its CustomResourceDefinition or \
    api-resources";

/// The kinds that a name means.
fn named(name: &str, catalog: &Catalog) -> Result<Vec<GroupKind>, String> {
    let found = catalog.named(name).into_iter();
    let mut found: Vec<GroupKind> = found.map(|kind| GroupKind::of(&catalog[kind])).collect();
    found.sort();
    found.dedup();
    let is_builtin = |key: &GroupKind| {
        let mut resources = catalog.iter().map(|(_, resource)| resource);
        resources.any(|resource| GroupKind::of(resource) == *key && !resource.custom)
    };
    match found.as_slice() {
        [] => Err(UNKNOWN.to_owned()),
        [_] => Ok(found),
        // kubectl takes the core group where a bare name fits it and others.
        several => match several.iter().find(|key| key.group.is_empty()) {
            Some(core) => Ok(vec![core.clone()]),
            // Several groups served the same objects up to 1.21, such as Ingresses.
            None if several.iter().all(is_builtin) => Ok(found),
            None => {
                let names: Vec<String> = several.iter().map(GroupKind::to_string).collect();
                Err(format!("it may mean {}", names.join(" or ")))
            }
        },
    }
}
