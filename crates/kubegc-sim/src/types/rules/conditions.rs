//! Values that rows read beside their own, and conditions about them.

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::Value;

use super::super::field::{At, Check};
use crate::formats;

/// The value of a block of rows, within that of another block.
pub(in super::super) struct Block<'b, 'v> {
    pub(in super::super) at: &'b At<'v>,
    pub(in super::super) outer: Option<&'b Self>,
}

impl Block<'_, '_> {
    pub(super) fn outwards(&self, count: usize) -> &Self {
        (0..count).fold(self, |block, _| block.outer.unwrap_or(block))
    }
}

/// A value that a condition, a bound or a message reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    /// The number of blocks further out at which the path begins.
    outer: usize,
    /// Whether it is that of the stored object.
    is_stored: bool,
    path: &'p str,
}

#[derive(Debug)]
pub(crate) struct Condition {
    place: Place<'static>,
    test: Test,
    is_negated: bool,
}

#[derive(Debug)]
enum Test {
    Set,
    Given,
    In(Vec<&'static str>),
    Other(Vec<&'static str>),
    Contains(&'static str),
    Begins(&'static str),
    Above(i64),
    /// It is of this kind.
    Is(fn(&Value) -> bool),
    /// It is not the stored value.
    Changed,
    /// It equals another value.
    Same(Place<'static>),
    /// More than one of these fields is set.
    Many(Vec<&'static str>),
}

/// The place that a text names.
pub(in super::super) fn place_of(text: &str) -> Place<'_> {
    let path = text.trim_start_matches('-');
    let inner = path.trim_start_matches('^');
    Place {
        outer: path.len() - inner.len(),
        is_stored: path.len() < text.len(),
        path: inner.trim_start_matches('.'),
    }
}

/// The kind of values of a name.
fn kind_of_value(name: &str) -> Option<fn(&Value) -> bool> {
    fn is_ip(value: &Value, fits: impl Fn(IpAddr) -> bool) -> bool {
        value.as_str().and_then(formats::parse_ip).is_some_and(fits)
    }
    fn is_cidr(value: &Value, fits: impl Fn(IpAddr) -> bool) -> bool {
        let parsed = value.as_str().and_then(formats::parse_cidr);
        parsed.is_some_and(|(network, _)| fits(network))
    }
    Some(match name {
        "text" => Value::is_string,
        "object" => Value::is_object,
        "ip" => |value| is_ip(value, |_| true),
        "ipv4" => |value| is_ip(value, |ip| ip.is_ipv4()),
        "ipv6" => |value| is_ip(value, |ip| ip.is_ipv6()),
        "cidr" => |value| is_cidr(value, |_| true),
        "ipv4-cidr" => |value| is_cidr(value, |ip| ip.is_ipv4()),
        "ipv6-cidr" => |value| is_cidr(value, |ip| ip.is_ipv6()),
        "unspecified" => |value| is_ip(value, |ip| ip.is_unspecified()),
        "loopback" => |value| is_ip(value, |ip| ip.is_loopback()),
        "link-local" => |value| is_ip(value, formats::is_link_local),
        "link-local-multicast" => |value| is_ip(value, formats::is_link_local_multicast),
        _ => return None,
    })
}

/// Whether a value is not empty.
pub(super) fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

impl Place<'_> {
    pub(in super::super) fn read<'v>(&self, block: &Block<'_, 'v>, c: &Check<'v>) -> At<'v> {
        let mut at = block.outwards(self.outer).at.clone();
        if self.is_stored {
            at.value = at.old(c);
        }
        let mut rest = self.path;
        while !rest.is_empty() {
            rest = rest.trim_start_matches('.');
            if let Some((key, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                let key = match key {
                    "$" => block.at.text(),
                    "$key" => block.at.key_or_name(),
                    key => key,
                };
                (at, rest) = (at.key(key), after);
                continue;
            }
            let end = rest.find(['.', '{']).filter(|end| *end > 0);
            let step;
            (step, rest) = rest.split_at(end.unwrap_or(rest.len()));
            at = match (step.strip_prefix('?'), step.parse()) {
                (Some(kind), _) => {
                    let mut conditions = at.items();
                    let condition = conditions.find(|item| item.get("type").text() == kind);
                    condition.unwrap_or(at).get("status")
                }
                (None, Ok(index)) => at.items().nth(index).unwrap_or_else(|| at.get(step)),
                (None, Err(_)) => at.get(step),
            };
        }
        at
    }

    /// The value as a text; a path that ends with `#` stands for the length, with `%` for the number or
    /// percentage, `$key` for the name of the entry, `$name`, `$namespace` and `$uid` for those of the
    /// object, `$deleting` for whether it is being deleted. The texts of all items are sorted.
    pub(super) fn text<'v>(&self, block: &Block<'_, 'v>, c: &Check<'v>) -> String {
        let meta = c.object.map(|object| &object.meta);
        match self.path {
            "$key" => return block.outwards(self.outer).at.key_or_name().to_owned(),
            "$uid" => return meta.map_or(String::new(), |meta| meta.uid.to_string()),
            "$name" => return c.name().to_owned(),
            "$namespace" => return meta.map_or("", |meta| &meta.namespace).to_owned(),
            "$deleting" => return meta.is_some_and(|meta| meta.is_deleting()).to_string(),
            _ => {}
        }
        if let Some((path, of_item)) = self.path.split_once("[]") {
            let items = Place { path, ..*self }.read(block, c);
            let texts = items.items().map(|at| {
                let item = Block { at: &at, outer: None };
                place_of(of_item).text(&item, c)
            });
            let sorted: Vec<String> = texts.collect::<BTreeSet<_>>().into_iter().collect();
            return sorted.join(", ");
        }
        if let Some(path) = self.path.strip_suffix('#') {
            let path = path.trim_end_matches('.');
            let at = Place { path, ..*self }.read(block, c);
            return at.len().max(at.text().len()).to_string();
        }
        if let Some(path) = self.path.strip_suffix('%') {
            return amount(Place { path, ..*self }.read(block, c).value).to_string();
        }
        text(self.read(block, c).value)
    }
}

/// The number or the percentage; any other string counts as zero.
///
/// # Upstream
/// `getIntOrPercentValue` in `pkg/apis/apps/validation`.
fn amount(value: &Value) -> i64 {
    let Some(text) = value.as_str() else {
        return value.as_i64().unwrap_or(0);
    };
    let digits = text.strip_suffix('%');
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits.unwrap_or(text).parse().unwrap_or(0)
}

/// The text of a value; empty for null.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Condition {
    pub(super) fn holds<'v>(&self, block: &Block<'_, 'v>, c: &Check<'v>) -> bool {
        let holds = match self.place.path.split_once("[]") {
            Some((path, of_item)) => {
                let list = Place { path, ..self.place }.read(block, c);
                list.items().any(|at| {
                    let item = Block { at: &at, outer: None };
                    self.passes(&place_of(of_item), &item, block, c)
                })
            }
            None => self.passes(&self.place, block, block, c),
        };
        holds != self.is_negated
    }

    /// Whether a value within a block passes the test, which may read another value within `outer`.
    fn passes<'v>(
        &self,
        place: &Place<'_>,
        block: &Block<'_, 'v>,
        outer: &Block<'_, 'v>,
        c: &Check<'v>,
    ) -> bool {
        let at = place.read(block, c);
        match &self.test {
            Test::Set => at.is_set(),
            Test::Given => is_given(at.value),
            Test::Is(kind) => kind(at.value),
            Test::In(texts) => texts.contains(&place.text(block, c).as_str()),
            Test::Other(texts) => !texts.contains(&place.text(block, c).as_str()),
            Test::Contains(part) => place.text(block, c).contains(part),
            Test::Begins(part) => place.text(block, c).starts_with(part),
            Test::Above(bound) => {
                let number: Option<i64> = place.text(block, c).parse().ok();
                number.is_some_and(|number| number > *bound)
            }
            Test::Changed => {
                let stored = Place {
                    is_stored: true,
                    ..*place
                };
                at.value != stored.read(block, c).value
            }
            Test::Same(other) if other.path.ends_with('#') || other.path.starts_with('$') => {
                place.text(block, c) == other.text(outer, c)
            }
            Test::Same(other) => at.value == other.read(outer, c).value,
            Test::Many(fields) => fields.iter().filter(|field| at.get(field).is_set()).count() > 1,
        }
    }
}

/// Reads a condition about other fields.
pub(super) fn parse_condition(text: &'static str) -> Option<Condition> {
    let (mut text, mut is_negated) = (text, false);
    if let Some(rest) = text.strip_prefix('!') {
        (text, is_negated) = (rest, true);
    }
    let (path, test) = if let Some(path) = text.strip_prefix('~') {
        (path, Test::Changed)
    } else if let Some((path, other)) = text.split_once("==") {
        (path, Test::Same(place_of(other)))
    } else if let Some((path, part)) = text.split_once("*=") {
        (path, Test::Contains(part))
    } else if let Some((path, part)) = text.split_once("^=") {
        (path, Test::Begins(part))
    } else if let Some((path, texts)) = text.split_once("<>") {
        (path, Test::Other(texts.split('|').collect()))
    } else if let Some((path, bound)) = text.split_once('>') {
        (path, Test::Above(bound.parse().ok()?))
    } else if let Some((path, kind)) = text.split_once("=:") {
        (path, Test::Is(kind_of_value(kind)?))
    } else if let Some((path, texts)) = text.split_once('=') {
        (path, Test::In(texts.split('|').collect()))
    } else if let Some((path, fields)) = text.split_once(':') {
        (path, Test::Many(fields.split('|').collect()))
    } else {
        match text.strip_suffix('+') {
            Some(path) => (path, Test::Given),
            None => (text, Test::Set),
        }
    };
    let path = path.strip_suffix('!').map_or(path, |path| {
        is_negated = true;
        path
    });
    Some(Condition {
        place: place_of(path),
        test,
        is_negated,
    })
}
