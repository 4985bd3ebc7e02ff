//! The target of a path, its subresources, and the methods that it supports.
//!
//! # Upstream
//! The routes of `apiserver/pkg/endpoints/installer.go`, and `crdHandler` in
//! `apiextensions-apiserver/pkg/apiserver/customresource_handler.go`, 1.20.2.

use std::sync::Arc;

use http::Method;
use kubegc_core::{ApiResource, KindId};
use kubegc_sim::{ApiServer, Details, StoredObject, Subresource};

use super::{
    Call, Verb,
    call::segments,
    problem::{self, Refusal},
    reply::Reply,
    resources,
};

/// Finds the kind that a call is about.
///
/// # Errors
/// The error is the whole response if there is no such target: not found, or the method is not allowed.
pub(super) fn find(server: &ApiServer, call: &Call, method: &Method) -> Result<KindId, Box<Reply>> {
    let missing = || {
        Err(Box::new(if resources::is_builtin(server, &call.group) {
            problem::unserved().into()
        } else {
            Reply::page_not_found(server.version())
        }))
    };
    let served = call.kind.filter(|kind| server.serves(*kind));
    let Some(kind) = served.filter(|_| segments(&call.path).all(|part| !part.is_empty())) else {
        return missing();
    };
    let resource = &server.catalog()[kind];
    let collection = is_collection(call);
    let in_namespace = !call.namespace.is_empty() && &*resource.resource != "namespaces";
    let refuse = |refusal: Refusal| Err(Box::new(Reply::from(refusal)));
    if resource.is_namespaced() != in_namespace {
        // Only reads go across all namespaces.
        return match call.verb {
            Verb::List | Verb::Watch if resource.is_namespaced() => Ok(kind),
            _ if resource.is_namespaced() && collection => refuse(unsupported(call, resource)),
            _ => missing(),
        };
    }
    let verb = call.verb.as_str();
    let taken = if call.subresource.is_empty() {
        fits(call, collection) && resources::verbs(resource).contains(&verb)
    } else {
        match find_part(server, kind, &call.subresource) {
            Some(part) => part.verbs.contains(&verb),
            None if resource.custom => {
                let (group, plural) = (&resource.group, &resource.resource);
                return refuse(problem::object_not_found(group, plural, &call.name));
            }
            None => return missing(),
        }
    };
    if taken && *method != Method::HEAD {
        Ok(kind)
    } else {
        refuse(unsupported(call, resource))
    }
}

/// A stored object of the core group.
///
/// # Errors
/// 404 if it does not exist.
pub(super) fn core_object<'s>(
    server: &'s ApiServer,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<&'s Arc<StoredObject>, Refusal> {
    let kind = server
        .resolve("", "v1", resource)
        .map_err(|response| problem::of_response(&response))?;
    let object = server.object(kind, namespace, name);
    object.ok_or_else(|| problem::object_not_found("", resource, name))
}

/// Whether the path names no single object.
fn is_collection(call: &Call) -> bool {
    // The name of a list or watch comes from its selector.
    call.name.is_empty() || matches!(call.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
}

/// Whether the verb is one for objects if an object is named, and one for collections if none is.
const fn fits(call: &Call, collection: bool) -> bool {
    match call.verb {
        Verb::Create | Verb::List | Verb::Watch | Verb::DeleteCollection => collection,
        Verb::Get | Verb::Update | Verb::Patch | Verb::Delete => !collection,
        Verb::Unknown | Verb::NonResource => false,
    }
}

fn unsupported(call: &Call, resource: &ApiResource) -> Refusal {
    if !resource.custom {
        return problem::method_not_allowed();
    }
    let (verb, ApiResource { group, resource, .. }) = (call.verb, resource);
    let message = format!("{verb} is not supported on resources of kind \"{resource}.{group}\"");
    let details = Details::new("", group, resource);
    problem::refusal(405, "MethodNotAllowed", message, details)
}

/// The subresource of this name, if the resource has it and it is served here: `proxy` is not.
fn find_part(server: &ApiServer, kind: KindId, name: &str) -> Option<Subresource> {
    let mut served = resources::parts(server, kind)
        .into_iter()
        .filter(|part| part.name != "proxy");
    served.find(|part| part.name == name)
}
