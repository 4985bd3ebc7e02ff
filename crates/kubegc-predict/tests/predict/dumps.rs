//! Dumps as people met and made them, of which much is missing: without kinds, without objects, in old
//! groups, of a release with a known bug, and with cycles of owners.

use std::path::PathBuf;

use PropagationPolicy::{Background, Foreground};
use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy};
use kubegc_predict::{
    Assumptions, Cluster, Detail, Fate, Forecast, Intent, Question, document::AnswerStatus,
};
use kubegc_snapshot::{Problem, Reader, Snapshot};

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

fn snapshot(name: &str) -> Snapshot {
    let mut reader = Reader::new(KubernetesVersion::LATEST);
    reader.read_path(&data(name)).expect("a dump");
    reader.finish().expect("nothing is declared")
}

/// The outcomes of all affected objects.
fn outcomes(forecast: &Forecast) -> String {
    let outcomes = forecast.fates.iter().map(|fate| match &fate.fate {
        Fate::Undetermined { outcomes, .. } => format!("{} undetermined ({outcomes})", fate.object.name),
        other => format!("{} {}", fate.object.name, other.word()),
    });
    outcomes.collect::<Vec<_>>().join(", ")
}

/// The dump, the names of the deleted objects, the policy, the outcomes, and the findings about cycles.
type Row = (
    &'static str,
    &'static [&'static str],
    PropagationPolicy,
    &'static str,
    &'static [&'static str],
);

const SECRET: &[&str] = &["demo/Secret/parent"];
const HELD: &str = "child terminating, parent terminating";
const NOT_BLOCKED: &str = "child terminating, parent deleted";
const BOTH: &[&str] = &["d/ConfigMap/copy", "d/ConfigMap/upstream"];
const STUCK: &str = "copy terminating, upstream terminating";
const CYCLE: &str = "configmap/copy -n d and configmap/upstream -n d wait for each other: a cycle of foreground \
                     deletion, which ends when blockOwnerDeletion is false in one of the references";
const ORDER: &str =
    "configmap/copy -n d and configmap/upstream -n d: deleted, or terminating; the order of requests decides";

#[test]
fn outcomes_and_findings_are_right() {
    let rows: [Row; 8] = [
        ("block-owner/b-true.yaml", SECRET, Foreground, HELD, &[]),
        ("block-owner/b-true.yaml", SECRET, Background, NOT_BLOCKED, &[]),
        ("block-owner/b-false.yaml", SECRET, Foreground, NOT_BLOCKED, &[]),
        ("block-owner/opaque.yaml", SECRET, Foreground, HELD, &[]),
        (
            "block-owner/cm.yaml",
            &["demo/ConfigMap/parent"],
            Foreground,
            HELD,
            &[],
        ),
        (
            "block-owner/nofin.yaml",
            SECRET,
            Foreground,
            "child deleted, parent deleted",
            &[],
        ),
        ("circular/cycle.yaml", BOTH, Foreground, STUCK, &[CYCLE, ORDER]),
        ("circular/stuck.yaml", &[], Foreground, STUCK, &[CYCLE]),
    ];
    for (name, deleted, policy, expected, findings) in rows {
        let cluster = Cluster::new(KubernetesVersion::LATEST, snapshot(name), Assumptions::default());
        let delete =
            |name: &&str| Intent::delete(name.parse().expect("a name"), DeleteOptions::policy(policy));
        let intents: Vec<Intent> = deleted.iter().map(delete).collect();
        let forecast = cluster.predict(&intents).expect("the objects are in the dump");
        assert_eq!(outcomes(&forecast), expected, "{name} {policy:?}");
        let found: Vec<String> = forecast.findings.iter().map(ToString::to_string).collect();
        for finding in findings {
            assert!(found.iter().any(|found| found.starts_with(finding)), "{found:#?}");
        }
        let is_about_cycles = |finding: &&String| finding.contains("cycle") || finding.contains("order of");
        assert_eq!(
            found.iter().filter(is_about_cycles).count(),
            findings.len(),
            "{found:#?}"
        );
    }
}

/// After a restore every object has another uid, so that the claim has no owner.
#[test]
fn a_restored_claim_is_deleted_and_may_wait_for_a_pod() {
    let version = KubernetesVersion::LATEST;
    let restored = snapshot("restored-pvc").restored();
    let cluster = Cluster::new(version, restored, Assumptions::default());
    let question = Question::new(version).only(&[
        "persistentvolumeclaim-protection-controller",
        "persistentvolume-protection-controller",
    ]);
    let forecast = cluster.forecast(&question).expect("there is no intent");
    assert!(
        outcomes(&forecast).contains("data-store-0 undetermined (deleted, or terminating)"),
        "{}",
        outcomes(&forecast)
    );
    assert!(!outcomes(&forecast).contains("data-writer-0 undetermined"));
    let text = forecast.to_text(Detail::default()).replace("\n    ", " ");
    let row = "persistentvolumeclaim/data-store-0 -n logs: deleted, or terminating: \
               persistentvolumeclaim-protection-controller: the list of pods is not complete";
    assert!(text.contains(row), "{text}");
    assert!(
        text.contains("only the garbage collector and these controllers run: "),
        "{text}"
    );
}
