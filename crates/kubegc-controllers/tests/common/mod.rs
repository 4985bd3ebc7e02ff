//! Objects as lines of text, caches of them, and decisions as lines of text.

use std::collections::BTreeMap;

use kubegc_controllers::{
    Cache, Change, Context, Controller, Deadlines, Decision, Documents, End, FieldChange, Guard, Key,
    Operated, Plugin, Request, Response, Steps, Wire,
};
use kubegc_core::{
    DeleteOptions, Preconditions, StoreError, Timestamp,
    deletion::Propagation,
    record::{Record, Resource},
};
use kubegc_fixtures::{merge, owner};
use kubegc_snapshot::JsonDocuments;
use serde_json::{Map, Value, json};

/// A date in RFC 3339, or a time of the first of May 2026.
pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::parse(&date(text).unwrap_or_else(|| text.to_owned())).expect("a date")
}

/// The date of a time such as `12:00` or `12:00:30`.
fn date(time: &str) -> Option<String> {
    let seconds = match time.len() {
        5 => ":00",
        8 => "",
        _ => return None,
    };
    let is_time = time
        .split(':')
        .all(|part| part.len() == 2 && part.parse::<u8>().is_ok());
    is_time.then(|| format!("2026-05-01T{time}{seconds}Z"))
}

/// The value of a field: JSON, or else a string. Times become dates, and `?` a value that cannot be read.
fn value(text: &str) -> Value {
    fn with_dates(value: Value) -> Value {
        match value {
            Value::String(text) => date(&text).unwrap_or(text).into(),
            Value::Array(items) => items.into_iter().map(with_dates).collect(),
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(key, value)| (key, with_dates(value)));
                Value::Object(fields.collect())
            }
            other => other,
        }
    }
    match text {
        "?" => hidden(&Value::Null),
        _ => with_dates(serde_json::from_str(text).unwrap_or_else(|_| text.into())),
    }
}

/// A value of another type than the field's. It has words without which readers skip conditions and statuses.
pub(crate) fn hidden(value: &Value) -> Value {
    match value {
        Value::Object(_) => "hidden".into(),
        _ => json!({"hidden": "DisruptionTarget", "restartCount": "hidden"}),
    }
}

/// An object as a line: API version, kind, namespace and name, then its fields.
///
/// A field is `path=value`, `label:key=value`, `annotation:key=value`, `finalizer:name`, `deleted:time` or
/// `owner:apiVersion/kind/name`, which is a controller reference.
pub(crate) fn object(line: &str) -> Value {
    let mut words = line.split_whitespace();
    let mut next = || words.next().expect("API version, kind and name");
    let (api_version, kind, name) = (next(), next(), next());
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let mut object = kubegc_fixtures::object(api_version, kind, namespace, name, json!({}));
    for word in words {
        let metadata = &mut object["metadata"];
        let list = |metadata: &mut Value, key: &str, item: Value| match &mut metadata[key] {
            Value::Array(items) => items.push(item),
            other => *other = json!([item]),
        };
        let map = |metadata: &mut Value, key: &str, entry: &str| {
            let (name, value) = entry.split_once('=').expect("key=value");
            metadata[key][name] = value.into();
        };
        match word.split_once([':', '=']).expect("a field") {
            ("label", entry) => map(metadata, "labels", entry),
            ("annotation", entry) => map(metadata, "annotations", entry),
            ("finalizer", name) => list(metadata, "finalizers", name.into()),
            ("deleted", time) => metadata["deletionTimestamp"] = value(time),
            ("owner", reference) => {
                let mut parts = reference.rsplitn(3, '/');
                let mut next = || parts.next().expect("apiVersion/kind/name");
                let (name, kind, api_version) = (next(), next(), next());
                list(metadata, "ownerReferences", owner(api_version, kind, name, true));
            }
            (path, text) => {
                let nest = |inner, key: &str| Value::Object(Map::from_iter([(key.to_owned(), inner)]));
                merge(&mut object, path.rsplit('.').fold(value(text), nest));
            }
        }
    }
    object
}

/// The record of an object. `uid` defaults to `uid-` and the name, `resourceVersion` to `1`. An empty uid is one
/// that is not known.
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
    let has_uid = meta["uid"] != "";
    if !has_uid {
        meta["uid"] = "unknown".into();
    }
    let documents = JsonDocuments::default();
    let record = documents.read(resource, object.to_string().as_bytes());
    let mut record = record.expect("a readable object");
    if !has_uid {
        record.meta.uid = "".into();
    }
    (resource, record)
}

/// A cache of these objects, in which all resources of the controller are listed.
pub(crate) fn cache(controller: &dyn Controller, objects: &[Value]) -> Cache {
    let records: Vec<_> = objects.iter().cloned().map(record).collect();
    cache_of(controller, &records)
}

/// A cache of these records, in which all resources of the controller are listed.
pub(crate) fn cache_of(controller: &dyn Controller, records: &[(Resource, Record)]) -> Cache {
    let listed = controller.info().resources.iter().copied();
    let resources = listed.chain(records.iter().map(|(resource, _)| *resource));
    let mut cache = Cache::new(resources, controller.info().indexes.iter().copied());
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

/// All keys of a controller, in order.
pub(crate) fn keys(controller: &dyn Controller, cache: &Cache) -> Vec<Key> {
    let mut keys = Vec::new();
    controller.keys(cache, &mut keys);
    keys.sort();
    keys.dedup();
    keys
}

/// The keys that a change affects, in order.
pub(crate) fn affected(
    controller: &dyn Controller,
    cache: &Cache,
    resource: Resource,
    old: Option<&Record>,
    new: Option<&Record>,
) -> Vec<Key> {
    let key = Key::from(&*new.or(old).expect("a change").meta);
    let mut keys = Vec::new();
    let change = Change {
        resource,
        key: &key,
        old,
        new,
    };
    controller.affected(cache, &change, &mut keys);
    keys.sort();
    keys.dedup();
    keys
}

/// The context of a decision without deadlines and without a response of the cloud provider.
pub(crate) fn context(cache: &Cache, now: Timestamp, wire: Wire) -> Context<'_> {
    static NONE: Deadlines = Deadlines::new();
    Context {
        cache,
        now,
        wire,
        deadlines: &NONE,
        cloud: None,
        queries_cloud: false,
        notes_kept: true,
    }
}

/// The decision of a controller about a key.
pub(crate) fn reconcile(
    controller: &dyn Controller,
    cache: &Cache,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Decision {
    controller.reconcile(&context(cache, now, wire), key)
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
            let changes: Vec<String> = write.changes.iter().map(describe).collect();
            (options, format!(" [{}]", changes.join(", ")))
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

/// A change in a few words.
fn describe(change: &FieldChange) -> String {
    match change {
        FieldChange::JobCounts(counts) => {
            let mut text = format!(
                "{}+{} succeeded, {}+{} failed",
                counts.succeeded,
                counts.uncounted_succeeded.len(),
                counts.failed,
                counts.uncounted_failed.len(),
            );
            if !counts.completed_indexes.is_empty() {
                text += &format!(", indexes {}", counts.completed_indexes);
            }
            if !counts.failed_indexes.is_empty() {
                text += &format!(", failed indexes {}", counts.failed_indexes);
            }
            text
        }
        FieldChange::Condition(condition) => {
            let since = condition
                .last_transition_time
                .map(|time| format!(" since {time}"));
            format!(
                "{}={} {}: {}{} (generation {})",
                condition.condition_type,
                condition.status,
                condition.reason,
                condition.message,
                since.unwrap_or_default(),
                condition.observed_generation,
            )
        }
        FieldChange::RemoveFinalizer(finalizer) => format!("-{finalizer}"),
        FieldChange::AddFinalizer(finalizer) => format!("+{finalizer}"),
        FieldChange::AddTaint(taint) => {
            let since = taint.time_added.map(|time| format!(" since {time}"));
            format!(
                "+taint {}:{}{}",
                taint.key,
                taint.effect,
                since.unwrap_or_default()
            )
        }
        FieldChange::RemoveTaint(taint) => format!("-taint {}:{}", taint.key, taint.effect),
        FieldChange::OwnerReferences(owners) => {
            let owners = owners.iter().map(|owner| match owner.controller {
                Some(true) => format!("{}!", owner.uid),
                _ => owner.uid.to_string(),
            });
            format!("owners {}", owners.collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    }
}

/// The end of a sequence in a few words.
pub(crate) fn end_line(end: End) -> String {
    match end {
        End::Done => "done".to_owned(),
        End::Kept(reason) => format!("kept: {}", reason.code()),
        End::Unknown(missing) => format!("unknown: {missing}"),
        End::Stale(found) => format!("stale: {} reads differ", found.len()),
        End::Cloud(_) => "a response of the cloud".to_owned(),
        End::RequeueAfter { after, .. } => format!("requeue {}", after.as_secs_f64()),
        End::Failed {
            message, is_retried, ..
        } => format!("failed, retried={is_retried}: {message}"),
    }
}

/// Runs steps with these responses. The last line is their end.
pub(crate) fn play(steps: &Steps, mut respond: impl FnMut(&Request) -> Response) -> Vec<String> {
    let mut lines = Vec::new();
    let end = steps.run(|request, _| {
        lines.push(line(request));
        respond(request)
    });
    lines.push(end_line(end));
    lines
}

/// The response to a request while the API server has the state of the cache: reads find it, and writes and
/// operations on storage succeed.
pub(crate) fn from_cache(cache: &Cache) -> impl FnMut(&Request) -> Response {
    |request| match request {
        Request::Get { resource, key } => match cache.get(*resource, key) {
            Some(record) => Response::Object(Box::new(record.clone())),
            None => Response::Failed(StoreError::NotFound),
        },
        Request::List { resource, namespace } => {
            Response::Objects(cache.in_namespace(*resource, namespace).cloned().collect())
        }
        Request::Write(_) => Response::Written(None),
        Request::Operate { .. } => Response::Operation(Operated::Done),
        Request::FindPlugin { .. } => Response::Plugin(Plugin::InTree),
        Request::QueryGuard { .. } => Response::Guard(Guard::Allows),
        _ => Response::Done,
    }
}

/// A cluster: a cache, and the objects that its records were read from.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cache: Cache,
    objects: BTreeMap<(Resource, Key), Value>,
}

impl World {
    pub(crate) fn new(cache: Cache, objects: &[Value]) -> Self {
        let objects = objects.iter().map(|object| {
            let (resource, record) = record(object.clone());
            ((resource, Key::from(&record.meta)), object.clone())
        });
        Self {
            cache,
            objects: objects.collect(),
        }
    }

    /// Carries out a write as an API server does, and responds to it.
    pub(crate) fn write(&mut self, request: &Request, now: Timestamp) -> Response {
        let Some(object) = request.object() else {
            return Response::Done;
        };
        let (resource, key) = (object.resource, Key::from(object));
        let Some(Value::Object(fields)) = self.objects.get_mut(&(resource, key.clone())) else {
            return Response::Failed(StoreError::NotFound);
        };
        match request {
            Request::Delete { .. } => {
                let time = &mut fields["metadata"]["deletionTimestamp"];
                if time.is_null() {
                    *time = now.to_string().into();
                }
            }
            Request::Write(write) => {
                let mut changes = write.changes.iter();
                changes
                    .try_for_each(|change| JsonDocuments::change(change, fields))
                    .expect("a change of fields that were read");
            }
            other => return from_cache(&self.cache)(other),
        }
        let (_, record) = record(Value::Object(fields.clone()));
        let meta = record.meta.clone();
        if meta.is_deleting() && meta.finalizers.is_empty() {
            self.objects.remove(&(resource, key.clone()));
            self.cache.put(resource, &key, None);
        } else {
            self.cache.put(resource, &key, Some(record));
        }
        match request {
            Request::Write(_) => Response::Written(Some(meta)),
            _ => Response::Done,
        }
    }
}
