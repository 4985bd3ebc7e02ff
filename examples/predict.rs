//! What happens if I delete this?
//!
//! Reads a dump of a cluster and predicts the effects of `kubectl delete`: which objects are deleted, kept or
//! stay terminating, and why.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example predict -- deployment/storefront -n shop --cascade foreground
//! kubectl get deployments,replicasets,pods -A -o json | cargo run --release -p kubegc-examples --example predict -- - deploy/web -n shop
//! ```

use std::{error::Error, path::PathBuf, process::ExitCode};

use clap::{Parser, ValueEnum};

use kubegc::{
    core::KubernetesVersion,
    predict::{Cluster, Detail, Fate, Forecast, Question},
};
use kubegc_examples::{
    dump::{Bundled, DumpArguments},
    exit_code,
    selection::{Cascade, SelectionArguments},
    shop_complete, shop_dump, shows_colours, write_out,
};

/// Predicts what deleting objects does to a cluster, from a dump of it.
///
/// Without --dump it reads the bundled example cluster, an online shop.
#[derive(Clone, Parser)]
#[command(
    after_help = "Exit codes: 0 predicted; 1 the dump or the question cannot be read; 2 wrong usage; 3 with --check, something stays terminating or is undetermined, or fates differ."
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
    /// Predict what the garbage collector deletes once the dump is restored from a backup: all objects have
    /// new uids then.
    #[arg(long)]
    restored: bool,
    /// Show the objects whose fates differ with this cascade.
    #[arg(long, value_enum, value_name = "CASCADE")]
    compare_cascade: Option<Cascade>,
    /// Show the objects whose fates differ in this version of Kubernetes.
    #[arg(long, value_name = "VERSION")]
    compare_version: Option<KubernetesVersion>,
    /// Show the objects whose fates differ in this dump.
    #[arg(long, value_name = "PATH")]
    compare_dump: Option<PathBuf>,
    /// Name every object.
    #[arg(long)]
    all_objects: bool,
    /// Show every write.
    #[arg(long)]
    timeline: bool,
    /// The output format.
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
    /// The owner graph for Graphviz.
    Dot,
    /// A page with the owner graph, for a browser.
    Html,
}

fn main() -> ExitCode {
    exit_code(run(Arguments::parse()))
}

fn run(mut arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if arguments.selection.take_standard_input() {
        arguments.dump.dump.push("-".into());
    }
    let bundled = || Bundled {
        paths: vec![shop_dump()],
        complete: shop_complete(),
    };
    let cluster = arguments.dump.cluster(bundled())?;
    if arguments.restored {
        let restored = arguments.dump.snapshot(bundled())?.restored();
        let restored = Cluster::new(cluster.version(), restored, cluster.assumptions().clone());
        // The status of objects, which other controllers read, is not restored.
        let question = Question::new(cluster.version()).only(&[
            "persistentvolumeclaim-protection-controller",
            "persistentvolume-protection-controller",
        ]);
        return write_forecast(&arguments, &restored, &restored.forecast(&question)?);
    }
    let forecast = forecast(&arguments, &cluster)?;
    let mut other = arguments.clone();
    let compared = if let Some(cascade) = arguments.compare_cascade {
        other.selection.cascade = cascade;
        let name = |cascade: Cascade| {
            cascade
                .to_possible_value()
                .map_or(String::new(), |value| value.get_name().to_owned())
        };
        Some([name(arguments.selection.cascade), name(cascade)])
    } else if let Some(version) = arguments.compare_version {
        other.dump.kubernetes = Some(version);
        Some([cluster.version().to_string(), version.to_string()])
    } else if let Some(path) = &arguments.compare_dump {
        other.dump.dump = vec![path.clone()];
        Some(["this dump".to_owned(), path.display().to_string()])
    } else {
        None
    };
    let Some([name, other_name]) = compared else {
        return write_forecast(&arguments, &cluster, &forecast);
    };
    let other_cluster = other.dump.cluster(bundled())?;
    let other_forecast = self::forecast(&other, &other_cluster)?;
    let comparison = forecast.compare(&other_forecast);
    write_out(&match arguments.output {
        Output::Json => format!("{:#}\n", comparison.to_json()),
        _ => comparison.to_text(&name, &other_name, arguments.detail().objects_max),
    })?;
    Ok(match arguments.check && !comparison.differences.is_empty() {
        true => ExitCode::from(3),
        false => ExitCode::SUCCESS,
    })
}

impl Arguments {
    fn detail(&self) -> Detail {
        Detail {
            steps: self.timeline,
            colours: shows_colours(),
            ..if self.all_objects {
                Detail::everything()
            } else {
                Detail::default()
            }
        }
    }
}

/// The forecast of the arguments.
fn forecast(arguments: &Arguments, cluster: &Cluster) -> Result<Forecast, Box<dyn Error>> {
    Ok(match arguments.pending {
        true => cluster.pending().clone(),
        false => cluster.predict(&arguments.selection.intents(cluster)?)?,
    })
}

fn write_forecast(
    arguments: &Arguments,
    cluster: &Cluster,
    forecast: &Forecast,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut text = match arguments.output {
        Output::Json => format!("{:#}\n", forecast.to_json()),
        Output::Dot => forecast.to_dot(),
        Output::Html => forecast.to_html(),
        Output::Text if arguments.explain.is_empty() => forecast.to_text(arguments.detail()),
        Output::Text => {
            let text = forecast.to_text(Detail::default());
            format!("{}\n", text.lines().next().unwrap_or_default())
        }
    };
    if arguments.output == Output::Text {
        for object in arguments.selection.objects_named(cluster, &arguments.explain)? {
            text.push_str(&format!("\n{}", forecast.explain(&object)));
        }
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
