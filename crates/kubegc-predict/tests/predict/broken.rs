//! Dumps of which much is missing, and cycles of owners, as people met them: outcomes and findings.

use std::path::PathBuf;

use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy};
use kubegc_predict::{Assumptions, Cluster, Detail, Fate, Forecast, Intent, Question};
use kubegc_snapshot::{Reader, Snapshot};

use PropagationPolicy::{Background, Foreground};

fn snapshot(name: &str) -> Snapshot {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/broken")
        .join(name);
    let mut reader = Reader::new(KubernetesVersion::LATEST);
    reader.read_path(&path).expect("a dump");
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
        let intents: Vec<Intent> = deleted
            .iter()
            .map(|name| Intent::delete(name.parse().expect("a name"), DeleteOptions::policy(policy)))
            .collect();
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
