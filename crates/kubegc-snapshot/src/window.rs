//! A bounded window on an input of any length: enough for one object, never the whole input.

use std::io::{self, Read};

/// The bytes of one read.
const CHUNK_BYTES: usize = 256 * 1024;

/// The reason why the window cannot provide more bytes.
#[derive(Debug)]
pub(crate) enum WindowError {
    Io(io::Error),
    /// The kept bytes, which begin in this line, fill the limit.
    Full {
        line: u64,
    },
}

/// The unconsumed part of an input.
///
/// **Invariant.** At most `limit_bytes` plus one chunk are held, for any input.
pub(crate) struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    limit_bytes: usize,
    at_end: bool,
    /// Line of the first unconsumed byte, from 1.
    line: u64,
    /// Bytes already consumed of that line.
    column: u64,
}

impl<R: Read> Window<R> {
    pub(crate) fn new(input: R, limit_bytes: usize) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            limit_bytes,
            at_end: false,
            line: 1,
            column: 0,
        }
    }

    /// The bytes that are read and not consumed.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Line of the first unconsumed byte, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Line and column, both from 1, of the byte at this position of [`bytes`](Self::bytes).
    pub(crate) fn position(&self, at: usize) -> (u64, u64) {
        let before = &self.bytes()[..at.min(self.end - self.start)];
        match memchr::memrchr(b'\n', before) {
            None => (self.line, self.column + before.len() as u64 + 1),
            Some(last) => (self.line + newlines(before), (before.len() - last - 1) as u64 + 1),
        }
    }

    /// Shows more of the input; `false` at its end.
    pub(crate) fn fill(&mut self) -> Result<bool, WindowError> {
        if self.at_end {
            return Ok(false);
        }
        let kept = self.end - self.start;
        if kept > self.limit_bytes {
            return Err(self.full());
        }
        if self.start > 0 && (kept <= self.start || self.buffer.len() - self.end < CHUNK_BYTES / 4) {
            self.buffer.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = kept;
        }
        if self.buffer.len() - self.end < CHUNK_BYTES / 4 {
            let bytes = (self.buffer.len() * 2)
                .clamp(CHUNK_BYTES, self.limit_bytes.saturating_add(CHUNK_BYTES))
                .max(self.end + CHUNK_BYTES);
            self.buffer.resize(bytes, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.at_end = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(WindowError::Io(error)),
            }
        }
    }

    /// The error for kept bytes that fill the limit.
    pub(crate) fn full(&self) -> WindowError {
        WindowError::Full { line: self.line }
    }

    /// The byte at this position, from the input if need be; `None` at the end.
    pub(crate) fn byte(&mut self, at: usize) -> Result<Option<u8>, WindowError> {
        while self.end - self.start <= at {
            if !self.fill()? {
                return Ok(None);
            }
        }
        Ok(Some(self.buffer[self.start + at]))
    }

    /// Shows at least this many bytes, or all remaining ones.
    pub(crate) fn at_least(&mut self, count: usize) -> Result<&[u8], WindowError> {
        while self.end - self.start < count {
            if !self.fill()? {
                break;
            }
        }
        Ok(self.bytes())
    }

    /// The end of the line that begins at `at`, including its line break.
    pub(crate) fn line_end(&mut self, at: usize) -> Result<usize, WindowError> {
        let mut from = at;
        loop {
            let bytes = self.bytes();
            let rest = bytes.get(from..).unwrap_or_default();
            if let Some(found) = memchr::memchr(b'\n', rest) {
                return Ok(from + found + 1);
            }
            from = bytes.len();
            if !self.fill()? {
                return Ok(from);
            }
        }
    }

    /// Discards the first `count` bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        let gone = &self.buffer[self.start..self.start + count];
        match memchr::memrchr(b'\n', gone) {
            None => self.column += count as u64,
            Some(last) => {
                self.line += newlines(&gone[..=last]);
                self.column = (count - last - 1) as u64;
            }
        }
        self.start += count;
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
