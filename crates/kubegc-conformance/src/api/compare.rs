//! Compares a response with the recorded one, as the format of the recordings defines it.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{
    Request, Response,
    matching::{Matcher, shown},
};
use crate::failure::pattern;

/// Compares a response with the recorded one.
///
/// # Errors
/// The first difference, as text.
pub(super) fn response(matcher: &mut Matcher, request: &Request, received: &Response) -> Result<(), String> {
    let recorded = &request.response;
    let codes = [
        Some(recorded),
        request.response2.as_ref().filter(|_| request.unstable),
    ];
    if !codes.into_iter().flatten().any(|one| one.code == received.code) {
        // Later requests still use the values of matching fields.
        matcher.value(&recorded.body, &received.body);
        let body = received.body.get("message").unwrap_or(&received.body);
        let expected = recorded.body.get("message").unwrap_or(&Value::Null);
        return Err(format!(
            "expected code {} {}, got {}: {}",
            recorded.code,
            shown(expected),
            received.code,
            shown(body)
        ));
    }
    if recorded.code < 400 {
        let difference = matcher.value(&recorded.body, &received.body);
        return match difference {
            Some(difference) if !request.unstable => Err(difference),
            _ => Ok(()),
        };
    }
    if request.unstable {
        return Ok(());
    }
    refusal(matcher, &recorded.body, &received.body)
}

fn text<'a>(body: &'a Value, key: &str) -> &'a str {
    body.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn refusal(matcher: &mut Matcher, recorded: &Value, received: &Value) -> Result<(), String> {
    let (expected, got) = (text(recorded, "message"), text(received, "message"));
    let reasons = (text(recorded, "reason"), text(received, "reason"));
    if reasons.0 != reasons.1 {
        return Err(format!(
            "expected reason {:?} {expected:?}, got {:?} {got:?}",
            reasons.0, reasons.1
        ));
    }
    if is_of_decoder(expected) {
        return Ok(());
    }
    if recorded.get("raw").is_some() || received.get("raw").is_some() {
        return matcher.value(recorded, received).map_or(Ok(()), Err);
    }
    let mut message_differs = None;
    if !message(matcher, expected, got) {
        message_differs = Some(format!("message: expected {expected:?}, got {got:?}"));
    }
    let (expected, got) = (&recorded["details"], &received["details"]);
    for key in ["name", "group", "kind", "uid"] {
        let (expected, got) = (text(expected, key), text(got, key));
        if !matcher.text(expected, got) {
            return Err(format!("details.{key}: expected {expected:?}, got {got:?}"));
        }
    }
    causes(matcher, &expected["causes"], &got["causes"])?;
    message_differs.map_or(Ok(()), Err)
}

/// Whether a message is one of the decoder before 1.23, whose offsets and excerpts are not compared.
fn is_of_decoder(message: &str) -> bool {
    message.contains(" byte of ...|")
}

/// Compares messages: up to the first line's end, where a diff of Go values follows, in any order of parts.
fn message(matcher: &mut Matcher, expected: &str, got: &str) -> bool {
    let (expected, got) = (comparable(expected), comparable(got));
    if matcher.text(&expected, &got) {
        return true;
    }
    let parts = |text: &str| {
        let mut parts: Vec<String> = text
            .split(", ")
            .map(|part| part.trim_matches(['[', ']']).to_owned())
            .collect();
        parts.sort_unstable();
        parts
    };
    if expected.contains("ValidatingAdmissionPolicy") {
        // The expression of a message visits the entries of a map in any order.
        let words = |text: &str| {
            let mut words: Vec<String> = text.split([',', ' ']).map(str::to_owned).collect();
            words.sort_unstable();
            words
        };
        return words(&matcher.filled(&expected)) == words(&got);
    }
    // The subject precedes the list of problems.
    let split = |text: &'_ str| {
        let marks = [" is invalid: ", "strict decoding error: "];
        let found = marks.iter().find_map(|mark| text.split_once(mark));
        found.map(|(subject, problems)| (subject.to_owned(), problems.to_owned()))
    };
    let (Some((expected_subject, expected)), Some((subject, got))) = (split(&expected), split(&got)) else {
        return false;
    };
    let (expected, got) = (parts(&matcher.filled(&expected)), parts(&got));
    matcher.text(&expected_subject, &subject)
        && expected.len() == got.len()
        && expected
            .iter()
            .zip(&got)
            .all(|(expected, got)| matcher.text(expected, got))
}

/// The part of a message that is compared.
fn comparable(message: &str) -> String {
    // Messages that list conflicts have a line for each.
    let first_line = if message.starts_with("Apply failed") {
        message
    } else {
        message.lines().next().unwrap_or_default()
    };
    // An object in a text: its version is one of the server's.
    static VERSION: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(\\"resourceVersion\\":\\")[0-9]*"#));
    sorted(&VERSION.replace_all(first_line, "$1"))
}

/// A text whose JSON values have sorted keys: the order of the server's fields is not compared.
fn sorted(text: &str) -> String {
    const BEGIN: &str = " value: ";
    let mut rest = text;
    let mut shown = String::new();
    while let Some((before, after)) = rest.split_once(BEGIN) {
        shown.push_str(before);
        shown.push_str(BEGIN);
        rest = after;
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        if after.starts_with(['{', '['])
            && let Some(Ok(value)) = values.next()
        {
            shown.push_str(&value.to_string());
            rest = &after[values.byte_offset()..];
        }
    }
    shown.push_str(rest);
    shown
}

/// Compares causes, in any order.
fn causes(matcher: &mut Matcher, expected: &Value, got: &Value) -> Result<(), String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut left = list(got);
    for cause in list(expected) {
        let found = left.iter().position(|other| {
            text(other, "reason") == text(&cause, "reason")
                && text(other, "field") == text(&cause, "field")
                && message(matcher, text(&cause, "message"), text(other, "message"))
        });
        match found {
            Some(found) => {
                left.remove(found);
            }
            None => {
                let left = Value::Array(left);
                return Err(format!(
                    "expected the cause {}, got {}",
                    shown(&cause),
                    shown(&left)
                ));
            }
        }
    }
    match left.first() {
        Some(cause) => Err(format!("expected no cause {}", shown(cause))),
        None => Ok(()),
    }
}
