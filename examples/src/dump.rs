//! Command line arguments of examples that read a dump, and the reading of the cluster.

use std::{
    error::Error,
    io::IsTerminal,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use kubegc::{
    core::{KubernetesVersion, printable},
    predict::{Assumptions, Cluster},
    snapshot::{Reader, Snapshot},
};

/// The dump to read, its complete kinds, and the assumptions about its cluster.
#[non_exhaustive]
#[derive(Clone, Debug, clap::Args)]
pub struct DumpArguments {
    /// Files, directories and archives to read: `kubectl get ... -A -o yaml` or `-o json`, must-gather,
    /// cluster-info dump, support bundle, Velero backup. `-` is standard input.
    #[arg(long, short, value_name = "PATH")]
    pub dump: Vec<PathBuf>,
    /// Kinds that the dump holds completely, such as `pods,services`, `deployments.apps`, `pods@shop` or
    /// `all`. Missing objects of other kinds are unknown, not absent.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub complete: Vec<String>,
    /// Output of `kubectl api-resources`, for kinds that the dump does not define.
    #[arg(long, value_name = "FILE")]
    pub api_resources: Option<PathBuf>,
    /// The Kubernetes version to predict for. Default: that of the dump, if it is known, else 1.36.
    #[arg(long, visible_alias = "version")]
    pub kubernetes: Option<KubernetesVersion>,
    /// Assumptions about the cluster.
    #[command(flatten)]
    pub assumptions: AssumptionArguments,
    /// List the findings about the dump, not only their number.
    #[arg(long)]
    pub notes: bool,
    /// Skip documents that cannot be read; their kinds count as incomplete then.
    #[arg(long)]
    pub lenient: bool,
}

/// Assumptions about a cluster.
#[non_exhaustive]
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AssumptionArguments {
    /// Assume that pods which are being deleted never terminate, as on a node that no longer exists.
    #[arg(long)]
    pub pods_never_end: bool,
    /// Assume that this finalizer is removed from objects which are being deleted.
    #[arg(long, value_name = "FINALIZER")]
    pub release: Vec<String>,
    /// Assume that this finalizer is not removed.
    #[arg(long, value_name = "FINALIZER")]
    pub keep: Vec<String>,
    /// Assume that a controller or another component acts, or does not: `cloud-controller-manager=off`.
    #[arg(long, value_name = "COMPONENT=on|off", value_parser = component)]
    pub assume: Vec<(String, bool)>,
    /// Assume that this admission webhook cannot be reached.
    #[arg(long, value_name = "NAME")]
    pub unreachable_webhook: Vec<String>,
    /// Assume that this API of another server is not available: `metrics.k8s.io/v1beta1`.
    #[arg(long, value_name = "GROUP/VERSION")]
    pub unavailable_api: Vec<String>,
}

/// A component and whether it acts.
fn component(text: &str) -> Result<(String, bool), String> {
    match text.rsplit_once('=') {
        Some((name, "on")) => Ok((name.to_owned(), true)),
        Some((name, "off")) => Ok((name.to_owned(), false)),
        _ => Err("it must end with =on or =off".to_owned()),
    }
}

impl From<&AssumptionArguments> for Assumptions {
    fn from(arguments: &AssumptionArguments) -> Self {
        let names = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        let acts = |name: &String, acts: bool| (Arc::from(name.as_str()), acts);
        let released = arguments.release.iter().map(|name| acts(name, true));
        let kept = arguments.keep.iter().map(|name| acts(name, false));
        let components = arguments.assume.iter().map(|(name, is_on)| acts(name, *is_on));
        let acting = released.chain(kept).chain(components);
        Self {
            pods_end: !arguments.pods_never_end,
            acting: acting.collect(),
            unreachable_webhooks: names(&arguments.unreachable_webhook),
            unavailable_apis: names(&arguments.unavailable_api),
            ..Self::default()
        }
    }
}

/// The dump that is read by default.
#[derive(Clone, Debug)]
pub struct Bundled {
    /// The directories.
    pub paths: Vec<PathBuf>,
    /// The kinds that they hold completely.
    pub complete: Vec<&'static str>,
}

impl DumpArguments {
    /// Whether no dump was named.
    pub const fn is_bundled(&self) -> bool {
        self.dump.is_empty()
    }

    /// Reads the dump. Findings about it are printed to stderr, unless it is the bundled one.
    ///
    /// # Errors
    /// A file cannot be read, a text is not a dump, no object was read, or a kind that is declared complete
    /// is not known.
    pub fn cluster(&self, bundled: Bundled) -> Result<Cluster, Box<dyn Error>> {
        self.cluster_with(bundled, |_| {})
    }

    /// The same with other assumptions.
    ///
    /// # Errors
    /// As [`cluster`](Self::cluster).
    pub fn cluster_with(
        &self,
        bundled: Bundled,
        change: impl FnOnce(&mut Assumptions),
    ) -> Result<Cluster, Box<dyn Error>> {
        let snapshot = self.snapshot(bundled)?;
        let mut assumptions = Assumptions::from(&self.assumptions);
        change(&mut assumptions);
        let cluster = Cluster::new(snapshot.version(), snapshot, assumptions);
        cluster.check_assumptions()?;
        Ok(cluster)
    }

    /// Writes the findings to stderr: without `--notes` a line for each problem.
    #[expect(clippy::print_stderr, reason = "notes of command line tools")]
    fn note_findings(&self, snapshot: &Snapshot) {
        for (problem, count) in &snapshot.finding_counts {
            let mut findings = snapshot.findings.iter();
            let mut findings = findings.by_ref().filter(|finding| finding.problem == *problem);
            match (count, findings.next()) {
                (1, Some(finding)) => eprintln!("note: {}", printable(&finding.to_string())),
                _ if !self.notes => {
                    eprintln!(
                        "note: {problem}: {count} {}; --notes lists them",
                        problem.summary()
                    );
                }
                (count, first) => {
                    eprintln!("note: {problem}: {count} {}:", problem.summary());
                    for finding in first.into_iter().chain(findings) {
                        eprintln!("  {}", printable(&finding.to_string()));
                    }
                }
            }
        }
    }

    /// Reads the dump alone, as [`cluster`](Self::cluster) does.
    ///
    /// # Errors
    /// As [`cluster`](Self::cluster).
    #[expect(clippy::print_stderr, reason = "notes of command line tools")]
    pub fn snapshot(&self, bundled: Bundled) -> Result<Snapshot, Box<dyn Error>> {
        let (paths, complete) = if self.is_bundled() {
            (bundled.paths, bundled.complete)
        } else {
            (self.dump.clone(), Vec::new())
        };
        let progress = Progress::default();
        let mut reader = Reader::new(self.kubernetes.unwrap_or(KubernetesVersion::LATEST))
            .detect_version(self.kubernetes.is_none() && !self.is_bundled())
            .default_namespace("default")
            .on_progress(progress.report())
            .on_threads(all_cores)
            .lenient(self.lenient);
        for kind in self.complete.iter().map(String::as_str).chain(complete) {
            reader = reader.complete(kind);
        }
        if let Some(path) = &self.api_resources {
            reader = reader.api_resources(&std::fs::read_to_string(path)?)?;
        }
        // Files between two uses of standard input are read together.
        let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
        for paths in paths.chunk_by(|one, other| !is_stdin(one) && !is_stdin(other)) {
            if paths.iter().any(is_stdin) {
                reader.read("standard input", std::io::stdin().lock())?;
                continue;
            }
            reader.read_paths(paths).inspect_err(|error| {
                let file = error.place().map(|place| place.file);
                let is_named = |file: &str| paths.iter().any(|path| path.to_string_lossy() == file);
                if file.is_some_and(|file| !is_named(&file)) {
                    eprintln!("note: --lenient skips files that cannot be read");
                }
            })?;
        }
        let snapshot = reader.finish_with_objects()?;
        progress.end();
        // The README of the bundled dump lists its findings.
        if !self.is_bundled() {
            self.note_findings(&snapshot);
        }
        let detected = snapshot.detected_version().filter(|_| !self.is_bundled());
        if let (None, Some(detected)) = (self.kubernetes, detected) {
            let version = snapshot.version();
            eprintln!(
                "note: predicting for Kubernetes {version}: {detected}; give --kubernetes for another version"
            );
        }
        Ok(snapshot)
    }
}

/// Calls the function on as many threads as there are cores.
fn all_cores(read_files: &(dyn Fn() + Sync)) {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(read_files);
        }
    });
}

/// The interval of progress reports.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// The progress line on stderr, if that is a terminal and reading takes long.
#[derive(Clone, Default)]
struct Progress {
    is_shown: Arc<AtomicBool>,
}

#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "progress of command line tools"
)]
impl Progress {
    fn report(&self) -> impl FnMut(u64) + Send + Sync + 'static {
        let mut last = Instant::now();
        let is_terminal = std::io::stderr().is_terminal();
        let is_shown = Arc::clone(&self.is_shown);
        move |bytes| {
            if is_terminal && last.elapsed() >= PROGRESS_AFTER {
                last = Instant::now();
                is_shown.store(true, Ordering::Relaxed);
                eprint!("\rread {} MB ", bytes / 1_000_000);
            }
        }
    }

    /// Clears the line.
    fn end(&self) {
        if self.is_shown.load(Ordering::Relaxed) {
            eprint!("\r\u{1b}[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        assumptions: AssumptionArguments,
    }

    #[derive(Parser)]
    struct OfDump {
        #[command(flatten)]
        dump: DumpArguments,
    }

    #[test]
    fn the_version_is_the_given_one_or_that_of_the_dump() {
        let bundled = || Bundled {
            paths: vec![crate::shop_dump()],
            complete: crate::shop_complete(),
        };
        let nodes = crate::shop_cleanup_dump().join("nodes.yaml");
        let nodes = nodes.to_str().expect("a path of text");
        let version = |arguments: &[&str]| {
            let arguments = OfDump::parse_from([&["forecast"], arguments].concat());
            let cluster = arguments.dump.cluster(bundled());
            cluster
                .unwrap_or_else(|error| panic!("{error}"))
                .version()
                .to_string()
        };
        assert_eq!(version(&[]), "1.36.0");
        assert_eq!(version(&["--kubernetes", "1.30"]), "1.30.0");
        assert_eq!(version(&["--dump", nodes]), "1.36.2");
        assert_eq!(version(&["--dump", nodes, "--version", "1.30"]), "1.30.0");
    }

    #[test]
    fn assumptions_can_be_set() {
        let of = |arguments: &[&str]| {
            let command = Command::parse_from([&["forecast"], arguments].concat());
            Assumptions::from(&command.assumptions)
        };
        assert_eq!(of(&[]), Assumptions::default());
        let arguments = ["--pods-never-end", "--release", "example.com/hold"];
        let set = of(&[&arguments[..], &["--unreachable-webhook", "w.example.com"]].concat());
        assert!(!set.pods_end);
        assert_eq!(set.acting, [("example.com/hold".into(), true)].into());
        assert_eq!(set.unreachable_webhooks, ["w.example.com".into()]);
    }
}
