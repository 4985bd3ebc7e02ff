//! Texts in lines of 120 columns.

use std::{borrow::Cow, fmt};

use kubegc_core::printable;

/// Maximum width of a line.
const COLUMNS: usize = 120;
/// The longest word, in characters: names of objects have 253 at most.
const WORD_LENGTH_MAX: usize = 512;
/// Maximum length of an item that is not broken.
const WHOLE_MAX: usize = 60;

/// The lines of a text. All text of a dump is added by [`line`](Self::line) or [`items`](Self::items), which
/// make it [`printable`] and cut long words.
#[derive(Default)]
pub(crate) struct Lines(pub(crate) String);

impl Lines {
    /// Adds a line as it is.
    pub(crate) fn plain(&mut self, line: impl fmt::Display) {
        self.0.push_str(&format!("{line}\n"));
    }

    /// Adds a text, in several lines if it is long.
    pub(crate) fn line(&mut self, mark: &str, text: &str) {
        self.plain(wrapped(mark, &line_text(text)));
    }

    /// Adds texts that are no names of a dump, each in several lines if it is long.
    pub(crate) fn each<T: fmt::Display>(&mut self, mark: &str, texts: impl IntoIterator<Item = T>) {
        for text in texts {
            self.plain(wrapped(mark, &text.to_string()));
        }
    }

    /// Adds a comma-separated list. Lines are broken between items, unless an item is long.
    pub(crate) fn items(&mut self, mark: &str, before: &str, items: &[String]) {
        let items = items.iter().map(|item| match item.len() {
            0..WHOLE_MAX => item.replace(' ', "\u{a0}"),
            _ => item.clone(),
        });
        let text = format!("{before}{}", items.collect::<Vec<_>>().join(", "));
        self.plain(wrapped(mark, &line_text(&text)).replace('\u{a0}', " "));
    }
}

/// A text of untrusted names for a terminal: [`printable`], and long words are cut.
pub(crate) fn line_text(text: &str) -> String {
    let text = printable(text);
    let words = text
        .split(' ')
        .map(|word| match word.char_indices().nth(WORD_LENGTH_MAX) {
            None => Cow::Borrowed(word),
            Some((end, _)) => {
                let more = word[end..].chars().count();
                Cow::Owned(format!("{}...({more} more characters)", &word[..end]))
            }
        });
    words.collect::<Vec<_>>().join(" ")
}

/// A text after some mark, broken between words so that it fits; the further lines are indented as
/// the mark is long. A word longer than a line stays whole.
pub(crate) fn wrapped(mark: &str, text: &str) -> String {
    let indent = mark.chars().count();
    let mut lines = mark.to_owned();
    let mut column = indent;
    for (at, word) in text.split(' ').enumerate() {
        let width = word.chars().count();
        if at > 0 && column + 1 + width > COLUMNS {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if at > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_between_words_and_long_words_are_cut() {
        let text = ["word"; 60].join(" ");
        let lines = wrapped("  - ", &text);
        assert!(lines.lines().all(|line| line.chars().count() <= COLUMNS));
        let back: Vec<&str> = lines.split_whitespace().skip(1).collect();
        assert_eq!(back.join(" "), text);
        assert_eq!(wrapped("  - ", "short"), "  - short");
        let text = format!("{} b", "a".repeat(600));
        let cut = format!("{}...(88 more characters) b", "a".repeat(512));
        assert_eq!(line_text(&text), cut);
        assert_eq!(line_text("a\nb"), "a\\nb");
    }
}
