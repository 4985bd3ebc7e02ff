//! What happens if I delete this?
//!
//! Reads a dump of a cluster and predicts the effects of `kubectl delete`: which objects are deleted, kept or stay terminating, and why.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example predict -- deployment/storefront -n shop --cascade foreground
//! kubectl get deployments,replicasets,pods -A -o json | cargo run --release -p kubegc-examples --example predict -- - deploy/web -n shop
//! ```

use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use kubegc::predict::{Detail, Fate, Forecast};
use kubegc_examples::{
    dump::{Bundled, DumpArguments},
    exit_code,
    selection::SelectionArguments,
    shop_complete, shop_dump, write_out,
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
    #[command(flatten)]
    selection: SelectionArguments,
    /// Explain the fate of this object, such as `pod/web-0`.
    #[arg(long, value_name = "OBJECT")]
    explain: Vec<String>,
    /// Predict what happens without any delete.
    #[arg(long)]
    pending: bool,
    /// Name every object.
    #[arg(long)]
    all_objects: bool,
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

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Output {
    Text,
    Json,
    Dot,
}

fn main() -> ExitCode {
    exit_code(run(Arguments::parse()))
}

fn run(mut arguments: Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    if arguments.selection.take_standard_input() {
        arguments.dump.dump.push("-".into());
    }
    let bundled = Bundled {
        paths: vec![shop_dump()],
        complete: shop_complete(),
    };
    let cluster = arguments.dump.cluster(bundled)?;
    let predicted;
    let forecast: &Forecast = if arguments.pending {
        cluster.pending()
    } else {
        let intents = arguments.selection.intents(&cluster, arguments.dump.kubernetes)?;
        predicted = cluster.predict(&intents)?;
        &predicted
    };
    let detail = Detail {
        steps: arguments.timeline,
        ..if arguments.all_objects {
            Detail::everything()
        } else {
            Detail::default()
        }
    };
    let mut text = match arguments.output {
        Output::Json => format!("{:#}\n", forecast.to_json()),
        Output::Dot => forecast.to_dot(),
        Output::Text if arguments.explain.is_empty() => forecast.to_text(detail),
        Output::Text => {
            let text = forecast.to_text(Detail::default());
            format!("{}\n", text.lines().next().unwrap_or_default())
        }
    };
    for object in arguments.selection.objects_named(&cluster, &arguments.explain)? {
        text.push_str(&format!("\n{}", forecast.explain(&object)));
    }
    write_out(&text)?;
    let is_open = forecast
        .fates
        .iter()
        .any(|fate| matches!(fate.fate, Fate::Terminating { .. } | Fate::Undetermined { .. }));
    Ok(if arguments.check && is_open {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}
