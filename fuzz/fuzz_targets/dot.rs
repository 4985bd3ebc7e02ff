//! Shows a graph any events and draws it in both formats: no panic, and every quote that is opened is closed.
#![no_main]

use kubegc_core::{KubernetesVersion, ObjectRef, Uid, version::behavior};
use kubegc_fuzz::Choices;
use kubegc_objects::{Graph, graph::{DeletionState, DotFilter, Effect, Event, NodeId, Observed}};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let version = choices.version();
    let is_plain = choices.flag();
    let mut graph = Graph::new(version);
    let mut effects = Vec::new();
    let mut held: Vec<NodeId> = Vec::new();
    while !choices.is_over() {
        apply(&mut graph, &mut choices, is_plain, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::AttemptToDelete(node)
                | Effect::AttemptToDeleteRateLimited(node)
                | Effect::AttemptToOrphan(node) => held.push(node),
                Effect::OwnerAbsent(_) | Effect::VirtualDelete(_) => {}
                Effect::Warn(warning) => assert!(warning.to_string().ends_with('"')),
            }
        }
        // Some are held for a while, as queues do.
        while held.len() > 4 {
            graph.release(held.swap_remove(choices.below(held.len())));
        }
    }
    for node in graph.nodes() {
        assert_eq!(
            graph.node(&graph.uid(node)),
            Some(node),
            "the index leads to its nodes"
        );
        for owner in graph.owner_nodes(node) {
            assert!(graph.is_current(owner));
        }
    }
    assert_eq!(graph.nodes().count(), graph.len());
    let some = graph.nodes().take(2).map(|node| graph.uid(node)).collect();
    for filter in [
        DotFilter::All,
        DotFilter::Connected(some),
        DotFilter::Connected(vec![Uid::new("unknown")]),
    ] {
        draw(&graph, version, &filter, is_plain);
    }
    for node in held {
        graph.release(node);
    }
    draw(&graph, version, &DotFilter::All, is_plain);
});

fn apply(graph: &mut Graph, choices: &mut Choices<'_>, is_plain: bool, effects: &mut Vec<Effect>) {
    let (api_version, kind, namespaced) = choices.kind();
    let mut meta = choices.meta(namespaced);
    if !is_plain {
        // The API server demands no more of a reference than that nothing is empty.
        for reference in meta.owner_references.iter_mut() {
            reference.name = choices.text().into();
        }
        meta.name = choices.text().into();
    }
    let monitor = graph.kind(api_version, kind);
    let object = Observed::of(monitor, &meta);
    let event = match choices.below(8) {
        0 => Event::Deleted { object },
        1 => {
            let uid = meta.uid.to_string();
            let identity = ObjectRef::new(api_version, kind, &meta.namespace, &meta.name, &uid);
            return graph.apply(&Event::VirtualDeleted { identity: &identity }, effects);
        }
        2 => Event::Applied {
            object,
            old: Some(DeletionState::default()),
        },
        _ => Event::Applied { object, old: None },
    };
    graph.apply(&event, effects);
}

fn draw(graph: &Graph, version: KubernetesVersion, filter: &DotFilter, is_plain: bool) {
    let text = match graph.dot(filter) {
        Ok(text) => text,
        Err(error) => {
            let uid = &error.object.uid;
            let node = graph.node(uid).expect("it is in the graph");
            assert!(graph.owners(node).any(|owner| owner.uid == *uid), "{error}");
            assert!(!version.has(behavior::DUMP_IS_SORTED));
            return;
        }
    };
    assert!(text.starts_with("strict digraph full {\n"));
    assert!(text.ends_with('}') || text.ends_with("}\n"));
    // Older releases leave backslashes in values as they are.
    if version.has(behavior::DUMP_IS_SORTED) || is_plain {
        let (mut is_open, mut is_escaped) = (false, false);
        for char in text.chars() {
            match char {
                _ if is_escaped => is_escaped = false,
                '\\' if is_open => is_escaped = true,
                '"' => is_open = !is_open,
                '\n' => assert!(!is_open, "a line break within quotes: {text}"),
                _ => {}
            }
        }
        assert!(!is_open && !is_escaped, "a quote stays open: {text}");
    }
}
