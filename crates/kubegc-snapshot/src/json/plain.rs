//! Parses one value of JSON whose end is not known yet.
//!
//! Most bytes of a dump belong to fields that are not read. This parser checks and skips them in the same
//! pass in which it reads the others. It refuses a value that does not end within the bytes, that is deep, or
//! that is not valid, also one with a key twice. `serde_json` then reads the value, so that only `serde_json`
//! decides what is wrong.

use std::{borrow::Cow, fmt, str};

use serde::{
    Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};

/// Maximum number of maps and lists within each other; `serde_json` reads more.
pub(super) const DEPTH_MAX: u8 = 100;

/// The parser does not read this value, which may be valid.
#[derive(Debug)]
pub(crate) struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// Parses the value at the beginning of some bytes.
pub(crate) struct Parser<'t> {
    rest: &'t [u8],
    /// How many more maps and lists may be open.
    depth_left: u8,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(bytes: &'t [u8]) -> Self {
        Self {
            rest: bytes,
            depth_left: DEPTH_MAX,
        }
    }

    /// The bytes after what was parsed.
    pub(crate) fn rest(&self) -> &'t [u8] {
        self.rest
    }

    /// Skips white space and this byte.
    fn expect(&mut self, byte: u8) -> Result<(), Refused> {
        self.rest = skip_byte(byte, self.rest).ok_or(Refused)?;
        Ok(())
    }

    /// Reads a string after its opening quote.
    fn string(&mut self, from: &'t [u8]) -> Result<Cow<'t, str>, Refused> {
        let stop = skip_to_stop(from).ok_or(Refused)?;
        if let [b'"', rest @ ..] = stop {
            self.rest = rest;
            let text = str::from_utf8(&from[..from.len() - stop.len()]);
            return text.map(Cow::Borrowed).map_err(|_| Refused);
        }
        self.rest = skip_unusual(stop).ok_or(Refused)?;
        let with_quote = &from[..from.len() - self.rest.len()];
        let text = serde_json::from_slice(&[b"\"", with_quote].concat());
        text.map(Cow::Owned).map_err(|_| Refused)
    }

    /// Reads a number, `true`, `false` or `null`.
    fn scalar<V: Visitor<'t>>(&mut self, from: &'t [u8], visitor: V) -> Result<V::Value, Refused> {
        let (scalar, rest) = split_scalar(from);
        self.rest = rest;
        match (scalar, whole_number(scalar)) {
            (b"true", _) => visitor.visit_bool(true),
            (b"false", _) => visitor.visit_bool(false),
            (b"null", _) => visitor.visit_unit(),
            (_, Some(number)) => visitor.visit_u64(number),
            (_, None) => {
                let mut parser = serde_json::Deserializer::from_slice(scalar);
                let value = parser.deserialize_any(visitor);
                value
                    .and_then(|value| parser.end().map(|()| value))
                    .map_err(|_| Refused)
            }
        }
    }

    /// Begins to read a map or list after its opening bracket.
    fn open(&mut self, close: u8, from: &'t [u8]) -> Result<Entries<'_, 't>, Refused> {
        self.rest = from;
        self.depth_left = self.depth_left.checked_sub(1).ok_or(Refused)?;
        Ok(Entries {
            parser: self,
            close,
            is_first: true,
        })
    }
}

impl<'t> Deserializer<'t> for &mut Parser<'t> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Refused> {
        let depth_left = self.depth_left;
        let value = match skip_space(self.rest) {
            [b'"', rest @ ..] => match self.string(rest)? {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            [b'{', rest @ ..] => visitor.visit_map(self.open(b'}', rest)?),
            [b'[', rest @ ..] => visitor.visit_seq(self.open(b']', rest)?),
            rest => self.scalar(rest, visitor),
        }?;
        // A visitor that leaves entries of a map or list does not accept it.
        match self.depth_left == depth_left {
            true => Ok(value),
            false => Err(Refused),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.rest = skip_value(self.rest, self.depth_left).ok_or(Refused)?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'t>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

/// The entries of an open map or list.
struct Entries<'p, 't> {
    parser: &'p mut Parser<'t>,
    close: u8,
    is_first: bool,
}

impl Entries<'_, '_> {
    /// Whether another entry follows. If not, closes the map or list.
    #[inline]
    fn has_next(&mut self) -> Result<bool, Refused> {
        if let Some(rest) = skip_byte(self.close, self.parser.rest) {
            self.parser.rest = rest;
            self.parser.depth_left += 1;
            return Ok(false);
        }
        if !std::mem::replace(&mut self.is_first, false) {
            self.parser.expect(b',')?;
        }
        Ok(true)
    }
}

impl<'t> MapAccess<'t> for Entries<'_, 't> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'t>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        if !self.has_next()? {
            return Ok(None);
        }
        self.parser.rest = skip_space(self.parser.rest);
        if self.parser.rest.first() != Some(&b'"') {
            return Err(Refused);
        }
        let key = seed.deserialize(&mut *self.parser)?;
        self.parser.expect(b':')?;
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        seed.deserialize(&mut *self.parser)
    }
}

impl<'t> SeqAccess<'t> for Entries<'_, 't> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'t>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        match self.has_next()? {
            true => seed.deserialize(&mut *self.parser).map(Some),
            false => Ok(None),
        }
    }
}

// These functions skip what is at the beginning of some bytes, and return the rest. They return `None` if it
// is not valid, or not all of it is there.

/// Skips a value.
#[inline(always)]
pub(super) fn skip_value(bytes: &[u8], depth_left: u8) -> Option<&[u8]> {
    match skip_space(bytes) {
        [b'"', rest @ ..] => skip_string(rest),
        [b'{', rest @ ..] => skip_map(rest, depth_left.checked_sub(1)?),
        [b'[', rest @ ..] => skip_list(rest, depth_left.checked_sub(1)?),
        rest => skip_scalar(rest),
    }
}

/// Skips a map after its opening brace.
fn skip_map(bytes: &[u8], depth_left: u8) -> Option<&[u8]> {
    let mut rest = skip_space(bytes);
    if let [b'}', rest @ ..] = rest {
        return Some(rest);
    }
    loop {
        let key = skip_byte(b'"', rest)?;
        let value = skip_byte(b':', skip_string(key)?)?;
        rest = match skip_space(skip_value(value, depth_left)?) {
            [b',', rest @ ..] => rest,
            [b'}', rest @ ..] => return Some(rest),
            _ => return None,
        };
    }
}

/// Skips a list after its opening bracket.
fn skip_list(bytes: &[u8], depth_left: u8) -> Option<&[u8]> {
    let mut rest = skip_space(bytes);
    if let [b']', rest @ ..] = rest {
        return Some(rest);
    }
    loop {
        rest = match skip_space(skip_value(rest, depth_left)?) {
            [b',', rest @ ..] => rest,
            [b']', rest @ ..] => return Some(rest),
            _ => return None,
        };
    }
}

/// Skips a number, `true`, `false` or `null`.
fn skip_scalar(bytes: &[u8]) -> Option<&[u8]> {
    let (scalar, rest) = split_scalar(bytes);
    let is_valid = matches!(scalar, b"true" | b"false" | b"null")
        || whole_number(scalar).is_some()
        || serde_json::from_slice::<IgnoredAny>(scalar).is_ok();
    is_valid.then_some(rest)
}

/// Splits off what may be a number or a word.
fn split_scalar(bytes: &[u8]) -> (&[u8], &[u8]) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    // A number at the end of the bytes may continue after them, so it is not split off.
    let length = bytes.iter().position(|byte| !is_part(byte)).unwrap_or(0);
    bytes.split_at(length)
}

/// A number without sign, fraction and exponent that fits for sure.
fn whole_number(scalar: &[u8]) -> Option<u64> {
    if !matches!(scalar, [b'0'] | [b'1'..=b'9', ..]) || scalar.len() > 18 {
        return None;
    }
    scalar.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + u64::from(digit - b'0'))
    })
}

/// Skips white space and one byte.
#[inline]
fn skip_byte(byte: u8, bytes: &[u8]) -> Option<&[u8]> {
    match skip_space(bytes) {
        [first, rest @ ..] if *first == byte => Some(rest),
        _ => None,
    }
}

/// Skips white space, if there is any.
#[inline]
fn skip_space(bytes: &[u8]) -> &[u8] {
    match bytes {
        [first, ..] if *first <= b' ' => skip_indentation(bytes),
        _ => bytes,
    }
}

#[inline(never)]
fn skip_indentation(mut bytes: &[u8]) -> &[u8] {
    loop {
        // kubectl indents by four spaces.
        bytes = match (bytes.split_first_chunk(), bytes) {
            (Some((b"    ", rest)), _) => rest,
            (_, [b' ' | b'\n' | b'\r' | b'\t', rest @ ..]) => rest,
            _ => return bytes,
        };
    }
}

/// Skips a string after its opening quote.
#[inline]
fn skip_string(bytes: &[u8]) -> Option<&[u8]> {
    match skip_to_stop(bytes)? {
        [b'"', rest @ ..] => Some(rest),
        rest => skip_unusual(rest),
    }
}

/// Skips the end of a string from its first escape or character outside ASCII.
#[inline(never)]
fn skip_unusual(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let rest = match bytes {
            [
                b'\\',
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
                rest @ ..,
            ] => rest,
            [b'"', rest @ ..] => return Some(rest),
            [first, ..] if !first.is_ascii() => {
                let length = bytes.iter().position(u8::is_ascii)?;
                let (characters, rest) = bytes.split_at(length);
                str::from_utf8(characters).ok().map(|_| rest)?
            }
            [b'\\', b'u', code @ ..] => {
                let (code, rest) = code.split_first_chunk::<4>()?;
                code.iter().all(u8::is_ascii_hexdigit).then_some(rest)?
            }
            _ => return None,
        };
        bytes = skip_to_stop(rest)?;
    }
}

/// Skips the bytes of a string before the first one that ends it, begins an escape, is not ASCII or is not
/// allowed.
#[inline]
pub(super) fn skip_to_stop(mut bytes: &[u8]) -> Option<&[u8]> {
    while let Some((word, rest)) = bytes.split_first_chunk() {
        if let Some(at) = first_stop(*word) {
            return Some(&bytes[at..]);
        }
        bytes = rest;
    }
    let is_stop = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20 | 0x80..);
    let at = bytes.iter().position(is_stop)?;
    Some(&bytes[at..])
}

/// The position of the first such byte among eight, which are compared at once.
#[inline]
fn first_stop(word: [u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH_BITS: u64 = u64::from_le_bytes([0x80; 8]);
    let word = u64::from_le_bytes(word);
    // The subtraction sets the high bit of the lowest byte below `bound`, and perhaps of bytes above it.
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound));
    let quotes = below(word ^ (ONES * u64::from(b'"')), 1);
    let backslashes = below(word ^ (ONES * u64::from(b'\\')), 1);
    let stops = (quotes | backslashes | below(word, b' ') | word) & HIGH_BITS;
    (stops != 0).then(|| stops.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    /// What the parser makes of a value at the beginning of some bytes, and the length of the value.
    fn parse<'t, T: Deserialize<'t>>(bytes: &'t [u8]) -> Option<(T, usize)> {
        let mut parser = Parser::new(bytes);
        let value = T::deserialize(&mut parser).ok()?;
        Some((value, bytes.len() - parser.rest().len()))
    }

    #[test]
    fn stops_are_found_at_every_position() {
        for byte in 0..=u8::MAX {
            for length in 0..20 {
                for at in 0..length {
                    let mut bytes = vec![b'x'; length];
                    bytes[at] = byte;
                    let is_stop = !(0x20..0x80).contains(&byte) || byte == b'"' || byte == b'\\';
                    let expected = is_stop.then(|| &bytes[at..]);
                    assert_eq!(skip_to_stop(&bytes), expected, "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn white_space_of_any_length_is_skipped() {
        for length in 0..20 {
            for space in [" ", "\n", "\t", "\r"] {
                for rest in ["", "x", "\x0b", "\x0c", "}        "] {
                    let text = format!("{}{space}{}{rest}", " ".repeat(length / 2), " ".repeat(length));
                    assert_eq!(skip_space(text.as_bytes()), rest.as_bytes(), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn values_are_read_up_to_their_end() {
        for text in [
            r#"{"a":{},"b":[],"c":[{"d":[true,false,null]}]}"#,
            "{ \"a\" :\t1 ,\r\n    \"b\"\n:\n[ 1\t, 2 ] }",
            r#""a \"b\" \\ \/ \b\f\n\r\t é é""#,
            r#"[0,10,123456789012345678,1234567890123456789,-1,-0,1.5,1e5,18446744073709551616]"#,
        ] {
            let expected: Value = serde_json::from_str(text).expect(text);
            for rest in ["", ",", "}", "]", " \n", "\"", "{"] {
                let bytes = format!("{text}{rest}");
                assert_eq!(
                    parse(bytes.as_bytes()),
                    Some((expected.clone(), text.len())),
                    "{text}"
                );
                let skipped = parse::<IgnoredAny>(bytes.as_bytes()).expect(text);
                assert_eq!(skipped.1, text.len(), "{text}");
            }
        }
    }

    #[test]
    fn values_that_do_not_end_or_are_invalid_or_deep_are_refused() {
        let open = "[".repeat(101);
        for text in [
            "",
            " ",
            "{",
            "[",
            "\"",
            "\"a",
            "\"a\\",
            "\"a\\\"",
            "1",
            "-",
            "tru",
            "true",
            "[1",
            "[1,",
            "[1,]",
            "[,]",
            "[1 2]",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "{1:2}",
            "{\"a\":1]",
            "[1}",
            "[01]",
            "[1.]",
            "[.5]",
            "[+1]",
            "[1e]",
            "[-]",
            "[nul]",
            "[True]",
            "[NaN]",
            "[\x0c1]",
            "[\u{a0}1]",
            "\"\n\"",
            "\"\x1f\"",
            r#""\a""#,
            r#""\u12""#,
            r#""\u12g4""#,
            &open,
        ] {
            assert!(parse::<Value>(text.as_bytes()).is_none(), "{text}");
            assert!(parse::<IgnoredAny>(text.as_bytes()).is_none(), "{text}");
        }
        for bytes in [
            &b"\"\xff\""[..],
            b"\"\xc3\"",
            b"\"abcdefgh\xe9\xa9x\"",
            b"\"\xed\xa0\x80\"",
        ] {
            assert!(
                parse::<Value>(bytes).is_none() && parse::<IgnoredAny>(bytes).is_none(),
                "{bytes:?}"
            );
        }
        // Half of a surrogate pair is no text, and only its digits are checked if it is not read.
        assert!(parse::<Value>(br#""\ud800""#).is_none());
        assert!(parse::<IgnoredAny>(br#""\ud800""#).is_some());
        let deepest = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(parse::<Value>(deepest.as_bytes()).is_some());
        assert!(parse::<IgnoredAny>(deepest.as_bytes()).is_some());
    }

    #[test]
    fn a_visitor_that_leaves_entries_is_refused() {
        assert_eq!(parse::<(u8, u8)>(b"[1,2,3]"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

        #[test]
        fn what_is_accepted_is_what_serde_json_reads(words in prop::collection::vec(prop::sample::select(&[
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\":", "\"c\":1,", "[]", "{}", "1", "-", "0", "2.5", "e3", "true", "null", " ", "\n    ",
            "\"", "\\", "\\u00e9", "\\ud83d\\ude00", "abcdefgh", "é", "\u{7f}", "\u{1f}",
        ][..]), 0..14)) {
            let text = words.concat();
            if let Some((value, length)) = parse::<Value>(text.as_bytes()) {
                prop_assert_eq!(serde_json::from_str::<Value>(&text[..length]).expect(&text), value, "{}", text);
            }
            if let Some((_, length)) = parse::<IgnoredAny>(text.as_bytes()) {
                prop_assert!(serde_json::from_str::<IgnoredAny>(&text[..length]).is_ok(), "{}", text);
            }
            // Nothing valid is refused that does end: after a comma, a number does.
            if serde_json::from_str::<IgnoredAny>(&text).is_ok() {
                prop_assert!(parse::<IgnoredAny>(format!("{text},").as_bytes()).is_some(), "{}", text);
            }
        }
    }
}
