//! How facts are read from an object, and how they are written as an object again.
//!
//! A table with [`facts!`] declares where the facts of a kind are: the part of the object, the field in it,
//! and how its value is read and written. Kinds with facts that depend on several fields implement [`Facts`]
//! themselves.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{LabelRequirement, LabelSelector, Timestamp, Uid, json::JsonType, record::Field};
use serde_json::{Map, Value, json};

use super::reading::{At, Reading, Unreadable};

pub(crate) type Object = Map<String, Value>;

pub(super) trait Facts: Sized {
    fn read(reading: &mut Reading<'_>, object: At<'_, '_>) -> Self;

    /// The fields that the same facts are read from. An unread fact becomes a value of a wrong type.
    fn write(&self) -> Object;
}

/// A value that one field of an object has.
pub(super) trait Fact: Sized {
    const TYPE: JsonType;

    /// The fields of a map, if its facts are a table.
    const FIELDS: &[&str] = &[];

    /// Reads the value. An absent one has Go's zero value.
    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable>;

    /// The value of the field; null if it is absent.
    fn write(&self) -> Value;

    /// A value that is never read.
    fn unread() -> Value {
        match Self::TYPE {
            JsonType::Boolean => 0.into(),
            _ => false.into(),
        }
    }
}

/// A way to read a value from a field, and to write it: as it is, unless it says otherwise.
pub(super) trait Codec<T: Fact> {
    fn read(&self, reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<T, Unreadable> {
        T::read(reading, at)
    }

    /// The value of the field; null if it is absent.
    fn write(&self, value: &T) -> Value {
        value.write()
    }

    /// A value that is never read.
    fn unread(&self) -> Value {
        T::unread()
    }
}

/// Declares the facts of kinds: of each part of an object, the facts with their field and its [`Codec`].
///
/// A part is `spec`, `status`, `metadata`, or `object` for the whole object. The field `""` is the part
/// itself.
macro_rules! facts {
    ($($kind:ident { $($part:ident { $($fact:ident: $field:literal => $codec:expr,)* })* })*) => {
        $(
            impl Facts for $kind {
                fn read(reading: &mut Reading<'_>, object: At<'_, '_>) -> Self {
                    $(let $part = reading.part(&object, stringify!($part));)*
                    Self {
                        $($($fact: reading.fact($part, $field, &$codec),)*)*
                    }
                }

                fn write(&self) -> Object {
                    use crate::details::facts::{put, put_part, written};
                    let mut object = Object::new();
                    $(
                        let mut part = Object::new();
                        $(put(&mut part, $field, written(&$codec, &self.$fact));)*
                        put_part(&mut object, stringify!($part), part);
                    )*
                    object
                }
            }
        )*
    };
}

/// Reads the fields of a struct. Each that cannot be read is a flaw.
macro_rules! all {
    ($type:ident { $($fact:ident: $read:expr,)* }) => {{
        $(let $fact = $read;)*
        Ok($type { $($fact: $fact?,)* })
    }};
}

/// Declares a part of facts that is a map: its fields by their names in the API, each with its [`Codec`].
macro_rules! map_of_facts {
    ($($name:ident { $($fact:ident: $field:expr => $codec:expr,)* })*) => {
        $(
            impl Fact for $name {
                const TYPE: JsonType = JsonType::Map;
                const FIELDS: &[&str] = &[$($field,)*];

                fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
                    use crate::details::facts::Codec;
                    reading.map(at)?;
                    all!(Self { $($fact: Codec::read(&$codec, reading, at.field($field)),)* })
                }

                fn write(&self) -> Value {
                    use crate::details::facts::{Codec, object};
                    object([$(($field, Codec::write(&$codec, &self.$fact)),)*]).into()
                }
            }
        )*
    };
}

impl Reading<'_> {
    /// A fact of a field of a part, or of the whole part if the name is empty.
    pub(super) fn fact<T: Fact>(
        &mut self,
        part: Option<At<'_, '_>>,
        field: &str,
        codec: &impl Codec<T>,
    ) -> Field<T> {
        self.field(part, |reading, part| match field {
            "" => codec.read(reading, part),
            field => codec.read(reading, part.field(field)),
        })
    }
}

/// A map of the fields that are not null.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Object {
    let present = fields.into_iter().filter(|(_, value)| !value.is_null());
    present.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Adds a field to a part. Without a name, the value is a map of fields.
pub(super) fn put(part: &mut Object, field: &str, value: Value) {
    match (field, value) {
        (_, Value::Null) => {}
        ("", Value::Object(fields)) => part.extend(fields),
        (field, value) => {
            part.insert(field.to_owned(), value);
        }
    }
}

pub(super) fn put_part(object: &mut Object, name: &str, part: Object) {
    match name {
        "object" => object.extend(part),
        "metadata" if part.is_empty() => {}
        _ => {
            object.insert(name.to_owned(), part.into());
        }
    }
}

pub(super) fn written<T: Fact>(codec: &impl Codec<T>, fact: &Field<T>) -> Value {
    match fact.known() {
        Some(value) => codec.write(value),
        None => codec.unread(),
    }
}

/// A map with the fields of a fact in place of its own. Other fields stay.
pub(super) fn with_fields<F: Fact>(map: &Value, fact: &F) -> Object {
    let mut map = map.as_object().cloned().unwrap_or_default();
    map.retain(|field, _| !F::FIELDS.contains(&&**field));
    if let Value::Object(fields) = fact.write() {
        map.extend(fields);
    }
    map
}

/// A value other than an empty text or list.
pub(super) fn unless_empty(value: Value) -> Value {
    let is_empty = match &value {
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        _ => false,
    };
    if is_empty { Value::Null } else { value }
}

/// Declares facts that are one value of JSON: how they are read and written.
macro_rules! values {
    ($($fact:ty: $of:ident, $read:expr, $write:expr;)*) => {
        $(
            impl Fact for $fact {
                const TYPE: JsonType = JsonType::$of;

                fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
                    let read: fn(&mut Reading<'_>, At<'_, '_>) -> Result<Self, Unreadable> = $read;
                    read(reading, at)
                }

                fn write(&self) -> Value {
                    let write: fn(&Self) -> Value = $write;
                    write(self)
                }
            }
        )*
    };
}

values! {
    bool: Boolean, |reading, at| Ok(reading.flag(at)?.unwrap_or_default()), |is| is.then_some(true).into();
    i32: Number, |reading, at| Ok(reading.number(at)?.unwrap_or_default()), |number| (*number).into();
    i64: Number, |reading, at| Ok(reading.whole(at)?.unwrap_or_default()), |number| (*number).into();
    Arc<str>: String, |reading, at| reading.text_or_empty(at), |text| (&**text).into();
    Uid: String, |reading, at| Ok(Self::new(reading.str(at)?.unwrap_or_default())), |uid| uid.to_string().into();
    Option<Timestamp>: String, |reading, at| reading.time(at), |time| time.map(|time| time.to_string()).into();
    BTreeMap<Arc<str>, Arc<str>>: Map, |reading, at| reading.labels(at), |labels| json!(labels);
}

impl<T: Fact> Fact for Option<T> {
    const TYPE: JsonType = T::TYPE;

    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        match at.is_absent() {
            true => Ok(None),
            false => T::read(reading, at).map(Some),
        }
    }

    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, Fact::write)
    }
}

impl<T: Fact> Fact for Vec<T> {
    const TYPE: JsonType = JsonType::List;

    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        reading.list(at, T::TYPE, T::read)
    }

    fn write(&self) -> Value {
        self.iter().map(Fact::write).collect()
    }
}

/// The value as it is.
pub(super) struct Plain;

impl<T: Fact> Codec<T> for Plain {}

/// A text or a list of which the empty one is not written.
pub(super) struct Filled;

impl<T: Fact> Codec<T> for Filled {
    fn write(&self, value: &T) -> Value {
        unless_empty(value.write())
    }
}

/// A number of which 0 is not written.
pub(super) struct UnlessZero;

impl<T: Fact> Codec<T> for UnlessZero {
    fn write(&self, value: &T) -> Value {
        Some(value.write()).filter(|value| value != 0).into()
    }
}

/// A time, written in whole seconds as Kubernetes writes `metav1.Time`.
pub(super) struct Seconds;

impl Codec<Option<Timestamp>> for Seconds {
    fn write(&self, value: &Option<Timestamp>) -> Value {
        value.map(Timestamp::truncate_to_secs).write()
    }
}

/// A number with this default.
pub(super) struct Or(pub(super) i32);

impl Codec<i32> for Or {
    fn read(&self, reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<i32, Unreadable> {
        Ok(reading.number(at)?.unwrap_or(self.0))
    }
}

/// Whether there is a map.
pub(super) struct Present;

impl Codec<bool> for Present {
    fn read(&self, reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<bool, Unreadable> {
        Ok(reading.map(at)?.is_some())
    }

    fn write(&self, value: &bool) -> Value {
        value.then(Object::new).into()
    }
}

/// Whether there is a text, with any content. It is written as this one.
pub(super) struct Set(pub(super) &'static str);

impl Codec<bool> for Set {
    fn read(&self, reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<bool, Unreadable> {
        Ok(reading.str(at)?.is_some())
    }

    fn write(&self, value: &bool) -> Value {
        value.then_some(self.0).into()
    }
}

/// A value that every object has: an absent one was stripped.
pub(super) struct Required;

impl<T: Fact + Default> Codec<T> for Required {
    fn read(&self, reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<T, Unreadable> {
        match at.is_absent() {
            true => reading.stripped(),
            false => T::read(reading, at),
        }
    }
}

/// A value that a function reads.
pub(super) struct By<R>(pub(super) R);

impl<T: Fact, R: Fn(&mut Reading<'_>, At<'_, '_>) -> Result<T, Unreadable>> Codec<T> for By<R> {
    fn read(&self, reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<T, Unreadable> {
        (self.0)(reading, at)
    }
}

/// A value in this field of the map there.
pub(super) struct In<C>(pub(super) &'static str, pub(super) C);

impl<T: Fact, C: Codec<T>> Codec<T> for In<C> {
    fn read(&self, reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<T, Unreadable> {
        reading.map(at)?;
        self.1.read(reading, at.field(self.0))
    }

    fn write(&self, value: &T) -> Value {
        match self.1.write(value) {
            Value::Null => Value::Null,
            value => json!({ (self.0): value }),
        }
    }

    fn unread(&self) -> Value {
        json!({ (self.0): self.1.unread() })
    }
}

/// A list of maps with one value each.
pub(super) struct Each<C>(pub(super) C);

impl<T: Fact, C: Codec<T>> Codec<Vec<T>> for Each<C> {
    fn read(&self, reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Vec<T>, Unreadable> {
        reading.list(at, JsonType::Map, |reading, entry| self.0.read(reading, entry))
    }

    fn write(&self, value: &Vec<T>) -> Value {
        value.iter().map(|entry| self.0.write(entry)).collect()
    }
}

map_of_facts! {
    LabelSelector {
        match_labels: "matchLabels" => Plain,
        match_expressions: "matchExpressions" => Plain,
    }
}

impl Fact for LabelRequirement {
    const TYPE: JsonType = JsonType::Map;

    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        let key = reading.text_or_empty(at.field("key"))?;
        let values = reading.all_texts(at.field("values"))?;
        let operator = reading.text_or_empty(at.field("operator"))?;
        Self::new(key, &operator, values)
            .ok_or_else(|| reading.bad(at.field("operator"), "not an operator of label selectors"))
    }

    fn write(&self) -> Value {
        json!({ "key": self.key, "operator": self.operator(), "values": self.values })
    }
}
