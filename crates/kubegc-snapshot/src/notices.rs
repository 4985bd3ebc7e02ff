//! Output of kubectl between objects: the logs of `kubectl cluster-info dump`, and messages that `2>&1` saved
//! with the dump.

use std::io::Read;

use kubegc_core::printable;
use memchr::memmem;

use crate::window::{Window, WindowError};

const LOGS_START: &[u8] = b"==== START logs for ";
const LOGS_END: &[u8] = b"==== END logs for ";
/// Bytes of a message that a finding shows.
const MESSAGE_BYTES_MAX: usize = 300;
/// Bytes that the name of a container and its pod may have.
const NAME_BYTES_MAX: usize = 4_096;

/// Beginnings of messages, and whether they are errors.
const MESSAGES: [(&[u8], bool); 8] = [
    (b"error: ", true),
    (b"Error: ", true),
    (b"Error from server", true),
    (b"Unable to connect to the server", true),
    (b"The connection to the server ", true),
    (b"Warning: ", false),
    (b"No resources found", false),
    (b"Cluster info dumped to ", false),
];

/// The text before a document or between two.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Logs,
    /// Logs without an end.
    CutLogs,
    /// A line of kubectl.
    Message {
        text: String,
        is_error: bool,
    },
}

/// Whether a line is a message of kubectl; if so, whether it is an error. No kind of Kubernetes has a field
/// `error` or `Error` next to its `metadata`, so such an unindented line in YAML does not belong to an
/// object.
pub(crate) fn message(line: &[u8]) -> Option<bool> {
    // Most lines of YAML begin with a space, a dash or a small letter.
    if !matches!(line.first(), Some(b'A'..=b'Z' | b'e')) {
        return None;
    }
    let known = MESSAGES.iter().find(|(start, _)| line.starts_with(start));
    known.map(|&(_, is_error)| is_error).or_else(|| log_line(line))
}

/// A line of the logging library of kubectl, such as `E1123 11:19:44.123456   12345 memcache.go:265] ...`.
fn log_line(line: &[u8]) -> Option<bool> {
    let (&level, rest) = line.split_first()?;
    let is_time = rest
        .get(..7)
        .is_some_and(|time| time[..4].iter().chain(&time[5..]).all(u8::is_ascii_digit) && time[4] == b' ');
    match level {
        b'E' | b'F' if is_time => Some(true),
        b'I' | b'W' if is_time => Some(false),
        _ => None,
    }
}

/// Consumes the notice at the beginning of the window, which is the beginning of a line; `None` if there is
/// none.
pub(crate) fn next<R: Read>(window: &mut Window<R>) -> Result<Option<Notice>, WindowError> {
    if window.at_least(LOGS_START.len())?.starts_with(LOGS_START) {
        return logs(window).map(Some);
    }
    let length = window.line_end(0)?;
    let line = &window.bytes()[..length];
    let Some(is_error) = message(line) else {
        return Ok(None);
    };
    let shown = &line[..line.len().min(MESSAGE_BYTES_MAX)];
    let text = printable(String::from_utf8_lossy(shown).trim_end()).into_owned();
    window.consume(length);
    Ok(Some(Notice::Message { text, is_error }))
}

/// Consumes the logs of one container: to the line that names the same container, which need not begin a
/// line, because the last line of a log may have no end.
fn logs<R: Read>(window: &mut Window<R>) -> Result<Notice, WindowError> {
    let start = window.line_end(0)?;
    let name = window.bytes()[LOGS_START.len()..start].trim_ascii_end();
    let end = [LOGS_END, &name[..name.len().min(NAME_BYTES_MAX)]].concat();
    window.consume(start);
    // Every iteration consumes bytes or shows more of the input.
    loop {
        if let Some(found) = memmem::find(window.bytes(), &end) {
            window.consume(found);
            let length = window.line_end(0)?;
            window.consume(length);
            return Ok(Notice::Logs);
        }
        window.consume(window.bytes().len().saturating_sub(end.len()));
        if !window.fill()? {
            window.consume(window.bytes().len());
            return Ok(Notice::CutLogs);
        }
    }
}
