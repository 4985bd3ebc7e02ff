//! Old ReplicaSets and ControllerRevisions.

use crate::support::{Change as _, assert_cautious, cache, object, plan, run, secs, version};
use kubegc_controllers::{DaemonSetHistory, DeploymentHistory, StatefulSetHistory};
use kubegc_core::record::{
    Body, ControllerRevision, DaemonSet, Deployment, Field, Pod, Record, ReplicaSet, Resource, StatefulSet,
};

fn deployment(limit: i32) -> Deployment {
    Deployment {
        revision_history_limit: Some(limit).into(),
        replicas: 2.into(),
        status_replicas: [2, 2, 2].into(),
        template_digest: 9.into(),
        ..Deployment::default()
    }
}

fn of(deployment: Deployment) -> (Resource, Record) {
    (
        Resource::Deployments,
        object("shop", "d", Body::Deployment(deployment)),
    )
}

/// A ReplicaSet with this revision, template and creation, and without replicas.
fn replica_set(name: &str, revision: &str, template: u64, created: i64) -> (Resource, Record) {
    let body = ReplicaSet {
        revision: Field::Known(revision.into()),
        template_digest: template.into(),
        ..ReplicaSet::default()
    };
    let record = object("shop", name, Body::ReplicaSet(body));
    (
        Resource::ReplicaSets,
        record.created(created).owned_by("apps/v1", "Deployment", "d"),
    )
}

fn set(change: impl FnOnce(&mut ReplicaSet), mut of: (Resource, Record)) -> (Resource, Record) {
    if let Body::ReplicaSet(body) = of.1.body_mut() {
        change(body);
    }
    of
}

#[test]
fn old_replica_sets_are_deleted_by_revision() {
    let controller = DeploymentHistory::new(version(34));
    let sets = || {
        vec![
            replica_set("new", "5", 9, 50),
            replica_set("a", "10", 1, 10),
            replica_set("b", "2", 2, 20),
            replica_set("c", "3", 3, 30),
        ]
    };
    let with = |deployment: Deployment, sets: Vec<(Resource, Record)>| {
        let mut objects = sets;
        objects.push(of(deployment));
        objects
    };
    let deleted = |controller: &DeploymentHistory, objects: &[(Resource, Record)]| {
        let lines = plan(controller, &cache(controller, objects.to_vec()), secs(0)).into_iter();
        let deletes =
            lines.filter_map(|line| line.strip_prefix("delete replicaset.apps/").map(str::to_owned));
        deletes
            .map(|line| line.chars().take(1).collect::<String>())
            .collect::<Vec<_>>()
            .concat()
    };
    let objects = with(deployment(1), sets());
    assert_eq!(deleted(&controller, &objects), "bc");
    assert_cautious(&controller, &objects, secs(0));
    let mut known = cache(&controller, objects.clone());
    assert_eq!(run(&controller, &mut known, secs(0)).len(), 2);
    // By creation, if the revision does not count or is not a number.
    assert_eq!(deleted(&DeploymentHistory::new(version(20)), &objects), "ab");
    let mut odd = sets();
    odd[1] = replica_set("a", "x", 1, 10);
    assert_eq!(deleted(&controller, &with(deployment(2), odd)), "a");
    // The oldest of two with the template is the new one; the other is old.
    let mut twice = sets();
    twice.push(replica_set("z", "1", 9, 60));
    assert_eq!(deleted(&controller, &with(deployment(3), twice)), "z");
    // Those that are not idle count, but are kept.
    let busy = |change: fn(&mut ReplicaSet)| {
        let mut sets = sets();
        sets[2] = set(change, sets[2].clone());
        with(deployment(1), sets)
    };
    assert_eq!(deleted(&controller, &busy(|set| set.replicas = 1.into())), "c");
    assert_eq!(
        deleted(&controller, &busy(|set| set.status_replicas = 1.into())),
        "c"
    );
    let mut unobserved = sets();
    unobserved[2].1.meta.generation = 1;
    assert_eq!(deleted(&controller, &with(deployment(1), unobserved)), "c");
    let mut terminating = sets();
    terminating[2].1 = terminating[2].1.clone().terminating(1);
    assert_eq!(deleted(&controller, &with(deployment(1), terminating)), "c");
    // Only complete or paused Deployments with a limit delete.
    for (deployment, expected) in [
        (
            Deployment {
                revision_history_limit: None.into(),
                ..deployment(0)
            },
            "",
        ),
        (
            Deployment {
                status_replicas: [2, 2, 1].into(),
                ..deployment(1)
            },
            "",
        ),
        (
            Deployment {
                status_replicas: [2, 2, 1].into(),
                is_paused: true.into(),
                ..deployment(1)
            },
            "bc",
        ),
        (deployment(0), "bca"),
        (deployment(3), ""),
    ] {
        assert_eq!(deleted(&controller, &with(deployment, sets())), expected);
    }
    let mut terminating = with(deployment(1), sets());
    terminating[4].1 = terminating[4].1.clone().terminating(1);
    assert_eq!(deleted(&controller, &terminating), "");
    // Without the revision of one the order is not known.
    let mut unread = sets();
    unread[3] = set(|set| set.revision = Field::Unread, unread[3].clone());
    assert_eq!(
        plan(
            &controller,
            &cache(&controller, with(deployment(1), unread)),
            secs(0)
        ),
        ["unknown deployment.apps/d -n shop: FieldUnread"]
    );
}

fn revision(kind: &str, name: &str, number: i64) -> (Resource, Record) {
    let body = ControllerRevision {
        revision: number.into(),
    };
    let record = object("shop", name, Body::ControllerRevision(body));
    let record = record
        .label("controller-revision-hash", name)
        .owned_by("apps/v1", kind, "s");
    (Resource::ControllerRevisions, record)
}

fn pod(kind: &str, hash: &str) -> (Resource, Record) {
    let record = object("shop", "s-0", Body::Pod(Pod::default()));
    let record = record
        .label("controller-revision-hash", hash)
        .owned_by("apps/v1", kind, "s");
    (Resource::Pods, record)
}

#[test]
fn old_revisions_of_stateful_sets_are_deleted() {
    let controller = StatefulSetHistory::new(version(34));
    let set = |limit: i32| StatefulSet {
        revision_history_limit: Some(limit).into(),
        current_revision: Field::Known("r4".into()),
        update_revision: Field::Known("r5".into()),
        ..StatefulSet::default()
    };
    let with = |set: StatefulSet| {
        let mut objects: Vec<_> = (1..=6)
            .map(|at| revision("StatefulSet", &format!("r{at}"), i64::from(at)))
            .collect();
        objects.push(pod("StatefulSet", "r1"));
        objects.push((
            Resource::StatefulSets,
            object("shop", "s", Body::StatefulSet(set)),
        ));
        objects
    };
    let name = |name: &str, code: &str| format!("{name} -n shop: {code}");
    let objects = with(set(1));
    let mut known = cache(&controller, objects.clone());
    assert_eq!(
        plan(&controller, &known, secs(0)),
        [
            name("delete controllerrevision.apps/r2", "AboveLimit"),
            name("delete controllerrevision.apps/r3", "AboveLimit"),
            name("keep controllerrevision.apps/r1", "InUse"),
            name("keep controllerrevision.apps/r4", "InUse"),
            name("keep controllerrevision.apps/r5", "InUse"),
            name("keep controllerrevision.apps/r6", "WithinLimit"),
        ]
    );
    assert_cautious(&controller, &objects, secs(0));
    assert_eq!(run(&controller, &mut known, secs(0)).len(), 2);
    let known = cache(&controller, with(set(3)));
    assert!(
        plan(&controller, &known, secs(0))
            .iter()
            .all(|line| line.starts_with("keep"))
    );
    let mut unobserved = with(set(1));
    unobserved[7].1.meta.generation = 1;
    assert_eq!(
        plan(&controller, &cache(&controller, unobserved), secs(0)),
        [name("unknown statefulset.apps/s", "OutsideUnknown")]
    );
}

#[test]
fn old_revisions_of_daemon_sets_are_deleted() {
    let controller = DaemonSetHistory::new(version(34));
    let with = |limit: i32| {
        let set = DaemonSet {
            revision_history_limit: Some(limit).into(),
            ..DaemonSet::default()
        };
        let mut objects: Vec<_> = (1..=5)
            .map(|at| revision("DaemonSet", &format!("r{at}"), i64::from(at)))
            .collect();
        objects.push(pod("DaemonSet", "r1"));
        objects.push((Resource::DaemonSets, object("shop", "s", Body::DaemonSet(set))));
        objects
    };
    // Of r1 to r4, two are above the limit; r1 is in use, and another one is deleted in its place.
    let objects = with(2);
    let mut known = cache(&controller, objects.clone());
    assert_cautious(&controller, &objects, secs(0));
    assert_eq!(
        run(&controller, &mut known, secs(0)),
        [
            "delete controllerrevision.apps/r2 -n shop",
            "delete controllerrevision.apps/r3 -n shop"
        ]
    );
    let mut terminating = with(0);
    terminating[6].1 = terminating[6].1.clone().terminating(1);
    assert_eq!(
        plan(&controller, &cache(&controller, terminating), secs(0)),
        ["keep daemonset.apps/s -n shop: Terminating"]
    );
}
