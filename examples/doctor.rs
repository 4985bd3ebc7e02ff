//! What is wrong with the deletions and owner references of a cluster?
//!
//! ```sh
//! kubectl get all,configmaps,secrets -A -o json | cargo run --release -p kubegc-examples --example doctor -- -
//! ```
//!
//! Without arguments it reads the bundled cluster and prints `expected/doctor.txt`.

use std::{error::Error, path::PathBuf, process::ExitCode};

use clap::{Parser, ValueEnum};
use kubegc_examples::{
    EXIT_CODES,
    dump::{Bundled, DumpArguments},
    exit_code, exit_code_of_json, shop_complete, shop_dump, write_out, write_schema,
};

/// Diagnoses a dump of a cluster: the causes that keep objects in deletion, with what each blocks, and wrong
/// owner references with their outcome; and the commands that repair them.
#[derive(Parser)]
#[command(after_help = EXIT_CODES)]
struct Arguments {
    #[command(flatten)]
    dump: DumpArguments,
    /// Dumps, as with --dump; `-` is standard input.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Name every object.
    #[arg(long)]
    all: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Exit with another code than 0 if something is stuck, wrong or undetermined.
    #[arg(long)]
    check: bool,
    /// Print the JSON schema of a diagnosis.
    #[arg(long)]
    schema: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
    /// For code scanning services.
    Sarif,
}

/// Maximum number of named objects for each problem.
const OBJECTS_MAX: usize = 8;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.output {
        Output::Json => exit_code_of_json(run(arguments)),
        _ => exit_code(run(arguments)),
    }
}

fn run(mut arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if arguments.schema {
        return write_schema("diagnosis");
    }
    arguments.dump.dump.append(&mut arguments.paths);
    let bundled = Bundled {
        paths: vec![shop_dump()],
        complete: shop_complete(),
    };
    let cluster = arguments.dump.cluster(bundled)?;
    let diagnosis = cluster.doctor();
    match arguments.output {
        Output::Json => write_out(&format!("{:#}\n", diagnosis.to_json()))?,
        Output::Sarif => write_out(&format!("{:#}\n", diagnosis.to_sarif()))?,
        Output::Text => {
            let objects_max = if arguments.all { usize::MAX } else { OBJECTS_MAX };
            write_out(&diagnosis.to_text(objects_max))?;
        }
    }
    Ok(match arguments.check {
        true => ExitCode::from(diagnosis.status().exit_code()),
        false => ExitCode::SUCCESS,
    })
}
