//! The finalizers that protect claims and volumes in use.

use kubegc_controllers::{
    Cache, FINALIZER_CLAIM_PROTECTION, FINALIZER_VOLUME_PROTECTION, Key, PvProtection, PvcProtection,
    Response, Wire,
};
use kubegc_core::{
    KubernetesVersion, ObjectMeta, OwnerReference, StoreError, Timestamp,
    record::{Field, Pod, Record, Resource, VolumeSource},
};

use super::support::{Edit, cache, claim, edit_pod, plan, plan_cache, play, pod, reconcile, release, volume};

const REMOVED: &str = "update -kubernetes.io/pvc-protection";
const ADDED: &str = "update +kubernetes.io/pvc-protection";

fn controller() -> PvcProtection {
    PvcProtection::new(KubernetesVersion::LATEST)
}

/// A claim that is being deleted, with this name.
fn terminating(name: &str) -> Record {
    let mut claim = claim("disk");
    claim.meta.name = name.into();
    claim.meta.finalizers = vec![FINALIZER_CLAIM_PROTECTION.into()];
    claim.meta.deletion_timestamp = Some(Timestamp::EPOCH);
    claim
}

fn owned_by(mut claim: Record, uid: &str, controller: Option<bool>) -> Record {
    claim.meta.owner_references.push(OwnerReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: "web".into(),
        uid: uid.into(),
        controller,
        block_owner_deletion: None,
    });
    claim
}

fn user() -> Record {
    pod("web", VolumeSource::Claim("data".into()))
}

#[track_caller]
fn check(records: &[Record], requests: &[&str], kept: &str) {
    let (got, why) = plan(&controller(), records);
    assert_eq!(
        (got.iter().map(String::as_str).collect::<Vec<_>>(), why.join("; ")),
        (requests.to_vec(), kept.to_owned())
    );
}

#[test]
fn pods_on_nodes_use_claims() {
    check(&[terminating("data")], &[REMOVED], "");
    for phase in ["Running", "Pending", "Succeeded", "Failed", "", "Odd"] {
        let in_phase = edit_pod(user(), |_, pod| pod.phase = Field::Known(phase.into()));
        check(&[terminating("data"), in_phase.clone()], &[], "UsedByPod");
        let shut_down = edit_pod(in_phase, |meta, _| {
            meta.deletion_timestamp = Some(Timestamp::EPOCH);
            meta.deletion_grace_period_seconds = Some(0);
        });
        check(&[terminating("data"), shut_down], &[], "UsedByPod");
    }
    let unscheduled = edit_pod(user(), |_, pod| pod.node_name = Field::default());
    let elsewhere = edit_pod(user(), |meta, _| meta.namespace = "other".into());
    for pod in [
        unscheduled,
        elsewhere,
        pod("web", VolumeSource::Claim("logs".into())),
        pod("web", VolumeSource::Other),
    ] {
        check(&[terminating("data"), pod], &[REMOVED], "");
    }
}

#[test]
fn an_ephemeral_claim_is_used_by_its_own_pod_only() {
    let own = || owned_by(terminating("web-data"), "uid-web", Some(true));
    let others = || owned_by(terminating("web-data"), "uid-other", Some(true));
    for (name, claim, is_deleting, grace, is_used) in [
        ("running", own(), false, None, true),
        ("ending", own(), true, Some(30), true),
        ("ending, grace not known", own(), true, None, true),
        ("a grace of zero alone", own(), false, Some(0), true),
        ("t_6_5 shut down", own(), true, Some(0), false),
        ("t_6_6 another uid", others(), false, None, false),
        (
            "an owner, no controller",
            owned_by(terminating("web-data"), "uid-web", None),
            false,
            None,
            false,
        ),
        (
            "not the first controller",
            owned_by(others(), "uid-web", Some(true)),
            false,
            None,
            false,
        ),
        ("no owner", terminating("web-data"), false, None, false),
    ] {
        let pod = edit_pod(pod("web", VolumeSource::Ephemeral), |meta, _| {
            meta.deletion_timestamp = is_deleting.then_some(Timestamp::EPOCH);
            meta.deletion_grace_period_seconds = grace;
        });
        let (requests, kept) = plan(&controller(), &[claim.clone(), pod.clone()]);
        let expected = if is_used { (0, "UsedByPod") } else { (1, "") };
        assert_eq!((requests.len(), &*kept.join("; ")), expected, "{name}");
        // Without the feature gate no claim is used so.
        let off = PvcProtection::new(release("1.20.2"));
        assert_eq!(plan(&off, &[claim, pod]).0, [REMOVED], "{name}");
    }
}

#[test]
fn claims_that_are_not_being_deleted_get_the_finalizer() {
    let edited = |edit: fn(&mut ObjectMeta)| {
        let mut claim = terminating("data");
        edit(&mut claim.meta);
        claim
    };
    check(&[edited(|meta| meta.deletion_timestamp = None)], &[], "Protected");
    let without_finalizer: fn(&mut ObjectMeta) = |meta| {
        meta.deletion_timestamp = None;
        meta.finalizers.clear();
    };
    check(&[edited(without_finalizer), user()], &[ADDED], "");
    // Pods do not matter to that, nor does the rest of the claim.
    let only_metadata = Record::metadata_only(edited(without_finalizer).meta);
    let mut unlisted: Cache = cache(&controller(), &[only_metadata]);
    unlisted.set_listed(Resource::Pods, Err(StoreError::Unlisted));
    assert_eq!(plan_cache(&controller(), &unlisted).0, [ADDED]);
    check(&[edited(|meta| meta.finalizers.clear())], &[], "Unprotected");

    let mut claim = terminating("data");
    claim.meta.finalizers.insert(0, "example.com/a".into());
    claim.meta.finalizers.push("example.com/b".into());
    check(&[claim], &[REMOVED], "");
    let unversioned: fn(&mut ObjectMeta) = |meta| meta.resource_version = "".into();
    let metadata = "persistentvolumeclaim/data -n shop: its metadata could not be read in full";
    check(&[edited(unversioned)], &[], metadata);
    check(&[edited(|meta| meta.uid = "".into())], &[], metadata);
}

#[test]
fn the_cache_and_the_api_server_count() {
    let controller = controller();
    let steps = |records: &[Record]| {
        let key = Key::new("shop", "data");
        reconcile(&controller, &cache(&controller, records), &key, Wire::AsUpstream).steps
    };
    assert!(
        steps(&[terminating("data"), user()]).is_none(),
        "the cache is enough"
    );
    let work = steps(&[terminating("data")]).expect("work");
    let pods = |pods| Response::Objects(pods);
    let failed = |error| Response::Failed(error);
    let conflict = || StoreError::Conflict {
        message: "newer".to_owned(),
    };
    let unread = edit_pod(user(), |_, pod| pod.volumes = Field::Unread);
    for (responses, lines) in [
        (vec![pods(vec![]), Response::Done], &[REMOVED, "done"][..]),
        (vec![pods(vec![user()])], &["kept: UsedByPod"]),
        (vec![pods(vec![unread.clone(), user()])], &["kept: UsedByPod"]),
        (
            vec![pods(vec![unread])],
            &["unknown: pod/web -n shop: spec.volumes could not be read"],
        ),
        (
            vec![failed(StoreError::NotFound)],
            &["retried: live list of pods failed: pods \"\" not found"],
        ),
        (
            vec![failed(conflict())],
            &["retried: live list of pods failed: newer"],
        ),
        (
            vec![pods(vec![]), failed(conflict())],
            &[REMOVED, "retried: newer"],
        ),
        (
            vec![pods(vec![]), failed(StoreError::NotFound)],
            &[REMOVED, "retried: persistentvolumeclaims \"data\" not found"],
        ),
    ] {
        let lines: Vec<&str> = ["list pods"].into_iter().chain(lines.iter().copied()).collect();
        assert_eq!(play(&work, responses), lines);
    }
    // Where nothing can have changed, nothing is listed.
    assert_eq!(play(&work.verify(false), vec![Response::Done]), [REMOVED, "done"]);
}

#[test]
fn pods_that_are_not_known_keep_the_claim() {
    let mut unlisted = cache(&controller(), &[terminating("data")]);
    unlisted.set_listed(Resource::Pods, Err(StoreError::Unlisted));
    let list = "the list of pods is not complete: not listed";
    assert_eq!(
        plan_cache(&controller(), &unlisted),
        (vec![], vec![list.to_owned()])
    );

    let no_volumes = "pod/web -n shop: spec.volumes could not be read";
    let metadata = "pod/web -n shop: its metadata could not be read in full";
    let ephemeral = || pod("web", VolumeSource::Ephemeral);
    type EditPod = fn(&mut ObjectMeta, &mut Pod);
    let cases: [(&str, Record, EditPod, &str); 9] = [
        (
            "volumes",
            user(),
            |_, pod| pod.volumes = Field::Unread,
            no_volumes,
        ),
        (
            "node and volumes",
            user(),
            |_, pod| (pod.node_name, pod.volumes) = (Field::Unread, Field::Unread),
            no_volumes,
        ),
        (
            "node",
            user(),
            |_, pod| pod.node_name = Field::Unread,
            "pod/web -n shop: spec.nodeName could not be read",
        ),
        (
            "node of a pod with other volumes",
            ephemeral(),
            |_, pod| (pod.node_name, pod.volumes) = (Field::Unread, Field::default()),
            "",
        ),
        (
            "elsewhere",
            user(),
            |meta, pod| (meta.namespace, pod.volumes) = ("other".into(), Field::Unread),
            "",
        ),
        (
            "on no node",
            user(),
            |_, pod| (pod.node_name, pod.volumes) = (Field::default(), Field::Unread),
            "",
        ),
        (
            "uid, though it names the claim",
            user(),
            |meta, _| meta.uid = "".into(),
            "UsedByPod",
        ),
        (
            "uid of its own claim",
            ephemeral(),
            |meta, _| meta.uid = "".into(),
            metadata,
        ),
        ("nothing", user(), |_, _| {}, "UsedByPod"),
    ];
    for (name, pod, edit, expected) in cases {
        let is_own = pod == ephemeral();
        let pod = edit_pod(pod, edit);
        let claim = if is_own {
            owned_by(terminating("web-data"), "uid-web", Some(true))
        } else {
            terminating("data")
        };
        let (requests, kept) = plan(&controller(), &[claim, pod]);
        assert_eq!(
            (requests.len(), &*kept.join("; ")),
            (usize::from(expected.is_empty()), expected),
            "{name}"
        );
    }
    let metadata_only = Record::metadata_only(user().meta);
    check(
        &[terminating("data"), metadata_only.clone()],
        &[],
        "pod/web -n shop: only its metadata was read",
    );
    // One that is known to use the claim is enough.
    let api = pod("api", VolumeSource::Claim("data".into()));
    check(&[terminating("data"), metadata_only, api], &[], "UsedByPod");
}

#[test]
fn a_bound_volume_is_kept() {
    let controller = PvProtection::new(KubernetesVersion::LATEST);
    let removed = vec!["update -kubernetes.io/pv-protection".to_owned()];
    for (phase, expected) in [
        (Field::Known("Bound"), (vec![], "Bound")),
        (
            Field::Unread,
            (vec![], "persistentvolume/disk: status.phase could not be read"),
        ),
        (Field::Known("Released"), (removed.clone(), "")),
        (Field::Known("Failed"), (removed.clone(), "")),
        (Field::Known(""), (removed, "")),
    ] {
        let terminating: Edit = |meta, _| {
            meta.finalizers = vec![FINALIZER_VOLUME_PROTECTION.into()];
            meta.deletion_timestamp = Some(Timestamp::EPOCH);
        };
        let mut record = volume("Delete", terminating);
        if let kubegc_core::record::Body::PersistentVolume(body) = record.body_mut() {
            body.phase = phase.map(Into::into);
        }
        let (requests, kept) = plan(&controller, &[record]);
        assert_eq!((requests, &*kept.join("; ")), expected);
    }
    let metadata_only = Record::metadata_only(volume("Delete", |_, _| {}).meta);
    assert_eq!(
        plan(&controller, &[metadata_only]).0,
        ["update +kubernetes.io/pv-protection"]
    );
}
