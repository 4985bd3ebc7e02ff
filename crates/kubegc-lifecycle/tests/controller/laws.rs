//! What holds for every cluster.

use std::time::Duration;

use kubegc_core::Timestamp;
use kubegc_lifecycle::{
    controller::{Controller, Ended, Input, Mechanism, Output, Settings, Task, Work},
    fields::{Fields, Record},
    object::{Object, Resource, Wire},
};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::support::*;

const MECHANISMS: [Mechanism; 8] = [
    Mechanism::Pods,
    Mechanism::Jobs,
    Mechanism::Certificates,
    Mechanism::PodCertificates,
    Mechanism::Nodes,
    Mechanism::Leases,
    Mechanism::BootstrapTokens,
    Mechanism::Namespaces,
];

/// Everything, with room for two terminated pods only.
fn all() -> Settings {
    with_threshold(2)
}

/// Everything, with room for so many terminated pods; zero: for all. Without a limit, what becomes of a pod does not depend on what has become of others.
fn with_threshold(threshold: i32) -> Settings {
    let mut settings = settings(MECHANISMS);
    if let Some(pods) = &mut settings.pods {
        pods.terminated_threshold = threshold;
    }
    settings
}

fn object() -> impl Strategy<Value = (Resource, Record)> {
    let names = select(vec!["a", "b", "c", "d", "e"]);
    let node_names = select(vec!["", "a", "b", "lost"]);
    let phases = select(vec!["Pending", "Running", "Succeeded", "Failed", "Odd"]);
    let times = -5_000..5_000_i64;
    (0..8_u8, names, node_names, phases, times, any::<[bool; 3]>()).prop_map(
        |(kind, name, node_name, phase, time, [is_deleting, is_ready, is_unread])| {
            let (resource, mut record) = match kind {
                0 | 1 => (Resource::Pods, pod(name, node_name, phase)),
                2 => (Resource::Jobs, job(name, time, 100)),
                3 => (Resource::CertificateSigningRequests, denied(name, time)),
                4 => (Resource::PodCertificateRequests, pod_request(name, time)),
                5 => (Resource::Nodes, node(name, is_ready)),
                6 => (Resource::Leases, lease(name)),
                _ if time < 0 => (Resource::Secrets, token(name, time.saturating_neg())),
                _ => (Resource::Namespaces, namespace(name)),
            };
            if is_deleting {
                record = deleting(record, time);
            }
            if is_unread && time % 5 == 0 {
                record = unread(record);
            }
            (resource, record)
        },
    )
}

fn cluster() -> impl Strategy<Value = Vec<(Resource, Record)>> {
    vec(object(), 0..14)
}

const END: i64 = 20_000;

/// The world after a long time. Its cloud has one node, and nodes that are not ready are only looked at when they change.
fn after_long(settings: Settings, objects: Vec<(Resource, Record)>) -> (World, Option<Timestamp>) {
    let mut world = World::new(settings, objects);
    world.instances = vec!["a".into()];
    let until = world.run(at(END));
    (world, until)
}

/// Whether a node that is not ready stays, so that passes never end.
fn has_unready_node(world: &World) -> bool {
    let is_unready = |record: &Record| match &record.fields {
        Fields::Node(node) => {
            let ready = node.conditions.as_ref().and_then(|all| all.first());
            ready.is_some_and(|ready| !ready.is_true())
        }
        _ => false,
    };
    world.objects().iter().any(|(_, record)| is_unready(record))
}

proptest! {
    /// Once everything due is done, a controller that begins anew finds nothing to do, and the old one waits for no time.
    #[test]
    fn what_is_done_stays_done(objects in cluster()) {
        let (world, until) = after_long(all(), objects);
        if !has_unready_node(&world) {
            prop_assert_eq!(until, None);
        }
        let mut fresh = world.clone();
        fresh.controller = Controller::new(all(), Wire::Strict, world.now.max(at(END)));
        fresh.now = world.now.max(at(END));
        fresh.log.clear();
        for input in world.lists() {
            fresh.controller.handle(fresh.now, input);
        }
        let end = fresh.now.saturating_add(Duration::from_secs(200));
        fresh.run(end);
        prop_assert_eq!(&fresh.log, &[]);
        prop_assert_eq!(undecided(&world.controller), undecided(&fresh.controller));
    }

    /// The order in which things are told at one time changes nothing: lists, and then one piece of news about each object.
    #[test]
    fn the_order_of_news_does_not_matter(
        objects in cluster(),
        what in vec(0..4_u8, 14),
        seed in vec(any::<u32>(), 28),
    ) {
        let world = World::new(all(), objects);
        let news = world.objects().into_iter().zip(what).filter_map(|((resource, record), what)| {
            let changed = touched(record.clone());
            match what {
                0 => None,
                1 => Some(gone(resource, record)),
                2 => Some(applied(resource, &deleting(changed, 3))),
                _ => Some(applied(resource, &changed)),
            }
        });
        let news: Vec<Input> = news.collect();
        let future = |lists: Vec<Input>, news: Vec<Input>| {
            let mut controller = Controller::new(all(), Wire::Strict, at(0)).still();
            let mut done = Vec::new();
            for (began, inputs) in [(at(0), lists), (at(3), news)] {
                for input in inputs {
                    controller.handle(began, input);
                }
                let end = if began < at(3) { at(3) } else { at(8_000) };
                let mut now = began;
                while now < end {
                    let (tasks, until) = due(&mut controller, now);
                    for task in tasks {
                        done.push((now, text(&task)));
                        controller.handle(now, ended(task.id, Ended::Done));
                    }
                    now = until.unwrap_or(end);
                }
            }
            // A look that found nothing to do may be one that another order does not need.
            (done, undecided(&controller))
        };
        let in_order = future(world.lists(), news.clone());
        let mixed = future(shuffled(world.lists(), &seed), shuffled(news.clone(), &seed));
        prop_assert_eq!(&in_order, &mixed);
        // Objects one by one say the same as the whole lists.
        let empty = all().resources().into_iter().map(|resource| listed(resource, []));
        let objects = world.objects().into_iter();
        let single = objects.map(|(resource, record)| applied(resource, record));
        let one_by_one = empty.chain(shuffled(single.collect(), &seed)).collect();
        prop_assert_eq!(in_order, future(one_by_one, news));
    }

    /// One list that says what is known already changes nothing, whenever it comes.
    #[test]
    fn a_list_of_what_is_known_changes_nothing(objects in cluster(), pause in 0..9_000_i64) {
        let mut world = World::new(all(), objects);
        world.instances = vec!["a".into()];
        world.run(at(pause));
        world.now = world.now.max(at(pause));
        let mut again = world.clone();
        for input in again.lists() {
            again.controller.handle(again.now, input);
        }
        prop_assert_eq!(again.controller.next_at(), world.controller.next_at());
        world.run(at(END));
        again.run(at(END));
        prop_assert_eq!(world.log, again.log);
    }

    /// Whatever fails on the way, in the end the cluster is the same.
    #[test]
    fn failures_only_delay(objects in cluster(), faults in vec(0..4_u8, 0..12)) {
        let mut calm = World::new(with_threshold(0), objects.clone());
        calm.run(at(END));
        let mut world = World::new(with_threshold(0), objects);
        world.faults = faults
            .into_iter()
            .map(|fault| match fault {
                0 => Ended::Stale,
                1 => Ended::Again(Duration::from_secs(3)),
                _ => Ended::Failed(refused()),
            })
            .collect();
        for round in 1..=14 {
            world.run(at(END * round));
            world.now = world.now.max(at(END * round));
            // Tokens whose deletion failed wait for a change, as upstream has it.
            for (resource, record) in world.clone().objects() {
                if resource == Resource::Secrets {
                    world.apply(resource, record.clone());
                }
            }
        }
        prop_assert_eq!(identities(&calm), identities(&world));
    }

    /// However long tasks take, and in whatever order they end: no object has two of them at a time, and in the end the cluster is the same.
    #[test]
    fn no_object_has_two_tasks_at_a_time(objects in cluster(), choices in vec(any::<usize>(), 80)) {
        let (calm, _) = after_long(with_threshold(0), objects.clone());
        let mut world = World::new(with_threshold(0), objects);
        world.instances = vec!["a".into()];
        let mut held: Vec<Task> = Vec::new();
        for choice in choices {
            match world.controller.poll_output(world.now) {
                Output::AskCloud(node, _) => world.answer(node),
                Output::Perform(task) => {
                    prop_assert!(held.iter().all(|other| subject(other) != subject(&task)), "{:?}", task);
                    held.push(*task);
                }
                Output::Wait { until } => match until.filter(|until| *until < at(END / 2)) {
                    Some(until) if held.is_empty() || choice % 3 == 0 => world.now = until,
                    _ if held.is_empty() => break,
                    _ => {
                        let task = held.swap_remove(choice % held.len());
                        world.finish(&task);
                    }
                },
            }
        }
        for task in held {
            world.finish(&task);
        }
        world.run(at(END));
        prop_assert_eq!(identities(&calm), identities(&world));
    }
}

/// In another order.
fn shuffled(inputs: Vec<Input>, seed: &[u32]) -> Vec<Input> {
    let mut keyed: Vec<_> = inputs.into_iter().zip(seed.iter().cycle()).collect();
    keyed.sort_by_key(|(_, key)| **key);
    keyed.into_iter().map(|(input, _)| input).collect()
}

/// What a task is about.
fn subject(task: &Task) -> (Mechanism, String) {
    let object = match &task.work {
        Work::Act(planned) => planned.object.to_string(),
        Work::Namespace { name, .. } => name.to_string(),
        other => panic!("{other:?}"),
    };
    (task.mechanism, object)
}

fn identities(world: &World) -> Vec<String> {
    let objects = world.objects();
    objects
        .into_iter()
        .map(|(resource, record)| Object::new(resource, &record.meta).to_string())
        .collect()
}
