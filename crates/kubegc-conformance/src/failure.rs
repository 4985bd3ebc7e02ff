//! The differences between a replay and its recording, as text.

use std::fmt::{self, Write as _};

use regex::Regex;
use serde::Serialize;
use serde_json::Value;

/// The first difference found in one case.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The compared value, and its place in the case.
    pub place: String,
    /// The recorded value.
    pub expected: String,
    /// The value of the replay.
    pub got: String,
}

/// So much of each text is shown.
const SHOWN_BYTES: usize = 4000;

impl Failure {
    pub fn new(place: impl Into<String>, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            expected: expected.into(),
            got: got.into(),
        }
    }

    /// A case that cannot be replayed.
    pub fn unreadable(problem: impl fmt::Display) -> Self {
        Self::new("the case cannot be replayed", "", problem.to_string())
    }

    /// Several differences of one sort, a line each.
    pub fn list(place: &str, lines: &[String]) -> Self {
        let place = format!("{place}\n      {}", lines.join("\n      "));
        Self::new(place, "", "")
    }

    /// The same difference, found in a part of the case.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.place = format!("{place}: {}", self.place);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.expected.is_empty() && self.got.is_empty() {
            return write!(f, "    {}", self.place);
        }
        writeln!(f, "    {}", self.place)?;
        if !self.expected.is_empty() || !self.place.starts_with("the case cannot") {
            writeln!(f, "      expected: {}", Shown(&self.expected))?;
        }
        write!(f, "      got:      {}", Shown(&self.got))
    }
}

/// A text of bounded size, its further lines indented.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut end = self.0.len().min(SHOWN_BYTES);
        while !self.0.is_char_boundary(end) {
            end -= 1;
        }
        for char in self.0[..end].chars() {
            f.write_char(char)?;
            if char == '\n' {
                f.write_str("                ")?;
            }
        }
        if end < self.0.len() {
            write!(f, " … ({} bytes more)", self.0.len() - end)?;
        }
        Ok(())
    }
}

pub(crate) fn equal<A, B>(place: &str, expected: &A, got: &B) -> Result<(), Failure>
where
    A: PartialEq<B> + Serialize + ?Sized,
    B: Serialize + ?Sized,
{
    if expected == got {
        Ok(())
    } else {
        Err(Failure::new(place, shown(expected), shown(got)))
    }
}

/// Compares the fields of two structs. The first one that differs is the place.
pub(crate) fn equal_fields<T: Serialize>(expected: &T, got: &T) -> Result<(), Failure> {
    let fields = |of: &T| serde_json::to_value(of).map_err(Failure::unreadable);
    let (expected, got) = (fields(expected)?, fields(got)?);
    for (name, expected) in expected.as_object().into_iter().flatten() {
        equal(name, expected, &got[name])?;
    }
    Ok(())
}

/// A text as it is, a list with a line for each item, and other values as JSON.
pub(crate) fn shown(value: &(impl Serialize + ?Sized)) -> String {
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), ToOwned::to_owned)
    };
    match serde_json::to_value(value) {
        Ok(Value::Array(items)) => items.iter().map(text).collect::<Vec<_>>().join("\n"),
        Ok(value) => text(&value),
        Err(problem) => problem.to_string(),
    }
}

/// A pattern of this crate.
pub(crate) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this crate are valid")
}
