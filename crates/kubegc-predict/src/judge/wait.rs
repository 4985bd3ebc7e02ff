//! The conditions that terminating objects wait for.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_control_plane::{Act, Actor, Refusal, finalizers::Finalizer};
use kubegc_core::{ObjectRef, Timestamp, metadata};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::words::{number, some_of};

/// A condition that a terminating object waits for.
///
/// # Examples
/// A ConfigMap has a finalizer of an operator.
/// ```
/// # use kubegc_core::DeleteOptions;
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/held.in"));
/// use kubegc_predict::Fate;
/// let delete = Intent::delete("shop/ConfigMap/settings".parse()?, DeleteOptions::default());
/// let forecast = cluster.predict(&[delete])?;
/// let Fate::Terminating { waits_for } = &forecast.fates[0].fate else { panic!("{:?}", forecast.fates) };
/// assert_eq!(waits_for[0].finalizer(), Some("example.com/hold"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Wait {
    /// For its dependents: it is deleted in the foreground.
    #[display("{}", dependents(blocking))]
    Dependents {
        /// The dependents that block its deletion. Empty if none of them is in the dump.
        blocking: Vec<Blocking>,
    },
    /// For the content of a namespace, or the custom resources of a CustomResourceDefinition.
    #[display("{}", content(remaining, *pods_are_first))]
    Content {
        /// The finalizer, such as `kubernetes`.
        finalizer: Arc<str>,
        /// The objects that remain, by resource.
        remaining: Vec<Remaining>,
        /// Whether pods are among them, before which nothing else is deleted.
        pods_are_first: bool,
    },
    /// For the removal of a finalizer.
    #[display("finalizer {name}, which {}", remover(*known, reason.as_deref()))]
    Finalizer {
        name: Arc<str>,
        /// The component that removes it; `None` for a finalizer of an operator.
        known: Option<&'static Finalizer>,
        /// The reason why that component has not removed it, if known.
        reason: Option<String>,
        /// Whether that component cannot decide, because a fact is missing from the dump.
        is_undecided: bool,
    },
    /// For the end of its grace period.
    #[display("{}", grace(*ends_at))]
    Grace {
        /// The time at which it ends; `None` if the object has none.
        ends_at: Option<Timestamp>,
    },
    /// For a request that the API server refuses, such as one that an admission webhook must allow. Its
    /// sender tries again.
    #[display("the API server, which refuses the {actor}'s {}: {refusal}", request(*act, object))]
    Refused {
        /// The finalizer that the object has until then.
        finalizer: Option<Arc<str>>,
        /// The sender.
        actor: Actor,
        act: Act,
        /// The object of the request; the namespace itself for a delete of its content.
        object: ObjectRef,
        /// The API server's message, and what refuses.
        refusal: Refusal,
    },
    /// A namespace for the discovery of an API that an extension API server serves.
    #[display(
        "the discovery of {api_version}, which fails{}: apiservice/{api_service} is not available ({failure})",
        since.map_or(String::new(), |since| format!(" since {since}"))
    )]
    Discovery {
        /// The finalizer, `kubernetes`.
        finalizer: Arc<str>,
        /// Its group and version.
        api_version: String,
        /// The name of its APIService.
        api_service: Arc<str>,
        /// Why it is not available.
        failure: Arc<str>,
        /// Since when, if the dump says so.
        since: Option<Timestamp>,
    },
    /// For the conversion of custom resources: the controller that removes the finalizer cannot list or read
    /// them.
    #[display(
        "{} {resource} because the conversion webhook of customresourcedefinition/{definition} cannot be \
         reached: {failure}",
        reader(finalizer.as_deref())
    )]
    Conversion {
        /// The finalizer; `None` if a dependent is kept because its owner cannot be read.
        finalizer: Option<Arc<str>>,
        /// The resource with its version, as kubectl takes it: `widgets.v1.example.com`.
        resource: String,
        /// The name of its CustomResourceDefinition, whose conversion webhook cannot be reached.
        definition: Arc<str>,
        /// Why it cannot be reached.
        failure: Arc<str>,
    },
    /// For a kubelet.
    #[display("{}", kubelet(node.as_deref(), *overdue_since))]
    Kubelet {
        /// The node, which is lost or does not exist; `None` if pods are assumed never to end.
        node: Option<Arc<str>>,
        /// The end of the grace period, if the node is ready and its kubelet should have ended the pod long
        /// ago.
        overdue_since: Option<Timestamp>,
    },
}

/// A dependent that blocks the deletion of an owner.
///
/// # Examples
/// [`Wait::Dependents`] has them: `wait.to_string()` names each, with its reason.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Blocking {
    /// The dependent.
    pub object: ObjectRef,
    /// Why it is not deleted; `None` if it is terminating itself.
    pub because: Option<BlockedBy>,
}

/// The reason why a dependent is not deleted with its owner.
///
/// # Examples
/// [`Blocking::because`] is one.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum BlockedBy {
    /// The API server refuses its deletion, or the removal of its owner reference.
    #[display("the API server refuses to delete or release it: {_0}")]
    Refused(Refusal),
    /// It names an owner of this apiVersion and kind, which is not served: the collector never decides about
    /// it.
    #[display("it names an owner of {_0}, which is not served: the collector never decides about it")]
    OwnerNotServed(String),
}

/// The objects of one resource that remain.
///
/// # Examples
/// A ConfigMap with a finalizer of an operator keeps its Namespace.
/// ```
/// # use kubegc_core::DeleteOptions;
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/held.in"));
/// use kubegc_predict::{Fate, Wait};
/// let delete = Intent::delete("Namespace/shop".parse()?, DeleteOptions::default());
/// let forecast = cluster.predict(&[delete])?;
/// let namespace = forecast.fates.iter().find(|fate| &*fate.object.kind == "Namespace").expect("it is deleted");
/// let Fate::Terminating { waits_for } = &namespace.fate else { panic!("{:?}", namespace.fate) };
/// let Wait::Content { remaining, .. } = &waits_for[0] else { panic!("{waits_for:?}") };
/// assert_eq!((&*remaining[0].resource, remaining[0].count), ("configmaps", 1));
/// assert_eq!(remaining[0].finalizers["example.com/hold"], 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Remaining {
    /// The resource, as kubectl accepts it: `deployments.apps`.
    pub resource: String,
    pub count: usize,
    /// Number of them by finalizer.
    pub finalizers: BTreeMap<Arc<str>, usize>,
}

impl Wait {
    /// The finalizer that is waited for, if any.
    pub fn finalizer(&self) -> Option<&str> {
        match self {
            Self::Dependents { .. } => Some(metadata::FINALIZER_FOREGROUND),
            Self::Content { finalizer, .. } | Self::Discovery { finalizer, .. } => Some(finalizer),
            Self::Refused { finalizer, .. } | Self::Conversion { finalizer, .. } => finalizer.as_deref(),
            Self::Finalizer { name, .. } => Some(name),
            Self::Grace { .. } | Self::Kubelet { .. } => None,
        }
    }
}

const NAMED_MAX: usize = 5;

fn dependents(blocking: &[Blocking]) -> String {
    if blocking.is_empty() {
        return "dependents that the dump does not have".to_owned();
    }
    let names = blocking.iter().map(|blocking| match &blocking.because {
        Some(because) => format!("{} ({because})", blocking.object.short()),
        None => blocking.object.short(),
    });
    let names = some_of(names.collect(), NAMED_MAX);
    format!("its dependents {}", names.join(", "))
}

fn content(remaining: &[Remaining], pods_are_first: bool) -> String {
    if remaining.is_empty() {
        return "content that the dump does not have".to_owned();
    }
    let counts = remaining
        .iter()
        .map(|kind| format!("{} ({})", kind.resource, kind.count));
    let counts: Vec<String> = counts.collect();
    let mut text = format!("its content, of which these remain: {}", counts.join(", "));
    let mut finalizers = BTreeMap::<&str, usize>::new();
    for (name, count) in remaining.iter().flat_map(|kind| &kind.finalizers) {
        *finalizers.entry(name).or_default() += count;
    }
    for (at, (name, count)) in finalizers.into_iter().enumerate() {
        let before = if at == 0 { "; finalizers remaining: " } else { ", " };
        text.push_str(&format!("{before}{name} in {}", number(count, "object")));
    }
    if pods_are_first {
        text.push_str("; nothing else is deleted while pods remain");
    }
    text
}

/// The component that removes a finalizer, and why it has not, as the rest of a sentence.
fn remover(known: Option<&Finalizer>, reason: Option<&str>) -> String {
    let remover = match known {
        Some(known) => format!("{} removes {}", known.owner, known.removed),
        None => "no controller of Kubernetes removes".to_owned(),
    };
    match reason {
        Some(reason) => format!("{remover}: {reason}"),
        None => remover,
    }
}

fn grace(ends_at: Option<Timestamp>) -> String {
    match ends_at {
        Some(at) => format!("the end of its grace period at {at}"),
        None => "a condition that the dump does not show".to_owned(),
    }
}

fn request(act: Act, object: &ObjectRef) -> String {
    let verb = match act {
        Act::DeleteCollection => return "delete of its content".to_owned(),
        Act::Delete { .. } => "delete",
        Act::Patch { .. } => "patch",
        Act::Create => "create",
        _ => "write",
    };
    format!("{verb} of {}", object.short())
}

/// The controller that cannot read custom resources, by the finalizer that it would remove.
fn reader(finalizer: Option<&str>) -> &'static str {
    match finalizer {
        Some(metadata::FINALIZER_FOREGROUND | metadata::FINALIZER_ORPHAN) => {
            "the garbage collector, which cannot list"
        }
        Some(_) => "the namespace-controller, which cannot list",
        None => "the garbage collector, which cannot read",
    }
}

fn kubelet(node: Option<&str>, overdue_since: Option<Timestamp>) -> String {
    match (node, overdue_since) {
        (Some(node), Some(since)) => format!(
            "the kubelet of node {node}, which has not ended it although its grace period ended at {since}"
        ),
        (Some(node), None) => format!("the kubelet of node {node}, which does not run"),
        (None, _) => "its kubelet: pods are assumed never to end".to_owned(),
    }
}

/// The finalizer, the sentence, and the fields of each kind of wait.
impl Serialize for Wait {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = match self {
            Self::Dependents { blocking } => {
                json!({ "dependents": blocking.iter().map(|one| &one.object).collect::<Vec<_>>() })
            }
            Self::Content { remaining, .. } => json!({ "remaining": remaining }),
            Self::Finalizer { known, reason, .. } => json!({
                "removedBy": known.map(|known| known.owner.to_string()),
                "removedWhen": known.map(|known| known.removed),
                "reason": reason,
            }),
            Self::Grace { ends_at } => json!({ "gracePeriodEndsAt": ends_at }),
            Self::Refused {
                actor,
                act,
                object,
                refusal,
                ..
            } => json!({
                "refusedTo": actor.to_string(),
                "verb": act.to_string(),
                "requestFor": object,
                "message": refusal.message,
            }),
            Self::Discovery {
                api_version,
                api_service,
                failure,
                since,
                ..
            } => json!({
                "apiVersion": api_version,
                "apiService": api_service,
                "failure": failure,
                "since": since,
            }),
            Self::Conversion {
                resource,
                definition,
                failure,
                ..
            } => json!({ "resource": resource, "definition": definition, "failure": failure }),
            Self::Kubelet { node, overdue_since } => {
                json!({ "node": node, "overdueSince": overdue_since })
            }
        };
        document["finalizer"] = json!(self.finalizer());
        document["text"] = self.to_string().into();
        document.serialize(serializer)
    }
}
