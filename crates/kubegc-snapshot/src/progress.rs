//! Reports how much was read.

use std::{
    fmt,
    io::{self, Read},
};

/// Number of bytes between two reports.
const STEP_BYTES: u64 = 1 << 20;

/// Counts bytes and reports them.
pub(crate) struct Progress {
    bytes: u64,
    next: u64,
    report: Box<dyn FnMut(u64) + Send + Sync>,
}

impl Progress {
    pub(crate) fn new(report: impl FnMut(u64) + Send + Sync + 'static) -> Self {
        Self {
            bytes: 0,
            next: STEP_BYTES,
            report: Box::new(report),
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// An input whose bytes are counted.
pub(crate) struct Counted<'a> {
    pub(crate) input: &'a mut dyn Read,
    pub(crate) progress: &'a mut Progress,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        let progress = &mut *self.progress;
        progress.bytes += read as u64;
        if progress.bytes >= progress.next {
            progress.next = progress.bytes + STEP_BYTES;
            (progress.report)(progress.bytes);
        }
        Ok(read)
    }
}
