//! Definitions of `apiextensions.k8s.io/v1beta1`.

use kubegc_sim::ApiServer;
use serde_json::{Value, json};

use crate::world::{JSON, definitions, typed};

/// A definition with one version.
fn definition(more: Value) -> Value {
    let mut spec = json!({
        "group": "x.dev", "version": "v1", "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": "widgets.x.dev"}, "spec": spec})
}

fn shown(server: &ApiServer, version: &str) -> Value {
    let kind = definitions(server, version);
    let object = server.object(kind, "", "widgets.x.dev").unwrap();
    object.to_json(&server.catalog()[kind])
}

fn create(server: &mut ApiServer, version: &str, definition: Value) {
    let kind = definitions(server, version);
    let created = server.create_json(kind, "", definition);
    assert_eq!(created.code, 201, "{:?}", created.body);
}

#[test]
fn a_beta_definition_is_stored_as_a_stable_one() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let columns = json!([{"name": "Size", "type": "integer", "JSONPath": ".spec.size"}]);
    let mut server = typed("1.20.2");
    create(
        &mut server,
        "v1beta1",
        definition(json!({
            "validation": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
            "additionalPrinterColumns": columns,
            "conversion": {
                "strategy": "Webhook",
                "webhookClientConfig": {"url": "https://x.dev/convert"},
                "conversionReviewVersions": ["v1"],
            },
        })),
    );
    let stable = shown(&server, "v1");
    assert_eq!(
        stable["spec"]["versions"],
        json!([{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        }])
    );
    assert_eq!(stable["spec"]["preserveUnknownFields"], true);
    assert_eq!(
        stable["spec"]["conversion"]["webhook"],
        json!({"clientConfig": {"url": "https://x.dev/convert"}, "conversionReviewVersions": ["v1"]})
    );
    let beta = shown(&server, "v1beta1")["spec"].clone();
    assert_eq!(
        (&beta["version"], &beta["versions"]),
        (
            &json!("v1"),
            &json!([{"name": "v1", "served": true, "storage": true}])
        )
    );
    assert_eq!(
        (
            &beta["validation"]["openAPIV3Schema"],
            &beta["additionalPrinterColumns"]
        ),
        (&schema, &columns)
    );
    assert_eq!(
        beta["conversion"]["webhookClientConfig"]["url"],
        "https://x.dev/convert"
    );
    assert_eq!(beta["conversion"].get("webhook"), None);
    // A patch of the beta version reads and changes its fields.
    let kind = definitions(&server, "v1beta1");
    let patch =
        br#"[{"op": "replace", "path": "/spec/additionalPrinterColumns/0/JSONPath", "value": ".spec.x"}]"#;
    let patched = server.patch(kind, "", "widgets.x.dev", JSON, patch);
    assert_eq!(patched.code, 200, "{:?}", patched.body);
    let column = &shown(&server, "v1")["spec"]["versions"][0]["additionalPrinterColumns"][0];
    assert_eq!(column["jsonPath"], ".spec.x");
}

#[test]
fn custom_resources_of_a_beta_definition_keep_unknown_fields_and_are_validated() {
    let mut server = typed("1.20.2");
    let schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let validation = json!({"validation": {"openAPIV3Schema": schema}});
    create(&mut server, "v1beta1", definition(validation));
    let widgets = server.resolve("x.dev", "v1", "widgets").unwrap();
    let widget = |size: Value| json!({"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "size": size, "other": 1});
    assert_eq!(server.create_json(widgets, "ns", widget(json!("big"))).code, 422);
    let created = server.create_json(widgets, "ns", widget(json!(3)));
    assert_eq!(
        created.object().unwrap().at(&["other"]),
        Some(&json!(1)),
        "{:?}",
        created.body
    );
}

#[test]
fn a_stable_definition_is_shown_in_the_beta_version() {
    let version = |name: &str, stored: bool, kept: &str| {
        json!({
            "name": name, "served": true, "storage": stored, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "description": kept}},
        })
    };
    let mut server = typed("1.20.2");
    let spec = json!({
        "group": "x.dev", "scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [version("v1", true, "one"), version("v1beta1", false, "other")],
    });
    create(
        &mut server,
        "v1",
        json!({"metadata": {"name": "widgets.x.dev"}, "spec": spec}),
    );
    let beta = shown(&server, "v1beta1")["spec"].clone();
    // Fields that are the same in all versions are shown once.
    assert_eq!(beta["subresources"], json!({"status": {}}));
    assert_eq!(beta.get("validation"), None);
    assert_eq!(
        beta["versions"][1]["schema"]["openAPIV3Schema"]["description"],
        "other"
    );
    assert_eq!(
        (&beta["version"], &beta["preserveUnknownFields"]),
        (&json!("v1"), &json!(false))
    );
}
