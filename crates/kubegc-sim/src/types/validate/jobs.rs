//! Jobs and CronJobs.
//!
//! # Upstream
//! `pkg/apis/batch/validation`, 1.20.2 and newer.

use serde_json::Value;

use super::super::field::{At, Check};
use super::workloads::matches;
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

/// The name of a new CronJob leaves space for the suffix of job names.
pub(super) fn name_of_cron_job(name: &At<'_>, c: &mut Check) {
    const NAME_MAX: usize = 52;
    if c.name().len() > NAME_MAX {
        name.invalid_as(c, &quoted(c.name()), &formats::too_long(NAME_MAX));
    }
}

/// The names of the time zone database, which the API server contains.
const TIME_ZONES: &str = include_str!("time_zones.txt");

pub(super) fn is_time_zone(zone: &At<'_>, _: &Check<'_>) -> bool {
    TIME_ZONES.split_whitespace().any(|name| name == zone.text())
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

/// The minimum and the maximum of a field, and the names of numbers.
type Bounds = (u32, u32, &'static [&'static str]);

const MONTHS: &[&str] = &[
    "", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Bounds; 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, MONTHS),
    (0, 6, DAYS),
];

/// `ParseStandard` of `robfig/cron`: version 1 up to 1.20, version 3 since.
pub(super) fn schedule(schedule: &At<'_>, c: &mut Check) {
    let Err(mut problem) = check(schedule.text(), c.since(21)) else {
        return;
    };
    // The messages of the older version begin with a capital letter.
    if let Some(first) = problem.get_mut(..1).filter(|_| !c.since(21)) {
        first.make_ascii_uppercase();
    }
    schedule.invalid(c, &problem);
}

fn check(schedule: &str, lists_fields: bool) -> Result<(), String> {
    const DESCRIPTORS: [&str; 7] = [
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
    ];
    let schedule = match schedule
        .strip_prefix("CRON_TZ=")
        .or_else(|| schedule.strip_prefix("TZ="))
    {
        Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest.trim()),
        None => schedule,
    };
    if schedule.starts_with('@') {
        if DESCRIPTORS.contains(&schedule) {
            return Ok(());
        }
        if let Some(duration) = schedule.strip_prefix("@every ") {
            return problem_of_duration(duration).map_or(Ok(()), |problem| {
                Err(format!("failed to parse duration {schedule}: time: {problem}"))
            });
        }
        return Err(format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let shown = if lists_fields {
            format!("[{}]", fields.join(" "))
        } else {
            schedule.to_owned()
        };
        return Err(format!(
            "expected exactly 5 fields, found {}: {shown}",
            fields.len()
        ));
    }
    for (field, bounds) in fields.iter().zip(FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

fn check_range(text: &str, (least, greatest, names): Bounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (least, greatest)
    } else {
        let start = number(ends[0], names)?;
        match ends.as_slice() {
            [_] => (start, start),
            [_, end] => (start, number(end, names)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step, &[])?;
            if ends.len() == 1 {
                end = greatest;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < least {
        return Err(format!(
            "beginning of range ({start}) below minimum ({least}): {text}"
        ));
    }
    if end > greatest {
        return Err(format!("end of range ({end}) above maximum ({greatest}): {text}"));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number(text: &str, names: &[&str]) -> Result<u32, String> {
    let lower = text.to_lowercase();
    let named = names.iter().position(|name| !name.is_empty() && *name == lower);
    if let Some(number) = named.and_then(|number| u32::try_from(number).ok()) {
        return Ok(number);
    }
    let number: i64 = text.parse().map_err(|_| {
        let shown = quoted(text);
        format!("failed to parse int from {text}: strconv.Atoi: parsing {shown}: invalid syntax")
    })?;
    u32::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

/// The problem of a duration in Go's syntax.
///
/// # Upstream
/// [`time.ParseDuration`](https://pkg.go.dev/time#ParseDuration).
fn problem_of_duration(duration: &str) -> Option<String> {
    const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];
    let shown = quoted(duration);
    let mut rest = duration.strip_prefix(['-', '+']).unwrap_or(duration);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return Some(format!("invalid duration {shown}"));
    }
    let is_number = |c: char| c == '.' || c.is_ascii_digit();
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(is_number);
        let number = rest.strip_suffix(unit).unwrap_or_default();
        let is_valid = number.contains(|c: char| c.is_ascii_digit()) && number.matches('.').count() < 2;
        if !is_valid {
            return Some(format!("invalid duration {shown}"));
        }
        let end = unit.find(is_number).unwrap_or(unit.len());
        let (unit, next) = unit.split_at(end);
        if unit.is_empty() {
            return Some(format!("missing unit in duration {shown}"));
        }
        if !UNITS.contains(&unit) {
            let unit = quoted(unit);
            return Some(format!("unknown unit {unit} in duration {shown}"));
        }
        rest = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read() {
        for schedule in [
            "* * * * *",
            "*/5 1-3 1,15 jan-mar MON",
            "@hourly",
            "0 0 ? * 0/2",
            "@every 1h",
        ] {
            assert_eq!(check(schedule, true), Ok(()), "{schedule}");
        }
        for (schedule, problem) in [
            ("bogus", "expected exactly 5 fields, found 1: [bogus]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("@never", "unrecognized descriptor: @never"),
        ] {
            assert_eq!(check(schedule, true), Err(problem.to_owned()), "{schedule}");
        }
    }
}
