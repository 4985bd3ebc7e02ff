//! Jobs and CronJobs.
//!
//! # Upstream
//! `pkg/apis/batch/validation`, 1.20.2 and newer.

use serde_json::Value;

use super::super::field::{At, Check};
use super::{schedule, workloads::matches};
use crate::{formats, status::quoted};

/// The selector of a job, which the API server generates.
pub(super) fn generated_selector(spec: &At<'_>, c: &mut Check) {
    let Some(object) = c.object else { return };
    let (uid, name) = (object.meta.uid.to_string(), &*object.meta.name);
    let labels = super::super::prepare::job_labels(c.version).iter();
    let labels = labels.flat_map(|[by_uid, by_name]| [(*by_uid, uid.as_str()), (*by_name, name)]);
    let labels = labels
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    let selector = spec.get("selector");
    if matches(&selector, &Value::Object(labels), c.version) == Some(false) {
        selector.invalid_typed(c, "v1.LabelSelector", "`selector` not auto-generated");
    }
}

/// The specification of a job, or of the template of a CronJob.
fn spec_of<'v>(c: &Check<'v>) -> At<'v> {
    let spec = c.root().get("spec");
    let template = spec.get("jobTemplate");
    if template.is_set() {
        template.get("spec")
    } else {
        spec
    }
}

pub(super) fn schedule(schedule: &At<'_>, c: &mut Check) {
    if let Some(problem) = schedule::problem(schedule.text(), c) {
        schedule.invalid(c, &problem);
    }
}

/// The name of a new CronJob leaves space for the suffix of job names.
pub(super) fn name_of_cron_job(name: &At<'_>, c: &mut Check) {
    const NAME_MAX: usize = 52;
    if c.name().len() > NAME_MAX {
        name.invalid_as(c, &quoted(c.name()), &formats::too_long(NAME_MAX));
    }
}

/// The names of the time zone database, which the API server contains.
const TIME_ZONES: &str = include_str!("time_zones.txt");

/// `validateTimeZone`.
pub(super) fn time_zone(zone: &At<'_>, c: &mut Check) {
    if !TIME_ZONES.split_whitespace().any(|name| name == zone.text()) {
        zone.invalid(c, &format!("unknown time zone {}", zone.text()));
    }
}

/// The indexes of pods that succeeded and failed.
///
/// # Upstream
/// `validateJobStatus` in
/// [`validation.go`](https://github.com/kubernetes/kubernetes/blob/v1.32.0/pkg/apis/batch/validation/validation.go).
pub(super) fn indexes(status: &At<'_>, c: &mut Check) {
    let spec = spec_of(c);
    let completions = spec.get("completions");
    let lists = [
        ("completedIndexes", true),
        ("failedIndexes", spec.get("backoffLimitPerIndex").is_set()),
    ];
    let lists = lists.map(|(key, is_read)| (key, status.get(key), is_read));
    let is_new = |list: &At<'_>, c: &Check| list.value != list.old(c);
    if !completions.is_set() || !lists.iter().any(|(_, list, _)| is_new(list, c)) {
        return;
    }
    let mut known = Vec::new();
    for (key, list, is_read) in &lists {
        let parsed = intervals(list.text(), completions.number());
        if let Err(problem) = parsed
            && *is_read
            && is_new(list, c)
        {
            list.invalid(c, &format!("error parsing {key}: {problem}"));
        }
        let parts = list.text().split(',');
        let parts = parts.filter_map(|part| interval(part, completions.number()).ok());
        known.push(parts.collect::<Vec<_>>());
    }
    let shared = known[0].iter().find_map(|(first, last)| {
        let other = known[1].iter().find(|(from, to)| first <= to && from <= last)?;
        Some(*first.max(&other.0))
    });
    if let Some(index) = shared {
        let problem = format!("failedIndexes and completedIndexes overlap at index: {index}");
        status.get("failedIndexes").invalid(c, &problem);
    }
}

/// The number of increasing indexes in a list of them and of intervals, such as `1,3-5`.
fn intervals(list: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut previous): (i64, Option<i64>) = (0, None);
    for part in list.split(',').filter(|_| !list.is_empty()) {
        let (first, last) = interval(part, completions)?;
        if let Some(before) = previous.filter(|before| *before >= first) {
            return Err(not_increasing(before, first));
        }
        total += last - first + 1;
        previous = Some(last);
    }
    Ok(total)
}

/// `parseIndexInterval`.
fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = part.split('-').collect();
    let number = |text: &str| -> Result<i64, String> {
        let number: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {}", quoted(text)))?;
        match number < completions {
            true => Ok(number),
            false => Err(format!("too large index: {}", quoted(text))),
        }
    };
    match limits[..] {
        [only] => number(only).map(|only| (only, only)),
        [first, last] => {
            let (first, last) = (number(first)?, number(last)?);
            match first < last {
                true => Ok((first, last)),
                false => Err(not_increasing(first, last)),
            }
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts \
             separated by '-'",
            quoted(part)
        )),
    }
}

fn not_increasing(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

/// The indexes of a rule for success, and how many of them are needed.
pub(super) fn success_rule(rule: &At<'_>, c: &mut Check) {
    let completions = spec_of(c).get("completions").number();
    let (count, indexes) = (rule.get("succeededCount"), rule.get("succeededIndexes"));
    let total = intervals(indexes.text(), completions);
    if let Err(problem) = &total {
        indexes.invalid(c, &format!("error parsing succeededIndexes: {problem}"));
    }
    if !count.is_set() {
        return;
    }
    count.not_negative(c);
    let mut at_most = |max: i64, what: &str| {
        if count.number() > max {
            count.invalid(
                c,
                &format!("must be less than or equal to {max} (the number of {what})"),
            );
        }
    };
    at_most(completions, "specified completions");
    if indexes.is_set() {
        let total = total.unwrap_or_default();
        at_most(total, "indexes in the specified succeededIndexes field");
    }
}
