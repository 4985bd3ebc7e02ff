//! The adapter changes no decision: a node collected through the socket ends in the state of its copy
//! collected directly.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    Runtime, Timestamp, Uid,
    node_facts::{
        Container, ContainerImage, ContainerState, Image, PodIdentity, Sandbox, SandboxState, label,
    },
};
use kubegc_snapshot::{NodeDocument, NodeReader};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::{
    busy::{busy_node as busy, left},
    convert,
    crictl::Unset,
    server::Server,
    sim::{Simulated, collect},
    tables::{Reported, Tables},
    wire,
};

#[tokio::test]
async fn a_node_collected_through_the_socket_ends_like_its_copy() {
    for release in ["1.20.2", "1.28.0", "1.29.0", "1.30.0", "1.36.0"] {
        let (sim, clock) = busy();
        let copy = sim.fork(clock.clone());
        let server = Server::start(Simulated(sim.clone()));
        let runtime = server.connect().await;
        for run in 0..2 {
            let reports = collect(&runtime, &sim, &clock, release).await;
            let direct = collect(&copy, &copy, &clock, release).await;
            assert_eq!(reports, direct, "{release}, run {run}");
            assert_eq!(sim.take_calls(), copy.take_calls(), "{release}, run {run}");
        }
        assert_eq!(left(&sim), left(&copy), "{release}");
        assert_eq!(sim.violations(), copy.violations(), "{release}");
        assert_eq!(sim.all_containers(), copy.all_containers(), "{release}");
        assert_eq!(sim.all_images(), copy.all_images(), "{release}");
    }
}

fn word() -> impl Strategy<Value = Arc<str>> {
    "[a-z0-9:./-]{0,6}".prop_map(Arc::from)
}

fn some_word() -> impl Strategy<Value = Arc<str>> {
    "[a-z0-9:./-]{1,6}".prop_map(Arc::from)
}

/// A uid: a UUID, another text, or none.
fn uid() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}",
        "[a-zA-Z0-9-]{0,6}"
    ]
}

fn labels() -> impl Strategy<Value = BTreeMap<Arc<str>, Arc<str>>> {
    let others = prop::collection::btree_map(word(), word(), 0..3);
    let pod = prop::option::of((uid(), word(), word()));
    (others, pod).prop_map(|(mut labels, pod)| {
        if let Some((uid, namespace, name)) = pod {
            labels.insert(label::POD_UID.into(), uid.into());
            labels.insert(label::POD_NAMESPACE.into(), namespace);
            labels.insert(label::POD_NAME.into(), name);
        }
        labels
    })
}

fn container() -> impl Strategy<Value = Container> {
    let state = prop_oneof![
        Just(ContainerState::Created),
        Just(ContainerState::Running),
        Just(ContainerState::Exited),
        Just(ContainerState::Unknown),
    ];
    let image = (some_word(), word(), word(), any::<bool>());
    let name = prop::option::of((word(), any::<u32>()));
    let reported = (labels(), prop::collection::btree_map(word(), word(), 0..3));
    (state, name, any::<i64>(), some_word(), image, reported).prop_map(
        |(state, name, nanos, sandbox_id, (image, other, runtime_handler, swap), (labels, annotations))| {
            let (reference, id) = if swap { (other, image) } else { (image, other) };
            Container {
                state,
                attempt: name.as_ref().map_or(0, |(_, attempt)| *attempt),
                created_at: Timestamp::from_nanos(nanos),
                name: name.map(|(name, _)| name),
                pod: PodIdentity::from_labels(&labels),
                id: Arc::default(),
                sandbox_id,
                image: ContainerImage {
                    reference,
                    id,
                    runtime_handler,
                },
                labels,
                annotations,
            }
        },
    )
}

/// A sandbox; its label, if it has one, mostly names the pod.
fn sandbox() -> impl Strategy<Value = Sandbox> {
    let state = prop_oneof![Just(SandboxState::Ready), Just(SandboxState::NotReady)];
    let pod = (uid(), word(), word(), labels(), prop::bool::weighted(0.9));
    (state, pod, any::<u32>(), any::<i64>()).prop_map(
        |(state, (uid, namespace, name, mut labels, is_consistent), attempt, nanos)| {
            if let Some(labelled) = labels.get_mut(label::POD_UID).filter(|_| is_consistent) {
                *labelled = uid.as_str().into();
            }
            Sandbox {
                id: Arc::default(),
                pod: PodIdentity {
                    uid: Uid::new(&uid),
                    namespace,
                    name,
                },
                attempt,
                state,
                created_at: Timestamp::from_nanos(nanos),
                labels,
            }
        },
    )
}

fn image() -> impl Strategy<Value = Image> {
    let names = || prop::collection::vec(some_word(), 0..3);
    (word(), any::<u64>(), any::<bool>(), names(), names()).prop_map(
        |(runtime_handler, size_bytes, pinned, tags, digests)| Image {
            id: Arc::default(),
            runtime_handler,
            size_bytes,
            pinned,
            tags,
            digests,
        },
    )
}

/// The facts of a node, each with an id of its own. Sandboxes may name their pods ambiguously.
fn facts() -> impl Strategy<Value = (Vec<Container>, Vec<Sandbox>, Vec<Image>)> {
    let id = |kind: &str, index: usize| Arc::from(format!("{kind}-{index}"));
    let containers = prop::collection::vec(container(), 0..5);
    let sandboxes = prop::collection::vec(sandbox(), 0..5);
    let images = prop::collection::vec(image(), 0..5);
    (containers, sandboxes, images).prop_map(move |(mut containers, mut sandboxes, mut images)| {
        for (index, container) in containers.iter_mut().enumerate() {
            container.id = id("container", index);
        }
        for (index, sandbox) in sandboxes.iter_mut().enumerate() {
            sandbox.id = id("sandbox", index);
        }
        for (index, image) in images.iter_mut().enumerate() {
            image.id = id("image", index);
        }
        (containers, sandboxes, images)
    })
}

/// A flaw of a message.
#[derive(Clone, Copy, Debug)]
enum Flaw {
    None,
    NoId,
    NoMetadata,
    NoSandbox,
    NoImage,
    NoSpec,
    Twice,
    TwiceDifferently,
    State(i32),
    Placeholder,
}

fn flaw() -> impl Strategy<Value = (Flaw, usize)> {
    let flaw = prop_oneof![
        6 => Just(Flaw::None),
        1 => Just(Flaw::NoId),
        3 => Just(Flaw::NoMetadata),
        1 => Just(Flaw::NoSandbox),
        1 => Just(Flaw::NoImage),
        1 => Just(Flaw::NoSpec),
        1 => Just(Flaw::Twice),
        1 => Just(Flaw::TwiceDifferently),
        2 => any::<i32>().prop_map(Flaw::State),
        1 => Just(Flaw::Placeholder),
    ];
    (flaw, 0_usize..5)
}

/// The messages of some facts, with a flaw in one of each kind.
fn flawed(facts: &(Vec<Container>, Vec<Sandbox>, Vec<Image>), (flaw, index): (Flaw, usize)) -> Tables {
    let mut tables = Tables {
        containers: facts.0.iter().map(convert::container).collect(),
        sandboxes: facts.1.iter().map(convert::sandbox).collect(),
        images: facts.2.iter().map(convert::image).collect(),
        ..Tables::default()
    };
    if let Some(container) = tables.containers.get_mut(index) {
        match flaw {
            Flaw::NoId => container.id.clear(),
            Flaw::NoMetadata => container.metadata = None,
            Flaw::NoSandbox => container.pod_sandbox_id.clear(),
            Flaw::NoImage => {
                container.image_ref.clear();
                container.image_id.clear();
            }
            Flaw::NoSpec => container.image = None,
            Flaw::State(state) => container.state = state,
            _ => {}
        }
    }
    if let Some(sandbox) = tables.sandboxes.get_mut(index) {
        match flaw {
            Flaw::NoId => sandbox.id.clear(),
            Flaw::NoMetadata => sandbox.metadata = None,
            Flaw::State(state) => sandbox.state = state,
            _ => {}
        }
    }
    if let Some(image) = tables.images.get_mut(index) {
        match flaw {
            Flaw::NoId => image.id.clear(),
            Flaw::NoSpec => image.spec = None,
            Flaw::Placeholder => {
                let tags = ["<none>:<none>", "web:<none>"];
                image.repo_tags.extend(tags.map(str::to_owned));
                image.repo_digests.insert(0, "<none>@<none>".to_owned());
            }
            _ => {}
        }
    }
    if let Flaw::Twice | Flaw::TwiceDifferently = flaw {
        let differs = matches!(flaw, Flaw::TwiceDifferently);
        let change = i64::from(differs);
        repeat(&mut tables.containers, index, |again| again.created_at ^= change);
        repeat(&mut tables.sandboxes, index, |again| again.created_at ^= change);
        repeat(&mut tables.images, index, |again| again.pinned ^= differs);
    }
    tables
}

/// Adds an entry a second time, with a change.
fn repeat<T: Clone>(entries: &mut Vec<T>, index: usize, change: impl FnOnce(&mut T)) {
    if let Some(mut again) = entries.get(index).cloned() {
        change(&mut again);
        entries.push(again);
    }
}

/// Checks a property of messages read over one connection.
fn over_the_wire<S: Strategy>(
    strategy: &S,
    check: impl AsyncFn(&Server<Reported>, &kubegc_cri::CriRuntime, S::Value) -> Result<(), TestCaseError>,
) {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let (server, runtime) = tokio.block_on(async {
        let server = Server::start(Reported::default());
        let runtime = server.connect().await;
        (server, runtime)
    });
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(128)
    };
    let result =
        TestRunner::new(config).run(strategy, |value| tokio.block_on(check(&server, &runtime, value)));
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

fn plain<T: Clone>(facts: &[Arc<T>]) -> Vec<T> {
    facts.iter().map(|fact| T::clone(fact)).collect()
}

#[test]
fn written_facts_are_read_unchanged() {
    over_the_wire(&facts(), async |server, runtime, facts| {
        let mut facts = facts;
        facts
            .1
            .retain(|sandbox| !names_its_pod_ambiguously(&convert::sandbox(sandbox)));
        *server.backend.tables() = flawed(&facts, (Flaw::None, 0));
        let shared = |error| TestCaseError::fail(format!("{error}"));
        let containers = runtime.containers().await.map_err(shared)?;
        prop_assert_eq!(plain(&containers), facts.0);
        let sandboxes = runtime.sandboxes().await.map_err(shared)?;
        prop_assert_eq!(plain(&sandboxes), facts.1);
        let images = runtime.images().await.map_err(shared)?;
        prop_assert_eq!(plain(&images), facts.2);
        Ok(())
    });
}

/// Whether the metadata of a sandbox have no pod uid, or another one than its label.
fn names_its_pod_ambiguously(sandbox: &wire::PodSandbox) -> bool {
    let Some(metadata) = &sandbox.metadata else {
        return false;
    };
    let labelled = sandbox.labels.get(label::POD_UID).filter(|uid| !uid.is_empty());
    metadata.uid.is_empty() || labelled.is_some_and(|uid| *uid != metadata.uid)
}

/// Whether two readers agree: equal facts, or none from either.
fn agree<T: std::fmt::Debug + PartialEq, E: std::fmt::Debug, F: std::fmt::Debug>(
    live: Result<T, E>,
    dumped: Result<T, F>,
) -> Result<(), TestCaseError> {
    match (live, dumped) {
        (Ok(live), Ok(dumped)) => prop_assert_eq!(live, dumped),
        (Err(_), Err(_)) => {}
        (live, dumped) => prop_assert!(false, "live {:?}, dumped {:?}", live, dumped),
    }
    Ok(())
}

#[test]
fn the_output_of_crictl_is_read_like_the_response_itself() {
    let unset = prop_oneof![Just(Unset::LeftOut), Just(Unset::Null)];
    over_the_wire(
        &(facts(), flaw(), unset),
        async |server, runtime, (facts, flaw, unset)| {
            let tables = flawed(&facts, flaw);
            let mut reader = NodeReader::new().containers_are_whole();
            for (document, text) in [
                (NodeDocument::Containers, unset.ps(&tables.containers)),
                (NodeDocument::Sandboxes, unset.pods(&tables.sandboxes)),
                (NodeDocument::Images, unset.images(&tables.images)),
            ] {
                let read = reader.read_as(document, "node.json", text.to_string().as_bytes());
                read.map_err(|error| TestCaseError::fail(format!("{error}")))?;
            }
            let dumped = reader
                .finish()
                .map_err(|error| TestCaseError::fail(format!("{error}")))?;
            // A dump cannot be listed again, so its reader takes the metadata. The client refuses a listing
            // in which metadata and label differ.
            let is_ambiguous = tables.sandboxes.iter().any(names_its_pod_ambiguously);
            *server.backend.tables() = tables;
            agree(runtime.containers().await, dumped.inventory.containers)?;
            match runtime.sandboxes().await {
                Err(_) if is_ambiguous => {}
                live => {
                    prop_assert!(!is_ambiguous, "{:?}", live);
                    agree(live, dumped.inventory.sandboxes)?;
                }
            }
            agree(runtime.images().await, dumped.inventory.images)
        },
    );
}
