//! One object as it stands in a document: what the fast path takes out of it, borrowed from the text.
//!
//! The types are strict: any field of an unexpected type makes the whole object fail here, and [`crate::loose`] then reads
//! it again from a tree, field by field, to say what is wrong. Well-formed dumps never get there.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::ObjectName;

/// A text, borrowed where it stands verbatim in the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A map from text to text, in the order of the document.
#[derive(Debug, Default)]
pub(crate) struct Pairs<'a>(pub(crate) Vec<(Text<'a>, Text<'a>)>);

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
        let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(8).min(64));
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

/// `metadata`, as far as it is kept. Dates stay text until they are stored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta<'a> {
    #[serde(borrow)]
    pub(crate) namespace: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) uid: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) resource_version: Option<Text<'a>>,
    pub(crate) generation: Option<i64>,
    #[serde(borrow)]
    pub(crate) creation_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) deletion_timestamp: Option<Text<'a>>,
    pub(crate) deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    pub(crate) finalizers: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    pub(crate) owner_references: Option<Vec<Owner<'a>>>,
    #[serde(borrow)]
    pub(crate) labels: Option<Pairs<'a>>,
}

/// One owner reference.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner<'a> {
    #[serde(borrow)]
    pub(crate) api_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) uid: Option<Text<'a>>,
    pub(crate) controller: Option<bool>,
    pub(crate) block_owner_deletion: Option<bool>,
}

/// What is read of `spec`: the fields of all kinds that have [`crate::Details`].
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec<'a> {
    #[serde(borrow)]
    pub(crate) node_name: Option<Text<'a>>,
    pub(crate) termination_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    pub(crate) finalizers: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    pub(crate) group: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) scope: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) names: Option<Names<'a>>,
    #[serde(borrow)]
    pub(crate) version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) versions: Option<Vec<Version<'a>>>,
}

/// `spec.names` of a definition.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Names<'a> {
    #[serde(borrow)]
    pub(crate) plural: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) short_names: Option<Vec<Text<'a>>>,
}

/// One of `spec.versions` of a definition.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Version<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
    pub(crate) served: Option<bool>,
    pub(crate) storage: Option<bool>,
}

/// What is read of `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status<'a> {
    #[serde(borrow)]
    pub(crate) phase: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) stored_versions: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    pub(crate) conditions: Option<Vec<Condition<'a>>>,
}

/// One condition.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) status: Option<Text<'a>>,
}

/// One field that could not be taken as it stands.
#[derive(Debug)]
pub(crate) struct Flaw {
    /// Path from the object's root.
    pub(crate) field: String,
    /// What is wrong, as a phrase.
    pub(crate) problem: String,
}

/// One object.
#[derive(Debug, Default)]
pub(crate) struct Item<'a> {
    pub(crate) api_version: Option<Text<'a>>,
    pub(crate) kind: Option<Text<'a>>,
    pub(crate) meta: Option<Meta<'a>>,
    pub(crate) spec: Option<Spec<'a>>,
    pub(crate) status: Option<Status<'a>>,
    /// Whether there is a field `items`: the object is then a list, or a kind of its own with such a field.
    pub(crate) has_items: bool,
    /// What the loose reading found; empty on the fast path.
    pub(crate) flaws: Vec<Flaw>,
}

impl Item<'_> {
    pub(crate) fn kind_str(&self) -> &str {
        self.kind.as_ref().map_or("", Text::as_str)
    }

    pub(crate) fn api_version_str(&self) -> &str {
        self.api_version.as_ref().map_or("", Text::as_str)
    }

    /// `Kind namespace/name`, where the name is known.
    pub(crate) fn short_name(&self) -> Option<Box<str>> {
        let meta = self.meta.as_ref()?;
        let text =
            |text: &Option<Text<'_>>| text.as_ref().map_or_else(String::new, |text| text.0.to_string());
        let name = ObjectName {
            api_version: self.api_version_str().into(),
            kind: self.kind_str().into(),
            namespace: text(&meta.namespace).into(),
            name: text(&meta.name).into(),
        };
        (!name.name.is_empty()).then(|| name.to_string().into())
    }

    /// Whether the object says what it is.
    pub(crate) fn is_of_the_api(&self) -> bool {
        !self.kind_str().is_empty() && !self.api_version_str().is_empty()
    }
}

/// Whether `spec` and `status` of this kind hold facts that are kept. Unknown kinds may.
pub(crate) fn has_details(kind: &str) -> bool {
    matches!(kind, "" | "Pod" | "Namespace" | "CustomResourceDefinition")
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    ApiVersion,
    Kind,
    Metadata,
    Spec,
    Status,
    Items,
    #[serde(other)]
    Other,
}

/// Reads an object into an item that keeps what was read where the text breaks off, so that the error can name it.
pub(crate) struct ItemSeed<'s, 'a>(pub(crate) &'s mut Item<'a>);

impl<'de> Visitor<'de> for ItemSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let item = self.0;
        while let Some(field) = map.next_key()? {
            match field {
                Field::ApiVersion => item.api_version = map.next_value()?,
                Field::Kind => item.kind = map.next_value()?,
                Field::Metadata => item.meta = map.next_value()?,
                Field::Spec if has_details(item.kind_str()) => item.spec = map.next_value()?,
                Field::Status if has_details(item.kind_str()) => item.status = map.next_value()?,
                Field::Items => {
                    item.has_items = true;
                    map.next_value::<IgnoredAny>()?;
                }
                Field::Spec | Field::Status | Field::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
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
        ItemSeed(&mut item).deserialize(deserializer)?;
        Ok(item)
    }
}

/// A sequence of exactly one object: how one entry of a YAML list stands in the text.
pub(crate) struct OnlyItem<'a>(pub(crate) Item<'a>);

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

/// What a list says beside its items.
#[derive(Debug, Default)]
pub(crate) struct ListHead {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) resource_version: String,
    pub(crate) continues: bool,
    pub(crate) remaining: Option<u64>,
    /// Whether the metadata has a name or a uid, which lists never have.
    pub(crate) is_named: bool,
}
