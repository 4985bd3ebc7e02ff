//! Types of expressions, and the declared functions of each release.
//!
//! # Upstream
//! [`types.go`](https://github.com/google/cel-go/blob/v0.26.0/checker/types.go) in `cel-go/checker`, and the
//! environments in
//! [`base.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/environment/base.go).

use std::{collections::BTreeMap, fmt, ptr, sync::LazyLock};

use serde_json::Value;

use super::{
    super::instance::is_embedded,
    values::{escaped, is_int_or_string, is_visible, of_entries, text},
};

/// The type of an expression.
#[derive(Clone, Debug)]
pub(super) enum Ty<'a> {
    Dyn,
    /// The type of an expression with an error, which is reported once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// An object with declared fields, and whether it is a complete resource.
    Object(&'a Value, bool),
    /// `metadata` of a complete resource.
    Metadata,
    Map(Box<Self>, Box<Self>),
    List(Box<Self>),
    /// A list with the equality of a set or a map.
    Keyed(Box<Self>),
    Optional(Box<Self>),
    Type(Box<Self>),
    /// A type of the libraries.
    Named(&'static str),
    /// A type that is not known yet.
    Param(usize),
}

impl PartialEq for Ty<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            // Each object of a schema has a type of its own.
            (Self::Object(one, _), Self::Object(other, _)) => ptr::eq(*one, *other),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key == other_key && value == other_value
            }
            (Self::List(one) | Self::Keyed(one), Self::List(other) | Self::Keyed(other))
            | (Self::Optional(one), Self::Optional(other))
            | (Self::Type(one), Self::Type(other)) => one == other,
            (Self::Named(one), Self::Named(other)) => one == other,
            (Self::Param(one), Self::Param(other)) => one == other,
            _ => {
                self.parameters().is_empty() && std::mem::discriminant(self) == std::mem::discriminant(other)
            }
        }
    }
}

impl fmt::Display for Ty<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Upstream prints a name with a random number.
            Self::Object(..) | Self::Metadata => f.write_str("object"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::List(item) | Self::Keyed(item) => write!(f, "list({item})"),
            Self::Optional(value) => write!(f, "optional_type({value})"),
            Self::Type(of) => write!(f, "type({of})"),
            Self::Named(name) => f.write_str(name),
            Self::Param(index) => write!(f, "_var{index}"),
            simple => {
                let known = SIMPLE.iter().find(|(_, ty)| ty == simple);
                f.write_str(known.map_or("!error!", |(name, _)| name))
            }
        }
    }
}

/// The types without parameters.
const SIMPLE: [(&str, Ty<'static>); 10] = [
    ("dyn", Ty::Dyn),
    ("null", Ty::Null),
    ("bool", Ty::Bool),
    ("int", Ty::Int),
    ("uint", Ty::Uint),
    ("double", Ty::Double),
    ("string", Ty::String),
    ("bytes", Ty::Bytes),
    ("timestamp", Ty::Timestamp),
    ("duration", Ty::Duration),
];

fn simple(name: &str) -> Option<Ty<'static>> {
    let known = SIMPLE.into_iter().find(|(known, _)| *known == name);
    known.map(|(_, ty)| ty)
}

impl<'a> Ty<'a> {
    /// The type of the values of a schema.
    pub(super) fn of(schema: &'a Value, is_root: bool) -> Self {
        if is_int_or_string(schema) {
            return Self::Dyn;
        }
        match text(schema, "type") {
            "boolean" => Self::Bool,
            "integer" => Self::Int,
            "number" => Self::Double,
            "string" => match text(schema, "format") {
                "byte" => Self::Bytes,
                "date" | "date-time" => Self::Timestamp,
                "duration" => Self::Duration,
                _ => Self::String,
            },
            "array" => {
                let items = schema.get("items");
                let items = Box::new(items.map_or(Self::Dyn, |items| Self::of(items, is_embedded(items))));
                match text(schema, "x-kubernetes-list-type") {
                    "set" | "map" => Self::Keyed(items),
                    _ => Self::List(items),
                }
            }
            "object" => match of_entries(schema) {
                Some(values) => {
                    let values = Self::of(values, is_embedded(values));
                    Self::Map(Box::new(Self::String), Box::new(values))
                }
                None => Self::Object(schema, is_root),
            },
            _ => Self::Dyn,
        }
    }

    /// Reads the type of the table of functions.
    fn parse(text: &'static str) -> Self {
        let inner = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        let boxed = |text: &'static str| Box::new(Self::parse(text));
        if let Some(item) = inner("list") {
            return Self::List(boxed(item));
        }
        if let Some((key, value)) = inner("map").and_then(|inner| inner.split_once(',')) {
            return Self::Map(boxed(key), boxed(value));
        }
        if let Some(value) = inner("optional") {
            return Self::Optional(boxed(value));
        }
        if let Some(of) = inner("type") {
            return Self::Type(boxed(of));
        }
        if let Some(ty) = simple(text) {
            return ty;
        }
        match text {
            "quantity" => Self::Named("kubernetes.Quantity"),
            "semver" => Self::Named("kubernetes.Semver"),
            "url" => Self::Named("kubernetes.URL"),
            "format" => Self::Named("kubernetes.NamedFormat"),
            "ip" => Self::Named("net.IP"),
            "cidr" => Self::Named("net.CIDR"),
            _ => Self::Param(usize::from(
                text.bytes().next().unwrap_or_default().saturating_sub(b'A'),
            )),
        }
    }

    /// The type whose values a name denotes, which is a value too.
    pub(super) fn named(name: &str) -> Option<Self> {
        let any = || Box::new(Self::Dyn);
        match name {
            "google.protobuf.Duration" => Some(Self::Duration),
            "google.protobuf.Timestamp" => Some(Self::Timestamp),
            "list" => Some(Self::List(any())),
            "map" => Some(Self::Map(any(), any())),
            "null_type" => Some(Self::Null),
            "optional_type" => Some(Self::Optional(any())),
            "type" => Some(Self::Type(any())),
            "dyn" | "duration" | "null" | "timestamp" => None,
            name => simple(name),
        }
    }

    pub(super) fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::Map(key, value) => vec![key, value],
            Self::List(one) | Self::Keyed(one) | Self::Optional(one) | Self::Type(one) => vec![one],
            _ => Vec::new(),
        }
    }

    /// The type with its parameters replaced.
    fn mapped(&self, with: &mut impl FnMut(&Self) -> Self) -> Self {
        match self {
            Self::Map(key, value) => Self::Map(Box::new(with(key)), Box::new(with(value))),
            Self::List(one) => Self::List(Box::new(with(one))),
            Self::Keyed(one) => Self::Keyed(Box::new(with(one))),
            Self::Optional(one) => Self::Optional(Box::new(with(one))),
            Self::Type(one) => Self::Type(Box::new(with(one))),
            other => other.clone(),
        }
    }

    /// The type with its letters made unknown types that begin with a number. Depth is that of the table.
    fn instance(&self, first: usize) -> Self {
        match self {
            Self::Param(letter) => Self::Param(first + letter),
            other => other.mapped(&mut |inner| inner.instance(first)),
        }
    }

    pub(super) const fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The type of the value of an optional, and whether it is an optional.
    pub(super) fn unwrapped(self) -> (Self, bool) {
        match self {
            Self::Optional(value) => (*value, true),
            other => (other, false),
        }
    }

    const fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Object(..)
                | Self::Metadata
                | Self::Optional(_)
                | Self::Named(_)
                | Self::Timestamp
                | Self::Duration
        )
    }

    /// Whether a value has a size that is known from its type.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            Self::Optional(value) => value.is_scalar(),
            _ => false,
        }
    }

    /// The type of a field of an object; `None` if it has none of this name.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        match self {
            Self::Metadata => matches!(name, "name" | "generateName").then_some(Self::String),
            Self::Object(_, true) if matches!(name, "apiVersion" | "kind") => Some(Self::String),
            Self::Object(_, true) if name == "metadata" => Some(Self::Metadata),
            Self::Object(schema, _) => {
                let properties = schema.get("properties").and_then(Value::as_object);
                let mut visible = properties
                    .into_iter()
                    .flatten()
                    .filter(|(_, schema)| is_visible(schema));
                // The fields of requests are not escaped.
                let is_request = ptr::eq(*schema, &*super::REVIEW_REQUEST);
                let is_named = |property: &str| match is_request {
                    true => property == name,
                    false => escaped(property).as_deref() == Some(name),
                };
                let (_, schema) = visible.find(|(property, _)| is_named(property))?;
                Some(Self::of(schema, is_embedded(schema)))
            }
            _ => None,
        }
    }
}

/// Types inferred for type variables, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings<'a>(BTreeMap<usize, Ty<'a>>);

impl<'a> Bindings<'a> {
    /// The type with what is known of its parts. The occurs check of [`binds`](Self::binds) bounds the depth.
    pub(super) fn substituted(&self, ty: &Ty<'a>) -> Ty<'a> {
        match ty {
            Ty::Param(index) if self.0.contains_key(index) => self.substituted(&self.0[index]),
            other => other.mapped(&mut |inner| self.substituted(inner)),
        }
    }

    /// The same, with `dyn` for unknown types.
    pub(super) fn concrete(&self, ty: &Ty<'a>) -> Ty<'a> {
        match ty {
            Ty::Param(index) => self.0.get(index).map_or(Ty::Dyn, |known| self.concrete(known)),
            other => other.mapped(&mut |inner| self.concrete(inner)),
        }
    }

    /// Whether values of the first types may stand for the second ones; what that tells of unknown types is
    /// kept then.
    pub(super) fn assign_all(&mut self, from: &[Ty<'a>], to: &[Ty<'a>]) -> bool {
        let mut attempt = self.clone();
        let assigned =
            from.len() == to.len() && from.iter().zip(to).all(|(from, to)| attempt.assigns(from, to));
        if assigned {
            *self = attempt;
        }
        assigned
    }

    pub(super) fn assign(&mut self, from: &Ty<'a>, to: &Ty<'a>) -> bool {
        self.assign_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    fn assigns(&mut self, one: &Ty<'a>, other: &Ty<'a>) -> bool {
        if let Ty::Param(index) = other {
            let (is_valid, is_bound) = self.binds(one, *index);
            if is_valid || is_bound {
                return is_valid;
            }
        }
        if let Ty::Param(index) = one {
            return self.binds(other, *index).0;
        }
        if one.is_dyn() || other.is_dyn() {
            return true;
        }
        match (one, other) {
            (Ty::Null, other) | (other, Ty::Null) => other.is_nullable(),
            (Ty::Type(_), Ty::Type(_)) => true,
            (Ty::Map(..), Ty::Map(..))
            | (Ty::List(_) | Ty::Keyed(_), Ty::List(_) | Ty::Keyed(_))
            | (Ty::Optional(_), Ty::Optional(_)) => {
                let mut pairs = one.parameters().into_iter().zip(other.parameters());
                pairs.all(|(one, other)| self.assigns(one, other))
            }
            _ => one == other,
        }
    }

    /// Whether a type may stand for an unknown one, and whether that one was known.
    fn binds(&mut self, ty: &Ty<'a>, index: usize) -> (bool, bool) {
        if *ty == Ty::Param(index) {
            return (true, true);
        }
        if let Some(known) = self.0.get(&index).cloned() {
            if *ty == known {
                return (true, true);
            }
            if !self.assigns(ty, &known) {
                return (false, true);
            }
            let general = most_general(ty, &known);
            if !self.refers(general, index) {
                let general = general.clone();
                self.0.insert(index, general);
            }
            return (true, true);
        }
        let is_valid = !self.refers(ty, index);
        if is_valid {
            self.0.insert(index, ty.clone());
        }
        (is_valid, false)
    }

    /// Whether a type contains an unknown one.
    fn refers(&self, ty: &Ty<'a>, index: usize) -> bool {
        match ty {
            Ty::Param(other) if *other == index => true,
            Ty::Param(other) => self.0.get(other).is_some_and(|known| self.refers(known, index)),
            other => other.parameters().iter().any(|inner| self.refers(inner, index)),
        }
    }
}

/// The more general of two types that agree.
pub(super) fn most_general<'t, 'a>(one: &'t Ty<'a>, other: &'t Ty<'a>) -> &'t Ty<'a> {
    if is_at_least(one, other) { one } else { other }
}

fn is_at_least(one: &Ty<'_>, other: &Ty<'_>) -> bool {
    match (one, other) {
        (Ty::Dyn | Ty::Param(_), _) => true,
        (_, Ty::Dyn | Ty::Param(_)) => false,
        (Ty::Type(_), Ty::Type(_)) => true,
        (Ty::Map(..), Ty::Map(..))
        | (Ty::List(_) | Ty::Keyed(_), Ty::List(_) | Ty::Keyed(_))
        | (Ty::Optional(_), Ty::Optional(_)) => {
            let mut pairs = one.parameters().into_iter().zip(other.parameters());
            pairs.all(|(one, other)| is_at_least(one, other))
        }
        _ => one == other,
    }
}

/// One signature of a function.
#[derive(Debug)]
pub(super) struct Overload {
    since: u16,
    pub(super) is_member: bool,
    pub(super) operands: Vec<Ty<'static>>,
    /// The operands without the types of items and entries.
    pub(super) erased: String,
    result: Ty<'static>,
    /// Its name where its cost has a rule of its own.
    pub(super) cost: &'static str,
}

impl Overload {
    fn parse(line: &'static str) -> Option<(&'static str, Self)> {
        let mut columns = line.split(' ');
        let since = columns.next()?.parse().ok()?;
        let (name, operands, result) = (columns.next()?, columns.next()?, columns.next()?);
        let (target, operands) = match operands.strip_prefix('(') {
            Some(operands) => (None, operands),
            None => {
                let (target, operands) = operands.split_once(".(")?;
                (Some(target), operands)
            }
        };
        let arguments = split(operands.strip_suffix(')')?);
        let erased: Vec<&str> = arguments.iter().filter_map(|ty| ty.split('(').next()).collect();
        let of = target.and_then(|target| target.split('(').next());
        let overload = Self {
            since,
            is_member: target.is_some(),
            erased: of.map_or(String::new(), |of| format!("{of}.")) + "(" + &erased.join(",") + ")",
            operands: target.into_iter().chain(arguments).map(Ty::parse).collect(),
            result: Ty::parse(result),
            cost: columns.next().unwrap_or_default(),
        };
        Some((name, overload))
    }

    /// The types of the operands and of the result, with unknown types from a number on.
    pub(super) fn signature<'a>(&self, first: usize) -> (Vec<Ty<'a>>, Ty<'a>) {
        let operands = self.operands.iter().map(|operand| operand.instance(first));
        (operands.collect(), self.result.instance(first))
    }
}

/// How many unknown types a signature may have.
pub(super) const LETTERS: usize = 26;

/// The parts between commas outside of parentheses.
fn split(operands: &'static str) -> Vec<&'static str> {
    let (mut depth, mut start, mut parts) = (0_usize, 0, Vec::new());
    for (position, c) in operands.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&operands[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    if !operands.is_empty() {
        parts.push(&operands[start..]);
    }
    parts
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
    for (name, overload) in include_str!("functions.txt").lines().filter_map(Overload::parse) {
        functions.entry(name).or_default().push(overload);
    }
    functions
});

/// The names and overloads of all functions.
pub(super) fn all_overloads() -> impl Iterator<Item = (&'static str, &'static Overload)> {
    let functions = FUNCTIONS.iter();
    functions.flat_map(|(name, overloads)| overloads.iter().map(|overload| (*name, overload)))
}

/// The overloads of a function that definitions of a minor release may use.
pub(super) fn overloads(name: &str, minor: u16) -> impl Iterator<Item = &'static Overload> {
    let all = FUNCTIONS.get(name).into_iter().flatten();
    all.filter(move |overload| overload.since <= minor)
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, Overload};

    #[test]
    fn every_line_of_the_table_is_read() {
        let table = include_str!("functions.txt").lines();
        let lines = table.filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            assert!(Overload::parse(line).is_some(), "{line}");
        }
        assert!(!FUNCTIONS.is_empty());
    }
}
