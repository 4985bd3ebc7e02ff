//! Stored objects: typed metadata, and the other fields as shared JSON.
//!
//! An object whose metadata only is known has no body, and no memory is used for one.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, LazyLock, OnceLock},
};

use kubegc_core::{ApiResource, FieldError, ObjectMeta, SharedMeta, Timestamp, json::MetaFields};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One object in its stored form.
///
/// `body` contains the top-level fields of the JSON form, except `apiVersion`, `kind` and the metadata in
/// [`ObjectMeta`], and `managedFields`. The rest of `metadata` (annotations, `generateName`) is under the key
/// `metadata`. `None`
/// means that only metadata is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The metadata that deletion depends on.
    pub meta: SharedMeta,
    /// The other fields, as JSON; `None` where only metadata is known.
    pub body: Option<Body>,
    /// The managers of its fields, if it has any.
    pub(crate) managers: ManagedFields,
    /// The fields as they were decoded, if their normal form differs; never stored.
    pub(crate) decoded: Option<Arc<Map<String, Value>>>,
    /// Whether empty bytes of its data were written as nil: its storage form differs from that of an object
    /// that was decoded from JSON.
    pub(crate) has_nil_bytes: bool,
}

/// The fields of an object other than its metadata, shared between copies of the object.
///
/// [`lazy`](Self::lazy) bodies are built when a field is first read. Objects whose fields are never read use
/// little memory.
///
/// # Examples
/// ```
/// use kubegc_sim::Body;
/// use serde_json::{Map, json};
/// let body = Body::lazy(|| Map::from_iter([("data".to_owned(), json!({"a": "b"}))]));
/// assert_eq!(body["data"]["a"], "b");
/// ```
#[derive(Clone)]
pub struct Body(Arc<Fields>);

struct Fields {
    built: OnceLock<Map<String, Value>>,
    build: Option<Box<dyn Fn() -> Map<String, Value> + Send + Sync>>,
}

impl Body {
    /// A body that `build` creates when a field is first read. It contains no empty `metadata`.
    pub fn lazy(build: impl Fn() -> Map<String, Value> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Fields {
            built: OnceLock::new(),
            build: Some(Box::new(build)),
        }))
    }

    /// Whether two bodies are the same one in memory.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the fields were built.
    pub(crate) fn is_built(&self) -> bool {
        self.0.built.get().is_some()
    }

    /// Mutable access to the fields. Copies them if they are shared.
    fn make_mut(&mut self) -> &mut Map<String, Value> {
        if Arc::get_mut(&mut self.0).is_none_or(|fields| fields.built.get().is_none()) {
            *self = Self::from(Map::clone(self));
        }
        let fields = Arc::get_mut(&mut self.0).and_then(|fields| fields.built.get_mut());
        // Built above, and owned by this body alone.
        fields.unwrap_or_else(|| unreachable!("the fields are built and not shared"))
    }
}

impl From<Map<String, Value>> for Body {
    fn from(fields: Map<String, Value>) -> Self {
        Self(Arc::new(Fields {
            built: OnceLock::from(fields),
            build: None,
        }))
    }
}

impl Deref for Body {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        let build = || self.0.build.as_ref().map(|build| build()).unwrap_or_default();
        self.0.built.get_or_init(build)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || **self == **other
    }
}

impl Eq for Body {}

/// `metadata.managedFields` of an object; `None` if it is empty.
pub(crate) type ManagedFields = Option<Arc<Value>>;

pub(crate) fn managed_fields(list: Value) -> ManagedFields {
    let is_empty = list.is_null() || list.as_array().is_some_and(Vec::is_empty);
    (!is_empty).then(|| Arc::new(list))
}

/// An object read from JSON, with its declared kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// `apiVersion`; empty where it is missing.
    pub api_version: String,
    /// `kind`; empty where it is missing.
    pub kind: String,
    pub object: StoredObject,
}

impl From<ObjectMeta> for StoredObject {
    fn from(meta: ObjectMeta) -> Self {
        Self::new(meta.into(), None)
    }
}

impl From<SharedMeta> for StoredObject {
    fn from(meta: SharedMeta) -> Self {
        Self::new(meta, None)
    }
}

impl Manifest {
    /// Reads an object in its JSON form.
    ///
    /// # Errors
    /// Names the first metadata field whose type is not the one of the API.
    ///
    /// # Examples
    /// ```
    /// use kubegc_sim::Manifest;
    /// use serde_json::json;
    /// let read = Manifest::read(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}}))?;
    /// assert_eq!((&*read.kind, &*read.object.meta.name), ("ConfigMap", "a"));
    /// assert!(Manifest::read(json!({"metadata": {"finalizers": "hold"}})).is_err());
    /// # Ok::<(), kubegc_core::FieldError>(())
    /// ```
    pub fn read(value: Value) -> Result<Self, FieldError> {
        let Value::Object(mut fields) = value else {
            return Err(wrong("", &value, "a map"));
        };
        let mut text = |key: &str| match fields.remove(key) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(wrong(key, &other, "a string")),
        };
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let mut rest = match fields.remove("metadata") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(rest)) => rest,
            Some(other) => return Err(wrong("metadata", &other, "a map")),
        };
        let meta = take_meta(&mut rest)?;
        let managers = managed_fields(rest.remove("managedFields").unwrap_or_default());
        if !rest.is_empty() {
            fields.insert("metadata".to_owned(), Value::Object(rest));
        }
        let body = (!fields.is_empty()).then(|| fields.into());
        Ok(Self {
            api_version,
            kind,
            object: StoredObject {
                managers,
                ..StoredObject::new(meta.into(), body)
            },
        })
    }
}

impl StoredObject {
    /// An object of metadata and other fields.
    pub const fn new(meta: SharedMeta, body: Option<Body>) -> Self {
        Self {
            meta,
            body,
            managers: None,
            decoded: None,
            has_nil_bytes: false,
        }
    }

    /// Marks an object that was converted from its unstructured form: its empty bytes are nil.
    pub(crate) fn convert_from_unstructured(&mut self, resource: &ApiResource) {
        let field = match (&*resource.group, &*resource.kind) {
            ("", "Secret") => "data",
            ("", "ConfigMap") => "binaryData",
            _ => return,
        };
        let entries = self.at(&[field]).and_then(Value::as_object);
        self.has_nil_bytes = entries.is_some_and(|entries| entries.values().any(|value| *value == ""));
    }

    /// The value at a path of the body, such as `["spec", "nodeName"]`.
    pub fn at(&self, path: &[impl AsRef<str>]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        let first = self.body.as_ref()?.get(first.as_ref())?;
        rest.iter().try_fold(first, |value, key| value.get(key.as_ref()))
    }

    /// The string at a path of the body; empty where there is none.
    pub fn text_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// A field of the body; null where there is none.
    pub fn field(&self, key: &str) -> &Value {
        self.at(&[key]).unwrap_or(&Value::Null)
    }

    /// The condition of a type in the status; null where there is none.
    pub fn condition(&self, of_type: &str) -> &Value {
        let mut conditions = self.list_at(&["status", "conditions"]).iter();
        let found = conditions.find(|condition| condition["type"] == of_type);
        found.unwrap_or(&Value::Null)
    }

    /// Mutable access to the body; empty where only metadata was known. Copies it if it is shared.
    pub fn body_mut(&mut self) -> &mut Map<String, Value> {
        self.body.get_or_insert_with(|| Map::new().into()).make_mut()
    }

    /// The items of the list at a path of the body; none where there is no list.
    pub fn list_at(&self, path: &[&str]) -> &[Value] {
        let list = self.at(path).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    /// The object in a field of the body. It takes the place of any other value.
    pub(crate) fn field_mut(&mut self, key: &str) -> &mut Map<String, Value> {
        let entry = self.body_mut().entry(key).or_insert(Value::Null);
        if !entry.is_object() {
            *entry = Value::Object(Map::new());
        }
        match entry {
            Value::Object(fields) => fields,
            // Converted to an object two lines above.
            _ => unreachable!("the entry is an object"),
        }
    }

    /// Mutable access to the metadata outside [`ObjectMeta`].
    pub(crate) fn rest_of_metadata_mut(&mut self) -> &mut Map<String, Value> {
        self.field_mut("metadata")
    }

    /// The `spec`, if it is an object.
    pub(crate) fn spec_mut(&mut self) -> Option<&mut Map<String, Value>> {
        self.body_mut().get_mut("spec")?.as_object_mut()
    }

    /// Sets the value at a path of the body, whose last step may be missing; `None` removes it.
    pub(crate) fn put(&mut self, path: &[impl AsRef<str>], value: Option<&Value>) {
        if self.at(path) == value {
            return;
        }
        let Some((last, parents)) = path.split_last() else {
            return;
        };
        let mut fields = match parents.first() {
            Some(first) => self.field_mut(first.as_ref()),
            None => self.body_mut(),
        };
        for parent in parents.iter().skip(1) {
            let below = fields.entry(parent.as_ref()).or_insert(Value::Null);
            if below.is_null() {
                *below = Map::new().into();
            }
            let Value::Object(below) = below else { return };
            fields = below;
        }
        fields.remove(last.as_ref());
        fields.extend(value.map(|value| (last.as_ref().to_owned(), value.clone())));
    }

    /// Sets an annotation. Does nothing where the annotations are no object.
    pub(crate) fn annotate(&mut self, key: &str, value: impl Into<Value>) {
        self.put(&["metadata", "annotations", key], Some(&value.into()));
    }

    /// Removes empty containers and fields that are not stored, so that equal contents are equal values.
    pub(crate) fn tidy(&mut self) {
        self.decoded = None;
        // A body that was never read has no empty parts.
        let Some(body) = self.body.as_mut().filter(|body| body.is_built()) else {
            return;
        };
        let empty_rest = |body: &Map<String, Value>| matches!(body.get("metadata"), Some(Value::Object(rest)) if rest.is_empty());
        if empty_rest(body) {
            body.make_mut().remove("metadata");
        }
        if body.is_empty() {
            self.body = None;
        }
    }

    /// Whether all stored fields of two objects are equal.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.body == other.body && self.meta == other.meta && self.managers == other.managers
    }

    /// As [`equals`](Self::equals), whatever the times of `managedFields` are.
    pub(crate) fn equals_but_for_times(&self, other: &Self) -> bool {
        let untimed = |managers: &ManagedFields| {
            let mut list = managers.as_deref().cloned().unwrap_or_default();
            let entries = list.as_array_mut().into_iter().flatten();
            for entry in entries.filter_map(Value::as_object_mut) {
                entry.remove("time");
            }
            list
        };
        self.body == other.body
            && self.meta == other.meta
            && untimed(&self.managers) == untimed(&other.managers)
    }
}

/// The items of the list in a field of an object; none where there is no list.
pub(crate) fn list<'v>(object: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    object.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Removes the typed fields from a JSON `metadata` and returns them.
pub(crate) fn take_meta(fields: &mut Map<String, Value>) -> Result<ObjectMeta, FieldError> {
    let read = MetaFields::deserialize(&*fields);
    let meta: MetaFields<'_> = read.map_err(|error| {
        FieldError::invalid(
            "metadata",
            &Value::from(fields.clone()).to_string(),
            &error.to_string(),
        )
    })?;
    if let Some(wrong) = meta.wrong().first() {
        let problem = format!("must be {}", wrong.expected);
        return Err(FieldError::invalid(&wrong.field, wrong.found.name(), &problem));
    }
    let meta = meta.to_meta(|text| text.into())?;
    fields.retain(|key, _| TYPED.get(key).is_none());
    Ok(meta)
}

/// The fields of a JSON `metadata` that are typed.
static TYPED: LazyLock<Value> = LazyLock::new(|| json!(ObjectMeta::default()));

/// Adds the typed fields to a JSON `metadata`; empty ones are left out, as the API does.
pub(crate) fn put_meta(meta: &ObjectMeta, fields: &mut Map<String, Value>) {
    let mut meta = meta.clone();
    for time in [&mut meta.creation_timestamp, &mut meta.deletion_timestamp] {
        *time = time.map(Timestamp::truncate_to_secs);
    }
    // Metadata is always an object.
    let Value::Object(shown) = json!(meta) else { return };
    fields.extend(shown.into_iter().filter(|(key, value)| match value {
        _ if matches!(key.as_str(), "name" | "creationTimestamp") => true,
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        value => key != "generation" || *value != 0,
    }));
}

fn wrong(field: &str, value: &Value, expected: &str) -> FieldError {
    FieldError::invalid(field, &value.to_string(), &format!("must be {expected}"))
}
