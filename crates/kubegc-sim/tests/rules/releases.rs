//! Each side of the first release of a behaviour, as `releases.txt` describes.

use kubegc_core::{ApiResource, KindId, deletion::DeleteOptionsSpec};
use kubegc_sim::{ApiServer, ApplyOptions, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::world::{MERGE, STRATEGIC, typed};

const POD: &str =
    r#"{"metadata":{"labels":{"x":"y"}},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#;
const JOB: &str =
    r#"{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#;
const SERVICE: &str = r#"{"spec":{"ports":[{"port":80}]}}"#;

/// The definition of Widgets, whose spec has a number and an embedded object.
fn widgets() -> String {
    let embedded = json!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    });
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}, "t": embedded}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let definition = json!({"metadata": {"name": "widgets.x.dev"}, "spec": {
        "group": "x.dev", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    definition.to_string()
}

/// The id of a kind, and the namespace of its objects.
fn kind_of(server: &ApiServer, kind: &str) -> (KindId, &'static str) {
    let mut kinds = server.catalog().iter();
    let is_preferred = |resource: &ApiResource| resource.preferred || resource.custom;
    let found = kinds.find(|(_, resource)| *resource.kind == *kind && is_preferred(resource));
    let (id, resource) = found.unwrap_or_else(|| panic!("{kind}"));
    (id, if resource.is_namespaced() { "ns" } else { "" })
}

/// Performs a request. Returns the texts of the response, or the requested field.
pub(crate) fn perform(server: &mut ApiServer, request: &str) -> String {
    let mut words = request.trim().splitn(3, ' ');
    let [verb, kind, rest] = [(); 3].map(|()| words.next().unwrap_or_default());
    let (id, namespace) = kind_of(server, kind);
    if verb == "get" {
        let Some(object) = server.object(id, namespace, "a") else {
            return "no object".to_owned();
        };
        let object = object.to_json(&server.catalog()[id]);
        return object.pointer(rest).unwrap_or(&Value::Null).to_string();
    }
    let body = match rest {
        "POD" => POD.to_owned(),
        "JOB" => JOB.to_owned(),
        "SERVICE" => SERVICE.to_owned(),
        "WIDGETS" => widgets(),
        "" => "{}".to_owned(),
        body => body.to_owned(),
    };
    let mut object: Value = serde_json::from_str(&body).unwrap();
    let name = object["metadata"]["name"].as_str().unwrap_or("a").to_owned();
    if matches!(verb, "create" | "update" | "apply" | "evict") {
        object["metadata"]["name"] = name.as_str().into();
    }
    let response = match verb {
        "create" => server.create_json(id, namespace, object),
        "update" => server.update_subresource(id, namespace, &name, "", object),
        "apply" => {
            let options = ApplyOptions {
                field_manager: "m".to_owned(),
                force: false,
            };
            server.apply(id, namespace, &name, None, object, &options)
        }
        "merge" => server.patch(id, namespace, &name, MERGE, body.as_bytes()),
        "strategic" => server.patch(id, namespace, &name, STRATEGIC, body.as_bytes()),
        "status" | "finalize" => server.patch_subresource(id, namespace, &name, verb, MERGE, body.as_bytes()),
        "evict" => server.create_subresource(id, namespace, "a", "eviction", object),
        "delete" => {
            let options = DeleteOptionsSpec::deserialize(&object).unwrap();
            server.delete(id, namespace, &name, &options)
        }
        _ => panic!("{request}"),
    };
    texts(&response)
}

/// The status code, the warnings and the problems of a response.
fn texts(response: &Response) -> String {
    let mut texts = vec![response.code.to_string()];
    texts.extend(response.warnings.iter().cloned());
    if let Some(status) = response.status() {
        texts.push(status.message.clone());
        let causes = status.causes().iter();
        texts.extend(causes.map(|cause| format!("{}: {}", cause.reason, cause.message)));
    }
    texts.join("; ")
}

#[test]
fn a_behavior_begins_with_its_release() {
    let rows = include_str!("releases.txt").lines();
    for row in rows.filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let plain = row.strip_prefix("cel ");
        if plain.is_some() && !cfg!(feature = "cel") {
            continue;
        }
        let parts: Vec<&str> = plain.unwrap_or(row).split(" | ").collect();
        let [release, requests, before, since] = parts[..] else {
            panic!("{row}")
        };
        let numbers: Vec<u16> = release.split('.').map(|number| number.parse().unwrap()).collect();
        let releases = match numbers[1..] {
            // The last patch release of the minor release before has no pick either.
            [minor] => [format!("1.{}.99", minor - 1), format!("1.{minor}.0")],
            [minor, patch] => [format!("1.{minor}.{}", patch - 1), format!("1.{minor}.{patch}")],
            _ => panic!("{row}"),
        };
        let [old, new] = releases.map(|release| {
            let mut server = typed(&release);
            let mut last = String::new();
            for request in requests.split(" ; ") {
                last = perform(&mut server, request);
            }
            last
        });
        assert!(old.contains(before), "{row}\n{old}");
        assert!(new.contains(since), "{row}\n{new}");
        assert_ne!(old, new, "{row}");
    }
}
