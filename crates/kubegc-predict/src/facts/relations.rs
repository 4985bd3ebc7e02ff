//! Implicit dependencies between objects of a dump: relations without an owner reference that controllers act
//! on.
//!
//! | object | deleted with it | waits for it while terminating | read to decide about it |
//! |---|---|---|---|
//! | Namespace | its content | | |
//! | CustomResourceDefinition | its custom resources, its APIServices | | those of its group |
//! | APIService | | | the CustomResourceDefinitions of its group |
//! | Node | its pods, VolumeAttachments | | |
//! | Pod | | the claims that it uses, its PodGroup | its Node |
//! | PersistentVolumeClaim | its volume | | the pods that use it |
//! | PersistentVolume | | | its claim |
//! | PodGroup | | | its pods |
//! | Service | its Endpoints, EndpointSlices and IPAddresses | | |
//! | Endpoints, EndpointSlice | | | their Service |
//! | IPAddress | | the ServiceCIDRs | its Service |
//! | ServiceCIDR | | | the other ServiceCIDRs, the IPAddresses |
//! | ServiceAccount | its token Secrets | | |
//! | Secret | | | its ServiceAccount |
//! | StatefulSet | | | claims named like its own |
//! | any | | its Namespace, its CustomResourceDefinition | |

use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use kubegc_controllers::NamespaceController;
use kubegc_core::{
    identity::split_api_version,
    record::{Body, ObjectId, Record, Resource},
};
use kubegc_snapshot::{Details, ObjectView};

use super::{API_SERVICE, DEFINITION, DELETING, EXTENSIONS, Facts, REGISTRATION};

/// The relation of an object to another one, without an owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Relation {
    /// It can be deleted when the other one is deleted.
    Follows,
    /// While it is terminating, it waits for the other one.
    Waits,
    /// A controller reads it to decide about the other one.
    Read,
}

/// An object that is related to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Related {
    pub(crate) position: u32,
    pub(crate) relation: Relation,
}

fn add(found: &mut Vec<Related>, positions: impl IntoIterator<Item = u32>, relation: Relation) {
    let positions = positions.into_iter();
    found.extend(positions.map(|position| Related { position, relation }));
}

/// Indexes over the dump, built when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    by_namespace: OnceLock<HashMap<Arc<str>, Vec<u32>, FixedState>>,
    referrers: OnceLock<HashMap<ObjectKey, Vec<Related>, FixedState>>,
}

/// Resource, namespace and name.
type ObjectKey = (Resource, Arc<str>, Arc<str>);

impl Facts {
    /// The implicit dependencies of an object: relations without an owner reference.
    ///
    /// # Complexity
    /// O(log n) for each that is found in a dump of n objects; O(n) the first time an index is needed.
    pub(crate) fn related(&self, position: u32) -> Vec<Related> {
        use Relation::{Follows, Read, Waits};
        let mut found = Vec::new();
        let view = self.view(position);
        let (namespace, name) = (view.namespace(), view.name());
        let resource = resource_of(view);
        let of = |resource| self.by_name(resource, namespace, name);
        match resource {
            Some(Resource::Namespaces) => add(&mut found, self.content(name).iter().copied(), Follows),
            Some(Resource::Services) => add(&mut found, of(Resource::Endpoints), Follows),
            Some(Resource::IpAddresses) => add(&mut found, self.all(Resource::ServiceCidrs), Waits),
            Some(Resource::ServiceCidrs) => {
                let others = self.all(Resource::ServiceCidrs);
                add(&mut found, others.filter(|other| *other != position), Read);
                add(&mut found, self.all(Resource::IpAddresses), Read);
            }
            Some(Resource::Endpoints) => add(&mut found, of(Resource::Services), Read),
            Some(Resource::StatefulSets) => {
                let claims = self.claims_of_set(position).into_iter();
                add(&mut found, claims.map(|(claim, _)| claim), Read);
            }
            _ => {}
        }
        if let Some(resource) = resource.filter(|resource| REFERRED.contains(resource)) {
            let of_cluster = resource == Resource::Nodes;
            let namespace = if of_cluster { "" } else { namespace };
            found.extend_from_slice(self.referrers(resource, namespace, name));
        }
        if resource.is_some_and(|resource| REFERRING.contains(&resource)) {
            let record = self.record(position);
            for (resource, namespace, name) in references(&record) {
                let (relation, _) = relations(resource, &record.body);
                add(&mut found, self.by_name(resource, &namespace, &name), relation);
            }
        }
        if **view.kind() == *DEFINITION
            && let Some(Details::CustomResourceDefinition(definition)) = view.details()
        {
            let group = &definition.group;
            add(&mut found, self.named(group, &definition.kind), Follows);
            for version in &definition.versions {
                let name = format!("{}.{group}", version.name);
                add(&mut found, self.at(REGISTRATION, API_SERVICE, "", &name), Follows);
            }
            add(&mut found, self.definitions_of(group), Read);
        }
        if **view.kind() == *API_SERVICE
            && let Some((_, group)) = name.split_once('.')
        {
            add(&mut found, self.definitions_of(group), Read);
        }
        let kind = view.kind_id().map(|kind| &self.catalog()[kind]);
        if let Some(kind) = kind.filter(|kind| kind.custom) {
            let name = kind.qualified_resource();
            add(&mut found, self.at(EXTENSIONS, DEFINITION, "", &name), Waits);
        }
        if !namespace.is_empty() {
            self.add_namespace(view, resource, &mut found);
        }
        found
    }

    /// The CustomResourceDefinitions of a group, by their names.
    fn definitions_of(&self, group: &str) -> impl Iterator<Item = u32> {
        self.named(EXTENSIONS, DEFINITION).filter(move |position| {
            let name = self.view(*position).name().split_once('.');
            name.is_some_and(|(_, of_group)| of_group == group)
        })
    }

    /// A terminating namespace waits for its content. If pods are deleted first, the rest of it waits for
    /// its pods.
    fn add_namespace(&self, view: ObjectView<'_>, resource: Option<Resource>, found: &mut Vec<Related>) {
        let Some(namespace) = self.by_name(Resource::Namespaces, "", view.namespace()) else {
            return;
        };
        add(found, [namespace], Relation::Waits);
        let is_terminating = self.has(namespace, DELETING);
        let pods_first = || NamespaceController::new(self.version).deletes_pods_first;
        if resource == Some(Resource::Pods) && is_terminating && pods_first() {
            let rest = self.content(view.namespace()).iter().copied();
            let rest = rest.filter(|position| self.resource_at(*position) != Some(Resource::Pods));
            add(found, rest, Relation::Waits);
        }
    }

    pub(crate) fn content(&self, namespace: &str) -> &[u32] {
        let by_namespace = self.indexes.by_namespace.get_or_init(|| {
            let mut by_namespace = HashMap::<Arc<str>, Vec<u32>, FixedState>::default();
            for (position, view) in self.snapshot.objects().enumerate() {
                let content = by_namespace.entry_ref(view.namespace()).or_default();
                content.push(position as u32);
            }
            by_namespace
        });
        by_namespace.get(namespace).map(Vec::as_slice).unwrap_or_default()
    }

    /// The objects of a resource in a namespace.
    pub(crate) fn content_of(&self, resource: Resource, namespace: &str) -> impl Iterator<Item = u32> {
        let of_kind = self.snapshot.positions_of_kind(resource.group(), resource.kind());
        let content = self.content(namespace);
        let [first, end] = [of_kind.start, of_kind.end]
            .map(|bound| content.partition_point(|position| (*position as usize) < bound));
        content[first..end].iter().copied()
    }

    /// The objects that name an object in their fields and are related to it.
    fn referrers(&self, resource: Resource, namespace: &str, name: &str) -> &[Related] {
        let referrers = self.indexes.referrers.get_or_init(|| {
            let mut referrers = HashMap::<ObjectKey, Vec<Related>, FixedState>::default();
            for position in REFERRING.iter().flat_map(|resource| self.all(*resource)) {
                let record = self.record(position);
                for key in references(&record) {
                    if let (_, Some(relation)) = relations(key.0, &record.body) {
                        let related = Related { position, relation };
                        referrers.entry(key).or_default().push(related);
                    }
                }
            }
            referrers
        });
        let key = (resource, Arc::from(namespace), Arc::from(name));
        referrers.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The claims that are named like those of a StatefulSet with any template, each with the pod of its
    /// ordinal. They can be deleted with the set or that pod, if the set is among their owners.
    pub(crate) fn claims_of_set(&self, set: u32) -> Vec<(u32, Option<u32>)> {
        let set = self.view(set);
        if resource_of(set) != Some(Resource::StatefulSets) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for position in self.content_of(Resource::PersistentVolumeClaims, set.namespace()) {
            let Some((template_and_set, ordinal)) = self.view(position).name().rsplit_once('-') else {
                continue;
            };
            let template = template_and_set.strip_suffix(&**set.name());
            if template.is_some_and(|template| template.ends_with('-')) {
                let pod = format!("{}-{ordinal}", set.name());
                found.push((position, self.by_name(Resource::Pods, set.namespace(), &pod)));
            }
        }
        found
    }

    /// The objects whose fates depend on these objects, and these objects themselves if there are any.
    pub(crate) fn affected_by(&self, positions: impl IntoIterator<Item = u32>) -> HashSet<u32, FixedState> {
        let mut found = HashSet::default();
        let mut pending: Vec<(u32, bool)> = positions.into_iter().map(|at| (at, true)).collect();
        while let Some((position, is_first)) = pending.pop() {
            let mut next: Vec<u32> = self.edges.dependents(position).to_vec();
            let is_terminating = |at: u32| self.has(at, DELETING);
            let is_affected = |related: &Related| match related.relation {
                Relation::Follows => true,
                Relation::Waits => is_terminating(related.position),
                Relation::Read => false,
            };
            let related = self.related(position).into_iter().filter(is_affected);
            next.extend(related.map(|related| related.position));
            next.extend(self.claims_of_set(position).into_iter().map(|(claim, _)| claim));
            if is_first && next.is_empty() {
                continue;
            }
            if found.insert(position) {
                pending.extend(next.into_iter().map(|at| (at, false)));
            }
        }
        found
    }

    pub(crate) fn by_name(&self, resource: Resource, namespace: &str, name: &str) -> Option<u32> {
        self.at(resource.group(), resource.kind(), namespace, name)
    }

    /// The position of an object; `None` if it is not in the dump, or another one has its name.
    pub(crate) fn position_of(&self, object: &ObjectId) -> Option<u32> {
        if object.uid.is_empty() {
            let found = self.by_name(object.resource, &object.namespace, &object.name)?;
            return self.view(found).uid().is_empty().then_some(found);
        }
        // A lookup by uid is faster than one by name.
        let mut found = self.positions_of(&object.uid);
        found.find(|&at| {
            let view = self.view(at);
            *view.name() == object.name
                && *view.namespace() == object.namespace
                && resource_of(view) == Some(object.resource)
        })
    }

    /// The resource of an object; `None` if no controller reads its kind.
    pub(crate) fn resource_at(&self, position: u32) -> Option<Resource> {
        resource_of(self.view(position))
    }
}

/// The resources whose objects name others in their fields.
const REFERRING: [Resource; 8] = [
    Resource::EndpointSlices,
    Resource::IpAddresses,
    Resource::PersistentVolumeClaims,
    Resource::PersistentVolumes,
    Resource::Pods,
    Resource::Secrets,
    Resource::Services,
    Resource::VolumeAttachments,
];

/// The resources whose objects are related to all that name them in a field.
const REFERRED: [Resource; 5] = [
    Resource::Nodes,
    Resource::PersistentVolumeClaims,
    Resource::PodGroups,
    Resource::ServiceAccounts,
    Resource::Services,
];

/// The relation of an object of a resource to one that names it in a field, and of that one to it, if any.
const fn relations(named: Resource, naming: &Body) -> (Relation, Option<Relation>) {
    match (named, naming) {
        (Resource::IpAddresses, _) => (Relation::Follows, None),
        (Resource::PersistentVolumes, _) => (Relation::Follows, None),
        (Resource::PersistentVolumeClaims | Resource::PodGroups, Body::Pod(_)) => {
            (Relation::Waits, Some(Relation::Read))
        }
        _ => (Relation::Read, Some(Relation::Follows)),
    }
}

/// The keys of the objects that an object names in its fields.
fn references(record: &Record) -> Vec<ObjectKey> {
    let (own, none) = (&record.meta.namespace, &Arc::from(""));
    let one = |resource: Resource, namespace: &Arc<str>, name: Option<&Arc<str>>| -> Vec<ObjectKey> {
        let name = name.filter(|name| !name.is_empty());
        let key = name.map(|name| (resource, Arc::clone(namespace), Arc::clone(name)));
        key.into_iter().collect()
    };
    match &*record.body {
        Body::Pod(pod) => {
            let mut keys = one(Resource::Nodes, none, pod.node_name.known());
            keys.extend(one(Resource::PodGroups, own, pod.pod_group.known()));
            let volumes = pod.volumes.known().into_iter().flatten();
            let names = volumes.filter_map(|volume| volume.claim_name(&record.meta.name));
            let claims = Resource::PersistentVolumeClaims;
            keys.extend(names.map(|name| (claims, Arc::clone(own), Arc::from(&*name))));
            keys
        }
        Body::PersistentVolumeClaim(claim) => {
            one(Resource::PersistentVolumes, none, claim.volume_name.known())
        }
        Body::PersistentVolume(volume) => match volume.claim_ref.known() {
            Some(Some(claim)) => {
                let claims = Resource::PersistentVolumeClaims;
                one(claims, &claim.namespace, Some(&claim.name))
            }
            _ => Vec::new(),
        },
        Body::Secret(secret) => {
            let account = secret.service_account_name.known();
            one(Resource::ServiceAccounts, own, account)
        }
        Body::Service(service) => {
            let addresses = service.cluster_ips.known().into_iter().flatten();
            let keys = addresses.flat_map(|address| one(Resource::IpAddresses, none, Some(address)));
            keys.collect()
        }
        Body::IpAddress(address) => match address.parent.known().filter(|parent| parent.is_service()) {
            Some(parent) => one(Resource::Services, &parent.namespace, Some(&parent.name)),
            None => Vec::new(),
        },
        Body::VolumeAttachment(attachment) => one(Resource::Nodes, none, attachment.node_name.known()),
        _ => {
            let service = record.meta.labels.get("kubernetes.io/service-name");
            one(Resource::Services, own, service)
        }
    }
}

fn resource_of(view: ObjectView<'_>) -> Option<Resource> {
    let (group, _) = split_api_version(view.api_version());
    Resource::of_kind(group, view.kind())
}
