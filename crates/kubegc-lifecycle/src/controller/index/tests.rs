//! That the entries of every kind follow the objects, and that changes are told of under the right keys.

use std::collections::BTreeMap;

use kubegc_core::{KubernetesVersion, ObjectMeta, OwnerReference, Timestamp};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::{
    controller::Settings,
    fields::{Job, PersistentVolume, Secret},
    history::Status,
    object::Condition,
    pod,
    volume::{ClaimRef, Holder, Phase, PodVolume},
};

const RESOURCES: [Resource; 5] = [
    Resource::Jobs,
    Resource::PersistentVolumes,
    Resource::PersistentVolumeClaims,
    Resource::Pods,
    Resource::Secrets,
];

fn fields(resource: Resource, (read, key, which): (u8, &str, u8)) -> Fields {
    if read == 0 {
        return Fields::Unread;
    }
    match resource {
        Resource::Jobs => {
            let end = select_of(which, ["Complete", "Failed", "Suspended"]);
            let status = Status {
                conditions: vec![Condition::new(end, "True")],
                start_time: select_of(read, [StartTime::Unset, StartTime::Unset, StartTime::Unknown]),
            };
            Fields::Job(Job {
                status: (which != 3).then_some(status),
                ..Job::default()
            })
        }
        Resource::PersistentVolumes => Fields::PersistentVolume(PersistentVolume {
            phase: Phase::Bound,
            policy: select_of(which, [Policy::Recycle, Policy::Delete]),
            claim_ref: select_of(
                read,
                [
                    Holder::Nobody,
                    Holder::Claim(ClaimRef::new("a", key, "uid")),
                    Holder::Unknown,
                ],
            ),
            mode: None,
            annotations: None,
        }),
        Resource::Pods => {
            let source = select_of(
                which,
                [Source::Claim(key.into()), Source::Ephemeral, Source::Other],
            );
            let name = "e".into();
            Fields::Pod(Pod {
                node_name: select_of(read, [None, Some("".into()), Some("node".into())]),
                status: Some(pod::Status::new(select_of(which, ["Running", "Failed"]))),
                volumes: (which != 3).then(|| vec![PodVolume { name, source }]),
                secrets: select_of(which, [None, Some(vec![key.into(), "k0".into()])]),
            })
        }
        Resource::Secrets => Fields::Secret(Secret {
            secret_type: select_of(
                which,
                [None, Some(legacy::SECRET_TYPE.into()), Some("Opaque".into())],
            ),
            account_name: select_of(read, [None, Some("".into()), Some(key.into())]),
            ..Secret::default()
        }),
        _ => Fields::Unread,
    }
}

fn select_of<T: Clone, const N: usize>(which: u8, of: [T; N]) -> T {
    of[usize::from(which) % N].clone()
}

type Step = (Resource, Key, Option<Record>);

/// An object appears, changes or goes.
fn steps() -> impl Strategy<Value = Step> {
    let names = (select(vec!["a", "b", ""]), select(vec!["n0", "n1", "n2"]));
    let fields_of = (0..4_u8, select(vec!["k0", "k1"]), 0..4_u8);
    let controller = option::of((select(vec!["k0", "k1"]), any::<bool>()));
    let record = option::weighted(0.8, (fields_of, controller, any::<bool>(), any::<bool>()));
    (select(RESOURCES.to_vec()), names, record).prop_map(|(resource, (namespace, name), record)| {
        let record = record.map(|(of, controller, is_held, has_uid)| {
            let mut meta = ObjectMeta::new(namespace, name, if has_uid { "uid" } else { "" });
            if is_held {
                meta.deletion_timestamp = Some(Timestamp::EPOCH);
                meta.finalizers.push(FINALIZER_CLAIM_PROTECTION.into());
            }
            let controller = controller.map(|(name, is_controller)| OwnerReference {
                api_version: "batch/v1".into(),
                kind: "CronJob".into(),
                name: name.into(),
                uid: "uid".into(),
                controller: Some(is_controller),
                block_owner_deletion: None,
            });
            meta.owner_references.extend(controller);
            let fields = fields(resource, of);
            Record { meta, fields }
        });
        (resource, (namespace.into(), name.into()), record)
    })
}

fn firsts(names: &Names) -> BTreeMap<Key, Arc<str>> {
    let mut firsts = BTreeMap::new();
    for (namespace, key, name) in names.all() {
        let key = (Arc::clone(namespace), Arc::clone(key));
        firsts.entry(key).or_insert_with(|| Arc::clone(name));
    }
    firsts
}

/// Tables of everything that runs.
fn tables() -> Tables {
    let settings = Settings::new(KubernetesVersion::LATEST);
    Tables::new(&settings)
}

proptest! {
    #[test]
    fn an_index_follows_every_change(steps in vec(steps(), 0..40), asked_at in 0..40_usize) {
        let mut records = BTreeMap::<(Resource, Key), Record>::new();
        let mut tables = tables();
        for (at, (resource, key, new)) in steps.into_iter().enumerate() {
            if at == asked_at {
                for kind in Kind::ALL {
                    tables.names(kind);
                }
            }
            let before = tables.clone();
            match new.clone() {
                Some(record) => records.insert((resource, key.clone()), record),
                None => records.remove(&(resource, key.clone())),
            };
            let old = tables.put(resource, &key, new.clone());
            for kind in Kind::ALL {
                let of_kind = records.iter().filter(|((of, _), _)| *of == kind.resource());
                let from_scratch = Names::new(kind, of_kind.map(|(_, record)| record));
                // In a clone, so that nobody has asked the tables themselves.
                let asked = tables.clone();
                prop_assert_eq!(asked.names(kind), &from_scratch, "{:?}", kind);
            }
            let change = Change { resource, key: &key, old: old.as_ref(), new: new.as_ref() };
            for kind in Kind::ALL.into_iter().filter(|kind| kind.resource() == resource) {
                let (is, was) = (tables.clone(), before.clone());
                let (was, is) = (was.names(kind), is.names(kind));
                let name = &key.1;
                let touched: BTreeSet<Key> = touched(kind, &change).collect();
                let moved: BTreeSet<Key> = moved(kind, &change).into_iter().collect();
                for key in &touched {
                    let is_there = |names: &Names| names.of(key).any(|other| other == name);
                    prop_assert!(is_there(was) || is_there(is));
                    prop_assert_eq!(is_there(was) != is_there(is), moved.contains(key));
                }
                prop_assert!(moved.is_subset(&touched));
                let (was, firsts_now) = (firsts(was), firsts(is));
                let differ = was.keys().chain(firsts_now.keys());
                let differ = differ.filter(|key| was.get(*key) != firsts_now.get(*key));
                let differ: BTreeSet<&Key> = differ.collect();
                let changed = moved.iter().filter(|key| is.has_none_before(key, name));
                prop_assert_eq!(changed.collect::<BTreeSet<_>>(), differ, "{:?}", kind);
            }
        }
        // Nothing is left of nothing.
        for (resource, key) in records.into_keys() {
            tables.put(resource, &key, None);
        }
        for kind in Kind::ALL {
            prop_assert!(tables.names(kind).is_empty());
        }
    }
}

#[test]
fn names_come_in_order_and_stop_at_their_key() {
    let mut tables = tables();
    for (namespace, name, secrets) in [
        ("a", "web", vec!["x", "y"]),
        ("a", "api", vec!["x"]),
        ("ab", "api", vec!["x"]),
    ] {
        let secrets = secrets.into_iter().map(Arc::from).collect();
        let pod = Pod {
            secrets: Some(secrets),
            ..Pod::default()
        };
        let meta = ObjectMeta::new(namespace, name, "uid");
        let key = (Arc::clone(&meta.namespace), Arc::clone(&meta.name));
        let fields = Fields::Pod(pod);
        tables.put(Resource::Pods, &key, Some(Record { meta, fields }));
    }
    let mentions = tables.names(Kind::PodOfSecret);
    let names = |key: &str| {
        let key = ("a".into(), key.into());
        let names = mentions.of(&key);
        names.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(names("x"), ["api", "web"]);
    assert_eq!(names("y"), ["web"]);
    assert!(names("z").is_empty());
    assert_eq!(mentions.within(&"a".into()).count(), 3);
    assert_eq!(mentions.all().count(), 4);
}
