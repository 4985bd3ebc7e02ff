//! History limits of CronJobs.

use crate::common::{cache, from_cache, key, play, reconcile, record};
use kubegc_controllers::{
    Cache, Change, Controller, CronJobHistory, Decision, Request, Response, Step, Wire,
};
use kubegc_core::{
    KubernetesVersion, StoreError, Timestamp,
    record::{Body, Field, Record, Resource},
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

fn release(text: &str) -> CronJobHistory {
    CronJobHistory::new(text.parse().expect("a release in range"))
}

fn latest() -> CronJobHistory {
    CronJobHistory::new(KubernetesVersion::LATEST)
}

/// The CronJob `shop/cron`; `null` leaves a limit unset.
fn cron_job(successful: impl Into<Value>, failed: impl Into<Value>) -> Value {
    json!({"kind": "CronJob", "metadata": {"namespace": "shop", "name": "cron"},
        "spec": {"successfulJobsHistoryLimit": successful.into(), "failedJobsHistoryLimit": failed.into()}})
}

fn owner(kind: &str, name: &str, uid: &str, controller: impl Into<Value>) -> Value {
    json!({"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": uid, "controller": controller.into()})
}

/// A Job of `shop/cron` that ended so, and started at this minute.
fn job(name: &str, condition: &str, minute: impl Into<Option<u8>>) -> Value {
    let start_time = minute
        .into()
        .map(|minute| format!("2026-03-01T12:{minute:02}:00Z"));
    let conditions = match condition {
        "" => json!([]),
        condition => json!([{"type": condition, "status": "True"}]),
    };
    json!({"kind": "Job",
        "metadata": {"namespace": "shop", "name": name, "ownerReferences": [owner("CronJob", "cron", "uid-cron", true)]},
        "status": {"conditions": conditions, "startTime": start_time}})
}

fn jobs(condition: &str, count: u8) -> Vec<Value> {
    let name = |at| format!("{}-{at}", condition.to_lowercase());
    (0..count).map(|at| job(&name(at), condition, at)).collect()
}

fn with(first: Value, others: impl IntoIterator<Item = Value>) -> Vec<Value> {
    [first].into_iter().chain(others).collect()
}

fn decide(controller: &CronJobHistory, cache: &Cache) -> Decision {
    reconcile(controller, cache, "shop/cron", Timestamp::EPOCH)
}

/// The names of the Jobs that are deleted, in order.
fn deleted(decision: &Decision, cache: &Cache) -> Vec<String> {
    let lines = decision
        .steps
        .iter()
        .flat_map(|steps| play(steps, from_cache(cache)));
    let names = lines.filter_map(|line| {
        Some(
            line.strip_prefix("delete job.batch/")?
                .split(' ')
                .next()?
                .to_owned(),
        )
    });
    names.collect()
}

/// The deleted, kept and undetermined Jobs of `shop/cron`.
fn fates(controller: &CronJobHistory, cache: &Cache) -> Vec<String> {
    let decision = decide(controller, cache);
    let is_job = |resource: Resource| resource == Resource::Jobs;
    let kept = decision.kept.iter().filter(|kept| is_job(kept.object.resource));
    let unknown = decision
        .unknown
        .iter()
        .filter(|unknown| is_job(unknown.object.resource));
    let mut fates: Vec<String> = deleted(&decision, cache)
        .iter()
        .map(|name| format!("{name} deleted"))
        .collect();
    fates.extend(kept.map(|kept| format!("{} {}", kept.object.name, kept.reason.code())));
    fates.extend(unknown.map(|unknown| format!("{} {}", unknown.object.name, unknown.reason.code())));
    fates.sort();
    fates
}

#[track_caller]
fn check_in(controller: &CronJobHistory, objects: &[Value], expected: &[&str]) {
    let cache = cache(controller, objects);
    assert_eq!(deleted(&decide(controller, &cache), &cache), expected);
}

#[track_caller]
fn check(cron_job: Value, jobs: Vec<Value>, expected: &[&str]) {
    check_in(&latest(), &with(cron_job, jobs), expected);
}

#[test]
fn l3_4_the_oldest_jobs_beyond_the_limits_are_deleted_successful_ones_first() {
    for (count, limit, expected) in [(2, 3, 0), (3, 3, 0), (5, 3, 2), (1, 0, 1), (0, 0, 0)] {
        let names = ["complete-0", "complete-1"];
        check(cron_job(limit, 0), jobs("Complete", count), &names[..expected]);
    }
    let mut all = jobs("Failed", 2);
    all.extend(jobs("Complete", 2));
    all.push(job("runs", "", 0));
    let expected = ["complete-0", "complete-1", "failed-0", "failed-1"];
    check(cron_job(0, 0), all.clone(), &expected);
    check(cron_job(Value::Null, 0), all.clone(), &expected[2..]);
    check(cron_job(-1, 1), all.clone(), &expected[2..3]);
    check(cron_job(Value::Null, Value::Null), all, &[]);
    // By start time, those that never started last, then by name.
    let all = vec![
        job("a-never", "Complete", None),
        job("late", "Complete", 2),
        job("b", "Complete", 1),
        job("a", "Complete", 1),
        job("b-never", "Complete", None),
    ];
    check(cron_job(0, 0), all, &["a", "b", "late", "a-never", "b-never"]);
    // L3.5, L3.8: terminating Jobs count.
    let terminating = |mut object: Value| {
        object["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z".into();
        object
    };
    let mut all = jobs("Complete", 2);
    all[0] = terminating(all[0].take());
    check(terminating(cron_job(1, 0)), all, &["complete-0"]);
}

#[test]
fn l3_3_the_first_true_end_condition_decides_the_class() {
    for (conditions, expected) in [
        (vec![("Complete", "False"), ("Failed", "True")], "OverFailed"),
        (vec![("Complete", "True"), ("Failed", "True")], "OverComplete"),
        (vec![("Failed", "True"), ("Complete", "True")], "OverFailed"),
        (
            vec![("SuccessCriteriaMet", "True"), ("FailureTarget", "True")],
            "Unfinished",
        ),
        (vec![("Suspended", "True"), ("Complete", "Unknown")], "Unfinished"),
        (vec![], "Unfinished"),
    ] {
        let mut job = job("j", "", None);
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status)| json!({"type": kind, "status": status}))
            .collect();
        job["status"]["conditions"] = conditions.into();
        for (limits, class) in [([0, 9], "OverComplete"), ([9, 0], "OverFailed")] {
            let controller = latest();
            let cache = cache(&controller, &[cron_job(limits[0], limits[1]), job.clone()]);
            let fate = match expected {
                "Unfinished" => "j Unfinished",
                expected if expected == class => "j deleted",
                _ => "j WithinHistoryLimit",
            };
            assert_eq!(fates(&controller, &cache), [fate]);
        }
    }
}

#[test]
fn l3_2_jobs_are_found_by_the_name_of_their_controller_and_before_1_21_by_its_uid() {
    let of = |namespace: &str, owners: Vec<Value>| {
        let mut job = job("j", "Failed", None);
        job["metadata"]["namespace"] = namespace.into();
        job["metadata"]["ownerReferences"] = owners.into();
        job
    };
    let cron = || owner("CronJob", "cron", "uid-cron", true);
    for (case, job, by_name, by_uid) in [
        ("own", of("shop", vec![cron()]), true, true),
        (
            "another uid",
            of("shop", vec![owner("CronJob", "cron", "uid-old", true)]),
            true,
            false,
        ),
        (
            "another kind",
            of("shop", vec![owner("ReplicaSet", "cron", "uid-cron", true)]),
            true,
            false,
        ),
        (
            "another name",
            of("shop", vec![owner("CronJob", "other", "uid-cron", true)]),
            false,
            true,
        ),
        (
            "no controller",
            of("shop", vec![owner("CronJob", "cron", "uid-cron", Value::Null)]),
            false,
            false,
        ),
        (
            "not the controller",
            of("shop", vec![owner("CronJob", "cron", "uid-cron", false)]),
            false,
            false,
        ),
        ("another namespace", of("depot", vec![cron()]), false, true),
        (
            "the second controller",
            of("shop", vec![owner("CronJob", "x", "x", true), cron()]),
            false,
            false,
        ),
    ] {
        let objects = [cron_job(0, 0), job.clone()];
        for (controller, is_found) in [
            (latest(), by_name),
            (release("1.21"), by_name),
            (release("1.20").with_second_controller(), by_name),
            (release("1.20"), by_uid),
        ] {
            let cache = cache(&controller, &objects);
            let expected: &[&str] = if is_found { &["j"] } else { &[] };
            assert_eq!(
                deleted(&decide(&controller, &cache), &cache),
                expected,
                "{case} {controller:?}"
            );
            let (resource, new) = record(job.clone());
            let change = Change {
                resource,
                key: &key("shop/j"),
                old: None,
                new: Some(&new),
            };
            let mut keys = Vec::new();
            controller.affected(&cache, &change, &mut keys);
            assert_eq!(
                keys.contains(&key("shop/cron")),
                is_found,
                "{case} {controller:?}"
            );
        }
    }
    let mut namesake = jobs("Failed", 1);
    namesake[0]["metadata"]["ownerReferences"][0]["uid"] = "uid-old".into();
    let (controller, objects) = (latest(), with(cron_job(0, 0), namesake));
    let steps = decide(&controller, &cache(&controller, &objects))
        .steps
        .expect("a deletion");
    let Step::Perform {
        reason: Some(reason), ..
    } = steps.begin().next(None)
    else {
        panic!("a deletion has a reason");
    };
    let text = "cronjob/cron has 1 failed Jobs, and spec.failedJobsHistoryLimit is 0; \
                its controller reference names another object of that name";
    assert_eq!(reason.message(), text);
}

#[test]
fn labels_matter_from_1_21_to_about_1_23() {
    let labelled = |name: &str, labels: Value| {
        let mut job = job(name, "Failed", None);
        job["metadata"]["labels"] = labels;
        job
    };
    let same = labelled("same", json!({"app": "report", "more": "1"}));
    let changed = labelled("changed", json!({"app": "old"}));
    let mut template = cron_job(0, 0);
    template["spec"]["jobTemplate"]["metadata"]["labels"] = json!({"app": "report"});
    let mut unread = cron_job(0, 0);
    unread["spec"]["jobTemplate"]["metadata"]["labels"] = "hidden".into();
    let both = &["changed", "same"][..];
    for (controller, cron_job, expected) in [
        (release("1.20"), &template, both),
        (release("1.20").with_second_controller(), &template, &["same"]),
        (release("1.23"), &template, &["same"]),
        (release("1.23"), &cron_job(0, 0), both),
        (release("1.23"), &unread, &[]),
        (release("1.24"), &template, both),
        (release("1.24"), &unread, both),
    ] {
        check_in(
            &controller,
            &[cron_job.clone(), same.clone(), changed.clone()],
            expected,
        );
    }
}

/// Makes the requests for these names fail.
fn failing<'a>(
    cache: &'a Cache,
    names: &'a [&str],
    error: &'a StoreError,
) -> impl FnMut(&Request) -> Response + 'a {
    let mut respond = from_cache(cache);
    move |request| match (request, request.object()) {
        (Request::Event(_), _) => Response::Failed(StoreError::NotFound),
        (_, Some(object)) if names.contains(&&*object.name) => Response::Failed(error.clone()),
        _ => respond(request),
    }
}

#[test]
fn l3_6_and_l3_7_every_deletion_is_reported_and_the_status_forgets_the_jobs() {
    let controller = latest();
    let cache = cache(&controller, &with(cron_job(0, 0), jobs("Complete", 3)));
    let steps = decide(&controller, &cache).steps.expect("deletions");
    let delete = |at: u8| format!("delete job.batch/complete-{at} -n shop propagation=Background");
    let event = |text: &str| format!("record event {text}");
    let success = |at: u8| {
        event(&format!(
            "SuccessfulDelete for cronjob.batch/cron -n shop: Deleted job complete-{at}"
        ))
    };
    let update =
        |jobs: &str| format!("update status of cronjob.batch/cron -n shop uid=uid-cron rv=1 [{jobs}]");
    let removed = "RemoveActive(Uid(uid-complete-0)), RemoveActive(Uid(uid-complete-2))";
    let failure =
        "FailedDelete for cronjob.batch/cron -n shop: Deleted job: jobs.batch \"complete-1\" not found";
    let expected = [
        delete(0),
        success(0),
        delete(1),
        event(failure),
        delete(2),
        success(2),
        update(removed),
        "failed, retried=false: jobs.batch \"complete-1\" not found".to_owned(),
    ];
    assert_eq!(
        play(&steps, failing(&cache, &["complete-1"], &StoreError::NotFound)),
        expected
    );
    // A status that cannot be written is retried. Without a deletion it is not written.
    let refused = StoreError::Conflict {
        message: "changed".into(),
    };
    let lines = play(&steps, failing(&cache, &["cron"], &refused));
    assert_eq!(
        lines.last().map(String::as_str),
        Some("failed, retried=true: changed")
    );
    let all = ["complete-0", "complete-1", "complete-2"];
    let lines = play(&steps, failing(&cache, &all, &refused));
    assert_eq!(lines.len(), 7, "{lines:?}");
}

#[test]
fn l3_7_up_to_about_1_21_the_status_is_always_written_where_there_is_a_limit() {
    let null = Value::Null;
    for (cron_job, is_written) in [
        (cron_job(3, 1), true),
        (cron_job(null.clone(), 0), true),
        (cron_job(0, "hidden"), true),
        (cron_job(null.clone(), null.clone()), false),
        (cron_job("hidden", null.clone()), false),
        (cron_job(-1, null), false),
    ] {
        for (controller, always, is_retried) in [
            (release("1.20"), true, false),
            (release("1.20").with_second_controller(), true, true),
            (release("1.22"), false, true),
        ] {
            let cache = cache(&controller, &[cron_job.clone(), job("runs", "", 0)]);
            let steps = decide(&controller, &cache).steps;
            assert_eq!(steps.is_some(), is_written && always, "{cron_job} {controller:?}");
            if let Some(steps) = steps {
                let expected = [
                    "update status of cronjob.batch/cron -n shop uid=uid-cron rv=1 []".to_owned(),
                    format!("failed, retried={is_retried}: cronjobs.batch \"cron\" not found"),
                ];
                assert_eq!(
                    play(&steps, failing(&cache, &["cron"], &StoreError::NotFound)),
                    expected
                );
            }
        }
    }
}

#[test]
fn strict_deletions_carry_preconditions_and_follow_a_read() {
    let controller = latest();
    let cache = cache(&controller, &[cron_job(0, 0), job("j", "Failed", None)]);
    let cx = kubegc_controllers::Context {
        cache: &cache,
        now: Timestamp::EPOCH,
        wire: Wire::Strict,
        deadlines: &kubegc_controllers::Deadlines::new(),
        cloud: None,
        failures: 0,
    };
    let steps = controller
        .reconcile(&cx, &key("shop/cron"))
        .steps
        .expect("a deletion");
    let lines = play(&steps, from_cache(&cache));
    assert_eq!(lines[0], "get cronjob.batch/cron -n shop");
    assert_eq!(
        lines[1],
        "delete job.batch/j -n shop propagation=Background uid=uid-j rv=1"
    );
    let (_, mut changed) = record(cron_job(1, 1));
    changed.meta.resource_version = "2".into();
    let lines = play(&steps, |_| Response::Object(Box::new(changed.clone())));
    assert_eq!(lines[1..], ["stale: 1 reads differ"]);
}

#[test]
fn jobs_that_were_not_read_make_the_fate_of_others_unknown() {
    let unread = |name: &str| {
        let mut job = job(name, "", None);
        job["status"]["conditions"] = "hidden".into();
        job
    };
    let without_uid = |condition: &str| {
        let mut job = job("x", condition, None);
        job["metadata"]["uid"] = NO_UID.into();
        job
    };
    for (others, limit, gone, open) in [
        (vec![], 3, 0, 0),
        (vec![unread("x")], 4, 0, 0),
        (vec![unread("x")], 3, 0, 1),
        (vec![unread("x"), unread("y")], 3, 0, 2),
        (vec![unread("x")], 2, 1, 1),
        (vec![unread("x"), unread("y")], 1, 2, 1),
        (vec![unread("x")], 0, 3, 0),
        (vec![without_uid("Complete")], 3, 0, 1),
        (vec![without_uid("Failed")], 3, 0, 0),
    ] {
        let mut expected: Vec<String> = (0..3)
            .map(|at| match at {
                at if at < gone => format!("complete-{at} deleted"),
                at if at < gone + open && others[0]["metadata"]["uid"] == NO_UID => {
                    format!("complete-{at} MetadataUnread")
                }
                at if at < gone + open => format!("complete-{at} FieldUnread"),
                at => format!("complete-{at} WithinHistoryLimit"),
            })
            .collect();
        expected.extend(others.iter().map(|job| match job["metadata"]["uid"].as_str() {
            Some(_) => "x MetadataUnread".to_owned(),
            None => format!(
                "{} FieldUnread",
                job["metadata"]["name"].as_str().unwrap_or_default()
            ),
        }));
        let mut objects = with(cron_job(limit, 9), jobs("Complete", 3));
        objects.extend(others);
        let controller = latest();
        let world: Vec<_> = objects.into_iter().map(read).collect();
        let cache = cache_of(&controller, &world);
        assert_eq!(fates(&controller, &cache), expected, "limit {limit}");
    }
}

#[test]
fn unknown_facts_delete_nothing() {
    let controller = latest();
    let all = || {
        let mut all = with(cron_job(1, 1), jobs("Complete", 2));
        all.push(job("runs", "", 0));
        all
    };
    let unknown = [
        "complete-0 FieldUnread",
        "complete-1 FieldUnread",
        "runs Unfinished",
    ];
    // A start time, while the limit is exceeded; the limit; the version that the status is written at.
    let mut objects = all();
    objects[2]["status"]["startTime"] = "hidden".into();
    assert_eq!(fates(&controller, &cache(&controller, &objects)), unknown);
    objects[0]["spec"]["successfulJobsHistoryLimit"] = 2.into();
    let within = [
        "complete-0 WithinHistoryLimit",
        "complete-1 WithinHistoryLimit",
        "runs Unfinished",
    ];
    assert_eq!(fates(&controller, &cache(&controller, &objects)), within);
    for (pointer, value) in [
        ("/spec/successfulJobsHistoryLimit", "hidden"),
        ("/metadata/resourceVersion", ""),
    ] {
        let mut objects = all();
        let (parent, field) = pointer.rsplit_once('/').expect("a path");
        objects[0].pointer_mut(parent).expect("a parent")[field] = value.into();
        assert_eq!(
            fates(&controller, &cache(&controller, &objects)),
            unknown,
            "{pointer}"
        );
    }
    // A list, of either resource.
    for resource in [Resource::Jobs, Resource::CronJobs] {
        let mut cache = cache(&controller, &all());
        cache.set_listed(resource, Err(StoreError::Unlisted));
        let decision = decide(&controller, &cache);
        assert!(decision.steps.is_none());
        assert!(
            decision
                .unknown
                .iter()
                .all(|unknown| unknown.reason.code() == "ListMissing")
        );
        assert_eq!(decision.unknown.len(), 3);
    }
    // Unknown CronJobs can have these Jobs, unless there are none.
    let mut cache = cache(&controller, &all()[1..]);
    let mut keys = Vec::new();
    controller.keys(&cache, &mut keys);
    assert_eq!((keys, fates(&controller, &cache).len()), (vec![], 0));
    cache.set_listed(Resource::CronJobs, Err(StoreError::Unlisted));
    let mut keys = Vec::new();
    controller.keys(&cache, &mut keys);
    assert!(keys.contains(&key("shop/cron")));
    let unlisted = [
        "complete-0 ListMissing",
        "complete-1 ListMissing",
        "runs Unfinished",
    ];
    assert_eq!(fates(&controller, &cache), unlisted);
}

#[test]
fn an_unreadable_job_may_belong_to_any_cron_job_of_its_namespace() {
    for (controller, elsewhere) in [(latest(), 0), (release("1.20"), 1)] {
        let mut other = cron_job(1, 1);
        other["metadata"]["namespace"] = "depot".into();
        other["metadata"]["uid"] = "uid-depot".into();
        let mut cache = cache(
            &controller,
            &with(other, with(cron_job(1, 1), jobs("Complete", 2))),
        );
        let (_, mut stray) = record(job("stray", "Complete", 0));
        stray = Record::unreadable(stray.meta);
        cache.put(Resource::Jobs, &key("shop/stray"), Some(stray.clone()));
        let expected = [
            "complete-0 MetadataUnread",
            "complete-1 MetadataUnread",
            "stray MetadataUnread",
        ];
        assert_eq!(fates(&controller, &cache), expected);
        let depot = reconcile(&controller, &cache, "depot/cron", Timestamp::EPOCH);
        assert_eq!(depot.unknown.len(), 2 * elsewhere);
        let change = Change {
            resource: Resource::Jobs,
            key: &key("shop/stray"),
            old: Some(&stray),
            new: None,
        };
        let mut keys = Vec::new();
        controller.affected(&cache, &change, &mut keys);
        assert_eq!(
            (keys.contains(&key("shop/cron")), keys.len()),
            (true, 1 + elsewhere)
        );
        cache.put(Resource::Jobs, &key("shop/stray"), None);
        let expected = ["complete-0 deleted", "complete-1 WithinHistoryLimit"];
        assert_eq!(fates(&controller, &cache), expected);
    }
}

/// The uid of objects whose uid is not known.
const NO_UID: &str = "none";

fn read(object: Value) -> (Resource, Record) {
    let (resource, mut record) = record(object);
    if record.meta.uid == *NO_UID {
        record.meta.uid = "".into();
    }
    (resource, record)
}

/// A CronJob with Jobs, of which some facts are missing.
fn world() -> impl Strategy<Value = Vec<(Resource, Record)>> {
    let limit = || {
        select(vec![
            Value::Null,
            "hidden".into(),
            (-1).into(),
            0.into(),
            1.into(),
            2.into(),
        ])
    };
    let condition = select(vec!["", "Complete", "Failed", "Suspended"]);
    let one = (
        condition,
        option::of(0..4_u8),
        select(vec!["cron", "other"]),
        0..12_u8,
    );
    ((limit(), limit()), vec(one, 0..12)).prop_map(|((successful, failed), seeds)| {
        let jobs = seeds
            .into_iter()
            .enumerate()
            .map(|(at, (condition, minute, owner, missing))| {
                let mut job = job(&format!("j{at}"), condition, minute);
                job["metadata"]["ownerReferences"][0]["name"] = owner.into();
                match missing {
                    0 => job["status"]["conditions"] = "hidden".into(),
                    1 => job["status"]["startTime"] = "hidden".into(),
                    2 => job["metadata"]["uid"] = NO_UID.into(),
                    _ => {}
                }
                read(job)
            });
        let cron_job = [read(cron_job(successful, failed))];
        cron_job.into_iter().chain(jobs).collect()
    })
}

fn cache_of(controller: &CronJobHistory, world: &[(Resource, Record)]) -> Cache {
    let mut cache = cache(controller, &[]);
    for resource in [Resource::CronJobs, Resource::Jobs] {
        let of = world.iter().filter(|(of, _)| *of == resource);
        cache.replace(resource, of.map(|(_, record)| record.clone()).collect());
    }
    cache
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn laws(world in world(), unread in any::<prop::sample::Index>()) {
        let controller = latest();
        let cache = cache_of(&controller, &world);
        let decision = decide(&controller, &cache);
        let gone = deleted(&decision, &cache);

        let mut turned = world.clone();
        turned.reverse();
        let other = cache_of(&controller, &turned);
        prop_assert_eq!(fates(&controller, &other), fates(&controller, &cache));

        let mut after = cache.clone();
        for name in &gone {
            after.put(Resource::Jobs, &key(&format!("shop/{name}")), None);
        }
        prop_assert_eq!(deleted(&decide(&controller, &after), &after), [""; 0]);

        // An object that is deleted without a fact is deleted with it, too.
        let mut less = world.clone();
        let at = unread.index(less.len());
        match less[at].1.body_mut() {
            Body::Job(job) => job.start_time = Field::Unread,
            Body::CronJob(cron_job) => cron_job.successful_jobs_history_limit = Field::Unread,
            _ => {}
        }
        let less = cache_of(&controller, &less);
        for name in deleted(&decide(&controller, &less), &less) {
            prop_assert!(gone.contains(&name));
        }
    }
}
