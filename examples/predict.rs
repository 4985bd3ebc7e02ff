//! What happens if I delete this?
//!
//! Reads a dump of a cluster and predicts what deleting some objects does: what goes, what stays, what gets stuck, what cannot be said, and why.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example predict -- shop/Deployment/storefront --cascade foreground
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, ValueEnum};

use kubegc::{
    core::{DeleteOptions, KubernetesVersion, Preconditions, PropagationPolicy, deletion::Propagation},
    predict::{Assumptions, Cluster, Detail, Fate, Forecast, Intent, KindName, ObjectName, Target},
    snapshot::Reader,
};
use kubegc_examples::{shop_complete, shop_dump};

/// Predicts what deleting objects does to a cluster, from a dump of it.
///
/// Without --dump it asks about the bundled example cluster, an online shop.
#[derive(Parser)]
#[command(
    after_help = "Exit codes: 0 predicted; 1 the dump or the question cannot be read; 2 wrong usage; 3 with --check, something gets stuck or cannot be decided."
)]
struct Arguments {
    /// Objects to delete, one after another: namespace/Kind/name, or Kind/name for cluster-scoped objects.
    #[arg(value_name = "OBJECT", required_unless_present_any = ["selector", "pending"])]
    objects: Vec<ObjectName>,
    /// Files and folders to read: `kubectl get ... -A -o yaml` or `-o json`, must-gather, cluster-info dump.
    #[arg(long, short, value_name = "PATH")]
    dump: Vec<PathBuf>,
    /// Kinds that the dump holds completely, such as `pods`, `deployments.apps`, `pods@shop` or `all`. What is not declared is unknown, never absent.
    #[arg(long, value_name = "KIND")]
    complete: Vec<String>,
    /// Output of `kubectl api-resources`, for kinds that the dump does not define.
    #[arg(long, value_name = "FILE")]
    api_resources: Option<PathBuf>,
    /// What happens to dependents; without it, what the kind's default says.
    #[arg(long, value_enum)]
    cascade: Option<Cascade>,
    /// Delete all objects of this kind that have the labels given with --selector.
    #[arg(long, value_name = "KIND", requires = "selector")]
    kind: Option<String>,
    /// Labels, such as app=web,tier!=cache.
    #[arg(long, short = 'l', requires = "kind")]
    selector: Option<String>,
    /// The namespace that --selector looks in; without it, all.
    #[arg(long, short)]
    namespace: Option<String>,
    /// The uid that the object must have.
    #[arg(long, value_name = "UID")]
    uid: Option<String>,
    /// The Kubernetes version to predict for.
    #[arg(long, default_value = "1.36")]
    kubernetes: KubernetesVersion,
    /// Say why this object has its fate.
    #[arg(long, value_name = "OBJECT")]
    explain: Vec<ObjectName>,
    /// Only say what the collector does anyway.
    #[arg(long)]
    pending: bool,
    /// Show every write.
    #[arg(long)]
    timeline: bool,
    /// Pods that are deleted never end.
    #[arg(long)]
    pods_never_end: bool,
    /// A finalizer that its holder releases.
    #[arg(long, value_name = "FINALIZER")]
    release: Vec<String>,
    /// Read past documents that cannot be read; their kinds count as incomplete then.
    #[arg(long)]
    lenient: bool,
    /// How to write the forecast.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Exit with 3 if anything gets stuck or cannot be decided.
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Cascade {
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Output {
    Text,
    Json,
    Dot,
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
            ExitCode::from(1)
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let cluster = read(arguments)?;
    let intents = intents(arguments)?;
    let predicted;
    let forecast: &Forecast = if arguments.pending {
        cluster.pending()
    } else {
        predicted = cluster.predict(&intents)?;
        &predicted
    };
    match arguments.output {
        Output::Json => println!("{:#}", forecast.to_json()),
        Output::Dot => print!("{}", forecast.to_dot()),
        Output::Text if arguments.explain.is_empty() => {
            print!(
                "{}",
                forecast.to_text(Detail {
                    timeline: arguments.timeline,
                    ..Detail::default()
                })
            );
        }
        Output::Text => {
            let text = forecast.to_text(Detail::default());
            println!("{}", text.lines().next().unwrap_or_default());
        }
    }
    for name in &arguments.explain {
        let position = cluster.position(name)? as usize;
        // A position that was found is in the dump.
        if let Some(object) = cluster.snapshot().object(position) {
            print!("\n{}", forecast.explain(&object.object_ref()));
        }
    }
    let open = forecast
        .fates
        .iter()
        .any(|fate| matches!(fate.fate, Fate::Stuck { .. } | Fate::Undecided { .. }));
    Ok(if arguments.check && open {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}

fn read(arguments: &Arguments) -> Result<Cluster, Box<dyn std::error::Error>> {
    let mut reader = Reader::new(arguments.kubernetes).lenient(arguments.lenient);
    let bundled = arguments.dump.is_empty();
    let complete = if bundled { shop_complete() } else { Vec::new() };
    for kind in arguments.complete.iter().map(String::as_str).chain(complete) {
        reader = reader.complete(kind);
    }
    if let Some(path) = &arguments.api_resources {
        reader = reader.api_resources(&std::fs::read_to_string(path)?)?;
    }
    if bundled {
        reader.read_path(&shop_dump())?;
    }
    for path in &arguments.dump {
        reader.read_path(path)?;
    }
    let snapshot = reader.finish()?;
    // The bundled dump explains itself in a file of its own.
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

fn intents(arguments: &Arguments) -> Result<Vec<Intent>, Box<dyn std::error::Error>> {
    let policy = arguments.cascade.map(|cascade| match cascade {
        Cascade::Background => PropagationPolicy::Background,
        Cascade::Foreground => PropagationPolicy::Foreground,
        Cascade::Orphan => PropagationPolicy::Orphan,
    });
    let options = DeleteOptions {
        propagation: policy.map(Propagation::Policy),
        preconditions: Preconditions {
            uid: arguments.uid.as_deref().map(Into::into),
            resource_version: None,
        },
        ..DeleteOptions::default()
    };
    let mut intents: Vec<Intent> = arguments
        .objects
        .iter()
        .map(|name| Intent::delete(name.clone(), options.clone()))
        .collect();
    if let (Some(kind), Some(selector)) = (&arguments.kind, &arguments.selector) {
        let target = Target::Labelled {
            kind: KindName::new(kind),
            namespace: arguments.namespace.as_deref().map(Into::into),
            selector: selector.parse()?,
        };
        intents.push(Intent { target, options });
    }
    Ok(intents)
}
