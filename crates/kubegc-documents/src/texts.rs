//! Keeps each value once, and gives it a number: a million objects repeat a few thousand texts and sets of
//! labels.

use std::{borrow::Borrow, hash::Hash, ops::Index, sync::Arc};

use foldhash::fast::FixedState;
use indexmap::IndexSet;

/// Number of a text in its [`Texts`].
pub type TextId = u32;

pub type Texts = Numbered<Arc<str>>;

/// Values that are kept once each, in the order in which they were added.
#[derive(Debug)]
pub struct Numbered<T>(IndexSet<T, FixedState>);

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self(IndexSet::default())
    }
}

impl<T: Eq + Hash> Numbered<T> {
    /// The number of a value, a new one if it was not seen before.
    pub fn number<Q: Eq + Hash + ?Sized>(&mut self, value: &Q) -> u32
    where
        T: Borrow<Q> + for<'q> From<&'q Q>,
    {
        match self.0.get_index_of(value) {
            Some(at) => number(at),
            None => self.add(value.into()),
        }
    }

    /// The number of a value.
    pub(crate) fn add(&mut self, value: T) -> u32 {
        number(self.0.insert_full(value).0)
    }

    pub fn get(&self, id: u32) -> Option<&T> {
        self.0.get_index(id as usize)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes all values but the first ones.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Adds the values of another set; returns their numbers here. `translate` makes them values of this set.
    pub(crate) fn append(&mut self, other: Self, translate: impl Fn(T) -> T) -> Vec<u32> {
        let values = other.0.into_iter();
        values.map(|value| self.add(translate(value))).collect()
    }
}

impl<T> Index<u32> for Numbered<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        &self.0[id as usize]
    }
}

impl Texts {
    pub fn share(&mut self, text: &str) -> Arc<str> {
        let id = self.number(text);
        Arc::clone(self.text(id))
    }

    pub fn text(&self, id: TextId) -> &Arc<str> {
        &self[id]
    }
}

fn number(at: usize) -> u32 {
    // Four billion different values do not fit in memory.
    u32::try_from(at).expect("fewer values than u32::MAX")
}
