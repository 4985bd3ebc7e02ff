//! A cluster in a test: a server, a clock, a control plane, and clients that reach it without sockets.

mod access;
mod builder;
mod control;
mod hot;
mod name;
mod pulse;
mod quiet;
mod rest;
mod run;
mod settle;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

#[cfg(feature = "kube")]
use kube::Resource;
use kubegc_core::{Clock, KubernetesVersion, Timestamp};
use kubegc_sim::{Admission, AdmissionHook, Converter, SharedApiServer};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

pub use access::Access;
pub use builder::{BuildError, Builder};
pub use hot::NotSettled;
pub use name::Name;
pub use rest::Rest;
pub use run::Running;
pub use settle::Settled;

use crate::{
    ClusterClock,
    audit::{Audit, Entry},
    fault::{self, Fault, Rule},
    http::AccessRules,
    nodes::log::Handlers,
};
pub(crate) use control::{Plane, reason};
use pulse::Pulse;

/// A Kubernetes cluster in memory. Clones are the same cluster.
///
/// See the [crate's page](crate) for a first example.
///
/// # Guarantees
/// Requests are performed one after another, each at once when its future is first polled. Given a paused
/// tokio clock and tasks that are deterministic themselves, everything here is: order of requests, uids,
/// generated names, dates, texts.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("clock", &self.inner.clock)
            .finish_non_exhaustive()
    }
}

/// State shared by the clones of a cluster. Lock order: the server's lock before that of `state`.
pub(crate) struct Inner {
    pub(crate) shared: SharedApiServer,
    pub(crate) clock: ClusterClock,
    pub(crate) began: Timestamp,
    pub(crate) state: Mutex<State>,
    pub(crate) pulse: Pulse,
    calls_max: u64,
    patience: Duration,
}

/// State that changes while a cluster runs, except for the objects that the server stores.
pub(crate) struct State {
    pub(crate) plane: Plane,
    pub(crate) audit: Vec<Arc<Entry>>,
    /// Whether the control plane had nothing to do after the last write of a client.
    pub(crate) is_settled: bool,
    pub(crate) faults: fault::Faults,
    pub(crate) access: Arc<AccessRules>,
    pub(crate) nodes: Handlers,
    /// Requests that have begun, each with the time until which a fault holds it back.
    pub(crate) requests: BTreeMap<u64, Option<Timestamp>>,
    pub(crate) watches: BTreeMap<u64, OpenWatch>,
    /// The clients that have dropped their last watch.
    pub(crate) ended: BTreeSet<Arc<str>>,
    pub(crate) numbers: u64,
}

/// A watch that a client has not dropped.
pub(crate) struct OpenWatch {
    pub(crate) client: Arc<str>,
    /// The watched resource and the client, for messages.
    pub(crate) what: Arc<str>,
    /// The server's revision when the watch last had no more events to send.
    pub(crate) caught_up_at: Option<u64>,
}

impl Inner {
    /// Records a request that the server performed.
    pub(crate) fn note(&self, state: &mut State, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(Entry {
            number: state.audit.len() as u64 + 1,
            since_start: entry.at.since(self.began),
            ..entry
        });
        state.audit.push(Arc::clone(&entry));
        self.pulse.beat();
        entry
    }
}

impl State {
    /// A number that no request and no watch has had.
    pub(crate) const fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn drop_watch(&mut self, number: u64) {
        let Some(dropped) = self.watches.remove(&number) else {
            return;
        };
        let mut open = self.watches.values();
        if !open.any(|watch| watch.client == dropped.client) {
            self.ended.insert(dropped.client);
        }
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// A cluster of the latest release, with the namespaces that every cluster has and nothing else.
    ///
    /// # Panics
    /// Never: the objects that it begins with are always accepted.
    pub fn new() -> Self {
        Self::builder()
            .build()
            .expect("a server without objects takes the namespaces that every cluster has")
    }

    /// A builder for the initial state and settings of a cluster.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A stored object as JSON, read without a request. The namespace is empty for cluster-scoped kinds.
    /// `None` if it does not exist, or the kind is not served.
    pub fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<serde_json::Value> {
        self.inner.shared.with(|server| {
            let kind = server.catalog().mapping(api_version, kind)?;
            let object = server.object(kind, namespace, name)?;
            Some(object.to_json(&server.catalog()[kind]))
        })
    }

    /// The release that the cluster behaves as.
    pub fn version(&self) -> KubernetesVersion {
        self.inner.shared.with(|server| server.version())
    }

    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// The cluster's clock, for tasks that are to wait by it.
    pub fn clock(&self) -> ClusterClock {
        self.inner.clock.clone()
    }

    /// Advances the time and does nothing else: the control plane acts in [`settle`](Self::settle), not here.
    ///
    /// If the cluster follows tokio's clock, that is what passes, in whole milliseconds and from timer to
    /// timer, so that tasks act at their times. Otherwise it is the cluster's time alone, at once.
    ///
    /// # Panics
    /// A task makes request after request without waiting for time, so that tokio's clock never gets to move.
    /// The message shows its requests, as that of [`NotSettled`] does.
    pub async fn advance(&self, by: Duration) {
        self.inner.state.lock().is_settled = false;
        let stuck = tokio::select! {
            biased;
            stuck = self.inner.hot_loop() => stuck,
            () = self.inner.clock.advance(by) => return,
        };
        panic!("{stuck}");
    }

    /// The server itself, as an `ObjectStore`, and for reading and writing without requests. Such reads and
    /// writes are in no audit and meet no fault.
    pub fn server(&self) -> SharedApiServer {
        self.inner.shared.clone()
    }

    /// A stored object as a type of any library that reads it with serde, read without a request. `None` if
    /// it does not exist, or if the stored object does not match the type.
    ///
    /// # Examples
    /// ```
    /// use kubegc_testkit::{Cluster, Name};
    /// #[derive(serde::Deserialize)]
    /// struct Settings { data: std::collections::BTreeMap<String, String> }
    ///
    /// let cluster = Cluster::builder()
    ///     .yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: blue}}")
    ///     .build()?;
    /// let settings: Option<Settings> = cluster.get_as(Name::new("v1", "ConfigMap", "default", "settings"));
    /// assert_eq!(settings.map(|settings| settings.data["colour"].clone()).as_deref(), Some("blue"));
    /// # Ok::<(), kubegc_testkit::BuildError>(())
    /// ```
    pub fn get_as<T: DeserializeOwned>(&self, object: impl Into<Name>) -> Option<T> {
        let object = object.into();
        let found = self.get(&object.api_version, &object.kind, &object.namespace, &object.name)?;
        serde_json::from_value(found).ok()
    }

    /// A stored object, read without a request. The namespace is empty for cluster-scoped kinds. `None` if it
    /// does not exist, or if the stored object does not match the type.
    #[cfg(feature = "kube")]
    pub fn find<K>(&self, namespace: &str, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.get_as(Name::of::<K>(namespace, name))
    }

    /// All objects of a kind, ordered by namespace and name, read without a request. What does not fit the
    /// type is left out.
    #[cfg(feature = "kube")]
    pub fn find_all<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.inner.shared.with(|server| {
            let Some(kind) = server.catalog().mapping(&K::api_version(&()), &K::kind(&())) else {
                return Vec::new();
            };
            let (objects, resource) = (server.objects(kind, None), &server.catalog()[kind]);
            let objects = objects.iter().map(|object| object.to_json(resource));
            objects
                .filter_map(|object| serde_json::from_value(object).ok())
                .collect()
        })
    }

    /// Names the object of a kind with this namespace (empty for cluster-scoped kinds) and name, with the uid
    /// that it has now.
    ///
    /// Without a uid, the name means the object that has it at the time of an assertion.
    #[cfg(feature = "kube")]
    pub fn object<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) -> Name {
        self.named(Name::of::<K>(namespace, name))
    }

    /// The same name with the uid that the object has now.
    pub fn named(&self, mut name: Name) -> Name {
        name.uid = self.inner.shared.with(|server| {
            let kind = server.catalog().mapping(&name.api_version, &name.kind)?;
            let object = server.object(kind, &name.namespace, &name.name)?;
            Some(object.meta.uid.clone())
        });
        name
    }

    /// The requests so far: those of clients and those of the control plane.
    pub fn audit(&self) -> Audit {
        Audit::new(self.inner.state.lock().audit.clone())
    }

    /// Plays the conversion webhook of a definition, such as `widgets.example.com`, whose strategy is
    /// `Webhook`: the closure gets an object and the `apiVersion` that is wanted, and returns the converted
    /// object, or the message of a failure. It must not use the cluster.
    ///
    /// Without it, such conversions fail as those of a webhook that cannot be reached.
    pub fn on_conversion(
        &self,
        definition: &str,
        convert: impl Fn(serde_json::Value, &str) -> Result<serde_json::Value, String> + Send + Sync + 'static,
    ) {
        let converter = Converter::new(convert);
        self.inner
            .shared
            .with(|server| server.set_converter(definition, converter));
    }

    /// Plays the admission webhook with this name, such as `pods.example.com`, of a stored configuration: the
    /// closure gets the `request` of the admission review, which `kube::core::admission::AdmissionRequest`
    /// reads. It must not use the cluster.
    ///
    /// A webhook without a closure counts as one that cannot be reached: its failure policy decides.
    ///
    /// # Examples
    /// ```
    /// use kubegc_testkit::{Admission, Cluster};
    /// let cluster = Cluster::new();
    /// cluster.on_admission("pods.example.com", |request| {
    ///     if request["object"]["metadata"]["labels"]["team"].is_null() {
    ///         return Admission::Deny { code: 403, message: "a team is needed".to_owned() };
    ///     }
    ///     Admission::Allow
    /// });
    /// ```
    pub fn on_admission(
        &self,
        webhook: &str,
        review: impl Fn(&serde_json::Value) -> Admission + Send + Sync + 'static,
    ) {
        let hook = AdmissionHook::new(review);
        self.inner
            .shared
            .with(|server| server.set_admission_hook(webhook, hook));
    }

    /// The faults that affect clients' requests.
    pub fn faults(&self) -> Faults<'_> {
        Faults { cluster: self }
    }
}

/// The faults that affect clients' requests. Made by [`Cluster::faults`].
///
/// # Examples
/// ```
/// use kubegc_testkit::{Cluster, Fault, Rule, http::Verb};
/// let cluster = Cluster::new();
/// cluster.faults().add(Rule::new(Fault::LoseResponse).on(Verb::Create).resource("configmaps"));
/// cluster.faults().draw_for("my-operator", 7, 50, vec![Fault::status(500), Fault::Disconnect]);
/// assert_eq!(cluster.faults().injected(), 0);
/// cluster.faults().clear();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Faults<'a> {
    cluster: &'a Cluster,
}

impl Faults<'_> {
    fn with<T>(&self, act: impl FnOnce(&mut fault::Faults) -> T) -> T {
        act(&mut self.cluster.inner.state.lock().faults)
    }

    /// Adds a rule. The first rule that applies, in the order of addition, counts.
    pub fn add(&self, rule: Rule) {
        self.with(|faults| faults.script.add(rule.0));
    }

    /// Sets the faults of requests to which no rule applies: `per_mille` of a thousand requests get one of
    /// them. The draw depends only on the seed.
    pub fn draw(&self, seed: u64, per_mille: u16, drawn: Vec<Fault>) {
        self.with(|faults| {
            faults.drawn_for = None;
            faults.script.draw(seed, per_mille, drawn);
        });
    }

    /// The same, for the requests of one client only: those of the test itself get no drawn faults.
    pub fn draw_for(&self, client: &str, seed: u64, per_mille: u16, drawn: Vec<Fault>) {
        self.with(|faults| {
            faults.drawn_for = Some(client.to_owned());
            faults.script.draw(seed, per_mille, drawn);
        });
    }

    /// Removes all rules and draws. The count of injected faults is kept.
    pub fn clear(&self) {
        self.with(|faults| faults.script.clear());
    }

    /// Number of requests that met a fault so far.
    pub fn injected(&self) -> u64 {
        self.with(|faults| faults.script.injected())
    }

    /// The same, by the fault's [word](Fault::word).
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.with(|faults| faults.counts.clone())
    }
}
