//! Compares recorded values, with their placeholders, with received ones.
//!
//! A numbered placeholder represents one received value in the whole case, and no other placeholder
//! represents it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::LazyLock,
};

use regex::{Captures, Regex};
use serde_json::Value;

use super::Request;
use crate::failure::pattern;

/// The value of each placeholder, as far as responses have shown it.
#[derive(Clone, Debug, Default)]
pub(super) struct Matcher {
    received: BTreeMap<String, String>,
    /// By the form and the value.
    placeholders: BTreeMap<(String, String), String>,
    /// UUIDs that the requests of the case hold themselves.
    given: BTreeSet<String>,
}

const UUID: &str = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";

/// The forms of placeholders, and the values that they represent. Dates are those of the day of the replay.
const FORMS: [(&str, &str); 11] = [
    ("uid", UUID),
    ("rv", "[0-9]+"),
    ("time", "2033-05-1.T..:..:..Z"),
    ("microtime", r"2033-05-1.T..:..:..\.......Z"),
    ("clusterIP", "[0-9a-fA-F.:]+"),
    ("nodePort", "[0-9]+"),
    ("gen", "[a-z0-9]{5}"),
    ("continue", r"\S+"),
    ("token", "[a-zA-Z0-9._-]+"),
    ("server", "[a-zA-Z0-9.:-]+"),
    ("ptr", "<ptr>|0x[0-9a-fA-F]*"),
];

/// The pattern of each form at the beginning of a text.
static PATTERNS: LazyLock<BTreeMap<&str, Regex>> = LazyLock::new(|| {
    let patterns = FORMS
        .iter()
        .map(|(name, form)| (*name, pattern(&format!("^(?:{form})"))));
    patterns.collect()
});

/// A placeholder, with its form and its number.
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    let names = FORMS.map(|(name, _)| name).join("|");
    pattern(&format!("<({names})(?::([0-9]*))?>"))
});

fn number<'t>(placeholder: &Captures<'t>) -> &'t str {
    placeholder.get(2).map_or("", |number| number.as_str())
}

impl Matcher {
    /// A matcher for the requests of one case.
    pub(super) fn new(requests: &[Request]) -> Self {
        static ANY_UUID: LazyLock<Regex> = LazyLock::new(|| pattern(UUID));
        let mut given = BTreeSet::new();
        for request in requests {
            let body = request
                .raw_body
                .clone()
                .unwrap_or_else(|| request.body.to_string());
            given.extend(ANY_UUID.find_iter(&body).map(|uuid| uuid.as_str().to_owned()));
        }
        Self {
            given,
            ..Self::default()
        }
    }

    /// A recorded text with what its placeholders stand for; those that stand for nothing yet stay.
    pub(super) fn filled(&self, text: &str) -> String {
        let value = |placeholder: &Captures<'_>| {
            let text = &placeholder[0];
            self.received.get(text).map_or(text, String::as_str).to_owned()
        };
        PLACEHOLDER.replace_all(text, value).into_owned()
    }

    /// A recorded text of a request with what its placeholders stand for. An address that no response has
    /// shown is a free one.
    fn filled_request(&self, text: &str) -> String {
        let address = |placeholder: &Captures<'_>| {
            let digits = number(placeholder).bytes();
            if &placeholder[1] != "clusterIP" || digits.len() == 0 {
                return placeholder[0].to_owned();
            }
            let number = digits.fold(0_u8, |number, digit| {
                number.wrapping_mul(10).wrapping_add(digit - b'0')
            });
            Ipv4Addr::new(10, 96, 255, number).to_string()
        };
        PLACEHOLDER.replace_all(&self.filled(text), address).into_owned()
    }

    /// A recorded value of a request with what its placeholders stand for.
    pub(super) fn filled_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let filled = self.filled_request(text);
                // Ports are numbers, and stand for themselves in texts only.
                match text.starts_with("<nodePort:").then(|| filled.parse::<u16>()) {
                    Some(Ok(port)) => port.into(),
                    _ => filled.into(),
                }
            }
            Value::Array(items) => items.iter().map(|item| self.filled_value(item)).collect(),
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(key, value)| (self.filled(key), self.filled_value(value)));
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }

    /// Whether a received text is the recorded one. Notes what new placeholders stand for, if it is.
    pub(super) fn text(&mut self, recorded: &str, received: &str) -> bool {
        // A description that has something like a placeholder.
        if recorded == received {
            return true;
        }
        let (mut rest, mut end) = (received, 0);
        let mut found = Vec::new();
        for placeholder in PLACEHOLDER.captures_iter(recorded) {
            let (text, form) = (&placeholder[0], &placeholder[1]);
            let begin = placeholder.get(0).map_or(end, |whole| whole.start());
            let value = rest
                .strip_prefix(&recorded[end..begin])
                .and_then(|rest| Some((PATTERNS.get(form)?.find(rest)?.as_str(), rest)));
            let Some((value, after)) = value else {
                return false;
            };
            rest = &after[value.len()..];
            end = begin + text.len();
            if number(&placeholder).is_empty() {
                continue;
            }
            let key = (form.to_owned(), value.to_owned());
            match self.received.get(text) {
                Some(known) if known != value => return false,
                Some(_) => {}
                None if form == "uid" && self.given.contains(value) => return false,
                None if self.placeholders.contains_key(&key) => return false,
                None => found.push((text.to_owned(), key)),
            }
        }
        if rest != &recorded[end..] {
            return false;
        }
        for (text, key) in found {
            self.received.insert(text.clone(), key.1.clone());
            self.placeholders.insert(key, text);
        }
        true
    }

    /// The first difference between a recorded and a received value, as text. Values after it are matched as
    /// well.
    pub(super) fn value(&mut self, recorded: &Value, received: &Value) -> Option<String> {
        self.below("", recorded, received)
    }

    fn below(&mut self, path: &str, recorded: &Value, received: &Value) -> Option<String> {
        match (recorded, received) {
            (Value::Object(a), Value::Object(b)) => {
                let mut difference = None;
                let filled: BTreeMap<String, &Value> =
                    a.iter().map(|(key, value)| (self.filled(key), value)).collect();
                for (key, recorded) in &filled {
                    let path = format!("{path}.{key}");
                    let found = match b.get(key) {
                        Some(received) => self.below(&path, recorded, received),
                        None => Some(format!("{path}: expected {}, got nothing", shown(recorded))),
                    };
                    difference = difference.or(found);
                }
                difference.or_else(|| {
                    let (key, value) = b.iter().find(|(key, _)| !filled.contains_key(*key))?;
                    Some(format!("{path}.{key}: expected nothing, got {}", shown(value)))
                })
            }
            (Value::Array(a), Value::Array(b)) => {
                let mut difference = None;
                if path.ends_with(".managedFields") && self.clone().managers(path, a, b).is_none() {
                    return self.managers(path, a, b);
                }
                for (index, (recorded, received)) in a.iter().zip(b).enumerate() {
                    let found = self.below(&format!("{path}[{index}]"), recorded, received);
                    difference = difference.or(found);
                }
                difference.or_else(|| {
                    (a.len() != b.len()).then(|| {
                        let shorter = a.len().min(b.len());
                        let more = a.get(shorter).or(b.get(shorter)).unwrap_or(&Value::Null);
                        let (a, b) = (a.len(), b.len());
                        format!("{path}: expected {a} items, got {b}; the next is {}", shown(more))
                    })
                })
            }
            (Value::String(recorded_text), Value::String(text)) if self.text(recorded_text, text) => None,
            (Value::String(recorded_text), Value::Number(number))
                if recorded_text.starts_with("<nodePort:")
                    && self.text(recorded_text, &number.to_string()) =>
            {
                None
            }
            (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
            (a, b) if a == b && !a.is_string() => None,
            (a, b) => Some(format!("{path}: expected {}, got {}", shown(a), shown(b))),
        }
    }

    /// Entries of one operation come in any order: their times, which decide it, are not recorded.
    fn managers(&mut self, path: &str, recorded: &[Value], received: &[Value]) -> Option<String> {
        let operations =
            |list: &[Value]| -> Vec<Value> { list.iter().map(|entry| entry["operation"].clone()).collect() };
        if operations(recorded) != operations(received) {
            return Some(format!("{path}: expected other operations"));
        }
        let mut left: Vec<&Value> = received.iter().collect();
        for entry in recorded {
            let found = left
                .iter()
                .position(|other| self.clone().below(path, entry, other).is_none());
            let Some(found) = found else {
                return Some(format!("{path}: expected {}", shown(entry)));
            };
            let other = left.remove(found);
            self.below(path, entry, other);
        }
        None
    }
}

/// A value as differences show it.
pub(super) fn shown(value: &Value) -> String {
    const CHARS_MAX: usize = 400;
    let text = value.to_string();
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
