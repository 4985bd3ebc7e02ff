//! The kinds that the dumped cluster serves: built in, listed, or defined in the dump itself.

use std::cmp::Reverse;

use kubegc_core::{
    ApiResource, Catalog, KindId, KubernetesVersion, Scope, Verbs,
    identity::{join_api_version, split_api_version},
};

use crate::{CrdDetails, Details, GroupKind, Problem, discovery::Discovery, finding::Findings, store::Store};

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
    for record in &store.records {
        if let Some(Details::CustomResourceDefinition(definition)) = store.details_of(record) {
            kinds.define(definition, &record.name);
        }
    }
    kinds.catalog
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
