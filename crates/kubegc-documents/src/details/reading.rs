//! Extracts values from the fields of an object, and reports unusable ones: everything that depends on them
//! is unknown.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_core::{Timestamp, json::JsonType, record::Field};

use crate::{body::Raw, texts::Texts};

/// Why a field of an object is not as the API server stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// Kind or name are missing.
    Unreadable,
    /// The object was stored and has no uid.
    NoUid,
    /// The field has the wrong type or form.
    BadField,
    /// A field that the API server always fills is missing.
    MissingField,
    /// An owner reference lacks a part that the API server demands.
    IncompleteOwner,
    /// A field is missing, and the value of a new object was assumed.
    Assumed,
}

/// A field that details miss or cannot use: the kind of the problem, the path, and the problem.
pub type DetailFlaw = (Flaw, String, String);

/// A value that cannot be read. It is named by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unreadable;

pub(super) type Found<T> = Result<Option<T>, Unreadable>;

/// A value of an object, and its path.
#[derive(Clone, Copy)]
pub(super) struct At<'p, 'a> {
    pub(super) value: &'p Raw<'a>,
    path: Path<'p>,
}

impl<'p, 'a> At<'p, 'a> {
    pub(super) const fn object(value: &'p Raw<'a>) -> Self {
        let path = Path {
            within: None,
            step: Step::Object,
        };
        Self { value, path }
    }

    /// A field of the map there, or an annotation.
    pub(super) fn field(&'p self, field: &'p str) -> Self {
        Self {
            value: self.value.get(field),
            path: self.path.then(Step::Field(field)),
        }
    }

    pub(super) const fn is_absent(&self) -> bool {
        self.value.is_null()
    }
}

/// The path of a value: a chain of names and list positions.
#[derive(Clone, Copy)]
struct Path<'p> {
    within: Option<&'p Self>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Object,
    Field(&'p str),
    Entry(usize),
    Key(&'p str),
}

impl<'p> Path<'p> {
    const fn then(&'p self, step: Step<'p>) -> Self {
        let within = match self.step {
            Step::Object => None,
            _ => Some(self),
        };
        Self { within, step }
    }
}

impl fmt::Display for Path<'_> {
    /// As deep as the code that made the path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(within) = self.within {
            within.fmt(f)?;
        }
        match self.step {
            Step::Object => Ok(()),
            // No field of the API has a slash: this is the key of an annotation.
            Step::Field(field) if field.contains('/') => write!(f, "[{field}]"),
            Step::Field(field) if self.within.is_some() => write!(f, ".{field}"),
            Step::Field(field) => f.write_str(field),
            Step::Entry(at) => write!(f, "[{at}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

pub(super) struct Reading<'r> {
    pub(super) texts: &'r mut Texts,
    pub(super) flaws: &'r mut Vec<DetailFlaw>,
    pub(super) origin: Origin,
    /// Whether all fields of `spec` are optional, so that an absent one was not stripped.
    pub(super) may_lack_spec: bool,
}

/// The source of an object. It determines the meaning of an absent field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The API server wrote it, and nothing was stripped: an absent field has Go's zero value.
    Whole,
    /// A dump. An absent field that the API server always fills was stripped.
    Dump,
    /// A manifest that was never stored: an absent field gets the API server's default.
    Manifest,
}

impl Reading<'_> {
    /// Names a value that cannot be read.
    pub(super) fn bad(&mut self, at: At<'_, '_>, problem: impl Into<String>) -> Unreadable {
        let flaw = (Flaw::BadField, at.path.to_string(), problem.into());
        self.flaws.push(flaw);
        Unreadable
    }

    /// Names a field that is not there and should be.
    pub(super) fn missing(&mut self, at: At<'_, '_>) {
        let flaw = (Flaw::MissingField, at.path.to_string(), "missing".to_owned());
        self.flaws.push(flaw);
    }

    /// Reports that a field is absent, and the value that is assumed.
    pub(super) fn assumed(&mut self, at: At<'_, '_>, value: &str) {
        let detail = format!("missing: {value} is assumed");
        self.flaws.push((Flaw::Assumed, at.path.to_string(), detail));
    }

    /// Names a value of a wrong type.
    pub(super) fn wrong(&mut self, at: At<'_, '_>, expected: &str) -> Unreadable {
        let found = at.value.json_type().name();
        self.bad(at, format!("expected {expected}, found {found}"))
    }

    pub(super) fn map<'p, 'a>(&mut self, at: At<'p, 'a>) -> Found<At<'p, 'a>> {
        match at.value {
            Raw::Null => Ok(None),
            Raw::Map(_) => Ok(Some(at)),
            _ => Err(self.wrong(at, "a map")),
        }
    }

    /// A text that is not shared.
    pub(super) fn str<'p>(&mut self, at: At<'p, '_>) -> Found<&'p str> {
        match at.value {
            Raw::Null => Ok(None),
            Raw::Text(text) => Ok(Some(text.as_str())),
            _ => Err(self.wrong(at, "a string")),
        }
    }

    /// A text, shared with all others like it.
    pub(super) fn text(&mut self, at: At<'_, '_>) -> Found<Arc<str>> {
        let text = self.str(at)?;
        Ok(text.map(|text| self.texts.share(text)))
    }

    /// A text; empty if absent, as in Go.
    pub(super) fn text_or_empty(&mut self, at: At<'_, '_>) -> Result<Arc<str>, Unreadable> {
        let text = self.str(at)?;
        Ok(self.texts.share(text.unwrap_or_default()))
    }

    /// A text; an empty one counts as absent, because Go does not distinguish the two.
    pub(super) fn text_unless_empty(&mut self, at: At<'_, '_>) -> Found<Arc<str>> {
        Ok(self.text(at)?.filter(|text| !text.is_empty()))
    }

    pub(super) fn flag(&mut self, at: At<'_, '_>) -> Found<bool> {
        match at.value {
            Raw::Null => Ok(None),
            Raw::Flag(flag) => Ok(Some(*flag)),
            _ => Err(self.wrong(at, "true or false")),
        }
    }

    pub(super) fn whole(&mut self, at: At<'_, '_>) -> Found<i64> {
        match at.value {
            Raw::Null => Ok(None),
            Raw::Number(number) => Ok(Some(*number)),
            _ => Err(self.wrong(at, "a whole number")),
        }
    }

    pub(super) fn number(&mut self, at: At<'_, '_>) -> Found<i32> {
        let Some(number) = self.whole(at)? else {
            return Ok(None);
        };
        match i32::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self.bad(at, format!("{number} has more than 32 bits"))),
        }
    }

    pub(super) fn time(&mut self, at: At<'_, '_>) -> Found<Timestamp> {
        let Some(text) = self.str(at)? else {
            return Ok(None);
        };
        match Timestamp::parse(text) {
            Ok(time) => Ok(Some(time)),
            Err(_) => Err(self.bad(at, format!("{text:?} is not a date"))),
        }
    }

    /// A part of an object: `spec`, `status`, or another field or the object itself, which are always read.
    /// `None` if `spec` or `status` was not read.
    pub(super) fn part<'p, 'a>(&mut self, object: &'p At<'p, 'a>, part: &'static str) -> Option<At<'p, 'a>> {
        match part {
            "object" => Some(*object),
            "spec" | "status" => {
                let (part, is_spec) = (object.field(part), part == "spec");
                let found = self.map(part).ok()?;
                let may_lack = self.origin != Origin::Dump || (is_spec && self.may_lack_spec);
                (found.is_some() || may_lack).then_some(part)
            }
            _ => Some(object.field(part)),
        }
    }

    pub(super) fn field<T>(
        &mut self,
        part: Option<At<'_, '_>>,
        read: impl FnOnce(&mut Self, At<'_, '_>) -> Result<T, Unreadable>,
    ) -> Field<T> {
        match part.map(|part| read(self, part)) {
            Some(Ok(value)) => Field::Known(value),
            Some(Err(Unreadable)) | None => Field::Unread,
        }
    }

    /// An absent field that every object has: in an object that may not be whole, it is unknown.
    pub(super) fn stripped<T: Default>(&self) -> Result<T, Unreadable> {
        match self.origin {
            Origin::Whole => Ok(T::default()),
            Origin::Dump | Origin::Manifest => Err(Unreadable),
        }
    }

    /// An absent field that the API server fills with a default.
    pub(super) fn or_default<T: Default>(&self, default: T) -> Result<T, Unreadable> {
        match self.origin {
            Origin::Manifest => Ok(default),
            Origin::Whole | Origin::Dump => self.stripped(),
        }
    }

    /// The same, and a stripped field is a flaw.
    pub(super) fn always_filled<T: Default>(&mut self, at: At<'_, '_>, default: T) -> Result<T, Unreadable> {
        if self.origin == Origin::Dump {
            self.missing(at);
        }
        self.or_default(default)
    }

    /// A phase, which the API server always fills, first with the initial one.
    pub(super) fn phase_or_initial(&mut self, at: At<'_, '_>, initial: &str) -> Result<Arc<str>, Unreadable> {
        Ok(match self.text(at)? {
            Some(phase) => phase,
            None if self.origin == Origin::Whole => Arc::default(),
            None => {
                if self.origin == Origin::Dump {
                    self.assumed(at, initial);
                }
                self.texts.share(initial)
            }
        })
    }

    /// The values of a list; one that is absent has none.
    pub(super) fn values<'p, 'a>(&mut self, at: At<'p, 'a>) -> Result<&'p [Raw<'a>], Unreadable> {
        match at.value {
            Raw::Null => Ok(&[]),
            Raw::List(values) => Ok(values),
            _ => Err(self.wrong(at, "a list")),
        }
    }

    /// The entries of a list that can be read; one that is absent has none. The second is whether all could
    /// be. Each must have the type.
    pub(super) fn entries<R>(
        &mut self,
        at: At<'_, '_>,
        of: JsonType,
        mut read: impl FnMut(&mut Self, At<'_, '_>) -> Result<R, Unreadable>,
    ) -> (Vec<R>, bool) {
        let Ok(values) = self.values(at) else {
            return (Vec::new(), false);
        };
        let (mut entries, mut all) = (Vec::with_capacity(values.len()), true);
        for (index, value) in values.iter().enumerate() {
            let path = at.path.then(Step::Entry(index));
            let entry = At { value, path };
            let read = match value.json_type() == of {
                true => read(self, entry),
                false => Err(self.wrong(entry, of.name())),
            };
            match read {
                Ok(read) => entries.push(read),
                Err(Unreadable) => all = false,
            }
        }
        (entries, all)
    }

    /// All entries of a list, or none of them.
    pub(super) fn list<R>(
        &mut self,
        at: At<'_, '_>,
        of: JsonType,
        read: impl FnMut(&mut Self, At<'_, '_>) -> Result<R, Unreadable>,
    ) -> Result<Vec<R>, Unreadable> {
        match self.entries(at, of, read) {
            (entries, true) => Ok(entries),
            (_, false) => Err(Unreadable),
        }
    }

    /// The texts of a list that can be read.
    pub(super) fn texts_of(&mut self, at: At<'_, '_>) -> Vec<Arc<str>> {
        self.entries(at, JsonType::String, Self::text_or_empty).0
    }

    /// All texts of a list, or none of them.
    pub(super) fn all_texts(&mut self, at: At<'_, '_>) -> Result<Vec<Arc<str>>, Unreadable> {
        self.list(at, JsonType::String, Self::text_or_empty)
    }

    /// All entries of a map to texts, or none of them.
    pub(super) fn labels(&mut self, at: At<'_, '_>) -> Result<BTreeMap<Arc<str>, Arc<str>>, Unreadable> {
        let mut labels = BTreeMap::new();
        let Some(At {
            value: Raw::Map(pairs),
            ..
        }) = self.map(at)?
        else {
            return Ok(labels);
        };
        let mut all = true;
        for (key, value) in pairs {
            let path = at.path.then(Step::Key(key.as_str()));
            match self.text_or_empty(At { value, path }) {
                Ok(value) => {
                    labels.insert(self.texts.share(key.as_str()), value);
                }
                Err(Unreadable) => all = false,
            }
        }
        if all { Ok(labels) } else { Err(Unreadable) }
    }
}
