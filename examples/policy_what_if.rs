//! What would another policy have done to this node? Two weeks of work under two policies, side by side.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example policy_what_if -- --svg disk.svg
//! ```
//!
//! One simulated node is forked. Both forks have the same events (`src/fortnight.rs`), and the driver
//! collects at a kubelet's periods. The second policy has the `--change`s. Prints
//! `expected/policy_what_if.txt`; `--svg` draws the usage of the disk.
#![expect(clippy::print_stdout, reason = "an example")]

use std::{cell::RefCell, error::Error, future::pending, path::PathBuf, pin::pin, time::Duration};

use clap::Parser;
use kubegc::{
    core::{Clock as _, KubernetesVersion, Timestamp},
    node::{
        Environment, Node, Policy, PolicySpec,
        driver::{Outcome, Report, Settings},
        image,
    },
    predict::node::Change,
    sim::SimClock,
};
use kubegc_examples::{
    fortnight::{DAYS, Fortnight, hour_of},
    plot::{BLUE, Level, ORANGE, Plot, RED, Series},
    simulated::run_until,
};

/// Runs two weeks of one node under two policies.
#[derive(Parser)]
struct Arguments {
    /// Changes of the second policy to upstream's defaults.
    #[arg(long, value_name = "SETTING=VALUE", default_values = ["imageGCHighThresholdPercent=70", "imageGCLowThresholdPercent=65", "imageMaximumGCAge=60h"])]
    change: Vec<Change>,
    /// The file for a plot of the disk usage.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// One day: the highest usage of the disk, and the images that were removed and pulled again, with their
/// bytes.
#[derive(Clone, Copy, Default)]
struct Day {
    used_percent: f64,
    removed: (usize, u64),
    pulled_again: (usize, u64),
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let mut first = PolicySpec::default();
    // Eviction well above image collection: upstream's defaults begin at the same usage.
    first
        .eviction_hard
        .insert("imagefs.available".to_owned(), "10%".to_owned());
    let second = arguments
        .change
        .iter()
        .fold(first.clone(), |spec, change| change.apply(&spec));
    let start = Timestamp::parse("2026-02-02T00:00:00Z")?;
    let fortnight = Fortnight::new(SimClock::new(start));
    let mut runs = Vec::new();
    for (name, spec, colour) in [("first", &first, BLUE), ("second", &second, ORANGE)] {
        let policy = Policy::new(spec, KubernetesVersion::LATEST)?;
        println!("{name:<6} policy: images are removed {}", words(&policy));
        let clock = SimClock::new(start);
        let (days, points) = run(fortnight.fork(clock.clone()), &clock, &policy)?;
        runs.push((
            days,
            Series {
                name: format!("{name}: {}", words(&policy)),
                colour,
                points,
            },
            policy,
        ));
    }
    let head = format!(
        "{:>8} {:>8} {:>9} {:>7} {:>9}",
        "disk", "removed", "freed", "again", "pulled"
    );
    println!("\n{:26}{:<49}second policy", "", "first policy");
    println!("{:>5}{head}    {head}", "day");
    for day in 0..DAYS as usize {
        let [first, second] = [&runs[0].0[day], &runs[1].0[day]].map(row);
        println!("{:>5}{first}    {second}", day + 1);
    }
    let [first, second] = [&runs[0].0, &runs[1].0].map(|days| row(&days.iter().fold(Day::default(), sum)));
    println!("{:>5}{first}    {second}", "all");
    if let Some(path) = arguments.svg {
        let mut levels = vec![Level {
            name: "pods are evicted".to_owned(),
            colour: RED,
            percent: 90.0,
        }];
        levels.extend(runs.iter().map(|(_, series, policy)| Level {
            name: "images removed".to_owned(),
            colour: series.colour,
            percent: policy.image.thresholds.high_percent.into(),
        }));
        let title = "One node, two weeks, two policies".to_owned();
        let series = runs.into_iter().map(|run| run.1).collect();
        std::fs::write(
            path,
            Plot {
                title,
                days: DAYS,
                series,
                levels,
            }
            .to_svg(),
        )?;
    }
    Ok(())
}

/// Days and percents.
type Points = Vec<(f64, f64)>;

/// Two weeks under one policy: the summary of each day, and the disk usage at each hour.
fn run(
    mut fortnight: Fortnight,
    clock: &SimClock,
    policy: &Policy,
) -> Result<(Vec<Day>, Points), Box<dyn Error>> {
    let (start, node) = (clock.now(), fortnight.node().clone());
    let world = Environment {
        runtime: &node,
        logs: Some(&node),
        pods: &node,
        clock,
    };
    let removed = RefCell::new(0);
    let mut kubelet = Node::new(world, Settings::from(policy));
    let mut kubelet = pin!(kubelet.run(pending(), |report| {
        if let Report::Images(report) = report {
            let done = report
                .performed
                .iter()
                .filter(|performed| performed.outcome == Outcome::Done);
            *removed.borrow_mut() += done.count();
        }
    }));
    let (mut days, mut points) = (Vec::new(), Vec::new());
    for hour in 0..24 * DAYS {
        if hour % 24 == 0 {
            days.push(Day::default());
        }
        fortnight.work(hour)?;
        let (used_percent, layers) = (fortnight.used_percent(), fortnight.layers_bytes());
        points.push((f64::from(hour) / 24.0, used_percent));
        for minute in 1..=60 {
            fortnight.write_minute(minute)?;
            let until = hour_of(start, hour).saturating_add(Duration::from_secs(60 * minute));
            run_until(clock, kubelet.as_mut(), until);
        }
        // The record of calls is not used here.
        drop(node.take_calls());
        let pulled_again: u64 = fortnight.pulled_again.iter().sum();
        let of_hour = Day {
            used_percent,
            // The freed bytes: layers that are shared with other images stay.
            removed: (removed.take(), layers - fortnight.layers_bytes()),
            pulled_again: (fortnight.pulled_again.drain(..).count(), pulled_again),
        };
        let today = days.pop().unwrap_or_default();
        days.push(sum(today, &of_hour));
    }
    assert!(node.violations().is_empty(), "nothing in use was removed");
    Ok((days, points))
}

fn sum(one: Day, other: &Day) -> Day {
    let add = |a: (usize, u64), b: (usize, u64)| (a.0 + b.0, a.1 + b.1);
    Day {
        used_percent: one.used_percent.max(other.used_percent),
        removed: add(one.removed, other.removed),
        pulled_again: add(one.pulled_again, other.pulled_again),
    }
}

fn row(day: &Day) -> String {
    let images = |(count, bytes): (usize, u64)| match count {
        0 => format!("{:>7} {:>9}", "-", "-"),
        _ => format!("{count:>7} {:>6.1} GB", bytes as f64 / 1e9),
    };
    format!(
        "{:>6.1} %  {} {}",
        day.used_percent,
        images(day.removed),
        images(day.pulled_again)
    )
}

fn words(policy: &Policy) -> String {
    let image::Thresholds {
        high_percent,
        low_percent,
        age_max,
        ..
    } = &policy.image.thresholds;
    let age = match age_max.as_nanos() {
        0 => String::new(),
        _ => format!(", or after {age_max} unused"),
    };
    format!("from {high_percent} % on, down to {low_percent} %{age}")
}
