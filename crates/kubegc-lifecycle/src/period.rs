//! Finds the pass of a controller that looks once a period.

use std::time::Duration;

use kubegc_core::Timestamp;

/// The first pass at or after `due`, if one pass began at `any_pass`.
pub(crate) fn pass_at(any_pass: Timestamp, due: Timestamp, period: Duration) -> Timestamp {
    let period = i128::try_from(period.as_nanos()).unwrap_or(i128::MAX).max(1);
    let due = i128::from(due.as_nanos());
    let behind = due - i128::from(any_pass.as_nanos());
    let pass = due.saturating_add((-behind).rem_euclid(period));
    Timestamp::from_nanos(i64::try_from(pass).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_a_period_apart() {
        let at = Timestamp::from_secs;
        let hour = Duration::from_secs(3_600);
        for (any_pass, due, pass) in [
            (0, 0, 0),
            (0, 1, 3_600),
            (0, 3_600, 3_600),
            (0, 3_601, 7_200),
            (10, 5, 10),
            (10, 11, 3_610),
            (7_200, 5, 3_600),
            (0, -1, 0),
        ] {
            assert_eq!(pass_at(at(any_pass), at(due), hour), at(pass), "{any_pass} {due}");
        }
        let end = Timestamp::from_nanos(i64::MAX);
        let begin = Timestamp::from_nanos(i64::MIN);
        assert_eq!(pass_at(Timestamp::EPOCH, end, hour), end);
        assert_eq!(pass_at(begin, end, Duration::MAX), end);
        assert_eq!(pass_at(begin, at(5), Duration::ZERO), at(5));
    }
}
