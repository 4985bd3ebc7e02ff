//! The conditions that terminating objects wait for.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_control_plane::{
    Act, Actor, Simulation, Why,
    finalizers::{self, Finalizer, OVERDUE, Owner},
};
use kubegc_controllers::{Key, NamespaceController};
use kubegc_core::{ApiResource, KindId, ObjectMeta, ObjectRef, Timestamp, Uid, metadata};
use kubegc_objects::{Reason, collector::OwnerInGraph};
use kubegc_sim::{ApiServer, StoredObject};
use kubegc_snapshot::SnapshotObject;
use serde::Serialize;

use crate::{Cluster, refusals::Refusals, report::span, run::deletion_requested_at, unknown::kubelet_of};

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
        reason: Option<String>,
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
        /// The API server's message.
        message: Arc<str>,
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
    /// The API server refuses its deletion, or the removal of its owner reference, with this message.
    Refused(Arc<str>),
    /// It names an owner of this apiVersion and kind, which is not served: the collector never decides about
    /// it.
    OwnerNotServed(String),
}

impl fmt::Display for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.object.short())?;
        match &self.because {
            Some(BlockedBy::Refused(message)) => {
                write!(f, " (the API server refuses to delete or release it: {message})")
            }
            Some(BlockedBy::OwnerNotServed(kind)) => write!(
                f,
                " (it names an owner of {kind}, which is not served: the collector never decides about it)"
            ),
            None => Ok(()),
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
#[expect(clippy::exhaustive_structs, reason = "a result that callers read")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
                let names: Vec<String> = blocking.iter().take(NAMED_MAX).map(ToString::to_string).collect();
                write!(f, "its dependents {}", names.join(", "))?;
                match blocking.len().saturating_sub(NAMED_MAX) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
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
                message,
                ..
            } => {
                let request = match act {
                    Act::Delete { .. } => format!("delete of {}", object.short()),
                    Act::DeleteCollection => "delete of its content".to_owned(),
                    Act::Patch { .. } => format!("patch of {}", object.short()),
                    _ => format!("write of {}", object.short()),
                };
                write!(
                    f,
                    "the API server, which refuses the {actor}'s {request}: {message}"
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

/// The conditions that an object of the dump waits for at the end of a simulation.
///
/// # Complexity
/// O(f) for its finalizers; of a namespace, O(k + c) for k kinds and c objects in it.
pub(crate) fn waits_for(
    cluster: &Cluster,
    simulation: &Simulation,
    refusals: &Refusals<'_>,
    object: &SnapshotObject,
    end: &ObjectMeta,
) -> Vec<Wait> {
    let server = &simulation.server;
    let kind = object.kind_id.map(|kind| &server.catalog()[kind]);
    let is = |group: &str, name: &str| kind.is_some_and(|kind| *kind.group == *group && *kind.kind == *name);
    let mut waits = refused(refusals, end);
    let conversions = Conversions::of(simulation, object, end);
    if !conversions.waits.is_empty() {
        waits.retain(
            |wait| !matches!(wait, Wait::Refused { message, .. } if conversions.explain_all_of(message)),
        );
        waits.extend(conversions.waits.iter().cloned());
    }
    let runs = |owner: Owner| cluster.assumptions.runs(owner.name());
    for name in &end.finalizers {
        if waits.iter().any(|wait: &Wait| wait.finalizer() == Some(name)) {
            continue;
        }
        waits.push(match &**name {
            metadata::FINALIZER_FOREGROUND if runs(Owner::GarbageCollector) => Wait::Dependents {
                blocking: blocking(cluster, simulation, refusals, &end.uid),
            },
            CRD_CLEANUP if is("apiextensions.k8s.io", "CustomResourceDefinition") => Wait::Content {
                finalizer: Arc::clone(name),
                remaining: remaining(simulation, None, |kind| {
                    format!("{}.{}", kind.resource, kind.group) == *end.name
                }),
                pods_are_first: false,
            },
            _ => removal(cluster, simulation, object, name),
        });
    }
    if is("", "Namespace") {
        let stored = object.kind_id.and_then(|kind| server.object(kind, "", &end.name));
        let listed = stored.and_then(|stored| stored.at(&["spec", "finalizers"])?.as_array());
        let names = listed.into_iter().flatten().filter_map(|name| name.as_str());
        for name in names {
            match name {
                "kubernetes" if runs(Owner::Controller("namespace-controller")) => {
                    waits.extend(content(simulation, object, end, &name.into(), &conversions));
                }
                _ => waits.push(removal(cluster, simulation, object, &name.into())),
            }
        }
    }
    if waits.is_empty() {
        let grace = end.deletion_grace_period_seconds;
        let ends_at = end.deletion_timestamp.filter(|_| grace != Some(0));
        waits.push(match lost_node(cluster, object) {
            Some(node) => Wait::Kubelet {
                node: Some(node),
                overdue_since: None,
            },
            None if is("", "Pod") && !cluster.assumptions.pods_end => Wait::Kubelet {
                node: None,
                overdue_since: None,
            },
            None => match node_of(object).filter(|_| is_overdue(simulation, ends_at)) {
                Some(node) => Wait::Kubelet {
                    node: Some(node),
                    overdue_since: ends_at,
                },
                None => Wait::Grace { ends_at },
            },
        });
    }
    waits
}

/// The refused requests that an object waits for, each with the finalizer that it would remove.
fn refused(refusals: &Refusals<'_>, end: &ObjectMeta) -> Vec<Wait> {
    let waits = refusals.about(&end.uid).filter_map(|step| {
        let is_its = |name: &&Arc<str>| match &step.why {
            Why::Collector(Reason::OwnerOrphans(_) | Reason::DependentsReleased) => {
                ***name == *metadata::FINALIZER_ORPHAN
            }
            Why::Collector(Reason::NothingBlocks { .. }) => ***name == *metadata::FINALIZER_FOREGROUND,
            _ => finalizers::find(name).is_some_and(|known| match known.owner {
                Owner::Controller(owner) => step.actor == Actor::Controller(owner),
                _ => false,
            }),
        };
        Some(Wait::Refused {
            finalizer: Some(Arc::clone(end.finalizers.iter().find(is_its)?)),
            actor: step.actor,
            act: step.act,
            object: ObjectRef::clone(&step.object),
            message: Arc::clone(step.failure.as_ref()?),
        })
    });
    waits.collect()
}

/// The dependents that block the deletion of an owner in the foreground.
fn blocking(
    cluster: &Cluster,
    simulation: &Simulation,
    refusals: &Refusals<'_>,
    owner: &Uid,
) -> Vec<Blocking> {
    let objects = simulation.plane.collector().explain(owner).blocking;
    let objects = objects.into_iter().map(|object| {
        let refused = refusals.about(&object.uid).find(|step| *step.object == object);
        let because = match refused.and_then(|step| step.failure.as_ref()) {
            Some(message) => Some(BlockedBy::Refused(Arc::clone(message))),
            None => unserved_owner(cluster, &object).map(BlockedBy::OwnerNotServed),
        };
        Blocking { object, because }
    });
    objects.collect()
}

/// apiVersion and kind of an owner of an object that the API server does not serve.
fn unserved_owner(cluster: &Cluster, object: &ObjectRef) -> Option<String> {
    let position = cluster.positions_of(&object.uid).next()?;
    let view = cluster.snapshot.view(position as usize)?;
    let mut references = view.owner_references();
    let unserved = references.find(|reference| {
        cluster.kind_id(&reference.api_version, &reference.kind).is_none()
            && cluster.is_unserved(&reference.api_version, &reference.kind)
    })?;
    Some(format!("{}/{}", unserved.api_version, unserved.kind))
}

/// Whether all errors of a `NamespaceDeletionContentFailure` say that content remains, and none that a
/// request is refused.
fn is_only_remaining(message: &str) -> bool {
    let errors = message.split_once(" remaining: ").and_then(|(before, _)| {
        let number = before.rsplit(' ').next()?;
        number.parse().ok()
    });
    errors
        == Some(
            message
                .matches("unexpected items still remain in namespace")
                .count(),
        )
}

/// What keeps a namespace: APIs that cannot be discovered, refused deletes, and the content that remains.
fn content(
    simulation: &Simulation,
    object: &SnapshotObject,
    end: &ObjectMeta,
    finalizer: &Arc<str>,
    conversions: &Conversions,
) -> Vec<Wait> {
    let unavailable = simulation.plane.unavailable_apis().filter_map(|(name, api)| {
        Some(Wait::Discovery {
            finalizer: Arc::clone(finalizer),
            api_version: api.api_version.clone(),
            api_service: Arc::clone(name),
            failure: Arc::clone(api.failure.as_ref()?),
            since: api.since,
        })
    });
    let mut waits: Vec<Wait> = unavailable.collect();
    let server = &simulation.server;
    let stored = object.kind_id.and_then(|kind| server.object(kind, "", &end.name));
    let conditions = stored.and_then(|stored| stored.at(&["status", "conditions"])?.as_array());
    let failed = conditions.into_iter().flatten().find(|condition| {
        condition["type"] == "NamespaceDeletionContentFailure" && condition["status"] == "True"
    });
    if let Some(message) = failed.and_then(|condition| condition["message"].as_str())
        && !conversions.explain_all_of(message)
        && !is_only_remaining(message)
    {
        waits.push(Wait::Refused {
            finalizer: Some(Arc::clone(finalizer)),
            actor: Actor::Controller("namespace-controller"),
            act: Act::DeleteCollection,
            object: object.object_ref(),
            message: message.into(),
        });
    }
    let remaining = remaining(simulation, Some(&end.name), |kind| !conversions.has(kind));
    if waits.is_empty() && conversions.waits.is_empty() || !remaining.is_empty() {
        let has_pods = remaining.len() > 1 && remaining.iter().any(|kind| kind.resource == "pods");
        let pods_are_first = has_pods && NamespaceController::new(server.version()).deletes_pods_first;
        waits.push(Wait::Content {
            finalizer: Arc::clone(finalizer),
            remaining,
            pods_are_first,
        });
    }
    waits
}

/// The failed conversions that an object waits for.
#[derive(Debug, Default)]
struct Conversions {
    waits: Vec<Wait>,
    /// The API server's messages.
    messages: Vec<String>,
    /// Group and resource of the content of a namespace that cannot be listed.
    kinds: Vec<(Arc<str>, Arc<str>)>,
}

impl Conversions {
    fn of(simulation: &Simulation, object: &SnapshotObject, end: &ObjectMeta) -> Self {
        let mut conversions = Self::default();
        let server = &simulation.server;
        let Some(kind) = object.kind_id.filter(|_| server.has_broken_conversions()) else {
            return conversions;
        };
        let is_collectors = |name: &&Arc<str>| {
            [metadata::FINALIZER_FOREGROUND, metadata::FINALIZER_ORPHAN].contains(&&***name)
        };
        if let Some(finalizer) = end.finalizers.iter().find(is_collectors) {
            conversions.add_lists(simulation, kind, finalizer);
            if conversions.waits.is_empty() {
                conversions.add_lookups(simulation, &end.uid);
            }
        }
        let resource = &server.catalog()[kind];
        if resource.group.is_empty() && *resource.kind == *"Namespace" {
            conversions.add_content(server, &end.name);
        }
        conversions
    }

    /// Adds the lists that the garbage collector needs to process an object: that of its kind; all of them
    /// before the collector starts.
    fn add_lists(&mut self, simulation: &Simulation, kind: KindId, finalizer: &Arc<str>) {
        let (server, collector) = (&simulation.server, simulation.plane.collector());
        self.add(server, server.watched_as(kind), Some(finalizer));
        if collector.not_running().is_none() {
            return;
        }
        for (_, resource, _) in collector.monitors().filter(|(.., is_synced)| !is_synced) {
            let ApiResource {
                group,
                version,
                resource,
                ..
            } = resource;
            if let Ok(kind) = server.resolve(group, version, resource) {
                self.add(server, kind, Some(finalizer));
            }
        }
    }

    /// Adds the versions in which dependents that block the deletion of an owner refer to it.
    fn add_lookups(&mut self, simulation: &Simulation, owner: &Uid) {
        let (server, collector) = (&simulation.server, simulation.plane.collector());
        for dependent in collector.explain(owner).blocking {
            for OwnerInGraph { reference, .. } in collector.explain(&dependent.uid).owners {
                let mapping = server.catalog().mapping(&reference.api_version, &reference.kind);
                if let Some(kind) = mapping.filter(|_| reference.uid == *owner) {
                    self.add(server, kind, None);
                }
            }
        }
    }

    /// Adds the content of a namespace that cannot be listed.
    fn add_content(&mut self, server: &ApiServer, namespace: &str) {
        for (kind, resource) in server.catalog().iter() {
            let is_content = resource.preferred && resource.is_namespaced() && server.is_unlistable(kind);
            if is_content && !server.objects(kind, Some(namespace)).is_empty() {
                self.add(server, kind, Some(&"kubernetes".into()));
                let kind = (Arc::clone(&resource.group), Arc::clone(&resource.resource));
                self.kinds.push(kind);
            }
        }
    }

    /// Whether the content of a kind cannot be listed.
    fn has(&self, kind: &ApiResource) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|(group, resource)| *group == kind.group && *resource == kind.resource)
    }

    /// Adds the wait for the conversion to a version, if it fails.
    fn add(&mut self, server: &ApiServer, kind: KindId, finalizer: Option<&Arc<str>>) {
        let Some(webhook) = server.broken_conversion(kind) else {
            return;
        };
        let kind = &server.catalog()[kind];
        let ApiResource {
            group,
            version,
            resource,
            ..
        } = kind;
        let wait = Wait::Conversion {
            finalizer: finalizer.cloned(),
            resource: format!("{resource}.{version}.{group}"),
            definition: Arc::clone(&webhook.definition),
            failure: webhook.failure.clone().unwrap_or_default(),
        };
        if !self.waits.contains(&wait) {
            self.waits.push(wait);
            self.messages.push(webhook.message(kind));
        }
    }

    /// Whether a message of the API server, or of a condition, reports nothing but these failures.
    fn explain_all_of(&self, message: &str) -> bool {
        let failures = message
            .split_once(" remaining: ")
            .map_or(message, |(_, failures)| failures);
        let others = self
            .messages
            .iter()
            .fold(failures.to_owned(), |rest, known| rest.replace(known, ""));
        !self.messages.is_empty() && others.chars().all(|char| matches!(char, ',' | ' '))
    }
}

const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The component that removes a finalizer, and the reason why it has not removed it.
fn removal(cluster: &Cluster, simulation: &Simulation, object: &SnapshotObject, name: &Arc<str>) -> Wait {
    let known = finalizers::find(name);
    let assumptions = &cluster.assumptions;
    let reason = known.and_then(|known| match known.owner {
        Owner::Controller(controller) if assumptions.runs(controller) => kept(simulation, object, controller),
        Owner::GarbageCollector if assumptions.runs(known.owner.name()) => None,
        Owner::External(_) | Owner::Operator(_) if assumptions.releases(name) => None,
        Owner::ApiServer => None,
        owner => Some(idle(cluster, simulation, object, owner, name)),
    });
    Wait::Finalizer {
        name: Arc::clone(name),
        known,
        reason,
    }
}

/// Why the owner of a finalizer is assumed not to act.
fn idle(
    cluster: &Cluster,
    simulation: &Simulation,
    object: &SnapshotObject,
    owner: Owner,
    finalizer: &str,
) -> String {
    let Some(silent) = cluster.silent_owner(owner, finalizer) else {
        return "it is assumed not to act".to_owned();
    };
    let lasted = deletion_requested_at(&object.meta).map(|since| simulation.plane.began().since(since));
    match lasted.filter(|lasted| *lasted > silent.within) {
        Some(lasted) => format!(
            "it has not for {}, and normally does within {}",
            span(lasted),
            span(silent.within)
        ),
        None => "other objects show that it does not act".to_owned(),
    }
}

/// The reason for which a controller keeps an object now.
fn kept(simulation: &Simulation, object: &SnapshotObject, controller: &str) -> Option<String> {
    let manager = simulation.plane.manager();
    let runs = manager
        .controllers()
        .any(|running| running.info().name == controller);
    if !runs {
        return Some("it does not run".to_owned());
    }
    let meta = &object.meta;
    // Pods are counted by the controller of their Job.
    let name = match meta.controller().filter(|_| *object.kind == *"Pod") {
        Some(job) => &job.name,
        None => &meta.name,
    };
    let key = Key::new(Arc::clone(&meta.namespace), Arc::clone(name));
    let decision = manager.decide(controller, &key)?;
    let is_meant =
        |id: &kubegc_core::record::ObjectId| id.name == meta.name && id.namespace == meta.namespace;
    let kept = decision.kept.iter().find(|kept| is_meant(&kept.object));
    let unknown = decision.unknown.iter().find(|unknown| is_meant(&unknown.object));
    kept.map(|kept| kept.reason.to_string())
        .or_else(|| unknown.map(|unknown| unknown.reason.to_string()))
}

/// The objects of the kinds that match, in a namespace or anywhere, by resource. Each object is counted in
/// one version.
fn remaining(
    simulation: &Simulation,
    namespace: Option<&str>,
    is_meant: impl Fn(&ApiResource) -> bool,
) -> Vec<Remaining> {
    let server = &simulation.server;
    let mut found = BTreeMap::<String, Remaining>::new();
    for (id, kind) in server.catalog().iter() {
        let is_countable = kind.preferred && (namespace.is_none() || kind.is_namespaced());
        if !is_countable || server.len(id) == 0 || !is_meant(kind) {
            continue;
        }
        let objects: Vec<Arc<StoredObject>> = server.objects(id, namespace);
        if objects.is_empty() {
            continue;
        }
        let resource = kind.qualified_resource();
        let mut finalizers = BTreeMap::new();
        for name in objects.iter().flat_map(|object| &object.meta.finalizers) {
            *finalizers.entry(Arc::clone(name)).or_default() += 1;
        }
        let of_kind = Remaining {
            resource: resource.clone(),
            count: objects.len(),
            finalizers,
        };
        found.insert(resource, of_kind);
    }
    found.into_values().collect()
}

/// The node of a pod.
fn node_of(object: &SnapshotObject) -> Option<Arc<str>> {
    let record = object.record();
    let node = record.pod()?.node_name.known().filter(|name| !name.is_empty())?;
    Some(Arc::clone(node))
}

/// The node of a pod, if its kubelet certainly does not run.
fn lost_node(cluster: &Cluster, object: &SnapshotObject) -> Option<Arc<str>> {
    node_of(object).filter(|node| kubelet_of(cluster, node) == Some(false))
}

/// Whether a grace period ended so long before the simulation that the kubelet would have acted.
fn is_overdue(simulation: &Simulation, ends_at: Option<Timestamp>) -> bool {
    ends_at.is_some_and(|end| end.saturating_add(OVERDUE) < simulation.plane.began())
}
