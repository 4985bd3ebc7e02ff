//! Extracts values from the fields of an object, and reports unusable ones: everything that depends on them
//! is unknown.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_core::json::{Expected, JsonType, Labels, Soft, Text};
use kubegc_core::{Timestamp, Uid, record::Field};

use crate::{body::List, flaw::Flaw, texts::Texts};

/// A field that details miss or cannot use: the kind of the problem, the path, and the problem.
pub type DetailFlaw = (Flaw, String, String);

/// A value that cannot be read. It is named by then.
#[derive(Clone, Copy, Debug)]
pub struct Unreadable;

/// The value of a field, if any.
pub type Found<T> = Result<Option<T>, Unreadable>;

/// The path of a value: a chain of names and list positions.
#[derive(Clone, Copy)]
pub struct Path<'p> {
    within: Option<&'p Self>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Field(&'p str),
    Entry(usize),
    Key(&'p str),
}

impl<'p> Path<'p> {
    /// From the root of the object.
    pub const fn of(field: &'p str) -> Self {
        Self {
            within: None,
            step: Step::Field(field),
        }
    }

    /// A field of the map there.
    pub const fn field(&'p self, field: &'p str) -> Self {
        Self {
            within: Some(self),
            step: Step::Field(field),
        }
    }

    /// An entry of the list there.
    const fn entry(&'p self, at: usize) -> Self {
        Self {
            within: Some(self),
            step: Step::Entry(at),
        }
    }

    /// An entry of the map there, whose keys are data.
    pub const fn key(&'p self, key: &'p str) -> Self {
        Self {
            within: Some(self),
            step: Step::Key(key),
        }
    }
}

impl fmt::Display for Path<'_> {
    /// As deep as the code that made the path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(within) = self.within {
            within.fmt(f)?;
        }
        match self.step {
            Step::Field(field) if self.within.is_some() => write!(f, ".{field}"),
            Step::Field(field) => f.write_str(field),
            Step::Entry(at) => write!(f, "[{at}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// The reading of one object.
pub struct Reading<'r> {
    pub texts: &'r mut Texts,
    pub flaws: &'r mut Vec<DetailFlaw>,
    /// The source of the object.
    pub origin: Origin,
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
    pub fn bad(&mut self, path: Path<'_>, problem: impl Into<String>) -> Unreadable {
        self.flaws
            .push((Flaw::BadField, path.to_string(), problem.into()));
        Unreadable
    }

    /// Names a field that is not there and should be.
    pub fn missing(&mut self, path: Path<'_>) {
        let flaw = (Flaw::MissingField, path.to_string(), "missing".to_owned());
        self.flaws.push(flaw);
    }

    /// Reports that a field is absent, and the value that is assumed.
    pub fn assumed(&mut self, path: Path<'_>, value: &str) {
        let detail = format!("missing: {value} is assumed");
        self.flaws.push((Flaw::Assumed, path.to_string(), detail));
    }

    fn wrong(&mut self, path: Path<'_>, expected: &str, found: JsonType) -> Unreadable {
        let found = found.name();
        self.bad(path, format!("expected {expected}, found {found}"))
    }

    /// A value of the expected type.
    pub fn value<'v, 'de, T: Expected<'de>>(&mut self, value: &'v Soft<T>, path: Path<'_>) -> Found<&'v T> {
        match value {
            Soft::Absent => Ok(None),
            Soft::Is(value) => Ok(Some(value)),
            Soft::Wrong(found) => Err(self.wrong(path, T::WORDS, *found)),
        }
    }

    /// `spec` or `status`: `None` if it was not read, `Some(None)` if it is absent from a whole object.
    pub fn part<'v, 'de, T: Expected<'de>>(
        &mut self,
        part: &'v Soft<T>,
        path: Path<'_>,
    ) -> Option<Option<&'v T>> {
        let part = self.value(part, path).ok()?;
        (part.is_some() || self.origin != Origin::Dump).then_some(part)
    }

    /// A field of a part.
    pub fn field<P, T>(
        &mut self,
        part: Option<P>,
        read: impl FnOnce(&mut Self, P) -> Result<T, Unreadable>,
    ) -> Field<T> {
        match part.map(|part| read(self, part)) {
            Some(Ok(value)) => Field::Known(value),
            Some(Err(Unreadable)) | None => Field::Unread,
        }
    }

    /// A field that every object has: where it is absent from an object that may not be whole, it is unknown.
    pub fn unless_stripped<T: Default>(&self, found: Found<T>) -> Result<T, Unreadable> {
        match found? {
            Some(value) => Ok(value),
            None if self.origin == Origin::Whole => Ok(T::default()),
            None => Err(Unreadable),
        }
    }

    /// A field that the API server fills with a default.
    pub fn or_default<T: Default>(
        &self,
        found: Found<T>,
        default: impl FnOnce() -> T,
    ) -> Result<T, Unreadable> {
        match self.origin {
            Origin::Manifest => Ok(found?.unwrap_or_else(default)),
            Origin::Whole | Origin::Dump => self.unless_stripped(found),
        }
    }

    /// The same, and a stripped field is a flaw.
    pub fn always_filled<T: Default>(
        &mut self,
        found: Found<T>,
        path: Path<'_>,
        default: impl FnOnce() -> T,
    ) -> Result<T, Unreadable> {
        if self.origin == Origin::Dump && matches!(found, Ok(None)) {
            self.missing(path);
        }
        self.or_default(found, default)
    }

    /// The entries of a list that can be read; one that is absent has none. The second is whether all could
    /// be.
    pub fn entries<'v, 'de, T: Expected<'de>, R>(
        &mut self,
        list: &'v Soft<List<T>>,
        path: Path<'_>,
        mut read: impl FnMut(&mut Self, &'v T, Path<'_>) -> Result<R, Unreadable>,
    ) -> (Vec<R>, bool) {
        let Ok(list) = self.value(list, path) else {
            return (Vec::new(), false);
        };
        let (mut entries, mut all) = (Vec::new(), true);
        for (at, entry) in list.into_iter().flatten().enumerate() {
            let path = path.entry(at);
            let read = match entry {
                Soft::Is(entry) => read(self, entry, path),
                Soft::Absent => Err(self.wrong(path, T::WORDS, JsonType::Null)),
                Soft::Wrong(found) => Err(self.wrong(path, T::WORDS, *found)),
            };
            match read {
                Ok(read) => entries.push(read),
                Err(Unreadable) => all = false,
            }
        }
        (entries, all)
    }

    /// All entries of a list, or none of them.
    pub fn list<'v, 'de, T: Expected<'de>, R>(
        &mut self,
        list: &'v Soft<List<T>>,
        path: Path<'_>,
        read: impl FnMut(&mut Self, &'v T, Path<'_>) -> Result<R, Unreadable>,
    ) -> Result<Vec<R>, Unreadable> {
        match self.entries(list, path, read) {
            (entries, true) => Ok(entries),
            (_, false) => Err(Unreadable),
        }
    }

    /// The texts of a list that can be read.
    pub fn texts_of(&mut self, list: &Soft<List<Text<'_>>>, path: Path<'_>) -> Vec<Arc<str>> {
        let read = |reading: &mut Self, text: &Text<'_>, _: Path<'_>| Ok(reading.texts.share(text.as_str()));
        self.entries(list, path, read).0
    }

    /// A text, shared with all others like it.
    pub fn text(&mut self, value: &Soft<Text<'_>>, path: Path<'_>) -> Found<Arc<str>> {
        let text = self.value(value, path)?;
        Ok(text.map(|text| self.texts.share(text.as_str())))
    }

    /// A text; empty if absent, as in Go.
    pub fn text_or_empty(&mut self, value: &Soft<Text<'_>>, path: Path<'_>) -> Result<Arc<str>, Unreadable> {
        let text = self.value(value, path)?;
        Ok(self.texts.share(text.map_or("", Text::as_str)))
    }

    /// A text; an empty one counts as absent, because Go does not distinguish the two.
    pub fn text_unless_empty(&mut self, value: &Soft<Text<'_>>, path: Path<'_>) -> Found<Arc<str>> {
        Ok(self.text(value, path)?.filter(|text| !text.is_empty()))
    }

    /// A number of 32 bits.
    pub fn number(&mut self, value: &Soft<i64>, path: Path<'_>) -> Found<i32> {
        let Some(&number) = self.value(value, path)? else {
            return Ok(None);
        };
        match i32::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self.bad(path, format!("{number} has more than 32 bits"))),
        }
    }

    /// A number of 32 bits in a part, or the default of an absent one.
    pub fn number_or(&mut self, value: &Soft<i64>, path: Path<'_>, default: i32) -> Result<i32, Unreadable> {
        Ok(self.number(value, path)?.unwrap_or(default))
    }

    /// A copy of a value, or Go's zero value if it is absent.
    pub fn copy_or_zero<'de, T: Expected<'de> + Copy + Default>(
        &mut self,
        value: &Soft<T>,
        path: Path<'_>,
    ) -> Result<T, Unreadable> {
        Ok(self.value(value, path)?.copied().unwrap_or_default())
    }

    /// Whether the field has a value of the expected type.
    pub fn is_there<'de, T: Expected<'de>>(
        &mut self,
        value: &Soft<T>,
        path: Path<'_>,
    ) -> Result<bool, Unreadable> {
        Ok(self.value(value, path)?.is_some())
    }

    /// All entries of a map to texts, or none of them.
    pub fn labels(
        &mut self,
        labels: &Soft<Labels<'_>>,
        path: Path<'_>,
    ) -> Result<BTreeMap<Arc<str>, Arc<str>>, Unreadable> {
        let mut read = Ok(BTreeMap::new());
        let pairs = self.value(labels, path)?;
        for (key, value) in pairs.into_iter().flat_map(|pairs| &pairs.0) {
            let value = self.text_or_empty(value, path.key(key.as_str()));
            match (&mut read, value) {
                (Ok(read), Ok(value)) => {
                    read.insert(self.texts.share(key.as_str()), value);
                }
                (read, Err(unreadable)) => *read = Err(unreadable),
                (Err(Unreadable), Ok(_)) => {}
            }
        }
        read
    }

    /// All texts of a list, or none of them.
    pub fn all_texts(
        &mut self,
        list: &Soft<List<Text<'_>>>,
        path: Path<'_>,
    ) -> Result<Vec<Arc<str>>, Unreadable> {
        self.list(list, path, |reading, text, _| {
            Ok(reading.texts.share(text.as_str()))
        })
    }

    /// The same as uids, which are not shared.
    pub fn uids(&mut self, list: &Soft<List<Text<'_>>>, path: Path<'_>) -> Result<Vec<Uid>, Unreadable> {
        self.list(list, path, |_, text, _| Ok(Uid::new(text.as_str())))
    }

    /// A date.
    pub fn time(&mut self, value: &Soft<Text<'_>>, path: Path<'_>) -> Found<Timestamp> {
        let Some(text) = self.value(value, path)? else {
            return Ok(None);
        };
        let text = text.as_str();
        match Timestamp::parse(text) {
            Ok(time) => Ok(Some(time)),
            Err(_) => Err(self.bad(path, format!("{text:?} is not a date"))),
        }
    }
}
