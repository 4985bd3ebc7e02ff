//! Reports how much was read.

use std::{
    io::{self, Read},
    sync::{Arc, Mutex, PoisonError},
};

/// Number of bytes between two reports.
const STEP_BYTES: u64 = 1 << 20;

/// Counts the bytes that all its clones read, and reports them.
#[derive(Clone, derive_more::Debug)]
#[debug("Progress {{ .. }}")]
pub(crate) struct Progress(Arc<Mutex<Count>>);

struct Count {
    bytes: u64,
    next: u64,
    report: Box<dyn FnMut(u64) + Send>,
}

impl Progress {
    pub(crate) fn new(report: impl FnMut(u64) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Count {
            bytes: 0,
            next: STEP_BYTES,
            report: Box::new(report),
        })))
    }

    fn add(&self, read: usize) {
        // A report that panicked left the numbers as they were before it.
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.bytes += read as u64;
        if count.bytes >= count.next {
            count.next = count.bytes + STEP_BYTES;
            let bytes = count.bytes;
            (count.report)(bytes);
        }
    }
}

/// An input whose bytes are counted if there are reports.
pub(crate) struct Counted<'a> {
    pub(crate) input: &'a mut dyn Read,
    pub(crate) progress: Option<Progress>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        if let Some(progress) = &self.progress {
            progress.add(read);
        }
        Ok(read)
    }
}
