//! The rules L10.1 to L10.11, one visit at a time against a tiny API server: which calls, which end, when again.

use kubegc_core::{Catalog, StoreError, Timestamp, Uid};
use kubegc_lifecycle::namespace::{
    Action, Answer, Discovery, DiscoveryFailure, Ending, Finding, Item, Namespace, Outcome, Pod, Settings,
    Step,
};

use crate::support::Server;

struct Row {
    name: &'static str,
    release: &'static str,
    server: Server,
    /// The calls, in order.
    calls: &'static [&'static str],
    ending: Ending,
    requeue_millis: Option<u64>,
    error: Option<&'static str>,
}

const CORE: &[(&str, &str)] = &[("", "configmaps"), ("", "pods")];

fn server() -> Server {
    Server::new(CORE).changed(|server| {
        if let Some(namespace) = &mut server.namespace {
            namespace.is_terminating = true;
        }
    })
}

fn pod(name: &str, grace: i64) -> Item {
    Item::new(name, name).as_pod(Pod::running(grace))
}

fn finished_pod(name: &str, grace: i64) -> Item {
    let pod = Pod {
        is_finished: true,
        ..Pod::running(grace)
    };
    Item::new(name, name).as_pod(pod)
}

fn config() -> Item {
    Item::new("settings", "settings")
}

fn not_allowed() -> StoreError {
    StoreError::Refused {
        code: 405,
        message: "the server does not allow this method on the requested resource".to_owned(),
        retry_after: None,
    }
}

fn broken(message: &str) -> StoreError {
    StoreError::Unknown {
        message: message.to_owned(),
    }
}

fn conflict() -> StoreError {
    StoreError::Conflict {
        message: "the object has been modified".to_owned(),
    }
}

const PODS: [&str; 3] = [
    "list pods Estimate",
    "deletecollection pods",
    "list pods Remainder",
];
const CONFIGS: [&str; 2] = ["deletecollection configmaps", "list configmaps Remainder"];

fn remaining(estimate_seconds: i64) -> Ending {
    Ending::Remaining { estimate_seconds }
}

fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "1: a namespace that is not deleted is left alone",
            release: "1.36",
            server: server().changed(|server| server.namespace = Some(Namespace::new("ns", "uid-ns"))),
            calls: &["get namespace"],
            ending: Ending::NotDeleted,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "2: a pod with a finalizer keeps everything else in place",
            release: "1.36",
            server: server()
                .at(60)
                .with("", "pods", pod("web", 30).held_by("example.com/hold"))
                .with("", "configmaps", config()),
            calls: &["get namespace", PODS[0], PODS[1], PODS[2], "conditions namespace"],
            ending: remaining(15),
            requeue_millis: Some(8_000),
            error: Some("some content remains in the namespace, estimate 15 seconds before it is removed"),
        },
        Row {
            name: "3: without pods the rest goes and the token is removed",
            release: "1.36",
            server: server().at(60).with("", "configmaps", config()),
            calls: &[
                "get namespace",
                PODS[0],
                PODS[1],
                PODS[2],
                CONFIGS[0],
                CONFIGS[1],
                "conditions namespace",
                // What was read is older than the conditions: conflict, read, again.
                "finalize namespace []",
                "get namespace",
                "finalize namespace []",
            ],
            ending: Ending::Finalized,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "4: without the gate all go in one visit",
            release: "1.32",
            server: server()
                .at(60)
                .with("", "pods", pod("web", 30).held_by("example.com/hold"))
                .with("", "configmaps", config()),
            calls: &[
                "get namespace",
                CONFIGS[0],
                CONFIGS[1],
                PODS[0],
                PODS[1],
                PODS[2],
                "conditions namespace",
            ],
            ending: remaining(15),
            requeue_millis: Some(8_000),
            error: Some("some content remains in the namespace, estimate 15 seconds before it is removed"),
        },
        Row {
            name: "5a: grace 30, 10 s after the deletion",
            release: "1.36",
            server: server().at(10).with("", "pods", pod("web", 30)),
            calls: &["get namespace", PODS[0], PODS[1], PODS[2], "conditions namespace"],
            ending: remaining(30),
            requeue_millis: Some(16_000),
            error: Some("some content remains in the namespace, estimate 30 seconds before it is removed"),
        },
        Row {
            name: "5b: grace 30, still there at 30 s without a finalizer",
            release: "1.36",
            server: server().at(30).with("", "pods", pod("web", 30)),
            calls: &["get namespace", PODS[0], PODS[1], PODS[2], "conditions namespace"],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some(
                "failed to delete pods for namespace: ns, err: unexpected items still remain in namespace: ns for gvr: \
                 /v1, Resource=pods",
            ),
        },
        Row {
            name: "5c: the same without the gate",
            release: "1.20",
            server: server().at(30).with("", "pods", pod("web", 30)),
            calls: &[
                "get namespace",
                CONFIGS[0],
                CONFIGS[1],
                PODS[0],
                PODS[1],
                PODS[2],
                "conditions namespace",
            ],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some("unexpected items still remain in namespace: ns for gvr: /v1, Resource=pods"),
        },
        Row {
            name: "6: what was discovered goes, the token stays",
            release: "1.36",
            server: server().with("", "configmaps", config()).changed(|server| {
                let groups = [("metrics.k8s.io/v1beta1".into(), "unavailable".to_owned())];
                server.discovery.failure = Some(DiscoveryFailure::Groups(groups.into()));
            }),
            calls: &[
                "get namespace",
                PODS[0],
                PODS[1],
                PODS[2],
                CONFIGS[0],
                CONFIGS[1],
                "conditions namespace",
            ],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some(
                "unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: unavailable",
            ),
        },
        Row {
            name: "7a: a collection that answers 405 goes one by one",
            release: "1.36",
            server: server()
                .with("", "configmaps", config())
                .with("", "configmaps", Item::new("more", "more"))
                .failing("deletecollection configmaps", not_allowed(), 1),
            calls: &[
                "get namespace",
                PODS[0],
                PODS[1],
                PODS[2],
                CONFIGS[0],
                "list configmaps DeleteEach",
                "delete configmaps settings",
                "delete configmaps more",
                CONFIGS[1],
                "conditions namespace",
                "finalize namespace []",
                "get namespace",
                "finalize namespace []",
            ],
            ending: Ending::Finalized,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "7b: so does one that discovery says has no such verb, and a 404 for an item is no error",
            release: "1.36",
            server: server()
                .with("", "configmaps", config())
                .changed(|server| server.discovery.resources[0].verbs.delete_collection = false)
                .failing("delete configmaps", StoreError::NotFound, 1),
            calls: &[
                "get namespace",
                PODS[0],
                PODS[1],
                PODS[2],
                "list configmaps DeleteEach",
                "delete configmaps settings",
                CONFIGS[1],
                "conditions namespace",
            ],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some("unexpected items still remain in namespace: ns for gvr: /v1, Resource=configmaps"),
        },
        Row {
            name: "7c: the first other error ends the deletion one by one",
            release: "1.36",
            server: server()
                .with("", "configmaps", config())
                .with("", "configmaps", Item::new("more", "more"))
                .changed(|server| server.discovery.resources[0].verbs.delete_collection = false)
                .failing("delete configmaps", broken("etcd is away"), 1),
            calls: &[
                "get namespace",
                PODS[0],
                PODS[1],
                PODS[2],
                "list configmaps DeleteEach",
                "delete configmaps settings",
                "conditions namespace",
            ],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some("etcd is away"),
        },
        Row {
            name: "7d: what can be neither deleted as a collection nor listed is let be",
            release: "1.36",
            server: server().changed(|server| {
                server.discovery.resources[0].verbs.delete_collection = false;
                server.discovery.resources[0].verbs.list = false;
            }),
            calls: &[
                "get namespace",
                PODS[0],
                PODS[1],
                PODS[2],
                "conditions namespace",
                "finalize namespace []",
                "get namespace",
                "finalize namespace []",
            ],
            ending: Ending::Finalized,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "8: the finalizers of others stay, sorted and once",
            release: "1.36",
            server: server().changed(|server| {
                if let Some(namespace) = &mut server.namespace {
                    namespace.finalizers = ["z.io/f", "kubernetes", "a.io/f", "z.io/f"]
                        .map(Into::into)
                        .into();
                }
                server.discovery = Discovery::default();
            }),
            calls: &[
                "get namespace",
                "conditions namespace",
                "finalize namespace [a.io/f z.io/f]",
                "get namespace",
                "finalize namespace [a.io/f z.io/f]",
            ],
            ending: Ending::Finalized,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "9: the grace of a pod that has ended does not count",
            release: "1.36",
            server: server()
                .with("", "pods", finished_pod("batch", 3_600))
                .with("", "pods", pod("web", 10)),
            calls: &["get namespace", PODS[0], PODS[1], PODS[2], "conditions namespace"],
            ending: remaining(10),
            requeue_millis: Some(6_000),
            error: Some("some content remains in the namespace, estimate 10 seconds before it is removed"),
        },
        Row {
            name: "10: another namespace of the same name is not touched",
            release: "1.36",
            server: Server::new(CORE)
                .failing("terminate namespace", conflict(), 1)
                .changed(|server| server.successor = Some(Uid::new("uid-of-another"))),
            calls: &["get namespace", "terminate namespace", "get namespace"],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some("namespace uid has changed across retries"),
        },
        Row {
            name: "11: conditions that have not changed are not written, and then nothing conflicts",
            release: "1.36",
            server: server().changed(|server| {
                server.discovery = Discovery::default();
                let mut earlier = server.clone().failing("finalize namespace", broken("later"), 1);
                let (_, outcome) = earlier.visit(&Settings::default());
                assert_eq!(outcome.conditions.len(), 5);
                server.namespace = earlier.namespace;
            }),
            calls: &["get namespace", "finalize namespace []"],
            ending: Ending::Finalized,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "12a: pods whose deletion failed do not hold up the rest, and the error is kept",
            release: "1.36",
            server: server()
                .with("", "pods", pod("web", 30))
                .with("", "configmaps", config())
                .failing("deletecollection pods", broken("internal error"), 1),
            calls: &[
                "get namespace",
                PODS[0],
                PODS[1],
                CONFIGS[0],
                CONFIGS[1],
                "conditions namespace",
            ],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some("failed to delete pods for namespace: ns, err: internal error"),
        },
        Row {
            name: "12b: a failed estimate ends with the pods and goes on with the rest",
            release: "1.36",
            server: server().failing("list pods", broken("internal error"), 1),
            calls: &[
                "get namespace",
                PODS[0],
                CONFIGS[0],
                CONFIGS[1],
                "conditions namespace",
            ],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some("failed to delete pods for namespace: ns, err: internal error"),
        },
        Row {
            name: "L10.1: an active namespace is marked first",
            release: "1.36",
            server: Server::new(&[]).failing("terminate namespace", conflict(), 2),
            calls: &[
                "get namespace",
                "terminate namespace",
                "get namespace",
                "terminate namespace",
                "get namespace",
                "terminate namespace",
                "conditions namespace",
                "finalize namespace []",
                "get namespace",
                "finalize namespace []",
            ],
            ending: Ending::Finalized,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "L10.1: a namespace without finalizers is done",
            release: "1.36",
            server: server().changed(|server| {
                if let Some(namespace) = &mut server.namespace {
                    namespace.finalizers.clear();
                }
            }),
            calls: &["get namespace"],
            ending: Ending::AlreadyFinalized,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "L10.1: a namespace that is gone is done",
            release: "1.36",
            server: server().changed(|server| server.namespace = None),
            calls: &["get namespace"],
            ending: Ending::Gone,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "L10.1: a read that fails is tried again",
            release: "1.36",
            server: server().failing("get namespace", broken("timeout"), 1),
            calls: &["get namespace"],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some("timeout"),
        },
        Row {
            name: "L10.1: a token that somebody else removed is fine",
            release: "1.36",
            server: server()
                .changed(|server| server.discovery = Discovery::default())
                .failing("finalize namespace", StoreError::NotFound, 1),
            calls: &["get namespace", "conditions namespace", "finalize namespace []"],
            ending: Ending::Finalized,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "L10.2: a group and version that do not parse leave everything in place",
            release: "1.36",
            server: server().with("", "configmaps", config()).changed(|server| {
                server.discovery.unparsable = Some("unexpected GroupVersion string: a/b/c".to_owned());
            }),
            calls: &["get namespace", "conditions namespace"],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some("unexpected GroupVersion string: a/b/c"),
        },
        Row {
            name: "L10.4: a list that answers 404 is no error",
            release: "1.36",
            server: Server::new(&[("", "configmaps")]).failing("list configmaps", StoreError::NotFound, 1),
            calls: &[
                "get namespace",
                "terminate namespace",
                CONFIGS[0],
                CONFIGS[1],
                "conditions namespace",
                "finalize namespace []",
                "get namespace",
                "finalize namespace []",
            ],
            ending: Ending::Finalized,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "L10.7: pods go first only where discovery lists them",
            release: "1.36",
            server: server()
                .changed(|server| server.discovery.resources.truncate(1))
                .with("", "configmaps", config().held_by("example.com/hold")),
            calls: &["get namespace", CONFIGS[0], CONFIGS[1], "conditions namespace"],
            ending: remaining(15),
            requeue_millis: Some(8_000),
            error: Some("some content remains in the namespace, estimate 15 seconds before it is removed"),
        },
        Row {
            name: "L10.10: errors of one resource do not stop the others, and the same error stands once",
            release: "1.32",
            server: server()
                .failing("deletecollection configmaps", broken("forbidden"), 1)
                .failing("deletecollection pods", broken("forbidden"), 1)
                .changed(|server| {
                    server.discovery.failure = Some(DiscoveryFailure::Other("no route".to_owned()))
                }),
            calls: &[
                "get namespace",
                CONFIGS[0],
                PODS[0],
                PODS[1],
                "conditions namespace",
            ],
            ending: Ending::Failed,
            requeue_millis: Some(5),
            error: Some("[no route, forbidden]"),
        },
        Row {
            name: "conditions that cannot be written stop nothing",
            release: "1.36",
            server: server()
                .changed(|server| server.discovery = Discovery::default())
                .failing("conditions namespace", broken("timeout"), 1),
            calls: &["get namespace", "conditions namespace", "finalize namespace []"],
            ending: Ending::Finalized,
            requeue_millis: None,
            error: None,
        },
        Row {
            name: "before 1.16 there are no conditions",
            release: "1.15",
            server: server().changed(|server| server.discovery = Discovery::default()),
            calls: &["get namespace", "finalize namespace []"],
            ending: Ending::Finalized,
            requeue_millis: None,
            error: None,
        },
    ]
}

fn visit(mut server: Server, release: &str) -> (Vec<String>, Outcome) {
    let settings = Settings::new(release.parse().expect("a release in range"));
    let (_, outcome) = server.visit(&settings);
    (server.log, outcome)
}

#[test]
fn visits_make_upstreams_calls_and_end_as_upstreams_do() {
    for row in rows() {
        let (calls, outcome) = visit(row.server, row.release);
        assert_eq!(calls, row.calls, "{}", row.name);
        assert_eq!(outcome.ending, row.ending, "{}", row.name);
        assert_eq!(outcome.error_text().as_deref(), row.error, "{}", row.name);
        let millis = outcome.requeue_after.map(|wait| wait.as_millis() as u64);
        assert_eq!(millis, row.requeue_millis, "{}", row.name);
    }
}

#[test]
fn conditions_miss_the_pods_that_go_first_and_count_all_others() {
    let messages = |outcome: &Outcome| -> Vec<String> {
        let last = outcome.conditions.iter().skip(3);
        last.map(|condition| condition.message.to_string()).collect()
    };
    let held = server().with("", "pods", Item::new("web", "web").held_by("example.com/hold"));
    let (_, outcome) = visit(held.clone(), "1.36");
    assert_eq!(
        messages(&outcome),
        [
            "All content successfully removed",
            "All content-preserving finalizers finished"
        ]
    );
    assert!(outcome.waits_for_pods);
    assert_eq!(outcome.findings, [Finding::ConditionsMissPods]);

    let (_, outcome) = visit(held, "1.32");
    assert_eq!(
        messages(&outcome),
        [
            "Some resources are remaining: pods. has 1 resource instances",
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
        ]
    );
    assert!(!outcome.waits_for_pods);
    assert_eq!(outcome.findings, []);
}

#[test]
fn the_condition_about_failures_has_the_bare_error_of_pods() {
    let failing = server().failing("deletecollection pods", broken("internal error"), 1);
    let (_, outcome) = visit(failing, "1.36");
    assert_eq!(
        &*outcome.conditions[2].message,
        "Failed to delete all resource types, 1 remaining: internal error"
    );
}

#[test]
fn a_failed_write_of_conditions_is_told() {
    let failing = server().failing("conditions namespace", broken("timeout"), 1);
    let (_, outcome) = visit(failing, "1.36");
    let message = "timeout".to_owned();
    assert_eq!(outcome.findings, [Finding::ConditionsNotWritten { message }]);
}

#[test]
fn a_namespace_that_came_back_to_life_is_left_alone() {
    let mut server = Server::new(CORE);
    let mut pass = server.pass(&Settings::default());
    let read = pass.next(None);
    let step = pass.next(Some(server.answer(&read)));
    assert!(
        matches!(step, Step::Perform(Action::SetPhaseTerminating { .. })),
        "{step:?}"
    );
    let revived = Namespace::new("ns", "uid-ns");
    let Step::Done(outcome) = pass.next(Some(Answer::Namespace(revived))) else {
        panic!("nothing is left to do")
    };
    assert_eq!(outcome.ending, Ending::NotDeleted);
}

#[test]
fn absurd_times_and_graces_do_not_overflow() {
    let unbound = |grace: i64| Pod {
        is_scheduled: false,
        ..Pod::running(grace)
    };
    let held = |grace: i64| {
        Item::new("web", "web")
            .held_by("example.com/hold")
            .as_pod(unbound(grace))
    };
    for (seconds, grace, ending) in [
        (0, i64::MAX, remaining(i64::MAX)),
        (i64::MAX - 1_000, i64::MAX, remaining(i64::MAX)),
        (i64::MAX - 1_000, 1_000_000, remaining(15)),
        (0, i64::MIN, remaining(15)),
        (-2_000, 0, remaining(15)),
        (-2_000, 1, remaining(1)),
    ] {
        let (_, outcome) = visit(server().at(seconds).with("", "pods", held(grace)), "1.36");
        assert_eq!(outcome.ending, ending, "{seconds} s, grace {grace}");
    }
}

#[test]
fn discovery_of_a_catalog_is_its_preferred_namespaced_resources() {
    let discovery = |release: &str| Discovery::from(&Catalog::builtin(release.parse().expect("in range")));
    let names = |discovery: &Discovery| -> Vec<String> {
        let texts = discovery.resources.iter().map(|resource| resource.id.to_string());
        texts.collect()
    };
    let old = names(&discovery("1.20"));
    for expected in [
        "/v1, Resource=pods",
        "apps/v1, Resource=deployments",
        "batch/v1beta1, Resource=cronjobs",
    ] {
        assert!(old.iter().any(|name| name == expected), "{expected}");
    }
    for absent in [
        "/v1, Resource=nodes",
        "networking.k8s.io/v1beta1, Resource=ingresses",
    ] {
        assert!(!old.iter().any(|name| name == absent), "{absent}");
    }
    let mut whole = Server::new(&[]);
    whole.discovery = discovery("1.20");
    let (calls, outcome) = visit(whole, "1.20");
    assert_eq!(outcome.ending, Ending::Finalized);
    // Services had no deletion of collections then, and reviews cannot be deleted at all.
    assert!(calls.iter().any(|call| call == "list services DeleteEach"));
    assert!(
        !calls
            .iter()
            .any(|call| call.contains("localsubjectaccessreviews"))
    );
}

#[test]
fn conditions_carry_the_time_of_the_visit() {
    let (_, outcome) = visit(server().at(60), "1.36");
    let times: Vec<Option<Timestamp>> = outcome
        .conditions
        .iter()
        .map(|condition| condition.last_transition_time)
        .collect();
    assert_eq!(times, [Some(Timestamp::from_secs(1_060)); 5]);
}
