//! Compares recorded values, with their placeholders, with received ones.
//!
//! A numbered placeholder represents one received value in the whole case, and no other placeholder
//! represents it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use serde_json::Value;

use super::Request;

/// The day of the replay, as its dates begin.
const DAY: &str = "2033-05-1";

/// The value of each placeholder, as far as responses have shown it.
#[derive(Clone, Debug, Default)]
pub(super) struct Matcher {
    received: BTreeMap<String, String>,
    placeholders: BTreeMap<(Form, String), String>,
    /// UUIDs that the requests of the case hold themselves.
    given: BTreeSet<String>,
}

/// The forms of placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Uid,
    Version,
    Time,
    MicroTime,
    Address,
    Port,
    Generated,
    Continue,
    Token,
    Server,
    Pointer,
}

impl Form {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "uid" => Self::Uid,
            "rv" => Self::Version,
            "time" => Self::Time,
            "microtime" => Self::MicroTime,
            "clusterIP" => Self::Address,
            "nodePort" => Self::Port,
            "gen" => Self::Generated,
            "continue" => Self::Continue,
            "token" => Self::Token,
            "server" => Self::Server,
            "ptr" => Self::Pointer,
            _ => return None,
        })
    }

    /// Length of the value of this form at the start of a received text; `None` if there is none.
    fn length(self, text: &str) -> Option<usize> {
        let run = |fits: fn(char) -> bool| {
            let length = text.find(|char| !fits(char)).unwrap_or(text.len());
            (length > 0).then_some(length)
        };
        match self {
            Self::Uid => text
                .get(..UUID_LENGTH)
                .is_some_and(is_uuid)
                .then_some(UUID_LENGTH),
            Self::Version | Self::Port => run(|char| char.is_ascii_digit()),
            Self::Time => date(text, "2033-05-18T06:00:00Z".len()),
            Self::MicroTime => date(text, "2033-05-18T06:00:00.000000Z".len()),
            Self::Address => run(|char| char.is_ascii_hexdigit() || matches!(char, '.' | ':')),
            Self::Generated => {
                let letters = text.get(..5)?;
                let is_generated = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
                letters.chars().all(is_generated).then_some(5)
            }
            Self::Continue => run(|char| !char.is_whitespace()),
            Self::Token => run(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_')),
            Self::Server => run(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | ':' | '-')),
            Self::Pointer if text.starts_with("<ptr>") => Some("<ptr>".len()),
            Self::Pointer => {
                let digits = text.strip_prefix("0x")?;
                let length = digits.find(|char: char| !char.is_ascii_hexdigit());
                Some(2 + length.unwrap_or(digits.len()))
            }
        }
    }
}

const UUID_LENGTH: usize = 36;

fn is_uuid(text: &str) -> bool {
    text.len() == UUID_LENGTH
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        })
}

fn date(text: &str, length: usize) -> Option<usize> {
    let date = text.get(..length)?;
    (date.starts_with(DAY) && date.ends_with('Z')).then_some(length)
}

/// A piece of a recorded text.
enum Piece<'a> {
    Literal(&'a str),
    Placeholder {
        text: &'a str,
        form: Form,
        numbered: bool,
    },
}

/// Takes a recorded text apart.
fn pieces(mut text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut from = 0;
    while let Some(begin) = text[from..].find('<').map(|at| from + at) {
        let end = text[begin..].find('>').map(|at| begin + at + 1);
        let inner = end.map(|end| &text[begin + 1..end - 1]);
        let (name, number) = match inner.map(|inner| inner.split_once(':').unwrap_or((inner, ""))) {
            Some(parts) => parts,
            None => break,
        };
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let (Some(end), Some(form), true) = (end, Form::of(name), is_number) else {
            from = begin + 1;
            continue;
        };
        pieces.push(Piece::Literal(&text[..begin]));
        pieces.push(Piece::Placeholder {
            text: &text[begin..end],
            form,
            numbered: !number.is_empty(),
        });
        text = &text[end..];
        from = 0;
    }
    pieces.push(Piece::Literal(text));
    pieces
}

impl Matcher {
    /// A matcher for the requests of one case.
    pub(super) fn new(requests: &[Request]) -> Self {
        let mut given = BTreeSet::new();
        for request in requests {
            let body = request
                .raw_body
                .clone()
                .unwrap_or_else(|| request.body.to_string());
            for (at, _) in body.char_indices() {
                if let Some(text) = body.get(at..at + UUID_LENGTH)
                    && is_uuid(text)
                {
                    given.insert(text.to_owned());
                }
            }
        }
        Self {
            given,
            ..Self::default()
        }
    }

    /// A recorded text with what its placeholders stand for; those that stand for nothing yet stay.
    pub(super) fn filled(&self, text: &str) -> String {
        pieces(text)
            .into_iter()
            .map(|piece| match piece {
                Piece::Literal(text) => text,
                Piece::Placeholder { text, .. } => self.received.get(text).map_or(text, String::as_str),
            })
            .collect()
    }

    /// A recorded text of a request with what its placeholders stand for. An address that no response has
    /// shown is a free one.
    fn filled_request(&self, text: &str) -> String {
        let filled = self.filled(text);
        let addressed = pieces(&filled).into_iter().map(|piece| match piece {
            Piece::Literal(text) => text.to_owned(),
            Piece::Placeholder {
                text,
                form: Form::Address,
                numbered: true,
            } => {
                let number = text.bytes().filter(u8::is_ascii_digit);
                let number = number.fold(0_u8, |number, digit| {
                    number.wrapping_mul(10).wrapping_add(digit - b'0')
                });
                Ipv4Addr::new(10, 96, 255, number).to_string()
            }
            Piece::Placeholder { text, .. } => text.to_owned(),
        });
        addressed.collect()
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
        let mut rest = received;
        let mut found = Vec::new();
        for piece in pieces(recorded) {
            let (text, form, numbered) = match piece {
                Piece::Literal(text) => match rest.strip_prefix(text) {
                    Some(after) => {
                        rest = after;
                        continue;
                    }
                    None => return false,
                },
                Piece::Placeholder { text, form, numbered } => (text, form, numbered),
            };
            let Some(length) = form.length(rest) else {
                return false;
            };
            let value = &rest[..length];
            rest = &rest[length..];
            if !numbered {
                continue;
            }
            match self.received.get(text) {
                Some(known) if known != value => return false,
                Some(_) => {}
                None if form == Form::Uid && self.given.contains(value) => return false,
                None if self.placeholders.contains_key(&(form, value.to_owned())) => return false,
                None => found.push((text.to_owned(), form, value.to_owned())),
            }
        }
        if !rest.is_empty() {
            return false;
        }
        for (text, form, value) in found {
            self.placeholders.insert((form, value.clone()), text.clone());
            self.received.insert(text, value);
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
