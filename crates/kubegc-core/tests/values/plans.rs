//! Plans as text.

use kubegc_core::{Kept, Plan, Timestamp};

#[test]
fn a_report_groups_objects_by_reason_and_names_at_most_five() {
    let mut plan: Plan<&str, String, String, ()> = Plan::default();
    assert_eq!(plan.to_string(), "actions (0)\n");
    for at in 0..7 {
        plan.kept.push(Kept {
            object: format!("o{at}"),
            reason: format!("o{at}: it is young"),
        });
    }
    plan.kept.push(Kept {
        object: "a".into(),
        reason: "it is old".into(),
    });
    plan.findings = (0..5)
        .map(|at| Kept {
            object: format!("f{at}"),
            reason: "it is odd".into(),
        })
        .collect();
    plan.actions = vec!["delete b", "delete c"];
    plan.next_at = Some(Timestamp::from_secs(1));
    let text = "\
actions (2):
  delete b
  delete c
kept (8):
  it is old (1): a
  it is young (7): o0, o1, o2, o3, o4 and 2 more
findings (5):
  it is odd (5): f0, f1, f2, f3, f4
the next change is due at 1970-01-01T00:00:01Z
";
    assert_eq!(plan.to_string(), text);
}
