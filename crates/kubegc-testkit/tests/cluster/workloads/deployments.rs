//! Deployments and ReplicaSets.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available() {
    for (version, types) in RELEASES
        .map(|version| (version, true))
        .into_iter()
        .chain([("1.36.0", false)])
    {
        let cluster = builder(version, Workloads::new(), DEPLOYMENT)
            .types(types)
            .build()
            .unwrap();
        assert_eq!(settle(&cluster, 0).await, Rest::Quiet, "{version}");
        let web = get(&cluster, "Deployment", "web");
        let status = &web["status"];
        for field in [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
        ] {
            assert_eq!(status[field], 3, "{version} {types}: {status}");
        }
        assert_eq!(status["observedGeneration"], web["metadata"]["generation"]);
        let expected = [
            ("Available", "True", "MinimumReplicasAvailable"),
            ("Progressing", "True", "NewReplicaSetAvailable"),
        ];
        assert_eq!(conditions(&web), expected);
        assert_eq!(
            web["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
            "1"
        );

        let sets = all(&cluster, "ReplicaSet");
        let [set] = &sets[..] else { panic!("{sets:?}") };
        let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
        assert!(
            hash.chars()
                .all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter)),
            "{hash}"
        );
        assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
        assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
        let annotations = json!({
            "team": "shop",
            "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
            "deployment.kubernetes.io/revision": "1",
        });
        assert_eq!(set["metadata"]["annotations"], annotations);
        for pod in all(&cluster, "Pod") {
            let owner = &pod["metadata"]["ownerReferences"][0];
            assert_eq!([&owner["controller"], &owner["blockOwnerDeletion"]], [true, true]);
            assert_eq!(owner["uid"], set["metadata"]["uid"]);
            assert!(
                pod["metadata"]["name"]
                    .as_str()
                    .unwrap()
                    .starts_with(&format!("web-{hash}-"))
            );
            assert_eq!(pod["spec"]["nodeName"], "node");
            assert_eq!(pod["status"]["phase"], "Running");
            assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_respects_its_limits_and_can_be_undone() {
    for version in RELEASES {
        let cluster = cluster(
            version,
            Workloads::new().pods(|_| Some(ready_after(5))),
            DEPLOYMENT,
        );
        settle(&cluster, 60).await;
        let first = names(&all(&cluster, "ReplicaSet")).concat();
        patch(&cluster, "Deployment", "web", image("Deployment", "web:2"));
        let mut seen = Vec::new();
        for _ in 0..60 {
            settle(&cluster, 1).await;
            let pods = live(&cluster);
            assert!(
                pods.len() <= 4 && ready(&pods) >= 3,
                "{version}: {} {}",
                pods.len(),
                ready(&pods)
            );
            let web = get(&cluster, "Deployment", "web");
            seen.push(web["status"]["updatedReplicas"].as_u64().unwrap_or(0));
            if condition(&web, "Progressing").1 == "ReplicaSetUpdated" {
                assert_eq!(condition(&web, "Available").0, "True");
            }
        }
        seen.dedup();
        assert_eq!(seen, [1, 2, 3], "{version}");
        settle(&cluster, 60).await;
        let sets = all(&cluster, "ReplicaSet");
        assert_eq!(sets.len(), 2);
        for set in &sets {
            let is_first = set["metadata"]["name"] == *first;
            assert_eq!(set["spec"]["replicas"], if is_first { 0 } else { 3 });
        }
        let web = get(&cluster, "Deployment", "web");
        assert_eq!(
            web["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
            "2"
        );
        assert_eq!(condition(&web, "Progressing").1, "NewReplicaSetAvailable");
        assert!(
            live(&cluster)
                .iter()
                .all(|pod| pod["spec"]["containers"][0]["image"] == "web:2")
        );

        patch(&cluster, "Deployment", "web", image("Deployment", "web:1"));
        settle(&cluster, 120).await;
        let again = get(&cluster, "ReplicaSet", &first);
        assert_eq!(again["spec"]["replicas"], 3);
        let annotations = &again["metadata"]["annotations"];
        assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
        assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    }
}

#[tokio::test(start_paused = true)]
async fn recreate_removes_all_old_pods_first() {
    let recreate = DEPLOYMENT.replace("  replicas", "  strategy: {type: Recreate}\n  replicas");
    let cluster = latest(Workloads::new(), &recreate);
    settle(&cluster, 0).await;
    patch(&cluster, "Deployment", "web", image("Deployment", "web:2"));
    settle(&cluster, 0).await;
    // They have 30 s to end, and their successors wait for that.
    assert!(live(&cluster).is_empty());
    assert_eq!(
        (all(&cluster, "Pod").len(), all(&cluster, "ReplicaSet").len()),
        (3, 1)
    );
    settle(&cluster, 60).await;
    let pods = all(&cluster, "Pod");
    assert_eq!(pods.len(), 3);
    assert!(
        pods.iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "web:2")
    );
}

#[tokio::test(start_paused = true)]
async fn deployments_are_scaled_paused_and_deleted() {
    for version in RELEASES {
        let cluster = cluster(version, Workloads::new(), DEPLOYMENT);
        settle(&cluster, 0).await;
        for replicas in [5, 1, 0, 2] {
            patch(
                &cluster,
                "Deployment",
                "web",
                json!({"spec": {"replicas": replicas}}),
            );
            settle(&cluster, 60).await;
            assert_eq!(all(&cluster, "Pod").len(), replicas);
            let web = get(&cluster, "Deployment", "web");
            assert_eq!(
                web["status"]["readyReplicas"].as_u64().unwrap_or(0),
                replicas as u64
            );
        }
        patch(
            &cluster,
            "Deployment",
            "web",
            json!({"spec": {"paused": true, "replicas": 3}}),
        );
        patch(&cluster, "Deployment", "web", image("Deployment", "web:2"));
        settle(&cluster, 60).await;
        assert_eq!(
            (all(&cluster, "Pod").len(), all(&cluster, "ReplicaSet").len()),
            (3, 1),
            "{version}"
        );
        let paused = get(&cluster, "Deployment", "web");
        assert_eq!(condition(&paused, "Progressing"), ("Unknown", "DeploymentPaused"));
        patch(&cluster, "Deployment", "web", json!({"spec": {"paused": false}}));
        settle(&cluster, 120).await;
        assert_eq!(all(&cluster, "ReplicaSet").len(), 2);
        for policy in ["Background", "Foreground"] {
            let web = copy(&cluster, "Deployment", "web");
            delete(&cluster, "Deployment", "web", policy);
            settle(&cluster, 120).await;
            for kind in ["Deployment", "ReplicaSet", "Pod"] {
                assert!(all(&cluster, kind).is_empty(), "{version} {policy} {kind}");
            }
            create(&cluster, "Deployment", web);
            settle(&cluster, 0).await;
            assert_eq!(ready(&all(&cluster, "Pod")), 3);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_by_those_that_are_created_again() {
    for version in RELEASES {
        let cluster = cluster(version, Workloads::new(), DEPLOYMENT);
        settle(&cluster, 0).await;
        let (sets, pods) = (all(&cluster, "ReplicaSet"), all(&cluster, "Pod"));
        let web = copy(&cluster, "Deployment", "web");
        delete(&cluster, "Deployment", "web", "Orphan");
        settle(&cluster, 60).await;
        assert!(all(&cluster, "ReplicaSet")[0]["metadata"]["ownerReferences"].is_null());
        create(&cluster, "Deployment", web);
        settle(&cluster, 60).await;
        assert_eq!(uids(&all(&cluster, "ReplicaSet")), uids(&sets), "{version}");
        let uid = &get(&cluster, "Deployment", "web")["metadata"]["uid"];
        assert_eq!(
            &all(&cluster, "ReplicaSet")[0]["metadata"]["ownerReferences"][0]["uid"],
            uid
        );

        // The Deployment creates its ReplicaSet again: of the same name, which adopts the pods.
        delete(&cluster, "ReplicaSet", names(&sets)[0], "Orphan");
        settle(&cluster, 60).await;
        assert_eq!(names(&all(&cluster, "ReplicaSet")), names(&sets), "{version}");
        assert_eq!(uids(&all(&cluster, "Pod")), uids(&pods), "{version}");
    }
}

/// Without types the server takes anything.
#[tokio::test(start_paused = true)]
async fn malformed_workloads_end_no_test() {
    let specs = [
        json!("x"),
        json!({}),
        json!({"selector": "x", "template": "x", "replicas": "x", "strategy": 1}),
        json!({
            "replicas": 2,
            "selector": {"matchLabels": {"app": "x"}, "matchExpressions": [{"operator": 7}, 3]},
            "template": {"metadata": {"labels": {"app": "x"}, "annotations": 3}, "spec": {
                "containers": [1, {"name": 2}], "affinity": "x", "tolerations": [1], "volumes": 5,
            }},
            "volumeClaimTemplates": [1, {"metadata": "x"}],
            "strategy": {"rollingUpdate": {"maxSurge": u64::MAX, "maxUnavailable": "x%"}},
            "ordinals": {"start": i64::MAX},
            "completionMode": "Indexed",
            "completions": i64::MAX,
            "minReadySeconds": -1,
        }),
        json!({
            "selector": {"matchLabels": {"app": "y"}},
            "template": {"metadata": 1, "spec": "x"},
            "completionMode": "Indexed",
            "completions": 2,
        }),
    ];
    for kind in [
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "Pod",
        "Node",
    ] {
        let mut builder = builder("1.36.0", Workloads::new(), "")
            .types(false)
            .calls_max(3_000);
        for (at, spec) in specs.iter().enumerate() {
            let metadata = json!({"name": format!("o{at}")});
            let object =
                json!({"apiVersion": api_version(kind), "kind": kind, "metadata": metadata, "spec": spec});
            builder = builder.object(object);
        }
        let cluster = builder.build().unwrap();
        let settled = cluster.settle().await;
        assert!(settled.is_ok(), "{kind}: {}", settled.unwrap_err());
    }
}
