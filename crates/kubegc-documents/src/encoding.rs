//! Reads and writes base64 and PEM as Go's standard library does.

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

/// Base64 as `base64.StdEncoding` of Go has it: padding is required, and unused bits of the last digit are
/// ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Decodes base64 with padding, as the API has bytes in JSON. Line breaks are ignored.
pub(crate) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    decode(text.iter().copied().filter(|byte| !b"\r\n".contains(byte)))
}

fn decode(digits: impl Iterator<Item = u8>) -> Option<Vec<u8>> {
    BASE64.decode(digits.collect::<Vec<u8>>()).ok()
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// The content of the first block of a PEM text; `None` if there is none. Text outside of blocks is skipped.
///
/// # Upstream
/// `pem.Decode`.
///
/// # Complexity
/// Linear in the text.
pub(crate) fn first_pem_block(text: &[u8]) -> Option<Vec<u8>> {
    // The starts of the end lines.
    let is_end = |&at: &usize| text[at - 1] == b'\n' && text[at..].starts_with(END);
    let ends: Vec<usize> = (1..text.len()).filter(is_end).collect();
    let mut at = 0;
    // Each iteration continues behind another begin line, at the start of a line.
    loop {
        at = begin_line(text, at)?;
        let (line, next) = line_at(text, at);
        at = next;
        let Some(label) = line.strip_suffix(b"-----") else {
            continue;
        };
        let mut has_headers = false;
        loop {
            let (line, next) = line_at(text, at);
            if at == text.len() {
                return None;
            }
            if !line.contains(&b':') {
                break;
            }
            has_headers = true;
            at = next;
        }
        // Without headers the end may follow at once; else it begins a line of its own.
        let end = if !has_headers && text[at..].starts_with(END) {
            Some(at)
        } else {
            ends.get(ends.partition_point(|&end| end <= at)).copied()
        };
        let Some(end) = end else { continue };
        if line_at(text, end + END.len()).0.strip_suffix(b"-----") != Some(label) {
            continue;
        }
        let content = text[at..end].iter().copied();
        if let Some(bytes) = decode(content.filter(|byte| !b" \t\r\n".contains(byte))) {
            return Some(bytes);
        }
    }
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";

/// The start of the label of the next begin line. A line begins at `at`.
fn begin_line(text: &[u8], at: usize) -> Option<usize> {
    if text[at..].starts_with(BEGIN) {
        return Some(at + BEGIN.len());
    }
    let is_begin = |window: &[u8]| window[0] == b'\n' && window[1..] == *BEGIN;
    let found = text[at..].windows(BEGIN.len() + 1).position(is_begin)?;
    Some(at + found + 1 + BEGIN.len())
}

/// The line that begins here, without what ends it, and where the next one begins.
fn line_at(text: &[u8], at: usize) -> (&[u8], usize) {
    let rest = &text[at..];
    let (line, next) = match rest.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&rest[..end], at + end + 1),
        None => (rest, text.len()),
    };
    let trimmed = line
        .iter()
        .rposition(|byte| !b" \t\r".contains(byte))
        .map_or(0, |last| last + 1);
    (&line[..trimmed], next)
}

/// A PEM text of one block.
pub(crate) fn to_pem(label: &str, bytes: &[u8]) -> String {
    // 64 digits a line.
    let lines = bytes.chunks(48).map(|bytes| to_base64(bytes) + "\n");
    let lines: String = lines.collect();
    format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_go_reads_it() {
        for (text, expected) in [
            ("", Some(&b""[..])),
            ("Zg==", Some(b"f")),
            ("Zm8=", Some(b"fo")),
            ("Zm9v", Some(b"foo")),
            ("Zm9vYmFy", Some(b"foobar")),
            ("Zm\r\n9v\n", Some(b"foo")),
            ("Zh==", Some(b"f")),
            ("+/+/", Some(&[0xfb, 0xff, 0xbf])),
            ("Zg", None),
            ("Zg=", None),
            ("Z===", None),
            ("=", None),
            ("Zg==Zg==", None),
            ("Zg==\n=", None),
            ("Zg=v", None),
            ("Zm9 v", None),
            ("Zm9-", None),
            ("\u{e9}", None),
        ] {
            assert_eq!(from_base64(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_first_block_of_a_text_is_found() {
        let block = "-----BEGIN X-----\nZm9v\n-----END X-----\n";
        for (text, expected) in [
            (block.to_owned(), Some("foo")),
            (block.replace('\n', "\r\n"), Some("foo")),
            (block.trim_end().to_owned(), Some("foo")),
            (format!("words\n{block}"), Some("foo")),
            (format!("words {block}"), None),
            (
                format!("{block}-----BEGIN X-----\nYmFy\n-----END X-----\n"),
                Some("foo"),
            ),
            ("-----BEGIN X-----\n-----END X-----\n".to_owned(), Some("")),
            (
                "-----BEGIN X-----\na: b\nc: d\n\nZm9v\n-----END X-----\n".to_owned(),
                Some("foo"),
            ),
            (
                "-----BEGIN X-----\n Zm\t9v \n-----END X-----  \n".to_owned(),
                Some("foo"),
            ),
            ("-----BEGIN X-----\nZm9v\n-----END Y-----\n".to_owned(), None),
            ("-----BEGIN X-----\nZm9v\n-----END X----- y\n".to_owned(), None),
            ("-----BEGIN X-----\nZm9v-----END X-----\n".to_owned(), None),
            (
                format!("-----BEGIN X-----\n?\n-----END X-----\n{block}"),
                Some("foo"),
            ),
            (format!("-----BEGIN X\n{block}"), Some("foo")),
            ("-----BEGIN X-----\n".to_owned(), None),
            ("-----BEGIN X-----\na: b\n".to_owned(), None),
            ("-----BEGIN X-----\nZm9v\n".to_owned(), None),
            (String::new(), None),
        ] {
            let found = first_pem_block(text.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn many_lines_that_begin_and_never_end_are_read_in_linear_time() {
        let begins = "-----BEGIN X-----\n".repeat(200_000);
        assert_eq!(first_pem_block(begins.as_bytes()), None);
        let other = format!("{begins}Zm9v\n-----END Y-----\n");
        assert_eq!(first_pem_block(other.as_bytes()), None);
    }

    #[test]
    fn written_values_are_read() {
        for length in 0..200_u8 {
            let bytes: Vec<u8> = (0..length).map(|at| at.wrapping_mul(89)).collect();
            assert_eq!(from_base64(to_base64(&bytes).as_bytes()).as_ref(), Some(&bytes));
            let pem = to_pem("CERTIFICATE", &bytes);
            assert_eq!(first_pem_block(pem.as_bytes()), Some(bytes), "{pem}");
        }
    }
}
