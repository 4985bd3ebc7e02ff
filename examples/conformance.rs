//! Does kubegc decide as the real collector did? Replays recordings and prints the differences.
//!
//! `cargo run --release -p kubegc-examples --example conformance -- crates/kubegc-conformance/vectors`
//!
//! Prints a line a file and, last, `N passed, N failed`; exits with 1 where a case failed. Of forecasts it
//! also prints for how many terminating objects the recording supports the reason: no case fails by it.
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
    /// Shows the expected and the actual result of each failed case and of each reason that is not supported.
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
    let (mut supported_reasons, mut reasons) = (0, 0);
    let mut requests = BTreeMap::<String, (usize, usize)>::new();
    for path in recordings(&arguments.paths)? {
        #[expect(clippy::disallowed_methods, reason = "the time is only shown")]
        let begin = Instant::now();
        let report = replay(&path, &options)?;
        let seconds = begin.elapsed().as_secs_f64();
        if is_single && report.passed + report.failed.len() == 0 {
            continue;
        }
        let file_reasons = report.supported_reasons + report.unsupported_reasons.len();
        let shown_reasons = match file_reasons {
            0 => String::new(),
            all => format!("; reasons {} of {all}", report.supported_reasons),
        };
        println!(
            "{} ({}): {} passed, {} failed{shown_reasons}, {seconds:.2} s",
            path.display(),
            report.kind,
            report.passed,
            report.failed.len()
        );
        if arguments.failures || is_single {
            for case in &report.failed {
                println!("  {}\n{}", case.name, case.failure);
            }
            for case in &report.unsupported_reasons {
                println!("  {}: the reason is not supported\n{}", case.name, case.failure);
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
        supported_reasons += report.supported_reasons;
        reasons += file_reasons;
        passed += report.passed;
        failed += report.failed.len();
    }
    for (category, (agree, all)) in requests {
        println!("{category}: {agree} of {all} requests agree");
    }
    // Rounded down: 100 % means all of them.
    if let Some(permille) = (supported_reasons * 1000).checked_div(reasons) {
        let percent = permille as f64 / 10.0;
        println!("{supported_reasons} of {reasons} reasons are supported ({percent} %)");
    }
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
