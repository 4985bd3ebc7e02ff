//! A small API server with one namespace.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kubegc_controllers::{
    Cache, Decision, End, FieldChange, Key, NamespaceController, Request, Response, Steps, Wire, Write,
};
use kubegc_core::{
    ApiResource, Catalog, ObjectMeta, Scope, StoreError, Timestamp,
    record::{Body, Condition, Namespace, Pod, Record, Resource},
    store::Discovered,
};

pub(crate) const DELETED_AT: i64 = 1_000;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

pub(crate) fn controller(release: &str) -> NamespaceController {
    NamespaceController::new(release.parse().expect("a release in range"))
}

/// The decision about the namespace `ns`.
pub(crate) fn reconcile(
    controller: NamespaceController,
    cached: Option<Record>,
    now: Timestamp,
    wire: Wire,
) -> Decision {
    let mut cache = Cache::new([Resource::Namespaces], []);
    cache.put(Resource::Namespaces, &Key::cluster("ns"), cached);
    crate::common::reconcile(&controller, &cache, &Key::cluster("ns"), now, wire)
}

/// An API server with one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) namespace: Option<Record>,
    pub(crate) resources: Vec<ApiResource>,
    /// By plural and group, as in `deployments.apps`.
    pub(crate) content: BTreeMap<String, Vec<Record>>,
    pub(crate) now: Timestamp,
    /// The failure of the next `verb resource`.
    pub(crate) faults: BTreeMap<String, StoreError>,
    /// The uid of the namespace that exists after the next conflict.
    pub(crate) successor: Option<&'static str>,
    /// Whether responses to writes have the new metadata.
    pub(crate) returns_written_objects: bool,
    pub(crate) requests: Vec<Request>,
    version: u32,
    pub(crate) controller: NamespaceController,
}

impl Server {
    /// A namespace that was deleted at second 1000 and is terminating, seen at that second.
    pub(crate) fn new(resources: &[&str]) -> Self {
        let mut meta = ObjectMeta::new("", "ns", "uid-ns");
        meta.deletion_timestamp = Some(at(DELETED_AT));
        meta.resource_version = "1".into();
        let namespace = Namespace {
            phase: Arc::<str>::from("Terminating").into(),
            finalizers: vec!["kubernetes".into()].into(),
            ..Namespace::default()
        };
        let resources = resources.iter().map(|resource| {
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            let api_version = [group, "v1"].join("/");
            let api_version = api_version.trim_start_matches('/');
            ApiResource::new(api_version, &format!("Kind{plural}"), plural, Scope::Namespaced)
        });
        Self {
            namespace: Some(Record::new(meta, Body::Namespace(namespace))),
            resources: resources.collect(),
            content: BTreeMap::new(),
            now: at(DELETED_AT),
            faults: BTreeMap::new(),
            successor: None,
            returns_written_objects: true,
            requests: Vec::new(),
            version: 1,
            controller: controller("1.36"),
        }
    }

    pub(crate) fn after(mut self, seconds: i64) -> Self {
        self.now = at(DELETED_AT.saturating_add(seconds));
        self
    }

    pub(crate) fn with(mut self, resource: &str, object: Record) -> Self {
        self.content.entry(resource.to_owned()).or_default().push(object);
        self
    }

    pub(crate) fn release(mut self, release: &str) -> Self {
        self.controller = controller(release);
        self
    }

    pub(crate) fn failing(mut self, request: &str, error: StoreError) -> Self {
        self.faults.insert(request.to_owned(), error);
        self
    }

    pub(crate) fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn namespace(mut self, change: impl FnOnce(&mut ObjectMeta, &mut Namespace)) -> Self {
        if let Some(Record { meta, body, .. }) = &mut self.namespace
            && let Body::Namespace(namespace) = Arc::make_mut(body)
        {
            change(meta, namespace);
        }
        self
    }

    pub(crate) fn resource(mut self, plural: &str, change: impl FnOnce(&mut ApiResource)) -> Self {
        let mut resources = self.resources.iter_mut();
        change(
            resources
                .find(|resource| *resource.resource == *plural)
                .expect("it is served"),
        );
        self
    }

    pub(crate) fn discovered(&self) -> Response {
        let mut catalog = Catalog::new();
        for resource in &self.resources {
            catalog.add(resource.clone()).expect("another resource");
        }
        Response::Discovered(Arc::new(Discovered::from(catalog)))
    }

    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let namespace = self.namespace.as_ref().and_then(Record::namespace);
        let conditions = namespace.and_then(|namespace| namespace.conditions.known());
        conditions.cloned().unwrap_or_default()
    }

    /// A sync over a namespace that is terminating in the cache.
    pub(crate) fn steps(&self, wire: Wire) -> Steps {
        let mut cached = Self::new(&[]).namespace;
        if let (Some(cached), Some(namespace)) = (&mut cached, &self.namespace) {
            cached.meta.uid = namespace.meta.uid.clone();
        }
        let decision = reconcile(self.controller, cached, self.now, wire);
        decision.steps.expect("the namespace is being deleted")
    }

    /// One sync.
    pub(crate) fn sync(&mut self, wire: Wire) -> End {
        self.steps(wire).run(|request, _| self.respond(request))
    }

    pub(crate) fn respond(&mut self, request: &Request) -> Response {
        self.requests.push(request.clone());
        let line = line(request);
        let fault: Vec<&str> = line.split(' ').take(2).collect();
        if let Some(error) = self.faults.remove(&fault.join(" ")) {
            if let (StoreError::Conflict { .. }, Some(uid), Some(namespace)) =
                (&error, self.successor.take(), &mut self.namespace)
            {
                namespace.meta.uid = uid.into();
            }
            return Response::Failed(error);
        }
        let of = |resource: &ApiResource| resource.qualified_resource();
        match request {
            Request::Get { .. } => match &self.namespace {
                Some(namespace) => Response::Object(Box::new(namespace.clone())),
                None => Response::Failed(StoreError::NotFound),
            },
            Request::Discover => self.discovered(),
            Request::List { .. } => Response::Objects(self.content.get("pods").cloned().unwrap_or_default()),
            Request::ListContent { resource, .. } => {
                let items = self.content.get(&of(resource)).into_iter().flatten();
                Response::Metadata(items.map(|item| item.meta.clone()).collect())
            }
            Request::DeleteCollection { resource, .. } => self.delete(&of(resource), |_| true),
            Request::DeleteContent { resource, key, .. } => {
                self.delete(&of(resource), |item| item.name == key.name)
            }
            Request::Write(write) => self.write(write),
            other => panic!("{other} is none of the namespace controller's"),
        }
    }

    fn delete(&mut self, resource: &str, is_chosen: impl Fn(&ObjectMeta) -> bool) -> Response {
        let now = self.now;
        self.content
            .entry(resource.to_owned())
            .or_default()
            .retain_mut(|item| {
                if !is_chosen(&item.meta) {
                    return true;
                }
                let grace = item.pod().and_then(|pod| {
                    let is_running = pod.has_final_phase() == Some(false)
                        && pod.node_name.known().is_some_and(|node| !node.is_empty());
                    pod.termination_grace_period_seconds
                        .known()
                        .copied()
                        .flatten()
                        .filter(|_| is_running)
                });
                let end = at(now.as_secs().saturating_add(grace.unwrap_or(0).max(0)));
                let end = *item.meta.deletion_timestamp.get_or_insert(end);
                !item.meta.finalizers.is_empty() || now < end
            });
        Response::Done
    }

    fn write(&mut self, write: &Write) -> Response {
        let Some(namespace) = &mut self.namespace else {
            return Response::Failed(StoreError::NotFound);
        };
        let expected = write.precondition.resource_version.as_ref();
        if expected.is_some_and(|version| *version != namespace.meta.resource_version) {
            return Response::Failed(conflict());
        }
        if let Body::Namespace(fields) = namespace.body_mut() {
            for change in &write.changes {
                match change {
                    FieldChange::Phase(phase) => fields.phase = phase.clone().into(),
                    FieldChange::Conditions(conditions) => fields.conditions = conditions.clone().into(),
                    FieldChange::SpecFinalizers(names) => fields.finalizers = names.clone().into(),
                    other => panic!("{other:?} is none of the namespace controller's"),
                }
            }
        }
        self.version += 1;
        namespace.meta.resource_version = self.version.to_string().as_str().into();
        let meta = namespace.meta.clone();
        let finalizers = namespace
            .namespace()
            .and_then(|namespace| namespace.finalizers.known());
        if finalizers.is_some_and(Vec::is_empty) {
            self.namespace = None;
        }
        Response::Written(self.returns_written_objects.then_some(meta))
    }

    /// The requests but for discovery.
    pub(crate) fn log(&self) -> Vec<String> {
        let lines = self.requests.iter().map(line);
        lines.filter(|line| line != "discover").collect()
    }

    /// Advances time: pods terminate whose grace period has ended.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.now = self.now.saturating_add(by);
        let now = self.now;
        for items in self.content.values_mut() {
            items.retain(|item| {
                !item.meta.finalizers.is_empty() || item.meta.deletion_timestamp.is_none_or(|end| now < end)
            });
        }
    }
}

/// `verb resource`, and the parts that distinguish such requests.
pub(crate) fn line(request: &Request) -> String {
    match request {
        Request::Get { .. } => "get namespace".to_owned(),
        Request::Discover => "discover".to_owned(),
        Request::List { .. } => "list-whole pods".to_owned(),
        Request::ListContent { resource, .. } => format!("list {}", resource.qualified_resource()),
        Request::DeleteCollection { resource, .. } => format!("delete-all {}", resource.qualified_resource()),
        Request::DeleteContent { resource, key, .. } => {
            format!("delete {} {}", resource.qualified_resource(), key.name)
        }
        Request::Write(Write { changes, .. }) => match changes.as_slice() {
            [FieldChange::Phase(phase)] => format!("phase namespace {phase}"),
            [FieldChange::Conditions(_)] => "conditions namespace".to_owned(),
            [FieldChange::SpecFinalizers(finalizers)] => {
                format!("finalize namespace [{}]", finalizers.join(" "))
            }
            other => panic!("{other:?}"),
        },
        other => other.to_string(),
    }
}

pub(crate) fn object(name: &str, finalizers: &[&str]) -> Record {
    let mut meta = ObjectMeta::new("ns", name, name);
    meta.finalizers = finalizers.iter().map(|name| Arc::from(*name)).collect();
    Record::metadata_only(meta)
}

pub(crate) fn pod(name: &str, phase: &str, grace: Option<i64>, finalizers: &[&str]) -> Record {
    let pod = Pod {
        node_name: Arc::<str>::from("a").into(),
        phase: Arc::<str>::from(phase).into(),
        termination_grace_period_seconds: grace.into(),
        ..Pod::default()
    };
    Record {
        body: Body::Pod(pod).into(),
        ..object(name, finalizers)
    }
}

pub(crate) fn running(grace: i64) -> Record {
    pod("web", "Running", Some(grace), &[])
}

pub(crate) fn refused(code: u16) -> StoreError {
    StoreError::Refused {
        code,
        message: "the server does not allow this method on the requested resource".to_owned(),
        retry_after: None,
    }
}

pub(crate) fn broken(message: &str) -> StoreError {
    StoreError::Unknown {
        message: message.to_owned(),
    }
}

pub(crate) fn conflict() -> StoreError {
    StoreError::Conflict {
        message: "the object has been modified".to_owned(),
    }
}
