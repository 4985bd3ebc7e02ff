//! Deletes the VolumeAttachments of volumes that no pod on their node uses.
//!
//! - a pod on its node that has not finished uses the claim of the volume: it is kept.
//! - no such pod; the node exists and does not report the volume in `status.volumesInUse`: it is deleted.
//! - no such pod; the node reports the volume, and has the taint `node.kubernetes.io/out-of-service`: it is
//!   deleted.
//! - no such pod; the node reports the volume and is ready: it is kept until the node has unmounted the
//!   volume.
//! - no such pod; the node reports the volume and is not ready: it is deleted 6 minutes later.
//! - no such pod; the node does not exist: it is deleted 6 minutes later.
//! - of a volume that is inline in a pod: its users are unknown.
//!
//! Deletes carry no preconditions, and NotFound is ignored. The external attacher then detaches the volume
//! and removes its finalizer. Upstream deletes the VolumeAttachment of a Node that no longer exists at once
//! if its last status did not report the volume; that status is not known here, so the longest time is
//! taken. Pods on a Node that no longer exists are deleted by podgc first. Attaching is not covered.
//!
//! Before 1.26 the taint is ignored (feature gate `NodeOutOfServiceVolumeDetach`: alpha from 1.24, beta and
//! on from 1.26).
//!
//! # Upstream
//! [`reconcile`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/attachdetach/reconciler/reconciler.go)
//! in `reconciler.go`,
//! [`Detach`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/volume/csi/csi_attacher.go) in
//! `csi_attacher.go`.

use kubegc_core::record::PersistentVolume;

use crate::{
    persistentvolume::{VOLUMES_BY_CLAIM, claim_key},
    podgc::{OUT_OF_SERVICE, OUT_OF_SERVICE_TAINT},
    prelude::*,
    storage::PODS_BY_CLAIM,
};

/// Time that a volume may stay mounted on a node that is not ready.
const UNMOUNT_WAIT: Duration = Duration::from_secs(360);
/// The key under which the time of a forced detach is stored.
const DEADLINE: &str = "detach";

static BY_VOLUME: Index = Index::new(Resource::VolumeAttachments, |record, keys| {
    let attachment = record.volume_attachment();
    let name = attachment.and_then(|body| body.volume_name.known());
    keys.extend(name.map(|name| Key::cluster(Arc::clone(name))));
});
static BY_NODE: Index = Index::new(Resource::VolumeAttachments, |record, keys| {
    let attachment = record.volume_attachment();
    let name = attachment.and_then(|body| body.node_name.known());
    keys.extend(name.map(|name| Key::cluster(Arc::clone(name))));
});
/// Pods that may use a volume on a node, because that was not read, by namespace.
static UNREAD: Index = Index::new(Resource::Pods, |record, keys| {
    let is_read = |pod: &Pod| !pod.node_name.is_unread() && !pod.volumes.is_unread();
    if !record.pod().is_some_and(is_read) {
        keys.push(namespace_key(&record.meta.namespace));
    }
});

/// Returns whether a pod on the node that has not finished uses the claim of the volume.
fn is_used(
    cx: &Context<'_>,
    volume_id: &ObjectId,
    volume: &PersistentVolume,
    node_name: &Arc<str>,
) -> Result<bool, Missing> {
    let Some(claim) = volume_id.read(&volume.claim_ref, "spec.claimRef")? else {
        return Ok(false);
    };
    let mut missing = None;
    for record in cx.cache.indexed_records(&PODS_BY_CLAIM, &claim_key(claim)) {
        let (id, pod) = read_as(Resource::Pods, record, Record::pod)?;
        if pod.node_name.known().is_some_and(|node| node != node_name) {
            continue;
        }
        let node = id.read(&pod.node_name, "spec.nodeName");
        match node.and_then(|_| id.read(&pod.phase, "status.phase")) {
            Ok(_) if pod.has_final_phase() == Some(true) => {}
            Ok(_) => return Ok(true),
            Err(why) => missing = Some(why),
        }
    }
    if let Some(missing) = missing {
        return Err(missing);
    }
    cx.cache.require_in(Resource::Pods, &claim.namespace)?;
    cx.cache.require_read(&UNREAD, &claim.namespace, "spec.volumes")?;
    Ok(false)
}

/// The part of the attach/detach controller that deletes VolumeAttachments.
pub static RULE: Rule = Rule {
    info: Info {
        name: "persistentvolume-attach-detach-controller",
        summary: "deletes the VolumeAttachments of volumes that no pod on their node uses",
        resources: &[
            Resource::VolumeAttachments,
            Resource::Nodes,
            Resource::PersistentVolumes,
            Resource::Pods,
        ],
        indexes: &[&BY_VOLUME, &BY_NODE, &VOLUMES_BY_CLAIM, &PODS_BY_CLAIM, &UNREAD],
        timing: Timing {
            backoff: [Duration::from_millis(500), Duration::from_secs(122)],
            ..Timing::DEFAULT
        },
        permissions: &[(Resource::VolumeAttachments, "", &["delete"])],
        upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/attachdetach/reconciler/reconciler.go",
        ..Info::BASE
    },
    affected: Some(affected),
    decide,
    ..Rule::BASE
};

fn affected(_: KubernetesVersion, cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
    let of_volume = |name: &Arc<str>, keys: &mut Vec<Key>| {
        keys.extend(cache.indexed(&BY_VOLUME, &Key::cluster(Arc::clone(name))));
    };
    match change.resource {
        Resource::VolumeAttachments => keys.push(change.key.clone()),
        Resource::Nodes => keys.extend(cache.indexed(&BY_NODE, change.key)),
        Resource::PersistentVolumes => of_volume(&change.key.name, keys),
        Resource::Pods if !UNREAD.keys_of_change(change).is_empty() => RULE.info.push_keys(cache, keys),
        Resource::Pods => {
            for claim in PODS_BY_CLAIM.keys_of_change(change) {
                for volume in cache.indexed(&VOLUMES_BY_CLAIM, &claim) {
                    of_volume(&volume.name, keys);
                }
            }
        }
        _ => {}
    }
}

fn decide(cx: &RuleContext<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
    let keep = |code, message| cx.keep_without_deadline(id, code, message);
    let delete = |code, message: &'static str| {
        let (reason, on_error) = (Reason::new(code, message), OnError::RetryUnlessNotFound);
        Ok(cx.delete(id, record, reason, Sent::Nothing, on_error).into())
    };
    if record.meta.is_deleting() {
        return keep("Terminating", "it is being deleted");
    }
    let attachment = id.body(record, Record::volume_attachment)?;
    let volume_name = id.read(&attachment.volume_name, "spec.source.persistentVolumeName")?;
    let node_name = id.read(&attachment.node_name, "spec.nodeName")?;
    if volume_name.is_empty() {
        return Err(Missing::outside(format!(
            "which pod uses the inline volume of {id}"
        )));
    }
    let key = Key::cluster(Arc::clone(volume_name));
    let Some(volume) = cx.cache.find(Resource::PersistentVolumes, &key)? else {
        return Err(Missing::outside(format!(
            "which pod uses the volume {volume_name}, which does not exist"
        )));
    };
    let (volume_id, volume) = read_as(Resource::PersistentVolumes, volume, Record::persistent_volume)?;
    if is_used(cx, &volume_id, volume, node_name)? {
        return keep("InUse", "a pod on its node uses the volume");
    }
    let waits = |code, message: &'static str| {
        let now_or_later = cx.now.saturating_add(UNMOUNT_WAIT);
        let at = cx.deadlines.get(DEADLINE).copied().unwrap_or(now_or_later);
        if at <= cx.now {
            let message = "the node has not unmounted the volume for 6 minutes";
            return delete("UnmountTimeout", message);
        }
        Ok(id.keep(code, message)?.deadline(DEADLINE, at))
    };
    let key = Key::cluster(Arc::clone(node_name));
    let Some(node) = cx.cache.find(Resource::Nodes, &key)? else {
        return waits(
            "NodeDeleted",
            "its node does not exist, and may have had the volume mounted",
        );
    };
    let (node_id, node) = read_as(Resource::Nodes, node, Record::node)?;
    let in_use = node_id.read(&node.volumes_in_use, "status.volumesInUse")?;
    let unused = || delete("Unused", "no pod on its node uses the volume");
    if in_use.is_empty() {
        return unused();
    }
    let Some(csi_name) = volume_id.read(&volume.source, "spec")?.csi_name() else {
        return Err(Missing::outside(format!(
            "whether {node_id} has {volume_id} mounted, which is no CSI volume"
        )));
    };
    if !in_use.iter().any(|name| **name == *csi_name) {
        return unused();
    }
    if cx.has(OUT_OF_SERVICE) {
        node_id.read(&node.taints, "spec.taints")?;
        if node.has_taint(OUT_OF_SERVICE_TAINT) == Some(true) {
            return delete("NodeOutOfService", "its node is out of service");
        }
    }
    node_id.read(&node.conditions, "status.conditions")?;
    if node.is_ready() == Some(true) {
        return keep("Mounted", "its node has the volume still mounted");
    }
    waits("NodeNotReady", "its node is not ready and has the volume mounted")
}
