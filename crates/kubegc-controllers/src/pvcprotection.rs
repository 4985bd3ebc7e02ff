//! Keeps persistent volume claims with a finalizer until no pod uses them.
//!
//! The rules are [L6.1](crate::rules#l6-1), [L6.2](crate::rules#l6-2) and
//! [L6.4](crate::rules#l6-4) to [L6.9](crate::rules#l6-9).
//!
//! A pod whose volumes were not read may use any claim of its namespace, so nothing is decided about claims
//! that are being deleted there.
//!
//! Upstream shares one list between the claims of a namespace that are due at the same time; here the pods
//! are listed for each claim.
//!
//! # Upstream
//! [`processPVC`, `askInformer`, `askAPIServer` and
//! `podUsesPVC`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/pvcprotection/pvc_protection_controller.go)
//! in `pvc_protection_controller.go`.

use kubegc_core::record::VolumeSource;

use crate::{prelude::*, protection::Protection, storage::PODS_BY_CLAIM};

static PROTECTION: Protection = Protection {
    unused: ("Unused", "it is being deleted, and no pod uses it"),
    ..Protection::of_storage("kubernetes.io/pvc-protection")
};

/// The feature gate `GenericEphemeralVolume`: alpha and off from 1.19, beta and on from 1.21, stable from
/// 1.23.
const EPHEMERAL_VOLUMES: Behavior = Behavior::since(21, 0, "feature gate GenericEphemeralVolume is beta");

/// Pods that may be scheduled and whose volumes were not read, by namespace.
static PODS_WITH_UNREAD_VOLUMES: Index = Index::new(Resource::Pods, |record, keys| {
    if has_unread_volumes(record) {
        keys.push(namespace_key(&record.meta.namespace));
    }
});

/// Claims that are being deleted and have the finalizer, by namespace.
static TERMINATING_CLAIMS: Index = Index::new(Resource::PersistentVolumeClaims, |record, keys| {
    if PROTECTION.is_candidate(&record.meta) {
        keys.push(namespace_key(&record.meta.namespace));
    }
});

#[derive(Clone, Copy, Debug)]
pub struct PvcProtection {
    /// Whether pods use the claims of their ephemeral volumes: the feature gate `GenericEphemeralVolume`.
    pub ephemeral_volumes: bool,
}

impl PvcProtection {
    /// Upstream's default in a release.
    pub const fn new(version: KubernetesVersion) -> Self {
        Self {
            ephemeral_volumes: version.has(EPHEMERAL_VOLUMES),
        }
    }

    /// Lists the pods of the namespace from the API server, and removes the finalizer if none uses the
    /// claim.
    async fn remove_finalizer(work: Arc<(Self, Action, SharedMeta)>, port: Port) -> Result<End, End> {
        let (settings, action, claim) = &*work;
        if port.verifies() {
            let pods = port.list(Resource::Pods, &claim.namespace).await;
            let pods = pods.map_err(|error| {
                let pods = ObjectId::new(Resource::Pods, &ObjectMeta::new(&claim.namespace, "", ""));
                End::failed_about(&pods, "live list of pods failed: ", error, true)
            })?;
            if let Some(pod) = settings.user(pods.iter(), claim)? {
                return Ok(End::Kept(in_use(pod)));
            }
        }
        let sent = action.send(&port).await;
        let end = sent.map_err(|error| End::failed_about(&action.object, "", error, true));
        end.map(|()| End::Done)
    }

    /// The first of these pods that uses a claim.
    fn user<'a>(
        self,
        pods: impl Iterator<Item = &'a Record>,
        claim: &ObjectMeta,
    ) -> Result<Option<&'a Record>, Missing> {
        let mut missing = None;
        for pod in pods {
            match self.uses(pod, claim) {
                Ok(true) => return Ok(Some(pod)),
                Ok(false) => {}
                Err(fact) => missing = missing.or(Some(fact)),
            }
        }
        missing.map_or(Ok(None), Err)
    }

    fn uses(self, pod: &Record, claim: &ObjectMeta) -> Result<bool, Missing> {
        let (id, body) = read_as(Resource::Pods, pod, Record::pod)?;
        if body.node_name.known().is_some_and(|node| node.is_empty()) {
            return Ok(false);
        }
        let volumes = id.read(&body.volumes, "spec.volumes")?;
        let mut is_used = false;
        for volume in volumes {
            let name = volume.claim_name(&pod.meta.name);
            if name.is_none_or(|name| name != claim.name) {
                continue;
            }
            is_used |= match volume.source {
                VolumeSource::Ephemeral => self.ephemeral_volumes && uses_ephemeral(pod, claim)?,
                VolumeSource::Claim(_) | VolumeSource::Other => true,
            };
        }
        if is_used {
            id.read(&body.node_name, "spec.nodeName")?;
        }
        Ok(is_used)
    }
}

fn has_unread_volumes(pod: &Record) -> bool {
    pod.pod().is_none_or(|pod| {
        let is_unscheduled = pod.node_name.known().is_some_and(|node| node.is_empty());
        pod.volumes.is_unread() && !is_unscheduled
    })
}

/// Returns whether a claim with the name of a pod's ephemeral claim is that claim, and the pod is not shut
/// down.
fn uses_ephemeral(pod: &Record, claim: &ObjectMeta) -> Result<bool, Missing> {
    let meta = &pod.meta;
    whole(Resource::Pods, pod)?;
    let is_shut_down = meta.is_deleting() && meta.deletion_grace_period_seconds == Some(0);
    let mut owners = claim.owner_references.iter();
    let controller = owners.find(|owner| owner.controller == Some(true));
    Ok(!is_shut_down && controller.is_some_and(|owner| owner.uid == meta.uid))
}

fn in_use(pod: &Record) -> Reason {
    Reason::new("UsedByPod", format!("pod/{} uses it", pod.meta.name))
}

static INFO: Info = Info {
    name: "persistentvolumeclaim-protection-controller",
    summary: "keeps persistent volume claims until no pod uses them",
    resources: &[Resource::PersistentVolumeClaims, Resource::Pods],
    indexes: &[&PODS_BY_CLAIM, &PODS_WITH_UNREAD_VOLUMES, &TERMINATING_CLAIMS],
    permissions: &[(Resource::PersistentVolumeClaims, "", &["update"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/pvcprotection/pvc_protection_controller.go",
    ..Info::BASE
};

impl Controller for PvcProtection {
    fn info(&self) -> &'static Info {
        &INFO
    }

    /// Pods matter only to claims that are being deleted.
    fn affected(&self, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        let claims = Resource::PersistentVolumeClaims;
        if change.resource == claims {
            return keys.push(change.key.clone());
        }
        let used = PODS_BY_CLAIM.keys_of_change(change).into_iter();
        keys.extend(used.filter(|key| {
            let claim = cache.get(claims, key);
            claim.is_some_and(|claim| PROTECTION.is_candidate(&claim.meta))
        }));
        // The first pod whose volumes were not read is the one that is reported.
        let was_unread = change.old.is_some_and(has_unread_volumes);
        if was_unread != change.new.is_some_and(has_unread_volumes) {
            let namespace = namespace_key(&change.key.namespace);
            let first = cache.first_indexed(&PODS_WITH_UNREAD_VOLUMES, &namespace);
            if first.is_none_or(|first| first.meta.name >= change.key.name) {
                keys.extend(cache.indexed(&TERMINATING_CLAIMS, &namespace));
            }
        }
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        if let Some(settled) = PROTECTION.settled(cx, id, record)? {
            return Ok(settled);
        }
        let cached = cx.cache.indexed_records(&PODS_BY_CLAIM, &Key::from(&record.meta));
        if let Some(pod) = self.user(cached.into_iter(), &record.meta)? {
            return Ok(Decision::keep(id.clone(), in_use(pod)));
        }
        let namespace = namespace_key(&id.namespace);
        let unread = cx.cache.first_indexed(&PODS_WITH_UNREAD_VOLUMES, &namespace);
        self.user(unread.into_iter(), &record.meta)?;
        cx.cache.require_in(Resource::Pods, &id.namespace)?;
        let work = (*self, PROTECTION.remove(cx, id, record)?, record.meta.clone());
        Ok(Steps::of(id, work, Self::remove_finalizer).into())
    }
}
