//! Whole objects as JSON: the records that controllers read, and the patches that change objects.

mod change;
mod patch;

use std::{
    str,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kubegc_controllers::{DocumentError, Documents, FieldChange, Write};
use kubegc_core::{
    ObjectMeta, PatchType,
    identity::split_api_version,
    record::{Body, Record, Resource},
};
use serde::de::DeserializeSeed;
use serde_json::{Map, Value};

use crate::{
    Details,
    details::{self, DetailFlaw, Kind, Origin},
    item::{Item, ItemSeed},
    object,
    store::Store,
    tree,
};

/// Reads whole objects in their JSON form, and renders the writes that change them.
///
/// A document is assumed to be complete, as an API server serves it: an absent field has Go's zero value.
/// Metadata without name or uid, with an incomplete owner reference, or that cannot be read is an error: an
/// object with an unreadable deletion time must not count as one that is not being deleted. Any other field
/// that cannot be read is [unread](kubegc_core::record::Field::Unread).
///
/// All clones share texts that many objects repeat, up to a bound.
///
/// # Examples
/// ```
/// use kubegc_controllers::{Documents, FieldChange, Form, Write};
/// use kubegc_core::{PatchType, Preconditions, record::{Field, Resource}};
/// use kubegc_documents::JsonDocuments;
/// let document = br#"{"apiVersion": "batch/v1", "kind": "Job",
///     "metadata": {"name": "report", "namespace": "shop", "uid": "u-1", "resourceVersion": "7",
///         "finalizers": ["example.com/a", "example.com/b"]},
///     "spec": {"ttlSecondsAfterFinished": 60}, "status": {"startTime": 5}}"#;
/// let documents = JsonDocuments::default();
/// let record = documents.read(Resource::Jobs, document)?;
/// let job = record.job().expect("it is a Job");
/// assert_eq!(job.ttl_seconds_after_finished, Some(60).into());
/// assert_eq!(job.start_time, Field::Unread);
///
/// let write = Write {
///     object: record.id(Resource::Jobs),
///     subresource: "",
///     form: Form::Update,
///     precondition: Preconditions::default(),
///     changes: vec![FieldChange::RemoveFinalizer("example.com/a")],
/// };
/// let (patch_type, body) = documents.write(&write, document)?.expect("a change");
/// assert_eq!(patch_type, PatchType::Merge);
/// assert_eq!(body, br#"{"metadata":{"finalizers":["example.com/b"],"resourceVersion":"7","uid":"u-1"}}"#);
///
/// let error = documents.read(Resource::Pods, document).expect_err("no pod");
/// assert_eq!(error.to_string(), "kind: expected Pod, found Job");
/// # Ok::<(), kubegc_controllers::DocumentError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct JsonDocuments {
    shared: Arc<Mutex<Store>>,
}

impl JsonDocuments {
    /// The JSON of a record's body, without its typed metadata: `spec`, `status`, `data`, and annotations
    /// under `metadata`.
    ///
    /// [`read`](Documents::read) returns the same body again. Unread fields become `false`, and unread flags
    /// 0: neither is valid there. A certificate becomes a placeholder with the same expiry, to the second.
    pub fn fields(body: &Body) -> Map<String, Value> {
        details::write(body)
    }

    /// The record body of an object, from the top-level fields of its JSON. Fields that cannot be read are
    /// [unread](kubegc_core::record::Field::Unread).
    pub fn body(&self, resource: Resource, fields: &Map<String, Value>) -> Arc<Body> {
        let mut item = Item::default();
        let seed = ItemSeed {
            item: &mut item,
            hint: Some(("", resource.kind())),
        };
        match seed.deserialize(fields) {
            Ok(()) => body_of(&item, resource, &mut self.shared()),
            Err(_) => Arc::default(),
        }
    }

    /// Makes one change in the top-level fields of an object.
    ///
    /// # Errors
    /// The object has no place for the change.
    pub fn change(change: &FieldChange, fields: &mut Map<String, Value>) -> Result<(), DocumentError> {
        change::apply(fields, change).map(|_| ())
    }

    fn shared(&self) -> MutexGuard<'_, Store> {
        // A reader that panicked left nothing that another object refers to.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Documents for JsonDocuments {
    fn read(&self, resource: Resource, document: &[u8]) -> Result<Record, DocumentError> {
        with_item(document, |item| {
            fits(item, resource)?;
            let mut store = self.shared();
            store.forget_objects(SHARED_MAX);
            let meta = meta(item, &mut store)?;
            Ok(Record::new(meta, body_of(item, resource, &mut store)))
        })
    }

    fn write(&self, write: &Write, document: &[u8]) -> Result<Option<(PatchType, Vec<u8>)>, DocumentError> {
        patch::patch(write, document)
    }

    fn replace(&self, write: &Write, document: &[u8]) -> Result<Vec<u8>, DocumentError> {
        patch::replace(write, document)
    }
}

/// Maximum number of texts and sets of labels that are shared.
const SHARED_MAX: usize = 1 << 18;

/// Parses an object, from a tree if a key repeats. The last of equal keys counts.
fn with_item<R>(
    document: &[u8],
    use_it: impl FnOnce(&Item<'_>) -> Result<R, DocumentError>,
) -> Result<R, DocumentError> {
    let text = str::from_utf8(document).map_err(|_| DocumentError::new("not UTF-8"))?;
    let use_it = |item: &Item<'_>| match item.wrong().first() {
        Some(wrong) => Err(DocumentError::new(wrong.to_string())),
        None => use_it(item),
    };
    if let (item, Ok(())) = object::whole_object(text, None) {
        return use_it(&item);
    }
    let value = Value::Object(object_of(document)?);
    // An object is a map, so there is an item.
    use_it(&tree::item(&value).unwrap_or_default())
}

fn object_of(document: &[u8]) -> Result<Map<String, Value>, DocumentError> {
    match serde_json::from_slice(document) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => {
            let found = tree::type_name(&other);
            Err(DocumentError::new(format!("expected a map, found {found}")))
        }
        Err(error) => Err(DocumentError::new(format!("not valid JSON: {error}"))),
    }
}

const PARTIAL: (&str, &str) = ("meta.k8s.io", "PartialObjectMetadata");

/// Whether an object is of this resource, according to its own type fields.
fn fits(item: &Item<'_>, resource: Resource) -> Result<(), DocumentError> {
    let (group, kind) = (split_api_version(item.api_version_str()).0, item.kind_str());
    if (group, kind) == PARTIAL {
        return Ok(());
    }
    if !kind.is_empty() && kind != resource.kind() {
        let expected = resource.kind();
        return Err(DocumentError::new(format!(
            "kind: expected {expected}, found {kind}"
        )));
    }
    if !item.api_version_str().is_empty() && group != resource.group() {
        let (expected, found) = (resource.group(), item.api_version_str());
        let problem = format!("apiVersion: expected one of group {expected:?}, found {found}");
        return Err(DocumentError::new(problem));
    }
    Ok(())
}

fn meta(item: &Item<'_>, store: &mut Store) -> Result<ObjectMeta, DocumentError> {
    let missing = |field: &str| DocumentError::new(format!("{field}: missing"));
    let meta = item.meta.get().ok_or_else(|| missing("metadata"))?;
    let name = meta.name.as_str();
    if name.is_empty() {
        return Err(missing("metadata.name"));
    }
    let mut flaws = Vec::new();
    let record = store.record(meta, name.into(), Origin::Whole, &mut flaws);
    match flaws.first() {
        Some(flaw) => Err(error_of(flaw)),
        None => Ok(store.meta(&record)),
    }
}

fn body_of(item: &Item<'_>, resource: Resource, store: &mut Store) -> Arc<Body> {
    let kind = Kind::in_group(resource.group(), resource.kind());
    let Some(kind) = kind.filter(|_| item.kind_str() != PARTIAL.1) else {
        return Arc::default();
    };
    let details = details::read(kind, &item.body, Origin::Whole, &mut store.texts, &mut Vec::new());
    details.as_ref().map(Details::body).unwrap_or_default()
}

fn error_of((_, field, problem): &DetailFlaw) -> DocumentError {
    DocumentError::new(format!("{field}: {problem}"))
}
