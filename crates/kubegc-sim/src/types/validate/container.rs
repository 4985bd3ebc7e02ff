//! Containers: ports of the host, and sleeping hooks.
//!
//! # Upstream
//! `validateContainers` and its callees in `pkg/apis/core/validation/validation.go`, 1.20.2 and newer.

use std::collections::BTreeSet;

use kubegc_core::Behavior;

use super::super::field::{At, Check};
use crate::status::quoted;

/// `checkHostPortConflicts` of a list of containers, or of one init container.
pub(super) fn host_ports(containers: &At<'_>, c: &mut Check) {
    let all = containers.items();
    let one = containers.value.is_object().then(|| containers.clone());
    let mut host_ports = BTreeSet::new();
    for port in all
        .chain(one)
        .flat_map(|container| container.get("ports").items())
    {
        let host = port.get("hostPort");
        let (protocol, ip) = (port.get("protocol").text(), port.get("hostIP").text());
        let key = format!("{protocol}/{ip}/{}", host.number());
        if host.number() != 0 && !host_ports.insert(key.clone()) {
            host.duplicate_as(c, &quoted(&key));
        }
    }
}

/// A container may sleep for no time.
const SLEEP_MAY_BE_ZERO: Behavior =
    Behavior::since(33, 0, "the feature gate PodLifecycleSleepActionAllowZero is on");

/// `validateSleepAction`.
pub(super) fn sleep(at: &At<'_>, c: &mut Check) {
    let seconds = at.get("seconds").number();
    let may_be_zero = c.version.has(SLEEP_MAY_BE_ZERO);
    let least = i64::from(!may_be_zero);
    let Some(grace) = c
        .grace_period
        .filter(|grace| !(least..=*grace).contains(&seconds))
    else {
        return;
    };
    let bound = format!("less than terminationGracePeriodSeconds ({grace})");
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
