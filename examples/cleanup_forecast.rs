//! What does this cluster clean up by itself in the next hours, when, and why?
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example cleanup_forecast -- --horizon 36h
//! ```
//!
//! Reads what `kubectl` prints of a cluster, by default the bundled one. Prints
//! `expected/cleanup_forecast.txt` with these arguments.

use std::{error::Error, process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};

use kubegc::{
    controllers::{Cloud, PodGc},
    core::{KubernetesVersion, Timestamp},
    predict::{Cluster, Detail, Instance, Question},
};
use kubegc_examples::{
    EXIT_CODES, SHOP_DUMP_TAKEN_AT,
    dump::{Bundled, DumpArguments},
    exit_code, exit_code_of_json, shop_cleanup_complete, shop_cleanup_dump, shop_complete, shop_dump,
    shows_colours, time, write_out, write_schema,
};

/// Forecasts what a cluster cleans up by itself, from a dump of it, with all controllers.
///
/// Without --dump it reads the bundled example cluster, an online shop.
#[derive(Parser)]
#[command(after_help = EXIT_CODES)]
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
    /// Exit with another code than 0 if anything stays terminating or is undetermined.
    #[arg(long)]
    check: bool,
    /// Print the JSON schema of a forecast.
    #[arg(long)]
    schema: bool,
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
    let arguments = Arguments::parse();
    match arguments.output {
        Output::Json => exit_code_of_json(run(&arguments)),
        Output::Text => exit_code(run(&arguments)),
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if arguments.schema {
        return write_schema("forecast");
    }
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
    if cluster.snapshot().completeness.of("", "Node").is_complete() {
        for node in &arguments.gone_node {
            cluster.position(&format!("Node/{node}").parse()?)?;
        }
    }
    let forecast = cluster.forecast(&question(&cluster, arguments)?)?;
    match arguments.output {
        Output::Json => write_out(&format!("{:#}\n", forecast.to_json()))?,
        Output::Text if arguments.all => write_out(&forecast.to_text(Detail::everything()))?,
        Output::Text => write_out(&forecast.to_text(Detail {
            colours: shows_colours(),
            ..Detail::default()
        }))?,
    }
    Ok(match arguments.check {
        true => ExitCode::from(forecast.status().exit_code()),
        false => ExitCode::SUCCESS,
    })
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
