//! Converts YAML as kubectl writes it to JSON: block maps and sequences, scalars of one line, and literal
//! blocks.
//!
//! A YAML library takes about 20 times as long per byte as the JSON reader, so objects in this form do not go
//! through one. Anything else is left to the library: comments, anchors, tags, flow collections that are not
//! empty, folded or plain scalars of several lines, repeated keys, and plain scalars that could be something
//! else than a text for some reader of YAML.

use std::borrow::Cow;

/// Maps and sequences within each other.
const DEPTH_MAX: usize = 128;
/// Maximum number of keys of an unsorted map that are compared one by one.
const UNSORTED_KEYS_MAX: usize = 64;

/// Writes the JSON form of a text; `false` if it is not in the form of kubectl. Then the output is of no use.
///
/// # Complexity
/// Linear in the text.
pub(crate) fn to_json(text: &str, out: &mut String) -> bool {
    out.clear();
    let converter = Converter {
        rest: text,
        out,
        open: Vec::new(),
        awaits_value: false,
    };
    converter.convert().is_some()
}

/// The first line of a text without its end, and the rest; `None` if the text is empty.
fn next_line(text: &str) -> Option<(&str, &str)> {
    let end = memchr::memchr(b'\n', text.as_bytes()).unwrap_or(text.len());
    let rest = text.get(end + 1..).unwrap_or_default();
    (!text.is_empty()).then(|| (&text[..end], rest))
}

/// A map or sequence that has not ended.
struct Open<'t> {
    /// The column of its keys or dashes.
    column: usize,
    is_map: bool,
    is_empty: bool,
    keys: Keys<'t>,
}

/// The keys of a map, without quotes.
#[derive(Default)]
struct Keys<'t> {
    all: Vec<Cow<'t, str>>,
    is_unsorted: bool,
}

impl<'t> Keys<'t> {
    /// Adds a key; `None` if it may be there already.
    fn add(&mut self, key: Cow<'t, str>) -> Option<()> {
        self.is_unsorted |= self.all.last().is_some_and(|last| *last >= key);
        if self.is_unsorted && (self.all.len() > UNSORTED_KEYS_MAX || self.all.contains(&key)) {
            return None;
        }
        self.all.push(key);
        Some(())
    }
}

struct Converter<'t, 'o> {
    /// The lines to come.
    rest: &'t str,
    out: &'o mut String,
    open: Vec<Open<'t>>,
    /// Whether the last key or dash has no value yet.
    awaits_value: bool,
}

impl<'t> Converter<'t, '_> {
    /// `None` if the text has another form.
    fn convert(mut self) -> Option<()> {
        while let Some((line, rest)) = next_line(self.rest) {
            self.rest = rest;
            let column = line.bytes().take_while(|&byte| byte == b' ').count();
            let content = line.get(column..)?.trim_end_matches(' ');
            if !content.is_empty() {
                self.node(column, content)?;
            }
        }
        self.close_to(0);
        // A text without any node is not a value.
        (!self.out.is_empty()).then_some(())
    }

    fn node(&mut self, mut column: usize, mut content: &'t str) -> Option<()> {
        loop {
            let entry = match content.strip_prefix('-') {
                Some("") => Some(""),
                Some(rest) => rest.strip_prefix(' '),
                None => None,
            };
            self.place(column, entry.is_some())?;
            let Some(rest) = entry else { break };
            if rest.is_empty() {
                return Some(());
            }
            column += 2;
            content = rest;
            match split_key(content) {
                // The entry is a map or a sequence.
                Some(_) => {}
                None if content == "-" || content.starts_with("- ") => {}
                None => {
                    self.awaits_value = false;
                    return self.scalar(content);
                }
            }
        }
        let (key, value) = split_key(content)?;
        let key = match key.as_bytes().first()? {
            b'"' | b'\'' => unquoted(key)?,
            _ if is_text(key) => Cow::Borrowed(key),
            _ => return None,
        };
        push_text(self.out, &key);
        self.out.push(':');
        self.open.last_mut()?.keys.add(key)?;
        match value {
            "" => self.awaits_value = true,
            "|" => self.literal(column, true)?,
            "|-" => self.literal(column, false)?,
            value => self.scalar(value)?,
        }
        Some(())
    }

    /// Opens and closes maps and sequences, so that an entry of one can follow at this column.
    fn place(&mut self, column: usize, is_entry: bool) -> Option<()> {
        // A sequence may begin at the column of the key that it belongs to.
        let opens = match self.open.last() {
            None => self.out.is_empty(),
            Some(top) if self.awaits_value => {
                column > top.column || (column == top.column && is_entry && top.is_map)
            }
            Some(_) => false,
        };
        if opens {
            if self.open.len() == DEPTH_MAX {
                return None;
            }
            self.out.push(if is_entry { '[' } else { '{' });
            self.open.push(Open {
                column,
                is_map: !is_entry,
                is_empty: true,
                keys: Keys::default(),
            });
            self.awaits_value = false;
        } else {
            self.close_to(column);
            // The sequence of a key ends at the next key, which is at the same column.
            if let Some(top) = self.open.last()
                && top.column == column
                && !top.is_map
                && !is_entry
            {
                self.close();
            }
        }
        let top = self.open.last_mut()?;
        if top.column != column || top.is_map == is_entry {
            return None;
        }
        if !top.is_empty {
            self.out.push(',');
        }
        top.is_empty = false;
        self.awaits_value = is_entry;
        Some(())
    }

    /// Closes the levels to the right of a column. A missing value is null.
    fn close_to(&mut self, column: usize) {
        if self.awaits_value {
            self.out.push_str("null");
            self.awaits_value = false;
        }
        let is_end = self.rest.is_empty() && column == 0;
        while self.open.last().is_some_and(|top| top.column > column) {
            self.close();
        }
        if is_end {
            while !self.open.is_empty() {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        if let Some(top) = self.open.pop() {
            self.out.push(if top.is_map { '}' } else { ']' });
        }
    }

    fn scalar(&mut self, value: &str) -> Option<()> {
        match value {
            "{}" | "[]" | "null" | "true" | "false" => self.out.push_str(value),
            _ if value.starts_with('"') && is_json_string(value) => self.out.push_str(value),
            _ if value.starts_with('\'') => push_text(self.out, &unquoted(value)?),
            _ if is_integer(value) => self.out.push_str(value),
            _ if is_text(value) => push_text(self.out, value),
            _ => return None,
        }
        Some(())
    }

    /// The lines of a literal block below a key.
    fn literal(&mut self, key_column: usize, ends_with_break: bool) -> Option<()> {
        let mut text = String::new();
        let mut block_column = None;
        // Line breaks that count only if text follows.
        let mut breaks = 0;
        while let Some((line, rest)) = next_line(self.rest) {
            let column = line.bytes().take_while(|&byte| byte == b' ').count();
            let is_blank = column == line.len();
            if is_blank {
                // Blanks beyond the block's column are text.
                if block_column.is_none_or(|block| column > block) && column > 0 {
                    return None;
                }
                breaks += 1;
            } else {
                let block = *block_column.get_or_insert(column);
                if column <= key_column {
                    break;
                }
                if column < block || !has_plain_characters(line) {
                    return None;
                }
                if !text.is_empty() {
                    breaks += 1;
                }
                text.extend(std::iter::repeat_n('\n', breaks));
                breaks = 0;
                text.push_str(line.get(block..)?);
            }
            self.rest = rest;
        }
        // Without text the rules for breaks are others.
        if text.is_empty() {
            return None;
        }
        if ends_with_break {
            text.push('\n');
        }
        push_text(self.out, &text);
        Some(())
    }
}

/// Splits a line into a key and what follows its colon.
fn split_key(content: &str) -> Option<(&str, &str)> {
    if content.starts_with(['"', '\'']) {
        let (key, rest) = content.split_at_checked(quoted_length(content)?)?;
        let value = rest.strip_prefix(':')?;
        return match value.strip_prefix(' ') {
            Some(value) => Some((key, value.trim_start_matches(' '))),
            None => value.is_empty().then_some((key, "")),
        };
    }
    let mut colons = memchr::memchr_iter(b':', content.as_bytes());
    match colons.find(|&at| content[at..].starts_with(": ")) {
        Some(at) => Some((&content[..at], content[at + 1..].trim_start_matches(' '))),
        None => content.strip_suffix(':').map(|key| (key, "")),
    }
}

/// The length of the quoted scalar at the beginning of a text.
fn quoted_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = *bytes.first()?;
    let mut at = 1;
    // Every iteration moves towards the end of the text.
    loop {
        let rest = bytes.get(at..)?;
        let found = memchr::memchr2(quote, b'\\', rest)?;
        let is_escape = match rest[found] {
            b'\\' => quote == b'"',
            // Between two single quotes a quote is doubled.
            _ if quote == b'\'' && rest.get(found + 1) == Some(&quote) => true,
            _ => return Some(at + found + 1),
        };
        at += found + 1 + usize::from(is_escape);
    }
}

/// The text between quotes that enclose a whole scalar. Escapes are left to the library.
fn unquoted(scalar: &str) -> Option<Cow<'_, str>> {
    if quoted_length(scalar)? != scalar.len() {
        return None;
    }
    let text = &scalar[1..scalar.len() - 1];
    if !has_plain_characters(text) {
        return None;
    }
    match scalar.as_bytes().first() {
        Some(b'\'') if text.contains('\'') => Some(text.replace("''", "'").into()),
        Some(b'"') if text.contains('\\') => None,
        _ => Some(text.into()),
    }
}

/// Whether a scalar in double quotes is a JSON string too: its escapes are those of JSON that need no digits.
fn is_json_string(scalar: &str) -> bool {
    let mut bytes = scalar.bytes();
    let mut escapes = std::iter::from_fn(|| bytes.find(|&byte| byte == b'\\').map(|_| bytes.next()));
    let is_json = escapes.all(|escape| escape.is_some_and(|byte| b"\"\\/bfnrt".contains(&byte)));
    is_json && quoted_length(scalar) == Some(scalar.len()) && has_plain_characters(scalar)
}

/// Whether every reader of YAML takes a plain scalar for a number without a fraction.
fn is_integer(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_plain = digits.len() <= 15 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain && (digits == "0" && digits == value || matches!(digits.as_bytes().first(), Some(b'1'..=b'9')))
}

/// Plain scalars that some reader of YAML does not take for a text, in lower case.
const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];

/// Whether every reader of YAML takes a plain scalar for a text of one line.
fn is_text(value: &str) -> bool {
    let bytes = value.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    let is_plain = match first {
        b'A'..=b'Z' | b'a'..=b'z' => {
            value.len() > 5 || !WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
        }
        b'/' | b'_' | b'$' | b'(' => true,
        // An argument of a program.
        b'-' => {
            matches!(bytes, [_, b'-', b'A'..=b'Z' | b'a'..=b'z', ..] | [_, b'A'..=b'Z' | b'a'..=b'z', ..])
        }
        b'.' => value == "." || bytes.get(1).is_some_and(|&byte| byte == b'/'),
        b'0'..=b'9' => is_uuid(bytes) || is_text_with_digits(value),
        _ => false,
    };
    // A blank after a colon ends a key, and one before a hash begins a comment.
    let mut blanks = memchr::memchr_iter(b' ', bytes);
    let is_marked = blanks.any(|at| bytes[..at].ends_with(b":") || bytes[at..].starts_with(b" #"));
    is_plain && last != b':' && !is_marked && has_plain_characters(value)
}

fn is_uuid(bytes: &[u8]) -> bool {
    let is_part = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    bytes.len() == 36 && bytes.iter().enumerate().all(is_part)
}

/// Whether a scalar that begins with a digit is surely no number and no date: an address, a version, a
/// quantity, a name.
fn is_text_with_digits(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_prefixed = bytes.first() == Some(&b'0') && bytes.len() > 1 && bytes.get(1) != Some(&b'.');
    let dots = bytes.iter().filter(|&&byte| byte == b'.').count();
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || b".-/".contains(byte) || (*byte == b':' && dots >= 2);
    let is_word = bytes.iter().all(is_part);
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphabetic());
    // An exponent or a hexadecimal digit is no such letter.
    let has_letter = letters
        .clone()
        .any(|letter| letter.is_ascii_lowercase() && *letter > b'f');
    is_word && !is_prefixed && (has_letter || (dots >= 2 && letters.count() == 0 && !value.contains('-')))
}

/// Whether all characters are printable in all readers of YAML, and none breaks a line.
fn has_plain_characters(text: &str) -> bool {
    let is_plain = |character: char| {
        matches!(character, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
            && !matches!(character, '\u{2028}' | '\u{2029}')
    };
    // Without a branch for each byte.
    let is_ascii = text
        .bytes()
        .fold(true, |all, byte| all & matches!(byte, b' '..=b'~'));
    is_ascii || text.chars().all(is_plain)
}

/// Writes a text as a JSON string.
fn push_text(out: &mut String, text: &str) {
    out.push('"');
    let is_special = |byte: u8| byte < b' ' || matches!(byte, b'"' | b'\\');
    // Without a branch for each byte. Few texts have a special one.
    if !text.bytes().fold(false, |any, byte| any | is_special(byte)) {
        out.push_str(text);
        out.push('"');
        return;
    }
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_special) {
        let (plain, special) = rest.split_at(at);
        out.push_str(plain);
        match special.as_bytes()[0] {
            b'\n' => out.push_str("\\n"),
            byte @ (b'"' | b'\\') => out.extend(['\\', char::from(byte)]),
            byte => out.push_str(&format!("\\u{byte:04x}")),
        }
        rest = &special[1..];
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::yaml;

    fn converted(text: &str) -> Option<Value> {
        let mut out = String::new();
        to_json(text, &mut out)
            .then(|| serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}")))
    }

    fn parsed(text: &str) -> Option<Value> {
        yaml::parse(text).ok()
    }

    #[test]
    fn objects_of_kubectl_are_converted() {
        let text = "\
- apiVersion: v1
  data:
    a.conf: |
      one

        two
    b: |-
      x
    c: 'it''s'
    d: \"a\\n\\\"b\\\"\"
  kind: ConfigMap
  metadata:
    annotations: {}
    finalizers:
    - example.com/hold
    labels:
    name: settings
    ownerReferences:
    - apiVersion: v1
      controller: true
      kind: Node
      uid: 0b5f9a3e-58a1-4b0e-9f0a-000000000008
    resourceVersion: \"7\"
  nested:
  - - 1
    - -2
  -
    k:{\"name\":\"web\"}: 10.0.0.1
  \"quoted\":
    \".\": {}
    'k:{\"uid\":''u''}':
      'f:name': {}
    \"k:{}\": \"é\\t \\/ \\\\ \\r\"
  size: 128Mi
";
        let found = converted(text);
        assert!(found.is_some());
        assert_eq!(found, parsed(text));
    }

    /// Texts near the form, put together from parts.
    fn near() -> impl Strategy<Value = String> {
        let indent = prop::sample::select(vec!["", "  ", "    ", " ", "      "]);
        let dash = prop::sample::select(vec!["", "", "- ", "- - ", "-"]);
        let keys = r#"
            a c "d" 'e' f:g . a.b/c 9a 'a' "\x63" d "f:g" "a\"b" 'a"b' 'e''e' "" '' "a\\" 'a\' "null"
            '1' '<<' "é" "a"b "a\" 'a'' 1 yes <<
        "#;
        let keys = keys.split_whitespace().map(|key| format!("{key}: "));
        let others = [
            "",
            "b:",
            "\"b\":",
            "\"e'e\":",
            "\"k: #\": ",
            "\"\\u00e9\":",
            "\"a\" : ",
            "? ",
            "# ",
        ];
        let key = prop::sample::select(keys.chain(others.map(str::to_owned)).collect::<Vec<_>>());
        let values = r#"
            x 1 -1 0 -0 true null {} [] "y" 'z' '' "" 'a''b' "\n" "\b\f\r\t\/\\\""
            "\x41\u00e9\U0001f600" "\x00\x1f\x7f\x85" "\ufeff\u2028" "\ud83d\ude00" "\U00110000" "\x4"
            "\u+041" "\e" "y\" '\n' | |- 1.2.3 10m 1Gi 9d 1e5 a:b x: # 0.5 no 10.0.0.1/24 10.0.0.1:80
            v1 é --port=1 -x $(A) 12345678-1234-1234-1234-123456789012 *x [1] > |+ 012 0x1f 1_000
            2026-01-01 12:30 .inf ~ @b %b 12345678901234567890
        "#;
        let others = [
            "", "\"y\" x", "x y", "x: y", "x #y", "&x b", "!!str b", "{b: c}", "\u{85}", "\u{7}", "x\r",
            "\tx",
        ];
        let value = prop::sample::select(values.split_whitespace().chain(others).collect::<Vec<_>>());
        let line = (indent, dash, key, value)
            .prop_map(|(indent, dash, key, value)| format!("{indent}{dash}{key}{value}\n"));
        prop::collection::vec(line, 1..8).prop_map(|lines| lines.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

        /// The converted document equals what the library reads.
        #[test]
        fn a_converted_text_means_what_the_library_reads(text in near()) {
            if let Some(value) = converted(&text) {
                prop_assert_eq!(Some(value), parsed(&text), "{}", text);
            }
        }
    }
}
