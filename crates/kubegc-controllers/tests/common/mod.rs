//! Builds caches from JSON, runs controllers, and prints their decisions.

use kubegc_controllers::{
    Cache, Context, Controller, Deadlines, Decision, Documents, End, Key, Request, Response, Step, Steps,
    Wire,
};
use kubegc_core::{
    DeleteOptions, Preconditions, StoreError, Timestamp,
    deletion::Propagation,
    record::{Record, Resource},
};
use kubegc_snapshot::JsonDocuments;
use serde_json::Value;

/// A date in RFC 3339.
pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a date")
}

/// The record of an object. `uid` defaults to `uid-` and the name, `resourceVersion` to `1`.
pub(crate) fn record(mut object: Value) -> (Resource, Record) {
    let kind = object["kind"].as_str().expect("a kind").to_owned();
    let mut all = Resource::ALL.iter().copied();
    let resource = all
        .find(|resource| resource.kind() == kind)
        .expect("a kind that controllers read");
    let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
    let meta = object["metadata"].as_object_mut().expect("metadata");
    meta.entry("uid").or_insert_with(|| format!("uid-{name}").into());
    meta.entry("resourceVersion").or_insert_with(|| "1".into());
    let documents = JsonDocuments::default();
    let record = documents.read(resource, object.to_string().as_bytes());
    (resource, record.expect("a readable object"))
}

/// A cache of these objects, in which all resources of the controller are listed.
pub(crate) fn cache(controller: &dyn Controller, objects: &[Value]) -> Cache {
    let records: Vec<_> = objects.iter().cloned().map(record).collect();
    let listed = controller.info().resources.iter().copied();
    let resources = listed.chain(records.iter().map(|(resource, _)| *resource));
    let mut cache = Cache::new(resources, controller.indexes().iter().copied());
    for resource in cache.resources().collect::<Vec<_>>() {
        cache.set_listed(resource, Ok(()));
        let of_resource = records.iter().filter(|(of, _)| *of == resource);
        cache.replace(resource, of_resource.map(|(_, record)| record.clone()).collect());
    }
    cache
}

/// `namespace/name`, or the name of a cluster-scoped object.
pub(crate) fn key(text: &str) -> Key {
    match text.split_once('/') {
        Some((namespace, name)) => Key::new(namespace, name),
        None => Key::cluster(text),
    }
}

/// The decision of a controller about a key, with upstream's preconditions.
pub(crate) fn reconcile(
    controller: &dyn Controller,
    cache: &Cache,
    at_key: &str,
    now: Timestamp,
) -> Decision {
    let cx = Context {
        cache,
        now,
        wire: Wire::AsUpstream,
        deadlines: &Deadlines::new(),
        cloud: None,
        failures: 0,
    };
    controller.reconcile(&cx, &key(at_key))
}

/// The decisions about all keys, in order.
pub(crate) fn reconcile_all(controller: &dyn Controller, cache: &Cache, now: Timestamp) -> Vec<String> {
    let mut keys = Vec::new();
    controller.keys(cache, &mut keys);
    keys.sort();
    keys.dedup();
    let of_key = |key: &Key| lines(&reconcile(controller, cache, &key.to_string(), now), now);
    keys.iter().flat_map(of_key).collect()
}

/// One line for each request, kept object, missing fact and requeue.
pub(crate) fn lines(decision: &Decision, now: Timestamp) -> Vec<String> {
    let requests = decision.actions.iter().flat_map(|action| &action.requests);
    let mut lines: Vec<String> = requests.map(line).collect();
    if let Some(steps) = &decision.steps {
        lines.push(format!("steps {}", steps.object()));
    }
    for kept in &decision.kept {
        lines.push(format!("keep {}: {}", kept.object, kept.reason.code()));
    }
    for unknown in &decision.unknown {
        lines.push(format!("unknown {}: {}", unknown.object, unknown.reason));
    }
    if let Some(requeue_at) = decision.requeue_at {
        lines.push(format!("requeue {}", requeue_at.since(now).as_secs_f64()));
    }
    if let Some(query) = &decision.cloud_query {
        lines.push(format!("query cloud {}", query.node));
    }
    lines
}

/// A request, its options and preconditions, and the changes of a write.
pub(crate) fn line(request: &Request) -> String {
    let (options, changes) = match request {
        Request::Delete { options, .. }
        | Request::DeleteCollection { options, .. }
        | Request::DeleteContent { options, .. } => (options.clone(), String::new()),
        Request::Write(write) => {
            let preconditions = write.precondition.clone();
            let options = DeleteOptions {
                preconditions,
                ..DeleteOptions::default()
            };
            (options, format!(" {:?}", write.changes))
        }
        _ => return request.to_string(),
    };
    let Preconditions {
        uid,
        resource_version,
    } = options.preconditions;
    let parts = [
        options.propagation.map(|propagation| match propagation {
            Propagation::Policy(policy) => format!(" propagation={policy:?}"),
            Propagation::OrphanDependents(is_orphaning) => format!(" orphanDependents={is_orphaning}"),
        }),
        options
            .grace_period_seconds
            .map(|seconds| format!(" grace={seconds}")),
        uid.map(|uid| format!(" uid={uid}")),
        resource_version.map(|version| format!(" rv={}", version.as_str())),
    ];
    format!(
        "{request}{}{changes}",
        parts.into_iter().flatten().collect::<String>()
    )
}

/// Runs steps with these responses. The last line is their end.
pub(crate) fn play(steps: &Steps, mut respond: impl FnMut(&Request) -> Response) -> Vec<String> {
    let (mut sequence, mut response, mut lines) = (steps.begin(), None, Vec::new());
    loop {
        match sequence.next(response.take()) {
            Step::Perform { request, .. } => {
                lines.push(line(&request));
                response = Some(respond(&request));
            }
            Step::End(end) => {
                lines.push(match end {
                    End::Done => "done".to_owned(),
                    End::Kept(reason) => format!("kept: {}", reason.code()),
                    End::Unknown(missing) => format!("unknown: {missing}"),
                    End::Stale(found) => format!("stale: {} reads differ", found.len()),
                    End::RequeueAfter { after, .. } => format!("requeue {}", after.as_secs_f64()),
                    End::Failed {
                        message, is_retried, ..
                    } => format!("failed, retried={is_retried}: {message}"),
                });
                return lines;
            }
        }
    }
}

/// The response to a request while the API server has the state of the cache: reads find it, and writes
/// succeed.
pub(crate) fn from_cache(cache: &Cache) -> impl FnMut(&Request) -> Response {
    |request| match request {
        Request::Get {
            resource,
            namespace,
            name,
        } => match cache.get(*resource, &Key::new(namespace.clone(), name.clone())) {
            Some(record) => Response::Object(Box::new(record.clone())),
            None => Response::Failed(StoreError::NotFound),
        },
        Request::List { resource, namespace } => {
            Response::Objects(cache.in_namespace(*resource, namespace).cloned().collect())
        }
        Request::Write(_) => Response::Written(None),
        _ => Response::Done,
    }
}
