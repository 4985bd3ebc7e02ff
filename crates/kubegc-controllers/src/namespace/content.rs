//! The content of a namespace in one sync.

use kubegc_core::{ApiResource, store::Discovered};

use super::{
    Remaining,
    remaining::{sorted_list, updated},
};
use crate::{prelude::*, request::server_message};

#[derive(Debug, Default)]
pub(super) struct Content {
    failures: Vec<(StoreError, String)>,
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

/// A sync failed with an error of the API server.
pub(super) fn refused(error: StoreError) -> End {
    End::failed_with(server_message(&error), error, true)
}

impl Content {
    /// Adds the failures of discovery. Returns the resources to delete, in the order of discovery.
    ///
    /// Upstream's `GroupVersionResources` returns none if one group version cannot be parsed.
    pub(super) fn discovered(&mut self, discovered: &Discovered) -> Vec<Arc<ApiResource>> {
        let versions = &discovered.failed;
        let groups = versions
            .iter()
            .map(|(api_version, message)| format!("{api_version}: {message}"));
        if let Some(message) = versions.get("") {
            self.discovery_failed(End::failed_by(message.clone(), true), None);
        } else if let Some(groups) = sorted_list(groups) {
            let message = format!("unable to retrieve the complete list of server APIs: {groups}");
            let count = versions.len();
            let condition = format!("Discovery failed for some groups, {count} failing: {message}");
            self.discovery_failed(End::failed_by(message, true), Some(condition));
        }
        let resources = discovered.catalog.iter().map(|(_, resource)| resource);
        let is_content =
            |resource: &&ApiResource| resource.is_namespaced() && resource.preferred && resource.verbs.delete;
        let resources: Vec<&ApiResource> = resources.filter(is_content).collect();
        if let Some(resource) = resources.iter().find(|resource| resource.version.contains('/')) {
            let message = format!("unexpected GroupVersion string: {}", resource.api_version());
            self.parsing_failure = Some(message.clone());
            self.add_failure(End::failed_by(message, true));
            return Vec::new();
        }
        resources.into_iter().cloned().map(Arc::new).collect()
    }

    /// Adds a failure of discovery. Without another text, the condition has the text of the error.
    pub(super) fn discovery_failed(&mut self, failure: End, condition: Option<String>) {
        let message = self.add_failure(failure);
        self.discovery_failure = condition.or(message);
    }

    /// Adds a failure or a missing fact. Returns the message of a failure.
    fn add_failure(&mut self, end: End) -> Option<String> {
        match end {
            End::Failed { error, message, .. } => {
                self.failures.push((error, message.clone()));
                return Some(message);
            }
            End::Unknown(missing) => drop(self.missing.get_or_insert(missing)),
            _ => {}
        }
        None
    }

    /// Adds what remains of the pods, which are deleted before all else. Upstream adds its own text to their
    /// error, but not in the condition.
    pub(super) fn add_first_pods(&mut self, namespace: &str, remaining: Remaining, result: Result<(), End>) {
        self.waits_for_pods = !remaining.resources.is_empty();
        let before = self.failures.len();
        self.add(remaining, result);
        for (_, message) in self.failures.iter_mut().skip(before) {
            *message = format!("failed to delete pods for namespace: {namespace}, err: {message}");
        }
    }

    pub(super) fn add(&mut self, remaining: Remaining, result: Result<(), End>) {
        let failure = result.err().and_then(|end| self.add_failure(end));
        self.resource_failures.extend(failure);
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
        version: KubernetesVersion,
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
        updated(old, messages, version, now)
    }

    /// The end of a sync that leaves the namespace as it is; `None` if it is to be finalized.
    pub(super) fn end(self) -> Option<End> {
        let mut texts: Vec<&str> = Vec::new();
        for (_, message) in &self.failures {
            if !texts.contains(&&**message) {
                texts.push(message);
            }
        }
        // The form of upstream's `NewAggregate`.
        let text = match texts.as_slice() {
            [one] => (*one).to_owned(),
            several => format!("[{}]", several.join(", ")),
        };
        if let Some((error, _)) = self.failures.into_iter().next() {
            return Some(End::failed_with(text, error, true));
        }
        let seconds = u64::try_from(self.remaining.estimate_seconds).unwrap_or(0);
        (seconds > 0).then(|| End::RequeueAfter {
            after: Duration::from_secs(seconds / 2 + 1),
            reason: Reason::new("ContentRemains", self.remaining.to_string()),
        })
    }
}
