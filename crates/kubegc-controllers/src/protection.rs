//! The finalizers that keep objects until nothing uses them.
//!
//! | deleted | finalizer | decision |
//! |---|---|---|
//! | no | no | the finalizer is added, unless admission adds it |
//! | no | yes | the object is kept |
//! | yes | no | the object is kept |
//! | yes | yes | the controller decides whether something uses the object, and removes the finalizer if not |
//!
//! # Upstream
//! [`IsDeletionCandidate` and
//! `NeedToAddFinalizer`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/protectionutil/utils.go).

use std::net::IpAddr;

use kubegc_core::version::behavior::ADDRESSES_ARE_OBJECTS;

use crate::{prelude::*, services::MANAGED_BY};

/// The code and the message of a reason.
pub(crate) type Text = (&'static str, &'static str);

/// A controller that protects objects with a finalizer, as data.
pub(crate) struct Protection {
    pub(crate) finalizer: &'static str,
    /// The form of writes. Updates carry the resourceVersion, patches nothing.
    pub(crate) form: Form,
    pub(crate) on_error: OnError,
    /// Whether nothing is decided if the resourceVersion is not known.
    pub(crate) requires_version: bool,
    /// Why an object that is not being deleted and has the finalizer is kept.
    pub(crate) protected: Text,
    /// Why an object that is being deleted without the finalizer is kept.
    pub(crate) unprotected: Text,
    /// Why the finalizer is added; `None` if it is not.
    pub(crate) added: Option<Text>,
    /// Why an object that is being deleted is in use; `None` if nothing uses it.
    pub(crate) in_use: fn(&Context<'_>, &ObjectId, &Record) -> Result<Option<Text>, Missing>,
    /// The time after the deletion during which the finalizer of an unused object is not removed.
    pub(crate) grace: Duration,
    /// Why the finalizer is removed.
    pub(crate) unused: Text,
}

impl Protection {
    /// A finalizer that is written by updates.
    pub(crate) const fn new(finalizer: &'static str) -> Self {
        Self {
            finalizer,
            form: Form::Update,
            on_error: OnError::Retry,
            requires_version: false,
            protected: ("Protected", "it has the finalizer and is not being deleted"),
            unprotected: ("Terminating", "it is being deleted without the finalizer"),
            added: Some(("Unprotected", "it does not have the finalizer")),
            in_use: |_, _, _| Ok(None),
            grace: Duration::ZERO,
            unused: ("Unused", "it is being deleted, and nothing uses it"),
        }
    }

    /// The finalizer of a volume or claim.
    pub(crate) const fn of_storage(finalizer: &'static str) -> Self {
        Self {
            requires_version: true,
            protected: ("Protected", "it has its protection finalizer"),
            unprotected: (
                "Unprotected",
                "it is being deleted and has no protection finalizer",
            ),
            added: Some(("FinalizerMissing", "it has no protection finalizer")),
            ..Self::new(finalizer)
        }
    }

    pub(crate) fn is_candidate(&self, meta: &ObjectMeta) -> bool {
        meta.is_deleting() && meta.has_finalizer(self.finalizer)
    }

    pub(crate) fn decide(
        &self,
        cx: &Context<'_>,
        id: &ObjectId,
        record: &Record,
    ) -> Result<Decision, Missing> {
        if let Some(settled) = self.settled(cx, id, record)? {
            return Ok(settled);
        }
        if let Some((code, message)) = (self.in_use)(cx, id, record)? {
            return id.keep(code, message);
        }
        let deleted_at = record.meta.deletion_timestamp;
        let free_at = deleted_at.map(|deleted_at| deleted_at.saturating_add(self.grace));
        if let Some(free_at) = free_at.filter(|free_at| *free_at > cx.now && !self.grace.is_zero()) {
            let message = format!("it was deleted less than {}s ago", self.grace.as_secs());
            return Ok(id.keep("DeletionRecent", message)?.requeue_at(free_at));
        }
        self.remove(cx, id, record).map(Decision::act)
    }

    /// The decision about an object that is no candidate for the removal of the finalizer; `None` if it is
    /// one.
    pub(crate) fn settled(
        &self,
        cx: &Context<'_>,
        id: &ObjectId,
        record: &Record,
    ) -> Result<Option<Decision>, Missing> {
        let (code, message) = match (record.meta.is_deleting(), self.added) {
            _ if self.is_candidate(&record.meta) => return Ok(None),
            (true, _) => self.unprotected,
            (false, Some(text)) if !record.meta.has_finalizer(self.finalizer) => {
                let change = FieldChange::AddFinalizer(self.finalizer);
                let action = self.write(cx, id, record, text, change)?;
                return Ok(Some(Decision::act(action)));
            }
            (false, _) => self.protected,
        };
        id.keep(code, message).map(Some)
    }

    pub(crate) fn remove(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Action, Missing> {
        let change = FieldChange::RemoveFinalizer(self.finalizer);
        self.write(cx, id, record, self.unused, change)
    }

    fn write(
        &self,
        cx: &Context<'_>,
        id: &ObjectId,
        record: &Record,
        (code, message): Text,
        change: FieldChange,
    ) -> Result<Action, Missing> {
        if self.requires_version {
            require_version(id, &record.meta)?;
        }
        let sent = match self.form {
            Form::Update => Sent::ResourceVersion,
            Form::Patch(_) => Sent::Nothing,
        };
        Ok(Action::new(id.resource, &record.meta, Reason::new(code, message))
            .write(cx.wire, sent, self.form, "", vec![change])
            .on_error(self.on_error))
    }
}

static PERSISTENT_VOLUME: Protection = Protection {
    in_use: |_, id, record| {
        let volume = id.body(record, Record::persistent_volume)?;
        let is_bound = **id.read(&volume.phase, "status.phase")? == *"Bound";
        Ok(is_bound.then_some(("Bound", "it is bound")))
    },
    unused: ("NotBound", "it is being deleted and not bound"),
    ..Protection::of_storage("kubernetes.io/pv-protection")
};

/// The persistent volume protection controller. It keeps persistent volumes until they are no longer bound.
///
/// The rules are [L6.1](crate::rules#l6-1) to [L6.3](crate::rules#l6-3), and [L6.8](crate::rules#l6-8).
///
/// # Upstream
/// [`processPV` and
/// `isBeingUsed`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/pvprotection/pv_protection_controller.go)
/// in `pv_protection_controller.go`.
pub static PERSISTENT_VOLUMES: Rule = Rule {
    info: Info {
        name: "persistentvolume-protection-controller",
        summary: "keeps persistent volumes until they are no longer bound",
        resources: &[Resource::PersistentVolumes],
        permissions: &[(Resource::PersistentVolumes, "", &["update"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/pvprotection/pv_protection_controller.go",
        ..Info::BASE
    },
    decide: |cx, id, record| PERSISTENT_VOLUME.decide(cx, id, record),
    ..Rule::BASE
};

static ATTRIBUTES_CLASS: Protection = Protection {
    in_use: attributes_class_is_used,
    unused: (
        "Unused",
        "it is being deleted, and no volume and no claim uses it",
    ),
    ..Protection::new("kubernetes.io/vac-protection")
};

/// The feature gate `VolumeAttributesClass`: alpha from 1.29, beta and off from 1.31, on from 1.34.
const ATTRIBUTES_CLASSES_ON: Behavior = Behavior::since(34, 0, "feature gate VolumeAttributesClass is on");

/// Volumes by class. Those whose class was not read are found under an empty name.
static VOLUMES_BY_CLASS: Index = Index::new(Resource::PersistentVolumes, |record, keys| {
    match record
        .persistent_volume()
        .map(|volume| volume.attributes_class.known())
    {
        Some(Some(class)) if class.is_empty() => {}
        Some(Some(class)) => keys.push(Key::cluster(Arc::clone(class))),
        _ => keys.push(Key::cluster("")),
    }
});

/// Claims by class. Those whose classes were not read are found under an empty name.
static CLAIMS_BY_CLASS: Index = Index::new(Resource::PersistentVolumeClaims, |record, keys| {
    match record
        .persistent_volume_claim()
        .map(|claim| claim.attributes_classes.known())
    {
        Some(Some(classes)) => keys.extend(classes.iter().map(|class| Key::cluster(Arc::clone(class)))),
        _ => keys.push(Key::cluster("")),
    }
});

fn attributes_class_is_used(
    cx: &Context<'_>,
    id: &ObjectId,
    record: &Record,
) -> Result<Option<Text>, Missing> {
    let key = Key::from(&record.meta);
    for (index, text) in [
        (&VOLUMES_BY_CLASS, ("UsedByVolume", "a volume uses it")),
        (&CLAIMS_BY_CLASS, ("UsedByClaim", "a claim uses it")),
    ] {
        if cx.cache.first_indexed(index, &key).is_some() {
            return Ok(Some(text));
        }
    }
    cx.cache
        .require_all(&[Resource::PersistentVolumes, Resource::PersistentVolumeClaims])?;
    for index in [&VOLUMES_BY_CLASS, &CLAIMS_BY_CLASS] {
        let field = "spec.volumeAttributesClassName";
        cx.cache.require_read(index, &id.namespace, field)?;
    }
    Ok(None)
}

/// The VolumeAttributesClass protection controller. It keeps VolumeAttributesClasses until no volume and no
/// claim uses them.
///
/// A PersistentVolume uses the class in `spec.volumeAttributesClassName`, a claim its wanted, current and
/// target class. The finalizer is `kubernetes.io/vac-protection`, and is written by updates.
///
/// The controller is off before 1.34 (feature gate `VolumeAttributesClass`: alpha from 1.29, beta and off
/// from 1.31).
///
/// # Upstream
/// [`processVAC` and
/// `isBeingUsed`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/vacprotection/vac_protection_controller.go)
/// in `vac_protection_controller.go`.
pub static VOLUME_ATTRIBUTES_CLASSES: Rule = Rule {
    info: Info {
        name: "volumeattributesclass-protection-controller",
        summary: "adds and removes the finalizer of VolumeAttributesClasses",
        resources: &[
            Resource::VolumeAttributesClasses,
            Resource::PersistentVolumes,
            Resource::PersistentVolumeClaims,
        ],
        indexes: &[&VOLUMES_BY_CLASS, &CLAIMS_BY_CLASS],
        affected_by: &[&VOLUMES_BY_CLASS, &CLAIMS_BY_CLASS],
        since: Some(ATTRIBUTES_CLASSES_ON),
        permissions: &[(Resource::VolumeAttributesClasses, "", &["update"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/vacprotection/vac_protection_controller.go",
        ..Info::BASE
    },
    gate: Some((ATTRIBUTES_CLASSES_ON, "VolumeAttributesClass")),
    decide: |cx, id, record| ATTRIBUTES_CLASS.decide(cx, id, record),
    ..Rule::BASE
};

const NOT_TERMINATING: Text = (
    "NotTerminating",
    "it is not being deleted, or does not have the finalizer",
);
static POD_GROUP: Protection = Protection {
    protected: NOT_TERMINATING,
    unprotected: NOT_TERMINATING,
    added: None,
    in_use: pod_group_is_used,
    unused: ("Unused", "it is being deleted, and no active pod uses it"),
    ..Protection::new("scheduling.k8s.io/podgroup-protection")
};

const POD_GROUPS_PROTECTED: Behavior = Behavior::since(36, 0, "kubernetes #137641");

/// Pods that have not finished, by their PodGroup. Those whose group was not read are found under an empty
/// name.
static ACTIVE_PODS: Index = Index::new(Resource::Pods, |record, keys| {
    let namespace = &record.meta.namespace;
    if record.pod().and_then(Pod::has_final_phase) == Some(true) {
        return;
    }
    match record.pod().map(|pod| pod.pod_group.known()) {
        Some(Some(group)) if group.is_empty() => {}
        Some(Some(group)) => keys.push(Key::new(Arc::clone(namespace), Arc::clone(group))),
        _ => keys.push(Key::new(Arc::clone(namespace), "")),
    }
});

fn pod_group_is_used(cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Option<Text>, Missing> {
    let mut unread = None;
    for pod in cx.cache.indexed_records(&ACTIVE_PODS, &Key::from(&record.meta)) {
        let pod_id = pod.id(Resource::Pods);
        let phase = pod_id
            .body(pod, Record::pod)
            .and_then(|pod| pod_id.read(&pod.phase, "status.phase"));
        match phase {
            Ok(_) => return Ok(Some(("Used", "a pod that has not finished uses it"))),
            Err(missing) => unread = Some(missing),
        }
    }
    if let Some(missing) = unread {
        return Err(missing);
    }
    cx.cache.require_in(Resource::Pods, &id.namespace)?;
    let field = "spec.schedulingGroup.podGroupName";
    cx.cache.require_read(&ACTIVE_PODS, &id.namespace, field)?;
    Ok(None)
}

/// The PodGroup protection controller. It keeps PodGroups until no active pod uses them.
///
/// A pod names its group in `spec.schedulingGroup.podGroupName`. Terminating pods count until they have
/// finished or no longer exist. Admission adds the finalizer `scheduling.k8s.io/podgroup-protection` at
/// the creation, and an update removes it.
///
/// The controller exists from 1.36 on ([#137641](https://github.com/kubernetes/kubernetes/pull/137641)). It is
/// off by default in all releases (feature gate `GenericWorkload`: alpha from 1.35, beta and off in 1.37), so
/// that [`default_controllers`](crate::default_controllers) leaves it out.
///
/// # Upstream
/// [`processPodGroup`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller.go)
/// in `podgroup_protection_controller.go`.
pub static POD_GROUPS: Rule = Rule {
    info: Info {
        name: "podgroup-protection-controller",
        summary: "removes the finalizer of PodGroups that no active pod uses",
        resources: &[Resource::PodGroups, Resource::Pods],
        indexes: &[&ACTIVE_PODS],
        affected_by: &[&ACTIVE_PODS],
        since: Some(POD_GROUPS_PROTECTED),
        permissions: &[(Resource::PodGroups, "", &["update"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller.go",
        ..Info::BASE
    },
    gate: Some((POD_GROUPS_PROTECTED, "GenericWorkload")),
    decide: |cx, id, record| POD_GROUP.decide(cx, id, record),
    ..Rule::BASE
};

static SERVICE_CIDR: Protection = Protection {
    form: Form::Patch(PatchType::Strategic),
    on_error: OnError::RetryUnlessNotFound,
    in_use: service_cidr_is_used,
    // Allocators may not have observed the deletion.
    grace: Duration::from_secs(10),
    unused: ("Unused", "it is being deleted, and no IPAddress needs it"),
    ..Protection::new("networking.k8s.io/service-cidr-finalizer")
};

#[derive(Clone, Copy, Debug)]
struct Range {
    address: IpAddr,
    bits: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let (address, bits) = (address.parse().ok()?, bits.parse().ok()?);
        let width = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        (bits <= width).then_some(Self { address, bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let differs = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
            (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
            _ => return false,
        };
        differs.leading_zeros() >= self.bits
    }

    fn contains_range(&self, other: &Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

fn ranges(id: &ObjectId, record: &Record) -> Result<Vec<Range>, Missing> {
    let cidr = id.body(record, Record::service_cidr)?;
    let texts = id.read(&cidr.cidrs, "spec.cidrs")?;
    Ok(texts.iter().filter_map(|text| Range::parse(text)).collect())
}

fn service_cidr_is_used(cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Option<Text>, Missing> {
    let own = ranges(id, record)?;
    let mut others = Vec::new();
    let mut unread = cx.cache.require(Resource::ServiceCidrs).err();
    let all = cx.cache.records(Resource::ServiceCidrs);
    for other in all.filter(|other| other.meta.name != record.meta.name) {
        match ranges(&other.id(Resource::ServiceCidrs), other) {
            Ok(ranges) => others.extend(ranges),
            Err(missing) => unread = Some(missing),
        }
    }
    let has_parent = |range: &Range| others.iter().any(|other| other.contains_range(range));
    if own.iter().all(has_parent) {
        return Ok(None);
    }
    let [label, manager] = MANAGED_BY;
    let addresses = cx.cache.records(Resource::IpAddresses).filter(|address| {
        let value = address.meta.labels.get(label);
        value.is_some_and(|value| **value == *manager) || !address.has_whole_meta
    });
    for address in addresses {
        let Ok(ip) = address.meta.name.parse::<IpAddr>() else {
            continue;
        };
        let is_own = own.iter().any(|range| range.contains(ip));
        if !is_own || others.iter().any(|range| range.contains(ip)) {
            continue;
        }
        if let Some(missing) = unread {
            return Err(missing);
        }
        if !address.has_whole_meta {
            return Err(Missing::metadata(Resource::IpAddresses, address));
        }
        return Ok(Some(("Used", "an IPAddress lies in its ranges only")));
    }
    cx.cache.require(Resource::IpAddresses).map(|()| None)
}

/// The part of the ServiceCIDR controller that adds and removes the finalizer
/// `networking.k8s.io/service-cidr-finalizer`, by patches.
///
/// - it is being deleted, and each of its ranges lies in a range of another ServiceCIDR: it can be removed.
/// - it is being deleted, and an IPAddress of the API server lies in its ranges and in those of no other
///   ServiceCIDR: the finalizer stays.
/// - it is being deleted, and no such IPAddress exists: it can be removed.
/// - it can be removed, 10 s after the deletion: a patch removes the finalizer.
///
/// Other ServiceCIDRs count though they are being deleted. IPAddresses of the API server have the label
/// `ipaddress.kubernetes.io/managed-by: ipallocator.k8s.io`. IPAddresses have no finalizer: the API server
/// deletes them with their Service. The `Ready` condition is not covered.
///
/// The controller is off before 1.33 (feature gate `MultiCIDRServiceAllocator`: alpha from 1.27, beta and off
/// from 1.31).
///
/// # Upstream
/// [`sync` and
/// `canDeleteCIDR`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/servicecidrs/servicecidrs_controller.go)
/// in `servicecidrs_controller.go`.
pub static SERVICE_CIDRS: Rule = Rule {
    info: Info {
        name: "service-cidr-controller",
        summary: "adds and removes the finalizer of ServiceCIDRs",
        resources: &[Resource::ServiceCidrs, Resource::IpAddresses],
        since: Some(ADDRESSES_ARE_OBJECTS),
        permissions: &[(Resource::ServiceCidrs, "", &["patch"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/servicecidrs/servicecidrs_controller.go",
        ..Info::BASE
    },
    gate: Some((ADDRESSES_ARE_OBJECTS, "MultiCIDRServiceAllocator")),
    // Every change concerns the ServiceCIDRs that are being deleted: there are few.
    affected: Some(|_, cache, change, keys| {
        if change.resource == Resource::ServiceCidrs {
            keys.push(change.key.clone());
        }
        let cidrs = cache.records(Resource::ServiceCidrs);
        let terminating = cidrs.filter(|cidr| cidr.meta.is_deleting());
        keys.extend(terminating.map(|cidr| Key::from(&cidr.meta)));
    }),
    decide: |cx, id, record| SERVICE_CIDR.decide(cx, id, record),
    ..Rule::BASE
};
