//! Handlers of containers: probes and lifecycle hooks.
//!
//! # Upstream
//! `validateHandler` and its callers in `pkg/apis/core/validation/validation.go`, 1.20.2 and newer.

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use crate::{formats, status::quoted};

/// A container may sleep for no time.
const SLEEP_MAY_BE_ZERO: Behavior =
    Behavior::since(33, 0, "the feature gate PodLifecycleSleepActionAllowZero is on");

/// `validateLifecycle`.
pub(super) fn lifecycle(container: &At<'_>, spec: &At<'_>, c: &mut Check) {
    let lifecycle = container.get("lifecycle");
    for hook in ["postStart", "preStop"] {
        if lifecycle.get(hook).is_set() {
            handler(&lifecycle.get(hook), spec, c);
        }
    }
}

/// `validateLivenessProbe`, `validateReadinessProbe` and `validateStartupProbe`.
pub(super) fn probes(container: &At<'_>, keys: &[&str], spec: &At<'_>, c: &mut Check) {
    for key in keys {
        let probe = container.get(key);
        if !probe.is_set() {
            continue;
        }
        self::probe(&probe, spec, c);
        let (threshold, grace) = (
            probe.get("successThreshold"),
            probe.get("terminationGracePeriodSeconds"),
        );
        if *key == "readinessProbe" {
            if grace.is_set() {
                grace.invalid(c, "must not be set for readinessProbes");
            }
        } else if threshold.number() != 1 {
            threshold.invalid_as(c, &threshold.number().to_string(), "must be 1");
        }
    }
}

fn probe(probe: &At<'_>, spec: &At<'_>, c: &mut Check) {
    handler(probe, spec, c);
    for key in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        probe.get(key).not_negative(c);
    }
    let grace = probe.get("terminationGracePeriodSeconds");
    if grace.is_set() && grace.number() <= 0 {
        grace.invalid(c, "must be greater than 0");
    }
}

/// `validateHandler`; the pod says how long a container may sleep.
fn handler(at: &At<'_>, spec: &At<'_>, c: &mut Check) {
    let mut count = 0;
    for key in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let handler = at.get(key);
        if !handler.is_set() {
            continue;
        }
        count += 1;
        if count > 1 {
            handler.forbidden(c, "may not specify more than 1 handler type");
            continue;
        }
        match key {
            "exec" => {
                if handler.get("command").is_empty() {
                    handler.get("command").required(c, "");
                }
            }
            "httpGet" => {
                handler.get("path").present(c);
                port(&handler.get("port"), c);
                let scheme = handler.get("scheme");
                if !matches!(scheme.text(), "HTTP" | "HTTPS") {
                    scheme.unsupported(c, &["HTTP", "HTTPS"]);
                }
                for header in handler.get("httpHeaders").items() {
                    let name = header.get("name");
                    for problem in formats::header_name(name.text()) {
                        handler
                            .get("httpHeaders")
                            .invalid_as(c, &quoted(name.text()), &problem);
                    }
                }
            }
            "sleep" => sleep(&handler, spec, c),
            _ => port(&handler.get("port"), c),
        }
    }
    if count == 0 {
        at.required(c, "must specify a handler type");
    }
}

/// `validateSleepAction`.
fn sleep(at: &At<'_>, spec: &At<'_>, c: &mut Check) {
    let (seconds, grace) = (
        at.get("seconds").number(),
        spec.get("terminationGracePeriodSeconds"),
    );
    let may_be_zero = c.version.has(SLEEP_MAY_BE_ZERO);
    let least = i64::from(!may_be_zero);
    if !grace.is_set() || (least..=grace.number()).contains(&seconds) {
        return;
    }
    let bound = format!("less than terminationGracePeriodSeconds ({})", grace.number());
    let problem = match c.version.minor() {
        _ if may_be_zero => format!("must be non-negative and {bound}"),
        32 => format!(
            "must be greater than 0 and {bound}. Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero \
             sleep."
        ),
        _ => format!("must be greater than 0 and {bound}"),
    };
    at.invalid_as(c, &seconds.to_string(), &problem);
}

/// `ValidatePortNumOrName`.
pub(super) fn port(at: &At<'_>, c: &mut Check) {
    match at.value.as_str() {
        Some(name) => at.problems(c, formats::port_name(c.version, name)),
        None => {
            for problem in formats::port_number(at.number()) {
                at.invalid_as(c, &at.number().to_string(), &problem);
            }
        }
    }
}
