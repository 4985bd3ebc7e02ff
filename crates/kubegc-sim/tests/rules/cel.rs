//! CEL rules of definitions: compiled with the definition, run on every write of a custom resource.
//!
//! `cel.txt` has requests, and their status codes or the causes of their refusal:
//!
//! | line | meaning |
//! |---|---|
//! | `rule 1.31 RULE` | whether the rule holds for an object with a field of every kind; JSON or only its source |
//! | `server 1.31` | a new server |
//! | `define SCHEMA [RULES]` | defines widgets with this schema of `spec`, and rules of the whole object |
//! | `redefine SCHEMA` | replaces the schema |
//! | `create SPEC`, `update SPEC`, `patch SPEC`, `apply SPEC` | writes the widget `a` |
//! | `object OBJECT` | creates a whole object |
//! | `stored` | the definition as it is stored |

use kubegc_fixtures::check_transcript;
use kubegc_sim::{ApiServer, ApplyOptions, Cause, Response};
use serde_json::{Deserializer, Value, json};

use crate::world::{JSON, MERGE, definitions, typed};

const NAME: &str = "widgets.x.dev";

/// Defines widgets whose spec has this schema, with the rules of the whole object.
fn define(server: &mut ApiServer, spec: &Value, rules: &Value) -> Response {
    let schema = json!({
        "type": "object",
        "properties": {"spec": spec, "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}},
        "x-kubernetes-validations": rules,
    });
    let definition = json!({"metadata": {"name": NAME}, "spec": {
        "group": "x.dev", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }],
    }});
    server.create_json(definitions(server, "v1"), "", definition)
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

/// The status code of a request, or the causes of its refusal.
fn outcome(response: &Response) -> String {
    let Some(status) = response.status().filter(|_| !response.is_success()) else {
        return response.code.to_string();
    };
    let shown = |cause: &Cause| format!("{} {}: {}", cause.reason, cause.field, cause.message);
    let causes: Vec<String> = status.causes().iter().map(shown).collect();
    assert_eq!(response.code, 422, "{:?}", response.body);
    causes.join("\n")
}

/// A spec with a field of every kind, and a value of it.
fn all_kinds() -> (Value, Value) {
    let spec = json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "x": {"type": "number"},
            "s": {"type": "string", "maxLength": 20},
            "b": {"type": "boolean"},
            "when": {"type": "string", "format": "date-time"},
            "wait": {"type": "string", "format": "duration"},
            "raw": {"type": "string", "format": "byte"},
            "any": {"x-kubernetes-int-or-string": true, "maxLength": 20},
            "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 10},
            "long": {"type": "array", "items": {"type": "integer"}},
            "names": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 10},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 10,
                "items": {"type": "string", "maxLength": 20}},
            "labels": {"type": "object", "maxProperties": 10,
                "additionalProperties": {"type": "string", "maxLength": 20}},
            "my-field": {"type": "string", "maxLength": 20},
            "namespace": {"type": "string", "maxLength": 20},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let full = json!({
        "n": 3, "x": 1, "s": "Hello", "b": true, "when": "2026-01-01T00:00:00Z", "wait": "90s", "raw": "YWJj", "any": "50%",
        "list": [1, 2, 3], "names": ["a", "b"], "set": ["x", "y"], "labels": {"a.b/c": "d"}, "my-field": "m", "namespace": "ns",
        "free": {"a": 1},
    });
    (spec, full)
}

/// The outcome of a definition with a rule, or else of a creation.
fn rule(version: &str, rule: &str) -> String {
    let rule = match serde_json::from_str(rule) {
        Ok(rule @ Value::Object(_)) => rule,
        _ => json!({ "rule": rule }),
    };
    let (mut spec, full) = all_kinds();
    spec["x-kubernetes-validations"] = json!([rule]);
    let mut server = typed(version);
    let defined = define(&mut server, &spec, &json!([]));
    if !defined.is_success() {
        return format!("refused: {}", outcome(&defined));
    }
    let kind = server.resolve("x.dev", "v1", "widgets").unwrap();
    match server.create_json(kind, "ns", widget(&full)) {
        created if created.is_success() => "holds".to_owned(),
        created => outcome(&created),
    }
}

fn request(server: &mut ApiServer, verb: &str, arguments: &str) -> String {
    let arguments = Deserializer::from_str(arguments).into_iter::<Value>();
    let arguments: Vec<Value> = arguments.collect::<Result<_, _>>().unwrap();
    let (none, crds) = (json!([]), definitions(server, "v1"));
    let argument = arguments.first().unwrap_or(&none);
    let response = match verb {
        "define" => define(server, argument, arguments.get(1).unwrap_or(&none)),
        "redefine" => {
            let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
            let patch = json!([{ "op": "replace", "path": path, "value": argument }]);
            server.patch(crds, "", NAME, JSON, patch.to_string().as_bytes())
        }
        "stored" => {
            let stored = server.object(crds, "", NAME).unwrap();
            return stored.at(&["spec", "versions"]).unwrap().to_string();
        }
        _ => {
            let kind = server.resolve("x.dev", "v1", "widgets").unwrap();
            let mut object = widget(argument);
            match verb {
                "create" => server.create_json(kind, "ns", object),
                "object" => server.create_json(kind, "ns", argument.clone()),
                "update" => {
                    let stored = server.object(kind, "ns", "a").unwrap();
                    object["metadata"]["resourceVersion"] = stored.meta.resource_version.as_str().into();
                    server.update_subresource(kind, "ns", "a", "", object)
                }
                "patch" => {
                    let patch = json!({ "spec": argument }).to_string();
                    server.patch(kind, "ns", "a", MERGE, patch.as_bytes())
                }
                "apply" => {
                    let options = ApplyOptions {
                        field_manager: "me".to_owned(),
                        force: true,
                    };
                    server.apply(kind, "ns", "a", None, object, &options)
                }
                other => panic!("there is no line {other}"),
            }
        }
    };
    outcome(&response)
}

#[test]
fn rules_are_compiled_and_checked_as_upstream_does() {
    check_transcript("tests/rules/cel.txt", |input| {
        let mut server = typed("1.31");
        let mut outcomes = Vec::new();
        for line in input.lines() {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            match verb {
                "server" => server = typed(rest),
                "rule" => {
                    let (version, source) = rest.split_once(' ').unwrap();
                    outcomes.push(rule(version, source));
                }
                verb => outcomes.push(request(&mut server, verb, rest)),
            }
        }
        outcomes.join("\n")
    });
}
