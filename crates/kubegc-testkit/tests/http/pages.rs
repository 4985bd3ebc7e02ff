//! Lists: selectors, pages, versions.

use serde_json::{Value, json};

use crate::world::{Reply, World, text, world};

const ALL: &str = "/api/v1/configmaps";

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    items
        .iter()
        .map(|item| {
            format!(
                "{}/{}",
                text(&item["metadata"]["namespace"]),
                text(&item["metadata"]["name"])
            )
        })
        .collect()
}

/// Reads a list to its end in pages; `between` happens after each page.
fn paged(
    world: &mut World,
    url: &str,
    limit: usize,
    mut between: impl FnMut(&mut World),
) -> (Vec<Value>, Vec<Value>) {
    let (mut items, mut metas) = (Vec::new(), Vec::new());
    let mut token = String::new();
    loop {
        let reply = world.get(&format!("{url}limit={limit}&continue={token}"));
        assert_eq!(reply.code, 200, "{}", reply.text);
        let page = reply.json();
        items.extend(page["items"].as_array().expect("items").iter().cloned());
        metas.push(page["metadata"].clone());
        token = text(&page["metadata"]["continue"]);
        if token.is_empty() {
            return (items, metas);
        }
        between(world);
    }
}

#[test]
fn selectors_choose_by_labels_and_fields() {
    let mut world = world();
    world.config_maps("shop", &["a", "b"]);
    world.config_maps("bank", &["a", "c"]);
    for (query, expected) in [
        ("", vec!["bank/a", "bank/c", "shop/a", "shop/b"]),
        ("labelSelector=app%3Da", vec!["bank/a", "shop/a"]),
        (
            "labelSelector=app+in+(a,b),!none",
            vec!["bank/a", "shop/a", "shop/b"],
        ),
        ("fieldSelector=metadata.name%3Da", vec!["bank/a", "shop/a"]),
        (
            "fieldSelector=metadata.namespace%21%3Dshop&labelSelector=app%3Dc",
            vec!["bank/c"],
        ),
    ] {
        assert_eq!(
            names(&world.get(&format!("{ALL}?{query}")).json()),
            expected,
            "{query}"
        );
    }
    assert_eq!(
        names(&world.get("/api/v1/namespaces/shop/configmaps").json()),
        ["shop/a", "shop/b"]
    );
    for (query, code, wanted) in [
        (
            "labelSelector=app+in+a",
            400,
            "unable to parse requirement: found 'a' expected: '('",
        ),
        ("fieldSelector=data.a%3D1", 400, "is not a known field selector"),
        ("limit=ten", 400, "invalid syntax"),
        (
            "resourceVersion=new",
            500,
            "resourceVersion: Invalid value: \"new\"",
        ),
        (
            "continue=zz",
            400,
            "invalid continue token: continue key is not valid",
        ),
    ] {
        let reply = world.get(&format!("{ALL}?{query}"));
        assert_eq!(reply.code, code, "{query}");
        assert!(reply.message().contains(wanted), "{query}: {}", reply.text);
    }
}

#[test]
fn pages_read_to_the_end_are_the_list() {
    let mut world = world();
    world.config_maps("shop", &["a", "b", "c", "d", "e"]);
    world.config_maps("bank", &["a", "b"]);
    let whole = world.get(ALL).json();
    for limit in 1..9 {
        let (items, metas) = paged(&mut world, &format!("{ALL}?"), limit, |_| {});
        assert_eq!(json!(items), whole["items"], "limit {limit}");
        let mut left = 7_usize;
        for meta in &metas {
            assert_eq!(meta["resourceVersion"], whole["metadata"]["resourceVersion"]);
            left = left.saturating_sub(limit);
            let remaining = if left == 0 { Value::Null } else { json!(left) };
            assert_eq!(meta["remainingItemCount"], remaining, "limit {limit}");
        }
    }
    // The number of remaining items is returned only without a selector.
    let page = world.get(&format!("{ALL}?limit=1&labelSelector=app%3Da")).json();
    assert_eq!(page["metadata"]["remainingItemCount"], Value::Null);
    assert!(!text(&page["metadata"]["continue"]).is_empty());
}

#[test]
fn all_pages_are_of_one_version_despite_writes_in_between() {
    let mut world = world();
    world.config_maps("shop", &["a", "c", "e", "g"]);
    let whole = world.get(ALL).json();
    let mut turn = 0;
    let (items, metas) = paged(&mut world, &format!("{ALL}?"), 1, |world| {
        turn += 1;
        match turn {
            1 => world.config_maps("shop", &["b", "f"]),
            2 => {
                assert_eq!(world.delete("/api/v1/namespaces/shop/configmaps/g").code, 200);
                world.patch(
                    "/api/v1/namespaces/shop/configmaps/e",
                    &json!({"data": {"a": "2"}}),
                );
            }
            _ => world.config_maps("shop", &["g"]),
        }
    });
    assert_eq!(json!(items), whole["items"]);
    assert!(
        metas
            .iter()
            .all(|meta| meta["resourceVersion"] == whole["metadata"]["resourceVersion"])
    );
    assert_eq!(names(&world.get(ALL).json()).len(), 6);
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
    assert_eq!(
        (reply.code, reply.json()["reason"].as_str()),
        (410, Some("Expired"))
    );
    assert!(
        reply
            .message()
            .starts_with("The provided continue parameter is too old")
    );
    let token = text(&reply.json()["metadata"]["continue"]);
    let rest = world.get(&format!("{ALL}?continue={token}")).json();
    assert_eq!(names(&rest), ["shop/b", "shop/c", "shop/d"]);
    assert_eq!(
        rest["metadata"]["resourceVersion"],
        world.server.revision().to_string()
    );
}

#[test]
fn versions_are_exact_or_a_minimum() {
    let mut world = world();
    world.config_maps("shop", &["a"]);
    let then: Reply = world.get(ALL);
    let revision = then.revision();
    world.config_maps("shop", &["b"]);
    let future = world.server.revision() + 10;
    for (query, code, expected) in [
        (format!("resourceVersion={revision}"), 200, 2),
        ("resourceVersion=0".to_owned(), 200, 2),
        ("resourceVersion=0&limit=1".to_owned(), 200, 2),
        (
            format!("resourceVersion={revision}&resourceVersionMatch=NotOlderThan"),
            200,
            2,
        ),
        (
            format!("resourceVersion={revision}&resourceVersionMatch=Exact"),
            200,
            1,
        ),
        (format!("resourceVersion={revision}&limit=5"), 200, 1),
        (format!("resourceVersion={future}"), 504, 0),
        ("resourceVersionMatch=Exact".to_owned(), 422, 0),
        ("resourceVersion=0&resourceVersionMatch=Exact".to_owned(), 422, 0),
        (
            format!("resourceVersion={revision}&resourceVersionMatch=Newest"),
            422,
            0,
        ),
        ("sendInitialEvents=true".to_owned(), 422, 0),
    ] {
        let reply = world.get(&format!("{ALL}?{query}"));
        assert_eq!(reply.code, code, "{query}: {}", reply.text);
        if code == 200 {
            assert_eq!(names(&reply.json()).len(), expected, "{query}");
        }
    }
    let exact = world.get(&format!(
        "{ALL}?resourceVersion={revision}&resourceVersionMatch=Exact"
    ));
    assert_eq!(exact.json(), then.json());
    let late = world.get(&format!(
        "/api/v1/namespaces/shop/configmaps/a?resourceVersion={future}"
    ));
    assert_eq!(
        (late.code, late.json()["details"]["retryAfterSeconds"].as_i64()),
        (504, Some(1))
    );
    let forgotten = world.server.revision();
    world.server.prune_events(forgotten);
    let reply = world.get(&format!(
        "{ALL}?resourceVersion={revision}&resourceVersionMatch=Exact"
    ));
    assert_eq!(
        (reply.code, &*reply.message()),
        (410, "The resourceVersion for the provided list is too old.")
    );
    let message = world.get(&format!("{ALL}?resourceVersionMatch=Exact")).message();
    assert_eq!(
        message,
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
         resourceVersionMatch is forbidden unless resourceVersion is provided"
    );
}
