//! The kinds that a default API server serves in each release, and the deletion behaviour of their objects.
//!
//! The facts are in [`table`]. This module resolves them for one release: the served kinds, the version of a
//! resource that discovery prefers, the effect of a DELETE on dependents, and its response.
//!
//! # Upstream
//! Ranges: the `prerelease-lifecycle` marks and the types of `k8s.io/api`, every release branch from 1.13 to
//! 1.36, and `v0.37.0-beta.0` for 1.37. Served by default: `DefaultAPIResourceConfigSource` in
//! `pkg/controlplane/instance.go`. Preference: `apiVersionPriorities` of kube-apiserver's aggregator.
//! Deletion: `DefaultGarbageCollectionPolicy` and `ReturnDeletedObject` of the REST registries, 1.20.2.
//! `deletecollection` of Services: the clients that are generated from the OpenAPI documents of 1.22 and 1.23
//! ([`CoreV1Api`](https://github.com/kubernetes-client/python/blob/release-23.0/kubernetes/docs/CoreV1Api.md)).
//!
//! # Assumptions
//! Not verified in the source, and assumed until a recording contradicts it:
//! - 1.37 is described from its first beta and its release announcement (StorageVersionMigration,
//!   DeviceTaintRule and PodCertificateRequest in `v1`).
//! - The dummy `replicationcontrollers` of `extensions/v1beta1` is listed, with no verbs, up to 1.15.
//! - The DELETEs whose response contains the object were read in 1.20.2 (and for VolumeAttributesClass in a
//!   description of its registry) and are assumed for every release.
//! - ReplicationController and Job keep orphaning by default after 1.20: inferred from the promise of a
//!   stable API, not read in the source.

mod table;

use std::sync::Arc;

use super::{ApiResource, DefaultDeletion, Verbs};
use crate::{KubernetesVersion, identity::split_api_version};
use table::{Kind, SERVED, VerbSet};

/// The resources of one release, in the table's order.
///
/// # Complexity
/// O(n * v) for n rows, of which v belong to one group: the preference depends on the group's versions only.
pub(super) fn resources(version: KubernetesVersion) -> Vec<ApiResource> {
    let minor = version.minor();
    let mut all: Vec<ApiResource> = Vec::new();
    // Versions of one group are adjacent: the first row of this group in `all`.
    let mut group_start = 0;
    for (api_version, kinds) in SERVED {
        let (group, version) = split_api_version(api_version);
        if all.last().is_some_and(|last| *last.group != *group) {
            group_start = all.len();
        }
        let group: Arc<str> = group.into();
        let version: Arc<str> = version.into();
        for kind in kinds.iter().filter(|kind| kind.served_in(minor)) {
            // The table has a group's versions in upstream's order of preference.
            let preferred = !all[group_start..]
                .iter()
                .any(|better| *better.resource == *kind.resource);
            all.push(ApiResource {
                group: Arc::clone(&group),
                version: Arc::clone(&version),
                kind: kind.kind.into(),
                resource: kind.resource.into(),
                short_names: texts(short_names(kind.resource)),
                categories: texts(categories(kind.resource)),
                scope: kind.scope,
                verbs: verbs(kind, minor),
                preferred,
                custom: false,
                default_deletion: default_deletion(api_version, kind.resource),
                delete_returns_object: delete_returns_object(&group, kind.resource),
            });
        }
    }
    all
}

fn texts(texts: &[&str]) -> Vec<Arc<str>> {
    texts.iter().map(|&text| text.into()).collect()
}

/// The short names of a resource.
///
/// # Upstream
/// `ShortNames` of the storages in `pkg/registry`, 1.20.2, and of newer ones.
fn short_names(resource: &str) -> &'static [&'static str] {
    match resource {
        "certificatesigningrequests" => &["csr"],
        "componentstatuses" => &["cs"],
        "configmaps" => &["cm"],
        "cronjobs" => &["cj"],
        "customresourcedefinitions" => &["crd", "crds"],
        "daemonsets" => &["ds"],
        "deployments" => &["deploy"],
        "endpoints" => &["ep"],
        "events" => &["ev"],
        "horizontalpodautoscalers" => &["hpa"],
        "ingresses" => &["ing"],
        "ipaddresses" => &["ip"],
        "limitranges" => &["limits"],
        "namespaces" => &["ns"],
        "networkpolicies" => &["netpol"],
        "nodes" => &["no"],
        "persistentvolumeclaims" => &["pvc"],
        "persistentvolumes" => &["pv"],
        "poddisruptionbudgets" => &["pdb"],
        "pods" => &["po"],
        "podsecuritypolicies" => &["psp"],
        "priorityclasses" => &["pc"],
        "replicasets" => &["rs"],
        "replicationcontrollers" => &["rc"],
        "resourcequotas" => &["quota"],
        "serviceaccounts" => &["sa"],
        "services" => &["svc"],
        "statefulsets" => &["sts"],
        "storageclasses" => &["sc"],
        "volumeattributesclasses" => &["vac"],
        _ => &[],
    }
}

/// The categories of a resource.
///
/// # Upstream
/// `Categories` of the storages in `pkg/registry`, 1.20.2; `api-extensions` since 1.14.
fn categories(resource: &str) -> &'static [&'static str] {
    match resource {
        "cronjobs"
        | "daemonsets"
        | "deployments"
        | "horizontalpodautoscalers"
        | "jobs"
        | "pods"
        | "replicasets"
        | "replicationcontrollers"
        | "services"
        | "statefulsets" => &["all"],
        "apiservices"
        | "customresourcedefinitions"
        | "mutatingadmissionpolicies"
        | "mutatingadmissionpolicybindings"
        | "mutatingwebhookconfigurations"
        | "validatingadmissionpolicies"
        | "validatingadmissionpolicybindings"
        | "validatingwebhookconfigurations" => &["api-extensions"],
        _ => &[],
    }
}

/// The default propagation of a DELETE through this version.
///
/// # Upstream
/// `DefaultGarbageCollectionPolicy` of the strategies: old versions keep their original behaviour.
fn default_deletion(api_version: &str, resource: &str) -> DefaultDeletion {
    match (api_version, resource) {
        ("v1", "replicationcontrollers")
        | ("batch/v1", "jobs")
        | ("batch/v1beta1" | "batch/v2alpha1", "cronjobs")
        | ("extensions/v1beta1" | "apps/v1beta1" | "apps/v1beta2", "deployments")
        | ("apps/v1beta1" | "apps/v1beta2", "statefulsets")
        | ("extensions/v1beta1" | "apps/v1beta2", "daemonsets" | "replicasets") => DefaultDeletion::Orphan,
        ("v1" | "events.k8s.io/v1" | "events.k8s.io/v1beta1", "events") => DefaultDeletion::Unsupported,
        _ => DefaultDeletion::Delete,
    }
}

/// Whether the response to a finished DELETE contains the object, in any requested version.
///
/// # Upstream
/// `ReturnDeletedObject` of the registries.
fn delete_returns_object(group: &str, resource: &str) -> bool {
    matches!(
        (group, resource),
        (
            "",
            "namespaces"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "pods"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts"
                | "services"
        ) | ("extensions" | "policy", "podsecuritypolicies")
            | ("resource.k8s.io", _)
            | (
                "storage.k8s.io",
                "csidrivers"
                    | "csinodes"
                    | "storageclasses"
                    | "volumeattachments"
                    | "volumeattributesclasses"
            )
    )
}

fn verbs(kind: &Kind, minor: u16) -> Verbs {
    let none = Verbs {
        delete: false,
        delete_collection: false,
        list: false,
        watch: false,
    };
    match kind.verbs {
        VerbSet::All => Verbs::ALL,
        VerbSet::CollectionSince(first) => Verbs {
            delete_collection: minor >= first,
            ..Verbs::ALL
        },
        VerbSet::AllButCollection => Verbs {
            delete_collection: false,
            ..Verbs::ALL
        },
        VerbSet::Reads => Verbs { list: true, ..none },
        VerbSet::CreateOnly | VerbSet::Nothing => none,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{table::NEWEST, *};
    use crate::Catalog;

    fn release(minor: u16) -> KubernetesVersion {
        KubernetesVersion::new(minor, 0).expect("the tests name releases in range")
    }

    fn find(minor: u16, api_version: &str, kind: &str) -> Option<ApiResource> {
        resources(release(minor))
            .into_iter()
            .find(|resource| resource.api_version() == api_version && *resource.kind == *kind)
    }

    /// Whether a minor release serves a kind, and in the preferred version of its resource.
    const RANGES: &str = "\
13 apps/v1 Deployment preferred
13 extensions/v1beta1 Deployment preferred
15 apps/v1beta2 ReplicaSet other
16 apps/v1beta2 ReplicaSet none
16 extensions/v1beta1 DaemonSet none
21 extensions/v1beta1 Ingress preferred
22 extensions/v1beta1 Ingress none
18 networking.k8s.io/v1beta1 Ingress preferred
19 networking.k8s.io/v1beta1 Ingress other
19 networking.k8s.io/v1 Ingress preferred
15 apiextensions.k8s.io/v1beta1 CustomResourceDefinition preferred
16 apiextensions.k8s.io/v1beta1 CustomResourceDefinition other
22 apiextensions.k8s.io/v1beta1 CustomResourceDefinition none
20 batch/v1beta1 CronJob preferred
20 batch/v1 CronJob none
21 batch/v1beta1 CronJob other
25 batch/v1beta1 CronJob none
22 autoscaling/v1 HorizontalPodAutoscaler preferred
23 autoscaling/v1 HorizontalPodAutoscaler other
23 autoscaling/v2 HorizontalPodAutoscaler preferred
25 autoscaling/v2beta1 HorizontalPodAutoscaler none
25 autoscaling/v2beta2 HorizontalPodAutoscaler other
18 events.k8s.io/v1beta1 Event preferred
19 events.k8s.io/v1 Event preferred
36 v1 Event preferred
16 discovery.k8s.io/v1beta1 EndpointSlice none
17 discovery.k8s.io/v1beta1 EndpointSlice preferred
24 policy/v1beta1 PodSecurityPolicy preferred
25 policy/v1beta1 PodSecurityPolicy none
19 flowcontrol.apiserver.k8s.io/v1beta1 FlowSchema none
23 flowcontrol.apiserver.k8s.io/v1beta1 FlowSchema other
28 flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema preferred
29 flowcontrol.apiserver.k8s.io/v1beta2 FlowSchema none
31 flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema other
32 flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema none
23 storage.k8s.io/v1beta1 CSIStorageCapacity preferred
26 storage.k8s.io/v1beta1 CSIStorageCapacity other
33 storage.k8s.io/v1beta1 VolumeAttributesClass none
34 storage.k8s.io/v1 VolumeAttributesClass preferred
29 admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicy none
36 admissionregistration.k8s.io/v1 MutatingAdmissionPolicy preferred
33 resource.k8s.io/v1beta1 ResourceClaim none
34 resource.k8s.io/v1 ResourceClaim preferred
13 coordination.k8s.io/v1 Lease none
36 certificates.k8s.io/v1 ClusterTrustBundle none
37 certificates.k8s.io/v1 ClusterTrustBundle preferred
20 batch/v2alpha1 CronJob none
";

    #[test]
    fn ranges_and_preferences_are_those_of_the_releases() {
        for line in RANGES.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let minor = words[0].parse().expect("a minor version");
            let found = match find(minor, words[1], words[2]) {
                None => "none",
                Some(resource) if resource.preferred => "preferred",
                Some(_) => "other",
            };
            assert_eq!(found, words[3], "{line}");
        }
    }

    #[test]
    fn each_release_has_every_kind_once_and_prefers_one_version_of_each_resource() {
        for minor in KubernetesVersion::MINOR_MIN..=KubernetesVersion::MINOR_MAX {
            let all = resources(release(minor));
            let catalog = Catalog::builtin(release(minor));
            assert_eq!(catalog.len(), all.len(), "a duplicate in 1.{minor}");
            let mut preferred = BTreeMap::<_, usize>::new();
            for resource in &all {
                let name = (resource.group.clone(), resource.resource.clone());
                *preferred.entry(name).or_default() += usize::from(resource.preferred);
            }
            assert!(
                preferred.values().all(|count| *count == 1),
                "1.{minor}: {preferred:?}"
            );
            for (id, resource) in catalog.iter() {
                let (group, api_version) = (&resource.group, resource.api_version());
                let (kind, plural) = (&resource.kind, &resource.resource);
                assert_eq!(catalog.mapping(&api_version, kind), Some(id), "{resource}");
                let found = catalog.by_resource(group, &resource.version, plural);
                assert_eq!(found, Some(id), "{resource}");
                for absent in [
                    catalog.mapping(&format!("x.dev/{}", resource.version), kind),
                    catalog.mapping(&api_version, &format!("{kind}List")),
                    catalog.by_resource(group, "v0", plural),
                    catalog.by_resource("x.dev", &resource.version, plural),
                    catalog.by_resource(group, &resource.version, kind),
                ] {
                    assert_eq!(absent, None, "{resource}");
                }
            }
        }
        let newest = resources(release(KubernetesVersion::MINOR_MAX));
        assert_eq!(
            resources(release(40)),
            newest,
            "a release after the newest known one"
        );
    }

    #[test]
    fn the_rows_of_the_table_are_well_formed() {
        let (mut groups, mut current) = (BTreeSet::new(), None);
        let mut facts = BTreeMap::new();
        for (api_version, kinds) in SERVED {
            let group = split_api_version(api_version).0;
            if current != Some(group) {
                assert!(groups.insert(group), "the versions of {group} are not adjacent");
                current = Some(group);
            }
            for kind in *kinds {
                let row = format!("{api_version} {}", kind.kind);
                assert!(kind.first >= KubernetesVersion::MINOR_MIN, "{row}");
                assert!(kind.first <= kind.last, "{row}");
                let is_known = kind.last <= KubernetesVersion::MINOR_MAX;
                assert!(kind.last == NEWEST || is_known, "{row}");
                // Scope and resource are the same in every version.
                let of_kind = (kind.scope, kind.resource);
                assert_eq!(*facts.entry(kind.kind).or_insert(of_kind), of_kind, "{row}");
            }
        }
    }

    /// The effect of a DELETE without options in the requested version.
    const DELETIONS: &str = "\
v1 replicationcontrollers Orphan
batch/v1 jobs Orphan
batch/v1beta1 cronjobs Orphan
batch/v2alpha1 cronjobs Orphan
batch/v1 cronjobs Delete
extensions/v1beta1 deployments Orphan
apps/v1beta1 deployments Orphan
apps/v1beta2 deployments Orphan
apps/v1 deployments Delete
apps/v1beta1 statefulsets Orphan
apps/v1beta2 statefulsets Orphan
apps/v1 statefulsets Delete
extensions/v1beta1 daemonsets Orphan
apps/v1beta2 daemonsets Orphan
apps/v1 daemonsets Delete
extensions/v1beta1 replicasets Orphan
apps/v1beta2 replicasets Orphan
apps/v1 replicasets Delete
v1 events Unsupported
events.k8s.io/v1beta1 events Unsupported
events.k8s.io/v1 events Unsupported
extensions/v1beta1 ingresses Delete
extensions/v1beta1 replicationcontrollers Delete
apps/v1beta1 controllerrevisions Delete
v1 pods Delete
";

    #[test]
    fn default_deletion_follows_the_requested_version() {
        for line in DELETIONS.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let found = default_deletion(words[0], words[1]);
            assert_eq!(format!("{found:?}"), words[2], "{line}");
        }
        for (api_version, expected) in [
            ("extensions/v1beta1", DefaultDeletion::Orphan),
            ("apps/v1", DefaultDeletion::Delete),
        ] {
            let found = find(13, api_version, "Deployment").map(|resource| resource.default_deletion);
            assert_eq!(found, Some(expected), "{api_version}");
        }
    }

    #[test]
    fn the_response_to_a_finished_delete_contains_the_object_for_these_only() {
        let mut returning: Vec<String> = resources(release(20))
            .iter()
            .filter(|resource| resource.delete_returns_object && resource.preferred)
            .map(ApiResource::qualified_resource)
            .collect();
        returning.sort();
        let expected = [
            "csidrivers.storage.k8s.io",
            "csinodes.storage.k8s.io",
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "podsecuritypolicies.policy",
            "podtemplates",
            "resourcequotas",
            "serviceaccounts",
            "services",
            "storageclasses.storage.k8s.io",
            "volumeattachments.storage.k8s.io",
        ];
        assert_eq!(returning, expected);
    }

    #[test]
    fn verbs_are_those_of_the_registries() {
        for (minor, api_version, kind, expected) in [
            (22, "v1", "Service", [true, false, true, true]),
            (23, "v1", "Service", [true, true, true, true]),
            (36, "authentication.k8s.io/v1", "TokenReview", [false; 4]),
            (15, "extensions/v1beta1", "ReplicationControllerDummy", [false; 4]),
        ] {
            let verbs = find(minor, api_version, kind).expect(kind).verbs;
            let flags = [verbs.delete, verbs.delete_collection, verbs.list, verbs.watch];
            assert_eq!(flags, expected, "{kind} in 1.{minor}");
        }
    }
}
