//! Compares the rounds of an image case with the recorded ones.
//!
//! Upstream's order among images of equal use and detection is random. Where the recorder saw several
//! results, each is replayed with ties broken as recorded, and must match. Elsewhere the plain replay must
//! give the recorded result.

use super::{
    format::{ImageCase, RoundOutcome, UpstreamExpect},
    rounds::{place, run},
};
use crate::{
    Failure, Report,
    failure::{equal, equal_fields},
    recording::Case,
};

pub(crate) fn replay(case: &Case<'_>, _: &mut Report) -> Result<(), Failure> {
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
    if case.distinct_outcomes <= 1 {
        return difference(first, &plain);
    }
    for (at, outcome) in (1..).zip(&case.outcomes) {
        let place = || format!("result {at} of {}, ties broken as recorded", case.outcomes.len());
        let compared = run(case, Some(outcome)).and_then(|guided| {
            difference(outcome, &guided)?;
            expect(case, &guided)
        });
        compared.map_err(|failure| failure.within(place()))?;
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
