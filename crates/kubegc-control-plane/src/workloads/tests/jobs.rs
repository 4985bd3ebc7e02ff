//! Jobs.

use super::*;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

fn job(spec: Value) -> Value {
    let template =
        json!({"metadata": {"labels": {"app": "backup"}}, "spec": {"containers": [{"name": "c"}]}});
    let base = json!({"template": template});
    object(Kind::Job, "backup", json!({"spec": merged(&base, spec)}))
}

/// A Job that has been started.
fn started(spec: Value, status: Value) -> Value {
    let job = merged(&job(spec), json!({"status": {"startTime": time(0)}}));
    merged(&job, json!({"status": status}))
}

fn own(pod: Value) -> Value {
    controlled(&job(json!({})), pod)
}

fn pod(name: &str, phase: &str) -> Value {
    own(pod_in(name, phase))
}

fn ended(name: &str, phase: &str, at: u64) -> Value {
    let state = json!({"terminated": {"finishedAt": time(at)}});
    let pod = merged(
        &pod(name, phase),
        json!({"status": {"containerStatuses": [{"state": state}]}}),
    );
    merged(&pod, json!({"metadata": {"creationTimestamp": null}}))
}

fn indexed(pod: Value, index: &str) -> Value {
    merged(&pod, json!({"metadata": {"annotations": {INDEX: index}}}))
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": status}]})
}

fn release(minor: u16) -> KubernetesVersion {
    KubernetesVersion::new(minor, 0).unwrap()
}

/// The created pods.
fn created(world: &World) -> Vec<Value> {
    let synced = world.sync(Kind::Job, "backup");
    let line = "job-controller: create pod/";
    let lines = synced.lines.iter().zip(synced.objects);
    lines
        .filter(|(known, _)| known.starts_with(line))
        .map(|(_, object)| object)
        .collect()
}

#[test]
fn a_job_has_as_many_active_pods_as_it_needs() {
    let running = || pod("a", "Running");
    let spec =
        |parallelism: i64, completions: i64| json!({"parallelism": parallelism, "completions": completions});
    let none = || json!({});
    for (spec, status, pods, expected) in [
        (json!({}), none(), vec![], 1),
        (json!({}), none(), vec![running()], 0),
        (json!({}), json!({"succeeded": 1}), vec![], 0),
        (json!({"parallelism": 3}), none(), vec![], 3),
        (json!({"parallelism": 3}), json!({"succeeded": 1}), vec![], 0),
        (json!({"completions": 3}), none(), vec![], 1),
        (spec(2, 5), none(), vec![], 2),
        (spec(2, 5), none(), vec![running()], 1),
        (spec(2, 5), none(), vec![running(), pod("b", "Pending")], 0),
        (
            spec(2, 5),
            none(),
            vec![pod("a", "Succeeded"), deleting(pod("b", "Running"))],
            2,
        ),
        (spec(3, 5), json!({"succeeded": 3}), vec![], 2),
        (
            spec(3, 5),
            json!({"succeeded": 3, "uncountedTerminatedPods": {"succeeded": ["u1"]}}),
            vec![],
            1,
        ),
        (spec(3, 5), json!({"succeeded": 5}), vec![], 0),
        (spec(3, 5), json!({"succeeded": 6}), vec![], 0),
        (spec(501, 1000), none(), vec![], 500),
        (spec(-1, 5), none(), vec![], 0),
        // A Job that ends, waits or belongs to another controller creates no pods.
        (spec(2, 5), condition("Complete", "True"), vec![], 0),
        (spec(2, 5), condition("Failed", "True"), vec![], 0),
        (spec(2, 5), condition("FailureTarget", "True"), vec![], 0),
        (spec(2, 5), condition("SuccessCriteriaMet", "True"), vec![], 0),
        (spec(2, 5), condition("Complete", "False"), vec![], 2),
        (spec(2, 5), condition("Suspended", "True"), vec![], 0),
        (spec(2, 5), json!({"startTime": null}), vec![], 0),
        (merged(&spec(2, 5), json!({"suspend": true})), none(), vec![], 0),
        (
            merged(&spec(2, 5), json!({"managedBy": "shop/jobs"})),
            none(),
            vec![],
            0,
        ),
        (
            merged(&spec(2, 5), json!({"managedBy": "kubernetes.io/job-controller"})),
            none(),
            vec![],
            2,
        ),
        // With this policy, a pod is replaced when it has ended.
        (
            merged(&spec(2, 5), json!({"podReplacementPolicy": "Failed"})),
            none(),
            vec![deleting(running())],
            1,
        ),
        (
            merged(&spec(2, 5), json!({"podReplacementPolicy": "Failed"})),
            none(),
            vec![deleting(pod("a", "Failed"))],
            0,
        ),
        (
            merged(
                &spec(2, 5),
                json!({"podReplacementPolicy": "TerminatingOrFailed"}),
            ),
            none(),
            vec![deleting(running())],
            2,
        ),
    ] {
        let mut world = World::new([started(spec.clone(), status.clone())].into_iter().chain(pods));
        // Not yet 10 s after a failure at the start.
        world.now = 9;
        assert_eq!(created(&world).len(), expected, "{spec} {status}");
    }
    assert!(created(&World::new([deleting(started(json!({}), json!({})))])).is_empty());
    let managed = job(json!({"managedBy": "shop/jobs"}));
    World::new([managed]).expect(Kind::Job, "backup", &[]);
    // Before 1.23 jobs are not suspended, and before 1.29 all pods are replaced at once.
    for (minor, spec, pods, expected) in [
        (21, json!({"suspend": true}), vec![], 1),
        (22, json!({"suspend": true}), vec![], 0),
        (
            28,
            json!({"podReplacementPolicy": "Failed"}),
            vec![deleting(pod("a", "Running"))],
            1,
        ),
        (
            29,
            json!({"podReplacementPolicy": "Failed"}),
            vec![deleting(pod("a", "Running"))],
            0,
        ),
    ] {
        let world = World::of(
            release(minor),
            [started(spec.clone(), json!({}))].into_iter().chain(pods),
        );
        assert_eq!(created(&world).len(), expected, "1.{minor} {spec}");
    }
}

/// 10 s after the first failure since the last success, and twice as long after each further one.
#[test]
fn failed_pods_are_replaced_after_a_growing_delay() {
    for (pods, until) in [
        (vec![ended("a", "Failed", 50)], 60),
        (vec![ended("a", "Failed", 50), ended("b", "Failed", 60)], 80),
        (vec![ended("a", "Failed", 60), ended("b", "Failed", 50)], 80),
        (
            vec![
                ended("a", "Failed", 50),
                ended("b", "Succeeded", 55),
                ended("c", "Failed", 60),
            ],
            70,
        ),
        (
            vec![
                ended("a", "Failed", 50),
                ended("b", "Succeeded", 50),
                ended("c", "Failed", 60),
            ],
            70,
        ),
        (
            (0..6).map(|n| ended(&format!("p{n}"), "Failed", 50)).collect(),
            370,
        ),
        (
            (0..7).map(|n| ended(&format!("p{n}"), "Failed", 50)).collect(),
            650,
        ),
    ] {
        let job = started(json!({"parallelism": 1, "completions": 5}), json!({}));
        let mut world = World::new([job].into_iter().chain(pods.clone()));
        world.now = until - 1;
        let synced = world.sync(Kind::Job, "backup");
        assert_eq!(
            (created(&world).len(), synced.due),
            (0, Some(at(until))),
            "{pods:?}"
        );
        world.now = until;
        assert_eq!(created(&world).len(), 1, "{pods:?}");
    }
    let created_at = merged(
        &pod("a", "Failed"),
        json!({"metadata": {"creationTimestamp": time(30)}}),
    );
    let mut world = World::new([started(json!({}), json!({})), created_at]);
    world.now = 31;
    assert_eq!(
        world.sync(Kind::Job, "backup").due,
        Some(at(40)),
        "without a state, its creation counts"
    );
}

#[test]
fn pods_have_the_labels_and_the_finalizer_of_their_job() {
    let finalizers = json!(["batch.kubernetes.io/job-tracking"]);
    for (minor, prefixed, tracked) in [(20, false, false), (26, false, false), (27, true, true)] {
        let world = World::of(release(minor), [started(json!({}), json!({}))]);
        let line =
            "job-controller: create pod/backup- (SuccessfulCreate): job/backup has too few active pods";
        let synced = world.expect(Kind::Job, "backup", &[line]);
        let mut labels = json!({"app": "backup", "controller-uid": "Job-backup", "job-name": "backup"});
        if prefixed {
            labels["batch.kubernetes.io/controller-uid"] = "Job-backup".into();
            labels["batch.kubernetes.io/job-name"] = "backup".into();
        }
        let mut expected = json!({
            "metadata": {
                "generateName": "backup-", "labels": labels, "ownerReferences": [reference_to(&job(json!({})))],
            },
            "spec": {"containers": [{"name": "c"}]},
        });
        if tracked {
            expected["metadata"]["finalizers"] = finalizers.clone();
        }
        assert_eq!(synced.objects[0], expected, "1.{minor}");
    }
    // Releases that track some Jobs mark them with an annotation.
    for (annotations, tracked) in [
        (json!({}), false),
        (json!({"batch.kubernetes.io/job-tracking": ""}), true),
    ] {
        let job = merged(
            &started(json!({}), json!({})),
            json!({"metadata": {"annotations": annotations}}),
        );
        let world = World::of(release(26), [job]);
        let pod = created(&world).remove(0);
        assert_eq!(pod["metadata"]["finalizers"] == finalizers, tracked);
    }
}

#[test]
fn pods_of_an_indexed_job_have_the_free_indexes() {
    let spec = |parallelism: i64, completions: i64| json!({"completionMode": "Indexed", "parallelism": parallelism, "completions": completions});
    let index_of = |pod: &Value| pod["metadata"]["annotations"][INDEX].as_str().unwrap().to_owned();
    for (minor, spec, status, pods, expected) in [
        (36, spec(3, 3), json!({}), vec![], vec!["0", "1", "2"]),
        (
            36,
            spec(2, 5),
            json!({}),
            vec![indexed(pod("a", "Running"), "0")],
            vec!["1"],
        ),
        (
            36,
            spec(2, 5),
            json!({"succeeded": 3, "completedIndexes": "0,2-3"}),
            vec![],
            vec!["1", "4"],
        ),
        (
            36,
            spec(5, 5),
            json!({"succeeded": 2, "completedIndexes": "1-2"}),
            vec![],
            vec!["0", "3", "4"],
        ),
        (
            36,
            spec(2, 2),
            json!({}),
            vec![indexed(pod("a", "Succeeded"), "0")],
            vec!["0", "1"],
        ),
        (
            21,
            spec(2, 2),
            json!({}),
            vec![indexed(pod("a", "Succeeded"), "0")],
            vec!["1"],
        ),
        (
            21,
            spec(2, 2),
            json!({}),
            vec![indexed(pod("a", "Failed"), "0")],
            vec!["0", "1"],
        ),
    ] {
        let job = started(spec.clone(), status.clone());
        let world = World::of(release(minor), [job].into_iter().chain(pods));
        let found: Vec<String> = created(&world).iter().map(index_of).collect();
        assert_eq!(found, expected, "1.{minor} {spec} {status}");
    }
    let containers =
        json!([{"name": "c"}, {"name": "d", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]}]);
    let init = json!([{"name": "i", "env": [{"name": "A", "value": "b"}]}]);
    let template = json!({"template": {"spec": {"containers": containers, "initContainers": init}}});
    for (minor, has_label) in [(27, false), (28, true)] {
        let job = started(merged(&spec(1, 1), template.clone()), json!({}));
        let pod = created(&World::of(release(minor), [job])).remove(0);
        assert_eq!(pod["metadata"]["generateName"], "backup-0-");
        assert_eq!(pod["spec"]["hostname"], "backup-0");
        assert_eq!(pod["metadata"]["labels"][INDEX] == "0", has_label);
        let path = format!("metadata.annotations['{INDEX}']");
        let index = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let expected = json!([{"name": "c", "env": [index]}, containers[1]]);
        assert_eq!(pod["spec"]["containers"], expected);
        let expected = json!([{"name": "i", "env": [{"name": "A", "value": "b"}, index]}]);
        assert_eq!(pod["spec"]["initContainers"], expected);
    }
}

#[test]
fn a_job_reports_its_pods_and_times() {
    let pods = [
        own(ready_pod("a", 50)),
        pod("b", "Running"),
        deleting(pod("c", "Running")),
        deleting(pod("d", "Failed")),
        pod("e", "Succeeded"),
        pod("f", "Failed"),
    ];
    let line = "job-controller: status job/backup (StatusChanged): its status has changed";
    for (minor, expected) in [
        (20, json!({"active": 2, "succeeded": 1, "failed": 2})),
        (23, json!({"active": 2, "succeeded": 1, "failed": 2})),
        (24, json!({"active": 2, "succeeded": 1, "failed": 2, "ready": 1})),
        (27, json!({"active": 2, "ready": 1})),
        (28, json!({"active": 2, "ready": 1})),
        (29, json!({"active": 2, "ready": 1, "terminating": 1})),
    ] {
        let world = World::of(release(minor), [job(json!({}))].into_iter().chain(pods.clone()));
        let synced = world.expect(Kind::Job, "backup", &[line]);
        let expected = merged(&expected, json!({"startTime": time(100)}));
        assert_eq!(synced.objects[0]["status"], expected, "1.{minor}");
    }
    // Counts of 0 are omitted, except the newer ones.
    let idle = started(json!({"parallelism": 0}), json!({"active": 2, "succeeded": 3}));
    let expected = json!({"startTime": time(0), "succeeded": 3, "ready": 0, "terminating": 0});
    assert_eq!(World::new([idle]).status(Kind::Job, "backup"), expected);
    for (kind, has_time) in [("Complete", true), ("Failed", false)] {
        let status = World::new([started(json!({}), condition(kind, "True"))]).status(Kind::Job, "backup");
        let expected = if has_time { time(100) } else { Value::Null };
        assert_eq!(status["completionTime"], expected, "{kind}");
    }
}

#[test]
fn a_job_is_suspended_and_resumed() {
    let suspended = |status: &str, reason: &str, message: &str| {
        json!([{
            "type": "Suspended", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": time(100), "lastProbeTime": time(100),
        }])
    };
    let stopped = suspended("True", "JobSuspended", "Job suspended");
    let mut world = World::new([started(json!({"suspend": true}), json!({}))]);
    let status = world.status(Kind::Job, "backup");
    assert_eq!(
        status,
        json!({"conditions": stopped, "ready": 0, "terminating": 0})
    );
    world.play(Kind::Job, "backup");
    world.expect(Kind::Job, "backup", &[]);
    world.put(merged(&job(json!({})), json!({"status": status})));
    let status = world.status(Kind::Job, "backup");
    let resumed = suspended("False", "JobResumed", "Job resumed");
    assert_eq!(
        status,
        json!({"conditions": resumed, "ready": 0, "terminating": 0, "startTime": time(100)})
    );
    // A Job that has finished stays as it is.
    let finished = started(json!({"suspend": true}), condition("Failed", "True"));
    let status = World::new([finished]).status(Kind::Job, "backup");
    assert_eq!(status["conditions"], condition("Failed", "True")["conditions"]);
    assert_eq!(status["startTime"], time(0));
}

#[test]
fn a_job_of_a_cron_job_has_its_template() {
    let template = json!({
        "metadata": {"labels": {"app": "backup"}, "annotations": {"team": "shop"}},
        "spec": {"completions": 3},
    });
    let nightly = object(
        Kind::CronJob,
        "nightly",
        json!({"spec": {"jobTemplate": template}}),
    );
    let mut world = World::new([nightly.clone()]);
    let made = job::of_cron_job(&world.stored(Kind::CronJob, "nightly"), "batch/v1beta1", "now");
    let mut owner = reference_to(&nightly);
    owner["apiVersion"] = "batch/v1beta1".into();
    owner.as_object_mut().unwrap().remove("blockOwnerDeletion");
    let expected = json!({
        "metadata": {
            "name": "now", "labels": {"app": "backup"},
            "annotations": {"team": "shop", "cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [owner],
        },
        "spec": {"completions": 3},
    });
    assert_eq!(made, expected);
    let namespaces = world.server.catalog().mapping("v1", "Namespace").unwrap();
    world
        .server
        .create_json(namespaces, "", json!({"metadata": {"name": "shop"}}));
    let create = super::super::create_job_from;
    assert!(create(&mut world.server, "shop", "weekly", "now").is_none());
    assert_eq!(
        create(&mut world.server, "shop", "nightly", "now").unwrap().code,
        201
    );
    assert_eq!(world.stored(Kind::Job, "now").meta.labels.len(), 1);
}
