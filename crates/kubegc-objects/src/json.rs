//! A JSON writer that matches Go's `encoding/json`: compact, fields in declared order, HTML characters
//! escaped.
//!
//! Patches are compared byte for byte with upstream's, so their text is built here and not by a general
//! serialiser.

/// Appends a JSON string. `<`, `>`, `&`, U+2028 and U+2029 are escaped, as Go does for the sake of browsers.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut plain_from = 0;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        // The two separators are e2 80 a8 and e2 80 a9 in UTF-8.
        let separator = byte == 0xe2
            && bytes.get(at + 1) == Some(&0x80)
            && matches!(bytes.get(at + 2), Some(0xa8 | 0xa9));
        let plain = byte >= 0x20 && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&') && !separator;
        if plain {
            at += 1;
            continue;
        }
        out.extend_from_slice(&bytes[plain_from..at]);
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0xe2 => {
                out.extend_from_slice(b"\\u202");
                out.push(HEX[usize::from(bytes[at + 2] & 0xf)]);
                at += 2;
            }
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 0xf)]);
            }
        }
        at += 1;
        plain_from = at;
    }
    out.extend_from_slice(&bytes[plain_from..]);
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
