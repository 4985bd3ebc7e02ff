//! Performs the rounds of an image case, one run each, on one set of records, and compares them.
//!
//! Upstream's order among images of equal use and detection is random. Where the recorder saw several
//! results, each is replayed with ties broken as recorded, and must match. Elsewhere the plain replay must
//! give the recorded result.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    RuntimeError, Timestamp,
    node_facts::{self, Container, ContainerImage, ContainerState, PodIdentity},
};
use kubegc_node::{
    GoDuration, Inventory, Order, Unlisted,
    image::{
        self, Action, Arithmetic, Error, FreeSpace, Records, RemovalReason, Response, Run, Step, Summary,
        Task, Thresholds,
    },
};

use super::format::{
    Attempt, Call, Image, ImageCase, ListError, Record, Round, RoundOutcome, UpstreamExpect,
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

/// Replays all rounds. With a recorded result, each listing is sorted so that ties are broken as recorded.
fn run(case: &ImageCase, ties: Option<&[RoundOutcome]>) -> Result<Vec<RoundOutcome>, Failure> {
    let policy = policy(case)?;
    let mut records = Records::default();
    let mut outcomes = Vec::with_capacity(case.rounds.len());
    for (at, round) in case.rounds.iter().enumerate() {
        let ties = ties.and_then(|outcomes| outcomes.get(at));
        let outcome =
            perform(case, policy, round, ties, &mut records).map_err(|failure| failure.within(place(at)))?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Rounds are counted from one.
fn place(at: usize) -> String {
    format!("round {}", at + 1)
}

fn policy(case: &ImageCase) -> Result<FreeSpace, Failure> {
    let thresholds = Thresholds {
        high_percent: case.policy.high_threshold_percent,
        low_percent: case.policy.low_threshold_percent,
        age_min: GoDuration::from_nanos(case.policy.min_age),
        age_max: GoDuration::from_nanos(case.policy.max_age),
    };
    let semantics = super::semantics(&case.semantics, case.runtime_class_in_image_cri_api)?;
    let policy = FreeSpace::new(thresholds, semantics)
        .map_err(|problem| Failure::unreadable(format!("the policy is refused: {problem}")))?;
    Ok(FreeSpace {
        arithmetic: Arithmetic::Upstream,
        order: Order::Listing,
        ..policy
    })
}

/// N3.2: the keys of records.
fn key(case: &ImageCase, id: &str, handler: &str) -> String {
    if case.runtime_class_in_image_cri_api && !handler.is_empty() {
        format!("{id},{handler}")
    } else {
        id.to_owned()
    }
}

fn perform(
    case: &ImageCase,
    policy: FreeSpace,
    round: &Round,
    ties: Option<&RoundOutcome>,
    records: &mut Records,
) -> Result<RoundOutcome, Failure> {
    if round.detect_zero && round.call != Call::Detect {
        return Err(Failure::unreadable("detect_zero belongs to detect"));
    }
    let task = match round.call {
        Call::Detect => Task::Detect,
        Call::Gc => Task::Collect,
        Call::DeleteUnused => Task::DeleteUnused,
        Call::FreeSpace => Task::Free {
            bytes: round.bytes_to_free,
        },
    };
    let inventory = inventory(case, round, ties);
    let began = Timestamp::from_nanos(case.began_gc);
    let now = Timestamp::from_nanos(round.now);
    let policy = FreeSpace { task, ..policy };
    let mut run = Run::new(policy, std::mem::take(records), began, now);
    if round.detect_zero {
        run = run.with_zero_detection_time();
    }
    let mut outcome = RoundOutcome::default();
    let mut response = None;
    // Ends: a run lists once, measures once, and removes each image at most twice.
    loop {
        response = match run.next(response) {
            Step::List => Some(Response::Listed {
                inventory: &inventory,
                at: Timestamp::from_nanos(round.detect_now.unwrap_or(round.now)),
            }),
            Step::Measure => Some(Response::Measured(inventory.image_file_system.clone())),
            Step::Remove(action) => Some(Response::Removed(remove(round, &action, &mut outcome))),
            Step::Done => break,
        };
    }
    if round.call != Call::Detect
        && let Some(candidates) = run.candidates()
    {
        outcome.eviction_order = eviction_order(candidates.collect());
    }
    let plan = run.finish();
    let reported: Vec<_> = plan.actions.iter().map(|action| attempt(action).0).collect();
    let tried = outcome.removed.len() + outcome.failed.len();
    if reported.len() != tried {
        return Err(Failure::new("actions", tried.to_string(), reported.join(" ")));
    }
    record_summary(&mut outcome, &plan.summary);
    *records = plan.summary.records;
    Ok(outcome)
}

fn inventory(case: &ImageCase, round: &Round, ties: Option<&RoundOutcome>) -> Inventory {
    let failed = |what: &str| Unlisted::Failed(RuntimeError::refused(format!("{what} failed")));
    let mut images: Vec<&Image> = round.images.iter().collect();
    if let Some(recorded) = ties {
        // Failures first: then the same images are tried before enough is freed.
        let sooner = recorded.failed.iter().chain(&recorded.removed);
        let ranks: BTreeMap<String, usize> = sooner
            .zip(0..)
            .map(|(Attempt(id, handler, _), rank)| (key(case, id, handler), rank))
            .collect();
        images.sort_by_key(|image| {
            let rank = ranks.get(&key(case, &image.id, &image.handler));
            rank.copied().unwrap_or(usize::MAX)
        });
    }
    let images = images.into_iter().map(|image| {
        Arc::new(node_facts::Image {
            id: image.id.as_str().into(),
            runtime_handler: image.handler.as_str().into(),
            size_bytes: image.size.cast_unsigned(),
            pinned: image.pinned,
            ..node_facts::Image::default()
        })
    });
    let containers = round.used.iter().map(|used| {
        let image = ContainerImage {
            reference: used.id.as_str().into(),
            runtime_handler: used.handler.as_str().into(),
            ..ContainerImage::default()
        };
        let pod = PodIdentity::default();
        let container = Container::new("", pod, "", ContainerState::Running, Timestamp::EPOCH);
        Arc::new(Container { image, ..container })
    });
    Inventory {
        images: match round.list_error {
            ListError::Images => Err(failed("list images")),
            ListError::None | ListError::Pods => Ok(images.collect()),
        },
        containers: match round.list_error {
            ListError::Pods => Err(failed("list pods")),
            ListError::None | ListError::Images => Ok(containers.collect()),
        },
        sandbox_image: round.sandbox_ref.as_deref().map(Arc::from),
        image_file_system: if round.fs.error {
            Err(failed("stats"))
        } else {
            Ok(node_facts::FileSystem {
                capacity_bytes: round.fs.capacity,
                available_bytes: round.fs.available,
                ..node_facts::FileSystem::default()
            })
        },
        ..Inventory::default()
    }
}

fn attempt(action: &Action) -> Attempt {
    let Action {
        image,
        runtime_handler,
        reason,
    } = action;
    let reason = match reason {
        RemovalReason::Age { .. } => "age",
        RemovalReason::Space { .. } => "space",
        _ => "unknown",
    };
    Attempt(
        image.id.to_string(),
        runtime_handler.to_string(),
        reason.to_owned(),
    )
}

fn remove(round: &Round, action: &Action, outcome: &mut RoundOutcome) -> Result<(), RuntimeError> {
    let attempt = attempt(action);
    if round.remove_fails.contains(&attempt.0) {
        outcome.failed.push(attempt);
        Err(RuntimeError::refused("remove failed"))
    } else {
        outcome.removed.push(attempt);
        Ok(())
    }
}

/// The keys of candidates, in groups that are equal in upstream's order.
fn eviction_order(candidates: Vec<&image::Record>) -> Vec<Vec<String>> {
    let groups =
        candidates.chunk_by(|a, b| (a.last_used, a.first_detected) == (b.last_used, b.first_detected));
    let group = |group: &[&image::Record]| {
        let mut keys: Vec<String> = group.iter().map(|record| record.key.to_string()).collect();
        keys.sort_unstable();
        keys
    };
    groups.map(group).collect()
}

/// Adds the summary of a run to the outcome, in the form of a recording.
fn record_summary(outcome: &mut RoundOutcome, summary: &Summary) {
    if let Some(bytes) = summary.to_free_bytes {
        outcome.usage_percent = summary.usage_percent;
        outcome.amount_to_free = Some(bytes);
    }
    outcome.freed = summary.freed_bytes;
    if let Some(error) = &summary.error {
        let kind = match error {
            Error::ListImages(_) => "list_images",
            Error::ListPods(_) => "list_pods",
            Error::FileSystem(_) => "stats",
            Error::InvalidCapacity => "invalid_capacity",
            Error::Age { .. } => "age_deletion",
            Error::Space { .. } => "space_deletion",
            Error::Insufficient { .. } => "insufficient",
            _ => "an error that upstream does not have",
        };
        kind.clone_into(&mut outcome.error);
        outcome.error_text = error.to_string();
    }
    outcome.events = summary
        .events
        .iter()
        .map(|event| event.reason.to_owned())
        .collect();
    let nanos = |time: Option<Timestamp>| time.map(Timestamp::as_nanos);
    let record = |record: &image::Record| {
        Record(
            record.key.to_string(),
            nanos(record.first_detected),
            nanos(record.last_used),
            record.size_bytes.cast_signed(),
            record.pinned,
        )
    };
    outcome.records = summary.records.iter().map(record).collect();
}
