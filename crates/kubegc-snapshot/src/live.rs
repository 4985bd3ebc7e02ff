//! Builds a snapshot from the lists of a live API server, whose kinds and whose completeness are known
//! instead of declared.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::{ApiResource, Catalog, KubernetesVersion};

use crate::{GroupKind, Proof, Reader, Snapshot, SnapshotError, completeness::Why, kinds};

/// Builds a snapshot from the lists of a live cluster.
///
/// A kind is complete if all pages of its list were read. Every other kind of the catalog is incomplete and
/// has a reason. As for dumps, the data can revoke completeness: objects without uid, or that could not be
/// read.
///
/// # Examples
/// ```
/// use kubegc_core::{ApiResource, Catalog, KubernetesVersion, Scope};
/// use kubegc_snapshot::Live;
/// let mut catalog = Catalog::new();
/// let [pods, secrets] = [("Pod", "pods"), ("Secret", "secrets")]
///     .map(|(kind, plural)| ApiResource::new("v1", kind, plural, Scope::Namespaced));
/// catalog.add(pods.clone())?;
/// catalog.add(secrets.clone())?;
/// let mut live = Live::new(KubernetesVersion::LATEST, catalog);
/// let page = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
///     {"metadata":{"namespace":"shop","name":"web","uid":"u1"},"status":{"phase":"Running"}}]}"#;
/// live.list(&pods, [&page[..]])?;
/// live.unlisted(&secrets, "forbidden");
/// let snapshot = live.finish()?;
/// assert_eq!(snapshot.len(), 1);
/// assert!(snapshot.completeness.of("", "Pod").is_complete());
/// assert!(!snapshot.completeness.of("", "Secret").is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Live {
    reader: Reader,
    catalog: Catalog,
    listed: BTreeSet<GroupKind>,
    unlisted: BTreeMap<GroupKind, Why>,
}

impl Live {
    /// An empty reader. The catalog has the kinds that the server serves: they will be those of the snapshot.
    pub fn new(version: KubernetesVersion, catalog: Catalog) -> Self {
        let mut reader = Reader::new(version);
        // The kinds of objects must be known while they are read.
        reader
            .discovery
            .resources
            .extend(catalog.iter().map(|(_, resource)| resource.clone()));
        Self {
            reader,
            catalog,
            listed: BTreeSet::new(),
            unlisted: BTreeMap::new(),
        }
    }

    /// Adds the complete list of a kind, in all namespaces: the JSON of each of its pages, whole objects or
    /// metadata only. Lists of other versions of the kind add nothing.
    ///
    /// # Errors
    /// A page is not a list of objects; [`finish`](Self::finish) fails then, too.
    ///
    /// # Complexity
    /// Linear in the pages' size.
    pub fn list<'p>(
        &mut self,
        resource: &ApiResource,
        pages: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<(), SnapshotError> {
        let api_version = resource.api_version();
        for page in pages {
            let name = resource.to_string();
            self.reader.read_as(&name, &api_version, &resource.kind, page)?;
        }
        self.listed.insert(GroupKind::of(resource));
        Ok(())
    }

    /// Records that a kind could not be listed, or was omitted, and the reason. The first reason of a kind
    /// counts.
    pub fn unlisted(&mut self, resource: &ApiResource, reason: &str) {
        let why = || Why::NotListed(reason.into());
        self.unlisted.entry(GroupKind::of(resource)).or_insert_with(why);
    }

    /// Builds the snapshot.
    ///
    /// # Errors
    /// A page was refused.
    ///
    /// # Complexity
    /// O(n log n) for n objects.
    pub fn finish(self) -> Result<Snapshot, SnapshotError> {
        let mut snapshot = self.reader.finish()?;
        snapshot.kind_ids = kinds::resolve(&snapshot.store, &self.catalog);
        let completeness = &mut snapshot.completeness;
        completeness.kinds.clear();
        for (_, resource) in self.catalog.iter() {
            let key = GroupKind::of(resource);
            let proof = self.listed.contains(&key).then(|| ("".into(), Proof::Declared));
            completeness.kinds.entry(key).or_default().extend(proof);
        }
        for (key, why) in self.unlisted {
            if !self.listed.contains(&key) {
                completeness.revoked.0.entry(Some(key)).or_insert(why);
            }
        }
        snapshot.catalog = self.catalog;
        Ok(snapshot)
    }
}
