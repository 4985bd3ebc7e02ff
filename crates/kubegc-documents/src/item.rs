//! One object of a document: the fields that the fast path reads, borrowed from the text.
//!
//! Fields are read as [`Soft`], so values of wrong types are no errors. Duplicate keys are: then the text is
//! parsed into a [`tree`](crate::tree), which keeps the last value.

use std::fmt;

use kubegc_core::json::{DUPLICATE, MetaFields, Soft, Text, WrongType};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::{
    ObjectName,
    body::{Annotations, Body, BodyMeta},
    details::{self, Part},
};

/// `metadata`, as far as it is kept.
pub type Meta<'a> = MetaFields<'a, Soft<Annotations<'a>>>;

/// One object.
#[derive(Debug, Default)]
pub struct Item<'a> {
    pub api_version: Soft<Text<'a>>,
    pub kind: Soft<Text<'a>>,
    pub meta: Soft<Meta<'a>>,
    pub body: Body<'a>,
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

    /// The name, if known.
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

    /// Whether a part of the body is read, as far as the kind is known by now.
    fn may_have(&mut self, part: Part, hint: Option<(&str, &str)>) -> bool {
        let (api_version, kind) = self.assumed_type(hint);
        let may_have = details::may_read(api_version, kind, part);
        self.depends_on_hint |= hint.is_some() && self.has_no_type();
        may_have
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
    pub fn take_annotations(&mut self) {
        if let Soft::Is(meta) = &mut self.meta
            && !meta.annotations.is_absent()
        {
            self.body.metadata = Soft::Is(BodyMeta {
                annotations: std::mem::take(&mut meta.annotations),
            });
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

    /// Whether the object has neither apiVersion, kind nor metadata.
    pub fn is_without_identity(&self) -> bool {
        self.meta.is_absent() && self.kind.is_absent() && self.api_version.is_absent()
    }

    /// Whether the object has the kind of a list.
    pub fn is_list_kind(&self) -> bool {
        self.has_items && self.kind_str().ends_with("List")
    }

    /// Whether the object has an apiVersion and a kind.
    pub fn is_of_the_api(&self) -> bool {
        !self.kind_str().is_empty() && !self.api_version_str().is_empty()
    }
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    ApiVersion,
    Kind,
    Metadata,
    Spec,
    Status,
    Type,
    Data,
    StringData,
    Secrets,
    Revision,
    Webhooks,
    Subsets,
    Endpoints,
    Items,
    #[serde(other)]
    Other,
}

impl Field {
    /// The part of the body that the field is.
    fn part(self) -> Option<Part> {
        match self {
            Self::Spec => Some(Part::Spec),
            Self::Status => Some(Part::Status),
            Self::Type => Some(Part::Type),
            Self::Data => Some(Part::Data),
            Self::StringData => Some(Part::StringData),
            Self::Secrets => Some(Part::Secrets),
            Self::Revision => Some(Part::Revision),
            Self::Webhooks => Some(Part::Webhooks),
            Self::Subsets => Some(Part::Subsets),
            Self::Endpoints => Some(Part::Endpoints),
            Self::ApiVersion | Self::Kind | Self::Metadata | Self::Items | Self::Other => None,
        }
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
        let mut seen = 0_u32;
        while let Some(field) = map.next_key::<Field>()? {
            let bit = 1 << field as u32;
            if seen & bit != 0 && field != Field::Other {
                // The tree has the last one, and the key is reported.
                return Err(de::Error::custom(DUPLICATE));
            }
            seen |= bit;
            let part = field.part().filter(|&part| item.may_have(part, hint));
            match (field, part) {
                (Field::ApiVersion, _) => item.api_version = map.next_value()?,
                (Field::Kind, _) => item.kind = map.next_value()?,
                (Field::Metadata, _) => item.meta = map.next_value()?,
                (_, Some(Part::Spec)) => item.body.spec = map.next_value()?,
                (_, Some(Part::Status)) => item.body.status = map.next_value()?,
                (_, Some(Part::Type)) => item.body.object_type = map.next_value()?,
                (_, Some(Part::Data)) => item.body.data = map.next_value()?,
                (_, Some(Part::StringData)) => item.body.string_data = map.next_value()?,
                (_, Some(Part::Secrets)) => item.body.secrets = map.next_value()?,
                (_, Some(Part::Revision)) => item.body.revision = map.next_value()?,
                (_, Some(Part::Webhooks)) => item.body.webhooks = map.next_value()?,
                (_, Some(Part::Subsets)) => item.body.subsets = map.next_value()?,
                (_, Some(Part::Endpoints)) => item.body.endpoints = map.next_value()?,
                (_, None) => {
                    item.has_items |= matches!(field, Field::Items);
                    map.next_value::<IgnoredAny>()?;
                }
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

/// A sequence of exactly one object: one entry of a YAML list in the text.
pub struct OnlyItem<'a>(pub Item<'a>);

struct OnlyItemVisitor;

impl<'de> Visitor<'de> for OnlyItemVisitor {
    type Value = OnlyItem<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one entry of a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OnlyItem<'de>, A::Error> {
        let item = seq
            .next_element()?
            .ok_or_else(|| de::Error::invalid_length(0, &"one entry"))?;
        match seq.next_element::<IgnoredAny>()? {
            None => Ok(OnlyItem(item)),
            Some(_) => Err(de::Error::invalid_length(2, &"one entry")),
        }
    }
}

impl<'de> Deserialize<'de> for OnlyItem<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(OnlyItemVisitor)
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
