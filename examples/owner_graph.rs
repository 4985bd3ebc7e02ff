//! Who owns whom in a dump? Draws the owner graph as the collector has it, for Graphviz.
//!
//! `cargo run -p kubegc-examples --example owner_graph -- --object shop/Deployment/catalog | dot -Tsvg > catalog.svg`
//!
//! Without `--object` or `--uid` the whole graph is drawn; without a path, that of the bundled cluster. An owner that no file holds is drawn
//! with `virtual="true"`: the collector has only heard of it. Prints `expected/owner_graph.txt` with the arguments that stand there.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::path::PathBuf;

use clap::Parser;
use kubegc::{
    core::{KubernetesVersion, Uid},
    objects::{
        Graph, Semantics,
        effect::Effect,
        graph::{DotFilter, Event, Observed},
    },
    snapshot::{Reader, Snapshot},
};

/// Draws who owns whom.
#[derive(Parser)]
struct Arguments {
    /// Dumps of `kubectl get ... -o yaml` or `-o json`, or folders of them.
    #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/shop"), hide_default_value = true)]
    paths: Vec<PathBuf>,
    /// The release whose collector draws: the format changed in 1.26.
    #[arg(long, default_value = "1.36")]
    kubernetes: KubernetesVersion,
    /// Draws only what hangs together with this object: `namespace/Kind/name`, or `Kind/name`.
    #[arg(long, value_name = "OBJECT")]
    object: Vec<String>,
    /// The same, by uid.
    #[arg(long, value_name = "UID")]
    uid: Vec<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let mut reader = Reader::new(arguments.kubernetes);
    for path in &arguments.paths {
        reader.read_path(path)?;
    }
    let snapshot = reader.finish()?;
    for finding in &snapshot.findings {
        eprintln!("{finding}");
    }
    let filter = filter(&arguments, &snapshot)?;
    print!("{}", graph(&snapshot, arguments.kubernetes).dot(&filter)?);
    Ok(())
}

/// Shows the graph every object, as the collector's monitors would.
fn graph(snapshot: &Snapshot, version: KubernetesVersion) -> Graph {
    let mut graph = Graph::new(Semantics::of(version));
    let mut effects = Vec::new();
    for object in snapshot.objects() {
        let kind = graph.kind(&object.api_version, &object.kind);
        let event = Event::Applied {
            object: Observed::of(kind, &object.meta),
            old: None,
        };
        graph.apply(&event, &mut effects);
        // A collector would look at these objects now. Here they are only drawn, so the graph gets its nodes back.
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
    for wanted in &arguments.object {
        let found = snapshot
            .objects()
            .find(|object| object.object_ref().short() == *wanted);
        uids.push(
            found
                .ok_or_else(|| format!("no object {wanted} in what was read"))?
                .meta
                .uid,
        );
    }
    Ok(if uids.is_empty() {
        DotFilter::All
    } else {
        DotFilter::Connected(uids)
    })
}
