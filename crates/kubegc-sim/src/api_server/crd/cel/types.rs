//! Types of expressions, and the declared functions of each release.
//!
//! # Upstream
//! [`types.go`](https://github.com/google/cel-go/blob/v0.26.0/checker/types.go) in `cel-go/checker`, and the
//! environments in
//! [`base.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/environment/base.go).

use std::{collections::BTreeMap, fmt, ptr, slice, sync::LazyLock};

use super::declared::Declared;

#[derive(Clone, Debug)]
pub(super) enum Ty<'a> {
    /// A type with parameters. `!error!` is that of an expression with an error, which is reported once.
    Of(&'static str, Vec<Self>),
    /// A list with the equality of a set or a map.
    Keyed(Box<Self>),
    /// An object with the fields of a schema.
    Object(Declared<'a>),
    /// An object with these fields, and the name of its type.
    Struct(&'static str, BTreeMap<&'a str, Self>),
    /// A type that is not known yet.
    Param(usize),
}

impl PartialEq for Ty<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            // Each object of a schema has a type of its own.
            (Self::Object(one), Self::Object(other)) => ptr::eq(one.schema, other.schema),
            (Self::Struct(one, _), Self::Struct(other, _)) => one == other,
            (Self::Param(one), Self::Param(other)) => one == other,
            _ => self.parts().is_some() && self.parts() == other.parts(),
        }
    }
}

impl fmt::Display for Ty<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.parts()) {
            (_, Some((name, []))) => f.write_str(name),
            (_, Some((name, parameters))) => {
                let parameters: Vec<String> = parameters.iter().map(Self::to_string).collect();
                write!(f, "{name}({})", parameters.join(", "))
            }
            (Self::Param(index), _) => write!(f, "_var{index}"),
            // Upstream prints a name with a random number.
            _ => f.write_str("object"),
        }
    }
}

impl Default for Ty<'_> {
    fn default() -> Self {
        Self::DYN
    }
}

impl<'a> Ty<'a> {
    pub(super) const DYN: Self = Self::simple("dyn");
    pub(super) const ERROR: Self = Self::simple("!error!");
    pub(super) const BOOL: Self = Self::simple("bool");
    pub(super) const STRING: Self = Self::simple("string");

    pub(super) const fn simple(name: &'static str) -> Self {
        Self::Of(name, Vec::new())
    }

    pub(super) fn list(item: Self) -> Self {
        Self::Of("list", vec![item])
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Of("map", vec![key, value])
    }

    pub(super) fn optional(value: Self) -> Self {
        Self::Of("optional_type", vec![value])
    }

    /// The name of the type, and its parameters; `None` for objects and unknown types.
    pub(super) fn parts(&self) -> Option<(&'static str, &[Self])> {
        match self {
            Self::Of(name, parameters) => Some((name, parameters)),
            Self::Keyed(item) => Some(("list", slice::from_ref(item))),
            _ => None,
        }
    }

    pub(super) fn parameters(&self) -> &[Self] {
        self.parts().map_or(&[], |(_, parameters)| parameters)
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.parts().is_some_and(|(own, _)| own == name)
    }

    /// The type of the values of a schema.
    pub(super) fn of(declared: Declared<'a>) -> Self {
        if declared.is_int_or_string() {
            return Self::DYN;
        }
        match (declared.text("type"), declared.text("format")) {
            ("boolean", _) => Self::BOOL,
            ("integer", _) => Self::simple("int"),
            ("number", _) => Self::simple("double"),
            ("string", "byte") => Self::simple("bytes"),
            ("string", "date" | "date-time") => Self::simple("timestamp"),
            ("string", "duration") => Self::simple("duration"),
            ("string", _) => Self::STRING,
            ("array", _) => {
                let item = declared.items().map_or(Self::DYN, Self::of);
                match declared.text("x-kubernetes-list-type") {
                    "set" | "map" => Self::Keyed(Box::new(item)),
                    _ => Self::list(item),
                }
            }
            ("object", _) => match declared.entries() {
                Some(values) => Self::map(Self::STRING, Self::of(values)),
                None => Self::Object(declared),
            },
            _ => Self::DYN,
        }
    }

    /// Reads the type of the table.
    pub(super) fn parse(text: &'static str) -> Self {
        let (name, inner) = match text.split_once('(') {
            Some((name, inner)) => (name, inner.strip_suffix(')').unwrap_or(inner)),
            None => (text, ""),
        };
        if let [letter @ b'A'..=b'Z'] = name.as_bytes() {
            return Self::Param(usize::from(letter - b'A'));
        }
        if let Some(object) = ROWS.get(&("struct", name)) {
            let fields = object.split(' ').filter_map(|field| field.split_once(':'));
            return Self::Struct(name, fields.map(|(name, ty)| (name, Self::parse(ty))).collect());
        }
        let name = ROWS.get(&("short", name)).copied().unwrap_or(name);
        Self::Of(name, split(inner).into_iter().map(Self::parse).collect())
    }

    /// The type whose values a name denotes, which is a value too.
    pub(super) fn named(name: &str) -> Option<Self> {
        ROWS.get(&("type", name)).map(|ty| Self::parse(ty))
    }

    /// The type with its parameters replaced.
    fn mapped(&self, with: &mut impl FnMut(&Self) -> Self) -> Self {
        match self {
            Self::Of(name, parameters) => Self::Of(name, parameters.iter().map(with).collect()),
            Self::Keyed(item) => Self::Keyed(Box::new(with(item))),
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

    /// The type with `dyn` for objects and types of libraries.
    pub(super) fn without_objects(&self) -> Self {
        match self.parts() {
            Some(("bool" | "int" | "double" | "string" | "bytes" | "timestamp" | "duration", _)) => {
                self.clone()
            }
            Some(("list", [item])) => Self::list(item.without_objects()),
            Some(("map", [key, value])) if key.is("string") => {
                Self::map(key.clone(), value.without_objects())
            }
            _ => Self::DYN,
        }
    }

    pub(super) fn is_dyn(&self) -> bool {
        self.is("dyn") || self.is("!error!")
    }

    /// The type of the value of an optional, and whether it is an optional.
    pub(super) fn unwrapped(self) -> (Self, bool) {
        match self.parts() {
            Some(("optional_type", [value])) => (value.clone(), true),
            _ => (self, false),
        }
    }

    fn is_nullable(&self) -> bool {
        match self.parts() {
            // The names of types of libraries have dots.
            Some((name, _)) => {
                matches!(name, "null" | "optional_type" | "timestamp" | "duration") || name.contains('.')
            }
            None => !matches!(self, Self::Param(_)),
        }
    }

    /// Whether a value has a size that is known from its type.
    pub(super) fn is_scalar(&self) -> bool {
        match self.parts() {
            Some(("optional_type", [value])) => value.is_scalar(),
            Some((name, _)) => matches!(
                name,
                "bool" | "double" | "duration" | "int" | "timestamp" | "uint"
            ),
            None => false,
        }
    }

    /// The type of a field of an object; `None` if it has none of this name.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        match self {
            Self::Object(declared) => declared.field(name).map(Self::of),
            Self::Struct(_, fields) => fields.get(name).cloned(),
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
            Ty::Param(index) => self.0.get(index).map_or(Ty::DYN, |known| self.concrete(known)),
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
        self.assign_all(slice::from_ref(from), slice::from_ref(to))
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
        if one.is("null") || other.is("null") {
            return one.is_nullable() && other.is_nullable();
        }
        are_alike(one, other, |one, other| self.assigns(one, other))
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

/// Whether two types are equal but for their parameters, which agree.
fn are_alike<'a>(one: &Ty<'a>, other: &Ty<'a>, mut agree: impl FnMut(&Ty<'a>, &Ty<'a>) -> bool) -> bool {
    match (one.parts(), other.parts()) {
        (Some(("type", _)), Some(("type", _))) => true,
        (Some((name, parameters)), Some((known, others))) => {
            name == known
                && parameters
                    .iter()
                    .zip(others)
                    .all(|(one, other)| agree(one, other))
        }
        _ => one == other,
    }
}

/// The more general of two types that agree.
pub(super) fn most_general<'t, 'a>(one: &'t Ty<'a>, other: &'t Ty<'a>) -> &'t Ty<'a> {
    if is_at_least(one, other) { one } else { other }
}

fn is_at_least(one: &Ty<'_>, other: &Ty<'_>) -> bool {
    let is_open = |ty: &Ty<'_>| ty.is("dyn") || matches!(ty, Ty::Param(_));
    is_open(one) || !is_open(other) && are_alike(one, other, is_at_least)
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
    let mut depth = 0_usize;
    let parts = operands.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.filter(|part| !part.is_empty()).collect()
}

const TABLE: &str = include_str!("functions.txt");

/// The rows of the table that are not functions, by their first two words.
static ROWS: LazyLock<BTreeMap<(&str, &str), &str>> = LazyLock::new(|| {
    let rows = TABLE.lines().filter(|line| line.starts_with(char::is_alphabetic));
    let rows = rows.filter_map(|line| line.split_once(' '));
    let rows = rows.filter_map(|(kind, row)| Some((kind, row.split_once(' ')?)));
    rows.map(|(kind, (name, row))| ((kind, name), row)).collect()
});

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
    for (name, overload) in TABLE.lines().filter_map(Overload::parse) {
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
    use super::{FUNCTIONS, Overload, TABLE};

    #[test]
    fn every_line_of_the_table_is_read() {
        let is_row = |line: &&str| line.starts_with(char::is_numeric);
        for line in TABLE.lines().filter(is_row) {
            assert!(Overload::parse(line).is_some(), "{line}");
        }
        assert!(!FUNCTIONS.is_empty());
    }
}
