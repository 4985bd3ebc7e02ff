//! Controllers of pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController.
//!
//! # Upstream
//! `pkg/apis/apps/validation`, and `ValidateReplicationController` of core,
//! 1.20.2.

use std::collections::BTreeSet;

use kubegc_core::{Behavior, KubernetesVersion};
use serde_json::{Map, Value, json};

use super::super::field::{At, Check};
use super::{
    go_syntax, jobs,
    pod::{template, template_metadata},
    selector::{is_empty_selector, label_selector, matches},
};
use crate::formats;

type Object = Map<String, Value>;

pub(super) const SELECTOR: &str = "v1.LabelSelector";

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
        let shown = shown_selector(&selector, c);
        selector.invalid_as(c, &shown, &problem);
    }
}

/// A selector, as errors print it. Go's syntax distinguishes an empty map from none.
fn shown_selector(selector: &At<'_>, c: &Check) -> String {
    let value = match c.version.has(super::VALUES_ARE_JSON) {
        true => selector.value,
        false => selector.decoded(c),
    };
    go_syntax::value(c.version, value, SELECTOR)
}

/// Whether the selector matches the labels of the template, `None` for an invalid selector. A missing one
/// selects nothing, an empty one everything.
pub(super) fn selects_template(spec: &At<'_>, version: KubernetesVersion) -> Option<bool> {
    let selector = spec.get("selector");
    if !selector.is_set() {
        return Some(false);
    }
    matches(
        &selector,
        spec.get("template").get("metadata").get("labels").value,
        version,
    )
}

pub(super) fn not_selected(spec: &At<'_>, c: &mut Check) {
    let labels = spec.get("template").get("metadata").get("labels");
    let shown = go_syntax::value(c.version, labels.decoded(c), "map[string]string");
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
    if c.version.has(DISKS_ARE_NOT_VALIDATED) {
        return;
    }
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
    match selects_template(spec, c.version) {
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

/// The templates of pods and claims of StatefulSets are validated.
const TEMPLATES_ARE_VALIDATED: Behavior = Behavior::since(34, 0, "kubernetes #131790 and #132212");
/// Disks that only one node can write may be in the templates of many pods.
const DISKS_ARE_NOT_VALIDATED: Behavior =
    Behavior::since(31, 0, "ValidatePodTemplateSpecForReplicaSet of 1.31");

/// Rules that the validation of a StatefulSet skips.
#[derive(Clone, Copy, Default)]
struct Skipped {
    /// Fields that updates cannot change.
    immutable: bool,
    template: bool,
}

/// `ValidateStatefulSet`.
pub(super) fn stateful_set(body: &Object, c: &mut Check) {
    stateful_set_spec(&At::root(body, "spec"), Skipped::default(), c);
}

/// `ValidateStatefulSetSpec`.
fn stateful_set_spec(spec: &At<'_>, skipped: Skipped, c: &mut Check) {
    let policy = spec.get("podManagementPolicy");
    match policy.text() {
        "OrderedReady" | "Parallel" => {}
        "" => policy.required(c, ""),
        _ => policy.invalid(c, "must be 'OrderedReady' or 'Parallel'"),
    }
    stateful_set_strategy(&spec.get("updateStrategy"), c);
    let retention = spec.get("persistentVolumeClaimRetentionPolicy");
    for key in ["whenDeleted", "whenScaled"] {
        let policy = retention.get(key);
        if retention.is_set() && !matches!(policy.text(), "Retain" | "Delete") {
            policy.unsupported(c, &["Retain", "Delete"]);
        }
    }
    if !skipped.immutable && c.version.has(TEMPLATES_ARE_VALIDATED) {
        for claim in spec.get("volumeClaimTemplates").items() {
            super::storage::claim_spec(&claim.get("spec"), c);
        }
    }
    spec.get("replicas").not_negative(c);
    if c.since(23) {
        spec.get("minReadySeconds").not_negative(c);
    }
    spec.get("ordinals").get("start").not_negative(c);
    let service = spec.get("serviceName");
    if !skipped.immutable && c.since(33) && !service.text().is_empty() {
        service.label(c);
    }
    required_selector(spec, "statefulset", c);
    let selector = spec.get("selector");
    let template = spec.get("template");
    match selects_template(spec, c.version) {
        None => selector.invalid_typed(c, SELECTOR, ""),
        Some(selects) => {
            if !selects && (!is_empty_selector(&selector) || !selector.is_set()) {
                not_selected(spec, c);
            }
            if c.version.has(TEMPLATES_ARE_VALIDATED) && !skipped.template {
                let value = template_of_pods(spec);
                let path = template.path.clone();
                self::template(&At { value: &value, path }, c);
            }
            template_metadata(&template, c);
        }
    }
    restarts_always(&template, "StatefulSet", c);
}

fn stateful_set_strategy(strategy: &At<'_>, c: &mut Check) {
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
        "RollingUpdate" => {
            rolling.get("partition").not_negative(c);
            let unavailable = rolling.get("maxUnavailable");
            if unavailable.is_set() {
                int_or_percent(&unavailable, c);
                if amount(&unavailable) == 0 {
                    invalid_amount(&unavailable, "cannot be 0", c);
                }
                at_most_all(&unavailable, c);
            }
        }
        _ => {
            let shown = go_syntax::value(c.version, strategy.value, "apps.StatefulSetUpdateStrategy");
            strategy.invalid_as(c, &shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

/// The template of a StatefulSet with the volumes of claims that the controller adds, and without the names
/// that it overwrites.
fn template_of_pods(spec: &At<'_>) -> Value {
    let mut template = spec.get("template").value.clone();
    let Some(fields) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return template;
    };
    fields.remove("hostname");
    fields.remove("subdomain");
    let claims: BTreeSet<&str> = spec
        .get("volumeClaimTemplates")
        .items()
        .map(|claim| claim.get("metadata").get("name").text())
        .collect();
    if claims.is_empty() {
        return template;
    }
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    if let Some(Value::Array(own)) = fields.remove("volumes") {
        let is_replaced = |volume: &Value| {
            let name = volume.get("name").and_then(Value::as_str);
            name.is_some_and(|name| claims.contains(name))
        };
        volumes.extend(own.into_iter().filter(|volume| !is_replaced(volume)));
    }
    fields.insert("volumes".to_owned(), volumes.into());
    template
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
    if c.since(33) {
        mutable.push("revisionHistoryLimit");
    }
    let spec = At::root(body, "spec");
    let mut skipped = Skipped {
        immutable: true,
        template: false,
    };
    // Templates that were invalid before may stay so.
    let mut before = Check::new(c.version, None);
    stateful_set_spec(&At::root(old, "spec"), skipped, &mut before);
    skipped.template = !before.causes.is_empty();
    stateful_set_spec(&spec, skipped, c);
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
            26..33 => {
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
    if !c.since(25) {
        spec.get("replicas").not_negative(c);
    }
}

/// `ValidateDaemonSetSpec`.
pub(super) fn daemon_set(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    label_selector(&selector, c);
    if selects_template(&spec, c.version) == Some(false) {
        not_selected(&spec, c);
    }
    if selector.is_set() && is_empty_selector(&selector) {
        let shown = shown_selector(&selector, c);
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
            Value::Null if ty == "string" => "\"\"".to_owned(),
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
            "terminatingReplicas",
            "collisionCount",
        ],
        "ReplicaSet" | "ReplicationController" => &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
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
        "PodDisruptionBudget" => &[
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ],
        "HorizontalPodAutoscaler" => &["currentReplicas", "desiredReplicas"],
        _ => &[],
    };
    for key in numbers {
        status.get(key).not_negative(c);
    }
    if kind == "Job" && c.since(32) {
        let (spec, old_status) = (At::root(body, "spec"), At::root(old, "status"));
        jobs::finished_job(&spec, &status, &old_status, c);
        jobs::status_updated(&spec, &status, &old_status, c);
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
        let problem = match kind {
            "StatefulSet" if c.since(25) => "cannot be greater than status.readyReplicas",
            _ => "cannot be greater than readyReplicas",
        };
        exceeds("availableReplicas", ready, problem, c);
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

/// The data of new revisions are validated, those of others only as immutable.
const ONLY_NEW_DATA_ARE_VALIDATED: Behavior =
    Behavior::since_about(31, "ValidateControllerRevisionCreate of 1.31");

/// `ValidateControllerRevision`, from 1.31 on `ValidateControllerRevisionCreate` of new ones.
pub(super) fn controller_revision(body: &Object, is_new: bool, c: &mut Check) {
    let data = At::root(body, "data");
    let revision = At::root(body, "revision");
    if c.version.has(ONLY_NEW_DATA_ARE_VALIDATED) {
        revision.not_negative(c);
        if is_new && !data.value.is_object() {
            data.required(
                c,
                match data.is_set() {
                    true => "data must be a valid JSON object",
                    false => "data is mandatory",
                },
            );
        }
        return;
    }
    if !data.is_set() {
        data.required(c, "data is mandatory");
    }
    revision.not_negative(c);
}

/// `ValidateControllerRevisionUpdate`, except `ValidateControllerRevision`.
pub(super) fn controller_revision_updated(body: &Object, old: &Object, c: &mut Check) {
    let data = At::root(body, "data");
    if body.get("data") == old.get("data") {
        return;
    }
    if c.version.has(super::VALUES_ARE_JSON) || !c.version.has(ONLY_NEW_DATA_ARE_VALIDATED) {
        data.invalid(c, "field is immutable");
        return;
    }
    let raw = match data.value {
        Value::Null => "(nil)".to_owned(),
        value => {
            let bytes = value.to_string().into_bytes();
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
            format!("{{{}}}", bytes.join(", "))
        }
    };
    let shown = format!("runtime.RawExtension{{Raw:[]uint8{raw}, Object:runtime.Object(nil)}}");
    data.invalid_as(c, &shown, "field is immutable");
}
