//! Unusual, incomplete and large listings, statuses and file systems.

use std::collections::BTreeMap;

use kubegc_core::{
    Runtime, RuntimeError,
    node_facts::{ContainerState, SandboxState},
};
use kubegc_cri::{CriRuntime, Options};
use kubegc_fixtures::Logs;

use crate::{
    convert::spec,
    server::Server,
    tables::{Reported, Tables, container, image, sandbox},
    wire,
};

/// A runtime that lists these.
fn listing(
    containers: Vec<wire::Container>,
    sandboxes: Vec<wire::PodSandbox>,
    images: Vec<wire::Image>,
) -> Server<Reported> {
    Server::start(Reported::new(Tables {
        containers,
        sandboxes,
        images,
        ..Tables::default()
    }))
}

#[tokio::test]
async fn one_id_under_two_runtime_handlers_is_two_images() {
    let images = ["runc", "kata"].map(|handler| wire::Image {
        spec: Some(spec("", handler)),
        ..image("sha256:web")
    });
    let server = listing(Vec::new(), Vec::new(), images.to_vec());
    let runtime = server.connect().await;
    for handlers in [&["runc", "kata"][..], &["kata"]] {
        let images = runtime.images().await.expect("listed");
        let found: Vec<&str> = images.iter().map(|image| &*image.runtime_handler).collect();
        assert_eq!(found, handlers);
        let removed = runtime.remove_image("sha256:web", handlers[0]).await;
        assert_eq!(removed, Ok(()), "only the one of this handler");
    }
}

#[tokio::test]
async fn unknown_states_are_findings_and_remove_nothing() {
    let containers = (0..4).chain([17, -1]).map(|state| wire::Container {
        state,
        ..container(&format!("c{state}"))
    });
    let sandboxes = [0, 1, 9].map(|state| wire::PodSandbox {
        state,
        ..sandbox(&format!("s{state}"))
    });
    let server = listing(containers.collect(), sandboxes.to_vec(), Vec::new());
    let status = wire::ContainerStatus {
        state: 17,
        ..wire::ContainerStatus::default()
    };
    server
        .backend
        .tables()
        .statuses
        .insert("c17".to_owned(), Some(status));
    let runtime = server.connect().await;
    let (logs, _guard) = Logs::capture();
    let containers = runtime.containers().await.expect("listed");
    assert_eq!(
        containers
            .iter()
            .map(|container| container.state)
            .collect::<Vec<_>>(),
        [
            ContainerState::Created,
            ContainerState::Running,
            ContainerState::Exited,
            ContainerState::Unknown,
            ContainerState::Unknown,
            ContainerState::Unknown,
        ]
    );
    let sandboxes = runtime.sandboxes().await.expect("listed");
    assert_eq!(
        sandboxes.iter().map(|sandbox| sandbox.state).collect::<Vec<_>>(),
        [SandboxState::Ready, SandboxState::NotReady, SandboxState::Ready]
    );
    let status = runtime
        .container_status("c17")
        .await
        .expect("answered")
        .expect("a response");
    assert_eq!(status.state, ContainerState::Unknown);
    assert_eq!(
        logs.lines(),
        [
            "WARN not a container state of CRI; treated as unknown entry=container web (c17) state=17",
            "WARN not a container state of CRI; treated as unknown entry=container web (c-1) state=-1",
            "WARN not a sandbox state of CRI; treated as ready entry=sandbox web-0 (s9) state=9",
            "WARN not a container state of CRI; treated as unknown entry=container ? state=17",
        ]
    );
}

/// The labels that name a pod.
fn pod_labels(uid: &str) -> BTreeMap<String, String> {
    [("uid", uid), ("name", "web-0"), ("namespace", "shop")]
        .map(|(key, value)| (format!("io.kubernetes.pod.{key}"), value.to_owned()))
        .into()
}

#[tokio::test]
async fn an_incomplete_entry_makes_the_listing_an_error_that_names_it() {
    let half = |text: String| Some(RuntimeError::refused(text));
    let whole = || container("whole");
    type Change<T> = fn(&mut T);
    let containers: [(&str, Change<wire::Container>, &str); 4] = [
        ("", |_| {}, "container web (?): id is missing"),
        (
            "0123456789abcdef",
            |one| one.pod_sandbox_id.clear(),
            "container web (0123456789abc): pod_sandbox_id is missing",
        ),
        (
            "c1",
            |one| {
                one.image_ref.clear();
                one.metadata = None;
            },
            "container c1: image_ref is missing",
        ),
        (
            "whole",
            |one| one.created_at = 8,
            "container web (whole): id is listed twice with different contents",
        ),
    ];
    for (id, change, problem) in containers {
        let mut broken = container(id);
        change(&mut broken);
        let server = listing(vec![whole(), broken], Vec::new(), Vec::new());
        let expected = half(format!("ListContainers: an incomplete response: {problem}"));
        assert_eq!(server.connect().await.containers().await.err(), expected);
    }
    let nameless = "sandbox s1: metadata.uid is missing, and the labels have no pod uid";
    let sandboxes: [(&str, Change<wire::PodSandbox>, &str); 6] = [
        ("", |_| {}, "sandbox web-0 (?): id is missing"),
        ("s1", |one| one.metadata = None, nameless),
        (
            "s1",
            |one| one.metadata = Some(wire::PodSandboxMetadata::default()),
            nameless,
        ),
        (
            "s1",
            |one| {
                one.metadata = Some(wire::PodSandboxMetadata::default());
                one.labels = pod_labels("uid-0");
            },
            "sandbox s1: metadata.uid is missing, although the labels have a pod uid",
        ),
        (
            "s1",
            |one| one.labels = pod_labels("uid-1"),
            "sandbox web-0 (s1): metadata.uid differs from the pod uid of the labels",
        ),
        (
            "whole",
            |one| one.state = 1,
            "sandbox web-0 (whole): id is listed twice with different contents",
        ),
    ];
    for (id, change, problem) in sandboxes {
        let mut broken = sandbox(id);
        change(&mut broken);
        let server = listing(Vec::new(), vec![sandbox("whole"), broken], Vec::new());
        let expected = half(format!("ListPodSandbox: an incomplete response: {problem}"));
        assert_eq!(server.connect().await.sandboxes().await.err(), expected);
    }
    let images: [(&str, Change<wire::Image>, &str); 3] = [
        (
            "",
            |one| one.repo_tags = vec!["web:1".to_owned()],
            "image web:1: id is missing",
        ),
        ("", |_| {}, "image ?: id is missing"),
        (
            "sha256:whole",
            |one| one.pinned = true,
            "image whole: id is listed twice with different contents",
        ),
    ];
    for (id, change, problem) in images {
        let mut broken = image(id);
        change(&mut broken);
        let server = listing(Vec::new(), Vec::new(), vec![image("sha256:whole"), broken]);
        let expected = half(format!("ListImages: an incomplete response: {problem}"));
        assert_eq!(server.connect().await.images().await.err(), expected);
    }
}

#[tokio::test]
async fn a_long_listing_is_read_and_one_beyond_the_limit_is_an_error() {
    let annotations: BTreeMap<_, _> = [("note".to_owned(), "x".repeat(10_000))].into();
    let wordy = |index: usize| wire::Container {
        annotations: annotations.clone(),
        ..container(&format!("c{index}"))
    };
    let server = listing((0..600).map(wordy).collect(), Vec::new(), Vec::new());
    let runtime = server.connect().await;
    assert_eq!(
        runtime
            .containers()
            .await
            .expect("6 MB are below the limit")
            .len(),
        600
    );
    server.backend.tables().containers.extend((600..1_700).map(wordy));
    let error = runtime.containers().await.expect_err("17 MB are above the limit");
    let RuntimeError::Refused { message } = &error else {
        panic!("{error:?}")
    };
    assert!(
        message.starts_with(
            "rpc error: code = OutOfRange desc = Error, decoded message length too large: found 17"
        ) && message.ends_with("bytes, the limit is: 16777216 bytes"),
        "{message}"
    );
    let mut options = Options::default();
    options.message_bytes_max = 32 * 1024 * 1024;
    let roomy = CriRuntime::connect(&server.endpoint(), options)
        .await
        .expect("it speaks CRI v1");
    assert_eq!(roomy.containers().await.expect("32 MiB are allowed").len(), 1_700);
    assert_eq!(
        runtime.images().await.map(|images| images.len()),
        Ok(0),
        "the connection is still good"
    );
}
