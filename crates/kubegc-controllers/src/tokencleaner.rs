//! Deletes bootstrap tokens that have expired.
//!
//! The rules are [L12.1](crate::rules#l12-1) to [L12.4](crate::rules#l12-4).
//!
//! Beyond upstream: a Secret that is being deleted is not deleted again.
//!
//! # Upstream
//! [`evalSecret`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/bootstrap/tokencleaner.go)
//! in `tokencleaner.go` and
//! [`GetExpiration`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/cluster-bootstrap/util/secrets/secrets.go)
//! in `secrets.go`.

use kubegc_core::Date;

use crate::prelude::*;

const NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";

#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct TokenCleaner {
    /// Whether the controller runs. Default: on, as kubeadm sets it. Upstream runs it only if
    /// `--controllers` of kube-controller-manager names `tokencleaner` (since 1.28
    /// `token-cleaner-controller`).
    pub is_enabled: bool,
}

impl TokenCleaner {
    /// The default in a release; all are alike.
    pub const fn new(_version: KubernetesVersion) -> Self {
        Self { is_enabled: true }
    }
}

/// Nanoseconds since the epoch of a date as Go's `time.Parse(time.RFC3339, text)` reads it: the hour may have
/// one digit, a fraction of any length may follow the seconds after a point or a comma, and offsets reach to
/// 24:60.
fn nanos_of(text: &str) -> Option<i128> {
    let (date, rest) = text.split_at_checked(10)?;
    let days = Date::parse(date)?.days_since_epoch();
    let (hour, rest) = rest.strip_prefix('T')?.split_once(':')?;
    let hour = match hour.len() {
        1 | 2 => number(hour, 23)?,
        _ => return None,
    };
    let (minute, rest) = rest.split_at_checked(2)?;
    let (second, rest) = rest.strip_prefix(':')?.split_at_checked(2)?;
    let (fraction, zone) = split_fraction(rest);
    let seconds = i128::from(days) * 86_400 + hour * 3_600 + number(minute, 59)? * 60 + number(second, 59)?;
    Some((seconds - offset_seconds(zone)?) * 1_000_000_000 + fraction)
}

/// A number of digits only, up to a maximum.
fn number(digits: &str, max: i128) -> Option<i128> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let value: i128 = digits.parse().ok().filter(|_| is_number)?;
    (value <= max).then_some(value)
}

/// The nanoseconds of a fraction of a second, and what follows it.
fn split_fraction(rest: &str) -> (i128, &str) {
    let Some(digits) = rest.strip_prefix(['.', ',']) else {
        return (0, rest);
    };
    let after = digits.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let digits = digits.strip_suffix(after).unwrap_or_default();
    if digits.is_empty() {
        return (0, rest);
    }
    let padded = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = padded.fold(0, |nanos, digit| nanos * 10 + i128::from(digit - b'0'));
    (nanos, after)
}

/// Seconds east of UTC.
fn offset_seconds(zone: &str) -> Option<i128> {
    if zone == "Z" {
        return Some(0);
    }
    let (sign, offset) = match zone.strip_prefix('+') {
        Some(offset) => (1, offset),
        None => (-1, zone.strip_prefix('-')?),
    };
    let (hours, minutes) = offset.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    Some(sign * (number(hours, 24)? * 3_600 + number(minutes, 60)? * 60))
}

static INFO: Info = Info {
    name: "token-cleaner-controller",
    summary: "deletes expired bootstrap tokens",
    resources: &[Resource::Secrets],
    permissions: &[(Resource::Secrets, "", &["delete"])],
    upstream: "https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/bootstrap/tokencleaner.go",
    ..Info::BASE
};

impl Controller for TokenCleaner {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn affected(&self, _cache: &Cache, change: &Change<'_>, keys: &mut Vec<Key>) {
        if change.resource == Resource::Secrets && &*change.key.namespace == NAMESPACE {
            keys.push(change.key.clone());
        }
    }

    fn keys(&self, cache: &Cache, keys: &mut Vec<Key>) {
        let secrets = cache.in_namespace(Resource::Secrets, &NAMESPACE.into());
        keys.extend(secrets.map(|secret| Key::from(&secret.meta)));
    }

    fn decide(&self, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Result<Decision, Missing> {
        if &*id.namespace != NAMESPACE {
            return id.keep("OtherNamespace", "it is not in kube-system");
        }
        if !self.is_enabled {
            return id.keep("Disabled", "the token cleaner does not run");
        }
        if record.meta.is_deleting() {
            return id.keep("Terminating", "it is being deleted");
        }
        let secret = id.body(record, Record::secret)?;
        if **id.read(&secret.secret_type, "type")? != *SECRET_TYPE {
            return id.keep("NotBootstrapToken", "it is not a bootstrap token");
        }
        let text = id.read(&secret.expiration, "data.expiration")?;
        if text.is_empty() {
            return id.keep("NoExpiration", "it has no expiration");
        }
        let reason = match nanos_of(text).map(|nanos| (i64::try_from(nanos), nanos > 0)) {
            Some((Err(_), true)) => return id.keep("NeverExpires", "it expires after the year 2262"),
            Some((Ok(nanos), _)) if Timestamp::from_nanos(nanos) > cx.now => {
                let kept = id.keep("NotExpired", format!("it expires at {text}"))?;
                return Ok(kept.requeue_at(Timestamp::from_nanos(nanos)));
            }
            Some(_) => Reason::new("Expired", format!("it expired at {text}")),
            None => {
                let message =
                    format!("its expiration {text:?} is not an RFC 3339 date, which counts as expired");
                Reason::new("InvalidExpiration", message)
            }
        };
        let on_error = OnError::ReportUnlessNotFoundOrConflict;
        Ok(cx.delete(id, record, reason, Sent::Uid, on_error).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_go_reads_them() {
        for (text, same) in [
            ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z"),
            ("2026-03-01T12:00:00+01:30", "2026-03-01T10:30:00Z"),
            ("2026-03-01T12:00:00-00:45", "2026-03-01T12:45:00Z"),
            ("2026-03-01T3:04:05Z", "2026-03-01T03:04:05Z"),
            ("2026-03-01T12:00:00.5Z", "2026-03-01T12:00:00.5Z"),
            ("2026-03-01T12:00:00,5Z", "2026-03-01T12:00:00.5Z"),
            (
                "2026-03-01T12:00:00.1234567899Z",
                "2026-03-01T12:00:00.123456789Z",
            ),
            ("2028-02-29T23:59:59Z", "2028-02-29T23:59:59Z"),
            ("1969-12-31T23:59:59.25Z", "1969-12-31T23:59:59.25Z"),
            ("2026-03-01T12:00:00+24:00", "2026-02-28T12:00:00Z"),
        ] {
            let same = Timestamp::parse(same).expect("a date").as_nanos();
            assert_eq!(nanos_of(text), Some(same.into()), "{text}");
        }
        let (end, begin) = (i128::from(i64::MAX), i128::from(i64::MIN));
        assert_eq!(nanos_of("2262-04-11T23:47:16.854775807Z"), Some(end));
        assert!(nanos_of("9999-12-31T23:59:59Z").is_some_and(|nanos| nanos > end));
        assert!(nanos_of("0000-01-01T00:00:00Z").is_some_and(|nanos| nanos < begin));
    }

    #[test]
    fn other_texts_are_not_dates() {
        for text in [
            " ",
            "never",
            "2026-03-01",
            "2026-03-01T12:00:00",
            "2026-03-01 12:00:00Z",
            "2026-03-01t12:00:00z",
            "2026-03-01T12:00:00z",
            "2026-03-01T12:00Z",
            "2026-03-01T:00:00Z",
            "2026-03-01T012:00:00Z",
            "2026-03-01T24:00:00Z",
            "2026-03-01T12:60:00Z",
            "2026-03-01T12:00:60Z",
            "2026-03-01T+2:00:00Z",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-3-01T12:00:00Z",
            "2026-03-01T12:00:00.Z",
            "2026-03-01T12:00:00+0100",
            "2026-03-01T12:00:00+1:00",
            "2026-03-01T12:00:00+25:00",
            "2026-03-01T12:00:00+01:61",
            "2026-03-01T12:00:00Z ",
            "+2026-03-01T12:00:00Z",
            "12026-03-01T12:00:00Z",
            "2026-03-01T12:00:00\u{e9}",
            "2026-03-01T12:00:00Z\u{0}",
        ] {
            assert_eq!(nanos_of(text), None, "{text}");
        }
    }
}
