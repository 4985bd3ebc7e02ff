//! Tokens: those of service accounts and those that nodes join with, rule by rule and instant by instant.

mod bootstrap;
mod legacy;
mod legacy_laws;

use kubegc_core::Timestamp;

/// An RFC 3339 date.
fn date(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a date")
}

fn shifted(time: Timestamp, nanos: i64) -> Timestamp {
    Timestamp::from_nanos(time.as_nanos() + nanos)
}
