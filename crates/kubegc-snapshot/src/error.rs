//! Errors of reading a dump: always with the file, the document in it, and the object if it is known.

use std::{error, fmt, io, sync::Arc};

use crate::store::{Record, Store};

/// A position in the input: the file, the document in it, and the item if the document is a list.
///
/// # Examples
/// ```
/// use kubegc_snapshot::Place;
/// let place = Place::new("pods.json").document(1).item(13);
/// assert_eq!(place.to_string(), "pods.json, document 1, items[13]");
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Path or name of the file.
    pub file: Arc<str>,
    /// Number of the document in the file, from 1; 0 if the whole file is meant.
    pub document: u32,
    /// Position in `items`, from 0; `None` if the whole document is meant.
    pub item: Option<u32>,
}

impl Place {
    /// The whole of a file.
    pub fn new(file: impl Into<Arc<str>>) -> Self {
        Self {
            file: file.into(),
            document: 0,
            item: None,
        }
    }

    /// The position of a record.
    pub(crate) fn of(store: &Store, record: &Record) -> Self {
        Self {
            file: Arc::clone(&store.files[record.file as usize]),
            document: record.document,
            item: record.item,
        }
    }

    /// A document of the same file, counted from 1.
    pub fn document(&self, number: u32) -> Self {
        Self {
            file: Arc::clone(&self.file),
            document: number,
            item: None,
        }
    }

    /// An item of the same document, counted from 0.
    pub fn item(&self, position: u32) -> Self {
        Self {
            item: Some(position),
            ..self.clone()
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.document > 0 {
            write!(f, ", document {}", self.document)?;
        }
        self.item.map_or(Ok(()), |item| write!(f, ", items[{item}]"))
    }
}

/// The cause of an error, behind which the parsers are hidden.
pub type Cause = Box<dyn error::Error + Send + Sync>;

/// A reason why a dump, a declaration or a discovery listing was refused.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The operating system does not give the file or directory.
    #[error("{path}: cannot be read")]
    Io { path: Arc<str>, source: io::Error },
    /// The input is of a kind that is not read.
    #[error("{file}: looks like {looks_like}, which is not read; {advice}")]
    Refused {
        file: Arc<str>,
        looks_like: &'static str,
        advice: &'static str,
    },
    /// The text is not JSON or YAML.
    #[error("{place}: line {line}, column {column}: not valid {format}{}", named(object.as_deref()))]
    Syntax {
        place: Place,
        /// The object as far as its name could still be read.
        object: Option<Box<str>>,
        /// Line in the file, from 1.
        line: u64,
        /// Column in the line, from 1, in bytes for JSON and in characters for YAML.
        column: u64,
        format: &'static str,
        source: Cause,
    },
    /// The input ends before the document does.
    #[error("{place}: the input ends in the middle of the document, at line {line}")]
    Truncated {
        /// The document or item that is cut off.
        place: Place,
        /// Last line in the file, from 1.
        line: u64,
    },
    /// One document or item does not fit into the limit.
    #[error("{place}: line {line}: larger than the limit of {limit_bytes} bytes for one object")]
    TooLarge {
        place: Place,
        /// Line in the file where it begins, from 1.
        line: u64,
        limit_bytes: usize,
    },
    /// The text is not UTF-8, or holds a NUL byte.
    #[error("{place}: line {line}: not text: {problem}")]
    NotText {
        place: Place,
        /// Line in the file, from 1.
        line: u64,
        problem: &'static str,
    },
    /// The document is JSON or YAML and still no object or list of the Kubernetes API.
    #[error("{place}: not an API object: {problem}")]
    NotAnObject {
        place: Place,
        /// The missing or different part.
        problem: String,
    },
    /// The input is empty.
    #[error("{file}: {problem}")]
    Nothing {
        /// Path of the file or directory, or the pattern.
        file: Arc<str>,
        /// The part that was not found.
        problem: &'static str,
    },
    /// The input was read, and there is no object in it.
    #[error("no Kubernetes object was read: {why}")]
    NoObjects {
        /// The inputs, with the reason for each.
        why: String,
    },
    /// A bound of the reader itself was reached.
    #[error("{file}: more than {limit} {what}")]
    TooMany {
        file: Arc<str>,
        limit: usize,
        /// The quantity that exceeds its limit.
        what: &'static str,
    },
    /// A declaration of completeness names no kind.
    #[error("cannot declare {declaration:?} complete: {problem}")]
    Declaration { declaration: Box<str>, problem: String },
    /// A listing of the served resources cannot be read.
    #[error("api-resources, line {line}: {problem}")]
    ApiResources {
        /// Line, from 1; 0 if the whole text is meant.
        line: usize,
        problem: String,
    },
    /// An earlier input was refused, so the snapshot would be silently short.
    #[error("{place}: was not read to its end, so there is no snapshot")]
    ReadFailed {
        /// The input that was refused first.
        place: Place,
    },
}

fn named(object: Option<&str>) -> String {
    object.map_or_else(String::new, |name| format!(" (in {name})"))
}

impl SnapshotError {
    pub(crate) fn io(path: &Arc<str>, source: io::Error) -> Self {
        let path = Arc::clone(path);
        Self::Io { path, source }
    }

    pub(crate) fn refused(file: &Arc<str>, looks_like: &'static str, advice: &'static str) -> Self {
        Self::Refused {
            file: Arc::clone(file),
            looks_like,
            advice,
        }
    }

    pub(crate) fn nothing(file: &Arc<str>, problem: &'static str) -> Self {
        let file = Arc::clone(file);
        Self::Nothing { file, problem }
    }

    pub(crate) fn too_many(file: &Arc<str>, limit: usize, what: &'static str) -> Self {
        let file = Arc::clone(file);
        Self::TooMany { file, limit, what }
    }

    /// `words` are those of the parser, without its position in a text that the caller never saw.
    pub(crate) fn syntax(
        place: Place,
        object: Option<Box<str>>,
        (line, column): (u64, u64),
        format: &'static str,
        words: impl Into<String>,
    ) -> Self {
        Self::Syntax {
            place,
            object,
            line,
            column,
            format,
            source: words.into().into(),
        }
    }

    pub(crate) fn not_an_object(place: Place, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self::NotAnObject { place, problem }
    }

    /// The place that the error is about, if it is about one.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Syntax { place, .. }
            | Self::Truncated { place, .. }
            | Self::TooLarge { place, .. }
            | Self::NotText { place, .. }
            | Self::NotAnObject { place, .. }
            | Self::ReadFailed { place } => Some(place.clone()),
            Self::Io { path: file, .. }
            | Self::Refused { file, .. }
            | Self::Nothing { file, .. }
            | Self::TooMany { file, .. } => Some(Place::new(Arc::clone(file))),
            Self::NoObjects { .. } | Self::Declaration { .. } | Self::ApiResources { .. } => None,
        }
    }

    /// The place, and the full text without it.
    pub(crate) fn at_place(&self) -> (Option<Place>, String) {
        let (place, text) = (self.place(), self.full_text());
        let begin = place.as_ref().map(|place| format!("{place}: "));
        let detail = begin.and_then(|begin| Some(text.strip_prefix(&begin)?.to_owned()));
        (place, detail.unwrap_or(text))
    }

    /// The message with all its causes, as a person wants to read it.
    pub fn full_text(&self) -> String {
        let mut text = self.to_string();
        let mut cause = error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

/// The error of an input whose bytes are not of its format.
pub(crate) fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
