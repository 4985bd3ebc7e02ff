//! One object of a document: the fields that the fast path reads, borrowed from the text.
//!
//! Fields are read as [`Soft`], so values of wrong types are no errors. Duplicate keys are: then the text is
//! parsed into a [`tree`](crate::tree), which keeps the last value.

use std::fmt;

use kubegc_core::json::{Any, DUPLICATE, MetaFields, Soft, Text, WrongType};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};

use crate::{
    ObjectName,
    body::{Annotations, Kept, Raw},
    details,
};

/// `metadata`, as far as it is kept.
pub type Meta<'a> = MetaFields<'a, Annotations<'a>>;

#[derive(Debug, Default)]
pub struct Item<'a> {
    pub api_version: Soft<Text<'a>>,
    pub kind: Soft<Text<'a>>,
    pub meta: Soft<Meta<'a>>,
    /// The fields other than the typed ones.
    pub body: Raw<'a>,
    /// Whether a part of the body was read or skipped because of the assumed kind.
    pub depends_on_hint: bool,
    /// Whether it has a field `items`: the object is then a list, or a kind of its own with such a field.
    pub has_items: bool,
}

impl Item<'_> {
    pub fn kind_str(&self) -> &str {
        self.kind.as_str()
    }

    pub fn api_version_str(&self) -> &str {
        self.api_version.as_str()
    }

    pub fn name(&self) -> Option<ObjectName> {
        let meta = self.meta.get()?;
        let name = ObjectName {
            api_version: self.api_version_str().into(),
            kind: self.kind_str().into(),
            namespace: meta.namespace.as_str().into(),
            name: meta.name.as_str().into(),
        };
        (!name.name.is_empty()).then_some(name)
    }

    /// `Kind namespace/name`, if the name is known.
    pub fn short_name(&self) -> Option<Box<str>> {
        self.name().map(|name| name.to_string().into())
    }

    /// The part of a field that the body retains, as far as the kind is known by now.
    fn kept(&mut self, field: &str, hint: Option<(&str, &str)>) -> Option<Kept> {
        let (api_version, kind) = self.assumed_type(hint);
        let may_read = details::may_read(api_version, kind, field);
        self.depends_on_hint |= hint.is_some() && self.has_no_type();
        Kept::of(field).filter(|_| may_read)
    }

    /// Whether parts of it were read as those of an assumed kind, and it has a kind of its own.
    pub(crate) fn is_misled(&self) -> bool {
        self.depends_on_hint && !self.kind_str().is_empty()
    }

    fn has_no_type(&self) -> bool {
        self.api_version_str().is_empty() && self.kind_str().is_empty()
    }

    /// The apiVersion and the kind that were read so far; those of the hint if neither was.
    fn assumed_type<'i>(&'i self, hint: Option<(&'i str, &'i str)>) -> (&'i str, &'i str) {
        let hint = hint.filter(|_| self.has_no_type());
        hint.unwrap_or_else(|| (self.api_version_str(), self.kind_str()))
    }

    /// Makes the annotations a part of the body.
    fn take_annotations(&mut self) {
        let Soft::Is(meta) = &mut self.meta else { return };
        let Annotations(annotations) = std::mem::take(&mut meta.annotations);
        let is_empty = match &annotations {
            Raw::Null => true,
            Raw::Map(kept) => kept.is_empty(),
            _ => false,
        };
        if !is_empty {
            let metadata = Raw::Map(vec![Raw::entry("annotations", annotations)]);
            self.body.put(Text("metadata".into()), metadata);
        }
    }

    /// The typed fields whose values have wrong types.
    pub fn wrong(&self) -> Vec<WrongType> {
        let mut wrong = self.meta.get().map_or_else(Vec::new, MetaFields::wrong);
        wrong.extend(WrongType::of(&self.api_version, "apiVersion"));
        wrong.extend(WrongType::of(&self.kind, "kind"));
        wrong.extend(WrongType::of(&self.meta, "metadata"));
        wrong
    }

    pub fn is_without_identity(&self) -> bool {
        self.meta.is_absent() && self.kind.is_absent() && self.api_version.is_absent()
    }

    pub fn is_list_kind(&self) -> bool {
        self.has_items && self.kind_str().ends_with("List")
    }

    pub fn is_of_the_api(&self) -> bool {
        !self.kind_str().is_empty() && !self.api_version_str().is_empty()
    }
}

/// Reads an object into an item. The item keeps the fields before the end of a truncated text, so that the
/// error can name the object.
pub struct ItemSeed<'s, 'a> {
    pub item: &'s mut Item<'a>,
    /// The assumed apiVersion and kind of an object that has none.
    pub hint: Option<(&'s str, &'s str)>,
}

impl<'de> Visitor<'de> for ItemSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { item, hint } = self;
        let mut seen: Vec<Text<'de>> = Vec::new();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let is_typed = matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "items");
            if !is_typed && Kept::of(key.as_str()).is_none() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if seen.contains(&key) {
                // The tree has the last one, and the key is reported.
                return Err(de::Error::custom(DUPLICATE));
            }
            seen.push(key.clone());
            match key.as_str() {
                "apiVersion" => item.api_version = map.next_value()?,
                "kind" => item.kind = map.next_value()?,
                "metadata" => item.meta = map.next_value()?,
                "items" => {
                    item.has_items = true;
                    map.next_value::<IgnoredAny>()?;
                }
                field => match item.kept(field, hint) {
                    Some(kept) => item.body.put(key, map.next_value_seed(Any(kept))?),
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
            }
        }
        item.take_annotations();
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for ItemSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Deserialize<'de> for Item<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut item = Self::default();
        let seed = ItemSeed {
            item: &mut item,
            hint: None,
        };
        seed.deserialize(deserializer)?;
        Ok(item)
    }
}

/// The fields of a list other than its items.
#[derive(Debug, Default)]
pub struct ListHead {
    pub api_version: String,
    pub kind: String,
    pub resource_version: String,
    pub continues: bool,
    pub remaining: Option<u64>,
    /// Whether the metadata has a name or a uid, which lists never have.
    pub is_named: bool,
}
