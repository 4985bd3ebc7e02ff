//! Laws: rendered records are read again, the order of files does not matter, and all forms of a patch do the
//! same.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_controllers::{Documents, FieldChange, Form, Write};
use kubegc_core::{
    Catalog, KubernetesVersion, LabelRequirement, LabelSelector, ObjectMeta, OwnerReference, PatchType,
    Preconditions, Timestamp,
    record::{
        Body, Certificate, CertificateSigningRequest, ClaimRef, ClaimRetentionPolicy, Condition, ConfigMap,
        Consumer, ControllerRevision, CronJob, DaemonSet, Deployment, DeploymentStrategy, Endpoints, Field,
        IntOrPercent, Job, JobCounts, Lease, Namespace, Node, ObjectId, PersistentVolume,
        PersistentVolumeClaim, PersistentVolumeSource, Pod, PodVolume, Record, ReplicaSet, Resource,
        ResourceClaim, Secret, Service, ServiceAccount, ServiceCidr, StatefulSet, Taint, Toleration,
        VolumeAnnotations, VolumeAttachment, VolumeSource,
    },
};
use kubegc_sim::{ApiServer, Manifest, Settings};
use kubegc_snapshot::JsonDocuments;
use proptest::{
    collection::{btree_map, btree_set, vec},
    option,
    prelude::*,
    sample::select,
};
use serde_json::{Value, json};

use crate::common::{object, snapshot};

/// Any text, including characters that JSON escapes.
fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        select(vec![
            "",
            "a",
            "True",
            "secretRef",
            "\"\\\n\u{1}",
            "\u{e9}\u{1f600}",
            "?",
            "null",
            "7"
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,12}",
    ]
    .prop_map(Into::into)
}

fn name() -> impl Strategy<Value = Arc<str>> {
    "[a-z][a-z0-9-]{0,8}".prop_map(Into::into)
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        any::<i64>(),
        (-9_000_000_000_i64..9_000_000_000).prop_map(|seconds| seconds * 1_000_000_000),
    ]
    .prop_map(Timestamp::from_nanos)
}

/// A date of whole seconds, as conditions have it.
fn date() -> impl Strategy<Value = Timestamp> {
    (-9_000_000_000_i64..9_000_000_000).prop_map(Timestamp::from_secs)
}

/// A value that is known or not.
fn field<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Field<T>> {
    option::of(value).prop_map(|value| value.map_or(Field::Unread, Field::Known))
}

fn condition(types: &'static [&'static str]) -> impl Strategy<Value = Condition> {
    let condition_type = if types.is_empty() {
        text().boxed()
    } else {
        select(types).prop_map(Into::into).boxed()
    };
    let times = (option::of(date()), option::of(date()), 0_i64..3);
    (condition_type, text(), text(), text(), times).prop_map(
        |(condition_type, status, reason, message, (transition, update, observed_generation))| Condition {
            condition_type,
            status,
            reason,
            message,
            last_transition_time: transition,
            last_update_time: update,
            observed_generation,
        },
    )
}

fn conditions(types: &'static [&'static str]) -> impl Strategy<Value = Field<Vec<Condition>>> {
    field(vec(condition(types), 0..4))
}

fn certificate() -> impl Strategy<Value = Certificate> {
    let malformed = select(vec![
        "expected the certificate associated with the CSR to be PEM encoded",
        "no certificates found",
        "unable to parse certificate data: x509: malformed certificate",
    ]);
    prop_oneof![
        select(vec![Certificate::Absent, Certificate::Empty]),
        malformed.prop_map(|text| Certificate::Malformed(text.into())),
        // X.509 is written from 1970 on.
        time().prop_map(|time| Certificate::NotAfter(time.truncate_to_secs().max(Timestamp::from_nanos(0)))),
        Just(Certificate::NotAfter(Timestamp::from_nanos(i64::MAX))),
    ]
}

fn pods() -> impl Strategy<Value = Pod> {
    let source = prop_oneof![
        Just(VolumeSource::Ephemeral),
        text().prop_map(VolumeSource::Claim)
    ];
    let volume = (text(), source).prop_map(|(name, source)| PodVolume { name, source });
    let secrets = btree_set(name(), 0..4).prop_map(|names| names.into_iter().collect());
    let toleration = (text(), text(), text(), text(), option::of(any::<i64>())).prop_map(
        |(key, operator, value, effect, toleration_seconds)| Toleration {
            key,
            operator,
            value,
            effect,
            toleration_seconds,
        },
    );
    let spec = (
        field(text()),
        field(vec(volume, 0..4)),
        field(secrets),
        field(option::of(any::<i64>())),
        field(vec(toleration, 0..3)),
    );
    let status = (
        field(text()),
        field(text()),
        conditions(&["DisruptionTarget"]),
        field(any::<bool>()),
    );
    let of_workloads = (
        field(option::of(any::<i32>())),
        restarts(),
        field(text()),
        field(option::of(time().prop_map(|time| time.truncate_to_secs()))),
        field(any::<i32>()),
    );
    (spec, status, of_workloads).prop_map(
        |((node_name, volumes, secrets, termination_grace_period_seconds, tolerations), status, more)| {
            let (phase, reason, conditions, containers_stopped) = status;
            let (completion_index, restarts, pod_group, ready_at, cost) = more;
            Pod {
                node_name,
                phase,
                reason,
                conditions,
                volumes,
                secrets,
                termination_grace_period_seconds,
                tolerations,
                containers_stopped,
                completion_index,
                restart_count: restarts.map(|(sum, _)| sum),
                restart_count_max: restarts.map(|(_, most)| most),
                ready_at,
                deletion_cost: cost,
                pod_group,
            }
        },
    )
}

/// The sum and the maximum of restarts.
fn restarts() -> impl Strategy<Value = Field<(i64, i64)>> {
    let others = any::<i32>().prop_map(i64::from);
    field((others, 0..i64::from(i32::MAX)).prop_map(|(others, most)| (others + most, most)))
}

/// A selector of a workload.
fn selector() -> impl Strategy<Value = Field<LabelSelector>> {
    let values = option::of(vec(text(), 0..3));
    let requirement = (text(), any::<bool>(), values).prop_map(|(key, is_wanted, values)| LabelRequirement {
        key,
        is_wanted,
        values,
    });
    let labels = btree_map(text(), text(), 0..3);
    field(
        (labels, vec(requirement, 0..3)).prop_map(|(match_labels, match_expressions)| LabelSelector {
            match_labels,
            match_expressions,
        }),
    )
}

fn strategy() -> impl Strategy<Value = Field<DeploymentStrategy>> {
    let share = || {
        prop_oneof![
            any::<i32>().prop_map(IntOrPercent::Int),
            any::<i32>().prop_map(IntOrPercent::Percent)
        ]
    };
    let rolling =
        (share(), share()).prop_map(|(max_unavailable, max_surge)| DeploymentStrategy::RollingUpdate {
            max_unavailable,
            max_surge,
        });
    let others = select(vec![DeploymentStrategy::Unset, DeploymentStrategy::Recreate]);
    field(prop_oneof![others, rolling])
}

fn volumes() -> impl Strategy<Value = PersistentVolume> {
    let claim = (text(), text(), text()).prop_map(|(namespace, name, uid)| ClaimRef {
        namespace,
        name,
        uid: (&*uid).into(),
    });
    let annotations = (option::of(text()), any::<bool>(), option::of(text())).prop_map(
        |(provisioned_by, bound_by_controller, migrated_to)| VolumeAnnotations {
            provisioned_by,
            bound_by_controller,
            migrated_to,
        },
    );
    (
        field(text()),
        field(text()),
        field(option::of(claim)),
        field(option::of(text())),
        field(annotations),
        field(text()),
        // Every volume in a dump has a source.
        field(prop_oneof![
            (text(), text()).prop_map(|(driver, handle)| PersistentVolumeSource::Csi { driver, handle }),
            text().prop_map(|path| PersistentVolumeSource::HostPath { path }),
            select(vec!["local", "nfs", "awsElasticBlockStore", "scaleIO"])
                .prop_map(PersistentVolumeSource::Other),
        ]),
    )
        .prop_map(
            |(phase, reclaim_policy, claim_ref, volume_mode, annotations, attributes_class, source)| {
                PersistentVolume {
                    attributes_class,
                    source,
                    phase,
                    reclaim_policy,
                    claim_ref,
                    volume_mode,
                    annotations,
                }
            },
        )
}

fn secrets() -> impl Strategy<Value = Secret> {
    // Only bootstrap tokens expire.
    let typed = prop_oneof![
        field(text()).prop_map(|secret_type| (secret_type, Field::Unread)),
        field(text())
            .prop_map(|expiration| (Field::Known("bootstrap.kubernetes.io/token".into()), expiration)),
    ];
    (typed, field(text()), field(text())).prop_map(
        |((secret_type, expiration), service_account_name, service_account_uid)| Secret {
            secret_type,
            service_account_name,
            service_account_uid,
            expiration,
        },
    )
}

fn stateful_sets() -> impl Strategy<Value = StatefulSet> {
    let policy = (text(), text()).prop_map(|(when_deleted, when_scaled)| ClaimRetentionPolicy {
        when_deleted,
        when_scaled,
    });
    (
        field(any::<i32>()),
        field(any::<i32>()),
        field(option::of(policy)),
        field(vec(text(), 0..3)),
        field(option::of(any::<i32>())),
        field(text()),
        field(text()),
        field(any::<i64>()),
    )
        .prop_map(
            |(
                replicas,
                first_ordinal,
                retention_policy,
                claim_templates,
                revision_history_limit,
                current_revision,
                update_revision,
                observed_generation,
            )| StatefulSet {
                revision_history_limit,
                current_revision,
                update_revision,
                observed_generation,
                replicas,
                first_ordinal,
                retention_policy,
                claim_templates,
            },
        )
}

fn jobs() -> impl Strategy<Value = Job> {
    let uids = || vec(text().prop_map(|uid| (&*uid).into()), 0..3);
    let counts = (any::<i32>(), any::<i32>(), uids(), uids(), text()).prop_map(
        |(succeeded, failed, uncounted_succeeded, uncounted_failed, completed_indexes)| JobCounts {
            succeeded,
            failed,
            uncounted_succeeded,
            uncounted_failed,
            completed_indexes,
        },
    );
    let number = || field(option::of(any::<i32>()));
    let numbers = (number(), number(), number(), number());
    let times = (field(option::of(time())), field(option::of(any::<i64>())));
    let texts = (field(text()), field(text()), field(text()), field(text()));
    let flags = proptest::array::uniform5(field(any::<bool>()));
    (
        numbers,
        times,
        texts,
        flags,
        conditions(&["Complete", "Failed"]),
        field(counts),
    )
        .prop_map(|(numbers, times, texts, flags, conditions, counts)| Job {
            ttl_seconds_after_finished: numbers.0,
            parallelism: numbers.1,
            completions: numbers.2,
            backoff_limit: numbers.3,
            start_time: times.0,
            active_deadline_seconds: times.1,
            completion_mode: texts.0,
            pod_replacement_policy: texts.1,
            managed_by: texts.2,
            restart_policy: texts.3,
            is_suspended: flags[0],
            has_backoff_limit_per_index: flags[1],
            has_pod_failure_policy: flags[2],
            has_success_policy: flags[3],
            has_tracking_annotation: flags[4],
            conditions,
            counts,
        })
}

/// Kinds of which controllers write few fields.
fn others() -> impl Strategy<Value = (Resource, Body)> {
    let generation = || field(any::<i64>());
    let count = || field(any::<i32>());
    let digest = || field(any::<u64>());
    // An API server never leaves the limit of a Deployment out.
    let limit = field(any::<i32>().prop_map(Some));
    let deployment = (
        limit,
        field(any::<bool>()),
        count(),
        (selector(), strategy(), digest()),
        field(any::<[i32; 3]>()),
        generation(),
    )
        .prop_map(
            |(revision_history_limit, is_paused, replicas, more, status_replicas, generation)| {
                let (selector, strategy, template_digest) = more;
                Deployment {
                    revision_history_limit,
                    is_paused,
                    replicas,
                    selector,
                    strategy,
                    template_digest,
                    status_replicas,
                    observed_generation: generation,
                }
            },
        );
    let replica_set = (
        (count(), selector(), digest()),
        field(text()),
        (count(), count(), generation()),
    )
        .prop_map(|(spec, revision, status)| {
            let (replicas, selector, template_digest) = spec;
            let (status_replicas, available_replicas, observed_generation) = status;
            ReplicaSet {
                replicas,
                selector,
                template_digest,
                revision,
                status_replicas,
                available_replicas,
                observed_generation,
            }
        });
    let daemon_set = (field(option::of(any::<i32>())), selector(), generation()).prop_map(
        |(revision_history_limit, selector, observed_generation)| DaemonSet {
            selector,
            revision_history_limit,
            observed_generation,
        },
    );
    let consumer = (text(), text(), text(), text()).prop_map(|(api_group, resource, name, uid)| Consumer {
        api_group,
        resource,
        name,
        uid: (&*uid).into(),
    });
    let claim = (field(vec(consumer, 0..3)), field(any::<bool>()), field(text())).prop_map(
        |(reserved_for, is_allocated, allocation_mode)| ResourceClaim {
            reserved_for,
            is_allocated,
            allocation_mode,
        },
    );
    let attachment = (field(text()), field(text())).prop_map(|(node_name, volume_name)| VolumeAttachment {
        node_name,
        volume_name,
    });
    let has = || field(any::<bool>());
    prop_oneof![
        deployment.prop_map(|it| (Resource::Deployments, Body::Deployment(it))),
        replica_set.prop_map(|it| (Resource::ReplicaSets, Body::ReplicaSet(it))),
        daemon_set.prop_map(|it| (Resource::DaemonSets, Body::DaemonSet(it))),
        claim.prop_map(|it| (Resource::ResourceClaims, Body::ResourceClaim(it))),
        attachment.prop_map(|it| (Resource::VolumeAttachments, Body::VolumeAttachment(it))),
        generation().prop_map(|revision| {
            let body = Body::ControllerRevision(ControllerRevision { revision });
            (Resource::ControllerRevisions, body)
        }),
        has().prop_map(|has_selector| (Resource::Services, Body::Service(Service { has_selector }))),
        has().prop_map(|has_leader_annotation| {
            let body = Body::Endpoints(Endpoints {
                has_leader_annotation,
            });
            (Resource::Endpoints, body)
        }),
        field(vec(text(), 0..3))
            .prop_map(|cidrs| (Resource::ServiceCidrs, Body::ServiceCidr(ServiceCidr { cidrs }))),
    ]
}

fn bodies() -> impl Strategy<Value = (Resource, Body)> {
    let request = (conditions(&[]), field(certificate())).prop_map(|(conditions, certificate)| {
        CertificateSigningRequest {
            conditions,
            certificate,
        }
    });
    let config_map = field(option::of(text())).prop_map(|since| ConfigMap { since });
    // An API server never leaves a limit out.
    let limit = || field(any::<i32>().prop_map(Some));
    let cron_job = (limit(), limit(), field(btree_map(text(), text(), 0..3))).prop_map(
        |(successful, failed, template_labels)| CronJob {
            successful_jobs_history_limit: successful,
            failed_jobs_history_limit: failed,
            template_labels,
        },
    );
    let lease = (field(option::of(time())), field(option::of(any::<i32>()))).prop_map(
        |(renew_time, lease_duration_seconds)| Lease {
            renew_time,
            lease_duration_seconds,
        },
    );
    let namespace = (field(text()), field(vec(text(), 0..3)), conditions(&[])).prop_map(
        |(phase, finalizers, conditions)| Namespace {
            phase,
            finalizers,
            conditions,
        },
    );
    let taint =
        (text(), text(), text(), option::of(date())).prop_map(|(key, effect, value, time_added)| Taint {
            key,
            effect,
            value,
            time_added,
        });
    let node = (
        conditions(&["Ready"]),
        field(vec(taint, 0..3)),
        field(text()),
        field(vec(text(), 0..3)),
    )
        .prop_map(|(conditions, taints, provider_id, volumes_in_use)| Node {
            volumes_in_use,
            conditions,
            taints,
            provider_id,
        });
    let classes = btree_set(name(), 0..4).prop_map(|names| names.into_iter().take(3).collect());
    let claim = (field(text()), field(option::of(text())), field(classes)).prop_map(
        |(volume_name, volume_mode, attributes_classes)| PersistentVolumeClaim {
            volume_name,
            volume_mode,
            attributes_classes,
        },
    );
    let account = field(vec(text(), 0..3)).prop_map(|secrets| ServiceAccount { secrets });
    let first = prop_oneof![
        request.prop_map(|it| (
            Resource::CertificateSigningRequests,
            Body::CertificateSigningRequest(it)
        )),
        config_map.prop_map(|it| (Resource::ConfigMaps, Body::ConfigMap(it))),
        cron_job.prop_map(|it| (Resource::CronJobs, Body::CronJob(it))),
        jobs().prop_map(|it| (Resource::Jobs, Body::Job(it))),
        lease.prop_map(|it| (Resource::Leases, Body::Lease(it))),
        namespace.prop_map(|it| (Resource::Namespaces, Body::Namespace(it))),
        node.prop_map(|it| (Resource::Nodes, Body::Node(it))),
        claim.prop_map(|it| (Resource::PersistentVolumeClaims, Body::PersistentVolumeClaim(it))),
        volumes().prop_map(|it| (Resource::PersistentVolumes, Body::PersistentVolume(it))),
        pods().prop_map(|it| (Resource::Pods, Body::Pod(it))),
        secrets().prop_map(|it| (Resource::Secrets, Body::Secret(it))),
        account.prop_map(|it| (Resource::ServiceAccounts, Body::ServiceAccount(it))),
        stateful_sets().prop_map(|it| (Resource::StatefulSets, Body::StatefulSet(it))),
    ];
    prop_oneof![3 => first, 2 => others()]
}

/// All kinds with fields.
fn resources() -> Vec<Resource> {
    let all = Resource::ALL.iter().copied();
    let has_fields = |resource: &Resource| {
        !matches!(
            resource,
            Resource::EndpointSlices
                | Resource::IpAddresses
                | Resource::PodCertificateRequests
                | Resource::PodGroups
                | Resource::VolumeAttributesClasses
        )
    };
    all.filter(has_fields).collect()
}

fn fields(body: &Body) -> Value {
    Value::Object(JsonDocuments::fields(body))
}

fn read(resource: Resource, document: &Value) -> Body {
    let documents = JsonDocuments::default();
    let read = documents.read(resource, document.to_string().as_bytes());
    Body::clone(&read.expect("good metadata").body)
}

/// Whether no field of a body is known.
fn is_all_unread(body: &Body) -> bool {
    let text = format!("{body:?}");
    text.contains("Unread") && !text.contains("Known")
}

#[test]
fn a_simulation_reads_no_more_than_the_dump() {
    let server = ApiServer::new(
        KubernetesVersion::LATEST,
        Catalog::builtin(KubernetesVersion::LATEST),
    );
    for resource in resources() {
        let document = object(resource, fields(&Body::Unread));
        let unread = read(resource, &document);
        assert!(is_all_unread(&unread), "{resource:?}: {unread:?}");
        let mut server = server.clone();
        let manifest = Manifest::read(object(resource, fields(&unread))).expect("an object");
        let kind = server
            .catalog()
            .mapping(&manifest.api_version, &manifest.kind)
            .expect("served");
        let (namespace, name) = (
            manifest.object.meta.namespace.clone(),
            manifest.object.meta.name.clone(),
        );
        server.insert(kind, manifest.object).expect("stored");
        let stored = server.object(kind, &namespace, &name).expect("there");
        let served = stored.to_json(&server.catalog()[kind]);
        assert_eq!(read(resource, &served), unread, "{resource:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rendered_records_survive_a_round_trip((resource, expected) in bodies()) {
        let mut document = object(resource, fields(&expected));
        // The containers of a pod are read only while it is being deleted.
        document["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z".into();
        prop_assert_eq!(read(resource, &document), expected.clone(), "{}", document);
        // The same holds for a dump.
        let found = snapshot(&document.to_string()).record_at(0).map(|record| record.body);
        prop_assert_eq!(found.as_deref(), Some(&expected));
    }

    #[test]
    fn random_documents_do_not_panic((resource, of_body) in bodies(), at in any::<prop::sample::Index>(), noise in any::<u8>()) {
        let mut text = object(resource, fields(&of_body)).to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = noise;
        let documents = JsonDocuments::default();
        let write = write(Form::Update, Preconditions::default(), vec![FieldChange::AddFinalizer("x")]);
        let _may_fail = (documents.read(resource, &text), documents.write(&write, &text), documents.replace(&write, &text));
    }
}

fn write(form: Form, precondition: Preconditions, changes: Vec<FieldChange>) -> Write {
    Write {
        object: ObjectId::new(
            Resource::PersistentVolumeClaims,
            &ObjectMeta::new("shop", "a", "u-a"),
        ),
        subresource: "",
        form,
        precondition,
        changes,
    }
}

/// Objects of several kinds, some of them twice, at other versions, and flawed.
fn documents() -> Vec<String> {
    let mut all = Vec::new();
    for (at, resource) in resources().into_iter().enumerate() {
        let base = object(resource, fields(&Body::Unread));
        let mut newer = object(
            resource,
            json!({
                "spec": { "nodeName": "n", "replicas": 2, "taints": [{ "key": "k" }], "volumeName": "v" },
                "status": { "phase": "Failed", "conditions": [{ "type": "Ready", "status": "True" }] },
                "type": "t", "data": { "since": "s" }, "secrets": [{ "name": "s" }],
            }),
        );
        newer["metadata"]["resourceVersion"] = (7 + at % 3).to_string().into();
        let mut flawed = newer.clone();
        flawed["metadata"]["name"] = "b".into();
        flawed["metadata"]["uid"] = "u-b".into();
        flawed["spec"] = json!({ "nodeName": 7, "taints": 7, "replicas": "x", "claimRef": 7, "volumeName": 7, "ttlSecondsAfterFinished": "x" });
        flawed["data"] = 7.into();
        all.extend([base, newer, flawed].map(|document| document.to_string()));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_order_of_files_changes_no_record(order in Just(documents()).prop_shuffle(), cut in 1_usize..60) {
        let records = |parts: &[&[String]]| {
            let mut reader = kubegc_snapshot::Reader::new(KubernetesVersion::LATEST);
            for part in parts {
                reader.read("f", part.join("\n").as_bytes()).expect("documents");
            }
            let snapshot = reader.finish().expect("a snapshot");
            let records: Vec<Record> = snapshot.views().map(|view| view.record()).collect();
            (records, snapshot.finding_counts)
        };
        let (one, two) = order.split_at(cut);
        prop_assert_eq!(records(&[one, two]), records(&[&documents()]));
    }
}

static KEYS: [&str; 3] = ["example.com/a", "example.com/b", "example.com/c"];

/// An object with lists of all sorts, and changes of its metadata, or of its status.
fn changed() -> impl Strategy<Value = (Value, Vec<FieldChange>, bool)> {
    let entry = |name: &&str| json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("u-{name}"), "controller": false });
    let reference = |name: &str| OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.into(),
        uid: format!("u-{name}").as_str().into(),
        controller: Some(false),
        block_owner_deletion: None,
    };
    let some = || prop::sample::subsequence(KEYS.to_vec(), 0..=3).prop_shuffle();
    let document = (some(), some(), some(), some(), some(), any::<bool>()).prop_map(
        move |(finalizers, owners, labels, annotations, conditions, is_bare)| {
            if is_bare {
                return object(Resource::PersistentVolumeClaims, json!({ "spec": {} }));
            }
            let owners: Vec<Value> = owners.iter().map(entry).collect();
            let pairs = |keys: Vec<&'static str>| keys.into_iter().map(|key| (key, "old")).collect::<BTreeMap<_, _>>();
            let conditions: Vec<Value> = conditions.iter().map(|kind| json!({ "type": kind, "status": "False", "extra": "kept", "reason": "Old" })).collect();
            object(Resource::PersistentVolumeClaims, json!({
                "metadata": { "finalizers": finalizers, "ownerReferences": owners, "labels": pairs(labels), "annotations": pairs(annotations) },
                "spec": { "volumeName": "pv" }, "status": { "phase": "Bound", "conditions": conditions },
            }))
        },
    );
    // No controller changes one list twice: a strategic patch could not express every order that this may
    // leave.
    let finalizer = prop_oneof![
        select(&KEYS[..]).prop_map(FieldChange::AddFinalizer),
        select(&KEYS[..]).prop_map(FieldChange::RemoveFinalizer),
    ];
    let owners = some()
        .prop_map(move |names| FieldChange::OwnerReferences(names.into_iter().map(reference).collect()));
    let pair = || (select(&KEYS[..]), select(vec!["old", "new"]));
    let text = prop_oneof![
        pair().prop_map(|(key, value)| FieldChange::Label {
            key,
            value: value.to_owned()
        }),
        pair().prop_map(|(key, value)| FieldChange::Annotation {
            key,
            value: value.to_owned()
        }),
        select(&KEYS[..]).prop_map(FieldChange::RemoveAnnotation),
    ];
    let of_meta = (option::of(finalizer), option::of(owners), vec(text, 0..4)).prop_map(
        |(finalizer, owners, texts)| {
            finalizer
                .into_iter()
                .chain(owners)
                .chain(texts)
                .collect::<Vec<_>>()
        },
    );
    let of_status = prop_oneof![
        select(vec!["Bound", "Lost"]).prop_map(|phase| FieldChange::Phase(phase.into())),
        condition(&KEYS).prop_map(FieldChange::Condition),
    ];
    let changes = prop_oneof![
        of_meta.prop_map(|changes| (changes, false)),
        vec(of_status, 0..4).prop_map(|changes| (changes, true)),
    ];
    (document, changes).prop_map(|(document, (changes, is_status))| (document, changes, is_status))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn all_forms_of_a_patch_do_the_same((document, changes, is_status) in changed()) {
        let settings = Settings { namespaces_must_exist: false, ..Settings::default() };
        let server = ApiServer::new(KubernetesVersion::LATEST, Catalog::builtin(KubernetesVersion::LATEST));
        let mut server = server.with_settings(settings);
        let manifest = Manifest::read(document).expect("an object");
        let kind = server.catalog().mapping("v1", "PersistentVolumeClaim").expect("built in");
        server.insert(kind, manifest.object).expect("stored");
        let documents = JsonDocuments::default();
        let whole = |server: &ApiServer| {
            let stored = server.object(kind, "shop", "a").expect("there");
            stored.to_json(&server.catalog()[kind])
        };
        let send = |server: &mut ApiServer, form: PatchType, body: &[u8]| {
            let form = form.content_type();
            if is_status {
                server.patch_subresource(kind, "shop", "a", "status", form, body)
            } else {
                server.patch(kind, "shop", "a", form, body)
            }
        };
        let expect = Preconditions::uid("u-a".into());
        let mut outcomes = Vec::new();
        // Strategic patches are sent of statuses only.
        let strategic = is_status.then_some(Form::Patch(PatchType::Strategic));
        let others = [Form::Update, Form::Patch(PatchType::Merge), Form::Patch(PatchType::Json)];
        for form in others.into_iter().chain(strategic) {
            let mut server = server.clone();
            let text = whole(&server).to_string();
            let write = write(form, expect.clone(), changes.clone());
            let patch = documents.write(&write, text.as_bytes()).expect("good lists");
            if let Some((patch_type, patch)) = &patch {
                let response = send(&mut server, *patch_type, patch);
                prop_assert_eq!(response.code, 200, "{:?} {}", form, String::from_utf8_lossy(patch));
            }
            let mut after = whole(&server);
            let again = documents.write(&write, after.to_string().as_bytes()).expect("good lists");
            prop_assert_eq!(again, None, "{:?}: nothing is left to change", form);
            after["metadata"]["resourceVersion"] = Value::Null;
            after["metadata"]["managedFields"] = Value::Null;
            // The server chooses the place of a new entry.
            for (part, list) in [("metadata", "finalizers"), ("metadata", "ownerReferences"), ("status", "conditions")] {
                if let Some(entries) = after[part][list].as_array_mut() {
                    entries.sort_by_key(ToString::to_string);
                }
            }
            outcomes.push((form, after));
            // An object that has changed is not written.
            if let (Some((patch_type, patch)), Form::Update) = (&patch, form) {
                let bump = br#"{"metadata":{"labels":{"bumped":"yes"}}}"#;
                let mut other = server.clone();
                prop_assert_eq!(other.patch(kind, "shop", "a", PatchType::Merge.content_type(), bump).code, 200);
                prop_assert_eq!(send(&mut other, *patch_type, patch).code, 409);
            }
        }
        let (_, first) = &outcomes[0];
        for (form, outcome) in &outcomes {
            prop_assert_eq!(outcome, first, "{:?} {:?}", form, changes);
        }
    }
}
