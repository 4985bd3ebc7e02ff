//! Splits an input into JSON or YAML documents, and recognises each by its content.

use std::{io::Read, str, sync::Arc};

use serde_json::{Map, Value, error::Category};

use crate::{Place, SnapshotError, document::json_words, sniff, unpack, window::Window, yaml};

/// The kind of one document of a node, its runtime or its kubelet.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeDocument {
    /// `crictl ps -a -o json`.
    Containers,
    /// `crictl pods -o json`.
    Sandboxes,
    /// `crictl images -o json`.
    Images,
    /// `crictl imagefsinfo -o json`.
    ImageFileSystem,
    /// `crictl inspect -o json`, of one container or several.
    ContainerStatus,
    /// The kubelet's `/stats/summary`.
    StatsSummary,
    /// The kubelet's configuration file, YAML or JSON.
    KubeletConfiguration,
    /// The kubelet's `/configz`.
    Configz,
    /// `kubectl get pods -o json` or `-o yaml`.
    Pods,
    /// Image records, as [`write_records`](super::write_records) writes them.
    Records,
}

impl NodeDocument {
    pub const ALL: [Self; 10] = [
        Self::Containers,
        Self::Sandboxes,
        Self::Images,
        Self::ImageFileSystem,
        Self::ContainerStatus,
        Self::StatsSummary,
        Self::KubeletConfiguration,
        Self::Configz,
        Self::Pods,
        Self::Records,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Containers => "crictl ps",
            Self::Sandboxes => "crictl pods",
            Self::Images => "crictl images",
            Self::ImageFileSystem => "crictl imagefsinfo",
            Self::ContainerStatus => "crictl inspect",
            Self::StatsSummary => "stats/summary",
            Self::KubeletConfiguration => "KubeletConfiguration",
            Self::Configz => "configz",
            Self::Pods => "kubectl get pods",
            Self::Records => "image records",
        }
    }

    /// The document kind of a map, by its content; `None` if it is not a document of a node.
    pub(crate) fn of(map: &Map<String, Value>) -> Option<Self> {
        let has = |name: &str| map.contains_key(name);
        let status = map.get("status").and_then(Value::as_object);
        let in_status = |name: &str| status.is_some_and(|status| status.contains_key(name));
        match map.get("kind").and_then(Value::as_str) {
            Some("KubeletConfiguration") => return Some(Self::KubeletConfiguration),
            Some("List" | "PodList" | "Pod") => return Some(Self::Pods),
            _ if has("kind") || has("apiVersion") => return None,
            _ => {}
        }
        let of_file_system = ["imageFilesystems", "containerFilesystems", "usedBytes", "fsId"];
        let is_sandbox = || {
            let state = status
                .and_then(|status| status.get("state"))
                .and_then(Value::as_str);
            state.is_some_and(|state| state.starts_with("SANDBOX_"))
        };
        let by_field = [
            ("containers", Self::Containers),
            ("images", Self::Images),
            ("items", Self::Sandboxes),
            ("kubeletconfig", Self::Configz),
            ("node", Self::StatsSummary),
            ("records", Self::Records),
        ];
        if let Some((_, kind)) = by_field.into_iter().find(|(field, _)| has(field)) {
            Some(kind)
        } else if of_file_system.iter().any(|name| has(name) || in_status(name)) {
            Some(Self::ImageFileSystem)
        } else if in_status("id") && in_status("state") && !is_sandbox() {
            Some(Self::ContainerStatus)
        } else if map.keys().any(|name| super::config::is_field(name)) {
            Some(Self::KubeletConfiguration)
        } else {
            None
        }
    }
}

#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) place: Place,
    pub(crate) value: Value,
    /// A YAML text that ends inside a line: the rest may be missing.
    pub(crate) may_be_truncated: bool,
}

/// Headers of the tables of `crictl`.
const TABLES: [&str; 4] = ["CONTAINER ", "POD ID ", "IMAGE ", "FILESYSTEM "];

/// Reads all documents of an input.
///
/// # Errors
/// The input fails, is larger than the limit, or is neither JSON nor YAML.
///
/// # Complexity
/// Linear; the whole input is held, up to the limit.
pub(crate) fn read(
    name: &Arc<str>,
    input: impl Read,
    limit_bytes: usize,
) -> Result<Vec<Document>, SnapshotError> {
    let place = Place::new(Arc::clone(name));
    let bytes = unpack::read_all(input, &place, limit_bytes)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    refuse(&bytes[..bytes.len().min(sniff::BYTES)], &place)?;
    let text = str::from_utf8(bytes).map_err(|error| SnapshotError::NotText {
        place: place.clone(),
        line: lines(&bytes[..error.valid_up_to()]),
        problem: "not UTF-8",
    })?;
    let documents = if text.trim_start().starts_with(['{', '[']) {
        json(text, &place)?
    } else {
        yaml(text, &place, limit_bytes)?
    };
    if documents.is_empty() {
        return Err(SnapshotError::nothing(name, "holds no document"));
    }
    Ok(documents)
}

/// Refuses files that users save by mistake.
fn refuse(beginning: &[u8], place: &Place) -> Result<(), SnapshotError> {
    let refused = |looks_like, advice| Err(SnapshotError::refused(&place.file, looks_like, advice));
    let text = String::from_utf8_lossy(beginning);
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    if TABLES.iter().any(|head| first.starts_with(head)) {
        return refused("a table of crictl", "list again with -o json");
    }
    if first.starts_with("WARN[") || first.starts_with("time=\"") {
        return refused("warnings of crictl", "list again without 2>&1");
    }
    sniff::refuse(beginning, place)
}

fn json(text: &str, place: &Place) -> Result<Vec<Document>, SnapshotError> {
    let mut documents = Vec::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    // Every iteration consumes bytes or ends with an error.
    loop {
        let place = place.document(number(documents.len()));
        match values.next() {
            None => return Ok(documents),
            Some(Ok(value)) => documents.push(Document {
                place,
                value,
                may_be_truncated: false,
            }),
            Some(Err(error)) if error.classify() == Category::Eof => {
                return Err(SnapshotError::Truncated {
                    place,
                    line: error.line() as u64,
                });
            }
            Some(Err(error)) => {
                let (line, column) = (error.line() as u64, error.column() as u64);
                let words = json_words(&error);
                return Err(SnapshotError::syntax(place, None, (line, column), "JSON", words));
            }
        }
    }
}

fn yaml(text: &str, place: &Place, limit_bytes: usize) -> Result<Vec<Document>, SnapshotError> {
    let mut window = Window::new(text.as_bytes(), limit_bytes);
    let mut documents: Vec<Document> = Vec::new();
    // A text in memory that is within the limit gives no error here. Every iteration consumes a line.
    while yaml::next_document(&mut window).unwrap_or(false) {
        let place = place.document(number(documents.len()));
        let (line, length) = (window.line(), yaml::document_end(&mut window).unwrap_or(0));
        // The input was checked to be UTF-8, and documents end with a line.
        let text = str::from_utf8(&window.bytes()[..length]).unwrap_or_default();
        let value = yaml::parse(text).map_err(|error| {
            let position = (line + error.line.saturating_sub(1), error.column);
            SnapshotError::syntax(place.clone(), None, position, "YAML", error.said)
        })?;
        window.consume(length);
        documents.push(Document {
            place,
            value,
            may_be_truncated: false,
        });
    }
    // A truncated input is truncated at its end.
    if let Some(last) = documents.last_mut() {
        last.may_be_truncated = !text.ends_with('\n');
    }
    Ok(documents)
}

/// Number of the document after `count` others.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1)
}

fn lines(before: &[u8]) -> u64 {
    before.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1
}
