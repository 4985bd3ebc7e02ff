//! How fast are dumps read?
//!
//! Reads each file, JSON also with `serde_json` into nothing, and prints times and ratios. Memory is the peak
//! of the whole process, so compare it over runs with one file each.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example reading_figures -- dump.json dump.yaml
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a command line tool that measures"
)]

use std::{error::Error, fs::File, io::BufReader, path::PathBuf, time::Instant};

use clap::Parser;
use kubegc::{core::KubernetesVersion, snapshot::Reader};
use serde::de::IgnoredAny;

/// Reads dumps and prints how long that took.
#[derive(Parser)]
struct Arguments {
    /// Files of `kubectl get -o json` or `-o yaml`. Without any, the bundled dump.
    paths: Vec<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = Arguments::parse().paths;
    if paths.is_empty() {
        paths.push(kubegc_examples::shop_dump().join("workloads.yaml"));
    }
    for path in paths {
        let bytes = std::fs::metadata(&path)?.len();
        let began = Instant::now();
        let mut reader = Reader::new(KubernetesVersion::LATEST).detect_version(true);
        reader.read_path(&path)?;
        let snapshot = reader.finish()?;
        let seconds = began.elapsed().as_secs_f64();
        print!(
            "{}: {} objects, {:.1} MB, {seconds:.3} s, {:.0} ns a byte",
            path.display(),
            snapshot.len(),
            bytes as f64 / 1e6,
            seconds * 1e9 / bytes as f64,
        );
        if path.extension().is_some_and(|extension| extension == "json") {
            let began = Instant::now();
            let _ignored: IgnoredAny =
                serde_json::from_reader(BufReader::with_capacity(1 << 18, File::open(&path)?))?;
            let ignored = began.elapsed().as_secs_f64();
            print!(
                "; serde_json into nothing {ignored:.3} s, ratio {:.2}",
                seconds / ignored
            );
        }
        println!("{}", peak_memory());
    }
    Ok(())
}

/// The peak memory of the process, where the system tells it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or(String::new(), |peak| format!("; peak {}", peak.trim()))
}
