//! The names of links to container logs.

use kubegc_core::node_facts::{Container, PodIdentity};
use kubegc_node::log::link_path;

use crate::world::dead;

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
