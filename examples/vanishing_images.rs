//! Why did images vanish that had just been pulled? The kubelet restarted, and up to 1.28 it then considers
//! every image infinitely old.
//!
//! `cargo run -p kubegc-examples --example vanishing_images`
//!
//! Images are pulled ahead of a rollout on a full disk, `imageMinimumGCAge` keeps them for 20 minutes, and
//! the kubelet restarts. Up to 1.28 its first image detection records no time, so the next image collection
//! removes them (kubernetes #119642); from 1.29 on it records the present, and they stay. Prints
//! `expected/vanishing_images.txt`.
#![expect(clippy::print_stdout, reason = "an example")]

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
};

use kubegc::{
    core::{RuntimeError, Timestamp},
    node::{
        Environment, Node, Policy, PolicySpec,
        driver::{ImagesReport, NodeAction, Outcome, Settings},
        image::{Action, Reason, Records, Subject},
    },
    sim::{
        ContainerSpec, FaultyRuntime, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode,
        runtime::{Fault, FaultPlan, Operation, Rule},
    },
};
use kubegc_examples::simulated::at_once;

const ROLLOUT: [&str; 3] = ["cart:2", "search:2", "web:2"];
const GB: u64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let [old, new] = [timeline("1.28")?, timeline("1.29")?];
    println!("       {:<56}Kubernetes 1.29", "Kubernetes 1.28");
    for ((time, old), (_, new)) in old.iter().zip(&new) {
        for line in 0..old.len().max(new.len()) {
            let time = if line == 0 { *time } else { "" };
            let side = |lines: &[String]| lines.get(line).cloned().unwrap_or_default();
            println!(
                "{}",
                format!("{time:<7}{:<56}{}", side(old), side(new)).trim_end()
            );
        }
    }
    Ok(())
}

/// The events, by time of day.
type Timeline = Vec<(&'static str, Vec<String>)>;

fn timeline(version: &str) -> Result<Timeline, Box<dyn Error>> {
    let spec = PolicySpec {
        image_minimum_gc_age: "20m".parse()?,
        ..PolicySpec::default()
    };
    let settings = Settings::from(&Policy::new(&spec, version.parse()?)?);
    let at = |time: &str| Timestamp::parse(&format!("2026-03-01T{time}:00Z"));
    let clock = SimClock::new(at("09:00")?);
    let disk = NodeSettings {
        capacity_bytes: 100 * GB,
        ..NodeSettings::default()
    };
    let node = SimNode::new(clock.clone(), disk);
    node.fill(76 * GB);
    node.pull(&ImageSpec::new("web:1").layer("web 1", 3 * GB))?;
    node.run_pod(&PodSpec::new("shop", "web").container(ContainerSpec::new("web", "web:1")))?;
    let (runtime, logs, pods) = (&node, Some(&node as _), &node);
    let world = Environment {
        runtime,
        logs,
        pods,
        clock: &clock,
    };
    let mut kubelet = Node::new(world, settings.clone());
    at_once(kubelet.detect_images());
    let mut reported = Vec::new();

    clock.set(at("09:50")?);
    for tag in ROLLOUT {
        node.pull(&ImageSpec::new(tag).layer(tag, 3 * GB))?;
    }
    reported.push(("09:50", vec![format!("pulled {}", ROLLOUT.join(", "))]));
    clock.set(at("09:55")?);
    reported.push(("09:55", pass(&mut kubelet)));

    // The restarted kubelet has no records. Its first run is too early: the disk has not been measured yet.
    clock.set(at("09:58")?);
    let early = Fault::Refuse(RuntimeError::refused("no stats of the image file system yet"));
    let mut faults = FaultPlan::default();
    faults.rules.push(Rule {
        times: 1,
        ..Rule::always(Operation::ImageFileSystem, early)
    });
    let runtime = FaultyRuntime::new(node.clone(), faults);
    let mut kubelet = Node::new(
        Environment {
            runtime: &runtime,
            ..world
        },
        settings,
    );
    let mut lines = vec!["the kubelet restarts and remembers no image".to_owned()];
    lines.extend(pass(&mut kubelet));
    at_once(kubelet.detect_images());
    let image = node.image(ROLLOUT[0]).ok_or("it was pulled")?;
    let seen = first_detected(kubelet.records(), &image.id);
    lines.push(format!("first look at images: first detected {seen}"));
    reported.push(("09:58", lines));
    clock.set(at("10:03")?);
    reported.push(("10:03", pass(&mut kubelet)));

    clock.set(at("10:10")?);
    let there = ROLLOUT.iter().filter(|tag| node.image(tag).is_some()).count();
    reported.push((
        "10:10",
        vec![format!(
            "the rollout finds {there} of its {} images",
            ROLLOUT.len()
        )],
    ));
    Ok(reported)
}

/// Runs an image collection. Returns the removed and the kept unused images, with the reasons.
fn pass(kubelet: &mut Node<'_>) -> Vec<String> {
    let records = kubelet.records().clone();
    let ImagesReport { plan, performed, .. } = at_once(kubelet.collect_images());
    let Some(usage) = plan.summary.usage_percent else {
        let error = plan.summary.error.map(|error| error.to_string());
        return vec![format!("image pass: {}", error.unwrap_or_default())];
    };
    let mut images: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for done in performed
        .iter()
        .filter(|performed| performed.outcome == Outcome::Done)
    {
        if let NodeAction::Image(Action { image, .. }) = &done.action {
            let why = format!("removed: first detected {}", first_detected(&records, &image.id));
            images.entry(why).or_default().insert(image.name());
        }
    }
    for kept in &plan.kept {
        if let (Subject::Image(image), Reason::TooYoung { .. }) = (&kept.object, &kept.reason) {
            let why = format!("stay: {}", kept.reason);
            images.entry(why).or_default().insert(image.name());
        }
    }
    let mut lines = vec![format!("image pass: {usage} % of the disk is in use")];
    for (why, images) in images {
        lines.push(format!("  {}", Vec::from_iter(images).join(", ")));
        lines.push(format!("    {why}"));
    }
    lines
}

fn first_detected(records: &Records, id: &str) -> String {
    let at = records.get(id).and_then(|record| record.first_detected);
    at.map_or("before all times".to_owned(), |at| {
        format!("at {}", &at.to_string()[11..16])
    })
}
