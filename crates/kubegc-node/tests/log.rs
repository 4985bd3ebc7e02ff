//! Log plans: texts, paths, missing listings and releases. The recordings contain the rules.

use kubegc_core::{
    Planner, RuntimeError,
    node_facts::{Container, ContainerState, ContainerStatus, LogLink, LogTarget, PodIdentity},
};
use kubegc_node::{
    Inventory, Unlisted,
    log::{Action, EvictLogs, Reason, link_path},
};

use crate::world::{at, dead, empty, release};

use LogTarget::Missing;

fn policy(version: &str) -> EvictLogs {
    EvictLogs::new(release(version))
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
    for (version, name) in [
        ("1.20.2", "podLogsRootDirectory"),
        ("1.29.9", "podLogsRootDirectory"),
        ("1.30.0", "podLogsDirectory"),
        ("1.36.0", "podLogsDirectory"),
    ] {
        let text = format!("failed to read {name} \"/var/log/pods\": denied");
        assert_eq!(policy(version).unreadable_text("/var/log/pods", &error), text);
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
        ("1.23.17", Reason::NotExited(ContainerState::Created)),
        ("1.24.0", Reason::EmptyStatus),
    ] {
        let policy = policy(version);
        for error in [
            RuntimeError::NotFound,
            RuntimeError::refused("busy"),
            RuntimeError::unknown("lost"),
        ] {
            assert_eq!(policy.link(&Err(error)), Ok(()), "{version}");
        }
        assert_eq!(policy.link(&Ok(None)), Err(empty), "{version}");
        for state in [
            ContainerState::Created,
            ContainerState::Running,
            ContainerState::Unknown,
        ] {
            assert_eq!(
                policy.link(&status(state)),
                Err(Reason::NotExited(state)),
                "{version}"
            );
        }
        let exited = policy.link(&status(ContainerState::Exited));
        assert_eq!(exited, Ok(()), "{version}");
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
    let named = |name: Option<&str>| Container {
        name: name.map(Into::into),
        ..web.clone()
    };
    let nowhere = Container {
        pod: PodIdentity::default(),
        ..web.clone()
    };
    for broken in [named(None), named(Some("")), named(Some("../x")), nowhere] {
        assert_eq!(link_path(&broken), None);
    }
}
