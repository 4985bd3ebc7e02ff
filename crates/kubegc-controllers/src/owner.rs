//! Lookups by controller reference and label selector, and the writes that adopt and release objects, which
//! several controllers share.
//!
//! # Upstream
//! [`ClaimObject`, `AdoptPod`,
//! `ReleasePod`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/controller_ref_manager.go)
//! in `controller_ref_manager.go`.

use kubegc_core::LabelSelector;

use crate::prelude::*;

/// The reference to an owner, which is a controller and blocks the deletion if the flag is set.
pub(crate) fn owner_reference(resource: Resource, owner: &ObjectMeta, flag: Option<bool>) -> OwnerReference {
    let api_version = format!("{}/v1", resource.group());
    OwnerReference {
        api_version: api_version.trim_start_matches('/').into(),
        kind: resource.kind().into(),
        name: Arc::clone(&owner.name),
        uid: owner.uid.clone(),
        controller: flag,
        block_owner_deletion: flag,
    }
}

/// Adds the key of the object of this kind that controls a record.
pub(crate) fn push_controller(record: &Record, kind: &str, keys: &mut Vec<Key>) {
    if let Some(owner) = record.meta.controller().filter(|owner| &*owner.kind == kind) {
        keys.push(Key::new(
            Arc::clone(&record.meta.namespace),
            Arc::clone(&owner.name),
        ));
    }
}

/// The objects that an owner controls, out of an index that [`push_controller`] fills.
pub(crate) fn controlled<'a>(
    cx: &Context<'a>,
    index: &'static Index,
    owner: &ObjectId,
) -> impl Iterator<Item = &'a Record> + use<'a> {
    let uid = owner.uid.clone();
    let records = cx.cache.indexed_records(index, &Key::from(owner)).into_iter();
    records.filter(move |record| record.meta.controller().is_some_and(|owner| owner.uid == uid))
}

/// Pods whose owners may not be known, by namespace.
pub(crate) static UNREAD_PODS: Index = Index::new(Resource::Pods, |record, keys| {
    if !record.has_whole_meta {
        keys.push(namespace_key(&record.meta.namespace));
    }
});

/// Returns whether the controllers of all pods of a namespace are known.
pub(crate) fn require_pod_owners(cx: &Context<'_>, namespace: &Arc<str>) -> Result<(), Missing> {
    cx.cache.require_in(Resource::Pods, namespace)?;
    let unread = cx.cache.first_indexed(&UNREAD_PODS, &namespace_key(namespace));
    unread.map_or(Ok(()), |pod| {
        let mut object = pod.id(Resource::Pods);
        object.uid = Uid::default();
        Err(Missing::Metadata { object })
    })
}

fn label_key(namespace: &Arc<str>, key: &str, value: &str) -> Key {
    Key::new(Arc::clone(namespace), format!("{key}={value}"))
}

/// Adds the keys under which the selectors that may match an object are found: each of its labels, and the
/// empty key for selectors that require no label.
pub(crate) fn push_labels(namespace: &Arc<str>, meta: &ObjectMeta, keys: &mut Vec<Key>) {
    keys.push(Key::new(Arc::clone(namespace), ""));
    let labels = meta.labels.iter();
    keys.extend(labels.map(|(key, value)| label_key(namespace, key, value)));
}

/// Adds the keys of an orphan: an object without a controller.
pub(crate) fn push_orphan(record: &Record, keys: &mut Vec<Key>) {
    if record.has_whole_meta && record.meta.controller().is_none() {
        push_labels(&record.meta.namespace, &record.meta, keys);
    }
}

/// The selector of an owner that adopts objects; `None` if only its metadata was read.
fn selector_of(record: &Record) -> Option<&Field<LabelSelector>> {
    let of_deployment = record.deployment().map(|owner| &owner.selector);
    let of_daemon_set = || record.daemon_set().map(|owner| &owner.selector);
    let of_replica_set = || record.replica_set().map(|owner| &owner.selector);
    of_deployment.or_else(of_daemon_set).or_else(of_replica_set)
}

/// The key under which the objects that a selector may match are found.
fn selector_key(namespace: &Arc<str>, selector: Option<&LabelSelector>) -> Option<Key> {
    let is_empty = selector.is_some_and(LabelSelector::is_empty);
    let label = selector.and_then(LabelSelector::required_label);
    let key = label.map_or_else(
        || namespace_key(namespace),
        |(key, value)| label_key(namespace, key, value),
    );
    (!is_empty).then_some(key)
}

/// Adds the key under which the objects that the selector of an owner may match are found.
pub(crate) fn push_selector(record: &Record, keys: &mut Vec<Key>) {
    let selector = selector_of(record).and_then(Field::known);
    keys.extend(selector_key(&record.meta.namespace, selector));
}

/// Adds the keys of the owners whose selectors may match an object that has just become an orphan, or whose
/// labels have changed. `orphans` is filled by [`push_orphan`], `owners` by [`push_selector`].
pub(crate) fn push_adopters(
    cache: &Cache,
    [orphans, owners]: [&'static Index; 2],
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    let Some(new) = change.new.filter(|new| new.meta.controller().is_none()) else {
        return;
    };
    let has_changed = |old: &Record| old.meta.controller().is_some() || old.meta.labels != new.meta.labels;
    let is_new = change.old.is_none_or(has_changed);
    if change.resource != orphans.resource() || new.meta.is_deleting() || !is_new {
        return;
    }
    let mut labels = Vec::new();
    push_labels(&new.meta.namespace, &new.meta, &mut labels);
    let may_match = |owner: &&Record| {
        let selector = selector_of(owner).and_then(Field::known);
        selector.is_none_or(|selector| selector.matches(&new.meta))
    };
    for label in labels {
        let owners = cache.indexed_records(owners, &label).into_iter();
        keys.extend(owners.filter(may_match).map(|owner| Key::from(&owner.meta)));
    }
}

/// An owner that adopts and releases objects of one resource.
pub(crate) struct Claimer<'a> {
    pub(crate) id: &'a ObjectId,
    pub(crate) record: &'a Record,
    /// The orphans of the resource that it adopts, filled by [`push_orphan`].
    pub(crate) orphans: &'static Index,
}

impl Claimer<'_> {
    /// The writes that adopt the orphans in a namespace that the selector matches, and release those of the
    /// owned objects that it does not match. Objects for which `is_claimed` is false are left as they are.
    pub(crate) fn claim(
        &self,
        cx: &Context<'_>,
        namespace: &Arc<str>,
        owned: &[&Record],
        is_claimed: impl Fn(&Record) -> Result<bool, Missing>,
    ) -> Result<Vec<Action>, Missing> {
        let field = self.id.body(self.record, selector_of)?;
        let key = selector_key(namespace, field.known());
        let orphans = key.map(|key| cx.cache.indexed_records(self.orphans, &key));
        let mut orphans = orphans.unwrap_or_default();
        orphans.retain(|orphan| !orphan.meta.is_deleting());
        let selector = match field.known() {
            Some(selector) => selector,
            None if orphans.is_empty() => return Ok(Vec::new()),
            None => self.id.read(field, "spec.selector")?,
        };
        let mut actions = Vec::new();
        for orphan in orphans {
            if selector.matches(&orphan.meta) && is_claimed(orphan)? {
                actions.push(self.adopt(cx, orphan));
            }
        }
        for owned in owned.iter().filter(|_| !selector.is_empty()) {
            if !selector.matches(&owned.meta) && is_claimed(owned)? {
                actions.push(self.release(cx, owned));
            }
        }
        Ok(actions)
    }

    fn adopt(&self, cx: &Context<'_>, orphan: &Record) -> Action {
        let message = format!("it has no controller, and the selector of {} matches it", self.id);
        let owner = owner_reference(self.id.resource, &self.record.meta, Some(true));
        let owners = orphan.meta.owner_references.iter().cloned().chain([owner]);
        let reason = Reason::new("Adopted", message).about(self.id.clone());
        self.patch(cx, orphan, owners.collect(), reason)
            .after_reading(Read::unchanged(self.id.resource, self.record))
    }

    fn release(&self, cx: &Context<'_>, owned: &Record) -> Action {
        let message = format!("the selector of {} does not match it", self.id);
        let owners = owned.meta.owner_references.iter().cloned();
        let others = owners.filter(|owner| owner.uid != self.id.uid);
        self.patch(cx, owned, others.collect(), Reason::new("Released", message))
    }

    fn patch(
        &self,
        cx: &Context<'_>,
        record: &Record,
        owners: Vec<OwnerReference>,
        reason: Reason,
    ) -> Action {
        let changes = vec![FieldChange::OwnerReferences(owners)];
        let form = Form::Patch(PatchType::Strategic);
        Action::new(self.orphans.resource(), &record.meta, reason)
            .write(cx.wire, Sent::Uid, form, "", changes)
            .on_error(OnError::RetryUnlessNotFound)
    }
}
