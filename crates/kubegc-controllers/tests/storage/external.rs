//! L5.9: the volumes that an external provisioner deletes.

use std::sync::Arc;

use kubegc_controllers::{
    ExternalProvisioner, FINALIZER_EXTERNAL, Guard, Key, Operated, Request, Response, Step, Wire,
};
use kubegc_core::{
    StoreError, Timestamp,
    record::{Field, Record},
};

use super::support::{DRIVER, Edit, IN_TREE, annotate, cache, play, reconcile, volume};

const REMOVAL: &str = "patch -external-provisioner.volume.kubernetes.io/finalizer";

fn ours(edit: Edit) -> Record {
    let mut record = volume("Delete", |meta, volume| {
        volume.phase = Field::Known("Released".into());
        annotate(volume, |found| found.provisioned_by = Some(DRIVER.into()));
        meta.finalizers.push(FINALIZER_EXTERNAL.into());
    });
    if let kubegc_core::record::Body::PersistentVolume(body) = Arc::make_mut(&mut record.body) {
        edit(&mut record.meta, body);
    }
    record
}

/// The reason why the volume is kept, or nothing.
fn kept(provisioner: &ExternalProvisioner, record: Record) -> String {
    let decision = reconcile(
        provisioner,
        &cache(provisioner, &[record]),
        &Key::cluster("disk"),
        Wire::Strict,
    );
    assert_eq!(
        decision.steps.is_some(),
        decision.kept.is_empty() && decision.unknown.is_empty()
    );
    let kept = decision.kept.first().map(|kept| kept.reason.code().to_owned());
    let unknown = decision.unknown.first().map(|unknown| unknown.reason.to_string());
    kept.or(unknown).unwrap_or_default()
}

#[test]
fn l5_9_every_condition_counts() {
    let metadata = "persistentvolume/disk: its metadata could not be read in full";
    let cases: [(Edit, &str); 13] = [
        (|_, _| {}, ""),
        (|meta, _| meta.finalizers.clear(), ""),
        (|meta, _| meta.deletion_timestamp = Some(Timestamp::EPOCH), ""),
        (
            |meta, _| {
                meta.deletion_timestamp = Some(Timestamp::EPOCH);
                meta.finalizers.clear();
            },
            "Terminating",
        ),
        (
            |_, volume| {
                annotate(volume, |found| {
                    (found.provisioned_by, found.migrated_to) = (Some(IN_TREE.into()), Some(DRIVER.into()));
                });
            },
            "",
        ),
        (
            |_, volume| annotate(volume, |found| found.provisioned_by = Some(IN_TREE.into())),
            "OtherProvisioner",
        ),
        (
            |_, volume| annotate(volume, |found| found.provisioned_by = None),
            "OtherProvisioner",
        ),
        (
            |_, volume| volume.phase = Field::Known("Failed".into()),
            "NotReleased",
        ),
        (
            |_, volume| volume.phase = Field::Unread,
            "persistentvolume/disk: status.phase could not be read",
        ),
        (
            |_, volume| volume.reclaim_policy = Field::Known("Retain".into()),
            "NotDelete",
        ),
        (
            |_, volume| volume.annotations = Field::Unread,
            "persistentvolume/disk: metadata.annotations could not be read",
        ),
        (|meta, _| meta.uid = "".into(), metadata),
        (|meta, _| meta.resource_version = "".into(), metadata),
    ];
    for (index, (edit, expected)) in cases.into_iter().enumerate() {
        assert_eq!(
            kept(&ExternalProvisioner::new(DRIVER), ours(edit)),
            expected,
            "case {index}"
        );
    }
    let without = ExternalProvisioner {
        has_finalizer: false,
        ..ExternalProvisioner::new(DRIVER)
    };
    assert_eq!(
        kept(
            &without,
            ours(|meta, _| meta.deletion_timestamp = Some(Timestamp::EPOCH))
        ),
        "Terminating"
    );
    // A finalizer that exists anyway is not removed by this provisioner.
    check(
        &without,
        Wire::AsUpstream,
        vec![allowed(), operated(), Response::Done],
        &["query guard", "DeleteVolume", "delete", "done"],
    );
}

fn allowed() -> Response {
    Response::Guard(Guard::Allows)
}

fn operated() -> Response {
    Response::Operation(Operated::Done)
}

#[track_caller]
fn check(provisioner: &ExternalProvisioner, wire: Wire, responses: Vec<Response>, lines: &[&str]) {
    let decision = reconcile(
        provisioner,
        &cache(provisioner, &[ours(|_, _| {})]),
        &Key::cluster("disk"),
        wire,
    );
    assert_eq!(play(&decision.steps.expect("work"), responses), lines);
}

#[test]
fn l5_9_the_storage_is_deleted_then_the_volume_then_the_finalizer() {
    let provisioner = ExternalProvisioner::new(DRIVER);
    let (query, get, delete_storage) = ("query guard", "get persistentvolume", "DeleteVolume");
    let live = |edit| Response::Object(Box::new(ours(edit)));
    let same: Edit = |_, _| {};
    let lost = || {
        Response::Failed(StoreError::Unknown {
            message: "lost".to_owned(),
        })
    };
    let not_found = || Response::Failed(StoreError::NotFound);
    let failure = || {
        Response::Operation(Operated::Failed {
            message: "busy".to_owned(),
        })
    };
    let as_upstream = |responses, lines: &[&str]| check(&provisioner, Wire::AsUpstream, responses, lines);
    as_upstream(
        vec![allowed(), operated(), Response::Done, Response::Done],
        &[query, delete_storage, "delete", REMOVAL, "done"],
    );
    as_upstream(
        vec![allowed(), operated(), not_found()],
        &[query, delete_storage, "delete", "done"],
    );
    as_upstream(
        vec![allowed(), operated(), lost()],
        &[query, delete_storage, "delete", "retried: lost"],
    );
    as_upstream(
        vec![allowed(), operated(), Response::Done, not_found()],
        &[query, delete_storage, "delete", REMOVAL, "done"],
    );
    as_upstream(
        vec![allowed(), operated(), Response::Done, lost()],
        &[query, delete_storage, "delete", REMOVAL, "retried: lost"],
    );
    as_upstream(
        vec![allowed(), failure(), Response::Done],
        &[
            query,
            delete_storage,
            "Warning VolumeFailedDelete busy",
            "retried: unknown outcome: busy",
        ],
    );
    let strict = |responses, lines: &[&str]| check(&provisioner, Wire::Strict, responses, lines);
    strict(
        vec![Response::Guard(Guard::Forbids)],
        &[query, "again after 900 s"],
    );
    strict(
        vec![Response::Guard(Guard::Unknown)],
        &[
            query,
            "unknown: it is not known whether the provisioner allows the deletion of persistentvolume/disk",
        ],
    );
    strict(vec![allowed(), lost()], &[query, get, "retried: lost"]);
    for edit in [
        (|meta, _| meta.uid = "uid-new".into()) as Edit,
        |_, live| live.phase = Field::Known("Bound".into()),
        |_, live| live.claim_ref = None.into(),
        |_, live| live.annotations = Field::Unread,
    ] {
        strict(vec![allowed(), live(edit)], &[query, get, "stale"]);
    }
    strict(
        vec![allowed(), live(same), operated(), Response::Done, Response::Done],
        &[query, get, delete_storage, "delete", REMOVAL, "done"],
    );
}

#[test]
fn a_strict_deletion_expects_the_version_of_the_last_read() {
    let provisioner = ExternalProvisioner::new(DRIVER);
    let decision = reconcile(
        &provisioner,
        &cache(&provisioner, &[ours(|_, _| {})]),
        &Key::cluster("disk"),
        Wire::Strict,
    );
    let mut sequence = decision.steps.expect("work").begin();
    let live = ours(|meta, _| meta.resource_version = "8".into());
    let mut steps = Vec::new();
    for response in [
        None,
        Some(allowed()),
        Some(Response::Object(Box::new(live))),
        Some(operated()),
        Some(Response::Done),
    ] {
        steps.push(sequence.next(response));
    }
    let Step::Perform {
        request: Request::Delete { options, .. },
        ..
    } = &steps[3]
    else {
        panic!("the volume is deleted: {steps:?}")
    };
    assert_eq!(options.preconditions.resource_version, Some("8".into()));
    let Step::Perform {
        request: Request::Write(write),
        ..
    } = &steps[4]
    else {
        panic!("the finalizer is removed: {steps:?}")
    };
    let precondition = &write.precondition;
    assert_eq!(
        (precondition.uid.is_some(), precondition.resource_version.clone()),
        (true, None)
    );
}
