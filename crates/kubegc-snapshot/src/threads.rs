//! Distributes work over threads of the caller's choice.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Calls a function on several threads, and returns when all calls have returned.
type Run = dyn Fn(&(dyn Fn() + Sync)) + Send + Sync;

#[derive(derive_more::Debug)]
#[debug("Threads {{ .. }}")]
pub(crate) struct Threads(Box<Run>);

/// No thread in addition to the caller's.
impl Default for Threads {
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl Threads {
    pub(crate) fn new(run: impl Fn(&(dyn Fn() + Sync)) + Send + Sync + 'static) -> Self {
        Self(Box::new(run))
    }

    /// Maps the items in their order, each on one of the threads. After a result that `ends`, no further item
    /// is begun. Items that no thread took have no result.
    pub(crate) fn map<T: Sync, R: Send + Sync>(
        &self,
        items: &[T],
        map: impl Fn(&T) -> R + Sync,
        ends: impl Fn(&R) -> bool + Sync,
    ) -> Vec<Option<R>> {
        let results: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
        let (next, is_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        (self.0)(&|| {
            while !is_ended.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let (Some(item), Some(slot)) = (items.get(at), results.get(at)) else {
                    break;
                };
                let result = slot.get_or_init(|| map(item));
                if ends(result) {
                    is_ended.store(true, Ordering::Relaxed);
                }
            }
        });
        results.into_iter().map(OnceLock::into_inner).collect()
    }
}
