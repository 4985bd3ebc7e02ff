//! Stateful sets, their pods and their claims.

use kubegc_core::Timestamp;
use kubegc_lifecycle::{
    controller::{Basis, Mechanism, Work},
    fields::{self, Fields, Record},
    object::{
        Object,
        Resource::{PersistentVolumeClaims, Pods, StatefulSets},
    },
    statefulset::Retention,
};

use crate::support::{Cluster, Run, changed, controlled_by, nothing_but, only, record, refused, unread};

/// A set whose claims go with it.
fn set(name: &str, replicas: i32, templates: &[&str]) -> Record {
    let fields = fields::StatefulSet {
        replicas: Some(replicas),
        first_ordinal: Some(0),
        when_deleted: Retention::Delete,
        when_scaled: Retention::Delete,
        templates: templates.iter().map(|name| (*name).into()).collect(),
    };
    record("shop", name, Fields::StatefulSet(fields))
}

/// A pod of a set. Nothing but its metadata was read: nothing else matters.
fn pod(name: &str, set: &str) -> Record {
    let mut record = record("shop", name, Fields::Unread);
    record
        .meta
        .owner_references
        .push(controlled_by("StatefulSet", set));
    record
}

fn claim(name: &str) -> Record {
    record("shop", name, Fields::Unread)
}

fn run(
    sets: impl IntoIterator<Item = Record>,
    pods: impl IntoIterator<Item = Record>,
    claims: &[&str],
) -> Run {
    let cluster = Cluster::default()
        .with(StatefulSets, sets)
        .with(Pods, pods)
        .with(PersistentVolumeClaims, claims.iter().map(|name| claim(name)));
    Run::new(only(Mechanism::StatefulSets), &cluster)
}

#[test]
fn l7_9_each_claim_is_one_task_and_what_is_scaled_away_comes_first() {
    let pods = [
        pod("web-0", "web"),
        pod("web-1", "web"),
        pod("web-api-0", "web-api"),
    ];
    let claims = [
        "data-web-0",
        "data-web-1",
        "logs-web-0",
        "data-web-api-0",
        "data-web-x",
    ];
    let mut run = run([set("web", 1, &["logs", "data"])], pods, &claims);
    let expected = [
        "data-web-1 owned by [Pod web-1]",
        "logs-web-0 owned by [StatefulSet web]",
        "data-web-0 owned by [StatefulSet web]",
    ];
    assert_eq!(run.outcome(), (expected.map(Into::into).to_vec(), vec![]));
}

#[test]
fn a_claim_is_written_if_its_set_and_its_pod_are_still_these() {
    let (set, pod) = (set("web", 0, &["data"]), pod("web-0", "web"));
    let tasks = run([set.clone()], [pod.clone()], &["data-web-0"]).tasks();
    let Work::Act(planned) = &tasks[0].work else {
        panic!("calls")
    };
    // Whatever else becomes of the pod, it is the same one.
    let there = Basis::Same {
        object: Object::new(Pods, &pod.meta),
        resource_version: "".into(),
    };
    assert_eq!(planned.rests_on, [Basis::same(StatefulSets, &set.meta), there]);
}

#[test]
fn what_was_not_read_is_undecided() {
    let mut without_uid = set("web", 1, &["data"]);
    without_uid.meta.uid = "".into();
    let mut without_replicas = set("web", 1, &["data"]);
    if let Fields::StatefulSet(fields) = &mut without_replicas.fields {
        fields.replicas = None;
    }
    let claim = "PersistentVolumeClaim shop/data-web-0";
    let identity = "its uid or version, or the uid of its set or pod, is not known";
    for (set, expected) in [
        (
            unread(&set("web", 1, &["data"])),
            "StatefulSet shop/web: nothing but its metadata was read".to_owned(),
        ),
        (without_uid, format!("{claim}: {identity}")),
        (
            without_replicas,
            format!("{claim}: the number of replicas of its set is not known"),
        ),
    ] {
        let mut run = run([set], [pod("web-0", "web")], &["data-web-0"]);
        assert_eq!(run.outcome(), nothing_but(&[&expected]));
    }
}

#[test]
fn what_was_not_listed_is_undecided() {
    let why = refused();
    for (resource, expected) in [
        (
            StatefulSets,
            format!("StatefulSet shop/web: the statefulsets are not known: {why}"),
        ),
        (
            Pods,
            format!("PersistentVolumeClaim shop/data-web-0: pods are not known: {why}"),
        ),
        (
            PersistentVolumeClaims,
            format!("StatefulSet shop/web: claims are not known: {why}"),
        ),
    ] {
        let mut run = run([set("web", 1, &["data"])], [pod("web-0", "web")], &["data-web-0"]);
        run.unlist(resource);
        assert_eq!(run.outcome(), nothing_but(&[&expected]));
    }
}

#[test]
fn two_sets_that_share_a_claim_agree_on_whose_it_is() {
    let sets = || [set("db", 1, &["data-web"]), set("web-db", 1, &["data"])];
    let pods = || [pod("db-0", "db"), pod("web-db-0", "web-db")];
    let name = "data-web-db-0";
    assert_eq!(
        run(sets(), pods(), &[name]).works(),
        [format!("{name} owned by [StatefulSet db]")]
    );
    // Without a pod the first set has no claim, until there is one.
    let mut run = run(sets(), pods().into_iter().skip(1), &[name]);
    assert_eq!(run.works(), [format!("{name} owned by [StatefulSet web-db]")]);
    run.apply(Pods, &pods()[0]);
    assert_eq!(run.works(), [format!("{name} owned by [StatefulSet db]")]);
    // The other set is looked at again when this one changes, and left alone while nobody knows what templates it has.
    run.apply(StatefulSets, &unread(&sets()[0]));
    let unknown = "StatefulSet shop/db: nothing but its metadata was read";
    assert_eq!(run.outcome(), nothing_but(&[unknown]));
    run.gone(StatefulSets, &sets()[0]);
    assert_eq!(
        run.outcome(),
        (vec![format!("{name} owned by [StatefulSet web-db]")], vec![])
    );
}

#[test]
fn only_what_a_set_looks_at_makes_it_due() {
    let mut run = run(
        [set("web", 1, &["data"])],
        [pod("web-0", "web")],
        &["data-web-api-0", "mail-web-0"],
    );
    assert_eq!(run.outcome(), nothing_but(&[]));
    let mut scheduled = changed(&pod("web-0", "web"));
    scheduled.fields = Fields::Pod(fields::Pod::default());
    for pod in [
        scheduled,
        pod("web-api-0", "web"),
        pod("web", "web"),
        pod("api-0", "api"),
    ] {
        run.apply(Pods, &pod);
        assert!(run.is_quiet(), "{pod:?}");
    }
    for name in ["data-web-api-0", "data-web-x", "data", "logs-web-0"] {
        run.apply(PersistentVolumeClaims, &changed(&claim(name)));
        assert!(run.is_quiet(), "{name}");
    }
    run.apply(PersistentVolumeClaims, &claim("data-web-0"));
    assert_eq!(run.works(), ["data-web-0 owned by [StatefulSet web]"]);
    let mut another = pod("web-0", "web");
    another.meta.uid = "uid-2".into();
    run.apply(Pods, &another);
    assert!(!run.is_quiet());
    run.works();
    let mut deleted = set("web", 1, &["data"]);
    deleted.meta.deletion_timestamp = Some(Timestamp::EPOCH);
    run.apply(StatefulSets, &deleted);
    assert_eq!(run.outcome(), nothing_but(&[]));
}

#[test]
fn a_pod_that_changes_its_controller_has_other_claims() {
    let mut run = run(
        [set("web", 1, &["data"])],
        [pod("web-0", "another")],
        &["data-web-0"],
    );
    assert_eq!(run.outcome(), nothing_but(&[]));
    run.apply(Pods, &pod("web-0", "web"));
    assert_eq!(run.works(), ["data-web-0 owned by [StatefulSet web]"]);
    run.apply(Pods, &pod("web-0", "another"));
    assert_eq!(run.outcome(), nothing_but(&[]));
}
