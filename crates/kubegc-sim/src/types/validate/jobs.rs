//! Jobs and CronJobs.
//!
//! # Upstream
//! `pkg/apis/batch/validation`, 1.20.2 and newer.

use kubegc_core::Behavior;
use serde_json::{Map, Value, json};

use super::super::field::{At, Check};
use super::{
    go_syntax, job_policies,
    networking::domain_prefixed_path,
    pod::template,
    schedule,
    selector::{label_selector, matches},
    workloads::{SELECTOR, not_selected, pinned, selects_template},
};
use crate::{StoredObject, formats, status::quoted};

type Object = Map<String, Value>;

/// `ValidateJob`.
pub(super) fn job(job: &StoredObject, body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    let template = spec.get("template").get("metadata");
    let selector = spec.get("selector");
    if !spec.get("manualSelector").flag() && selector.is_set() {
        let uid = job.meta.uid.to_string();
        let keys = super::super::prepare::job_labels(c.version);
        let mut expected = Map::new();
        for [by_uid, by_name] in keys.iter().rev() {
            for (key, value) in [(*by_uid, uid.as_str()), (*by_name, &*job.meta.name)] {
                has_label(&template, key, value, c);
                expected.insert(key.to_owned(), value.into());
            }
        }
        let expected = Value::Object(expected);
        if matches(&selector, &expected, c.version) == Some(false) {
            selector.invalid_typed(c, SELECTOR, "`selector` not auto-generated");
        }
    }
    job_spec(&spec, c);
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

/// `ValidateJobSpec`.
fn job_spec(spec: &At<'_>, c: &mut Check) {
    job_part(spec, c);
    let selector = spec.get("selector");
    if selector.is_set() {
        label_selector(&selector, c);
    } else {
        selector.required(c, "");
    }
    if selects_template(spec, c.version) == Some(false) {
        not_selected(spec, c);
    }
}

/// `validateJobSpec`: the common part of jobs and job templates.
fn job_part(spec: &At<'_>, c: &mut Check) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        spec.get(key).not_negative(c);
    }
    limits_per_index(spec, c);
    let mode = spec.get("completionMode");
    if mode.is_set() {
        completion_mode(spec, &mode, c);
    }
    if mode.text() != "Indexed" {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if spec.get(key).is_set() {
                spec.get(key).invalid(c, NEEDS_INDEXES);
            }
        }
    }
    job_policies::failure(spec, c);
    let success = spec.get("successPolicy");
    if success.is_set() && mode.text() != "Indexed" {
        success.invalid_typed(c, "*batch.SuccessPolicy", NEEDS_INDEXES);
    } else if success.is_set() {
        job_policies::success(spec, c);
    }
    job_policies::replacement(spec, c);
    let template = spec.get("template");
    self::template(&template, c);
    let policy = template.get("spec").get("restartPolicy");
    match policy.text() {
        "OnFailure" if spec.get("podFailurePolicy").is_set() => {
            policy.invalid(
                c,
                "only \"Never\" is supported when podFailurePolicy is specified",
            );
        }
        "OnFailure" | "Never" => {}
        "Always" | "" => policy.required(c, "valid values: \"OnFailure\", \"Never\""),
        _ => policy.unsupported(c, &["OnFailure", "Never"]),
    }
}

const NEEDS_INDEXES: &str = "requires indexed completion mode";

fn limits_per_index(spec: &At<'_>, c: &mut Check) {
    let (per_index, failed, manager) = (
        spec.get("backoffLimitPerIndex"),
        spec.get("maxFailedIndexes"),
        spec.get("managedBy"),
    );
    per_index.not_negative(c);
    if failed.is_set() {
        failed.not_negative(c);
        if !per_index.is_set() {
            per_index.required(c, "when maxFailedIndexes is specified");
        }
    }
    if manager.is_set() {
        const NAME_MAX: usize = 63;
        domain_prefixed_path(&manager, c);
        if manager.text().len() > NAME_MAX {
            manager.too_long(c, NAME_MAX);
        }
    }
}

fn completion_mode(spec: &At<'_>, mode: &At<'_>, c: &mut Check) {
    const MODES: [&str; 2] = ["NonIndexed", "Indexed"];
    const INDEXES_MAX: i64 = 100_000;
    const INDEXES_WITH_LIMITS_MAX: i64 = 10_000;
    if !MODES.contains(&mode.text()) {
        mode.unsupported(c, &MODES);
    }
    if mode.text() != "Indexed" {
        return;
    }
    let (completions, parallelism, failed) = (
        spec.get("completions"),
        spec.get("parallelism"),
        spec.get("maxFailedIndexes"),
    );
    if !completions.is_set() {
        completions.required(c, "when completion mode is Indexed");
    }
    if parallelism.number() > INDEXES_MAX {
        parallelism.invalid(
            c,
            "must be less than or equal to 100000 when completion mode is Indexed",
        );
    }
    if completions.is_set() && failed.number() > completions.number() {
        failed.invalid(c, "must be less than or equal to completions");
    }
    if failed.number() > INDEXES_MAX {
        failed.invalid(c, "must be less than or equal to 100000");
    }
    if completions.number() <= INDEXES_MAX || !spec.get("backoffLimitPerIndex").is_set() {
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
fn completions_updated(spec: &At<'_>, old: &At<'_>, c: &mut Check) {
    let is_elastic = c.since(27) && spec.get("completionMode").text() == "Indexed";
    if !is_elastic {
        pinned(spec, old, "completions", "int32", c);
        return;
    }
    let (new, before) = (spec.get("completions"), old.get("completions"));
    if new.value == before.value {
        return;
    }
    if !new.is_set() || new.value != spec.get("parallelism").value {
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
fn is_idle(job: &Object) -> bool {
    let status = At::root(job, "status");
    let mut conditions = status.get("conditions").items();
    let is_stopped = conditions.any(|condition| {
        condition.get("type").text() == "Suspended" && condition.get("status").text() == "True"
    });
    At::root(job, "spec").get("suspend").flag()
        && (is_stopped || !status.get("startTime").is_set())
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
fn changeable_template(new: &At<'_>, old: &Object, is_open: bool, c: &Check) -> Value {
    let spec = At::root(old, "spec");
    let mut template = spec.get("template").value.clone();
    let has_started = At::root(old, "status").get("startTime").is_set();
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

/// `ValidateJobUpdate`.
pub(super) fn job_updated(body: &Object, old: &Object, c: &mut Check) {
    let (spec, old_spec) = (At::root(body, "spec"), At::root(old, "spec"));
    job_spec(&spec, c);
    completions_updated(&spec, &old_spec, c);
    pinned(&spec, &old_spec, "selector", SELECTOR, c);
    let is_open = c.version.has(RESOURCES_OF_SUSPENDED_JOBS_CHANGE) && is_idle(old);
    let changeable = json!({"template": changeable_template(&spec, old, is_open, c)});
    let changeable = At {
        value: &changeable,
        path: spec.path.clone(),
    };
    if is_open {
        let (template, changeable) = (spec.get("template"), changeable.get("template"));
        pinned(&template, &changeable, "spec", "core.PodSpec", c);
    } else {
        pinned(&spec, &changeable, "template", "core.PodTemplateSpec", c);
    }
    if c.since(21) {
        pinned(&spec, &old_spec, "completionMode", "string", c);
    }
    for (key, ty) in [
        ("podFailurePolicy", "*batch.PodFailurePolicy"),
        ("backoffLimitPerIndex", "*int32"),
        ("managedBy", "*string"),
        ("successPolicy", "*batch.SuccessPolicy"),
    ] {
        pinned(&spec, &old_spec, key, ty, c);
    }
}

/// New schedules name no time zone: there is a field for it.
const SCHEDULES_NAME_NO_ZONE: Behavior = Behavior::since(29, 0, "the changelog of 1.29");

/// `ValidateCronJobSpec`; on creation the name must leave space for the suffix of job names.
pub(super) fn cron_job(job: &StoredObject, body: &Object, old: Option<&Object>, c: &mut Check) {
    let is_new = old.is_none();
    let spec = At::root(body, "spec");
    let (schedule, zone) = (spec.get("schedule"), spec.get("timeZone"));
    let of_old = |key: &str| old.map(|old| At::root(old, "spec").get(key).text().to_owned());
    if schedule.text().is_empty() {
        schedule.required(c, "");
    } else {
        if let Some(problem) = schedule::problem(schedule.text(), c) {
            schedule.invalid(c, &problem);
        }
        let may_name_zone = !c.version.has(SCHEDULES_NAME_NO_ZONE)
            || of_old("schedule").is_some_and(|schedule| schedule.contains("TZ"));
        match schedule.text().contains("TZ") {
            true if !may_name_zone => schedule.invalid(
                c,
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ),
            true if zone.is_set() => {
                schedule.invalid(c, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
            }
            _ => {}
        }
    }
    spec.get("startingDeadlineSeconds").not_negative(c);
    if is_new || of_old("timeZone").as_deref() != Some(zone.text()) {
        time_zone(&zone, c);
    }
    spec.get("concurrencyPolicy")
        .one_of(c, &["Allow", "Forbid", "Replace"]);
    let job_spec = spec.get("jobTemplate").get("spec");
    job_part(&job_spec, c);
    let selector = job_spec.get("selector");
    if selector.is_set() {
        let shown = go_syntax::value(c.version, selector.value, SELECTOR);
        selector.invalid_as(c, &shown, "`selector` will be auto-generated");
    }
    if job_spec.get("manualSelector").flag() {
        job_spec.get("manualSelector").unsupported(c, &["nil", "false"]);
    }
    spec.get("successfulJobsHistoryLimit").not_negative(c);
    spec.get("failedJobsHistoryLimit").not_negative(c);
    const NAME_MAX: usize = 52;
    if is_new && job.meta.name.len() > NAME_MAX {
        let name = Value::from(&*job.meta.name);
        let name = At {
            value: &name,
            path: At::root(body, "metadata").get("name").path,
        };
        let problem = formats::too_long(NAME_MAX);
        name.invalid_as(c, &quoted(&job.meta.name), &problem);
    }
}

/// The names of the time zone database, which the API server contains.
const TIME_ZONES: &str = include_str!("time_zones.txt");

/// `validateTimeZone`.
fn time_zone(zone: &At<'_>, c: &mut Check) {
    if !zone.is_set() {
        return;
    }
    if zone.text().is_empty() {
        zone.invalid(c, "timeZone must be nil or non-empty string");
    } else if zone.text().eq_ignore_ascii_case("local") {
        zone.invalid(
            c,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    } else if !TIME_ZONES.split_whitespace().any(|name| name == zone.text()) {
        zone.invalid(c, &format!("unknown time zone {}", zone.text()));
    }
}

/// What belongs to the conditions of a job that has ended; checked where the fields have changed.
///
/// # Upstream
/// `validateJobStatus` and `ValidateJobStatusUpdate` in
/// [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.32.0/pkg/apis/batch/validation/validation.go),
/// with the options of `jobStatusStrategy`.
pub(super) fn finished_job(spec: &At<'_>, new: &At<'_>, old: &At<'_>, c: &mut Check) {
    let is_true = |status: &At<'_>, kind: &str| {
        let conditions = status.get("conditions");
        conditions
            .items()
            .any(|condition| condition.get("type").text() == kind && condition.get("status").text() == "True")
    };
    let [complete, failed, to_fail, to_complete] =
        ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"].map(|kind| is_true(new, kind));
    let [was_complete, had_failed, was_to_fail, was_to_complete] =
        ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"].map(|kind| is_true(old, kind));
    let (ended, had_ended) = (complete || failed, was_complete || had_failed);
    let differs = |key: &str| new.get(key).value != old.get(key).value;
    let conditions = new.get("conditions");
    let (start, completion) = (new.get("startTime"), new.get("completionTime"));
    if (complete != was_complete || failed != had_failed) && complete && failed {
        conditions.invalid_as(c, "", "cannot set Complete=True and Failed=true conditions");
    }
    if (complete != was_complete || to_fail != was_to_fail) && complete && to_fail {
        conditions.invalid_as(
            c,
            "",
            "cannot set Complete=True and FailureTarget=true conditions",
        );
    }
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
    if (failed != had_failed || to_fail != was_to_fail) && failed && !to_fail {
        let problem = "cannot set Failed=True condition without the FailureTarget=true condition";
        conditions.invalid_as(c, "", problem);
    }
    if (complete != was_complete || to_complete != was_to_complete) && complete && !to_complete {
        let problem = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        conditions.invalid_as(c, "", problem);
    }
    if (ended != had_ended || differs("active")) && ended && new.get("active").number() > 0 {
        new.get("active")
            .invalid(c, "active>0 is invalid for finished job");
    }
    if (ended != had_ended || differs("startTime")) && ended && !start.is_set() {
        start.required(c, "startTime is required for finished job");
    }
    let uncounted = new.get("uncountedTerminatedPods");
    let is_counted = ["succeeded", "failed"]
        .iter()
        .all(|key| uncounted.get(key).is_empty());
    if (ended != had_ended || differs("uncountedTerminatedPods")) && ended && !is_counted {
        let problem = match c.since(34) {
            true => "must be empty for finished job",
            false => "uncountedTerminatedPods needs to be empty for finished job",
        };
        uncounted.invalid(c, problem);
    }
    indexes(spec, new, old, c);
    let (active, ready) = (new.get("active").number(), new.get("ready"));
    if ended && !had_ended && new.get("terminating").number() > 0 {
        let terminating = new.get("terminating");
        terminating.invalid(c, "terminating>0 is invalid for finished job");
    }
    if (differs("ready") || differs("active")) && ready.is_set() && ready.number() > active {
        ready.invalid(c, "cannot set more ready pods than active");
    }
    if to_complete && failed {
        let problem = "cannot set SuccessCriteriaMet=True and Failed=true conditions";
        conditions.invalid_as(c, "", problem);
    }
    if to_complete && to_fail {
        let problem = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
        conditions.invalid_as(c, "", problem);
    }
    for (kind, is, was) in [
        ("Failed", failed, had_failed),
        ("Complete", complete, was_complete),
        ("FailureTarget", to_fail, was_to_fail),
    ] {
        if was && !is {
            let problem = format!("cannot disable the terminal {kind}=True condition");
            conditions.invalid_as(c, "", &problem);
        }
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

/// Checks a list of increasing indexes and intervals of them.
fn intervals(list: &str, completions: i64) -> Result<(), String> {
    let mut previous: Option<i64> = None;
    for part in list.split(',').filter(|_| !list.is_empty()) {
        let (first, last) = interval(part, completions)?;
        match previous {
            Some(before) if before >= first => return Err(not_increasing(before, first)),
            _ => previous = Some(last),
        }
    }
    Ok(())
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
pub(super) fn status_updated(spec: &At<'_>, new: &At<'_>, old: &At<'_>, c: &mut Check) {
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
    let is_true = |status: &At<'_>, kind: &str| {
        status
            .get("conditions")
            .items()
            .any(|condition| condition.get("type").text() == kind && condition.get("status").text() == "True")
    };
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
