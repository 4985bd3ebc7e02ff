//! Plans of small nodes: texts, missing listings, releases and gates. The recordings contain the rules.
//!
//! The inputs of `plans.txt` are facts and plans. A line that begins with a planner makes the plan of all facts
//! of its input and of those after `with`. Times are in seconds, and `-` is an empty text.
//!
//! | line | meaning |
//! |---|---|
//! | `pod UID STATE`, `sources-not-ready`, `not-synced` | the known pods; a pod is named like its uid |
//! | `container ID UID/NAME CREATED`, `sandbox ID UID CREATED` | an ended one; options are its state and other fields |
//! | `image ID SIZE` | an image; `detected` and `used` are those of its record |
//! | `volume ID`, `sandbox-image ID`, `disk CAPACITY AVAILABLE`, `entry NAME`, `link PATH TARGET` | a link dangles unless stated |
//! | `missing LISTING ERROR` | a listing that failed, or was not requested |
//! | `PLANNER RELEASE OPTIONS at=TIME` | `+GATE` and `-GATE` set a feature gate; `listing` is the order |
//! | `unreadable RELEASE denied`, `dangling RELEASE STATUS` | a log directory, and a link by its container's status |
//! | `reference REFERENCE` | whether it is one to the image |
//! | `running all`, `started since=TIME` | the known pods, with those that are running or started since then |

use std::{fmt::Display, sync::Arc};

use kubegc_core::{
    Plan, Planner, RuntimeError, Timestamp, Uid,
    node_facts::{
        ContainerImage, ContainerState, ContainerStatus, Image, LogLink, LogTarget, PodState, Pods,
        SandboxState, annotation, label,
    },
};
use kubegc_fixtures::check_transcript;
use kubegc_node::{
    Inventory, Listing, Order, Semantics, Unlisted,
    container::{EvictUnits, Limits, Mode},
    driver::{add_created_since, add_running, is_reference_to},
    image::{Arithmetic, FreeSpace, Record, Task, Thresholds},
    log::EvictLogs,
    sandbox::EvictSandboxes,
};

use crate::{
    words::Words,
    world::{EVICTED, at, dead, empty, file_system, image, image_run, record, sandbox, seconds, version},
};

const PLANNERS: [&str; 9] = [
    "containers ",
    "sandboxes ",
    "logs ",
    "images ",
    "running ",
    "started ",
    "unreadable ",
    "dangling ",
    "reference ",
];

const STATES: [(&str, PodState); 5] = [
    ("active", PodState::ACTIVE),
    ("completed", PodState::COMPLETED),
    ("deleted", PodState::DELETED),
    ("evicted", EVICTED),
    (
        "deleting",
        PodState {
            deleted: true,
            ..PodState::ACTIVE
        },
    ),
];

#[test]
fn nodes_have_these_plans() {
    check_transcript("tests/plans.txt", |input| {
        let is_plan = |line: &&str| PLANNERS.iter().any(|planner| line.starts_with(planner));
        let (plans, facts): (Vec<&str>, Vec<&str>) = input.lines().partition(is_plan);
        let plans: Vec<String> = plans.iter().map(|line| plan(&facts, line)).collect();
        plans.join("\n")
    });
}

/// The behavior of a release with the gates of a line.
pub(crate) fn semantics(words: &Words<'_>, release: &str) -> Semantics {
    let gates = words.0.iter().filter_map(|word| {
        let gate = word.strip_prefix(['+', '-'])?;
        Some((gate.to_owned(), word.starts_with('+')))
    });
    Semantics::with_gates(version(release), &gates.collect())
}

fn push<T>(listing: &mut Listing<Vec<T>>, one: T) {
    listing.as_mut().expect("it is not missing").push(one);
}

/// Adds a fact to a node, or its record.
fn add(node: &mut Inventory, records: &mut Vec<Record>, fact: &Words<'_>) {
    let option = |key: &str| Arc::<str>::from(fact.option(key).unwrap_or_default());
    match fact.0[0] {
        "pod" => {
            let state = STATES.iter().find(|(name, _)| *name == fact.0[2]);
            let (_, state) = *state.expect("a state of pods");
            node.pods.known.insert(Uid::new(fact.text(1)), state);
        }
        "sources-not-ready" => node.pods.sources_ready = false,
        "not-synced" => node.pods.synced = false,
        "container" => {
            let (uid, name) = fact.0[2].split_once('/').expect("a pod and a name");
            let mut container = dead(fact.text(1), uid, name, fact.number_at(3));
            for (word, state) in [
                ("created", ContainerState::Created),
                ("running", ContainerState::Running),
                ("unknown", ContainerState::Unknown),
            ] {
                if fact.has(word) {
                    container.state = state;
                }
            }
            container.sandbox_id = option("sandbox");
            container.image = ContainerImage {
                reference: option("image"),
                id: option("image-id"),
                runtime_handler: option("handler"),
            };
            for (key, option) in [
                (annotation::DELETION_GRACE_PERIOD, "deletion"),
                (annotation::TERMINATION_GRACE_PERIOD, "termination"),
            ] {
                let grace = fact.option(option);
                container
                    .annotations
                    .extend(grace.map(|grace| (key.into(), grace.into())));
            }
            push(&mut node.containers, Arc::new(container));
        }
        "sandbox" => {
            let state = if fact.has("ready") {
                SandboxState::Ready
            } else {
                SandboxState::NotReady
            };
            let mut sandbox = sandbox(fact.text(1), fact.text(2), state, fact.number_at(3));
            let uid = fact.option("label");
            sandbox
                .labels
                .extend(uid.map(|uid| (label::POD_UID.into(), uid.into())));
            push(&mut node.sandboxes, Arc::new(sandbox));
        }
        "image" => {
            let (detected, used) = (fact.number("detected"), fact.number("used"));
            if detected.or(used).is_some() {
                records.push(record(fact.text(1), detected, used));
            }
            let image = Image {
                pinned: fact.has("pinned"),
                runtime_handler: option("handler"),
                tags: fact.option("tag").into_iter().map(Arc::from).collect(),
                digests: fact.option("digest").into_iter().map(Arc::from).collect(),
                ..image(fact.text(1), fact.number_at(2))
            };
            push(&mut node.images, Arc::new(image));
        }
        "volume" => push(&mut node.image_volumes, fact.text(1).into()),
        "sandbox-image" => node.sandbox_image = Some(fact.text(1).into()),
        "disk" => node.image_file_system = Ok(file_system(fact.number_at(1), fact.number_at(2))),
        "entry" => push(&mut node.log_entries, fact.text(1).into()),
        "no-start" => node.image_gc_began_at = Inventory::default().image_gc_began_at,
        "link" => push(
            &mut node.log_links,
            LogLink {
                path: fact.0[1].into(),
                target: match fact.0.get(2) {
                    Some(&"exists") => LogTarget::Exists,
                    Some(_) => LogTarget::Unknown,
                    None => LogTarget::Missing,
                },
            },
        ),
        "missing" => {
            let why = match &fact.0[2..] {
                [] => Unlisted::NotRequested,
                error => Unlisted::Failed(RuntimeError::refused(error.join(" "))),
            };
            match fact.0[1] {
                "containers" => node.containers = Err(why),
                "sandboxes" => node.sandboxes = Err(why),
                "volumes" => node.image_volumes = Err(why),
                "disk" => node.image_file_system = Err(why),
                "entries" => node.log_entries = Err(why),
                other => panic!("there is no listing {other}"),
            }
        }
        other => panic!("there is no fact {other}"),
    }
}

/// The plan of a line, in one line.
fn plan(facts: &[&str], line: &str) -> String {
    let (line, more) = line.split_once(" with ").unwrap_or((line, ""));
    let words = Words::new(line);
    let (mut node, mut records) = (empty(), Vec::new());
    node.image_gc_began_at = at(words.number("began").unwrap_or(0));
    let more = more.split("; ").filter(|fact| !fact.is_empty());
    for fact in facts.iter().copied().chain(more) {
        add(&mut node, &mut records, &Words::new(fact));
    }
    if !records.is_empty() {
        node.image_records = records.into_iter().collect();
    }
    if words.0[0] == "reference" {
        let image = &node.images.expect("listed")[0];
        return is_reference_to(words.text(1), image).to_string();
    }
    if let "running" | "started" = words.0[0] {
        return known_pods(&words, node);
    }
    let semantics = semantics(&words, words.0[1]);
    if let "unreadable" | "dangling" = words.0[0] {
        let order = Order::Total;
        return log(&words, &EvictLogs { semantics, order });
    }
    let order = if words.has("listing") {
        Order::Listing
    } else {
        Order::Total
    };
    let mode = if words.has("forced") {
        Mode::Forced
    } else {
        Mode::Periodic
    };
    let now = at(words.number("at").unwrap_or(9));
    let parts = match words.0[0] {
        "containers" => {
            let limits = Limits {
                age_min: seconds(words.number("age").unwrap_or(0)),
                per_unit_max: words.number("per-unit"),
                node_max: words.number("node"),
            };
            let policy = EvictUnits::new(limits, semantics).expect("valid limits");
            let plan = EvictUnits {
                mode,
                order,
                ..policy
            }
            .plan(&node, now);
            let mut parts = shown(&plan);
            if words.has("summary") {
                parts.push(format!("{:?}", plan.summary));
            }
            parts
        }
        "sandboxes" => {
            let policy = EvictSandboxes {
                semantics,
                mode,
                order,
            };
            shown(&policy.plan(&node, now))
        }
        "logs" => shown(&EvictLogs { semantics, order }.plan(&node, now)),
        _ => images(&words, semantics, node, now),
    };
    if parts.is_empty() {
        return "nothing".to_owned();
    }
    parts.join("; ")
}

/// The pods that are known, with those that run or started since a time.
fn known_pods(words: &Words<'_>, mut node: Inventory) -> String {
    let containers = node.containers.expect("listed");
    let sandboxes = node.sandboxes.expect("listed");
    match words.number("since") {
        Some(since) => add_created_since(&mut node.pods, &containers, &sandboxes, at(since)),
        None => add_running(&mut node.pods, &containers, &sandboxes),
    }
    let Pods {
        known,
        sources_ready,
        synced,
    } = &node.pods;
    let mut shown = format!("ready {sources_ready}, synced {synced}");
    for (uid, state) in known {
        let name = STATES.iter().find(|(_, named)| named == state);
        let (name, _) = name.expect("a state with a name");
        shown.push_str(&format!(", {uid:?} {name}"));
    }
    shown
}

/// The text of an unreadable directory, or the decision about a dangling link by its container's status.
fn log(words: &Words<'_>, policy: &EvictLogs) -> String {
    let state = match words.0[2] {
        "denied" => return policy.unreadable_text("/var/log/pods", &RuntimeError::refused("denied")),
        "not-found" => Err(RuntimeError::NotFound),
        "refused" => Err(RuntimeError::refused("busy")),
        "lost" => Err(RuntimeError::unknown("lost")),
        "created" => Ok(Some(ContainerState::Created)),
        "running" => Ok(Some(ContainerState::Running)),
        "unknown" => Ok(Some(ContainerState::Unknown)),
        "exited" => Ok(Some(ContainerState::Exited)),
        _ => Ok(None),
    };
    let status = |state| ContainerStatus {
        state,
        log_path: "".into(),
        image_volumes: Vec::new(),
    };
    let decision = policy.link(&state.map(|state| state.map(status)));
    decision.map_or_else(|reason| reason.to_string(), |()| "removed".to_owned())
}

/// Actions, kept objects, findings, and the time of the next change, in which `+` is a nanosecond.
pub(crate) fn shown<A: Display, O: Display, R: Display, S>(plan: &Plan<A, O, R, S>) -> Vec<String> {
    let mut parts: Vec<String> = plan.actions.iter().map(ToString::to_string).collect();
    for (word, entries) in [("keep", &plan.kept), ("found", &plan.findings)] {
        let entries = entries
            .iter()
            .map(|entry| format!("{word} {}: {}", entry.object, entry.reason));
        parts.extend(entries);
    }
    parts.extend(plan.next_at.map(|next| {
        let later = if next == at(next.as_secs()) { "" } else { "+" };
        format!("next at {}{later}", next.as_secs())
    }));
    parts
}

/// An image run, in which the removal of one image can fail.
fn images(words: &Words<'_>, semantics: Semantics, mut node: Inventory, now: Timestamp) -> Vec<String> {
    let default = Thresholds::default();
    let thresholds = Thresholds {
        high_percent: words.number("high").unwrap_or(default.high_percent),
        low_percent: words.number("low").unwrap_or(default.low_percent),
        age_min: words.number("min").map_or(default.age_min, seconds),
        age_max: words.number("max").map_or(default.age_max, seconds),
    };
    let arithmetic = if words.has("upstream") {
        Arithmetic::Upstream
    } else {
        Arithmetic::Checked
    };
    let policy = FreeSpace::new(thresholds, semantics).expect("valid thresholds");
    if let Some(first) = words.number("detected") {
        let detects = FreeSpace {
            task: Task::Detect,
            ..policy
        };
        let detection = detects.plan(&node, at(first));
        node.image_records = detection.summary.records;
    }
    let task = match words.0[2] {
        "collect" => Task::Collect,
        "detect" => Task::Detect,
        _ => Task::DeleteUnused,
    };
    let policy = FreeSpace {
        arithmetic,
        task,
        ..policy
    };
    let listed = words.number("listed").map_or(now, at);
    let remove = |image: &Image| {
        if words.option("fails") == Some(&*image.id) {
            return Err(RuntimeError::refused("it is busy"));
        }
        Ok(())
    };
    let plan = image_run(policy, &node, [now, listed], remove);
    let mut parts = shown(&plan);
    let summary = &plan.summary;
    let handlers = plan.actions.iter().map(|action| &*action.runtime_handler);
    let handlers = handlers.filter(|handler| !handler.is_empty());
    parts.extend(handlers.map(|handler| format!("handler {handler}")));
    parts.extend(summary.usage_percent.map(|percent| format!("usage {percent}%")));
    let error = summary.error.as_ref().map(ToString::to_string);
    parts.extend(error.iter().map(|error| format!("error {error}")));
    for event in &summary.events {
        let message = if Some(&event.message) == error.as_ref() {
            "the error"
        } else {
            event.message.as_str()
        };
        parts.push(format!("{} {}: {message}", event.kind, event.reason));
    }
    if let Some(hook) = &summary.hook {
        assert_eq!(hook.began_at, now);
        parts.push(format!("hook after {:?}", hook.remaining));
    }
    if task == Task::Detect {
        let time = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| time.as_secs().to_string());
        parts.extend(summary.records.iter().map(|record| {
            let (detected, used) = (time(record.first_detected), time(record.last_used));
            format!("record {} detected {detected} used {used}", record.key)
        }));
    }
    parts
}
