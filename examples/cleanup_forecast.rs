//! What does this cluster clean up by itself in the next hours, when, and why?
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example cleanup_forecast -- --kubernetes 1.32 --horizon 36h
//! ```
//!
//! Reads what `kubectl` prints of a cluster, by default the bundled one. Prints
//! `expected/cleanup_forecast.txt` with these arguments.

use std::{error::Error, process::ExitCode, time::Duration};

use clap::{CommandFactory, Parser, ValueEnum, error::ErrorKind};

use kubegc::{
    controllers::{Cloud, PodGc},
    core::{KubernetesVersion, Timestamp},
    predict::{Cluster, Detail, Fate, Finding, Forecast, Instance, Question},
};
use kubegc_examples::{
    SHOP_DUMP_TAKEN_AT,
    dump::{Bundled, DumpArguments},
    exit_code, shop_cleanup_complete, shop_cleanup_dump, shop_complete, shop_dump, shows_colours, time,
    write_out,
};

/// Forecasts what a cluster cleans up by itself, from a dump of it, with all controllers.
///
/// Without --dump it reads the bundled example cluster, an online shop.
#[derive(Parser)]
#[command(
    after_help = "Exit codes: 0 forecast; 1 the dump or the question cannot be read; 2 wrong usage; 3 with --check, something is terminating or undetermined."
)]
struct Arguments {
    #[command(flatten)]
    dump: DumpArguments,
    /// When the dump was taken, in RFC 3339, or `now`. Default: the newest time in the dump.
    #[arg(long, value_name = "TIME", value_parser = time)]
    now: Option<Timestamp>,
    /// The duration of the forecast, such as 90m, 36h or 1d12h. Default: 24h.
    #[arg(long, value_name = "TIME", value_parser = length, conflicts_with = "hours")]
    horizon: Option<Duration>,
    /// The duration of the forecast in hours.
    #[arg(long, value_name = "NUMBER")]
    hours: Option<u32>,
    /// A controller that runs, such as ttl-after-finished-controller; without it, all do. The garbage
    /// collector, the namespace controller and the kubelets are part of every forecast.
    #[arg(long, value_name = "CONTROLLER", value_parser = controller, conflicts_with = "without")]
    only: Vec<String>,
    /// A controller that does not run.
    #[arg(long, value_name = "CONTROLLER", value_parser = controller)]
    without: Vec<String>,
    /// External provisioners do not delete storage: the fates of their volumes are undetermined.
    #[arg(long)]
    storage_is_kept: bool,
    /// --terminated-pod-gc-threshold of kube-controller-manager; zero or less disables it.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    terminated_pod_gc_threshold: Option<i32>,
    /// A node of the dump that no longer exists in the cloud.
    #[arg(long, value_name = "NAME")]
    gone_node: Vec<String>,
    /// Name every object and every time.
    #[arg(long)]
    all: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Exit with 3 if anything stays terminating or is undetermined.
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// The name of a controller.
fn controller(text: &str) -> Result<String, String> {
    let all = Question::new(KubernetesVersion::LATEST).controllers;
    let names: Vec<&str> = all.iter().map(|controller| controller.info().name).collect();
    match names.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected one of {}", names.join(", "))),
    }
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
    exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let bundled = Bundled {
        paths: vec![shop_dump(), shop_cleanup_dump()],
        complete: [shop_complete(), shop_cleanup_complete()].concat(),
    };
    let cluster = arguments.dump.cluster_with(bundled, |assumptions| {
        assumptions.storage_is_deleted = !arguments.storage_is_kept;
        for node in &arguments.gone_node {
            let instance = Instance {
                exists: Cloud::No,
                ..Instance::default()
            };
            assumptions.cloud.insert(node.as_str().into(), instance);
        }
    })?;
    let forecast = cluster.forecast(&question(&cluster, arguments)?)?;
    refuse_unknown_nodes(&cluster, &forecast);
    match arguments.output {
        Output::Json => write_out(&format!("{:#}\n", forecast.to_json()))?,
        Output::Text if arguments.all => write_out(&forecast.to_text(Detail::everything()))?,
        Output::Text => write_out(&forecast.to_text(Detail {
            colours: shows_colours(),
            ..Detail::default()
        }))?,
    }
    Ok(if arguments.check && is_open(&forecast) {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}

/// Ends with wrong usage if an option names a node that does not exist. If the
/// dump may lack nodes, the forecast reports that.
fn refuse_unknown_nodes(cluster: &Cluster, forecast: &Forecast) {
    let nodes = cluster.snapshot().completeness.of("", "Node");
    let mut findings = forecast.findings.iter();
    let finding = findings.find(|finding| matches!(finding, Finding::NodeNotDumped { .. }));
    if let Some(finding) = finding.filter(|_| nodes.is_complete()) {
        let mut command = Arguments::command().bin_name("cleanup_forecast");
        command.error(ErrorKind::ValueValidation, finding).exit();
    }
}

fn is_open(forecast: &Forecast) -> bool {
    let mut fates = forecast.fates.iter();
    let is_open = |fate: &Fate| matches!(fate, Fate::Terminating { .. } | Fate::Undetermined { .. });
    !forecast.undetermined.is_empty() || fates.any(|fate| is_open(&fate.fate))
}

fn question(cluster: &Cluster, arguments: &Arguments) -> Result<Question, Box<dyn Error>> {
    let mut question = Question::new(cluster.version());
    question.now = match arguments.now {
        None if arguments.dump.is_bundled() => Some(Timestamp::parse(SHOP_DUMP_TAKEN_AT)?),
        now => now,
    };
    let hours = arguments.hours.unwrap_or(24);
    let hours = Duration::from_secs(u64::from(hours) * 3_600);
    question.horizon = Some(arguments.horizon.unwrap_or(hours));
    if !arguments.only.is_empty() {
        let only: Vec<&str> = arguments.only.iter().map(String::as_str).collect();
        question = question.only(&only);
    }
    for name in &arguments.without {
        question = question.without(name);
    }
    if let Some(threshold) = arguments.terminated_pod_gc_threshold {
        let mut podgc = PodGc::new(cluster.version());
        podgc.terminated_pod_threshold = threshold;
        question = question.with(podgc);
    }
    Ok(question)
}
