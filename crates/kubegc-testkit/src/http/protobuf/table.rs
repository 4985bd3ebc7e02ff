//! The messages of the built-in kinds, read from a table on first use.
//!
//! `protobuf_table` of `kubegc-conformance` makes the table, which describes its own grammar.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, OnceLock},
};

const TABLE: &str = include_str!("messages.txt");

/// The table, split into messages whose fields are parsed on first use.
pub(super) static MESSAGES: LazyLock<Messages> = LazyLock::new(Messages::index);

#[derive(Default)]
pub(super) struct Messages {
    /// By group and version.
    packages: BTreeMap<&'static str, &'static str>,
    /// By package and name.
    pub(super) by_name: BTreeMap<&'static str, BTreeMap<&'static str, Message>>,
}

pub(super) struct Message {
    package: &'static str,
    pub(super) name: &'static str,
    text: &'static str,
    fields: OnceLock<Vec<Field>>,
}

pub(super) struct Field {
    pub(super) number: u32,
    /// Its name in JSON; empty for an embedded message, whose fields JSON shows in place of it.
    pub(super) name: &'static str,
    pub(super) ty: Type,
    pub(super) shape: Shape,
    /// Whether its zero value differs from none.
    pub(super) is_pointer: bool,
    /// Whether JSON shows it even where it is empty.
    pub(super) is_written: bool,
    /// Whether newer releases do not have it.
    pub(super) is_removed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    Map,
}

/// The type of a value, or of the items of a list or map.
#[derive(Clone, Copy)]
pub(super) enum Type {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// A list of strings in a message of its own.
    Strings,
    /// Any JSON in a message of its own.
    Json,
    Message(&'static Message),
}

impl Messages {
    fn index() -> Self {
        let mut index = Self::default();
        let mut package = "";
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            if let Some(name) = first.strip_prefix('@') {
                package = name;
                index.packages.insert(rest, name);
            } else {
                let message = Message {
                    package,
                    name: first,
                    text: rest,
                    fields: OnceLock::new(),
                };
                index.by_name.entry(package).or_default().insert(first, message);
            }
        }
        index
    }
}

impl Message {
    /// The message of a kind. Kinds of `meta.k8s.io/v1`, such as `DeleteOptions`, belong to every group.
    pub(super) fn of(api_version: &str, kind: &str) -> Option<&'static Self> {
        const OF_EVERY_GROUP: &str = "meta.v1";
        let package = match api_version {
            // Some discovery documents have none.
            "" => OF_EVERY_GROUP,
            _ => MESSAGES.packages.get(api_version).copied()?,
        };
        Self::named(package, kind).or_else(|| Self::named(OF_EVERY_GROUP, kind))
    }

    fn named(package: &str, name: &str) -> Option<&'static Self> {
        MESSAGES.by_name.get(package)?.get(name)
    }

    /// The fields, by their numbers.
    pub(super) fn fields(&'static self) -> &'static [Field] {
        self.fields.get_or_init(|| {
            let mut last = 0;
            let words = self.text.split(' ').filter(|word| !word.is_empty());
            words
                .filter_map(|word| {
                    let field = Field::read(word, last + 1, self.package)?;
                    last = field.number;
                    Some(field)
                })
                .collect()
        })
    }

    pub(super) fn field(&'static self, number: u32) -> Option<&'static Field> {
        let fields = self.fields();
        let at = fields.binary_search_by_key(&number, |field| field.number).ok()?;
        fields.get(at)
    }

    /// Whether JSON shows one of the fields in place of the message: a schema, a list, a boolean.
    pub(super) fn is_choice(&self) -> bool {
        self.name.starts_with("JSONSchemaPropsOr")
    }
}

impl Field {
    /// The text of a problem with its value.
    pub(super) fn problem(&self, message: &Message, why: &str) -> String {
        format!("{}.{}: {why}", message.name, self.name)
    }

    /// `None` for a type that the table does not have: none, by its test.
    fn read(word: &'static str, number: u32, package: &str) -> Option<Self> {
        let (name, ty) = word.split_once(':')?;
        let (ty, number) = match ty.split_once('@') {
            Some((ty, number)) => (ty, number.parse().ok()?),
            None => (ty, number),
        };
        let (ty, is_removed) = ty.strip_suffix('-').map_or((ty, false), |ty| (ty, true));
        let (ty, is_written) = ty.strip_suffix('!').map_or((ty, false), |ty| (ty, true));
        let (ty, is_pointer) = ty.strip_prefix('*').map_or((ty, false), |ty| (ty, true));
        let (ty, shape) = match ty.as_bytes().first()? {
            b'[' => (ty.strip_prefix('[')?.strip_suffix(']')?, Shape::List),
            b'{' => (ty.strip_prefix('{')?.strip_suffix('}')?, Shape::Map),
            _ => (ty, Shape::One),
        };
        Some(Self {
            number,
            name,
            ty: Type::read(ty, package)?,
            shape,
            is_pointer,
            is_written,
            is_removed,
        })
    }
}

impl Type {
    fn read(ty: &str, package: &str) -> Option<Self> {
        Some(match ty {
            "s" => Self::String,
            "b" => Self::Bool,
            "i" => Self::Int32,
            "l" => Self::Int64,
            "f" => Self::Double,
            "y" => Self::Bytes,
            "q" => Self::Quantity,
            "o" => Self::IntOrString,
            "t" => Self::Time,
            "u" => Self::MicroTime,
            "n" => Self::Strings,
            "a" => Self::Json,
            name => {
                let (package, name) = name.rsplit_once('.').unwrap_or((package, name));
                Self::Message(Message::named(package, name)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_in_the_table_and_numbers_increase() {
        let messages = || MESSAGES.by_name.values().flat_map(BTreeMap::values);
        assert!(messages().count() > 1000);
        for message in messages() {
            let words = message.text.split(' ').filter(|word| !word.is_empty());
            let (fields, name) = (message.fields(), message.name);
            assert_eq!(fields.len(), words.count(), "{name}");
            assert!(fields.is_sorted_by(|a, b| a.number < b.number), "{name}");
            for field in fields.iter().filter(|field| field.name.is_empty()) {
                assert!(matches!(field.ty, Type::Message(_)), "{name}");
            }
        }
    }
}
