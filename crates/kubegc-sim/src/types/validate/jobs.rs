//! Jobs and CronJobs.
//!
//! # Upstream
//! `pkg/apis/batch/validation`, 1.20.2 and newer.

use kubegc_core::Behavior;
use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{
    go_syntax, schedule,
    selector::matches,
    workloads::{SELECTOR, not_selected},
};
use crate::{formats, status::quoted};

/// The selector of a job and the labels that it selects, which the API server generates.
pub(super) fn generated_selector(job: &At<'_>, c: &mut Check) {
    let spec = job.get("spec");
    let template = spec.get("template").get("metadata");
    let selector = spec.get("selector");
    let Some(object) = c
        .object
        .filter(|_| !spec.get("manualSelector").flag() && selector.is_set())
    else {
        return;
    };
    let uid = object.meta.uid.to_string();
    let mut expected = Map::new();
    for [by_uid, by_name] in super::super::prepare::job_labels(c.version).iter().rev() {
        for (key, value) in [(*by_uid, uid.as_str()), (*by_name, &*object.meta.name)] {
            has_label(&template, key, value, c);
            expected.insert(key.to_owned(), value.into());
        }
    }
    if matches(&selector, &Value::Object(expected), c.version) == Some(false) {
        selector.invalid_typed(c, SELECTOR, "`selector` not auto-generated");
    }
}

fn has_label(metadata: &At<'_>, key: &str, expected: &str, c: &mut Check) {
    let labels = metadata.get("labels");
    let label = labels.key(key);
    if !label.is_set() {
        label.required(c, &format!("must be '{expected}'"));
    } else if label.text() != expected {
        let shown = go_syntax::value(c.version, labels.value, "map[string]string");
        label.invalid_as(c, &shown, &format!("must be '{expected}'"));
    }
}

pub(super) fn selects_template(spec: &At<'_>, c: &mut Check) {
    if super::workloads::selects_template(spec, c.version) == Some(false) {
        not_selected(spec, c);
    }
}

/// No more indexes fail than there are.
pub(super) fn at_most_completions(failed: &At<'_>, c: &mut Check) {
    if failed.number() > spec_of(c).get("completions").number() {
        failed.invalid(c, "must be less than or equal to completions");
    }
}

/// The specification of a job, or of the template of a CronJob.
pub(super) fn spec_of<'v>(c: &Check<'v>) -> At<'v> {
    let spec = c.root().get("spec");
    let template = spec.get("jobTemplate");
    if template.is_set() {
        template.get("spec")
    } else {
        spec
    }
}

/// Jobs with very many indexes and a limit for each run and fail less of them.
pub(super) fn many_indexes(spec: &At<'_>, c: &mut Check) {
    const INDEXES_MAX: i64 = 100_000;
    const INDEXES_WITH_LIMITS_MAX: i64 = 10_000;
    let [parallelism, failed] = spec.fields(["parallelism", "maxFailedIndexes"]);
    if spec.get("completions").number() <= INDEXES_MAX {
        return;
    }
    if !failed.is_set() {
        failed.required(c, "must be specified when completions is above 100000");
    }
    for number in [parallelism, failed] {
        if number.number() > INDEXES_WITH_LIMITS_MAX {
            number.invalid(
                c,
                "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per \
                 index",
            );
        }
    }
}

/// Elastic indexed Jobs change their completions together with their parallelism (since 1.27).
pub(super) fn completions_updated(spec: &At<'_>, c: &mut Check) {
    let new = spec.get("completions");
    if !(c.since(27) && spec.get("completionMode").text() == "Indexed") {
        new.immutable(c, new.old(c), "int32");
    } else if new.value != new.old(c) && (!new.is_set() || new.value != spec.get("parallelism").value) {
        new.invalid(c, "can only be modified in tandem with spec.parallelism");
    }
}

/// The template of a suspended Job that has not started may change where its pods are scheduled.
const SUSPENDED_JOBS_CHANGE: Behavior =
    Behavior::since(23, 0, "the feature gate JobMutableNodeSchedulingDirectives is on");

/// The resources of the containers of a suspended job may change, and its scheduling when it had started.
const RESOURCES_OF_SUSPENDED_JOBS_CHANGE: Behavior = Behavior::since(
    36,
    0,
    "the feature gates MutablePodResourcesForSuspendedJobs and \
     MutableSchedulingDirectivesForSuspendedJobs are on",
);

/// Whether a job is suspended and has no active pods.
///
/// # Upstream
/// `shouldAllowMutablePodTemplate` in
/// [`strategy.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/batch/job/strategy.go).
fn is_idle(job: &At<'_>) -> bool {
    let status = job.get("status");
    job.get("spec").get("suspend").flag()
        && (is_true(&status, "Suspended") || !status.get("startTime").is_set())
        && status.get("active").number() == 0
}

/// Copies the resources of containers that are at the same place of the new template.
fn copy_resources(template: &mut Value, new: &At<'_>) {
    for list in ["containers", "initContainers"] {
        let new = new.get("spec").get(list);
        let containers = template["spec"].get_mut(list).and_then(Value::as_array_mut);
        let containers = containers.filter(|containers| containers.len() == new.len());
        for (container, new) in containers.into_iter().flatten().zip(new.items()) {
            if container["name"].as_str() != Some(new.get("name").text()) {
                continue;
            }
            if let Some(fields) = container.as_object_mut() {
                match new.get("resources").value {
                    Value::Null => fields.remove("resources"),
                    resources => fields.insert("resources".to_owned(), resources.clone()),
                };
            }
        }
    }
}

/// The template of the old Job, with what the new one may change.
fn changeable_template(new: &At<'_>, old: &At<'_>, is_open: bool, c: &Check) -> Value {
    let spec = old.get("spec");
    let mut template = spec.get("template").value.clone();
    let has_started = old.get("status").get("startTime").is_set();
    let is_suspended = c.version.has(SUSPENDED_JOBS_CHANGE) && spec.get("suspend").flag();
    let is_changeable = match c.version.has(RESOURCES_OF_SUSPENDED_JOBS_CHANGE) {
        true => is_open,
        false => is_suspended && !has_started,
    };
    if !is_changeable {
        return template;
    }
    let new = new.get("template");
    if is_open {
        copy_resources(&mut template, &new);
    }
    for (part, keys) in [
        ("metadata", &["labels", "annotations"][..]),
        ("spec", &["nodeSelector", "tolerations", "schedulingGates"][..]),
    ] {
        for key in keys {
            put(&mut template, part, key, new.get(part).get(key).value);
        }
    }
    let (of_new, of_old) = (new.get("spec").get("affinity"), template["spec"].get("affinity"));
    let mut affinity = of_old.cloned().unwrap_or_default();
    if !affinity.is_object() {
        affinity = Value::Object(Map::new());
    }
    if let Some(affinity) = affinity.as_object_mut() {
        match of_new.get("nodeAffinity").value {
            Value::Null => affinity.remove("nodeAffinity"),
            nodes => affinity.insert("nodeAffinity".to_owned(), nodes.clone()),
        };
    }
    if affinity.as_object().is_some_and(Map::is_empty) && !of_new.is_set() {
        affinity = Value::Null;
    }
    put(&mut template, "spec", "affinity", &affinity);
    template
}

/// Sets a field of a part of a template; null removes it.
fn put(template: &mut Value, part: &str, key: &str, value: &Value) {
    let Some(fields) = template.get_mut(part).and_then(Value::as_object_mut) else {
        return;
    };
    match value {
        Value::Null => fields.remove(key),
        value => fields.insert(key.to_owned(), value.clone()),
    };
}

/// The template of a job, which changes little and only while the job is suspended.
pub(super) fn template_updated(spec: &At<'_>, c: &mut Check) {
    let old = c.old();
    let is_open = c.version.has(RESOURCES_OF_SUSPENDED_JOBS_CHANGE) && is_idle(&old);
    let changeable = changeable_template(spec, &old, is_open, c);
    let template = spec.get("template");
    if is_open {
        let old = changeable.get("spec").unwrap_or(&Value::Null);
        template.get("spec").immutable(c, old, "core.PodSpec");
    } else {
        template.immutable(c, &changeable, "core.PodTemplateSpec");
    }
}

/// New schedules name no time zone: there is a field for it.
const SCHEDULES_NAME_NO_ZONE: Behavior = Behavior::since(29, 0, "the changelog of 1.29");

pub(super) fn schedule(spec: &At<'_>, c: &mut Check) {
    let (schedule, zone) = (spec.get("schedule"), spec.get("timeZone"));
    if schedule.text().is_empty() {
        schedule.required(c, "");
        return;
    }
    if let Some(problem) = schedule::problem(schedule.text(), c) {
        schedule.invalid(c, &problem);
    }
    let is_zone = |schedule: &str| schedule.contains("TZ");
    let may_name_zone =
        !c.version.has(SCHEDULES_NAME_NO_ZONE) || schedule.old(c).as_str().is_some_and(is_zone);
    if is_zone(schedule.text()) && !may_name_zone {
        let problem = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        schedule.invalid(c, problem);
    } else if is_zone(schedule.text()) && zone.is_set() {
        let problem = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        schedule.invalid(c, problem);
    }
}

/// The name of a new CronJob leaves space for the suffix of job names.
pub(super) fn name_of_cron_job(name: &At<'_>, c: &mut Check) {
    const NAME_MAX: usize = 52;
    if c.name().len() > NAME_MAX {
        name.invalid_as(c, &quoted(c.name()), &formats::too_long(NAME_MAX));
    }
}

/// The names of the time zone database, which the API server contains.
const TIME_ZONES: &str = include_str!("time_zones.txt");

/// `validateTimeZone`.
pub(super) fn time_zone(zone: &At<'_>, c: &mut Check) {
    if zone.text().is_empty() {
        zone.invalid(c, "timeZone must be nil or non-empty string");
    } else if zone.text().eq_ignore_ascii_case("local") {
        let problem = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        zone.invalid(c, problem);
    } else if !TIME_ZONES.split_whitespace().any(|name| name == zone.text()) {
        zone.invalid(c, &format!("unknown time zone {}", zone.text()));
    }
}

/// Whether a condition of a job is true.
fn is_true(status: &At<'_>, kind: &str) -> bool {
    let mut conditions = status.get("conditions").items();
    conditions
        .any(|condition| condition.get("type").text() == kind && condition.get("status").text() == "True")
}

/// What belongs to the conditions of a job that has ended; checked where the fields have changed.
///
/// # Upstream
/// `validateJobStatus` and `ValidateJobStatusUpdate` in
/// [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.32.0/pkg/apis/batch/validation/validation.go),
/// with the options of `jobStatusStrategy`.
pub(super) fn finished_job(job: &At<'_>, c: &mut Check) {
    let spec = &job.get("spec");
    let (new, old) = (&job.get("status"), &c.old().get("status"));
    const KINDS: [&str; 4] = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];
    let [complete, failed, to_fail, to_complete] = KINDS.map(|kind| is_true(new, kind));
    let [was_complete, had_failed, was_to_fail, was_to_complete] = KINDS.map(|kind| is_true(old, kind));
    let (ended, had_ended) = (complete || failed, was_complete || had_failed);
    let differs = |key: &str| new.get(key).value != old.get(key).value;
    let all = new.get("conditions");
    let conditions = |is_refused: bool, problem: &str, c: &mut Check| {
        if is_refused {
            all.invalid_as(c, "", problem);
        }
    };
    let [start, completion, active, uncounted, terminating, ready] = new.fields([
        "startTime",
        "completionTime",
        "active",
        "uncountedTerminatedPods",
        "terminating",
        "ready",
    ]);
    let is_new = complete != was_complete || failed != had_failed;
    let both = "cannot set Complete=True and Failed=true conditions";
    conditions(is_new && complete && failed, both, c);
    let is_new = complete != was_complete || to_fail != was_to_fail;
    let both = "cannot set Complete=True and FailureTarget=true conditions";
    conditions(is_new && complete && to_fail, both, c);
    if complete != was_complete || differs("completionTime") {
        if completion.is_set() && !complete {
            let problem = "cannot set completionTime when there is no Complete=True condition";
            completion.invalid(c, problem);
        }
        if complete && !completion.is_set() {
            completion.required(c, "completionTime is required for Complete jobs");
        }
    }
    let is_before = start.is_set() && completion.is_set() && completion.text() < start.text();
    if (differs("startTime") || differs("completionTime")) && is_before {
        let problem = match c.since(34) {
            true => "must be equal to or after `startTime`",
            false => "completionTime cannot be set before startTime",
        };
        completion.invalid(c, problem);
    }
    let is_new = failed != had_failed || to_fail != was_to_fail;
    let alone = "cannot set Failed=True condition without the FailureTarget=true condition";
    conditions(is_new && failed && !to_fail, alone, c);
    let is_new = complete != was_complete || to_complete != was_to_complete;
    let alone = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
    conditions(is_new && complete && !to_complete, alone, c);
    let has_changed = |key: &str| ended && (!had_ended || differs(key));
    if has_changed("active") && active.number() > 0 {
        active.invalid(c, "active>0 is invalid for finished job");
    }
    if has_changed("startTime") && !start.is_set() {
        start.required(c, "startTime is required for finished job");
    }
    let [succeeded, failed_too] = uncounted.fields(["succeeded", "failed"]);
    let is_counted = succeeded.is_empty() && failed_too.is_empty();
    if has_changed("uncountedTerminatedPods") && !is_counted {
        let problem = match c.since(34) {
            true => "must be empty for finished job",
            false => "uncountedTerminatedPods needs to be empty for finished job",
        };
        uncounted.invalid(c, problem);
    }
    indexes(spec, new, old, c);
    if ended && !had_ended && terminating.number() > 0 {
        terminating.invalid(c, "terminating>0 is invalid for finished job");
    }
    if (differs("ready") || differs("active")) && ready.is_set() && ready.number() > active.number() {
        ready.invalid(c, "cannot set more ready pods than active");
    }
    let both = "cannot set SuccessCriteriaMet=True and Failed=true conditions";
    conditions(to_complete && failed, both, c);
    let both = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
    conditions(to_complete && to_fail, both, c);
    for (kind, is, was) in [
        ("Failed", failed, had_failed),
        ("Complete", complete, was_complete),
        ("FailureTarget", to_fail, was_to_fail),
    ] {
        let problem = format!("cannot disable the terminal {kind}=True condition");
        conditions(was && !is, &problem, c);
    }
}

/// The indexes of pods that succeeded and failed.
fn indexes(spec: &At<'_>, new: &At<'_>, old: &At<'_>, c: &mut Check) {
    let (completed, failed) = (new.get("completedIndexes"), new.get("failedIndexes"));
    let are_completed_new = completed.text() != old.get("completedIndexes").text();
    let are_failed_new = failed.value != old.get("failedIndexes").value;
    let completions = spec.get("completions");
    let has_limit = spec.get("backoffLimitPerIndex").is_set();
    let parsed = |list: &At<'_>, key: &str, c: &mut Check| {
        if let Err(problem) = intervals(list.text(), completions.number()) {
            list.invalid(c, &format!("error parsing {key}: {problem}"));
        }
    };
    if are_completed_new && completions.is_set() {
        parsed(&completed, "completedIndexes", c);
    }
    if are_failed_new && completions.is_set() && has_limit && failed.is_set() {
        parsed(&failed, "failedIndexes", c);
    }
    let is_indexed = spec.get("completionMode").text() == "Indexed";
    if are_completed_new && !completed.text().is_empty() && !is_indexed {
        let problem = "cannot set non-empty completedIndexes when non-indexed completion mode";
        completed.invalid(c, problem);
    }
    if are_failed_new && failed.is_set() && !has_limit {
        let problem = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        failed.invalid(c, problem);
    }
    if (are_completed_new || are_failed_new) && completions.is_set() {
        let known = |list: &At<'_>| -> Vec<(i64, i64)> {
            let parts = list.text().split(',');
            parts
                .filter_map(|part| interval(part, completions.number()).ok())
                .collect()
        };
        let (completed, failed_too) = (known(&completed), known(&failed));
        let shared = completed.iter().find_map(|(first, last)| {
            let other = failed_too.iter().find(|(from, to)| first <= to && from <= last)?;
            Some(*first.max(&other.0))
        });
        if let Some(index) = shared {
            let problem = format!("failedIndexes and completedIndexes overlap at index: {index}");
            failed.invalid(c, &problem);
        }
    }
}

/// The number of increasing indexes in a list of them and of intervals, such as `1,3-5`.
pub(super) fn intervals(list: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut previous): (i64, Option<i64>) = (0, None);
    for part in list.split(',').filter(|_| !list.is_empty()) {
        let (first, last) = interval(part, completions)?;
        if let Some(before) = previous.filter(|before| *before >= first) {
            return Err(not_increasing(before, first));
        }
        total += last - first + 1;
        previous = Some(last);
    }
    Ok(total)
}

/// `parseIndexInterval`.
fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = part.split('-').collect();
    let number = |text: &str| -> Result<i64, String> {
        let number: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {}", quoted(text)))?;
        match number < completions {
            true => Ok(number),
            false => Err(format!("too large index: {}", quoted(text))),
        }
    };
    match limits[..] {
        [only] => number(only).map(|only| (only, only)),
        [first, last] => {
            let (first, last) = (number(first)?, number(last)?);
            match first < last {
                true => Ok((first, last)),
                false => Err(not_increasing(first, last)),
            }
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts \
             separated by '-'",
            quoted(part)
        )),
    }
}

fn not_increasing(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

/// Counts and times of the status of a job that do not go back.
pub(super) fn status_updated(job: &At<'_>, c: &mut Check) {
    let spec = &job.get("spec");
    let (new, old) = (&job.get("status"), &c.old().get("status"));
    // Jobs that may be scaled down lose successes.
    let is_elastic = spec.get("completionMode").text() == "Indexed"
        && spec.get("completions").value == spec.get("parallelism").value;
    for (key, problem) in [
        ("failed", "cannot decrease the failed counter"),
        ("succeeded", "cannot decrease the succeeded counter"),
    ] {
        let count = new.get(key);
        let may_decrease = key == "succeeded" && is_elastic;
        if count.number() < old.get(key).number() && !may_decrease {
            count.invalid_as(c, &count.number().to_string(), problem);
        }
    }
    let (completion, completed) = (new.get("completionTime"), old.get("completionTime"));
    if completion.is_set() && completed.is_set() && completion.value != completed.value {
        let problem = match c.since(34) {
            true => "field is immutable",
            false => "completionTime cannot be mutated",
        };
        completion.invalid(c, problem);
    }
    let (start, started) = (new.get("startTime"), old.get("startTime"));
    if started.is_set() && start.value != started.value && !spec.get("suspend").flag() {
        match c.since(36) {
            true => start.invalid(c, "field is immutable for unsuspended job once set"),
            false => start.required(c, "startTime cannot be removed for unsuspended job"),
        }
    }
    let [met, was_met] = [new, old].map(|status| is_true(status, "SuccessCriteriaMet"));
    if was_met && !met {
        let problem = "cannot disable the SuccessCriteriaMet=True condition";
        new.get("conditions").invalid_as(c, "", problem);
    }
    if met && !was_met && is_true(old, "Complete") {
        let problem = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        new.get("conditions").invalid_as(c, "", problem);
    }
}
