//! Sets the owners of the claims of StatefulSets, so that the garbage collector deletes the claims when the
//! retention policy says so.
//!
//! Nothing is deleted here. A claim that is to be deleted with its StatefulSet, or with a pod that is scaled
//! down, gets an owner reference to it, and loses the reference when that changes.
//!
//! The rules are [L7.1](crate::rules#l7-1) to [L7.12](crate::rules#l7-12).
//!
//! Not modelled: the creation and deletion of pods and claims, and that ordered StatefulSets wait for a pod
//! to become ready before they proceed to the next one. Beyond upstream: with [`Wire::Strict`] the
//! StatefulSet and the pods are read before the first write.
//!
//! # Upstream
//! [`isClaimOwnerUpToDate` and
//! `updateClaimOwnerRefForSetAndPod`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/statefulset/stateful_set_utils.go)
//! in `stateful_set_utils.go`, and [`ClaimsMatchRetentionPolicy`, `UpdatePodClaimForRetentionPolicy` and
//! `PodClaimIsStale`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/statefulset/stateful_pod_control.go)
//! in `stateful_pod_control.go`; the older algorithm is
//! [`claimOwnerMatchesSetAndPod`](https://github.com/kubernetes/kubernetes/blob/v1.27.0/pkg/controller/statefulset/stateful_set_utils.go).

use std::{cmp::Reverse, collections::BTreeMap};

use kubegc_core::{ResourceVersion, record::StatefulSet};

use crate::{
    action::require_unchanged,
    owner::owner_reference,
    prelude::*,
    request::{preconditions, server_message_about},
};

/// The feature gate `StatefulSetAutoDeletePVC`: alpha and off from 1.23, beta and on from 1.27, stable from
/// 1.32.
const AUTO_DELETE_CLAIMS: Behavior = Behavior::since(27, 0, "feature gate StatefulSetAutoDeletePVC is beta");
/// The references are controller references, and other controllers are respected.
/// The patch releases are inferred from the dates of the picks.
const CONTROLLER_REFERENCES: [Behavior; 4] = [
    Behavior::since(28, 13, "kubernetes #126581"),
    Behavior::since(29, 8, "kubernetes #126580"),
    Behavior::since(30, 4, "kubernetes #125389"),
    Behavior::since(31, 0, "kubernetes #122499"),
];

const CLAIMS: Resource = Resource::PersistentVolumeClaims;

/// Returns whether the owners of all claims of a pod are as the policy wants: upstream's
/// `ClaimsMatchRetentionPolicy`. Other claims may be among `claims`.
///
/// # Errors
/// A fact that decides is missing.
pub fn claims_match(
    version: KubernetesVersion,
    set: &Record,
    pod: &ObjectMeta,
    claims: &[&Record],
) -> Result<bool, Missing> {
    let owners = Owners::new(version, set, pod)?;
    for claim in owners.spec.claims(set, pod, claims)? {
        if !owners.are_up_to_date(owners_of(claim)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether a claim keeps a pod from being created, because it waits for its collection: upstream's
/// `PodClaimIsStale` ([L7.10](crate::rules#l7-10)). A pod that does not exist has no uid. Other claims may be
/// among `claims`.
///
/// # Errors
/// A fact that decides is missing.
pub fn pod_claim_is_stale(
    version: KubernetesVersion,
    set: &Record,
    pod: &ObjectMeta,
    claims: &[&Record],
) -> Result<bool, Missing> {
    let spec = Spec::new(set)?;
    if spec.when_scaled == "Retain" {
        return Ok(false);
    }
    let owner = Owner(Resource::Pods, pod);
    for claim in spec.claims(set, pod, claims)? {
        if owner.is_stale_in(owners_of(claim)?, owners_are_controllers(version)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sets the owners of the claims of a pod in a release: upstream's `UpdatePodClaimForRetentionPolicy`. Other
/// claims may be among `claims`.
pub fn update_pod_claims(
    version: KubernetesVersion,
    cx: &Context<'_>,
    set: &Record,
    pod: &ObjectMeta,
    claims: &[&Record],
) -> Decision {
    let mut review = Review::default();
    match review.add(version, set, pod, claims, true) {
        Ok(()) => review.into_decision(version, cx, set),
        Err(missing) => Decision::unknown(set.id(Resource::StatefulSets), missing),
    }
}

/// Whether the owner references are controller references ([L7.12](crate::rules#l7-12)).
const fn owners_are_controllers(version: KubernetesVersion) -> bool {
    version.has_change(&CONTROLLER_REFERENCES)
}

/// The owner references of a claim whose metadata was read.
fn owners_of(claim: &Record) -> Result<&[OwnerReference], Missing> {
    whole(CLAIMS, claim).map(|_| &*claim.meta.owner_references)
}

/// The claims of a StatefulSet, in the order of its templates.
fn claims_by_ordinal<'a>(
    cache: &'a Cache,
    set: &Record,
    templates: &[Arc<str>],
) -> BTreeMap<i32, Vec<&'a Record>> {
    let mut by_ordinal = BTreeMap::<i32, Vec<&Record>>::new();
    let mut seen = std::collections::BTreeSet::new();
    for template in templates.iter().filter(|template| seen.insert(*template)) {
        let prefix = format!("{template}-{}-", set.meta.name);
        for claim in cache.with_prefix(CLAIMS, &set.meta.namespace, &prefix) {
            let digits = claim.meta.name.strip_prefix(&*prefix);
            if let Some(ordinal) = digits.and_then(canonical_ordinal) {
                by_ordinal.entry(ordinal).or_default().push(claim);
            }
        }
    }
    by_ordinal
}

fn canonical_ordinal(digits: &str) -> Option<i32> {
    let ordinal: i32 = digits.parse().ok()?;
    (ordinal.to_string() == digits && ordinal >= 0).then_some(ordinal)
}

/// Splits `<name>-<digits>`.
fn split(name: &str) -> Option<(&str, &str)> {
    let (base, digits) = name.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((base, digits))
}

/// The facts that the claims of a StatefulSet depend on.
struct Spec<'a> {
    id: ObjectId,
    spec: &'a StatefulSet,
    when_scaled: &'a str,
    when_deleted: &'a str,
}

impl<'a> Spec<'a> {
    fn new(set: &'a Record) -> Result<Self, Missing> {
        let (id, spec) = read_as(Resource::StatefulSets, set, Record::stateful_set)?;
        let path = "spec.persistentVolumeClaimRetentionPolicy";
        let policy = id.read(&spec.retention_policy, path)?.as_ref();
        Ok(Self {
            when_scaled: policy.map_or("Retain", |policy| &policy.when_scaled),
            when_deleted: policy.map_or("Retain", |policy| &policy.when_deleted),
            id,
            spec,
        })
    }

    fn templates(&self) -> Result<&'a Vec<Arc<str>>, Missing> {
        let Self { id, spec, .. } = self;
        id.read(&spec.claim_templates, "spec.volumeClaimTemplates")
    }

    /// The claims of a pod, in the order of the templates.
    fn claims<'c>(
        &self,
        set: &Record,
        pod: &ObjectMeta,
        claims: &[&'c Record],
    ) -> Result<Vec<&'c Record>, Missing> {
        let ordinal = ordinal_of(pod);
        let names = self.templates()?.iter();
        let claim = |template| {
            let name = format!("{template}-{}-{ordinal}", set.meta.name);
            claims.iter().copied().find(|claim| *claim.meta.name == *name)
        };
        Ok(names.filter_map(claim).collect())
    }

    /// [L7.1](crate::rules#l7-1).
    fn is_scaled_down(&self, ordinal: i32) -> Result<bool, Missing> {
        let first = i64::from(*self.id.read(&self.spec.first_ordinal, "spec.ordinals.start")?);
        let replicas = i64::from(*self.id.read(&self.spec.replicas, "spec.replicas")?);
        Ok(!(first..first.saturating_add(replicas)).contains(&i64::from(ordinal)))
    }
}

/// The ordinal of a pod; -1 if its name has none.
fn ordinal_of(pod: &ObjectMeta) -> i32 {
    split(&pod.name)
        .and_then(|(_, digits)| digits.parse().ok())
        .unwrap_or(-1)
}

/// An object that may own a claim.
#[derive(Clone, Copy)]
struct Owner<'a>(Resource, &'a ObjectMeta);

impl Owner<'_> {
    /// [L7.2](crate::rules#l7-2).
    fn matches(&self, reference: &OwnerReference) -> bool {
        let api_version = match self.0 {
            Resource::Pods => "v1",
            _ => "apps/v1",
        };
        let kind = (api_version, self.0.kind());
        (&*reference.api_version, &*reference.kind) == kind && reference.name == self.1.name
    }

    fn is_in(&self, references: &[OwnerReference]) -> bool {
        references.iter().any(|reference| reference.uid == self.1.uid)
    }

    /// Returns whether the first reference that matches has another uid. The older algorithm compares the
    /// names of all references, whatever their kinds.
    fn is_stale_in(&self, references: &[OwnerReference], by_kind: bool) -> bool {
        let is_other = |reference: &OwnerReference| reference.uid != self.1.uid;
        let mut all = references.iter();
        match by_kind {
            true => all.find(|known| self.matches(known)).is_some_and(is_other),
            false => all.any(|known| known.name == self.1.name && is_other(known)),
        }
    }
}

/// The owners that the claims of one pod may have through the policy.
struct Owners<'a> {
    owners_are_controllers: bool,
    spec: Spec<'a>,
    set: Owner<'a>,
    pod: Owner<'a>,
    /// The owner that the claims should have.
    wanted: Option<Owner<'a>>,
}

impl<'a> Owners<'a> {
    fn new(version: KubernetesVersion, set: &'a Record, pod: &'a ObjectMeta) -> Result<Self, Missing> {
        let spec = Spec::new(set)?;
        let (set, pod_owner) = (
            Owner(Resource::StatefulSets, &set.meta),
            Owner(Resource::Pods, pod),
        );
        let wanted = match (spec.when_scaled, spec.when_deleted) {
            ("Delete", "Retain" | "Delete") if spec.is_scaled_down(ordinal_of(pod))? => Some(pod_owner),
            ("Retain" | "Delete", "Delete") => Some(set),
            _ => None,
        };
        Ok(Self {
            owners_are_controllers: owners_are_controllers(version),
            spec,
            set,
            pod: pod_owner,
            wanted,
        })
    }

    fn is_ours(&self, reference: &OwnerReference) -> bool {
        reference.uid == self.set.1.uid || reference.uid == self.pod.1.uid
    }

    fn is_stale_in(&self, references: &[OwnerReference]) -> bool {
        self.owners_are_controllers
            && (self.set.is_stale_in(references, true) || self.pod.is_stale_in(references, true))
    }

    /// [L7.5](crate::rules#l7-5).
    fn has_unexpected_controller(&self, references: &[OwnerReference]) -> bool {
        let is_retained = (self.spec.when_scaled, self.spec.when_deleted) == ("Retain", "Retain");
        let is_unexpected = |reference: &OwnerReference| {
            if self.set.matches(reference) {
                reference.uid != self.set.1.uid
            } else if self.pod.matches(reference) {
                reference.uid != self.pod.1.uid
            } else {
                reference.controller == Some(true)
            }
        };
        self.owners_are_controllers && !is_retained && references.iter().any(is_unexpected)
    }

    /// [L7.4](crate::rules#l7-4).
    fn are_up_to_date(&self, references: &[OwnerReference]) -> bool {
        let is_as_wanted = |owner: &Owner<'_>| {
            let is_wanted = self.wanted.is_some_and(|wanted| wanted.0 == owner.0);
            owner.is_in(references) == is_wanted
        };
        let are_as_wanted = is_as_wanted(&self.set) && is_as_wanted(&self.pod);
        if !self.owners_are_controllers {
            return are_as_wanted;
        }
        if self.is_stale_in(references) {
            return true;
        }
        let mut ours = references.iter().filter(|reference| self.is_ours(reference));
        if self.has_unexpected_controller(references) {
            return ours.next().is_none();
        }
        ours.all(|reference| reference.controller == Some(true)) && are_as_wanted
    }

    /// The references that the claim gets ([L7.6](crate::rules#l7-6)).
    fn updated(&self, references: &[OwnerReference]) -> Vec<OwnerReference> {
        let is_wanted = |uid: &Uid| self.wanted.is_some_and(|owner| owner.1.uid == *uid);
        let stays = |reference: &&OwnerReference| {
            if self.owners_are_controllers {
                !self.set.matches(reference) && !self.pod.matches(reference)
            } else {
                !self.is_ours(reference) || is_wanted(&reference.uid)
            }
        };
        let mut updated: Vec<OwnerReference> = references.iter().filter(stays).cloned().collect();
        let added = self
            .wanted
            .filter(|owner| !owner.is_in(&updated) && !self.has_unexpected_controller(references));
        let flag = self.owners_are_controllers.then_some(true);
        updated.extend(added.map(|Owner(resource, meta)| owner_reference(resource, meta, flag)));
        updated
    }

    fn reason(&self, references: &[OwnerReference], is_up_to_date: bool, is_unexpected: bool) -> Reason {
        let (code, message) = match (is_up_to_date, is_unexpected) {
            (true, _) if self.is_stale_in(references) => (
                "FormerOwner",
                "it has an owner reference to a former StatefulSet or pod of the name",
            ),
            (_, true) => (
                "ConflictingController",
                "it has another controller, or an owner reference to a former StatefulSet or pod of the name",
            ),
            (true, false) => ("OwnersUpToDate", "its owners are as the retention policy wants"),
            (false, false) => {
                let [set, pod] = [self.set, self.pod].map(|owner| &owner.1.name);
                let wanted = format!("the retention policy of statefulset/{set} wants for pod/{pod}");
                return Reason::new("OwnersDiffer", format!("its owners are not as {wanted}"));
            }
        };
        Reason::new(code, message)
    }
}

/// The decision about the claims of a StatefulSet.
#[derive(Default)]
struct Review {
    decision: Decision,
    updates: Vec<Update>,
    /// The pods whose claims are written.
    reads: Vec<Read>,
}

/// The changes for one claim: an Event, a write, or both.
struct Update {
    claim: ObjectId,
    reason: Reason,
    warns: bool,
    write: Option<Write>,
}

impl Review {
    /// Reviews the claims of one pod. `always_warns` says whether an unexpected controller is reported even
    /// if no claim is written.
    fn add(
        &mut self,
        version: KubernetesVersion,
        set: &Record,
        pod: &ObjectMeta,
        claims: &[&Record],
        always_warns: bool,
    ) -> Result<(), Missing> {
        let owners = Owners::new(version, set, pod)?;
        let first = self.updates.len();
        for record in owners.spec.claims(set, pod, claims)? {
            let claim = record.id(CLAIMS);
            let readable = require_version(&claim, &record.meta).and_then(|()| owners_of(record));
            let references = match readable {
                Ok(references) => references,
                Err(missing) => {
                    self.decision.add_unknown(claim, missing);
                    continue;
                }
            };
            let warns = owners.has_unexpected_controller(references);
            let is_up_to_date = owners.are_up_to_date(references);
            let reason = owners.reason(references, is_up_to_date, warns);
            if is_up_to_date {
                self.decision.add_kept(claim.clone(), reason.clone());
            }
            let write = (!is_up_to_date).then(|| {
                let changes = vec![FieldChange::OwnerReferences(owners.updated(references))];
                Write::update(&claim, "", preconditions(&record.meta), changes)
            });
            if write.is_some() || warns {
                self.updates.push(Update {
                    claim,
                    reason,
                    warns,
                    write,
                });
            }
        }
        let updates = self.updates.get(first..).unwrap_or_default();
        if updates.iter().any(|update| update.write.is_some()) {
            self.reads.push(Read::Unchanged {
                object: ObjectId::new(Resource::Pods, pod),
                resource_version: ResourceVersion::default(),
            });
        } else if !always_warns {
            self.updates.truncate(first);
        }
        Ok(())
    }

    fn into_decision(mut self, version: KubernetesVersion, cx: &Context<'_>, set: &Record) -> Decision {
        if self.updates.is_empty() {
            return self.decision;
        }
        match cx.wire {
            Wire::Strict => self.reads.push(Read::unchanged(Resource::StatefulSets, set)),
            Wire::AsUpstream => self.reads.clear(),
        }
        let id = set.id(Resource::StatefulSets);
        let mut decision = std::mem::take(&mut self.decision);
        // Upstream's texts.
        let text = match owners_are_controllers(version) {
            true => "could not update claim",
            false => "Could not update claim",
        };
        decision.steps = Some(Steps::of(&id, (id.clone(), self, text), update_claims));
        decision
    }
}

/// Updates the claims in order, up to the first error.
async fn update_claims(work: Arc<(ObjectId, Review, &'static str)>, port: Port) -> Result<End, End> {
    let (set, Review { reads, updates, .. }, text) = &*work;
    require_unchanged(reads, &port, End::failed).await?;
    for update in updates {
        let claim = &update.claim;
        port.set_reason(update.reason.clone());
        if update.warns {
            // The misspelling is upstream's.
            let message = format!(
                "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging \
                 controller, the retention policy is ignored for this claim",
                claim.name
            );
            let event = EventRequest::new(set, true, "ConflictingController", message);
            port.event(event).await;
        }
        if let Some(write) = &update.write
            && let Err(error) = port.write(write.clone()).await
        {
            let message = server_message_about(claim, &error);
            let message = format!("{text} {} for delete policy ownerRefs: {message}", claim.name);
            return Err(End::failed_with(message, error, true));
        }
    }
    Ok(End::Done)
}

/// The known StatefulSets that have, or may have, a template for a claim of this name.
fn sets_of_claim(cache: &Cache, claim: &Key, keys: &mut Vec<Key>) {
    let Some((base, _)) = split(&claim.name) else {
        return;
    };
    for (at, _) in base.match_indices('-') {
        let (Some(template), Some(set)) = (base.get(..at), base.get(at.saturating_add(1)..)) else {
            continue;
        };
        let key = Key::new(Arc::clone(&claim.namespace), set);
        let Some(record) = cache.get(Resource::StatefulSets, &key) else {
            continue;
        };
        let templates = record.stateful_set().and_then(|set| set.claim_templates.known());
        if templates.is_none_or(|templates| templates.iter().any(|name| **name == *template)) {
            keys.push(key);
        }
    }
}

/// The pod of this name, if the StatefulSet controls it.
fn pod_of<'a>(cx: &Context<'a>, set: &ObjectId, name: &str) -> Result<Option<&'a Record>, Missing> {
    let key = Key::new(Arc::clone(&set.namespace), name);
    let Some(pod) = cx.cache.find(Resource::Pods, &key)? else {
        return Ok(None);
    };
    whole(Resource::Pods, pod)?;
    let is_controlled = pod.meta.controller().is_some_and(|owner| owner.uid == set.uid);
    Ok(Some(pod).filter(|_| is_controlled))
}

/// The part of the StatefulSet controller that sets the owners of claims.
pub static RULE: Rule = Rule {
    info: Info {
        name: "statefulset-controller",
        summary: "sets the owners of the claims of StatefulSets by their retention policies",
        resources: &[Resource::StatefulSets, Resource::Pods, CLAIMS],
        permissions: &[(CLAIMS, "", &["update"])],
        may_change: &[MayChange::Claims],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/statefulset/stateful_pod_control.go",
        ..Info::BASE
    },
    gate: Some((AUTO_DELETE_CLAIMS, "StatefulSetAutoDeletePVC")),
    affected: Some(affected),
    decide,
    ..Rule::BASE
};

fn affected(_: KubernetesVersion, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
    if change.resource == Resource::StatefulSets {
        keys.push(change.key.clone());
        return;
    }
    // Of pods and claims only the identity and the owners matter.
    let facts = |record: &Record| {
        let meta = &record.meta;
        let owners = meta.owner_references.clone();
        (meta.uid.clone(), owners, record.has_whole_meta)
    };
    if change.old.map(facts) == change.new.map(facts) {
        return;
    }
    if change.resource == CLAIMS {
        sets_of_claim(cache, change.key, keys);
    } else if let Some((set, _)) = split(&change.key.name) {
        let key = Key::new(Arc::clone(&change.key.namespace), set);
        keys.extend(cache.get(Resource::StatefulSets, &key).map(|_| key));
    }
}

/// # Complexity
/// O(k log n) for `k` claims of the StatefulSet and of those whose names start like them.
fn decide(cx: &RuleContext<'_>, id: &ObjectId, set: &Record) -> Result<Decision, Missing> {
    if set.meta.is_deleting() {
        let message = "it is being deleted, and its claims keep their owners";
        return id.keep("Terminating", message);
    }
    let spec = Spec::new(set)?;
    let mut review = Review::default();
    if let Err(missing) = cx.cache.require_in(CLAIMS, &id.namespace) {
        review.decision.add_unknown(id.clone(), missing);
    }
    let by_ordinal = claims_by_ordinal(cx.cache, set, spec.templates()?);
    let mut by_ordinal: Vec<(i32, Vec<&Record>)> = by_ordinal.into_iter().collect();
    // If the range is not known, the claims that depend on it are unknown.
    by_ordinal.sort_by_key(|(ordinal, _)| {
        let is_scaled_down = spec.is_scaled_down(*ordinal).unwrap_or(false);
        let down = is_scaled_down.then_some(Reverse(*ordinal));
        (is_scaled_down, down, *ordinal)
    });
    for (ordinal, claims) in by_ordinal {
        let name = format!("{}-{ordinal}", id.name);
        let reason = match pod_of(cx, id, &name) {
            Ok(Some(pod)) => match review.add(cx.version, set, &pod.meta, &claims, false) {
                Ok(()) => continue,
                Err(missing) => Err(missing),
            },
            Ok(None) => {
                let pod = ObjectMeta::new(&id.namespace, &name, "");
                let is_stale = || pod_claim_is_stale(cx.version, set, &pod, &claims) == Ok(true);
                Ok(if spec.is_scaled_down(ordinal) == Ok(false) && is_stale() {
                    let waits = "waits for its collection, and the pod is not created before";
                    Reason::new("BlocksPodCreation", format!("a claim of pod/{name} {waits}"))
                } else {
                    Reason::new("NoPod", "its StatefulSet has no pod of its ordinal")
                })
            }
            Err(missing) => Err(missing),
        };
        for claim in claims.into_iter().map(|claim| claim.id(CLAIMS)) {
            match &reason {
                Ok(reason) => review.decision.add_kept(claim, reason.clone()),
                Err(missing) => review.decision.add_unknown(claim, missing.clone()),
            }
        }
    }
    Ok(review.into_decision(cx.version, cx, set))
}
