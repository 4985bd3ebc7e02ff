//! Error texts and value formats of Go's standard library, which API errors contain.

use std::{
    iter::{Copied, Peekable},
    slice,
};

use serde_json::{Number, Value};

use crate::status::quoted;

/// The maximum nesting depth that Go's decoder accepts.
const DEPTH_MAX: usize = 10_000;

/// The error of Go's `encoding/json` for a text; `None` where it is valid JSON.
///
/// # Complexity
/// Linear in the length of the text.
///
/// # Upstream
/// `checkValid` in `encoding/json/scanner.go`, Go 1.15.
///
/// # Examples
/// ```
/// use kubegc_sim::json_syntax_error;
/// assert_eq!(json_syntax_error(br#"{"a": [1, null]}"#), None);
/// assert_eq!(json_syntax_error(b"{\"a\":").as_deref(), Some("unexpected end of JSON input"));
/// let refused = json_syntax_error(b"not json");
/// assert_eq!(refused.as_deref(), Some("invalid character 'o' in literal null (expecting 'u')"));
/// ```
pub fn json_syntax_error(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner {
        rest: text.iter().copied().peekable(),
        open: Vec::new(),
    };
    scanner.document().err()
}

struct Scanner<'a> {
    rest: Peekable<Copied<slice::Iter<'a, u8>>>,
    /// The closing brackets of the enclosing containers.
    open: Vec<u8>,
}

// The expected next token, as the errors about another one say it.
const VALUE: &str = "looking for beginning of value";
const KEY: &str = "looking for beginning of object key string";
const COLON: &str = "after object key";
const AFTER_VALUE: &str = "after top-level value";

impl Scanner<'_> {
    /// # Errors
    /// Returns the error message.
    fn document(&mut self) -> Result<(), String> {
        let mut expected = VALUE;
        let mut is_container_empty = false;
        // Terminates: each step consumes at least one byte, or fails.
        loop {
            self.skip(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
            let Some(&byte) = self.rest.peek() else {
                return match expected == AFTER_VALUE && self.open.is_empty() {
                    true => Ok(()),
                    false => Err(END.to_owned()),
                };
            };
            let container = self.open.last().copied();
            let can_close = is_container_empty || expected == AFTER_VALUE;
            is_container_empty = false;
            expected = match (expected, byte, container) {
                (_, b'}' | b']', Some(closing)) if can_close && byte == closing => {
                    self.rest.next();
                    self.open.pop();
                    AFTER_VALUE
                }
                (VALUE, b'{' | b'[', _) => {
                    if self.open.len() == DEPTH_MAX {
                        return Err("exceeded max depth".to_owned());
                    }
                    self.rest.next();
                    is_container_empty = true;
                    let (closing, expected) = if byte == b'{' { (b'}', KEY) } else { (b']', VALUE) };
                    self.open.push(closing);
                    expected
                }
                (VALUE, b'"' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9', _) => {
                    match byte {
                        b'"' => self.string()?,
                        b't' => self.literal("true")?,
                        b'f' => self.literal("false")?,
                        b'n' => self.literal("null")?,
                        _ => self.number()?,
                    }
                    AFTER_VALUE
                }
                (KEY, b'"', _) => {
                    self.string()?;
                    COLON
                }
                (COLON, b':', _) => {
                    self.rest.next();
                    VALUE
                }
                (AFTER_VALUE, b',', Some(closing)) => {
                    self.rest.next();
                    if closing == b'}' { KEY } else { VALUE }
                }
                (AFTER_VALUE, _, Some(b'}')) => return Err(unexpected(byte, "after object key:value pair")),
                (AFTER_VALUE, _, Some(_)) => return Err(unexpected(byte, "after array element")),
                (expected, ..) => return Err(unexpected(byte, expected)),
            };
        }
    }

    fn string(&mut self) -> Result<(), String> {
        self.rest.next();
        loop {
            match self.needed()? {
                b'"' => return Ok(()),
                b'\\' => match self.needed()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = self.needed()?;
                            if !digit.is_ascii_hexdigit() {
                                return Err(unexpected(digit, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    other => return Err(unexpected(other, "in string escape code")),
                },
                control @ 0..0x20 => return Err(unexpected(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        for expected in literal.bytes() {
            let byte = self.needed()?;
            if byte != expected {
                let place = format!("in literal {literal} (expecting {})", quoted_char(expected));
                return Err(unexpected(byte, &place));
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        let mut first = self.needed()?;
        if first == b'-' {
            first = self.needed()?;
            if !first.is_ascii_digit() {
                return Err(unexpected(first, "in numeric literal"));
            }
        }
        if first != b'0' {
            self.skip(u8::is_ascii_digit);
        }
        if self.rest.next_if_eq(&b'.').is_some() {
            self.first_digit("after decimal point in numeric literal")?;
            self.skip(u8::is_ascii_digit);
        }
        if self.rest.next_if(|byte| matches!(byte, b'e' | b'E')).is_some() {
            let _sign = self.rest.next_if(|byte| matches!(byte, b'+' | b'-'));
            self.first_digit("in exponent of numeric literal")?;
            self.skip(u8::is_ascii_digit);
        }
        Ok(())
    }

    fn first_digit(&mut self, place: &str) -> Result<(), String> {
        match self.needed()? {
            b'0'..=b'9' => Ok(()),
            digit => Err(unexpected(digit, place)),
        }
    }

    fn skip(&mut self, is_skipped: impl Fn(&u8) -> bool) {
        while self.rest.next_if(&is_skipped).is_some() {}
    }

    fn needed(&mut self) -> Result<u8, String> {
        Ok(self.rest.next().ok_or(END)?)
    }
}

const END: &str = "unexpected end of JSON input";

fn unexpected(byte: u8, place: &str) -> String {
    format!("invalid character {} {place}", quoted_char(byte))
}

/// A byte as Go's scanner prints it.
fn quoted_char(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = quoted(&char::from(byte).to_string());
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

/// The Go type of a JSON value that is decoded into an interface.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The name that the errors of Go's `encoding/json` give to the kind of a JSON value.
pub const fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A JSON value as Go's `%v` prints its decoded form. Depth is bounded by the parser that read the value.
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(printed).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| format!("{key}:{}", printed(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        other => syntax(other),
    }
}

/// A number as Go's `%v` prints it.
pub(crate) fn number(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float_value) => float(float_value),
        None => number.to_string(),
    }
}

/// A `float64` as Go's `%v` prints it: with an exponent if that is below -4 or above 20.
pub(crate) fn float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(-4..21) | Err(_) => value.to_string(),
        Ok(exponent) if exponent < 0 => format!("{mantissa}e-{:02}", -exponent),
        Ok(exponent) => format!("{mantissa}e+{exponent:02}"),
    }
}

/// A JSON value as an error message prints the value of a field.
///
/// # Upstream
/// `Error.ErrorBody` in `apimachinery/pkg/util/validation/field/errors.go`, 1.20.2.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "\"null\"".to_owned(),
        Value::String(text) => quoted(text),
        other => syntax(other),
    }
}

/// A JSON value as Go's `%#v` prints its decoded form.
pub(crate) fn syntax(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(one) => number(one),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[]interface {{}}{{{}}}", list(items.iter().map(syntax).collect())),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| format!("{}:{}", quoted(key), syntax(value)));
            format!("map[string]interface {{}}{{{}}}", list(fields.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_mistake_has_its_message() {
        for (text, expected) in [
            ("", END),
            ("  ", END),
            ("[", END),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("[1 2]", "invalid character '2' after array element"),
            (
                "{1}",
                "invalid character '1' looking for beginning of object key string",
            ),
            ("{\"a\",}", "invalid character ',' after object key"),
            (
                "{\"a\":1 \"b\"}",
                "invalid character '\"' after object key:value pair",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("{} x", "invalid character 'x' after top-level value"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            (
                "\"\\u00g\"",
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
            ("-a", "invalid character 'a' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            ("1e'", "invalid character '\\'' in exponent of numeric literal"),
            ("01", "invalid character '1' after top-level value"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("0", ""),
            ("-1.5e+3", ""),
            ("\"\\u00e4\\n\"", ""),
            (" {\"a\": [true, false, null, {}, [], {\"b\": \"\"}]} ", ""),
        ] {
            let found = json_syntax_error(text.as_bytes());
            assert_eq!(found.unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({"b": null, "a": ["x", 1, {"c": true}]});
        assert_eq!(printed(&value), "map[a:[x 1 map[c:true]] b:<nil>]");
    }
}
