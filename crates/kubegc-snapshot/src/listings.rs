//! Kinds of which a known layout contains all objects, in a namespace or in the cluster.
//!
//! | layout | complete |
//! |---|---|
//! | must-gather, `oc adm inspect` | `namespaces/NAMESPACE/GROUP/RESOURCE.yaml`, `cluster-scoped-resources/GROUP/RESOURCE.yaml`, if they are lists |
//! | support bundle | `cluster-resources/KIND/NAMESPACE.json`, `cluster-resources/KIND.json` |
//! | `kubectl cluster-info dump` | nodes, and of each namespace the seven kinds that it writes, if all seven are there |
//!
//! Only a list as the API server wrote it counts: typed, with a resourceVersion, to its end. Data that
//! revokes a declaration revokes it too. The rest of the dump can contradict it: objects whose owner or node
//! it lacks, objects elsewhere that it lacks. Then its kind stays incomplete there.
//!
//! Files with single objects prove nothing: a must-gather has those that an operator names, an Insights
//! archive has samples, a Velero backup omits what was excluded.
//!
//! # Upstream
//! - [`namespace.go`](https://github.com/openshift/oc/blob/039b915ee2bd5c387f18a2df174aef68cfc68679/pkg/cli/admin/inspect/namespace.go)
//!   and `dirPathForInfo` in `util.go`: lists without a selector.
//! - [`cluster_resources.go`](https://github.com/replicatedhq/troubleshoot/blob/8f9a617de17f3ab0728499e8762de21b03a0e8a0/pkg/collect/cluster_resources.go):
//!   a list of each kind and namespace; the Namespaces as a list only if all were read.
//! - [`clusterinfo_dump.go`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/kubectl/pkg/cmd/clusterinfo/clusterinfo_dump.go),
//!   `Run`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{identity::split_api_version, record::Resource};

use crate::{
    GroupKind, Problem, Proof, Snapshot,
    finding::Findings,
    ingest::{Ingest, Page},
    internal::KINDS,
    layout,
    store::{Record, Store, TypeId},
    texts::TextId,
};

const MUST_GATHER: &str = "a must-gather";
const SUPPORT_BUNDLE: &str = "a support bundle";
const CLUSTER_INFO: &str = "kubectl cluster-info dump";

/// Maximum number of namespaces that a finding names.
const NAMESPACES_SHOWN: usize = 5;

/// Documents of one namespace that may be complete lists.
struct Group<'p> {
    pages: Vec<&'p Page>,
    layout: &'static str,
    /// Empty for cluster-scoped kinds; `None` if only the objects say it.
    namespace: Option<Arc<str>>,
    /// The namespaces of the objects.
    seen: BTreeSet<TextId>,
}

impl<'p> Group<'p> {
    fn new(pages: Vec<&'p Page>, layout: &'static str, namespace: Option<&str>) -> Self {
        let (namespace, seen) = (namespace.map(Arc::from), BTreeSet::new());
        Self {
            pages,
            layout,
            namespace,
            seen,
        }
    }
}

/// A kind and a namespace that a layout lists completely.
#[derive(Debug)]
struct Listing {
    layout: &'static str,
    api_version: Arc<str>,
    /// The number of objects elsewhere in the dump that the list lacks.
    elsewhere: u64,
    /// The number of objects whose owner or node the list lacks.
    missing: u64,
}

type Key = (GroupKind, Arc<str>);

/// The complete lists, by kind and namespace.
#[derive(Debug, Default)]
pub(crate) struct Listings(BTreeMap<Key, Listing>);

impl Listings {
    /// The lists of what was read. The records are sorted and not merged yet.
    pub(crate) fn of(ingest: &Ingest) -> Self {
        let store = &ingest.store;
        let is_whole = |page: &&Page| !page.continues && !page.resource_version.is_empty();
        let pages: Vec<&Page> = ingest.pages.iter().filter(is_whole).collect();
        let mut groups: Vec<Group<'_>> = pages.iter().filter_map(|page| in_path(store, page)).collect();
        groups.extend(dumped_to_directories(store, &pages));
        groups.extend(dumped_to_streams(store, &pages));
        if groups.is_empty() {
            return Self::default();
        }
        let mut documents: HashMap<(&str, u32), usize, FixedState> = HashMap::default();
        for (at, group) in groups.iter().enumerate() {
            let places = group.pages.iter().map(|page| &page.place);
            documents.extend(places.map(|place| ((&*place.file, place.document), at)));
        }
        let group_of = |record: &Record| {
            let file = &*store.files[record.file as usize];
            documents.get(&(file, record.document)).copied()
        };
        for record in &store.records {
            if let Some(at) = group_of(record) {
                groups[at].seen.insert(record.namespace);
            }
        }
        let mut listings = BTreeMap::new();
        for group in &groups {
            let namespace = match (&group.namespace, group.seen.first()) {
                (Some(namespace), _) => Arc::clone(namespace),
                (None, Some(only)) => Arc::clone(store.texts.text(*only)),
                (None, None) => continue,
            };
            // Lists of another namespace than that of their path, or of several, have another layout.
            if group.seen.iter().any(|one| *store.texts.text(*one) != namespace) {
                continue;
            }
            for page in &group.pages {
                let (of, kind) = store.group_kind(page.type_id);
                let kind = GroupKind::new(of, kind);
                let listing = Listing {
                    layout: group.layout,
                    api_version: Arc::clone(store.type_texts(page.type_id).0),
                    elsewhere: 0,
                    missing: 0,
                };
                listings.entry((kind, Arc::clone(&namespace))).or_insert(listing);
            }
        }
        let kind_of = |record: &Record| {
            let (group, kind) = store.group_kind(record.type_id);
            GroupKind::new(group, kind)
        };
        let mut keys: HashMap<(TypeId, TextId), Key, FixedState> = HashMap::default();
        let is_same = |a: &Record, b: &Record| {
            a.namespace == b.namespace
                && a.name == b.name
                && (a.type_id == b.type_id || kind_of(a) == kind_of(b))
        };
        for same in store.records.chunk_by(is_same) {
            let first = &same[0];
            let key = keys
                .entry((first.type_id, first.namespace))
                .or_insert_with(|| (kind_of(first), Arc::clone(store.texts.text(first.namespace))));
            if let Some(listing) = listings.get_mut(key) {
                listing.elsewhere += u64::from(!same.iter().any(|record| group_of(record).is_some()));
            }
        }
        Self(listings)
    }

    /// Makes the listed kinds complete, unless the caller declared them or the dump contradicts the list.
    pub(crate) fn apply(mut self, snapshot: &mut Snapshot, findings: &mut Findings) {
        let completeness = &snapshot.completeness;
        if completeness.revoked.0.contains_key(&None) {
            return;
        }
        let catalog = &snapshot.catalog;
        self.0.retain(|(kind, namespace), listing| {
            let known = catalog.mapping(&listing.api_version, &kind.kind);
            let has_scope = known.is_some_and(|id| catalog[id].is_namespaced() != namespace.is_empty());
            let proofs = completeness.kinds.get(kind);
            let is_open =
                proofs.is_some_and(|proofs| !proofs.contains_key("") && !proofs.contains_key(namespace));
            has_scope && is_open && !completeness.revoked.0.contains_key(&Some(kind.clone()))
        });
        if self.0.is_empty() {
            return;
        }
        self.count_missing(snapshot);
        // By kind, with the namespaces.
        let mut taken: Vec<(GroupKind, Listing, Vec<Arc<str>>)> = Vec::new();
        for ((kind, namespace), listing) in self.0 {
            if let Some(contradiction) = listing.contradiction(&kind, &namespace) {
                findings.add_of_kind(
                    Problem::ListContradicted,
                    &listing.api_version,
                    &kind.kind,
                    &contradiction,
                );
                continue;
            }
            let proofs = snapshot.completeness.kinds.entry(kind.clone()).or_default();
            proofs.insert(Arc::clone(&namespace), Proof::Inferred);
            match taken.last_mut().filter(|(last, ..)| *last == kind) {
                Some((.., namespaces)) => namespaces.push(namespace),
                None => taken.push((kind, listing, vec![namespace])),
            }
        }
        let namespaces = all_namespaces(snapshot);
        for (kind, listing, listed) in taken {
            let layout = listing.layout;
            let proofs = snapshot.completeness.kinds.entry(kind.clone()).or_default();
            let has_all = |all: &Vec<Arc<str>>| all.iter().all(|one| proofs.contains_key(one));
            let detail = match &*listed {
                [one] if one.is_empty() => format!("taken as complete: {layout} lists all of them"),
                _ if namespaces.as_ref().is_some_and(has_all) => {
                    proofs.insert("".into(), Proof::Inferred);
                    format!("taken as complete: {layout} lists all of them in each namespace")
                }
                _ => {
                    let shown = listed.len().min(NAMESPACES_SHOWN);
                    let more = match listed.len() - shown {
                        0 => String::new(),
                        more => format!(" and {more} more"),
                    };
                    let word = if listed.len() == 1 {
                        "namespace"
                    } else {
                        "namespaces"
                    };
                    format!(
                        "taken as complete in {word} {}{more}: {layout} lists all of them there",
                        listed[..shown].join(", ")
                    )
                }
            };
            findings.add_of_kind(
                Problem::InferredComplete,
                &listing.api_version,
                &kind.kind,
                &detail,
            );
        }
    }

    /// Counts the objects that name an owner or a node that a list lacks.
    fn count_missing(&mut self, snapshot: &Snapshot) {
        let mut lacks = |group: &str, kind: &str, namespace: &Arc<str>, name: &str| {
            let key = (GroupKind::new(group, kind), Arc::clone(namespace));
            if let Some(listing) = self.0.get_mut(&key)
                && snapshot.position(group, kind, namespace, name).is_none()
            {
                listing.missing += 1;
            }
        };
        let cluster: Arc<str> = "".into();
        for view in snapshot.objects() {
            for owner in view.owner_references() {
                let (group, _) = split_api_version(&owner.api_version);
                lacks(group, &owner.kind, view.namespace(), &owner.name);
                if !view.namespace().is_empty() {
                    lacks(group, &owner.kind, &cluster, &owner.name);
                }
            }
        }
        let (pods, nodes) = (Resource::Pods, Resource::Nodes);
        if !self
            .0
            .contains_key(&(GroupKind::new("", nodes.kind()), "".into()))
        {
            return;
        }
        for position in snapshot.positions_of_kind(pods.group(), pods.kind()) {
            let record = snapshot.object(position).map(|object| object.record());
            let pod = record.as_ref().and_then(|record| record.pod());
            if let Some(node) = pod.and_then(|pod| pod.node_name.known())
                && !node.is_empty()
                && snapshot.position("", nodes.kind(), "", node).is_none()
                && let Some(listing) = self.0.get_mut(&(GroupKind::new("", nodes.kind()), "".into()))
            {
                listing.missing += 1;
            }
        }
    }
}

impl Listing {
    /// The contradiction because of which the list is not taken as complete.
    fn contradiction(&self, kind: &GroupKind, namespace: &str) -> Option<String> {
        let Self {
            layout,
            elsewhere,
            missing,
            ..
        } = self;
        let scope = match namespace {
            "" => String::new(),
            namespace => format!(" in namespace {namespace}"),
        };
        let kind = &kind.kind;
        let one_or = |count: u64, one: &'static str, several: &'static str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {several}"),
        };
        let mut reasons = Vec::new();
        if *missing > 0 && &**kind == Resource::Nodes.kind() {
            let pods = one_or(*missing, "pod runs", "pods run");
            reasons.push(format!("{pods} on nodes that the list lacks"));
        } else if *missing > 0 {
            let objects = one_or(*missing, "object names", "objects name");
            reasons.push(format!("{objects} a {kind} as owner that the list lacks"));
        }
        if *elsewhere > 0 {
            let objects = one_or(*elsewhere, "of them is", "of them are");
            reasons.push(format!("{objects} elsewhere in the dump"));
        }
        (!reasons.is_empty()).then(|| {
            format!(
                "not taken as complete{scope}, although {layout} lists all of them: {}",
                reasons.join(", and ")
            )
        })
    }
}

/// The names of all namespaces, if they are known.
fn all_namespaces(snapshot: &Snapshot) -> Option<Vec<Arc<str>>> {
    let resource = Resource::Namespaces;
    let (group, kind) = (resource.group(), resource.kind());
    if !snapshot.completeness.of(group, kind).is_complete() {
        return None;
    }
    let positions = snapshot.positions_of_kind(group, kind);
    let names = positions.filter_map(|at| Some(Arc::clone(snapshot.object(at)?.name())));
    Some(names.collect())
}

/// The segments of a path, without the extension of the last one.
fn segments(path: &str) -> Vec<String> {
    let path = layout::unpacked_name(path);
    let plain = layout::without_extension(&path);
    plain.split(['/', '\\', ':']).map(str::to_owned).collect()
}

/// A list whose path says that it is complete.
fn in_path<'p>(store: &Store, page: &'p Page) -> Option<Group<'p>> {
    let segments = segments(&page.place.file);
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let group = match store.group_kind(page.type_id).0 {
        "" => "core",
        group => group,
    };
    let (layout, namespace) = match *segments {
        [.., "namespaces", namespace, of, _] if of == group => (MUST_GATHER, namespace),
        [.., "cluster-scoped-resources", of, _] if of == group => (MUST_GATHER, ""),
        [.., "cluster-resources", _, namespace] => (SUPPORT_BUNDLE, namespace),
        [.., "cluster-resources", _] => (SUPPORT_BUNDLE, ""),
        _ => return None,
    };
    Some(Group::new(vec![page], layout, Some(namespace)))
}

/// The lists in the directories of `kubectl cluster-info dump --output-directory`: nodes, and a directory
/// with all other kinds for each namespace.
fn dumped_to_directories<'p>(store: &Store, pages: &[&'p Page]) -> Vec<Group<'p>> {
    let mut directories: BTreeMap<Vec<String>, BTreeMap<&str, &'p Page>> = BTreeMap::new();
    for page in pages {
        let mut segments = segments(&page.place.file);
        let (name, (_, kind)) = (segments.pop(), store.type_texts(page.type_id));
        let is_of =
            |known: &&(&str, &str, &str, &str)| name.as_deref() == Some(known.0) && **kind == *known.3;
        if let Some((file, ..)) = KINDS.iter().find(is_of) {
            directories.entry(segments).or_default().insert(file, page);
        }
    }
    let (nodes, all) = (KINDS[0].0, KINDS.len() - 1);
    let is_namespace = |files: &BTreeMap<&str, &Page>| files.len() == all && !files.contains_key(nodes);
    let mut groups = Vec::new();
    for (directory, files) in &directories {
        let Some((namespace, root)) = directory.split_last().filter(|_| is_namespace(files)) else {
            continue;
        };
        if let Some(nodes) = directories.get(root).and_then(|files| files.get(nodes)) {
            groups.push(Group::new(vec![nodes], CLUSTER_INFO, Some("")));
            let pages = files.values().copied().collect();
            groups.push(Group::new(pages, CLUSTER_INFO, Some(namespace)));
        }
    }
    groups
}

/// The lists in the output of `kubectl cluster-info dump`: nodes, and the other kinds of one namespace after
/// the other. Only the objects name the namespace.
fn dumped_to_streams<'p>(store: &Store, pages: &[&'p Page]) -> Vec<Group<'p>> {
    let [(.., nodes), kinds @ ..] = KINDS;
    let is_of = |page: &Page, kind: &str| **store.type_texts(page.type_id).1 == *kind;
    let is_namespace = |lists: &&[&Page]| {
        let mut lists_and_kinds = lists.iter().zip(kinds);
        lists.len() == kinds.len() && lists_and_kinds.all(|(page, (.., kind))| is_of(page, kind))
    };
    let is_next =
        |a: &&Page, b: &&Page| a.place.file == b.place.file && a.place.document + 1 == b.place.document;
    let mut pages = pages.to_vec();
    pages.sort_by(|a, b| a.place.cmp(&b.place));
    let mut groups = Vec::new();
    for stream in pages.chunk_by(is_next) {
        let [first, lists @ ..] = stream else { continue };
        let namespaces = lists.chunks(kinds.len()).take_while(is_namespace);
        let mut namespaces = namespaces
            .map(|lists| Group::new(lists.to_vec(), CLUSTER_INFO, None))
            .peekable();
        if first.place.document == 1 && is_of(first, nodes) && namespaces.peek().is_some() {
            groups.push(Group::new(vec![first], CLUSTER_INFO, Some("")));
            groups.extend(namespaces);
        }
    }
    groups
}
