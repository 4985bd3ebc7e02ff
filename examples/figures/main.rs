//! How fast is kubegc, compared with upstream and with plain memory?
//!
//! Prints one table, in nanoseconds an item: medians of several runs in one thread. Upstream's figures were
//! measured on another machine; they are scaled by a calibration in the same process, so such a ratio is an
//! estimate. Other figures are measured in the same run. With `--instructions`, callgrind counts those of
//! kubegc. Files of `kubectl get -o json` or `-o yaml` are read in addition.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example figures -- --size 1000000 dump.json dump.yaml
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a command line tool that measures"
)]

mod measure;

use std::{
    error::Error,
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Parser;
use kubegc::{
    core::{DeleteOptions, KubernetesVersion, ObjectMeta, Planner as _, PropagationPolicy},
    node::{
        GoDuration, Semantics,
        container::{self, Limits},
        image::{self, Task, Thresholds},
    },
    objects::{
        Graph, WatchEvent,
        graph::{Effect, Event, GraphKind, Listed, Observed},
    },
    predict::{Cluster, Intent},
    snapshot::Reader,
};
use kubegc_benches::{
    arrays::Arrays,
    cascade::Cascade,
    cluster,
    collector::{collect, collector, watch},
    dump::Dump,
    nodes::{NOW, containers, images},
    shapes::{self, Random, fan_out},
};
use measure::{Limit, Measure, memory};
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
    /// One run of 1,000 items, as a smoke test.
    #[arg(long, conflicts_with_all = ["size", "runs"])]
    quick: bool,
    /// Count instructions with callgrind, which takes fifty times as long.
    #[arg(long)]
    instructions: bool,
    /// Run only the work of this name once, without a table.
    #[arg(long)]
    only: Option<String>,
    /// Files of `kubectl get -o json` or `-o yaml`.
    paths: Vec<PathBuf>,
}

const BUFFER_BYTES: usize = 1 << 18;

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments {
        size,
        runs,
        quick,
        instructions,
        only,
        paths,
    } = Arguments::parse();
    let (size, runs) = if quick { (1_000, 1) } else { (size, runs) };
    let measure = Measure::new(size, runs, paths, instructions, only);
    graph(&measure)?;
    cascade(&measure)?;
    forecasts(&measure)?;
    nodes(&measure)?;
    reading(&measure)
}

/// One of upstream's figures, which were measured at certain sizes.
fn upstream<const N: usize>(size: usize, figures: [(usize, f64); N]) -> Limit {
    let found = figures.into_iter().find(|(measured, _)| *measured == size);
    Limit::Upstream(found.map(|(_, figure)| figure))
}

type Objects = [(shapes::Kind, Arc<ObjectMeta>)];

fn graph(measure: &Measure) -> Result<(), Box<dyn Error>> {
    if !measure.includes("graph") {
        return Ok(());
    }
    let size = measure.size;
    let mut objects = shapes::cluster(size);
    for is_shuffled in [false, true] {
        let (order, figures) = if is_shuffled {
            Random::new(3).shuffle(&mut objects);
            ("shuffled", [(100_000, 3_029.0), (1_000_000, 4_353.0)])
        } else {
            let (held, _) = memory(|| {
                let (mut graph, effects) = from_events(empty(&objects), &objects);
                drop(effects);
                graph.shrink_to_fit();
                graph
            });
            let held = held as f64 / size as f64;
            let figure = Limit::Of("upstream", 493.0);
            measure.figure("graph, bytes an object", held, figure, 80.0 / 493.0);
            ("owners first", [(100_000, 1_459.0), (1_000_000, 2_296.0)])
        };
        let prepare = || empty(&objects);
        let name = format!("graph, events, {order}");
        let limit = upstream(size, figures);
        measure.row(&name, size, limit, 0.1, prepare, |graph| {
            from_events(graph, &objects)
        })?;
        let name = format!("graph, a list, {order}");
        let limit = upstream(size, figures);
        let list = measure.row(&name, size, limit, 0.1, prepare, |graph| {
            from_list(graph, &objects)
        })?;
        let read = measure.time(size, || (), |()| read_names(&objects));
        measure.figure(&name, list, Limit::Of("reading the names", read), None);
    }
    Ok(())
}

/// A graph without objects, and the kind of each object.
fn empty(objects: &Objects) -> (Graph, Vec<GraphKind>) {
    let mut graph = Graph::new(KubernetesVersion::LATEST);
    let kinds = objects
        .iter()
        .map(|((version, kind), _)| graph.kind(version, kind))
        .collect();
    (graph, kinds)
}

fn from_events((mut graph, kinds): (Graph, Vec<GraphKind>), objects: &Objects) -> (Graph, Vec<Effect>) {
    let mut effects = Vec::new();
    for (kind, (_, meta)) in kinds.into_iter().zip(objects) {
        let object = Observed::of(kind, meta);
        graph.apply(&Event::Applied { object, old: None }, &mut effects);
    }
    (graph, effects)
}

fn from_list((mut graph, kinds): (Graph, Vec<GraphKind>), objects: &Objects) -> (Graph, Vec<Effect>) {
    let mut effects = Vec::new();
    let listed = kinds.into_iter().zip(objects).map(|(kind, (_, meta))| Listed {
        kind,
        meta,
        old: None,
    });
    graph.apply_list(listed, &mut effects);
    (graph, effects)
}

/// Reads one byte of each text that a graph keeps: no graph can take less time.
fn read_names(objects: &Objects) -> usize {
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

fn cascade(measure: &Measure) -> Result<(), Box<dyn Error>> {
    if !measure.includes("cascade") {
        return Ok(());
    }
    let size = measure.size;
    let (root, dependents) = fan_out(size);
    let prepare = || collector(&root, &dependents);
    let deleted = || WatchEvent::Delete(Arc::clone(&root));
    let limit = upstream(size, [(100_000, 136.0)]);
    measure.row(
        "cascade, until all are queued",
        size,
        limit,
        0.1,
        prepare,
        |(mut collector, monitor)| {
            watch(&mut collector, monitor, deleted());
            collector
        },
    )?;
    let limit = upstream(size, [(100_000, 9_400.0)]);
    measure.row(
        "cascade, to the end",
        size,
        limit,
        0.1,
        prepare,
        |(mut collector, monitor)| {
            watch(&mut collector, monitor, deleted());
            assert_eq!(collect(&mut collector, monitor, &dependents), size);
            collector
        },
    )?;
    Ok(())
}

fn forecasts(measure: &Measure) -> Result<(), Box<dyn Error>> {
    let size = measure.size;
    if measure.includes("closure") || measure.includes("forecast of a Deployment") {
        let cluster = cluster(Dump::new(size));
        let arrays = Arrays::of(&cluster);
        let search = measure.time(size, || (), |()| arrays.search());
        let limit = Limit::Of("search over arrays", search);
        measure.row(
            "closure of a delete",
            size,
            limit,
            3.0,
            || (),
            |()| cluster.closure_of(&arrays.roots),
        )?;
        let limit = Limit::Of("1 ms", 1e6);
        let target = "team-000/Deployment/app-000000";
        measure.row(
            "forecast of a Deployment, in all",
            1,
            limit,
            1.0,
            || (),
            |()| delete(&cluster, target),
        )?;
    }
    for (name, target, is_chain) in [
        ("chain", "x/ConfigMap/c-0", true),
        ("namespace", "Namespace/x", false),
    ] {
        let work = format!("forecast of a {name}");
        if !measure.includes(&work) {
            continue;
        }
        let cluster = cluster(Cascade::new(size, is_chain));
        let limit = Limit::Of("10 s for a million", 10_000.0);
        measure.row(&work, size, limit, 1.0, || (), |()| delete(&cluster, target))?;
        let (_, peak) = memory(|| delete(&cluster, target));
        let limit = Limit::Of("1 GiB for a million", 1_073.7);
        measure.figure(&format!("{work}, bytes"), peak as f64 / size as f64, limit, 1.0);
    }
    Ok(())
}

fn delete(cluster: &Cluster, target: &str) -> usize {
    let intents = [Intent::delete(
        target.parse().expect("a name"),
        DeleteOptions::policy(PropagationPolicy::Background),
    )];
    cluster.predict(&intents).expect("a forecast").fates.len()
}

fn nodes(measure: &Measure) -> Result<(), Box<dyn Error>> {
    let size = measure.size;
    if measure.includes("containers") {
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
            let policy = container::EvictUnits::new(limits, Semantics::default())?;
            let limit = upstream(size, figures);
            measure.row(work, size, limit, 0.2, || (), |()| policy.plan(&inventory, NOW))?;
        }
    }
    if measure.includes("images") {
        let policy = image::FreeSpace::new(Thresholds::default(), Semantics::default())?;
        let inventory = images(size, policy);
        let threshold = [(1_000, 560.0), (10_000, 920.0), (100_000, 1_580.0)];
        let unused = [(1_000, 600.0), (10_000, 950.0), (100_000, 1_870.0)];
        for (work, task, figures) in [
            ("images, to the low threshold", Task::Collect, threshold),
            ("images, all unused", Task::DeleteUnused, unused),
        ] {
            let policy = image::FreeSpace { task, ..policy };
            let limit = upstream(size, figures);
            measure.row(work, size, limit, 0.2, || (), |()| policy.plan(&inventory, NOW))?;
        }
    }
    Ok(())
}

/// A dump of the size, the bundled one in YAML, and the files of the caller.
fn reading(measure: &Measure) -> Result<(), Box<dyn Error>> {
    if !measure.includes("reading") {
        return Ok(());
    }
    let bytes = io::copy(&mut Dump::new(measure.size), &mut io::sink())? as usize;
    let dump = || BufReader::with_capacity(BUFFER_BYTES, Dump::new(measure.size));
    let ignored = measure.time(bytes, || Ok(dump()), into_nothing);
    let limit = Limit::Of(IGNORED, ignored);
    let json = measure.row("reading JSON, generated", bytes, limit, 1.3, dump, |dump| {
        read("dump.json", dump)
    })?;
    let bundled = kubegc_examples::shop_dump().join("workloads.yaml");
    for path in std::iter::once(&bundled).chain(&measure.paths) {
        let bytes = std::fs::metadata(path)?.len() as usize;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let work = format!("reading {name}");
        if !measure.includes(&work) {
            continue;
        }
        read(&name, open(path)?)?;
        let (limit, goal) = if path.extension().is_some_and(|extension| extension == "json") {
            let ignored = measure.time(bytes, || open(path), into_nothing);
            (Limit::Of(IGNORED, ignored), 1.3)
        } else {
            (Limit::Of("reading JSON, generated", json), 5.0)
        };
        measure.row(
            &work,
            bytes,
            limit,
            goal,
            || open(path),
            |file| read(&name, file?),
        )?;
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
