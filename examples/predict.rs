//! What happens if I delete this?
//!
//! Reads a dump of a cluster and predicts the effects of `kubectl delete`: which objects are deleted, kept or
//! stay terminating, and why.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example predict -- deployment/storefront -n shop --cascade foreground
//! kubectl get deployments,replicasets,pods -A -o json | cargo run --release -p kubegc-examples --example predict -- - deploy/web -n shop
//! ```

use std::{
    error::Error,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, ValueEnum};

use kubegc::{
    core::KubernetesVersion,
    predict::{
        Cluster, Detail, Forecast, Question,
        document::{self, AnswerStatus},
    },
};
use kubegc_examples::{
    EXIT_CODES,
    dump::{Bundled, DumpArguments},
    exit_code, exit_code_of_json,
    selection::{Cascade, SelectionArguments},
    shop_complete, shop_dump, shows_colours, write_out, write_schema,
};

/// Predicts what deleting objects does to a cluster, from a dump of it.
///
/// Without --dump it reads the bundled example cluster, an online shop.
#[derive(Clone, Parser)]
#[command(after_help = EXIT_CODES)]
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
    /// Exit with another code than 0 if anything stays terminating, is undetermined or refused.
    #[arg(long)]
    check: bool,
    /// Answer the question in this file, in JSON, or `-` for standard input. --dump adds files to its dump.
    #[arg(long, value_name = "FILE")]
    question: Option<PathBuf>,
    /// Print the JSON schema of a document: question, answer, forecast (the default), comparison, diagnosis,
    /// node-forecast or node-comparison.
    #[arg(long, value_name = "DOCUMENT", num_args = 0..=1, default_missing_value = "forecast")]
    schema: Option<String>,
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
    let arguments = Arguments::parse();
    match arguments.output {
        Output::Json => exit_code_of_json(run(arguments)),
        _ => exit_code(run(arguments)),
    }
}

fn run(mut arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(name) = &arguments.schema {
        return write_schema(name);
    }
    if let Some(file) = &arguments.question {
        return write_answer(file, &arguments.dump.dump);
    }
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
    let status = match arguments.check && !comparison.differences.is_empty() {
        true => AnswerStatus::Problem,
        false => AnswerStatus::Ok,
    };
    Ok(ExitCode::from(status.exit_code()))
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
    Ok(match arguments.check {
        true => ExitCode::from(forecast.status().exit_code()),
        false => ExitCode::SUCCESS,
    })
}

/// Answers a question in JSON.
fn write_answer(file: &Path, dump: &[PathBuf]) -> Result<ExitCode, Box<dyn Error>> {
    let mut question = Vec::new();
    match file.to_str() {
        Some("-") => io::stdin().read_to_end(&mut question)?,
        _ => fs::File::open(file)?.read_to_end(&mut question)?,
    };
    let dump: Vec<&Path> = dump.iter().map(PathBuf::as_path).collect();
    let answer = document::answer(&question, &dump);
    write_out(&format!("{}\n", answer.text))?;
    Ok(ExitCode::from(answer.status.exit_code()))
}
