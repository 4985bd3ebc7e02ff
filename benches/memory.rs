//! Time and peak memory of one large cascade in a process of its own: `-- namespace 100000`,
//! `-- chain 1000000` or `-- deployment 1000000`.

use std::{fs, time::Instant};

use kubegc::{
    core::{DeleteOptions, PropagationPolicy},
    predict::Intent,
};
use kubegc_benches::{cascade::Cascade, cluster, dump::Dump};

/// The largest resident size of this process so far, in MiB; `None` on systems without `/proc`.
fn peak_mib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}

#[expect(clippy::print_stdout, reason = "the result of this measurement")]
fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let shape = words.first().map_or("chain", String::as_str);
    let size = words.get(1).map_or(1_000, |size| size.parse().expect("a number"));
    let (target, cluster) = match shape {
        "namespace" => ("Namespace/x", cluster(Cascade::new(size, false))),
        "chain" => ("x/ConfigMap/c-0", cluster(Cascade::new(size, true))),
        "deployment" => ("team-007/Deployment/app-000007", cluster(Dump::new(size))),
        other => panic!("{other} is none of namespace, chain and deployment"),
    };
    let read = peak_mib();
    let intents = [Intent::delete(
        target.parse().expect("a name"),
        DeleteOptions::policy(PropagationPolicy::Background),
    )];
    let runs = if shape == "deployment" { 300 } else { 1 };
    let mut best = f64::INFINITY;
    let mut fates = 0;
    let mut sum = 0.0;
    for _ in 0..runs {
        #[expect(clippy::disallowed_methods, reason = "a measurement")]
        let began = Instant::now();
        let forecast = cluster.predict(&intents).expect("a forecast");
        let seconds = began.elapsed().as_secs_f64();
        best = best.min(seconds);
        sum += seconds;
        fates = forecast.fates.len();
    }
    let mib = |peak: Option<u64>| peak.map_or_else(|| "unknown".to_owned(), |mib| format!("{mib} MiB"));
    println!(
        "{shape} of {size}: {fates} fates, best {:.3} ms, mean {:.3} ms of {runs}; peak {} ({} after reading)",
        best * 1e3,
        sum / f64::from(runs) * 1e3,
        mib(peak_mib()),
        mib(read)
    );
}
