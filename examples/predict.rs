//! What happens if I delete this?
//!
//! Reads a dump of a cluster and predicts what deleting some objects does: what goes, what stays, what gets stuck, what cannot be said, and why.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example predict -- shop/Deployment/storefront --cascade foreground
//! ```
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::{process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};

use kubegc::{
    core::{DeleteOptions, Preconditions, PropagationPolicy, deletion::Propagation},
    predict::{Detail, Fate, Forecast, Intent, KindName, ObjectName, Target},
};
use kubegc_examples::{
    dump::{Bundled, DumpArguments},
    exit_code, shop_complete, shop_dump,
};

/// Predicts what deleting objects does to a cluster, from a dump of it.
///
/// Without --dump it asks about the bundled example cluster, an online shop.
#[derive(Parser)]
#[command(
    after_help = "Exit codes: 0 predicted; 1 the dump or the question cannot be read; 2 wrong usage; 3 with --check, something stays terminating or is undetermined."
)]
struct Arguments {
    #[command(flatten)]
    dump: DumpArguments,
    /// Objects to delete, one after another: namespace/Kind/name, or Kind/name for cluster-scoped objects.
    #[arg(value_name = "OBJECT", required_unless_present_any = ["selector", "pending"])]
    objects: Vec<ObjectName>,
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
    /// Say why this object has its fate.
    #[arg(long, value_name = "OBJECT")]
    explain: Vec<ObjectName>,
    /// Only say what the collector does anyway.
    #[arg(long)]
    pending: bool,
    /// Show every write.
    #[arg(long)]
    timeline: bool,
    /// How to write the forecast.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Exit with 3 if anything stays terminating or is undetermined.
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
    exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let bundled = Bundled {
        paths: vec![shop_dump()],
        complete: shop_complete(),
    };
    let cluster = arguments.dump.cluster(bundled)?;
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
                    steps: arguments.timeline,
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
        .any(|fate| matches!(fate.fate, Fate::Terminating { .. } | Fate::Undetermined { .. }));
    Ok(if arguments.check && open {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
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
        intents.push(Intent {
            target,
            options,
            after: Duration::ZERO,
        });
    }
    Ok(intents)
}
