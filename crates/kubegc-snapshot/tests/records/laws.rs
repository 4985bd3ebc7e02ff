//! Laws: what is written is read, unknown fields stay unknown, the order of files means nothing, and all forms of a patch do the same.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    Catalog, KubernetesVersion, ObjectMeta, OwnerReference, PatchType, Preconditions, Timestamp,
};
use kubegc_lifecycle::{
    certificate::Certificate,
    driver::Documents,
    fields::{
        CertificateSigningRequest, ConfigMap, CronJob, Fields, Job, Node, PersistentVolume,
        PersistentVolumeClaim, Pod, Record, Secret, ServiceAccount, StatefulSet,
    },
    history::{self, Limit, StartTime},
    job::Ttl,
    object::{Change, Condition, Form, Resource, Taint},
    pod,
    statefulset::Retention,
    token::bootstrap::{Expiration, SECRET_TYPE},
    volume::{Annotations, ClaimRef, Holder, Phase, PodVolume, Policy, Source},
};
use kubegc_sim::{ApiServer, Manifest};
use kubegc_snapshot::JsonDocuments;
use proptest::{
    collection::{btree_map, btree_set, vec},
    option,
    prelude::*,
    sample::select,
};
use serde_json::{Value, json};

use crate::common::{object, snapshot};

/// Any text, with what JSON escapes among them.
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

fn condition(kinds: &'static [&'static str]) -> impl Strategy<Value = Condition> {
    let kind = if kinds.is_empty() {
        text().boxed()
    } else {
        select(kinds).prop_map(Into::into).boxed()
    };
    (
        kind,
        text(),
        text(),
        text(),
        option::of(time()),
        option::of(time()),
    )
        .prop_map(
            |(kind, status, reason, message, last_transition_time, last_update_time)| Condition {
                kind,
                status,
                reason,
                message,
                last_transition_time,
                last_update_time,
            },
        )
}

fn conditions(kinds: &'static [&'static str]) -> impl Strategy<Value = Vec<Condition>> {
    vec(condition(kinds), 0..4)
}

fn certificate() -> impl Strategy<Value = Certificate> {
    let bad = select(vec![
        "expected the certificate associated with the CSR to be PEM encoded",
        "no certificates found",
        "unable to parse certificate data: x509: malformed certificate",
    ]);
    prop_oneof![
        select(vec![
            Certificate::Unknown,
            Certificate::None,
            Certificate::Empty,
            Certificate::Unread
        ]),
        bad.prop_map(|text| Certificate::Bad(text.into())),
        time().prop_map(|time| Certificate::NotAfter(time.truncate_to_secs())),
        select(vec![i64::MIN, i64::MAX])
            .prop_map(|nanos| Certificate::NotAfter(Timestamp::from_nanos(nanos))),
    ]
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![Just(Limit::Unknown), any::<i32>().prop_map(Limit::Jobs)]
}

fn retention() -> impl Strategy<Value = Retention> {
    let other = text().prop_filter("an empty text is unset", |text| !text.is_empty());
    prop_oneof![
        select(vec![Retention::Unknown, Retention::Retain, Retention::Delete]),
        other.prop_map(|text| Retention::from(&*text)),
    ]
}

fn pods() -> impl Strategy<Value = Pod> {
    let source = prop_oneof![Just(Source::Ephemeral), text().prop_map(Source::Claim)];
    let volume = (text(), source).prop_map(|(name, source)| PodVolume { name, source });
    let status = (text(), text(), conditions(&["DisruptionTarget"]));
    let status = status.prop_map(|(phase, reason, conditions)| pod::Status {
        phase,
        reason,
        conditions,
    });
    let secrets = btree_set(name(), 0..4).prop_map(|names| names.into_iter().collect());
    (
        option::of(text()),
        option::of(status),
        option::of(vec(volume, 0..4)),
        option::of(secrets),
    )
        .prop_map(|(node_name, status, volumes, secrets)| Pod {
            node_name,
            status,
            volumes,
            secrets,
        })
}

fn volumes() -> impl Strategy<Value = PersistentVolume> {
    let claim =
        (text(), text(), text()).prop_map(|(namespace, name, uid)| ClaimRef::new(&namespace, &name, &uid));
    let holder = prop_oneof![
        select(vec![Holder::Unknown, Holder::Nobody]),
        claim.prop_map(Holder::Claim)
    ];
    let other = text().prop_filter("an empty text is not there", |text| !text.is_empty());
    let policy = prop_oneof![
        Just(Policy::Unknown),
        select(vec!["Retain", "Delete", "Recycle"]).prop_map(Policy::from),
        other.prop_map(|text| Policy::from(&*text))
    ];
    let phase = text().prop_filter("an empty text is not there", |text| !text.is_empty());
    let phase = prop_oneof![
        Just(Phase::Unknown),
        phase.prop_map(|text| Phase::from(&*text)),
        Just(Phase::Released)
    ];
    let annotations = (option::of(text()), any::<bool>(), option::of(text())).prop_map(
        |(provisioned_by, is_bound_by_controller, migrated_to)| Annotations {
            provisioned_by,
            is_bound_by_controller,
            migrated_to,
        },
    );
    // Without a spec there is no mode; with one, a mode is absent or there.
    (phase, policy, holder, option::of(text()), option::of(annotations)).prop_map(
        |(phase, policy, claim_ref, mode, annotations)| PersistentVolume {
            phase,
            policy,
            claim_ref,
            mode,
            annotations,
        },
    )
}

fn fields() -> impl Strategy<Value = (Resource, Fields)> {
    let request = (option::of(conditions(&[])), certificate()).prop_map(|(conditions, certificate)| {
        Fields::CertificateSigningRequest(CertificateSigningRequest {
            conditions,
            certificate,
        })
    });
    let config_map = option::of(text()).prop_map(|since| Fields::ConfigMap(ConfigMap { since }));
    let labels = btree_map(text(), text(), 0..3);
    let cron_job = (limit(), limit(), option::of(labels)).prop_map(
        |(successful_limit, failed_limit, template_labels)| {
            Fields::CronJob(CronJob {
                successful_limit,
                failed_limit,
                template_labels,
            })
        },
    );
    let ttl = prop_oneof![
        select(vec![Ttl::Unknown, Ttl::Unset]),
        any::<i32>().prop_map(Ttl::Seconds)
    ];
    let start = prop_oneof![
        select(vec![StartTime::Unknown, StartTime::Unset]),
        time().prop_map(StartTime::At)
    ];
    let status =
        (conditions(&["Complete", "Failed"]), start).prop_map(|(conditions, start_time)| history::Status {
            conditions,
            start_time,
        });
    let job = (ttl, option::of(status)).prop_map(|(ttl, status)| Fields::Job(Job { ttl, status }));
    let taint = (text(), text()).prop_map(|(key, effect)| Taint { key, effect });
    let node = (
        option::of(conditions(&["Ready"])),
        option::of(vec(taint, 0..3)),
        option::of(text()),
    )
        .prop_map(|(conditions, taints, provider_id)| {
            Fields::Node(Node {
                conditions,
                taints,
                provider_id,
            })
        });
    let claim = (text(), option::of(text())).prop_map(|(volume_name, mode)| {
        Fields::PersistentVolumeClaim(PersistentVolumeClaim { volume_name, mode })
    });
    let expiration = prop_oneof![
        select(vec![Expiration::Unknown, Expiration::Absent]),
        text().prop_map(Expiration::Text)
    ];
    // Of all secrets only bootstrap tokens are said to expire.
    let other = text().prop_filter("an empty text is not there", |text| !text.is_empty());
    let typed = prop_oneof![
        option::of(other).prop_map(|of_type| (of_type, Expiration::Unknown)),
        expiration.prop_map(|expiration| (Some(SECRET_TYPE.into()), expiration)),
    ];
    let secret = (typed, option::of(text()), option::of(text())).prop_map(
        |((secret_type, expiration), account_name, account_uid)| {
            Fields::Secret(Secret {
                secret_type,
                account_name,
                account_uid,
                expiration,
            })
        },
    );
    let account =
        option::of(vec(text(), 0..3)).prop_map(|secrets| Fields::ServiceAccount(ServiceAccount { secrets }));
    let set = (
        option::of(any::<i32>()),
        option::of(any::<i32>()),
        retention(),
        retention(),
        vec(text(), 0..3),
    )
        .prop_map(
            |(replicas, first_ordinal, when_deleted, when_scaled, templates)| {
                Fields::StatefulSet(StatefulSet {
                    replicas,
                    first_ordinal,
                    when_deleted,
                    when_scaled,
                    templates,
                })
            },
        );
    let of = |resource| move |fields| (resource, fields);
    prop_oneof![
        request.prop_map(of(Resource::CertificateSigningRequests)),
        config_map.prop_map(of(Resource::ConfigMaps)),
        cron_job.prop_map(of(Resource::CronJobs)),
        job.prop_map(of(Resource::Jobs)),
        node.prop_map(of(Resource::Nodes)),
        claim.prop_map(of(Resource::PersistentVolumeClaims)),
        volumes().prop_map(|volume| (Resource::PersistentVolumes, Fields::PersistentVolume(volume))),
        pods().prop_map(|pod| (Resource::Pods, Fields::Pod(pod))),
        secret.prop_map(of(Resource::Secrets)),
        account.prop_map(of(Resource::ServiceAccounts)),
        set.prop_map(of(Resource::StatefulSets)),
    ]
}

static RESOURCES: [Resource; 11] = [
    Resource::CertificateSigningRequests,
    Resource::ConfigMaps,
    Resource::CronJobs,
    Resource::Jobs,
    Resource::Nodes,
    Resource::PersistentVolumeClaims,
    Resource::PersistentVolumes,
    Resource::Pods,
    Resource::Secrets,
    Resource::ServiceAccounts,
    Resource::StatefulSets,
];

fn record(fields: Fields) -> Record {
    Record {
        meta: ObjectMeta::new("shop", "a", "u-a"),
        fields,
    }
}

fn body(fields: Fields, resource: Resource) -> Value {
    Value::Object(JsonDocuments::body(&record(fields), resource))
}

fn read(resource: Resource, document: &Value) -> Fields {
    let documents = JsonDocuments::default();
    let read = documents.read(resource, document.to_string().as_bytes());
    read.expect("good metadata").fields
}

/// What is known of an object of which nothing was read.
fn unknown(resource: Resource) -> Fields {
    match resource {
        Resource::CertificateSigningRequests => {
            Fields::CertificateSigningRequest(CertificateSigningRequest::default())
        }
        Resource::CronJobs => Fields::CronJob(CronJob::default()),
        Resource::Jobs => Fields::Job(Job::default()),
        Resource::Nodes => Fields::Node(Node::default()),
        Resource::Pods => Fields::Pod(Pod::default()),
        Resource::Secrets => Fields::Secret(Secret::default()),
        Resource::ServiceAccounts => Fields::ServiceAccount(ServiceAccount::default()),
        Resource::PersistentVolumes => Fields::PersistentVolume(PersistentVolume {
            phase: Phase::Unknown,
            policy: Policy::Unknown,
            claim_ref: Holder::Unknown,
            mode: None,
            annotations: None,
        }),
        _ => Fields::Unread,
    }
}

#[test]
fn what_was_not_read_is_written_as_unknown() {
    for resource in RESOURCES {
        let body = body(Fields::Unread, resource);
        assert_eq!(
            read(resource, &object(resource, body)),
            unknown(resource),
            "{resource:?}"
        );
    }
}

#[test]
fn what_is_known_of_a_dump_is_served_by_a_simulation() {
    let server = ApiServer::new(
        KubernetesVersion::LATEST,
        Catalog::builtin(KubernetesVersion::LATEST),
    );
    for resource in RESOURCES {
        for fields in [Fields::Unread, unknown(resource)] {
            let mut server = server.clone();
            let document = object(resource, body(fields, resource));
            let manifest = Manifest::read(document).expect("an object");
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
            assert_eq!(read(resource, &served), unknown(resource), "{resource:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_written_is_read((resource, fields) in fields()) {
        let document = object(resource, body(fields.clone(), resource));
        prop_assert_eq!(read(resource, &document), fields.clone(), "{}", document);
        // A dump of it says the same.
        let found = snapshot(&document.to_string()).record_at(0).map(|record| record.fields);
        prop_assert_eq!(found, Some(fields));
    }

    #[test]
    fn no_document_panics(resource in select(&RESOURCES[..]), (_, fields) in fields(), at in any::<prop::sample::Index>(), noise in any::<u8>()) {
        let mut text = object(resource, body(fields, resource)).to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = noise;
        let documents = JsonDocuments::default();
        let change = Change::AddFinalizer("x");
        let _may_fail = (documents.read(resource, &text), documents.read_namespace(&text), documents.read_pod_item(&text));
        let _may_fail = documents.patch(Form::Replace, &Preconditions::default(), &[change], &text);
    }
}

/// Objects of several kinds, some of them twice, at other versions, and flawed.
fn documents() -> Vec<String> {
    let mut all = Vec::new();
    for (at, resource) in RESOURCES.into_iter().enumerate() {
        let base = object(resource, body(Fields::Unread, resource));
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
    fn the_order_of_files_changes_no_record(order in Just(documents()).prop_shuffle(), cut in 1_usize..32) {
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
fn changed() -> impl Strategy<Value = (Value, Vec<Change>, bool)> {
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
    // No mechanism changes one list twice: a strategic patch could not say every order that this may leave.
    let finalizer = prop_oneof![
        select(&KEYS[..]).prop_map(Change::AddFinalizer),
        select(&KEYS[..]).prop_map(Change::RemoveFinalizer),
    ];
    let owners = prop_oneof![
        some().prop_map(move |names| Change::OwnerReferences(names.into_iter().map(reference).collect())),
        some().prop_map(|names| {
            let uids = names.into_iter().map(|name| format!("u-{name}").as_str().into());
            Change::RemoveOwnerReferences(uids.collect())
        }),
    ];
    let pair = || (select(&KEYS[..]), select(vec!["old", "new"]));
    let text = prop_oneof![
        pair().prop_map(|(key, value)| Change::Label {
            key,
            value: value.to_owned()
        }),
        pair().prop_map(|(key, value)| Change::Annotation {
            key,
            value: value.to_owned()
        }),
        select(&KEYS[..]).prop_map(Change::RemoveAnnotation),
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
        select(vec!["Bound", "Lost"]).prop_map(|phase| Change::Phase(phase.into())),
        condition(&KEYS).prop_map(Change::Condition),
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
        let mut server = ApiServer::new(KubernetesVersion::LATEST, Catalog::builtin(KubernetesVersion::LATEST));
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
        let others = [Form::Replace, Form::Patch(PatchType::Merge), Form::Patch(PatchType::Json)];
        for form in others.into_iter().chain(strategic) {
            let mut server = server.clone();
            let text = whole(&server).to_string();
            let (patch_type, patch) = documents.patch(form, &expect, &changes, text.as_bytes()).expect("good lists");
            if !patch.is_empty() {
                let response = send(&mut server, patch_type, &patch);
                prop_assert_eq!(response.code, 200, "{:?} {}", form, String::from_utf8_lossy(&patch));
            }
            let mut after = whole(&server);
            let again = documents.patch(form, &expect, &changes, after.to_string().as_bytes()).expect("good lists");
            prop_assert_eq!(again.1, Vec::<u8>::new(), "{:?}: what is done is done", form);
            after["metadata"]["resourceVersion"] = Value::Null;
            after["metadata"]["managedFields"] = Value::Null;
            // Where a new entry stands among the others is the server's choice.
            for (part, list) in [("metadata", "finalizers"), ("metadata", "ownerReferences"), ("status", "conditions")] {
                if let Some(entries) = after[part][list].as_array_mut() {
                    entries.sort_by_key(ToString::to_string);
                }
            }
            outcomes.push((form, after));
            // Another object under the name is not touched, nor one that has changed where the patch rests on what was read.
            if !patch.is_empty() && form == Form::Replace {
                let bump = br#"{"metadata":{"labels":{"bumped":"yes"}}}"#;
                let mut other = server.clone();
                prop_assert_eq!(other.patch(kind, "shop", "a", PatchType::Merge.content_type(), bump).code, 200);
                prop_assert_eq!(send(&mut other, patch_type, &patch).code, 409);
            }
        }
        let (_, first) = &outcomes[0];
        for (form, outcome) in &outcomes {
            prop_assert_eq!(outcome, first, "{:?} {:?}", form, changes);
        }
    }
}
