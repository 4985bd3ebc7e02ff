//! StatefulSets and their revisions.

use super::*;

const HASH: &str = "controller.kubernetes.io/hash";

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn set(spec: Value) -> Value {
    let base = json!({
        "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db:2"),
    });
    object(
        Kind::StatefulSet,
        "db",
        json!({"metadata": {"generation": 7}, "spec": merged(&base, spec)}),
    )
}

fn revision(name: &str, image: &str, number: u64) -> Value {
    let mut data = template(image);
    data["$patch"] = "replace".into();
    let labels = json!({"app": "db"});
    let fields =
        json!({"metadata": {"labels": labels}, "data": {"spec": {"template": data}}, "revision": number});
    controlled(&set(json!({})), object(Kind::Revision, name, fields))
}

fn owned(pod: Value, revision: &str) -> Value {
    let labels = json!({"metadata": {"labels": {"app": "db", "controller-revision-hash": revision}}});
    controlled(&set(json!({})), merged(&pod, labels))
}

/// A pod of the update revision that is available.
fn ready(name: &str) -> Value {
    owned(ready_pod(name, 50), "new")
}

fn world(spec: Value, objects: &[Value]) -> World {
    let revisions = [revision("old", "db:1", 1), revision("new", "db:2", 2)];
    let current = json!({"status": {"currentRevision": "old"}});
    World::new(
        [merged(&set(spec), current)]
            .into_iter()
            .chain(revisions)
            .chain(objects.iter().cloned()),
    )
}

/// The sync without its status.
fn actions(world: &World) -> Vec<String> {
    let mut lines = world.sync(Kind::StatefulSet, "db").lines;
    for line in &mut lines {
        let text = line.strip_prefix("statefulset-controller: ").unwrap();
        *line = text[..text.find(" (").unwrap()].to_owned();
    }
    lines.retain(|line| !line.starts_with("status"));
    lines
}

#[test]
fn pods_are_created_one_after_the_other_unless_in_parallel() {
    let parallel = json!({"podManagementPolicy": "Parallel"});
    let ready_later = json!({"minReadySeconds": 60});
    let old = |name| owned(ready_pod(name, 50), "old");
    let unready = |name| owned(pod_in(name, "Running"), "new");
    let pending = owned(
        merged(&ready_pod("db-0", 50), json!({"status": {"phase": "Pending"}})),
        "new",
    );
    for (spec, pods, expected) in [
        (json!({}), vec![], vec!["create pod/db-0"]),
        (json!({}), vec![ready("db-0")], vec!["create pod/db-1"]),
        (json!({}), vec![unready("db-0")], vec![]),
        (json!({}), vec![pending], vec![]),
        (ready_later, vec![ready("db-0")], vec![]),
        (
            json!({"minReadySeconds": 50}),
            vec![ready("db-0")],
            vec!["create pod/db-1"],
        ),
        (json!({}), vec![deleting(ready("db-0"))], vec![]),
        (json!({}), vec![ready("db-1")], vec!["create pod/db-0"]),
        (
            parallel.clone(),
            vec![],
            vec!["create pod/db-0", "create pod/db-1"],
        ),
        (parallel.clone(), vec![unready("db-0")], vec!["create pod/db-1"]),
        (
            json!({"ordinals": {"start": 3}}),
            vec![ready("db-3")],
            vec!["create pod/db-4"],
        ),
        // Ended pods are replaced.
        (
            json!({}),
            vec![owned(pod_in("db-0", "Failed"), "new")],
            vec!["delete pod/db-0"],
        ),
        (
            json!({}),
            vec![owned(pod_in("db-0", "Succeeded"), "new")],
            vec!["delete pod/db-0"],
        ),
        (
            json!({}),
            vec![deleting(owned(pod_in("db-0", "Failed"), "new"))],
            vec![],
        ),
        (
            parallel.clone(),
            vec![owned(pod_in("db-0", "Failed"), "new"), ready("db-2")],
            vec!["delete pod/db-0", "create pod/db-1"],
        ),
        // Pods are deleted from the highest ordinal down, the next one when the last one has been removed.
        (
            json!({"replicas": 0}),
            vec![ready("db-0"), ready("db-1")],
            vec!["delete pod/db-1"],
        ),
        (
            json!({"replicas": 0}),
            vec![ready("db-0"), deleting(ready("db-1"))],
            vec![],
        ),
        (
            json!({"replicas": 0}),
            vec![unready("db-0"), unready("db-1")],
            vec![],
        ),
        (
            json!({"replicas": 0}),
            vec![ready("db-0"), unready("db-1")],
            vec!["delete pod/db-1"],
        ),
        (
            json!({"replicas": 0}),
            vec![unready("db-0"), ready("db-1")],
            vec!["delete pod/db-1"],
        ),
        (
            json!({"replicas": 1}),
            vec![unready("db-0"), ready("db-1")],
            vec![],
        ),
        (
            json!({"replicas": 1}),
            vec![ready("db-0"), ready("db-1")],
            vec!["delete pod/db-1"],
        ),
        (
            merged(&parallel, json!({"replicas": 0})),
            vec![unready("db-0"), deleting(ready("db-1")), ready("db-2")],
            vec!["delete pod/db-2", "delete pod/db-0"],
        ),
        (
            json!({"replicas": 1, "ordinals": {"start": 1}}),
            vec![ready("db-0"), ready("db-1")],
            vec!["delete pod/db-0"],
        ),
        // A rolling update starts at the highest ordinal.
        (json!({}), vec![old("db-0"), old("db-1")], vec!["delete pod/db-1"]),
        (
            json!({}),
            vec![old("db-0"), ready("db-1")],
            vec!["delete pod/db-0"],
        ),
        (json!({}), vec![ready("db-0"), ready("db-1")], vec![]),
        (
            json!({"updateStrategy": {"type": "OnDelete"}}),
            vec![old("db-0"), old("db-1")],
            vec![],
        ),
        (parallel.clone(), vec![old("db-0"), deleting(old("db-1"))], vec![]),
        (parallel.clone(), vec![old("db-0"), unready("db-1")], vec![]),
        (
            json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}),
            vec![old("db-0"), ready("db-1")],
            vec![],
        ),
        (
            json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}),
            vec![old("db-0"), old("db-1")],
            vec!["delete pod/db-1"],
        ),
        (
            json!({"ordinals": {"start": 1}, "updateStrategy": {"rollingUpdate": {"partition": 1}}}),
            vec![old("db-1"), old("db-2")],
            vec!["delete pod/db-2"],
        ),
        (
            json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}),
            vec![old("db-0"), old("db-1")],
            vec!["delete pod/db-1", "delete pod/db-0"],
        ),
        (
            json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}),
            vec![old("db-0"), old("db-1"), old("db-2")],
            vec!["delete pod/db-2", "delete pod/db-1"],
        ),
        (
            json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}}}),
            vec![old("db-0"), old("db-1"), ready("db-2")],
            vec!["delete pod/db-1", "delete pod/db-0"],
        ),
    ] {
        assert_eq!(actions(&world(spec.clone(), &pods)), expected, "{spec} {pods:?}");
    }
    let deleted = World::new([deleting(set(json!({})))]);
    deleted.expect(Kind::StatefulSet, "db", &[]);
    let many = world(merged(&parallel, json!({"replicas": 501})), &[]);
    assert_eq!(actions(&many).len(), 500);
}

#[test]
fn succeeded_pods_are_replaced_since_1_28() {
    for (minor, replaces) in [(27, false), (28, true)] {
        let pod = owned(pod_in("db-0", "Succeeded"), "new");
        let version = KubernetesVersion::new(minor, 0).unwrap();
        let world = World::of(version, [set(json!({})), revision("new", "db:2", 2), pod]);
        let expected: &[&str] = if replaces { &["delete pod/db-0"] } else { &[] };
        assert_eq!(actions(&world), expected, "1.{minor}");
    }
}

#[test]
fn a_pod_has_the_names_labels_and_volumes_of_its_ordinal() {
    let claims = json!([{
        "metadata": {"name": "data", "labels": {"tier": "db"}, "annotations": {"team": "shop"}},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }, {"metadata": {"name": "log"}, "spec": {}}]);
    let mut template = template("db:2");
    template["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]);
    let spec = json!({"template": template, "volumeClaimTemplates": claims});
    let mut new = revision("new", "db:2", 2);
    new["data"]["spec"]["template"]["spec"]["volumes"] = template["spec"]["volumes"].clone();
    let world = World::new([set(spec), new]);
    let synced = world.expect(
        Kind::StatefulSet,
        "db",
        &[
            "statefulset-controller: create persistentvolumeclaim/data-db-0 (SuccessfulCreate): pod/db-0 needs it",
            "statefulset-controller: create persistentvolumeclaim/log-db-0 (SuccessfulCreate): pod/db-0 needs it",
            "statefulset-controller: create pod/db-0 (SuccessfulCreate): statefulset/db has no pod of ordinal 0",
        ],
    );
    let expected = json!({
        "metadata": {
            "name": "data-db-0", "labels": {"tier": "db", "app": "db"}, "annotations": {"team": "shop"},
        },
        "spec": {"accessModes": ["ReadWriteOnce"]},
    });
    assert_eq!(synced.objects[0], expected);
    let expected = json!({"metadata": {"name": "log-db-0", "labels": {"app": "db"}}, "spec": {}});
    assert_eq!(synced.objects[1], expected);
    let claim = |name: &str| json!({"claimName": name, "readOnly": false});
    let labels = json!({
        "app": "db", "controller-revision-hash": "new", "statefulset.kubernetes.io/pod-name": "db-0",
        "apps.kubernetes.io/pod-index": "0",
    });
    let expected = json!({
        "metadata": {"name": "db-0", "labels": labels, "ownerReferences": [reference_to(&set(json!({})))]},
        "spec": {
            "containers": [{"name": "c", "image": "db:2"}],
            "hostname": "db-0",
            "subdomain": "db",
            "volumes": [
                {"name": "data", "persistentVolumeClaim": claim("data-db-0")},
                {"name": "log", "persistentVolumeClaim": claim("log-db-0")},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
    });
    assert_eq!(synced.objects[2], expected);

    for (minor, has_index) in [(27, false), (28, true)] {
        let version = KubernetesVersion::new(minor, 0).unwrap();
        let world = World::of(version, [set(json!({})), revision("new", "db:2", 2)]);
        let synced = world.sync(Kind::StatefulSet, "db");
        let labels = &synced.objects[0]["metadata"]["labels"];
        assert_eq!(!labels["apps.kubernetes.io/pod-index"].is_null(), has_index);
        assert!(synced.objects[0]["spec"].get("volumes").is_none());
    }
}

#[test]
fn pods_below_the_partition_are_of_the_current_revision() {
    for (spec, ordinal, expected) in [
        (json!({}), 0, "new"),
        (
            json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}),
            0,
            "old",
        ),
        (
            json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}),
            1,
            "new",
        ),
        (
            json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}),
            0,
            "new",
        ),
    ] {
        let pods = if ordinal == 1 {
            vec![owned(ready_pod("db-0", 50), "old")]
        } else {
            vec![]
        };
        let synced = world(spec.clone(), &pods).sync(Kind::StatefulSet, "db");
        let pod = &synced.objects[0];
        assert_eq!(
            pod["metadata"]["labels"]["controller-revision-hash"], expected,
            "{spec}"
        );
        let image = if expected == "old" { "db:1" } else { "db:2" };
        assert_eq!(pod["spec"]["containers"][0]["image"], image);
    }
}

#[test]
fn a_claim_of_a_former_pod_delays_the_next_one() {
    let deletes = json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}});
    let retains = json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}});
    let claim = object(Kind::Claim, "data-db-0", json!({}));
    let owned_by = |kind: &str, name: &str| {
        let reference = json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": "u1"});
        merged(&claim, json!({"metadata": {"ownerReferences": [reference]}}))
    };
    for (policy, claim, creates) in [
        (json!({}), claim.clone(), true),
        (json!({}), deleting(claim.clone()), false),
        (json!({}), owned_by("Pod", "db-0"), true),
        (retains, owned_by("Pod", "db-0"), true),
        (deletes.clone(), owned_by("Pod", "db-0"), false),
        (deletes.clone(), owned_by("Pod", "db-1"), true),
        (deletes, owned_by("StatefulSet", "db-0"), true),
    ] {
        let spec = merged(
            &policy,
            json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}),
        );
        let lines = actions(&world(spec, std::slice::from_ref(&claim)));
        let expected: &[&str] = if creates { &["create pod/db-0"] } else { &[] };
        assert_eq!(lines, expected, "{policy} {claim}");
    }
}

#[test]
fn pods_and_revisions_are_adopted_and_released() {
    let orphan = |kind, name: &str| object(kind, name, json!({"metadata": {"labels": {"app": "db"}}}));
    let other = |name: &str| {
        controlled(
            &set(json!({})),
            object(Kind::Pod, name, json!({"metadata": {"labels": {"app": "x"}}})),
        )
    };
    let adopted = |what: &str| {
        format!(
            "statefulset-controller: patch {what} (Adopted): it has no controller, and a selector matches it"
        )
    };
    let released =
        "statefulset-controller: patch pod/db-1 (Released): its owner's selector does not match it";
    let world = World::new([set(json!({})), orphan(Kind::Revision, "r")]);
    let synced = world.expect(Kind::StatefulSet, "db", &[&adopted("controllerrevision/r")]);
    assert_eq!(
        synced.objects[0]["metadata"]["ownerReferences"],
        json!([reference_to(&set(json!({})))])
    );
    let world = World::new([
        set(json!({})),
        orphan(Kind::Pod, "db-0"),
        orphan(Kind::Pod, "web-0"),
        orphan(Kind::Pod, "db-x"),
        orphan(Kind::Pod, "db-"),
        object(Kind::Pod, "db-2", json!({})),
        deleting(orphan(Kind::Pod, "db-3")),
        other("db-1"),
    ]);
    let synced = world.expect(Kind::StatefulSet, "db", &[&adopted("pod/db-0"), released]);
    assert!(synced.objects[1]["metadata"]["ownerReferences"].is_null());
    let lines = |selector: Value| {
        let set = merged(&set(json!({})), json!({"spec": {"selector": selector}}));
        World::new([set, orphan(Kind::Pod, "db-0"), revision("new", "db:2", 1)])
            .sync(Kind::StatefulSet, "db")
            .lines
    };
    assert!(
        lines(json!(null)).iter().all(|line| !line.contains("Adopted")),
        "an empty selector selects nothing"
    );
}

#[test]
fn a_stateful_set_reports_its_pods() {
    let mut world = world(
        json!({"replicas": 3, "minReadySeconds": 10, "podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": {"partition": 3}}}),
        &[
            owned(ready_pod("db-0", 95), "old"),
            ready("db-1"),
            owned(pod_in("db-2", "Pending"), "new"),
        ],
    );
    let line = "statefulset-controller: status statefulset/db (StatusChanged): its status has changed";
    let synced = world.expect(Kind::StatefulSet, "db", &[line]);
    assert_eq!(synced.due, Some(at(105)));
    let expected = json!({
        "replicas": 3, "readyReplicas": 2, "currentReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1,
        "observedGeneration": 7, "currentRevision": "old", "updateRevision": "new", "collisionCount": 0,
    });
    assert_eq!(synced.objects[0]["status"], expected);
    world.play(Kind::StatefulSet, "db");
    world.expect(Kind::StatefulSet, "db", &[]);

    // The update revision becomes the current one when all pods are of it and ready.
    let unready = |name| owned(pod_in(name, "Running"), "new");
    for (spec, pods, current) in [
        (json!({}), [ready("db-0"), ready("db-1")], "new"),
        (
            json!({"updateStrategy": {"type": "OnDelete"}}),
            [ready("db-0"), ready("db-1")],
            "old",
        ),
        (
            json!({"podManagementPolicy": "Parallel"}),
            [ready("db-0"), unready("db-1")],
            "old",
        ),
        (
            json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}}),
            [ready("db-0"), owned(ready_pod("db-1", 50), "old")],
            "old",
        ),
    ] {
        let status = self::world(spec.clone(), &pods).status(Kind::StatefulSet, "db");
        assert_eq!(status["currentRevision"], current, "{spec}");
    }
    for (minor, has_available) in [(21, false), (22, true)] {
        let version = KubernetesVersion::new(minor, 0).unwrap();
        let world = World::of(version, [set(json!({"replicas": 0})), revision("new", "db:2", 2)]);
        let status = world.status(Kind::StatefulSet, "db");
        assert_eq!(
            status.get("availableReplicas").is_some(),
            has_available,
            "1.{minor}"
        );
        assert_eq!(
            (&status["replicas"], status.get("readyReplicas")),
            (&json!(0), None)
        );
    }
}

#[test]
fn a_new_template_gets_a_revision() {
    let owner = merged(
        &set(json!({})),
        json!({"metadata": {"annotations": {"team": "shop"}}}),
    );
    let mut data = template("db:2");
    data["$patch"] = "replace".into();
    let data = json!({"spec": {"template": data}});
    let hash = revisions::hash(&data, 0);
    let line = |name: &str| {
        format!(
            "statefulset-controller: create controllerrevision/{name} (RevisionCreated): db has a new template"
        )
    };
    let name = format!("db-{hash}");
    let expected = json!({
        "metadata": {
            "name": name, "labels": {"app": "db", HASH: hash}, "annotations": {"team": "shop"},
            "ownerReferences": [reference_to(&owner)],
        },
        "data": data,
        "revision": 5,
    });
    let world = World::new([
        owner.clone(),
        revision("old", "db:1", 4),
        revision("older", "db:0", 3),
    ]);
    let synced = world.expect(Kind::StatefulSet, "db", &[&line(&name)]);
    assert_eq!(synced.objects[0], expected);
    // A name that is taken counts as a collision.
    let next = format!("db-{}", revisions::hash(&data, 1));
    let taken = [name.as_str(), next.as_str()].map(|name| object(Kind::Revision, name, json!({})));
    let world = World::new([owner.clone(), taken[0].clone()]);
    assert_eq!(world.sync(Kind::StatefulSet, "db").lines, [line(&next)]);
    let last = format!("db-{}", revisions::hash(&data, 2));
    let world = World::new([owner.clone()].into_iter().chain(taken.clone()));
    let synced = world.expect(Kind::StatefulSet, "db", &[&line(&last)]);
    assert_eq!(synced.objects[0]["revision"], 1);
    let world = World::new([
        merged(&owner, json!({"status": {"collisionCount": 1}})),
        taken[0].clone(),
    ]);
    assert_eq!(world.sync(Kind::StatefulSet, "db").lines, [line(&next)]);
    let all = (0..20).map(|collisions| format!("db-{}", revisions::hash(&data, collisions)));
    let all: Vec<Value> = all.map(|name| object(Kind::Revision, &name, json!({}))).collect();
    let world = World::new([owner].into_iter().chain(all));
    let sixteenth = format!("db-{}", revisions::hash(&data, 16));
    assert_eq!(
        world.sync(Kind::StatefulSet, "db").lines,
        [line(&sixteenth)],
        "no more than 16 names are tried"
    );
}

#[test]
fn a_former_template_makes_its_revision_the_newest() {
    let world = World::new([
        set(json!({})),
        revision("new", "db:2", 1),
        revision("old", "db:1", 2),
    ]);
    let line = "statefulset-controller: update controllerrevision/new (RolledBack): it has the present template again";
    let synced = world.expect(Kind::StatefulSet, "db", &[line]);
    assert_eq!(synced.objects[0]["revision"], 3);
}

#[test]
fn hashes_are_those_of_fnv_1a_in_the_alphabet_of_names() {
    for (text, hash) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
        assert_eq!(revisions::fnv(text.as_bytes()), hash);
    }
    // Of `{}` and `{}1`: 1415952421 and another number, whose digits are letters of the alphabet.
    let letters = |number: u32| -> String {
        let alphabet: Vec<char> = "bcdfghjklmnpqrstvwxz2456789".chars().collect();
        let digits = number.to_string();
        digits
            .bytes()
            .map(|digit| alphabet[usize::from(digit) % 27])
            .collect()
    };
    assert_eq!(revisions::hash(&json!({}), 0), letters(1_415_952_421));
    assert_eq!(revisions::hash(&json!({}), 0), "5859f96865");
    assert_eq!(revisions::hash(&json!({}), 1), "846dbd44b4");
}
