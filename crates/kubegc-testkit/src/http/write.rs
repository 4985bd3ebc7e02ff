//! Write handlers: they translate a write to a request of the simulated server, and perform it there or, for
//! a dry run, on a copy that is dropped.

use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use kubegc_core::{KindId, ResourceVersion, json::duplicate_fields};
use kubegc_sim::{ApiServer, ApplyOptions, Response, ResponseBody, StoredObject};
use serde_json::Value;

use super::{
    Call, ObjectRequest, Verb,
    accept::{PROTOBUF, YAML},
    body,
    options::{self, ListOptions},
    page,
    problem::{self, Cause, Refusal},
    render::ListMeta,
    reply::Reply,
    review, token,
};

const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// Performs a write with the field manager and the user of the request.
pub(super) fn respond(server: &mut ApiServer, request: &ObjectRequest<'_>) -> Result<Reply, Refusal> {
    let former = (server.field_manager().to_owned(), server.user().to_owned());
    server.set_field_manager(match &*request.call.field_manager {
        "" => "unknown",
        named => named,
    });
    server.set_user(request.requester.user);
    let served = request.perform(server);
    // A direct write to the server has another field manager and user.
    server.set_field_manager(&former.0);
    server.set_user(&former.1);
    served
}

impl ObjectRequest<'_> {
    /// Performs a write with the current field manager, or performs a review.
    fn perform(&self, server: &mut ApiServer) -> Result<Reply, Refusal> {
        let (call, kind) = (self.call, self.kind);
        let mut warnings = Vec::new();
        let mut response = match call.verb {
            Verb::Create => {
                options::write_options(self.query, "CreateOptions", server.version())?;
                let body = self.body()?;
                warnings = self.misplaced_fields(server, &body)?;
                let group = &*self.view.resource.group;
                if matches!(group, "authorization.k8s.io" | "authentication.k8s.io") {
                    let header = self.http.headers().get(AUTHORIZATION);
                    let header = header.and_then(|value| value.to_str().ok());
                    let bearer = header.and_then(|value| value.strip_prefix("Bearer "));
                    let (resource, namespace) = (&self.view.resource, &call.namespace);
                    return review::respond(server, resource, namespace, body, self.requester, bearer);
                }
                if call.subresource == "token" {
                    return token::respond(server, call, body);
                }
                self.store(server, |server| create(server, call, kind, body))
            }
            Verb::Update => {
                options::write_options(self.query, "UpdateOptions", server.version())?;
                let body = self.body()?;
                warnings = self.misplaced_fields(server, &body)?;
                let part = &*call.subresource;
                self.store(server, |server| {
                    server.update_subresource(kind, &call.namespace, &call.name, part, body)
                })
            }
            Verb::Patch => {
                options::write_options(self.query, "PatchOptions", server.version())?;
                warnings = self.misplaced_fields_of_patch(server)?;
                let work = self.patch()?;
                self.store(server, work)
            }
            // The server itself knows the dry run of a deletion.
            Verb::Delete => {
                let options = options::delete_options(self.query, self.http, server.version())?;
                server.delete(kind, &call.namespace, &call.name, &options)
            }
            Verb::DeleteCollection => return self.delete_collection(server),
            Verb::Get | Verb::List | Verb::Watch | Verb::Unknown | Verb::NonResource => {
                return Err(problem::method_not_allowed());
            }
        };
        if response.is_success() {
            response.warnings.append(&mut warnings);
        }
        self.view.reply(server, kind, response, ListMeta::default())
    }

    /// The body, which holds an object of the kind or of its subresource.
    fn body(&self) -> Result<Value, Refusal> {
        let kind = match &*self.call.subresource {
            "scale" => "Scale",
            "eviction" => "Eviction",
            "binding" => "Binding",
            "token" => "TokenRequest",
            _ => &self.view.resource.kind,
        };
        body::object(self.http, &self.view.resource, kind)
    }

    /// Whether misplaced fields are refused; `None` where they are ignored. Other subresources than the
    /// status have bodies of their own.
    fn field_validation(&self, server: &ApiServer) -> Option<bool> {
        let has_own_body = !matches!(&*self.call.subresource, "" | "status");
        options::field_validation(self.query, server.version()).filter(|_| !has_own_body)
    }

    /// The warnings about fields of a body that occur more than once, or that its kind does not have. Of the
    /// repeated keys of YAML, only the first one is reported. Protobuf is not checked.
    ///
    /// # Upstream
    /// `createHandler` in `apiserver/pkg/endpoints/handlers/create.go`, 1.27.
    fn misplaced_fields(&self, server: &ApiServer, body: &Value) -> Result<Vec<String>, Refusal> {
        let format = body::content_type(self.http);
        let Some(is_strict) = self.field_validation(server).filter(|_| format != PROTOBUF) else {
            return Ok(Vec::new());
        };
        let unknown = server.unknown_fields(self.kind, body, false);
        let is_yaml = format == YAML;
        let mut problems: Vec<String> = if is_yaml {
            let repeated = repeated_in_yaml(self.http.body());
            let repeated = repeated.map(|(line, key)| format!("line {line}: key {key:?} already set in map"));
            repeated.into_iter().collect()
        } else {
            repeated_fields(self.http, &unknown)
        };
        let yaml = match is_yaml && !problems.is_empty() {
            true => "yaml: unmarshal errors:\n  ",
            false => "",
        };
        problems.extend(named(unknown));
        // A body that cannot be decoded is refused for that.
        if problems.is_empty() || !is_strict || !server.can_decode(self.kind, body) {
            return Ok(problems);
        }
        let (kind, version) = (&self.view.resource.kind, &self.view.resource.version);
        Err(problem::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {yaml}{}",
            problems.join(", ")
        )))
    }

    /// The same for a patch. The fields of an apply are checked with it. Repeated fields of JSON patches are
    /// not checked.
    ///
    /// # Upstream
    /// `applyPatchToCurrentObject` in `apiserver/pkg/endpoints/handlers/patch.go`, 1.27.
    fn misplaced_fields_of_patch(&self, server: &ApiServer) -> Result<Vec<String>, Refusal> {
        let format = body::content_type(self.http);
        let is_checked = matches!(format, JSON_PATCH | MERGE_PATCH | STRATEGIC_PATCH);
        let Some(is_strict) = self.field_validation(server).filter(|_| is_checked) else {
            return Ok(Vec::new());
        };
        let mut problems = Vec::new();
        if format != JSON_PATCH {
            // A patch that cannot be read is refused later.
            let patch: Value = serde_json::from_slice(self.http.body()).unwrap_or_default();
            let unknown = server.unknown_fields(self.kind, &patch, true);
            problems = repeated_fields(self.http, &unknown);
            if unknown.is_empty() && problems.is_empty() {
                return Ok(problems);
            }
        }
        let (namespace, name) = (&self.call.namespace, &self.call.name);
        let preview = server.preview_patch(self.kind, namespace, name, format, self.http.body());
        let Some((patched, shown)) = preview else {
            return Ok(Vec::new());
        };
        problems.extend(named(server.unknown_fields(self.kind, &patched, false)));
        if problems.is_empty() || !is_strict {
            return Ok(problems);
        }
        let why = format!("strict decoding error: {}", problems.join(", "));
        let cause = Cause::invalid("patch", &format!("{shown:?}"), &why);
        Err(problem::invalid("", "", "", &[cause]))
    }

    /// Performs a write, or, in a dry run, only computes its response.
    fn store(&self, server: &mut ApiServer, work: impl FnOnce(&mut ApiServer) -> Response) -> Response {
        if !self.call.dry_run {
            return work(server);
        }
        let stored = server.object(self.kind, &self.call.namespace, &self.call.name);
        let version = stored.map(|object| object.meta.resource_version.clone());
        unversioned(server.dry_run(work), version.unwrap_or_default())
    }

    /// The patch of a request, to be carried out on a server.
    fn patch(&self) -> Result<impl FnOnce(&mut ApiServer) -> Response + '_, Refusal> {
        let (content_type, body) = (body::content_type(self.http), self.http.body());
        let is_apply = content_type == APPLY;
        options::apply_options(self.query, is_apply)?;
        let applied = match is_apply {
            true => Some(
                body::yaml(body)
                    .map_err(|why| problem::bad_request(format!("error decoding YAML: {why}")))?,
            ),
            false => None,
        };
        let options = ApplyOptions {
            field_manager: self.query.text("fieldManager").to_owned(),
            force: self.query.flag("force") == Some(true),
        };
        Ok(move |server: &mut ApiServer| {
            let (kind, namespace, name) = (self.kind, &*self.call.namespace, &*self.call.name);
            let part = Some(&*self.call.subresource).filter(|part| !part.is_empty());
            match (applied, part) {
                (Some(applied), part) => server.apply(kind, namespace, name, part, applied, &options),
                (None, None) => server.patch(kind, namespace, name, content_type, body),
                (None, Some(part)) => {
                    server.patch_subresource(kind, namespace, name, part, content_type, body)
                }
            }
        })
    }

    /// Deletes the objects that a list with the same options returns.
    fn delete_collection(&self, server: &mut ApiServer) -> Result<Reply, Refusal> {
        let options = options::delete_options(self.query, self.http, server.version())?;
        let list = ListOptions::read(self.query, false, server.version())?;
        let checked = server.check_filter(self.kind, &list.filter);
        checked.map_err(|response| problem::of_response(&response))?;
        let page = page::of(server, self.kind, self.call.collection_namespace(), &list)?;
        let response = server.delete_objects(self.kind, page.items, &options);
        self.view.reply(server, self.kind, response, page.meta)
    }
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
