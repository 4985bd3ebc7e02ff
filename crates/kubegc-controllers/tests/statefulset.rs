//! Owners of the claims of StatefulSets.

use crate::common::{cache, from_cache, key, play, reconcile, record};
use kubegc_controllers::{
    BatchPlanner, Cache, Change, Context, Controller, Deadlines, FieldChange, Request, Response,
    StatefulSetClaims, Step, Wire,
};
use kubegc_core::{
    KubernetesVersion, ObjectMeta, Planner, StoreError, Timestamp,
    record::{Field, Record, Resource},
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

const CONFLICT: &str = "ConflictingController";

fn release(text: &str) -> StatefulSetClaims {
    StatefulSetClaims::new(text.parse().expect("a release in range"))
}

fn latest() -> StatefulSetClaims {
    StatefulSetClaims::new(KubernetesVersion::LATEST)
}

/// The StatefulSet `shop/web` with claims from the template `data`.
fn set(when_scaled: &str, when_deleted: &str, replicas: i32) -> Value {
    json!({"kind": "StatefulSet", "metadata": {"namespace": "shop", "name": "web", "uid": "uid-set"}, "spec": {
        "replicas": replicas,
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": when_scaled, "whenDeleted": when_deleted},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}})
}

fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": "shop", "name": name, "ownerReferences": [of_set()]}})
}

fn claim(name: &str, owners: &[Value]) -> Value {
    json!({"kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "shop", "name": name, "ownerReferences": owners}})
}

fn reference(kind: &str, name: &str, uid: &str, is_controller: bool) -> Value {
    let api_version = match kind {
        "StatefulSet" => "apps/v1",
        "Pod" => "v1",
        _ => "example.com/v1",
    };
    let mut reference = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
    if is_controller {
        (reference["controller"], reference["blockOwnerDeletion"]) = (true.into(), true.into());
    }
    reference
}

fn of_set() -> Value {
    reference("StatefulSet", "web", "uid-set", true)
}

fn of_pod() -> Value {
    reference("Pod", "web-0", "uid-web-0", true)
}

fn boss() -> Value {
    reference("Operator", "boss", "uid-boss", true)
}

/// `data-web-0`, its pod and its StatefulSet.
fn trio(set: Value, owners: &[Value]) -> Vec<Value> {
    vec![set, pod("web-0"), claim("data-web-0", owners)]
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_secs(minute * 60)
}

/// The writes of owners, such as `data-web-0: uid-set!`, with a mark for controllers, and the Events.
fn written(requests: &[Request]) -> Vec<String> {
    let lines = requests.iter().map(|request| match request {
        Request::Write(write) => {
            let [FieldChange::OwnerReferences(owners)] = &*write.changes else {
                panic!("only owners change: {write:?}");
            };
            let owners = owners.iter().map(|owner| match owner.controller {
                Some(true) => format!("{}!", owner.uid),
                _ => owner.uid.to_string(),
            });
            format!("{}: {}", write.object.name, owners.collect::<Vec<_>>().join(" "))
        }
        Request::Event(event) => format!("{} {}", event.object.name, event.reason),
        other => panic!("neither read nor deleted: {other}"),
    });
    lines.collect()
}

fn requests(
    steps: &kubegc_controllers::Steps,
    mut respond: impl FnMut(&Request) -> Response,
) -> Vec<Request> {
    let (mut sequence, mut response, mut requests) = (steps.begin(), None, Vec::new());
    while let Step::Perform { request, .. } = sequence.next(response.take()) {
        response = Some(respond(&request));
        requests.push(request);
    }
    requests
}

/// The writes for `shop/web`, then the kept and undetermined objects.
fn outcome(controller: &StatefulSetClaims, cache: &Cache) -> Vec<String> {
    let decision = reconcile(controller, cache, "shop/web", Timestamp::EPOCH);
    let steps = decision.steps.iter();
    let mut lines: Vec<String> = steps
        .flat_map(|steps| written(&requests(steps, from_cache(cache))))
        .collect();
    lines.extend(decision.kept.iter().map(|kept| kept.reason.code().to_owned()));
    lines.extend(decision.unknown.iter().map(|unknown| unknown.reason.to_string()));
    lines
}

#[track_caller]
fn check_in(controller: &StatefulSetClaims, objects: &[Value], expected: &[&str]) {
    assert_eq!(outcome(controller, &cache(controller, objects)), expected);
}

#[track_caller]
fn check(objects: &[Value], expected: &[&str]) {
    check_in(&latest(), objects, expected);
}

/// The resulting owners of `data-web-0`; `None` if they stay.
#[track_caller]
fn becomes(set: &Value, owners: &[Value], expected: Option<&str>) {
    let expected = expected.map_or("OwnersUpToDate".to_owned(), |owners| {
        format!("data-web-0: {owners}")
    });
    check(&trio(set.clone(), owners), &[&expected]);
}

#[test]
fn l7_3_every_policy_in_range_and_scaled_down() {
    for (scaled, deleted, replicas, wanted) in [
        ("Retain", "Retain", 1, ""),
        ("Retain", "Retain", 0, ""),
        ("Retain", "Delete", 1, "uid-set!"),
        ("Retain", "Delete", 0, "uid-set!"),
        ("Delete", "Retain", 1, ""),
        ("Delete", "Retain", 0, "uid-web-0!"),
        ("Delete", "Delete", 1, "uid-set!"),
        ("Delete", "Delete", 0, "uid-web-0!"),
        // L7.11: one text that is not known makes both halves Retain.
        ("Burn", "Delete", 0, ""),
        ("Delete", "Burn", 0, ""),
        ("", "Delete", 0, ""),
    ] {
        for owners in [vec![], vec![of_set()], vec![of_pod()], vec![of_set(), of_pod()]] {
            let uids = owners.iter().filter_map(|owner| owner["uid"].as_str());
            let text = uids.map(|uid| format!("{uid}!")).collect::<Vec<_>>().join(" ");
            let expected = (text != wanted).then_some(wanted);
            becomes(&set(scaled, deleted, replicas), &owners, expected);
        }
    }
    let mut unset = set("Retain", "Retain", 0);
    unset["spec"]["persistentVolumeClaimRetentionPolicy"] = Value::Null;
    becomes(&unset, &[of_set()], Some(""));
}

#[test]
fn l7_1_ordinals_count_from_the_first() {
    for (first, replicas, ordinal, is_scaled_down) in [
        (5, 2, 4, true),
        (5, 2, 5, false),
        (5, 2, 6, false),
        (5, 2, 7, true),
        (0, 1, 0, false),
        (0, 1, 1, true),
        (i32::MAX, i32::MAX, i32::MAX, false),
        (0, -1, 0, true),
    ] {
        let mut set = set("Delete", "Retain", replicas);
        set["spec"]["ordinals"]["start"] = first.into();
        let objects = [
            set,
            pod(&format!("web-{ordinal}")),
            claim(&format!("data-web-{ordinal}"), &[]),
        ];
        let written = format!("data-web-{ordinal}: uid-web-{ordinal}!");
        check(
            &objects,
            &[if is_scaled_down {
                &written
            } else {
                "OwnersUpToDate"
            }],
        );
    }
}

#[test]
fn l7_4_claims_of_a_former_pod_or_set_are_kept() {
    let pod = reference("Pod", "web-0", "uid-former", true);
    let set_ = reference("StatefulSet", "web", "uid-former", false);
    for scaled in ["Retain", "Delete"] {
        for owners in [
            vec![pod.clone()],
            vec![of_set(), pod.clone()],
            vec![set_.clone()],
            vec![set_.clone(), of_set()],
        ] {
            check(&trio(set(scaled, "Delete", 1), &owners), &["FormerOwner"]);
        }
    }
    // Only the first reference of the name decides. Behind it, a former one is an unexpected controller.
    let both = trio(set("Retain", "Delete", 1), &[of_set(), set_]);
    check(&both, &["web ConflictingController", "data-web-0: "]);
    becomes(&set("Retain", "Delete", 1), &[], Some("uid-set!"));
}

#[test]
fn l7_5_to_l7_7_another_controller_is_respected_and_reported() {
    let delete = set("Retain", "Delete", 1);
    check(
        &trio(delete.clone(), &[of_set(), boss()]),
        &["web ConflictingController", "data-web-0: uid-boss!"],
    );
    check(&trio(delete.clone(), &[boss()]), &[CONFLICT]);
    // With `Retain` for both it is expected, and with an unknown policy it is not.
    check(
        &trio(set("Retain", "Retain", 1), &[of_set(), boss()]),
        &["data-web-0: uid-boss!"],
    );
    check(&trio(set("Retain", "Retain", 1), &[boss()]), &["OwnersUpToDate"]);
    check(
        &trio(set("Burn", "Retain", 1), &[of_set(), boss()]),
        &["web ConflictingController", "data-web-0: uid-boss!"],
    );
    // The Event comes with any write for the pod, even if the claim itself is kept: for another controller,
    // or as a stale one.
    let mut two = delete;
    two["spec"]["volumeClaimTemplates"] =
        json!([{"metadata": {"name": "data"}}, {"metadata": {"name": "logs"}}]);
    let former = reference("Pod", "web-0", "uid-former", true);
    for (owners, code) in [(boss(), CONFLICT), (former, "FormerOwner")] {
        let mut objects = trio(two.clone(), &[owners]);
        objects.push(claim("logs-web-0", &[]));
        check(
            &objects,
            &["web ConflictingController", "logs-web-0: uid-set!", code],
        );
        objects.pop();
        objects.push(claim("logs-web-0", &[of_set()]));
        check(&objects, &[code, "OwnersUpToDate"]);
        // The entry that upstream calls after it created claims reports it always.
        let controller = latest();
        let cache = cache(&controller, &objects);
        let get = |resource, name: &str| cache.get(resource, &key(name)).expect("an object");
        let claims =
            ["shop/data-web-0", "shop/logs-web-0"].map(|name| get(Resource::PersistentVolumeClaims, name));
        let (set, pod) = (
            get(Resource::StatefulSets, "shop/web"),
            &get(Resource::Pods, "shop/web-0").meta,
        );
        let cx = Context {
            cache: &cache,
            now: Timestamp::EPOCH,
            wire: Wire::AsUpstream,
            deadlines: &Deadlines::new(),
            cloud: None,
            failures: 0,
        };
        assert_eq!(controller.claims_match(set, pod, &claims), Ok(true));
        let decision = controller.update_pod_claims(&cx, set, pod, &claims);
        let lines = play(&decision.steps.expect("an Event"), from_cache(&cache));
        let text = "record event ConflictingController for statefulset.apps/web -n shop: PersistentVolumeClaim \
                    data-web-0 has a conflicting OwnerReference that acts as a manging controller, the retention \
                    policy is ignored for this claim";
        assert_eq!(lines, [text, "done"]);
    }
}

#[test]
fn l7_6_our_references_are_replaced_and_others_stay_in_order() {
    let delete = set("Retain", "Delete", 1);
    let mut half = of_set();
    half["controller"] = false.into();
    let plain = reference("StatefulSet", "web", "uid-set", false);
    for wrong in [half, plain] {
        becomes(&delete, &[wrong], Some("uid-set!"));
    }
    let mut not_blocking = of_set();
    not_blocking["blockOwnerDeletion"] = Value::Null;
    becomes(&delete, &[not_blocking], None);
    let backup = |name: &str| reference("Backup", name, name, false);
    becomes(
        &set("Delete", "Delete", 0),
        &[backup("b"), of_set(), backup("a")],
        Some("b a uid-web-0!"),
    );
    // The same name in another group is another object.
    let mut namesake = reference("StatefulSet", "web", "uid-x", false);
    namesake["apiVersion"] = "example.com/v1".into();
    becomes(&delete, &[namesake], Some("uid-x uid-set!"));
    // No reference is added next to one with the same uid, and upstream writes the unchanged object.
    let odd = reference("Odd", "x", "uid-set", false);
    becomes(&delete, std::slice::from_ref(&odd), Some("uid-set"));
    becomes(&set("Retain", "Retain", 1), &[odd], Some("uid-set"));
}

#[test]
fn l7_10_a_stale_claim_blocks_its_pod() {
    let former = || reference("Pod", "web-0", "uid-former", true);
    for (scaled, replicas, owners, is_blocked) in [
        ("Delete", 1, vec![former()], true),
        ("Delete", 1, vec![of_set(), former()], true),
        ("Burn", 1, vec![former()], true),
        ("Retain", 1, vec![former()], false),
        ("Delete", 0, vec![former()], false),
        ("Delete", 1, vec![], false),
        ("Delete", 1, vec![of_set()], false),
    ] {
        let mut objects = trio(set(scaled, "Retain", replicas), &owners);
        objects.remove(1);
        check(
            &objects,
            &[if is_blocked { "BlocksPodCreation" } else { "NoPod" }],
        );
    }
    // By kind and name, in the older algorithm by name alone.
    let (_, set) = record(set("Delete", "Retain", 1));
    let pod = ObjectMeta::new("shop", "web-0", "");
    let stale = |controller: &StatefulSetClaims, owner: Value| {
        let (_, claim) = record(claim("data-web-0", &[of_set(), owner]));
        controller.pod_claim_is_stale(&set, &pod, &[&claim])
    };
    let namesake = reference("Backup", "web-0", "uid-x", false);
    assert_eq!(stale(&latest(), namesake.clone()), Ok(false));
    assert_eq!(stale(&release("1.30"), namesake), Ok(true));
    assert_eq!(stale(&release("1.30"), boss()), Ok(false));
}

#[test]
fn l7_8_only_claims_of_existing_pods_are_reconciled() {
    let delete = || set("Delete", "Delete", 9);
    let strangers = [
        "data-web",
        "data-web-00",
        "data-web-+0",
        "data-web-99999999999",
        "data-web-",
        "logs-web-0",
    ];
    let mut objects = vec![delete(), pod("web-0")];
    objects.extend(strangers.map(|name| claim(name, &[])));
    check(&objects, &[]);
    check(&[delete(), pod("web-0"), claim("data-web-1", &[])], &["NoPod"]);
    let mut orphan = trio(delete(), &[]);
    orphan[1]["metadata"]["ownerReferences"] = json!([]);
    check(&orphan, &["NoPod"]);
    let mut elsewhere = trio(delete(), &[]);
    elsewhere[2]["metadata"]["namespace"] = "other".into();
    check(&elsewhere, &[]);
    let mut terminating = trio(delete(), &[]);
    terminating[0]["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z".into();
    check(&terminating, &["Terminating"]);
    check_in(&release("1.26"), &trio(delete(), &[]), &["Disabled"]);
}

#[test]
fn l7_9_pods_in_range_come_first_and_the_first_error_ends_it() {
    let mut set = set("Delete", "Delete", 2);
    set["spec"]["volumeClaimTemplates"] =
        json!([{"metadata": {"name": "logs"}}, {"metadata": {"name": "data"}}]);
    let mut objects = vec![set, claim("logs-web-0", &[])];
    for ordinal in 0..4 {
        objects.push(pod(&format!("web-{ordinal}")));
        objects.push(claim(&format!("data-web-{ordinal}"), &[]));
    }
    let all = [
        "logs-web-0: uid-set!",
        "data-web-0: uid-set!",
        "data-web-1: uid-set!",
        "data-web-3: uid-web-3!",
        "data-web-2: uid-web-2!",
    ];
    check(&objects, &all);
    for (controller, text) in [(latest(), "could"), (release("1.30"), "Could")] {
        let cache = cache(&controller, &objects);
        let steps = reconcile(&controller, &cache, "shop/web", at(0))
            .steps
            .expect("writes");
        let lines = play(&steps, |request| match request.object() {
            Some(object) if *object.name == *"data-web-0" => Response::Failed(StoreError::NotFound),
            _ => Response::Written(None),
        });
        assert_eq!(lines.len(), 3);
        let expected = format!(
            "failed, retried=true: {text} not update claim data-web-0 for delete policy ownerRefs: \
             persistentvolumeclaims \"data-web-0\" not found"
        );
        assert_eq!(lines[2], expected);
    }
}

#[test]
fn l7_12_up_to_about_1_30_references_are_plain_and_match_by_uid() {
    let old = release("1.30");
    let plain = |kind, name, uid| reference(kind, name, uid, false);
    let former = || plain("StatefulSet", "web", "uid-former");
    for (scaled, deleted, replicas, owners, expected) in [
        ("Retain", "Delete", 1, vec![], Some("uid-set")),
        (
            "Retain",
            "Delete",
            1,
            vec![plain("StatefulSet", "web", "uid-set")],
            None,
        ),
        ("Retain", "Delete", 1, vec![of_set()], None),
        ("Retain", "Delete", 1, vec![boss()], Some("uid-boss! uid-set")),
        ("Retain", "Delete", 1, vec![former()], Some("uid-former uid-set")),
        (
            "Retain",
            "Retain",
            1,
            vec![former(), of_set()],
            Some("uid-former"),
        ),
        (
            "Delete",
            "Delete",
            0,
            vec![of_set(), boss()],
            Some("uid-boss! uid-web-0"),
        ),
        ("Retain", "Delete", 1, vec![of_set(), of_pod()], Some("uid-set!")),
        ("Retain", "Delete", 1, vec![plain("Odd", "x", "uid-set")], None),
    ] {
        let expected = expected.map_or("OwnersUpToDate".to_owned(), |owners| {
            format!("data-web-0: {owners}")
        });
        check_in(&old, &trio(set(scaled, deleted, replicas), &owners), &[&expected]);
    }
}

#[test]
fn unknown_facts_keep_the_claim() {
    let controller = latest();
    let known = trio(set("Delete", "Delete", 1), &[]);
    let of_set = |field: &str| format!("statefulset.apps/web -n shop: {field} could not be read");
    for (pointer, expected) in [
        ("/spec/replicas", of_set("spec.replicas")),
        ("/spec/ordinals", of_set("spec.ordinals.start")),
        (
            "/spec/persistentVolumeClaimRetentionPolicy",
            of_set("spec.persistentVolumeClaimRetentionPolicy"),
        ),
        ("/spec/volumeClaimTemplates", of_set("spec.volumeClaimTemplates")),
    ] {
        let mut objects = known.clone();
        let (parent, field) = pointer.rsplit_once('/').expect("a path");
        objects[0].pointer_mut(parent).expect("a parent")[field] = "hidden".into();
        check(&objects, &[&expected]);
    }
    // The range matters only where pods that are scaled down differ.
    let mut objects = trio(set("Retain", "Delete", 1), &[]);
    objects[0]["spec"]["replicas"] = "hidden".into();
    check(&objects, &["data-web-0: uid-set!"]);

    let metadata = |object: &str| format!("{object} -n shop: its metadata could not be read in full");
    let without_uid = |record: &mut Record| record.meta.uid = "".into();
    let unreadable = |record: &mut Record| *record = Record::unreadable(record.meta.clone());
    let unversioned = |record: &mut Record| record.meta.resource_version = "".into();
    type Edit = (&'static str, Resource, fn(&mut Record), String);
    let edits: [Edit; 6] = [
        (
            "web",
            Resource::StatefulSets,
            without_uid,
            metadata("statefulset.apps/web"),
        ),
        ("web-0", Resource::Pods, without_uid, metadata("pod/web-0")),
        ("web-0", Resource::Pods, unreadable, metadata("pod/web-0")),
        (
            "data-web-0",
            Resource::PersistentVolumeClaims,
            without_uid,
            metadata("persistentvolumeclaim/data-web-0"),
        ),
        (
            "data-web-0",
            Resource::PersistentVolumeClaims,
            unreadable,
            metadata("persistentvolumeclaim/data-web-0"),
        ),
        (
            "data-web-0",
            Resource::PersistentVolumeClaims,
            unversioned,
            "persistentvolumeclaim/data-web-0 -n shop: metadata.resourceVersion could not be read".to_owned(),
        ),
    ];
    for (name, resource, edit, expected) in edits {
        let mut cache = cache(&controller, &known);
        let key = key(&format!("shop/{name}"));
        let mut record = cache.get(resource, &key).cloned().expect("an object");
        edit(&mut record);
        cache.put(resource, &key, Some(record));
        assert_eq!(outcome(&controller, &cache), [expected]);
    }
    // Known objects suffice; unknown ones may exist.
    let mut cache = cache(&controller, &known);
    let unlisted = |resource: &str| format!("the list of {resource} is not complete: not listed");
    cache.set_listed(Resource::Pods, Err(StoreError::Unlisted));
    assert_eq!(outcome(&controller, &cache), ["data-web-0: uid-set!"]);
    cache.put(Resource::Pods, &key("shop/web-0"), None);
    assert_eq!(outcome(&controller, &cache), [unlisted("pods")]);
    cache.set_listed(Resource::PersistentVolumeClaims, Err(StoreError::Unlisted));
    assert_eq!(
        outcome(&controller, &cache)[0],
        unlisted("persistentvolumeclaims")
    );
}

#[test]
fn strict_writes_follow_reads_of_the_set_and_the_pods() {
    let controller = latest();
    let cache = cache(&controller, &trio(set("Retain", "Delete", 1), &[]));
    let cx = Context {
        cache: &cache,
        now: Timestamp::EPOCH,
        wire: Wire::Strict,
        deadlines: &Deadlines::new(),
        cloud: None,
        failures: 0,
    };
    let steps = controller
        .reconcile(&cx, &key("shop/web"))
        .steps
        .expect("a write");
    let lines = play(&steps, from_cache(&cache));
    assert_eq!(
        lines[..2],
        ["get pod/web-0 -n shop", "get statefulset.apps/web -n shop"]
    );
    assert!(lines[2].starts_with("update persistentvolumeclaim/data-web-0 -n shop uid=uid-data-web-0 rv=1 "));
    let (_, another) = record(pod("web-0"));
    let lines = play(&steps, |request| match request.to_string().contains("pod") {
        true => Response::Object(Box::new(Record::metadata_only(ObjectMeta::new(
            "shop", "web-0", "uid-2",
        )))),
        false => Response::Object(Box::new(another.clone())),
    });
    assert_eq!(lines[2], "stale: 2 reads differ");
    let plan = BatchPlanner::new(controller).plan(&cache, at(0));
    let text = "its owners are not as the retention policy of statefulset/web wants for pod/web-0";
    assert_eq!(plan.actions[0].reason.message(), text);
}

#[test]
fn changes_of_identity_and_owners_affect_the_set() {
    let controller = latest();
    let mut other = set("Delete", "Delete", 1);
    other["metadata"]["name"] = "api-web".into();
    let cache = cache(&controller, &[set("Delete", "Delete", 1), other]);
    let affected = |resource, old: Option<&Record>, new: Option<&Record>| {
        let key = new
            .or(old)
            .map(|record| kubegc_controllers::Key::from(&record.meta))
            .expect("an object");
        let change = Change {
            resource,
            key: &key,
            old,
            new,
        };
        let mut keys = Vec::new();
        controller.affected(&cache, &change, &mut keys);
        keys.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let claims = Resource::PersistentVolumeClaims;
    for (name, expected) in [
        ("data-web-0", vec!["shop/web"]),
        ("data-api-web-0", vec!["shop/api-web"]),
        ("logs-web-0", vec![]),
        ("data-web-x", vec![]),
        ("data", vec![]),
    ] {
        let (_, new) = record(claim(name, &[]));
        assert_eq!(affected(claims, None, Some(&new)), expected, "{name}");
        let mut bound = new.clone();
        bound.meta.resource_version = "2".into();
        assert_eq!(affected(claims, Some(&new), Some(&bound)), [""; 0]);
        bound.meta.uid = "uid-2".into();
        assert_eq!(affected(claims, Some(&new), Some(&bound)), expected, "{name}");
        assert_eq!(affected(claims, Some(&new), None), expected, "{name}");
    }
    for (name, expected) in [("web-0", vec!["shop/web"]), ("web", vec![]), ("db-0", vec![])] {
        let (_, new) = record(pod(name));
        assert_eq!(affected(Resource::Pods, None, Some(&new)), expected, "{name}");
        let mut scheduled = new.clone();
        scheduled.meta.resource_version = "2".into();
        assert_eq!(affected(Resource::Pods, Some(&new), Some(&scheduled)), [""; 0]);
        scheduled.meta.owner_references.clear();
        assert_eq!(
            affected(Resource::Pods, Some(&new), Some(&scheduled)),
            expected,
            "{name}"
        );
    }
}

/// The objects of a StatefulSet with two templates, and whether anything former or odd is among the
/// references.
fn world() -> impl Strategy<Value = (Vec<Value>, bool)> {
    let policy = || select(vec!["Retain", "Delete", "Burn"]);
    let owners = vec(
        select(vec![
            of_set(),
            reference("StatefulSet", "web", "uid-set", false),
            of_pod(),
            reference("Pod", "web-1", "uid-web-1", true),
            reference("Pod", "web-0", "uid-former", true),
            reference("StatefulSet", "web", "uid-former", true),
            boss(),
            reference("Backup", "vault", "uid-vault", false),
            reference("Odd", "x", "uid-set", false),
        ]),
        0..4,
    );
    let claims = vec((owners, any::<bool>()), 8);
    let pods = vec(any::<bool>(), 4);
    (policy(), policy(), 0..4, 0..2_i32, pods, claims).prop_map(
        |(scaled, deleted, replicas, first, pods, claims)| {
            let mut set = set(scaled, deleted, replicas);
            set["spec"]["ordinals"]["start"] = first.into();
            set["spec"]["volumeClaimTemplates"] =
                json!([{"metadata": {"name": "data"}}, {"metadata": {"name": "logs"}}]);
            let mut objects = vec![set];
            let pods = pods.into_iter().enumerate().filter(|(_, is_there)| *is_there);
            objects.extend(pods.map(|(at, _)| pod(&format!("web-{at}"))));
            let claims = claims
                .into_iter()
                .enumerate()
                .filter(|(_, (_, is_there))| *is_there);
            objects.extend(claims.map(|(at, (owners, _))| {
                claim(&format!("{}-web-{}", ["data", "logs"][at % 2], at / 2), &owners)
            }));
            let text = serde_json::to_string(&objects).expect("JSON");
            (objects, text.contains("uid-former") || text.contains("Odd"))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn laws(
        (objects, is_odd) in world(),
        controller in select(vec!["1.30", "1.36"]).prop_map(release),
        unread in 0..3,
    ) {
        let cache = cache(&controller, &objects);
        let lines = outcome(&controller, &cache);
        let mut turned = objects.clone();
        turned.reverse();
        prop_assert_eq!(&outcome(&controller, &crate::common::cache(&controller, &turned)), &lines);

        // References to other owners keep their order, and after all writes nothing else is written.
        let mut after = cache.clone();
        let steps = reconcile(&controller, &cache, "shop/web", at(0)).steps;
        for request in steps.iter().flat_map(|steps| requests(steps, from_cache(&cache))) {
            let Request::Write(write) = request else { continue };
            let key = key(&format!("shop/{}", write.object.name));
            let before = cache.get(write.object.resource, &key).expect("a claim");
            let mut record = before.clone();
            for change in &write.changes {
                change.apply(&mut record);
            }
            let others = |record: &Record| {
                let owners = record.meta.owner_references.iter();
                owners.filter(|owner| matches!(&*owner.kind, "Operator" | "Backup")).cloned().collect::<Vec<_>>()
            };
            prop_assert_eq!(others(&record), others(before));
            after.put(write.object.resource, &key, Some(record));
        }
        if !is_odd {
            prop_assert!(reconcile(&controller, &after, "shop/web", at(0)).steps.is_none());
        }

        // A claim that is written without a fact is written with it, too.
        let mut less = cache.clone();
        let web = key("shop/web");
        let mut set = less.get(Resource::StatefulSets, &web).cloned().expect("a set");
        if let kubegc_core::record::Body::StatefulSet(set) = set.body_mut() {
            match unread {
                0 => set.replicas = Field::Unread,
                1 => set.first_ordinal = Field::Unread,
                _ => set.retention_policy = Field::Unread,
            }
        }
        less.put(Resource::StatefulSets, &web, Some(set));
        for line in outcome(&controller, &less).iter().filter(|line| line.contains("-web-") && line.contains("uid")) {
            prop_assert!(lines.contains(line), "{}", line);
        }
    }
}
