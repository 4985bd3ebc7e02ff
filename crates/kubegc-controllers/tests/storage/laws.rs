//! Properties of plans and sequences for generated volumes, claims and pods.

use kubegc_controllers::{
    BatchPlanner, Cache, Controller, FINALIZER_CLAIM_PROTECTION, FINALIZER_EXTERNAL, FINALIZER_IN_TREE, Key,
    Migration, Operated, PersistentVolumeBinder, Plugin, PvcProtection, Request, Response, Step, Storage,
    Wire,
};
use kubegc_core::{
    KubernetesVersion, ObjectMeta, OwnerReference, Planner, StoreError, Timestamp,
    record::{
        Body, ClaimRef, Field, PersistentVolume, PersistentVolumeClaim, Pod, PodVolume, Record, Resource,
        VolumeAnnotations, VolumeSource,
    },
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::release;
use crate::common::{cache_of as cache, key, line, reconcile};

const IN_TREE: &str = "kubernetes.io/aws-ebs";
const DRIVER: &str = "ebs.csi.aws.com";

type Object = (Resource, Record);

fn meta(namespace: &str, name: &str, uid: &str) -> ObjectMeta {
    let mut meta = ObjectMeta::new(namespace, name, uid);
    meta.resource_version = "7".into();
    meta
}

fn volumes() -> impl Strategy<Value = Record> {
    let phases = select(vec![
        "",
        "Pending",
        "Available",
        "Bound",
        "Released",
        "Failed",
        "Odd",
    ]);
    let policies = select(vec!["Retain", "Delete", "Recycle", "Burn"]);
    let provisioners = option::of(select(vec![IN_TREE, DRIVER, ""]));
    let finalizers = select(vec![
        vec![],
        vec![FINALIZER_IN_TREE],
        vec![FINALIZER_EXTERNAL, "example.com/f", FINALIZER_IN_TREE],
    ]);
    let claim = option::of((0..4_u8, 0..3_u8));
    (
        phases,
        policies,
        provisioners,
        finalizers,
        claim,
        any::<[bool; 3]>(),
    )
        .prop_map(
            |(phase, policy, provisioner, finalizers, claim, [by_controller, is_migrated, is_deleting])| {
                let mut meta = meta("", "disk", "uid-disk");
                meta.finalizers = finalizers.into_iter().map(Into::into).collect();
                meta.deletion_timestamp = is_deleting.then_some(Timestamp::EPOCH);
                // Generation 0 is a reservation.
                let claim_ref = claim.map(|(name, generation)| ClaimRef {
                    namespace: "shop".into(),
                    name: format!("claim-{name}").into(),
                    uid: if generation == 0 {
                        "".into()
                    } else {
                        format!("uid-{name}-{generation}").as_str().into()
                    },
                });
                let volume = PersistentVolume {
                    phase: Field::Known(phase.into()),
                    reclaim_policy: Field::Known(policy.into()),
                    claim_ref: claim_ref.into(),
                    volume_mode: Field::default(),
                    annotations: VolumeAnnotations {
                        provisioned_by: provisioner.map(Into::into),
                        bound_by_controller: by_controller,
                        migrated_to: is_migrated.then(|| DRIVER.into()),
                    }
                    .into(),
                    ..PersistentVolume::default()
                };
                Record::new(meta, Body::PersistentVolume(volume))
            },
        )
}

/// Volumes `disk-0`, ..., claims `claim-0`, ... and pods that use these.
fn clusters() -> impl Strategy<Value = Vec<Object>> {
    let claims = vec((1..3_u8, 0..8_u8), 0..4);
    let pods = vec((0..4_u8, select(vec!["Running", "Succeeded"])), 0..4);
    (vec(volumes(), 1..6), claims, pods).prop_map(|(volumes, claims, pods)| {
        let mut records = Vec::new();
        for (index, mut volume) in volumes.into_iter().enumerate() {
            volume.meta.name = format!("disk-{index}").into();
            volume.meta.uid = format!("uid-{index}").as_str().into();
            records.push((Resource::PersistentVolumes, volume));
        }
        for (name, (generation, bound)) in claims.into_iter().enumerate() {
            let meta = meta(
                "shop",
                &format!("claim-{name}"),
                &format!("uid-{name}-{generation}"),
            );
            let volume_name = if bound < 6 {
                format!("disk-{bound}")
            } else {
                String::new()
            };
            let claim = PersistentVolumeClaim {
                volume_name: Field::Known(volume_name.into()),
                ..PersistentVolumeClaim::default()
            };
            let claim = Record::new(meta, Body::PersistentVolumeClaim(claim));
            records.push((Resource::PersistentVolumeClaims, claim));
        }
        for (index, (name, phase)) in pods.into_iter().enumerate() {
            let pod = format!("pod-{index}");
            let source = VolumeSource::Claim(format!("claim-{name}").into());
            records.push(pod_of(&pod, source, phase));
        }
        records
    })
}

fn pod_of(name: &str, source: VolumeSource, phase: &str) -> Object {
    let pod = Pod {
        node_name: Field::Known("node".into()),
        phase: Field::Known(phase.into()),
        volumes: vec![PodVolume {
            name: "data".into(),
            source,
        }]
        .into(),
        ..Pod::default()
    };
    let meta = meta("shop", name, &format!("uid-{name}"));
    (Resource::Pods, Record::new(meta, Body::Pod(pod)))
}

fn binders() -> impl Strategy<Value = PersistentVolumeBinder> {
    let message = "none".to_owned();
    let plugins = vec![
        None,
        Some(Plugin::InTree),
        Some(Plugin::InTree),
        Some(Plugin::External),
        Some(Plugin::Missing { message }),
    ];
    let driver = DRIVER.into();
    let migrations = vec![None, Some(Migration::Off), Some(Migration::On { driver })];
    let versions = select(vec!["1.20.2", "1.31", "1.36"]);
    (versions, select(migrations), vec(select(plugins), 2)).prop_map(|(version, migration, plugins)| {
        let mut binder = PersistentVolumeBinder::new(release(version));
        binder
            .storage
            .migrations
            .extend(migration.map(|migration| (IN_TREE.into(), migration)));
        for (name, plugin) in [IN_TREE, ""].into_iter().zip(plugins) {
            binder
                .storage
                .plugins
                .extend(plugin.map(|plugin| (name.into(), plugin)));
        }
        binder
    })
}

/// A request as text without its preconditions.
fn without_preconditions(request: &Request) -> String {
    let line = line(request);
    let words = line
        .split(' ')
        .filter(|word| !word.starts_with("uid=") && !word.starts_with("rv="));
    words.collect::<Vec<_>>().join(" ")
}

/// The requests of a plan, by object.
fn requests<C: Controller + Clone>(controller: &C, cache: &Cache) -> Vec<(String, String)> {
    let plan = BatchPlanner::new(controller.clone()).plan(cache, Timestamp::EPOCH);
    let of_action = |action: &kubegc_controllers::Action| {
        let object = action.object.to_string();
        action
            .requests
            .iter()
            .map(|request| (object.clone(), without_preconditions(request)))
            .collect::<Vec<_>>()
    };
    plan.actions.iter().flat_map(of_action).collect()
}

/// The cluster after all requests of a plan have succeeded.
fn apply_plan<C: Controller + Clone>(controller: &C, cache: &Cache) -> Cache {
    let plan = BatchPlanner::new(controller.clone()).plan(cache, Timestamp::EPOCH);
    let mut after = cache.clone();
    for request in plan.actions.iter().flat_map(|action| &action.requests) {
        let Some(object) = request.object() else { continue };
        let key = Key::new(object.namespace.clone(), object.name.clone());
        let Some(mut record) = after.get(object.resource, &key).cloned() else {
            continue;
        };
        match request {
            Request::Write(write) => write.changes.iter().for_each(|change| change.apply(&mut record)),
            Request::Delete { .. } => {
                after.put(object.resource, &key, None);
                continue;
            }
            _ => continue,
        }
        after.put(object.resource, &key, Some(record));
    }
    after
}

/// Makes one fact unread.
fn set_unread(record: &mut Record, fact: u8) {
    match (record.body_mut(), fact) {
        (Body::PersistentVolume(volume), 0) => volume.phase = Field::Unread,
        (Body::PersistentVolume(volume), 1) => volume.reclaim_policy = Field::Unread,
        (Body::PersistentVolume(volume), 2) => volume.claim_ref = Field::Unread,
        (Body::PersistentVolume(volume), 3) => volume.annotations = Field::Unread,
        (Body::PersistentVolume(volume), 4) => volume.volume_mode = Field::Unread,
        (Body::PersistentVolumeClaim(claim), 0) => claim.volume_name = Field::Unread,
        (Body::PersistentVolumeClaim(claim), 1) => claim.volume_mode = Field::Unread,
        (Body::Pod(pod), 0) => pod.phase = Field::Unread,
        (Body::Pod(pod), 1) => pod.volumes = Field::Unread,
        (Body::Pod(pod), 2) => pod.node_name = Field::Unread,
        (Body::Pod(pod), 4) => pod.containers_stopped = Field::Unread,
        (Body::Pod(_), 3) => record.meta.uid = "".into(),
        (body, 5) => *body = Body::Unread,
        _ => {}
    }
}

/// The cache of `records` in which one fact of the record at `at` is unread, or a list is incomplete.
fn partial(controller: &dyn Controller, records: &[Object], at: usize, fact: u8) -> Cache {
    let mut partial = cache(controller, records);
    let lists = [Resource::PersistentVolumeClaims, Resource::Pods];
    if let Some(resource) = lists.get(usize::from(fact).wrapping_sub(6)) {
        let records: Vec<Record> = partial.records(*resource).skip(1).cloned().collect();
        partial.replace(*resource, records);
        partial.set_listed(*resource, Err(StoreError::Unlisted));
        return partial;
    }
    let (resource, mut unread) = records[at % records.len()].clone();
    let key = Key::from(&*unread.meta);
    set_unread(&mut unread, fact);
    partial.put(resource, &key, Some(unread));
    partial
}

fn protected() -> impl Strategy<Value = Vec<Object>> {
    let claims = vec((any::<bool>(), any::<bool>(), 0..4_u8), 1..6);
    let pods = vec((0..8_u8, 0..3_u8, any::<[bool; 2]>()), 0..6);
    (claims, pods).prop_map(|(claims, pods)| {
        let mut records = Vec::new();
        for (index, (is_deleting, has_finalizer, owner)) in claims.into_iter().enumerate() {
            let mut meta = meta("shop", &format!("pod-{index}-data"), &format!("uid-{index}"));
            meta.deletion_timestamp = is_deleting.then_some(Timestamp::EPOCH);
            if has_finalizer {
                meta.finalizers = vec![FINALIZER_CLAIM_PROTECTION.into()];
            }
            meta.owner_references.push(OwnerReference {
                api_version: "v1".into(),
                kind: "Pod".into(),
                name: format!("pod-{owner}").into(),
                uid: format!("uid-pod-{owner}").as_str().into(),
                controller: Some(true),
                block_owner_deletion: None,
            });
            let claim = Body::PersistentVolumeClaim(PersistentVolumeClaim::default());
            records.push((Resource::PersistentVolumeClaims, Record::new(meta, claim)));
        }
        for (index, kind, [is_scheduled, is_shut_down]) in pods {
            let source = match kind {
                0 => VolumeSource::Claim(format!("pod-{index}-data").into()),
                1 => VolumeSource::Ephemeral,
                _ => VolumeSource::Other,
            };
            let (resource, mut pod) = pod_of(&format!("pod-{index}"), source, "Running");
            if let (Body::Pod(body), false) = (pod.body_mut(), is_scheduled) {
                body.node_name = Field::default();
            }
            if is_shut_down {
                pod.meta.deletion_timestamp = Some(Timestamp::EPOCH);
                pod.meta.deletion_grace_period_seconds = Some(0);
            }
            if records.iter().all(|(_, known)| known.meta.name != pod.meta.name) {
                records.push((resource, pod));
            }
        }
        records
    })
}

fn is_subset(part: &[(String, String)], all: &[(String, String)]) -> bool {
    part.iter().all(|request| all.contains(request))
}

fn reversed(records: &[Object]) -> Vec<Object> {
    records.iter().rev().cloned().collect()
}

proptest! {
    #[test]
    fn the_order_of_objects_has_no_effect(records in clusters(), binder in binders(), protected in protected()) {
        let plan = |records: &[Object]| requests(&binder, &cache(&binder, records));
        prop_assert_eq!(plan(&records), plan(&reversed(&records)));
        let controller = PvcProtection::new(KubernetesVersion::LATEST);
        let plan = |records: &[Object]| requests(&controller, &cache(&controller, records));
        prop_assert_eq!(plan(&protected), plan(&reversed(&protected)));
    }

    #[test]
    fn a_second_plan_writes_nothing_but_events(records in clusters(), binder in binders(), protected in protected()) {
        let after = apply_plan(&binder, &cache(&binder, &records));
        let again = requests(&binder, &after);
        let writes: Vec<_> = again.iter().filter(|(_, request)| !request.starts_with("record event")).collect();
        prop_assert!(writes.is_empty(), "{:?}", writes);
        let controller = PvcProtection::new(KubernetesVersion::LATEST);
        let after = apply_plan(&controller, &cache(&controller, &protected));
        prop_assert_eq!(requests(&controller, &after), vec![]);
    }

    #[test]
    fn an_unread_fact_causes_no_request(records in clusters(), binder in binders(), protected in protected(), at in 0..20_usize, fact in 0..8_u8) {
        let all = requests(&binder, &cache(&binder, &records));
        let part = requests(&binder, &partial(&binder, &records, at, fact));
        prop_assert!(is_subset(&part, &all), "{:?} of {:?}", part, all);
        let mut nothing_known = binder.clone();
        nothing_known.storage = Storage::default();
        let part = requests(&nothing_known, &cache(&binder, &records));
        prop_assert!(is_subset(&part, &all), "{:?} of {:?}", part, all);
        let controller = PvcProtection::new(KubernetesVersion::LATEST);
        let all = requests(&controller, &cache(&controller, &protected));
        let part = requests(&controller, &partial(&controller, &protected, at, fact));
        prop_assert!(is_subset(&part, &all), "{:?} of {:?}", part, all);
    }

    #[test]
    fn only_released_volumes_are_deleted_or_recycled_by_their_policy(records in clusters(), binder in binders()) {
        for (object, request) in requests(&binder, &cache(&binder, &records)) {
            let policy = match request.split(' ').next() {
                Some("delete") => "Delete",
                Some("recycle") => "Recycle",
                _ => continue,
            };
            let volume = records.iter().find(|(_, record)| object == format!("persistentvolume/{}", record.meta.name));
            let volume = volume.and_then(|(_, record)| record.persistent_volume()).expect("a volume of the cluster");
            prop_assert_eq!(volume.reclaim_policy.known().map(|policy| &**policy), Some(policy));
            let Some(Some(claim_ref)) = volume.claim_ref.known() else { panic!("an unclaimed volume is kept") };
            let claim = records.iter().find(|(_, record)| record.meta.uid == claim_ref.uid);
            let bound_to = claim.and_then(|(_, claim)| claim.persistent_volume_claim()?.volume_name.known());
            let name = object.trim_start_matches("persistentvolume/");
            prop_assert!(bound_to.is_none_or(|bound_to| !bound_to.is_empty() && **bound_to != *name));
        }
    }

    #[test]
    fn storage_is_deleted_or_recycled_once_and_the_volume_is_deleted_last(records in clusters(), binder in binders()) {
        let all = requests(&binder, &cache(&binder, &records));
        for (_, volume) in &records {
            let object = format!("persistentvolume/{}", volume.meta.name);
            let requests: Vec<&str> = all.iter().filter(|(of, _)| *of == object).map(|(_, request)| &**request).collect();
            let operations = requests.iter().filter(|request| request.contains("the storage of")).count();
            prop_assert!(operations <= 1);
            let deletion = requests.iter().position(|request| request.starts_with("delete persistentvolume"));
            prop_assert!(deletion.is_none_or(|at| at + 1 == requests.len() && operations == 1));
        }
    }

    #[test]
    fn a_sync_ends_after_any_responses(volume in volumes(), binder in binders(), responses in vec(0..7_u8, 16), is_strict in any::<bool>()) {
        let wire = if is_strict { Wire::Strict } else { Wire::AsUpstream };
        let decision = reconcile(
            &binder,
            &cache(&binder, &[(Resource::PersistentVolumes, volume.clone())]),
            &key("disk"),
            Timestamp::EPOCH,
            wire,
        );
        let Some(steps) = decision.steps else { return Ok(()) };
        let mut sequence = steps.begin();
        let mut step = sequence.next(None);
        for response in responses {
            step = sequence.next(Some(match response {
                0 => Response::Done,
                1 => Response::Object(Box::new(volume.clone())),
                2 => Response::Plugin(Plugin::InTree),
                3 => Response::Operation(Operated::Done),
                4 => Response::Written(None),
                5 => Response::Failed(StoreError::NotFound),
                _ => Response::Failed(StoreError::Unlisted),
            }));
        }
        prop_assert!(matches!(step, Step::End(_)), "{:?}", step);
    }
}
