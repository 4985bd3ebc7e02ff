//! Keeps each text once, and each set of labels once: a million objects repeat a few thousand of them.

use std::{hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Number of a text in its [`Texts`].
pub type TextId = u32;

#[derive(Debug, Default)]
pub struct Texts {
    texts: Vec<Arc<str>>,
    numbers: HashTable<u32>,
}

impl Texts {
    /// The number of a text, a new one if it was not seen before.
    pub fn number(&mut self, text: &str) -> TextId {
        self.number_or(text, || text.into())
    }

    /// Adds the texts of another set; returns their numbers here.
    pub fn append(&mut self, other: Self) -> Vec<TextId> {
        let texts = other.texts.into_iter();
        texts
            .map(|text| self.number_or(&text, || Arc::clone(&text)))
            .collect()
    }

    fn number_or(&mut self, text: &str, share: impl FnOnce() -> Arc<str>) -> TextId {
        let hash = hash(text);
        if let Some(&found) = self.numbers.find(hash, |&id| *self.texts[id as usize] == *text) {
            return found;
        }
        // Four billion different texts do not fit in memory.
        let id = u32::try_from(self.texts.len()).expect("fewer texts than u32::MAX");
        self.texts.push(share());
        let texts = &self.texts;
        self.numbers
            .insert_unique(hash, id, |&id| self::hash(&texts[id as usize]));
        id
    }

    pub fn share(&mut self, text: &str) -> Arc<str> {
        let id = self.number(text);
        Arc::clone(&self.texts[id as usize])
    }

    pub fn text(&self, id: TextId) -> &Arc<str> {
        &self.texts[id as usize]
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Frees the memory that only adding texts needs.
    pub fn seal(&mut self) {
        self.numbers = HashTable::new();
        self.texts.shrink_to_fit();
    }
}

/// Sequences of numbers, each kept once: label sets as pairs, finalizers as they are.
#[derive(Debug)]
pub struct Sequences<T> {
    items: Vec<T>,
    /// End of each sequence in `items`; sequence 0 is the empty one.
    ends: Vec<u32>,
    numbers: HashTable<u32>,
}

impl<T> Default for Sequences<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            ends: vec![0],
            numbers: HashTable::new(),
        }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Sequences<T> {
    /// The number of a sequence; 0 for the empty one.
    pub fn number(&mut self, sequence: &[T]) -> u32 {
        if sequence.is_empty() {
            return 0;
        }
        let hash = hash(sequence);
        if let Some(&found) = self.numbers.find(hash, |&id| self.sequence(id) == sequence) {
            return found;
        }
        let id = u32::try_from(self.ends.len()).expect("fewer sequences than u32::MAX, for memory's sake");
        self.items.extend_from_slice(sequence);
        self.ends
            .push(u32::try_from(self.items.len()).expect("fewer entries than u32::MAX, for memory's sake"));
        let (items, ends) = (&self.items, &self.ends);
        self.numbers
            .insert_unique(hash, id, |&id| self::hash(slice(items, ends, id)));
        id
    }

    /// Adds the sequences of another set; returns their numbers here. `translate` gives a sequence the
    /// numbers that are used here.
    pub fn append(&mut self, other: &Self, translate: impl Fn(&mut [T])) -> Vec<u32> {
        let mut sequence = Vec::new();
        let numbers = (0..other.ends.len() as u32).map(|id| {
            sequence.clear();
            sequence.extend_from_slice(other.sequence(id));
            translate(&mut sequence);
            self.number(&sequence)
        });
        numbers.collect()
    }

    pub fn sequence(&self, id: u32) -> &[T] {
        slice(&self.items, &self.ends, id)
    }

    /// The number of sequences, including the empty one.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Frees the memory that only adding sequences needs.
    pub fn seal(&mut self) {
        self.numbers = HashTable::new();
        self.items.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

fn slice<'a, T>(items: &'a [T], ends: &[u32], id: u32) -> &'a [T] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] as usize };
    &items[start..ends[id] as usize]
}

fn hash<T: std::hash::Hash + ?Sized>(value: &T) -> u64 {
    FixedState::default().hash_one(value)
}
