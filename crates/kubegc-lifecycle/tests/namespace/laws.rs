//! What holds for every namespace: a plan foresees the visit, order means nothing, and no content is ever abandoned.

use std::time::Duration;

use kubegc_core::{Planner, ResourceVersion, StoreError, Timestamp};
use kubegc_lifecycle::namespace::{
    Action, Answer, DiscoveryFailure, Ending, Facts, Item, Namespace, Pod, Reason, Settings, Step,
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::support::Server;

const RESOURCES: &[(&str, &str)] = &[
    ("", "configmaps"),
    ("", "pods"),
    ("", "secrets"),
    ("apps", "deployments"),
    ("example.com", "pods"),
];

fn pods() -> impl Strategy<Value = Pod> {
    let grace = option::of(select(vec![-1_i64, 0, 1, 10, 30, 600]));
    (any::<bool>(), grace, any::<bool>()).prop_map(|(is_finished, grace_period_seconds, is_scheduled)| Pod {
        is_finished,
        grace_period_seconds,
        is_scheduled,
        deletion_timestamp: None,
    })
}

/// Where an object is, what it is called, what holds it, and what it is if it is a pod.
type ItemSeed = (usize, u8, Vec<&'static str>, Pod);

fn items() -> impl Strategy<Value = Vec<ItemSeed>> {
    let finalizers = vec(select(vec!["a.io/f", "b.io/f"]), 0..2);
    vec((0..RESOURCES.len(), 0..6_u8, finalizers, pods()), 0..12)
}

fn servers() -> impl Strategy<Value = Server> {
    let verbs = vec((0..10_u8, 0..10_u8), RESOURCES.len());
    let finalizers = select(vec![
        vec!["kubernetes"],
        vec!["z.io/f", "kubernetes", "a.io/f"],
        vec![],
    ]);
    (items(), verbs, finalizers, any::<bool>(), 0..50_i64, 0..20_u8).prop_map(
        |(items, verbs, finalizers, is_terminating, seconds, failure)| {
            let mut server = Server::new(RESOURCES).at(seconds);
            if let Some(namespace) = &mut server.namespace {
                namespace.is_terminating = is_terminating;
                namespace.finalizers = finalizers.into_iter().map(Into::into).collect();
            }
            for (resource, (collection, list)) in server.discovery.resources.iter_mut().zip(verbs) {
                resource.verbs.delete_collection = collection > 2;
                resource.verbs.list = list > 0;
            }
            if failure == 0 {
                server.discovery.failure = Some(DiscoveryFailure::Other("no route".to_owned()));
            }
            for (at, name, finalizers, pod) in items {
                let (group, resource) = RESOURCES[at];
                // One object a name.
                let name = format!("{resource}-{name}");
                let known = server.contents.values().flatten().any(|item| *item.name == *name);
                if known {
                    continue;
                }
                let mut item = Item::new(&name, &name);
                item.finalizers = finalizers.into_iter().map(Into::into).collect();
                if (group, resource) == ("", "pods") {
                    item = item.as_pod(pod);
                }
                server = server.with(group, resource, item);
            }
            server
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    select(vec!["1.15", "1.16", "1.20", "1.33", "1.36"])
        .prop_map(|release| Settings::new(release.parse().expect("a release in range")))
}

/// The server without versions, as a plan sees the world: no write is ever answered with a conflict.
fn without_versions(mut server: Server) -> Server {
    server.has_versions = false;
    if let Some(namespace) = &mut server.namespace {
        namespace.resource_version = ResourceVersion::default();
    }
    for items in server.contents.values_mut() {
        items.sort_unstable();
    }
    server
}

fn facts(server: &Server) -> Facts {
    server.facts().expect("generated servers have their namespace")
}

fn shuffled(mut facts: Facts, by: usize) -> Facts {
    let rotate = |len: usize| if len == 0 { 0 } else { by % len };
    let resources = &mut facts.discovery.resources;
    resources.rotate_left(by % RESOURCES.len());
    resources.reverse();
    facts.contents.rotate_right(by % RESOURCES.len());
    for content in &mut facts.contents {
        let at = rotate(content.items.len());
        content.items.rotate_left(at);
        content.items.reverse();
    }
    facts
}

/// Answers of every kind, fitting or not.
fn answers() -> impl Strategy<Value = Answer> {
    let mut namespace = Namespace::new("ns", "uid-ns");
    namespace.deletion_timestamp = Some(Timestamp::from_secs(1_000));
    let items = vec![Item::new("a", "a"), Item::new("b", "b").held_by("a.io/f")];
    let failures = vec![
        StoreError::NotFound,
        StoreError::Unlisted,
        StoreError::NotSupported { operation: "it" },
        StoreError::Unknown {
            message: "timeout".to_owned(),
        },
        StoreError::Conflict {
            message: "modified".to_owned(),
        },
    ];
    prop_oneof![
        Just(Answer::Namespace(namespace)),
        Just(Answer::Items(items)),
        Just(Answer::Items(Vec::new())),
        Just(Answer::Done),
        select(failures).prop_map(Answer::Failed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_plan_is_the_visit_in_which_all_succeeds(server in servers(), settings in settings()) {
        let mut server = without_versions(server);
        let plan = settings.plan(&facts(&server), server.now);
        let (actions, outcome) = server.visit(&settings);
        prop_assert_eq!(&plan.actions, &actions);
        prop_assert_eq!(&plan.summary, &outcome);
        let next = outcome.requeue_after.map(|wait| server.now.saturating_add(wait));
        prop_assert_eq!(plan.next_at, next);
    }

    #[test]
    fn what_a_plan_keeps_is_what_is_there_after_the_visit(server in servers(), settings in settings()) {
        let mut server = without_versions(server);
        let plan = settings.plan(&facts(&server), server.now);
        server.visit(&settings);
        let mut left: Vec<String> = server.contents.values().flatten().map(|item| item.name.to_string()).collect();
        let mut kept: Vec<String> = plan.kept.iter()
            .filter(|kept| &*kept.object.resource.resource != "namespaces")
            .map(|kept| kept.object.name.to_string())
            .collect();
        left.sort_unstable();
        kept.sort_unstable();
        prop_assert_eq!(kept, left);
        let namespace_kept = plan.kept.iter().any(|kept| &*kept.object.resource.resource == "namespaces");
        let finalized = plan.summary.ending == Ending::AlreadyFinalized;
        prop_assert_eq!(namespace_kept || finalized, server.namespace.is_some());
    }

    #[test]
    fn the_order_of_facts_means_nothing(server in servers(), settings in settings(), by in 0..100_usize) {
        let facts = facts(&server);
        let plan = settings.plan(&facts, server.now);
        prop_assert_eq!(&settings.plan(&facts, server.now), &plan);
        prop_assert_eq!(&settings.plan(&shuffled(facts, by), server.now), &plan);
    }

    #[test]
    fn a_namespace_is_never_finalized_over_listable_content(server in servers(), settings in settings()) {
        let mut server = server;
        let (actions, outcome) = server.visit(&settings);
        if outcome.ending == Ending::Finalized {
            prop_assert!(outcome.errors.is_empty());
            for resource in &server.discovery.resources {
                let items = server.contents.get(&resource.id);
                let left = items.is_some_and(|items| !items.is_empty());
                prop_assert!(!left || !resource.verbs.list, "{} in {:?}", resource.id, server.log);
            }
        } else {
            let finalizes = actions.iter().any(|action| matches!(action, Action::Finalize { .. }));
            prop_assert!(!finalizes);
        }
    }

    #[test]
    fn while_pods_go_first_nothing_else_is_touched(server in servers()) {
        let mut server = server;
        let (actions, outcome) = server.visit(&Settings::default());
        if outcome.waits_for_pods {
            for action in &actions {
                if let Action::DeleteCollection { resource, .. } | Action::Delete { resource, .. } = action {
                    prop_assert_eq!((&*resource.group, &*resource.resource), ("", "pods"));
                }
            }
        }
    }

    #[test]
    fn a_visit_repeats_itself_and_its_clones_go_on_alike(server in servers(), settings in settings()) {
        let mut server = server;
        let mut pass = server.pass(&settings);
        let mut step = pass.next(None);
        for _ in 0..1_000 {
            prop_assert_eq!(&pass.next(None), &step);
            if matches!(step, Step::Done(_)) {
                break;
            }
            let answer = server.answer(&step);
            let mut clone = pass.clone();
            step = pass.next(Some(answer.clone()));
            prop_assert_eq!(&clone.next(Some(answer)), &step);
        }
        prop_assert!(matches!(step, Step::Done(_)));
    }

    #[test]
    fn visits_get_there_once_nothing_is_held(server in servers(), settings in settings()) {
        let mut server = server;
        let has_finalizer = server.namespace.as_ref().is_some_and(|namespace| !namespace.finalizers.is_empty());
        server.discovery.failure = None;
        for resource in &mut server.discovery.resources {
            resource.verbs.list = true;
        }
        for round in 0..100 {
            let (_, outcome) = server.visit(&settings);
            if server.namespace.is_none() || matches!(outcome.ending, Ending::Finalized | Ending::AlreadyFinalized) {
                break;
            }
            let wait = outcome.requeue_after.unwrap_or(Duration::ZERO);
            server.advance(i64::try_from(wait.as_secs()).unwrap_or(0) + 1);
            if round > 3 {
                for item in server.contents.values_mut().flatten() {
                    item.finalizers.clear();
                }
            }
        }
        let left: usize = server.contents.values().map(Vec::len).sum();
        let finalized = server.log.iter().any(|call| call.starts_with("finalize"));
        prop_assert_eq!(finalized, has_finalizer);
        prop_assert!(!finalized || left == 0, "{left} left: {:?}", server.log);
    }

    #[test]
    fn any_answers_at_all_lead_to_an_end_without_a_wrong_finalizer(
        settings in settings(),
        answers in vec(answers(), 200),
    ) {
        let server = Server::new(RESOURCES);
        let mut pass = server.pass(&settings);
        let mut step = pass.next(None);
        let mut conflicts = 0;
        let mut steps = 0;
        for answer in answers {
            if matches!(step, Step::Done(_)) {
                break;
            }
            conflicts += usize::from(matches!(answer, Answer::Failed(StoreError::Conflict { .. })));
            steps += 1;
            step = pass.next(Some(answer));
        }
        // Two items a list, one list a resource; the bound is the one that `Pass` states.
        let bound = 4 + 2 * RESOURCES.len() + 4 * RESOURCES.len() + 2 * conflicts;
        prop_assert!(steps <= bound, "{steps} steps, {conflicts} conflicts");
        if let Step::Done(outcome) = &step {
            let finalized = matches!(outcome.ending, Ending::Finalized);
            prop_assert!(!finalized || outcome.errors.is_empty());
            prop_assert_eq!(outcome.ending == Ending::Failed, !outcome.errors.is_empty());
        }
    }
}

#[test]
fn kept_objects_say_why() {
    let held = Item::new("held", "held").held_by("a.io/f");
    let graceful = Item::new("graceful", "graceful").as_pod(Pod::running(30));
    let until = Timestamp::from_secs(1_030);
    let finalizers = vec!["a.io/f".into()];
    let by_release = [
        ("1.36", Reason::PodsGoFirst),
        ("1.20", Reason::HeldByFinalizers { finalizers }),
    ];
    for (release, reason) in by_release {
        let server =
            Server::new(RESOURCES)
                .with("", "configmaps", held.clone())
                .with("", "pods", graceful.clone());
        let settings = Settings::new(release.parse().expect("a release in range"));
        let plan = settings.plan(&facts(&server), server.now);
        let reasons: Vec<(&str, &Reason)> = plan
            .kept
            .iter()
            .map(|kept| (&*kept.object.name, &kept.reason))
            .collect();
        let grace = Reason::InGrace { until };
        let remains = Reason::ContentRemains { estimate_seconds: 30 };
        assert_eq!(
            reasons,
            [("held", &reason), ("graceful", &grace), ("ns", &remains)],
            "{release}"
        );
    }
}

#[test]
fn what_was_not_listed_keeps_the_namespace() {
    let server = Server::new(RESOURCES);
    let mut facts = facts(&server);
    facts
        .contents
        .retain(|content| &*content.resource.resource != "secrets");
    let plan = Settings::default().plan(&facts, server.now);
    assert_eq!(plan.summary.ending, Ending::Failed);
    let message = "not listed: nothing is known of this object".to_owned();
    assert_eq!(
        plan.kept.last().map(|kept| &kept.reason),
        Some(&Reason::VisitFailed { message })
    );
}

#[test]
fn failures_before_lengthen_the_wait() {
    let mut server = Server::new(RESOURCES);
    server.discovery.failure = Some(DiscoveryFailure::Other("no route".to_owned()));
    let mut facts = facts(&server);
    facts.failures = 3;
    let plan = Settings::default().plan(&facts, server.now);
    assert_eq!(plan.summary.requeue_after, Some(Duration::from_millis(40)));
    let message = "no route".to_owned();
    assert_eq!(plan.findings[0].reason, Reason::DiscoveryIncomplete { message });
}
