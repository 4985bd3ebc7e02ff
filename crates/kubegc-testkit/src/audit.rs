//! The audit log: one entry per request, with client, verb, time and response.

use std::{fmt, sync::Arc, time::Duration};

use kubegc_core::{ObjectRef, Timestamp, Uid};
use kubegc_sim::status::qualified;
use serde_json::Value;

use crate::{
    fault::is_client,
    http::{Call, Verb, decode, is_object},
};

/// One request and its response.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its place among all requests, from 1 on.
    pub number: u64,
    /// The time at which the server performed the request, by the cluster's clock.
    pub at: Timestamp,
    /// The same, since the cluster's beginning.
    pub since_start: Duration,
    /// The client: the name given to [`Cluster::client_as`](crate::Cluster::client_as), or the request's
    /// `User-Agent`. The control plane's own requests have the names `garbage-collector`,
    /// `namespace-controller`, `custom-resource-cleaner`, `kubelet` and `finalizer-holder`.
    pub client: Arc<str>,
    pub verb: Verb,
    /// API group; empty for the core group and for requests without a resource.
    pub group: Arc<str>,
    /// Plural name of the resource; the path for requests without a resource.
    pub resource: Arc<str>,
    /// Namespace; empty for cluster-scoped resources and for requests across namespaces.
    pub namespace: Arc<str>,
    /// Name of the object. A creation's is the one that the object was given or, if it failed, the one in
    /// the request's body.
    pub name: Arc<str>,
    /// Subresource, such as `status`.
    pub subresource: Arc<str>,
    /// Whether nothing was to be stored.
    pub dry_run: bool,
    /// The HTTP status code of the response; `None` if the client received no response.
    pub code: Option<u16>,
    /// Size of the request's body, in bytes.
    pub body_bytes: usize,
    /// The server's revision after the request, which made all changes since that of the request before.
    pub revision: u64,
    /// The uid of the object that a write changed or deleted; empty if the response does not contain it.
    pub uid: Uid,
    /// The fault that was injected: its [`Fault::word`](crate::Fault::word).
    pub fault: Option<&'static str>,
    /// The control plane's reason for this request.
    pub reason: Option<Arc<str>>,
}

impl Entry {
    /// Whether the request was to change something.
    pub fn is_write(&self) -> bool {
        self.verb.is_write() && !self.dry_run
    }

    /// Whether the client received a success response.
    pub fn is_success(&self) -> bool {
        self.code.is_some_and(|code| code < 400)
    }

    /// Whether a client's request failed. A GET of an object that does not exist is not a failure.
    pub fn is_failure(&self) -> bool {
        let is_lookup = self.verb == Verb::Get && self.code == Some(404) && !self.name.is_empty();
        self.reason.is_none() && !self.is_success() && !is_lookup
    }

    /// Whether the request was about this object, by group, plural name, namespace and name.
    pub fn is_about(&self, group: &str, resource: &str, namespace: &str, name: &str) -> bool {
        *self.resource == *resource
            && *self.group == *group
            && *self.namespace == *namespace
            && *self.name == *name
    }

    /// `resource.group namespace/name/subresource`, without the parts that are empty.
    pub fn target(&self) -> String {
        let mut out = qualified(&self.resource, &self.group);
        let mut parts: Vec<&str> = vec![&self.namespace, &self.name, &self.subresource];
        parts.retain(|part| !part.is_empty());
        if !parts.is_empty() {
            out.push(' ');
            out.push_str(&parts.join("/"));
            if self.name.is_empty() {
                out.push('/');
            }
        }
        out
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {}",
            Since(self.since_start),
            self.client,
            match self.verb {
                Verb::NonResource => "request",
                verb => verb.as_str(),
            },
            self.target()
        )?;
        if self.dry_run {
            f.write_str(" (dry run)")?;
        }
        match self.code {
            Some(code) => write!(f, " -> {code}")?,
            None => f.write_str(" -> no response")?,
        }
        if let Some(fault) = self.fault {
            write!(f, " (injected: {fault})")?;
        }
        match &self.reason {
            Some(reason) => write!(f, " because {reason}"),
            None => Ok(()),
        }
    }
}

/// A time since the beginning, in seconds with as many digits as are needed for milliseconds.
pub(crate) struct Since(pub(crate) Duration);

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{}s", self.0.as_millis() as f64 / 1000.0)
    }
}

/// Requests in the order in which they were performed, a line each. The text is the same in every run of a
/// deterministic test.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::api::{Api, PostParams};
/// use kubegc_testkit::Cluster;
/// let cluster = Cluster::new();
/// let api: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("my-operator"));
/// let mut config_map = ConfigMap::default();
/// config_map.metadata.name = Some("settings".to_owned());
/// api.create(&PostParams::default(), &config_map).await?;
/// let audit = cluster.audit();
/// assert_eq!(audit.by("my-operator").writes().to_string(), "+0s my-operator create configmaps default/settings -> 201\n");
/// # Ok::<(), kube::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit(Vec<Arc<Entry>>);

impl Audit {
    pub(crate) const fn new(entries: Vec<Arc<Entry>>) -> Self {
        Self(entries)
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> + ExactSizeIterator {
        self.0.iter().map(|entry| &**entry)
    }

    pub const fn len(&self) -> usize {
        self.0.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that a test chooses.
    pub fn filter(&self, mut wanted: impl FnMut(&Entry) -> bool) -> Self {
        let chosen = self.0.iter().filter(|entry| wanted(entry));
        Self(chosen.map(Arc::clone).collect())
    }

    /// Those that were to change something, dry runs left out.
    pub fn writes(&self) -> Self {
        self.filter(Entry::is_write)
    }

    /// Those of one client. `kubectl` also means `kubectl/v1.30.0`.
    pub fn by(&self, client: &str) -> Self {
        self.filter(|entry| is_client(&entry.client, client))
    }

    pub fn verb(&self, verb: Verb) -> Self {
        self.filter(|entry| entry.verb == verb)
    }

    /// Those for this resource, by its plural name.
    pub fn resource(&self, plural: &str) -> Self {
        self.filter(|entry| *entry.resource == *plural)
    }

    pub fn namespace(&self, namespace: &str) -> Self {
        self.filter(|entry| *entry.namespace == *namespace)
    }

    pub fn name(&self, name: &str) -> Self {
        self.filter(|entry| *entry.name == *name)
    }

    /// The entries after the first `number` requests of the cluster: everything since an earlier call of
    /// [`Cluster::audit`](crate::Cluster::audit).
    pub fn after(&self, number: u64) -> Self {
        self.filter(|entry| entry.number > number)
    }

    /// The number of the last request; 0 if there is none.
    pub fn last_number(&self) -> u64 {
        self.0.last().map_or(0, |entry| entry.number)
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

/// Reads a body in JSON or protobuf. An unreadable one identifies no object.
fn read(body: &[u8]) -> Value {
    let read = match is_object(body) {
        true => decode(body, ("", "")).ok(),
        false => serde_json::from_slice(body).ok(),
    };
    read.unwrap_or_default()
}

/// The part of a response that identifies its object: its metadata, or the details of a completed deletion.
fn identity(response: &Value) -> &Value {
    match (&response["kind"], &response["status"]) {
        (kind, status) if kind == "Status" && status == "Success" => &response["details"],
        (kind, _) if kind == "Status" => &Value::Null,
        _ => &response["metadata"],
    }
}

/// The entry of a client's request, with the status code and, for writes, the body of the response.
pub(crate) fn of_client(client: &str, call: &Call, sent: &[u8], code: Option<u16>, received: &[u8]) -> Entry {
    let response = match call.verb.is_write() && call.verb != Verb::DeleteCollection {
        true => read(received),
        false => Value::Null,
    };
    let identity = identity(&response);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // The details of a status have the name of the resource as well.
    let given = match response["kind"] == "Status" {
        true => String::new(),
        false => text(&identity["name"]),
    };
    let name = match call.verb {
        Verb::Create if call.name.is_empty() && given.is_empty() => text(&read(sent)["metadata"]["name"]),
        Verb::Create if call.name.is_empty() => given,
        _ => call.name.clone(),
    };
    let resource = match call.verb {
        Verb::NonResource => &*call.path,
        _ => &call.resource,
    };
    // Upstream's requests on a namespace count as requests in it.
    let is_namespace = call.group.is_empty() && call.resource == "namespaces";
    let namespace = if is_namespace { "" } else { &*call.namespace };
    Entry {
        client: client.into(),
        verb: call.verb,
        group: (&*call.group).into(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        subresource: (&*call.subresource).into(),
        dry_run: call.dry_run,
        code,
        body_bytes: sent.len(),
        uid: Uid::new(identity["uid"].as_str().unwrap_or_default()),
        ..Entry::default()
    }
}

pub(crate) fn of_control_plane(
    client: &str,
    verb: Verb,
    resource: &kubegc_core::ApiResource,
    object: &ObjectRef,
    code: u16,
    reason: Arc<str>,
) -> Entry {
    Entry {
        client: client.into(),
        verb,
        group: Arc::clone(&resource.group),
        resource: Arc::clone(&resource.resource),
        namespace: Arc::clone(&object.namespace),
        name: Arc::clone(&object.name),
        code: Some(code),
        uid: object.uid.clone(),
        reason: Some(reason),
        ..Entry::default()
    }
}
