//! Dumps as people made them: without kinds, without objects, in old groups, of a release with a known bug.

use std::path::PathBuf;

use kubegc_core::KubernetesVersion;
use kubegc_predict::{Assumptions, Cluster, document::AnswerStatus};
use kubegc_snapshot::{Problem, Reader};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/broken")
        .join(name)
}

fn cluster(version: &str, name: &str) -> Cluster {
    let version: KubernetesVersion = version.parse().expect("a version");
    let mut reader = Reader::new(version).complete("all");
    reader.read_path(&data(name)).expect("a dump");
    let snapshot = reader.finish_with_objects().expect("objects");
    Cluster::new(version, snapshot, Assumptions::default())
}

#[test]
fn pods_without_a_kind_are_read() {
    for (name, assumed) in [
        ("no-kind/pods.json", 3),
        ("no-kind/pods.jsonl", 3),
        ("no-kind", 6),
    ] {
        let cluster = cluster("1.36", name);
        let snapshot = cluster.snapshot();
        assert_eq!(snapshot.positions_of_kind("", "Pod").len(), 3, "{name}");
        assert_eq!(snapshot.finding_counts[&Problem::AssumedKind], assumed, "{name}");
    }
}

#[test]
fn a_dump_without_objects_is_an_error() {
    let mut reader = Reader::new(KubernetesVersion::LATEST);
    reader.read_path(&data("no-objects")).expect("JSON");
    let error = reader.finish_with_objects().expect_err("no object");
    assert_eq!(AnswerStatus::of(&error).exit_code(), 1);
    let text = error.to_string();
    let why = "other-json.json, document 1: it has neither apiVersion nor kind";
    assert!(
        text.starts_with("no Kubernetes object was read: ") && text.ends_with(why),
        "{text}"
    );
}

#[test]
fn owners_may_be_dumped_in_another_group() {
    for version in ["1.15", "1.36"] {
        let diagnosis = cluster(version, "ext-v1beta1.json").doctor();
        assert!(
            diagnosis.references.is_empty(),
            "{version}: {:?}",
            diagnosis.references
        );
    }
}

#[test]
fn a_pod_whose_job_no_longer_exists_waits_for_the_job_controller() {
    for (version, has_bug) in [("1.23.5", true), ("1.23.6", false), ("1.36", false)] {
        let diagnosis = cluster(version, "job-tracking.yaml").doctor();
        assert!(
            diagnosis.references.is_empty(),
            "{version}: {:?}",
            diagnosis.references
        );
        let pod = diagnosis.terminating.first().expect("a terminating pod");
        assert_eq!((pod.bug.is_some(), pod.is_stuck), (has_bug, has_bug), "{version}");
        let text = diagnosis.to_text(8);
        let words: Vec<&str> = text.split_whitespace().collect();
        let removed = match has_bug {
            true => "should act: kube-controller-manager: restart it, or upgrade to 1.23.6",
            false => "removed once the job-controller has removed finalizer batch.kubernetes.io/job-tracking",
        };
        assert!(words.join(" ").contains(removed), "{version}: {text}");
    }
}
