//! Rules N2.40 to N2.49: log directories of pods, and links to logs of containers.

use kubegc_core::{
    PlanOf, Planner, RuntimeError,
    node_facts::{ContainerState, ContainerStatus, LogLink, LogTarget, PodState},
};
use kubegc_node::{
    Inventory, Order, Unlisted,
    log::{Action, LinkRemoval, Policy, Reason, Subject, link_path},
};

use crate::world::{ENDING, EVICTED, at, dead, empty, pods, release};

use LogTarget::{Exists, Missing, Unknown};

fn policy(version: &str) -> Policy {
    Policy::new(release(version))
}

fn entries(names: &[&str]) -> Inventory {
    Inventory {
        log_entries: Ok(names.iter().map(|&name| name.into()).collect()),
        ..empty()
    }
}

fn links(links: &[(&str, LogTarget)]) -> Inventory {
    Inventory {
        log_links: Ok(links
            .iter()
            .map(|&(path, target)| LogLink {
                path: path.into(),
                target,
            })
            .collect()),
        ..empty()
    }
}

/// The removals, with a `?` before links whose container is read first.
fn reported(plan: &PlanOf<Policy>) -> Vec<String> {
    plan.actions
        .iter()
        .map(|action| match action {
            Action::RemoveDirectory { entry, .. } => entry.to_string(),
            Action::RemoveLink { path, .. } => path.to_string(),
            Action::ResolveLink { container_id, .. } => format!("?{container_id}"),
        })
        .collect()
}

fn kept(plan: &PlanOf<Policy>) -> Vec<(&str, &Reason)> {
    plan.kept
        .iter()
        .map(|kept| match &kept.object {
            Subject::Directory(name) | Subject::Link(name) => (&**name, &kept.reason),
            Subject::Node => ("", &kept.reason),
        })
        .collect()
}

fn refused() -> Unlisted {
    Unlisted::Failed(RuntimeError::refused("denied"))
}

#[test]
fn n2_40_an_unreadable_directory_stops_links_too_unless_it_need_not_be_read() {
    let mut node = links(&[("/var/log/containers/a-short.log", Missing)]);
    for (why, sources_ready, removed) in [
        (refused(), true, 0),
        (refused(), false, 1),
        (Unlisted::NotRequested, true, 0),
    ] {
        node.log_entries = Err(why.clone());
        node.pods.sources_ready = sources_ready;
        let plan = policy("1.36.0").plan(&node, at(9));
        assert_eq!(plan.actions.len(), removed);
        assert_eq!(plan.findings.len(), 1);
        assert_eq!(plan.findings[0].reason, Reason::Unlisted(why.to_string().into()));
    }
}

#[test]
fn n2_40_the_text_of_an_unreadable_directory_per_version() {
    let error = RuntimeError::refused("denied");
    for (version, text) in [
        (
            "1.20.2",
            "failed to read podLogsRootDirectory \"/var/log/pods\": denied",
        ),
        (
            "1.28.0",
            "failed to read podLogsRootDirectory \"/var/log/pods\": denied",
        ),
        (
            "1.29.9",
            "failed to read podLogsRootDirectory \"/var/log/pods\": denied",
        ),
        (
            "1.30.0",
            "failed to read podLogsDirectory \"/var/log/pods\": denied",
        ),
        (
            "1.36.0",
            "failed to read podLogsDirectory \"/var/log/pods\": denied",
        ),
    ] {
        assert_eq!(policy(version).unreadable_text("/var/log/pods", &error), text);
    }
}

#[test]
fn n2_42_only_the_content_predicate_decides() {
    for (state, synced, removed) in [
        (Some(PodState::ACTIVE), true, false),
        (Some(PodState::COMPLETED), true, false),
        (Some(ENDING), true, false),
        (Some(EVICTED), true, true),
        (Some(PodState::GONE), true, true),
        (None, true, true),
        (None, false, false),
    ] {
        let mut node = entries(&["ns_name_p"]);
        let known: Vec<_> = state.into_iter().map(|state| ("p", state)).collect();
        node.pods = pods(&known);
        node.pods.synced = synced;
        let plan = policy("1.36.0").plan(&node, at(9));
        assert_eq!(reported(&plan).len(), usize::from(removed), "{state:?}");
        if !removed {
            assert_eq!(kept(&plan), [("ns_name_p", &Reason::PodExists)]);
        }
    }
}

#[test]
fn n2_41_entries_are_removed_in_the_order_of_names_or_of_the_listing() {
    for (order, removed) in [(Order::Total, ["a", "b", "c"]), (Order::Listing, ["b", "c", "a"])] {
        let plan = policy("1.36.0")
            .with_order(order)
            .plan(&entries(&["b", "c", "a"]), at(9));
        assert_eq!(reported(&plan), removed);
    }
}

#[test]
fn n2_45_only_dangling_links_are_considered() {
    let path = "/var/log/containers/web_shop_c-0123456789.log";
    for (target, outcome) in [
        (Exists, Err(Reason::LinkIsValid)),
        (Unknown, Err(Reason::LinkUnknown)),
        (Missing, Ok("?0123456789")),
    ] {
        let plan = policy("1.36.0").plan(&links(&[(path, target)]), at(9));
        match outcome {
            Ok(id) => assert_eq!(reported(&plan), [id]),
            Err(reason) => assert_eq!(kept(&plan), [(path, &reason)]),
        }
        assert_eq!(plan.actions.len() + plan.kept.len(), 1);
    }
}

#[test]
fn n2_46_n2_48_the_container_id_of_a_link_and_its_errors() {
    for (path, id) in [
        ("/var/log/containers/web_shop_c-abcdef.log", Ok("abcdef")),
        (
            "/var/log/containers/web_shop_c-abcde.log",
            Err("container Id \"abcde\" is too short"),
        ),
        (
            "/var/log/containers/web_shop_c-.log",
            Err("container Id \"\" is too short"),
        ),
        ("/var/log/containers/a-b-c-0123456789.log", Ok("0123456789")),
        ("/var/log/containers/abcdef.log", Ok("/var/log/containers/abcdef")),
        ("/var/log/my-containers/abcdef.log", Ok("containers/abcdef")),
        (
            "/var/log/containers/web-abcdef.txt",
            Err("\"/var/log/containers/web-abcdef.txt\" doesn't end with \".log\""),
        ),
        // Bytes count, as in Go.
        ("/x-äöü.log", Ok("äöü")),
        ("/x-äö.log", Err("container Id \"äö\" is too short")),
    ] {
        let plan = policy("1.36.0").plan(&links(&[(path, Missing)]), at(9));
        let found: Vec<Result<&str, String>> = plan
            .actions
            .iter()
            .map(|action| match action {
                Action::ResolveLink { container_id, .. } => Ok(&**container_id),
                Action::RemoveLink { problem, .. } => Err(problem.to_string()),
                Action::RemoveDirectory { .. } => panic!("{action:?}"),
            })
            .collect();
        assert_eq!(found, [id.map_err(str::to_owned)], "{path}");
    }
}

#[test]
fn n2_47_the_status_decides_about_a_dangling_link() {
    let status = |state| {
        Ok(Some(ContainerStatus {
            state,
            log_path: "".into(),
            image_volumes: Vec::new(),
        }))
    };
    for (version, empty) in [
        ("1.20.2", Reason::NotExited(ContainerState::Created)),
        ("1.28.0", Reason::NotExited(ContainerState::Created)),
        ("1.29.0", Reason::NotExited(ContainerState::Created)),
        ("1.30.0", Reason::EmptyStatus),
        ("1.36.0", Reason::EmptyStatus),
    ] {
        for (status, outcome) in [
            (Err(RuntimeError::NotFound), Ok(LinkRemoval::NoStatus)),
            (Err(RuntimeError::refused("busy")), Ok(LinkRemoval::NoStatus)),
            (Err(RuntimeError::unknown("lost")), Ok(LinkRemoval::NoStatus)),
            (Ok(None), Err(empty)),
            (
                status(ContainerState::Created),
                Err(Reason::NotExited(ContainerState::Created)),
            ),
            (
                status(ContainerState::Running),
                Err(Reason::NotExited(ContainerState::Running)),
            ),
            (
                status(ContainerState::Unknown),
                Err(Reason::NotExited(ContainerState::Unknown)),
            ),
            (status(ContainerState::Exited), Ok(LinkRemoval::Exited)),
        ] {
            assert_eq!(policy(version).link(&status), outcome, "{version} {status:?}");
        }
    }
}

#[test]
fn n2_49_links_are_named_as_the_kubelet_writes_them() {
    let web = dead("0123456789", "p", "web", 1);
    assert_eq!(
        link_path(&web).as_deref(),
        Some("/var/log/containers/p_shop_web-0123456789.log")
    );
    let mut long = web.clone();
    long.pod.name = "n".repeat(250).into();
    let path = link_path(&long).expect("a path");
    let name = path
        .strip_prefix("/var/log/containers/")
        .expect("in the directory of links");
    assert_eq!(name.len(), 255);
    assert!(name.starts_with("nnn") && name.ends_with("_.log"), "{name}");
    // 251 bytes are left before `.log`: the cut is before the character that is at that place.
    long.pod.name = "ä".repeat(150).into();
    let path = link_path(&long).expect("a path");
    assert_eq!(path, format!("/var/log/containers/{}.log", "ä".repeat(125)));
    for broken in [
        kubegc_core::node_facts::Container {
            name: None,
            ..web.clone()
        },
        kubegc_core::node_facts::Container {
            name: Some("".into()),
            ..web.clone()
        },
        kubegc_core::node_facts::Container {
            name: Some("../x".into()),
            ..web.clone()
        },
        kubegc_core::node_facts::Container {
            pod: kubegc_core::node_facts::PodIdentity::default(),
            ..web
        },
    ] {
        assert_eq!(link_path(&broken), None);
    }
}

#[test]
fn log_entries_are_removed_by_pod_state_and_links_by_container_id() {
    let names = ["123", "456", "789", "012", "a_b_321", "a_b_654"];
    let dangling = "/var/log/containers/web_shop_c-0123456789.log";
    for version in crate::world::RELEASES {
        let mut node = entries(&names);
        node.pods = pods(&[
            ("123", PodState::ACTIVE),
            ("456", PodState::ACTIVE),
            ("321", PodState::ACTIVE),
        ]);
        let mut removed = reported(&policy(version).plan(&node, at(9)));
        removed.sort();
        assert_eq!(removed, ["012", "789", "a_b_654"], "{version}");

        node.pods.sources_ready = false;
        node.log_links = links(&[(dangling, Missing)]).log_links;
        let plan = policy(version).plan(&node, at(9));
        assert_eq!(reported(&plan), ["?0123456789"], "sources not ready on {version}");
        let waiting = plan
            .kept
            .iter()
            .filter(|kept| kept.reason == Reason::SourcesNotReady);
        assert_eq!(waiting.count(), names.len());

        node.pods.sources_ready = true;
        node.log_entries = Err(refused());
        assert!(policy(version).plan(&node, at(9)).actions.is_empty(), "{version}");
    }
    let short = policy("1.36.0").plan(&links(&[("/var/log/containers/c-01234.log", Missing)]), at(9));
    assert!(
        matches!(short.actions[..], [Action::RemoveLink { .. }]),
        "the id is too short"
    );
    let healthy = policy("1.36.0").plan(&links(&[(dangling, Exists)]), at(9));
    assert!(healthy.actions.is_empty(), "the target exists");
}
