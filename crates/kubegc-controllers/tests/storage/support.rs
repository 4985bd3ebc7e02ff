//! Volumes, claims, pods and requests in a few words.

use std::sync::Arc;

use kubegc_controllers::{
    BatchPlanner, Cache, Context, Controller, Deadlines, Decision, End, FINALIZER_IN_TREE,
    FINALIZER_VOLUME_PROTECTION, FieldChange, Key, Migration, PersistentVolumeBinder, Plugin, Request,
    Response, Step, Steps, Wire,
};
use kubegc_core::{
    KubernetesVersion, ObjectMeta, Planner, Timestamp,
    record::{
        Body, ClaimRef, PersistentVolume, PersistentVolumeClaim, Pod, PodVolume, Record, Resource,
        VolumeAnnotations, VolumeSource,
    },
};

pub(crate) const IN_TREE: &str = "kubernetes.io/aws-ebs";
pub(crate) const DRIVER: &str = "ebs.csi.aws.com";

/// A change of a volume.
pub(crate) type Edit = fn(&mut ObjectMeta, &mut PersistentVolume);

pub(crate) fn release(text: &str) -> KubernetesVersion {
    text.parse().expect("a release in range")
}

/// The binder of the newest release in a cluster without migration, in which every plugin exists.
pub(crate) fn binder() -> PersistentVolumeBinder {
    binder_of("1.36")
}

pub(crate) fn binder_of(version: &str) -> PersistentVolumeBinder {
    let mut binder = PersistentVolumeBinder::new(release(version));
    binder.storage.migrations.insert(IN_TREE.into(), Migration::Off);
    for provisioner in [IN_TREE, ""] {
        binder.storage.plugins.insert(provisioner.into(), Plugin::InTree);
    }
    binder
}

fn meta(namespace: &str, name: &str) -> ObjectMeta {
    let mut meta = ObjectMeta::new(namespace, name, &format!("uid-{name}"));
    meta.resource_version = "7".into();
    meta
}

/// A volume `disk` that is bound to the claim `shop/data`.
pub(crate) fn volume(policy: &str, edit: Edit) -> Record {
    let mut meta = meta("", "disk");
    let mut volume = PersistentVolume {
        phase: kubegc_core::record::Field::Known("Bound".into()),
        reclaim_policy: kubegc_core::record::Field::Known(policy.into()),
        claim_ref: Some(claim_ref("uid-data")).into(),
        ..PersistentVolume::default()
    };
    edit(&mut meta, &mut volume);
    Record::new(meta, Body::PersistentVolume(volume))
}

/// The same, provisioned in the tree for the claim, in its state after the first sync.
pub(crate) fn dynamic(policy: &str, edit: Edit) -> Record {
    let mut record = volume(policy, |meta, volume| {
        meta.finalizers.push(FINALIZER_VOLUME_PROTECTION.into());
        volume.annotations = VolumeAnnotations {
            provisioned_by: Some(IN_TREE.into()),
            bound_by_controller: true,
            migrated_to: None,
        }
        .into();
    });
    if policy == "Delete" {
        record.meta.finalizers.push(FINALIZER_IN_TREE.into());
    }
    if let Body::PersistentVolume(volume) = Arc::make_mut(&mut record.body) {
        edit(&mut record.meta, volume);
    }
    record
}

pub(crate) fn annotate(volume: &mut PersistentVolume, edit: impl FnOnce(&mut VolumeAnnotations)) {
    let mut annotations = volume.annotations.known().cloned().unwrap_or_default();
    edit(&mut annotations);
    volume.annotations = annotations.into();
}

pub(crate) fn claim_ref(uid: &str) -> ClaimRef {
    ClaimRef {
        namespace: "shop".into(),
        name: "data".into(),
        uid: uid.into(),
    }
}

/// The claim `shop/data`, bound to this volume; to none where the name is empty.
pub(crate) fn claim(volume: &str) -> Record {
    let body = PersistentVolumeClaim {
        volume_name: kubegc_core::record::Field::Known(volume.into()),
        ..PersistentVolumeClaim::default()
    };
    Record::new(meta("shop", "data"), Body::PersistentVolumeClaim(body))
}

/// A running pod with a volume `data` of this source.
pub(crate) fn pod(name: &str, source: VolumeSource) -> Record {
    let volume = PodVolume {
        name: "data".into(),
        source,
    };
    let pod = Pod {
        node_name: kubegc_core::record::Field::Known("node".into()),
        phase: kubegc_core::record::Field::Known("Running".into()),
        volumes: vec![volume].into(),
        ..Pod::default()
    };
    Record::new(meta("shop", name), Body::Pod(pod))
}

pub(crate) fn edit_pod(mut record: Record, edit: impl FnOnce(&mut ObjectMeta, &mut Pod)) -> Record {
    if let Body::Pod(pod) = Arc::make_mut(&mut record.body) {
        edit(&mut record.meta, pod);
    }
    record
}

fn resource_of(record: &Record) -> Resource {
    match &*record.body {
        Body::PersistentVolume(_) => Resource::PersistentVolumes,
        Body::PersistentVolumeClaim(_) => Resource::PersistentVolumeClaims,
        Body::Pod(_) => Resource::Pods,
        // Of objects without a body, volumes have no namespace, and claims are called data.
        _ if record.meta.namespace.is_empty() => Resource::PersistentVolumes,
        _ if *record.meta.name == *"data" => Resource::PersistentVolumeClaims,
        _ => Resource::Pods,
    }
}

/// A cache that has all volumes, claims and pods.
pub(crate) fn cache(controller: &dyn Controller, records: &[Record]) -> Cache {
    let resources = [
        Resource::PersistentVolumes,
        Resource::PersistentVolumeClaims,
        Resource::Pods,
    ];
    let mut cache = Cache::new(resources, controller.indexes().iter().copied());
    for resource in resources {
        cache.set_listed(resource, Ok(()));
        let of_resource = records.iter().filter(|record| resource_of(record) == resource);
        cache.replace(resource, of_resource.cloned().collect());
    }
    cache
}

/// The plan of a controller: its requests, and the reasons for kept objects.
pub(crate) fn plan<C: Controller + Clone>(controller: &C, records: &[Record]) -> (Vec<String>, Vec<String>) {
    plan_cache(controller, &cache(controller, records))
}

pub(crate) fn plan_cache<C: Controller + Clone>(controller: &C, cache: &Cache) -> (Vec<String>, Vec<String>) {
    let plan = BatchPlanner::new(controller.clone()).plan(cache, Timestamp::EPOCH);
    let requests = plan.actions.iter().flat_map(|action| &action.requests);
    let kept = plan.kept.iter().map(|kept| match &kept.reason {
        kubegc_controllers::Judgement::Kept(reason) => reason.code().to_owned(),
        kubegc_controllers::Judgement::Unknown(missing) => missing.to_string(),
    });
    (requests.map(short).collect(), kept.collect())
}

/// The decision of a controller about one key.
pub(crate) fn reconcile(controller: &dyn Controller, cache: &Cache, key: &Key, wire: Wire) -> Decision {
    let cx = Context {
        cache,
        now: Timestamp::EPOCH,
        wire,
        deadlines: &Deadlines::new(),
        cloud: None,
        failures: 0,
    };
    controller.reconcile(&cx, key)
}

/// Runs steps with these responses, one for each request. The last line is their end.
pub(crate) fn play(steps: &Steps, responses: Vec<Response>) -> Vec<String> {
    let mut responses = responses.into_iter();
    let (mut sequence, mut response, mut lines) = (steps.begin(), None, Vec::new());
    loop {
        match sequence.next(response.take()) {
            Step::Perform { request, .. } => {
                lines.push(short(&request));
                response = Some(responses.next().expect("a response for each request"));
            }
            Step::End(end) => {
                assert!(responses.next().is_none(), "a response too many: {lines:?}");
                lines.push(match end {
                    End::Done => "done".to_owned(),
                    End::Kept(reason) => format!("kept: {}", reason.code()),
                    End::Unknown(missing) => format!("unknown: {missing}"),
                    End::Stale(_) => "stale".to_owned(),
                    End::RequeueAfter { after, .. } => format!("again after {} s", after.as_secs()),
                    End::Failed {
                        message, is_retried, ..
                    } => {
                        let retried = if is_retried { "retried" } else { "reported" };
                        format!("{retried}: {message}")
                    }
                });
                return lines;
            }
        }
    }
}

/// A request in a few words.
pub(crate) fn short(request: &Request) -> String {
    match request {
        Request::Get { resource, .. } => format!("get {}", resource.kubectl_name()),
        Request::List { resource, .. } => format!("list {}", resource.plural()),
        Request::Delete { .. } => "delete".to_owned(),
        Request::Event(event) => {
            let kind = if event.is_warning { "Warning" } else { "Normal" };
            format!("{kind} {} {}", event.reason, event.message)
        }
        Request::Write(write) => {
            let changes: Vec<String> = write.changes.iter().map(change).collect();
            format!("{}{} {}", write.form, write.subresource, changes.join(" "))
        }
        Request::Operate { operation, .. } => format!("{operation:?}"),
        Request::FindPlugin { .. } => "find plugin".to_owned(),
        Request::QueryGuard { .. } => "query guard".to_owned(),
        other => panic!("{other}"),
    }
}

fn change(change: &FieldChange) -> String {
    match change {
        FieldChange::Phase(phase) => phase.to_string(),
        FieldChange::Message(message) => format!("{message:?}"),
        FieldChange::AddFinalizer(name) => format!("+{name}"),
        FieldChange::RemoveFinalizer(name) => format!("-{name}"),
        FieldChange::Annotation { key, value } => format!("{key}={value}"),
        FieldChange::RemoveAnnotation(key) => format!("-{key}"),
        other => format!("{other:?}"),
    }
}
