//! CEL rules of definitions: compiled with the definition, run on every write of a custom resource.

use kubegc_core::{Catalog, KindId, KubernetesVersion, Timestamp};
use kubegc_sim::{ApiServer, ApplyOptions, Cause, Response, Settings};
use serde_json::{Value, json};

const NAME: &str = "widgets.x.dev";

fn server(version: &str) -> ApiServer {
    let version: KubernetesVersion = version.parse().unwrap();
    let settings = Settings {
        types: true,
        namespaces_must_exist: false,
        ..Settings::default()
    };
    let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
    server.set_now(Timestamp::from_secs(1_000_000));
    server
}

/// Defines widgets whose spec has this schema, with the rules of the whole object.
fn define(server: &mut ApiServer, spec: Value, rules: Value) -> Response {
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
    let crds = server
        .resolve("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .unwrap();
    server.create_json(crds, "", definition)
}

fn widgets(server: &ApiServer) -> KindId {
    server.resolve("x.dev", "v1", "widgets").unwrap()
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

fn create(server: &mut ApiServer, spec: &Value) -> Response {
    let kind = widgets(server);
    server.create_json(kind, "ns", widget(spec))
}

fn update(server: &mut ApiServer, spec: &Value) -> Response {
    let kind = widgets(server);
    let mut object = widget(spec);
    let stored = server.object(kind, "ns", "a").unwrap();
    object["metadata"]["resourceVersion"] = stored.meta.resource_version.as_str().into();
    server.update_json(kind, "ns", "a", object)
}

/// The causes of a refusal; none if the request succeeded.
fn causes(response: &Response) -> Vec<String> {
    let status = response.status().filter(|_| !response.is_success());
    let causes = status.map_or(&[][..], |status| status.causes());
    let shown = |cause: &Cause| format!("{} {}: {}", cause.reason, cause.field, cause.message);
    let causes: Vec<String> = causes.iter().map(shown).collect();
    assert_eq!(causes.is_empty(), response.is_success(), "{:?}", response.body);
    causes
}

fn rules(rules: &[&str]) -> Value {
    rules.iter().map(|rule| json!({"rule": rule})).collect()
}

fn bounds() -> Value {
    json!({
        "type": "object",
        "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
        "x-kubernetes-validations": rules(&["self.min <= self.max"]),
    })
}

#[test]
fn a_rule_is_checked_by_every_write_with_upstreams_message() {
    let mut server = server("1.31");
    assert_eq!(define(&mut server, bounds(), json!([])).code, 201);
    let failed = ["FieldValueInvalid spec: Invalid value: \"object\": failed rule: self.min <= self.max"];
    let wrong = json!({"min": 2, "max": 1});
    assert_eq!(causes(&create(&mut server, &wrong)), failed);
    let refused = create(&mut server, &wrong);
    assert_eq!(
        refused.status().unwrap().message,
        "Widget.x.dev \"a\" is invalid: spec: Invalid value: \"object\": failed rule: self.min <= self.max"
    );
    assert_eq!(create(&mut server, &json!({"min": 1, "max": 1})).code, 201);
    assert_eq!(causes(&update(&mut server, &wrong)), failed);
    let kind = widgets(&server);
    let patch = br#"{"spec": {"min": 5}}"#;
    let patched = server.patch(kind, "ns", "a", "application/merge-patch+json", patch);
    assert_eq!(causes(&patched), failed);
    let options = ApplyOptions {
        field_manager: "me".to_owned(),
        force: true,
    };
    let applied = server.apply(kind, "ns", "a", None, widget(&wrong), &options);
    assert_eq!(causes(&applied), failed);
    assert_eq!(
        causes(&create(&mut server, &json!({"min": 2}))),
        [
            "FieldValueInvalid spec: Invalid value: \"object\": no such key: max evaluating rule: self.min <= self.max"
        ]
    );
}

#[test]
fn rules_are_run_from_1_25_on() {
    for (version, code) in [("1.24", 201), ("1.25", 422)] {
        let mut server = server(version);
        assert_eq!(define(&mut server, bounds(), json!([])).code, 201);
        assert_eq!(
            create(&mut server, &json!({"min": 2, "max": 1})).code,
            code,
            "{version}"
        );
    }
}

#[test]
fn messages_reasons_and_paths_shape_the_cause() {
    let spec = |more: Value| {
        let mut rule = json!({"rule": "self.min <= self.max"});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let mut spec = bounds();
        spec["x-kubernetes-validations"] = json!([rule]);
        spec
    };
    let by_expression = "'min ' + string(self.min) + ' is above max ' + string(self.max)";
    for (version, more, expected) in [
        (
            "1.31",
            json!({"message": "min must not exceed max"}),
            "FieldValueInvalid spec: Invalid value: \"object\": min must not exceed max",
        ),
        (
            "1.31",
            json!({"message": "other", "messageExpression": by_expression}),
            "FieldValueInvalid spec: Invalid value: \"object\": min 2 is above max 1",
        ),
        (
            "1.26",
            json!({"message": "other", "messageExpression": by_expression}),
            "FieldValueInvalid spec: Invalid value: \"object\": other",
        ),
        (
            "1.31",
            json!({"messageExpression": "' '"}),
            "FieldValueInvalid spec: Invalid value: \"object\": failed rule: self.min <= self.max",
        ),
        (
            "1.31",
            json!({"reason": "FieldValueForbidden", "fieldPath": ".min", "message": "too large"}),
            "FieldValueForbidden spec.min: Forbidden: too large",
        ),
        (
            "1.31",
            json!({"reason": "FieldValueRequired", "fieldPath": ".max", "message": "raise it"}),
            "FieldValueRequired spec.max: Required value: raise it",
        ),
        (
            "1.31",
            json!({"reason": "FieldValueDuplicate"}),
            "FieldValueDuplicate spec: Duplicate value: \"object\"",
        ),
    ] {
        let mut server = server(version);
        assert_eq!(
            define(&mut server, spec(more.clone()), json!([])).code,
            201,
            "{more}"
        );
        assert_eq!(
            causes(&create(&mut server, &json!({"min": 2, "max": 1}))),
            [expected],
            "{more}"
        );
    }
}

#[test]
fn transition_rules_need_a_former_value() {
    let spec = json!({
        "type": "object",
        "properties": {
            "class": {"type": "string", "x-kubernetes-validations": rules(&["self == oldSelf"])},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                    "x-kubernetes-validations": rules(&["self.port >= oldSelf.port"]),
                },
            },
            "size": {
                "type": "integer",
                "x-kubernetes-validations": [{"rule": "self >= oldSelf.orValue(3)", "optionalOldSelf": true}],
            },
        },
    });
    let mut server = server("1.31");
    assert_eq!(define(&mut server, spec, json!([])).code, 201);
    assert_eq!(
        causes(&create(&mut server, &json!({"size": 2}))),
        ["FieldValueInvalid spec.size: Invalid value: \"integer\": failed rule: self >= oldSelf.orValue(3)"]
    );
    let first =
        json!({"class": "a", "size": 4, "ports": [{"name": "x", "port": 1}, {"name": "y", "port": 9}]});
    assert_eq!(create(&mut server, &first).code, 201);
    let next = json!({"class": "b", "size": 3, "ports": [{"name": "y", "port": 8}, {"name": "x", "port": 2}, {"name": "z", "port": 0}]});
    assert_eq!(
        causes(&update(&mut server, &next)),
        [
            "FieldValueInvalid spec.class: Invalid value: \"string\": failed rule: self == oldSelf",
            "FieldValueInvalid spec.ports[0]: Invalid value: \"object\": failed rule: self.port >= oldSelf.port",
            "FieldValueInvalid spec.size: Invalid value: \"integer\": failed rule: self >= oldSelf.orValue(3)",
        ]
    );
}

#[test]
fn values_that_do_not_change_may_break_rules_from_1_30_on() {
    for (version, code) in [("1.29", 422), ("1.31", 200)] {
        let mut server = server(version);
        let spec = json!({"type": "object", "properties": {"old": bounds(), "new": {"type": "string"}}});
        let mut lax = spec.clone();
        lax["properties"]["old"]["x-kubernetes-validations"] = json!([]);
        assert_eq!(define(&mut server, lax, json!([])).code, 201);
        assert_eq!(
            create(&mut server, &json!({"old": {"min": 2, "max": 1}})).code,
            201
        );
        let crds = server
            .resolve("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            .unwrap();
        let patch = json!([{
            "op": "replace",
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            "value": spec,
        }]);
        let patched = server.patch(
            crds,
            "",
            NAME,
            "application/json-patch+json",
            patch.to_string().as_bytes(),
        );
        assert_eq!(patched.code, 200, "{:?}", patched.body);
        let kept = json!({"old": {"min": 2, "max": 1}, "new": "x"});
        assert_eq!(update(&mut server, &kept).code, code, "{version}");
        assert_eq!(
            update(&mut server, &json!({"old": {"min": 3, "max": 1}})).code,
            422,
            "{version}"
        );
    }
}

#[test]
fn rules_are_not_run_on_objects_of_the_wrong_form() {
    let mut server = server("1.31");
    assert_eq!(define(&mut server, bounds(), json!([])).code, 201);
    let causes = causes(&create(&mut server, &json!({"min": "2", "max": 1})));
    assert_eq!(causes.len(), 2, "{causes:?}");
    assert_eq!(
        causes[1],
        "FieldValueInvalid <nil>: Invalid value: \"null\": some validation rules were not checked because the object was \
         invalid; correct the existing errors to complete validation"
    );
}

#[test]
fn rules_of_the_whole_object_see_its_name_and_nothing_else_of_its_metadata() {
    let mut server = server("1.31");
    let root = rules(&[
        "self.metadata.name.startsWith('a') && self.kind == 'Widget'",
        "has(self.spec.min)",
    ]);
    assert_eq!(define(&mut server, bounds(), root).code, 201);
    assert_eq!(create(&mut server, &json!({"min": 1, "max": 2})).code, 201);
    let kind = widgets(&server);
    let other = json!({"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "b"}, "spec": {"min": 1, "max": 2}});
    assert_eq!(
        causes(&server.create_json(kind, "ns", other)),
        [
            "FieldValueInvalid <nil>: Invalid value: \"object\": failed rule: self.metadata.name.startsWith('a') && self.kind == 'Widget'"
        ]
    );
    let refused = define(
        &mut self::server("1.31"),
        bounds(),
        rules(&["has(self.metadata.labels)"]),
    );
    assert!(
        causes(&refused)[0].contains("undefined field 'labels'"),
        "{refused:?}"
    );
}

/// A spec with a field of every kind.
fn all_kinds() -> Value {
    json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "x": {"type": "number"},
            "s": {"type": "string"},
            "b": {"type": "boolean"},
            "when": {"type": "string", "format": "date-time"},
            "wait": {"type": "string", "format": "duration"},
            "raw": {"type": "string", "format": "byte"},
            "any": {"x-kubernetes-int-or-string": true},
            "list": {"type": "array", "items": {"type": "integer"}},
            "names": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "my-field": {"type": "string"},
            "namespace": {"type": "string"},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
        },
    })
}

fn full() -> Value {
    json!({
        "n": 3, "x": 1, "s": "Hello", "b": true, "when": "2026-01-01T00:00:00Z", "wait": "90s", "raw": "YWJj", "any": "50%",
        "list": [1, 2, 3], "names": ["a", "b"], "set": ["x"], "labels": {"a.b/c": "d"}, "my-field": "m", "namespace": "ns",
        "free": {"a": 1},
    })
}

#[test]
fn functions_and_types_of_kubernetes_are_known() {
    for rule in [
        "self.n == 3 && self.x == 1.0 && self.x < 2",
        "self.s.lowerAscii() == 'hello' && self.s.charAt(1) == 'e' && self.s.size() == 5",
        "self.s.replace('l', 'L').indexOf('L') == 2 && self.s.substring(1, 3) == 'el' && ' a '.trim() == 'a'",
        "'a,b'.split(',') == ['a', 'b'] && self.names.join('-') == 'a-b'",
        "self.s.find('l+') == 'll' && self.s.findAll('[eo]') == ['e', 'o'] && self.s.matches('^H.*o$')",
        "self.list.isSorted() && self.list.sum() == 6 && self.list.min() == 1 && self.list.max() == 3",
        "self.list.indexOf(2) == 1 && [1, 2, 1].lastIndexOf(1) == 2 && self.names.indexOf('z') == -1",
        "self.list.all(i, i > 0) && self.list.exists(i, i == 2) && self.list.exists_one(i, i == 2)",
        "self.list.map(i, i * 2) == [2, 4, 6] && self.list.filter(i, i > 1).size() == 2",
        "self.when == timestamp('2026-01-01T00:00:00Z') && self.when.getFullYear() == 2026",
        "self.wait == duration('1m30s') && self.wait < duration('2m')",
        "self.raw == b'abc'",
        "type(self.any) == string && self.any == '50%'",
        "self.labels['a.b/c'] == 'd' && 'a.b/c' in self.labels && self.labels.all(k, self.labels[k] != '')",
        "self.my__dash__field == 'm' && self.__namespace__ == 'ns'",
        "has(self.b) ? self.b : false",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && isQuantity('100m') && !isQuantity('x')",
        "quantity('1.5').add(quantity('500m')).asInteger() == 2 && quantity('2').sub(1).compareTo(quantity('1')) == 0",
        "sets.contains([1, 2, 3], [2, 2]) && !sets.contains([1], [1, 2]) && sets.equivalent([1, 2], [2, 1, 1])",
        "sets.intersects(['a', 'b'], ['b', 'c']) && !sets.intersects(['a'], []) && !sets.equivalent([1], [])",
        "quantity('1024Mi') == quantity('1Gi') && quantity('-1').sign() == -1 && !quantity('1.5').isInteger()",
        "isIP('10.0.0.1') && ip('::1').family() == 6 && ip('127.0.0.1').isLoopback() && ip.isCanonical('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::/0').prefixLength() == 0 && !isCIDR('10.0.0.0')",
        "'%s is %d'.format([self.s, self.n]) == 'Hello is 3'",
        "self.?s.orValue('') == 'Hello' && self.?s.hasValue() && self.list[?9].orValue(7) == 7",
        "self.set.exists(e, e == 'x')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-rc.1').compareTo(semver('1.0.0')) == -1",
        "semver('v1.02', true).minor() == 2 && isSemver('1.2.3+b') && !isSemver('1.2') && !isSemver('v1', false)",
    ] {
        let mut server = server("1.36");
        let mut spec = all_kinds();
        spec["x-kubernetes-validations"] = rules(&[rule]);
        let defined = define(&mut server, spec, json!([]));
        assert_eq!(defined.code, 201, "{rule}: {:?}", causes(&defined));
        let created = create(&mut server, &full());
        assert_eq!(created.code, 201, "{rule}: {:?}", causes(&created));
    }
}

#[test]
fn errors_of_evaluations_are_reported() {
    for (rule, expected) in [
        (
            "self.n / 0 == 1",
            "division by zero evaluating rule: self.n / 0 == 1",
        ),
        (
            "self.list[5] == 1",
            "index out of bounds: 5 evaluating rule: self.list[5] == 1",
        ),
        (
            "self.labels['z'] == ''",
            "no such key: z evaluating rule: self.labels['z'] == ''",
        ),
        (
            "self.any > 5",
            "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: \
             self.any > 5",
        ),
        (
            "[].min() == 1",
            "min called on empty list evaluating rule: [].min() == 1",
        ),
    ] {
        let mut server = server("1.31");
        let mut spec = all_kinds();
        spec["x-kubernetes-validations"] = rules(&[rule]);
        assert_eq!(define(&mut server, spec, json!([])).code, 201, "{rule}");
        let expected = format!("FieldValueInvalid spec: Invalid value: \"object\": {expected}");
        assert_eq!(causes(&create(&mut server, &full())), [expected], "{rule}");
    }
}

#[test]
fn a_rule_that_does_not_compile_refuses_its_definition() {
    const FIELD: &str = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
    for (rule, key, expected) in [
        (
            json!({"rule": ""}),
            "rule",
            "Required value: rule is not specified",
        ),
        (
            json!({"rule": "self.n >"}),
            "rule",
            "compilation failed: ERROR: <input>:1:",
        ),
        (
            json!({"rule": "self.m == 1"}),
            "rule",
            "compilation failed: ERROR: <input>:1:5: undefined field 'm'\n | self.m == 1\n | ....^",
        ),
        (
            json!({"rule": "self.free.a == 1"}),
            "rule",
            "undefined field 'free'",
        ),
        (
            json!({"rule": "self.n.x == 1"}),
            "rule",
            "type 'int' does not support field selection",
        ),
        (
            json!({"rule": "nope == 1"}),
            "rule",
            "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope == 1\n | ^",
        ),
        (
            json!({"rule": "nope(self.n)"}),
            "rule",
            "undeclared reference to 'nope' (in container '')",
        ),
        (
            json!({"rule": "self.n == '3'"}),
            "rule",
            "found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            json!({"rule": "self.n"}),
            "rule",
            "cel expression must evaluate to a bool",
        ),
        (
            json!({"rule": "url(self.s) == url('a')"}),
            "rule",
            "the function 'url' is not covered by this simulated API server",
        ),
        (
            json!({"rule": "self.set == ['x']"}),
            "rule",
            "the equality of lists of the types set and map is not covered",
        ),
        (
            json!({"rule": "self.b", "message": " "}),
            "message",
            "message must be non-empty if specified",
        ),
        (
            json!({"rule": "self.b &&\nself.b"}),
            "message",
            "Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "self.b", "messageExpression": "self.n"}),
            "messageExpression",
            "messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "self.b", "reason": "Odd"}),
            "reason",
            "Unsupported value: \"Odd\"",
        ),
        (
            json!({"rule": "self.b", "fieldPath": ".nope"}),
            "fieldPath",
            "fieldPath must be a valid path: does not refer to a valid field",
        ),
    ] {
        let mut server = server("1.31");
        let mut spec = all_kinds();
        spec["x-kubernetes-validations"] = json!([rule]);
        let refused = define(&mut server, spec, json!([]));
        let causes = causes(&refused);
        assert_eq!(causes.len(), 1, "{rule}: {causes:?}");
        assert!(
            causes[0].contains(&format!("{FIELD}.{key}: ")),
            "{rule}: {causes:?}"
        );
        assert!(causes[0].contains(expected), "{rule}: {}", causes[0]);
    }
}

#[test]
fn functions_belong_to_releases() {
    let rule = |version: &str, rule: &str| {
        let mut spec = all_kinds();
        spec["x-kubernetes-validations"] = rules(&[rule]);
        define(&mut server(version), spec, json!([])).code
    };
    for (since, before, source) in [
        ("1.29", "1.28", "quantity('1') == quantity('1')"),
        ("1.31", "1.30", "isIP('::1')"),
        ("1.30", "1.29", "'%d'.format([self.n]) == '3'"),
        ("1.30", "1.29", "sets.contains([1], [1])"),
        ("1.34", "1.33", "isSemver('1.2.3')"),
    ] {
        assert_eq!(
            (rule(since, source), rule(before, source)),
            (201, 422),
            "{source}"
        );
    }
}

#[test]
fn transition_rules_are_refused_for_items_without_old_values() {
    let spec = json!({"type": "object", "properties": {"list": {
        "type": "array",
        "items": {"type": "integer", "x-kubernetes-validations": rules(&["self >= oldSelf"])},
    }}});
    assert_eq!(
        causes(&define(&mut server("1.31"), spec, json!([]))),
        [
            "FieldValueInvalid spec.validation.openAPIV3Schema.properties[spec].properties[list].items.x-kubernetes-validations[0].rule: \
          Invalid value: \"self >= oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within \
          spec.validation.openAPIV3Schema.properties[spec].properties[list]"
        ]
    );
}

#[test]
fn rules_in_nested_schemas_are_forbidden_where_rules_exist() {
    let spec = json!({
        "type": "object",
        "properties": {"min": {"type": "integer"}},
        "allOf": [{"properties": {"min": {"x-kubernetes-validations": rules(&["self > 0"])}}}],
    });
    let mut later = server("1.25");
    assert_eq!(
        causes(&define(&mut later, spec.clone(), json!([]))),
        [
            "FieldValueForbidden spec.validation.openAPIV3Schema.properties[spec].allOf[0].properties[min]\
             .x-kubernetes-validations: Forbidden: must be empty to be structural"
        ]
    );
    // Before, the API does not have the field.
    let mut earlier = server("1.24");
    assert_eq!(define(&mut earlier, spec, json!([])).code, 201);
    let crds = earlier
        .resolve("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .unwrap();
    let stored = earlier.object(crds, "", NAME).unwrap();
    let versions = stored.at(&["spec", "versions"]).unwrap().to_string();
    assert!(!versions.contains("x-kubernetes-validations"), "{versions}");
}
