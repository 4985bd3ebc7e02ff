//! String formats in schemas of custom resources.
//!
//! # Upstream
//! `supportedFormats` in `apiextensions-apiserver/pkg/apiserver/validation/formats.go`, 1.20.2, and
//! `kube-openapi/pkg/validation/strfmt`.

use std::net::{Ipv4Addr, Ipv6Addr};

use kubegc_core::Timestamp;
use regex::Regex;

use crate::formats::parse_cidr;

/// The formats that are defined by a pattern, one a line.
const PATTERNS: &str = r"bsonobjectid ^[0-9a-fA-F]{24}$
uuid (?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$
uuid3 (?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$
uuid4 (?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$
uuid5 (?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$
ssn ^\d{3}[- ]?\d{2}[- ]?\d{4}$
hexcolor ^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$
rgbcolor ^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$
byte ^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$
hostname ^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$
email ^[^@\s<>]+@[^@\s<>]+$
mac (?i)^([0-9a-f]{2}([:-]))(?:[0-9a-f]{2}[:-]){4}[0-9a-f]{2}$|^(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}$
uri ^(/|[a-zA-Z][a-zA-Z0-9+.-]*:)\S*$
duration ^[-+]?(?:0|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))*)$|^[0-9]+ ?(?:ns|nanos?|us|µs|micros?|ms|millis?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?)$";

/// The other known formats.
const OTHERS: &str = "ipv4 ipv6 cidr date datetime password isbn isbn10 isbn13 creditcard";

fn pattern(format: &str) -> Option<&'static str> {
    let mut patterns = PATTERNS.lines().filter_map(|line| line.split_once(' '));
    patterns.find_map(|(known, pattern)| (known == format).then_some(pattern))
}

/// The normalized name of a format.
fn normal(format: &str) -> String {
    format.replace('-', "")
}

/// Whether a format is checked. Others have no effect.
pub(super) fn is_known(format: &str) -> bool {
    let name = normal(format);
    OTHERS.split(' ').any(|known| known == name) || pattern(&name).is_some()
}

/// Whether a string has a format.
pub(super) fn fits(format: &str, text: &str) -> bool {
    let name = normal(format);
    if let Some(pattern) = pattern(&name) {
        return Regex::new(pattern).is_ok_and(|regex| regex.is_match(text));
    }
    match name.as_str() {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => parse_cidr(text).is_some(),
        "date" => text.len() == "2006-01-02".len() && Timestamp::parse(&format!("{text}T00:00:00Z")).is_ok(),
        "datetime" => Timestamp::parse(text).is_ok(),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "creditcard" => is_card(text),
        _ => true,
    }
}

fn digits(text: &str) -> Vec<u32> {
    text.chars().filter_map(|char| char.to_digit(10)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text: String = text.chars().filter(|char| !matches!(char, ' ' | '-')).collect();
    let (body, check) = text.split_at(text.len().min(9));
    let body = digits(body);
    let check = match check {
        "X" => Some(10),
        digit => digit.parse::<u32>().ok().filter(|digit| *digit < 10),
    };
    let sum: u32 = (1..).zip(&body).map(|(place, digit)| place * digit).sum();
    body.len() == 9 && check.is_some_and(|check| (sum + 10 * check).is_multiple_of(11))
}

fn is_isbn13(text: &str) -> bool {
    let all = digits(text);
    let plain = text
        .chars()
        .all(|char| char.is_ascii_digit() || matches!(char, ' ' | '-'));
    let sum: u32 = all
        .iter()
        .enumerate()
        .map(|(place, digit)| digit * if place % 2 == 0 { 1 } else { 3 })
        .sum();
    plain && all.len() == 13 && sum.is_multiple_of(10)
}

/// Whether the digits of a string are a card number, by its checksum.
fn is_card(text: &str) -> bool {
    let all = digits(text);
    let sum: u32 = all
        .iter()
        .rev()
        .enumerate()
        .map(|(place, &digit)| match (place % 2, digit * 2) {
            (0, _) => digit,
            (_, double @ 0..10) => double,
            (_, double) => double - 9,
        })
        .sum();
    (13..=16).contains(&all.len()) && sum.is_multiple_of(10)
}
