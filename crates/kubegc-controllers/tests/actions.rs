//! Actions, steps, ends and reasons.

use std::{sync::Arc, time::Duration};

use kubegc_controllers::{
    Action, Cache, Change, Context, Controller, Decision, End, EventRequest, FailureEvent, FieldChange, Form,
    Found, Guard, Index, Info, Key, MayChange, Missing, NamespaceController, OnError, Operated, Operation,
    Plugin, Port, Read, Reason, Request, Response, Sent, Step, Steps, Subject, TaintEviction, Timing,
    TtlAfterFinished, Wire,
    action::{server_message, server_message_about},
};
use kubegc_core::{
    ApiResource, Catalog, DeleteOptions, KubernetesVersion, ObjectMeta, PatchType, PlannedAction as _, Scope,
    StoreError,
    record::{ObjectId, Record, Resource},
    store::Discovered,
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

/// Each request is sent only if the one before succeeded; Events may fail.
#[test]
fn an_action_reads_first_and_stops_at_an_error() {
    let record = |name: &str, version: &str| {
        let mut meta = meta(name);
        meta.resource_version = version.into();
        Response::Object(Box::new(Record::metadata_only(meta)))
    };
    let another = || {
        let mut meta = meta("a");
        meta.uid = "other".into();
        Response::Object(Box::new(Record::metadata_only(meta)))
    };
    let none = || Response::Failed(StoreError::NotFound);
    let unchanged = |version: &str| Read::Unchanged {
        object: id("a"),
        resource_version: version.into(),
    };
    let absent = Read::Absent {
        resource: Resource::Jobs,
        namespace: "shop".into(),
        name: "b".into(),
    };
    let deleting = || {
        action()
            .event(false, "Gone", "m")
            .delete(Wire::AsUpstream, Sent::Nothing, DeleteOptions::default())
            .write(Wire::AsUpstream, Sent::Nothing, Form::Update, "", Vec::new())
            .error_prefix("failed: ".to_owned())
    };
    let get = |name: &str| format!("get job.batch/{name} -n shop");
    let event = "record event Gone for job.batch/a -n shop: m".to_owned();
    let delete = "delete job.batch/a -n shop".to_owned();
    let update = "update job.batch/a -n shop []".to_owned();
    let all = [event.clone(), delete.clone(), update];
    let stale = |differ: usize| format!("stale: {differ} reads differ");
    let ends = |lines: &[String], end: &str| [lines, &[end.to_owned()]].concat();
    let done = || Response::Done;
    for (action, responses, expected) in [
        (deleting(), vec![done(), done(), done()], ends(&all, "done")),
        (
            deleting(),
            vec![Response::Failed(lost()), done(), done()],
            ends(&all, "done"),
        ),
        (
            deleting(),
            vec![done(), Response::Failed(lost())],
            ends(&all[..2], &format!("failed, retried=true: failed: {}", lost())),
        ),
        (
            deleting(),
            vec![
                done(),
                Response::Operation(Operated::InUse {
                    message: "busy".to_owned(),
                }),
            ],
            ends(
                &all[..2],
                &format!(
                    "failed, retried=true: failed: {}",
                    StoreError::Unknown {
                        message: "busy".to_owned()
                    }
                ),
            ),
        ),
        (
            deleting()
                .after_reading(unchanged("7"))
                .after_reading(absent.clone()),
            vec![record("a", "7"), none(), done(), done(), done()],
            ends(&[&[get("a"), get("b")][..], &all].concat(), "done"),
        ),
        (
            deleting().after_reading(unchanged("")),
            vec![record("a", "9"), done(), done(), done()],
            ends(&[&[get("a")][..], &all].concat(), "done"),
        ),
        (
            deleting().after_reading(unchanged("7")),
            vec![record("a", "9")],
            ends(&[get("a")], &stale(1)),
        ),
        (
            deleting().after_reading(unchanged("7")),
            vec![another()],
            ends(&[get("a")], &stale(1)),
        ),
        (
            deleting().after_reading(unchanged("7")),
            vec![none()],
            ends(&[get("a")], &stale(1)),
        ),
        (
            deleting()
                .after_reading(absent.clone())
                .after_reading(unchanged("7")),
            vec![record("b", "1"), none()],
            ends(&[get("b"), get("a")], &stale(2)),
        ),
        (
            deleting().after_reading(absent).on_error(OnError::Report),
            vec![Response::Failed(lost())],
            ends(&[get("b")], &format!("failed, retried=false: failed: {}", lost())),
        ),
    ] {
        let mut responses = responses.into_iter();
        let lines = play(&action.into_steps(true), |_| responses.next().unwrap());
        let lines: Vec<String> = lines
            .into_iter()
            .map(|line| line.replace(" uid=u-a", ""))
            .collect();
        assert_eq!(lines, expected);
    }
    let unread = deleting().after_reading(unchanged("8")).into_steps(false);
    assert_eq!(play(&unread, |_| Response::Done).len(), 4, "nothing is verified");
    let record = Record::metadata_only(meta("a"));
    assert_eq!(Read::unchanged(Resource::Jobs, &record), unchanged("7"));
}

#[test]
fn a_failed_request_is_recorded_as_a_warning() {
    let mut action = action().delete(Wire::AsUpstream, Sent::Nothing, DeleteOptions::default());
    action.failure_event = Some(FailureEvent {
        object: id("b"),
        reason: "DeletingFailed",
        message_prefix: "cannot delete: ".to_owned(),
    });
    let mut responses = [Response::Failed(StoreError::NotFound), Response::Done].into_iter();
    let mut events = Vec::new();
    let lines = play(&action.into_steps(true), |request| {
        if let Request::Event(event) = request {
            events.push(event.clone());
        }
        responses.next().unwrap()
    });
    let event = EventRequest {
        object: id("b"),
        is_warning: true,
        reason: "DeletingFailed".into(),
        message: "cannot delete: jobs.batch \"a\" not found".to_owned(),
    };
    assert_eq!(events, [event]);
    assert_eq!(lines.len(), 3);
    let node = ObjectId::new(Resource::Nodes, &ObjectMeta::new("", "n1", "u1"));
    assert_eq!(
        server_message_about(&node, &StoreError::NotFound),
        "nodes \"n1\" not found"
    );
    assert_eq!(server_message_about(&node, &conflict()), "it has changed");
    assert_eq!(server_message(&lost()), "lost");
    assert_eq!(
        server_message(&StoreError::Expired),
        StoreError::Expired.to_string()
    );
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
fn a_port_sends_one_request_at_a_time() {
    let widgets = || {
        Arc::new(ApiResource::new(
            "example.com/v1",
            "Widget",
            "widgets",
            Scope::Namespaced,
        ))
    };
    let shop = || Arc::<str>::from("shop");
    let text = |result: Result<usize, StoreError>| match result {
        Ok(count) => count.to_string(),
        Err(error) => error.to_string(),
    };
    let record = || Record::metadata_only(meta("x"));
    let wrong = "the response does not belong to the request";
    for (response, expected) in [
        (Response::Object(Box::new(record())), "x".to_owned()),
        (
            Response::Failed(StoreError::NotFound),
            StoreError::NotFound.to_string(),
        ),
        (
            Response::Done,
            StoreError::Unknown {
                message: wrong.to_owned(),
            }
            .to_string(),
        ),
    ] {
        let get = |port: Port| async move {
            let read = port.get(Resource::Jobs, &"shop".into(), &"x".into()).await;
            read.map_or_else(|error| error.to_string(), |record| record.meta.name.to_string())
        };
        assert_eq!(
            exchange(get, response),
            ("get job.batch/x -n shop".to_owned(), expected)
        );
    }
    let list = exchange(
        move |port| async move { text(port.list(Resource::Jobs, &shop()).await.map(|all| all.len())) },
        Response::Objects(vec![record(), record()]),
    );
    assert_eq!(list, ("list jobs -n shop".to_owned(), "2".to_owned()));
    let content = exchange(
        move |port| async move { text(port.list_content(&widgets(), &shop()).await.map(|all| all.len())) },
        Response::Metadata(vec![meta("x").into()]),
    );
    assert_eq!(
        content,
        ("list example.com/v1/widgets -n shop".to_owned(), "1".to_owned())
    );
    for response in [Response::Done, Response::Failed(lost())] {
        let expected = if matches!(response, Response::Done) {
            "0".to_owned()
        } else {
            lost().to_string()
        };
        let delete = exchange(
            move |port| async move { text(port.delete(id("x"), DeleteOptions::default()).await.map(|()| 0)) },
            response.clone(),
        );
        assert_eq!(
            delete,
            ("delete job.batch/x -n shop".to_owned(), expected.clone())
        );
        let collection = exchange(
            move |port| async move {
                text(
                    port.delete_collection(&widgets(), &shop(), DeleteOptions::default())
                        .await
                        .map(|()| 0),
                )
            },
            response.clone(),
        );
        assert_eq!(
            collection,
            (
                "delete all example.com/v1/widgets -n shop".to_owned(),
                expected.clone()
            )
        );
        let content = exchange(
            move |port| async move {
                let name = "x".into();
                text(
                    port.delete_content(&widgets(), &shop(), &name, DeleteOptions::default())
                        .await
                        .map(|()| 0),
                )
            },
            response,
        );
        assert_eq!(
            content,
            ("delete example.com/v1/widgets/x -n shop".to_owned(), expected)
        );
    }
    let discovered = exchange(
        move |port| async move { text(port.discover().await.map(|found| found.failed.len())) },
        Response::Discovered(Arc::new(Discovered {
            catalog: Catalog::default(),
            failed: [("v1".to_owned(), "down".to_owned())].into(),
        })),
    );
    assert_eq!(discovered, ("discover resources".to_owned(), "1".to_owned()));
    for (response, expected) in [
        (Response::Plugin(Plugin::External), Plugin::External),
        (Response::Done, Plugin::Unknown),
    ] {
        let found = exchange(
            |port| async move { format!("{:?}", port.find_plugin(id("x"), Operation::DeleteVolume).await) },
            response,
        );
        assert_eq!(found.1, format!("{expected:?}"));
    }
    for (response, expected) in [
        (Response::Guard(Guard::Allows), Guard::Allows),
        (Response::Done, Guard::Unknown),
    ] {
        let found = exchange(
            |port| async move { format!("{:?}", port.query_guard(id("x")).await) },
            response,
        );
        assert_eq!(found.1, format!("{expected:?}"));
    }
    let operated = exchange(
        |port| async move { format!("{:?}", port.operate(id("x"), Operation::DeleteVolume).await) },
        Response::Operation(Operated::Done),
    );
    assert_eq!(operated.1, "Done");
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
        namespace: "shop".into(),
        name: "a".into(),
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
    let a = "job.batch/a -n shop";
    let unlisted = Missing::list(Resource::Pods, &StoreError::Unlisted);
    let failed = Missing::list(Resource::Pods, &lost());
    assert_eq!(
        (unlisted.unlisted(), failed.unlisted()),
        (Some(Resource::Pods), None)
    );
    for (missing, code, text, has_object) in [
        (
            unlisted,
            "ListMissing",
            "the list of pods is not complete: not listed".to_owned(),
            false,
        ),
        (
            failed,
            "ListMissing",
            format!("the list of pods is not complete: {}", lost()),
            false,
        ),
        (
            Missing::Field {
                object: id("a"),
                field: "spec.x",
            },
            "FieldUnread",
            format!("{a}: spec.x could not be read"),
            true,
        ),
        (
            Missing::Metadata { object: id("a") },
            "MetadataUnread",
            format!("{a}: its metadata could not be read in full"),
            true,
        ),
        (
            Missing::Object { object: id("a") },
            "ObjectUnread",
            format!("{a}: only its metadata was read"),
            true,
        ),
        (
            Missing::Read {
                object: id("a"),
                message: "lost".into(),
            },
            "ReadFailed",
            format!("{a} could not be read: lost"),
            true,
        ),
        (
            missing("down"),
            "OutsideUnknown",
            "it is not known whether it exists: down".to_owned(),
            false,
        ),
    ] {
        assert_eq!((missing.code(), missing.to_string()), (code, text.clone()));
        assert_eq!(missing.object(), has_object.then_some(&id("a")));
        let about = text.strip_prefix(&format!("{a}: ")).unwrap_or(&text);
        assert_eq!(missing.message_about(&id("a")), about);
        assert_eq!(missing.message_about(&id("b")), text);
    }
}

/// A controller that overrides nothing.
#[derive(Debug)]
struct Plain;

static PLAIN: Info = Info {
    name: "plain",
    summary: "does nothing",
    resources: &[Resource::Jobs, Resource::Pods],
    permissions: &[],
    upstream: "",
};

impl Controller for Plain {
    fn info(&self) -> &'static Info {
        &PLAIN
    }

    fn reconcile(&self, cx: &Context<'_>, key: &Key) -> Decision {
        match cx.subject(Resource::Jobs, key) {
            Subject::Found(id, _) => Decision::keep(id, Reason::new("Found", "it exists")),
            Subject::Settled(decision) => decision,
        }
    }
}

fn cached(records: Vec<Record>) -> Cache {
    let mut cache = Cache::new(
        [Resource::Jobs, Resource::Pods],
        std::iter::empty::<&'static Index>(),
    );
    cache.replace(Resource::Jobs, records);
    cache
}

#[test]
fn a_controller_has_defaults() {
    let cache = cached(vec![
        Record::metadata_only(meta("a")),
        Record::metadata_only(ObjectMeta::new("shop", "b", "")),
    ]);
    assert_eq!(Plain.timing(), Timing::default());
    assert!(Plain.indexes().is_empty() && Plain.verbs_on_all_resources().is_empty());
    assert_eq!(Plain.may_change(Resource::Jobs), [MayChange::Itself]);
    let key = Key::new("shop", "a");
    for (resource, count) in [(Resource::Jobs, 1), (Resource::Pods, 0)] {
        let mut keys = Vec::new();
        let change = Change {
            resource,
            key: &key,
            old: None,
            new: None,
        };
        Plain.affected(&cache, &change, &mut keys);
        assert_eq!(keys, vec![key.clone(); count]);
    }
    let mut keys = Vec::new();
    Plain.keys(&cache, &mut keys);
    assert_eq!(keys.len(), 2);
    let cx = Context {
        cache: &cache,
        now: kubegc_core::Timestamp::EPOCH,
        wire: Wire::Strict,
        deadlines: &Default::default(),
        cloud: None,
        failures: 0,
    };
    let decision = Plain.reconcile_work(&cx, &key);
    assert_eq!(decision.kept[0].reason.code(), "Found");
    // An object without a uid decides nothing.
    let decision = Plain.reconcile(&cx, &Key::new("shop", "b"));
    assert_eq!(decision.unknown[0].reason.code(), "MetadataUnread");
    assert!(Plain.reconcile(&cx, &Key::new("shop", "c")).is_empty());
    assert_eq!(
        Timing::every(Duration::from_secs(9)).period,
        Some(Duration::from_secs(9))
    );
    let earlier = kubegc_core::Timestamp::from_secs(5);
    let later = kubegc_core::Timestamp::from_secs(7);
    assert_eq!(
        Decision::default()
            .requeue_at(later)
            .requeue_at(earlier)
            .requeue_at,
        Some(earlier)
    );
}

/// A shared controller is the controller.
#[test]
fn a_shared_controller_behaves_as_itself() {
    fn assert_same<C: Controller>(controller: C) {
        let (info, timing) = (controller.info(), controller.timing());
        let own = (
            controller.indexes().len(),
            controller.verbs_on_all_resources(),
            controller.may_change(info.resources[0]),
        );
        let records = vec![Record::metadata_only(meta("a"))];
        let mut cache = Cache::new(
            info.resources.iter().copied(),
            controller.indexes().iter().copied(),
        );
        for resource in info.resources {
            cache.replace(*resource, records.clone());
        }
        let key = Key::new("shop", "a");
        let keys_of = |controller: &dyn Controller| {
            let mut keys = Vec::new();
            controller.keys(&cache, &mut keys);
            for resource in info.resources {
                let change = Change {
                    resource: *resource,
                    key: &key,
                    old: None,
                    new: records.first(),
                };
                controller.affected(&cache, &change, &mut keys);
            }
            keys
        };
        let cx = Context {
            cache: &cache,
            now: kubegc_core::Timestamp::EPOCH,
            wire: Wire::Strict,
            deadlines: &Default::default(),
            cloud: None,
            failures: 0,
        };
        let decisions = |controller: &dyn Controller| {
            format!(
                "{:?} {:?}",
                controller.reconcile(&cx, &key),
                controller.reconcile_work(&cx, &key)
            )
        };
        let (own_keys, own_decisions) = (keys_of(&controller), decisions(&controller));
        let shared = Arc::new(controller);
        assert_eq!((shared.info().name, shared.timing()), (info.name, timing));
        let of_shared = (
            Controller::indexes(&shared).len(),
            Controller::verbs_on_all_resources(&shared),
            Controller::may_change(&shared, info.resources[0]),
        );
        assert_eq!(of_shared, own);
        assert_eq!(keys_of(&shared), own_keys);
        assert!(!own_keys.is_empty());
        assert_eq!(decisions(&shared), own_decisions);
    }
    let version = KubernetesVersion::LATEST;
    assert_same(NamespaceController::new(version));
    assert_same(TaintEviction::new(version));
    assert_same(TtlAfterFinished::new(version));
}
