//! The schedule of a CronJob.
//!
//! # Upstream
//! `ParseStandard` of `robfig/cron`: version 1 up to 1.20, version 3 since.

use super::super::field::Check;

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

/// The reason why a schedule is invalid.
pub(super) fn problem(schedule: &str, c: &Check) -> Option<String> {
    let problem = check(schedule, c.since(21)).err()?;
    Some(if c.since(21) {
        problem
    } else {
        // The messages of the older version begin with a capital letter.
        let mut letters = problem.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect())
            .unwrap_or_default()
    })
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
            return duration_problem(duration).map_or(Ok(()), |problem| {
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
        let quoted = crate::status::quoted(text);
        format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax")
    })?;
    u32::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

/// The problem of a duration in Go's syntax.
///
/// # Upstream
/// [`time.ParseDuration`](https://pkg.go.dev/time#ParseDuration).
fn duration_problem(duration: &str) -> Option<String> {
    const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];
    let shown = crate::status::quoted(duration);
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
            let unit = crate::status::quoted(unit);
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
