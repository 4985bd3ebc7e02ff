//! The text of an unreadable log directory, and links: their names, and the status that decides about them.

use kubegc_core::{
    RuntimeError,
    node_facts::{Container, ContainerState, ContainerStatus, PodIdentity},
};
use kubegc_node::log::{EvictLogs, Reason, link_path};

use crate::world::{dead, release};

fn policy(version: &str) -> EvictLogs {
    EvictLogs::new(release(version))
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
