//! Laws that hold for every namespace.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_controllers::{End, Response, Step, Wire};
use kubegc_core::{
    StoreError,
    record::{Body, Field, Record},
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::server::{Server, broken, conflict, object, pod, refused, running};

const RESOURCES: &[&str] = &[
    "configmaps",
    "pods",
    "secrets",
    "deployments.apps",
    "pods.example.com",
];

const FAULTS: &[&str] = &[
    "discover",
    "list-whole pods",
    "delete-all pods",
    "delete-all configmaps",
    "list configmaps",
    "list secrets",
];

/// Namespaces with content, under controllers of several releases.
fn servers() -> impl Strategy<Value = Server> {
    let finalizers = vec(select(vec!["a.io/f", "b.io/f"]), 0..2);
    let phase = select(vec!["Running", "Succeeded", ""]);
    let grace = option::of(select(vec![-1_i64, 0, 1, 10, 30, 600]));
    let item = (0..RESOURCES.len(), finalizers, phase, grace, any::<bool>());
    let verbs = vec((0..10_u8, 0..10_u8), RESOURCES.len());
    let spec = select(vec![vec!["kubernetes"], vec!["z.io/f", "kubernetes", "a.io/f"]]);
    let errors = select(vec![broken("timeout"), conflict(), StoreError::Unlisted]);
    let fault = option::weighted(0.3, (select(FAULTS), errors));
    let release = select(vec!["1.15", "1.16", "1.20", "1.33", "1.36"]);
    let namespace = (release, spec, any::<bool>(), 0..50_i64);
    (namespace, vec(item, 0..12), verbs, fault).prop_map(|(namespace, items, verbs, fault)| {
        let (release, spec, is_terminating, seconds) = namespace;
        let server = Server::new(RESOURCES).release(release).after(seconds);
        let mut server = server.namespace(|_, namespace| {
            let phase = if is_terminating { "Terminating" } else { "Active" };
            namespace.phase = Arc::<str>::from(phase).into();
            namespace.finalizers = spec.into_iter().map(Arc::from).collect::<Vec<_>>().into();
        });
        for (resource, (collection, list)) in server.resources.iter_mut().zip(verbs) {
            if *resource.resource != *"pods" {
                resource.verbs.delete_collection = collection > 2;
                resource.verbs.list = list > 0;
            }
        }
        if let Some((request, error)) = fault {
            server = server.failing(request, error);
        }
        for (number, (at, finalizers, phase, grace, is_scheduled)) in items.into_iter().enumerate() {
            let name = format!("o-{number}");
            let mut item = object(&name, &finalizers);
            if RESOURCES[at] == "pods" {
                item = pod(&name, phase, grace, &finalizers);
                if let Body::Pod(pod) = item.body_mut()
                    && !is_scheduled
                {
                    pod.node_name = Field::default();
                }
            }
            server = server.with(RESOURCES[at], item);
        }
        server
    })
}

fn deleted(server: &Server) -> BTreeSet<String> {
    server
        .log()
        .into_iter()
        .filter(|line| line.starts_with("delete"))
        .collect()
}

fn finalizes(server: &Server) -> bool {
    server.log().iter().any(|line| line.starts_with("finalize"))
}

/// The same resources in another order.
fn rotated(mut server: Server, by: usize) -> Server {
    server.resources.rotate_left(by % RESOURCES.len());
    server.resources.reverse();
    server
}

/// Responses of every kind, fitting or not.
fn responses() -> impl Strategy<Value = Response> {
    let server = Server::new(RESOURCES);
    let namespace = server.namespace.clone().expect("it exists");
    let errors = vec![
        StoreError::NotFound,
        StoreError::Unlisted,
        refused(405),
        broken("timeout"),
        conflict(),
    ];
    let items = vec![object("a", &[]).meta, object("b", &["a.io/f"]).meta];
    prop_oneof![
        Just(Response::Object(Box::new(namespace))),
        Just(server.discovered()),
        Just(Response::Objects(vec![running(30)])),
        Just(Response::Metadata(items)),
        Just(Response::Metadata(Vec::new())),
        Just(Response::Done),
        Just(Response::Written(None)),
        select(errors).prop_map(Response::Failed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_order_of_discovery_has_no_effect(server in servers(), by in 0..100_usize) {
        let (mut first, mut second) = (server.clone(), rotated(server, by));
        let mut third = second.clone();
        let end = first.sync(Wire::Strict);
        prop_assert_eq!(&second.sync(Wire::Strict), &end);
        prop_assert_eq!(second.log(), first.log());
        third.controller.follows_discovery_order = true;
        let other_order = third.sync(Wire::Strict);
        prop_assert_eq!(deleted(&third), deleted(&first));
        prop_assert_eq!(std::mem::discriminant(&other_order), std::mem::discriminant(&end));
    }

    #[test]
    fn a_namespace_is_never_finalized_over_content_that_can_be_listed(server in servers()) {
        let mut server = server;
        let faults = server.faults.len();
        let end = server.sync(Wire::Strict);
        let is_finalized = matches!(end, End::Done | End::Kept(_));
        prop_assert_eq!(finalizes(&server), is_finalized);
        if is_finalized {
            prop_assert!(server.faults.len() == faults, "{:?}", server.log());
            for resource in &server.resources {
                let items = server.content.get(&resource.qualified_resource());
                let is_empty = items.is_none_or(Vec::is_empty);
                prop_assert!(is_empty || !resource.verbs.list, "{resource} in {:?}", server.log());
            }
        }
    }

    #[test]
    fn l10_7_while_pods_remain_nothing_else_is_deleted(server in servers()) {
        let mut server = server.release("1.36");
        server.faults.clear();
        server.sync(Wire::Strict);
        let pods_remain = server.content.get("pods").is_some_and(|pods| !pods.is_empty());
        if pods_remain {
            prop_assert_eq!(deleted(&server), BTreeSet::from(["delete-all pods".to_owned()]));
        }
    }

    #[test]
    fn the_namespace_is_finalized_once_nothing_has_finalizers(server in servers()) {
        let mut server = server;
        server.resources.iter_mut().for_each(|resource| resource.verbs.list = true);
        let mut end = End::Done;
        for round in 0..100 {
            end = server.sync(Wire::Strict);
            let wait = match end {
                End::Done | End::Kept(_) => break,
                End::RequeueAfter { after, .. } => after,
                _ => Duration::ZERO,
            };
            server.advance(wait + Duration::from_secs(1));
            if round > 3 {
                server.content.values_mut().flatten().for_each(|item| item.meta.finalizers.clear());
            }
        }
        prop_assert!(finalizes(&server), "{end:?}: {:?}", server.log());
        prop_assert_eq!(server.content.values().map(Vec::len).sum::<usize>(), 0);
    }

    #[test]
    fn an_unread_field_of_a_pod_adds_no_request(server in servers(), at in 0..12_usize) {
        let (mut whole, mut partly) = (server.clone(), server);
        whole.sync(Wire::Strict);
        let mut pods = partly.content.get_mut("pods").into_iter().flatten();
        if let Some(Body::Pod(pod)) = pods.nth(at).map(Record::body_mut) {
            pod.termination_grace_period_seconds = Field::Unread;
        }
        partly.sync(Wire::Strict);
        let (whole_log, partly_log): (BTreeSet<_>, BTreeSet<_>) =
            (whole.log().into_iter().collect(), partly.log().into_iter().collect());
        prop_assert!(partly_log.is_subset(&whole_log), "{partly_log:?} instead of {whole_log:?}");
    }

    #[test]
    fn any_responses_lead_to_an_end(is_ordered in any::<bool>(), responses in vec(responses(), 200)) {
        let mut server = Server::new(RESOURCES);
        server.controller.deletes_pods_first = is_ordered;
        let mut sequence = server.steps(Wire::Strict).begin();
        let mut response = None;
        let mut conflicts = 0;
        for next in responses {
            let request = match sequence.next(response.take()) {
                Step::Perform { request, .. } => request,
                Step::End(_) => break,
            };
            conflicts += usize::from(matches!(next, Response::Failed(StoreError::Conflict { .. })));
            server.requests.push(request);
            response = Some(next);
        }
        // Two items a list; a conflict costs a read and a write.
        let bound = 6 + RESOURCES.len() * 6 + 2 * conflicts;
        prop_assert!(server.requests.len() <= bound, "{:?}", server.log());
    }
}
