//! Both forms of discovery.

use serde_json::Value;

use crate::world::{World, at_version, text, widgets, world};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

#[test]
fn each_short_name_leads_to_one_resource_of_the_first_group_that_has_it() {
    let mut world = world();
    let all = everything(&mut world);
    let mut seen = std::collections::BTreeMap::new();
    for (group, resource) in &all {
        for short in resource["shortNames"].as_array().into_iter().flatten() {
            let name = text(&resource["name"]);
            let first = seen.entry(text(short)).or_insert_with(|| name.clone());
            assert_eq!(*first, name, "{short} in {group}");
        }
    }
    assert_eq!(seen.get("ing").map(String::as_str), Some("ingresses"));
}

#[test]
fn aggregated_discovery_equals_classic_discovery() {
    let mut world = world();
    world.create(DEFINITIONS, &widgets());
    let plain = everything(&mut world);
    let mut aggregated = Vec::new();
    for path in ["/api", "/apis"] {
        let reply = world.get_as(path, &format!("{V2},{V2BETA1},application/json"));
        assert_eq!(reply.content_type, V2);
        let list = reply.json();
        assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2");
        for group in list["items"].as_array().expect("groups") {
            for version in group["versions"].as_array().expect("versions") {
                let name = text(&group["metadata"]["name"]);
                let group = [&*name, &*text(&version["version"])].join("/");
                for resource in version["resources"].as_array().expect("resources") {
                    aggregated.push(flat(&group, "resource", resource));
                    for part in resource["subresources"].as_array().into_iter().flatten() {
                        let mut part = flat(&group, "subresource", part);
                        part.1 = format!("{}/{}", text(&resource["resource"]), part.1);
                        aggregated.push(part);
                    }
                }
            }
        }
    }
    let plain = plain.iter().map(|(group, entry)| flat(group, "name", entry));
    let mut plain: Vec<_> = plain.collect();
    plain.sort();
    aggregated.sort();
    assert_eq!(aggregated, plain);
}

#[test]
fn aggregated_discovery_begins_with_its_releases() {
    let (all, json) = (&*format!("{V2},{V2BETA1},application/json"), "application/json");
    for (version, accept, content_type) in [
        ("1.26", all, json),
        ("1.27", all, V2BETA1),
        ("1.30", all, V2),
        ("1.30", V2BETA1, V2BETA1),
        ("1.36", json, json),
    ] {
        let reply = at_version(version).get_as("/apis", accept);
        assert_eq!(reply.code, 200, "{version} {accept}");
        assert_eq!(reply.content_type, content_type, "{version} {accept}");
    }
    assert_eq!(at_version("1.26").get_as("/apis", V2).code, 406);
    assert_eq!(at_version("1.33").get_as("/apis", V2BETA1).code, 406);
}

/// Group with version, name, verbs.
fn flat(group: &str, key: &str, entry: &Value) -> (String, String, String) {
    (group.to_owned(), text(&entry[key]), entry["verbs"].to_string())
}

/// Every entry of plain discovery, with its group and version.
fn everything(world: &mut World) -> Vec<(String, Value)> {
    let mut versions = vec![("/v1".to_owned(), "/api/v1".to_owned())];
    for group in world.get("/apis").json()["groups"].as_array().expect("groups") {
        for version in group["versions"].as_array().expect("versions") {
            let version = text(&version["groupVersion"]);
            versions.push((version.clone(), format!("/apis/{version}")));
        }
    }
    let mut all = Vec::new();
    for (group, url) in versions {
        let list = world.get(&url).json();
        for entry in list["resources"].as_array().expect("resources") {
            all.push((group.clone(), entry.clone()));
        }
    }
    all
}
