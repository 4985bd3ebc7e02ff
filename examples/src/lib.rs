//! Shared parts of the examples: bundled dumps of a cluster (an online shop) and of a node, command line
//! arguments, exit codes, and for simulated nodes a clock, two weeks of work and a plot.

#[cfg(feature = "cri")]
pub mod cri;
pub mod dump;
pub mod fortnight;
pub mod plot;
pub mod selection;
pub mod simulated;

use std::{
    error::Error,
    io::{self, IsTerminal, Write as _},
    path::PathBuf,
    process::{ExitCode, Termination},
    time::SystemTime,
};

use kubegc::{
    core::{FieldError, Timestamp, printable},
    predict::document::{self, AnswerStatus},
};

/// Writes logs to stderr, those of level info and above unless `RUST_LOG` is set.
#[cfg(feature = "kube")]
pub fn log_to_stderr() {
    use tracing_subscriber::{EnvFilter, fmt};
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    fmt().with_env_filter(filter).with_writer(io::stderr).init();
}

/// The exit codes of examples that read dumps, for `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  The question is answered.
  1  The input cannot be read, or has no object.
  2  The command line or the question is invalid.
  3  With --check: an object stays terminating, an owner reference is wrong, or fates differ.
  4  The input has no such object or resource type.
  5  With --check: an outcome is undetermined.
  6  With --check: the API server refuses a delete. Of a node: the kubelet refuses the settings.
An answer to a --question has its exit code without --check.";

/// The exit code of a result. An error is printed to stderr with its causes.
#[expect(clippy::print_stderr, reason = "a command line tool")]
pub fn exit_code(result: Result<impl Termination, Box<dyn Error>>) -> ExitCode {
    let error = match result {
        Ok(success) => return success.report(),
        Err(error) => error,
    };
    eprintln!("error: {}", printable(&error.to_string()));
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {}", printable(&error.to_string()));
        cause = error.source();
    }
    ExitCode::from(AnswerStatus::of(&*error).exit_code())
}

/// The same, for an example that writes JSON: an error is also written to stdout, as an answer.
pub fn exit_code_of_json(result: Result<impl Termination, Box<dyn Error>>) -> ExitCode {
    let written = match &result {
        Ok(_) => Ok(()),
        Err(error) => write_out(&format!("{}\n", document::error(&**error).text)),
    };
    exit_code(written.map_err(Into::into).and(result))
}

/// Prints the JSON schema of a document, such as `kubegc-forecast/1` or `forecast`.
///
/// # Errors
/// There is no such document, or it cannot be printed.
pub fn write_schema(name: &str) -> Result<ExitCode, Box<dyn Error>> {
    let mut schemas = document::SCHEMAS.iter();
    let is_meant = |full: &str| full == name || full == format!("kubegc-{name}/1");
    let Some((_, schema)) = schemas.find(|(full, _)| is_meant(full)) else {
        return Err(FieldError::NotSupported {
            field: "--schema".to_owned(),
            value: name.to_owned(),
            supported: document::SCHEMAS.iter().map(|(name, _)| *name).collect(),
        }
        .into());
    };
    write_out(schema)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a time in RFC 3339, or `now`.
///
/// # Errors
/// It is neither.
#[expect(clippy::disallowed_methods, reason = "the present of a command line")]
pub fn time(text: &str) -> Result<Timestamp, String> {
    match text {
        "now" => {
            let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let since_epoch = since_epoch.map_err(|error| error.to_string())?;
            Ok(Timestamp::EPOCH.saturating_add(since_epoch))
        }
        _ => Timestamp::parse(text).map_err(|error| error.to_string()),
    }
}

/// Writes to stdout. A reader that closes the pipe, such as `head`, is not an error.
///
/// # Errors
/// The text cannot be written.
pub fn write_out(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Whether stdout is a terminal that shows colours: `NO_COLOR` is not set.
#[expect(clippy::disallowed_methods, reason = "a setting of command line tools")]
pub fn shows_colours() -> bool {
    let is_refused = std::env::var("NO_COLOR").is_ok_and(|value| !value.is_empty());
    !is_refused && io::stdout().is_terminal()
}

/// Waits for Ctrl-C; never returns if the signal cannot be received.
#[cfg(feature = "kube")]
pub async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The directory that holds the dump of the shop's cluster.
pub fn shop_dump() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/shop"))
}

/// The directory with the other objects of the shop's cluster, which will be cleaned up, as
/// `data/shop-cleanup/README.md` describes them. It is read together with [`shop_dump`].
pub fn shop_cleanup_dump() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/shop-cleanup"))
}

/// The time of the dump of the shop's cluster, of both directories.
pub const SHOP_DUMP_TAKEN_AT: &str = "2026-10-20T10:30:00Z";

/// The directory that holds the dump of one node, as `data/node/README.md` describes it. It has all pods,
/// and no container mounts an image.
pub fn node_dump() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/node"))
}

/// The time of the dump of the node.
pub const NODE_DUMP_TAKEN_AT: &str = "2026-03-01T12:00:00Z";

/// The kinds that the dump holds completely, as `data/shop/README.md` lists them.
pub fn shop_complete() -> Vec<&'static str> {
    const KINDS: &str = "namespaces pods deployments replicasets statefulsets daemonsets controllerrevisions jobs cronjobs \
        horizontalpodautoscalers services ingresses networkpolicies poddisruptionbudgets persistentvolumeclaims configmaps \
        secrets serviceaccounts roles rolebindings clusterroles clusterrolebindings nodes persistentvolumes storageclasses \
        priorityclasses resourcequotas databases tenants customresourcedefinitions endpointslices@shop";
    KINDS.split_whitespace().collect()
}

/// The kinds that both directories together hold completely, without those of [`shop_complete`], as
/// `data/shop-cleanup/README.md` lists them.
pub fn shop_cleanup_complete() -> Vec<&'static str> {
    vec!["certificatesigningrequests", "leases@kube-node-lease"]
}
