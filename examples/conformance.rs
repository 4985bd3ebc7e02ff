//! Does kubegc decide as the real collector did? Replays recordings and prints the differences.
//!
//! `cargo run --release -p kubegc-examples --example conformance -- crates/kubegc-conformance/vectors`
//!
//! Prints a line a file and, last, `N passed, N failed`; exits with 1 where a case failed. Of forecasts it
//! also prints for how many terminating objects the recording supports the reason: no case fails by it.
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::{path::PathBuf, process::ExitCode, time::Instant};

use clap::Parser;
use kubegc_conformance::{Report, recordings, replay};

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
    let only = arguments.case.as_deref();
    let is_single = only.is_some();
    let mut total = Report::default();
    for path in recordings(&arguments.paths)? {
        #[expect(clippy::disallowed_methods, reason = "the time is only shown")]
        let begin = Instant::now();
        let report = replay(&path, only)?;
        let seconds = begin.elapsed().as_secs_f64();
        if is_single && report.cases() == 0 {
            continue;
        }
        let shown_reasons = match report.reasons() {
            0 => String::new(),
            all => format!("; reasons {} of {all}", report.supported_reasons),
        };
        println!(
            "{} ({}): {} passed, {} failed{shown_reasons}, {seconds:.2} s",
            path.display(),
            if report.kind.is_empty() {
                "no cases"
            } else {
                report.kind
            },
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
        total.add(report);
    }
    for (category, (agree, all)) in &total.requests {
        println!("{category}: {agree} of {all} requests agree");
    }
    // Rounded down: 100 % means all of them.
    let (supported_reasons, reasons) = (total.supported_reasons, total.reasons());
    if let Some(permille) = (supported_reasons * 1000).checked_div(reasons) {
        let percent = permille as f64 / 10.0;
        println!("{supported_reasons} of {reasons} reasons are supported ({percent} %)");
    }
    println!("{} passed, {} failed", total.passed, total.failed.len());
    Ok(if total.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
