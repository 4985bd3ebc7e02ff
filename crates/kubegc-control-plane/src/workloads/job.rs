//! Jobs: their pods, times and condition `Suspended`. `kubegc_controllers::job` counts finished pods, removes
//! finalizers, deletes active pods and ends Jobs. For releases in which it does not count, the counts are
//! written here.
//!
//! # Upstream
//! [`syncJob`, `manageJob`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/job/job_controller.go)
//! in `job_controller.go`,
//! [`newBackoffRecord`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/job/backoff_utils.go)
//! in `backoff_utils.go`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_controllers::{JobTracking, job::TRACKING_FINALIZER};
use kubegc_core::{Behavior, KubernetesVersion, ObjectMeta, Timestamp};
use kubegc_sim::StoredObject;
use serde_json::{Map, Value, json};

use super::{
    plan::{
        Kind, Plan, Verb, View, annotation, condition, int, items, pod_of, reference_json, set,
        set_condition, time_of,
    },
    pods,
    replicaset::BURST,
};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Pods of Indexed Jobs also have the label [`INDEX`].
const LABELS_INDEX: Behavior = Behavior::since(28, 0, "feature gate PodIndexLabel is beta");
/// Pods also have labels with the prefix `batch.kubernetes.io/`.
const PREFIXED_LABELS: Behavior = Behavior::since(27, 0, "kubernetes #114930");
const HAS_READY: Behavior = Behavior::since(24, 0, "feature gate JobReadyPods is beta");
const HAS_TERMINATING: Behavior = Behavior::since(29, 0, "feature gate JobPodReplacementPolicy is beta");
const SUSPENDS: Behavior = Behavior::since(22, 0, "feature gate SuspendJob is beta");
/// The maximum number of indexes that are read: upstream's limit for Jobs of many pods.
const INDEXES_MAX: usize = 100_000;
/// The delays before failed pods are replaced: the first and the maximum.
const BACKOFF: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];

fn holds(job: &StoredObject, kind: &str) -> bool {
    condition(items(job, &["status", "conditions"]), kind).is_some_and(|found| found["status"] == "True")
}

pub(super) fn sync(view: &View<'_>, job: &StoredObject) -> Plan {
    let mut plan = Plan::of(Kind::Job, job);
    let manager = job.text_at(&["spec", "managedBy"]);
    if !matches!(manager, "" | "kubernetes.io/job-controller") {
        return plan;
    }
    let pods = view.controlled(Kind::Pod, &job.meta);
    let is_suspended = view.version().has(SUSPENDS) && job.at(&["spec", "suspend"]) == Some(&true.into());
    let end_conditions = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];
    let is_ending = job.meta.is_deleting() || end_conditions.iter().any(|kind| holds(job, kind));
    let is_started = !job.text_at(&["status", "startTime"]).is_empty() && !holds(job, "Suspended");
    if is_started && !is_suspended && !is_ending {
        create(view, job, &pods, &mut plan);
    }
    if plan.writes.is_empty() {
        report(view, job, &pods, is_suspended, &mut plan);
    }
    plan
}

fn tracks(view: &View<'_>, job: &StoredObject) -> bool {
    let tracking = JobTracking::new(view.version());
    let is_annotated = job.at(&["metadata", "annotations", TRACKING_FINALIZER]).is_some();
    tracking.is_tracking && (tracking.is_tracking_all || is_annotated)
}

fn count(pods: &[Arc<StoredObject>], phase: &str) -> i64 {
    let ended = pods.iter().filter(|pod| pods::phase(pod) == phase);
    i64::try_from(ended.count()).unwrap_or(i64::MAX)
}

/// How many pods have ended with this phase, by the status if it counts them and by the pods otherwise.
fn counted(view: &View<'_>, job: &StoredObject, pods: &[Arc<StoredObject>], field: &str, phase: &str) -> i64 {
    if !tracks(view, job) {
        return count(pods, phase);
    }
    let uncounted = items(job, &["status", "uncountedTerminatedPods", field]).len();
    int(job, &["status", field])
        .unwrap_or(0)
        .saturating_add(i64::try_from(uncounted).unwrap_or(0))
}

/// Creates the missing pods, once the delay after a failure has expired.
fn create(view: &View<'_>, job: &StoredObject, pods: &[Arc<StoredObject>], plan: &mut Plan) {
    let waits =
        job.text_at(&["spec", "podReplacementPolicy"]) == "Failed" && view.version().has(HAS_TERMINATING);
    let is_busy = |pod: &&Arc<StoredObject>| match waits {
        true => !pods::has_ended(pod),
        false => pods::is_active(pod),
    };
    let busy: Vec<&Arc<StoredObject>> = pods.iter().filter(is_busy).collect();
    let succeeded = counted(view, job, pods, "succeeded", "Succeeded");
    let parallelism = int(job, &["spec", "parallelism"]).unwrap_or(1);
    let completions = int(job, &["spec", "completions"]);
    // The API server defaults both to 1 if both are absent.
    let has_no_parallelism = int(job, &["spec", "parallelism"]).is_none();
    let completions = completions.or(has_no_parallelism.then_some(1));
    let wanted = match completions {
        None if succeeded > 0 => 0,
        None => parallelism,
        Some(completions) => completions.saturating_sub(succeeded).min(parallelism),
    };
    let missing = usize::try_from(wanted).unwrap_or(0);
    let missing = missing.saturating_sub(busy.len()).min(BURST);
    if missing == 0 {
        return;
    }
    if let Some(at) = backoff_until(pods).filter(|at| *at > view.now) {
        plan.due_at(Some(at));
        return;
    }
    let is_indexed = job.text_at(&["spec", "completionMode"]) == "Indexed";
    let mut free = Vec::new();
    if let (true, Some(completions)) = (is_indexed, completions) {
        let mut used: BTreeSet<i64> = busy
            .iter()
            .filter_map(|pod| annotation(pod, INDEX).parse().ok())
            .collect();
        used.extend(indexes(job.text_at(&["status", "completedIndexes"]), completions));
        if !tracks(view, job) {
            let done = pods.iter().filter(|pod| pods::phase(pod) == "Succeeded");
            used.extend(done.filter_map(|pod| annotation(pod, INDEX).parse::<i64>().ok()));
        }
        free = (0..completions)
            .filter(|index| !used.contains(index))
            .take(missing)
            .collect();
    } else {
        free.resize(missing, -1);
    }
    for index in free {
        let pod = pod(view, job, is_indexed.then_some(index));
        let message = format!("job/{} has too few active pods", job.meta.name);
        plan.push(Kind::Pod, Verb::Create(pod), "SuccessfulCreate", message);
    }
}

/// The indexes in a string such as `1,3-5`, below a limit.
fn indexes(text: &str, bound: i64) -> Vec<i64> {
    let ranges = text.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<i64>().ok()?..=last.parse::<i64>().ok()?.min(bound))
    });
    ranges.flatten().take(INDEXES_MAX).collect()
}

/// The time when failed pods may be replaced: 10 s after the first failure since the last success, and twice
/// as long after each further one.
fn backoff_until(pods: &[Arc<StoredObject>]) -> Option<Timestamp> {
    let ended = |phase: &'static str| {
        let ended = pods.iter().filter(move |pod| pods::phase(pod) == phase);
        ended.map(|pod| ended_at(pod))
    };
    let success = ended("Succeeded").max();
    let failures: Vec<Timestamp> = ended("Failed")
        .filter(|at| success.is_none_or(|success| *at > success))
        .collect();
    let last = failures.iter().max()?;
    let doublings = u32::try_from(failures.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let delay = BACKOFF[0]
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(BACKOFF[1]);
    Some(last.saturating_add(delay))
}

fn ended_at(pod: &StoredObject) -> Timestamp {
    let statuses = items(pod, &["status", "containerStatuses"]).iter();
    let times = statuses.filter_map(|status| time_of(&status["state"]["terminated"]["finishedAt"]));
    let otherwise = || pod.meta.creation_timestamp.unwrap_or(Timestamp::EPOCH);
    times.max().unwrap_or_else(otherwise)
}

fn pod(view: &View<'_>, job: &StoredObject, index: Option<i64>) -> Value {
    let meta = &job.meta;
    let template = job.at(&["spec", "template"]).unwrap_or(&Value::Null);
    let mut pod = pod_of(template, Kind::Job, meta, None);
    // The API server adds them to the template if it sets defaults.
    let prefixes: &[&str] = if view.version().has(PREFIXED_LABELS) {
        &["", "batch.kubernetes.io/"]
    } else {
        &[""]
    };
    for prefix in prefixes {
        for (label, value) in [
            ("controller-uid", meta.uid.to_string()),
            ("job-name", meta.name.to_string()),
        ] {
            set(&mut pod, "labels", &format!("{prefix}{label}"), &value);
        }
    }
    if tracks(view, job) {
        pod["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
    }
    let Some(index) = index else { return pod };
    pod["metadata"]["generateName"] = format!("{}-{index}-", meta.name).into();
    set(&mut pod, "annotations", INDEX, &index.to_string());
    if view.version().has(LABELS_INDEX) {
        set(&mut pod, "labels", INDEX, &index.to_string());
    }
    pod["spec"]["hostname"] = format!("{}-{index}", meta.name).into();
    let field = json!({"fieldRef": {"fieldPath": format!("metadata.annotations['{INDEX}']")}});
    for list in ["initContainers", "containers"] {
        let Some(Value::Array(containers)) = pod["spec"].get_mut(list) else {
            continue;
        };
        for container in containers.iter_mut().filter(|container| container.is_object()) {
            let mut env = container["env"].as_array().cloned().unwrap_or_default();
            if env.iter().all(|entry| entry["name"] != "JOB_COMPLETION_INDEX") {
                env.push(json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": field}));
                container["env"] = env.into();
            }
        }
    }
    pod
}

/// Writes the fields of the status other than the counts of finished pods.
fn report(
    view: &View<'_>,
    job: &StoredObject,
    pods: &[Arc<StoredObject>],
    is_suspended: bool,
    plan: &mut Plan,
) {
    let version: KubernetesVersion = view.version();
    let active = pods.iter().filter(|pod| pods::is_active(pod));
    let ready = active
        .clone()
        .filter(|pod| pods::ready_since(pod).is_some())
        .count();
    let terminating = pods
        .iter()
        .filter(|pod| pod.meta.is_deleting() && !pods::has_ended(pod))
        .count();
    let mut status = job
        .at(&["status"])
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let mut put = |field: &str, count: usize| match count {
        0 => drop(status.remove(field)),
        count => drop(status.insert(field.to_owned(), count.into())),
    };
    put("active", active.count());
    if !tracks(view, job) {
        for (field, phase) in [("succeeded", "Succeeded"), ("failed", "Failed")] {
            put(field, usize::try_from(count(pods, phase)).unwrap_or(0));
        }
    }
    for (field, behavior, count) in [
        ("ready", HAS_READY, ready),
        ("terminating", HAS_TERMINATING, terminating),
    ] {
        if version.has(behavior) {
            status.insert(field.to_owned(), count.into());
        }
    }
    let has_finished = ["Complete", "Failed"].iter().any(|kind| holds(job, kind));
    if has_finished {
        if holds(job, "Complete") {
            status.entry("completionTime").or_insert_with(|| view.time());
        }
    } else if is_suspended {
        status.remove("startTime");
    } else {
        status.entry("startTime").or_insert_with(|| view.time());
    }
    let was_suspended = holds(job, "Suspended");
    if !has_finished && is_suspended != was_suspended {
        let (value, reason, message) = match is_suspended {
            true => ("True", "JobSuspended", "Job suspended"),
            false => ("False", "JobResumed", "Job resumed"),
        };
        let mut conditions = items(job, &["status", "conditions"]).to_vec();
        let probe = Some(("lastProbeTime", view.time()));
        let why = (reason, message.to_owned());
        set_condition(&mut conditions, &view.time(), ("Suspended", value), why, probe);
        status.insert("conditions".to_owned(), conditions.into());
    }
    plan.status(job, status.into());
}

/// A Job from the template of a CronJob, as `kubectl create job --from=cronjob/...` creates it.
///
/// # Upstream
/// [`createJobFromCronJob`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/kubectl/pkg/cmd/create/create_job.go)
/// in `create_job.go`.
pub(super) fn of_cron_job(cron_job: &StoredObject, api_version: &str, name: &str) -> Value {
    let template = cron_job.at(&["spec", "jobTemplate"]).unwrap_or(&Value::Null);
    let map = |field: &str| {
        template["metadata"][field]
            .as_object()
            .cloned()
            .unwrap_or_else(Map::new)
    };
    let mut annotations = map("annotations");
    annotations.insert("cronjob.kubernetes.io/instantiate".to_owned(), "manual".into());
    let mut owner = reference_json(&Kind::CronJob.reference(&ObjectMeta::clone(&cron_job.meta)));
    owner["apiVersion"] = api_version.into();
    if let Value::Object(fields) = &mut owner {
        fields.remove("blockOwnerDeletion");
    }
    json!({
        "metadata": {
            "name": name,
            "labels": map("labels"),
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    })
}
