//! Times, lengths of time, numbers of things and names as people write and read them, in lines of 120
//! columns.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap, fmt, time::Duration};

use kubegc_core::{ObjectRef, Timestamp, identity::kubectl_name, printable, record::ObjectId};
use serde::Serializer;

/// The name of the variant of a value, which is one of these.
macro_rules! variant_name {
    ($value:expr, $($variant:ident)+) => {
        match $value {
            $(Self::$variant { .. } => stringify!($variant),)+
        }
    };
}
pub(crate) use variant_name;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A length of time in its two largest units, cut: `2h 10m`. Hours up to two days.
pub(crate) fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    let (large, unit, small, small_unit) = match seconds {
        0..MINUTE => return format!("{seconds}s"),
        MINUTE..HOUR => (seconds / MINUTE, "m", seconds % MINUTE, "s"),
        HOUR..172_800 => (seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        _ => (seconds / DAY, "d", seconds % DAY / HOUR, "h"),
    };
    match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit} {small}{small_unit}"),
    }
}

/// So long after the beginning: `+2h 10m`, or `now`.
pub(crate) fn later(length: Duration) -> String {
    match length.as_secs() {
        0 => "now".to_owned(),
        _ => format!("+{}", span(length)),
    }
}

/// The time of day in UTC: `10:30:00`.
pub(crate) fn time_of_day(at: Timestamp) -> String {
    let seconds = at.as_secs().rem_euclid(86_400);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

/// Day and time in UTC: `2026-10-20 10:30:00`.
pub(crate) fn moment(at: Timestamp) -> String {
    format!("{} {}", at.utc_date(), time_of_day(at))
}

/// The day in UTC: `Tuesday, 2026-10-20`.
pub(crate) fn day(at: Timestamp) -> String {
    let date = at.utc_date();
    format!("{}, {date}", date.weekday())
}

/// Number of objects of a kind: `1 Pod`, `3 NetworkPolicies`.
pub(crate) fn number(count: usize, kind: &str) -> String {
    if count == 1 {
        return format!("1 {kind}");
    }
    let before_y = kind.strip_suffix('y');
    match before_y.filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u'])) {
        Some(stem) => format!("{count} {stem}ies"),
        None if ["ss", "x", "ch"].iter().any(|end| kind.ends_with(end)) => format!("{count} {kind}es"),
        None if kind.ends_with('s') => format!("{count} {kind}"),
        None => format!("{count} {kind}s"),
    }
}

/// The numbers of equal names, most frequent first.
pub(crate) fn frequencies<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(name, count)| (Reverse(count), name));
    counts
}

/// The first of some names, and the number of further ones. Without any, the number of all.
pub(crate) fn some_of(mut names: Vec<String>, names_max: usize) -> Vec<String> {
    let more = names.len().saturating_sub(names_max);
    names.truncate(names_max);
    match (more, names.last_mut()) {
        (0, _) => {}
        (more, None) => names.push(format!("{more} not named")),
        (more, Some(last)) => last.push_str(&format!(" and {more} more")),
    }
    names
}

/// The name of an object, which is unique in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> From<&'a ObjectRef> for Name<'a> {
    fn from(object: &'a ObjectRef) -> Self {
        Self {
            group: object.group(),
            kind: &object.kind,
            namespace: &object.namespace,
            name: &object.name,
        }
    }
}

impl<'a> From<&'a ObjectId> for Name<'a> {
    fn from(object: &'a ObjectId) -> Self {
        Self {
            group: object.resource.group(),
            kind: object.resource.kind(),
            namespace: &object.namespace,
            name: &object.name,
        }
    }
}

impl Name<'_> {
    /// `pod/web -n shop`.
    pub(crate) fn full(&self) -> String {
        kubectl_name(self.group, self.kind, self.namespace, self.name)
    }

    /// `shop/web`.
    pub(crate) fn with_namespace(&self) -> String {
        match self.namespace {
            "" => self.name.to_owned(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

/// Objects of one kind: `pod/web -n shop`, `2 pods -n shop (a, b)`, or with several namespaces `2 pods
/// (shop/a, test/b)`.
pub(crate) fn names_of_kind(names: &[Name<'_>], names_max: usize) -> String {
    match names {
        [] => String::new(),
        [name] => name.full(),
        [first, others @ ..] => {
            let count = number(names.len(), &first.kind.to_lowercase());
            let namespace = first.namespace;
            let is_one = !namespace.is_empty() && others.iter().all(|other| other.namespace == namespace);
            let texts = names.iter().map(|name| match is_one {
                true => name.name.to_owned(),
                false => name.with_namespace(),
            });
            let texts = some_of(texts.collect(), names_max).join(", ");
            match is_one {
                true => format!("{count} -n {namespace} ({texts})"),
                false => format!("{count} ({texts})"),
            }
        }
    }
}

/// Number of objects by kind, most frequent first: `3 pods`.
pub(crate) fn counted<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let counts = frequencies(kinds).into_iter();
    counts
        .map(|(kind, count)| number(count, &kind.to_lowercase()))
        .collect()
}

/// A word of a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'/' | b':');
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

pub(crate) fn shown<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(crate) fn each_shown<S: Serializer>(
    values: &[impl fmt::Display],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}

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
    fn lengths_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (680, "11m 20s"),
            (3_600, "1h"),
            (7_800, "2h 10m"),
            (172_799, "47h 59m"),
            (172_800, "2d"),
            (180_000, "2d 2h"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn times_leave_out_a_day_that_is_known() {
        let at = Timestamp::from_secs(1_792_492_200);
        assert_eq!(day(at), "Tuesday, 2026-10-20");
        assert_eq!(time_of_day(Timestamp::from_secs(-1)), "23:59:59");
        assert_eq!(day(Timestamp::from_secs(-1)), "Wednesday, 1969-12-31");
    }

    #[test]
    fn kinds_have_plurals() {
        let kinds = ["Pod", "NetworkPolicy", "Gateway", "Ingress", "Endpoints"];
        let several = [
            "2 Pods",
            "2 NetworkPolicies",
            "2 Gateways",
            "2 Ingresses",
            "2 Endpoints",
        ];
        assert_eq!(kinds.map(|kind| number(2, kind)), several);
        assert_eq!([0, 1].map(|count| number(count, "Pod")), ["0 Pods", "1 Pod"]);
    }

    #[test]
    fn names_are_cut_with_a_count() {
        let names = || vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        assert_eq!(some_of(names(), 3), ["a", "b", "c"]);
        assert_eq!(some_of(names(), 2), ["a", "b and 1 more"]);
        assert_eq!(some_of(names(), 0), ["3 not named"]);
    }

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
