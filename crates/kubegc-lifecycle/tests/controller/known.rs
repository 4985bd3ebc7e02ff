//! What is known, and what is not: lists, changes, errors, times.

use kubegc_core::{ObjectMeta, StoreError};
use kubegc_lifecycle::{
    controller::{Basis, Controller, Ended, Input, Mechanism, Settings, Work},
    fields::{Fields, Record},
    object::{Object, Resource, Wire},
};

use crate::support::*;

const MINE: [Mechanism; 8] = [
    Mechanism::Pods,
    Mechanism::Jobs,
    Mechanism::Certificates,
    Mechanism::PodCertificates,
    Mechanism::Nodes,
    Mechanism::Leases,
    Mechanism::BootstrapTokens,
    Mechanism::Namespaces,
];

/// For each mechanism, an object that it would act on in the first hours if all were known, where nothing else is there.
fn victim(mechanism: Mechanism) -> Record {
    match mechanism {
        Mechanism::Pods => pod("a", "lost", "Running"),
        Mechanism::Jobs => job("a", 0, 0),
        Mechanism::Certificates => denied("a", -10_000),
        Mechanism::PodCertificates => pod_request("a", -10_000),
        Mechanism::Leases => lease("a"),
        Mechanism::BootstrapTokens => token("a", 0),
        Mechanism::Namespaces => deleting(namespace("a"), 0),
        other => panic!("{other}"),
    }
}

/// All that is done in the first hours.
fn done(controller: &mut Controller) -> Vec<String> {
    let mut done = Vec::new();
    let mut now = at(0);
    loop {
        let (tasks, until) = due(controller, now);
        for task in tasks {
            done.push(text(&task));
            controller.handle(now, ended(task.id, Ended::Done));
        }
        match until.filter(|until| *until < at(10_000)) {
            Some(until) => now = until,
            None => return done,
        }
    }
}

#[test]
fn nothing_is_done_before_everything_was_told_of() {
    for mechanism in MINE
        .into_iter()
        .filter(|mechanism| *mechanism != Mechanism::Nodes)
    {
        let mut controller = controller(mechanism);
        let needed = mechanism.resources();
        controller.handle(at(0), listed(needed[0], [victim(mechanism)]));
        if needed.len() > 1 {
            assert_eq!(done(&mut controller.clone()), [""; 0], "{mechanism}");
            controller.handle(at(0), applied(needed[0], &victim(mechanism)));
            assert_eq!(controller.next_at(), None, "{mechanism}");
        }
        for other in &needed[1..] {
            controller.handle(at(0), listed(*other, []));
        }
        assert_eq!(done(&mut controller).len(), 1, "{mechanism}");
    }
}

/// The mechanisms that look at nothing but one object at a time.
const ALONE: [Mechanism; 4] = [
    Mechanism::Jobs,
    Mechanism::Certificates,
    Mechanism::PodCertificates,
    Mechanism::BootstrapTokens,
];

#[test]
fn what_its_own_fields_decide_is_done_also_where_not_all_could_be_listed() {
    for mechanism in ALONE {
        let resource = mechanism.resources()[0];
        let mut controller = controller(mechanism);
        controller.handle(at(0), not_listed(resource));
        controller.handle(at(0), applied(resource, &victim(mechanism)));
        controller.handle(at(0), applied(resource, &unread(other(mechanism))));
        let mut tasks = due(&mut controller, at(0)).0;
        if tasks.is_empty() {
            let next = controller.next_at().expect("it looks in passes");
            tasks = due(&mut controller, next).0;
        }
        let [task] = &tasks[..] else {
            panic!("{mechanism}: {tasks:?}")
        };
        let Work::Act(planned) = &task.work else {
            panic!("a deletion")
        };
        // It is read again first; a token that could not be read then would stay for good.
        let same = Basis::same(resource, &victim(mechanism).meta);
        let is_read = mechanism != Mechanism::BootstrapTokens;
        let expected: Vec<_> = is_read.then_some(same).into_iter().collect();
        assert_eq!(planned.rests_on, expected, "{mechanism}");
        // Of what was not read nobody knows more than before.
        if mechanism != Mechanism::PodCertificates {
            assert_eq!(undecided(&controller).len(), 1, "{mechanism}");
        }
    }
}

#[test]
fn an_object_of_which_not_even_the_metadata_was_read_is_undecided() {
    for mechanism in ALONE {
        let resource = mechanism.resources()[0];
        let mut controller = controller(mechanism);
        let meta = victim(mechanism).meta;
        controller.handle(at(0), listed(resource, [Record::unread_metadata(meta)]));
        assert_eq!(done(&mut controller), [""; 0], "{mechanism}");
        assert_eq!(undecided(&controller).len(), 1, "{mechanism}");
    }
}

/// Another object like the one that would be acted on.
fn other(mechanism: Mechanism) -> Record {
    let mut other = victim(mechanism);
    other.meta.name = "b".into();
    other.meta.uid = "uid-of-b".into();
    if mechanism == Mechanism::PodCertificates {
        other.meta.creation_timestamp = Some(at(1_000_000));
    }
    other
}

#[test]
fn where_something_could_not_be_listed_nothing_is_done_and_all_is_undecided() {
    for mechanism in MINE
        .into_iter()
        .filter(|mechanism| *mechanism != Mechanism::Nodes && !ALONE.contains(mechanism))
    {
        let needed = mechanism.resources();
        for unlisted in needed {
            let what = format!("{mechanism} without {}", unlisted.plural());
            let mut controller = controller(mechanism);
            controller.handle(at(0), applied(needed[0], &victim(mechanism)));
            for resource in needed {
                controller.handle(at(0), listed(*resource, []));
            }
            controller.handle(at(0), listed(needed[0], [victim(mechanism)]));
            controller.handle(at(0), not_listed(*unlisted));
            assert_eq!(done(&mut controller), [""; 0], "{what}");
            let object = Object::new(needed[0], &victim(mechanism).meta);
            let why = format!(
                "the {} are not known: refused with 403: forbidden",
                unlisted.plural()
            );
            assert_eq!(undecided(&controller), [format!("{mechanism}: {object}: {why}")]);
            // What comes then is undecided, too.
            let other = other(mechanism);
            controller.handle(at(1), applied(needed[0], &other));
            assert_eq!(done(&mut controller), [""; 0], "{what}");
            assert_eq!(undecided(&controller).len(), 2, "{what}");
            controller.handle(at(2), gone(needed[0], &other));
            // Once it is listed, it is decided.
            let records = (*unlisted == needed[0]).then(|| victim(mechanism));
            controller.handle(at(2), listed(*unlisted, records));
            assert_eq!(done(&mut controller).len(), 1, "{what}");
            assert_eq!(undecided(&controller), [""; 0], "{what}");
        }
    }
}

#[test]
fn while_something_is_not_listed_even_what_would_stay_is_undecided() {
    let mut controller = controller(Mechanism::Namespaces);
    controller.handle(at(0), not_listed(Resource::Namespaces));
    controller.handle(at(0), applied(Resource::Namespaces, &namespace("a")));
    assert_eq!(told(&mut controller, at(5)), (vec![], None));
    assert_eq!(undecided(&controller).len(), 1);
    let mut controller = crate::support::controller(Mechanism::Pods);
    controller.handle(at(0), listed(Resource::Pods, [pod("a", "here", "Running")]));
    controller.handle(at(0), listed(Resource::Nodes, [node("here", true)]));
    controller.handle(at(0), not_listed(Resource::Nodes));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    controller.handle(at(1), applied(Resource::Pods, &pod("b", "here", "Running")));
    assert_eq!(told(&mut controller, at(20)), (vec![], None));
    assert_eq!(undecided(&controller).len(), 2);
    controller.handle(at(21), listed(Resource::Nodes, [node("here", true)]));
    assert_eq!(told(&mut controller, at(40)), (vec![], None));
    assert_eq!(undecided(&controller), [""; 0]);
}

#[test]
fn a_list_that_fails_at_first_makes_nothing_wait_for_ever() {
    let mut controller = controller(Mechanism::Jobs);
    controller.handle(at(0), not_listed(Resource::Jobs));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    controller.handle(at(1), listed(Resource::Jobs, [job("a", 0, 0)]));
    assert_eq!(one_text(&mut controller, at(1)), "delete Job shop/a");
}

#[test]
fn what_was_not_read_is_undecided() {
    for mechanism in [
        Mechanism::Pods,
        Mechanism::Jobs,
        Mechanism::Certificates,
        Mechanism::BootstrapTokens,
    ] {
        let mut controller = controller(mechanism);
        let needed = mechanism.resources();
        for other in needed {
            controller.handle(at(0), listed(*other, []));
        }
        let unread = unread(victim(mechanism));
        controller.handle(at(0), applied(needed[0], &unread));
        assert_eq!(done(&mut controller), [""; 0], "{mechanism}");
        assert_eq!(undecided(&controller).len(), 1, "{mechanism}");
        let (of, object, _) = controller.undecided().next().expect("one");
        assert_eq!((of, object), (mechanism, &Object::new(needed[0], &unread.meta)));
        // What is gone is no longer spoken of, even where nothing was looked at since.
        controller.handle(at(9_999), gone(needed[0], &unread));
        assert_eq!(undecided(&controller), [""; 0], "{mechanism}");
    }
}

#[test]
fn a_node_that_was_not_read_is_not_asked_about() {
    let mut controller = controller(Mechanism::Nodes);
    controller.handle(at(0), listed(Resource::Nodes, [unread(node("a", false))]));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    assert_eq!(
        undecided(&controller),
        ["nodes: Node a: its conditions are not known"]
    );
}

/// Two terminated pods, one of which goes anyway, and one that may be the third. Two may stay.
fn line_with_a_gap() -> Vec<Record> {
    let leaving = deleting(pod("b", "", "Succeeded"), 0);
    vec![unread(pod("a", "", "")), leaving, pod("c", "", "Succeeded")]
}

const C_MAY_GO: &str = "pods: Pod shop/c: 2 pods are terminated, 2 may stay, and which ones go hangs on 3 that were not read in full";
const A_IS_UNREAD: &str = "pods: Pod shop/a: its node is not known";

fn two_may_stay() -> Controller {
    let mut settings = settings([Mechanism::Pods]);
    settings.pods.as_mut().expect("it runs").terminated_threshold = 2;
    Controller::new(settings, Wire::Strict, at(0))
}

#[test]
fn where_one_is_gone_from_the_line_the_others_are_looked_at_in_the_next_pass() {
    let replaced = || {
        let mut other = pod("b", "", "Running");
        other.meta.uid = "uid-of-another".into();
        applied(Resource::Pods, &other)
    };
    for news in [gone(Resource::Pods, &line_with_a_gap()[1]), replaced()] {
        let mut controller = two_may_stay();
        controller.handle(at(0), listed(Resource::Pods, line_with_a_gap()));
        controller.handle(at(0), listed(Resource::Nodes, []));
        let task = one(&mut controller, at(0));
        assert_eq!(text(&task), "delete Pod shop/b");
        assert_eq!(undecided(&controller), [A_IS_UNREAD, C_MAY_GO]);
        controller.handle(at(1), ended(task.id, Ended::Done));
        controller.handle(at(1), news);
        assert_first(&mut controller, at(20), &[]);
        assert_eq!(undecided(&controller), [A_IS_UNREAD]);
        // Now that nobody's place is open, it makes no difference who goes.
        controller.handle(at(21), gone(Resource::Pods, &pod("c", "", "")));
        assert_eq!(told(&mut controller, at(21)), (vec![], None));
    }
}

#[test]
fn in_forecasts_what_was_undecided_stays_so_while_it_is_there() {
    let mut forecast = two_may_stay().still();
    forecast.handle(at(0), listed(Resource::Pods, line_with_a_gap()));
    forecast.handle(at(0), listed(Resource::Nodes, []));
    let task = one(&mut forecast, at(0));
    forecast.handle(at(0), ended(task.id, Ended::Done));
    forecast.handle(at(0), gone(Resource::Pods, &line_with_a_gap()[1]));
    assert_first(&mut forecast, at(20), &[]);
    // The first pass may have deleted it.
    assert_eq!(undecided(&forecast), [A_IS_UNREAD, C_MAY_GO]);
    forecast.handle(at(21), gone(Resource::Pods, &pod("c", "", "")));
    assert_eq!(undecided(&forecast), [A_IS_UNREAD]);
}

#[test]
fn the_end_of_another_object_of_the_name_means_nothing() {
    let mut controller = controller(Mechanism::Jobs);
    controller.handle(at(0), listed(Resource::Jobs, [job("a", 0, 100)]));
    let mut former = job("a", 0, 100);
    former.meta.uid = "uid-of-another".into();
    controller.handle(at(1), gone(Resource::Jobs, &former));
    let object = Object::new(Resource::Jobs, &job("a", 0, 100).meta);
    assert_eq!(controller.record(&object), Some(&job("a", 0, 100)));
    assert_eq!(
        controller.record(&Object::new(Resource::Jobs, &former.meta)),
        None
    );
    assert_eq!(one_text(&mut controller, at(100)), "delete Job shop/a");
    let mut controller = controller_with_job();
    controller.handle(at(1), gone(Resource::Jobs, &job("a", 0, 100)));
    assert_eq!(controller.record(&object), None);
    assert_eq!(told(&mut controller, at(100)), (vec![], None));
}

fn controller_with_job() -> Controller {
    let mut controller = controller(Mechanism::Jobs);
    controller.handle(at(0), listed(Resource::Jobs, [job("a", 0, 100)]));
    controller
}

#[test]
fn a_list_takes_the_place_of_the_last() {
    let mut controller = controller(Mechanism::Jobs);
    let old = [job("gone", 0, 100), job("same", 0, 200), job("later", 0, 300)];
    controller.handle(at(0), listed(Resource::Jobs, old));
    assert_eq!(told(&mut controller, at(0)).1, Some(at(100)));
    let new = [
        touched(job("later", 0, 400)),
        job("new", 0, 250),
        job("same", 0, 200),
    ];
    controller.handle(at(10), listed(Resource::Jobs, new.clone()));
    // Only what differs is looked at.
    assert_eq!(told(&mut controller, at(10)).1, Some(at(200)));
    for (now, name) in [(200, "same"), (250, "new"), (400, "later")] {
        let delete = format!("delete Job shop/{name}");
        let tasks = assert_first(&mut controller, at(now), &[&delete]);
        controller.handle(at(now), ended(tasks[0].id, Ended::Done));
    }
    // The same list again changes nothing.
    controller.handle(at(500), listed(Resource::Jobs, new));
    assert_eq!(told(&mut controller, at(500)), (vec![], None));
}

#[test]
fn a_name_that_comes_twice_and_not_alike_is_undecided() {
    let mut other = job("a", 0, 0);
    other.meta.uid = "uid-of-another".into();
    for (jobs, expected) in [
        (vec![job("a", 0, 0), job("a", 0, 0)], 1),
        (vec![job("a", 0, 0), job("a", 0, 5)], 0),
        (vec![job("a", 0, 0), other.clone()], 0),
        (vec![job("a", 0, 0), other, job("a", 0, 0)], 0),
    ] {
        let mut controller = controller(Mechanism::Jobs);
        controller.handle(at(1_000), listed(Resource::Jobs, jobs));
        assert_eq!(told(&mut controller, at(1_000)).0.len(), expected);
        assert_eq!(undecided(&controller).len(), 1 - expected);
        // What is watched afterwards is one object.
        controller.handle(at(1_001), applied(Resource::Jobs, &touched(job("a", 0, 7))));
        assert_eq!(told(&mut controller, at(1_001)).0.len(), 1 - expected);
        assert_eq!(undecided(&controller), [""; 0]);
    }
}

#[test]
fn time_that_goes_back_stands_still() {
    let mut controller = controller_with_job();
    assert_eq!(told(&mut controller, at(99)), (vec![], Some(at(100))));
    controller.handle(at(50), applied(Resource::Jobs, &job("b", 0, 99)));
    // It is still 99 s.
    assert_eq!(one_text(&mut controller, at(51)), "delete Job shop/b");
    assert_eq!(told(&mut controller, at(0)), (vec![], Some(at(100))));
    assert_eq!(one_text(&mut controller, at(100)), "delete Job shop/a");
}

#[test]
fn what_no_mechanism_looks_at_is_passed_over() {
    let mut controller = controller(Mechanism::Jobs);
    let stranger = node("a", false);
    controller.handle(at(0), listed(Resource::Nodes, [stranger.clone()]));
    controller.handle(at(0), applied(Resource::Nodes, &stranger));
    controller.handle(at(0), gone(Resource::Nodes, &stranger));
    let answer = Input::Cloud {
        node: Object::new(Resource::Nodes, &stranger.meta),
        exists: kubegc_lifecycle::node::Cloud::No,
        is_shutdown: kubegc_lifecycle::node::Cloud::No,
    };
    controller.handle(at(0), answer);
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    assert_eq!(
        controller.record(&Object::new(Resource::Nodes, &stranger.meta)),
        None
    );
    let mut nobody = Controller::new(Settings::none(), Wire::Strict, at(0));
    assert!(nobody.resources().is_empty());
    assert_eq!(told(&mut nobody, at(0)), (vec![], None));
}

#[test]
fn mechanisms_that_share_a_resource_look_for_themselves() {
    let settings = settings([Mechanism::Nodes, Mechanism::Leases, Mechanism::Pods]);
    let mut controller = Controller::new(settings, Wire::Strict, at(0)).still();
    for (resource, record) in [
        (Resource::Nodes, node("a", true)),
        (Resource::Leases, lease("a")),
        (Resource::Pods, pod("p", "a", "Running")),
    ] {
        controller.handle(at(0), listed(resource, [record]));
    }
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    controller.handle(at(1), gone(Resource::Nodes, &node("a", true)));
    assert_eq!(
        told(&mut controller, at(1)),
        (vec!["delete Lease kube-node-lease/a".into()], Some(at(20)))
    );
    assert_eq!(told(&mut controller, at(20)), (vec![], Some(at(60))));
    assert_eq!(one_text(&mut controller, at(60)), "delete Pod shop/p");
}

#[test]
fn the_reasons_of_undecided_objects_come_in_order() {
    let mut controller = Controller::new(
        settings([Mechanism::BootstrapTokens, Mechanism::Jobs]),
        Wire::Strict,
        at(0),
    );
    let bare = |namespace: &str, name: &str| Record {
        meta: ObjectMeta::new(namespace, name, name),
        fields: Fields::Unread,
    };
    let jobs = [bare("b", "z"), bare("b", "a"), bare("a", "x")];
    controller.handle(at(0), listed(Resource::Secrets, [bare("kube-system", "s")]));
    controller.handle(at(0), listed(Resource::Jobs, jobs));
    assert_eq!(told(&mut controller, at(0)), (vec![], None));
    let objects: Vec<String> = controller
        .undecided()
        .map(|(_, object, _)| object.to_string())
        .collect();
    assert_eq!(objects, ["Job a/x", "Job b/a", "Job b/z", "Secret kube-system/s"]);
    let error = StoreError::Expired;
    let unlisted = Input::Listed {
        resource: Resource::Jobs,
        records: Err(error),
    };
    controller.handle(at(1), unlisted);
    assert_eq!(told(&mut controller, at(1)), (vec![], None));
    assert_eq!(
        undecided(&controller).len(),
        4,
        "nothing is known of them for that"
    );
}
