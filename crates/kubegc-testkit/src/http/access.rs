//! Rules of a test that allow or deny requests, in the terms of RBAC.

use kubegc_core::{RequestAttributes, RequestMatcher};

use super::call::{Call, Verb};

/// The access rules. The first rule that applies decides; a request without one is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessRules(Vec<(bool, RequestMatcher)>);

impl AccessRules {
    pub fn allow(&mut self, requests: RequestMatcher) {
        self.0.push((true, requests));
    }

    /// Denies the matching requests: they get a 403 response.
    pub fn deny(&mut self, requests: RequestMatcher) {
        self.0.push((false, requests));
    }

    /// Forgets all rules: everything is allowed.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn allows(&self, request: &RequestAttributes<'_>) -> bool {
        let mut deciding = self.0.iter().filter(|(_, rule)| rule.matches(request));
        deciding.next().is_none_or(|(allowed, _)| *allowed)
    }

    /// The rules that can apply to requests of a user in a namespace, and whether each allows them.
    pub(super) fn of(&self, user: &str, namespace: &str) -> impl Iterator<Item = &(bool, RequestMatcher)> {
        let rules = self.0.iter();
        rules.filter(move |(_, rule)| rule.matches_user(user) && rule.matches_namespace(namespace))
    }
}

/// The user of a request, and the access rules of the test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester<'a> {
    pub(crate) user: &'a str,
    pub(crate) rules: &'a AccessRules,
}

/// The attributes of a request. `method` is its method in lower case.
pub(crate) fn attributes<'a>(user: &'a str, call: &'a Call, method: &'a str) -> RequestAttributes<'a> {
    let verb = match call.verb {
        Verb::NonResource | Verb::Unknown => method,
        verb => verb.as_str(),
    };
    RequestAttributes {
        user,
        verb,
        group: &call.group,
        resource: &call.resource,
        subresource: &call.subresource,
        namespace: &call.namespace,
        name: &call.name,
        path: (call.verb == Verb::NonResource).then_some(&*call.path),
        ..RequestAttributes::default()
    }
}

/// The reason of the refusal of a request.
///
/// # Upstream
/// `forbiddenMessage` in `apiserver/pkg/endpoints/handlers/responsewriters/errors.go`, 1.20.2.
pub(super) fn forbidden(request: &RequestAttributes<'_>) -> String {
    let (user, verb) = (request.user, request.verb);
    let message = match request.path {
        Some(path) => format!("User {user:?} cannot {verb} path {path:?}"),
        None => {
            let part = if request.subresource.is_empty() { "" } else { "/" };
            let resource = format!("{}{part}{}", request.resource, request.subresource);
            let scope = match request.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            format!(
                "User {user:?} cannot {verb} resource {resource:?} in API group {:?} {scope}",
                request.group
            )
        }
    };
    message
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
