//! Whole objects as JSON, for the drivers of the lifecycle mechanisms: what the mechanisms read of one, and the patches that change one.

mod change;
mod namespaces;
mod patch;
mod write;

use std::{
    str,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kubegc_core::{ObjectMeta, PatchType, Preconditions, identity::split_api_version};
use kubegc_lifecycle::{
    driver::{DocumentError, Documents},
    fields::{Fields, Record},
    namespace::{Action, Item as NamespaceItem, Namespace},
    object::{Change, Form, Resource},
};
use serde_json::{Map, Value};

use crate::{
    Details,
    details::{self, DetailFlaw, Kind},
    document,
    finding::Problem,
    item::{Item, Text},
    loose,
    mentions::Mentions,
    store::Store,
};

/// Reads and changes whole objects in their JSON form. Objects of dumps and of a live API server are read by the same code.
///
/// Metadata that cannot be read, or without name or uid, or with an owner that is not wholly named, is an error: an object whose deletion time cannot be read must not pass for one that is not
/// being deleted. Any other field that cannot be read is unknown. Texts that many objects
/// share are kept, up to a bound, by all clones together.
///
/// # Examples
/// ```
/// use kubegc_core::{PatchType, Preconditions};
/// use kubegc_lifecycle::{driver::Documents, fields::Fields, job::Ttl, object::{Change, Form, Resource}};
/// use kubegc_snapshot::JsonDocuments;
/// let document = br#"{"apiVersion": "batch/v1", "kind": "Job",
///     "metadata": {"name": "report", "namespace": "shop", "uid": "u-1", "resourceVersion": "7", "finalizers": ["example.com/a", "example.com/b"]},
///     "spec": {"ttlSecondsAfterFinished": 60}}"#;
/// let documents = JsonDocuments::default();
/// let record = documents.read(Resource::Jobs, document)?;
/// let Fields::Job(job) = record.fields else { panic!("it is a job") };
/// assert_eq!(job.ttl, Ttl::Seconds(60));
/// assert_eq!(job.status, None, "there was none to read");
///
/// let change = Change::RemoveFinalizer("example.com/a");
/// let (patch_type, body) = documents.patch(Form::Replace, &Preconditions::default(), &[change], document)?;
/// assert_eq!(patch_type, PatchType::Merge);
/// assert_eq!(body, br#"{"metadata":{"finalizers":["example.com/b"],"resourceVersion":"7","uid":"u-1"}}"#);
///
/// let error = documents.read(Resource::Pods, document).expect_err("no pod");
/// assert_eq!(error.to_string(), "kind: expected Pod, found Job");
/// # Ok::<(), kubegc_lifecycle::driver::DocumentError>(())
/// ```
#[derive(Clone, Debug)]
pub struct JsonDocuments {
    shared: Arc<Mutex<Store>>,
}

impl Default for JsonDocuments {
    /// Nothing is shared yet.
    fn default() -> Self {
        Self {
            shared: Arc::new(Mutex::new(Store::new())),
        }
    }
}

impl JsonDocuments {
    /// The body of an object of which this is known, without the metadata that [`ObjectMeta`] has: `spec`, `status`, `data`, and annotations under
    /// `metadata`.
    ///
    /// [`read`](Documents::read) gives the same fields again. What is unknown is left out where that says as much, and stands there as `false` where it
    /// does not, which none of these fields can be. Unread fields come back as unknown ones, and so does what no document of an API server says: a limit that is
    /// unset, a volume's phase that is empty, the expiry of a secret that is no bootstrap token. A certificate gets a stand-in of the same expiry, to the second.
    #[must_use]
    pub fn body(record: &Record, resource: Resource) -> Map<String, Value> {
        write::body(&record.fields, resource)
    }

    fn shared(&self) -> MutexGuard<'_, Store> {
        // Whatever a reader left half done belongs to no object any more.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the metadata of an object, and hands on what else there is to read.
    fn take<R>(
        &self,
        resource: Resource,
        document: &[u8],
        use_it: impl FnOnce(ObjectMeta, &Item<'_>, &mut Store) -> Result<R, DocumentError>,
    ) -> Result<R, DocumentError> {
        with_item(document, |item| {
            fits(item, resource)?;
            let mut store = self.shared();
            store.forget_objects(SHARED_MAX);
            let meta = meta(item, &mut store)?;
            use_it(meta, item, &mut store)
        })
    }
}

impl Documents for JsonDocuments {
    fn read(&self, resource: Resource, document: &[u8]) -> Result<Record, DocumentError> {
        self.take(resource, document, |meta, item, store| {
            let details = details_of(item, resource, store, &mut Vec::new());
            let fields = details.as_ref().map_or(Fields::Unread, Details::fields);
            Ok(Record { meta, fields })
        })
    }

    fn patch(
        &self,
        form: Form,
        expect: &Preconditions,
        changes: &[Change],
        document: &[u8],
    ) -> Result<(PatchType, Vec<u8>), DocumentError> {
        patch::patch(form, expect, changes, document)
    }

    fn read_namespace(&self, document: &[u8]) -> Result<Namespace, DocumentError> {
        self.take(Resource::Namespaces, document, |meta, item, store| {
            namespaces::read(meta, item, store)
        })
    }

    fn read_pod_item(&self, document: &[u8]) -> Result<NamespaceItem, DocumentError> {
        self.take(Resource::Pods, document, |meta, item, store| {
            let mut flaws = Vec::new();
            let details = details_of(item, Resource::Pods, store, &mut flaws);
            first_unreadable(&flaws)?;
            match details {
                Some(Details::Pod(details)) => Ok(namespaces::pod_item(&meta, &details)),
                _ => Err(DocumentError::new("nothing but metadata is there")),
            }
        })
    }

    fn write_namespace(&self, action: &Action, document: &[u8]) -> Result<Vec<u8>, DocumentError> {
        namespaces::write(action, document)
    }
}

/// How many texts and sets of labels are shared at most.
const SHARED_MAX: usize = 1 << 18;

/// Reads an object: as it should be, or else from a tree.
fn with_item<R>(
    document: &[u8],
    use_it: impl FnOnce(&Item<'_>) -> Result<R, DocumentError>,
) -> Result<R, DocumentError> {
    let text = str::from_utf8(document).map_err(|_| DocumentError::new("not UTF-8"))?;
    if let (item, Ok(())) = document::strict(text, None) {
        return use_it(&item);
    }
    let value = parsed(document)?;
    let item = loose::item(&value).ok_or_else(|| {
        let found = loose::name_of(&value);
        DocumentError::new(format!("expected a map, found {found}"))
    })?;
    match item.flaws.first() {
        Some(flaw) => Err(DocumentError::new(format!("{}: {}", flaw.field, flaw.problem))),
        None => use_it(&item),
    }
}

/// The document as a tree.
fn object_of(document: &[u8]) -> Result<Map<String, Value>, DocumentError> {
    match parsed(document)? {
        Value::Object(object) => Ok(object),
        other => {
            let found = loose::name_of(&other);
            Err(DocumentError::new(format!("expected a map, found {found}")))
        }
    }
}

fn parsed(document: &[u8]) -> Result<Value, DocumentError> {
    serde_json::from_slice(document).map_err(|error| DocumentError::new(format!("not valid JSON: {error}")))
}

const PARTIAL: (&str, &str) = ("meta.k8s.io", "PartialObjectMetadata");

/// Whether an object that says what it is says that it is of this resource.
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
    let missing = |field: &str| DocumentError::new(format!("{field}: not there"));
    let meta = item.meta.as_ref().ok_or_else(|| missing("metadata"))?;
    let name = meta.name.as_ref().map_or("", Text::as_str);
    if name.is_empty() {
        return Err(missing("metadata.name"));
    }
    let mut flaws = Vec::new();
    let record = store.record(meta, name.into(), &mut flaws);
    match flaws.first() {
        Some(flaw) => Err(error_of(flaw)),
        None => Ok(store.meta(&record)),
    }
}

fn details_of(
    item: &Item<'_>,
    resource: Resource,
    store: &mut Store,
    flaws: &mut Vec<DetailFlaw>,
) -> Option<Details> {
    let kind = Kind::in_group(resource.group(), resource.kind())?;
    if item.kind_str() == PARTIAL.1 {
        return None;
    }
    let mentions = item.mentions.unwrap_or(Mentions::ANY);
    details::read(kind, &item.body, mentions, &mut store.texts, flaws)
}

fn error_of((_, field, problem): &DetailFlaw) -> DocumentError {
    DocumentError::new(format!("{field}: {problem}"))
}

/// The first of the flaws that is a value which cannot be read, not one that is only missing.
fn first_unreadable(flaws: &[DetailFlaw]) -> Result<(), DocumentError> {
    let unreadable = flaws.iter().find(|(problem, ..)| *problem == Problem::BadField);
    unreadable.map_or(Ok(()), |flaw| Err(error_of(flaw)))
}
