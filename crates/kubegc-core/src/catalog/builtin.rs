//! The kinds that a default API server serves in each release, and the deletion behaviour of their objects.
//!
//! The facts are in `builtin.txt`, one line a kind in one version. This module resolves them for one release.
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

use std::sync::Arc;

use super::{ApiResource, DefaultDeletion, Verbs};
use crate::{KubernetesVersion, Scope, identity::split_api_version};

const TABLE: &str = include_str!("builtin.txt");

/// One kind in one version: a row of the table.
struct Row<'t> {
    api_version: &'t str,
    kind: &'t str,
    resource: &'t str,
    scope: Scope,
    /// First minor release that serves it by default, at least the oldest that kubegc supports.
    first: u16,
    /// Last minor release that serves it by default. Releases after the newest known one are assumed to serve
    /// what that one serves.
    last: u16,
    /// Its further words, as name and value.
    facts: Vec<(&'t str, &'t str)>,
}

/// The rows of the table; `None` in place of a malformed one.
fn rows<'t>() -> impl Iterator<Item = Option<Row<'t>>> {
    let mut api_version = "";
    let lines = TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(move |line| {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            api_version = section;
            return None;
        }
        Some(row(api_version, line))
    })
}

fn row<'t>(api_version: &'t str, line: &'t str) -> Option<Row<'t>> {
    let mut words = line.split(' ');
    let (kind, resource, scope) = (words.next()?, words.next()?, words.next()?);
    let (first, last) = words.next()?.split_once('-')?;
    Some(Row {
        api_version,
        kind,
        resource,
        scope: match scope {
            "namespaced" => Scope::Namespaced,
            "cluster" => Scope::Cluster,
            _ => return None,
        },
        first: first.parse().ok()?,
        last: if last.is_empty() {
            u16::MAX
        } else {
            last.parse().ok()?
        },
        facts: words
            .map(|fact| fact.split_once('=').unwrap_or((fact, "")))
            .collect(),
    })
}

impl Row<'_> {
    fn fact(&self, name: &str) -> Option<&str> {
        let mut facts = self.facts.iter();
        facts.find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn texts(&self, name: &str) -> Vec<Arc<str>> {
        let texts = self.fact(name).into_iter().flat_map(|texts| texts.split(','));
        texts.map(Arc::from).collect()
    }

    fn verbs(&self, minor: u16) -> Verbs {
        let mut verbs = Verbs::ALL;
        if let Some(supported) = self.fact("verbs") {
            let has = |verb: &str| supported.split(',').any(|one| one == verb);
            verbs = Verbs {
                delete: has("delete"),
                delete_collection: has("deletecollection"),
                list: has("list"),
                watch: has("watch"),
            };
        }
        let first = self.fact("deletecollection").and_then(|first| first.parse().ok());
        verbs.delete_collection &= first.is_none_or(|first| minor >= first);
        verbs
    }
}

/// The resources of one release, in the table's order.
///
/// # Complexity
/// O(n * v) for n rows, of which v belong to one group: the preference depends on the group's versions only.
pub(super) fn resources(version: KubernetesVersion) -> Vec<ApiResource> {
    let minor = version.minor();
    let mut all: Vec<ApiResource> = Vec::new();
    // Versions of one group are adjacent: the first row of this group in `all`.
    let mut group_start = 0;
    for row in rows()
        .flatten()
        .filter(|row| (row.first..=row.last).contains(&minor))
    {
        let (group, version) = split_api_version(row.api_version);
        let before = all.last().filter(|last| *last.group == *group);
        let text = |known: fn(&ApiResource) -> &Arc<str>, text: &str| {
            let known = before.map(known).filter(|known| ***known == *text);
            known.map_or_else(|| text.into(), Arc::clone)
        };
        let (group, version) = (
            text(|last| &last.group, group),
            text(|last| &last.version, version),
        );
        if before.is_none() {
            group_start = all.len();
        }
        // The table has a group's versions in upstream's order of preference.
        let preferred = !all[group_start..]
            .iter()
            .any(|better| *better.resource == *row.resource);
        all.push(ApiResource {
            group,
            version,
            kind: row.kind.into(),
            resource: row.resource.into(),
            short_names: row.texts("short"),
            categories: row.texts("category"),
            scope: row.scope,
            verbs: row.verbs(minor),
            preferred,
            custom: false,
            default_deletion: match row.fact("default") {
                Some("Orphan") => DefaultDeletion::Orphan,
                Some(_) => DefaultDeletion::Unsupported,
                None => DefaultDeletion::Delete,
            },
            delete_returns_object: row.fact("returned").is_some(),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
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
        const FACTS: [&str; 6] = [
            "verbs",
            "deletecollection",
            "short",
            "category",
            "default",
            "returned",
        ];
        let (mut groups, mut current) = (BTreeSet::new(), None);
        let mut facts = BTreeMap::new();
        for (at, row) in rows().enumerate() {
            let row = row.unwrap_or_else(|| panic!("row {at} is malformed"));
            let group = split_api_version(row.api_version).0;
            if current != Some(group) {
                assert!(groups.insert(group), "the versions of {group} are not adjacent");
                current = Some(group);
            }
            let name = format!("{} {}", row.api_version, row.kind);
            assert!(row.first >= KubernetesVersion::MINOR_MIN, "{name}");
            assert!(row.first <= row.last, "{name}");
            assert!(
                row.last == u16::MAX || row.last <= KubernetesVersion::MINOR_MAX,
                "{name}"
            );
            assert!(row.facts.iter().all(|(fact, _)| FACTS.contains(fact)), "{name}");
            let deletion = row.fact("default").unwrap_or("Orphan");
            assert!(matches!(deletion, "Orphan" | "Unsupported"), "{name}");
            // These are the same in every version.
            let of_kind = (row.scope, row.resource, row.texts("short"), row.texts("category"));
            assert_eq!(
                *facts.entry(row.kind).or_insert_with(|| of_kind.clone()),
                of_kind,
                "{name}"
            );
        }
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
