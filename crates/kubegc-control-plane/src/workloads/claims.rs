//! PersistentVolumeClaims: provisioning and binding of one volume for each claim.
//!
//! Volumes are those of a CSI driver, [`DRIVER`]. A claim that names a volume is bound to it. The binding
//! mode of storage classes has no effect: claims do not wait for a pod.

use std::sync::Arc;

use kubegc_core::Timestamp;
use kubegc_sim::StoredObject;
use serde_json::{Value, json};

use super::{
    ClaimFate,
    plan::{Kind, Plan, Verb, View, annotation, with},
};
use crate::Actor;

/// The driver and provisioner of provisioned volumes.
pub(crate) const DRIVER: &str = "csi.example.com";
const PROVISIONER: Actor = Actor::Controller("external-provisioner");
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// One sync of a claim. Each of its writes is a separate sync: the volume, the volume name in the claim, the
/// status.
pub(super) fn sync(view: &View<'_>, claim: &StoredObject) -> Plan {
    let mut plan = Plan::of(Kind::Claim, claim);
    let phase = claim.text_at(&["status", "phase"]);
    if claim.meta.is_deleting() || matches!(phase, "Bound" | "Lost") {
        return plan;
    }
    let ClaimFate::Bound { after } = view.rules.claim(&view.subject(claim)) else {
        return plan;
    };
    let created = claim.meta.creation_timestamp.unwrap_or(Timestamp::EPOCH);
    let at = created.saturating_add(after);
    if at > view.now {
        plan.due_at(Some(at));
        return plan;
    }
    let named = claim.text_at(&["spec", "volumeName"]);
    let name: Arc<str> = match named {
        "" => format!("pvc-{}", claim.meta.uid).into(),
        named => named.into(),
    };
    let Some(volume) = view.find(Kind::Volume, "", &name) else {
        if named.is_empty() {
            plan.actor = PROVISIONER;
            let message = format!("Successfully provisioned volume {name}");
            let volume = volume_for(claim, &name);
            plan.push(
                Kind::Volume,
                Verb::Create(volume),
                "ProvisioningSucceeded",
                message,
            );
        }
        return plan;
    };
    let reference = ["spec", "claimRef"];
    let bound_uid = volume
        .at(&reference)
        .map_or("", |claim_ref| claim_ref["uid"].as_str().unwrap_or_default());
    let bound = format!("it is bound to persistentvolume/{name}");
    if *bound_uid != *claim.meta.uid.to_string() {
        let for_other = |claim_ref: &Value| {
            claim_ref["name"] != *claim.meta.name || claim_ref["namespace"] != *claim.meta.namespace
        };
        if bound_uid.is_empty() && !volume.at(&reference).is_some_and(for_other) {
            let verb = Verb::Update(with(&volume, &reference, claim_reference(claim)));
            plan.push(Kind::Volume, verb, "Bound", bound);
        }
    } else if named.is_empty() || annotation(claim, BIND_COMPLETED).is_empty() {
        let mut changed = with(claim, &["spec", "volumeName"], (&*name).into());
        for key in [BIND_COMPLETED, BOUND_BY_CONTROLLER] {
            changed = with(&changed, &["metadata", "annotations", key], "yes".into());
        }
        plan.push(Kind::Claim, Verb::Update(changed), "Bound", bound);
    } else {
        let spec = |field: &str| volume.at(&["spec", field]).cloned().unwrap_or_default();
        let status =
            json!({"phase": "Bound", "accessModes": spec("accessModes"), "capacity": spec("capacity")});
        let verb = Verb::Status(with(claim, &["status"], status));
        plan.push(Kind::Claim, verb, "Bound", bound);
    }
    plan
}

fn claim_reference(claim: &StoredObject) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": &*claim.meta.namespace,
        "name": &*claim.meta.name,
        "uid": claim.meta.uid.to_string(),
        "resourceVersion": claim.meta.resource_version.as_str(),
    })
}

fn volume_for(claim: &StoredObject, name: &str) -> Value {
    let spec = |path: &[&str], default: Value| claim.at(path).cloned().unwrap_or(default);
    let mut volume = json!({
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
        "spec": {
            "capacity": spec(&["spec", "resources", "requests"], json!({"storage": "1Gi"})),
            "accessModes": spec(&["spec", "accessModes"], json!(["ReadWriteOnce"])),
            "volumeMode": spec(&["spec", "volumeMode"], "Filesystem".into()),
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": claim_reference(claim),
            "csi": {"driver": DRIVER, "volumeHandle": name},
        },
    });
    if let Some(class) = claim.at(&["spec", "storageClassName"]) {
        volume["spec"]["storageClassName"] = class.clone();
    }
    volume
}
