//! Cells of pods, jobs and autoscalers.

use kubegc_core::{Behavior, KubernetesVersion, Timestamp};
use serde_json::{Value, json};

use super::{NONE, condition_of, first_of, human_duration, items, number_or_text, or_none, plain, since};

/// The restarts of a pod are a text, with the time since the last one.
const LAST_RESTARTS_ARE_SHOWN: Behavior = Behavior::since(22, 0, "kubernetes #100142");

pub(super) fn pod(version: KubernetesVersion, shown: &Value, column: &str, now: Timestamp) -> Value {
    let status = &shown["status"];
    let mut reason = match status["reason"].as_str() {
        Some(reason) if !reason.is_empty() => reason.to_owned(),
        _ => status["phase"].as_str().unwrap_or_default().to_owned(),
    };
    let restarts_of = |container: &Value| container["restartCount"].as_i64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ended = |terminated: &Value| match terminated["signal"].as_i64() {
        Some(signal) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
    };
    let ended_at = |container: &Value| {
        let time = container.pointer("/lastState/terminated/finishedAt")?.as_str()?;
        Timestamp::parse(time).ok()
    };
    let mut last_restart = None;
    let (mut restarts, mut ready, mut initializing) = (0_i64, 0, false);
    for (index, container) in items(status, "/initContainerStatuses").iter().enumerate() {
        restarts = restarts.saturating_add(restarts_of(container));
        last_restart = last_restart.max(ended_at(container));
        let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
        reason = if terminated.is_object() {
            if terminated["exitCode"].as_i64().unwrap_or(0) == 0 {
                continue;
            }
            match text(&terminated["reason"]) {
                reason if reason.is_empty() => format!("Init:{}", ended(terminated)),
                reason => format!("Init:{reason}"),
            }
        } else {
            match text(&waiting["reason"]) {
                reason if !reason.is_empty() && reason != "PodInitializing" => format!("Init:{reason}"),
                _ => format!("Init:{index}/{}", items(shown, "/spec/initContainers").len()),
            }
        };
        initializing = true;
        break;
    }
    if !initializing {
        restarts = 0;
        last_restart = None;
        let mut runs = false;
        for container in items(status, "/containerStatuses").iter().rev() {
            restarts = restarts.saturating_add(restarts_of(container));
            last_restart = last_restart.max(ended_at(container));
            let state = &container["state"];
            let (waits, ends) = (
                text(&state["waiting"]["reason"]),
                text(&state["terminated"]["reason"]),
            );
            if !waits.is_empty() {
                reason = waits;
            } else if !ends.is_empty() {
                reason = ends;
            } else if state["terminated"].is_object() {
                reason = ended(&state["terminated"]);
            } else if container["ready"] == true && state["running"].is_object() {
                runs = true;
                ready += 1;
            }
        }
        if reason == "Completed" && runs {
            reason = "Running".to_owned();
        }
    }
    if !shown["metadata"]["deletionTimestamp"].is_null() {
        let lost = status["reason"] == "NodeLost";
        reason = if lost { "Unknown" } else { "Terminating" }.to_owned();
    }
    match column {
        "ready" => json!(format!("{ready}/{}", items(shown, "/spec/containers").len())),
        "status" => json!(reason),
        _ if !version.has(LAST_RESTARTS_ARE_SHOWN) => json!(restarts),
        _ => match last_restart {
            Some(time) if restarts > 0 => json!(format!("{restarts} ({} ago)", since(Some(time), now))),
            _ => json!(restarts.to_string()),
        },
    }
}

pub(super) fn readiness_gates(shown: &Value) -> String {
    let gates = items(shown, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let is_true = |gate: &&Value| {
        let of_type = gate["conditionType"].as_str().unwrap_or_default();
        condition_of(shown, of_type)["status"] == "True"
    };
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}

/// What a job is doing, by its conditions.
///
/// # Upstream
/// `printJob` in
/// [`printers.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/printers/internalversion/printers.go).
pub(super) fn job_status(job: &Value) -> &'static str {
    let has = |kind: &&str| condition_of(job, kind)["status"] == "True";
    if let Some(end) = ["Complete", "Failed"].into_iter().find(has) {
        return end;
    }
    if job.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating";
    }
    let others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    others.into_iter().find(has).unwrap_or("Running")
}

pub(super) fn completions(shown: &Value) -> String {
    let done = shown["status"]["succeeded"].as_i64().unwrap_or(0);
    let parallelism = shown["spec"]["parallelism"].as_i64().unwrap_or(0);
    match shown["spec"]["completions"].as_i64() {
        Some(wanted) => format!("{done}/{wanted}"),
        None if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        None => format!("{done}/1"),
    }
}

pub(super) fn duration(shown: &Value, now: Timestamp) -> String {
    let time = |key: &str| Timestamp::parse(shown["status"][key].as_str()?).ok();
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(now).as_secs().saturating_sub(start.as_secs())),
    }
}

/// Which resource a target is of.
const TARGETS_ARE_NAMED: Behavior = Behavior::since(30, 0, "kubernetes #122804");

pub(super) fn targets(version: KubernetesVersion, shown: &Value) -> String {
    const SHOWN: usize = 2;
    let percent = |value: &Value| format!("{value}%");
    let named = |resource: &str| match version.has(TARGETS_ARE_NAMED) {
        true => format!("{resource}: "),
        false => String::new(),
    };
    let mut all = Vec::new();
    if let Some(target) = shown["spec"].get("targetCPUUtilizationPercentage") {
        let current = shown["status"].get("currentCPUUtilizationPercentage");
        let current = current.map_or("<unknown>".to_owned(), percent);
        all.push(format!("{}{current}/{}", named("cpu"), percent(target)));
    }
    for (index, metric) in items(shown, "/spec/metrics").iter().enumerate() {
        let of_type = match metric["type"].as_str().unwrap_or_default() {
            "ContainerResource" => "containerResource".to_owned(),
            other => other.to_lowercase(),
        };
        let target = &metric[&of_type]["target"];
        let name = match of_type.as_str() {
            "resource" | "containerResource" => named(metric[&of_type]["name"].as_str().unwrap_or_default()),
            _ => String::new(),
        };
        let current = shown.pointer(&format!("/status/currentMetrics/{index}/{of_type}/current"));
        let current = current.unwrap_or(&Value::Null);
        let known = |key: &str| number_or_text(&current[key], "<unknown>");
        all.push(match of_type.as_str() {
            "external" if !target["averageValue"].is_null() => {
                let wanted = plain(&target["averageValue"]);
                format!("{}/{wanted} (avg)", known("averageValue"))
            }
            "pods" | "resource" | "containerResource" if !target["averageValue"].is_null() => {
                let wanted = plain(&target["averageValue"]);
                format!("{name}{}/{wanted}", known("averageValue"))
            }
            "resource" | "containerResource" => {
                let percent_or = |value: &Value, missing: &str| match value {
                    Value::Null => missing.to_owned(),
                    value => percent(value),
                };
                let current = percent_or(&current["averageUtilization"], "<unknown>");
                let target = percent_or(&target["averageUtilization"], "<auto>");
                format!("{name}{current}/{target}")
            }
            "external" | "object" => format!("{}/{}", known("value"), number_or_text(&target["value"], "0")),
            _ => "<unknown type>".to_owned(),
        });
    }
    or_none(first_of(&all, SHOWN, ", ", all.len()))
}
