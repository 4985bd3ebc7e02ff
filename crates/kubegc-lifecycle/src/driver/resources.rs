//! Decides how each resource is addressed, by what discovery said, and keeps apart what is not served from what is not known.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{ApiResource, StoreError, store::Discovered};

use crate::object::Resource;

/// Resources as an API server serves them.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// By group and plural.
    served: BTreeMap<Arc<str>, BTreeMap<Arc<str>, ApiResource>>,
    /// Groups that discovery did not answer for in full, with the group and version that failed.
    unknown: BTreeMap<String, String>,
}

impl Resources {
    /// Takes what discovery answered. Of several versions of a resource the preferred one counts, and where that is not known the first.
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
        let unknown = discovered.failed.keys().map(|api_version| {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            (group.to_owned(), api_version.clone())
        });
        Self {
            served,
            unknown: unknown.collect(),
        }
    }

    /// How a resource is addressed.
    ///
    /// # Errors
    /// [`StoreError::NoMapping`] where it is not served, and [`StoreError::Unknown`] where discovery did not answer for all of its group.
    pub fn find(&self, resource: Resource) -> Result<&ApiResource, StoreError> {
        let unserved = || match self.unknown.get(resource.group()) {
            Some(api_version) => StoreError::Unknown {
                message: format!("what {api_version} serves could not be found out"),
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
    use crate::controller::Mechanism;

    fn discovered(release: &str, failed: &[&str]) -> Discovered {
        let version: KubernetesVersion = release.parse().expect("a release in range");
        Discovered {
            catalog: Catalog::builtin(version),
            failed: failed
                .iter()
                .map(|text| ((*text).to_owned(), String::new()))
                .collect(),
        }
    }

    #[test]
    fn each_resource_is_found_in_the_version_that_is_preferred() {
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
            let resources = Resources::new(&discovered(release, &[]));
            let found = resources.find(resource).map(ApiResource::api_version);
            assert_eq!(found.as_deref(), Ok(expected), "{release} {resource:?}");
        }
        let resources = Resources::new(&discovered("1.36", &[]));
        for resource in Mechanism::ALL.into_iter().flat_map(Mechanism::resources).copied() {
            let is_served = resources.find(resource).is_ok();
            assert!(
                is_served || resource == Resource::PodCertificateRequests,
                "{resource:?}"
            );
        }
    }

    #[test]
    fn what_is_not_served_is_known_only_where_its_group_answered() {
        let resource = Resource::PodCertificateRequests;
        let complete = Resources::new(&discovered("1.20", &[]));
        assert!(matches!(
            complete.find(resource),
            Err(StoreError::NoMapping { .. })
        ));
        let other = Resources::new(&discovered("1.20", &["metrics.k8s.io/v1beta1", "v1"]));
        assert!(matches!(other.find(resource), Err(StoreError::NoMapping { .. })));
        let failed = Resources::new(&discovered("1.20", &["certificates.k8s.io/v1beta1"]));
        assert!(matches!(failed.find(resource), Err(StoreError::Unknown { .. })));
        let nothing = Resources::new(&Discovered {
            catalog: Catalog::default(),
            failed: [("v1".to_owned(), String::new())].into(),
        });
        assert!(matches!(
            nothing.find(Resource::Pods),
            Err(StoreError::Unknown { .. })
        ));
        assert!(matches!(
            nothing.find(Resource::Jobs),
            Err(StoreError::NoMapping { .. })
        ));
    }
}
