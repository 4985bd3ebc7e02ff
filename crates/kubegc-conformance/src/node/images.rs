//! Compares the rounds of an image case with the recorded ones.
//!
//! Upstream's order among images of equal use and detection is random. The plain replay must give a recorded
//! result, or first differ from one only in that. Where the recorder saw several results, each is also
//! replayed with ties broken as recorded, and must match completely.

use std::collections::BTreeSet;

use super::{
    format::{Attempt, ImageCase, RoundOutcome, UpstreamExpect},
    rounds::{key, place, run},
};
use crate::{
    Failure,
    failure::{equal, equal_lines},
    runner::CaseReport,
};

/// Replays one case.
pub(crate) fn replay(line: &str) -> CaseReport {
    let mut notes = Vec::new();
    let result = serde_json::from_str::<ImageCase>(line)
        .map_err(Failure::unreadable)
        .and_then(|case| compare(&case, &mut notes));
    CaseReport {
        notes,
        ..result.into()
    }
}

fn compare(case: &ImageCase, notes: &mut Vec<String>) -> Result<(), Failure> {
    let Some(first) = case.outcomes.first() else {
        return Err(Failure::unreadable("the case has no outcomes"));
    };
    for outcome in &case.outcomes {
        let (rounds, recorded) = (case.rounds.len(), outcome.len());
        if rounds != recorded {
            return Err(Failure::unreadable(format!(
                "{rounds} rounds and {recorded} results"
            )));
        }
    }
    if !case.sandbox_image.is_empty() && case.semantics != "1.28" {
        return Err(Failure::unreadable("sandbox_image belongs to 1.28"));
    }
    let plain = run(case, None)?;
    expect(case, &plain)?;
    if !case.outcomes.contains(&plain) {
        if case.distinct_outcomes <= 1 {
            return difference(first, &plain);
        }
        case.outcomes
            .iter()
            .map(|outcome| same_but_for_ties(case, outcome, &plain))
            .reduce(Result::or)
            .unwrap_or(Ok(()))?;
        notes.push("the plain replay breaks a tie in a way that was not stored".to_owned());
    }
    if case.distinct_outcomes > 1 {
        for (at, outcome) in (1..).zip(&case.outcomes) {
            let place = || format!("result {at} of {}, ties broken as recorded", case.outcomes.len());
            let compared = run(case, Some(outcome)).and_then(|guided| {
                difference(outcome, &guided)?;
                expect(case, &guided)
            });
            compared.map_err(|failure| failure.within(place()))?;
        }
    }
    Ok(())
}

/// Whether two results are equal; else the first field in which they differ.
fn difference(expected: &[RoundOutcome], got: &[RoundOutcome]) -> Result<(), Failure> {
    for (at, (expected, got)) in expected.iter().zip(got).enumerate() {
        round_difference(expected, got).map_err(|failure| failure.within(place(at)))?;
    }
    Ok(())
}

fn round_difference(expected: &RoundOutcome, got: &RoundOutcome) -> Result<(), Failure> {
    order_and_disk(expected, got)?;
    equal_lines("removed", &lines(&expected.removed), &lines(&got.removed))?;
    equal_lines("failed", &lines(&expected.failed), &lines(&got.failed))?;
    equal(
        "freed",
        format!("{:?}", expected.freed),
        format!("{:?}", got.freed),
    )?;
    equal("error", &expected.error, &got.error)?;
    equal("error_text", &expected.error_text, &got.error_text)?;
    equal_lines("events", &expected.events, &got.events)?;
    equal_lines("records", &lines(&expected.records), &lines(&got.records))
}

/// The parts of a result that do not depend on ties of the same round.
fn order_and_disk(expected: &RoundOutcome, got: &RoundOutcome) -> Result<(), Failure> {
    equal_lines(
        "eviction_order",
        &lines(&expected.eviction_order),
        &lines(&got.eviction_order),
    )?;
    let disk = |outcome: &RoundOutcome| format!("{:?} {:?}", outcome.usage_percent, outcome.amount_to_free);
    equal("usage_percent and amount_to_free", disk(expected), disk(got))
}

fn lines<T: std::fmt::Debug>(items: &[T]) -> Vec<String> {
    items.iter().map(|item| format!("{item:?}")).collect()
}

/// Whether a result first differs from a recorded one by the order within one group of equals.
///
/// In any such order the last group with tried images is the same, and all images of the groups before it are
/// tried. Later rounds begin with other records and are not compared.
fn same_but_for_ties(
    case: &ImageCase,
    expected: &[RoundOutcome],
    got: &[RoundOutcome],
) -> Result<(), Failure> {
    let both = || expected.iter().zip(got).enumerate();
    let Some((at, (expected, got))) = both().find(|(_, (expected, got))| expected != got) else {
        return Ok(());
    };
    let compared = || {
        order_and_disk(expected, got)?;
        let before = touched(case, expected)?;
        let after = touched(case, got)?;
        if before == after {
            // The same images were tried, in another order: everything else is equal.
            equal(
                "freed",
                format!("{:?}", expected.freed),
                format!("{:?}", got.freed),
            )?;
            equal("error", &expected.error, &got.error)?;
            equal_lines("events", &expected.events, &got.events)?;
            return equal_lines("records", &lines(&expected.records), &lines(&got.records));
        }
        let all_but_last = |groups: &[Group]| lines(&groups[..groups.len().saturating_sub(1)]);
        equal_lines(
            "groups that were tried whole",
            &all_but_last(&before),
            &all_but_last(&after),
        )?;
        equal(
            "groups that were tried",
            before.len().to_string(),
            after.len().to_string(),
        )
    };
    compared().map_err(|failure| failure.within(place(at)))
}

/// Keys that were removed, and keys that could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    removed: BTreeSet<String>,
    failed: BTreeSet<String>,
}

/// The images that were tried in each group of the eviction order, up to the last group with any. An error
/// if a group was not completed before the next one.
fn touched(case: &ImageCase, outcome: &RoundOutcome) -> Result<Vec<Group>, Failure> {
    let mut groups = vec![Group::default(); outcome.eviction_order.len()];
    let mut last = None;
    let tried = [(&outcome.removed, true), (&outcome.failed, false)];
    for (attempts, is_removed) in tried {
        let mut reached = 0;
        for Attempt(id, handler, _) in attempts {
            let key = key(case, id, handler);
            let at = outcome
                .eviction_order
                .iter()
                .position(|group| group.contains(&key));
            let at = at.ok_or_else(|| Failure::new("an attempt", "one of the eviction order", &key))?;
            if at < reached {
                return Err(Failure::new("order of attempts", "that of the groups", key));
            }
            reached = at;
            last = last.max(Some(at));
            let group = &mut groups[at];
            if is_removed {
                &mut group.removed
            } else {
                &mut group.failed
            }
            .insert(key);
        }
    }
    groups.truncate(last.map_or(0, |at| at + 1));
    Ok(groups)
}

/// The assertions of upstream's own test after the last round.
fn expect(case: &ImageCase, got: &[RoundOutcome]) -> Result<(), Failure> {
    let (Some(expected), Some(round), Some(last)) = (&case.upstream_expect, case.rounds.last(), got.last())
    else {
        return Ok(());
    };
    let UpstreamExpect {
        images_left,
        freed,
        records,
        error,
    } = *expected;
    // The fake runtime of upstream's tests takes one entry from its list for each removal.
    let left = round.images.len().saturating_sub(last.removed.len());
    let compared = [
        (
            "images_left",
            images_left.map(|count| count.to_string()),
            left.to_string(),
        ),
        (
            "freed",
            freed.map(|bytes| bytes.to_string()),
            last.freed.unwrap_or(0).to_string(),
        ),
        (
            "records",
            records.map(|count| count.to_string()),
            last.records.len().to_string(),
        ),
        (
            "error",
            error.map(|any| any.to_string()),
            (!last.error.is_empty()).to_string(),
        ),
    ];
    for (place, expected, got) in compared {
        if let Some(expected) = expected {
            equal(&format!("upstream_expect: {place}"), expected, got)?;
        }
    }
    Ok(())
}
