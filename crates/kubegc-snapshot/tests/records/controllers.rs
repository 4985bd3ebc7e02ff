//! The kinds and fields that few controllers read.

use kubegc_core::{
    LabelRequirement, LabelSelector,
    record::{
        Body, Consumer, ControllerRevision, DaemonSet, Deployment, DeploymentStrategy, Endpoints, Field,
        IntOrPercent, Job, JobCounts, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSource,
        ReplicaSet, Resource, ResourceClaim, Service, ServiceCidr, StatefulSet, VolumeAttachment,
    },
};
use serde_json::{Value, json};

use crate::common::{check, live, read};

fn deployment(body: Value) -> (Deployment, Vec<String>) {
    match read(Resource::Deployments, body) {
        (Body::Deployment(deployment), flaws) => (deployment, flaws),
        (other, _) => panic!("a Deployment is read as {other:?}"),
    }
}

fn digest(template: &Value) -> Field<u64> {
    let body = json!({ "spec": { "revisionHistoryLimit": 1, "template": template }, "status": {} });
    let (deployment, flaws) = deployment(body.clone());
    assert_eq!(flaws, [""; 0]);
    let (Body::ReplicaSet(set), _) = read(Resource::ReplicaSets, body) else {
        panic!("a ReplicaSet");
    };
    assert_eq!(set.template_digest, deployment.template_digest, "{template}");
    set.template_digest
}

#[test]
fn equivalent_templates_have_one_digest() {
    let template = json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "web", "args": ["a", "b"] }], "restartPolicy": "Always", "priority": 1 },
    });
    for same in [
        json!({
            "metadata": { "creationTimestamp": null, "labels": { "pod-template-hash": "5d4", "app": "web" } },
            "spec": { "priority": 1, "restartPolicy": "Always",
                "containers": [{ "args": ["a", "b"], "name": "web", "resources": {}, "env": [], "image": "" }] },
        }),
        json!({
            "metadata": { "labels": { "app": "web" }, "annotations": {} },
            "spec": { "containers": [{ "name": "web", "args": ["a", "b"], "securityContext": { "capabilities": {} } }],
                "restartPolicy": "Always", "priority": 1 },
        }),
    ] {
        assert_eq!(digest(&same), digest(&template), "{same}");
    }
    for (path, value) in [
        ("/metadata/labels/app", json!("db")),
        (
            "/metadata/labels",
            json!({ "app": "web", "tier": "pod-template-hash" }),
        ),
        ("/spec/restartPolicy", json!("Never")),
        ("/spec/restartPolicy", json!(null)),
        ("/spec/priority", json!("1")),
        ("/spec/priority", json!(1.5)),
        ("/spec/priority", json!(true)),
        ("/spec/containers/0/name", json!("log")),
        ("/spec/containers/0/args", json!(["b", "a"])),
        ("/spec/containers/0/args", json!(["a", ["b"]])),
        ("/spec/containers/0/args", json!({ "a": "b" })),
        ("/spec/containers", json!([])),
        ("/spec", json!({ "labels": { "pod-template-hash": "5d4" } })),
    ] {
        let mut other = template.clone();
        *other.pointer_mut(path).expect("a field") = value;
        assert_ne!(digest(&other), digest(&template), "{other}");
    }
}

fn rolling(max_unavailable: IntOrPercent, max_surge: IntOrPercent) -> Field<DeploymentStrategy> {
    let strategy = DeploymentStrategy::RollingUpdate {
        max_unavailable,
        max_surge,
    };
    strategy.into()
}

#[test]
fn strategies() {
    let of = |strategy: Value| {
        let (read, flaws) = deployment(json!({ "spec": { "strategy": strategy } }));
        (read.strategy, flaws)
    };
    let limits = json!({ "maxUnavailable": 1, "maxSurge": "50%" });
    let expected = rolling(IntOrPercent::Int(1), IntOrPercent::Percent(50));
    let none = Vec::<String>::new();
    assert_eq!(
        of(json!({ "type": "RollingUpdate", "rollingUpdate": limits })),
        (expected, none.clone())
    );
    let recreate = Field::Known(DeploymentStrategy::Recreate);
    assert_eq!(of(json!({ "type": "Recreate" })), (recreate, none));
    let limits = json!({ "maxSurge": "many" });
    let flaw =
        "spec.strategy.rollingUpdate.maxSurge: expected a whole number or a percentage, found a string";
    let expected = (Field::Unread, vec![flaw.to_owned()]);
    assert_eq!(
        of(json!({ "type": "RollingUpdate", "rollingUpdate": limits })),
        expected
    );
}

#[test]
fn deployments() {
    let (read, flaws) = deployment(json!({
        "spec": { "revisionHistoryLimit": 3, "paused": true, "replicas": 2, "template": {} },
        "status": { "replicas": 4, "updatedReplicas": 2, "availableReplicas": 1, "observedGeneration": 7 },
    }));
    let expected = Deployment {
        revision_history_limit: Some(3).into(),
        is_paused: true.into(),
        replicas: 2.into(),
        selector: Field::Unread,
        strategy: rolling(IntOrPercent::Percent(25), IntOrPercent::Percent(25)),
        template_digest: 0.into(),
        status_replicas: [4, 2, 1].into(),
        observed_generation: 7.into(),
    };
    assert_eq!((read, flaws), (expected, vec![]));
    let (without_spec_fields, _) = deployment(json!({ "spec": {} }));
    let expected = Deployment {
        revision_history_limit: Some(10).into(),
        replicas: 1.into(),
        selector: Field::Unread,
        strategy: rolling(IntOrPercent::Percent(25), IntOrPercent::Percent(25)),
        template_digest: Field::Unread,
        status_replicas: Field::Unread,
        observed_generation: Field::Unread,
        ..Deployment::default()
    };
    assert_eq!(without_spec_fields, expected, "the API server has defaults");
    let (_, flaws) =
        deployment(json!({ "spec": { "template": 7, "paused": 1 }, "status": { "replicas": "x" } }));
    let expected = [
        "spec.paused: expected true or false, found a number",
        "spec.template: expected a map, found a number",
        "status.replicas: expected a whole number, found a string",
    ];
    assert_eq!(flaws, expected);
    let whole = Deployment {
        replicas: 1.into(),
        ..Deployment::default()
    };
    assert_eq!(live(Resource::Deployments, json!({})), Body::Deployment(whole));
    check(Resource::Deployments, [(json!({}), Body::Unread, &[])]);
}

#[test]
fn replica_sets() {
    let set = ReplicaSet {
        replicas: 2.into(),
        selector: LabelSelector {
            match_labels: [("app".into(), "a".into())].into(),
            match_expressions: vec![LabelRequirement {
                key: "tier".into(),
                is_wanted: false,
                values: Some(vec!["db".into()]),
            }],
        }
        .into(),
        template_digest: 0.into(),
        revision: Field::Known("4".into()),
        status_replicas: 1.into(),
        available_replicas: 1.into(),
        observed_generation: 3.into(),
    };
    let annotations = json!({ "annotations": { "deployment.kubernetes.io/revision": "4" } });
    let selector = json!({
        "matchLabels": { "app": "a" },
        "matchExpressions": [{ "key": "tier", "operator": "NotIn", "values": ["db"] }],
    });
    check(
        Resource::ReplicaSets,
        [
            (
                json!({ "metadata": annotations,
                    "spec": { "replicas": 2, "selector": selector, "template": {} },
                    "status": { "replicas": 1, "availableReplicas": 1, "observedGeneration": 3 } }),
                Body::ReplicaSet(set.clone()),
                &[],
            ),
            (
                json!({ "metadata": annotations, "spec": { "replicas": 2, "template": {} } }),
                Body::ReplicaSet(ReplicaSet {
                    selector: Field::Unread,
                    status_replicas: Field::Unread,
                    available_replicas: Field::Unread,
                    observed_generation: Field::Unread,
                    ..set
                }),
                &[],
            ),
        ],
    );
}

#[test]
fn revisions_of_sets() {
    let revision = |revision| Body::ControllerRevision(ControllerRevision { revision });
    check(
        Resource::ControllerRevisions,
        [
            (json!({ "revision": 5, "data": [7] }), revision(5.into()), &[]),
            (json!({}), revision(Field::Unread), &[]),
            (
                json!({ "revision": "5" }),
                revision(Field::Unread),
                &["revision: expected a whole number, found a string"],
            ),
        ],
    );
    assert_eq!(live(Resource::ControllerRevisions, json!({})), revision(0.into()));
    let status = json!({ "currentRevision": "a-1", "updateRevision": "a-2", "observedGeneration": 4 });
    check(
        Resource::StatefulSets,
        [(
            json!({ "spec": { "revisionHistoryLimit": 2 }, "status": status }),
            Body::StatefulSet(StatefulSet {
                replicas: 1.into(),
                revision_history_limit: Some(2).into(),
                current_revision: Field::Known("a-1".into()),
                update_revision: Field::Known("a-2".into()),
                observed_generation: 4.into(),
                ..StatefulSet::default()
            }),
            &[],
        )],
    );
    check(
        Resource::DaemonSets,
        [
            (
                json!({ "spec": { "revisionHistoryLimit": 2 }, "status": status }),
                Body::DaemonSet(DaemonSet {
                    selector: Field::Unread,
                    revision_history_limit: Some(2).into(),
                    observed_generation: 4.into(),
                }),
                &[],
            ),
            (
                json!({ "spec": {} }),
                Body::DaemonSet(DaemonSet {
                    selector: Field::Unread,
                    observed_generation: Field::Unread,
                    ..DaemonSet::default()
                }),
                &[],
            ),
        ],
    );
}

#[test]
fn fields_that_track_the_pods_of_a_job() {
    let counts = JobCounts {
        succeeded: 2,
        failed: 1,
        uncounted_succeeded: vec!["u-1".into()],
        uncounted_failed: vec!["u-2".into(), "u-3".into()],
        completed_indexes: "0,2-3".into(),
    };
    let job = Job {
        parallelism: Some(2).into(),
        completions: Some(5).into(),
        completion_mode: Field::Known("Indexed".into()),
        is_suspended: true.into(),
        active_deadline_seconds: Some(60).into(),
        backoff_limit: Some(4).into(),
        has_backoff_limit_per_index: true.into(),
        has_pod_failure_policy: true.into(),
        has_success_policy: true.into(),
        pod_replacement_policy: Field::Known("Failed".into()),
        managed_by: Field::Known("example.com/kueue".into()),
        restart_policy: Field::Known("OnFailure".into()),
        has_tracking_annotation: true.into(),
        counts: counts.into(),
        ..Job::default()
    };
    let spec = json!({
        "parallelism": 2, "completions": 5, "completionMode": "Indexed", "suspend": true, "activeDeadlineSeconds": 60,
        "backoffLimit": 4, "backoffLimitPerIndex": 0, "podFailurePolicy": { "rules": [] }, "successPolicy": {},
        "podReplacementPolicy": "Failed", "managedBy": "example.com/kueue", "template": { "spec": { "restartPolicy": "OnFailure" } },
    });
    let status = json!({
        "succeeded": 2, "failed": 1, "completedIndexes": "0,2-3",
        "uncountedTerminatedPods": { "succeeded": ["u-1"], "failed": ["u-2", "u-3"] },
    });
    let annotations = json!({ "annotations": { "batch.kubernetes.io/job-tracking": "" } });
    let mut bad = spec.clone();
    bad["template"]["spec"]["restartPolicy"] = 7.into();
    check(
        Resource::Jobs,
        [
            (
                json!({ "metadata": annotations, "spec": spec, "status": status }),
                Body::Job(job.clone()),
                &[],
            ),
            (
                json!({ "metadata": annotations, "spec": bad, "status": { "failed": "1" } }),
                Body::Job(Job {
                    restart_policy: Field::Unread,
                    counts: Field::Unread,
                    ..job
                }),
                &[
                    "spec.template.spec.restartPolicy: expected a string, found a number",
                    "status.failed: expected a whole number, found a string",
                ],
            ),
        ],
    );
}

#[test]
fn services_endpoints_and_service_cidrs() {
    let service = |has_selector| Body::Service(Service { has_selector });
    check(
        Resource::Services,
        [
            (
                json!({ "spec": { "selector": { "a": "b" } } }),
                service(true.into()),
                &[],
            ),
            (json!({ "spec": { "selector": {} } }), service(true.into()), &[]),
            (json!({ "spec": {}, "status": 7 }), service(false.into()), &[]),
            (
                json!({ "spec": { "selector": 7 } }),
                service(Field::Unread),
                &["spec.selector: expected a map, found a number"],
            ),
            (json!({}), Body::Unread, &[]),
        ],
    );
    let endpoints = |has_leader_annotation| {
        Body::Endpoints(Endpoints {
            has_leader_annotation,
        })
    };
    let leader = json!({ "annotations": { "control-plane.alpha.kubernetes.io/leader": "" } });
    check(
        Resource::Endpoints,
        [
            (
                json!({ "metadata": leader, "subsets": 7 }),
                endpoints(true.into()),
                &[],
            ),
            (json!({}), endpoints(false.into()), &[]),
        ],
    );
    let cidr = |cidrs: Field<&[&str]>| {
        let cidrs = cidrs.map(|cidrs| cidrs.iter().map(|cidr| (*cidr).into()).collect());
        Body::ServiceCidr(ServiceCidr { cidrs })
    };
    check(
        Resource::ServiceCidrs,
        [
            (
                json!({ "spec": { "cidrs": ["10.0.0.0/24", "fd00::/64"] } }),
                cidr(Field::Known(&["10.0.0.0/24", "fd00::/64"])),
                &[],
            ),
            (json!({ "spec": {} }), cidr(Field::Known(&[])), &[]),
        ],
    );
}

#[test]
fn resource_claims() {
    let consumer = Consumer {
        resource: "pods".into(),
        name: "web".into(),
        uid: "u-1".into(),
        ..Consumer::default()
    };
    check(
        Resource::ResourceClaims,
        [
            (
                json!({ "spec": { "allocationMode": "Immediate" }, "status": {
                    "allocation": {}, "reservedFor": [{ "resource": "pods", "name": "web", "uid": "u-1" }],
                } }),
                Body::ResourceClaim(ResourceClaim {
                    reserved_for: vec![consumer].into(),
                    is_allocated: true.into(),
                    allocation_mode: Field::Known("Immediate".into()),
                }),
                &[],
            ),
            (
                json!({ "spec": {}, "status": {} }),
                Body::ResourceClaim(ResourceClaim::default()),
                &[],
            ),
            (
                json!({ "spec": {}, "status": { "reservedFor": [{ "name": 7 }] } }),
                Body::ResourceClaim(ResourceClaim {
                    reserved_for: Field::Unread,
                    ..ResourceClaim::default()
                }),
                &["status.reservedFor[0].name: expected a string, found a number"],
            ),
        ],
    );
}

#[test]
fn fields_that_protect_attached_volumes_and_attribute_classes() {
    check(
        Resource::VolumeAttachments,
        [
            (
                json!({ "spec": { "nodeName": "n", "source": { "persistentVolumeName": "pv" } } }),
                Body::VolumeAttachment(VolumeAttachment {
                    node_name: Field::Known("n".into()),
                    volume_name: Field::Known("pv".into()),
                }),
                &[],
            ),
            (
                json!({ "spec": { "source": { "inlineVolumeSpec": {} } } }),
                Body::VolumeAttachment(VolumeAttachment::default()),
                &[],
            ),
        ],
    );
    check(
        Resource::PersistentVolumes,
        [(
            json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete", "volumeAttributesClassName": "gold",
                "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1" } }, "status": { "phase": "Bound" } }),
            Body::PersistentVolume(PersistentVolume {
                phase: Field::Known("Bound".into()),
                reclaim_policy: Field::Known("Delete".into()),
                attributes_class: Field::Known("gold".into()),
                source: Field::Known(PersistentVolumeSource::Csi {
                    driver: "ebs.csi.aws.com".into(),
                    handle: "vol-1".into(),
                }),
                ..PersistentVolume::default()
            }),
            &[],
        )],
    );
    check(
        Resource::PersistentVolumeClaims,
        [(
            json!({ "spec": { "volumeAttributesClassName": "silver" }, "status": {
                "currentVolumeAttributesClassName": "gold",
                "modifyVolumeStatus": { "targetVolumeAttributesClassName": "silver" },
            } }),
            Body::PersistentVolumeClaim(PersistentVolumeClaim {
                attributes_classes: Field::Known(vec!["gold".into(), "silver".into()]),
                ..PersistentVolumeClaim::default()
            }),
            &[],
        )],
    );
}
