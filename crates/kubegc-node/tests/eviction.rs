//! The reclaim of a node under pressure, and its decision.
//!
//! The inputs of `eviction.txt` are settings and operations. Each operation is about all settings of its input
//! and those after `with`. Several releases have one outcome. A measurement is `SIGNAL=AVAILABLE/CAPACITY@TIME`;
//! the capacity is 100Gi and the time that of the operation unless stated, and `@-` is no time.
//!
//! | line | meaning |
//! |---|---|
//! | `hard SIGNAL AMOUNT`, `soft SIGNAL AMOUNT`, `grace SIGNAL SECONDS`, `reclaim SIGNAL AMOUNT` | settings |
//! | `thresholds RELEASE`, `effective RELEASE LAYOUT` | the configured thresholds, and those of a layout |
//! | `signals RELEASE` | the resource and the condition of every signal |
//! | `functions RELEASE LAYOUT`, `measure RELEASE ROLE` | reclaim functions; 10 of 100 bytes, 5 of 50 inodes |
//! | `layout RELEASE images=DEDICATED containers=SEPARATE`, `mounts RELEASE DEVICES MOUNTS` | file systems |
//! | `met RELEASE MEASUREMENT` | whether the first threshold is met |
//! | `first RELEASE LAYOUT MEASUREMENTS`, `next ...` | a sync, without and with the history of the line before |
//! | `decide RELEASE MEASUREMENTS` | the decision after a reclaim of nodefs.available |

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::{KubernetesVersion, Planner, Timestamp, node_facts::FileSystem};
use kubegc_fixtures::check_transcript;
use kubegc_node::{
    GoDuration, PolicySpec, Semantics,
    eviction::{
        Decision, EvictionReason, FileSystemRole, FileSystems, Function, History, Layout, MinimumReclaim,
        Observation, Observations, Pressure, Signal, Thresholds, reclaim_functions,
    },
};
use proptest::prelude::*;

use crate::{
    plans::{semantics as semantics_of, shown},
    words::Words,
    world::at,
};

mod laws;

const LAYOUTS: [Layout; 3] = [Layout::Single, Layout::DedicatedImages, Layout::Split];
const SETTINGS: [&str; 4] = ["hard ", "soft ", "grace ", "reclaim "];

fn semantics(minor: u16) -> Semantics {
    Semantics::new(KubernetesVersion::new(minor, 0).expect("a version that is known"))
}

#[test]
fn settings_and_measurements_have_these_outcomes() {
    check_transcript("tests/eviction.txt", |input| {
        let is_setting = |line: &&str| SETTINGS.iter().any(|setting| line.starts_with(setting));
        let (settings, operations): (Vec<&str>, Vec<&str>) = input.lines().partition(is_setting);
        let mut history = History::default();
        let outcomes = operations
            .iter()
            .map(|line| outcome(&settings, line, &mut history));
        outcomes.collect::<Vec<_>>().join("\n")
    });
}

/// The outcome of an operation in all its releases, or their outcomes if these differ.
fn outcome(settings: &[&str], line: &str, history: &mut History) -> String {
    let (line, more) = line.split_once(" with ").unwrap_or((line, ""));
    let mut spec = PolicySpec {
        eviction_hard: BTreeMap::new(),
        ..PolicySpec::default()
    };
    let more = more.split("; ").filter(|setting| !setting.is_empty());
    for setting in settings.iter().copied().chain(more) {
        let setting = Words::new(setting);
        let (signal, value) = (setting.0[1].to_owned(), setting.0[2].to_owned());
        match setting.0[0] {
            "hard" => spec.eviction_hard.insert(signal, value),
            "soft" => spec.eviction_soft.insert(signal, value),
            "reclaim" => spec.eviction_minimum_reclaim.insert(signal, value),
            _ => {
                let grace = GoDuration::from_secs(setting.number_at(2));
                spec.eviction_soft_grace_period.insert(signal, grace);
                None
            }
        };
    }
    let words = Words::new(line);
    let releases = words.0[1].split(',');
    let outcomes: BTreeSet<String> = releases
        .map(|release| of_release(&words, &spec, semantics_of(&words, release), history))
        .collect();
    outcomes.into_iter().collect::<Vec<_>>().join(" | ")
}

fn of_release(words: &Words<'_>, spec: &PolicySpec, semantics: Semantics, history: &mut History) -> String {
    let thresholds = match Thresholds::new(spec, semantics) {
        Ok(thresholds) => thresholds,
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return format!("refused: {}", errors.join("; "));
        }
    };
    let layout = if words.has("dedicated") {
        Layout::DedicatedImages
    } else if words.has("split") {
        Layout::Split
    } else {
        Layout::Single
    };
    let now = at(words.number("at").unwrap_or(1));
    let observations = observations(words, now);
    let mut parts: Vec<String> = Vec::new();
    match words.0[0] {
        "thresholds" => {
            for threshold in thresholds.configured() {
                let reclaim = threshold.minimum_reclaim;
                let reclaim = reclaim.map_or(String::new(), |amount| format!(" and {amount}"));
                parts.push(format!("{threshold}{reclaim}"));
            }
            let disabled = thresholds.disabled().iter();
            parts.extend(disabled.map(|field| format!("disabled {field}")));
        }
        "effective" => parts.extend(thresholds.effective(layout).iter().map(ToString::to_string)),
        "signals" => {
            for signal in Signal::ALL {
                let known = signal.resource(semantics).zip(signal.condition(semantics));
                let known = known.map(|(resource, condition)| format!("{resource} {condition}"));
                parts.push(format!("{signal}: {}", known.as_deref().unwrap_or("none")));
            }
        }
        "functions" => {
            for signal in Signal::ALL {
                if let Some(functions) = reclaim_functions(*signal, layout, semantics) {
                    let names: Vec<&str> = functions.iter().map(|function| function.as_str()).collect();
                    parts.push(format!("{signal}: {}", names.join(" and ")));
                }
            }
        }
        "measure" => {
            let role = match words.0[2] {
                "node" => FileSystemRole::Node,
                "images" => FileSystemRole::Images,
                _ => FileSystemRole::Containers,
            };
            let measured = FileSystem {
                capacity_bytes: Some(100),
                available_bytes: Some(10),
                inodes: Some(50).filter(|_| !words.has("no-inodes")),
                inodes_free: Some(5),
                ..FileSystem::default()
            };
            for (signal, observation) in role.observations(&measured, Some(now)) {
                assert_eq!(observation.at, Some(now));
                parts.push(format!(
                    "{signal} {}/{}",
                    observation.available, observation.capacity
                ));
            }
        }
        "layout" => {
            let flag = |key: &str| words.number::<bool>(key);
            let facts = FileSystems {
                images_are_dedicated: flag("images").ok_or_else(|| "no such device".to_owned()),
                containers_are_separate: flag("containers"),
            };
            let layout = Layout::new(&facts, semantics);
            parts.push(layout.map_or_else(|error| error.to_string(), |layout| layout.to_string()));
        }
        "mounts" => {
            let [root, image, images, containers] =
                [2, 3, 4, 5].map(|at| Some(words.text(at)).filter(|text| !text.is_empty()));
            let facts = FileSystems::from_mount_points(root, image, images, containers);
            parts.push(format!("{facts:?}"));
        }
        "met" => {
            let met = thresholds.configured()[0].is_met(&observations, MinimumReclaim::Ignored);
            parts.push(format!("{met:?}"));
        }
        "decide" => {
            let measured = if words.has("failed") {
                Err("no stats".to_owned())
            } else {
                Ok((observations, now))
            };
            let (decision, found) = thresholds.decide(layout, Signal::NodeFsAvailable, measured);
            match decision {
                Decision::NoEviction => parts.push("no eviction".to_owned()),
                Decision::EvictPod { reason, still_met } => {
                    parts.push(reason.to_string());
                    parts.extend(still_met.iter().map(ToString::to_string));
                }
            }
            parts.extend(
                found
                    .iter()
                    .map(|found| format!("found {}: {}", found.object, found.reason)),
            );
        }
        operation => {
            if operation == "first" {
                *history = History::default();
            }
            let facts = Pressure {
                layout,
                observations,
                history: std::mem::take(history),
            };
            let plan = thresholds.plan(&facts, now);
            parts.extend(shown(&plan));
            if let Some(event) = plan.summary.trigger.map(|trigger| trigger.event()) {
                parts.push(format!("{} {}: {}", event.kind, event.reason, event.message));
            }
            parts.extend(plan.summary.conditions.iter().map(ToString::to_string));
            *history = plan.summary.history;
        }
    }
    parts.join("; ")
}

fn observations(words: &Words<'_>, now: Timestamp) -> Observations {
    let amount = |text: &str| match text.strip_suffix("Gi") {
        Some(number) => number.parse::<u64>().expect("a number") << 30,
        None => text.parse().expect("a number"),
    };
    let of_word = |word: &&str| {
        let (signal, value) = word.split_once('=')?;
        let (value, at) = match value.split_once('@') {
            Some((value, time)) => (value, time.parse().ok().map(at)),
            None => (value, Some(now)),
        };
        let (available, capacity) = value.split_once('/').unwrap_or((value, "100Gi"));
        let signal: Signal = signal.parse().ok()?;
        let observation = Observation {
            available: amount(available),
            capacity: amount(capacity),
            at,
        };
        Some((signal, observation))
    };
    words.0.iter().filter_map(of_word).collect()
}
