//! A JSON writer that matches Go's `encoding/json`: compact, fields in declared order, HTML characters
//! escaped.
//!
//! Patches are compared byte for byte with upstream's, so their text is built here and not by a general
//! serialiser.

/// Appends a JSON string. `<`, `>`, `&`, U+2028 and U+2029 are escaped, as Go does for the sake of browsers.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for char in text.chars() {
        match char {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(char)).as_bytes());
            }
            plain => out.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

/// Appends `items` between brackets, separated by commas.
pub(crate) fn push_array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        push(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::push_string;

    /// Characters that no recorded patch has.
    #[test]
    fn strings_are_escaped_as_go_does() {
        let mut out = Vec::new();
        push_string(&mut out, "a\r\u{202a}");
        assert_eq!(String::from_utf8_lossy(&out), "\"a\\r\u{202a}\"");
    }
}
