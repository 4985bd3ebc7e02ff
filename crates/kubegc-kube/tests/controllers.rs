//! Controllers that run against a simulated cluster through a client.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Namespace, PersistentVolumeClaim, Pod},
    rbac::v1::PolicyRule,
};
use kube::{Api, Resource, ResourceExt, api::DeleteParams};
use kubegc_controllers::{
    Action, Context, Controller, Decision, Info, Missing, OnError, Reason, Sent, protected_by_label,
    select_controllers,
};
use kubegc_core::{
    DeleteOptions, KubernetesVersion,
    record::{ObjectId, Record, Resource as Kind},
};
use kubegc_fixtures::Logs;
use kubegc_kube::{ControllerManager, rbac};
use kubegc_testkit::{Cluster, Entry, Fault, Rule, http::Verb};
use tokio::{sync::watch, time::sleep};

use crate::{
    common::{Running, set},
    rbac::roles,
};

/// Deletes ConfigMaps named `scratch`.
#[derive(Debug)]
struct Scratch;

static INFO: Info = Info {
    name: "scratch-controller",
    summary: "deletes ConfigMaps named scratch",
    resources: &[Kind::ConfigMaps],
    permissions: &[(Kind::ConfigMaps, "", &["delete"])],
    ..Info::BASE
};

impl Controller for Scratch {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        if &*id.name != "scratch" {
            let reason = Reason::new("NotScratch", "it is not named scratch");
            return Ok(Decision::keep(id.clone(), reason));
        }
        let reason = Reason::new("Scratch", "it is named scratch");
        let action = Action::new(Kind::ConfigMaps, &record.meta, reason);
        let action = action.delete(cx.wire, Sent::Uid, DeleteOptions::default());
        Ok(Decision::act(action.on_error(OnError::RetryUnlessNotFound)))
    }
}

const OBJECTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: closed}
---
apiVersion: v1
kind: Node
metadata: {name: good}
---
apiVersion: v1
kind: Node
metadata: {name: tainted}
spec: {taints: [{key: maintenance, effect: NoExecute}]}
---
apiVersion: v1
kind: Pod
metadata: {name: running, namespace: shop}
spec:
  nodeName: good
  containers: [{name: main, image: main}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: used}}]
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: lost, namespace: shop}
spec: {nodeName: missing, containers: [{name: main, image: main}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: evicted, namespace: shop}
spec: {nodeName: tainted, containers: [{name: main, image: main}]}
status: {phase: Running}
---
apiVersion: batch/v1
kind: Job
metadata: {name: report, namespace: shop}
spec: {ttlSecondsAfterFinished: 30, template: {spec: {restartPolicy: Never, containers: [{name: main, image: main}]}}}
status:
  startTime: '2026-01-01T00:00:00Z'
  completionTime: '2026-01-01T00:00:00Z'
  conditions:
  - {type: SuccessCriteriaMet, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}
  - {type: Complete, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: used, namespace: shop, finalizers: [kubernetes.io/pvc-protection]}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: free, namespace: shop, finalizers: [kubernetes.io/pvc-protection]}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: scratch, namespace: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: content, namespace: closed}
";

const NAMES: [&str; 5] = [
    "podgc",
    "ttl-after-finished",
    "pvc-protection",
    "namespace",
    "taint-eviction-controller",
];

/// A cluster in which both claims and the namespace `closed` have been deleted.
async fn cluster() -> Cluster {
    let builder = Cluster::builder().without_collector().yaml(OBJECTS);
    let cluster = builder.build().expect("valid");
    let options = DeleteParams::default();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client(), "shop");
    for name in ["used", "free"] {
        claims.delete(name, &options).await.expect("deleted");
    }
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces.delete("closed", &options).await.expect("deleted");
    cluster
}

fn manager(cluster: &Cluster) -> ControllerManager {
    ControllerManager::new(cluster.client_as("kubegc"))
        .controllers(NAMES)
        .controller(Scratch)
        .clock(Arc::new(cluster.clock()))
}

/// `Kind/name` of objects of a kind.
fn named<K>(objects: Vec<K>) -> impl Iterator<Item = String>
where
    K: Resource<DynamicType = ()>,
{
    let objects = objects.into_iter();
    objects.map(|object| format!("{}/{}", K::kind(&()), object.name_any()))
}

/// `Kind/name` of the remaining objects of the test.
fn remaining(cluster: &Cluster) -> BTreeSet<String> {
    // No garbage collector completes a foreground deletion here, and no kubelet ends pods.
    let mut jobs = cluster.find_all::<Job>();
    jobs.retain(|job| job.metadata.deletion_timestamp.is_none());
    let mut pods = cluster.find_all::<Pod>();
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut namespaces = cluster.find_all::<Namespace>();
    namespaces.retain(|namespace| ["shop", "closed"].contains(&&*namespace.name_any()));
    named(pods)
        .chain(named(jobs))
        .chain(named(cluster.find_all::<PersistentVolumeClaim>()))
        .chain(named(namespaces))
        .chain(named(cluster.find_all::<ConfigMap>()))
        .collect()
}

const EVERYTHING: [&str; 11] = [
    "PersistentVolumeClaim/free",
    "PersistentVolumeClaim/used",
    "ConfigMap/content",
    "ConfigMap/scratch",
    "ConfigMap/settings",
    "Job/report",
    "Namespace/closed",
    "Namespace/shop",
    "Pod/evicted",
    "Pod/lost",
    "Pod/running",
];

const REMAINING_AT_THE_END: [&str; 4] = [
    "PersistentVolumeClaim/used",
    "ConfigMap/settings",
    "Namespace/shop",
    "Pod/running",
];

/// Whether a rule of a manifest allows a request.
fn is_allowed(entry: &Entry, rules: &[PolicyRule]) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        list.iter().flatten().any(|known| known == "*" || known == wanted)
    };
    let resource = match &*entry.subresource {
        "" => entry.resource.to_string(),
        subresource => format!("{}/{subresource}", entry.resource),
    };
    rules.iter().any(|rule| {
        if entry.verb == Verb::NonResource {
            let path = entry.resource.split('?').next().unwrap_or_default();
            let mut urls = rule.non_resource_urls.iter().flatten();
            return urls.any(|url| match url.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => url == path,
            });
        }
        let is_named = rule.resource_names.is_none() || has(&rule.resource_names, &entry.name);
        has(&rule.api_groups, &entry.group)
            && has(&rule.resources, &resource)
            && rule.verbs.iter().any(|verb| verb == entry.verb.as_str())
            && is_named
    })
}

fn rules(yaml: &str) -> Vec<PolicyRule> {
    roles(yaml).into_iter().flat_map(|(_, rules)| rules).collect()
}

#[tokio::test(start_paused = true)]
async fn selected_controllers_run_with_a_custom_one_and_the_generated_rules() {
    let cluster = cluster().await;
    assert_eq!(remaining(&cluster), set(&EVERYTHING));
    let (logs, _guard) = Logs::capture();
    let running = Running::start(|stop| manager(&cluster).run(stop));
    sleep(Duration::from_secs(20)).await;
    // The Job expires after 30 s, and podgc waits 40 s.
    assert!(remaining(&cluster).is_superset(&set(&["Job/report", "Pod/lost"])));
    sleep(Duration::from_secs(100)).await;
    assert_eq!(remaining(&cluster), set(&REMAINING_AT_THE_END));
    let summary = running.end().await;
    assert_eq!(summary.terms, 1);
    // Only the controllers' own writes cause conflicts, and no conflict causes a warning.
    let conflicts = logs.count("INFO not written: ");
    assert_eq!(conflicts, logs.count(": conflict: "), "{:#?}", logs.lines());
    assert_eq!(logs.count("WARN a task failed"), 0, "{:#?}", logs.lines());
    assert!(summary.unknown.is_empty());
    for name in [
        "scratch-controller",
        "namespace-controller",
        "pod-garbage-collector-controller",
    ] {
        assert!(summary.tasks[name].done > 0, "{name}: {:?}", summary.tasks);
    }
    // Watches deliver whole objects: an object that is not written is never read.
    let reads = cluster.audit().by("kubegc").verb(Verb::Get);
    let is_unread = |name| reads.name(name).is_empty();
    assert!(is_unread("running") && is_unread("settings"), "{reads}");
    let events = cluster.find_all::<Event>();
    let mut events = events.iter();
    let event = events.find(|event| event.involved_object.name.as_deref() == Some("evicted"));
    let event = event.expect("the eviction is recorded");
    assert_eq!(event.reason.as_deref(), Some("TaintManagerEviction"));
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.involved_object.api_version.as_deref(), Some("v1"));
    let source = event.source.as_ref().expect("a source");
    assert_eq!(source.component.as_deref(), Some("taint-eviction-controller"));
    let mut controllers = select_controllers(KubernetesVersion::LATEST, &NAMES).expect("known");
    controllers.push(Arc::new(Scratch));
    let yaml = rbac::for_controllers(&controllers, "kube-system", "kubegc-controllers");
    let audit = cluster.audit().by("kubegc");
    let rules = rules(&yaml);
    let refused = audit.filter(|entry| !is_allowed(entry, &rules));
    assert!(!audit.is_empty() && refused.is_empty(), "{refused}");
    // Another test covers leader election.
    let is_of_leases = |rule: &PolicyRule| rule.resources.iter().flatten().any(|name| name == "leases");
    for rule in rules.iter().filter(|rule| !is_of_leases(rule)) {
        let used = audit.filter(|entry| is_allowed(entry, std::slice::from_ref(rule)));
        assert!(!used.is_empty(), "{rule:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_resource_stops_only_the_controllers_that_need_it() {
    let cluster = cluster().await;
    let rule = Rule::new(Fault::status(403)).on(Verb::List).resource("nodes");
    cluster.faults().add(rule.client("kubegc").always());
    let (logs, _guard) = Logs::capture();
    let running = Running::start(|stop| manager(&cluster).run(stop));
    sleep(Duration::from_secs(120)).await;
    let mut expected = set(&REMAINING_AT_THE_END);
    // Without nodes it is unknown whether a node is missing, and which taints it has.
    expected.extend(set(&["Pod/evicted", "Pod/lost"]));
    assert_eq!(remaining(&cluster), expected);
    let warnings = logs.count("WARN nodes cannot be listed or watched: ");
    assert_eq!(warnings, 1, "{:#?}", logs.lines());
    cluster.faults().clear();
    sleep(Duration::from_secs(120)).await;
    assert_eq!(remaining(&cluster), set(&REMAINING_AT_THE_END));
    assert!(running.end().await.unknown.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_guard_protects_objects() {
    let scratch = "{apiVersion: v1, kind: ConfigMap, metadata: {name: scratch, namespace: kube-public}}";
    let kept = "{apiVersion: v1, kind: ConfigMap, metadata: {name: scratch, labels: {keep: 'true'}}}";
    let builder = Cluster::builder().without_collector();
    let cluster = builder.yaml(scratch).yaml(kept).build().expect("valid");
    let is_protected = protected_by_label("keep");
    let manager = manager(&cluster)
        .controllers([""; 0])
        .guard(move |cache, request| match request.object() {
            Some(object) if is_protected(cache, object) => Err(Reason::new("Guarded", "it is protected")),
            _ => Ok(()),
        });
    let running = Running::start(|stop| manager.run(stop));
    sleep(Duration::from_secs(10)).await;
    assert!(cluster.find::<ConfigMap>("default", "scratch").is_some());
    assert_eq!(cluster.find_all::<ConfigMap>().len(), 1);
    assert_eq!(running.end().await.writes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_term_ends_with_leadership_and_another_begins() {
    let cluster = cluster().await;
    let (leads, leading) = watch::channel(false);
    let run = manager(&cluster).run_while_leading(leading, sleep(Duration::from_secs(100)));
    let task = tokio::spawn(run);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(remaining(&cluster), set(&EVERYTHING));
    leads.send_replace(true);
    sleep(Duration::from_secs(5)).await;
    assert!(!remaining(&cluster).contains("PersistentVolumeClaim/free"));
    leads.send_replace(false);
    sleep(Duration::from_secs(30)).await;
    let is_left = remaining(&cluster).contains("Job/report");
    assert!(is_left, "it expired while there was no leader");
    leads.send_replace(true);
    sleep(Duration::from_secs(5)).await;
    assert!(!remaining(&cluster).contains("Job/report"));
    let summary = task.await.expect("no panic").expect("a summary");
    assert_eq!(summary.terms, 2);
}

/// In real time, because kube-lease-manager uses the clock of the machine.
#[cfg(feature = "leader-election")]
#[tokio::test]
async fn one_of_two_replicas_leads_and_the_other_takes_over() {
    let cluster = cluster().await;
    let replica = |name: &str| {
        let mut election = kubegc_kube::LeaderElection::for_controllers(name);
        election.duration_seconds = 2;
        election.grace_seconds = 1;
        let manager = ControllerManager::new(cluster.client_as(name)).controllers([""; 0]);
        let manager = manager.controller(Scratch).leader_election(election);
        Running::start(|stop| manager.run(stop))
    };
    let works = |name: &str| !cluster.audit().by(name).resource("configmaps").is_empty();
    let wait_for = async |name: &str| {
        for _ in 0..500 {
            if works(name) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{name} does not work: {}", cluster.audit());
    };
    let first = replica("first");
    wait_for("first").await;
    let second = replica("second");
    sleep(Duration::from_millis(500)).await;
    assert!(!works("second"), "{}", cluster.audit().by("second"));
    assert!(!remaining(&cluster).contains("ConfigMap/scratch"));
    assert_eq!(first.end().await.terms, 1);
    wait_for("second").await;
    assert_eq!(second.end().await.terms, 1);
    let rules = rules(&rbac::for_controllers(&[], "kube-system", "kubegc-controllers"));
    let leases = cluster.audit().resource("leases");
    let refused = leases.filter(|entry| !is_allowed(entry, &rules));
    assert!(!leases.is_empty() && refused.is_empty(), "{refused}");
}
