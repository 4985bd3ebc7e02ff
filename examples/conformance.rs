//! Does kubegc decide as the real collector did? Replays recordings and prints the differences.
//!
//! `cargo run --release -p kubegc-examples --example conformance -- crates/kubegc-conformance/vectors`
//!
//! Prints a line a file and, last, `N passed, N failed`; exits with 1 where a case failed.
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Instant};

use clap::Parser;
use kubegc_conformance::runner::{Options, recordings, replay};

/// Replays recordings of the real collector against kubegc.
#[derive(Parser)]
struct Arguments {
    /// Files, or directories that are searched for `.jsonl` and `.jsonl.xz` files.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Shows the expected and the actual result of each failed case.
    #[arg(long)]
    failures: bool,
    /// Shows notes, such as states that were reached and never recorded.
    #[arg(long)]
    notes: bool,
    /// Replays only the case of this name or id, and shows its failure and notes.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let options = Options { only: arguments.case };
    let is_single = options.only.is_some();
    let (mut passed, mut failed) = (0, 0);
    let mut requests = BTreeMap::<String, (usize, usize)>::new();
    for path in recordings(&arguments.paths)? {
        #[expect(clippy::disallowed_methods, reason = "the time is only shown")]
        let begin = Instant::now();
        let report = replay(&path, &options)?;
        let seconds = begin.elapsed().as_secs_f64();
        if is_single && report.passed + report.failed.len() == 0 {
            continue;
        }
        println!(
            "{} ({}): {} passed, {} failed, {seconds:.2} s",
            path.display(),
            report.kind,
            report.passed,
            report.failed.len()
        );
        if arguments.failures || is_single {
            for case in &report.failed {
                println!("  {}\n{}", case.name, case.failure);
            }
        }
        if arguments.notes || is_single {
            for note in &report.notes {
                println!("  note: {note}");
            }
        }
        for (category, (agree, all)) in report.requests {
            let counts = requests.entry(category).or_default();
            counts.0 += agree;
            counts.1 += all;
        }
        passed += report.passed;
        failed += report.failed.len();
    }
    for (category, (agree, all)) in requests {
        println!("{category}: {agree} of {all} requests agree");
    }
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
