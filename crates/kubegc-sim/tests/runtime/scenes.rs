//! Scenes of a node behind faults: operations on it, and what they report.
//!
//! The inputs of `scenes.txt` are operations on the [node](crate::node::node) of these tests; `; ` separates
//! several of one line. An operation that reports something is printed with it. `web/0` is the first sandbox
//! of the pod `web`, `web/app/0` its first container `app`, `log:web/app/0` and `link:web/app/0` are the paths
//! of its log and of the link to it, `entry:web` is the name of its directory of logs. `id:shop/web:1` is the
//! image that first had this tag, `digest:shop/web` the first digest of the repository. A later one ends
//! with `'`.

use std::{collections::BTreeMap, fmt::Display};

use kubegc_core::{
    LogDirectory, PodSource, Runtime, RuntimeError, Timestamp, Uid,
    node_facts::{ContainerState, LogTarget, PodState},
};
use kubegc_fixtures::check_transcript;
use kubegc_sim::{
    ContainerSpec, FaultyRuntime, ImageSpec, PodSpec, SimNode,
    runtime::{Fault, FaultPlan, Operation, Rule},
};

use crate::node::{START, free, node, now};

struct Scene {
    faulty: FaultyRuntime<SimNode>,
    /// Ids and paths by name.
    ids: BTreeMap<String, String>,
}

#[test]
fn scenes_report_what_they_should() {
    check_transcript("tests/runtime/scenes.txt", |input| {
        let mut scene = Scene {
            faulty: FaultyRuntime::new(node(), FaultPlan::default()),
            ids: BTreeMap::new(),
        };
        scene.learn();
        let mut lines = Vec::new();
        for operation in input.lines().flat_map(|line| line.split("; ")) {
            let report = match operation.strip_prefix("rule ") {
                Some(fault) => {
                    let rules = vec![rule(fault)];
                    let plan = FaultPlan {
                        rules,
                        ..FaultPlan::default()
                    };
                    scene.faulty = FaultyRuntime::new(scene.faulty.runtime().clone(), plan);
                    String::new()
                }
                None => scene.perform(operation),
            };
            scene.learn();
            if !report.is_empty() {
                lines.push(format!("{operation}: {}", scene.named(report)));
            }
        }
        lines.join("\n")
    });
}

fn report<T: Display, E: Display>(result: Result<T, E>) -> String {
    result.map_or_else(|error| error.to_string(), |value| value.to_string())
}

fn done<T, E: Display>(result: Result<T, E>) -> String {
    report(result.map(|_| ""))
}

fn joined(parts: impl IntoIterator<Item = String>) -> String {
    match Vec::from_iter(parts).join(", ") {
        none if none.is_empty() => "none".to_owned(),
        parts => parts,
    }
}

/// The values of `key=value` words.
fn options<'w>(words: &[&'w str]) -> impl Iterator<Item = (&'w str, &'w str)> {
    words.iter().filter_map(|word| word.split_once('='))
}

fn image(tag: &str, words: &[&str]) -> ImageSpec {
    let spec = ImageSpec {
        pinned: words.contains(&"pinned"),
        ..ImageSpec::new(tag)
    };
    options(words).fold(spec, |mut spec, (key, value)| {
        if key == "handler" {
            spec.runtime_handler = value.into();
            return spec;
        }
        spec.layer(key, value.parse().unwrap())
    })
}

fn container(name: &str, image: &str, words: &[&str]) -> ContainerSpec {
    let mut spec = ContainerSpec::new(name, image);
    for (key, value) in options(words) {
        match key {
            "log" => spec.log_bytes = value.parse().unwrap(),
            "volume" => spec.image_volumes.push(value.into()),
            "handler" => spec.runtime_handler = value.into(),
            other => panic!("a container has no {other}"),
        }
    }
    spec
}

/// A rule of faults: the operation or `any`, the fault, and what else selects its calls.
fn rule(text: &str) -> Rule {
    let words = Vec::from_iter(text.split(' '));
    let operations = [Operation::ContainerStatus, Operation::RemoveImage];
    let operation = operations
        .into_iter()
        .find(|operation| format!("{operation:?}") == words[0]);
    let fault = match words[1] {
        "refuse" => Fault::Refuse(RuntimeError::refused("device busy")),
        "lose" => Fault::LoseResponse,
        "empty" => Fault::EmptyStatus,
        _ => Fault::Die,
    };
    let mut rule = Rule {
        matching: (operation, None),
        ..Rule::always(Operation::Pods, fault)
    };
    for (key, value) in options(&words) {
        match key {
            "about" => rule = rule.about(value),
            "skip" => rule.skip = value.parse().unwrap(),
            "times" => rule.times = value.parse().unwrap(),
            other => panic!("a rule has no {other}"),
        }
    }
    rule
}

fn state(name: &str) -> ContainerState {
    let states = [
        ContainerState::Created,
        ContainerState::Running,
        ContainerState::Exited,
        ContainerState::Unknown,
    ];
    let found = states.into_iter().find(|state| format!("{state:?}") == name);
    found.unwrap_or_else(|| panic!("there is no state {name}"))
}

fn target(name: &str) -> LogTarget {
    match name {
        "Exists" => LogTarget::Exists,
        "Missing" => LogTarget::Missing,
        _ => LogTarget::Unknown,
    }
}

impl Scene {
    /// Names an id that has no name yet. Returns its name.
    fn name(&mut self, name: &str, id: &str) -> String {
        if let Some((known, _)) = self.ids.iter().find(|(_, other)| *other == id) {
            return known.clone();
        }
        let mut name = name.to_owned();
        while self.ids.contains_key(&name) {
            name.push('\'');
        }
        self.ids.insert(name.clone(), id.to_owned());
        name
    }

    /// Names all objects of the node.
    fn learn(&mut self) {
        for sandbox in self.faulty.runtime().all_sandboxes() {
            let (pod, uid) = (&sandbox.pod.name, sandbox.pod.uid.to_string());
            self.name(&format!("uid:{pod}"), &uid);
            self.name(&format!("{pod}/{}", sandbox.attempt), &sandbox.id);
            self.name(&format!("entry:{pod}"), &format!("shop_{pod}_{uid}"));
        }
        for container in self.faulty.runtime().all_containers() {
            let (pod, id) = (&container.pod.name, &container.id);
            let name = container.name.as_deref().unwrap_or_default();
            let link = format!("/var/log/containers/{pod}_shop_{name}-{id}.log");
            let known = self.name(&format!("{pod}/{name}/{}", container.attempt), id);
            self.name(&format!("link:{known}"), &link);
            self.name(
                &format!("log:{known}"),
                &self.faulty.runtime().log_path(id).unwrap(),
            );
        }
        for image in self.faulty.runtime().all_images() {
            let tag = image.tags.first().map_or("", |tag| &**tag);
            self.name(&format!("id:{tag}"), &image.id);
            for digest in &image.digests {
                let (repository, _) = digest.split_once('@').unwrap();
                self.name(&format!("digest:{repository}"), digest);
            }
        }
    }

    /// The id or path with a name, or the name itself.
    fn id(&self, name: &str) -> String {
        self.ids.get(name).map_or(name, String::as_str).to_owned()
    }

    /// A text with names in place of ids.
    fn named(&self, text: String) -> String {
        let ids = self.ids.iter();
        ids.fold(text, |text, (name, id)| text.replace(id, &format!("<{name}>")))
    }

    fn perform(&self, operation: &str) -> String {
        let words = Vec::from_iter(operation.split(' '));
        let word = |place: usize| words.get(place).copied().unwrap_or_default();
        let (id, uid) = (self.id(word(1)), Uid::new(&self.id(&format!("uid:{}", word(1)))));
        let number = || word(2).parse().unwrap();
        let (faulty, node) = (&self.faulty, self.faulty.runtime());
        match words[0] {
            "pull" => report(node.pull(&image(word(1), &words))),
            "run" => {
                let container = container("app", word(2), &words);
                done(node.run_pod(&PodSpec::new("shop", word(1)).container(container)))
            }
            "create" => done(node.create_container(&id, &container(word(2), word(3), &words))),
            "start" => done(node.start_container(&id)),
            "exit" => done(node.exit_container(&id)),
            "restart" => done(node.restart_container(&id)),
            "set" => done(node.set_container_state(&id, state(word(2)))),
            "end" => done(node.end_sandbox(&id)),
            "complete" => done(node.complete_pod(&uid)),
            "evict" => done(node.evict_pod(&uid)),
            "delete" => done(node.delete_pod(&uid)),
            "write" => report(node.write_log(&id, number())),
            "insert-entry" => done(node.insert_log_entry(word(1), number())),
            "stop" => done(now(faulty.stop_container(&id, 2))),
            "remove" => done(now(faulty.remove_container(&id))),
            "stop-sandbox" => done(now(faulty.stop_sandbox(&id))),
            "remove-sandbox" => done(now(faulty.remove_sandbox(&id))),
            "remove-image" => done(now(faulty.remove_image(&id, word(2)))),
            "remove-entry" => done(now(faulty.remove_pod_entry(&id))),
            "remove-logs" => done(now(faulty.remove_container_logs(&id))),
            "remove-link" => done(now(faulty.remove_container_link(&id))),
            "image-id" => report(now(faulty.image_id(&id)).map(|found| match found {
                Some(id) => id.to_string(),
                None => "none".to_owned(),
            })),
            "status" => report(now(faulty.container_status(&id)).map(|status| {
                let Some(status) = status else {
                    return "empty".to_owned();
                };
                let volumes = status.image_volumes.iter().map(|id| format!(" {id}"));
                format!("{}{}", status.log_path, String::from_iter(volumes))
            })),
            "die" => {
                faulty.die();
                String::new()
            }
            "revive" => {
                faulty.revive();
                String::new()
            }
            "list-containers" => report(now(faulty.containers()).map(|listed| listed.len())),
            "list-sandboxes" => report(now(faulty.sandboxes()).map(|listed| listed.len())),
            "list-images" => report(now(faulty.images()).map(|listed| listed.len())),
            "list-pods" => report(now(faulty.pods()).map(|pods| pods.known.len())),
            "list-entries" => report(now(faulty.pod_entries()).map(|listed| listed.len())),
            "list-links" => report(now(faulty.container_links()).map(|listed| listed.len())),
            "file-system" => {
                let read = now(faulty.image_file_system());
                report(read.map(|read| format!("{} used", read.used_bytes.unwrap())))
            }
            "created" => {
                let created = node.container(&id).unwrap().created_at;
                created.since(START).as_secs().to_string()
            }
            "handler" => node.container(&id).unwrap().image.runtime_handler.to_string(),
            "forget" => {
                node.forget_pod(&uid);
                String::new()
            }
            "deleted" => {
                node.set_pod(&uid, PodState::DELETED);
                String::new()
            }
            "deleting" => {
                let deleting = PodState {
                    deleted: true,
                    ..PodState::ACTIVE
                };
                node.set_pod(&uid, deleting);
                String::new()
            }
            "insert-link" => {
                node.insert_log_link(word(1), target(word(2)));
                String::new()
            }
            "time" => {
                let seconds: i64 = word(1).parse().unwrap();
                node.clock().set(Timestamp::from_secs(START.as_secs() + seconds));
                String::new()
            }
            listing => self.listing(listing),
        }
    }

    /// Parts in the order of their names.
    fn sorted(&self, parts: impl Iterator<Item = String>) -> String {
        let mut parts = Vec::from_iter(parts.map(|part| self.named(part)));
        parts.sort();
        joined(parts)
    }

    /// What exists, in the order of creation, or of names and paths.
    fn listing(&self, what: &str) -> String {
        let (faulty, node) = (&self.faulty, self.faulty.runtime());
        match what {
            "free" => free(node).to_string(),
            "images" => joined(node.all_images().iter().map(|image| {
                let tags = Vec::from_iter(image.tags.iter().map(|tag| &**tag)).join("+");
                let name = if tags.is_empty() { image.name() } else { &tags };
                let shown = format!("{name} {} {}", image.size_bytes, image.runtime_handler);
                shown.trim_end().to_owned()
            })),
            "digests" => {
                let images = node.all_images();
                joined(
                    images
                        .iter()
                        .flat_map(|image| image.digests.iter().map(ToString::to_string)),
                )
            }
            "containers" => {
                let all = node.all_containers();
                assert_eq!(now(node.containers()).unwrap().len(), all.len());
                joined(all.iter().map(|one| format!("{} {:?}", one.id, one.state)))
            }
            "sandboxes" => {
                let all = node.all_sandboxes();
                assert_eq!(now(node.sandboxes()).unwrap().len(), all.len());
                joined(all.iter().map(|one| format!("{} {:?}", one.id, one.state)))
            }
            "pods" => {
                let known = now(node.pods()).unwrap().known;
                let pods = known.iter().map(|(uid, state)| format!("{uid} {state:?}"));
                self.sorted(pods)
            }
            "entries" => joined(now(node.pod_entries()).unwrap().iter().map(ToString::to_string)),
            "links" => {
                let links = now(node.container_links()).unwrap();
                assert!(links.is_sorted_by_key(|link| link.path.clone()));
                let links = links
                    .iter()
                    .map(|link| format!("{} {:?}", link.path, link.target));
                self.sorted(links)
            }
            "calls" => node.calls().len().to_string(),
            "changes" => node.changes().len().to_string(),
            "dead" => faulty.is_dead().to_string(),
            "injected" => {
                let injected = faulty.injected().into_iter();
                joined(injected.map(|(operation, target, fault)| format!("{operation:?} {target} {fault:?}")))
            }
            "harms" => joined(node.violations().iter().map(ToString::to_string)),
            other => panic!("there is no operation {other}"),
        }
    }
}
