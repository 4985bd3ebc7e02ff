//! How fast is kubegc, beside upstream and beside plain memory?
//!
//! Prints one table, in nanoseconds an item: medians of several runs in one thread. Upstream's figures were
//! measured on another machine and are not scaled to this one, so such a ratio is a hint. A yardstick is
//! measured in the same run. Files of `kubectl get -o json` or `-o yaml` are read in addition.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example figures -- --size 1000000 dump.json dump.yaml
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a command line tool that measures"
)]

use std::{
    error::Error,
    fs::File,
    hint::black_box,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use clap::Parser;
use kubegc::{
    core::{KubernetesVersion, Planner as _},
    node::{
        GoDuration, Semantics,
        container::{self, Limits},
        image::{self, Task, Thresholds},
    },
    objects::{
        Graph, WatchEvent,
        graph::{Event, Listed, Observed},
        settings,
    },
    snapshot::Reader,
};
use kubegc_benches::{
    arrays::Arrays,
    cluster,
    collector::{collect, collector, watch},
    dump::Dump,
    nodes::{NOW, containers, images},
    shapes::{self, Random, fan_out},
};
use serde::de::IgnoredAny;

/// Measures kubegc and prints a table.
#[derive(Parser)]
struct Arguments {
    /// Number of objects, containers and images.
    #[arg(long, default_value_t = 100_000)]
    size: usize,
    /// Runs of each measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// One run of 1,000 items: whether it runs at all.
    #[arg(long, conflicts_with_all = ["size", "runs"])]
    quick: bool,
    /// Files of `kubectl get -o json` or `-o yaml`.
    paths: Vec<PathBuf>,
}

/// What a figure is compared with.
enum Limit {
    /// Upstream's Go code on another machine, if it was measured at this size.
    Upstream(Option<f64>),
    Yardstick(&'static str, f64),
}

const BUFFER_BYTES: usize = 1 << 18;

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments {
        size,
        runs,
        quick,
        paths,
    } = Arguments::parse();
    let (size, runs) = if quick { (1_000, 1) } else { (size, runs) };
    println!("{size} items, ns an item (of dumps: ns a byte), median of {runs}.");
    println!("Upstream's figures are from another machine and not scaled to this one.\n");
    println!(
        "{:34} {:>9}  {:24} {:>9} {:>6} {:>5}",
        "work", "ours", "beside", "figure", "ratio", "goal"
    );
    graph(size, runs);
    cascade(size, runs);
    closure(size, runs);
    nodes(size, runs);
    reading(size, runs, &paths)
}

/// The median time of an item. The input of each run is prepared and its output dropped outside of the
/// measurement.
fn time<I, O>(runs: u32, items: usize, mut prepare: impl FnMut() -> I, mut work: impl FnMut(I) -> O) -> f64 {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let input = prepare();
            let began = Instant::now();
            let output = black_box(work(input));
            let time = began.elapsed();
            drop(output);
            time.as_secs_f64() * 1e9 / items as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn row(work: &str, ours: f64, limit: Limit, goal: impl Into<Option<f64>>) {
    let (name, figure) = match limit {
        Limit::Upstream(figure) => ("upstream, other machine", figure),
        Limit::Yardstick(name, figure) => (name, Some(figure)),
    };
    let (figure, ratio) = figure.map_or(("-".to_owned(), "-".to_owned()), |figure| {
        (format!("{figure:.1}"), format!("{:.2}", ours / figure))
    });
    let goal = goal.into().map_or("-".to_owned(), |goal| format!("{goal:.2}"));
    println!("{work:34} {ours:>9.1}  {name:24} {figure:>9} {ratio:>6} {goal:>5}");
}

/// One of upstream's figures, which were measured at certain sizes.
fn upstream<const N: usize>(size: usize, figures: [(usize, f64); N]) -> Limit {
    let found = figures.into_iter().find(|(measured, _)| *measured == size);
    Limit::Upstream(found.map(|(_, figure)| figure))
}

fn graph(size: usize, runs: u32) {
    let empty = || Graph::new(settings::Semantics::of(KubernetesVersion::LATEST));
    let mut objects = shapes::cluster(size);
    for is_shuffled in [false, true] {
        let (order, limit) = if is_shuffled {
            Random::new(3).shuffle(&mut objects);
            ("shuffled", [(100_000, 3_029.0), (1_000_000, 4_353.0)])
        } else {
            ("owners first", [(100_000, 1_459.0), (1_000_000, 2_296.0)])
        };
        let prepare = || {
            let mut graph = empty();
            let kinds: Vec<_> = objects
                .iter()
                .map(|((version, kind), _)| graph.kind(version, kind))
                .collect();
            (graph, kinds)
        };
        let events = time(runs, size, prepare, |(mut graph, kinds)| {
            let mut effects = Vec::new();
            for (kind, (_, meta)) in kinds.into_iter().zip(&objects) {
                let object = Observed::of(kind, meta);
                graph.apply(&Event::Applied { object, old: None }, &mut effects);
            }
            (graph, effects)
        });
        row(
            &format!("graph, events, {order}"),
            events,
            upstream(size, limit),
            0.1,
        );
        let list = time(runs, size, prepare, |(mut graph, kinds)| {
            let mut effects = Vec::new();
            let listed = kinds.into_iter().zip(&objects).map(|(kind, (_, meta))| Listed {
                kind,
                meta,
                old: None,
            });
            graph.apply_list(listed, &mut effects);
            (graph, effects)
        });
        row(
            &format!("graph, a list, {order}"),
            list,
            upstream(size, limit),
            0.1,
        );
        let read = time(runs, size, || (), |()| read_names(&objects));
        row(
            &format!("graph, a list, {order}"),
            list,
            Limit::Yardstick("reading the names", read),
            None,
        );
    }
}

/// Reads one byte of each text that a graph keeps: no graph can take less time.
fn read_names(objects: &[(shapes::Kind, Arc<kubegc::core::ObjectMeta>)]) -> usize {
    let first = |text: &str| usize::from(text.as_bytes().first().copied().unwrap_or_default());
    let mut sum = 0;
    for (_, meta) in objects {
        sum += first(&meta.namespace) + first(&meta.name);
        for owner in &meta.owner_references {
            sum += first(&owner.api_version) + first(&owner.kind) + first(&owner.name);
        }
    }
    sum
}

fn cascade(size: usize, runs: u32) {
    let (root, dependents) = fan_out(size);
    let prepare = || collector(&root, &dependents);
    let gone = || WatchEvent::Delete(Arc::clone(&root));
    let queued = time(runs, size, prepare, |(mut collector, monitor)| {
        watch(&mut collector, monitor, gone());
        collector
    });
    let limit = upstream(size, [(100_000, 136.0)]);
    row("cascade, until all are queued", queued, limit, 0.1);
    let ended = time(runs, size, prepare, |(mut collector, monitor)| {
        watch(&mut collector, monitor, gone());
        assert_eq!(collect(&mut collector, monitor, &dependents), size);
        collector
    });
    let limit = upstream(size, [(100_000, 9_400.0)]);
    row("cascade, to the end", ended, limit, 0.1);
}

fn closure(size: usize, runs: u32) {
    let cluster = cluster(Dump::new(size));
    let arrays = Arrays::of(&cluster);
    let ours = time(runs, size, || (), |()| cluster.closure_of(&arrays.roots));
    let search = time(runs, size, || (), |()| arrays.search());
    let limit = Limit::Yardstick("search over arrays", search);
    row("closure of a delete", ours, limit, 3.0);
}

fn nodes(size: usize, runs: u32) {
    let inventory = containers(size);
    let all_phases = Limits {
        age_min: GoDuration::from_secs(60),
        per_unit_max: Some(3),
        node_max: u32::try_from(size / 20).ok(),
    };
    let defaults = [(1_000, 200.0), (10_000, 520.0), (100_000, 1_430.0)];
    let phases = [(1_000, 260.0), (10_000, 500.0), (100_000, 1_510.0)];
    for (work, limits, figures) in [
        ("containers, defaults", Limits::default(), defaults),
        ("containers, all phases", all_phases, phases),
    ] {
        let policy = container::Policy::new(limits, Semantics::default()).expect("an age of zero or more");
        let ours = time(runs, size, || (), |()| policy.plan(&inventory, NOW));
        row(work, ours, upstream(size, figures), 0.2);
    }
    let policy =
        image::Policy::new(Thresholds::default(), Semantics::default()).expect("upstream's defaults");
    let inventory = images(size, policy);
    let threshold = [(1_000, 560.0), (10_000, 920.0), (100_000, 1_580.0)];
    let unused = [(1_000, 600.0), (10_000, 950.0), (100_000, 1_870.0)];
    for (work, task, figures) in [
        ("images, to the low threshold", Task::Collect, threshold),
        ("images, all unused", Task::DeleteUnused, unused),
    ] {
        let policy = policy.to(task);
        let ours = time(runs, size, || (), |()| policy.plan(&inventory, NOW));
        row(work, ours, upstream(size, figures), 0.2);
    }
}

/// A dump of the size, the bundled one in YAML, and the files of the caller.
fn reading(size: usize, runs: u32, paths: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let bytes = io::copy(&mut Dump::new(size), &mut io::sink())? as usize;
    let dump = || BufReader::with_capacity(BUFFER_BYTES, Dump::new(size));
    let json = time(runs, bytes, dump, |dump| read("dump.json", dump));
    let ignored = time(runs, bytes, || Ok(dump()), into_nothing);
    row("JSON, generated", json, Limit::Yardstick(IGNORED, ignored), 1.3);
    let bundled = kubegc_examples::shop_dump().join("workloads.yaml");
    for path in std::iter::once(&bundled).chain(paths) {
        let bytes = std::fs::metadata(path)?.len() as usize;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        read(&name, open(path)?)?;
        let ours = time(runs, bytes, || open(path), |file| read(&name, file?));
        if path.extension().is_some_and(|extension| extension == "json") {
            let ignored = time(runs, bytes, || open(path), into_nothing);
            row(&name, ours, Limit::Yardstick(IGNORED, ignored), 1.3);
        } else {
            row(&name, ours, Limit::Yardstick("JSON, generated", json), 5.0);
        }
    }
    Ok(())
}

const IGNORED: &str = "serde_json, IgnoredAny";

fn into_nothing(dump: io::Result<impl Read>) -> Result<IgnoredAny, Box<dyn Error>> {
    Ok(serde_json::from_reader(dump?)?)
}

fn open(path: &Path) -> io::Result<BufReader<File>> {
    Ok(BufReader::with_capacity(BUFFER_BYTES, File::open(path)?))
}

/// Reads a dump, and returns the number of its objects.
fn read(name: &str, dump: impl Read) -> Result<usize, Box<dyn Error>> {
    let mut reader = Reader::new(KubernetesVersion::LATEST).detect_version(true);
    reader.read(name, dump)?;
    Ok(reader.finish()?.len())
}
