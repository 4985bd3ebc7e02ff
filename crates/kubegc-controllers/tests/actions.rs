//! Actions, steps, ends and reasons.

use std::{sync::Arc, time::Duration};

use kubegc_controllers::{
    Action, End, EventRequest, FieldChange, Form, Found, Key, Missing, OnError, Operated, Operation, Port,
    Read, Reason, Request, Response, Sent, Step, Steps, Wire,
};
use kubegc_core::{
    DeleteOptions, ObjectMeta, PatchType, PlannedAction as _, StoreError,
    record::{ObjectId, Record, Resource},
};

use crate::common::{line, play};

fn meta(name: &str) -> ObjectMeta {
    let mut meta = ObjectMeta::new("shop", name, &format!("u-{name}"));
    meta.resource_version = "7".into();
    meta
}

fn id(name: &str) -> ObjectId {
    ObjectId::new(Resource::Jobs, &meta(name))
}

fn action() -> Action {
    Action::new(Resource::Jobs, &meta("a"), Reason::new("Old", "it is old"))
}

fn lost() -> StoreError {
    StoreError::Unknown {
        message: "lost".to_owned(),
    }
}

fn conflict() -> StoreError {
    StoreError::Conflict {
        message: "it has changed".to_owned(),
    }
}

/// After a write, the version that was read is no longer the stored one.
#[test]
fn requests_have_the_preconditions_of_upstream_or_all() {
    for (wire, sent, expected) in [
        (Wire::Strict, Sent::Nothing, " uid=u-a rv=7"),
        (Wire::AsUpstream, Sent::Nothing, ""),
        (Wire::AsUpstream, Sent::Uid, " uid=u-a"),
        (Wire::AsUpstream, Sent::ResourceVersion, " rv=7"),
    ] {
        let deleted = action().delete(wire, sent, DeleteOptions::default());
        assert_eq!(
            line(&deleted.requests[0]),
            format!("delete job.batch/a -n shop{expected}")
        );
        assert!(deleted.is_deletion());
        let changes = vec![FieldChange::RemoveFinalizer("f")];
        let both = action()
            .write(wire, sent, Form::Update, "status", changes)
            .event(true, "Gone", "it is gone")
            .delete(wire, sent, DeleteOptions::default());
        let lines: Vec<String> = both.requests.iter().map(line).collect();
        let without_version = expected.replace(" rv=7", "");
        let written = format!("update status of job.batch/a -n shop{expected} [-f]");
        let event = "record event Gone for job.batch/a -n shop: it is gone".to_owned();
        assert_eq!(
            lines,
            [
                written,
                event,
                format!("delete job.batch/a -n shop{without_version}")
            ]
        );
    }
    let patched = action().write(
        Wire::Strict,
        Sent::Nothing,
        Form::Patch(PatchType::Merge),
        "",
        Vec::new(),
    );
    assert!(!patched.is_deletion());
    let mut part = action();
    assert_eq!(part.blocks(), None);
    part.part_of = Some(Box::new(id("b")));
    assert_eq!((part.object(), part.blocks()), (id("a"), Some(id("b"))));
}

#[test]
fn an_action_is_text() {
    let event = action().event(false, "Gone", "m");
    let delete = |action: Action| action.delete(Wire::Strict, Sent::Nothing, DeleteOptions::default());
    let patch = |action: Action| action.write(Wire::Strict, Sent::Uid, Form::Update, "", Vec::new());
    for (action, text) in [
        (action(), "job.batch/a -n shop: it is old"),
        (
            event.clone(),
            "record event Gone for job.batch/a -n shop: m: it is old",
        ),
        (delete(event), "delete job.batch/a -n shop: it is old"),
        (
            delete(patch(action())),
            "update job.batch/a -n shop, then delete job.batch/a -n shop: it is old",
        ),
    ] {
        assert_eq!(action.to_string(), text);
    }
}

#[test]
fn an_error_is_retried_reported_or_ignored() {
    let not_found = || StoreError::NotFound;
    let [retried, reported, ignored] = [Some(true), Some(false), None];
    for (on_error, expected) in [
        (OnError::Retry, [retried, retried, retried]),
        (OnError::RetryUnlessNotFound, [ignored, retried, retried]),
        (OnError::Report, [reported, reported, reported]),
        (OnError::ReportUnlessNotFound, [ignored, reported, reported]),
        (
            OnError::ReportUnlessNotFoundOrConflict,
            [ignored, ignored, reported],
        ),
    ] {
        for (error, expected) in [not_found(), conflict(), lost()].into_iter().zip(expected) {
            let end = on_error.end(error.clone(), "it failed: ");
            let expected = match expected {
                None => End::Done,
                Some(is_retried) => End::Failed {
                    message: format!("it failed: {error}"),
                    error,
                    is_retried,
                },
            };
            assert_eq!(end, expected, "{on_error:?}");
        }
    }
}

/// A row: what is read before the action, and whether errors are reported; the responses; the requests and
/// the end.
const SEQUENCES: &str = "\
- | done done done | event; delete a; update a []; done
- | lost done done | event; delete a; update a []; done
- | done lost | event; delete a; failed, retried=true: failed: unknown outcome: lost
- | done busy | event; delete a; failed, retried=true: failed: unknown outcome: busy
a@7 no-b | a@7 none done done done | get a; get b; event; delete a; update a []; done
a@ | a@9 done done done | get a; event; delete a; update a []; done
a@7 | a@9 | get a; stale: 1 reads differ
a@7 | another | get a; stale: 1 reads differ
a@7 | none | get a; stale: 1 reads differ
no-b a@7 | b@1 none | get b; get a; stale: 2 reads differ
no-b report | lost | get b; failed, retried=false: failed: unknown outcome: lost
";

/// Each request is sent only if the one before succeeded; Events may fail.
#[test]
fn an_action_reads_first_and_stops_at_an_error() {
    let respond = |word: &str| {
        let object = |meta: ObjectMeta| Response::Object(Box::new(Record::metadata_only(meta)));
        match word {
            "done" => Response::Done,
            "lost" => Response::Failed(lost()),
            "none" => Response::Failed(StoreError::NotFound),
            "busy" => Response::Operation(Operated::InUse {
                message: "busy".to_owned(),
            }),
            "another" => object(ObjectMeta {
                uid: "other".into(),
                ..meta("a")
            }),
            read => {
                let (name, version) = read.split_once('@').unwrap();
                object(ObjectMeta {
                    resource_version: version.into(),
                    ..meta(name)
                })
            }
        }
    };
    let unchanged = |version: &str| Read::Unchanged {
        object: id("a"),
        resource_version: version.into(),
    };
    let deleting = || {
        action()
            .event(false, "Gone", "m")
            .delete(Wire::AsUpstream, Sent::Nothing, DeleteOptions::default())
            .write(Wire::AsUpstream, Sent::Nothing, Form::Update, "", Vec::new())
            .error_prefix("failed: ".to_owned())
    };
    for row in SEQUENCES.lines() {
        let [before, responses, expected] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let action = before.split(' ').fold(deleting(), |action, word| match word {
            "-" => action,
            "report" => action.on_error(OnError::Report),
            "no-b" => action.after_reading(Read::Absent {
                resource: Resource::Jobs,
                key: Key::new("shop", "b"),
            }),
            read => action.after_reading(unchanged(read.trim_start_matches("a@"))),
        });
        let mut responses = responses.split(' ').map(respond);
        let lines = play(&action.into_steps(true), |_| responses.next().unwrap()).join("; ");
        let lines = [" uid=u-a", " -n shop", "job.batch/"]
            .iter()
            .fold(lines, |lines, part| lines.replace(part, ""));
        assert_eq!(
            lines.replace("record event Gone for a: m", "event"),
            expected,
            "{row}"
        );
    }
    let unread = deleting().after_reading(unchanged("8")).into_steps(false);
    assert_eq!(play(&unread, |_| Response::Done).len(), 4, "nothing is verified");
    let record = Record::metadata_only(meta("a"));
    assert_eq!(Read::unchanged(Resource::Jobs, &record), unchanged("7"));
}

#[test]
fn a_failed_request_is_recorded_as_a_warning() {
    for (error, message) in [
        (StoreError::NotFound, "jobs.batch \"a\" not found"),
        (conflict(), "it has changed"),
        (lost(), "lost"),
        (StoreError::Expired, &*StoreError::Expired.to_string()),
    ] {
        let mut action = action().delete(Wire::AsUpstream, Sent::Nothing, DeleteOptions::default());
        action.failure_event = Some(("DeletingFailed", "cannot delete: ".to_owned()));
        let mut responses = [Response::Failed(error), Response::Done].into_iter();
        let mut events = Vec::new();
        let lines = play(&action.into_steps(true), |request| {
            if let Request::Event(event) = request {
                events.push(event.clone());
            }
            responses.next().unwrap()
        });
        let event = EventRequest {
            object: id("a"),
            is_warning: true,
            reason: "DeletingFailed".into(),
            message: format!("cannot delete: {message}"),
        };
        assert_eq!(events, [event]);
        assert_eq!(lines.len(), 3);
    }
}

/// Runs one request of a port, with this response. Returns the request and the result as text.
fn exchange<F>(call: impl Fn(Port) -> F + Send + Sync + 'static, response: Response) -> (String, String)
where
    F: Future<Output = String> + Send + 'static,
{
    let call = Arc::new(call);
    let steps = Steps::new(id("a"), move |port| {
        let call = Arc::clone(&call);
        async move {
            port.set_reason(Reason::new("Why", "because"));
            End::Kept(Reason::new("Result", call(port).await))
        }
    });
    assert_eq!(*steps.object(), id("a"));
    let mut sequence = steps.begin();
    let Step::Perform { request, reason } = sequence.next(None) else {
        panic!("it sends a request")
    };
    assert_eq!(reason.map(|reason| reason.code()), Some("Why"));
    let Step::End(end) = sequence.next(Some(response)) else {
        panic!("it ends")
    };
    // The end is returned again.
    assert!(matches!(sequence.next(None), Step::End(again) if again == end));
    let End::Kept(result) = end else { panic!("{end:?}") };
    (request.to_string(), result.message().to_owned())
}

#[test]
fn a_response_to_another_request_is_an_error_or_unknown() {
    let wrong = StoreError::Unknown {
        message: "the response does not belong to the request".to_owned(),
    };
    let get = |port: Port| async move {
        let read = port.get(Resource::Jobs, Key::new("shop", "x")).await;
        read.map_or_else(|error| error.to_string(), |record| record.meta.name.to_string())
    };
    let found = Response::Object(Box::new(Record::metadata_only(meta("x"))));
    for (response, expected) in [
        (found, "x".to_owned()),
        (
            Response::Failed(StoreError::NotFound),
            StoreError::NotFound.to_string(),
        ),
        (Response::Done, wrong.to_string()),
    ] {
        let request = "get job.batch/x -n shop".to_owned();
        assert_eq!(exchange(get, response), (request, expected));
    }
    let plugin =
        |port: Port| async move { format!("{:?}", port.find_plugin(id("x"), Operation::DeleteVolume).await) };
    let guard = |port: Port| async move { format!("{:?}", port.query_guard(id("x")).await) };
    assert_eq!(exchange(plugin, Response::Done).1, "Unknown");
    assert_eq!(exchange(guard, Response::Done).1, "Unknown");
    // Without a response it cannot continue.
    let steps = Steps::new(id("a"), |port| async move {
        assert!(port.verifies());
        port.send(Request::Discover).await;
        End::Done
    });
    let mut sequence = steps.begin();
    sequence.next(None);
    assert!(matches!(sequence.next(None), Step::End(End::Failed { .. })));
    let unverified = Steps::new(id("a"), |port| async move {
        assert!(!port.verifies());
        End::Done
    });
    assert!(matches!(
        unverified.clone().verify(false).begin().next(None),
        Step::End(End::Done)
    ));
    assert!(format!("{unverified:?} {sequence:?}").contains("Steps { object: "));
}

#[test]
fn ends_reasons_and_missing_facts_are_text() {
    let reason = Reason::new("Old", "it is old").about(id("b"));
    assert_eq!(
        (reason.code(), reason.to_string(), reason.object()),
        ("Old", "it is old".to_owned(), Some(&id("b")))
    );
    let missing = |message: &str| Missing::Outside {
        question: "whether it exists".into(),
        message: message.into(),
    };
    let found = Found {
        resource: Resource::Jobs,
        key: Key::new("shop", "a"),
        record: None,
    };
    for (end, text) in [
        (End::Done, "done".to_owned()),
        (End::Kept(reason.clone()), "kept: it is old".to_owned()),
        (
            End::Unknown(missing("")),
            "cannot decide: it is not known whether it exists".to_owned(),
        ),
        (
            End::Stale(vec![found]),
            "something has changed, so it is reconciled again".to_owned(),
        ),
        (
            End::RequeueAfter {
                after: Duration::from_millis(1_500),
                reason,
            },
            "requeued after 1.5s: it is old".to_owned(),
        ),
        (End::failed(lost()), format!("failed: {}", lost())),
    ] {
        assert_eq!(end.to_string(), text);
    }
    for (end, retried) in [(End::failed(lost()), true), (End::reported(lost()), false)] {
        assert!(
            matches!(end, End::Failed { is_retried, error, .. } if is_retried == retried && error == lost())
        );
    }
    let unlisted = Missing::list(Resource::Pods, &StoreError::Unlisted);
    let failed = Missing::list(Resource::Pods, &lost());
    assert_eq!(
        (unlisted.unlisted(), failed.unlisted()),
        (Some(Resource::Pods), None)
    );
    let all = [
        unlisted,
        failed,
        Missing::Field {
            object: id("a"),
            field: "spec.x",
        },
        Missing::Metadata { object: id("a") },
        Missing::Object { object: id("a") },
        missing("down"),
    ];
    let lines = all.iter().map(|missing| {
        let about = missing.message_about(&id("a"));
        assert_eq!(missing.message_about(&id("b")), missing.to_string());
        assert!(missing.to_string().ends_with(&about));
        format!("{} {}: {about}", missing.code(), missing.object().is_some())
    });
    let expected = [
        "ListMissing false: the list of pods is not complete: not listed",
        &format!("ListMissing false: the list of pods is not complete: {}", lost()),
        "FieldUnread true: spec.x could not be read",
        "MetadataUnread true: its metadata could not be read in full",
        "ObjectUnread true: only its metadata was read",
        "OutsideUnknown false: it is not known whether it exists: down",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}
