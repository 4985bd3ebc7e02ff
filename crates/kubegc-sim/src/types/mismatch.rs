//! Errors of the decoder: a value has another type than its field.
//!
//! # Upstream
//! `UnmarshalTypeError` of Go's `encoding/json`, and the errors of the types with a parser of their own:
//! [`Quantity`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go),
//! [`Time`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go).

use std::sync::LazyLock;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{Behavior, KubernetesVersion};
use serde_json::Value;

use super::schema::{StructId, Type};
use crate::{go, status::quoted};

/// The decoder is `encoding/json`; before, it was `json-iterator`, whose messages are not reproduced.
const ERRORS_ARE_OF_GO: Behavior = Behavior::since(23, 0, "kubernetes #105030");

/// Paths have the names of embedded structs, as since Go 1.24.
const EMBEDDED_STRUCTS_ARE_NAMED: Behavior = Behavior::since(35, 0, "sigs.k8s.io/json of 2025-07");

/// A value of the wrong type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Its path, innermost step first.
    steps: Vec<Step>,
    /// What was found, in words, and the type that was expected, if it is not that of the field. `None` if a
    /// parser refused a text.
    found: Option<(String, Option<&'static str>)>,
    /// The message of the parser.
    problem: String,
    /// The message of releases before 1.23, without the path.
    former: String,
}

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Field(StructId, &'static str),
    Item(usize),
    Entry(String),
}

impl Mismatch {
    /// The decoder found a value of another type than this.
    pub(super) fn of_type(value: &Value, ty: &Type) -> Self {
        // The type that a parser of its own decodes, and the words of former releases.
        let (decoded, expected) = match ty {
            Type::Struct(_) | Type::Map(_) => (None, "{ or n"),
            Type::List(_) => (None, "[ or n"),
            Type::Bool => (None, "t or f"),
            Type::Int32 => (None, "a whole number of 32 bits"),
            Type::Int64 => (None, "a whole number of 64 bits"),
            Type::IntOrString => (Some("int32"), "a whole number of 32 bits or a string"),
            Type::Double => (None, "a number"),
            Type::Time | Type::MicroTime | Type::Duration => (Some("string"), "\" or n"),
            _ => (None, "\" or n"),
        };
        let found = match value {
            Value::Number(number) if matches!(ty, Type::Int32 | Type::Int64 | Type::IntOrString) => {
                format!("number {number}")
            }
            value => go::json_kind(value).to_owned(),
        };
        Self {
            found: Some((found, decoded)),
            ..Self::refused(String::new(), format!("expects {expected}, but found {value}"))
        }
    }

    /// A type with a parser of its own refused the value.
    pub(super) const fn refused(problem: String, former: String) -> Self {
        Self {
            steps: Vec::new(),
            found: None,
            problem,
            former,
        }
    }

    /// Whether it is in a field of the object that precedes another one by name.
    pub(super) fn precedes(&self, field: &str) -> bool {
        matches!(self.steps.last(), Some(Step::Field(_, name)) if *name < field)
    }

    pub(super) fn within(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The message, for an object of this kind.
    pub(crate) fn text(&self, kind: &str, version: KubernetesVersion) -> String {
        if !version.has(ERRORS_ARE_OF_GO) {
            let path = self
                .steps
                .iter()
                .rev()
                .fold(kind.to_owned(), |path, step| match step {
                    Step::Field(_, name) => path + "." + name,
                    Step::Item(index) => format!("{path}.[{index}]"),
                    Step::Entry(key) => path + "." + key,
                });
            return format!("v1.{path}: {}", self.former);
        }
        let innermost = self
            .steps
            .iter()
            .enumerate()
            .find_map(|(depth, step)| match step {
                Step::Field(id, name) => Some((depth, *id, *name)),
                Step::Item(_) | Step::Entry(_) => None,
            });
        let (Some((found, ty)), Some((depth, id, name))) = (&self.found, innermost) else {
            return self.problem.clone();
        };
        let mut path = Vec::new();
        for step in self.steps.iter().rev() {
            if let Step::Field(id, name) = step {
                let embedded = GO_TYPES.embedded.get(&(id.name(), *name));
                path.extend(embedded.filter(|_| version.has(EMBEDDED_STRUCTS_ARE_NAMED)));
                path.push(*name);
            }
        }
        let (structure, path) = (go_name(id), path.join("."));
        let ty = ty.map_or_else(|| go_type_of(id, name, depth), str::to_owned);
        format!("json: cannot unmarshal {found} into Go struct field {structure}.{path} of type {ty}")
    }
}

/// The Go name of a struct, without its package.
fn go_name(id: StructId) -> &'static str {
    match id.name() {
        "ClaimTemplate" => "PersistentVolumeClaim",
        name => name.split_once('.').map_or(name, |(name, _)| name),
    }
}

/// The Go types that the table of types does not have.
struct GoTypes {
    /// Types, by the names of struct and field.
    fields: HashMap<(&'static str, &'static str), &'static str, FixedState>,
    /// The embedded structs that contribute fields, by the same names.
    embedded: HashMap<(&'static str, &'static str), &'static str, FixedState>,
    /// The structs of the package `v2`.
    of_v2: Vec<&'static str>,
}

static GO_TYPES: LazyLock<GoTypes> = LazyLock::new(|| {
    let mut types = GoTypes {
        fields: HashMap::default(),
        embedded: HashMap::default(),
        of_v2: Vec::new(),
    };
    let table = include_str!("go_types.txt").lines();
    for line in table.filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        match words.next().unwrap_or_default() {
            "@v2" => types.of_v2.extend(words),
            structure => {
                for (left, right) in words.filter_map(|word| word.split_once('=')) {
                    match structure.strip_prefix('+') {
                        Some(structure) => {
                            let fields = right.split(',').map(|field| ((structure, field), left));
                            types.embedded.extend(fields);
                        }
                        None => {
                            types.fields.insert((structure, left), right);
                        }
                    }
                }
            }
        }
    }
    types
});

/// The Go type of a field in `v1`, if it has a name of its own, without pointers.
pub(super) fn named_type(structure: &str, field: &str) -> Option<&'static str> {
    GO_TYPES.fields.get(&(structure, field)).copied()
}

/// The Go type of a field, or of what it contains at this depth of lists and maps.
fn go_type_of(id: StructId, field: &str, depth: usize) -> String {
    let mut ty = id.field(field).map(|field| &field.ty);
    let mut named = named_type(id.name(), field);
    for _ in 0..depth {
        named = named.and_then(|named| match named.strip_prefix("map[") {
            Some(map) => map.split_once(']').map(|(_, value)| value),
            None => named.strip_prefix("[]"),
        });
        ty = match ty.map(Type::target) {
            Some(Type::List(inner) | Type::Map(inner)) => Some(inner),
            Some(Type::Bytes) => return "uint8".to_owned(),
            other => other,
        };
    }
    match (named, ty) {
        (Some(named), _) => named.to_owned(),
        (None, Some(ty)) => go_type(ty),
        (None, None) => "v1.ObjectMeta".to_owned(),
    }
}

fn go_type(ty: &Type) -> String {
    match ty.target() {
        Type::String => "string".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Double => "float64".to_owned(),
        Type::Bytes => "[]uint8".to_owned(),
        Type::Quantity => "resource.Quantity".to_owned(),
        Type::IntOrString => "intstr.IntOrString".to_owned(),
        Type::Time => "v1.Time".to_owned(),
        Type::MicroTime => "v1.MicroTime".to_owned(),
        Type::Duration => "v1.Duration".to_owned(),
        Type::Struct(id) => {
            let package = match id.name().rsplit_once('.') {
                Some((_, version)) => version,
                None if GO_TYPES.of_v2.contains(&id.name()) => "v2",
                None => "v1",
            };
            format!("{package}.{}", go_name(*id))
        }
        Type::List(item) => format!("[]{}", go_type(item)),
        Type::Map(of) => format!("map[string]{}", go_type(of)),
        Type::Any | Type::Pointer(_) | Type::Either(..) => "runtime.RawExtension".to_owned(),
    }
}

/// The error of `ParseQuantity` about a text that is no quantity.
pub(super) fn quantity_error(text: &str) -> &'static str {
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = &number[digits(number)..];
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = &fraction[digits(fraction)..];
    }
    let suffix = rest.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let exponent = suffix.strip_prefix(['+', '-']).unwrap_or(suffix);
    match text.is_empty() || digits(exponent) < exponent.len() {
        true => "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        false if rest.is_empty() => "unable to parse numeric part of quantity",
        false => "unable to parse quantity's suffix",
    }
}

/// The index of the first byte that Go's decoder of base 64 refuses. Line breaks are ignored.
pub(super) fn base64_error(text: &str) -> usize {
    let is_symbol = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let bytes = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let mut symbols = 0;
    let mut padding = None;
    for (index, byte) in bytes {
        match (padding, byte) {
            (None, byte) if is_symbol(byte) => symbols += 1,
            (None, b'=') if symbols % 4 >= 2 => padding = Some((index, symbols % 4 + 1)),
            (Some((first, 3)), b'=') => padding = Some((first, 4)),
            (Some((first, 3)), _) => return first,
            _ => return index,
        }
    }
    match padding {
        Some((_, 3)) => text.len(),
        _ => text.len().saturating_sub(symbols % 4),
    }
}

/// The error of `time.Parse` about a text that is no time in the layout of RFC 3339, or in that of six
/// fractional digits.
pub(super) fn time_error(text: &str, is_micro: bool) -> String {
    let layout = match is_micro {
        true => "2006-01-02T15:04:05.000000Z07:00",
        false => "2006-01-02T15:04:05Z07:00",
    };
    let unparsed = |rest: &str, element: &str| {
        let (text, layout, rest, element) = (quoted(text), quoted(layout), quoted(rest), quoted(element));
        format!("parsing time {text} as {layout}: cannot parse {rest} as {element}")
    };
    let because = |problem: &str| format!("parsing time {}: {problem}", quoted(text));
    let mut rest = text;
    // Each number: the text before it, its form in the layout, its name, and its smallest and largest value.
    let numbers = [
        ("", "2006", "year", 0, 9999),
        ("-", "01", "month", 1, 12),
        ("-", "02", "day", 1, 31),
        ("T", "15", "hour", 0, 23),
        (":", "04", "minute", 0, 59),
        (":", "05", "second", 0, 59),
    ];
    for (before, element, name, min, max) in numbers {
        let Some(after) = rest.strip_prefix(before) else {
            return unparsed(rest, before);
        };
        let digits = after
            .bytes()
            .take(element.len())
            .take_while(u8::is_ascii_digit)
            .count();
        // Days and hours may have one digit.
        let is_short = matches!(name, "day" | "hour") && digits == 1;
        let Some(number) = after
            .get(..digits)
            .filter(|_| is_short || digits == element.len())
        else {
            return unparsed(after, element);
        };
        if !number
            .parse::<u32>()
            .is_ok_and(|number| (min..=max).contains(&number))
        {
            return because(&format!("{name} out of range"));
        }
        rest = &after[digits..];
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let fraction = rest.strip_prefix(['.', ',']).map(digits);
    rest = match (fraction, is_micro) {
        (Some(6..), true) => &rest[7..],
        (_, true) => return unparsed(rest, ".000000"),
        (Some(digits @ 1..), false) => &rest[1 + digits..],
        (_, false) => rest,
    };
    let is_offset = |zone: &str| {
        let numbers = [zone.get(1..3), zone.get(4..6)];
        let are_numbers = numbers
            .iter()
            .all(|number| number.is_some_and(|number| digits(number) == 2));
        zone.starts_with(['+', '-']) && zone.get(3..4) == Some(":") && are_numbers
    };
    rest = match rest.strip_prefix('Z') {
        Some(rest) => rest,
        None if is_offset(rest) => &rest[6..],
        None => return unparsed(rest, "Z07:00"),
    };
    match rest {
        "" => because("day out of range"),
        extra => because(&format!("extra text: {}", quoted(extra))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_refused_with_an_error(text in "[0-9TZ:+.=é\\n-]{0,36}|2020-01-01T00:00:00[0-9:+.Zé-]{0,9}") {
            prop_assert!(base64_error(&text) <= text.len());
            prop_assert!(!quantity_error(&text).is_empty());
            for is_micro in [false, true] {
                prop_assert!(time_error(&text, is_micro).starts_with("parsing time"));
            }
        }
    }

    #[test]
    fn texts_are_refused_at_the_place_where_go_refuses_them() {
        let base64 = [
            ("a", 0),
            ("ab", 0),
            ("abcde", 4),
            ("ab=", 3),
            ("ab=c", 2),
            ("abc=d", 4),
        ];
        for (text, at) in base64.into_iter().chain([("ab\ncd*", 5), ("=", 0)]) {
            assert_eq!(base64_error(text), at, "{text:?}");
        }
        for (text, problem) in [
            ("", "match"),
            ("1.x", "match"),
            ("1mm", "suffix"),
            (".", "numeric"),
        ] {
            assert!(quantity_error(text).contains(problem), "{text:?}");
        }
        for (text, problem) in [
            ("2020-1-1", "cannot parse \"1-1\" as \"01\""),
            (
                "2020-13-01T00:00:00Z",
                "\"2020-13-01T00:00:00Z\": month out of range",
            ),
            (
                "2020-02-30T00:00:00Z",
                "\"2020-02-30T00:00:00Z\": day out of range",
            ),
            ("2020-01-01 00:00:00Z", "cannot parse \" 00:00:00Z\" as \"T\""),
            ("2020-01-01T00:00:00", "cannot parse \"\" as \"Z07:00\""),
            (
                "2020-01-01T00:00:00+00:1é",
                "cannot parse \"+00:1é\" as \"Z07:00\"",
            ),
            ("2020-01-01T00:00:00+00:00é", "extra text: \"é\""),
            ("2020-01-01T00:00:00Zx", "extra text: \"x\""),
        ] {
            let error = time_error(text, false);
            assert!(error.contains(problem), "{error}");
        }
        let error = time_error("2020-01-01T00:00:00Z", true);
        assert!(error.ends_with("cannot parse \"Z\" as \".000000\""), "{error}");
    }
}
