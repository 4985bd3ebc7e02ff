//! Untrusted text for terminals.

use std::borrow::Cow;

/// The text with escapes for control characters, line separators and characters that change the writing
/// direction.
///
/// Names in a dump are arbitrary; a terminal must not interpret them.
///
/// # Examples
/// ```
/// use kubegc_core::printable;
/// assert_eq!(printable("shop/web"), "shop/web");
/// assert_eq!(printable("a\n\u{1b}[31m\u{202e}"), "a\\n\\u{1b}[31m\\u{202e}");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_unprintable(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown.into()
}

fn is_unprintable(letter: char) -> bool {
    let is_bidirectional = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || is_bidirectional || matches!(letter, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_and_terminal_controls_are_escaped() {
        for (text, shown) in [
            ("shop/web", "shop/web"),
            ("größe\\n", "größe\\n"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[31m\u{9b}0m\0", "\\u{1b}[31m\\u{9b}0m\\u{0}"),
            ("\u{202e}\u{2066}\u{200f}", "\\u{202e}\\u{2066}\\u{200f}"),
            ("\u{2028}\u{85}", "\\u{2028}\\u{85}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
