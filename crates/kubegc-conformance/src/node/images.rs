//! Compares the rounds of an image case with the recorded ones.
//!
//! Upstream's order among images of equal use and detection is random. The plain replay must give a recorded
//! result, or first differ from one only in that. Where the recorder saw several results, each is also
//! replayed with ties broken as recorded, and must match completely.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{
    format::{Attempt, ImageCase, RoundOutcome, UpstreamExpect},
    rounds::{key, place, run},
};
use crate::{
    Failure,
    failure::{equal, equal_fields},
    runner::{Case, Report},
};

pub(crate) fn replay(case: &Case<'_>, report: &mut Report) -> Result<(), Failure> {
    let case: ImageCase = case.read()?;
    let case = &case;
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
        report
            .notes
            .push("the plain replay breaks a tie in a way that was not stored".to_owned());
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
        equal_fields(expected, got).map_err(|failure| failure.within(place(at)))?;
    }
    Ok(())
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
        // These do not depend on ties of the same round.
        equal("eviction_order", &expected.eviction_order, &got.eviction_order)?;
        equal("usage_percent", &expected.usage_percent, &got.usage_percent)?;
        equal("amount_to_free", &expected.amount_to_free, &got.amount_to_free)?;
        let before = touched(case, expected)?;
        let after = touched(case, got)?;
        if before == after {
            // The same images were tried, in another order: everything else is equal.
            equal("freed", &expected.freed, &got.freed)?;
            equal("error", &expected.error, &got.error)?;
            equal("events", &expected.events, &got.events)?;
            return equal("records", &expected.records, &got.records);
        }
        let all_but_last = |groups: &[Group]| groups[..groups.len().saturating_sub(1)].to_vec();
        equal(
            "groups that were tried whole",
            &all_but_last(&before),
            &all_but_last(&after),
        )?;
        equal("groups that were tried", &before.len(), &after.len())
    };
    compared().map_err(|failure| failure.within(place(at)))
}

/// Keys that were removed, and keys that could not be.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
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
    let left = images_left.map(|_| left);
    equal("upstream_expect: images_left", &images_left, &left)?;
    let last_freed = freed.map(|_| last.freed.unwrap_or(0));
    equal("upstream_expect: freed", &freed, &last_freed)?;
    let last_records = records.map(|_| last.records.len());
    equal("upstream_expect: records", &records, &last_records)?;
    let has_failed = error.map(|_| !last.error.is_empty());
    equal("upstream_expect: error", &error, &has_failed)
}
