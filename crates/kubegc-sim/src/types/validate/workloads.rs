//! Controllers of pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController, Job, CronJob.
//!
//! # Upstream
//! `pkg/apis/apps/validation`, `pkg/apis/batch/validation`, and `ValidateReplicationController` of core,
//! 1.20.2.

use serde_json::{Map, Value};

use super::super::field::{At, Check};
use super::{
    go_syntax,
    pod::{template, template_metadata},
    schedule,
    selector::{is_empty_selector, label_selector, matches},
};
use crate::{StoredObject, formats, status::quoted};

type Object = Map<String, Value>;

const SELECTOR: &str = "v1.LabelSelector";

/// A required selector; returns whether it can be used.
fn required_selector(spec: &At<'_>, kind: &str, c: &mut Check) {
    let selector = spec.get("selector");
    if !selector.is_set() {
        selector.required(c, "");
        return;
    }
    label_selector(&selector, c);
    if is_empty_selector(&selector) {
        let problem = format!("empty selector is invalid for {kind}");
        selector.invalid_typed(c, SELECTOR, &problem);
    }
}

/// Whether the selector matches the labels of the template, `None` for an invalid selector. A missing one
/// selects nothing, an empty one everything.
fn selects_template(spec: &At<'_>) -> Option<bool> {
    let selector = spec.get("selector");
    if !selector.is_set() {
        return Some(false);
    }
    matches(
        &selector,
        spec.get("template").get("metadata").get("labels").value,
    )
}

fn not_selected(spec: &At<'_>, c: &mut Check) {
    let labels = spec.get("template").get("metadata").get("labels");
    let shown = go_syntax::value(c.version, labels.value, "map[string]string");
    labels.invalid_as(c, &shown, "`selector` does not match template `labels`");
}

/// Templates of pods that are always restarted.
fn restarts_always(template: &At<'_>, kind: &str, c: &mut Check) {
    let spec = template.get("spec");
    if spec.get("restartPolicy").text() != "Always" {
        spec.get("restartPolicy").unsupported(c, &["Always"]);
    }
    if spec.get("activeDeadlineSeconds").is_set() {
        let problem = format!("activeDeadlineSeconds in {kind} is not Supported");
        spec.get("activeDeadlineSeconds").forbidden(c, &problem);
    }
}

/// `ValidateReadOnlyPersistentDisks`.
fn read_only_disks(template: &At<'_>, c: &mut Check) {
    for volume in template.get("spec").get("volumes").items() {
        let disk = volume.get("gcePersistentDisk");
        if disk.is_set() && !disk.get("readOnly").flag() {
            let problem = "must be true for replicated pods > 1; GCE PD can only be mounted on multiple machines if it \
                           is read-only";
            let only = volume.get("gcePersistentDisk").get("readOnly");
            only.invalid_as(c, "false", problem);
        }
    }
}

/// `ValidatePodTemplateSpecForReplicaSet`.
fn replica_set_template(spec: &At<'_>, c: &mut Check) {
    let selector = spec.get("selector");
    match selects_template(spec) {
        None => {
            selector.invalid_typed(c, SELECTOR, "invalid label selector");
            return;
        }
        Some(false) if !is_empty_selector(&selector) || !selector.is_set() => not_selected(spec, c),
        Some(_) => {}
    }
    let template = spec.get("template");
    self::template(&template, c);
    if spec.get("replicas").number() > 1 {
        read_only_disks(&template, c);
    }
    restarts_always(&template, "ReplicaSet", c);
}

/// `ValidateDeploymentSpec`.
pub(super) fn deployment(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    spec.get("replicas").not_negative(c);
    required_selector(&spec, "deployment", c);
    replica_set_template(&spec, c);
    let strategy = spec.get("strategy");
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                rolling.forbidden(c, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => {
            if rolling.is_set() {
                rolling_deployment(&rolling, c);
            } else {
                rolling.required(c, "this should be defaulted and never be nil");
            }
        }
        _ => unsupported_as(
            &strategy,
            "apps.DeploymentStrategy",
            &["Recreate", "RollingUpdate"],
            c,
        ),
    }
    let ready = spec.get("minReadySeconds");
    ready.not_negative(c);
    spec.get("revisionHistoryLimit").not_negative(c);
    let deadline = spec.get("progressDeadlineSeconds");
    if deadline.is_set() {
        deadline.not_negative(c);
        if deadline.number() <= ready.number() {
            deadline.invalid(c, "must be greater than minReadySeconds");
        }
    }
}

fn unsupported_as(at: &At<'_>, ty: &str, supported: &[&str], c: &mut Check) {
    let before = c.causes.len();
    at.unsupported(c, supported);
    let (plain, shown) = (at.shown(), go_syntax::value(c.version, at.value, ty));
    for cause in c.causes.iter_mut().skip(before) {
        cause.message = cause.message.replacen(&plain, &shown, 1);
    }
}

fn rolling_deployment(rolling: &At<'_>, c: &mut Check) {
    let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
    int_or_percent(&unavailable, c);
    int_or_percent(&surge, c);
    if amount(&unavailable) == 0 && amount(&surge) == 0 {
        invalid_amount(&unavailable, "may not be 0 when `maxSurge` is 0", c);
    }
    at_most_all(&unavailable, c);
}

fn invalid_amount(at: &At<'_>, problem: &str, c: &mut Check) {
    at.invalid_typed(c, "intstr.IntOrString", problem);
}

/// `ValidatePositiveIntOrPercent`.
pub(super) fn int_or_percent(at: &At<'_>, c: &mut Check) {
    match at.value.as_str() {
        Some(text) => {
            for problem in formats::percent(text) {
                invalid_amount(at, &problem, c);
            }
        }
        None => at.not_negative(c),
    }
}

/// The number or the percentage; any other string counts as zero.
fn amount(at: &At<'_>) -> i64 {
    match at.value.as_str() {
        Some(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        None => at.number(),
    }
}

/// `IsNotMoreThan100Percent`.
pub(super) fn at_most_all(at: &At<'_>, c: &mut Check) {
    let is_percent = at
        .value
        .as_str()
        .is_some_and(|text| formats::percent(text).is_empty());
    if is_percent && amount(at) > 100 {
        invalid_amount(at, "must not be greater than 100%", c);
    }
}

/// `ValidateReplicaSetSpec`.
pub(super) fn replica_set(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    spec.get("replicas").not_negative(c);
    spec.get("minReadySeconds").not_negative(c);
    required_selector(&spec, "deployment", c);
    replica_set_template(&spec, c);
}

/// `ValidateStatefulSetSpec`.
pub(super) fn stateful_set(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    if c.since(33) {
        for template in spec.get("volumeClaimTemplates").items() {
            super::storage::claim_spec(&template.get("spec"), c);
        }
    }
    let policy = spec.get("podManagementPolicy");
    match policy.text() {
        "OrderedReady" | "Parallel" => {}
        "" => policy.required(c, ""),
        _ => policy.invalid(c, "must be 'OrderedReady' or 'Parallel'"),
    }
    let strategy = spec.get("updateStrategy");
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "" => strategy.required(c, ""),
        "OnDelete" => {
            if rolling.is_set() {
                let shown =
                    go_syntax::value(c.version, rolling.value, "apps.RollingUpdateStatefulSetStrategy");
                rolling.invalid_as(c, &shown, "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => rolling.get("partition").not_negative(c),
        _ => {
            let shown = go_syntax::value(c.version, strategy.value, "apps.StatefulSetUpdateStrategy");
            strategy.invalid_as(c, &shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
    spec.get("replicas").not_negative(c);
    if c.since(23) {
        spec.get("minReadySeconds").not_negative(c);
    }
    required_selector(&spec, "statefulset", c);
    let selector = spec.get("selector");
    let template = spec.get("template");
    match selects_template(&spec) {
        None => selector.invalid_typed(c, SELECTOR, ""),
        Some(selects) => {
            if !selects && (!is_empty_selector(&selector) || !selector.is_set()) {
                not_selected(&spec, c);
            }
            template_metadata(&template, c);
        }
    }
    restarts_always(&template, "StatefulSet", c);
}

/// `ValidateStatefulSetUpdate`.
pub(super) fn stateful_set_updated(body: &Object, old: &Object, c: &mut Check) {
    let mut mutable = vec!["replicas", "template", "updateStrategy"];
    if c.since(23) {
        mutable.push("minReadySeconds");
    }
    if c.since(27) {
        mutable.extend(["persistentVolumeClaimRetentionPolicy", "ordinals"]);
    }
    if c.since(32) {
        mutable.push("revisionHistoryLimit");
    }
    let spec = At::root(body, "spec");
    let pinned = |body: &Object| {
        let mut spec = body
            .get("spec")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        spec.retain(|key, _| !mutable.contains(&key.as_str()));
        spec
    };
    if pinned(body) != pinned(old) {
        let fields = match c.version.minor() {
            ..22 => "'replicas', 'template', and 'updateStrategy'",
            22 => "'replicas', 'template', 'updateStrategy' and 'minReadySeconds'",
            23..26 => {
                "'replicas', 'template', 'updateStrategy', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
            }
            26..32 => {
                "'replicas', 'ordinals', 'template', 'updateStrategy', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
            }
            _ => {
                "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', \
                 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
            }
        };
        let problem = format!("updates to statefulset spec for fields other than {fields} are forbidden");
        spec.forbidden(c, &problem);
    }
    spec.get("replicas").not_negative(c);
}

/// `ValidateDaemonSetSpec`.
pub(super) fn daemon_set(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    label_selector(&selector, c);
    if selects_template(&spec) == Some(false) {
        not_selected(&spec, c);
    }
    if selector.is_set() && is_empty_selector(&selector) {
        let shown = go_syntax::value(c.version, selector.value, SELECTOR);
        selector.invalid_as(c, &shown, "empty selector is invalid for daemonset");
    }
    self::template(&template, c);
    read_only_disks(&template, c);
    restarts_always(&template, "DaemonSet", c);
    spec.get("minReadySeconds").not_negative(c);
    let strategy = spec.get("updateStrategy");
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => rolling.required(c, ""),
        "RollingUpdate" => rolling_daemon_set(&rolling, c),
        _ => unsupported_as(
            &strategy,
            "apps.DaemonSetUpdateStrategy",
            &["RollingUpdate", "OnDelete"],
            c,
        ),
    }
    spec.get("revisionHistoryLimit").not_negative(c);
}

fn rolling_daemon_set(rolling: &At<'_>, c: &mut Check) {
    let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
    int_or_percent(&unavailable, c);
    if !c.since(22) {
        if amount(&unavailable) == 0 {
            invalid_amount(&unavailable, "cannot be 0", c);
        }
        at_most_all(&unavailable, c);
        return;
    }
    int_or_percent(&surge, c);
    at_most_all(&unavailable, c);
    at_most_all(&surge, c);
    match (amount(&unavailable) != 0, amount(&surge) != 0) {
        (true, true) => invalid_amount(&surge, "may not be set when maxUnavailable is non-zero", c),
        (false, false) => unavailable.required(c, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

/// Immutable selectors.
pub(super) fn pinned_selector(body: &Object, old: &Object, c: &mut Check) {
    let (spec, old) = (At::root(body, "spec"), At::root(old, "spec"));
    pinned(&spec, &old, "selector", SELECTOR, c);
}

/// `ValidateImmutableField`.
pub(super) fn pinned(new: &At<'_>, old: &At<'_>, key: &str, ty: &str, c: &mut Check) {
    let (new, old) = (new.get(key), old.get(key));
    if new.value != old.value {
        let shown = match new.decoded(c) {
            Value::Null if !c.version.has(super::VALUES_ARE_JSON) => "\"null\"".to_owned(),
            Value::Null => "null".to_owned(),
            value => go_syntax::value(c.version, value, ty),
        };
        new.invalid_as(c, &shown, "field is immutable");
    }
}

/// `ValidateReplicationControllerSpec`.
pub(super) fn replication_controller(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    spec.get("minReadySeconds").not_negative(c);
    let selector = spec.get("selector");
    if selector.is_empty() {
        selector.required(c, "");
    }
    spec.get("replicas").not_negative(c);
    let template = spec.get("template");
    if !template.is_set() {
        template.required(c, "");
        return;
    }
    let own = template.get("metadata").get("labels");
    let selects = selector
        .entries()
        .all(|(key, value)| own.key(key).value == value.value);
    if !selector.is_empty() && !selects {
        not_selected(&spec, c);
    }
    self::template(&template, c);
    if spec.get("replicas").number() > 1 {
        read_only_disks(&template, c);
    }
    restarts_always(&template, "ReplicationController", c);
}

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

/// `validateTimeZone`, except for names that no database has.
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
    }
}

/// Numbers of the status of a controller: none is negative, and none exceeds the replicas.
pub(super) fn status(kind: &str, body: &Object, old: &Object, c: &mut Check) {
    let status = At::root(body, "status");
    let numbers: &[&str] = match kind {
        "Deployment" => &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "collisionCount",
        ],
        "ReplicaSet" | "ReplicationController" => &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
        ],
        "StatefulSet" => &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "observedGeneration",
            "collisionCount",
            "availableReplicas",
        ],
        "DaemonSet" => &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
        "Job" => &["active", "succeeded", "failed"],
        "HorizontalPodAutoscaler" => &["currentReplicas", "desiredReplicas"],
        _ => &[],
    };
    for key in numbers {
        status.get(key).not_negative(c);
    }
    if kind == "Job" && c.since(31) {
        let (start, before) = (status.get("startTime"), At::root(old, "status").get("startTime"));
        let is_suspended = At::root(body, "spec").get("suspend").flag();
        if before.is_set() && start.value != before.value && !is_suspended {
            start.invalid(c, "field is immutable for unsuspended job once set");
        }
    }
    if kind == "Job" && c.since(32) {
        finished_job(&status, &At::root(old, "status"), c);
    }
    let shares: &[&str] = match kind {
        "Deployment" => &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "ReplicaSet" | "ReplicationController" => {
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]
        }
        "StatefulSet" if !c.since(22) => &["readyReplicas", "currentReplicas", "updatedReplicas"],
        "StatefulSet" => &[
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
        ],
        _ => &[],
    };
    let replicas = status.get("replicas").number();
    let exceeds = |key: &str, max: i64, problem: &str, c: &mut Check| {
        let number = status.get(key);
        if number.number() > max {
            number.invalid_as(c, &number.number().to_string(), problem);
        }
    };
    for key in shares {
        exceeds(key, replicas, "cannot be greater than status.replicas", c);
    }
    if shares.contains(&"availableReplicas") {
        let ready = status.get("readyReplicas").number();
        exceeds(
            "availableReplicas",
            ready,
            "cannot be greater than readyReplicas",
            c,
        );
    }
    if numbers.contains(&"collisionCount") {
        let (new, old) = (
            status.get("collisionCount"),
            At::root(old, "status").get("collisionCount"),
        );
        if old.is_set() && new.number() < old.number() {
            new.invalid_as(c, &new.number().to_string(), "cannot be decremented");
        }
    }
}

/// `ValidatePodTemplate`.
pub(super) fn pod_template(body: &Object, c: &mut Check) {
    template(&At::root(body, "template"), c);
}

/// `ValidateControllerRevision`.
pub(super) fn controller_revision(body: &Object, c: &mut Check) {
    let data = At::root(body, "data");
    if !data.is_set() {
        data.required(c, "data is mandatory");
    }
    At::root(body, "revision").not_negative(c);
}

/// What belongs to the conditions of a job that has ended; checked where the fields have changed.
///
/// # Upstream
/// `validateJobStatus` and `ValidateJobStatusUpdate` in
/// [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.32.0/pkg/apis/batch/validation/validation.go),
/// with the options of `jobStatusStrategy`.
fn finished_job(new: &At<'_>, old: &At<'_>, c: &mut Check) {
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
