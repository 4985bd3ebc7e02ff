//! The conditions that terminating objects wait for.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use kubegc_control_plane::{Act, Actor, Refusal, finalizers::Finalizer};
use kubegc_controllers::{Missing, Reason};
use kubegc_core::{ObjectRef, Timestamp, metadata};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::words::{some_of, span};

/// A condition that a terminating object waits for.
///
/// # Examples
/// A ConfigMap has a finalizer of an operator.
/// ```
/// # use kubegc_core::{DeleteOptions, KubernetesVersion};
/// # use kubegc_predict::{Assumptions, Cluster, Intent};
/// # let version = KubernetesVersion::LATEST;
/// # let mut reader = kubegc_snapshot::Reader::new(version).complete("all");
/// # reader.read("dump.yaml", &b"
/// # apiVersion: v1
/// # kind: ConfigMap
/// # metadata: {namespace: shop, name: settings, uid: u1, finalizers: [example.com/hold]}
/// # "[..])?;
/// # let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
/// use kubegc_predict::Fate;
/// let delete = Intent::delete("shop/ConfigMap/settings".parse()?, DeleteOptions::default());
/// let forecast = cluster.predict(&[delete])?;
/// let Fate::Terminating { waits_for } = &forecast.fates[0].fate else { panic!("{:?}", forecast.fates) };
/// assert_eq!(waits_for[0].finalizer(), Some("example.com/hold"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// For its dependents: it is deleted in the foreground.
    Dependents {
        /// The dependents that block its deletion. Empty if none of them is in the dump.
        blocking: Vec<Blocking>,
    },
    /// For the content of a namespace, or the custom resources of a CustomResourceDefinition.
    Content {
        /// The finalizer, such as `kubernetes`.
        finalizer: Arc<str>,
        /// The objects that remain, by resource.
        remaining: Vec<Remaining>,
        /// Whether pods are among them, before which nothing else is deleted.
        pods_are_first: bool,
    },
    /// For the removal of a finalizer.
    Finalizer {
        /// The finalizer.
        name: Arc<str>,
        /// The component that removes it; `None` for a finalizer of an operator.
        known: Option<&'static Finalizer>,
        /// The reason why that component has not removed it, if known.
        reason: Option<NotRemoved>,
    },
    /// For the end of its grace period.
    Grace {
        /// The time at which it ends; `None` if the object has none.
        ends_at: Option<Timestamp>,
    },
    /// For a request that the API server refuses, such as one that an admission webhook must allow. Its
    /// sender tries again.
    Refused {
        /// The finalizer that the object has until then.
        finalizer: Option<Arc<str>>,
        /// The sender.
        actor: Actor,
        /// The verb.
        act: Act,
        /// The object of the request; the namespace itself for a delete of its content.
        object: ObjectRef,
        /// The API server's message, and what refuses.
        refusal: Refusal,
    },
    /// A namespace for the discovery of an API that an extension API server serves.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BlockedBy {
    /// The API server refuses its deletion, or the removal of its owner reference.
    Refused(Refusal),
    /// It names an owner of this apiVersion and kind, which is not served: the collector never decides about
    /// it.
    OwnerNotServed(String),
}

impl fmt::Display for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.object.short())?;
        match &self.because {
            Some(BlockedBy::Refused(refusal)) => {
                write!(f, " (the API server refuses to delete or release it: {refusal})")
            }
            Some(BlockedBy::OwnerNotServed(kind)) => write!(
                f,
                " (it names an owner of {kind}, which is not served: the collector never decides about it)"
            ),
            None => Ok(()),
        }
    }
}

/// The reason why the owner of a finalizer has not removed it.
///
/// # Examples
/// [`Wait::Finalizer`] has one: `wait.to_string()` ends with it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NotRemoved {
    /// Its controller keeps the object for this reason.
    Kept(Reason),
    /// Its controller cannot decide, because this fact is missing from the dump.
    Unknown(Missing),
    /// Its controller is not among those of the question.
    NotRunning,
    /// It is assumed not to act.
    Assumed,
    /// It normally acts sooner, so it does not act.
    Overdue {
        /// How long the object has been terminating.
        lasted: Duration,
        /// The time within which it normally acts.
        within: Duration,
    },
    /// Other objects have waited for it so long that it does not act.
    Elsewhere,
}

impl fmt::Display for NotRemoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(reason) => write!(f, "{reason}"),
            Self::Unknown(missing) => write!(f, "{missing}"),
            Self::NotRunning => f.write_str("it does not run"),
            Self::Assumed => f.write_str("it is assumed not to act"),
            Self::Overdue { lasted, within } => {
                let (lasted, within) = (span(*lasted), span(*within));
                write!(f, "it has not for {lasted}, and normally does within {within}")
            }
            Self::Elsewhere => f.write_str("other objects show that it does not act"),
        }
    }
}

/// The objects of one resource that remain.
///
/// # Examples
/// A ConfigMap with a finalizer of an operator keeps its Namespace.
/// ```
/// # use kubegc_core::{DeleteOptions, KubernetesVersion};
/// # use kubegc_predict::{Assumptions, Cluster, Intent};
/// # let version = KubernetesVersion::LATEST;
/// # let mut reader = kubegc_snapshot::Reader::new(version).complete("all");
/// # reader.read("dump.yaml", &b"
/// # apiVersion: v1
/// # kind: Namespace
/// # metadata: {name: shop, uid: u0}
/// # spec: {finalizers: [kubernetes]}
/// # ---
/// # apiVersion: v1
/// # kind: ConfigMap
/// # metadata: {namespace: shop, name: settings, uid: u1, finalizers: [example.com/hold]}
/// # "[..])?;
/// # let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
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
    /// Number of objects.
    pub count: usize,
    /// Number of them by finalizer.
    pub finalizers: BTreeMap<Arc<str>, usize>,
}

impl Wait {
    /// The finalizer that is waited for, if any.
    #[must_use]
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

/// Maximum number of dependents that a sentence names.
const NAMED_MAX: usize = 5;

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dependents { blocking } if blocking.is_empty() => {
                f.write_str("dependents that the dump does not have")
            }
            Self::Dependents { blocking } => {
                let names = blocking.iter().map(ToString::to_string).collect();
                write!(f, "its dependents {}", some_of(names, NAMED_MAX).join(", "))
            }
            Self::Content { remaining, .. } if remaining.is_empty() => {
                f.write_str("content that the dump does not have")
            }
            Self::Content {
                remaining,
                pods_are_first,
                ..
            } => {
                let counts: Vec<String> = remaining
                    .iter()
                    .map(|kind| format!("{} ({})", kind.resource, kind.count))
                    .collect();
                write!(f, "its content, of which these remain: {}", counts.join(", "))?;
                let mut finalizers = BTreeMap::<&str, usize>::new();
                for (name, count) in remaining.iter().flat_map(|kind| &kind.finalizers) {
                    *finalizers.entry(name).or_default() += count;
                }
                for (at, (name, count)) in finalizers.into_iter().enumerate() {
                    let before = if at == 0 { "; finalizers remaining: " } else { ", " };
                    let s = if count == 1 { "" } else { "s" };
                    write!(f, "{before}{name} in {count} object{s}")?;
                }
                match pods_are_first {
                    true => f.write_str("; nothing else is deleted while pods remain"),
                    false => Ok(()),
                }
            }
            Self::Finalizer { name, known, reason } => {
                write!(f, "finalizer {name}")?;
                match known {
                    Some(known) => write!(f, ", which {} removes {}", known.owner, known.removed)?,
                    None => f.write_str(", which no controller of Kubernetes removes")?,
                }
                match reason {
                    Some(reason) => write!(f, ": {reason}"),
                    None => Ok(()),
                }
            }
            Self::Refused {
                actor,
                act,
                object,
                refusal,
                ..
            } => {
                let request = match act {
                    Act::Delete { .. } => format!("delete of {}", object.short()),
                    Act::DeleteCollection => "delete of its content".to_owned(),
                    Act::Patch { .. } => format!("patch of {}", object.short()),
                    Act::Create => format!("create of {}", object.short()),
                    _ => format!("write of {}", object.short()),
                };
                write!(
                    f,
                    "the API server, which refuses the {actor}'s {request}: {refusal}"
                )
            }
            Self::Discovery {
                api_version,
                api_service,
                failure,
                since,
                ..
            } => {
                write!(f, "the discovery of {api_version}, which fails")?;
                if let Some(since) = since {
                    write!(f, " since {since}")?;
                }
                write!(f, ": apiservice/{api_service} is not available ({failure})")
            }
            Self::Conversion {
                finalizer,
                resource,
                definition,
                failure,
            } => {
                match finalizer.as_deref() {
                    Some(metadata::FINALIZER_FOREGROUND | metadata::FINALIZER_ORPHAN) => {
                        write!(f, "the garbage collector, which cannot list {resource}")?;
                    }
                    Some(_) => write!(f, "the namespace-controller, which cannot list {resource}")?,
                    None => write!(f, "the garbage collector, which cannot read {resource}")?,
                }
                write!(
                    f,
                    " because the conversion webhook of customresourcedefinition/{definition} cannot be reached: \
                     {failure}"
                )
            }
            Self::Kubelet {
                node: Some(node),
                overdue_since: Some(since),
            } => {
                write!(
                    f,
                    "the kubelet of node {node}, which has not ended it although its grace period ended at {since}"
                )
            }
            Self::Kubelet { node: Some(node), .. } => {
                write!(f, "the kubelet of node {node}, which does not run")
            }
            Self::Kubelet { node: None, .. } => f.write_str("its kubelet: pods are assumed never to end"),
            Self::Grace { ends_at: Some(at) } => write!(f, "the end of its grace period at {at}"),
            Self::Grace { ends_at: None } => f.write_str("a condition that the dump does not show"),
        }
    }
}

/// The finalizer, the sentence, and the fields of each kind of wait.
impl Serialize for Wait {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_map(None)?;
        document.serialize_entry("finalizer", &self.finalizer())?;
        document.serialize_entry("text", &self.to_string())?;
        match self {
            Self::Dependents { blocking } => {
                let dependents: Vec<&ObjectRef> = blocking.iter().map(|blocking| &blocking.object).collect();
                document.serialize_entry("dependents", &dependents)?;
            }
            Self::Content { remaining, .. } => document.serialize_entry("remaining", remaining)?,
            Self::Finalizer { known, reason, .. } => {
                let removed_by = known.map(|known| known.owner.to_string());
                document.serialize_entry("removedBy", &removed_by)?;
                document.serialize_entry("removedWhen", &known.map(|known| known.removed))?;
                document.serialize_entry("reason", &reason.as_ref().map(ToString::to_string))?;
            }
            Self::Grace { ends_at } => document.serialize_entry("gracePeriodEndsAt", ends_at)?,
            Self::Refused {
                actor,
                act,
                object,
                refusal,
                ..
            } => {
                document.serialize_entry("refusedTo", &actor.to_string())?;
                document.serialize_entry("verb", &act.to_string())?;
                document.serialize_entry("requestFor", object)?;
                document.serialize_entry("message", &refusal.message)?;
            }
            Self::Discovery {
                api_version,
                api_service,
                failure,
                since,
                ..
            } => {
                document.serialize_entry("apiVersion", api_version)?;
                document.serialize_entry("apiService", api_service)?;
                document.serialize_entry("failure", failure)?;
                document.serialize_entry("since", since)?;
            }
            Self::Conversion {
                resource,
                definition,
                failure,
                ..
            } => {
                document.serialize_entry("resource", resource)?;
                document.serialize_entry("definition", definition)?;
                document.serialize_entry("failure", failure)?;
            }
            Self::Kubelet { node, overdue_since } => {
                document.serialize_entry("node", node)?;
                document.serialize_entry("overdueSince", overdue_since)?;
            }
        }
        document.end()
    }
}
