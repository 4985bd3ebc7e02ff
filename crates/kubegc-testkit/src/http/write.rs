//! Write handlers: they translate a write to a request of the simulated server, and perform it there or, for
//! a dry run, on a copy that is dropped.

use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use kubegc_core::{KindId, ResourceVersion, json::duplicate_fields};
use kubegc_sim::{ApiServer, ApplyOptions, Response, ResponseBody, StoredObject};
use serde_json::Value;

use super::{
    Call, Verb,
    access::Requester,
    body, deletion,
    options::{self, ListOptions},
    page,
    problem::{self, Cause, Refusal},
    protobuf::PROTOBUF,
    query::Query,
    read::collection_namespace,
    render::{ListMeta, View},
    reply::Reply,
    review, token,
};

const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// Performs a write.
///
/// # Errors
/// The refusal of options, bodies and forms.
pub(super) fn respond(
    server: &mut ApiServer,
    call: &Call,
    kind: KindId,
    query: &Query,
    request: &http::Request<Bytes>,
    view: &View,
    requester: Requester<'_>,
) -> Result<Reply, Refusal> {
    let former = (server.field_manager().to_owned(), server.user().to_owned());
    server.set_field_manager(match &*call.field_manager {
        "" => "unknown",
        named => named,
    });
    server.set_user(requester.user);
    let served = perform(server, call, kind, query, request, view, requester);
    // A direct write to the server has another field manager and user.
    server.set_field_manager(&former.0);
    server.set_user(&former.1);
    served
}

/// Performs a write with the current field manager, or performs a review.
fn perform(
    server: &mut ApiServer,
    call: &Call,
    kind: KindId,
    query: &Query,
    request: &http::Request<Bytes>,
    view: &View,
    requester: Requester<'_>,
) -> Result<Reply, Refusal> {
    let mut warnings = Vec::new();
    let mut response = match call.verb {
        Verb::Create => {
            options::write_options(query, "CreateOptions", server.version())?;
            let body = body::object(request, &view.resource, expected_kind(call, view))?;
            warnings = misplaced_fields(server, call, kind, query, request, &body)?;
            if review::is_review(&view.resource) {
                let header = request.headers().get(AUTHORIZATION);
                let header = header.and_then(|value| value.to_str().ok());
                let bearer = header.and_then(|value| value.strip_prefix("Bearer "));
                let (resource, namespace) = (&view.resource, &call.namespace);
                return review::respond(server, resource, namespace, body, requester, bearer);
            }
            if call.subresource == "token" {
                return token::respond(server, call, body);
            }
            store(server, call, kind, |server| create(server, call, kind, body))
        }
        Verb::Update => {
            options::write_options(query, "UpdateOptions", server.version())?;
            let body = body::object(request, &view.resource, expected_kind(call, view))?;
            warnings = misplaced_fields(server, call, kind, query, request, &body)?;
            store(server, call, kind, |server| update(server, call, kind, body))
        }
        Verb::Patch => {
            options::write_options(query, "PatchOptions", server.version())?;
            warnings = misplaced_fields_of_patch(server, call, kind, query, request)?;
            let work = patch(call, kind, query, request)?;
            store(server, call, kind, work)
        }
        // The server itself knows the dry run of a deletion.
        Verb::Delete => {
            let options = deletion::options(query, request, server.version())?;
            server.delete(kind, &call.namespace, &call.name, &options)
        }
        Verb::DeleteCollection => {
            return delete_collection(server, call, kind, query, request, view);
        }
        Verb::Get | Verb::List | Verb::Watch | Verb::Unknown | Verb::NonResource => {
            return Err(problem::method_not_allowed());
        }
    };
    if response.is_success() {
        response.warnings.append(&mut warnings);
    }
    render(server, kind, view, response)
}

/// The warnings about fields of a body that occur more than once, or that its kind does not have. Of the
/// repeated keys of YAML, only the first one is reported. Protobuf is not checked.
///
/// # Errors
/// 400 with `fieldValidation=Strict`.
///
/// # Upstream
/// `createHandler` in `apiserver/pkg/endpoints/handlers/create.go`, 1.27.
fn misplaced_fields(
    server: &ApiServer,
    call: &Call,
    kind: KindId,
    query: &Query,
    request: &http::Request<Bytes>,
    body: &Value,
) -> Result<Vec<String>, Refusal> {
    let Some(is_strict) = options::field_validation(query, server.version()) else {
        return Ok(Vec::new());
    };
    // Other subresources have bodies of their own.
    if !matches!(&*call.subresource, "" | "status") || body::content_type(request) == PROTOBUF {
        return Ok(Vec::new());
    }
    let unknown = server.unknown_fields(kind, body, false);
    let is_yaml = body::content_type(request) == body::YAML;
    let mut problems: Vec<String> = if is_yaml {
        let repeated = repeated_in_yaml(request.body());
        let repeated = repeated.map(|(line, key)| format!("line {line}: key {key:?} already set in map"));
        repeated.into_iter().collect()
    } else {
        repeated_fields(request, &unknown)
    };
    let yaml = if is_yaml && !problems.is_empty() {
        "yaml: unmarshal errors:\n  "
    } else {
        ""
    };
    problems.extend(named(unknown));
    if problems.is_empty() || !is_strict {
        return Ok(problems);
    }
    let resource = &server.catalog()[kind];
    Err(problem::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: strict decoding error: {yaml}{}",
        resource.kind,
        resource.version,
        resource.kind,
        problems.join(", ")
    )))
}

/// The same for a patch. The fields of an apply are checked with it. Repeated fields of JSON patches are not
/// checked.
///
/// # Errors
/// 422 with `fieldValidation=Strict`.
///
/// # Upstream
/// `applyPatchToCurrentObject` in `apiserver/pkg/endpoints/handlers/patch.go`, 1.27.
fn misplaced_fields_of_patch(
    server: &ApiServer,
    call: &Call,
    kind: KindId,
    query: &Query,
    request: &http::Request<Bytes>,
) -> Result<Vec<String>, Refusal> {
    let format = body::content_type(request);
    let is_json = format == JSON_PATCH;
    let is_checked = is_json || matches!(format, MERGE_PATCH | STRATEGIC_PATCH);
    let Some(is_strict) = options::field_validation(query, server.version()).filter(|_| is_checked) else {
        return Ok(Vec::new());
    };
    if !matches!(&*call.subresource, "" | "status") {
        return Ok(Vec::new());
    }
    // A patch that cannot be read is refused later.
    let patch: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let of_patch = match is_json {
        true => Vec::new(),
        false => server.unknown_fields(kind, &patch, true),
    };
    let mut problems = match is_json {
        true => Vec::new(),
        false => repeated_fields(request, &of_patch),
    };
    if !is_json && of_patch.is_empty() && problems.is_empty() {
        return Ok(problems);
    }
    let preview = server.preview_patch(kind, &call.namespace, &call.name, format, request.body());
    let Some((patched, shown)) = preview else {
        return Ok(Vec::new());
    };
    problems.extend(named(server.unknown_fields(kind, &patched, false)));
    if problems.is_empty() || !is_strict {
        return Ok(problems);
    }
    let why = format!("strict decoding error: {}", problems.join(", "));
    let cause = Cause::invalid("patch", &format!("{shown:?}"), &why);
    Err(problem::invalid("", "", "", &[cause]))
}

/// The problems of fields that occur more than once in a JSON body. Unknown fields are not decoded.
fn repeated_fields(request: &http::Request<Bytes>, unknown: &[String]) -> Vec<String> {
    let is_below = |path: &str, other: &str| {
        let rest = path.strip_prefix(other);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    duplicate_fields(&mut serde_json::Deserializer::from_slice(request.body()))
        .into_iter()
        .filter(|path| !unknown.iter().any(|other| is_below(path, other)))
        .map(|path| format!("duplicate field {path:?}"))
        .collect()
}

/// The line and the key of the first key that occurs more than once in a mapping of a YAML document.
fn repeated_in_yaml(body: &[u8]) -> Option<(usize, String)> {
    // The default options of the reader refuse such keys.
    let error = serde_saphyr::from_str::<Value>(str::from_utf8(body).ok()?).err()?;
    let error = error.to_string();
    let (place, rest) = error.split_once(": duplicate mapping key: ")?;
    let (_, line) = place.rsplit_once("line ")?;
    let (key, _) = rest.split_once(", set DuplicateKeyPolicy")?;
    Some((line.split_once(' ')?.0.parse().ok()?, key.to_owned()))
}

fn named(unknown: Vec<String>) -> Vec<String> {
    let unknown = unknown.into_iter();
    unknown.map(|field| format!("unknown field {field:?}")).collect()
}

/// A response of the simulated server, in the requested form.
///
/// # Errors
/// 406 if it does not take that form.
pub(super) fn render(
    server: &ApiServer,
    kind: KindId,
    view: &View,
    response: Response,
) -> Result<Reply, Refusal> {
    render_page(server, kind, view, response, ListMeta::default())
}

/// The same for a response that may be one page of a list. Its version is that of the response.
fn render_page(
    server: &ApiServer,
    kind: KindId,
    view: &View,
    response: Response,
    page: ListMeta,
) -> Result<Reply, Refusal> {
    let now = server.now();
    let body = match &response.body {
        ResponseBody::Object(object) => {
            let shown = server.shown(kind, object)?;
            view.object(&shown, now)?
        }
        ResponseBody::Status(status) => status.to_json(),
        ResponseBody::Virtual(object) => Value::clone(object),
        ResponseBody::List(list) => {
            let meta = ListMeta {
                resource_version: list.revision,
                ..page
            };
            let items = shown_all(server, kind, &list.items)?;
            view.list(&items, &meta, now)?
        }
    };
    Ok(Reply::object(response.code, body).with_warnings(response.warnings))
}

/// Objects as a version of the API shows them.
///
/// # Errors
/// 500 if one of them is not converted.
pub(super) fn shown_all(
    server: &ApiServer,
    kind: KindId,
    objects: &[Arc<StoredObject>],
) -> Result<Vec<Arc<StoredObject>>, Refusal> {
    let shown = objects.iter().map(|object| server.shown(kind, object));
    shown.collect()
}

/// Performs a write, or, in a dry run, only computes its response.
fn store(
    server: &mut ApiServer,
    call: &Call,
    kind: KindId,
    work: impl FnOnce(&mut ApiServer) -> Response,
) -> Response {
    if !call.dry_run {
        return work(server);
    }
    let stored = server.object(kind, &call.namespace, &call.name);
    let version = stored.map(|object| object.meta.resource_version.clone());
    unversioned(server.dry_run(work), version.unwrap_or_default())
}

/// The response of a dry run: it makes no revision, so the object keeps its version.
fn unversioned(mut response: Response, version: ResourceVersion) -> Response {
    match &mut response.body {
        ResponseBody::Object(object) if object.meta.resource_version != version => {
            let mut shown = StoredObject::clone(object);
            shown.meta.resource_version = version;
            *object = Arc::new(shown);
        }
        ResponseBody::Virtual(object) => {
            if let Some(shown) = object.pointer_mut("/metadata/resourceVersion") {
                *shown = version.as_str().into();
            }
        }
        ResponseBody::Object(_) | ResponseBody::Status(_) | ResponseBody::List(_) => {}
    }
    response
}

/// The kind that the body of a request should have, for messages.
fn expected_kind<'a>(call: &Call, view: &'a View) -> &'a str {
    match &*call.subresource {
        "scale" => "Scale",
        "eviction" => "Eviction",
        "binding" => "Binding",
        "token" => "TokenRequest",
        _ => &view.resource.kind,
    }
}

fn create(server: &mut ApiServer, call: &Call, kind: KindId, body: Value) -> Response {
    let resource = &server.catalog()[kind];
    if resource.group.is_empty() && &*resource.resource == "bindings" {
        // The old way to bind a pod: the binding has the pod's name.
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        return match server.resolve("", "v1", "pods") {
            Ok(pods) => server.create_subresource(pods, &call.namespace, &name, "binding", body),
            Err(response) => response,
        };
    }
    if call.subresource.is_empty() {
        server.create_json(kind, &call.namespace, body)
    } else {
        server.create_subresource(kind, &call.namespace, &call.name, &call.subresource, body)
    }
}

fn update(server: &mut ApiServer, call: &Call, kind: KindId, body: Value) -> Response {
    if call.subresource.is_empty() {
        server.update_json(kind, &call.namespace, &call.name, body)
    } else {
        server.update_subresource(kind, &call.namespace, &call.name, &call.subresource, body)
    }
}

/// The patch of a request, to be carried out on a server.
fn patch<'a>(
    call: &'a Call,
    kind: KindId,
    query: &Query,
    request: &'a http::Request<Bytes>,
) -> Result<impl FnOnce(&mut ApiServer) -> Response + 'a, Refusal> {
    let content_type = body::content_type(request);
    let applied = if content_type == APPLY {
        options::apply_options(query, true)?;
        Some(
            body::yaml(request.body())
                .map_err(|why| problem::bad_request(format!("error decoding YAML: {why}")))?,
        )
    } else {
        options::apply_options(query, false)?;
        None
    };
    let options = ApplyOptions {
        field_manager: query.text("fieldManager").to_owned(),
        force: query.flag("force") == Some(true),
    };
    Ok(move |server: &mut ApiServer| {
        let (namespace, name, part) = (&*call.namespace, &*call.name, &*call.subresource);
        match applied {
            Some(applied) => {
                let part = (!part.is_empty()).then_some(part);
                server.apply(kind, namespace, name, part, applied, &options)
            }
            None if part.is_empty() => server.patch(kind, namespace, name, content_type, request.body()),
            None => server.patch_subresource(kind, namespace, name, part, content_type, request.body()),
        }
    })
}

/// Deletes the objects that a list with the same options returns.
fn delete_collection(
    server: &mut ApiServer,
    call: &Call,
    kind: KindId,
    query: &Query,
    request: &http::Request<Bytes>,
    view: &View,
) -> Result<Reply, Refusal> {
    let options = deletion::options(query, request, server.version())?;
    let list = ListOptions::read(query, call.verb, server.version())?;
    let checked = server.check_filter(kind, &list.filter);
    checked.map_err(|response| problem::of_response(&response))?;
    let page = page::of(server, kind, collection_namespace(call), &list)?;
    let response = server.delete_objects(kind, page.items, &options);
    render_page(server, kind, view, response, page.meta)
}
