//! Cells of kinds of the cluster: policies, quotas, requests, devices, addresses.

use serde_json::{Map, Value};

use super::{NONE, condition_of, count, items, joined, number_or_text, plain};

pub(super) fn controller(shown: &Value) -> String {
    let mut owners = items(shown, "/metadata/ownerReferences").iter();
    let Some(owner) = owners.find(|owner| owner["controller"] == true) else {
        return NONE.to_owned();
    };
    let version = owner["apiVersion"].as_str();
    let group = version.and_then(|version| version.split_once('/'));
    let group = group.map(|(group, _)| format!(".{group}")).unwrap_or_default();
    let (kind, name) = (plain(&owner["kind"]).to_lowercase(), plain(&owner["name"]));
    format!("{kind}{group}/{name}")
}

pub(super) fn quota(shown: &Value, limits: bool) -> String {
    let empty = Map::new();
    let hard = shown["status"]["hard"].as_object().unwrap_or(&empty);
    let of_column = hard.iter();
    let of_column = of_column.filter(|(name, _)| name.starts_with("limits.") == limits);
    let one = |(name, hard): (&String, &Value)| {
        let used = &shown["status"]["used"][name];
        format!("{name}: {}/{}", number_or_text(used, "0"), plain(hard))
    };
    of_column.map(one).collect::<Vec<_>>().join(", ")
}

/// Whether an API service is available, and why not.
pub(super) fn availability(shown: &Value) -> String {
    let available = condition_of(shown, "Available");
    let status = number_or_text(&available["status"], "Unknown");
    match available["reason"].as_str() {
        Some(reason) if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
        _ => status,
    }
}

/// The parameters of a binding; those of no namespace may be of any.
pub(super) fn parameter(reference: &Value) -> String {
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    match (text("namespace"), text("name")) {
        (_, "") if reference["selector"].is_object() => go_selector(&reference["selector"]),
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// A label selector as Go prints the message.
fn go_selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: String = labels
        .map(|(key, value)| format!("{key}: {},", plain(value)))
        .collect();
    let expressions = items(selector, "/matchExpressions").iter().map(|expression| {
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            plain(&expression["key"]),
            plain(&expression["operator"]),
            joined(items(expression, "/values").iter(), " "),
        )
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// The object that an address belongs to.
pub(super) fn parent(reference: &Value) -> String {
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    if !reference.is_object() {
        return NONE.to_owned();
    }
    let resource = match text("group") {
        "" => text("resource").to_lowercase(),
        group => format!("{}.{group}", text("resource")).to_lowercase(),
    };
    match text("namespace") {
        "" => format!("{resource}/{}", text("name")),
        namespace => format!("{resource}/{namespace}/{}", text("name")),
    }
}

pub(super) fn claim_state(shown: &Value) -> String {
    let is_set = |path: &str| shown.pointer(path).is_some_and(|value| !value.is_null());
    let is_deleted = is_set("/metadata/deletionTimestamp");
    let is_allocated = is_set("/status/allocation");
    let is_reserved = is_allocated && count(shown, "/status/reservedFor") > 0;
    let states = [
        (is_deleted, "deleted"),
        (!is_allocated && !is_deleted, "pending"),
        (is_allocated, "allocated"),
        (is_reserved, "reserved"),
    ];
    let states = states.into_iter().filter(|(is, _)| *is);
    states.map(|(_, state)| state).collect::<Vec<_>>().join(",")
}

pub(super) fn request_state(shown: &Value) -> String {
    let has = |of_type: &str| !condition_of(shown, of_type).is_null();
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    let certificate = shown["status"]["certificate"].as_str();
    if certificate.is_some_and(|text| !text.is_empty()) {
        state.push_str(",Issued");
    }
    state
}
