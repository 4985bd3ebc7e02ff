//! The keys that a change affects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_controllers::{
    Cache, Controller, CronJobHistory, Key, LegacyTokenCleaner, NodeLifecycle, TokenCleaner, Wire,
    controllerrevisions, replicaset, statefulset, tokens,
};
use kubegc_core::{
    Timestamp,
    record::{Body, Record, Resource},
};

use crate::{
    common::{affected, at, cache, keys, object, reconcile, record},
    transcripts::scenes,
};

/// Other states of an object.
fn variants(before: &Record) -> Vec<Option<Record>> {
    let with = |change: &dyn Fn(&mut Record)| {
        let mut record = before.clone();
        change(&mut record);
        Some(record)
    };
    vec![
        None,
        with(&|record| {
            record.meta.deletion_timestamp = match record.meta.deletion_timestamp {
                None => Some(at("11:30")),
                Some(_) => None,
            }
        }),
        with(&|record| record.meta.labels.clear()),
        with(&|record| record.meta.owner_references.clear()),
        with(&|record| record.meta.finalizers.clear()),
        with(&|record| *record.body_mut() = Body::Unread),
        with(&|record| {
            if let Body::Pod(pod) = record.body_mut() {
                pod.phase = Arc::<str>::from("Failed").into();
            }
        }),
        with(&|record| {
            if let Body::Pod(pod) = record.body_mut() {
                pod.node_name = Arc::<str>::from("n1").into();
            }
        }),
    ]
}

/// Changes that upstream does not notice: Endpoints and IPAddresses without a Service, revisions of other
/// namespaces, a change of a pod that a ReplicaSet could have adopted before or that keeps its owners, and
/// changes of other ReplicaSets of its Deployment.
fn is_unnoticed(controller: &str, about: &Key, resource: Resource, states: [Option<&Record>; 2]) -> bool {
    let [old, new] = states;
    let Some(any) = new.or(old) else { return true };
    match (controller, resource) {
        ("endpoints-controller", Resource::Endpoints)
        | ("ipallocator-repair-controller", Resource::Services) => true,
        ("daemonset-controller", Resource::ControllerRevisions) => any.meta.namespace != about.namespace,
        ("replicaset-controller", Resource::ReplicaSets) => any.meta.name != about.name,
        ("replicaset-controller", Resource::Pods) => {
            let is_of_another = any
                .meta
                .controller()
                .is_some_and(|owner| owner.name != about.name);
            let keeps_owners = |old: &Record| {
                old.meta.controller().is_none()
                    || new.is_some_and(|new| new.meta.owner_references == old.meta.owner_references)
            };
            is_of_another || old.is_some_and(keeps_owners)
        }
        _ => false,
    }
}

/// The actions on each key.
fn decisions(controller: &dyn Controller, cache: &Cache, now: Timestamp) -> BTreeMap<Key, BTreeSet<String>> {
    let decide = |key: Key| {
        let decision = reconcile(controller, cache, &key, now, Wire::AsUpstream);
        let actions = decision.actions.iter().map(|action| format!("{action:?}"));
        let steps = decision.steps.map(|steps| format!("{steps:?}"));
        (key, actions.chain(steps).collect())
    };
    keys(controller, cache).into_iter().map(decide).collect()
}

/// Every key on which a change causes work is affected by it. Controllers that sync all keys
/// periodically need no events.
#[test]
fn a_change_affects_the_keys_on_which_it_causes_work() {
    let mut changed = BTreeSet::new();
    let mut problems = Vec::new();
    for scene in scenes() {
        let records = scene.records();
        for controller in scene.controllers() {
            let info = controller.info();
            if controller.timing().period.is_some() {
                continue;
            }
            let start = scene.cache(&**controller, &records);
            let before = decisions(&**controller, &start, scene.now);
            for (resource, record) in records
                .iter()
                .filter(|(resource, _)| info.resources.contains(resource))
            {
                let key = Key::from(&*record.meta);
                for variant in variants(record) {
                    let mut other = start.clone();
                    other.put(*resource, &key, variant.clone());
                    let decided = decisions(&**controller, &other, scene.now);
                    let states = [
                        (&start, &before, Some(record)),
                        (&other, &decided, variant.as_ref()),
                    ];
                    for [(_, before, old), (cache, after, new)] in [states, [states[1], states[0]]] {
                        let is_deleting =
                            |record: Option<&Record>| record.map(|record| record.meta.is_deleting());
                        // No deletion is undone.
                        let is_undone = is_deleting(old) == Some(true) && is_deleting(new) == Some(false);
                        if is_undone {
                            continue;
                        }
                        // The cache already has the new state.
                        let affected = affected(&**controller, cache, *resource, old, new);
                        for (about, actions) in after {
                            let is_same = before.get(about).is_some_and(|before| actions.is_subset(before));
                            let is_unnoticed = is_unnoticed(info.name, about, *resource, [old, new]);
                            if actions.is_empty() || is_same || is_unnoticed {
                                continue;
                            }
                            if *about != key {
                                changed.insert(info.name);
                            }
                            if !affected.contains(about) {
                                problems.push(format!(
                                    "{}: {resource:?} {key} {old:?} -> {new:?} causes work on {about}: {actions:?}",
                                    info.name,
                                ));
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    // The scenes have such a change for these.
    let expected = [
        "cronjob-controller",
        "daemonset-controller",
        "deployment-controller",
        "endpointslice-controller",
        "endpointslice-mirroring-controller",
        "job-controller",
        "node-lifecycle-controller",
        "persistentvolume-attach-detach-controller",
        "persistentvolume-binder-controller",
        "persistentvolumeclaim-protection-controller",
        "podgroup-protection-controller",
        "replicaset-controller",
        "resourceclaim-controller",
        "service-cidr-controller",
        "serviceaccount-token-controller",
        "statefulset-controller",
        "statefulset-history-controller",
        "taint-eviction-controller",
        "volumeattributesclass-protection-controller",
    ];
    assert_eq!(changed.into_iter().collect::<Vec<_>>(), expected);
}

/// The keys that a change affects in a cluster, except those of the changed object itself where these always
/// count. An empty line is an object that does not exist.
#[track_caller]
fn check(controller: &dyn Controller, cluster: &[&str], changes: &[(&str, &str, &str)]) {
    let objects: Vec<_> = cluster.iter().map(|line| object(line)).collect();
    let cache = cache(controller, &objects);
    let read = |line: &str| (!line.is_empty()).then(|| record(object(line)));
    for (old, new, expected) in changes {
        let states = (read(old), read(new));
        let resource = states.1.as_ref().or(states.0.as_ref()).expect("a change").0;
        let [old_record, new_record] =
            [&states.0, &states.1].map(|state| state.as_ref().map(|(_, record)| record));
        let found = affected(controller, &cache, resource, old_record, new_record);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.join(" "), *expected, "{old:?} -> {new:?}");
    }
}

/// A change that is irrelevant to a controller causes no work.
#[test]
fn only_relevant_changes_affect_keys() {
    let latest = kubegc_core::KubernetesVersion::LATEST;
    let version = |text: &str| text.parse().expect("a release");
    // A pod that loses its owner matters to all that select it; the removal of a pod causes no surplus.
    let orphan = "v1 Pod shop/p label:app=web";
    let owned = "v1 Pod shop/p label:app=web owner:apps/v1/ReplicaSet/a";
    let terminating = "v1 Pod shop/p label:app=web owner:apps/v1/ReplicaSet/a deleted:11:00";
    check(
        &replicaset::RULE.at(latest),
        &[
            "apps/v1 ReplicaSet shop/b spec.selector.matchLabels.app=web",
            "apps/v1 ReplicaSet shop/c spec.selector.matchLabels.app=web",
        ],
        &[
            (owned, orphan, "shop/a shop/b shop/c"),
            ("", orphan, "shop/b shop/c"),
            (orphan, orphan, ""),
            ("", owned, "shop/a"),
            (owned, "v1 Pod shop/p owner:apps/v1/ReplicaSet/a", "shop/a"),
            (owned, terminating, ""),
            (owned, "", ""),
        ],
    );
    // Before 1.23 a revision of another namespace is adopted, but does not cause a sync.
    for release in ["1.20", "1.23"] {
        check(
            &controllerrevisions::DAEMON_SETS.at(version(release)),
            &["apps/v1 DaemonSet shop/s spec.selector.matchLabels.app=web"],
            &[
                ("", "apps/v1 ControllerRevision other/far label:app=web", ""),
                ("", "apps/v1 ControllerRevision shop/near label:app=web", "shop/s"),
            ],
        );
    }
    // The first ready node ends a disruption.
    let ready = r#"v1 Node other status.conditions=[{"type":"Ready","status":"True"}]"#;
    let silent = r#"v1 Node other status.conditions=[{"type":"Ready","status":"Unknown"}]"#;
    check(
        &NodeLifecycle::new(version("1.20")),
        &[r#"v1 Node n status.conditions=[{"type":"Ready","status":"Unknown"}]"#],
        &[
            (silent, ready, "n other"),
            (ready, ready, "other"),
            (ready, silent, "other"),
        ],
    );
    check(
        &TokenCleaner::new(latest),
        &[],
        &[
            ("", "v1 Secret default/a", ""),
            ("", "v1 Secret kube-system/a", "kube-system/a"),
        ],
    );
    let account = r#"v1 ServiceAccount shop/live secrets=[{"name":"t-1"},{"name":"t-2"}]"#;
    let token = "v1 Secret shop/t-1 type=kubernetes.io/service-account-token \
                 annotation:kubernetes.io/service-account.name=live \
                 annotation:kubernetes.io/service-account.uid=serviceaccount-live";
    let other = r#"v1 ServiceAccount shop/other secrets=[{"name":"t-1"}]"#;
    check(
        &tokens::SERVICE_ACCOUNT_TOKENS.at(latest),
        &[account, other],
        &[(token, "", "shop/live/t-1")],
    );
    let mut second = CronJobHistory::new(version("1.20"));
    second.groups_by_uid = false;
    for (controller, by_name, by_uid) in [
        (CronJobHistory::new(latest), "shop/cron", "shop/other"),
        (CronJobHistory::new(version("1.20")), "", "shop/cron"),
        (second, "shop/cron", "shop/other"),
    ] {
        let owners = |name: &str, uid: &str| {
            format!(
                r#"batch/v1 Job shop/j metadata.ownerReferences=[{{"apiVersion":"batch/v1","kind":"CronJob","name":"{name}","uid":"{uid}","controller":true}}]"#
            )
        };
        check(
            &controller,
            &["batch/v1 CronJob shop/cron"],
            &[
                ("", &*owners("cron", "another"), by_name),
                ("", &*owners("other", "cronjob-cron"), by_uid),
            ],
        );
    }
}

/// A claim belongs to the set of its name, a pod to the set of its name; only identity and owners matter.
#[test]
fn changes_of_identity_and_owners_affect_a_stateful_set() {
    let set = |name: &str| {
        format!(
            r#"apps/v1 StatefulSet shop/{name} spec.volumeClaimTemplates=[{{"metadata":{{"name":"data"}}}}]"#
        )
    };
    let (web, api) = (set("web"), set("api-web"));
    let claim = "v1 PersistentVolumeClaim shop/data-web-0";
    let pod = "v1 Pod shop/web-0 owner:apps/v1/StatefulSet/web";
    check(
        &statefulset::RULE.at(kubegc_core::KubernetesVersion::LATEST),
        &[&*web, &*api],
        &[
            ("", claim, "shop/web"),
            (claim, "", "shop/web"),
            (
                claim,
                "v1 PersistentVolumeClaim shop/data-web-0 metadata.resourceVersion=\"2\"",
                "",
            ),
            (
                claim,
                "v1 PersistentVolumeClaim shop/data-web-0 metadata.uid=another",
                "shop/web",
            ),
            ("", "v1 PersistentVolumeClaim shop/data-api-web-0", "shop/api-web"),
            ("", "v1 PersistentVolumeClaim shop/logs-web-0", ""),
            ("", "v1 PersistentVolumeClaim shop/data-web-x", ""),
            ("", pod, "shop/web"),
            (
                pod,
                "v1 Pod shop/web-0 owner:apps/v1/StatefulSet/web metadata.resourceVersion=\"2\"",
                "",
            ),
            (pod, "v1 Pod shop/web-0", "shop/web"),
            ("", "v1 Pod shop/db-0", ""),
        ],
    );
}

#[test]
fn only_their_facts_affect_legacy_tokens() {
    let token = "v1 Secret shop/t type=kubernetes.io/service-account-token \
                 annotation:kubernetes.io/service-account.name=till";
    let opaque = "v1 Secret shop/opaque type=Opaque";
    let listed = r#"v1 ServiceAccount shop/till secrets=[{"name":"t"}]"#;
    let pod = r#"v1 Pod shop/p spec.imagePullSecrets=[{"name":"t"},{"name":"opaque"}]"#;
    let tracking = "kube-system/kube-apiserver-legacy-service-account-token-tracking data.since=2020-01-01";
    let tracking = format!("v1 ConfigMap {tracking}");
    check(
        &LegacyTokenCleaner::new(kubegc_core::KubernetesVersion::LATEST),
        &[token, opaque],
        &[
            ("", token, "shop/t"),
            ("", opaque, ""),
            (listed, "v1 ServiceAccount shop/till secrets=[]", "shop/t"),
            ("", &*tracking, "shop/t"),
            ("", "v1 ConfigMap kube-system/other data.since=2020-01-01", ""),
            ("", pod, "shop/t"),
            (pod, "", "shop/t"),
            (pod, pod, ""),
            (
                "",
                r#"v1 Pod shop/p spec.imagePullSecrets=[{"name":"opaque"}]"#,
                "",
            ),
            (
                "v1 Pod shop/p spec.imagePullSecrets=[]",
                "v1 Pod shop/p spec=hidden",
                "shop/t",
            ),
        ],
    );
}
