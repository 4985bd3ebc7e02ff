//! When each mechanism looks: to the nanosecond.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_lifecycle::{
    controller::{Basis, Ended, Input, Mechanism, Output, Work},
    fields::Fields,
    node::Cloud,
    object::{Object, Resource, Taint},
    pod::TAINT_OUT_OF_SERVICE,
};

use crate::support::*;

const HOUR: i64 = 3_600;

#[test]
fn l2_4_a_job_goes_at_the_very_end_of_its_time() {
    let mut controller = controller(Mechanism::Jobs);
    let jobs = [job("b", 10, 90), job("c", 100, 0), job("a", 50, 100)];
    controller.handle(at(0), listed(Resource::Jobs, jobs));
    // Two at one time come in the order of their names.
    let tasks = assert_first(
        &mut controller,
        at(100),
        &["delete Job shop/b", "delete Job shop/c"],
    );
    let Work::Act(planned) = &tasks[0].work else {
        panic!("a deletion")
    };
    assert!(matches!(
        &planned.rests_on[..],
        [Basis::Same { object, resource_version }] if *object == planned.object && resource_version.as_str() == "1"
    ));
    assert_first(&mut controller, at(150), &["delete Job shop/a"]);
}

#[test]
fn l2_4_a_longer_time_to_live_comes_before_the_end_of_the_shorter() {
    let mut controller = controller(Mechanism::Jobs);
    controller.handle(at(0), listed(Resource::Jobs, [job("a", 10, 90)]));
    assert_eq!(told(&mut controller, at(50)).1, Some(at(100)));
    controller.handle(at(60), applied(Resource::Jobs, &touched(job("a", 10, 120))));
    assert_eq!(told(&mut controller, at(60)).1, Some(at(130)));
    controller.handle(at(70), gone(Resource::Jobs, &job("a", 10, 120)));
    assert_eq!(told(&mut controller, at(70)), (vec![], None));
}

#[test]
fn l4_requests_go_in_the_first_pass_of_the_hour() {
    // Denied at 100 s: older than an hour from 3700 s and a nanosecond on, and found so in the pass at two hours.
    let mut controller = controller(Mechanism::Certificates);
    let resource = Resource::CertificateSigningRequests;
    controller.handle(at(0), listed(resource, [denied("a", 100)]));
    let delete = "delete CertificateSigningRequest a";
    assert_eq!(told(&mut controller, at(0)), (vec![], Some(at(2 * HOUR))));
    assert_first(&mut controller, at(2 * HOUR), &[delete]);
    // Denied at the beginning: at one hour it is exactly an hour old, which is not enough.
    let mut controller = crate::support::controller(Mechanism::Certificates);
    controller.handle(at(0), listed(resource, [denied("a", 0)]));
    assert_eq!(told(&mut controller, at(0)), (vec![], Some(at(2 * HOUR))));
    assert_first(&mut controller, at(2 * HOUR), &[delete]);
    // What comes after a pass waits for the next one, however old it is.
    let mut controller = crate::support::controller(Mechanism::Certificates);
    controller.handle(at(0), listed(resource, [denied("a", 0)]));
    assert_eq!(told(&mut controller, at(0)), (vec![], Some(at(2 * HOUR))));
    controller.handle(at(0), applied(resource, &denied("b", -2 * HOUR)));
    assert_first(&mut controller, at(HOUR), &["delete CertificateSigningRequest b"]);
}

#[test]
fn l4_9_requests_of_pods_go_in_the_first_pass_of_the_hour() {
    let mut controller = controller(Mechanism::PodCertificates);
    let resource = Resource::PodCertificateRequests;
    let requests = [pod_request("a", HOUR / 2), pod_request("b", HOUR / 2 + 1)];
    controller.handle(at(0), listed(resource, requests));
    assert_eq!(told(&mut controller, at(0)), (vec![], Some(at(HOUR))));
    assert_first(
        &mut controller,
        at(HOUR),
        &["delete PodCertificateRequest shop/a"],
    );
    assert_first(
        &mut controller,
        at(2 * HOUR),
        &["delete PodCertificateRequest shop/b"],
    );
}

#[test]
fn l12_2_tokens_go_at_the_very_end_of_their_time() {
    let mut controller = controller(Mechanism::BootstrapTokens);
    let mut elsewhere = token("elsewhere", 1);
    elsewhere.meta.namespace = "shop".into();
    let tokens = [token("a", 30), elsewhere, token("b", -5)];
    controller.handle(at(0), listed(Resource::Secrets, tokens));
    assert_eq!(
        told(&mut controller, at(0)),
        (vec!["delete Secret kube-system/b".into()], Some(at(30)))
    );
    assert_first(&mut controller, at(30), &["delete Secret kube-system/a"]);
}

#[test]
fn l1_13_orphans_go_in_the_first_pass_after_the_quarantine() {
    let mut controller = controller(Mechanism::Pods);
    let nodes = [node("here", true), node("lost", true)];
    let pods = [pod("a", "here", "Running"), pod("b", "lost", "Running")];
    controller.handle(at(0), listed(Resource::Nodes, nodes));
    controller.handle(at(0), listed(Resource::Pods, pods));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    controller.handle(at(3), gone(Resource::Nodes, &node("lost", true)));
    // Seen at 20, so that the quarantine is over at 60, which is a pass.
    assert_eq!(told(&mut controller, at(3)), (vec![], Some(at(20))));
    assert_eq!(told(&mut controller, at(20)), (vec![], Some(at(60))));
    let tasks = assert_first(&mut controller, at(60), &["delete Pod shop/b"]);
    let Work::Act(planned) = &tasks[0].work else {
        panic!("a deletion")
    };
    let absent = Basis::Absent {
        resource: Resource::Nodes,
        namespace: "".into(),
        name: "lost".into(),
    };
    assert_eq!(planned.rests_on, [absent]);
    assert_eq!(planned.calls.len(), 2, "marked first");
}

#[test]
fn l1_13_a_quarantine_that_ends_between_passes_waits_for_the_next() {
    let mut controller = controller(Mechanism::Pods);
    controller.handle(at(0), listed(Resource::Nodes, []));
    controller.handle(at(0), listed(Resource::Pods, [pod("a", "lost", "Running")]));
    // A pass that comes late, at 7 instead of 0, begins a quarantine until 47, and the others come every 20 s after it.
    assert_eq!(told(&mut controller, at(7)), (vec![], Some(at(47))));
    controller.handle(at(10), applied(Resource::Pods, &pod("b", "lost", "Running")));
    // The pass at 27 is late, too. The next ones are at 50 and 70.
    assert_eq!(told(&mut controller, at(30)), (vec![], Some(at(50))));
    assert_first(
        &mut controller,
        at(50),
        &["delete Pod shop/a", "delete Pod shop/b"],
    );
}

#[test]
fn l1_13_orphans_go_two_passes_after_they_were_seen_however_late_a_clock_is_looked_at() {
    let late = |seconds| at(seconds).saturating_add(Duration::from_micros(300));
    let mut controller = controller(Mechanism::Pods);
    let nodes = [node("here", true), node("lost", true)];
    controller.handle(at(0), listed(Resource::Nodes, nodes));
    controller.handle(at(0), listed(Resource::Pods, [pod("a", "lost", "Running")]));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    controller.handle(at(3), gone(Resource::Nodes, &node("lost", true)));
    assert_eq!(told(&mut controller, at(3)), (vec![], Some(at(20))));
    assert_eq!(told(&mut controller, late(20)), (vec![], Some(late(60))));
    let later = late(60).saturating_add(Duration::from_micros(300));
    assert_eq!(told(&mut controller, later).0, ["delete Pod shop/a"]);
}

#[test]
fn l1_11_a_quarantine_ends_also_where_no_pods_are_left() {
    let mut controller = controller(Mechanism::Pods);
    let lost = pod("a", "lost", "Running");
    controller.handle(at(0), listed(Resource::Nodes, []));
    controller.handle(at(0), listed(Resource::Pods, [lost.clone()]));
    assert_eq!(told(&mut controller, at(0)), (vec![], Some(at(40))));
    // Another pod brings the next pass forward, and then the first one is gone.
    let nowhere = deleting(pod("b", "", "Pending"), 10);
    controller.handle(at(10), applied(Resource::Pods, &nowhere));
    controller.handle(at(15), gone(Resource::Pods, &lost));
    let task = one(&mut controller, at(20));
    controller.handle(at(20), gone(Resource::Pods, &nowhere));
    controller.handle(at(20), ended(task.id, Ended::Done));
    assert_eq!(told(&mut controller, at(20)), (vec![], Some(at(40))));
    assert_eq!(told(&mut controller, at(40)), (vec![], None));
    // The node comes, gets a pod and goes: that is another quarantine.
    controller.handle(at(500), applied(Resource::Nodes, &node("lost", true)));
    controller.handle(at(501), applied(Resource::Pods, &pod("c", "lost", "Running")));
    controller.handle(at(1_001), gone(Resource::Nodes, &node("lost", true)));
    assert_eq!(told(&mut controller, at(1_001)), (vec![], Some(at(1_020))));
    assert_eq!(told(&mut controller, at(1_020)), (vec![], Some(at(1_060))));
    assert_first(&mut controller, at(1_060), &["delete Pod shop/c"]);
}

#[test]
fn the_first_pass_comes_when_all_was_told_and_the_others_count_from_it() {
    let requests = Resource::CertificateSigningRequests;
    let pod_requests = Resource::PodCertificateRequests;
    let nowhere = |name| deleting(pod(name, "", "Pending"), 0);
    for (mechanism, resource, first, second, next) in [
        (Mechanism::Pods, Resource::Pods, nowhere("a"), nowhere("b"), 27),
        (
            Mechanism::Certificates,
            requests,
            denied("a", -HOUR),
            denied("b", -HOUR),
            HOUR + 7,
        ),
        (
            Mechanism::PodCertificates,
            pod_requests,
            pod_request("a", -HOUR),
            pod_request("b", -HOUR),
            HOUR + 7,
        ),
    ] {
        for is_listed_late in [false, true] {
            let mut controller = controller(mechanism);
            let others = mechanism.resources().iter().filter(|other| **other != resource);
            others.for_each(|other| controller.handle(at(1), listed(*other, [])));
            if is_listed_late {
                controller.handle(at(2), not_listed(resource));
                assert_eq!(told(&mut controller, at(3)), (vec![], None), "{mechanism}");
            }
            controller.handle(at(7), listed(resource, [first.clone()]));
            let task = one(&mut controller, at(7));
            controller.handle(at(9), gone(resource, &first));
            controller.handle(at(9), applied(resource, &second));
            controller.handle(at(10), ended(task.id, Ended::Done));
            assert_eq!(told(&mut controller, before(at(next))).0.len(), 0, "{mechanism}");
            assert_eq!(told(&mut controller, at(next)).0.len(), 1, "{mechanism}");
        }
    }
    let mut controller = controller(Mechanism::Nodes);
    controller.handle(at(7), listed(Resource::Nodes, [node("down", false)]));
    assert!(matches!(controller.poll_output(at(7)), Output::AskCloud(..)));
}

#[test]
fn l1_11_a_node_that_comes_back_spares_its_pods() {
    let mut controller = controller(Mechanism::Pods);
    controller.handle(at(0), listed(Resource::Nodes, []));
    controller.handle(at(0), listed(Resource::Pods, [pod("a", "lost", "Running")]));
    assert_eq!(told(&mut controller, at(0)), (vec![], Some(at(40))));
    controller.handle(at(39), applied(Resource::Nodes, &node("lost", true)));
    assert_eq!(told(&mut controller, at(40)), (vec![], None));
    // Gone again, it is in quarantine anew.
    controller.handle(at(41), gone(Resource::Nodes, &node("lost", true)));
    assert_eq!(told(&mut controller, at(60)), (vec![], Some(at(100))));
}

#[test]
fn pods_that_can_not_go_make_no_pass_due() {
    let running = |name| pod(name, "here", "Running");
    let mut out = node("here", false);
    if let Fields::Node(node) = &mut out.fields {
        node.taints = Some(vec![Taint {
            key: TAINT_OUT_OF_SERVICE.into(),
            effect: "NoExecute".into(),
        }]);
    }
    let mut unready = touched(node("here", false));
    unready.meta.resource_version = "3".into();
    let cases = [
        ("a new pod", applied(Resource::Pods, &running("b")), None),
        (
            "a finished pod",
            applied(Resource::Pods, &pod("b", "here", "Failed")),
            None,
        ),
        ("a pod that is gone", gone(Resource::Pods, &running("a")), None),
        (
            "one that ends",
            applied(Resource::Pods, &deleting(running("a"), 1)),
            None,
        ),
        (
            "a node that is not ready",
            applied(Resource::Nodes, &unready),
            None,
        ),
        ("a new node", applied(Resource::Nodes, &node("new", true)), None),
        (
            "one more over the threshold",
            applied(Resource::Pods, &pod("c", "here", "Failed")),
            Some(20),
        ),
        (
            "no node",
            applied(Resource::Pods, &deleting(pod("b", "", "Pending"), 1)),
            Some(20),
        ),
        (
            "a node that is not there",
            applied(Resource::Pods, &pod("b", "lost", "Running")),
            Some(20),
        ),
        (
            "a node that goes",
            gone(Resource::Nodes, &node("here", true)),
            Some(20),
        ),
        ("a node out of service", applied(Resource::Nodes, &out), Some(20)),
        (
            "nobody knows",
            applied(Resource::Pods, &unread(running("a"))),
            Some(20),
        ),
    ];
    for (what, input, expected) in cases {
        let mut settings = settings([Mechanism::Pods]);
        if let Some(pods) = &mut settings.pods {
            pods.terminated_threshold = if what.contains("threshold") { 1 } else { 2 };
        }
        let mut controller =
            kubegc_lifecycle::controller::Controller::new(settings, Default::default(), at(0));
        controller.handle(at(0), listed(Resource::Nodes, [node("here", true)]));
        let pods = [running("a"), pod("z", "here", "Succeeded")];
        controller.handle(at(0), listed(Resource::Pods, pods));
        assert_eq!(told(&mut controller, at(0)), (vec![], None), "{what}");
        controller.handle(at(1), input);
        assert_eq!(controller.next_at(), expected.map(at), "{what}");
    }
}

#[test]
fn l1_8_pods_on_a_node_that_is_put_out_of_service_go_in_the_next_pass() {
    let mut controller = controller(Mechanism::Pods);
    controller.handle(at(0), listed(Resource::Nodes, [node("out", false)]));
    let pods = [
        deleting(pod("a", "out", "Running"), 0),
        pod("b", "out", "Running"),
    ];
    controller.handle(at(0), listed(Resource::Pods, pods));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    let mut out = touched(node("out", false));
    if let Fields::Node(node) = &mut out.fields {
        node.taints = Some(vec![Taint {
            key: TAINT_OUT_OF_SERVICE.into(),
            effect: "NoExecute".into(),
        }]);
    }
    controller.handle(at(1), applied(Resource::Nodes, &out));
    let tasks = assert_first(&mut controller, at(20), &["delete Pod shop/a"]);
    let Work::Act(planned) = &tasks[0].work else {
        panic!("a deletion")
    };
    assert_eq!(planned.rests_on, [Basis::same(Resource::Nodes, &out.meta)]);
}

#[test]
fn l8_nodes_that_are_not_ready_are_asked_about_in_every_pass() {
    let mut controller = controller(Mechanism::Nodes);
    let nodes = [node("down", false), node("up", true)];
    controller.handle(at(0), listed(Resource::Nodes, nodes.clone()));
    for pass in 0..3 {
        let now = at(5 * pass);
        let Output::AskCloud(asked, provider_id) = controller.poll_output(now) else {
            panic!("a question at {now}")
        };
        assert_eq!((&*asked.name, &*provider_id), ("down", "cloud:///down"));
        // It is not asked twice, however long the answer takes.
        assert_eq!(told(&mut controller, before(at(5 * pass + 5))), (vec![], None));
        let answer = Input::Cloud {
            node: asked,
            exists: Cloud::Yes,
            is_shutdown: Cloud::No,
        };
        controller.handle(before(at(5 * pass + 5)), answer);
        let (tasks, until) = told(&mut controller, before(at(5 * pass + 5)));
        assert_eq!((tasks, until), (vec![], Some(at(5 * pass + 5))));
    }
    // The last answer is used up.
    let Output::AskCloud(asked, _) = controller.poll_output(at(15)) else {
        panic!("a question")
    };
    let answer = Input::Cloud {
        node: asked,
        exists: Cloud::No,
        is_shutdown: Cloud::NotAsked,
    };
    controller.handle(at(16), answer);
    assert_eq!(one_text(&mut controller, at(16)), "delete Node down");
    // A node that is ready is left alone.
    let mut controller = crate::support::controller(Mechanism::Nodes);
    controller.handle(at(0), listed(Resource::Nodes, [node("up", true)]));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    controller.handle(at(1), applied(Resource::Nodes, &touched(node("up", false))));
    assert_eq!(controller.next_at(), Some(at(5)));
}

#[test]
fn an_answer_about_a_former_node_is_not_used() {
    let mut controller = controller(Mechanism::Nodes);
    controller.handle(at(0), listed(Resource::Nodes, [node("down", false)]));
    let Output::AskCloud(asked, _) = controller.poll_output(at(0)) else {
        panic!("a question")
    };
    let mut new = node("down", false);
    new.meta.uid = "uid-of-another".into();
    controller.handle(at(1), applied(Resource::Nodes, &new));
    let answer = |node: &Object| Input::Cloud {
        node: node.clone(),
        exists: Cloud::No,
        is_shutdown: Cloud::NotAsked,
    };
    controller.handle(at(2), answer(&asked));
    assert_eq!(told(&mut controller, at(2)), (vec![], Some(at(5))));
    let Output::AskCloud(asked, _) = controller.poll_output(at(5)) else {
        panic!("a question")
    };
    assert_eq!(asked.uid, new.meta.uid);
}

#[test]
fn an_answer_that_leaves_something_open_is_asked_for_in_the_next_pass() {
    let mut controller = controller(Mechanism::Nodes);
    controller.handle(at(0), listed(Resource::Nodes, [node("down", false)]));
    let Output::AskCloud(node, _) = controller.poll_output(at(0)) else {
        panic!("a question")
    };
    let answer = Input::Cloud {
        node,
        exists: Cloud::Yes,
        is_shutdown: Cloud::NotAsked,
    };
    controller.handle(at(0), answer);
    assert_eq!(told(&mut controller, at(0)), (vec![], Some(at(5))));
    assert_eq!(
        undecided(&controller),
        ["nodes: Node down: nobody asked the cloud whether it is shut down"]
    );
}

#[test]
fn answers_stay_in_a_forecast_and_nothing_is_asked() {
    let mut controller = controller(Mechanism::Nodes).still();
    let answer = |record: &kubegc_lifecycle::fields::Record, exists| Input::Cloud {
        node: Object::new(Resource::Nodes, &record.meta),
        exists,
        is_shutdown: Cloud::No,
    };
    let [gone, here, unknown] = ["gone", "here", "unknown"].map(|name| node(name, true));
    controller.handle(at(0), answer(&gone, Cloud::No));
    controller.handle(at(0), answer(&here, Cloud::Yes));
    let nodes = [gone, here, unknown];
    controller.handle(at(0), listed(Resource::Nodes, nodes.clone()));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    for now in [11, 23] {
        for name in ["gone", "here", "unknown"] {
            let mut down = node(name, false);
            down.meta.resource_version = now.to_string().as_str().into();
            controller.handle(at(now), applied(Resource::Nodes, &down));
        }
        // They are looked at in the pass, and not again before something changes.
        let pass = now / 5 * 5 + 5;
        let tasks = assert_first(&mut controller, at(pass), &["delete Node gone"]);
        controller.handle(at(pass), ended(tasks[0].id, Ended::Done));
        assert_eq!(told(&mut controller, at(pass)), (vec![], None));
        assert_eq!(
            undecided(&controller),
            ["nodes: Node unknown: nobody asked the cloud whether it exists"]
        );
    }
}

#[test]
fn a_question_that_is_out_is_dropped_in_a_forecast() {
    let mut controller = controller(Mechanism::Nodes);
    controller.handle(at(0), listed(Resource::Nodes, [node("down", false)]));
    assert!(matches!(controller.poll_output(at(0)), Output::AskCloud(..)));
    let mut forecast = controller.clone().still();
    assert_eq!(told(&mut forecast, at(100)), (vec![], None));
    assert_eq!(undecided(&forecast).len(), 1);
}

#[test]
fn l9_a_lease_goes_as_soon_as_its_node_is_gone() {
    let mut controller = controller(Mechanism::Leases);
    let nodes = [node("a", true), node("b", true)];
    controller.handle(at(0), listed(Resource::Nodes, nodes));
    controller.handle(at(0), listed(Resource::Leases, [lease("a"), lease("b")]));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    // Another state of a node does not concern its lease, another node does.
    controller.handle(at(1), applied(Resource::Nodes, &touched(node("a", false))));
    assert_eq!(controller.next_at(), None);
    controller.handle(at(2), gone(Resource::Nodes, &node("b", true)));
    let mut new = node("a", true);
    new.meta.uid = "uid-of-another".into();
    controller.handle(at(2), applied(Resource::Nodes, &new));
    let tasks = due(&mut controller, at(2)).0;
    let texts: Vec<_> = tasks.iter().map(text).collect();
    assert_eq!(
        texts,
        ["delete Lease kube-node-lease/a", "delete Lease kube-node-lease/b"]
    );
    let rests_on = |at: usize| match &tasks[at].work {
        Work::Act(planned) => planned.rests_on.clone(),
        other => panic!("{other:?}"),
    };
    let same = Basis::same(Resource::Nodes, &new.meta);
    assert_eq!(
        rests_on(0),
        [Basis::same(Resource::Leases, &lease("a").meta), same]
    );
    let absent = Basis::Absent {
        resource: Resource::Nodes,
        namespace: "".into(),
        name: "b".into(),
    };
    assert_eq!(
        rests_on(1),
        [Basis::same(Resource::Leases, &lease("b").meta), absent]
    );
}

#[test]
fn l10_a_deleted_namespace_is_visited_five_seconds_after_its_first_event() {
    let mut controller = controller(Mechanism::Namespaces);
    let resource = Resource::Namespaces;
    controller.handle(at(0), listed(resource, [namespace("stays"), namespace("goes")]));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    controller.handle(at(7), applied(resource, &deleting(namespace("goes"), 7)));
    // A later event does not put it off.
    let again = touched(deleting(namespace("goes"), 7));
    controller.handle(at(10), applied(resource, &again));
    let tasks = assert_first(&mut controller, at(12), &["visit goes after 0 failures"]);
    // Its own writes are events, too. Of two visits that are asked for, the earlier one counts for both.
    controller.handle(at(13), applied(resource, &touched(again.clone())));
    let wait = Duration::from_secs(16);
    controller.handle(at(14), ended(tasks[0].id, Ended::Again(wait)));
    let tasks = assert_first(&mut controller, at(18), &["visit goes after 0 failures"]);
    controller.handle(at(19), ended(tasks[0].id, Ended::Again(wait)));
    let tasks = assert_first(&mut controller, at(35), &["visit goes after 0 failures"]);
    controller.handle(at(35), ended(tasks[0].id, Ended::Done));
    assert_eq!(told(&mut controller, at(35)), (vec![], None));
}

#[test]
fn what_is_added_later_is_looked_at_when_its_mechanism_looks() {
    let mut controller = controller(Mechanism::Jobs);
    controller.handle(at(0), listed(Resource::Jobs, [job("a", 0, 100)]));
    assert_eq!(told(&mut controller, at(0)).1, Some(at(100)));
    controller.handle(at(10), applied(Resource::Jobs, &job("b", 5, 20)));
    assert_eq!(told(&mut controller, at(10)), (vec![], Some(at(25))));
    controller.handle(at(11), applied(Resource::Jobs, &job("c", 5, 1)));
    assert_eq!(one_text(&mut controller, at(11)), "delete Job shop/c");
}

#[test]
fn nothing_is_looked_at_before_the_beginning_or_beyond_the_end_of_time() {
    let end = Timestamp::from_nanos(i64::MAX);
    let settings = settings([Mechanism::Nodes, Mechanism::Pods, Mechanism::Jobs]);
    let mut controller = kubegc_lifecycle::controller::Controller::new(settings, Default::default(), at(9));
    let nodes = [node("up", true)];
    controller.handle(at(0), listed(Resource::Nodes, nodes));
    controller.handle(at(0), listed(Resource::Pods, [pod("a", "lost", "Running")]));
    controller.handle(at(0), listed(Resource::Jobs, [job("a", 0, 5)]));
    // An earlier time counts as the beginning.
    assert_eq!(one_text(&mut controller, at(0)), "delete Job shop/a");
    let (tasks, until) = told(&mut controller, at(0));
    assert_eq!((tasks, until), (vec![], Some(at(49))));
    controller.handle(end, applied(Resource::Nodes, &touched(node("up", true))));
    let (_, until) = told(&mut controller, end);
    assert_eq!(until, None);
}
