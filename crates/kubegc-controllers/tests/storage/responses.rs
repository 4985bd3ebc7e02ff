//! The steps that follow from each response while a volume is reclaimed.

use std::sync::Arc;

use kubegc_controllers::{FINALIZER_IN_TREE, Key, Operated, Plugin, Response, Steps, Wire};
use kubegc_core::{
    ObjectMeta, StoreError,
    record::{Field, PersistentVolume, Record},
};

use super::support::{Edit, annotate, binder, cache, claim, claim_ref, dynamic, play, reconcile, volume};

const SAME: Edit = |_, _| {};
const RELEASED: Edit = |_, volume| volume.phase = Field::Known("Released".into());

fn steps(records: &[Record], wire: Wire) -> Steps {
    let binder = binder();
    let cache = cache(&binder, records);
    let decision = reconcile(&binder, &cache, &Key::cluster("disk"), wire);
    decision
        .steps
        .unwrap_or_else(|| panic!("no work: {:?} {:?}", decision.kept, decision.unknown))
}

fn found(record: Record) -> Response {
    Response::Object(Box::new(record))
}

fn lost() -> Response {
    Response::Failed(StoreError::Unknown {
        message: "lost".to_owned(),
    })
}

fn absent() -> Response {
    Response::Failed(StoreError::NotFound)
}

fn conflict() -> Response {
    let message = "Operation cannot be fulfilled on persistentvolumes \"disk\": conflict".to_owned();
    Response::Failed(StoreError::Conflict { message })
}

#[track_caller]
fn check(steps: &Steps, responses: Vec<Response>, lines: &[&str]) {
    assert_eq!(play(steps, responses), lines);
}

#[test]
fn the_plugin_decides_the_next_steps() {
    let released = || dynamic("Delete", RELEASED);
    let message = || "disk is attached".to_owned();
    let failed = [
        "get persistentvolume",
        "DeleteVolume",
        "updatestatus Failed \"disk is attached\"",
        "Warning VolumeFailedDelete disk is attached",
        "retried: disk is attached",
    ];
    let operated = |operated| vec![found(released()), Response::Operation(operated)];
    for response in [
        Operated::Failed { message: message() },
        Operated::InUse { message: message() },
    ] {
        let in_use = [
            "Normal VolumeDelete disk is attached",
            "retried: disk is attached",
        ];
        let (mut responses, mut lines) = (operated(response.clone()), failed.to_vec());
        if matches!(response, Operated::InUse { .. }) {
            lines.truncate(2);
            lines.extend(in_use);
            // A lost event changes nothing.
            responses.push(lost());
        } else {
            responses.extend([Response::Done, Response::Done]);
        }
        check(&steps(&[released()], Wire::AsUpstream), responses, &lines);
    }
    // A volume that has failed before stays so.
    let again: Edit = |_, volume| volume.phase = Field::Known("Failed".into());
    let failed_before = dynamic("Delete", again);
    let responses = vec![
        found(failed_before.clone()),
        Response::Operation(Operated::Failed { message: message() }),
    ];
    check(
        &steps(&[failed_before], Wire::AsUpstream),
        responses,
        &[
            "get persistentvolume",
            "DeleteVolume",
            "retried: disk is attached",
        ],
    );
    // The phase cannot be written.
    let mut responses = operated(Operated::Failed { message: message() });
    responses.push(lost());
    let lines: Vec<&str> = failed[..3]
        .iter()
        .copied()
        .chain(["retried: unknown outcome: lost"])
        .collect();
    check(&steps(&[released()], Wire::AsUpstream), responses, &lines);
}

#[test]
fn l5_5_the_volume_is_deleted_only_after_its_finalizer_is_removed() {
    let released = || dynamic("Delete", RELEASED);
    let begun = ["get persistentvolume", "DeleteVolume", "get persistentvolume"];
    let removal = "update -kubernetes.io/pv-controller";
    let after = |responses: Vec<Response>| -> Vec<Response> {
        [found(released()), Response::Operation(Operated::Done)]
            .into_iter()
            .chain(responses)
            .collect()
    };
    let mut without_finalizer = released();
    without_finalizer
        .meta
        .finalizers
        .retain(|name| **name != *FINALIZER_IN_TREE);
    let mut replaced = released();
    replaced.meta.uid = "uid-new".into();
    let not_found = "persistentvolumes \"disk\" not found";
    let (failed, event, end) = (
        format!("updatestatus Failed {not_found:?}"),
        format!("Warning VolumeFailedDelete {not_found}"),
        format!("retried: {not_found}"),
    );
    let failed_read = [failed.as_str(), event.as_str(), end.as_str()];
    let prefix = "persistent volume controller can't update finalizer: Operation cannot be fulfilled on persistentvolumes \"disk\": conflict";
    let (status, warning, retried) = (
        format!("updatestatus Failed {prefix:?}"),
        format!("Warning VolumeFailedDelete {prefix}"),
        format!("retried: {prefix}"),
    );
    for (responses, lines) in [
        (
            vec![found(released()), Response::Done, Response::Done],
            &[removal, "delete", "done"][..],
        ),
        (
            vec![found(released()), Response::Done, absent()],
            &[removal, "delete", "done"],
        ),
        (
            vec![found(released()), Response::Done, lost()],
            &[removal, "delete", "reported: lost"],
        ),
        (
            vec![found(without_finalizer), Response::Done],
            &["delete", "done"],
        ),
        (vec![absent(), Response::Done, Response::Done], &failed_read),
        (
            vec![found(replaced), Response::Done, Response::Done],
            &failed_read,
        ),
        (
            vec![found(released()), conflict(), Response::Done, Response::Done],
            &[removal, &status, &warning, &retried],
        ),
    ] {
        let lines: Vec<&str> = begun.into_iter().chain(lines.iter().copied()).collect();
        check(&steps(&[released()], Wire::AsUpstream), after(responses), &lines);
    }
}

#[test]
fn a_failed_request_ends_the_sync_until_the_next_one() {
    let without_finalizer: Edit = |meta, _| meta.finalizers.clear();
    check(
        &steps(&[dynamic("Delete", without_finalizer)], Wire::AsUpstream),
        vec![conflict()],
        &[
            "update +kubernetes.io/pv-controller",
            "reported: persistent Volume Controller can't anneal migration annotations or finalizer: \
             Operation cannot be fulfilled on persistentvolumes \"disk\": conflict",
        ],
    );
    let status = "updatestatus Released \"\"";
    let (get_claim, get) = ("get persistentvolumeclaim", "get persistentvolume");
    let delete = || steps(&[dynamic("Delete", SAME)], Wire::AsUpstream);
    check(&delete(), vec![lost()], &[get_claim, "reported: lost"]);
    check(
        &delete(),
        vec![absent(), lost()],
        &[get_claim, status, "reported: lost"],
    );
    let not_found = "reported: persistentvolumes \"disk\" not found";
    check(
        &delete(),
        vec![absent(), absent()],
        &[get_claim, status, not_found],
    );
    check(
        &delete(),
        vec![absent(), Response::Done, lost()],
        &[get_claim, status, get, "reported: lost"],
    );
    let elsewhere = [volume("Retain", SAME), claim("other")];
    let unbind = "update RemoveClaimRefUid";
    check(
        &steps(&elsewhere, Wire::Strict),
        vec![lost()],
        &[unbind, "reported: lost"],
    );
    let available = "updatestatus Available \"\"";
    check(
        &steps(&elsewhere, Wire::Strict),
        vec![Response::Done, lost()],
        &[unbind, available, "reported: lost"],
    );
}

#[test]
fn l5_6_the_failure_of_a_recycler_is_reported() {
    let record = || volume("Recycle", RELEASED);
    let responses = |operated, more: Vec<Response>| -> Vec<Response> {
        [found(record()), Response::Operation(operated)]
            .into_iter()
            .chain(more)
            .collect()
    };
    let begun = ["get persistentvolume", "RecycleVolume"];
    let failure = Operated::Failed {
        message: "no space".to_owned(),
    };
    let recycled = [
        "Normal VolumeRecycled Volume recycled",
        "update RemoveClaimRefUid",
        "updatestatus Available \"\"",
        "kept: Unbound",
    ];
    for (responses, lines) in [
        (
            responses(failure, vec![Response::Done, Response::Done]),
            &[
                "updatestatus Failed \"Recycle failed: no space\"",
                "Warning VolumeFailedRecycle Recycle failed: no space",
                "reported: Recycle failed: no space",
            ][..],
        ),
        (
            responses(Operated::Done, vec![lost(), Response::Done, Response::Done]),
            &recycled,
        ),
    ] {
        let lines: Vec<&str> = begun.into_iter().chain(lines.iter().copied()).collect();
        check(&steps(&[record()], Wire::AsUpstream), responses, &lines);
    }
}

#[test]
fn l5_1_a_claim_that_the_cache_does_not_have_is_read() {
    let bound = "kept: Bound";
    let read = "get persistentvolumeclaim";
    let mut other = claim("other");
    other.meta.uid = "uid-new".into();
    let mut unknown = claim("disk");
    unknown.meta.uid = "".into();
    let metadata = "unknown: persistentvolumeclaim/data -n shop: its metadata could not be read in full";
    for phase in ["Bound", "Available", "", "Pending", "Released", "Failed"] {
        let mut record = dynamic("Retain", SAME);
        if let kubegc_core::record::Body::PersistentVolume(body) = record.body_mut() {
            body.phase = Field::Known(phase.into());
        }
        let is_settled = matches!(phase, "Released" | "Failed");
        if !is_settled {
            let begun = steps(&[record.clone()], Wire::AsUpstream);
            let lines = play(
                &begun,
                if phase == "Bound" {
                    vec![found(claim("disk"))]
                } else {
                    vec![found(claim("disk")), Response::Done]
                },
            );
            assert_eq!(
                (&*lines[0], lines.last().map(String::as_str)),
                (read, Some(bound)),
                "{phase}"
            );
            check(&begun, vec![found(unknown.clone())], &[read, metadata]);
        }
        // One with another uid is always read.
        let begun = steps(&[record, other.clone()], Wire::AsUpstream);
        let (responses, lines) = if is_settled {
            (vec![absent()], vec![read, "kept: Retained"])
        } else {
            (
                vec![absent(), Response::Done],
                vec![read, "updatestatus Released \"\"", "kept: Retained"],
            )
        };
        check(&begun, responses, &lines);
    }
}

#[test]
fn l5_3_the_volume_is_read_right_before() {
    type Live = fn(&mut ObjectMeta, &mut PersistentVolume);
    let cases: [(Live, &str, bool); 7] = [
        (|_, live| live.claim_ref = None.into(), "kept: NotReleased", true),
        (
            |_, live| live.claim_ref = Some(claim_ref("")).into(),
            "kept: NotReleased",
            true,
        ),
        (|meta, _| meta.uid = "uid-new".into(), "stale", true),
        (
            |_, live| {
                let mut other = claim_ref("uid-data");
                other.name = "logs".into();
                live.claim_ref = Some(other).into();
            },
            "stale",
            true,
        ),
        // Upstream uses its cache here.
        (
            |_, live| live.claim_ref = Some(claim_ref("uid-new")).into(),
            "stale",
            false,
        ),
        (
            |_, live| live.reclaim_policy = Field::Known("Retain".into()),
            "stale",
            false,
        ),
        (
            |_, live| annotate(live, |found| found.bound_by_controller = false),
            "stale",
            false,
        ),
    ];
    for policy in ["Delete", "Recycle"] {
        for (edit, end, is_upstream) in cases {
            let mut live = dynamic(policy, RELEASED);
            if let kubegc_core::record::Body::PersistentVolume(body) = Arc::make_mut(&mut live.body) {
                edit(&mut live.meta, body);
            }
            for wire in [Wire::Strict, Wire::AsUpstream] {
                let begun = steps(&[dynamic(policy, RELEASED)], wire);
                if wire == Wire::Strict || is_upstream {
                    check(&begun, vec![found(live.clone())], &["get persistentvolume", end]);
                } else {
                    let mut sequence = begun.begin();
                    sequence.next(None);
                    let step = sequence.next(Some(found(live.clone())));
                    assert!(
                        matches!(step, kubegc_controllers::Step::Perform { .. }),
                        "{step:?}"
                    );
                }
            }
        }
    }
    // Only the phase may differ where the cache shows the claim bound elsewhere.
    let records = [dynamic("Delete", SAME), claim("other")];
    let live = vec![
        Response::Done,
        found(dynamic("Delete", RELEASED)),
        Response::Operation(Operated::Done),
        absent(),
        lost(),
    ];
    let lines = play(&steps(&records, Wire::Strict), live);
    assert_eq!(
        lines[..3],
        [
            "updatestatus Released \"\"",
            "get persistentvolume",
            "DeleteVolume"
        ]
    );
}

#[test]
fn the_response_to_a_write_is_the_base_of_the_next() {
    let mut written = dynamic("Delete", RELEASED).meta;
    written.resource_version = "8".into();
    let begun = steps(&[dynamic("Delete", SAME)], Wire::AsUpstream);
    let mut sequence = begun.begin();
    let message = "disk is attached".to_owned();
    let responses = [
        None,
        Some(absent()),
        Some(Response::Written(Some(written))),
        Some(found(dynamic("Delete", RELEASED))),
        Some(Response::Operation(Operated::Failed { message })),
    ];
    let mut last = None;
    for response in responses {
        last = Some(sequence.next(response));
    }
    let Some(kubegc_controllers::Step::Perform {
        request: kubegc_controllers::Request::Write(write),
        ..
    }) = last
    else {
        panic!("the failure is written: {last:?}")
    };
    assert_eq!(write.precondition.resource_version, Some("8".into()));
}

#[test]
fn the_executor_finds_unknown_plugins() {
    let mut binder = binder();
    binder.storage.plugins.clear();
    let cache = cache(&binder, &[volume("Delete", RELEASED)]);
    let decision = reconcile(&binder, &cache, &Key::cluster("disk"), Wire::AsUpstream);
    let steps = decision.steps.expect("work");
    let live = || found(volume("Delete", RELEASED));
    let begun = ["get persistentvolume", "find plugin"];
    for (plugin, end) in [
        (
            Plugin::Unknown,
            "unknown: it is not known which plugin can delete the storage of persistentvolume/disk",
        ),
        (Plugin::External, "kept: WaitsForProvisioner"),
    ] {
        check(
            &steps,
            vec![live(), Response::Plugin(plugin)],
            &[begun[0], begun[1], end],
        );
    }
}
