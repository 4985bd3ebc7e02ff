//! Kubelets, owners of finalizers, and the API server's own controllers.

use super::*;

/// An object with these fields instead of its own.
fn with(mut object: Value, fields: Value) -> Value {
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    object
}

fn pod(fields: Value) -> Value {
    with(
        json!({"metadata": {"name": "web"}, "spec": {"nodeName": "n1"}}),
        fields,
    )
}

fn ready(status: &str) -> Value {
    json!({"conditions": [{"type": "MemoryPressure", "status": "Unknown"}, {"type": "Ready", "status": status}]})
}

/// The kubelet of a node that reports and is in service ends the deleted pods there.
#[test]
fn kubelets_end_deleted_pods_of_their_nodes() {
    let tainted = json!({"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]});
    let other = json!({"taints": [{"key": "team", "effect": "NoSchedule"}]});
    for (fields, nodes_matter, ends) in [
        (json!({"status": ready("True")}), true, true),
        (json!({"status": ready("False")}), true, true),
        (json!({"status": ready("Unknown")}), true, false),
        (json!({"status": ready("Unknown")}), false, true),
        (json!({"status": ready("False"), "spec": tainted}), true, false),
        (json!({"status": ready("False"), "spec": other}), true, true),
        (json!({"status": ready("True"), "spec": tainted}), true, true),
        (json!({"status": {}}), true, true),
        (json!({"status": {"conditions": 7}}), true, true),
    ] {
        // No other controller deletes pods.
        let mut fixture = Fixture::new(Settings {
            nodes_matter,
            controllers: Vec::new(),
            ..settings()
        });
        fixture.add("Node", with(json!({"metadata": {"name": "n1"}}), fields.clone()));
        fixture.add("Pod", pod(json!({})));
        fixture.delete("Pod", "web");
        fixture.advance(Duration::from_secs(60));
        assert_eq!(!fixture.exists("Pod", "web"), ends, "{fields} {nodes_matter}");
        let expected = usize::from(ends);
        assert_eq!(fixture.plane.steps().len(), expected);
    }
}

/// A node that is missing does not exist, unless the list of nodes is incomplete.
#[test]
fn no_kubelet_ends_pods_of_missing_nodes() {
    let deleted = json!({"name": "web", "deletionGracePeriodSeconds": 30, "finalizers": ["shop/hold"]});
    for (spec, incomplete, ends) in [
        (json!({"nodeName": "n1"}), false, false),
        (json!({"nodeName": "n1"}), true, true),
        (json!({}), true, false),
        (json!({"nodeName": 7}), false, true),
        (json!(7), false, true),
    ] {
        let resources = if incomplete { vec![Resource::Nodes] } else { vec![] };
        let settings = Settings {
            nodes_matter: true,
            controllers: Vec::new(),
            incomplete: resources.into_iter().collect(),
            ..settings()
        };
        let mut fixture = Fixture::new(settings.clone());
        let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": deleted, "spec": spec});
        for (key, value) in [
            ("namespace", "shop"),
            ("uid", "u1"),
            ("deletionTimestamp", "1970-01-01T00:17:00Z"),
        ] {
            object["metadata"][key] = value.into();
        }
        let pods = fixture.kind("Pod");
        let object = kubegc_sim::Manifest::read(object).unwrap().object;
        fixture.server.insert(pods, object).unwrap();
        // Objects that exist from the beginning count as well.
        fixture.plane = ControlPlane::new(&fixture.server, settings);
        assert_eq!(fixture.settle().certain_at, Some(Timestamp::from_secs(1_020)));
        fixture.advance(Duration::from_secs(60));
        let pod = fixture.server.object(pods, "shop", "web").unwrap();
        let grace = pod.meta.deletion_grace_period_seconds;
        assert_eq!(grace == Some(0), ends, "{spec} {incomplete}");
        // Only a finalizer keeps the pod now, so the kubelet does nothing more.
        let expected = if ends {
            vec![(Actor::Kubelet, Act::Delete { propagation: None })]
        } else {
            vec![]
        };
        let steps = fixture.plane.steps().iter().map(|step| (step.actor, step.act));
        assert_eq!(steps.collect::<Vec<_>>(), expected, "{spec} {incomplete}");
    }
}

/// The kubelet reports the end of a pod that a finalizer keeps from 1.27 on.
#[test]
fn kubelets_report_that_held_pods_have_failed_from_1_27_on() {
    for (release, reports) in [("1.26.0", false), ("1.27.0", true)] {
        let version: KubernetesVersion = release.parse().unwrap();
        let settings = Settings {
            controllers: Vec::new(),
            ..Settings::new(version)
        };
        let mut fixture = Fixture::at(version, settings);
        let metadata = json!({"name": "web", "finalizers": ["shop/hold"]});
        fixture.add("Pod", pod(json!({"metadata": metadata})));
        fixture.delete("Pod", "web");
        fixture.advance(Duration::from_secs(60));
        let steps = fixture.plane.steps().iter();
        let steps: Vec<_> = steps.map(|step| (step.actor, step.act)).collect();
        let mut expected = vec![(Actor::Kubelet, Act::Delete { propagation: None })];
        if reports {
            expected.insert(0, (Actor::Kubelet, Act::Update));
        }
        assert_eq!(steps, expected, "{release}");
        let held = fixture.find("Pod", "web").unwrap();
        let phase = if reports { "Failed" } else { "Pending" };
        assert_eq!(held.text_at(&["status", "phase"]), phase, "{release}");
    }
}

#[test]
fn pods_do_not_end_if_that_is_assumed() {
    for (pods_end, ends) in [(true, true), (false, false)] {
        let mut fixture = Fixture::new(Settings {
            assumptions: Arc::new(Assumptions {
                pods_end,
                ..Assumptions::default()
            }),
            controllers: Vec::new(),
            ..settings()
        });
        fixture.add("Pod", pod(json!({})));
        fixture.delete("Pod", "web");
        fixture.advance(Duration::from_secs(600));
        assert_eq!(!fixture.exists("Pod", "web"), ends);
    }
}

/// Their owners remove finalizers of cloud and CSI controllers, and those that the assumptions name.
#[test]
fn finalizers_are_removed_by_their_owners() {
    let cloud = "service.kubernetes.io/load-balancer-cleanup";
    for (external, released, expected) in [
        (true, vec![], json!(["shop/hold", "other/hold"])),
        (false, vec![], json!([cloud, "shop/hold", "other/hold"])),
        (false, vec!["shop/hold".into()], json!([cloud, "other/hold"])),
        (true, vec!["shop/hold".into(), "other/hold".into()], Value::Null),
    ] {
        let mut fixture = Fixture::new(Settings {
            assumptions: Arc::new(Assumptions {
                acting: released
                    .iter()
                    .map(|name: &Arc<str>| (name.clone(), true))
                    .chain([("cloud-controller-manager".into(), external)])
                    .collect(),
                ..Assumptions::default()
            }),
            ..settings()
        });
        let finalizers = json!([cloud, "shop/hold", "other/hold"]);
        fixture.add(
            "Service",
            json!({"metadata": {"name": "web", "finalizers": finalizers}}),
        );
        fixture.advance(Duration::from_secs(10));
        assert!(
            fixture.plane.steps().is_empty(),
            "only terminating objects lose their finalizers"
        );
        fixture.delete("Service", "web");
        fixture.advance(Duration::from_secs(10));
        let object = fixture.find("Service", "web");
        let left = object.map_or(Value::Null, |object| {
            let names: Vec<&str> = object.meta.finalizers.iter().map(|name| &**name).collect();
            names.into()
        });
        assert_eq!(left, expected, "{external} {released:?}");
        let steps = fixture.plane.steps();
        let first = if external {
            Some(cloud)
        } else {
            released.first().map(|name: &Arc<str>| &**name)
        };
        let why = first.map(|name| Why::FinalizerReleased(name.into()));
        assert_eq!(steps.first().map(|step| step.why.clone()), why);
        assert!(
            steps
                .iter()
                .all(|step| (step.actor, step.act) == (Actor::FinalizerOwner, Act::Update))
        );
        assert!(steps.len() <= 1);
    }
}

/// Kinds that are no longer served are no longer watched; all others are.
#[test]
fn other_kinds_are_watched_after_a_definition_was_deleted() {
    let mut fixture = Fixture::new(settings());
    fixture.define_an_owner();
    let owner = fixture.add("Secret", json!({"metadata": {"name": "owner"}}));
    let references = owned_by("v1", "Secret", "owner", &owner);
    let dependent = json!({"metadata": {"name": "dependent", "ownerReferences": references}});
    fixture.add("ConfigMap", dependent);
    fixture.settle();
    let watched = fixture.plane.collector().monitors().count();
    let definition = "CustomResourceDefinition";
    fixture.delete(definition, "shops.example.com");
    fixture.advance(Duration::from_secs(60));
    assert_eq!(fixture.plane.collector().monitors().count(), watched - 1);
    fixture.delete("Secret", "owner");
    fixture.settle();
    assert!(!fixture.exists("ConfigMap", "dependent"));
}

/// A namespace in which an object was removed has fewer remaining objects at its next sync. Otherwise the
/// next sync is only a retry.
#[test]
fn the_next_sync_of_a_namespace_is_certain_while_it_shrinks() {
    let mut fixture = Fixture::new(settings());
    let ready = json!({"metadata": {"name": "n1"}, "status": ready("True")});
    fixture.add("Node", ready);
    fixture.add("Pod", pod(json!({})));
    let hold = json!({"metadata": {"name": "held", "finalizers": ["shop/hold"]}});
    fixture.add("ConfigMap", hold);
    fixture.delete("Namespace", "shop");
    let end = |fixture: &Fixture| fixture.find("Pod", "web")?.meta.deletion_timestamp;
    fixture.advance(Duration::from_secs(10));
    let deleted = end(&fixture);
    assert!(deleted.is_some());
    assert_eq!(fixture.settle().certain_at, deleted, "the end of the pod");
    while fixture.exists("Pod", "web") {
        let next = fixture.settle().next_at().expect("the pod ends");
        fixture.server.set_now(next);
        fixture.settle();
    }
    let idle = fixture.settle();
    assert!(idle.certain_at.is_some());
    assert_eq!(idle.certain_at, idle.scheduled_at, "the next sync");
    fixture.advance(Duration::from_secs(3600));
    let idle = fixture.settle();
    assert!(fixture.exists("ConfigMap", "held"));
    assert_eq!(idle.certain_at, None, "nothing was removed since the last sync");
    assert!(idle.scheduled_at.is_some(), "it is retried");
}

/// An API whose Service no longer exists cannot be discovered, and no namespace is removed.
#[test]
fn a_namespace_remains_while_an_aggregated_api_is_unavailable() {
    for (deleted, is_removed) in [(None, true), (Some("metrics"), false), (Some("other"), true)] {
        let mut settings = settings();
        let api = AggregatedApi {
            api_version: "metrics.k8s.io/v1beta1".to_owned(),
            service: Some(("kube-system".into(), "metrics".into())),
            failure: None,
            since: None,
        };
        settings
            .aggregated_apis
            .insert("v1beta1.metrics.k8s.io".into(), api);
        let mut fixture = Fixture::new(settings.clone());
        fixture.add("Namespace", json!({"metadata": {"name": "kube-system"}}));
        for name in ["metrics", "other"] {
            let metadata = json!({"namespace": "kube-system", "name": name});
            fixture.add("Service", json!({"metadata": metadata}));
        }
        let [services, namespaces] = ["Service", "Namespace"].map(|kind| fixture.kind(kind));
        let service = deleted.map(|name| {
            let object = fixture.server.object(services, "kube-system", name).unwrap();
            object_ref(&fixture.server, services, &object.meta.clone().into())
        });
        let shop = fixture.identity("Namespace", "shop");
        let mut simulation = Simulation::new(fixture.server, settings);
        let options = kubegc_core::DeleteOptions::default();
        let Simulation { server, plane, .. } = &mut simulation;
        if let Some(service) = service {
            plane.delete(server, services, service, &options, 0);
        }
        plane.delete(server, namespaces, shop, &options, 1);
        simulation.run_until_quiet();
        assert_eq!(
            simulation.server.object(namespaces, "", "shop").is_none(),
            is_removed,
            "{deleted:?}"
        );
    }
}
