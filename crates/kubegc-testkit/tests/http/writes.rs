//! The parameters of writes: field managers, validation of fields, warnings.

use http::Method;
use serde_json::json;

use crate::world::{MERGE, at_version, world};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

#[test]
fn warnings_become_headers() {
    let mut world = world();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"});
    let metadata = json!({"name": "a", "ownerReferences": [owner, owner]});
    let reply = world.post(MAPS, &json!({"metadata": metadata}));
    assert_eq!((reply.code, reply.warnings.len()), (201, 1));
    assert!(reply.warnings[0].starts_with("299 - \".metadata.ownerReferences contains duplicate entries"));
    assert!(reply.warnings[0].ends_with('"'));
}

#[test]
fn the_field_manager_of_a_request_is_that_of_this_request_alone() {
    let mut world = world();
    world.server.set_field_manager("before");
    let a = json!({"metadata": {"name": "a"}});
    for (query, code) in [
        ("fieldManager=me", 201),
        ("fieldManager=me&dryRun=All", 409),
        ("fieldManager=me&fieldValidation=Odd", 422),
        ("", 409),
    ] {
        assert_eq!(world.post(&format!("{MAPS}?{query}"), &a).code, code, "{query}");
        assert_eq!(world.server.field_manager(), "before", "{query}");
    }
}

#[test]
fn unknown_fields_are_warned_of_or_ignored() {
    let mut world = world();
    let settings = kubegc_sim::Settings {
        types: true,
        ..world.server.settings().clone()
    };
    world.server = world.server.clone().with_settings(settings);
    let object = json!({"metadata": {"name": "a"}, "dta": {"a": "b"}});
    let warning = "299 - \"unknown field \\\"dta\\\"\"".to_owned();
    for (query, warnings) in [
        ("dryRun=All&fieldValidation=Ignore", vec![]),
        ("dryRun=All&fieldValidation=Warn", vec![warning.clone()]),
        ("", vec![warning]),
    ] {
        let reply = world.post(&format!("{MAPS}?{query}"), &object);
        assert_eq!((reply.code, reply.warnings), (201, warnings), "{query}");
    }
    let operations = json!([{"op": "add", "path": "/dta", "value": {"a": "c"}}]);
    let fields = || json!({"dta": {"a": "c"}});
    for (format, patch) in [
        (MERGE, fields()),
        ("application/json-patch+json", operations),
        ("application/strategic-merge-patch+json", fields()),
    ] {
        let headers = [("content-type", format)];
        let warned = world.send(Method::PATCH, &format!("{MAPS}/a?dryRun=All"), &headers, &patch);
        assert_eq!((warned.code, warned.warnings.len()), (200, 1), "{format}");
    }
}

/// A release, a URL, and the warning, if there is one.
const DEPRECATED: &str = "
1.36 /api/v1/namespaces/shop/endpoints -> v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice
1.32 /api/v1/namespaces/shop/endpoints
1.22 /apis/policy/v1beta1/poddisruptionbudgets -> policy/v1beta1 PodDisruptionBudget is deprecated in v1.21+, unavailable in v1.25+; use policy/v1 PodDisruptionBudget
1.20 /apis/policy/v1beta1/poddisruptionbudgets
";

#[test]
fn deprecated_versions_are_warned_of() {
    for row in DEPRECATED.trim().lines() {
        let (asked, warning) = row.split_once(" -> ").unwrap_or((row, ""));
        let (release, url) = asked.split_once(' ').expect("a URL");
        let reply = at_version(release).get(url);
        let warning = Some(warning).filter(|warning| !warning.is_empty());
        let expected = Vec::from_iter(warning.map(|warning| format!("299 - {warning:?}")));
        assert_eq!((reply.code, reply.warnings), (200, expected), "{row}");
    }
}

#[test]
fn versions_of_definitions_may_be_deprecated() {
    let mut world = world();
    let version = |name: &str, deprecated: bool| {
        json!({
            "name": name, "served": true, "storage": name == "v1", "deprecated": deprecated,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    let definition = json!({"metadata": {"name": "gears.y.dev"}, "spec": {
        "group": "y.dev", "scope": "Cluster", "names": {"kind": "Gear", "plural": "gears"},
        "versions": [version("v1alpha1", true), version("v1beta1", false), version("v1", false)],
    }});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.create(definitions, &definition);
    let old = world.get("/apis/y.dev/v1alpha1/gears");
    let expected = "299 - \"y.dev/v1alpha1 Gear is deprecated; use y.dev/v1 Gear\"";
    assert_eq!((old.code, old.warnings), (200, vec![expected.to_owned()]));
    assert_eq!(world.get("/apis/y.dev/v1/gears").warnings, Vec::<String>::new());
}

#[test]
fn parameters_of_writes_are_checked() {
    world().transcript(
        r#"
POST /api/v1/namespaces/shop/configmaps?fieldManager=a%00b {"metadata":{"name":"a"}} -> 422 CreateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "a\0b": invalid character U+0000 (at position 1)
POST /api/v1/namespaces/shop/configmaps?fieldValidation=Sometimes {"metadata":{"name":"a"}} -> 422 CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Sometimes": supported values: "", "Ignore", "Strict", "Warn"
POST /api/v1/namespaces/shop/configmaps?fieldManager=me&fieldValidation=Strict {"metadata":{"name":"a"}} -> 201
POST /api/v1/namespaces/shop/bindings {"metadata":{"name":"gone"},"target":{"kind":"Node","name":"n1"}} -> 404 pods "gone" not found
PATCH /api/v1/namespaces/shop/configmaps/a?fieldManager=me (application/apply-patch+yaml) a: [ -> 400 error decoding YAML: error converting YAML to JSON: yaml: line 1: did not find expected ',' or ']'
"#,
    );
}
