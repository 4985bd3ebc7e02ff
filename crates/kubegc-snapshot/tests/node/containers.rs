//! Containers: every generation of the format, and unknown facts.

use kubegc_core::node_facts::ContainerState;
use kubegc_snapshot::NodeReader;

use crate::common::{Changes, container, findings, now, pods, ps, read, sandbox, show};

/// One container with changes: its line, or why the listing is unknown; and the findings.
fn one_container(changes: Changes, lenient: bool) -> (String, Vec<String>) {
    let reader = NodeReader::new()
        .now(now())
        .containers_are_whole()
        .lenient(lenient);
    let node = read(reader, &[&ps(&[container(changes)])]);
    let line = show(&node.inventory.containers, |one| {
        format!(
            "{} {:?} {} {} {:?} {} {}/{}/{} {}",
            one.id,
            one.name.as_deref().unwrap_or("-"),
            one.attempt,
            one.sandbox_id,
            one.state,
            one.created_at.as_nanos(),
            one.pod.namespace,
            one.pod.name,
            one.pod.uid,
            [&*one.image.reference, &*one.image.id, &*one.image.runtime_handler].join(","),
        )
    });
    (line, findings(&node))
}

const GOOD: &str = "c1 \"web\" 2 s1 Exited 1772366400000000000 shop/web-0/u1 sha256:77,sha256:77,";

#[test]
fn containers_read_the_same_from_every_generation_of_the_format() {
    let cases: &[(&str, Changes, &str)] = &[
        ("as it is", &[], GOOD),
        ("unknown fields", &[("userId", "7"), ("mounts", "[{}]")], GOOD),
        (
            "unset messages as null",
            &[("image", "null"), ("annotations", "null")],
            GOOD,
        ),
        (
            "unset messages left out",
            &[("image", "-"), ("annotations", "-")],
            GOOD,
        ),
        (
            "numbers as numbers",
            &[("createdAt", "1772366400000000000")],
            GOOD,
        ),
        (
            "numbers as texts",
            &[("metadata", r#"{"name":"web","attempt":"2"}"#)],
            GOOD,
        ),
        ("enumerations as numbers", &[("state", "2")], GOOD),
        (
            "an older runtime without image ids",
            &[("imageId", "-")],
            "c1 \"web\" 2 s1 Exited 1772366400000000000 shop/web-0/u1 sha256:77,,",
        ),
        (
            "the first attempt left out",
            &[("metadata", r#"{"name":"web"}"#)],
            "c1 \"web\" 0 s1 Exited 1772366400000000000 shop/web-0/u1 sha256:77,sha256:77,",
        ),
        (
            "a runtime handler",
            &[("image", r#"{"image":"x","runtimeHandler":"kata"}"#)],
            "c1 \"web\" 2 s1 Exited 1772366400000000000 shop/web-0/u1 sha256:77,sha256:77,kata",
        ),
    ];
    for (name, changes, expected) in cases {
        assert_eq!(
            one_container(changes, false),
            ((*expected).to_owned(), vec![]),
            "{name}"
        );
    }
    for (name, number, state) in [
        ("CONTAINER_CREATED", "0", ContainerState::Created),
        ("CONTAINER_RUNNING", "1", ContainerState::Running),
        ("CONTAINER_EXITED", "2", ContainerState::Exited),
        ("CONTAINER_UNKNOWN", "3", ContainerState::Unknown),
    ] {
        for value in [format!("{name:?}"), number.to_owned()] {
            let text = ps(&[container(&[("state", &value)])]);
            let node = read(NodeReader::new().containers_are_whole(), &[&text]);
            let states = node.inventory.containers.expect("a listing");
            assert_eq!(states[0].state, state, "{value}");
        }
    }
}

#[test]
fn a_container_that_cannot_be_read_makes_the_listing_unknown_or_is_kept() {
    // Changes, the finding, and the container that replaces it in lenient reading; none where not even that
    // is safe.
    let held = |state_and_on: &str| Some(format!("c1 \"web\" 2 s1 Running {state_and_on}"));
    let usual = "1772366400000000000 shop/web-0/u1 sha256:77,sha256:77,";
    let cases: &[(Changes, &str, Option<String>)] = &[
        (
            &[("id", "-")],
            "MissingField: f0, document 1: container web (?): containers[0].id: missing",
            None,
        ),
        (
            &[("id", "7")],
            "BadField: f0, document 1: container web (?): containers[0].id: expected a string, found a number",
            None,
        ),
        (
            &[("podSandboxId", "\"\"")],
            "MissingField: f0, document 1: container web (c1): containers[0].podSandboxId: missing",
            None,
        ),
        (
            &[("imageRef", "\"\""), ("imageId", "null")],
            "MissingField: f0, document 1: container web (c1): containers[0].imageRef: missing",
            None,
        ),
        (
            &[("imageRef", "{}")],
            "BadField: f0, document 1: container web (c1): containers[0].imageRef: expected a string, found a map",
            None,
        ),
        (
            &[("image", "[]")],
            "BadField: f0, document 1: container web (c1): containers[0].image: expected a map, found a list",
            None,
        ),
        (
            &[("state", "-")],
            "MissingField: f0, document 1: container web (c1): containers[0].state: missing",
            held(usual),
        ),
        (
            &[("state", "true")],
            "BadField: f0, document 1: container web (c1): containers[0].state: expected a whole number, found a boolean",
            held(usual),
        ),
        (
            &[("state", "1.5")],
            "BadField: f0, document 1: container web (c1): containers[0].state: expected a whole number, found a number",
            held(usual),
        ),
        (
            &[("createdAt", "null")],
            "MissingField: f0, document 1: container web (c1): containers[0].createdAt: missing",
            held("0 shop/web-0/u1 sha256:77,sha256:77,"),
        ),
        (
            &[("createdAt", "\"yesterday\"")],
            "BadField: f0, document 1: container web (c1): containers[0].createdAt: \"yesterday\" is not a whole number",
            held("0 shop/web-0/u1 sha256:77,sha256:77,"),
        ),
        (
            &[("createdAt", "\"99999999999999999999\"")],
            "BadField: f0, document 1: container web (c1): containers[0].createdAt: 99999999999999999999 is out of range",
            held("0 shop/web-0/u1 sha256:77,sha256:77,"),
        ),
        (
            &[(
                "labels",
                r#"{"io.kubernetes.pod.uid":"u1","io.kubernetes.pod.name":"web-0","io.kubernetes.pod.namespace":"shop","x":1}"#,
            )],
            "BadField: f0, document 1: container web (c1): containers[0].labels.x: expected a string, found a number",
            held(usual),
        ),
        (
            &[("metadata", r#"{"name":"web","attempt":-1}"#)],
            "BadField: f0, document 1: container web (c1): containers[0].metadata.attempt: -1 is out of range",
            Some("c1 \"web\" 0 s1 Running 1772366400000000000 shop/web-0/u1 sha256:77,sha256:77,".to_owned()),
        ),
    ];
    for (changes, finding, held) in cases {
        let (line, found) = one_container(changes, false);
        assert_eq!(found, [*finding], "{changes:?}");
        // The reason names the document, the field and the error.
        let words = finding.split(": ").skip(3).collect::<Vec<_>>().join(": ");
        assert_eq!(line, format!("failed: f0, document 1: {words}"), "{changes:?}");

        let (line, found) = one_container(changes, true);
        match held {
            None => assert!(line.starts_with("failed: "), "{changes:?}: {line}"),
            Some(held) => {
                assert_eq!(line, *held, "{changes:?}");
                assert!(found.iter().any(|text| text.starts_with("Held: ")), "{found:?}");
            }
        }
    }
}

#[test]
fn unusual_containers_are_read_and_reported() {
    let cases: &[(Changes, &str, &str)] = &[
        (
            &[("state", "\"CONTAINER_PAUSED\"")],
            "c1 \"web\" 2 s1 Unknown 1772366400000000000 shop/web-0/u1 sha256:77,sha256:77,",
            "UnknownState: f0, document 1: container web (c1): containers[0].state: \"CONTAINER_PAUSED\" is not a state of a container",
        ),
        (
            &[("state", "9")],
            "c1 \"web\" 2 s1 Unknown 1772366400000000000 shop/web-0/u1 sha256:77,sha256:77,",
            "UnknownState: f0, document 1: container web (c1): containers[0].state: 9 is not a state of a container",
        ),
        (
            &[("createdAt", "\"0\"")],
            "c1 \"web\" 2 s1 Exited 0 shop/web-0/u1 sha256:77,sha256:77,",
            "Implausible: f0, document 1: container web (c1): containers[0].createdAt: 0 is not after the epoch",
        ),
        (
            &[("createdAt", "\"1772366400000000001\"")],
            "c1 \"web\" 2 s1 Exited 1772366400000000001 shop/web-0/u1 sha256:77,sha256:77,",
            "Implausible: f0, document 1: container web (c1): containers[0].createdAt: 2026-03-01T12:00:00.000000001Z lies in the future: \
             it is 2026-03-01T12:00:00Z",
        ),
        (
            &[("metadata", "null")],
            "c1 \"-\" 0 s1 Exited 1772366400000000000 shop/web-0/u1 sha256:77,sha256:77,",
            "Nameless: f0, document 1: container c1: containers[0].metadata.name: missing",
        ),
        (
            &[("labels", "{}")],
            "c1 \"web\" 2 s1 Exited 1772366400000000000 // sha256:77,sha256:77,",
            "Nameless: f0, document 1: container web (c1): containers[0].labels.io.kubernetes.pod.uid: missing",
        ),
    ];
    for (changes, expected, finding) in cases {
        assert_eq!(
            one_container(changes, false),
            ((*expected).to_owned(), vec![(*finding).to_owned()]),
            "{changes:?}"
        );
    }
}

#[test]
fn a_listing_without_dead_containers_is_unknown_unless_declared_complete() {
    let running = container(&[("state", "\"CONTAINER_RUNNING\"")]);
    let ready = pods(&[sandbox(&[("state", "\"SANDBOX_READY\"")])]);
    let no_dead = "failed: f0, document 1: containers: no container that does not run: it may come from crictl ps without -a; \
                   list again with -a, or declare the listing whole";
    let none_runs = "failed: f0, document 1: containers: no container that runs, and sandboxes are ready: it may be filtered by state; \
                     list again with -a, or declare the listing whole";
    let cases: [(&str, Vec<String>, &str, &str); 5] = [
        (
            "only running ones",
            vec![ps(std::slice::from_ref(&running))],
            no_dead,
            "c1",
        ),
        ("none at all", vec![ps(&[])], no_dead, ""),
        (
            "a dead one among them",
            vec![ps(&[running, container(&[("id", "\"c2\"")])])],
            "c1 c2",
            "c1 c2",
        ),
        (
            "only dead ones, no sandbox ready",
            vec![ps(&[container(&[])]), pods(&[sandbox(&[])])],
            "c1",
            "c1",
        ),
        (
            "only dead ones, a sandbox ready",
            vec![ps(&[container(&[])]), ready],
            none_runs,
            "c1",
        ),
    ];
    for (name, documents, plain, declared) in cases {
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        let node = read(NodeReader::new(), &documents);
        assert_eq!(
            show(&node.inventory.containers, |one| one.id.to_string()),
            plain,
            "{name}"
        );
        assert_eq!(
            findings(&node).len(),
            usize::from(plain.starts_with("failed")),
            "{name}"
        );
        let node = read(NodeReader::new().containers_are_whole(), &documents);
        assert_eq!(
            show(&node.inventory.containers, |one| one.id.to_string()),
            declared,
            "{name}"
        );
        assert_eq!(findings(&node), [""; 0], "{name}");
    }
}

#[test]
fn duplicate_ids_are_merged_or_refused() {
    let other = container(&[("state", "\"CONTAINER_CREATED\"")]);
    let cases: [(&str, Vec<String>, &str, &str); 5] = [
        (
            "the same",
            vec![ps(&[container(&[]), container(&[])])],
            "c1",
            "Repeated: f0, document 1: container web (c1): containers[1]: occurs twice",
        ),
        (
            "another",
            vec![ps(&[container(&[]), other.clone()])],
            "failed: f0, document 1: containers[1].id: listed twice, differently",
            "Contradiction: f0, document 1: container web (c1): containers[1].id: another entry with this id differs",
        ),
        (
            "the same document",
            vec![ps(&[container(&[])]), ps(&[container(&[])])],
            "c1",
            "Repeated: f1, document 1: crictl ps: the same as in f0, document 1",
        ),
        (
            "another document",
            vec![ps(&[container(&[])]), ps(&[other])],
            "failed: f1, document 1: crictl ps: not the same as in f0, document 1",
            "Contradiction: f1, document 1: crictl ps: not the same as in f0, document 1",
        ),
        (
            "two documents in one file",
            vec![[ps(&[container(&[])]), ps(&[])].concat()],
            "failed: f0, document 2: crictl ps: not the same as in f0, document 1",
            "Contradiction: f0, document 2: crictl ps: not the same as in f0, document 1",
        ),
    ];
    for (name, documents, expected, finding) in cases {
        for lenient in [false, true] {
            let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
            let node = read(NodeReader::new().lenient(lenient), &documents);
            assert_eq!(
                show(&node.inventory.containers, |one| one.id.to_string()),
                expected,
                "{name}"
            );
            assert_eq!(findings(&node), [finding], "{name}");
        }
    }
}
