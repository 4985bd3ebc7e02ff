//! Properties of plans and sequences for generated volumes, claims and pods. The transcripts check the laws
//! of all controllers.

use kubegc_controllers::{
    BatchPlanner, Cache, Controller, FINALIZER_EXTERNAL, FINALIZER_IN_TREE, Migration, Operated,
    PersistentVolumeBinder, Plugin, Request, Response, Step, Wire,
};
use kubegc_core::{
    ObjectMeta, Planner, StoreError, Timestamp,
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
fn requests<C: Controller + Clone + 'static>(controller: &C, cache: &Cache) -> Vec<(String, String)> {
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

proptest! {
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
