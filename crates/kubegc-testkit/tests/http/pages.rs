//! Lists of versions that are past, forgotten, or not reached yet.

use crate::world::{at_version, text, world};

const ALL: &str = "/api/v1/configmaps";

/// The names in a list.
fn names(list: &serde_json::Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| text(&item["metadata"]["name"])).collect()
}

#[test]
fn a_token_whose_version_is_forgotten_leads_to_the_rest_as_it_is_now() {
    let mut world = world();
    world.config_maps("shop", &["a", "b", "c"]);
    let page = world.get(&format!("{ALL}?limit=1")).json();
    let token = text(&page["metadata"]["continue"]);
    world.config_maps("shop", &["d"]);
    let revision = world.server.revision();
    world.server.prune_events(revision);
    let reply = world.get(&format!("{ALL}?limit=1&continue={token}"));
    assert_eq!(reply.code, 410);
    assert_eq!(reply.json()["reason"], "Expired");
    let message = reply.message();
    assert!(
        message.starts_with("The provided continue parameter is too old"),
        "{message}"
    );
    let token = text(&reply.json()["metadata"]["continue"]);
    let rest = world.get(&format!("{ALL}?continue={token}")).json();
    assert_eq!(names(&rest), ["b", "c", "d"]);
    let version = world.server.revision().to_string();
    assert_eq!(rest["metadata"]["resourceVersion"], version);
}

#[test]
fn versions_that_the_server_does_not_have_are_refused() {
    let mut world = world();
    world.config_maps("shop", &["a"]);
    let revision = world.get(ALL).revision();
    world.config_maps("shop", &["b"]);
    let future = world.server.revision() + 10;
    let late = world.get(&format!("{ALL}?resourceVersion={future}"));
    let retry = late.json()["details"]["retryAfterSeconds"].as_i64();
    assert_eq!((late.code, retry), (504, Some(1)));
    world.server.prune_events(world.server.revision());
    let exact = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
    let past = format!("GET {ALL}?{exact} -> 410 The resourceVersion for the provided list is too old.");
    world.transcript(&past);
}

#[test]
fn a_version_that_is_no_number_is_a_bad_request_of_lists_from_1_33_on() {
    at_version("1.32").transcript(
        r#"
GET /api/v1/configmaps?resourceVersion=abc -> 500 resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax
"#,
    );
    at_version("1.33").transcript(
        r#"
GET /api/v1/configmaps?resourceVersion=abc -> 400 invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax
GET /api/v1/namespaces/shop?resourceVersion=abc -> 500 resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax
"#,
    );
}
