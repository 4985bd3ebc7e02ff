//! Words of the lines in transcripts.

use std::str::FromStr;

/// The words of a line. Options have the form `key=value`.
pub(crate) struct Words<'a>(pub(crate) Vec<&'a str>);

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        Self(line.split(' ').collect())
    }

    pub(crate) fn text(&self, at: usize) -> &'a str {
        match self.0[at] {
            "-" => "",
            word => word,
        }
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    pub(crate) fn option(&self, key: &str) -> Option<&'a str> {
        let mut words = self.0.iter();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    pub(crate) fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.option(key).map(|text| text.parse().ok().expect("a number"))
    }

    pub(crate) fn number_at<T: FromStr>(&self, at: usize) -> T {
        self.0[at].parse().ok().expect("a number")
    }
}
