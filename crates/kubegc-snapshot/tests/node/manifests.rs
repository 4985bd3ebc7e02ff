//! Static manifests: their fields, and the uids of their running pods.

use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc};

use kubegc_core::{
    PodSource, RuntimeError, Uid,
    node_facts::{ContainerState, PodState},
};
use kubegc_fixtures::check_transcript;
use kubegc_sim::SimNode;
use kubegc_snapshot::PodManifests;

use crate::{
    escapes::unescaped,
    pods_file::{LISTED, now, operations, run, sim},
};

fn yaml(name: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n{more}spec:\n  containers:\n  - name: main\n    image: web:1\n"
    )
}

fn source(path: &Path, node: &SimNode) -> PodManifests {
    PodManifests::new(path, "Node-1", Arc::new(node.clone()))
}

/// The known uids; asserts that all of these pods are alive, and nothing else is known.
fn known(path: &Path, node: &SimNode) -> Result<Vec<String>, String> {
    let pods = now(source(path, node).pods()).map_err(|error| {
        assert!(matches!(error, RuntimeError::Refused { .. }), "{error:?}");
        error
            .to_string()
            .replace(&format!("{}/", path.display()), "")
            .replace(&path.display().to_string(), "FOLDER")
    })?;
    assert!(pods.sources_ready && pods.synced);
    assert!(pods.known.values().all(|state| *state == PodState::ACTIVE));
    Ok(pods.known.keys().map(ToString::to_string).collect())
}

#[test]
fn a_manifest_is_found_by_its_name_namespace_and_node() {
    let node = sim();
    for (namespace, name, uid) in [
        ("kube-system", "etcd-node-1", "etcd"),
        ("default", "web-node-1", "web"),
        ("kube-system", "web-node-1", "other namespace"),
        ("default", "web-Node-1", "other letters"),
        ("default", "web", "no node"),
        ("default", "web-node-10", "other node"),
        ("", "web-node-1", "no namespace"),
    ] {
        let pod = run(&node, namespace, name, uid);
        node.end_sandbox(&pod.sandbox_id).expect("there is one");
    }
    let cases: [(&str, String, &[&str]); 7] = [
        ("etcd.yaml", yaml("etcd", "  namespace: kube-system\n"), &["etcd"]),
        ("web.yaml", yaml("web", ""), &["web"]),
        ("empty namespace", yaml("web", "  namespace: ''\n"), &["web"]),
        ("null", yaml("web", "  namespace: null\n  uid: null\n"), &["web"]),
        ("a uid", yaml("web", "  uid: given\n"), &["given"]),
        (
            "json",
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{}]}}"#
                .to_owned(),
            &["web"],
        ),
        (
            "two documents",
            format!(
                "---\n{}---\n{}",
                yaml("web", ""),
                yaml("etcd", "  namespace: kube-system\n")
            ),
            &["etcd", "web"],
        ),
    ];
    for (file, text, expected) in cases {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join(file), text).expect("written");
        let expected: Vec<String> = expected.iter().map(|&uid| uid.to_owned()).collect();
        assert_eq!(known(directory.path(), &node), Ok(expected.clone()), "{file}");
        assert_eq!(
            known(&directory.path().join(file), &node),
            Ok(expected),
            "{file}: one file in place of the directory"
        );
    }
}

#[test]
fn manifests_that_the_kubelet_reads_are_read() {
    let node = sim();
    for name in ["a", "b", "c", "d", "e"] {
        let pod = run(&node, "default", &format!("{name}-node-1"), name);
        node.end_sandbox(&pod.sandbox_id).expect("there is one");
    }
    let outer = tempfile::tempdir().expect("a directory");
    let directory = outer.path().join("manifests");
    fs::create_dir_all(directory.join("below")).expect("a directory");
    fs::write(outer.path().join("elsewhere"), yaml("b", "")).expect("written");
    fs::write(directory.join("a"), yaml("a", "")).expect("written");
    symlink("../elsewhere", directory.join("link.yaml")).expect("a link");
    symlink("below", directory.join("link-to-directory")).expect("a link");
    fs::write(directory.join("below/c.yaml"), yaml("c", "")).expect("written");
    fs::write(directory.join(".d.yaml.swp"), "not YAML: [").expect("written");
    fs::write(directory.join(".d.yaml"), yaml("d", "")).expect("written");
    fs::write(directory.join("e.yaml~"), yaml("e", "")).expect("written");
    symlink("/dev/null", directory.join("device")).expect("a link");
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff[*].yaml");
    fs::write(directory.join(odd), yaml("a", "")).expect("written");
    let expected = ["a", "b", "e"].map(str::to_owned);
    assert_eq!(known(&directory, &node), Ok(expected.to_vec()));
    let link = outer.path().join("to-manifests");
    symlink("manifests", &link).expect("a link");
    assert_eq!(
        known(&link, &node),
        Ok(expected.to_vec()),
        "the directory may be a link"
    );
}

#[test]
fn a_manifest_that_cannot_be_read_leaves_everything_unknown() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("a-good"), yaml("good", "  uid: g\n")).expect("written");
    let bad = directory.path().join("bad");
    check_transcript("tests/node/manifests.txt", |input| {
        let text = unescaped(input.trim_start_matches('>').trim_start_matches(' '));
        fs::write(&bad, text).expect("written");
        let node = sim();
        run(&node, "default", "web-node-1", "w");
        let error = known(directory.path(), &node).expect_err(input);
        assert_eq!(node.calls(), [], "an error needs no call of the runtime");
        fs::remove_file(&bad).expect("removed");
        let all = ["g", "w"].map(str::to_owned).to_vec();
        assert_eq!(known(directory.path(), &node), Ok(all), "it is read again");
        error.replace('\n', "\\n")
    });
}

#[test]
fn dangling_links_and_missing_directories_are_errors() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = sim();
    symlink("nowhere", directory.path().join("dangles")).expect("a link");
    let error = known(directory.path(), &node).expect_err("a manifest may be missing");
    assert!(error.starts_with("dangles: cannot be read: "), "{error}");
    fs::remove_file(directory.path().join("dangles")).expect("removed");
    symlink("loop", directory.path().join("loop")).expect("a link");
    let error = known(directory.path(), &node).expect_err("a manifest may be missing");
    assert!(error.starts_with("loop: cannot be read: "), "{error}");
    let missing = directory.path().join("missing");
    let error = known(&missing, &node).expect_err("it may be mounted later");
    assert!(error.starts_with("FOLDER: cannot be read: "), "{error}");
    let large = directory.path().join("large");
    fs::remove_file(directory.path().join("loop")).expect("removed");
    fs::write(&large, vec![b' '; (10 << 20) + 1]).expect("written");
    let error = known(directory.path(), &node).expect_err("larger than a kubelet reads");
    assert!(
        error.contains("larger than the limit of 10485760 bytes"),
        "{error}"
    );
}

#[test]
fn a_directory_without_manifests_is_an_error_unless_declared_empty() {
    for name in ["", ".web.yaml", "below/web.yaml"] {
        let directory = tempfile::tempdir().expect("a directory");
        if !name.is_empty() {
            fs::create_dir(directory.path().join("below")).expect("a directory");
            fs::write(directory.path().join(name), yaml("web", "  uid: w\n")).expect("written");
        }
        let node = sim();
        run(&node, "shop", "api", "api");
        let expected = "no manifest in FOLDER: a directory that is not mounted looks so";
        assert_eq!(known(directory.path(), &node), Err(expected.to_owned()), "{name}");
        assert_eq!(node.calls(), [], "an error needs no call of the runtime");
        let allowed = now(source(directory.path(), &node).or_none().pods()).expect("known");
        let runs = [(Uid::new("api"), PodState::ACTIVE)];
        assert_eq!(allowed.known, runs.into(), "{name}: what runs is known");
        fs::write(directory.path().join("db.yaml"), yaml("db", "  uid: d\n")).expect("written");
        assert_eq!(
            known(directory.path(), &node),
            Ok(vec!["api".to_owned(), "d".to_owned()])
        );
    }
}

#[test]
fn a_path_that_is_neither_directory_nor_file_has_no_manifests() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    let link = directory.path().join("link");
    symlink("/dev/null", &link).expect("a link");
    let node = sim();
    for path in [&*socket, &*link, Path::new("/dev/null")] {
        for source in [source(path, &node), source(path, &node).or_none()] {
            let expected = format!("{}: no directory and no file", path.display());
            assert_eq!(now(source.pods()), Err(RuntimeError::refused(expected)));
        }
    }
    let in_directory = now(source(directory.path(), &node).or_none().pods());
    assert!(in_directory.is_ok(), "a kubelet skips them: {in_directory:?}");
}

#[test]
fn without_a_sandbox_with_a_uid_the_pods_are_unknown() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("web.yaml"), yaml("web", "")).expect("written");
    let node = sim();
    let gone = run(&node, "default", "old-node-1", "old");
    node.end_sandbox(&gone.sandbox_id).expect("there is one");
    let expected = "web.yaml: pod default/web-node-1 has no sandbox yet, so its uid is unknown; or the node is not called Node-1";
    assert_eq!(known(directory.path(), &node), Err(expected.to_owned()));
    let nameless = node.run_sandbox(&kubegc_core::node_facts::PodIdentity {
        uid: Uid::new(""),
        namespace: "default".into(),
        name: "web-node-1".into(),
    });
    assert_eq!(
        known(directory.path(), &node),
        Err(expected.to_owned()),
        "a sandbox without uid adds no uid"
    );
    node.end_sandbox(&nameless).expect("there is one");
    run(&node, "default", "web-node-1", "w");
    drop(node.take_calls());
    assert_eq!(known(directory.path(), &node), Ok(vec!["w".to_owned()]));
    assert_eq!(operations(&node), LISTED);
    let elsewhere = PodManifests::new(directory.path(), "node-2", Arc::new(node.clone()));
    assert!(now(elsewhere.pods()).is_err(), "another node's name");
}

#[test]
fn the_newest_uid_is_known_and_older_ones_while_something_of_them_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("web.yaml"), yaml("web", "")).expect("written");
    let name = "web-node-1";
    let all = |uids: &[&str]| Ok(uids.iter().map(|&uid| uid.to_owned()).collect::<Vec<_>>());
    let node = sim();
    let first = run(&node, "default", name, "a1");
    let second = run(&node, "default", name, "a2");
    let third = run(&node, "default", name, "a3");
    assert_eq!(
        known(directory.path(), &node),
        all(&["a1", "a2", "a3"]),
        "all are ready"
    );
    node.end_sandbox(&first.sandbox_id).expect("there is one");
    assert_eq!(known(directory.path(), &node), all(&["a2", "a3"]));
    node.end_sandbox(&second.sandbox_id).expect("there is one");
    node.set_container_state(&second.container_ids[0], ContainerState::Unknown)
        .expect("there is one");
    assert_eq!(known(directory.path(), &node), all(&["a2", "a3"]), "it may run");
    node.set_container_state(&second.container_ids[0], ContainerState::Exited)
        .expect("there is one");
    node.end_sandbox(&third.sandbox_id).expect("there is one");
    assert_eq!(
        known(directory.path(), &node),
        all(&["a3"]),
        "the newest, although it ended"
    );
    let equal = node.sandbox(&third.sandbox_id).expect("there is one").created_at;
    node.edit_sandbox(&second.sandbox_id, |sandbox| sandbox.created_at = equal)
        .expect("there is one");
    assert_eq!(
        known(directory.path(), &node),
        all(&["a2", "a3"]),
        "both may be the newest"
    );
}
