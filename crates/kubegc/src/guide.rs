//! How kubegc is built, how its collector is driven, and how to ask it questions.
//!
//! - [`architecture`]: the rooms of the house, and what is deliberately absent from each.
//! - [`driving_the_collector`]: the contract between a [`Collector`](crate::objects::Collector) and whoever performs its calls.
//! - [`predicting`]: from a dump to a forecast, and what a forecast does not say.
//! - [`collecting_on_a_node`]: from what a container runtime lists to what goes, and how to do it.
//! - [`cleaning_up`]: jobs, pods, volumes, nodes, tokens: what goes by itself, when, and how to run that.
//! - [`clusters`]: a simulated cluster in a test, a live one beside it.
//! - [`versions`]: how behaviour follows a Kubernetes version.
//! - [`support`]: supported versions of Rust, Kubernetes, kube and CRI.
//! - [`security`]: treatment of untrusted input, and reports of vulnerabilities.
//! - [`changelog`]: the releases of kubegc.

pub mod architecture {
    //! The rooms of the house, and what is deliberately absent from each.
    //!
    //! Facts come in at one end: watch events, answers to calls, files. Decisions are made in pure code. Calls go out at the other
    //! end, each with what it rests on and why it is made.
    //!
    //! ```text
    //! watch events ─┐                                   ┌─ calls, with reasons and expectations
    //! answers ──────┼─> Graph ─> queues ─> Attempt ─────┤
    //! time ─────────┘        (Collector)                └─ warnings
    //! ```
    //!
    //! **Invariant.** Nothing above a driver touches a cluster, a disk, a clock or the environment. `clippy.toml` bans what would.
    //!
    //! **Invariant.** The graph makes no calls and knows no queue. It turns one event into effects; whether an owner exists is not its business.
    //!
    //! **Invariant.** An attempt decides about one item and knows nothing of other items being decided about. Its questions are its only way to learn something.
    //!
    //! **Invariant.** The collector makes no decisions. Exchanging a rule never touches scheduling, and the other way round.
    //!
    //! **Invariant.** The simulator does not know the collector. What judges the collector must not be written with its rules in mind; the two meet in
    //! `kubegc-predict` only.
    //!
    //! **Invariant.** What was not listed is unknown, never absent. Absence takes a proof: a live 404, or a kind that somebody declared complete.
}

pub mod driving_the_collector {
    //! The contract between a [`Collector`](crate::objects::Collector) and whoever performs its calls.
    //!
    //! ```
    //! use std::sync::Arc;
    //! use kubegc::core::{ApiResource, Catalog, KubernetesVersion, ObjectMeta, OwnerReference, Scope, Timestamp};
    //! use kubegc::objects::{Collector, Input, Operation, Output, Response, Settings, WatchEvent};
    //!
    //! let version: KubernetesVersion = "1.36".parse()?;
    //! let mut catalog = Catalog::new();
    //! catalog.add(ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced))?;
    //! let mut collector = Collector::new(Settings::new(version));
    //! let now = Timestamp::EPOCH;
    //!
    //! // A ConfigMap whose owner is not there.
    //! let mut orphan = ObjectMeta::new("shop", "left-over", "u2");
    //! orphan.owner_references.push(OwnerReference {
    //!     api_version: "v1".into(), kind: "ConfigMap".into(), name: "gone".into(), uid: "u1".into(),
    //!     controller: None, block_owner_deletion: None,
    //! });
    //! let orphan = Arc::new(orphan);
    //!
    //! let mut deleted = Vec::new();
    //! loop {
    //!     match collector.poll_output() {
    //!         Output::Discover => {
    //!             let catalog = Arc::new(catalog.clone());
    //!             collector.handle(now, Input::Catalog { catalog, failed: vec![] })?;
    //!         }
    //!         Output::Watch(monitor) => {
    //!             for event in [WatchEvent::Init, WatchEvent::InitApply(Arc::clone(&orphan)), WatchEvent::InitDone] {
    //!                 collector.handle(now, Input::Watch { monitor, event })?;
    //!             }
    //!         }
    //!         Output::Call(call) => {
    //!             // This is where a driver talks to an API server.
    //!             let response = match &call.request.operation {
    //!                 Operation::Get if *call.request.target.name == *"left-over" => Response::Found(Arc::clone(&orphan)),
    //!                 Operation::Get => Response::NotFound,
    //!                 Operation::Delete { .. } => {
    //!                     deleted.push(format!("{}: {}", call.request.target.short(), call.request.reason));
    //!                     Response::Applied(None)
    //!                 }
    //!                 other => unreachable!("nothing here is patched: {other:?}"),
    //!             };
    //!             collector.handle(now, Input::Response { call: call.id, response })?;
    //!         }
    //!         Output::Unwatch(_) | Output::Event(_) => {}
    //!         Output::Wait(_) => break,
    //!     }
    //! }
    //! assert_eq!(deleted, ["configmap/left-over -n shop: no owner of it is left"]);
    //! # Ok::<(), Box<dyn std::error::Error>>(())
    //! ```
    //!
    //! - Every [`Call`](crate::objects::Call) gets exactly one response, in any order. A second response is a
    //!   [`Misuse`](crate::objects::collector::Misuse) and changes nothing.
    //! - A response that was lost is [`Response::Unknown`](crate::objects::Response::Unknown). Never turn it into a refusal: the write may have happened.
    //! - Stop polling whenever there is no room for more calls. What is not pulled stays in the queue and is decided later, on newer facts.
    //! - A [`Wait`](crate::objects::collector::Wait) says until when nothing happens. Early ticks change nothing, late ones only delay.
    //!
    //! [`driver::run`](crate::objects::driver::run) is this loop over the [`ObjectStore`](crate::core::ObjectStore) and
    //! [`Clock`](crate::core::Clock) traits, with watches kept open.
}

pub mod predicting {
    //! From a dump to a forecast, and what a forecast does not say.
    //!
    //! ```
    //! use kubegc::core::{DeleteOptions, PropagationPolicy};
    //! use kubegc::predict::{Assumptions, Cluster, Detail, Intent};
    //! use kubegc::snapshot::Reader;
    //!
    //! let dump = r#"{"apiVersion": "v1", "kind": "List", "items": [
    //!   {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "shop", "name": "web", "uid": "u1"}},
    //!   {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "web-settings", "uid": "u2", "ownerReferences": [
    //!     {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1"},
    //!     {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u0"}]}}
    //! ]}"#;
    //! let version = "1.36".parse()?;
    //! let mut reader = Reader::new(version).complete("replicasets").complete("configmaps");
    //! reader.read("dump.json", dump.as_bytes())?;
    //! let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
    //!
    //! let intent = Intent::delete("shop/ReplicaSet/web".parse()?, DeleteOptions::policy(PropagationPolicy::Background));
    //! let forecast = cluster.predict(&[intent])?;
    //! // Deployments were not dumped: whether the ConfigMap has an owner left is unknown.
    //! assert_eq!(forecast.counts()["undetermined"], 1);
    //! assert!(forecast.to_text(Detail::default()).contains("dump all deployments.apps and declare them complete"));
    //! # Ok::<(), Box<dyn std::error::Error>>(())
    //! ```
    //!
    //! A forecast simulates the part of the cluster that the delete can reach: the garbage collector, all controllers that kube-controller-manager runs by
    //! default, the kubelets of the dumped nodes and the API server's own controllers act on one simulated API server
    //! ([`control_plane`](crate::control_plane)). Where owners are not in the dump, it runs three times: they exist, they do not, they are terminating and
    //! wait for their dependents. What ends alike every time is decided. For the rest, the forecast names what to dump.
    //!
    //! [`Question`](crate::predict::Question) asks for more: a time and a horizon, other controllers, what happens anyway, deletes that follow each other.
    //!
    //! What a dump does not show is in the [`Assumptions`](crate::predict::Assumptions): kubelets end pods, cloud and CSI controllers remove their finalizers,
    //! storage is deleted, unknown finalizers stay. Controllers create nothing. Where deletes race,
    //! [`Cluster::explore`](crate::predict::Cluster::explore) tries every order of the requests, watch events and
    //! deletes, on the same control plane, and says which fates are certain and which are possible. It tries steps
    //! that commute in one order only, so races of eight to ten objects can often be explored
    //! exhaustively. Where only the end matters and the cluster is very large,
    //! [`Cluster::closure`](crate::predict::Cluster::closure) finds it without a simulation.
}

pub mod collecting_on_a_node {
    //! From what a container runtime lists to what goes, and how to do it.
    //!
    //! ```
    //! use std::sync::Arc;
    //! use kubegc::core::{Planner, Timestamp, node_facts::{Container, ContainerState, PodIdentity, PodState, Pods}};
    //! use kubegc::node::{Inventory, Policy, PolicySpec, container::RemovedBecause};
    //!
    //! let pod = PodIdentity { uid: "9f1c".into(), namespace: "shop".into(), name: "web".into() };
    //! let dead = |id: &str, created_at| {
    //!     Arc::new(Container::new(id, pod.clone(), "server", ContainerState::Exited, Timestamp::from_secs(created_at)))
    //! };
    //! let inventory = Inventory {
    //!     containers: Ok(vec![dead("first", 100), dead("second", 200), dead("third", 300)]),
    //!     pods: Pods { known: [(pod.uid.clone(), PodState::LIVING)].into(), sources_ready: true, synced: true },
    //!     ..Inventory::default()
    //! };
    //! let policy = Policy::new(&PolicySpec::default(), "1.36".parse()?)?;
    //! let plan = policy.container().plan(&inventory, Timestamp::from_secs(400));
    //! // One of each pod and container name stays, for `kubectl logs --previous`; the oldest goes first.
    //! let goes: Vec<&str> = plan.actions.iter().map(|action| &*action.container().id).collect();
    //! assert_eq!(goes, ["first", "second"]);
    //! assert_eq!(plan.actions[0].reason(), RemovedBecause::UnitLimit { per_unit_max: 1 });
    //! assert_eq!(plan.kept[0].reason.to_string(), "the newest of its unit, within all limits");
    //!
    //! // Images were not listed: nothing is decided about them.
    //! let plan = policy.image().plan(&inventory, Timestamp::from_secs(400));
    //! assert!(plan.actions.is_empty());
    //! assert_eq!(plan.summary.error.map(|error| error.to_string()).as_deref(), Some("not listed"));
    //! # Ok::<(), Box<dyn std::error::Error>>(())
    //! ```
    //!
    //! - **Listings are whole or missing.** An [`Inventory`](crate::node::Inventory) holds each listing, or why there is none. A planner whose listing is missing plans
    //!   nothing and says so.
    //! - **Records are yours to keep.** When an image was first seen and last used stands in [`Records`](crate::node::image::Records): hand them in with the inventory,
    //!   take the new ones from the plan's summary. Without them every image looks new, as it does to a kubelet that has just started.
    //! - **Three stages, three listings.** Sandboxes are planned over a listing taken after containers went, links after directories went.
    //!   [`driver::Node`](crate::node::driver::Node) does so over a [`Runtime`](crate::core::Runtime), a [`LogDirectory`](crate::core::LogDirectory),
    //!   a [`PodSource`](crate::core::PodSource) and a [`Clock`](crate::core::Clock).
    //! - **A failure makes up for nothing.** A pass that cannot remove one thing does not remove another in its place; the next pass sees what is left.
    //! - **Who says which pods there are?** Not the runtime. Where no source of pods has spoken, nothing goes because its pod is gone.
    //!
    //! **Invariant.** The planners protect what must stay; a runtime does not. A real one removes a running container, and an image in use, when asked.
    //!
    //! On a real node `kubegc-cri` is the runtime: containerd, CRI-O, or whatever else speaks CRI v1 on a unix socket. Around any runtime stand:
    //!
    //! | part | what it is for |
    //! |---|---|
    //! | [`Node::survey`](crate::node::Node::survey) | all that the planners look at, asked for once: for a forecast or a dry run |
    //! | [`driver::Approved`](crate::node::driver::Approved) | performs what somebody has seen and approved, and refuses whatever became garbage since |
    //! | [`driver::KeepImages`](crate::node::driver::KeepImages) | keeps images that the runtime fails to pin, such as that of sandboxes |
    //! | [`driver::ReadySandboxes`](crate::node::driver::ReadySandboxes) | pods are what runs: where nobody else knows |
    //! | [`snapshot::PodManifests`](crate::snapshot::PodManifests) | pods are the static ones of a folder |
    //! | [`snapshot::PodsFile`](crate::snapshot::PodsFile) | pods are those that a file lists |
    //!
    //! What a node does next, when its disk is full, and what another policy would have done is asked of
    //! [`predict::node_forecast`](crate::predict::node_forecast) and [`predict::what_if`](crate::predict::what_if()).
}

pub mod cleaning_up {
    //! What a cluster cleans up by itself for other reasons than owner references: forecast, planned, and done.
    //!
    //! Pods that have finished or lost their node, finished Jobs, certificate requests, released volumes, nodes that the cloud no longer has, tokens: each has a
    //! controller of its own in kube-controller-manager. [`controllers`](crate::controllers) has one module for each, named after upstream's
    //! package; [`default_controllers`](crate::controllers::default_controllers) lists them.
    //!
    //! # What will be deleted, and when
    //!
    //! A [`Question`](crate::predict::Question) without deletes asks what all of them do on a dump, together with the garbage
    //! collector and the kubelets, until a time or until nothing changes:
    //!
    //! ```
    //! use std::time::Duration;
    //! use kubegc::core::{KubernetesVersion, Timestamp};
    //! use kubegc::predict::{Assumptions, Cluster, Detail, Question};
    //! use kubegc::snapshot::Reader;
    //!
    //! let dump = r#"
    //! apiVersion: batch/v1
    //! kind: Job
    //! metadata: {namespace: shop, name: report, uid: u1, resourceVersion: "7"}
    //! spec: {ttlSecondsAfterFinished: 3600}
    //! status: {conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-03-01T11:30:00Z"}]}
    //! ---
    //! apiVersion: v1
    //! kind: Pod
    //! metadata:
    //!   {namespace: shop, name: report-x7k2p, uid: u2, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: report, uid: u1, controller: true}]}
    //! spec: {nodeName: node-a1, containers: []}
    //! status: {phase: Succeeded}
    //! ---
    //! apiVersion: v1
    //! kind: Node
    //! metadata: {name: node-a1, uid: u3}
    //! spec: {providerID: cloud://1}
    //! status: {conditions: [{type: Ready, status: "True"}]}
    //! "#;
    //! let version: KubernetesVersion = "1.32".parse()?;
    //! let mut reader = Reader::new(version).complete("all");
    //! reader.read("dump.yaml", dump.as_bytes())?;
    //! let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());
    //!
    //! let noon = Timestamp::parse("2026-03-01T12:00:00Z")?;
    //! let forecast = cluster.forecast(&Question::new(version).at(noon).up_to(Duration::from_secs(3_600)))?;
    //! let removed: Vec<String> = forecast.removals().map(|removal| format!("{} {}", removal.at, removal.object.short())).collect();
    //! assert_eq!(removed, ["2026-03-01T12:30:00Z pod/report-x7k2p -n shop", "2026-03-01T12:30:00Z job/report -n shop"]);
    //! let text = forecast.to_text(Detail::default());
    //! assert!(text.contains("job/report -n shop: it finished 1h ago"));
    //! assert!(text.contains("and with it pod/report-x7k2p"));
    //! # Ok::<(), Box<dyn std::error::Error>>(())
    //! ```
    //!
    //! - **When was the dump taken?** Dumps do not say. [`Question::now`](crate::predict::Question) does. Controllers that
    //!   work in periods begin one then.
    //! - **Who else is asked?** The cloud provider about nodes, plugins and provisioners about storage. The
    //!   [`Assumptions`](crate::predict::Assumptions) have their answers. A node without one is kept, and undetermined unless it
    //!   is ready.
    //! - **What was not dumped is unknown.** A controller that needs it decides nothing, and
    //!   [`undetermined`](crate::predict::Forecast) names the missing fact. An object whose fate depends on it is not
    //!   among the [`removals`](crate::predict::Forecast::removals); reports list it apart from what is certain.
    //!
    //! # One controller alone
    //!
    //! A [`BatchPlanner`](crate::controllers::BatchPlanner) takes a cache and a time. An object that it does not act on is kept, with the reason, and `next_at` says
    //! when the same cache gives another plan:
    //!
    //! ```
    //! use kubegc::controllers::{BatchPlanner, Cache, TtlAfterFinished};
    //! use kubegc::core::{KubernetesVersion, ObjectMeta, Planner, Timestamp, record::{Body, Condition, Job, Record, Resource}};
    //!
    //! let finished_at = Timestamp::parse("2026-03-01T11:30:00Z")?;
    //! let complete = Condition { last_transition_time: Some(finished_at), ..Condition::new("Complete", "True") };
    //! let job = Job { ttl_seconds_after_finished: Some(3_600).into(), conditions: vec![complete].into(), ..Job::default() };
    //! let mut cache = Cache::new([Resource::Jobs], []);
    //! cache.set_listed(Resource::Jobs, Ok(()));
    //! cache.replace(Resource::Jobs, vec![Record::new(ObjectMeta::new("shop", "report", "u1"), Body::Job(job))]);
    //!
    //! let planner = BatchPlanner::new(TtlAfterFinished::new(KubernetesVersion::LATEST));
    //! let plan = planner.plan(&cache, Timestamp::parse("2026-03-01T12:00:00Z")?);
    //! assert!(plan.actions.is_empty());
    //! let next_at = plan.next_at.ok_or("nothing is due")?;
    //! assert_eq!(next_at, Timestamp::parse("2026-03-01T12:30:00Z")?);
    //! assert_eq!(planner.plan(&cache, next_at).actions.len(), 1);
    //! # Ok::<(), Box<dyn std::error::Error>>(())
    //! ```
    //!
    //! # Doing it
    //!
    //! [`Driver`](crate::controllers::driver::Driver) runs any choice of controllers over an [`ObjectStore`](crate::core::ObjectStore) and a
    //! [`Clock`](crate::core::Clock): the simulated API server here, `kubegc-kube` over a live one.
    //!
    //! ```
    //! use std::sync::Arc;
    //! use kubegc::core::{Catalog, KubernetesVersion, Timestamp};
    //! use kubegc::controllers::{TokenCleaner, driver::Driver};
    //! use kubegc::sim::{ApiServer, Manifest, SharedApiServer, SimClock};
    //! use kubegc::snapshot::JsonDocuments;
    //! use serde_json::json;
    //!
    //! # #[tokio::main(flavor = "current_thread")]
    //! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let version = KubernetesVersion::LATEST;
    //! let clock = SimClock::new(Timestamp::parse("2026-03-01T12:00:00Z")?);
    //! let mut server = ApiServer::new(version, Catalog::builtin(version));
    //! let secrets = server.catalog().mapping("v1", "Secret").ok_or("every release serves secrets")?;
    //! for (name, expiration) in [("bootstrap-token-ended1", "MjAyNi0wMy0wMVQxMTowMDowMFo="), ("bootstrap-token-valid1", "MjAyNi0wMy0wMVQxMzowMDowMFo=")] {
    //!     let manifest = Manifest::read(json!({
    //!         "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": "kube-system", "name": name, "uid": name },
    //!         "type": "bootstrap.kubernetes.io/token", "data": { "expiration": expiration },
    //!     }))?;
    //!     server.insert(secrets, manifest.object)?;
    //! }
    //! let shared = SharedApiServer::with_clock(server, Arc::new(clock.clone()));
    //!
    //! let driver = Driver::builder(Arc::new(shared.clone()), Arc::new(clock), Arc::new(JsonDocuments::default()))
    //!     .controller(TokenCleaner::new(version))
    //!     .build();
    //! let summary = driver.run_until_idle(std::future::pending()).await;
    //! assert_eq!(summary.next_at, Some(Timestamp::parse("2026-03-01T13:00:00Z")?));
    //! let left = shared.with(|server| server.objects(secrets, None));
    //! assert_eq!(left.len(), 1);
    //! assert_eq!(&*left[0].meta.name, "bootstrap-token-valid1");
    //! # Ok(())
    //! # }
    //! ```
    //!
    //! It lists and watches the resources that its controllers read, with whole objects, and sends one request at a time per task.
    //! [`Outside`](crate::controllers::driver::Outside) answers for volume plugins, provisioners and the cloud provider; by default they are unknown, so that no node
    //! and no storage is deleted.
    //!
    //! **Invariant.** Nothing is deleted on missing knowledge: a list that failed, an object that could not be read, a cloud provider that did not answer.
    //!
    //! # What is covered
    //!
    //! | controller | decided by (upstream) |
    //! |---|---|
    //! | [`PodGc`](crate::controllers::PodGc) | `--terminated-pod-gc-threshold`; missing nodes |
    //! | [`TtlAfterFinished`](crate::controllers::TtlAfterFinished) | `spec.ttlSecondsAfterFinished` of the Job |
    //! | [`CronJobHistory`](crate::controllers::CronJobHistory) | `spec.successfulJobsHistoryLimit`, `spec.failedJobsHistoryLimit` of the CronJob |
    //! | [`CsrCleaner`](crate::controllers::CsrCleaner) | ages of 1 h, and 24 h while pending; no flags |
    //! | [`PodCertificateRequestCleaner`](crate::controllers::PodCertificateRequestCleaner) | an age; feature gate `PodCertificateRequest` |
    //! | [`PersistentVolumeBinder`](crate::controllers::PersistentVolumeBinder) | `spec.persistentVolumeReclaimPolicy` |
    //! | [`ExternalProvisioner`](crate::controllers::ExternalProvisioner) | the annotation `pv.kubernetes.io/provisioned-by` |
    //! | [`PvcProtection`](crate::controllers::PvcProtection), [`PvProtection`](crate::controllers::PvProtection) | finalizers |
    //! | [`StatefulSetClaims`](crate::controllers::StatefulSetClaims) | `spec.persistentVolumeClaimRetentionPolicy` |
    //! | [`CloudNodeLifecycle`](crate::controllers::CloudNodeLifecycle) | the cloud provider; `--node-monitor-period` |
    //! | [`LegacyTokenCleaner`](crate::controllers::LegacyTokenCleaner) | `--legacy-service-account-token-clean-up-period` |
    //! | [`TokenCleaner`](crate::controllers::TokenCleaner) | `data.expiration` of bootstrap tokens |
    //! | [`NamespaceController`](crate::controllers::NamespaceController) | feature gate `OrderedNamespaceDeletion` |
    //!
    //! Node leases have an owner reference to their Node, so the garbage collector deletes them. Events expire in the API server's store.
}

pub mod clusters {
    //! How kubegc meets a cluster: a simulated one in a test, a live one beside it.
    //!
    //! Two crates outside of this one speak kube-rs. Neither decides what is garbage.
    //!
    //! - **`kubegc-testkit`** puts the simulated API server behind a `kube::Client`. An operator under test runs unchanged; `settle` lets it and the
    //!   control plane work until nobody has anything left to do, `step` stops after each request of the collector. Time is simulated: with a paused tokio clock the
    //!   cluster's time and the operator's timers are one. What differs from a real API server is a table in its documentation.
    //! - **`kubegc-kube`** implements [`ObjectStore`](crate::core::ObjectStore) over a `kube::Client`. Its collector runs where nobody collects (envtest, a bare
    //!   API server), with leadership by a Lease where several are started. Its dry run asks the API server to judge each write without storing it and goes
    //!   on as if it had been stored, so that a whole cascade is reported. Its snapshot is what [`predict::Cluster`](crate::predict::Cluster) takes: a kind that
    //!   may not be listed is incomplete, and what hangs on it undecided.
    //!
    //! A cluster in a test runs no containers. Where an operator waits for its Deployments, StatefulSets or Jobs, `Builder::workloads` plays the controllers
    //! that create pods, the scheduler and the kubelets. Without rules everything becomes ready at once; rules say which pods do not:
    //!
    //! ```
    //! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    //! use std::time::Duration;
    //!
    //! use kubegc_testkit::{Cluster, PodFate, Workloads};
    //!
    //! let rules = Workloads::new()
    //!     .nodes(["a", "b"])
    //!     // A Deployment, StatefulSet, DaemonSet, Job or CronJob, whoever is in between.
    //!     .pods(|pod| pod.is_of("Job", "migrate").then_some(PodFate::Fails { after: Duration::from_secs(1) }))
    //!     .pods(|pod| pod.has_label("app", "web").then_some(PodFate::Ready { after: Duration::from_secs(20) }));
    //! let cluster = Cluster::builder()
    //!     .workloads(rules)
    //!     .yaml("
    //! apiVersion: apps/v1
    //! kind: StatefulSet
    //! metadata: {name: web}
    //! spec:
    //!   replicas: 2
    //!   serviceName: web
    //!   selector: {matchLabels: {app: web}}
    //!   template:
    //!     metadata: {labels: {app: web}}
    //!     spec: {containers: [{name: web, image: nginx}]}
    //! ")
    //!     .build()?;
    //!
    //! // Pods of a StatefulSet wait for each other.
    //! cluster.settle_within(Duration::from_secs(30)).await?;
    //! let status = |cluster: &Cluster| cluster.get("apps/v1", "StatefulSet", "default", "web").unwrap()["status"].clone();
    //! assert_eq!(status(&cluster)["readyReplicas"], 1);
    //! cluster.settle_within(Duration::from_secs(30)).await?;
    //! assert_eq!(status(&cluster)["readyReplicas"], 2);
    //!
    //! // The kubelet of a node stops reporting.
    //! assert!(cluster.lose_node("a"));
    //! cluster.settle().await?;
    //! assert_eq!(status(&cluster)["readyReplicas"], 1);
    //! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    //! ```
    //!
    //! | to do | use |
    //! |---|---|
    //! | decide what becomes of pods and claims | `Workloads::pods`, `Workloads::claims`; later: `Cluster::set_workloads` |
    //! | lose a node, or let it come back | `Cluster::lose_node`, `Cluster::recover_node` |
    //! | restart the containers of a pod once | `Cluster::restart_pod` |
    //! | run a CronJob now | `Cluster::create_job_from` |
    //!
    //! **Invariant.** Workloads act only when the collector and the controllers that delete have nothing to do: a pod is adopted, counted or deleted before
    //! another one is created in its place.
    //!
    //! Which one answers which question:
    //!
    //! | question | ask |
    //! |---|---|
    //! | does my operator survive deletion in all three policies? | `kubegc_testkit::Cluster` |
    //! | what would `kubectl delete` do to this cluster? | `kubegc_kube::snapshot`, then [`predict`](crate::predict) |
    //! | what would a collector do right now? | `kubegc_kube::GarbageCollector` with `dry_run(true)` |
    //! | who collects in my test with a real API server? | `kubegc_kube::GarbageCollector` |
    //!
    //! **Invariant.** An answer that was lost says nothing: a write may have happened, so it is read again, never assumed.
}

pub mod migrating {
    //! From other ways to test an operator to `kubegc-testkit`.
    //!
    //! # From kube-fake-client
    //!
    //! Both keep objects in memory behind a `kube::Client`, so the code under test stays as it is.
    //!
    //! | kube-fake-client | kubegc-testkit |
    //! |---|---|
    //! | `ClientBuilder::new().with_object(pod).build().await?` | `Cluster::builder().object(&pod).build()?`, then `cluster.client()` |
    //! | `.with_status_subresource::<T>()` | nothing: built-in kinds have theirs, custom ones what their definition says |
    //! | `.with_resource::<T>()` for a custom resource | `Builder::custom_resource::<T>()`, or the definition in `Builder::yaml` |
    //! | `.load_fixture(path)?` | `Builder::yaml(&text)` |
    //! | `.with_schema_validation_file(path)?` | nothing: types and the schemas of definitions are always checked (`Builder::types(false)` switches it off) |
    //! | `.with_interceptor_funcs(funcs)` | `Cluster::faults` for errors, lost answers and broken watches; `Cluster::audit` for what was asked |
    //! | a delete removes dependents at once | a delete marks the object; `cluster.settle().await?` lets the control plane work, finalizers hold, owners count |
    //!
    //! Expect some tests to fail at first: objects with finalizers stay, dependents with another live owner stay, and what the API server refuses
    //! is refused.
    //!
    //! # From mocks of the HTTP service (`tower-test`)
    //!
    //! A mock answers a fixed sequence of requests. Here the requests have effects, so state is asserted instead of the order of calls; a fault
    //! takes the place of an answer that a mock would make up:
    //!
    //! ```
    //! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    //! use k8s_openapi::api::core::v1::ConfigMap;
    //! use kube::{Api, Client, api::PostParams};
    //! use kubegc_testkit::{Cluster, Fault, Rule};
    //!
    //! let cluster = Cluster::new();
    //! // Any version of kube takes the service; `cluster.client_as("operator")` is the same for the version of the testkit.
    //! let client = Client::new(cluster.service("operator"), "default");
    //! let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
    //!
    //! cluster.faults().add(Rule::new(Fault::status(503)).client("operator").resource("configmaps"));
    //! let mut map = ConfigMap::default();
    //! map.metadata.name = Some("settings".to_owned());
    //! assert!(config_maps.create(&PostParams::default(), &map).await.is_err());
    //! config_maps.create(&PostParams::default(), &map).await?;
    //!
    //! // What a mock would have expected, as text: made for snapshot tests.
    //! assert_eq!(
    //!     cluster.audit().by("operator").to_string(),
    //!     "+0s operator create configmaps default/settings -> 503 (injected: refused)\n\
    //!      +0s operator create configmaps default/settings -> 201\n",
    //! );
    //! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    //! ```
    //!
    //! # From envtest
    //!
    //! envtest starts a real API server and no controllers: nothing is collected, namespaces never end, no Deployment becomes available. Two ways lead on.
    //!
    //! - Keep envtest and add the collector. `kubegc_kube::GarbageCollector` runs beside any API server; the example `kube_gc_for_envtest` shows it in
    //!   a test. The rest of the controllers is `kubegc_kube::ControllerManager`.
    //! - Move the test to `kubegc_testkit::Cluster`: no processes, time that passes at once, faults, and answers why an object is still there.
    //!
    //! | in envtest | here |
    //! |---|---|
    //! | `Environment::default().create()` and its kubeconfig | `Cluster::new()`, `cluster.client()`; for other processes `cluster.serve()` |
    //! | definitions from a folder | `Builder::yaml`, `Builder::custom_resource::<T>()` |
    //! | poll until an object is there or gone | `cluster.settle().await?`, then assert; `assert_collected`, `assert_survives`, `assert_stuck` explain what differs |
    //! | asserting owner references in place of deletions | delete, settle, assert |
    //! | status of Deployments and Jobs set by hand | `Builder::workloads`, with rules for what pods do |
    //! | webhooks served over TLS | closures: `Cluster::on_admission`, `Cluster::on_conversion` |
    //! | sleeping for requeues | `#[tokio::test(start_paused = true)]` and `settle_within` |
    //!
    //! What remains for a real cluster: authentication, quotas, scheduling by resources, networks and containers. `kubegc_testkit::real` lists what there is.
}

pub mod versions {
    //! How behaviour follows a Kubernetes version.
    //!
    //! A [`KubernetesVersion`](crate::core::KubernetesVersion) is a release from 1.13 on. Each thing that changed in between is a named
    //! [`Behavior`](crate::core::Behavior) with its first release and the change that brought it; planners read flags, never version numbers
    //! ([`Semantics`](crate::objects::settings::Semantics)).
    //!
    //! What upgrades changed most:
    //!
    //! | from | what | before |
    //! |---|---|---|
    //! | 1.16 | a second foreground delete is noticed | the finalizer stays for ever |
    //! | 1.20 | owners are verified by their whole identity | an owner in another namespace could take its dependents, and others', with it |
    //! | 1.29 | images count as detected when a kubelet first looks, and may go by age | after a restart all images look old, and young ones are removed |
    //! | 1.32 | one kind that cannot be listed does not keep the collector from starting | nothing is collected |
    //! | 1.34 | a delete expects the version that was read | an object that got a new owner in between is deleted |
}

pub mod support {
    //! Supported versions of Rust, Kubernetes, kube and CRI.
    //!
    //! # Rust
    //!
    //! Rust 1.89 or newer. `rust-version` in the manifest of every crate makes cargo refuse older compilers.
    //!
    //! # Kubernetes
    //!
    //! [`KubernetesVersion`](crate::core::KubernetesVersion) knows the releases 1.13 to 1.37. A later
    //! release has the behavior of the newest known one, and a warning; an older one is an error:
    //!
    //! ```
    //! use kubegc::core::KubernetesVersion;
    //!
    //! assert_eq!((KubernetesVersion::MINOR_MIN, KubernetesVersion::MINOR_MAX), (13, 37));
    //! let later: KubernetesVersion = "1.40.0".parse()?;
    //! assert!(later.warning().is_some_and(|text| text.contains("behaviour of the newest known release is used")));
    //! let error = "1.12.0".parse::<KubernetesVersion>().unwrap_err();
    //! assert!(error.to_string().contains("kubegc knows 1.13 and later"));
    //! # Ok::<(), kubegc::core::FieldError>(())
    //! ```
    //!
    //! Recordings of the real programs exist for some of these releases. In the others, kubegc follows
    //! upstream's source by rule. The table "What is covered" in the README of the repository has both for
    //! each part. [`Behavior::is_certain`](crate::core::Behavior::is_certain) tells whether the first release
    //! of a behavior is known exactly.
    //!
    //! # kube
    //!
    //! | crate | version of kube |
    //! |---|---|
    //! | `kubegc-kube`; `kubegc-testkit` with the feature `kube` | kube 5 |
    //! | `kubegc-testkit` with the feature `client` only | kube 1 to 5: a cluster is a `tower::Service` over `http` 1 |
    //!
    //! Tests of the repository run the second with each of these versions. The program chooses the version of
    //! the API types with a feature of `k8s-openapi`.
    //!
    //! # Container runtimes
    //!
    //! `kubegc-cri` requires a runtime that serves CRI v1 on a unix socket. A test of the repository runs it
    //! against containerd.
}

pub mod security {
    //! Treatment of untrusted input, and reports of vulnerabilities.
    //!
    //! Dumps, responses of API servers and container runtimes, and requests to a simulated cluster are
    //! untrusted.
    //!
    //! # Input
    //!
    //! - **No unsafe code.** The lints of the workspace forbid it, and a test checks that every crate uses
    //!   these lints. Dependencies have their own rules.
    //! - **No panics on input.** Input that cannot be read is an error, or a finding that names the document,
    //!   the object and the field. Fuzz targets cover the readers of dumps and of crictl's output, the
    //!   collector, the planners of a node, patches, the owner graph in DOT, and HTTP requests to a simulated
    //!   cluster.
    //! - **Reading a dump writes no files.** Archives are unpacked in memory, as a stream. No path of an
    //!   archive is used as a path of the machine, and links to folders are not followed.
    //! - **Names cannot control a terminal.** Reports escape control characters and characters that change
    //!   the writing direction, with [`printable`](crate::core::printable).
    //! - **No recursion over owner references.** A test forecasts the deletion of a chain of 100,000 owners
    //!   on a stack of 512 KiB.
    //!
    //! Input beyond one of these limits is an error:
    //!
    //! | input | limit |
    //! |---|---|
    //! | one object of a dump | 64 MiB ([`OBJECT_BYTES_MAX`](crate::snapshot::OBJECT_BYTES_MAX)) |
    //! | a compressed file or an archive, unpacked | 16 GiB ([`UNPACKED_BYTES_MAX`](crate::snapshot::UNPACKED_BYTES_MAX)) |
    //! | members of the archives of one input | 1,000,000 |
    //! | compressions and archives within each other | 4 |
    //! | folders within folders | 64 |
    //! | a response of an API server | 1 GiB; one line of a watch: 256 MiB |
    //! | a response of a container runtime | 16 MiB (`kubegc_cri::Options::message_bytes_max`) |
    //! | the body of a request to a simulated cluster | 3 MiB |
    //!
    //! A reader keeps what controllers need of each object, so memory grows with the number of objects in a
    //! dump.
    //!
    //! # Writes
    //!
    //! By default ([`Hardening::Strict`](crate::objects::settings::Hardening),
    //! [`Wire::Strict`](crate::controllers::Wire)) every delete request to an API server carries the uid and
    //! the resourceVersion on which it was decided, each if it is known. Missing knowledge never leads to a
    //! delete. `kubegc_kube::rbac` has the minimal RBAC rules of each use.
    //!
    //! # Reporting a vulnerability
    //!
    //! Report it by the private vulnerability reporting of the repository, not in a public issue. Name the
    //! version of kubegc, and attach the smallest input that shows the problem.
}

#[doc = include_str!("../CHANGELOG.md")]
pub mod changelog {}
