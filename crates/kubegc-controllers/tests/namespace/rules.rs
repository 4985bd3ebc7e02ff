//! The rules L10.1 to L10.11.

use std::{sync::Arc, time::Duration};

use kubegc_controllers::{Cache, Change, Controller as _, End, Form, Key, Request, Wire};
use kubegc_core::{
    Catalog, DeleteOptions, KubernetesVersion, Preconditions, PropagationPolicy, StoreError,
    record::{Body, Field, Namespace, Pod, Resource},
};

use super::server::{DELETED_AT, Server, at, broken, conflict, controller, object, pod, reconcile, running};

/// The code of a kept namespace, the message of an error, or the delay in seconds with the estimate.
fn end_text(end: &End) -> String {
    match end {
        End::Done => "done".to_owned(),
        End::Kept(reason) => format!("kept: {}", reason.code()),
        End::Unknown(missing) => format!("unknown: {missing}"),
        End::RequeueAfter { after, reason } => format!("after {}: {reason}", after.as_secs()),
        End::Failed {
            message,
            is_retried: true,
            ..
        } => format!("failed: {message}"),
        other => panic!("{other:?}"),
    }
}

const CORE: &[&str] = &["pods", "configmaps"];
const GET: &str = "get namespace";
const CONDITIONS: &str = "conditions namespace";

/// A row's requests after the first GET.
fn requests(row: &str) -> Vec<&str> {
    let names = row.split(", ").filter(|name| !name.is_empty());
    let expanded = names.flat_map(|name| match name {
        "PODS" => vec!["list-whole pods", "delete-all pods", "list pods"],
        "CONFIG" => vec!["delete-all configmaps", "list configmaps"],
        name => vec![name],
    });
    [GET].into_iter().chain(expanded).collect()
}

/// Name, server, requests, end.
type Row = (&'static str, Server, &'static str, &'static str);

fn server() -> Server {
    Server::new(CORE)
}

/// Cases that the recordings do not have.
fn rows() -> Vec<Row> {
    let active = |resources| {
        Server::new(resources).namespace(|_, namespace| namespace.phase = Arc::<str>::from("Active").into())
    };
    vec![
        (
            "L10.1: another namespace of the name",
            active(CORE)
                .failing("phase namespace", conflict())
                .changed(|server| server.successor = Some("uid-2")),
            "phase namespace Terminating, get namespace",
            "failed: namespace uid has changed across retries",
        ),
        (
            "a failed write of conditions has no effect, and so no conflict follows",
            Server::new(&[]).failing(CONDITIONS, broken("timeout")),
            "conditions namespace, finalize namespace []",
            "done",
        ),
        (
            "before 1.16 there are no conditions",
            Server::new(&[]).release("1.15"),
            "finalize namespace []",
            "done",
        ),
        (
            "the served resources are unknown",
            server().failing("discover", StoreError::Unlisted),
            "",
            "unknown: it is not known which resources are served",
        ),
        (
            "a resource that was not listed",
            server().failing("list configmaps", StoreError::Unlisted),
            "PODS, CONFIG",
            "unknown: it is not known which configmaps are in namespace ns: not listed",
        ),
        (
            "pods that were not listed stop the others",
            server().failing("list-whole pods", StoreError::Unlisted),
            "list-whole pods",
            "unknown: it is not known which pods are in namespace ns: not listed",
        ),
    ]
}

#[test]
fn syncs_send_upstreams_requests_and_end_as_upstreams_do() {
    for (name, mut server, row, expected) in rows() {
        let end = server.sync(Wire::AsUpstream);
        assert_eq!(server.log(), requests(row), "{name}");
        assert_eq!(end_text(&end), expected, "{name}");
    }
}

#[test]
fn requests_have_upstreams_preconditions_or_all() {
    let text = |preconditions: &Preconditions| {
        let uid = preconditions.uid.as_ref().map(ToString::to_string);
        let version = preconditions
            .resource_version
            .as_ref()
            .map(|version| version.as_str().to_owned());
        format!("{}/{}", uid.unwrap_or_default(), version.unwrap_or_default())
    };
    // The phase, the item, the conditions, and the finalizer twice: after a conflict with the conditions.
    for (wire, returns_written_objects, expected) in [
        (Wire::AsUpstream, true, ["/1", "/", "/2", "/2", "/3"]),
        (
            Wire::Strict,
            true,
            ["uid-ns/1", "uid-a/7", "uid-ns/2", "uid-ns/2", "uid-ns/3"],
        ),
        (
            Wire::Strict,
            false,
            ["uid-ns/1", "uid-a/7", "uid-ns/", "uid-ns/", ""],
        ),
    ] {
        let mut item = object("a", &[]);
        (item.meta.uid, item.meta.resource_version) = ("uid-a".into(), "7".into());
        let mut server = Server::new(&["configmaps", "secrets"])
            .namespace(|_, namespace| namespace.phase = Arc::<str>::from("Active").into())
            .resource("configmaps", |resource| resource.verbs.delete_collection = false)
            .with("configmaps", item);
        server.returns_written_objects = returns_written_objects;
        assert_eq!(server.sync(wire), End::Done);
        let background = DeleteOptions::policy(PropagationPolicy::Background);
        let sent = server.requests.iter().filter_map(|request| match request {
            Request::DeleteCollection { options, .. } => {
                assert_eq!(*options, background);
                None
            }
            Request::DeleteContent { options, .. } => {
                assert_eq!(options.propagation, background.propagation);
                Some(text(&options.preconditions))
            }
            Request::Write(write) => {
                assert_eq!(write.form, Form::Update);
                Some(text(&write.precondition))
            }
            _ => None,
        });
        let expected: Vec<&str> = expected.into_iter().filter(|text| !text.is_empty()).collect();
        assert_eq!(sent.collect::<Vec<_>>(), expected, "{wire:?}");
    }
}

#[test]
fn l10_1_only_deletions_are_reconciled_and_5_s_after_the_event() {
    let controller = controller("1.36");
    let timing = controller.timing();
    assert_eq!(timing.event_delay, Duration::from_secs(5));
    assert_eq!(
        timing.backoff,
        [Duration::from_millis(5), Duration::from_secs(60)]
    );
    let deleting = server().namespace.expect("it exists");
    let mut active = deleting.clone();
    active.meta.deletion_timestamp = None;
    let mut unread = deleting.clone();
    unread.has_whole_meta = false;
    let key = Key::cluster("ns");
    for (record, is_affected, code) in [
        (&deleting, true, "steps"),
        (&active, false, "NotDeleted"),
        (&unread, true, "MetadataUnread"),
    ] {
        let mut keys = Vec::new();
        for (resource, new) in [
            (Resource::Namespaces, Some(record)),
            (Resource::Namespaces, None),
            (Resource::Pods, Some(record)),
        ] {
            let (key, old) = (&key, None);
            controller.affected(
                &Cache::default(),
                &Change {
                    resource,
                    key,
                    old,
                    new,
                },
                &mut keys,
            );
        }
        assert_eq!(keys.len(), usize::from(is_affected), "{code}");
        let decision = reconcile(controller, Some(record.clone()), at(DELETED_AT), Wire::Strict);
        let kept = decision.kept.first().map(|kept| kept.reason.code());
        let unknown = decision.unknown.first().map(|unknown| unknown.reason.code());
        let steps = decision.steps.as_ref().map(|_| "steps");
        assert_eq!(kept.or(unknown).or(steps), Some(code));
        assert!(decision.actions.is_empty());
    }
}

#[test]
fn each_behavior_begins_with_its_release() {
    for (release, deletes_pods_first, conditions) in [
        ("1.15", false, 0),
        ("1.16", false, 3),
        ("1.17", false, 5),
        ("1.32", false, 5),
        ("1.33", true, 5),
    ] {
        let held = object("c", &["x.io/hold"]);
        let mut server = server().release(release).with("configmaps", held);
        server.sync(Wire::AsUpstream);
        assert_eq!(server.conditions().len(), conditions, "{release}");
        assert_eq!(
            controller(release).deletes_pods_first,
            deletes_pods_first,
            "{release}"
        );
    }
}

#[test]
fn absurd_times_and_grace_periods_do_not_overflow() {
    for (seconds, grace, expected) in [
        (0, i64::MAX, i64::MAX),
        (i64::MAX, i64::MAX, i64::MAX),
        (i64::MAX, 1_000_000, 15),
        (0, i64::MIN, 15),
        (-2_000, 0, 15),
        (-2_000, 1, 1),
    ] {
        let pod = pod("web", "Pending", Some(grace), &["x.io/hold"]);
        let end = server().after(seconds).with("pods", pod).sync(Wire::Strict);
        let after = Duration::from_secs(expected as u64 / 2 + 1);
        assert!(
            matches!(end, End::RequeueAfter { after: found, .. } if found == after),
            "{seconds} {grace}: {end:?}"
        );
    }
}

#[test]
fn fields_that_were_not_read_change_nothing() {
    let pods_unread = |change: fn(&mut Pod)| {
        let mut pod = running(30);
        if let Body::Pod(pod) = pod.body_mut() {
            change(pod);
        }
        server().with("pods", pod)
    };
    let namespace_unread = |change: fn(&mut Namespace)| server().namespace(|_, namespace| change(namespace));
    let (pods, none): (&[&str], &[&str]) = (&["list-whole pods"], &[]);
    for (mut server, expected, requests) in [
        (
            namespace_unread(|namespace| namespace.phase = Field::Unread),
            "namespace/ns: status.phase could not be read",
            none,
        ),
        (
            namespace_unread(|namespace| namespace.finalizers = Field::Unread),
            "namespace/ns: spec.finalizers could not be read",
            none,
        ),
        (
            namespace_unread(|namespace| namespace.conditions = Field::Unread),
            "namespace/ns: status.conditions could not be read",
            none,
        ),
        (
            pods_unread(|pod| pod.phase = Field::Unread),
            "pod/web -n ns: status.phase could not be read",
            pods,
        ),
        (
            pods_unread(|pod| pod.termination_grace_period_seconds = Field::Unread),
            "pod/web -n ns: spec.terminationGracePeriodSeconds could not be read",
            pods,
        ),
        (
            server().with("pods", object("web", &[])),
            "pod/web -n ns: only its metadata was read",
            pods,
        ),
    ] {
        let end = server.sync(Wire::Strict);
        assert_eq!(end_text(&end), format!("unknown: {expected}"));
        assert_eq!(server.log()[1..], *requests, "{expected}");
    }
}

#[test]
fn the_built_in_resources_are_deleted_in_their_preferred_versions() {
    let version: KubernetesVersion = "1.20".parse().expect("a release in range");
    let mut server = server().release("1.20");
    server.resources = Catalog::builtin(version)
        .iter()
        .map(|(_, resource)| resource.clone())
        .collect();
    assert_eq!(server.sync(Wire::Strict), End::Done);
    let log = server.log();
    let has = |line: &str| log.iter().any(|known| known == line);
    assert!(has("delete-all cronjobs.batch") && has("delete-all pods"));
    // Services had no deletion of collections then, reviews cannot be deleted, and nodes are in no namespace.
    assert!(has("list services") && !has("delete-all services"));
    assert!(
        !log.iter()
            .any(|line| line.contains("reviews") || line.contains("nodes"))
    );
}
