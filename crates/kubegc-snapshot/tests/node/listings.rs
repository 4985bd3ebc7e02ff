//! Sandboxes and images, and rules of all listings.

use kubegc_core::node_facts::SandboxState;
use kubegc_snapshot::NodeReader;

use crate::common::{Changes, findings, image, images, now, pods, read, sandbox, show};

/// One sandbox with changes: its line, or why the listing is unknown; and the findings.
fn one_sandbox(changes: Changes, lenient: bool) -> (String, Vec<String>) {
    let node = read(
        NodeReader::new().now(now()).lenient(lenient),
        &[&pods(&[sandbox(changes)])],
    );
    let line = show(&node.inventory.sandboxes, |one| {
        format!(
            "{} {} {:?} {} {}/{}/{}",
            one.id,
            one.attempt,
            one.state,
            one.created_at.as_nanos(),
            one.pod.namespace,
            one.pod.name,
            one.pod.uid
        )
    });
    (line, findings(&node))
}

#[test]
fn sandboxes_are_read_kept_or_skipped() {
    const GOOD: &str = "s1 1 NotReady 1772366300000000000 shop/web-0/u1";
    // Changes, strict and lenient reading, the first finding of strict reading.
    let cases: &[(Changes, &str, &str, &str)] = &[
        (&[], GOOD, GOOD, ""),
        (
            &[("state", "1"), ("createdAt", "1772366300000000000")],
            GOOD,
            GOOD,
            "",
        ),
        (
            &[("annotations", "null"), ("labels", "-"), ("os", "\"linux\"")],
            GOOD,
            GOOD,
            "",
        ),
        (
            &[("state", "\"SANDBOX_LOST\"")],
            "s1 1 Ready 1772366300000000000 shop/web-0/u1",
            "s1 1 Ready 1772366300000000000 shop/web-0/u1",
            "UnknownState: f0, document 1: sandbox web-0 (s1): items[0].state: \"SANDBOX_LOST\" is not a state of a sandbox",
        ),
        (
            &[("metadata", "-")],
            "s1 0 NotReady 1772366300000000000 //u1",
            "s1 0 NotReady 1772366300000000000 //u1",
            "Nameless: f0, document 1: sandbox s1: items[0].metadata: missing; the labels say the pod",
        ),
        (
            &[("metadata", "{}")],
            "s1 0 NotReady 1772366300000000000 //",
            "s1 0 NotReady 1772366300000000000 //",
            "Nameless: f0, document 1: sandbox s1: items[0].metadata.uid: missing",
        ),
        (
            &[("metadata", "-"), ("labels", "null")],
            "failed: f0, document 1: items[0].metadata.uid: missing",
            "s1 0 Ready 1772366300000000000 //",
            "MissingField: f0, document 1: sandbox s1: items[0].metadata.uid: missing",
        ),
        (
            &[("state", "-")],
            "failed: f0, document 1: items[0].state: missing",
            "s1 1 Ready 1772366300000000000 shop/web-0/u1",
            "MissingField: f0, document 1: sandbox web-0 (s1): items[0].state: missing",
        ),
        (
            &[("createdAt", "[]")],
            "failed: f0, document 1: items[0].createdAt: expected a whole number, found a list",
            "s1 1 Ready 0 shop/web-0/u1",
            "BadField: f0, document 1: sandbox web-0 (s1): items[0].createdAt: expected a whole number, found a list",
        ),
        (
            &[("id", "\"\"")],
            "failed: f0, document 1: items[0].id: missing",
            "",
            "MissingField: f0, document 1: sandbox web-0 (): items[0].id: missing",
        ),
    ];
    for (changes, strict, lenient, finding) in cases {
        let (line, found) = one_sandbox(changes, false);
        assert_eq!(line, *strict, "{changes:?}");
        assert_eq!(found.first().map_or("", String::as_str), *finding, "{changes:?}");
        let (line, found) = one_sandbox(changes, true);
        assert_eq!(line, *lenient, "{changes:?}");
        assert_eq!(
            found.iter().any(|text| text.starts_with("Held: ")),
            strict.starts_with("failed"),
            "{changes:?}"
        );
    }
    for (number, state) in [("0", SandboxState::Ready), ("1", SandboxState::NotReady)] {
        let node = read(NodeReader::new(), &[&pods(&[sandbox(&[("state", number)])])]);
        assert_eq!(node.inventory.sandboxes.expect("a listing")[0].state, state);
    }
}

#[test]
fn images_are_read_or_skipped() {
    const GOOD: &str =
        "sha256:77/ 1000 pinned=false registry.example/shop/web:1 registry.example/shop/web@sha256:88";
    // Changes, strict and lenient reading, the first finding of strict reading.
    let cases: &[(Changes, &str, &str, &str)] = &[
        (&[], GOOD, GOOD, ""),
        (
            &[
                ("size", "1000"),
                ("uid", "null"),
                ("spec", "null"),
                ("annotations", "{}"),
            ],
            GOOD,
            GOOD,
            "",
        ),
        (&[("uid", "-"), ("spec", "-")], GOOD, GOOD, ""),
        (&[("pinned", "-")], GOOD, GOOD, ""),
        (
            &[("repoTags", r#"["<none>:<none>"]"#), ("repoDigests", "null")],
            "sha256:77/ 1000 pinned=false  ",
            "sha256:77/ 1000 pinned=false  ",
            "",
        ),
        (
            &[("pinned", "true"), ("spec", r#"{"runtimeHandler":"kata"}"#)],
            "sha256:77/kata 1000 pinned=true registry.example/shop/web:1 registry.example/shop/web@sha256:88",
            "sha256:77/kata 1000 pinned=true registry.example/shop/web:1 registry.example/shop/web@sha256:88",
            "",
        ),
        (
            &[("size", "\"18446744073709551615\"")],
            "sha256:77/ 18446744073709551615 pinned=false registry.example/shop/web:1 registry.example/shop/web@sha256:88",
            "sha256:77/ 18446744073709551615 pinned=false registry.example/shop/web:1 registry.example/shop/web@sha256:88",
            "Implausible: f0, document 1: image registry.example/shop/web:1: images[0].size: 18446744073709551615 bytes are beyond 63 bits, \
             which upstream reads as a negative size",
        ),
        (
            &[("size", "\"-5\"")],
            "failed: f0, document 1: images[0].size: -5 is out of range",
            "",
            "BadField: f0, document 1: image registry.example/shop/web:1: images[0].size: -5 is out of range",
        ),
        (
            &[("size", "-")],
            "failed: f0, document 1: images[0].size: missing",
            "",
            "MissingField: f0, document 1: image registry.example/shop/web:1: images[0].size: missing",
        ),
        (
            &[("pinned", "\"yes\"")],
            "failed: f0, document 1: images[0].pinned: expected true or false, found a string",
            "",
            "BadField: f0, document 1: image registry.example/shop/web:1: images[0].pinned: expected true or false, found a string",
        ),
        (
            &[("repoTags", "[\"a\",7]")],
            "failed: f0, document 1: images[0].repoTags[1]: expected a string, found a number",
            "",
            "BadField: f0, document 1: image a: images[0].repoTags[1]: expected a string, found a number",
        ),
        (
            &[("id", "null"), ("repoTags", "[]"), ("repoDigests", "[]")],
            "failed: f0, document 1: images[0].id: missing",
            "",
            "MissingField: f0, document 1: image ?: images[0].id: missing",
        ),
    ];
    for (changes, strict, lenient, finding) in cases {
        for (is_lenient, expected) in [(false, strict), (true, lenient)] {
            let node = read(
                NodeReader::new().lenient(is_lenient),
                &[&images(&[image(changes)])],
            );
            let line = show(&node.inventory.images, |one| {
                format!(
                    "{}/{} {} pinned={} {} {}",
                    one.id,
                    one.runtime_handler,
                    one.size_bytes,
                    one.pinned,
                    one.tags.join(","),
                    one.digests.join(",")
                )
            });
            assert_eq!(line, **expected, "{changes:?}");
            if !is_lenient {
                let found = findings(&node);
                assert_eq!(found.first().map_or("", String::as_str), *finding, "{changes:?}");
            }
        }
    }
}

#[test]
fn one_image_may_be_listed_once_for_each_runtime_handler() {
    let kata = image(&[("spec", r#"{"runtimeHandler":"kata"}"#)]);
    let node = read(NodeReader::new(), &[&images(&[image(&[]), kata])]);
    assert_eq!(
        show(&node.inventory.images, |one| one.runtime_handler.to_string()),
        " kata"
    );
    assert_eq!(findings(&node), [""; 0]);
    let larger = image(&[("size", "\"1001\"")]);
    let node = read(NodeReader::new(), &[&images(&[image(&[]), larger])]);
    assert_eq!(
        show(&node.inventory.images, |one| one.id.to_string()),
        "failed: f0, document 1: images[1].id: listed twice, differently"
    );
}

#[test]
fn missing_listings_are_not_assumed() {
    let node = read(NodeReader::new(), &[&pods(&[sandbox(&[])])]);
    let inventory = &node.inventory;
    assert_eq!(
        show(&inventory.containers, |one| one.id.to_string()),
        "not requested"
    );
    assert_eq!(show(&inventory.images, |one| one.id.to_string()), "not requested");
    assert_eq!(show(&inventory.sandboxes, |one| one.id.to_string()), "s1");
    assert_eq!(
        show(&inventory.image_volumes, ToString::to_string),
        "not requested"
    );
    assert_eq!(show(&inventory.log_entries, ToString::to_string), "not requested");
    assert!(inventory.image_file_system.is_err());
    assert!(inventory.image_records.is_empty());
    assert_eq!(node.policy, None);
    assert!(!inventory.pods.synced && !inventory.pods.sources_ready);
}

#[test]
fn a_listing_of_the_wrong_shape_is_unknown() {
    for (text, reason) in [
        (
            "{\"containers\":5}",
            "containers: expected a list, found a number",
        ),
        ("{\"containers\":{}}", "containers: expected a list, found a map"),
        (
            "{\"containers\":[5]}",
            "containers[0]: expected a map, found a number",
        ),
        (
            "{\"containers\":[null]}",
            "containers[0]: expected a map, found null",
        ),
    ] {
        for lenient in [false, true] {
            let node = read(NodeReader::new().lenient(lenient).containers_are_whole(), &[text]);
            assert_eq!(
                show(&node.inventory.containers, |one| one.id.to_string()),
                format!("failed: f0, document 1: {reason}")
            );
            assert_eq!(findings(&node), [format!("BadField: f0, document 1: {reason}")]);
        }
    }
    let node = read(
        NodeReader::new().containers_are_whole(),
        &["{\"containers\":null}"],
    );
    assert_eq!(
        show(&node.inventory.containers, |one| one.id.to_string()),
        "",
        "unset is empty"
    );
}
