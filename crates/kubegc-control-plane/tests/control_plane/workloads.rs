//! The laws of the player of workloads, for each kind of owner.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubegc_control_plane::{
    Actor, ControlPlane, Settings,
    workloads::{PodFate, Workloads, ready_node},
};
use kubegc_core::{Catalog, KubernetesVersion, Timestamp, deletion::DeleteOptionsSpec};
use kubegc_sim::ApiServer;
use serde_json::{Value, json};

use crate::Fixture;

const OWNERS: [&str; 5] = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"];
const RELEASES: [&str; 3] = ["1.20.2", "1.27.3", "1.36.0"];

impl Fixture {
    /// A cluster with three nodes.
    fn of(release: &str, rules: Workloads, types: bool) -> Self {
        let version: KubernetesVersion = release.parse().unwrap();
        let settings = kubegc_sim::Settings {
            types,
            ..kubegc_sim::Settings::default()
        };
        let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
        server.set_now(Timestamp::from_secs(1_000));
        let settings = Settings {
            workloads: Some(Arc::new(rules)),
            ..Settings::new(version)
        };
        let plane = ControlPlane::new(&server, settings);
        let mut world = Self { server, plane };
        world.add("Namespace", json!({"metadata": {"name": "shop"}}));
        for name in ["n0", "n1", "n2"] {
            let node = ready_node(name, world.server.now());
            world.add("Node", node);
        }
        world
    }

    /// A cluster of the latest release, with an owner that has had 30 s to get its pods.
    fn with(kind: &str, owner: Value) -> Self {
        let mut world = Self::of("1.36.0", long_jobs(), true);
        world.add(kind, owner);
        world.run(30);
        world
    }

    fn patch(&mut self, kind: &str, name: &str, patch: Value) {
        let (id, namespace) = self.id(kind);
        let (patch, format) = (patch.to_string(), "application/merge-patch+json");
        let response = self.server.patch(id, namespace, name, format, patch.as_bytes());
        assert!(response.is_success(), "{kind}: {:?}", response.status());
    }

    fn remove(&mut self, kind: &str, name: &str, policy: &str) {
        let (id, namespace) = self.id(kind);
        let options = DeleteOptionsSpec {
            propagation_policy: Some(policy.to_owned()),
            ..DeleteOptionsSpec::default()
        };
        let response = self.server.delete(id, namespace, name, &options);
        assert!(response.is_success(), "{kind}: {:?}", response.status());
    }

    fn run(&mut self, seconds: u64) {
        self.advance(Duration::from_secs(seconds));
    }

    fn all(&self, kind: &str) -> Vec<Value> {
        let id = self.kind(kind);
        let objects = self.server.objects(id, None).into_iter();
        let resource = &self.server.catalog()[id];
        objects.map(|object| object.to_json(resource)).collect()
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        let mut all = self.all(kind).into_iter();
        all.find(|object| object["metadata"]["name"] == name)
            .unwrap_or_default()
    }

    /// The uids of the pods that are not being deleted.
    fn pods(&self) -> BTreeSet<String> {
        let mut pods = self.all("Pod");
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.iter()
            .map(|pod| pod["metadata"]["uid"].to_string())
            .collect()
    }

    fn ready(&self) -> usize {
        let pods = self.all("Pod").into_iter();
        pods.filter(|pod| condition(pod, "Ready") == "True").count()
    }
}

fn condition<'o>(object: &'o Value, kind: &str) -> &'o str {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == kind);
    found
        .and_then(|found| found["status"].as_str())
        .unwrap_or_default()
}

/// Pods of Jobs run for an hour; others are ready at once.
fn long_jobs() -> Workloads {
    let after = Duration::from_secs(3_600);
    let fate = PodFate::Succeeds { after };
    Workloads::new().pods(move |pod| pod.is_of("Job", "web").then_some(fate))
}

/// An owner named `web` that wants three pods.
fn owner(kind: &str) -> Value {
    let policy = if kind == "Job" { "Never" } else { "Always" };
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "web:1"}]},
    });
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    match kind {
        "Job" => spec = json!({"template": template, "parallelism": 3, "completions": 3}),
        "DaemonSet" => {}
        _ => spec["replicas"] = 3.into(),
    }
    if kind == "StatefulSet" {
        spec["serviceName"] = "web".into();
        spec["volumeClaimTemplates"] = json!([{
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }]);
    }
    json!({"metadata": {"name": "web"}, "spec": spec})
}

#[test]
fn an_owner_gets_ready_pods_then_nothing_is_written_and_deleted_pods_come_back() {
    for (release, kind) in RELEASES
        .iter()
        .flat_map(|release| OWNERS.map(|kind| (*release, kind)))
    {
        let mut world = Fixture::of(release, long_jobs(), true);
        world.add(kind, owner(kind));
        world.run(30);
        assert_eq!((world.pods().len(), world.ready()), (3, 3), "{release} {kind}");
        for pod in world.all("Pod") {
            let owner = &pod["metadata"]["ownerReferences"][0];
            assert_eq!([&owner["controller"], &owner["blockOwnerDeletion"]], [true, true]);
        }
        let written = |world: &Fixture| (world.server.revision(), world.plane.steps().len());
        let before = written(&world);
        world.run(600);
        assert_eq!(written(&world), before, "{release} {kind}");
        let before = world.pods();
        let pod = world.all("Pod").remove(1);
        let name = pod["metadata"]["name"].as_str().unwrap();
        world.remove("Pod", name, "Background");
        world.run(90);
        let kept = world.pods().intersection(&before).count();
        assert_eq!((world.pods().len(), kept), (3, 2), "{release} {kind}: other uids");
        assert_eq!(world.get("Pod", name).is_null(), kind != "StatefulSet");
    }
}

#[test]
fn scaling_to_a_number_gives_exactly_that_number() {
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        let mut world = Fixture::with(kind, owner(kind));
        for replicas in [3, 1, 0, 5, 2] {
            world.patch(kind, "web", json!({"spec": {"replicas": replicas}}));
            world.run(120);
            let status = world.get(kind, "web")["status"].clone();
            let ready = status["readyReplicas"].as_u64().unwrap_or(0);
            let counts = (world.pods().len(), world.all("Pod").len(), ready);
            assert_eq!(counts, (replicas, replicas, replicas as u64), "{kind}");
        }
    }
    // A DaemonSet has as many pods as nodes fit.
    let mut world = Fixture::with("DaemonSet", owner("DaemonSet"));
    let name = json!({"kubernetes.io/hostname": "n1"});
    let template = json!({"spec": {"nodeSelector": name}});
    world.patch("DaemonSet", "web", json!({"spec": {"template": template}}));
    world.run(60);
    assert_eq!(world.all("Pod").len(), 1);
}

#[test]
fn deleting_the_owner_ends_its_pods_unless_they_are_orphaned_and_adopted_again() {
    for kind in OWNERS {
        for policy in ["Background", "Foreground", "Orphan"] {
            let mut world = Fixture::with(kind, owner(kind));
            let before = world.pods();
            world.remove(kind, "web", policy);
            world.run(120);
            if policy != "Orphan" {
                assert!(world.all("Pod").is_empty(), "{kind} {policy}");
                let claims = world.all("PersistentVolumeClaim").len();
                assert_eq!(claims, if kind == "StatefulSet" { 3 } else { 0 });
            } else if kind != "Job" {
                assert_eq!(world.pods(), before, "{kind}");
                world.add(kind, owner(kind));
                world.run(120);
                assert_eq!(world.pods(), before, "{kind}");
            }
        }
    }
}

/// Kind and strategy, the pods that are left at once, and those of the new template in the end.
#[test]
fn a_changed_template_replaces_all_pods() {
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    for (kind, strategy, left, updated) in [
        ("Deployment", json!({}), 0, 3),
        ("StatefulSet", json!({}), 2, 3),
        ("StatefulSet", on_delete, 3, 0),
        ("DaemonSet", json!({}), 0, 3),
    ] {
        let mut object = owner(kind);
        let fields = strategy.as_object().unwrap().clone();
        object["spec"].as_object_mut().unwrap().extend(fields);
        let mut world = Fixture::with(kind, object);
        let before = world.pods();
        let containers = json!([{"name": "c", "image": "web:2"}]);
        let template = json!({"spec": {"containers": containers}});
        world.patch(kind, "web", json!({"spec": {"template": template}}));
        world.run(0);
        let kept = world.pods().intersection(&before).count();
        assert_eq!(kept, left, "{kind} {strategy}");
        world.run(600);
        let pods = world.all("Pod");
        let is_new = |pod: &&Value| pod["spec"]["containers"][0]["image"] == "web:2";
        let counts = (pods.iter().filter(is_new).count(), pods.len());
        assert_eq!(counts, (updated, 3), "{kind} {strategy}");
        let sets = world.all("ReplicaSet");
        let replicas: BTreeSet<Option<u64>> =
            sets.iter().map(|set| set["spec"]["replicas"].as_u64()).collect();
        assert!(sets.is_empty() || replicas == [Some(0), Some(3)].into());
    }
}

/// Owner, dependent, its name and its labels, without those that have the uid of the owner.
const LABELED: &str = r#"
DaemonSet Pod web- {"app":"web","controller-revision-hash":"HASH"}
Deployment Pod web-HASH- {"app":"web","pod-template-hash":"HASH"}
Deployment ReplicaSet web-HASH {"app":"web","pod-template-hash":"HASH"}
Job Pod web- {"app":"web","batch.kubernetes.io/job-name":"web","job-name":"web"}
ReplicaSet Pod web- {"app":"web"}
StatefulSet PersistentVolumeClaim data-web-0 {"app":"web"}
StatefulSet Pod web-0 {"app":"web","apps.kubernetes.io/pod-index":"0","controller-revision-hash":"web-HASH","statefulset.kubernetes.io/pod-name":"web-0"}
"#;

#[test]
fn names_and_labels_are_those_of_upstream() {
    let mut lines = BTreeSet::new();
    for kind in OWNERS {
        let world = Fixture::with(kind, owner(kind));
        for dependent in ["ReplicaSet", "Pod", "PersistentVolumeClaim"] {
            let mut all = world.all(dependent);
            all.retain(|_| kind != dependent);
            for object in all.iter_mut().take(1) {
                let metadata = &mut object["metadata"];
                let labels = metadata["labels"].as_object_mut().unwrap();
                labels.retain(|key, _| !key.contains("uid"));
                let hash = labels.iter().find(|(key, _)| key.ends_with("-hash"));
                let hash = hash.map_or(Value::Null, |(_, hash)| hash.clone());
                let hash = hash.as_str().unwrap_or("none").trim_start_matches("web-");
                let generated = metadata["generateName"].as_str();
                let name = generated.or_else(|| metadata["name"].as_str()).unwrap();
                let line = format!("{kind} {dependent} {name} {}", metadata["labels"]);
                lines.insert(line.replace(hash, "HASH"));
            }
        }
    }
    let lines: Vec<String> = lines.into_iter().collect();
    assert_eq!(lines.join("\n"), LABELED.trim());
}

#[test]
fn jobs_end_as_their_pods_do() {
    let after = Duration::from_secs(1);
    let (succeeds, fails) = (PodFate::Succeeds { after }, PodFate::Fails { after });
    for release in RELEASES {
        for (fate, parallelism, completions, [succeeded, failed], end) in [
            (succeeds, 2, 5, [5, 0], "Complete"),
            (succeeds, 3, 3, [3, 0], "Complete"),
            (fails, 1, 3, [0, 3], "Failed"),
        ] {
            let mut world = Fixture::of(release, Workloads::new().pods(move |_| Some(fate)), true);
            let mut job = owner("Job");
            job["spec"]["parallelism"] = parallelism.into();
            job["spec"]["completions"] = completions.into();
            job["spec"]["backoffLimit"] = 2.into();
            world.add("Job", job);
            world.run(600);
            let job = world.get("Job", "web");
            let status = &job["status"];
            assert_eq!(condition(&job, end), "True", "{release}: {status}");
            let counts = ["succeeded", "failed"].map(|field| status[field].as_u64().unwrap_or(0));
            assert_eq!(counts, [succeeded, failed], "{release}");
            assert_eq!(status["completionTime"].is_null(), end == "Failed", "{release}");
            let pods = world.all("Pod");
            let is_free = |pod: &Value| pod["metadata"]["finalizers"].is_null();
            assert!(pods.iter().all(is_free), "{release}");
        }
    }
    let mut job = owner("Job");
    job["spec"]["suspend"] = true.into();
    let mut world = Fixture::with("Job", job);
    assert!(world.all("Pod").is_empty());
    world.patch("Job", "web", json!({"spec": {"suspend": false}}));
    world.run(3_600);
    assert_eq!(world.get("Job", "web")["status"]["succeeded"], 3);
}

/// The seconds at which the pods of a Job are created that fail after one second.
#[test]
fn failed_pods_of_jobs_are_replaced_after_a_backoff() {
    for release in RELEASES {
        let after = Duration::from_secs(1);
        let rules = Workloads::new().pods(move |_| Some(PodFate::Fails { after }));
        let mut world = Fixture::of(release, rules, true);
        let mut job = owner("Job");
        for (field, number) in [("parallelism", 1), ("completions", 1), ("backoffLimit", 7)] {
            job["spec"][field] = number.into();
        }
        world.add("Job", job);
        world.run(3_600);
        let pods = world.all("Pod");
        let mut times: Vec<i64> = pods
            .iter()
            .map(|pod| {
                let time = pod["metadata"]["creationTimestamp"].as_str().unwrap();
                Timestamp::parse(time).unwrap().as_secs() - 1_000
            })
            .collect();
        times.sort_unstable();
        assert_eq!(times, [0, 11, 32, 73, 154, 315, 636, 1_237], "{release}");
    }
    // A deleted pod is replaced at once.
    let mut world = Fixture::with("Job", owner("Job"));
    let name = world.all("Pod")[0]["metadata"]["name"].clone();
    world.remove("Pod", name.as_str().unwrap(), "Background");
    world.run(0);
    assert_eq!(world.pods().len(), 3);
}

#[test]
fn failed_pods_of_sets_are_replaced_and_unschedulable_ones_wait() {
    let rules = Workloads::new().pods(|_| Some(PodFate::Unschedulable));
    let mut world = Fixture::of("1.36.0", rules, true);
    world.add("StatefulSet", owner("StatefulSet"));
    world.run(60);
    // The next one is created when the one before is ready.
    assert_eq!(world.all("Pod").len(), 1);
    assert!(world.get("Pod", "web-0")["spec"]["nodeName"].is_null());
    world.plane.set_workloads(Workloads::new());
    world.run(0);
    let before = world.pods();
    let id = world.kind("Pod");
    let mut failed = world.find("Pod", "web-1").unwrap().clone();
    failed.body_mut()["status"]["phase"] = "Failed".into();
    let response = world.server.update_part(id, "shop", "web-1", "status", failed);
    assert!(response.is_success());
    world.run(90);
    let kept = world.pods().intersection(&before).count();
    assert_eq!((kept, world.ready()), (2, 3));
}

#[test]
fn a_refused_write_is_recorded_and_tried_again() {
    let mut world = Fixture::of("1.36.0", Workloads::new(), true);
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    world.add("Pod", json!({"metadata": {"name": "web-0"}, "spec": spec}));
    world.add("StatefulSet", owner("StatefulSet"));
    world.run(60);
    let actor = Actor::Controller("statefulset-controller");
    let mut steps = world.plane.steps().iter();
    assert!(steps.any(|step| (step.code, step.actor) == (409, actor)));
    world.remove("Pod", "web-0", "Background");
    world.run(60);
    assert_eq!((world.pods().len(), world.ready()), (3, 3));
}

/// Without types the server takes anything.
#[test]
fn malformed_owners_settle() {
    let metadata = json!({"labels": {"app": "x"}, "annotations": 3});
    let spec = json!({"containers": [1, {"name": 2}], "tolerations": [1], "volumes": 5});
    let template = json!({"metadata": metadata, "spec": spec});
    let matching = json!({
        "replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template,
        "volumeClaimTemplates": [1, {"metadata": "x"}], "ordinals": {"start": i64::MAX},
        "completions": i64::MAX,
    });
    let other = json!({"selector": {"matchLabels": {"app": "y"}}, "template": template});
    for kind in OWNERS.into_iter().chain(["Pod", "Node"]) {
        let mut world = Fixture::of("1.36.0", Workloads::new(), false);
        let odd = json!({"selector": "x", "template": "x", "replicas": "x", "strategy": 1});
        for (at, spec) in [json!("x"), odd, matching.clone(), other.clone()]
            .into_iter()
            .enumerate()
        {
            world.add(
                kind,
                json!({"metadata": {"name": format!("o{at}")}, "spec": spec}),
            );
        }
        world.run(5);
    }
}
