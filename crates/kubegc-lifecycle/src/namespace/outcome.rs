//! What a visit amounts to: how it ended, what remains, and when to come again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_core::{StoreError, Uid};

use super::{Condition, DiscoveryFailure, GroupVersionResource};

/// What a visit amounts to.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// How the visit ended.
    pub ending: Ending,
    /// What went wrong, in the order in which it did.
    pub errors: Vec<Error>,
    /// How many objects remain of each resource that is not empty, as far as it was listed at the end.
    pub remaining: BTreeMap<GroupVersionResource, u64>,
    /// How many objects each finalizer holds.
    pub finalizers_remaining: BTreeMap<Arc<str>, u64>,
    /// Whether pods remain and nothing else was touched because of them.
    pub waits_for_pods: bool,
    /// The conditions as this visit wants them, written or not.
    pub conditions: Vec<Condition>,
    /// What is odd, without a consequence of its own.
    pub findings: Vec<Finding>,
    /// When to visit again; `None` where only an event can make that necessary.
    pub requeue_after: Option<Duration>,
}

impl Outcome {
    /// The error that upstream's visit returns, in its words; `None` where it returns none.
    ///
    /// # Upstream
    /// `utilerrors.NewAggregate`: several errors stand in brackets, equal ones once. `ResourcesRemainingError` for what takes time.
    #[must_use]
    pub fn error_text(&self) -> Option<String> {
        if let Ending::Remaining { estimate_seconds } = self.ending {
            return Some(format!(
                "some content remains in the namespace, estimate {estimate_seconds} seconds before it is removed"
            ));
        }
        let mut texts: Vec<String> = Vec::new();
        for error in &self.errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }
}

/// How a visit ended.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The namespace does not exist any more.
    Gone,
    /// Nobody asked for the deletion of the namespace.
    NotDeleted,
    /// The namespace had no finalizer left; the API server removes it.
    AlreadyFinalized,
    /// Nothing was left, and the finalizer was removed.
    Finalized,
    /// Something is left that will go by itself.
    Remaining {
        /// How long that may take.
        estimate_seconds: i64,
    },
    /// Something went wrong; see the errors.
    Failed,
}

/// Why a visit failed. The texts are upstream's.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// A call failed, with this message of the API server.
    #[error("{message}")]
    Call {
        /// The message.
        message: String,
    },
    /// Another namespace of the same name has taken the place of the one that was visited.
    #[error("namespace uid has changed across retries")]
    UidChanged {
        /// The uid that was visited.
        before: Uid,
        /// The uid that is there now.
        after: Uid,
    },
    /// Not everything was discovered.
    #[error("{0}")]
    Discovery(DiscoveryFailure),
    /// Discovery named a group and version that do not parse.
    #[error("{message}")]
    GroupVersion {
        /// The parser's message.
        message: String,
    },
    /// Objects are left although nothing holds them.
    #[error("unexpected items still remain in namespace: {namespace} for gvr: {resource}")]
    UnexpectedItems {
        /// The namespace.
        namespace: Arc<str>,
        /// The resource.
        resource: GroupVersionResource,
    },
    /// The pods, which go first, could not be handled. Upstream's text repeats the cause.
    #[error("failed to delete pods for namespace: {namespace}, err: {source}")]
    Pods {
        /// The namespace.
        namespace: Arc<str>,
        /// What went wrong with them.
        source: Box<Self>,
    },
}

impl From<StoreError> for Error {
    /// Keeps the server's own words where there are any: they are what upstream passes on.
    fn from(error: StoreError) -> Self {
        Self::Call {
            message: own_words(error),
        }
    }
}

pub(super) fn own_words(error: StoreError) -> String {
    match error {
        StoreError::Conflict { message }
        | StoreError::Invalid { message }
        | StoreError::Refused { message, .. }
        | StoreError::Unknown { message } => message,
        other => other.to_string(),
    }
}

/// What is odd about a visit, without a consequence of its own.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// The conditions could not be written; upstream only logs that.
    ConditionsNotWritten {
        /// The API server's message.
        message: String,
    },
    /// Pods remain, yet the conditions say that everything is gone: upstream returns before it counts (kubernetes #138208).
    ConditionsMissPods,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(ending: Ending, errors: &[&str]) -> Outcome {
        let error = |message: &&str| Error::Call {
            message: (*message).to_owned(),
        };
        Outcome {
            ending,
            errors: errors.iter().map(error).collect(),
            remaining: BTreeMap::new(),
            finalizers_remaining: BTreeMap::new(),
            waits_for_pods: false,
            conditions: Vec::new(),
            findings: Vec::new(),
            requeue_after: None,
        }
    }

    #[test]
    fn errors_are_gathered_in_upstreams_form() {
        let remaining = Ending::Remaining { estimate_seconds: 15 };
        for (ending, errors, expected) in [
            (Ending::Finalized, &[][..], None),
            (Ending::Failed, &["a"], Some("a")),
            (Ending::Failed, &["b", "a", "b"], Some("[b, a]")),
            (Ending::Failed, &["a", "a"], Some("a")),
            (
                remaining,
                &[],
                Some("some content remains in the namespace, estimate 15 seconds before it is removed"),
            ),
        ] {
            assert_eq!(
                outcome(ending, errors).error_text().as_deref(),
                expected,
                "{errors:?}"
            );
        }
    }
}
