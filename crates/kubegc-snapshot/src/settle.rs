//! Builds a snapshot from the ingested objects: one object for each name, resolved kinds, and completeness.

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
    hash::BuildHasher,
};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use kubegc_core::{
    Catalog, KubernetesVersion, ObjectMeta, ResourceVersion, Timestamp, identity::split_api_version,
};

use crate::{
    Completeness, Finding, Place, Problem, Snapshot, SnapshotError,
    completeness::Why,
    declaration,
    discovery::Discovery,
    ingest::Ingest,
    kinds,
    listings::Listings,
    manifest,
    snapshot::kind_ranges,
    store::{Record, Store},
};

pub(crate) fn settle(
    mut ingest: Ingest,
    version: KubernetesVersion,
    discovery: &Discovery,
    declarations: &[String],
    default_namespace: Option<&str>,
) -> Result<Snapshot, SnapshotError> {
    ingest.sort();
    let listings = Listings::of(&ingest);
    ingest.merge();
    ingest.pages();
    let Ingest { store, findings, .. } = &mut ingest;
    let mut catalog = kinds::catalog(version, discovery, store, findings);
    let inferred = kinds::add_inferred(&mut catalog, store, findings);
    let kind_ids = kinds::resolve(store, &catalog);
    if let Some(namespace) = default_namespace
        && manifest::fill_namespaces(&mut ingest, &catalog, &kind_ids, namespace)
    {
        ingest.sort();
        ingest.merge();
    }
    manifest::fill_identities(&mut ingest);
    ingest.scopes(&catalog, &kind_ids);
    ingest.unresolvable(&kind_ids);
    ingest.shared_uids();
    let kinds = declaration::resolve(declarations, &catalog, &inferred)?;
    let Ingest {
        mut store,
        mut findings,
        revocations,
        version: detected,
        ..
    } = ingest;
    store.records.shrink_to_fit();
    if let Some(warning) = version.warning() {
        let problem = Problem::NewerVersion;
        findings.add(problem, || Finding::new(problem, None, &warning));
    }
    let mut snapshot = Snapshot {
        catalog,
        completeness: Completeness {
            kinds,
            revoked: revocations,
        },
        findings: Vec::new(),
        finding_counts: BTreeMap::new(),
        version,
        detected_version: detected,
        kinds: kind_ranges(&store),
        store,
        kind_ids,
    };
    listings.apply(&mut snapshot, &mut findings);
    (snapshot.findings, snapshot.finding_counts) = findings.settle();
    Ok(snapshot)
}

impl Ingest {
    fn sort(&mut self) {
        let store = &mut self.store;
        let ranks = TypeRanks::of(store);
        let mut records = std::mem::take(&mut store.records);
        records.sort_unstable_by(|a, b| ranks.compare(store, a, b));
        store.records = records;
    }

    /// Keeps one record for each name: the newest, or, if the order is unknown, one that does not depend on
    /// the order of reading.
    fn merge(&mut self) {
        let store = &self.store;
        let ranks = TypeRanks::of(store);
        let mut kept = vec![true; store.records.len()];
        let mut losers = Vec::new();
        let mut end = 0;
        let is_same = |a: &Record, b: &Record| ranks.compare(store, a, b) == Ordering::Equal;
        for same in store.records.chunk_by(is_same) {
            end += same.len();
            if same.len() == 1 {
                continue;
            }
            let mut group: Vec<usize> = (end - same.len()..end).collect();
            group.sort_by_cached_key(|&at| preference(store, at));
            let winner = group[0];
            for &loser in &group[1..] {
                kept[loser] = false;
                losers.push((winner, loser, compare(store, winner, loser)));
            }
        }
        for (winner, loser, (problem, detail)) in losers {
            let record = &self.store.records[loser];
            let finding = Finding::of_record(&self.store, record, problem, "", &detail);
            if problem == Problem::Contradiction {
                self.revoke(Some(record.type_id), Why::Contradiction(1));
                self.store.records[winner].flawed = true;
            }
            self.findings.add(problem, || finding);
        }
        let mut kept = kept.into_iter();
        self.store.records.retain(|_| kept.next().unwrap_or(true));
    }

    /// Finds pages of lists whose continuation is missing.
    fn pages(&mut self) {
        let mut pages = std::mem::take(&mut self.pages);
        pages.sort_by(|a, b| {
            (a.type_id, &a.resource_version, &a.place).cmp(&(b.type_id, &b.resource_version, &b.place))
        });
        for list in pages.chunk_by(|a, b| a.type_id == b.type_id && a.resource_version == b.resource_version)
        {
            let Some(open) = list.iter().find(|page| page.continues) else {
                continue;
            };
            let ends = list.iter().any(|page| !page.continues);
            let items: u64 = list.iter().map(|page| page.items).sum();
            let total = list
                .iter()
                .map(|page| page.items.saturating_add(page.remaining))
                .max();
            if ends && total.is_none_or(|total| items >= total) {
                continue;
            }
            let why = Why::ListContinues(open.place.clone());
            self.revoke(Some(open.type_id), why);
            let problem = Problem::ListContinues;
            let detail =
                format!("the list continues after {items} objects, and its other pages are not there");
            let object = self.store.object_name(Some(open.type_id), "", "");
            self.findings.add(problem, || {
                let finding = Finding::new(problem, Some(open.place.clone()), &detail);
                finding.of_object(object, "metadata.continue")
            });
        }
    }

    /// Finds objects with a namespace although their kind is cluster-scoped, and the reverse.
    fn scopes(&mut self, catalog: &Catalog, kind_ids: &[Option<kubegc_core::KindId>]) {
        let Self { store, findings, .. } = self;
        for at in 0..store.records.len() {
            let record = &store.records[at];
            let Some(kind) = kind_ids[record.type_id as usize] else {
                continue;
            };
            let is_named = !store.texts.text(record.namespace).is_empty();
            if catalog[kind].is_namespaced() == is_named {
                continue;
            }
            let problem = Problem::WrongScope;
            let detail = match is_named {
                true => "the kind is in no namespace",
                false => "missing, and the kind is namespaced",
            };
            findings.add(problem, || {
                Finding::of_record(store, record, problem, "metadata.namespace", detail)
            });
            store.records[at].flawed = true;
        }
    }

    /// Names the kinds that cannot be addressed, with how many objects have them.
    fn unresolvable(&mut self, kind_ids: &[Option<kubegc_core::KindId>]) {
        let Self { store, findings, .. } = self;
        let mut counts = vec![0_u64; store.types.len()];
        for record in &store.records {
            counts[record.type_id as usize] += 1;
        }
        let unresolved = counts
            .iter()
            .enumerate()
            .filter(|&(at, &count)| count > 0 && kind_ids[at].is_none());
        for (at, count) in unresolved {
            let (api_version, kind) = store.type_texts(at as u32);
            let objects = if *count == 1 { "object" } else { "objects" };
            let detail = format!(
                "{count} {objects} of {api_version}/{kind}: neither built in, nor defined in the dump; add the \
                 output of `kubectl api-resources`"
            );
            findings.add_of_kind(Problem::Unresolvable, api_version, kind, &detail);
        }
    }

    /// Finds uids that several names have.
    fn shared_uids(&mut self) {
        let Self { store, findings, .. } = self;
        let hasher = FixedState::default();
        let mut seen: HashTable<u32> = HashTable::with_capacity(store.records.len());
        for (at, record) in store.records.iter().enumerate() {
            if record.uid.is_empty() {
                continue;
            }
            let hash = hasher.hash_one(&record.uid);
            let of = |at: u32| &store.records[at as usize];
            match seen.find(hash, |&other| of(other).uid == record.uid) {
                Some(&first) => {
                    let problem = Problem::SharedUid;
                    let other = store.name_of(of(first));
                    findings.add(problem, || {
                        let detail =
                            format!("{} is also the uid of {} {other}", record.uid, other.api_version);
                        Finding::of_record(store, record, problem, "metadata.uid", &detail)
                    });
                }
                None => {
                    seen.insert_unique(hash, at as u32, |&at| hasher.hash_one(&of(at).uid));
                }
            }
        }
    }
}

/// The order of types by group and kind; versions of one kind are equal.
struct TypeRanks(Vec<u32>);

impl TypeRanks {
    fn of(store: &Store) -> Self {
        let key = |at: u32| store.group_kind(at);
        let mut order: Vec<u32> = (0..store.types.len() as u32).collect();
        order.sort_by_key(|&at| key(at));
        let mut ranks = vec![0; order.len()];
        let mut rank = 0;
        for (index, &at) in order.iter().enumerate() {
            if index > 0 && key(order[index - 1]) != key(at) {
                rank += 1;
            }
            ranks[at as usize] = rank;
        }
        Self(ranks)
    }

    fn compare(&self, store: &Store, a: &Record, b: &Record) -> Ordering {
        let kinds = self.0[a.type_id as usize].cmp(&self.0[b.type_id as usize]);
        kinds
            .then_with(|| {
                if a.namespace == b.namespace {
                    Ordering::Equal
                } else {
                    store.texts.text(a.namespace).cmp(store.texts.text(b.namespace))
                }
            })
            .then_with(|| a.name.cmp(&b.name))
    }
}

/// A key by which the record to keep comes first among records of one name. The content decides if versions
/// do not, and the place last: only the place may depend on the order of reading.
fn preference(store: &Store, at: usize) -> impl Ord + use<> {
    let record = &store.records[at];
    let (api_version, _) = store.type_texts(record.type_id);
    let content = format!(
        "{:?} {:?} {} {} {}",
        store.meta(record),
        store.details_of(record),
        record.ready_at.map_or(i64::MIN, Timestamp::as_nanos),
        record.flawed,
        record.meta_flawed
    );
    let maturity = kinds::rank(split_api_version(api_version).1);
    (
        Reverse(number(&record.version)),
        Reverse(maturity),
        api_version.to_string(),
        content,
        Place::of(store, record),
    )
}

/// The number by which a version can be ordered, if it is one: others can only be compared.
fn number(version: &ResourceVersion) -> Option<u64> {
    let text = version.as_str();
    let is_canonical = !text.starts_with(['+', '0']) || text == "0";
    text.parse().ok().filter(|_| is_canonical)
}

/// The relation of two records of one name.
fn compare(store: &Store, winner: usize, loser: usize) -> (Problem, String) {
    let (one, two) = (&store.records[winner], &store.records[loser]);
    let (new, old) = (store.meta(one), store.meta(two));
    if let (Some(newer), Some(older)) = (number(&one.version), number(&two.version))
        && newer != older
    {
        let detail = if one.uid == two.uid {
            format!("resourceVersion {newer} replaces {older}")
        } else {
            format!("resourceVersion {newer} replaces {older}, with another uid: deleted and created again")
        };
        return (Problem::Superseded, detail);
    }
    let plain = |meta: &ObjectMeta| ObjectMeta {
        resource_version: ResourceVersion::default(),
        ..meta.clone()
    };
    let is_ordered = one.version == two.version || two.version.is_empty();
    if is_ordered && plain(&new) == plain(&old) && same_details(store, one, two) {
        return (Problem::Repeated, String::new());
    }
    let detail = format!(
        "differs from {}, and no resourceVersion says which is newer",
        Place::of(store, one)
    );
    (Problem::Contradiction, detail)
}

/// Whether the details agree; other versions of a kind may have none.
fn same_details(store: &Store, one: &Record, two: &Record) -> bool {
    (one.details, one.ready_at) == (two.details, two.ready_at)
        || store.details_of(one).is_none()
        || store.details_of(two).is_none()
}
