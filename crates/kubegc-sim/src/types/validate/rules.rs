//! The rules of fields, read from `rules.txt`, which describes their language, and applied to objects.

use std::{collections::BTreeSet, iter::Peekable, sync::LazyLock};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::Quantity;
use serde_json::Value;

use super::{
    super::field::{At, Check},
    code, go_syntax,
};
use crate::{formats, status::quoted};

const TABLE: &str = include_str!("rules.txt");

/// The sections of the table by name. A bad row fails the tests of this module.
static SECTIONS: LazyLock<Sections> = LazyLock::new(|| parse(TABLE).unwrap_or_default());

type Sections = HashMap<&'static str, Section, FixedState>;

/// The rows of a section, and when an update is validated by it.
#[derive(Debug)]
struct Section {
    rows: Vec<Row>,
    /// Whether the rows for changes precede those of the whole object.
    are_changes_first: bool,
    /// The last release that reports every problem of an update twice, as strategies and the validation of
    /// updates both validate the whole object.
    twice_until: u16,
}

/// A rule that is a function.
pub(super) type Code = for<'a, 'v> fn(&At<'a>, &mut Check<'v>);

/// The rules of the values at some paths, and rows for what they contain.
#[derive(Debug, Default)]
struct Row {
    /// Paths, and how many blocks further out they begin.
    paths: Vec<(usize, Vec<Step>)>,
    words: Vec<Word>,
    message: String,
    /// The Go type or the text with which an invalid value is shown.
    shown: &'static str,
    rows: Vec<Self>,
}

#[derive(Debug)]
enum Step {
    Field(&'static str),
    /// A field, and its name in errors; without one, its errors are those of the value that has it.
    Renamed(&'static str, &'static str),
    Key(&'static str),
    Items,
    /// Items whose errors omit their position.
    Unnumbered,
    Entries,
}

#[derive(Debug)]
enum Word {
    Since(u16),
    Until(u16),
    /// One of these conditions holds.
    If(Vec<Condition>),
    Changed,
    NotBlank,
    Trimmed,
    /// An asterisk is alone in its list.
    Wildcard,
    /// The object is created, or updated.
    IsNew(bool),
    /// Whether the object was sent in this version.
    Api(bool, &'static str),
    Set,
    Given,
    /// The row has found no problem so far.
    Valid,
    Required,
    Format(fn(&At<'_>, &mut Check)),
    /// The supported values, with their first releases.
    In(Vec<(&'static str, u16)>),
    Range(i64, i64),
    MaxBytes(usize),
    MaxItems(usize),
    /// The number of the rule.
    Unique(usize),
    /// No other field with this rule is set; the name of the field in the error.
    Sole(&'static str),
    /// No field with the rule `Sole` is set.
    None,
    Immutable,
    Invalid,
    Forbidden,
    Missing,
    Section(&'static str),
    Code(Code),
}

#[derive(Debug)]
struct Condition {
    /// How many blocks further out the path begins.
    outer: usize,
    path: &'static str,
    test: Test,
    is_negated: bool,
}

#[derive(Debug)]
enum Test {
    Set,
    Given,
    In(Vec<&'static str>),
}

/// The values that the items of a list have had, by the number of the rule that forbids repetition.
type Seen = BTreeSet<(usize, String)>;

/// The number of the rule that only one of some fields is set.
const SOLE: usize = 0;

/// The value of a block of rows, within that of another block.
struct Block<'b, 'v> {
    at: &'b At<'v>,
    outer: Option<&'b Self>,
}

impl Block<'_, '_> {
    fn outwards(&self, count: usize) -> &Self {
        (0..count).fold(self, |block, _| block.outer.unwrap_or(block))
    }
}

/// Whether there are rules for a kind.
pub(super) fn have(kind: &str) -> bool {
    SECTIONS.contains_key(kind)
}

/// Applies a section, if there is one, to a value.
pub(super) fn apply(section: &str, at: &At<'_>, c: &mut Check) {
    if let Some(Section { rows, .. }) = SECTIONS.get(section) {
        run(rows, &Block { at, outer: None }, &mut Seen::new(), c);
    }
}

/// Applies the sections of a kind to an object that replaces another one.
pub(super) fn apply_to_update(kind: &str, at: &At<'_>, c: &mut Check) {
    let changes = format!("{kind}/update");
    if SECTIONS
        .get(kind)
        .is_some_and(|section| section.are_changes_first)
    {
        apply(&changes, at, c);
        apply_twice(kind, at, c);
    } else {
        apply_twice(kind, at, c);
        apply(&changes, at, c);
    }
}

/// Applies a section to an object that replaces another one, twice in some releases.
pub(super) fn apply_twice(section: &str, at: &At<'_>, c: &mut Check) {
    apply(section, at, c);
    let twice_until = SECTIONS.get(section).map_or(0, |section| section.twice_until);
    if c.version.minor() <= twice_until {
        apply(section, at, c);
    }
}

/// Depth is bounded by the table.
fn run(rows: &[Row], block: &Block<'_, '_>, seen: &mut Seen, c: &mut Check) {
    for row in rows {
        for (outer, path) in &row.paths {
            let base = block.outwards(*outer).at.clone();
            each(path, base, seen, &mut |at, seen| row.check(block, &at, seen, c));
        }
    }
}

/// Visits the values at a path. Depth is bounded by the table.
fn each<'v>(path: &[Step], at: At<'v>, seen: &mut Seen, visit: &mut dyn FnMut(At<'v>, &mut Seen)) {
    let Some((step, rest)) = path.split_first() else {
        visit(at, seen);
        return;
    };
    let mut of_list = Seen::new();
    match step {
        Step::Field(name) => each(rest, at.get(name), seen, visit),
        Step::Renamed(name, "") => each(rest, at.get(name).placed(&at), seen, visit),
        Step::Renamed(name, shown) => each(rest, at.renamed(name, shown), seen, visit),
        Step::Key(key) => each(rest, at.key(key), seen, visit),
        Step::Items => {
            for item in at.items() {
                each(rest, item, &mut of_list, visit);
            }
        }
        Step::Unnumbered => {
            for item in at.items() {
                each(rest, item.placed(&at), &mut of_list, visit);
            }
        }
        Step::Entries => {
            for (_, entry) in at.entries() {
                each(rest, entry, &mut of_list, visit);
            }
        }
    }
}

fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

impl Condition {
    fn holds(&self, block: &Block<'_, '_>) -> bool {
        let at = block.outwards(self.outer).at.clone();
        let at = self.path.split('.').fold(at, |at, name| match name.parse() {
            Ok(index) => at.items().nth(index).unwrap_or_else(|| at.get(name)),
            Err(_) => at.get(name),
        });
        let holds = match &self.test {
            Test::Set => at.is_set(),
            Test::Given => is_given(at.value),
            Test::In(texts) => match at.value {
                Value::Null => texts.contains(&""),
                Value::String(text) => texts.contains(&text.as_str()),
                other => texts.contains(&other.to_string().as_str()),
            },
        };
        holds != self.is_negated
    }
}

impl Row {
    /// Checks a value word by word, until a condition does not hold, and then what it contains.
    fn check(&self, outer: &Block<'_, '_>, at: &At<'_>, seen: &mut Seen, c: &mut Check) {
        let before = c.causes.len();
        let block = Block {
            at,
            outer: Some(outer),
        };
        let is_done = |word| !self.allows(word, &block, before, seen, c);
        if !self.words.iter().any(is_done) {
            run(&self.rows, &block, seen, c);
        }
    }

    /// The message of the row, or the usual one of its rule.
    fn or<'m>(&'m self, usual: &'m str) -> &'m str {
        match self.message.as_str() {
            "" => usual,
            message => message,
        }
    }

    /// The value, as its errors show it.
    fn shown(&self, at: &At<'_>, c: &Check) -> String {
        match self.shown {
            "" => at.shown_in(c.version),
            "number" => at.number().to_string(),
            "text" => quoted(at.text()),
            "null" => "null".to_owned(),
            "nothing" => String::new(),
            text if text.starts_with('"') => text.to_owned(),
            ty => match ty.strip_prefix('~') {
                Some(ty) => go_syntax::value(c.version, at.decoded(c), ty),
                None => go_syntax::value(c.version, at.value, ty),
            },
        }
    }

    /// Checks a value by one word; whether the following words apply.
    fn allows(
        &self,
        word: &Word,
        block: &Block<'_, '_>,
        before: usize,
        seen: &mut Seen,
        c: &mut Check,
    ) -> bool {
        let at = block.at;
        match word {
            Word::Since(minor) => return c.since(*minor),
            Word::Until(minor) => return !c.since(*minor + 1),
            Word::If(conditions) => {
                let outer = block.outer.unwrap_or(block);
                return conditions.iter().any(|condition| condition.holds(outer));
            }
            Word::Changed => return at.value != at.old(c),
            Word::NotBlank => {
                if at.text().trim().is_empty() {
                    at.required(c, &self.message);
                }
            }
            Word::Trimmed => {
                if at.text().trim() != at.text() {
                    at.invalid(c, self.or("must not have leading or trailing whitespace"));
                }
            }
            Word::Wildcard => {
                if at.len() > 1 && at.items().any(|item| item.text() == "*") {
                    at.invalid_as(c, &self.shown(at, c), &self.message);
                }
            }
            Word::IsNew(is_new) => return c.is_new() == *is_new,
            Word::Api(is, version) => {
                let is_this = match version.split_once('/') {
                    Some((group, version)) => c.group == group && c.api == version,
                    None => c.api == *version,
                };
                return is_this == *is;
            }
            Word::Set => return at.is_set(),
            Word::Given => return is_given(at.value),
            Word::Valid => return c.causes.len() == before,
            Word::Required => {
                let is_missing = match at.value {
                    Value::Null => true,
                    Value::String(text) => text.is_empty(),
                    Value::Array(items) => items.is_empty(),
                    _ => false,
                };
                if is_missing {
                    at.required(c, &self.message);
                }
                return !is_missing;
            }
            Word::Format(format) => format(at, c),
            Word::In(values) => {
                let minor = c.version.minor();
                let values = values.iter().filter(|(_, since)| *since <= minor);
                let values: Vec<&str> = values.map(|(value, _)| *value).collect();
                if !values.contains(&at.text()) {
                    at.unsupported_as(c, &self.shown(at, c), &values);
                }
            }
            Word::Range(least, most) => {
                if !(*least..=*most).contains(&at.number()) {
                    let usual = format!("must be greater than or equal to {least}");
                    at.invalid_as(c, &self.shown(at, c), self.or(&usual));
                }
            }
            Word::MaxBytes(max) => {
                if at.text().len() > *max {
                    match self.message.is_empty() {
                        true => at.too_long(c, *max),
                        false => at.invalid_as(c, &self.shown(at, c), &self.message),
                    }
                }
            }
            Word::MaxItems(max) => {
                if at.len() > *max {
                    at.too_many(c, at.len(), *max);
                }
            }
            Word::Unique(rule) => {
                let value = match at.value {
                    Value::String(text) => text.clone(),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                if !seen.insert((*rule, value)) {
                    at.duplicate_as(c, &self.shown(at, c));
                }
            }
            Word::Sole(name) => {
                let outer = block.outer.unwrap_or(block);
                let is_first = seen.insert((SOLE, outer.at.path.to_string()));
                if !is_first && *name != "-" {
                    let problem = format!("may not specify more than 1 {} type", self.or("volume"));
                    outer.at.get(name).forbidden(c, &problem);
                    return false;
                }
            }
            Word::None => return !seen.contains(&(SOLE, at.path.to_string())),
            Word::Immutable => at.immutable(c, at.old(c), self.shown),
            Word::Invalid => at.invalid_as(c, &self.shown(at, c), &self.message),
            Word::Forbidden => at.forbidden(c, &self.message),
            Word::Missing => at.required(c, &self.message),
            Word::Section(name) => {
                if let Some(section) = SECTIONS.get(name) {
                    run(&section.rows, block, seen, c);
                }
            }
            Word::Code(code) => code(at, c),
        }
        true
    }
}

/// The format of a name.
fn format(name: &str) -> Option<fn(&At<'_>, &mut Check)> {
    Some(match name {
        "label" => |at, c| at.label(c),
        "subdomain" => |at, c| at.subdomain(c),
        "qualified-name" => |at, c| at.qualified_name(c),
        "label-value" => |at, c| at.problems(c, formats::label_value(c.version, at.text())),
        "path-segment" => |at, c| at.problems(c, formats::path_segment(at.text())),
        "dns-1035-label" => |at, c| at.problems_of(c, at.text(), formats::dns_1035_label(at.text())),
        "ip" => |at, c| at.problems_of(c, at.text(), formats::ip(c.version, at.text())),
        "id" => |at, c| at.problems(c, formats::in_range(at.number(), 0, i32::MAX.into())),
        "port" => |at, c| {
            for problem in formats::port_number(at.number()) {
                at.invalid_as(c, &at.number().to_string(), &problem);
            }
        },
        "port-name" => |at, c| at.problems(c, formats::port_name(c.version, at.text())),
        "variable-name" => |at, c| at.problems(c, formats::variable_name(c.version, at.text())),
        "config-key" => |at, c| at.problems(c, formats::config_key(at.text())),
        "quantity" => |at, c| {
            if Quantity::parse(at.text()).is_some_and(Quantity::is_negative) {
                at.invalid(c, "must be greater than or equal to 0");
            }
        },
        "no-ip" => |at, c| {
            if formats::parse_ip(at.text()).is_some() {
                at.invalid(c, "must be a DNS name, not an IP address");
            }
        },
        _ => return None,
    })
}

fn parse(table: &'static str) -> Result<Sections, String> {
    let mut sections = Sections::default();
    let mut lines = table
        .lines()
        .filter(|line| !line.trim_start().is_empty() && !line.starts_with('#'))
        .peekable();
    let mut unique = 0;
    while let Some(line) = lines.next() {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let mut section = Section {
            rows: parse_rows(&mut lines, 2, &mut unique)?,
            are_changes_first: false,
            twice_until: 0,
        };
        for word in words {
            match word.strip_prefix("twice<") {
                Some(minor) => section.twice_until = minor.parse().map_err(|_| line)?,
                None if word == "changes-first" => section.are_changes_first = true,
                None => return Err(line.to_owned()),
            }
        }
        if section.rows.is_empty() || sections.insert(name, section).is_some() {
            return Err(line.to_owned());
        }
    }
    Ok(sections)
}

/// Reads the rows of this indentation. Depth is bounded by the table.
fn parse_rows(
    lines: &mut Peekable<impl Iterator<Item = &'static str>>,
    indent: usize,
    unique: &mut usize,
) -> Result<Vec<Row>, String> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut rows: Vec<Row> = Vec::new();
    while let Some(line) = lines.next_if(|line| depth(line) == indent) {
        let mut row = parse_row(line.trim(), unique).ok_or(line)?;
        while let Some(more) = lines.next_if(|line| line.trim_start().starts_with("| ")) {
            let more = more.trim_start().trim_start_matches("| ");
            row.message = match more.strip_prefix(": ") {
                Some(message) => message.to_owned(),
                None => format!("{} {more}", row.message),
            };
        }
        row.rows = parse_rows(lines, indent + 2, unique)?;
        rows.push(row);
    }
    Ok(rows)
}

fn parse_row(text: &'static str, unique: &mut usize) -> Option<Row> {
    let (text, message) = text.split_once(" : ").unwrap_or((text, ""));
    let mut words = text.split_whitespace();
    let paths: Option<Vec<_>> = words.next()?.split(',').map(parse_path).collect();
    let mut row = Row {
        paths: paths?,
        message: message.to_owned(),
        ..Row::default()
    };
    while let Some(word) = words.next() {
        let number = |text: &str| text.parse().ok();
        row.words.push(match word {
            "create" | "update" => Word::IsNew(word == "create"),
            "changed" => Word::Changed,
            "not-blank" => Word::NotBlank,
            "trimmed" => Word::Trimmed,
            "wildcard" => Word::Wildcard,
            "set" => Word::Set,
            "given" => Word::Given,
            "valid" => Word::Valid,
            "required" => Word::Required,
            "immutable" => Word::Immutable,
            "invalid" => Word::Invalid,
            "forbidden" => Word::Forbidden,
            "missing" => Word::Missing,
            "unique" => {
                *unique += 1;
                Word::Unique(*unique)
            }
            "in" => Word::In(words.next()?.split('|').map(parse_value).collect::<Option<_>>()?),
            "bytes" => Word::MaxBytes(words.next()?.strip_prefix("..")?.parse().ok()?),
            "items" => Word::MaxItems(words.next()?.strip_prefix("..")?.parse().ok()?),
            "sole" => Word::Sole(words.next()?),
            "none" => Word::None,
            "fn" => Word::Code(code(words.next()?)?),
            "as" => {
                row.shown = words.next()?;
                continue;
            }
            _ if word.starts_with('>') => Word::Since(number(&word[1..])?),
            _ if word.starts_with('<') => Word::Until(number(&word[1..])?),
            _ if word.starts_with('[') => {
                let conditions = word.strip_prefix('[')?.strip_suffix(']')?.split(',');
                Word::If(conditions.map(parse_condition).collect())
            }
            _ if word.starts_with(char::is_uppercase) => Word::Section(word),
            _ => match (word.split_once(".."), word.strip_prefix("api"), format(word)) {
                (Some((least, most)), ..) => {
                    let bound = |text: &str, open| match text {
                        "" => Some(open),
                        text => text.parse().ok(),
                    };
                    Word::Range(bound(least, i64::MIN)?, bound(most, i64::MAX)?)
                }
                (_, Some(api), None) => match api.strip_prefix("!=") {
                    Some(version) => Word::Api(false, version),
                    None => Word::Api(true, api.strip_prefix('=')?),
                },
                (.., format) => Word::Format(format?),
            },
        });
    }
    Some(row)
}

/// A value, maybe with its first release.
fn parse_value(text: &'static str) -> Option<(&'static str, u16)> {
    match text.split_once('>') {
        Some((value, since)) => Some((value, since.parse().ok()?)),
        None => Some((if text == "\"\"" { "" } else { text }, 0)),
    }
}

fn parse_condition(text: &'static str) -> Condition {
    let (path, test, is_negated) = if let Some((path, texts)) = text.split_once('=') {
        let (path, is_negated) = path.strip_suffix('!').map_or((path, false), |path| (path, true));
        (path, Test::In(texts.split('|').collect()), is_negated)
    } else {
        let (text, is_negated) = text.strip_prefix('!').map_or((text, false), |text| (text, true));
        match text.strip_suffix('+') {
            Some(path) => (path, Test::Given, is_negated),
            None => (text, Test::Set, is_negated),
        }
    };
    let inner = path.trim_start_matches('^');
    Condition {
        outer: path.len() - inner.len(),
        path: inner.trim_start_matches('.'),
        test,
        is_negated,
    }
}

fn parse_path(text: &'static str) -> Option<(usize, Vec<Step>)> {
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
            steps.push(if key.is_empty() {
                Step::Entries
            } else {
                Step::Key(key)
            });
            rest = after;
        } else {
            let (name, after) = rest.split_at(rest.find(['.', '[', '{']).unwrap_or(rest.len()));
            steps.push(match name.split_once('@') {
                Some((name, shown)) => Step::Renamed(name, shown),
                None if name.is_empty() => return None,
                None => Step::Field(name),
            });
            rest = after;
        }
    }
    Some((outer, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections_of(rows: &[Row]) -> Vec<&'static str> {
        let mut names = Vec::new();
        for row in rows {
            names.extend(row.words.iter().filter_map(|word| match word {
                Word::Section(name) => Some(*name),
                _ => None,
            }));
            names.extend(sections_of(&row.rows));
        }
        names
    }

    #[test]
    fn every_row_is_read() {
        let sections = parse(TABLE).unwrap_or_else(|line| panic!("{line}"));
        for name in sections.values().flat_map(|section| sections_of(&section.rows)) {
            assert!(sections.contains_key(name), "{name}");
        }
    }
}
