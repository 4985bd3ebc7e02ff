//! Pages of a list, and continue tokens.
//!
//! All pages of one list are those of one revision: later changes are undone, as long as the server retains
//! them.
//!
//! # Upstream
//! `GetList` in `apiserver/pkg/storage/etcd3/store.go`, and `continue.go` in the same directory, 1.20.2.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use kubegc_core::KindId;
use kubegc_sim::{ApiServer, Filter, StoredObject};
use serde_json::{Value, json};

use super::{
    options::{ListOptions, Wanted},
    problem::{self, Refusal},
    render::ListMeta,
};

const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";
const TOKEN_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. \
     You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of \
     the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted \
     between the time the first chunk was returned and now may show up in the list.";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) items: Vec<Arc<StoredObject>>,
    pub(super) meta: ListMeta,
}

/// Returns the requested page.
///
/// # Errors
/// 400 for an invalid token, 410 if the changes since its revision are no longer retained, 504 if the version
/// is not reached.
pub(super) fn of(
    server: &ApiServer,
    kind: KindId,
    namespace: Option<&str>,
    options: &ListOptions,
) -> Result<Page, Refusal> {
    let token = Token::read(&options.continue_token)?;
    if token.is_some() && matches!(options.resource_version, Wanted::At(_)) {
        let why = "specifying resource version is not allowed when using continue";
        return Err(problem::bad_request(why));
    }
    let wanted = options.resource_version.reached(server.revision())?;
    let exact = match wanted {
        Wanted::At(revision) if options.is_exact => Some(revision),
        _ => token.as_ref().and_then(|token| token.revision),
    };
    let revision = exact.unwrap_or(server.revision());
    let items = objects_at(server, kind, namespace, revision);
    let mut items = items.ok_or_else(|| match &token {
        Some(token) => problem::expired(TOKEN_EXPIRED, Some(token.at_latest().write())),
        None => problem::expired(LIST_EXPIRED, None),
    })?;
    items.retain(|object| server.matches(kind, &options.filter, object));
    if let Some(token) = &token {
        let start = items.partition_point(|object| page_key(object) <= (&*token.namespace, &*token.name));
        items.drain(..start);
    }
    let mut meta = ListMeta {
        resource_version: revision,
        ..ListMeta::default()
    };
    // Upstream serves version 0 from the watch cache, without paging.
    let limit = if wanted == Wanted::Any && token.is_none() {
        0
    } else {
        options.limit
    };
    if limit > 0 && items.len() > limit {
        let everything = options.filter == Filter::default();
        meta.remaining = everything.then_some(items.len() - limit);
        items.truncate(limit);
        meta.continue_token = items.last().map(|last| Token::after(last, revision).write());
    }
    Ok(Page { items, meta })
}

/// The objects of a resource, or of one namespace, as they were at a revision, ordered by namespace and name.
/// `None` if the changes since then are no longer retained.
///
/// Objects that were inserted without an event count as having been there always.
///
/// # Complexity
/// O((n + m) log m) for n objects and m changes since.
fn objects_at(
    server: &ApiServer,
    kind: KindId,
    namespace: Option<&str>,
    revision: u64,
) -> Option<Vec<Arc<StoredObject>>> {
    let mut then: BTreeMap<(&str, &str), Option<&Arc<StoredObject>>> = BTreeMap::new();
    if revision < server.revision() {
        let events = server.events_since(kind, revision).ok()?;
        for event in events {
            let meta = &event.object.meta;
            if namespace.is_none_or(|namespace| *meta.namespace == *namespace) {
                // The first change holds the state before all of them.
                then.entry(page_key(&event.object))
                    .or_insert(event.previous.as_ref());
            }
        }
    }
    let now = server.objects(kind, namespace);
    if then.is_empty() {
        return Some(now);
    }
    let untouched = now
        .into_iter()
        .filter(|object| !then.contains_key(&page_key(object)));
    let mut objects: Vec<_> = untouched.collect();
    objects.extend(then.values().flatten().map(|object| Arc::clone(object)));
    objects.sort_by(|a, b| page_key(a).cmp(&page_key(b)));
    Some(objects)
}

fn page_key(object: &StoredObject) -> (&str, &str) {
    (&object.meta.namespace, &object.meta.name)
}

/// The position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    /// The revision of the list's first page; `None` continues with the latest data.
    revision: Option<u64>,
    namespace: String,
    name: String,
}

const VERSION: &str = "meta.k8s.io/v1";

impl Token {
    fn after(object: &StoredObject, revision: u64) -> Self {
        Self {
            revision: Some(revision),
            namespace: object.meta.namespace.to_string(),
            name: object.meta.name.to_string(),
        }
    }

    /// The same position in the latest data.
    fn at_latest(&self) -> Self {
        Self {
            revision: None,
            ..self.clone()
        }
    }

    /// `None` for an empty text.
    fn read(text: &str) -> Result<Option<Self>, Refusal> {
        if text.is_empty() {
            return Ok(None);
        }
        let refuse = |problem: String| {
            problem::bad_request(format!(
                "invalid continue token: continue key is not valid: {problem}"
            ))
        };
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|error| {
            let place = place_of(&error, text);
            refuse(format!("illegal base64 data at input byte {place}"))
        })?;
        let fields: Value = serde_json::from_slice(&bytes).map_err(|error| {
            refuse(kubegc_sim::json_syntax_error(&bytes).unwrap_or_else(|| error.to_string()))
        })?;
        let text = |key: &str| fields[key].as_str().unwrap_or_default().to_owned();
        if text("v") != VERSION {
            let version = text("v");
            return Err(refuse(format!(
                "server does not recognize this encoded version {version:?}"
            )));
        }
        let revision = match fields["rv"].as_i64().unwrap_or(0) {
            -1 => None,
            revision => match u64::try_from(revision) {
                Ok(revision @ 1..) => Some(revision),
                _ => {
                    let why = "incorrect encoded start resourceVersion";
                    return Err(refuse(format!("{why} (version {VERSION})")));
                }
            },
        };
        if text("name").is_empty() {
            return Err(refuse(format!("encoded start key empty (version {VERSION})")));
        }
        Ok(Some(Self {
            revision,
            namespace: text("namespace"),
            name: text("name"),
        }))
    }

    fn write(&self) -> String {
        let revision = self.revision.map_or_else(|| json!(-1), Value::from);
        let fields = json!({"v": VERSION, "rv": revision, "namespace": self.namespace, "name": self.name});
        BASE64_URL_SAFE_NO_PAD.encode(fields.to_string())
    }
}

/// The position at which Go's decoder stops.
fn place_of(error: &base64::DecodeError, text: &str) -> usize {
    match error {
        base64::DecodeError::InvalidByte(place, _) => *place,
        _ => text.len() - text.len() % 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_a_round_trip_and_others_are_refused() {
        let token = Token {
            revision: Some(7),
            namespace: "shop".to_owned(),
            name: "a/b\"".to_owned(),
        };
        for token in [token.clone(), token.at_latest()] {
            assert_eq!(Token::read(&token.write()).expect("made here"), Some(token));
        }
        assert_eq!(Token::read("").expect("an empty text is not a token"), None);
        for bad in ["a", "zz", "7b7d", "é", "00", &"7b".repeat(500)] {
            assert!(Token::read(bad).is_err(), "{bad}");
        }
    }
}
