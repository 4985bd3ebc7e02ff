//! The content of a namespace in one sync.

use std::{sync::Arc, time::Duration};

use kubegc_core::{ApiResource, StoreError, Timestamp, record::Condition, store::Discovered};

use super::{
    NamespaceController, Remaining,
    remaining::{sorted_list, updated},
};
use crate::{End, Missing, Reason, request::server_message};

/// The content of a namespace in one sync.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// All errors, in order.
    failures: Vec<Failure>,
    discovery_failure: Option<String>,
    parsing_failure: Option<String>,
    /// Errors of single resources, for the condition about deletion: without the prefix that
    /// [`failures`](Self::failures) adds to the error of pods.
    resource_failures: Vec<String>,
    remaining: Remaining,
    /// Whether pods remain, and nothing else was deleted because of them.
    pub(super) waits_for_pods: bool,
    /// The first fact that was missing. The sync then ends without a result.
    pub(super) missing: Option<Missing>,
}

#[derive(Debug)]
pub(super) struct Failure {
    error: StoreError,
    /// Upstream's text: the server's message if a request failed.
    message: String,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self {
            message: server_message(&error),
            error,
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self {
            error: StoreError::Unknown {
                message: message.clone(),
            },
            message,
        }
    }
}

impl Failure {
    pub(super) fn message(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// The end of a sync that failed with this error alone.
    pub(super) fn end(self) -> End {
        End::Failed {
            error: self.error,
            message: self.message,
            is_retried: true,
        }
    }
}

/// The reason why the content of one resource could not be deleted.
#[derive(Debug)]
pub(super) enum Problem {
    Failed(Failure),
    Missing(Missing),
}

impl From<Missing> for Problem {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Content {
    /// Adds the failures of discovery. Returns the resources to delete, in the order of discovery.
    ///
    /// Upstream's `GroupVersionResources` returns none if one group version cannot be parsed.
    pub(super) fn discovered(&mut self, discovered: &Discovered) -> Vec<Arc<ApiResource>> {
        let failed = &discovered.failed;
        let groups = failed
            .iter()
            .map(|(api_version, message)| format!("{api_version}: {message}"));
        if let Some(message) = failed.get("") {
            self.discovery_failed(message.clone().into(), None);
        } else if let Some(groups) = sorted_list(groups) {
            let message = format!("unable to retrieve the complete list of server APIs: {groups}");
            let count = failed.len();
            let condition = format!("Discovery failed for some groups, {count} failing: {message}");
            self.discovery_failed(message.into(), Some(condition));
        }
        let resources = discovered.catalog.iter().map(|(_, resource)| resource);
        let is_content =
            |resource: &&ApiResource| resource.is_namespaced() && resource.preferred && resource.verbs.delete;
        let resources: Vec<&ApiResource> = resources.filter(is_content).collect();
        if let Some(resource) = resources.iter().find(|resource| resource.version.contains('/')) {
            let message = format!("unexpected GroupVersion string: {}", resource.api_version());
            self.parsing_failure = Some(message.clone());
            self.failures.push(message.into());
            return Vec::new();
        }
        resources.into_iter().cloned().map(Arc::new).collect()
    }

    /// Adds a failure of discovery. Without another text, the condition has the text of the error.
    pub(super) fn discovery_failed(&mut self, failure: Failure, condition: Option<String>) {
        self.discovery_failure = Some(condition.unwrap_or_else(|| failure.message.clone()));
        self.failures.push(failure);
    }

    /// Adds what remains of the pods, which are deleted before all else. Upstream adds its own text to their
    /// error, but not in the condition.
    pub(super) fn add_first_pods(
        &mut self,
        namespace: &str,
        remaining: Remaining,
        result: Result<(), Problem>,
    ) {
        self.waits_for_pods = !remaining.resources.is_empty();
        let has_failed = matches!(result, Err(Problem::Failed(_)));
        self.add(remaining, result);
        if let Some(failure) = self.failures.last_mut().filter(|_| has_failed) {
            let message = &failure.message;
            failure.message = format!("failed to delete pods for namespace: {namespace}, err: {message}");
        }
    }

    /// Adds what remains of one resource.
    pub(super) fn add(&mut self, remaining: Remaining, result: Result<(), Problem>) {
        match result {
            Ok(()) => {}
            Err(Problem::Failed(failure)) => {
                self.resource_failures.push(failure.message.clone());
                self.failures.push(failure);
            }
            Err(Problem::Missing(missing)) => {
                self.missing.get_or_insert(missing);
            }
        }
        let all = &mut self.remaining;
        all.estimate_seconds = all.estimate_seconds.max(remaining.estimate_seconds);
        all.resources.extend(remaining.resources);
        for (finalizer, count) in remaining.finalizers {
            *all.finalizers.entry(finalizer).or_default() += count;
        }
    }

    /// The conditions of the namespace after the sync; `None` if they have not changed.
    pub(super) fn conditions(
        &self,
        old: &[Condition],
        settings: NamespaceController,
        now: Timestamp,
    ) -> Option<Vec<Condition>> {
        let count = self.resource_failures.len();
        let failures = sorted_list(self.resource_failures.iter().cloned());
        let failures =
            failures.map(|list| format!("Failed to delete all resource types, {count} remaining: {list}"));
        // Upstream returns before it passes the remaining objects on (kubernetes #138208).
        let remaining = Some(&self.remaining).filter(|_| !self.waits_for_pods);
        let messages = [
            self.discovery_failure.clone(),
            self.parsing_failure.clone(),
            failures,
            remaining.and_then(Remaining::resources_message),
            remaining.and_then(Remaining::finalizers_message),
        ];
        updated(old, messages, settings, now)
    }

    /// The end of a sync that leaves the namespace as it is; `None` if it is to be finalized.
    pub(super) fn end(self) -> Option<End> {
        let mut texts: Vec<&str> = Vec::new();
        for failure in &self.failures {
            if !texts.contains(&&*failure.message) {
                texts.push(&failure.message);
            }
        }
        // The form of upstream's `NewAggregate`.
        let text = match texts.as_slice() {
            [one] => (*one).to_owned(),
            several => format!("[{}]", several.join(", ")),
        };
        if let Some(first) = self.failures.into_iter().next() {
            return Some(first.message(text).end());
        }
        let seconds = u64::try_from(self.remaining.estimate_seconds).unwrap_or(0);
        (seconds > 0).then(|| End::RequeueAfter {
            after: Duration::from_secs(seconds / 2 + 1),
            reason: Reason::new("ContentRemains", self.remaining.to_string()),
        })
    }
}
