//! Random clusters in which much hangs on much, and little is known of some of it.

use std::sync::Arc;

use kubegc_core::{KubernetesVersion, ObjectMeta, OwnerReference, Timestamp};
use kubegc_lifecycle::{
    controller::{Mechanism, Settings},
    fields::{self, Fields, Record},
    history::{Limit, StartTime, Status},
    job::Ttl,
    object::{Condition, Resource},
    pod,
    statefulset::Retention,
    token::legacy::{LABEL_INVALID_SINCE, SECRET_TYPE},
    volume::{
        Annotations, ClaimRef, FINALIZER_CLAIM_PROTECTION, FINALIZER_EXTERNAL, FINALIZER_IN_TREE,
        FINALIZER_VOLUME_PROTECTION, Holder, Migration, Phase, PodVolume, Policy, Source, external,
        reclaim::Plugin,
    },
};
use proptest::{collection::vec, option, prelude::*, sample::select};

pub(crate) const IN_TREE: &str = "kubernetes.io/aws-ebs";
pub(crate) const OUTSIDE: &str = "example.com/nfs";
pub(crate) const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

pub(crate) const MECHANISMS: [Mechanism; 6] = [
    Mechanism::Histories,
    Mechanism::Volumes,
    Mechanism::ExternalVolumes,
    Mechanism::Protection,
    Mechanism::StatefulSets,
    Mechanism::LegacyTokens,
];

/// Everything that is told of here runs, and what the cluster does with volumes is known.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::only(KubernetesVersion::LATEST, MECHANISMS);
    settings.external_volumes = vec![external::Settings::new(OUTSIDE)];
    let storage = &mut settings.storage;
    storage.migrations.insert(IN_TREE.into(), Migration::Off);
    storage.plugins.insert(IN_TREE.into(), Plugin::Known);
    storage.plugins.insert("".into(), Plugin::Known);
    settings
}

fn texts(texts: &[&'static str]) -> impl Strategy<Value = Arc<str>> + use<> {
    select(texts.to_vec()).prop_map(Arc::from)
}

/// Metadata of an object of one of these names. One in some has no uid or no version, or another uid.
fn metas(
    namespaces: &'static [&'static str],
    names: &'static [&'static str],
    finalizers: &'static [&'static str],
    controllers: &'static [&'static str],
) -> impl Strategy<Value = ObjectMeta> {
    let controller = option::of((texts(controllers), 0..4_u8));
    (
        texts(namespaces),
        texts(names),
        (0..10_u8, 1..8_u8),
        any::<bool>(),
        vec(any::<bool>(), finalizers.len()),
        controller,
    )
        .prop_map(
            move |(namespace, name, (uid, version), is_deleting, has, controller)| {
                let uid = match uid {
                    0 => String::new(),
                    1 => format!("uid-{name}-2"),
                    _ => format!("uid-{name}"),
                };
                let mut meta = ObjectMeta::new(&namespace, &name, &uid);
                meta.resource_version = match version {
                    1 => "".into(),
                    version => version.to_string().as_str().into(),
                };
                meta.deletion_timestamp = is_deleting.then_some(Timestamp::EPOCH);
                let has = finalizers.iter().zip(has).filter(|(_, has)| *has);
                meta.finalizers = has.map(|(name, _)| (*name).into()).collect();
                let controller = controller.map(|(name, flag)| OwnerReference {
                    api_version: "apps/v1".into(),
                    kind: "StatefulSet".into(),
                    uid: format!("uid-{name}").as_str().into(),
                    name,
                    controller: (flag > 0).then_some(true),
                    block_owner_deletion: None,
                });
                meta.owner_references.extend(controller);
                meta
            },
        )
}

/// The fields, or, once in some, that they were not read; of a job, perhaps not even its metadata.
fn read(resource: Resource, fields: impl Strategy<Value = Fields>) -> impl Strategy<Value = Fields> {
    let unread = match resource {
        Resource::Jobs => vec![Fields::Unread, Fields::MetadataUnread],
        _ => vec![Fields::Unread],
    };
    prop_oneof![1 => select(unread), 9 => fields]
}

fn records(
    resource: Resource,
    metas: impl Strategy<Value = ObjectMeta> + 'static,
    fields: impl Strategy<Value = Fields> + 'static,
) -> BoxedStrategy<(Resource, Record)> {
    let record = (metas, read(resource, fields));
    record
        .prop_map(move |(meta, fields)| (resource, Record { meta, fields }))
        .boxed()
}

fn cron_jobs() -> BoxedStrategy<(Resource, Record)> {
    let limits = || {
        select(vec![
            Limit::Unknown,
            Limit::Unset,
            Limit::Jobs(-1),
            Limit::Jobs(0),
            Limit::Jobs(1),
            Limit::Jobs(1),
            Limit::Jobs(2),
        ])
    };
    let fields = (limits(), limits()).prop_map(|(successful_limit, failed_limit)| {
        Fields::CronJob(fields::CronJob {
            successful_limit,
            failed_limit,
            template_labels: None,
        })
    });
    records(
        Resource::CronJobs,
        metas(&["a", "b"], &["c0", "c1"], &[], &["c0"]),
        fields,
    )
}

fn jobs() -> BoxedStrategy<(Resource, Record)> {
    let ends = select(vec!["Complete", "Complete", "Failed", "Suspended"]);
    let starts = select(vec![
        StartTime::Unknown,
        StartTime::Unset,
        StartTime::At(Timestamp::from_secs(1)),
        StartTime::At(Timestamp::from_secs(2)),
        StartTime::At(Timestamp::from_secs(3)),
    ]);
    let fields = option::weighted(0.9, (ends, starts)).prop_map(|status| {
        let status = status.map(|(end, start_time)| Status {
            conditions: vec![Condition::new(end, "True")],
            start_time,
        });
        Fields::Job(fields::Job {
            ttl: Ttl::Unset,
            status,
        })
    });
    let metas = metas(
        &["a", "a", "b"],
        &["j0", "j1", "j2", "j3", "j4"],
        &[],
        &["c0", "c1"],
    );
    records(Resource::Jobs, metas, fields)
}

const CLAIMS: &[&str] = &["d-s-0", "d-s-1", "d-x-s-0", "p-e", "d-s-y"];

fn volumes() -> BoxedStrategy<(Resource, Record)> {
    let phases = select(vec!["Bound", "Released", "Released", "Failed", "Available"]);
    let policies = select(vec!["Delete", "Delete", "Recycle", "Retain"]);
    let claim = (texts(&["a", "a", "b"]), texts(CLAIMS), 0..4_u8);
    let provisioner = option::of(select(vec![IN_TREE, OUTSIDE, ""]));
    let fields = (phases, policies, claim, provisioner, 0..16_u8).prop_map(
        |(phase, policy, claim, provisioned_by, odds)| {
            let (namespace, name, uid) = claim;
            let uid = match uid {
                0 => String::new(),
                _ => format!("uid-{name}"),
            };
            let mut fields = fields::PersistentVolume {
                phase: Phase::from(phase),
                policy: Policy::from(policy),
                claim_ref: Holder::Claim(ClaimRef::new(&namespace, &name, &uid)),
                mode: None,
                annotations: Some(Annotations {
                    provisioned_by: provisioned_by.map(Into::into),
                    ..Annotations::default()
                }),
            };
            match odds {
                0 => fields.phase = Phase::Unknown,
                1 => fields.policy = Policy::Unknown,
                2 => fields.claim_ref = Holder::Unknown,
                3 => fields.claim_ref = Holder::Nobody,
                4 => fields.annotations = None,
                _ => {}
            }
            Fields::PersistentVolume(fields)
        },
    );
    let finalizers = &[FINALIZER_VOLUME_PROTECTION, FINALIZER_EXTERNAL, FINALIZER_IN_TREE];
    let metas = metas(&[""], &["v0", "v1", "v2", "v3"], finalizers, &["c0"]);
    records(Resource::PersistentVolumes, metas, fields)
}

fn claims() -> BoxedStrategy<(Resource, Record)> {
    let fields = texts(&["", "v0", "v1", "v2", "v3"]).prop_map(|volume_name| {
        Fields::PersistentVolumeClaim(fields::PersistentVolumeClaim {
            volume_name,
            mode: None,
        })
    });
    let finalizers = &[FINALIZER_CLAIM_PROTECTION];
    let metas = metas(&["a", "a", "b"], CLAIMS, finalizers, &["s", "x-s", "p"]);
    records(Resource::PersistentVolumeClaims, metas, fields)
}

fn pods() -> BoxedStrategy<(Resource, Record)> {
    let sources = prop_oneof![
        3 => texts(CLAIMS).prop_map(Source::Claim),
        1 => Just(Source::Ephemeral),
        1 => Just(Source::Other),
    ];
    let volumes = vec(
        sources.prop_map(|source| PodVolume {
            name: "e".into(),
            source,
        }),
        0..3,
    );
    let secrets = vec(texts(&["t0", "t1", "t2", "t3"]), 0..3);
    let fields = (
        option::weighted(0.9, texts(&["", "n", "n"])),
        option::weighted(0.8, select(vec!["Running", "Succeeded"])),
        option::weighted(0.9, volumes),
        option::weighted(0.9, secrets),
    )
        .prop_map(|(node_name, phase, volumes, secrets)| {
            Fields::Pod(fields::Pod {
                node_name,
                status: phase.map(pod::Status::new),
                volumes,
                secrets: secrets.map(|mut secrets| {
                    secrets.sort_unstable();
                    secrets.dedup();
                    secrets
                }),
            })
        });
    let metas = metas(
        &["a", "a", "b"],
        &["p", "q", "s-0", "s-1", "x-s-0", "s-x"],
        &[],
        &["s", "s", "x-s"],
    );
    records(Resource::Pods, metas, fields)
}

fn stateful_sets() -> BoxedStrategy<(Resource, Record)> {
    let retention = || {
        select(vec![
            Retention::Delete,
            Retention::Delete,
            Retention::Retain,
            Retention::Unknown,
            Retention::Other("Burn".into()),
        ])
    };
    let templates = vec(texts(&["d", "d-x", "p"]), 0..3);
    let fields = (
        option::weighted(0.9, 0..3_i32),
        retention(),
        retention(),
        templates,
    )
        .prop_map(|(replicas, when_deleted, when_scaled, templates)| {
            Fields::StatefulSet(fields::StatefulSet {
                replicas,
                first_ordinal: Some(0),
                when_deleted,
                when_scaled,
                templates,
            })
        });
    // Seldom deleted: such a set does nothing.
    let metas =
        (metas(&["a", "a", "b"], &["s", "x-s"], &[], &["c0"]), 0..4_u8).prop_map(|(mut meta, odds)| {
            meta.deletion_timestamp.take_if(|_| odds > 0);
            meta
        });
    records(Resource::StatefulSets, metas, fields)
}

fn secrets() -> BoxedStrategy<(Resource, Record)> {
    let types = option::weighted(0.9, select(vec![SECRET_TYPE, SECRET_TYPE, SECRET_TYPE, "Opaque"]));
    let accounts = option::weighted(0.9, texts(&["sa0", "sa0", "sa1", ""]));
    let uids = option::weighted(0.9, texts(&["", "", "uid-sa0"]));
    let fields = (types, accounts, uids).prop_map(|(secret_type, account_name, account_uid)| {
        Fields::Secret(fields::Secret {
            secret_type: secret_type.map(Into::into),
            account_name,
            account_uid,
            ..fields::Secret::default()
        })
    });
    let marks = option::of(select(vec!["1970-01-11", "1970-01-13", "1970-01-15", "garbage"]));
    let metas = metas(&["a", "a", "b"], &["t0", "t1", "t2", "t3"], &[], &["c0"]);
    let metas = (metas, marks, -1..8_i64, 0..4_u8).prop_map(|(mut meta, mark, created, odds)| {
        let label = mark.map(|mark| (LABEL_INVALID_SINCE.into(), mark.into()));
        meta.labels.extend(label);
        meta.deletion_timestamp.take_if(|_| odds > 0);
        // From some days before the run to some days into it.
        let day = (created + 10) * 86_400 + 3_600;
        meta.creation_timestamp = (created >= 0).then(|| Timestamp::from_secs(day));
        meta
    });
    records(Resource::Secrets, metas, fields)
}

fn accounts() -> BoxedStrategy<(Resource, Record)> {
    let secrets = vec(texts(&["t0", "t1", "t2", "t3"]), 1..5);
    let fields = option::weighted(0.9, secrets)
        .prop_map(|secrets| Fields::ServiceAccount(fields::ServiceAccount { secrets }));
    let metas = metas(&["a", "a", "b"], &["sa0", "sa1"], &[], &["c0"]);
    records(Resource::ServiceAccounts, metas, fields)
}

fn config_maps() -> BoxedStrategy<(Resource, Record)> {
    let since = option::weighted(0.9, texts(&["1970-01-01", "1970-01-01", "1970-01-14", "garbage"]));
    let fields = since.prop_map(|since| Fields::ConfigMap(fields::ConfigMap { since }));
    let metas = metas(&["kube-system"], &[TRACKING, TRACKING, "other"], &[], &["c0"]);
    records(Resource::ConfigMaps, metas, fields)
}

/// Any object, with its resource.
pub(crate) fn any_record() -> impl Strategy<Value = (Resource, Record)> {
    prop_oneof![
        2 => cron_jobs(),
        5 => jobs(),
        4 => volumes(),
        5 => claims(),
        6 => pods(),
        3 => stateful_sets(),
        4 => secrets(),
        2 => accounts(),
        2 => config_maps(),
    ]
}

pub(crate) const RESOURCES: [Resource; 9] = [
    Resource::CronJobs,
    Resource::Jobs,
    Resource::PersistentVolumes,
    Resource::PersistentVolumeClaims,
    Resource::Pods,
    Resource::StatefulSets,
    Resource::Secrets,
    Resource::ServiceAccounts,
    Resource::ConfigMaps,
];
