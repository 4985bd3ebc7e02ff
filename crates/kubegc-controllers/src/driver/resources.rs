//! Maps resources to the paths that discovery serves. A resource that is not served differs from one
//! that is not known.

use std::collections::BTreeMap;

use kubegc_core::{ApiResource, StoreError, record::Resource, store::Discovered};

/// The resources that an API server serves.
#[derive(Clone, Debug, Default)]
pub struct Resources(BTreeMap<Resource, Result<ApiResource, StoreError>>);

impl Resources {
    /// The result of discovery. Of several versions of a resource the preferred one counts, and without one
    /// the first.
    pub fn new(discovered: &Discovered) -> Self {
        let mut all: BTreeMap<_, Result<ApiResource, _>> = Resource::ALL
            .iter()
            .map(|resource| (*resource, Err(unserved(*resource, discovered))))
            .collect();
        for (_, served) in discovered.catalog.iter() {
            let resource = Resource::of_kind(&served.group, &served.kind);
            let resource = resource.filter(|resource| *served.resource == *resource.plural());
            match resource.and_then(|resource| all.get_mut(&resource)) {
                Some(Ok(known)) if known.preferred || !served.preferred => {}
                Some(known) => *known = Ok(served.clone()),
                None => {}
            }
        }
        Self(all)
    }

    /// The address of a resource.
    ///
    /// # Errors
    /// [`StoreError::NoMapping`] if it is not served, and [`StoreError::Unknown`] if discovery failed for a
    /// version of its group.
    pub fn find(&self, resource: Resource) -> Result<&ApiResource, StoreError> {
        match self.0.get(&resource) {
            Some(found) => found.as_ref().map_err(StoreError::clone),
            None => Err(unserved(resource, &Discovered::default())),
        }
    }
}

/// Why a resource has no address.
fn unserved(resource: Resource, discovered: &Discovered) -> StoreError {
    let group_of = |api_version: &str| {
        api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
            .to_owned()
    };
    let mut failed = discovered.failed.keys().rev();
    match failed.find(|api_version| group_of(api_version) == resource.group()) {
        Some(api_version) => StoreError::Unknown {
            message: format!("discovery of {api_version} failed"),
        },
        None => StoreError::NoMapping {
            api_version: resource.group().to_owned(),
            kind: resource.kind().to_owned(),
        },
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
