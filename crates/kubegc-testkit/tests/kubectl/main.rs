//! `kubectl` against the cluster on its loopback socket: its output is compared with a transcript,
//! command by command.
//!
//! `KUBEGC_KUBECTL` names the program; otherwise the path is searched. Where there is none, the test is
//! skipped with a notice, except where `CI=true`: there it fails. `KUBEGC_BLESS=1` writes the transcript
//! again.
#![cfg(feature = "loopback")]

mod session;

use std::{fmt::Write as _, fs, path::Path};

use kubegc_testkit::Cluster;
use session::{Session, environment};

const OBJECTS: &str = include_str!("objects.yaml");

fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubectl"))
}

/// The commands of a transcript, in order.
fn commands(transcript: &str) -> impl Iterator<Item = &str> {
    transcript.lines().filter_map(|line| line.strip_prefix("$ "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_works_as_with_a_real_cluster() {
    let Some(kubectl) = session::kubectl() else {
        let missing =
            "no kubectl: the transcript is NOT checked (set KUBEGC_KUBECTL, or install kubernetes-client)";
        assert!(environment("CI").as_deref() != Some("true"), "{missing}");
        #[expect(clippy::print_stderr, reason = "the output of a test run")]
        {
            eprintln!("SKIPPED: {missing}");
        }
        return;
    };
    let cluster = Cluster::builder()
        .yaml(OBJECTS)
        .follow_tokio_clock(true)
        .build()
        .expect("the objects can be stored");
    let (loopback, _running) = (cluster.serve().await.expect("a free port"), cluster.run());
    let session = Session::new(kubectl, &loopback.kubeconfig(), directory());
    let path = directory().join("transcript.txt");
    let expected = fs::read_to_string(&path).expect("the transcript can be read");
    let mut got = String::new();
    for command in commands(&expected) {
        let (session, words) = (session.clone(), command.to_owned());
        let output = tokio::task::spawn_blocking(move || session.run(&words));
        let output = output.await.expect("the command was run");
        writeln!(got, "$ {command}\n{output}").expect("texts take all");
    }
    if environment("KUBEGC_BLESS").is_some() {
        fs::write(&path, &got).expect("the transcript can be written");
        return;
    }
    let mut sides = expected.split("\n$ ").zip(got.split("\n$ "));
    if let Some((expected, got)) = sides.find(|(expected, got)| expected.trim() != got.trim()) {
        panic!("expected:\n{expected}\ngot:\n{got}\naudit:\n{}", cluster.audit());
    }
    assert_eq!(commands(&expected).count(), commands(&got).count());
}
