//! What does this cluster clean up by itself in the next hours, when, and why?
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example cleanup_forecast -- --kubernetes 1.32 --horizon 36h
//! ```
//!
//! Reads what `kubectl` prints of a cluster, by default the bundled one. Prints `expected/cleanup_forecast.txt` with these arguments.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::{error::Error, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};

use kubegc::{
    core::{KubernetesVersion, Timestamp},
    lifecycle::{
        controller::{Mechanism, Settings},
        node::Cloud,
    },
    predict::{
        Assumptions, CleanupDetail, CleanupForecast, CleanupFrame, Cluster, Fate, Instance, cleanup_forecast,
    },
    snapshot::Reader,
};
use kubegc_examples::{
    SHOP_DUMP_TAKEN_AT, shop_cleanup_complete, shop_cleanup_dump, shop_complete, shop_dump,
};

/// Says what a cluster cleans up by itself, from a dump of it: all mechanisms together, instant by instant.
///
/// Without --dump it asks about the bundled example cluster, an online shop.
#[derive(Parser)]
#[command(
    after_help = "Exit codes: 0 forecast; 1 the dump or the question cannot be read; 2 wrong usage; 3 with --check, something is stuck or undecided."
)]
struct Arguments {
    /// Files and folders to read: `kubectl get ... -A -o yaml` or `-o json`, must-gather, cluster-info dump.
    #[arg(long, short, value_name = "PATH")]
    dump: Vec<PathBuf>,
    /// Kinds that the dump holds completely, such as `pods`, `leases.coordination.k8s.io` or `all`. What is not declared is unknown, never absent.
    #[arg(long, value_name = "KIND")]
    complete: Vec<String>,
    /// Output of `kubectl api-resources`, for kinds that the dump does not define.
    #[arg(long, value_name = "FILE")]
    api_resources: Option<PathBuf>,
    /// The Kubernetes version of the cluster.
    #[arg(long, visible_alias = "version", default_value = "1.36")]
    kubernetes: KubernetesVersion,
    /// When the dump was taken. Without it, when the newest thing in it happened.
    #[arg(long, value_name = "TIME", value_parser = time)]
    now: Option<Timestamp>,
    /// How far to look, such as 90m, 36h or 1d12h. Default: 24h.
    #[arg(long, value_name = "TIME", value_parser = length, conflicts_with = "hours")]
    horizon: Option<Duration>,
    /// How many hours to look ahead.
    #[arg(long, value_name = "NUMBER")]
    hours: Option<u32>,
    /// A mechanism that runs, such as jobs; without it, all do. Owners, namespaces and kubelets are part of every forecast.
    #[arg(long, value_name = "MECHANISM", conflicts_with = "without")]
    only: Vec<Mechanism>,
    /// A mechanism that does not run.
    #[arg(long, value_name = "MECHANISM")]
    without: Vec<Mechanism>,
    /// How many pods that have ended may stay, as kube-controller-manager takes it; zero or less: all.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    terminated_pod_gc_threshold: Option<i32>,
    /// A node that no longer exists in the cloud.
    #[arg(long, value_name = "NAME")]
    gone_node: Vec<String>,
    /// Pods that are deleted never end.
    #[arg(long)]
    pods_never_end: bool,
    /// A finalizer that its holder releases.
    #[arg(long, value_name = "FINALIZER")]
    release: Vec<String>,
    /// Name every object, and tell of every instant.
    #[arg(long)]
    all: bool,
    /// Read past documents that cannot be read; their kinds count as incomplete then.
    #[arg(long)]
    lenient: bool,
    /// How to write the forecast.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Exit with 3 if anything is stuck or undecided.
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).map_err(|error| error.to_string())
}

/// A length of time: numbers, each with a unit of d, h, m or s.
fn length(text: &str) -> Result<Duration, String> {
    let bad = || "expected a length of time, such as 90m, 36h or 1d12h".to_owned();
    let mut seconds: u64 = 0;
    let mut number = String::new();
    for letter in text.chars() {
        let unit = match letter {
            '0'..='9' => {
                number.push(letter);
                continue;
            }
            'd' => 86_400,
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            _ => return Err(bad()),
        };
        let units: u64 = number.parse().map_err(|_| bad())?;
        seconds = units
            .checked_mul(unit)
            .and_then(|more| seconds.checked_add(more))
            .ok_or_else(bad)?;
        number.clear();
    }
    match number.is_empty() && !text.is_empty() {
        true => Ok(Duration::from_secs(seconds)),
        false => Err(bad()),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let cluster = read(arguments)?;
    let forecast = cleanup_forecast(&cluster, &frame(arguments)?);
    match arguments.output {
        Output::Json => println!("{:#}", forecast.to_json()),
        Output::Text if arguments.all => print!("{}", forecast.to_text(CleanupDetail::everything())),
        Output::Text => print!("{}", forecast.to_text(CleanupDetail::default())),
    }
    Ok(if arguments.check && is_open(&forecast) {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}

fn is_open(forecast: &CleanupForecast) -> bool {
    let mut fates = forecast.forecast.fates.iter();
    !forecast.undecided.is_empty()
        || fates.any(|fate| matches!(fate.fate, Fate::Stuck { .. } | Fate::Undecided { .. }))
}

/// What is asked.
fn frame(arguments: &Arguments) -> Result<CleanupFrame, Box<dyn Error>> {
    let version = arguments.kubernetes;
    let mut frame = CleanupFrame::new(version);
    frame.now = match arguments.now {
        None if arguments.dump.is_empty() => Some(Timestamp::parse(SHOP_DUMP_TAKEN_AT)?),
        now => now,
    };
    let hours = arguments
        .hours
        .map(|hours| Duration::from_secs(u64::from(hours) * 3_600));
    frame.horizon = arguments.horizon.or(hours).unwrap_or(frame.horizon);
    let mut running: Vec<Mechanism> = match &*arguments.only {
        [] => Mechanism::ALL.to_vec(),
        only => only.to_vec(),
    };
    running.retain(|mechanism| !arguments.without.contains(mechanism));
    // The provisioners that volumes name come with the controller that releases volumes.
    if arguments.only.contains(&Mechanism::ExternalVolumes) {
        running.push(Mechanism::Volumes);
    }
    frame.storage_is_deleted = !arguments.without.contains(&Mechanism::ExternalVolumes);
    frame.settings = Settings::only(version, running);
    if let (Some(pods), Some(threshold)) = (&mut frame.settings.pods, arguments.terminated_pod_gc_threshold) {
        pods.terminated_threshold = threshold;
    }
    for node in &arguments.gone_node {
        let instance = Instance {
            exists: Cloud::No,
            ..Instance::default()
        };
        frame.cloud.insert(node.as_str().into(), instance);
    }
    Ok(frame)
}

fn read(arguments: &Arguments) -> Result<Cluster, Box<dyn Error>> {
    let mut reader = Reader::new(arguments.kubernetes).lenient(arguments.lenient);
    let bundled = arguments.dump.is_empty();
    let complete = if bundled {
        [shop_complete(), shop_cleanup_complete()].concat()
    } else {
        Vec::new()
    };
    for kind in arguments.complete.iter().map(String::as_str).chain(complete) {
        reader = reader.complete(kind);
    }
    if let Some(path) = &arguments.api_resources {
        reader = reader.api_resources(&std::fs::read_to_string(path)?)?;
    }
    let paths = if bundled {
        vec![shop_dump(), shop_cleanup_dump()]
    } else {
        arguments.dump.clone()
    };
    paths.iter().try_for_each(|path| reader.read_path(path))?;
    let snapshot = reader.finish()?;
    // The bundled dump explains itself in files of its own.
    for finding in snapshot.findings.iter().filter(|_| !bundled) {
        eprintln!("note: {finding}");
    }
    let assumptions = Assumptions {
        pods_end: !arguments.pods_never_end,
        finalizers_released: arguments
            .release
            .iter()
            .map(|name| name.as_str().into())
            .collect(),
    };
    Ok(Cluster::new(arguments.kubernetes, snapshot, assumptions))
}
