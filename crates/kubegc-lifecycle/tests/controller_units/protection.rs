//! Claims and volumes in use.

use std::sync::Arc;

use kubegc_core::{ResourceVersion, Timestamp, Uid};
use kubegc_lifecycle::{
    controller::{Basis, Mechanism, Task, Work},
    fields::{self, Fields, Record},
    object::Resource::{PersistentVolumeClaims, PersistentVolumes, Pods},
    volume::{FINALIZER_CLAIM_PROTECTION, FINALIZER_VOLUME_PROTECTION, Phase},
};

use crate::{
    support::{BEGAN, Cluster, Run, changed, nothing_but, only, pod, record, unread},
    volumes::{fields_of, volume},
};

const REMOVED: &str = "data -kubernetes.io/pvc-protection";

/// A claim that is being deleted and protected.
fn held(name: &str) -> Record {
    let mut record = living(name);
    record.meta.finalizers = vec![FINALIZER_CLAIM_PROTECTION.into()];
    record.meta.deletion_timestamp = Some(Timestamp::EPOCH);
    record
}

/// A claim that is neither.
fn living(name: &str) -> Record {
    let fields = fields::PersistentVolumeClaim::default();
    record("shop", name, Fields::PersistentVolumeClaim(fields))
}

fn run(claims: impl IntoIterator<Item = Record>, pods: impl IntoIterator<Item = Record>) -> Run {
    let cluster = Cluster::default()
        .with(PersistentVolumeClaims, claims)
        .with(Pods, pods);
    Run::new(only(Mechanism::Protection), &cluster)
}

fn is_not_known(reason: &str) -> (Vec<String>, Vec<String>) {
    nothing_but(&[&format!("PersistentVolumeClaim shop/data: {reason}")])
}

#[test]
fn l6_2_a_claim_that_nobody_uses_goes_if_the_pods_of_its_namespace_are_still_these() {
    let mut elsewhere = pod("cart", &["data"]);
    elsewhere.meta.namespace = "other".into();
    let pods = [pod("web", &["mail"]), pod("api", &[]), elsewhere];
    let tasks = run([held("data")], pods.clone()).tasks();
    let [task] = &tasks[..] else {
        panic!("one claim goes: {tasks:?}")
    };
    let Work::Act(planned) = &task.work else {
        panic!("calls")
    };
    let identity = |pod: &Record| {
        let meta = pod.meta.clone();
        (meta.name, meta.uid, meta.resource_version)
    };
    let expected = Basis::PodsAre {
        namespace: "shop".into(),
        claim: "data".into(),
        pods: [identity(&pods[1]), identity(&pods[0])].into(),
    };
    assert_eq!(planned.rests_on, [expected]);
    assert_eq!(run([held("data")], pods).works(), [REMOVED]);
}

#[test]
fn claims_of_one_namespace_share_what_is_known_of_its_pods_until_one_changes() {
    let pods: Vec<Record> = (0..8_000)
        .map(|number| pod(&format!("pod-{number}"), &[]))
        .collect();
    let claims = (0..4_000).map(|number| held(&format!("claim-{number}")));
    let mut run = run(claims, pods.clone());
    let tasks = run.tasks();
    assert_eq!(tasks.len(), 4_000);
    let shared = pods_of(&tasks[0]);
    assert_eq!(shared.len(), 8_000);
    assert!(tasks.iter().all(|task| Arc::ptr_eq(&pods_of(task), &shared)));
    // Each of these is another state of the pods.
    let replaced = changed(&pods[0]);
    for (step, count) in [(0, 8_000), (1, 7_999), (2, 8_000), (3, 8_000)] {
        match step {
            0 => run.apply(Pods, &replaced),
            1 => run.gone(Pods, &replaced),
            2 => run.apply(Pods, &pods[0]),
            _ => run.apply(Pods, &changed(&pods[7_999])),
        }
        run.apply(PersistentVolumeClaims, &held("late"));
        let tasks = run.tasks();
        let found = pods_of(&tasks[0]);
        assert_eq!(found.len(), count);
        let first = found.iter().find(|(name, ..)| &**name == "pod-0");
        let version = [Some("11"), None, Some("1"), Some("1")][step];
        assert_eq!(first.map(|(.., version)| version.as_str()), version);
        run.gone(PersistentVolumeClaims, &held("late"));
    }
}

/// The pods on which a task rests.
fn pods_of(task: &Task) -> Arc<[(Arc<str>, Uid, ResourceVersion)]> {
    let Work::Act(planned) = &task.work else {
        panic!("calls")
    };
    match &planned.rests_on[..] {
        [Basis::PodsAre { pods, .. }] => Arc::clone(pods),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_read_again_in_a_forecast() {
    let cluster = Cluster::default()
        .with(PersistentVolumeClaims, [held("data")])
        .with(Pods, [pod("web", &[])]);
    let controller = cluster.told(only(Mechanism::Protection)).still();
    let mut run = Run {
        controller,
        now: BEGAN,
    };
    let tasks = run.tasks();
    let Work::Act(planned) = &tasks[0].work else {
        panic!("calls")
    };
    assert_eq!(planned.rests_on, []);
}

#[test]
fn l6_2_what_lives_is_protected_whatever_is_known_of_pods() {
    let mut run = run([living("data"), unread(&living("mail"))], []);
    run.unlist(Pods);
    let added = |name| format!("{name} +{FINALIZER_CLAIM_PROTECTION}");
    assert_eq!(run.outcome(), (vec![added("data"), added("mail")], vec![]));
}

#[test]
fn l6_3_volumes_go_by_their_phase() {
    let gone = |phase| {
        let mut disk = volume("disk", "data", None);
        disk.meta.finalizers = vec![FINALIZER_VOLUME_PROTECTION.into()];
        disk.meta.deletion_timestamp = Some(Timestamp::EPOCH);
        fields_of(&mut disk).phase = phase;
        disk
    };
    let removed = (vec![format!("disk -{FINALIZER_VOLUME_PROTECTION}")], vec![]);
    let unknown = nothing_but(&["PersistentVolume disk: its phase is not known"]);
    for (disk, expected) in [
        (gone(Phase::Released), removed),
        (gone(Phase::Bound), nothing_but(&[])),
        (unread(&gone(Phase::Released)), unknown),
    ] {
        let cluster = Cluster::default().with(PersistentVolumes, [disk]);
        let mut run = Run::new(only(Mechanism::Protection), &cluster);
        assert_eq!(run.outcome(), expected);
        run.unlist(PersistentVolumes);
        let reason = "the persistentvolumes are not known: refused with 403: forbidden";
        assert_eq!(
            run.outcome(),
            nothing_but(&[&format!("PersistentVolume disk: {reason}")])
        );
    }
}

#[test]
fn what_was_not_read_is_undecided() {
    let bare = unread(&pod("web", &[]));
    let mut without_node = pod("web", &["mail"]);
    if let Fields::Pod(fields) = &mut without_node.fields {
        fields.node_name = None;
    }
    let mut without_version = held("data");
    without_version.meta.resource_version = "".into();
    for (claim, pods, reason) in [
        (held("data"), vec![bare], "whether pod web uses it is not known"),
        (
            held("data"),
            vec![without_node],
            "whether pod web uses it is not known",
        ),
        (without_version, vec![], "its uid or version is not known"),
    ] {
        assert_eq!(run([claim], pods).outcome(), is_not_known(reason));
    }
    // Of the claim itself nothing else is needed.
    assert_eq!(run([unread(&held("data"))], []).works(), [REMOVED]);
}

#[test]
fn what_was_not_listed_is_undecided() {
    for (resource, reason) in [
        (
            Pods,
            "whether pods use it is not known: refused with 403: forbidden",
        ),
        (
            PersistentVolumeClaims,
            "the persistentvolumeclaims are not known: refused with 403: forbidden",
        ),
    ] {
        let mut run = run([held("data")], []);
        run.unlist(resource);
        assert_eq!(run.outcome(), is_not_known(reason));
    }
}

#[test]
fn a_pod_that_goes_or_changes_its_volumes_makes_its_claims_due_and_no_others() {
    let mut run = run(
        [held("data"), living("mail")],
        [pod("web", &["data"]), pod("api", &["data"])],
    );
    assert_eq!(run.works(), [format!("mail +{FINALIZER_CLAIM_PROTECTION}")]);
    for pod in [
        pod("cart", &["mail"]),
        changed(&pod("cart", &["mail"])),
        pod("cart", &[]),
    ] {
        run.apply(Pods, &pod);
        assert!(run.is_quiet());
    }
    run.gone(Pods, &pod("web", &["data"]));
    assert_eq!(run.outcome(), nothing_but(&[]));
    run.apply(Pods, &pod("api", &["mail"]));
    assert_eq!(run.works(), [REMOVED]);
    run.apply(Pods, &pod("web", &["data"]));
    assert_eq!(run.outcome(), nothing_but(&[]));
}

#[test]
fn of_pods_that_were_not_read_the_first_counts() {
    let mut run = run(
        [held("data")],
        [unread(&pod("api", &[])), unread(&pod("web", &[]))],
    );
    assert_eq!(
        run.outcome(),
        is_not_known("whether pod api uses it is not known")
    );
    run.apply(Pods, &unread(&pod("cart", &[])));
    assert!(run.is_quiet());
    for (read, left) in [("api", "cart"), ("cart", "web")] {
        run.apply(Pods, &pod(read, &[]));
        let reason = format!("whether pod {left} uses it is not known");
        assert_eq!(run.outcome(), is_not_known(&reason));
    }
    run.gone(Pods, &pod("web", &[]));
    assert_eq!(run.outcome(), (vec![REMOVED.into()], vec![]));
}
