//! The types of built-in kinds, read from a table on first use.
//!
//! # Upstream
//! The structs of [`k8s.io/api`](https://github.com/kubernetes/api), releases 1.13 to 1.37; the table
//! describes its own grammar.

use std::sync::{LazyLock, OnceLock};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kubegc_core::{ApiResource, KubernetesVersion};
use serde_json::{Map, Value};

const TABLE: &str = include_str!("schema.txt");
/// Most references and selectors are atomic since this minor version (kubernetes #97989, #100684).
const STRUCTS_ARE_ATOMIC_SINCE: u32 = 22;

/// The table, split into structs that are parsed on first use.
static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::index);

struct Schema {
    structs: Vec<Entry>,
    by_name: HashMap<&'static str, StructId, FixedState>,
    /// By group and version, then kind.
    kinds: HashMap<(&'static str, &'static str), StructId, FixedState>,
}

struct Entry {
    name: &'static str,
    fields: &'static str,
    /// The first minor version in which it is atomic in server-side apply.
    atomic_since: u32,
    /// Sorted by name.
    parsed: OnceLock<Vec<Field>>,
}

/// The position of a struct in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StructId(u16);

/// One field of a struct.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in JSON.
    pub(crate) name: &'static str,
    /// Its position in the struct.
    pub(crate) position: usize,
    pub(crate) ty: Type,
    /// Whether it is omitted when empty.
    pub(crate) omit_empty: bool,
    /// The minor versions with this field.
    since: u32,
    until: u32,
    /// The first minor version whose types have this field, if it is off by default there.
    exists_since: u32,
    /// The patch strategy of the list in strategic merge patches.
    pub(crate) patch: PatchStrategy,
    /// The list type in server-side apply.
    pub(crate) list: ListKind<'static>,
    /// Whether the value is atomic in server-side apply.
    pub(crate) is_atomic: bool,
    /// The first minor version in which the value is granular although its struct is atomic.
    pub(crate) granular_since: u32,
    /// The server's default for an empty field.
    pub(crate) default: Option<Value>,
}

/// The patch strategy of a list in strategic merge patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchStrategy {
    Replace,
    Set,
    Merge(&'static str),
}

/// The list type in server-side apply: the identity of the items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind<'a> {
    /// Items have no identity: the list is atomic.
    Atomic,
    /// The value of the item.
    Set,
    /// The values of these keys.
    Map(Vec<&'a str>),
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    Quantity,
    IntOrString,
    Bytes,
    Time,
    MicroTime,
    Duration,
    /// Any value, retained unchanged.
    Any,
    Struct(StructId),
    Pointer(Box<Self>),
    List(Box<Self>),
    Map(Box<Self>),
    /// The first type for an object or null, the second one for any other value.
    Either(Box<Self>, Box<Self>),
}

impl Schema {
    fn index() -> Self {
        let mut schema = Self {
            structs: Vec::new(),
            by_name: HashMap::default(),
            kinds: HashMap::default(),
        };
        let mut kinds = Vec::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            if let Some(line) = line.strip_prefix('@') {
                let mut words = line.split(' ');
                let group_version = words.next().unwrap_or_default();
                kinds.extend(words.map(|word| {
                    let (kind, name) = word.split_once('=').unwrap_or((word, word));
                    (group_version, kind, name)
                }));
                continue;
            }
            let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
            let (name, atomic_since) = match name.split_once('$') {
                Some((name, since)) => (name, since.parse().unwrap_or(STRUCTS_ARE_ATOMIC_SINCE)),
                None => (name, u32::MAX),
            };
            // The table has less than a thousand structs.
            let id = StructId(schema.structs.len() as u16);
            schema.by_name.insert(name, id);
            schema.structs.push(Entry {
                name,
                fields,
                atomic_since,
                parsed: OnceLock::new(),
            });
        }
        for (group_version, kind, name) in kinds {
            if let Some(&id) = schema.by_name.get(name) {
                schema.kinds.insert((group_version, kind), id);
            }
        }
        schema
    }
}

impl StructId {
    /// The struct of a kind, if the table has it.
    pub(crate) fn of(resource: &ApiResource) -> Option<Self> {
        if resource.custom {
            return None;
        }
        let group_version = resource.api_version();
        let kinds = &SCHEMA.kinds;
        kinds.get(&(group_version.as_str(), &*resource.kind)).copied()
    }

    /// The struct of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        SCHEMA.by_name.get(name).copied()
    }

    /// The Go name of the struct, with group and version where several have that name.
    pub(crate) fn name(self) -> &'static str {
        self.entry().name
    }

    /// Whether it is atomic in server-side apply.
    pub(crate) fn is_atomic(self, version: KubernetesVersion) -> bool {
        u32::from(version.minor()) >= self.entry().atomic_since
    }

    pub(crate) fn fields(self) -> &'static [Field] {
        let entry = self.entry();
        entry.parsed.get_or_init(|| {
            let words = entry.fields.split(' ').enumerate();
            let fields = words.filter_map(|(position, text)| parse_field(position, text));
            let mut fields: Vec<Field> = fields.collect();
            fields.sort_by_key(|field| field.name);
            fields
        })
    }

    /// The field of this name, in any version.
    pub(crate) fn field(self, name: &str) -> Option<&'static Field> {
        let fields = self.fields();
        let at = fields.binary_search_by_key(&name, |field| field.name).ok()?;
        fields.get(at)
    }

    fn entry(self) -> &'static Entry {
        &SCHEMA.structs[usize::from(self.0)]
    }
}

impl Field {
    /// Whether a release has the field by default.
    pub(crate) fn is_in(&self, version: KubernetesVersion) -> bool {
        (self.since..=self.until).contains(&u32::from(version.minor()))
    }

    /// Whether the types of a release have the field, by default or behind a feature gate.
    pub(crate) fn exists_in(&self, version: KubernetesVersion) -> bool {
        (self.since.min(self.exists_since)..=self.until).contains(&u32::from(version.minor()))
    }
}

impl Type {
    /// The type behind pointers, and the type of objects where other values are possible.
    pub(crate) fn target(&self) -> &Self {
        match self {
            Self::Pointer(target) | Self::Either(target, _) => target.target(),
            other => other,
        }
    }

    /// The struct that this type is, points to, or contains.
    pub(crate) fn structure(&self) -> Option<StructId> {
        match self {
            Self::Struct(id) => Some(*id),
            Self::Pointer(inner) | Self::List(inner) | Self::Map(inner) => inner.structure(),
            _ => None,
        }
    }

    /// Visits the structs that a value of this type is or contains. Depth is bounded by that of the type.
    pub(super) fn each_struct(
        &self,
        value: &mut Value,
        visit: &mut dyn FnMut(&mut Map<String, Value>, StructId),
    ) {
        match (self, value) {
            (Self::Pointer(inner), value) => inner.each_struct(value, visit),
            (Self::Struct(id), Value::Object(object)) => visit(object, *id),
            (Self::List(item), Value::Array(items)) => {
                items.iter_mut().for_each(|value| item.each_struct(value, visit));
            }
            (Self::Map(of), Value::Object(entries)) => {
                entries
                    .values_mut()
                    .for_each(|value| of.each_struct(value, visit));
            }
            _ => {}
        }
    }
}

fn parse_field(position: usize, text: &'static str) -> Option<Field> {
    let (name, rest) = text.split_once(':')?;
    let (ty, mut rest) = parse_type(rest)?;
    let mut field = Field {
        name,
        position,
        ty,
        omit_empty: true,
        since: 0,
        until: u32::MAX,
        exists_since: u32::MAX,
        patch: PatchStrategy::Replace,
        list: ListKind::Atomic,
        is_atomic: false,
        granular_since: u32::MAX,
        default: None,
    };
    while let Some(flag) = rest.chars().next() {
        rest = &rest[1..];
        if flag == '=' {
            field.default = serde_json::from_str(rest).ok();
            break;
        }
        let end = rest
            .find(['!', '^', '~', '%', '$', '&', '>', '<', '?', '='])
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        match flag {
            '!' => field.omit_empty = false,
            // Only clients that make patches need to know.
            '^' => {}
            '~' if word.is_empty() => {
                field.patch = PatchStrategy::Set;
                field.list = ListKind::Set;
            }
            '~' => {
                field.patch = PatchStrategy::Merge(word);
                field.list = ListKind::Map(vec![word]);
            }
            '%' if word.is_empty() => field.list = ListKind::Set,
            '%' => field.list = ListKind::Map(word.split(',').collect()),
            '$' => {
                field.is_atomic = true;
                field.list = ListKind::Atomic;
            }
            '&' => field.granular_since = word.parse().ok()?,
            '>' => field.since = word.parse().ok()?,
            '?' => field.exists_since = word.parse().ok()?,
            '<' => field.until = word.parse().ok()?,
            _ => return None,
        }
    }
    if !matches!(field.ty, Type::List(_)) {
        field.list = ListKind::Atomic;
        field.patch = PatchStrategy::Replace;
    }
    Some(field)
}

/// Reads a type; returns it and the rest of the text.
fn parse_type(text: &'static str) -> Option<(Type, &'static str)> {
    let (ty, rest) = parse_single_type(text)?;
    match rest.strip_prefix('|') {
        Some(other) => {
            let (other, rest) = parse_type(other)?;
            Some((Type::Either(Box::new(ty), Box::new(other)), rest))
        }
        None => Some((ty, rest)),
    }
}

fn parse_single_type(text: &'static str) -> Option<(Type, &'static str)> {
    let first = text.chars().next()?;
    let rest = &text[first.len_utf8()..];
    let closed = |rest: &'static str, end: char| {
        let (inner, rest) = parse_type(rest)?;
        Some((Box::new(inner), rest.strip_prefix(end)?))
    };
    Some(match first {
        '*' => {
            let (inner, rest) = parse_type(rest)?;
            (Type::Pointer(Box::new(inner)), rest)
        }
        '[' => {
            let (inner, rest) = closed(rest, ']')?;
            (Type::List(inner), rest)
        }
        '{' => {
            let (inner, rest) = closed(rest, '}')?;
            (Type::Map(inner), rest)
        }
        's' => (Type::String, rest),
        'b' => (Type::Bool, rest),
        'i' => (Type::Int32, rest),
        'l' => (Type::Int64, rest),
        'f' => (Type::Double, rest),
        'q' => (Type::Quantity, rest),
        'o' => (Type::IntOrString, rest),
        'y' => (Type::Bytes, rest),
        't' => (Type::Time, rest),
        'u' => (Type::MicroTime, rest),
        'd' => (Type::Duration, rest),
        'a' => (Type::Any, rest),
        _ => {
            let end = text
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
                .unwrap_or(text.len());
            let (name, rest) = text.split_at(end);
            (Type::Struct(StructId::named(name)?), rest)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read_whole() {
        for (index, entry) in SCHEMA.structs.iter().enumerate() {
            let id = StructId(index as u16);
            let words = entry.fields.split(' ').filter(|word| !word.is_empty()).count();
            assert_eq!(id.fields().len(), words, "{}", entry.name);
        }
        let unknown = TABLE
            .lines()
            .filter_map(|line| line.strip_prefix('@'))
            .map(|line| line.split(' ').count() - 1);
        assert_eq!(unknown.sum::<usize>(), SCHEMA.kinds.len());
    }

    #[test]
    fn fields_carry_their_flags() {
        let containers = StructId::named("PodSpec").unwrap().field("containers").unwrap();
        assert!(!containers.omit_empty);
        assert_eq!(containers.patch, PatchStrategy::Merge("name"));
        let ports = StructId::named("ServiceSpec").unwrap().field("ports").unwrap();
        assert_eq!(ports.patch, PatchStrategy::Merge("port"));
        assert_eq!(ports.list, ListKind::Map(vec!["port", "protocol"]));
        let path = StructId::named("Container").unwrap();
        let path = path.field("terminationMessagePath").unwrap();
        assert_eq!(path.default, Some("/dev/termination-log".into()));
    }
}
