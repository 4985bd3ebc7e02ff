//! Looks at all pods at once, as upstream's passes do. Only those take part that could go, or of which too little is known.

use std::{collections::BTreeMap, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{ObjectMeta, Planner, Timestamp, metadata::OwnerReferences};

use super::{Look, OnFailure};
use crate::{
    controller::{
        Basis, Reason, Work,
        table::Key,
        tables::{Change, PodsSeen, Tables, is_terminated, may_be_terminated},
    },
    fields::{self, Fields, Record},
    object::{Failure, Object, Resource, Wire},
    pod::{self, Facts, LiveNodes, Node, Pod, Settings, TAINT_OUT_OF_SERVICE},
};

const NEEDED: &[Resource] = &[Resource::Pods, Resource::Nodes];

pub(in crate::controller) fn concerned(
    settings: &Settings,
    tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    // While not all are known, each pod is undecided, whatever its state.
    let is_unlisted = tables.any_not_listed(NEEDED).is_some();
    let is_due = match change.resource {
        Resource::Pods if is_unlisted => {
            change.old.map(|old| &old.meta.uid) != change.new.map(|new| &new.meta.uid)
        }
        Resource::Pods => {
            // Where one less stands in line, none goes that would not have gone, but it may be known of more that they stay.
            let was_in_line = tables.pods_seen.is_line_open && change.old.is_some_and(may_be_terminated);
            was_in_line
                || change.new.is_some_and(|new| {
                    let was_unknown = change.old.is_some_and(|old| Known::of(old).is_none());
                    let node =
                        |name: &Arc<str>| tables.get(Resource::Nodes, &(Arc::from(""), Arc::clone(name)));
                    was_unknown || matters(settings, tables, new, node)
                })
        }
        Resource::Nodes => match change.new {
            None => true,
            Some(new) => settings.looks_at_out_of_service && is_news(change.old, new),
        },
        _ => false,
    };
    if is_due {
        all(settings, tables, keys);
    }
}

pub(in crate::controller) fn all(_settings: &Settings, _tables: &Tables, keys: &mut Vec<Key>) {
    keys.push((Arc::from(""), Arc::from("")));
}

/// # Complexity
/// O(n log m) for `n` pods and `m` nodes, and O(k log k) for the `k` pods that take part.
pub(in crate::controller) fn look(
    settings: &Settings,
    tables: &Tables,
    _key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    let pods = tables.of(Resource::Pods).values();
    if let Some(reason) = tables.any_not_listed(NEEDED) {
        let objects = pods.map(|pod| Object::new(Resource::Pods, &pod.meta));
        return Look {
            undecided: objects.map(|object| (object, reason.clone())).collect(),
            ..Look::default()
        };
    }
    let nodes = tables.of(Resource::Nodes).values();
    let of_the_cluster = nodes.clone().filter(|node| node.meta.namespace.is_empty());
    let by_name: HashMap<&Arc<str>, &Record, FixedState> =
        of_the_cluster.map(|node| (&node.meta.name, node)).collect();
    let facts = Facts {
        pods: Ok(pods
            .filter(|pod| matters(settings, tables, pod, |name| by_name.get(name).copied()))
            .map(pod)
            .collect()),
        nodes: Ok(nodes.map(node).collect()),
        quarantine: tables.pods_seen.quarantine.clone(),
        live_nodes: LiveNodes::AsListed,
    };
    let plan = settings.plan(&facts, now);
    let quarantine = plan.summary.quarantine;
    let mut look = Look {
        // A quarantine also ends where no pods are left: or else it would be over at once for those that come later.
        next_at: plan.next_at.into_iter().chain(quarantine.next_after(now)).min(),
        pods_seen: Some(PodsSeen {
            quarantine,
            is_line_open: plan.kept.iter().any(|kept| is_place_unknown(&kept.reason)),
        }),
        ..Look::default()
    };
    for action in plan.actions {
        let rests_on = match action.reason() {
            pod::Reason::Orphaned { node } => vec![Basis::Absent {
                resource: Resource::Nodes,
                namespace: "".into(),
                name: Arc::clone(node),
            }],
            pod::Reason::OutOfService { node } => {
                let node = by_name
                    .get(node)
                    .map(|node| Basis::same(Resource::Nodes, &node.meta));
                node.into_iter().collect()
            }
            _ => Vec::new(),
        };
        let reason = Reason::Pod(action.reason().clone());
        look.act(&action, reason, wire, rests_on);
    }
    look.keep(plan.kept, Reason::Pod);
    look
}

const fn is_place_unknown(reason: &pod::Reason) -> bool {
    matches!(reason, pod::Reason::PlaceInLineUnknown { .. })
}

/// What failed is counted; the next pass looks again.
pub(in crate::controller) fn on_failure(_work: &Work) -> OnFailure {
    |_| Failure::Told
}

/// What has to be known of a pod before anything is decided on it.
struct Known<'a> {
    node_name: &'a Arc<str>,
}

impl<'a> Known<'a> {
    fn of(pod: &'a Record) -> Option<Self> {
        let Fields::Pod(fields) = &pod.fields else {
            return None;
        };
        let is_known = fields.status.is_some() && !pod.meta.uid.is_empty();
        let node_name = fields.node_name.as_ref().filter(|_| is_known)?;
        Some(Self { node_name })
    }
}

/// Whether a pod could go by its state, or is one of which too little is known. Others neither go nor change what becomes of others.
fn matters<'t>(
    settings: &Settings,
    tables: &Tables,
    pod: &Record,
    node: impl Fn(&Arc<str>) -> Option<&'t Record>,
) -> bool {
    may_go(settings, tables, pod, node) && !tables.is_spent(pod)
}

fn may_go<'t>(
    settings: &Settings,
    tables: &Tables,
    pod: &Record,
    node: impl Fn(&Arc<str>) -> Option<&'t Record>,
) -> bool {
    let Some(Known { node_name }) = Known::of(pod) else {
        return true;
    };
    let threshold = usize::try_from(settings.terminated_threshold).unwrap_or(0);
    if threshold > 0 && tables.terminated_pods_max > threshold && is_terminated(pod) {
        return true;
    }
    if node_name.is_empty() {
        return pod.meta.is_deleting();
    }
    match node(node_name) {
        None => true,
        Some(node) => {
            settings.looks_at_out_of_service
                && pod.meta.is_deleting()
                && is_out_of_service(node) != Some(false)
        }
    }
}

/// Whether pods that are being deleted on a node go; `None` where that is not known.
fn is_out_of_service(record: &Record) -> Option<bool> {
    let taints = match &record.fields {
        Fields::Node(fields) => fields.taints.as_ref(),
        _ => None,
    };
    let is_tainted = taints.map(|taints| taints.iter().any(|taint| &*taint.key == TAINT_OUT_OF_SERVICE));
    if is_tainted == Some(false) {
        return Some(false);
    }
    match (node(record).is_ready(), is_tainted) {
        (Some(true), _) => Some(false),
        (Some(false), Some(true)) => Some(true),
        _ => None,
    }
}

/// Whether a node's pods may go since it changed, or whether it was or is not known whether they do.
fn is_news(old: Option<&Record>, new: &Record) -> bool {
    let was = old.map(is_out_of_service);
    let is = is_out_of_service(new);
    was != Some(is) && (is != Some(false) || was == Some(None))
}

/// A pod without what the planner does not look at.
fn pod(record: &Record) -> Pod {
    let meta = &record.meta;
    let fields = match &record.fields {
        Fields::Pod(fields) => Some(fields),
        _ => None,
    };
    Pod {
        meta: ObjectMeta {
            namespace: Arc::clone(&meta.namespace),
            name: Arc::clone(&meta.name),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            generation: 0,
            creation_timestamp: meta.creation_timestamp,
            deletion_timestamp: meta.deletion_timestamp,
            deletion_grace_period_seconds: None,
            finalizers: Vec::new(),
            owner_references: OwnerReferences::new(),
            labels: BTreeMap::new(),
        },
        node_name: fields.and_then(|fields| fields.node_name.clone()),
        status: fields.and_then(|fields| fields.status.clone()),
    }
}

fn node(record: &Record) -> Node {
    let fields::Node {
        conditions, taints, ..
    } = match &record.fields {
        Fields::Node(fields) => fields.clone(),
        _ => fields::Node::default(),
    };
    Node {
        name: Arc::clone(&record.meta.name),
        conditions,
        taints,
    }
}
