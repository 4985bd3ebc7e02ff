//! The objects and lists of one document, and documents that are neither.

use serde_json::Value;

use super::{Reading, Shape};
use crate::{
    Problem, SnapshotError, VersionSource,
    completeness::Why,
    ingest::{refuse_non_objects, without_objects},
    internal,
    item::{Item, ListHead},
    kindless::{self, TypeName},
    store::TypeId,
    tree, version, yaml,
};

impl Reading<'_> {
    /// Counts the document as one that is not an object of the API.
    fn skip(&mut self, problem: &str) -> Result<(), SnapshotError> {
        self.ingest.no_object(self.source.document(), problem);
        Ok(())
    }

    /// One object that was read strictly.
    pub(super) fn object(&mut self, object: &Item<'_>, text: &str) -> Result<(), SnapshotError> {
        let lacks_identity = object.is_without_identity();
        if self.in_array
            && lacks_identity
            && let Some(wrapped) = wrapped(text)
        {
            return self.value(&wrapped, text);
        }
        self.objects += u64::from(!lacks_identity);
        let (is_member, has_hint) = (self.source.is_member, self.source.hint.is_some());
        let is_hinted = has_hint && !(is_member && lacks_identity);
        if self.source.place.item.is_none() && !object.is_of_the_api() && !is_hinted {
            return self.no_object(object, text);
        }
        if self.in_array && is_member && !has_hint && lacks_identity {
            return self.skip(NO_TYPE_META);
        }
        // Among other files they can be skipped.
        if is_member && let Some(problem) = without_objects(object.api_version_str(), object.kind_str()) {
            return self.skip(problem);
        }
        self.ingest.object(object, self.source)
    }

    /// A document without apiVersion and kind.
    fn no_object(&mut self, object: &Item<'_>, text: &str) -> Result<(), SnapshotError> {
        let has_meta = !object.meta.is_absent();
        let value = if has_meta { None } else { parse(text) };
        if value
            .as_ref()
            .is_some_and(|value| self.says_something(value, text))
        {
            return Ok(());
        }
        let missing = match (object.api_version_str(), object.kind_str()) {
            ("", "") => value.as_ref().and_then(explain),
            ("", _) => Some("it has no apiVersion".to_owned()),
            _ => Some("it has no kind".to_owned()),
        };
        let missing = missing.unwrap_or_else(|| NO_TYPE_META.to_owned());
        if (self.settings.lenient || self.source.is_member) && object.is_without_identity() {
            return self.skip(&missing);
        }
        let meta = object.meta.get();
        let is_inferred = meta.is_some_and(|meta| !meta.name.as_str().is_empty())
            && (object.api_version_str(), object.kind_str()) == ("", "")
            && kindless::infer(&object.body, &self.source.place.file).is_some();
        if !(is_inferred || self.source.is_member && has_meta) {
            return Err(self.source.not_an_object(missing));
        }
        // Without an inferred kind it is one object of some kind, which is incomplete then.
        self.ingest.object(object, self.source)?;
        self.ingest.settle_pending(None, self.source);
        Ok(())
    }

    /// Whether a document without metadata contains the version of the API server, or shows that a list is
    /// empty.
    fn says_something(&mut self, value: &Value, text: &str) -> bool {
        let place = &self.source.place;
        if let Some(version) = version::of_document(value) {
            return self
                .ingest
                .detect_version(version, VersionSource::ApiServer, place);
        }
        value.get("Items").is_some_and(Value::is_null)
            && internal::kind_of(text.as_bytes(), &place.file).is_some()
    }

    /// One object or list that was read into a tree, of this text.
    pub(super) fn value(&mut self, value: &Value, text: &str) -> Result<(), SnapshotError> {
        let is_item = self.source.place.item.is_some();
        let Some(object) = tree::item(value) else {
            let found = tree::type_name(value);
            if self.source.is_member && (!is_item || self.in_array) {
                return self.skip(&format!("it is {found}"));
            }
            if !is_item {
                return Err(self.source.not_an_object(format!("it is {found}")));
            }
            self.no_map(value);
            return Ok(());
        };
        if !object.is_list_kind() {
            return self.object(&object, text);
        }
        let items = match value.get("items") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(items)) => &items[..],
            Some(other) => {
                let found = tree::type_name(other);
                let problem = format!("items: expected a list, found {found}");
                return Err(self.source.not_an_object(problem));
            }
        };
        self.nested(|reading| reading.list(value, items))
    }

    /// An entry of a list that is not a map.
    fn no_map(&mut self, value: &Value) {
        let problem = format!("expected a map, found {}", tree::type_name(value));
        self.ingest.unreadable(self.source, &problem);
    }

    /// A list that was read into a tree.
    fn list(&mut self, list: &Value, items: &[Value]) -> Result<(), SnapshotError> {
        let mut shape = self.shape();
        for value in items {
            self.source.place.item = Some(shape.items);
            match tree::item(value) {
                Some(object) if object.is_list_kind() => {
                    let place = self.source.place.clone();
                    return Err(SnapshotError::not_an_object(place, "a list in a list in a list"));
                }
                Some(object) => self.ingest.object(&object, self.source)?,
                None => self.no_map(value),
            }
            shape.items += 1;
        }
        self.source.place.item = None;
        self.list_end(list, &shape)
    }

    /// The end of a list: its kind decides what its items are.
    pub(super) fn list_end(&mut self, value: &Value, shape: &Shape) -> Result<(), SnapshotError> {
        let head = tree::list_head(value);
        let (is_member, hint) = (self.source.is_member, self.source.hint);
        let place = &self.source.place;
        refuse_non_objects(&head.api_version, &head.kind, place)?;
        if head.is_named && !head.kind.is_empty() {
            // An object of its own with a field `items`: its entries are not objects of the cluster.
            self.ingest.discard_since(shape.mark);
            return match tree::item(value) {
                Some(object) => self.ingest.object(&object, self.source),
                None => Ok(()),
            };
        }
        let refused: &str = match (head.kind.as_str(), head.kind.strip_suffix("List")) {
            ("", _) if shape.is_array => {
                self.ingest.settle_pending(hint, self.source);
                return Ok(());
            }
            ("", _) if shape.internal.is_some() => return Ok(()),
            ("", _) if is_member && head.api_version.is_empty() && shape.objects == self.objects => {
                // Such as the events of an Insights archive, which are not objects.
                self.ingest.discard_since(shape.mark);
                return self.skip(NO_TYPE_META);
            }
            // As the Go client encodes a list, or a program its own choice of objects.
            ("", _) if shape.is_whole => match hint {
                Some(hint) => return self.typed_list_end(&head, hint, shape),
                None if self.ingest.pending.is_empty() => return self.mixed_list_end(&head),
                // Among other files it is a part of the dump, which is incomplete then.
                None if is_member || self.ingest.all_are_inferred(self.source) => {
                    self.ingest.settle_pending(None, self.source);
                    return Ok(());
                }
                None => "neither the list nor its items have a kind; give it with read_as",
            },
            ("", _) => "it has items and no kind, so it is cut off or no list of objects",
            ("List", _) => {
                self.ingest.settle_pending(hint, self.source);
                return self.mixed_list_end(&head);
            }
            ("PartialObjectMetadataList", _) => match hint {
                Some(hint) => return self.typed_list_end(&head, hint, shape),
                None => {
                    "PartialObjectMetadataList does not say the kind of its objects; give it with read_as"
                }
            },
            (_, Some(kind)) if !head.api_version.is_empty() => {
                let type_id = self.ingest.store.type_id(&head.api_version, kind);
                return self.typed_list_end(&head, type_id, shape);
            }
            (_, Some(_)) => "it has no apiVersion",
            (kind, None) => &format!("it has items, but {kind} is not a kind of list"),
        };
        Err(self.source.not_an_object(refused))
    }

    fn typed_list_end(
        &mut self,
        head: &ListHead,
        type_id: TypeId,
        shape: &Shape,
    ) -> Result<(), SnapshotError> {
        self.ingest.settle_pending(Some(type_id), self.source);
        let items = u64::from(shape.items);
        self.ingest.page(head, type_id, items, &self.source.place);
        Ok(())
    }

    /// The end of a list of several kinds, which may have been cut into pages.
    fn mixed_list_end(&mut self, head: &ListHead) -> Result<(), SnapshotError> {
        if head.continues {
            let (place, field) = (&self.source.place, "metadata.continue");
            let why = Why::ListContinues(place.clone());
            let problem = Problem::ListContinues;
            self.ingest
                .revoke_all(why, problem, place, field, "the list continues");
        }
        Ok(())
    }
}

/// The kind of a list's items according to the fields before them. The list has no end yet; fields after the
/// items take precedence.
pub(super) fn head_of(text: &[u8]) -> Option<TypeName> {
    let text = [text, b"}"].concat();
    let head = tree::list_head(&serde_json::from_slice(&text).ok()?);
    let kind = head.kind.strip_suffix("List").filter(|kind| !kind.is_empty())?;
    let says_it = !head.api_version.is_empty() && kind != "PartialObjectMetadata";
    says_it.then(|| (head.api_version.as_str().into(), kind.into()))
}

/// The fields that a map lacks to be an object.
const NO_TYPE_META: &str = "it has neither apiVersion nor kind";

/// Parses JSON or YAML.
fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).or_else(|_| yaml::parse(text)).ok()
}

/// Describes a map that holds objects, with advice.
fn explain(value: &Value) -> Option<String> {
    let fields = value.as_object()?;
    if let (Some(Value::String(event)), Some(object)) = (fields.get("type"), fields.get("object"))
        && matches!(&**event, "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR")
    {
        let name = tree::item(object).and_then(|object| object.short_name());
        let of = name.map_or(String::new(), |name| format!(" of {name}"));
        return Some(format!(
            "it is a watch event ({event}{of}); list the objects with kubectl get -o json, without --watch"
        ));
    }
    let holds_objects = |value: &Value| match value {
        Value::Array(entries) => entries.iter().any(is_like_an_object),
        other => is_like_an_object(other),
    };
    let (field, _) = fields.iter().find(|(_, value)| holds_objects(value))?;
    Some(format!(
        "it is a map with objects under `{}`; give each of its values as a document, for example with jq '.[]'",
        kubegc_core::printable(field)
    ))
}

fn is_like_an_object(value: &Value) -> bool {
    value.pointer("/metadata/name").is_some() || value.get("items").is_some_and(Value::is_array)
}

/// The object in an entry `object: {...}` of an array; `None` if the entry is anything else.
///
/// # Upstream
/// [`crsV1beta`](https://github.com/replicatedhq/troubleshoot/blob/8f9a617de17f3ab0728499e8762de21b03a0e8a0/pkg/collect/cluster_resources.go)
/// of troubleshoot.sh: where CRDs are v1beta1, its YAML has cluster-scoped custom resources under the name of
/// a field of Go.
fn wrapped(text: &str) -> Option<Value> {
    let mut entry = parse(text)?;
    if let Value::Array(entries) = &mut entry {
        // In YAML an entry has its dash.
        entry = entries.pop()?;
    }
    let fields = entry.as_object_mut().filter(|fields| fields.len() == 1)?;
    let object = fields.remove("object")?;
    // An object without content is not unwrapped, so nothing is unwrapped twice.
    let is_object = tree::item(&object).is_some_and(|object| !object.is_without_identity());
    is_object.then_some(object)
}
