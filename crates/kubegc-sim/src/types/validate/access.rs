//! RBAC, priority classes.
//!
//! # Upstream
//! `pkg/apis/rbac/validation`, `pkg/apis/scheduling/validation`, 1.20.2.

use kubegc_core::version::behavior::VALUES_ARE_JSON;

use super::{
    super::field::{At, Check},
    rules,
};

/// A selector of the roles that a cluster role aggregates.
pub(super) fn aggregated(selector: &At<'_>, c: &mut Check) {
    let before = c.causes.len();
    rules::apply("LabelSelector", selector, c);
    if c.causes.len() > before {
        let shown = match c.version.has(VALUES_ARE_JSON) {
            true => "null",
            false => "\"null\"",
        };
        selector.invalid_as(c, shown, "invalid label selector.");
    }
}

/// The value of a priority class; classes of the system have given ones.
pub(super) fn priority(class: &At<'_>, c: &mut Check) {
    const USER_MAX: i64 = 1_000_000_000;
    let (value, name) = (class.get("value"), c.name());
    if !name.starts_with("system-") {
        if value.number() > USER_MAX {
            let problem = format!("maximum allowed value of a user defined priority is {USER_MAX}");
            value.forbidden(c, &problem);
        }
        return;
    }
    let expected = match name {
        "system-node-critical" => 2_000_001_000,
        "system-cluster-critical" => 2_000_000_000,
        _ => 0,
    };
    let problem = if expected == 0 {
        format!("{name} is not a known system priority class")
    } else if value.number() != expected {
        format!("value of {name} PriorityClass must be {expected}")
    } else if class.get("globalDefault").flag() {
        format!("globalDefault of {name} PriorityClass must be false")
    } else {
        return;
    };
    let problem = format!(
        "priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
    );
    class.get("metadata").get("name").forbidden(c, &problem);
}
