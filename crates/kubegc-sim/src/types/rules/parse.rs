//! Reads tables of rules.

use std::{cmp::Ordering, iter::Peekable, sync::OnceLock};

use kubegc_core::Quantity;

use super::{
    Code, Row, Step, Table, Word,
    conditions::{is_given, parse_condition, place_of},
};
use crate::formats;

/// The function of a name.
type Functions = fn(&str) -> Option<Word>;

/// The format of a name.
fn format(name: &str) -> Option<Code> {
    Some(match name {
        "label" => |at, c| at.label(c),
        "subdomain" => |at, c| at.subdomain(c),
        "lower-case-subdomain" => |at, c| {
            at.problems(c, formats::subdomain(c.version, &at.text().to_lowercase()));
        },
        "qualified-name" => |at, c| at.qualified_name(c),
        "annotation-key" => |at, c| {
            let key = at.text().to_lowercase();
            at.problems(c, formats::qualified_name(c.version, &key));
        },
        "label-value" => |at, c| at.problems(c, formats::label_value(c.version, at.text())),
        "whole-label-value" => |at, c| {
            let problems = formats::label_value(c.version, at.text());
            if !problems.is_empty() {
                at.invalid(c, &problems.join(";"));
            }
        },
        "path-segment" => |at, c| at.problems(c, formats::path_segment(at.text())),
        "dns-1035-label" => |at, c| at.problems_of(c, at.text(), formats::dns_1035_label(at.text())),
        "ip" => |at, c| at.problems_of(c, at.text(), formats::ip(c.version, at.text())),
        "id" => |at, c| at.problems(c, formats::in_range(at.number(), 0, i32::MAX.into())),
        "cidr" => |at, c| at.problems(c, formats::cidr(at.text())),
        "legacy-cidr" => |at, c| at.problems(c, formats::legacy_cidr(c.version, at.text())),
        "port" => |at, c| {
            for problem in formats::port_number(at.number()) {
                at.invalid_as(c, &at.number().to_string(), &problem);
            }
        },
        "kind-name" => |at, c| at.problems(c, formats::kind_name(at.text())),
        "config-key" => |at, c| at.problems(c, formats::config_key(at.text())),
        "quantity" => |at, c| {
            if Quantity::parse(at.text()).is_some_and(Quantity::is_negative) {
                at.invalid(c, "must be greater than or equal to 0");
            }
        },
        _ => return None,
    })
}

/// The condition of a name.
fn condition_on_value(name: &str) -> Option<Word> {
    Some(Word::When(match name {
        "create" => |_, c| c.is_new(),
        "update" => |_, c| !c.is_new(),
        "changed" => |at, c| at.value != at.old(c),
        "set" => |at, _| at.is_set(),
        // An empty list was.
        "sent" => |at, c| !at.decoded(c).is_null(),
        "given" => |at, _| is_given(at.value),
        _ => return None,
    }))
}

/// The problem of a name.
fn report(name: &str) -> Option<Word> {
    Some(Word::Report(match name {
        "invalid" => |at, c, shown, message| at.invalid_as(c, shown, message),
        "forbidden" => |at, c, _, message| at.forbidden(c, message),
        "duplicate" => |at, c, shown, message| match message {
            "" => at.duplicate_as(c, shown),
            message => at.duplicate_as(c, &format!("{shown}: {message}")),
        },
        "not-found" => |at, c, _, message| at.not_found(c, message),
        "missing" => |at, c, _, message| at.required(c, message),
        _ => return None,
    }))
}

impl Table {
    /// Reads a table, whose functions have these names.
    ///
    /// # Errors
    /// The line that cannot be read, or the section that a row names and the table does not have.
    pub(crate) fn parse(table: &'static str, functions: Functions) -> Result<Self, String> {
        let mut sections = Self::default();
        let mut lines = table
            .lines()
            .filter(|line| !line.trim_start().is_empty() && !line.trim_start().starts_with('#'))
            .peekable();
        while let Some(line) = lines.next() {
            let rows = rows(&mut lines, 2, functions)?;
            if rows.is_empty() || sections.0.insert(line, rows).is_some() {
                return Err(line.to_owned());
            }
        }
        let mut named = sections.0.values().flat_map(|rows| sections_of(rows));
        match named.find(|name| !sections.has(name)) {
            Some(unknown) => Err(unknown.to_owned()),
            None => Ok(sections),
        }
    }
}

/// The sections that rows name. Depth is bounded by the table.
fn sections_of(rows: &[Row]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for row in rows {
        names.extend(row.words.iter().filter_map(|word| match word {
            Word::Section(name) | Word::Apply(name) | Word::Passes(name) => Some(*name),
            _ => None,
        }));
        names.extend(sections_of(&row.rows));
    }
    names
}

/// Reads the rows of this indentation. Depth is bounded by the table.
fn rows(
    lines: &mut Peekable<impl Iterator<Item = &'static str>>,
    indent: usize,
    functions: Functions,
) -> Result<Vec<Row>, String> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut found: Vec<Row> = Vec::new();
    while let Some(line) = lines.next_if(|line| depth(line) == indent) {
        let (paths, first) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let paths = paths.split(',').map(parse_path).collect::<Option<_>>();
        let mut row = Row {
            paths: paths.ok_or(line)?,
            ..Row::default()
        };
        words(first, &mut row, functions).ok_or(line)?;
        while let Some(more) = lines.next_if(|line| line.trim_start().starts_with("| ")) {
            let more = more.trim_start().trim_start_matches("| ");
            match more.strip_prefix(": ") {
                Some(message) => message.clone_into(&mut row.message),
                None if row.message.is_empty() => words(more, &mut row, functions).ok_or(line)?,
                None => row.message = format!("{} {more}", row.message),
            }
        }
        row.message = row.message.replace("\\n", "\n");
        row.rows = rows(lines, indent + 2, functions)?;
        found.push(row);
    }
    Ok(found)
}

/// Reads the words of a line of a row, and the message after them.
fn words(text: &'static str, row: &mut Row, functions: Functions) -> Option<()> {
    let (text, message) = text.split_once(" : ").unwrap_or((text, ""));
    message.clone_into(&mut row.message);
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        match (word.strip_prefix('|'), row.words.last_mut()) {
            (Some(values), Some(Word::In(known))) => {
                known.extend(values.split('|').filter_map(parse_value));
                continue;
            }
            (Some(fields), Some(Word::Mutable(known))) => {
                known.extend(fields.split('|'));
                continue;
            }
            _ => {}
        }
        row.words.push(match word {
            "differs" => Word::Differs,
            "not-blank" => Word::NotBlank,
            "trimmed" => {
                let usual = "must not have leading or trailing whitespace";
                Word::Fits(|at| at.text().trim() == at.text(), usual)
            }
            "sorted" => Word::Fits(|at| at.items().map(|item| item.number()).is_sorted(), ""),
            // An asterisk is alone in its list.
            "wildcard" => Word::Fits(|at| at.len() < 2 || !at.texts().contains(&"*"), ""),
            "valid" | "failed" => Word::Valid(word == "valid"),
            "required" => Word::Required,
            "immutable" => Word::Immutable,
            "most" => Word::Bound(&[Ordering::Less, Ordering::Equal], place_of(words.next()?)),
            "least" => Word::Bound(&[Ordering::Greater, Ordering::Equal], place_of(words.next()?)),
            "above" => Word::Bound(&[Ordering::Greater], place_of(words.next()?)),
            "like" | "unlike" => Word::Like(word == "like", words.next()?, OnceLock::new()),
            "unique" => Word::Unique(Vec::new()),
            "in" => Word::In(words.next()?.split('|').map(parse_value).collect::<Option<_>>()?),
            "bytes" => Word::MaxBytes(words.next()?.strip_prefix("..")?.parse().ok()?),
            "total" => Word::MaxTotal(words.next()?.strip_prefix("..")?.parse().ok()?),
            "too-long" => Word::TooLong(words.next()?.parse().ok()?),
            "items" => Word::MaxItems(words.next()?.strip_prefix("..")?.parse().ok()?),
            "sole" => Word::Sole(words.next()?),
            "none" => Word::None,
            "apply" => Word::Apply(words.next()?),
            "passes" => Word::Passes(words.next()?),
            "fn" => {
                let name = words.next()?;
                match (functions(name.trim_start_matches('!'))?, name.starts_with('!')) {
                    (Word::When(holds), true) => Word::Unless(holds),
                    (word, _) => word,
                }
            }
            "as" => {
                row.shown = words.next()?;
                continue;
            }
            _ if word.starts_with(['>', '<', '[']) => condition(word)?,
            _ if word.starts_with(char::is_uppercase) => Word::Section(word),
            _ => {
                let named = condition_on_value(word).or_else(|| report(word));
                let named = named.or_else(|| format(word).map(Word::Code));
                named.or_else(|| compound(word, functions))?
            }
        });
    }
    Some(())
}

/// A word of several parts.
fn compound(word: &'static str, functions: Functions) -> Option<Word> {
    if let Some((least, most)) = word.split_once("..") {
        let bound = |text: &str, open| match text {
            "" => Some(open),
            text => text.parse().ok(),
        };
        return Some(Word::Range(bound(least, i64::MIN)?, bound(most, i64::MAX)?));
    }
    let places = |fields: &'static str| fields.split('|').map(place_of).collect();
    let (name, value) = word.split_once(['=', ':'])?;
    Some(match name {
        "api" => Word::Api(true, value),
        "api!" => Word::Api(false, value),
        "unique" => Word::Unique(places(value)),
        "key" | "of-map" => {
            let code = match functions(value) {
                Some(Word::Code(code)) => code,
                _ => format(value)?,
            };
            Word::Key(name == "of-map", code)
        }
        "repeats" => Word::Repeats(places(value)),
        "mutable" => Word::Mutable(value.split('|').collect()),
        _ => return None,
    })
}

/// A condition about the release or other fields.
pub(in super::super) fn condition(word: &'static str) -> Option<Word> {
    if let Some(minor) = word.strip_prefix('>') {
        return minor.parse().ok().map(Word::Since);
    }
    if let Some(minor) = word.strip_prefix('<') {
        return minor.parse().ok().map(Word::Until);
    }
    let conditions = word.strip_prefix('[')?.strip_suffix(']')?.split(',');
    conditions
        .map(parse_condition)
        .collect::<Option<_>>()
        .map(Word::If)
}

/// A value, maybe with its first release.
fn parse_value(text: &str) -> Option<(String, u16)> {
    let (value, since) = text.split_once('>').unwrap_or((text, "0"));
    let value = if value == "\"\"" { "" } else { value };
    Some((value.replace('_', " "), since.parse().ok()?))
}

impl Step {
    fn renamed(name: &'static str, shown: &'static str) -> Self {
        match name {
            "" => Self::Named(shown),
            name => Self::Renamed(name, shown),
        }
    }
}

pub(in super::super) fn parse_path(text: &'static str) -> Option<(usize, Vec<Step>)> {
    let (mut steps, mut rest) = (Vec::new(), text.trim_start_matches('^'));
    let outer = text.len() - rest.len();
    rest = rest.strip_prefix('.').unwrap_or(rest);
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if let Some(after) = rest.strip_prefix("[]") {
            (rest, _) = (after, steps.push(Step::Items));
        } else if let Some(after) = rest.strip_prefix("[-]") {
            (rest, _) = (after, steps.push(Step::Unnumbered));
        } else if let Some(after) = rest.strip_prefix('{') {
            let (key, after) = after.split_once('}')?;
            steps.push(match key {
                "" => Step::Entries,
                "." => Step::Fields,
                key => Step::Key(key),
            });
            rest = after;
        } else if let Some((name, (shown, after))) = rest
            .split_once("@(")
            .and_then(|(name, rest)| Some((name, rest.split_once(')')?)))
            .filter(|(name, _)| !name.contains(['.', '[', '{']))
        {
            steps.push(Step::renamed(name, shown));
            rest = after;
        } else {
            // Names in errors contain brackets with a text: `a@a[0]`.
            let mut ends = rest.match_indices(['.', '[', '{']).map(|(end, _)| end);
            let is_step =
                |rest: &str| !rest.starts_with('[') || rest.starts_with("[]") || rest.starts_with("[-]");
            let end = ends.find(|end| is_step(&rest[*end..]));
            let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
            steps.push(match name.split_once('@') {
                Some((name, shown)) => Step::renamed(name, shown),
                None if name.is_empty() => return None,
                None => Step::Field(name),
            });
            rest = after;
        }
    }
    Some((outer, steps))
}
