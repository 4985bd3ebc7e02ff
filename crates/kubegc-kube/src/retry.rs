//! Repeats the requests that a collector needs before it can start, until they succeed.

use std::{error::Error, time::Duration};

use kube::Client;
use kubegc_core::KubernetesVersion;
use tokio::time::sleep;

use crate::request::with_causes;

/// The wait after the first failure. Each further failure doubles it.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Repeats a request with backoff while its failure is temporary, and logs each failure.
pub(crate) async fn with_backoff<T, E: Error, F: Future<Output = Result<T, E>>>(
    purpose: &'static str,
    is_temporary: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> F,
) -> Result<T, E> {
    let mut wait = WAIT_MIN;
    loop {
        let error = match attempt().await {
            Err(error) if is_temporary(&error) => error,
            result => return result,
        };
        let seconds = wait.as_secs();
        tracing::warn!(
            error = with_causes(&error),
            "{purpose} failed; next attempt in {seconds} s"
        );
        sleep(wait).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// The version to emulate: the given one, or that of the API server, which is waited for.
pub(crate) async fn version(
    client: &Client,
    given: Option<KubernetesVersion>,
) -> Result<KubernetesVersion, crate::Error> {
    if let Some(version) = given {
        return Ok(version);
    }
    let is_temporary = |error: &crate::Error| matches!(error, crate::Error::Version { .. });
    with_backoff("GET /version", is_temporary, || crate::version(client)).await
}
