//! Jobs and CronJobs.
//!
//! # Upstream
//! `pkg/apis/batch/validation`, 1.20.2 and newer.

use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{
    go_syntax,
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
        if matches(&selector, &expected) == Some(false) {
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
    if selects_template(spec) == Some(false) {
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
    let mode = spec.get("completionMode");
    if mode.is_set() {
        const MODES: [&str; 2] = ["NonIndexed", "Indexed"];
        if !MODES.contains(&mode.text()) {
            mode.unsupported(c, &MODES);
        }
        if mode.text() == "Indexed" {
            if !spec.get("completions").is_set() {
                spec.get("completions")
                    .required(c, "when completion mode is Indexed");
            }
            let parallelism = spec.get("parallelism");
            if parallelism.number() > 100_000 {
                parallelism.invalid(
                    c,
                    "must be less than or equal to 100000 when completion mode is Indexed",
                );
            }
        }
    }
    newer_job_fields(spec, c);
    let template = spec.get("template");
    self::template(&template, c);
    let policy = template.get("spec").get("restartPolicy");
    match policy.text() {
        "OnFailure" | "Never" => {}
        "Always" | "" => policy.required(c, "valid values: \"OnFailure\", \"Never\""),
        _ => policy.unsupported(c, &["OnFailure", "Never"]),
    }
}

/// The fields of a Job that releases after 1.20 added, with upstream's rules.
fn newer_job_fields(spec: &At<'_>, c: &mut Check) {
    let is_indexed = spec.get("completionMode").text() == "Indexed";
    const NEEDS_INDEXES: &str = "requires indexed completion mode";
    let per_index = spec.get("backoffLimitPerIndex");
    if per_index.is_set() {
        per_index.not_negative(c);
        if !is_indexed {
            per_index.invalid(c, NEEDS_INDEXES);
        }
    }
    let failed = spec.get("maxFailedIndexes");
    if failed.is_set() {
        failed.not_negative(c);
        if !per_index.is_set() {
            per_index.required(c, "when maxFailedIndexes is specified");
        }
    }
    let manager = spec.get("managedBy");
    if manager.is_set() {
        let is_path = manager.text().split_once('/').is_some_and(|(domain, path)| {
            formats::subdomain(c.version, domain).is_empty() && !path.is_empty()
        });
        if !is_path {
            let problem = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            manager.invalid(c, problem);
        }
    }
    let success = spec.get("successPolicy");
    if success.is_set() && !is_indexed {
        success.invalid_typed(c, "*batch.SuccessPolicy", NEEDS_INDEXES);
    } else {
        for rule in success.get("rules").items() {
            let (count, indexes) = (rule.get("succeededCount"), rule.get("succeededIndexes"));
            if !count.is_set() && !indexes.is_set() {
                rule.required(
                    c,
                    "at least one of succeededCount or succeededIndexes must be specified",
                );
            }
        }
    }
    let policy = spec.get("podFailurePolicy");
    for rule in policy.get("rules").items() {
        if rule.get("action").text() == "FailIndex" && !per_index.is_set() {
            let action = rule.get("action");
            action.invalid(c, "requires the backoffLimitPerIndex to be set");
        }
        let codes = rule.get("onExitCodes");
        for value in codes.get("values").items() {
            if codes.get("operator").text() == "In" && value.number() == 0 {
                value.invalid_as(c, "0", "must not be 0 for the In operator");
            }
        }
    }
    let replacement = spec.get("podReplacementPolicy");
    if replacement.is_set() {
        let supported: &[&str] = match policy.is_set() {
            true => &["Failed"],
            false => &["Failed", "TerminatingOrFailed"],
        };
        if !supported.contains(&replacement.text()) {
            replacement.unsupported(c, supported);
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

/// `ValidateJobUpdate`.
pub(super) fn job_updated(body: &Object, old: &Object, c: &mut Check) {
    let (spec, old) = (At::root(body, "spec"), At::root(old, "spec"));
    job_spec(&spec, c);
    completions_updated(&spec, &old, c);
    pinned(&spec, &old, "selector", SELECTOR, c);
    for (key, ty) in [
        ("podFailurePolicy", "*batch.PodFailurePolicy"),
        ("backoffLimitPerIndex", "*int32"),
        ("managedBy", "*string"),
        ("successPolicy", "*batch.SuccessPolicy"),
    ] {
        pinned(&spec, &old, key, ty, c);
    }
    pinned(&spec, &old, "template", "core.PodTemplateSpec", c);
    if c.since(21) {
        pinned(&spec, &old, "completionMode", "string", c);
    }
}

/// `ValidateCronJobSpec`; on creation the name must leave space for the suffix of job names.
pub(super) fn cron_job(job: &StoredObject, body: &Object, is_new: bool, c: &mut Check) {
    let spec = At::root(body, "spec");
    let schedule = spec.get("schedule");
    if schedule.text().is_empty() {
        schedule.required(c, "");
    } else if let Some(problem) = schedule::problem(schedule.text(), c) {
        schedule.invalid(c, &problem);
    }
    time_zone(&spec, is_new, c);
    spec.get("startingDeadlineSeconds").not_negative(c);
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
fn time_zone(spec: &At<'_>, is_new: bool, c: &mut Check) {
    let (zone, schedule) = (spec.get("timeZone"), spec.get("schedule"));
    if schedule.text().contains("TZ") {
        if zone.is_set() {
            zone.invalid(c, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
        } else if is_new && c.since(29) {
            schedule.invalid(
                c,
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            );
        }
    }
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
pub(super) fn finished_job(new: &At<'_>, old: &At<'_>, c: &mut Check) {
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
        completion.invalid(c, "completionTime cannot be set before startTime");
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
