//! Maps resources to the paths that discovery serves. A resource that is not served differs from one
//! that is not known.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{ApiResource, StoreError, record::Resource, store::Discovered};

/// The resources that an API server serves.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// By group and plural.
    served: BTreeMap<Arc<str>, BTreeMap<Arc<str>, ApiResource>>,
    /// Groups of which a version failed, with that version.
    failed: BTreeMap<String, String>,
}

impl Resources {
    /// The result of discovery. Of several versions of a resource the preferred one counts, and without one
    /// the first.
    ///
    /// # Complexity
    /// O(n log n) for n kinds in the catalog.
    #[must_use]
    pub fn new(discovered: &Discovered) -> Self {
        let mut served = BTreeMap::<Arc<str>, BTreeMap<Arc<str>, ApiResource>>::new();
        for (_, resource) in discovered.catalog.iter() {
            let group = served.entry(Arc::clone(&resource.group)).or_default();
            let is_better = |known: &ApiResource| resource.preferred && !known.preferred;
            if group.get(&resource.resource).is_none_or(is_better) {
                group.insert(Arc::clone(&resource.resource), resource.clone());
            }
        }
        let failed = discovered.failed.keys().map(|api_version| {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            (group.to_owned(), api_version.clone())
        });
        Self {
            served,
            failed: failed.collect(),
        }
    }

    /// The address of a resource.
    ///
    /// # Errors
    /// [`StoreError::NoMapping`] if it is not served, and [`StoreError::Unknown`] if discovery failed for a
    /// version of its group.
    pub fn find(&self, resource: Resource) -> Result<&ApiResource, StoreError> {
        let unserved = || match self.failed.get(resource.group()) {
            Some(api_version) => StoreError::Unknown {
                message: format!("discovery of {api_version} failed"),
            },
            None => StoreError::NoMapping {
                api_version: resource.group().to_owned(),
                kind: resource.kind().to_owned(),
            },
        };
        let group = self.served.get(resource.group());
        group
            .and_then(|group| group.get(resource.plural()))
            .ok_or_else(unserved)
    }
}

#[cfg(test)]
mod tests {
    use kubegc_core::{Catalog, KubernetesVersion};

    use super::*;

    fn resources(release: &str, failed: &[&str]) -> Resources {
        let version: KubernetesVersion = release.parse().expect("a release in range");
        Resources::new(&Discovered {
            catalog: Catalog::builtin(version),
            failed: failed
                .iter()
                .map(|text| ((*text).to_owned(), String::new()))
                .collect(),
        })
    }

    #[test]
    fn a_resource_is_addressed_in_its_preferred_version() {
        for (release, resource, expected) in [
            ("1.20", Resource::CronJobs, "batch/v1beta1"),
            ("1.36", Resource::CronJobs, "batch/v1"),
            ("1.13", Resource::Leases, "coordination.k8s.io/v1beta1"),
            ("1.36", Resource::Leases, "coordination.k8s.io/v1"),
            (
                "1.13",
                Resource::CertificateSigningRequests,
                "certificates.k8s.io/v1beta1",
            ),
        ] {
            let resources = resources(release, &[]);
            let found = resources.find(resource).map(ApiResource::api_version);
            assert_eq!(found.as_deref(), Ok(expected), "{release} {resource:?}");
        }
    }

    #[test]
    fn a_resource_is_not_served_only_if_discovery_of_its_group_succeeded() {
        let find = |release, failed: &[&str]| {
            let resources = resources(release, failed);
            resources.find(Resource::PodCertificateRequests).cloned()
        };
        assert!(matches!(find("1.20", &[]), Err(StoreError::NoMapping { .. })));
        let others = find("1.20", &["metrics.k8s.io/v1beta1", "v1"]);
        assert!(matches!(others, Err(StoreError::NoMapping { .. })));
        let failed = find("1.20", &["certificates.k8s.io/v1beta1"]);
        assert!(matches!(failed, Err(StoreError::Unknown { .. })));
    }
}
