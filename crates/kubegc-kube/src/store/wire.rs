//! Parses the API server's objects, lists and watch events, and the `Status` of a refusal.
//!
//! Only the fields that garbage collection needs are kept. If one of them has the wrong type, the document is
//! an error: an object with an unreadable deletion timestamp must not count as not being deleted.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{
    ObjectMeta, ResourceVersion,
    json::MetaFields,
    store::{MetaList, WatchItem},
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object, of which only the metadata is read.
#[derive(Debug, Deserialize)]
pub(crate) struct WireObject<'a> {
    #[serde(borrow, default)]
    metadata: MetaFields<'a>,
}

/// One page of a list. A response that is not a list must not count as an empty list: all objects of the kind
/// would count as deleted.
#[derive(Debug, Deserialize)]
pub(crate) struct WireList<'a> {
    kind: String,
    pub(crate) metadata: ListMeta,
    #[serde(borrow, deserialize_with = "null_or_items")]
    items: Option<Vec<WireObject<'a>>>,
}

/// The items; `null` counts as none, but the field is required (serde requires it because of
/// `deserialize_with`).
fn null_or_items<'de: 'a, 'a, D: Deserializer<'de>>(
    items: D,
) -> Result<Option<Vec<WireObject<'a>>>, D::Error> {
    Option::deserialize(items)
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListMeta {
    pub(crate) resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub(crate) continues: Option<String>,
}

/// The type of a line of a watch, before its content is known.
#[derive(Debug, Deserialize)]
struct LineType {
    #[serde(rename = "type")]
    name: String,
}

/// A line of a watch that holds an object, or a refusal.
#[derive(Debug, Deserialize)]
struct WireEvent<T> {
    object: T,
}

/// Strings that many objects share: namespaces, finalizers, names of labels, kinds of owners.
#[derive(Debug, Default)]
pub(crate) struct Texts(BTreeSet<Arc<str>>);

impl Texts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let text = Arc::from(text);
        self.0.insert(Arc::clone(&text));
        text
    }
}

impl WireObject<'_> {
    /// The metadata, with shared strings.
    pub(crate) fn meta(&self, texts: &mut Texts) -> Result<ObjectMeta, String> {
        if let Some(wrong) = self.metadata.wrong().first() {
            return Err(wrong.to_string());
        }
        let read = self.metadata.to_meta(|text| texts.share(text));
        let meta = read.map_err(|error| error.to_string())?;
        if meta.name.is_empty() {
            return Err("the object has no metadata.name".to_owned());
        }
        if meta.uid.is_empty() {
            // No reference would refer to an object without a uid.
            return Err(format!("the object {} has no metadata.uid", meta.name));
        }
        Ok(meta)
    }

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::new(self.metadata.resource_version.as_str())
    }
}

pub(crate) fn object(body: &[u8]) -> Result<ObjectMeta, String> {
    let object: WireObject<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    object.meta(&mut Texts::default())
}

/// Adds a page to a list and returns the continue token, if there is one.
pub(crate) fn page(body: &[u8], list: &mut MetaList, texts: &mut Texts) -> Result<Option<String>, String> {
    let page: WireList<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if !page.kind.ends_with("List") {
        return Err(format!("expected a list, found the kind {:?}", page.kind));
    }
    for item in page.items.unwrap_or_default() {
        list.items.push(item.meta(texts)?);
    }
    // Every page of a list has the list's version.
    list.resource_version = ResourceVersion::new(&page.metadata.resource_version.unwrap_or_default());
    Ok(page.metadata.continues.filter(|token| !token.is_empty()))
}

pub(super) fn meta_of(line: &[u8], texts: &mut Texts) -> Result<ObjectMeta, String> {
    let event: WireEvent<WireObject<'_>> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    event.object.meta(texts)
}

/// The whole object in a watch event, as JSON.
pub(super) fn document_of(line: &[u8], _texts: &mut Texts) -> Result<Vec<u8>, String> {
    let event: WireEvent<Value> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    Ok(event.object.to_string().into_bytes())
}

pub(crate) enum Line<T> {
    Item(WatchItem<T>),
    /// The server ended the watch with this status.
    Refusal(Value),
    /// An event of an unknown type; it is ignored.
    Other,
}

pub(crate) fn line<T>(
    line: &[u8],
    texts: &mut Texts,
    read: fn(&[u8], &mut Texts) -> Result<T, String>,
) -> Result<Line<T>, String> {
    let text = |error: serde_json::Error| error.to_string();
    let name = match serde_json::from_slice::<LineType>(line) {
        Ok(known) => known.name,
        // Some servers send a bare status.
        Err(error) => {
            return match serde_json::from_slice::<Value>(line) {
                Ok(status) if status["kind"] == "Status" => Ok(Line::Refusal(status)),
                _ => Err(error.to_string()),
            };
        }
    };
    if name == "ERROR" {
        let refusal = serde_json::from_slice::<WireEvent<Value>>(line);
        return refusal.map(|event| Line::Refusal(event.object)).map_err(text);
    }
    Ok(match name.as_str() {
        "ADDED" | "MODIFIED" => Line::Item(WatchItem::Applied(read(line, texts)?)),
        "DELETED" => Line::Item(WatchItem::Deleted(read(line, texts)?)),
        "BOOKMARK" => {
            let WireEvent { object } =
                serde_json::from_slice::<WireEvent<WireObject<'_>>>(line).map_err(text)?;
            Line::Item(WatchItem::Bookmark(object.resource_version()))
        }
        _ => Line::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_fields_of_metadata_are_read_like_absent_ones() {
        let full = object(
            br#"{"kind":"PartialObjectMetadata","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","generation":2,
            "creationTimestamp":"2026-03-01T12:00:05Z","deletionTimestamp":"2026-03-01T12:00:06Z","deletionGracePeriodSeconds":0,
            "finalizers":["orphan"],"labels":{"k":"v"},"managedFields":[{}],
            "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"o","controller":false,"blockOwnerDeletion":true}]}}"#,
        )
        .expect("valid");
        assert!(full.is_deleting() && full.has_finalizer("orphan"));
        assert_eq!(full.owner_references[0].controller, Some(false));
        assert_eq!(full.resource_version.as_str(), "7");
        let bare = object(br#"{"metadata":{"name":"a","uid":"u","finalizers":null,"ownerReferences":null,"creationTimestamp":null}}"#);
        assert_eq!(bare, Ok(ObjectMeta::new("", "a", "u")));
    }

    #[test]
    fn unreadable_documents_are_errors() {
        for body in [
            r#"{"metadata":{"name":"a","deletionTimestamp":"soon"}}"#,
            r#"{"metadata":{"uid":"u"}}"#,
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":7}}"#,
            "[]",
            "",
        ] {
            assert!(object(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn a_document_that_is_not_a_list_is_not_read_as_an_empty_list() {
        let read = |body: &str| {
            let mut list = MetaList::default();
            page(body.as_bytes(), &mut list, &mut Texts::default()).map(|_| list.items.len())
        };
        for body in [
            r#"{}"#,
            r#"{"kind":"Status","status":"Failure"}"#,
            r#"{"kind":"Status","metadata":{},"items":[]}"#,
            r#"{"kind":"PodList","items":[]}"#,
            r#"{"kind":"PodList","metadata":{}}"#,
            r#"{"kind":"PodList","metadata":{},"items":[{"metadata":{"name":"a"}}]}"#,
        ] {
            assert!(read(body).is_err(), "{body}");
        }
        for items in ["null", "[]"] {
            let body =
                format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"7"}},"items":{items}}}"#);
            assert_eq!(read(&body), Ok(0));
        }
    }
}
