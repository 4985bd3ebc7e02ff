//! Rules of a test that allow or deny requests, in the terms of RBAC.

use std::{fmt, sync::Arc};

use http::Method;

use super::call::{Call, Verb};

/// The requests that an [`AccessRule`] applies to. Without conditions, it applies to all.
///
/// Verbs, groups and resources are written as in the rules of a `Role`; `*` matches all. A resource does not
/// include its subresources: those are `pods/log`, `*/scale`.
///
/// # Examples
/// ```
/// use kubegc_testkit::http::AccessRule;
/// let rule = AccessRule::new().user("my-operator").verb("create").resource("apps", "deployments").namespace("shop");
/// assert_eq!(rule.to_string(), "create of deployments.apps in namespace shop by my-operator");
/// ```
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessRule {
    user: Option<Arc<str>>,
    verbs: Vec<Arc<str>>,
    resources: Vec<(Arc<str>, Arc<str>)>,
    namespace: Option<Arc<str>>,
    name: Option<Arc<str>>,
    paths: Vec<Arc<str>>,
}

impl AccessRule {
    /// A rule for all requests of all users.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only requests of this user: the name given to `Cluster::client_as`, or the user agent up to its first
    /// slash.
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Only requests with this verb, such as `create` or `deletecollection`. Several calls name alternatives.
    pub fn verb(mut self, verb: &str) -> Self {
        self.verbs.push(verb.into());
        self
    }

    /// Only requests for this resource, by API group (empty for the core group) and plural name. Several
    /// calls name alternatives.
    pub fn resource(mut self, group: &str, resource: &str) -> Self {
        self.resources.push((group.into(), resource.into()));
        self
    }

    /// Only requests in this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only requests that name this object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only requests for this path, which names no resource, such as `/healthz` or `/apis/*`. Several calls
    /// name alternatives.
    pub fn path(mut self, path: &str) -> Self {
        self.paths.push(path.into());
        self
    }

    fn applies(&self, request: &Attributes<'_>) -> bool {
        let is =
            |wanted: &Option<Arc<str>>, text: &str| wanted.as_deref().is_none_or(|wanted| wanted == text);
        let verb = |wanted: &Arc<str>| &**wanted == "*" || **wanted == *request.verb;
        is(&self.user, request.user)
            && (self.verbs.is_empty() || self.verbs.iter().any(verb))
            && match request.path {
                Some(path) => {
                    self.is_for_any_target() || self.paths.iter().any(|wanted| path_matches(wanted, path))
                }
                None => {
                    (self.paths.is_empty() || !self.resources.is_empty())
                        && (self.resources.is_empty() || self.has_resource(request))
                        && is(&self.namespace, request.namespace)
                        && is(&self.name, request.name)
                }
            }
    }

    /// Whether neither resources nor paths are named.
    fn is_for_any_target(&self) -> bool {
        self.paths.is_empty() && self.resources.is_empty() && self.namespace.is_none() && self.name.is_none()
    }

    fn has_resource(&self, request: &Attributes<'_>) -> bool {
        self.resources.iter().any(|(group, resource)| {
            (&**group == "*" || **group == *request.group) && resource_matches(resource, request)
        })
    }
}

/// # Upstream
/// `ResourceMatches` in `pkg/apis/rbac/v1/evaluation_helpers.go`, 1.20.2.
fn resource_matches(wanted: &str, request: &Attributes<'_>) -> bool {
    match wanted.split_once('/') {
        _ if wanted == "*" => true,
        None => request.subresource.is_empty() && wanted == request.resource,
        Some((resource, subresource)) => {
            subresource == request.subresource && (resource == "*" || resource == request.resource)
        }
    }
}

/// # Upstream
/// `NonResourceURLMatches` in `pkg/apis/rbac/v1/evaluation_helpers.go`, 1.20.2.
fn path_matches(wanted: &str, path: &str) -> bool {
    wanted == path
        || wanted
            .strip_suffix('*')
            .is_some_and(|prefix| path.starts_with(prefix))
}

impl fmt::Display for AccessRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |texts: &[Arc<str>]| texts.join(" or ");
        if self.verbs.is_empty() {
            f.write_str("any request")?;
        } else {
            f.write_str(&join(&self.verbs))?;
        }
        let resource = |(group, resource): &(Arc<str>, Arc<str>)| match &**group {
            "" => resource.to_string(),
            group => format!("{resource}.{group}"),
        };
        let mut targets: Vec<String> = self.resources.iter().map(resource).collect();
        targets.extend(self.paths.iter().map(|path| format!("path {path}")));
        if !targets.is_empty() {
            write!(f, " of {}", targets.join(" or "))?;
        }
        for (word, text) in [
            (" named ", &self.name),
            (" in namespace ", &self.namespace),
            (" by ", &self.user),
        ] {
            if let Some(text) = text {
                write!(f, "{word}{text}")?;
            }
        }
        Ok(())
    }
}

/// The access rules. The first rule that applies decides; a request without one is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessRules(Vec<(bool, AccessRule)>);

impl AccessRules {
    /// Allows the requests that a rule applies to.
    pub fn allow(&mut self, rule: AccessRule) {
        self.0.push((true, rule));
    }

    /// Denies the requests that a rule applies to: they get a 403 response.
    pub fn deny(&mut self, rule: AccessRule) {
        self.0.push((false, rule));
    }

    /// Forgets all rules: everything is allowed.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether a request is allowed.
    pub(super) fn allows(&self, request: &Attributes<'_>) -> bool {
        let mut deciding = self.0.iter().filter(|(_, rule)| rule.applies(request));
        deciding.next().is_none_or(|(allowed, _)| *allowed)
    }

    /// The rules for a user in a namespace, up to the first one that decides everything.
    pub(super) fn of<'a>(&'a self, user: &'a str, namespace: &'a str) -> impl Iterator<Item = Grant<'a>> {
        let is =
            |wanted: &Option<Arc<str>>, text: &str| wanted.as_deref().is_none_or(|wanted| wanted == text);
        let own = self.0.iter();
        own.filter(move |(_, rule)| is(&rule.user, user) && is(&rule.namespace, namespace))
            .map(|(allowed, rule)| Grant {
                allowed: *allowed,
                verbs: &rule.verbs,
                resources: &rule.resources,
                name: rule.name.as_deref(),
                paths: &rule.paths,
            })
    }
}

/// The permissions that a rule grants a user in a namespace.
pub(super) struct Grant<'a> {
    pub(super) allowed: bool,
    /// Empty for all.
    pub(super) verbs: &'a [Arc<str>],
    /// Group and plural name. Empty, together with `paths`, for everything.
    pub(super) resources: &'a [(Arc<str>, Arc<str>)],
    pub(super) name: Option<&'a str>,
    pub(super) paths: &'a [Arc<str>],
}

impl Grant<'_> {
    /// Whether every request of the user in the namespace is decided.
    pub(super) const fn is_for_all(&self) -> bool {
        self.verbs.is_empty() && self.resources.is_empty() && self.name.is_none() && self.paths.is_empty()
    }
}

/// The user of a request, and the access rules of the test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester<'a> {
    pub(crate) user: &'a str,
    pub(crate) rules: &'a AccessRules,
}

/// The attributes of a request that authorization uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a> {
    pub(super) user: &'a str,
    pub(super) verb: &'a str,
    pub(super) group: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// The path of a request for no resource; `None` for one that is for a resource.
    pub(super) path: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    /// The attributes of a request. `method` is its method in lower case.
    pub(super) fn of(user: &'a str, call: &'a Call, method: &'a str) -> Self {
        let verb = match call.verb {
            Verb::NonResource | Verb::Unknown => method,
            verb => verb.as_str(),
        };
        Self {
            user,
            verb,
            group: &call.group,
            resource: &call.resource,
            subresource: &call.subresource,
            namespace: &call.namespace,
            name: &call.name,
            path: (call.verb == Verb::NonResource).then_some(&*call.path),
        }
    }

    /// The reason of the refusal.
    ///
    /// # Upstream
    /// `forbiddenMessage` in `apiserver/pkg/endpoints/handlers/responsewriters/errors.go`, 1.20.2.
    pub(super) fn forbidden(&self) -> String {
        let (user, verb) = (self.user, self.verb);
        let message = match self.path {
            Some(path) => format!("User {user:?} cannot {verb} path {path:?}"),
            None => {
                let part = if self.subresource.is_empty() { "" } else { "/" };
                let resource = format!("{}{part}{}", self.resource, self.subresource);
                let scope = match self.namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                format!(
                    "User {user:?} cannot {verb} resource {resource:?} in API group {:?} {scope}",
                    self.group
                )
            }
        };
        message
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    }
}

/// A method as authorization names it.
pub(super) fn lower_case(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}
