//! Watches: where they begin, what enters and leaves their selection, bookmarks, and how they end.

use kubegc_core::Timestamp;
use kubegc_testkit::http::WatchStep;
use serde_json::json;

use crate::world::{at_version, text, widgets, world};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

/// Recordings of 1.32 and 1.36 have the whole events.
#[test]
fn a_watch_begins_with_a_list_in_releases_with_the_feature() {
    let url = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    // Other releases refuse it, with the rest of the options that do not fit.
    for release in ["1.31", "1.33"] {
        at_version(release).transcript(
            r#"
GET /api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan -> 422 ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled
"#,
        );
    }
    for release in ["1.32", "1.34"] {
        let mut world = at_version(release);
        world.config_maps("shop", &["a"]);
        let mut watch = world.watch(&format!("{url}&resourceVersion=0"));
        assert_eq!(world.seen(&mut watch), "ADDED a, BOOKMARK ", "{release}");
        let future = world.server.revision() + 5;
        let early = world.get(&format!("{url}&resourceVersion={future}"));
        assert_eq!(early.code, 504);
    }
}

#[test]
fn fields_of_the_status_select_as_well() {
    let mut world = world();
    let pods = "/api/v1/namespaces/shop/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": []}});
    world.create(pods, &pod);
    let mut running = world.watch(&format!("{pods}?watch=1&fieldSelector=status.phase%3DRunning"));
    assert_eq!(world.seen(&mut running), "");
    for (phase, expected) in [("Running", "ADDED p"), ("Failed", "DELETED p"), ("Failed", "")] {
        world.patch(&format!("{pods}/p/status"), &json!({"status": {"phase": phase}}));
        assert_eq!(world.seen(&mut running), expected, "{phase}");
    }
    let refused = world.get(&format!("{pods}?watch=1&fieldSelector=spec.color%3Dred"));
    assert_eq!(refused.code, 400);
    assert_eq!(refused.message(), "field label not supported: spec.color");
}

#[test]
fn bookmarks_come_every_minute_and_before_the_timeout() {
    let mut world = world();
    let begin = world.server.now().as_secs();
    let mut watch = world.watch(&format!(
        "{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion=1"
    ));
    let until = |seconds: i64| WatchStep::Wait {
        until: Some(Timestamp::from_secs(begin + seconds)),
    };
    assert_eq!(watch.poll(&world.server), until(60));
    world.advance_s(59);
    assert_eq!(watch.poll(&world.server), until(60));
    // A change of another resource: no event, but the bookmark has its revision.
    world.config_maps("bank", &["a"]);
    world.advance_s(1);
    let (lines, _) = world.lines(&mut watch);
    assert_eq!(lines.len(), 1);
    let (metadata, version) = (&lines[0]["object"]["metadata"], world.server.revision());
    assert_eq!(metadata["resourceVersion"], version.to_string());
    assert_eq!(metadata.get("annotations"), None);
    assert_eq!(watch.poll(&world.server), until(120));
    world.advance_s(90);
    world.config_maps("shop", &["last"]);
    let (lines, ended) = world.lines(&mut watch);
    let types: Vec<String> = lines.iter().map(|line| text(&line["type"])).collect();
    assert_eq!(types, ["ADDED", "BOOKMARK"]);
    assert!(ended);
    assert_eq!(watch.poll(&world.server), WatchStep::End);

    let version = world.server.revision();
    let mut plain = world.watch(&format!("{MAPS}?watch=1&resourceVersion={version}"));
    let now = world.server.now().as_secs();
    let default = Some(Timestamp::from_secs(now + 1800));
    assert_eq!(plain.poll(&world.server), WatchStep::Wait { until: default });
    world.advance_s(1800);
    assert_eq!(world.lines(&mut plain), (Vec::new(), true));
}

#[test]
fn a_version_that_is_too_old_ends_the_stream_with_an_error() {
    let mut world = world();
    world.config_maps("shop", &["a", "b"]);
    let version = world.server.revision();
    let mut slow = world.watch(&format!("{MAPS}?watch=1&resourceVersion={version}"));
    world.config_maps("shop", &["c"]);
    let revision = world.server.revision();
    world.server.prune_events(revision);
    let mut old = world.watch(&format!("{MAPS}?watch=1&resourceVersion=2"));
    for watch in [&mut slow, &mut old] {
        let (lines, ended) = world.lines(watch);
        assert!(ended && lines.len() == 1, "{lines:?}");
        let status = &lines[0]["object"];
        assert_eq!(lines[0]["type"], "ERROR");
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["code"], 410);
        assert_eq!(status["reason"], "Expired");
        let message = text(&status["message"]);
        assert!(message.starts_with("too old resource version: "), "{status}");
    }
}

#[test]
fn a_watch_ends_with_its_kind() {
    let mut world = world();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.create(definitions, &widgets());
    let mut watch = world.watch("/apis/example.com/v1/widgets?watch=1");
    world.create(
        "/apis/example.com/v1/namespaces/shop/widgets",
        &json!({"metadata": {"name": "a"}}),
    );
    assert_eq!(world.seen(&mut watch), "ADDED a");
    let url = format!("{definitions}/widgets.example.com");
    assert_eq!(world.delete(&url).code, 200);
    world.patch(&url, &json!({"metadata": {"finalizers": null}}));
    assert_eq!(world.lines(&mut watch), (Vec::new(), true));
}

#[test]
fn long_histories_come_in_several_steps_and_hide_no_selected_change() {
    let mut world = world();
    let names: Vec<String> = (0..600).map(|at| format!("m{at:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let version = world.server.revision();
    let mut live = world.watch(&format!("{MAPS}?watch=1&resourceVersion={version}"));
    let mut selected = world.watch(&format!(
        "{MAPS}?watch=1&labelSelector=app%3Dlast&resourceVersion=1"
    ));
    world.config_maps("shop", &names);
    let mut listed = world.watch(&format!("{MAPS}?watch=1"));
    for watch in [&mut live, &mut listed] {
        let WatchStep::Lines(first) = watch.poll(&world.server) else {
            panic!("there is much to say");
        };
        let count = first.iter().filter(|byte| **byte == b'\n').count();
        let (rest, ended) = world.lines(watch);
        assert!(!ended && count < 600, "{count}");
        assert_eq!(count + rest.len(), 600);
    }
    world.config_maps("shop", &["last"]);
    assert_eq!(world.seen(&mut selected), "ADDED last");
    assert_eq!(selected.revision(), world.server.revision());
}
