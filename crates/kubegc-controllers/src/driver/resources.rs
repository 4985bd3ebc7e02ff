//! Maps resources to the paths that discovery serves. A resource that is not served differs from one
//! that is not known.

use std::collections::BTreeMap;

use kubegc_core::{
    ApiResource, StoreError, identity::split_api_version, record::Resource, store::Discovered,
};

/// The resources that an API server serves.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    served: BTreeMap<Resource, ApiResource>,
    /// The group versions that could not be discovered.
    failed: Vec<String>,
}

impl Resources {
    /// The result of discovery. Of several versions of a resource the preferred one counts, and without one
    /// the first.
    pub fn new(discovered: &Discovered) -> Self {
        let mut served = BTreeMap::<_, ApiResource>::new();
        for (_, kind) in discovered.catalog.iter() {
            let resource = Resource::of_kind(&kind.group, &kind.kind);
            let resource = resource.filter(|resource| *kind.resource == *resource.plural());
            let is_better = |known: &ApiResource| kind.preferred && !known.preferred;
            if let Some(resource) = resource
                && served.get(&resource).is_none_or(is_better)
            {
                served.insert(resource, kind.clone());
            }
        }
        let failed = discovered.failed.keys().cloned().collect();
        Self { served, failed }
    }

    /// The address of a resource.
    ///
    /// # Errors
    /// [`StoreError::NoMapping`] if it is not served, and [`StoreError::Unknown`] if discovery failed for a
    /// version of its group.
    pub fn find(&self, resource: Resource) -> Result<&ApiResource, StoreError> {
        let group_of = |api_version: &str| split_api_version(api_version).0 == resource.group();
        let mut failed = self.failed.iter().rev();
        let unserved = || match failed.find(|api_version| group_of(api_version)) {
            Some(api_version) => StoreError::Unknown {
                message: format!("discovery of {api_version} failed"),
            },
            None => StoreError::NoMapping {
                api_version: resource.group().to_owned(),
                kind: resource.kind().to_owned(),
            },
        };
        self.served.get(&resource).ok_or_else(unserved)
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
}
