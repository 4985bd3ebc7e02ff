//! Fields that a kind does not have.

use serde_json::json;

use crate::world::{definitions, typed};

#[test]
fn fields_of_built_in_kinds_are_those_of_their_types() {
    let server = typed("1.30");
    let kind = server.resolve("apps", "v1", "deployments").unwrap();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "sepc": {},
        "metadata": {"name": "a", "label": {}, "annotations": {"any": "thing"}},
        "spec": {
            "replica": 1, "selector": {"matchLabels": {"any": "thing"}},
            "template": {"spec": {"containers": [{"name": "c"}, {"name": "d", "imagePolicy": null}]}},
        },
    });
    assert_eq!(
        server.unknown_fields(kind, &deployment, false),
        [
            "metadata.label",
            "sepc",
            "spec.replica",
            "spec.template.spec.containers[1].imagePolicy",
        ]
    );
    let patch = json!({"spec": {"replica": 1, "old": null, "template": {"spec": {
        "$setElementOrder/containers": [{"name": "c"}],
        "containers": [{"name": "c", "$patch": "delete"}],
    }}}});
    assert_eq!(server.unknown_fields(kind, &patch, true), ["spec.replica"]);
    // Kinds without a type have any field.
    let kind = server
        .resolve("authentication.k8s.io", "v1", "tokenreviews")
        .unwrap();
    let object = json!({"any": {"thing": 1}});
    assert!(server.unknown_fields(kind, &object, false).is_empty());
}

#[test]
fn fields_of_custom_resources_are_those_of_their_schemas() {
    let mut server = typed("1.30");
    let definitions = definitions(&server, "v1");
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "template": {
                "type": "object", "x-kubernetes-embedded-resource": true,
                "properties": {"spec": {"type": "object"}},
            },
        }},
    }});
    let definition = json!({"metadata": {"name": "widgets.x.dev"}, "spec": {
        "group": "x.dev", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    let created = server.create_json(definitions, "", definition);
    assert_eq!(created.code, 201, "{:?}", created.body);
    let kind = server.resolve("x.dev", "v1", "widgets").unwrap();
    let widget = json!({
        "apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "status": {},
        "spec": {
            "list": [{"a": "1"}, {"b": "2"}],
            "map": {"x": {"a": "1", "b": "2"}},
            "open": {"any": {"thing": 1}},
            "template": {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"a": 1}},
        },
    });
    assert_eq!(
        server.unknown_fields(kind, &widget, false),
        ["spec.list[1].b", "spec.map.x.b", "spec.template.spec.a", "status"]
    );
}

#[test]
fn definitions_have_the_fields_of_their_version() {
    let server = typed("1.21");
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "additionalProperties": {"tpye": "string"}},
        "open": {"type": "object", "additionalProperties": true, "propertys": {}},
    }});
    let stable = json!({"spec": {
        "group": "x.dev", "scop": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    let of = |version: &str| definitions(&server, version);
    let schema = "spec.versions[0].schema.openAPIV3Schema.properties";
    assert_eq!(
        server.unknown_fields(of("v1"), &stable, false),
        [
            "spec.scop".to_owned(),
            format!("{schema}.open.propertys"),
            format!("{schema}.spec.additionalProperties.tpye"),
        ]
    );
    let beta = json!({"spec": {"version": "v1", "validation": {"openAPIV3Schema": {}}, "subresource": {}}});
    assert_eq!(
        server.unknown_fields(of("v1beta1"), &beta, false),
        ["spec.subresource"]
    );
    // The stable version has no fields for all versions.
    assert_eq!(
        server.unknown_fields(of("v1"), &beta, false),
        ["spec.subresource", "spec.validation", "spec.version"]
    );
}
