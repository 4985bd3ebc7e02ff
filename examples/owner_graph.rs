//! Who owns whom in a dump? Draws the owner graph as the collector has it, for Graphviz.
//!
//! `cargo run -p kubegc-examples --example owner_graph -- --object deployment/catalog -n shop | dot -Tsvg >
//! catalog.svg`
//!
//! Without `--object` or `--uid` the whole graph is drawn; without a path, that of the bundled cluster. An
//! owner that no file contains is drawn with `virtual="true"`. Prints `expected/owner_graph.txt` with the
//! arguments in its first line.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::path::PathBuf;

use clap::Parser;
use kubegc::{
    core::{KubernetesVersion, Uid},
    objects::{
        Graph,
        graph::{DotFilter, Effect, Event, Observed},
    },
    snapshot::{Reader, Snapshot},
};

/// Draws who owns whom.
#[derive(Parser)]
struct Arguments {
    /// Dumps of `kubectl get ... -o yaml` or `-o json`, or directories of them.
    #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/shop"), hide_default_value = true)]
    paths: Vec<PathBuf>,
    /// The release whose output format is used: it changed in 1.26.
    #[arg(long, default_value = "1.36")]
    kubernetes: KubernetesVersion,
    /// Draws only the objects that are connected with this one: `kind/name` or `kind.group/name`, as in a
    /// forecast.
    #[arg(long, value_name = "OBJECT")]
    object: Vec<String>,
    /// The namespace of the objects of `--object`.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Draws only the objects that are connected with the one of this uid.
    #[arg(long, value_name = "UID")]
    uid: Vec<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let mut reader = Reader::new(arguments.kubernetes);
    reader.read_paths(&arguments.paths)?;
    let snapshot = reader.finish()?;
    for finding in &snapshot.findings {
        eprintln!("{finding}");
    }
    let filter = filter(&arguments, &snapshot)?;
    print!("{}", graph(&snapshot, arguments.kubernetes).dot(&filter)?);
    Ok(())
}

/// Builds the graph from all objects, as the collector does from its watches.
fn graph(snapshot: &Snapshot, version: KubernetesVersion) -> Graph {
    let mut graph = Graph::new(version);
    let mut effects = Vec::new();
    for object in snapshot.objects() {
        let kind = graph.kind(object.api_version(), object.kind());
        let meta = object.meta();
        let event = Event::Applied {
            object: Observed::of(kind, &meta),
            old: None,
        };
        graph.apply(&event, &mut effects);
        // A collector would process these nodes. Here the graph is only drawn, so they are released at once.
        for effect in effects.drain(..) {
            if let Effect::AttemptToDelete(node)
            | Effect::AttemptToDeleteRateLimited(node)
            | Effect::AttemptToOrphan(node) = effect
            {
                graph.release(node);
            }
        }
    }
    graph
}

fn filter(arguments: &Arguments, snapshot: &Snapshot) -> Result<DotFilter, String> {
    let mut uids: Vec<Uid> = arguments.uid.iter().map(|uid| Uid::new(uid)).collect();
    for name in &arguments.object {
        let wanted = match &arguments.namespace {
            Some(namespace) => format!("{name} -n {namespace}"),
            None => name.clone(),
        };
        let found = snapshot
            .objects()
            .find(|object| object.object_ref().short() == *wanted);
        let object = found.ok_or_else(|| format!("no object {wanted} was read"))?;
        uids.push(object.uid().clone());
    }
    Ok(if uids.is_empty() {
        DotFilter::All
    } else {
        DotFilter::Connected(uids)
    })
}
