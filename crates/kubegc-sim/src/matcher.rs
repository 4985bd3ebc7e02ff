//! Selection of requests by user, verb, resource and object: for faults and access rules.

use std::{fmt, sync::Arc};

/// The requests that a rule applies to. Without conditions, it applies to all.
///
/// The conditions are written as in a `Role`. Several verbs, resources or paths are alternatives, and `*` in
/// the place of one matches all. A resource does not include its subresources: those are `pods/log`,
/// `*/scale`; `pods/*` is the resource with all of them.
///
/// # Examples
/// ```
/// use kubegc_sim::RequestMatcher;
/// let matcher = RequestMatcher::new().user("my-operator").verb("create").resource("apps", "deployments").namespace("shop");
/// assert_eq!(matcher.to_string(), "create of deployments.apps in namespace shop by my-operator");
/// ```
///
/// # Upstream
/// `ResourceMatches` and `NonResourceURLMatches` in
/// [`pkg/apis/rbac/v1/evaluation_helpers.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/apis/rbac/v1/evaluation_helpers.go).
/// There, `pods/*` matches nothing.
#[must_use]
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestMatcher {
    /// Name of the user; `kubectl` also matches `kubectl/v1.30.0`. `None` means all.
    pub user: Option<Arc<str>>,
    /// Verbs, such as `create` or `deletecollection`; empty means all.
    pub verbs: Vec<Arc<str>>,
    /// API groups, and plural names with a subresource after a slash; empty means all.
    pub resources: Vec<(Arc<str>, Arc<str>)>,
    /// Namespace; `None` means all.
    pub namespace: Option<Arc<str>>,
    /// Name of the object; `None` means all.
    pub name: Option<Arc<str>>,
    /// Paths that name no resource, such as `/healthz` or `/apis/*`; empty means all.
    pub paths: Vec<Arc<str>>,
}

/// The attributes of a request that a [`RequestMatcher`] compares.
#[expect(clippy::exhaustive_structs, reason = "a value that callers build")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestAttributes<'a> {
    /// Name of the user.
    pub user: &'a str,
    /// The verb.
    pub verb: &'a str,
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural name of the resource.
    pub resource: &'a str,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty if there is none.
    pub namespace: &'a str,
    /// Name of the object; empty if there is none.
    pub name: &'a str,
    /// The path of a request for no resource; `None` for one that is for a resource.
    pub path: Option<&'a str>,
}

impl RequestMatcher {
    /// Matches all requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only requests of this user. `kubectl` also matches `kubectl/v1.30.0`.
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

    /// Whether a request fits all conditions.
    #[must_use]
    pub fn matches(&self, request: &RequestAttributes<'_>) -> bool {
        self.matches_user(request.user)
            && (self.verbs.is_empty() || self.verbs.iter().any(|verb| is(verb, request.verb)))
            && match request.path {
                Some(path) => {
                    !self.is_about_objects() && self.paths.is_empty()
                        || self.paths.iter().any(|wanted| path_matches(wanted, path))
                }
                None => {
                    (self.paths.is_empty() || !self.resources.is_empty())
                        && (self.resources.is_empty() || self.matches_resource(request))
                        && self.matches_namespace(request.namespace)
                        && equals(self.name.as_deref(), request.name)
                }
            }
    }

    /// Whether requests of a user can match.
    #[must_use]
    pub fn matches_user(&self, user: &str) -> bool {
        self.user.as_deref().is_none_or(|wanted| {
            let rest = user.strip_prefix(wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Whether requests in a namespace can match.
    #[must_use]
    pub fn matches_namespace(&self, namespace: &str) -> bool {
        equals(self.namespace.as_deref(), namespace)
    }

    const fn is_about_objects(&self) -> bool {
        !self.resources.is_empty() || self.namespace.is_some() || self.name.is_some()
    }

    fn matches_resource(&self, request: &RequestAttributes<'_>) -> bool {
        self.resources.iter().any(|(group, wanted)| {
            let wanted = if **wanted == *"*" { "*/*" } else { wanted };
            let (resource, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
            is(group, request.group) && is(resource, request.resource) && is(subresource, request.subresource)
        })
    }
}

/// Whether a pattern is a text, or `*`.
fn is(pattern: &str, text: &str) -> bool {
    pattern == "*" || pattern == text
}

fn equals(wanted: Option<&str>, text: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == text)
}

fn path_matches(wanted: &str, path: &str) -> bool {
    let prefix = wanted.strip_suffix('*');
    wanted == path || prefix.is_some_and(|prefix| path.starts_with(prefix))
}

impl fmt::Display for RequestMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.verbs.is_empty() {
            f.write_str("any request")?;
        } else {
            f.write_str(&self.verbs.join(" or "))?;
        }
        let resource = |(group, resource): &(Arc<str>, Arc<str>)| {
            let resource = resource.strip_suffix("/*").unwrap_or(resource);
            match &**group {
                "" | "*" => resource.to_owned(),
                group => format!("{resource}.{group}"),
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each matcher with its text, and whether it matches the requests of [`REQUESTS`].
    #[test]
    fn conditions_and_wildcards() {
        let new = RequestMatcher::new;
        let cases = [
            (new(), "any request", "yyyyyy"),
            (new().user("kubectl"), "any request by kubectl", "y-----"),
            (new().user("kube"), "any request by kube", "------"),
            (new().verb("list").verb("get"), "list or get", "-y---y"),
            (new().verb("*"), "*", "yyyyyy"),
            (new().resource("", "pods"), "any request of pods", "y-----"),
            (new().resource("*", "pods/*"), "any request of pods", "y-y---"),
            (new().resource("", "*"), "any request of *", "y-y---"),
            (new().resource("*", "*"), "any request of *", "yyyyy-"),
            (
                new().resource("apps", "deployments"),
                "any request of deployments.apps",
                "-y----",
            ),
            (new().resource("*", "*/scale"), "any request of */scale", "---y--"),
            (
                new().resource("x", "pods").resource("apps", "deployments/scale"),
                "any request of pods.x or deployments/scale.apps",
                "---y--",
            ),
            (new().namespace("shop"), "any request in namespace shop", "yyy---"),
            (new().name("web"), "any request named web", "--yyy-"),
            (new().path("/healthz*"), "any request of path /healthz*", "-----y"),
            (new().path("/healthz"), "any request of path /healthz", "------"),
            (
                new().path("/healthz/etcd").resource("", "pods"),
                "any request of pods or path /healthz/etcd",
                "y----y",
            ),
            (
                new().verb("create").resource("*", "pods").namespace("bank"),
                "create of pods in namespace bank",
                "------",
            ),
        ];
        for (matcher, text, expected) in cases {
            let found: String = REQUESTS
                .iter()
                .map(|request| if matcher.matches(request) { 'y' } else { '-' })
                .collect();
            assert_eq!((&*matcher.to_string(), &*found), (text, expected));
        }
    }

    const REQUESTS: [RequestAttributes<'_>; 6] = [
        request("kubectl/v1.30.0", "create", "", "pods", "", "shop", ""),
        request("operator", "list", "apps", "deployments", "", "shop", ""),
        request("operator", "patch", "", "pods", "status", "shop", "web"),
        request(
            "operator",
            "update",
            "apps",
            "deployments",
            "scale",
            "bank",
            "web",
        ),
        request("operator", "delete", "x", "nodes", "", "", "web"),
        RequestAttributes {
            path: Some("/healthz/etcd"),
            ..request("operator", "get", "", "", "", "", "")
        },
    ];

    const fn request<'a>(
        user: &'a str,
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    ) -> RequestAttributes<'a> {
        RequestAttributes {
            user,
            verb,
            group,
            resource,
            subresource,
            namespace,
            name,
            path: None,
        }
    }
}
