//! Adoption by label selectors, surplus pods, and old ReplicaSets that are scaled down.

use crate::support::{Change as _, assert_cautious, cache, object, plan, run, secs, version};
use kubegc_controllers::{
    Change as CacheChange, Controller, DaemonSetHistory, DeploymentHistory, Key, ReplicaSetPods,
};
use kubegc_core::{
    LabelSelector, Timestamp,
    record::{
        Body, ControllerRevision, DaemonSet, Deployment, DeploymentStrategy, Field, IntOrPercent, Pod,
        Record, ReplicaSet, Resource,
    },
};

type Object = (Resource, Record);

fn selector(app: &str) -> Field<LabelSelector> {
    let selector = LabelSelector {
        match_labels: [("app".into(), app.into())].into(),
        ..LabelSelector::default()
    };
    selector.into()
}

fn replica_set(name: &str, replicas: i32) -> Object {
    let body = ReplicaSet {
        replicas: replicas.into(),
        selector: selector("web"),
        available_replicas: replicas.into(),
        ..ReplicaSet::default()
    };
    (
        Resource::ReplicaSets,
        object("shop", name, Body::ReplicaSet(body)),
    )
}

fn ready(at: i64) -> Pod {
    Pod {
        node_name: Field::Known("n".into()),
        phase: Field::Known("Running".into()),
        ready_at: Some(secs(at)).into(),
        ..Pod::default()
    }
}

/// A pod with the label `app: web`, without a controller.
fn pod(name: &str, fields: Pod) -> Object {
    let record = object("shop", name, Body::Pod(fields)).label("app", "web");
    (Resource::Pods, record)
}

fn of(owner: &str, (resource, record): Object) -> Object {
    let kind = match resource {
        Resource::Pods => "ReplicaSet",
        Resource::ControllerRevisions => "DaemonSet",
        _ => "Deployment",
    };
    (resource, record.owned_by("apps/v1", kind, owner))
}

/// The names of the objects of the requests, with `+` for those that gain an owner and `~` for those that
/// lose one.
fn short(requests: Vec<String>) -> Vec<String> {
    let short = |request: String| {
        let mut words = request.split(' ');
        let verb = words.next().unwrap_or_default();
        let name = words.next().and_then(|word| word.split_once('/'));
        let name = name.map_or("", |(_, name)| name);
        match verb {
            "patch" if request.contains("OwnerReferences([])") => format!("~{name}"),
            "patch" => format!("+{name}"),
            "update" => format!("{name}={}", request.rsplit(' ').next().unwrap_or_default()),
            _ => name.to_owned(),
        }
    };
    requests.into_iter().map(short).collect()
}

fn requests(controller: &(impl Controller + Clone), objects: &[Object]) -> Vec<String> {
    short(run(
        controller,
        &mut cache(controller, objects.to_vec()),
        secs(1_000),
    ))
}

#[test]
fn a_replica_set_adopts_orphans_and_deletes_its_surplus() {
    let controller = ReplicaSetPods::new(version(20));
    let objects = vec![
        replica_set("b", 2),
        pod("a-1", ready(10)),
        pod("a-2", ready(11)),
        of("b", pod("b-1", ready(20))),
        of("b", pod("b-2", ready(21))),
    ];
    assert_eq!(
        requests(&controller, &objects),
        ["+a-1", "+a-2", "b-2", "b-1"],
        "those that are ready for longer stay"
    );
    assert_cautious(&controller, &objects, secs(1_000));
    // One that is being deleted adopts nothing, and neither are pods adopted that are, or that have ended.
    let mut terminating = objects.clone();
    terminating[0].1 = terminating[0].1.clone().terminating(1);
    assert_eq!(requests(&controller, &terminating), [""; 0]);
    let ended = Pod {
        phase: Field::Known("Succeeded".into()),
        ..ready(10)
    };
    let mut others = objects.clone();
    others[1] = pod("a-1", ended);
    others[2].1 = others[2].1.clone().terminating(1);
    assert_eq!(requests(&controller, &others), [""; 0]);
    // Other labels, another namespace, and a selector that selects nothing.
    for change in [
        |record: &mut Record| {
            record.meta.labels.insert("app".into(), "db".into());
        },
        |record: &mut Record| record.meta.namespace = "other".into(),
    ] {
        let mut others = objects.clone();
        change(&mut others[1].1);
        change(&mut others[2].1);
        assert_eq!(requests(&controller, &others), [""; 0]);
    }
    let mut empty = objects.clone();
    if let Body::ReplicaSet(set) = empty[0].1.body_mut() {
        set.selector = LabelSelector::default().into();
    }
    assert_eq!(requests(&controller, &empty), [""; 0]);
}

#[test]
fn a_replica_set_releases_pods_that_it_does_not_select() {
    let controller = ReplicaSetPods::new(version(34));
    let mut objects = vec![replica_set("b", 1), of("b", pod("b-1", ready(1)))];
    objects[1].1 = objects[1].1.clone().label("app", "debug");
    assert_eq!(requests(&controller, &objects), ["~b-1"]);
    assert_cautious(&controller, &objects, secs(1_000));
}

#[test]
fn unknown_pods_make_a_surplus_undetermined() {
    let controller = ReplicaSetPods::new(version(20));
    let objects = || {
        vec![
            replica_set("b", 1),
            pod("a-1", ready(10)),
            of("b", pod("b-1", ready(20))),
        ]
    };
    let line = |objects: Vec<Object>| plan(&controller, &cache(&controller, objects), secs(1_000));
    for change in [
        |set: &mut ReplicaSet| set.selector = Field::Unread,
        |set: &mut ReplicaSet| set.replicas = Field::Unread,
    ] {
        let mut unread = objects();
        unread[1] = of("b", unread[1].clone());
        unread.push(pod("c", ready(5)));
        if let Body::ReplicaSet(set) = unread[0].1.body_mut() {
            change(set);
            // Whatever it selects otherwise, it does not select this one.
            unread[3].1 = unread[3].1.clone().label("app", "db");
        }
        assert_eq!(line(unread), ["unknown replicaset.apps/b -n shop: FieldUnread"]);
    }
    let mut unlisted = cache(&controller, objects());
    unlisted.set_listed(Resource::Pods, Err(kubegc_core::StoreError::Unlisted));
    assert_eq!(
        plan(&controller, &unlisted, secs(1_000)),
        ["unknown replicaset.apps/b -n shop: ListMissing"],
        "what adopts may have more pods than are known"
    );
    let mut unread = objects();
    unread[1] = of(
        "b",
        pod(
            "a-1",
            Pod {
                ready_at: Field::Unread,
                ..ready(10)
            },
        ),
    );
    assert_eq!(line(unread), ["unknown replicaset.apps/b -n shop: FieldUnread"]);
}

/// The pod of two that is deleted.
fn first(minor: u16, a: Object, b: Object) -> String {
    let controller = ReplicaSetPods::new(version(minor));
    let objects = vec![replica_set("s", 1), of("s", a), of("s", b)];
    assert_cautious(&controller, &objects, secs(1_000));
    requests(&controller, &objects).concat()
}

#[test]
fn surplus_pods_are_deleted_in_order() {
    let with = |change: fn(&mut Pod)| {
        let mut fields = ready(100);
        change(&mut fields);
        fields
    };
    type Change = fn(&mut Pod);
    let worse: [(u16, Change); 7] = [
        (20, |pod| pod.node_name = Field::Known("".into())),
        (20, |pod| pod.phase = Field::Known("Pending".into())),
        (20, |pod| pod.phase = Field::Known("Unknown".into())),
        (20, |pod| pod.ready_at = None.into()),
        (22, |pod| pod.deletion_cost = Field::Known(-1)),
        (20, |pod| pod.ready_at = Some(secs(101)).into()),
        (20, |pod| pod.restart_count_max = 1.into()),
    ];
    for (at, (minor, change)) in worse.into_iter().enumerate() {
        let first = first(minor, pod("a", ready(100)), pod("b", with(change)));
        assert_eq!(first, "b", "rule {at}");
    }
    // The deletion cost counts from 1.22 on.
    let cheap = || pod("b", with(|pod| pod.deletion_cost = Field::Known(-1)));
    assert_eq!(first(21, pod("a", ready(101)), cheap()), "a");
    // The younger one is deleted first. From 1.22 on, ages of the same magnitude count as equal.
    let created = |name, at| {
        let (resource, record) = pod(name, ready(100));
        (resource, record.created(at))
    };
    assert_eq!(first(20, created("a", 50), created("b", 60)), "b");
    assert_eq!(first(22, created("a", 50), created("b", 60)), "a", "by uid");
    assert_eq!(first(22, created("a", 50), created("b", 900)), "b");
    let unset = || pod("b", with(|pod| pod.ready_at = Some(Timestamp::EPOCH).into()));
    assert_eq!(
        first(20, pod("a", ready(100)), unset()),
        "b",
        "no time is the latest"
    );
}

#[test]
fn pods_beside_others_of_their_deployment_are_deleted_first() {
    let controller = ReplicaSetPods::new(version(20));
    let on = |name, node: &str| {
        let fields = Pod {
            node_name: Field::Known(node.into()),
            ..ready(100)
        };
        pod(name, fields)
    };
    let mut objects = vec![
        of("d", replica_set("new", 1)),
        of("d", replica_set("old", 2)),
        of("new", on("a", "n-1")),
        of("new", on("b", "n-2")),
        of("old", on("c", "n-2")),
        of("old", on("d", "n-3")),
    ];
    assert_eq!(requests(&controller, &objects), ["b"]);
    assert_cautious(&controller, &objects, secs(1_000));
    // Without a Deployment, others do not count.
    objects[0] = replica_set("new", 1);
    assert_eq!(requests(&controller, &objects), ["a"]);
}

fn deployment(name: &str, replicas: i32) -> Object {
    let body = Deployment {
        replicas: replicas.into(),
        selector: selector("web"),
        strategy: rolling(IntOrPercent::Percent(25), IntOrPercent::Percent(25)),
        template_digest: 9.into(),
        ..Deployment::default()
    };
    (
        Resource::Deployments,
        object("shop", name, Body::Deployment(body)),
    )
}

fn rolling(max_unavailable: IntOrPercent, max_surge: IntOrPercent) -> Field<DeploymentStrategy> {
    let strategy = DeploymentStrategy::RollingUpdate {
        max_unavailable,
        max_surge,
    };
    strategy.into()
}

/// A ReplicaSet that a Deployment selects, with this template, creation, and available replicas.
fn set(name: &str, template: u64, created: i64, [replicas, available]: [i32; 2]) -> Object {
    let (resource, record) = replica_set(name, replicas);
    let mut record = record.created(created).label("app", "web");
    if let Body::ReplicaSet(set) = record.body_mut() {
        set.template_digest = template.into();
        set.available_replicas = available.into();
    }
    (resource, record)
}

#[test]
fn a_deployment_adopts_replica_sets_and_scales_the_old_ones_down() {
    let controller = DeploymentHistory::new(version(20));
    // The adopted one is the older one of the same template, and so the new one.
    let objects = vec![
        deployment("d", 2),
        set("a", 9, 1, [2, 2]),
        of("d", set("b", 9, 2, [2, 2])),
    ];
    assert_eq!(requests(&controller, &objects), ["+a", "b=Replicas(0)"]);
    assert_cautious(&controller, &objects, secs(1_000));
    let mut unselected = objects.clone();
    unselected[2].1 = unselected[2].1.clone().label("app", "db");
    assert_eq!(requests(&controller, &unselected), ["+a", "~b"]);
    for change in [
        |record: &mut Record| record.meta.deletion_timestamp = Some(secs(1)),
        |record: &mut Record| {
            if let Body::Deployment(deployment) = record.body_mut() {
                deployment.selector = LabelSelector::default().into();
            }
        },
    ] {
        let mut others = objects.clone();
        change(&mut others[0].1);
        assert_eq!(requests(&controller, &others), [""; 0]);
    }
}

#[test]
fn old_replica_sets_are_scaled_down_as_far_as_enough_pods_are_available() {
    let controller = DeploymentHistory::new(version(34));
    let limits = |unavailable, surge| rolling(IntOrPercent::Int(unavailable), IntOrPercent::Int(surge));
    let recreate = Field::Known(DeploymentStrategy::Recreate);
    /// Replicas of the Deployment, its strategy, replicas and available ones of each ReplicaSet, and the
    /// scaled ReplicaSets.
    type Case = (
        i32,
        Field<DeploymentStrategy>,
        [[i32; 2]; 3],
        &'static [&'static str],
    );
    let cases: [Case; 10] = [
        // Everything is available: the old ones are scaled down at once.
        (
            4,
            limits(0, 1),
            [[4, 4], [1, 1], [2, 2]],
            &["a=Replicas(0)", "b=Replicas(0)"],
        ),
        // The new one is not available yet, and nothing may be unavailable.
        (4, limits(0, 1), [[4, 0], [2, 2], [2, 2]], &[]),
        (4, limits(1, 0), [[4, 0], [2, 2], [2, 2]], &["a=Replicas(1)"]),
        (4, limits(0, 0), [[4, 0], [2, 2], [2, 2]], &["a=Replicas(1)"]),
        // Unhealthy pods are deleted first, on any node.
        (4, limits(1, 0), [[4, 0], [2, 2], [2, 1]], &["b=Replicas(1)"]),
        (
            4,
            limits(4, 0),
            [[4, 0], [1, 1], [2, 2]],
            &["a=Replicas(0)", "b=Replicas(0)"],
        ),
        (
            4,
            recreate,
            [[0, 0], [1, 1], [2, 2]],
            &["a=Replicas(0)", "b=Replicas(0)"],
        ),
        // More replicas than wanted; too few, with room for one more and without.
        (2, limits(1, 1), [[3, 3], [0, 0], [0, 0]], &["new=Replicas(2)"]),
        (5, limits(1, 1), [[3, 3], [1, 1], [1, 1]], &[]),
        (
            4,
            limits(1, 1),
            [[3, 3], [1, 1], [2, 2]],
            &["a=Replicas(0)", "b=Replicas(0)"],
        ),
    ];
    for (at, (replicas, strategy, [new, a, b], expected)) in cases.into_iter().enumerate() {
        let mut objects = vec![
            deployment("d", replicas),
            of("d", set("new", 9, 3, new)),
            of("d", set("a", 1, 1, a)),
            of("d", set("b", 2, 2, b)),
        ];
        if let Body::Deployment(deployment) = objects[0].1.body_mut() {
            deployment.strategy = strategy;
        }
        let mut found = requests(&controller, &objects);
        found.sort();
        assert_eq!(found, expected, "case {at}");
        assert_cautious(&controller, &objects, secs(1_000));
        if let Body::Deployment(deployment) = objects[0].1.body_mut() {
            deployment.is_paused = true.into();
        }
        assert_eq!(requests(&controller, &objects), [""; 0], "paused, case {at}");
    }
}

#[test]
fn daemon_sets_adopted_revisions_of_all_namespaces_before_1_23() {
    let revision = |namespace: &str, name: &str| {
        let body = ControllerRevision { revision: 1.into() };
        let record = object(namespace, name, Body::ControllerRevision(body)).label("app", "web");
        (Resource::ControllerRevisions, record)
    };
    let set = DaemonSet {
        selector: selector("web"),
        revision_history_limit: Some(10).into(),
        ..DaemonSet::default()
    };
    let objects = vec![
        (Resource::DaemonSets, object("shop", "s", Body::DaemonSet(set))),
        revision("other", "far"),
        revision("shop", "near"),
        of("gone", revision("shop", "taken")),
    ];
    for (minor, expected) in [(20, &["+far", "+near"][..]), (23, &["+near"])] {
        let controller = DaemonSetHistory::new(version(minor));
        let mut known = cache(&controller, objects.clone());
        let mut keys = Vec::new();
        controller.keys(&known, &mut keys);
        let requests = crate::support::run_keys(&controller, &mut known, secs(0), &keys);
        assert_eq!(short(requests), expected, "1.{minor}");
        assert_cautious(&controller, &objects, secs(0));
        // Only a revision of its own namespace brings about a sync.
        for (at, count) in [(1, 0), (2, 1), (3, 0)] {
            let (resource, record) = &objects[at];
            let change = CacheChange {
                resource: *resource,
                key: &Key::from(&record.meta),
                old: None,
                new: Some(record),
            };
            let mut keys = Vec::new();
            controller.affected(&known, &change, &mut keys);
            keys.retain(|key| &*key.name == "s");
            assert_eq!(keys.len(), count, "{}", record.meta.name);
        }
    }
}

#[test]
fn a_pod_that_loses_its_owner_brings_about_a_sync_of_those_that_select_it() {
    let controller = ReplicaSetPods::new(version(34));
    let known = cache(&controller, vec![replica_set("b", 2), replica_set("c", 2)]);
    let keys = |old: Option<&Object>, new: Option<&Object>| {
        let (_, either) = new.or(old).expect("a change");
        let change = CacheChange {
            resource: Resource::Pods,
            key: &Key::from(&either.meta),
            old: old.map(|(_, record)| record),
            new: new.map(|(_, record)| record),
        };
        let mut keys = Vec::new();
        controller.affected(&known, &change, &mut keys);
        keys.sort();
        keys.dedup();
        let names = keys.iter().map(|key| &*key.name);
        names.collect::<Vec<_>>().concat()
    };
    let orphan = pod("p", ready(1));
    let owned = of("a", pod("p", ready(1)));
    let mut terminating = owned.clone();
    terminating.1 = terminating.1.terminating(1);
    assert_eq!(keys(Some(&owned), Some(&orphan)), "abc");
    assert_eq!(keys(None, Some(&orphan)), "bc");
    assert_eq!(keys(Some(&orphan), Some(&orphan)), "", "nothing has changed");
    assert_eq!(keys(None, Some(&owned)), "a");
    assert_eq!(
        keys(Some(&owned), Some(&terminating)),
        "",
        "the removal of a pod causes no surplus"
    );
    assert_eq!(keys(Some(&owned), None), "");
}
