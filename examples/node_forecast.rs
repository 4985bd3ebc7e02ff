//! What does this node's kubelet remove next, in which order, and why? And what would it remove with other
//! settings?
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example node_forecast -- --growth 2GB/h --change imageGCLowThresholdPercent=75
//! ```
//!
//! Reads what `crictl`, the kubelet and `kubectl` print of one node, by default the bundled one. Prints
//! `expected/node_forecast.txt` with these arguments.
#![expect(clippy::print_stderr, reason = "a command line tool")]

use std::{error::Error, path::PathBuf, process::ExitCode};

use clap::{Parser, ValueEnum};
use kubegc::{
    core::{FieldError, KubernetesVersion, Timestamp, printable},
    node::{Policy, PolicySpec},
    predict::node::{Change, Growth, NodeFrame, node_forecast, what_if},
    snapshot::{NodeReader, NodeSnapshot},
};
use kubegc_examples::{
    EXIT_CODES, NODE_DUMP_TAKEN_AT, exit_code, exit_code_of_json, node_dump, time, write_out, write_schema,
};

/// Predicts what a node's collector removes next, from the output of its tools.
///
/// Without a path it reads the bundled node. A listing that is not declared complete is
/// unknown and causes no removal.
#[derive(Parser)]
#[command(after_help = EXIT_CODES)]
struct Arguments {
    /// Files and directories: crictl ps -a, pods, images, imagefsinfo and inspect, all with -o json;
    /// /stats/summary; /configz or the kubelet's configuration file; kubectl get pods; image records.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The Kubernetes version of the node.
    #[arg(long, visible_alias = "version", default_value = "1.36")]
    kubernetes: KubernetesVersion,
    /// The present, in RFC 3339, or `now`. Default: when the kubelet measured the disk.
    #[arg(long, value_name = "TIME", value_parser = time)]
    now: Option<Timestamp>,
    /// The growth of the disk usage, such as 2GB/h or 500MB/d.
    #[arg(long, value_name = "AMOUNT")]
    growth: Option<Growth>,
    /// A setting to change, such as imageGCHighThresholdPercent=70. Several changes apply together.
    #[arg(long, value_name = "SETTING=VALUE")]
    change: Vec<Change>,
    /// The pods are all pods of the node: objects of any other pod are garbage.
    #[arg(long)]
    pods_are_whole: bool,
    /// The containers are complete, although none has ended: they come from crictl ps -a.
    #[arg(long)]
    containers_are_whole: bool,
    /// No container mounts an image as a volume.
    #[arg(long)]
    no_image_volumes: bool,
    /// Skips entries and documents that cannot be read; their facts are unknown then.
    #[arg(long)]
    lenient: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Print the JSON schema of a forecast, or with --change, of a comparison.
    #[arg(long)]
    schema: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
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
        return write_schema(match arguments.change.is_empty() {
            true => "node-forecast",
            false => "node-comparison",
        });
    }
    let (node, now) = read(arguments)?;
    // The README of the bundled node lists its findings.
    for finding in node.findings.iter().filter(|_| !arguments.paths.is_empty()) {
        eprintln!("note: {}", printable(&finding.to_string()));
    }
    let spec = node.policy.clone().unwrap_or_else(|| {
        eprintln!(
            "note: no settings were given, or a kubelet would refuse them: upstream's defaults are taken"
        );
        PolicySpec::default()
    });
    let policy = Policy::new(&spec, arguments.kubernetes)?;
    let frame = NodeFrame {
        now,
        growth_bytes_per_hour: arguments.growth.unwrap_or_default().bytes_per_hour,
    };
    if arguments.change.is_empty() {
        let forecast = node_forecast(&node.inventory, &policy, frame);
        match arguments.output {
            Output::Json => write_out(&format!("{:#}\n", forecast.to_json()))?,
            Output::Text => write_out(&forecast.to_string())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let changed = arguments
        .change
        .iter()
        .fold(spec, |spec, change| change.apply(&spec));
    let changed = Policy::new(&changed, arguments.kubernetes)
        .inspect_err(|_| eprintln!("note: the settings are refused with the changes"))?;
    let compared = what_if(&node.inventory, &policy, &changed, frame);
    let changes: Vec<String> = arguments.change.iter().map(ToString::to_string).collect();
    let (present, changes) = (&compared.present, changes.join(", "));
    write_out(&match arguments.output {
        Output::Json => format!("{:#}\n", compared.to_json()),
        Output::Text => format!("{present}\nWith {changes}\n\n{compared}"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the node and its time.
fn read(arguments: &Arguments) -> Result<(NodeSnapshot, Timestamp), Box<dyn Error>> {
    let bundled = arguments.paths.is_empty();
    let paths = if bundled {
        vec![node_dump()]
    } else {
        arguments.paths.clone()
    };
    let now = match arguments.now {
        None if bundled => Some(time(NODE_DUMP_TAKEN_AT)?),
        now => now,
    };
    let read = |now: Option<Timestamp>| {
        let mut reader = NodeReader::new().lenient(arguments.lenient);
        for (declared, declare) in [
            (
                arguments.pods_are_whole || bundled,
                NodeReader::pods_are_whole as fn(_) -> _,
            ),
            (arguments.containers_are_whole, NodeReader::containers_are_whole),
            (
                arguments.no_image_volumes || bundled,
                NodeReader::no_image_volumes,
            ),
        ] {
            reader = if declared { declare(reader) } else { reader };
        }
        if let Some(now) = now {
            reader = reader.now(now);
        }
        paths.iter().try_for_each(|path| reader.read_path(path))?;
        reader.finish()
    };
    let node = read(now)?;
    let measured = node.stats.as_ref().and_then(|stats| stats.at);
    match (now, measured) {
        (Some(now), _) => Ok((node, now)),
        // Read again with the time, so that times in the future are reported.
        (None, Some(measured)) => Ok((read(Some(measured))?, measured)),
        (None, None) => Err(FieldError::Required {
            field: "--now".to_owned(),
            problem: "no document has the time".to_owned(),
        }
        .into()),
    }
}
