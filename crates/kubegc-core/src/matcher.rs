//! Selection of requests by user, verb, resource and object: for faults, access rules and admission webhooks.

use std::{fmt, sync::Arc};

use crate::Scope;

/// The requests that a rule applies to. Without conditions, it applies to all.
///
/// The conditions are written as in a `Role`. Several verbs, resources or paths are alternatives, and `*` in
/// the place of one matches all. A resource does not include its subresources: those are `pods/log`,
/// `*/scale`; `pods/*` is the resource with all of them, and `*/` all resources without theirs.
///
/// # Examples
/// ```
/// use kubegc_core::RequestMatcher;
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
    /// Verbs, such as `create` or `deletecollection`, or operations of admission, such as `CREATE`; empty
    /// means all.
    pub verbs: Vec<Arc<str>>,
    /// API versions, and `*` for all; empty means all.
    pub versions: Vec<Arc<str>>,
    /// Namespaced or cluster-scoped resources only; `None` means all.
    pub scope: Option<Scope>,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestAttributes<'a> {
    pub user: &'a str,
    /// The verb, or the operation of admission.
    pub verb: &'a str,
    /// API version; empty if no rule depends on it.
    pub version: &'a str,
    /// The scope of the resource; `None` if no rule depends on it. A Namespace is cluster-scoped.
    pub scope: Option<Scope>,
    /// API group; empty for the core group.
    pub group: &'a str,
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

    /// The requests of a rule of an admission webhook. `None` if one of the lists is empty: the rule matches
    /// none.
    ///
    /// # Upstream
    /// [`Matcher.Matches`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/rules/rules.go).
    pub fn of_webhook(
        operations: Vec<Arc<str>>,
        [groups, versions, resources]: [Vec<Arc<str>>; 3],
        scope: Option<Scope>,
    ) -> Option<Self> {
        // There, `*` does not include subresources.
        let plural = |resource: &Arc<str>| {
            if **resource == *"*" {
                "*/".into()
            } else {
                Arc::clone(resource)
            }
        };
        let pairs = groups.iter().flat_map(|group| {
            let resources = resources.iter().map(plural);
            resources.map(|resource| (Arc::clone(group), resource))
        });
        let matcher = Self {
            verbs: operations,
            resources: pairs.collect(),
            versions,
            scope,
            ..Self::default()
        };
        let matches_any = [&matcher.verbs, &matcher.versions]
            .iter()
            .all(|list| !list.is_empty());
        (matches_any && !matcher.resources.is_empty()).then_some(matcher)
    }

    /// The same for each of these names of objects; itself if there are none.
    pub fn of_names(self, names: &[Arc<str>]) -> Vec<Self> {
        if names.is_empty() {
            return vec![self];
        }
        names.iter().map(|name| self.clone().name(name)).collect()
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
    pub fn matches(&self, request: &RequestAttributes<'_>) -> bool {
        self.matches_user(request.user)
            && (self.verbs.is_empty() || self.verbs.iter().any(|verb| is(verb, request.verb)))
            && (self.versions.is_empty() || self.versions.iter().any(|version| is(version, request.version)))
            && self.scope.is_none_or(|scope| request.scope == Some(scope))
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

    pub fn matches_user(&self, user: &str) -> bool {
        self.user.as_deref().is_none_or(|wanted| {
            let rest = user.strip_prefix(wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

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
                .map(|text| if matcher.matches(&request(text)) { 'y' } else { '-' })
                .collect();
            assert_eq!((&*matcher.to_string(), &*found), (text, expected));
        }
    }

    /// The rules of webhooks, each with whether it matches a DELETE of a Deployment, an UPDATE of the status
    /// of a pod, and a DELETE of a node.
    #[test]
    fn rules_of_webhooks() {
        let texts = |text: &str| text.split_whitespace().map(Arc::from).collect::<Vec<Arc<str>>>();
        let [namespaced, cluster] = [Some(Scope::Namespaced), Some(Scope::Cluster)];
        let requests = [
            (request("- DELETE apps deployments - shop web"), namespaced),
            (request("- UPDATE - pods status shop web"), namespaced),
            (request("- DELETE - nodes - - a"), cluster),
        ];
        for (operations, version, resources, scope, expected) in [
            ("DELETE", "v1", "deployments", None, "y--"),
            ("*", "*", "*", None, "y-y"),
            ("*", "*", "*/*", None, "yyy"),
            ("CREATE", "v1", "deployments pods/status", None, "---"),
            ("CREATE UPDATE", "v1", "deployments pods/status", None, "-y-"),
            ("*", "v2", "*", None, "---"),
            ("*", "v1", "deployments/status pods", None, "---"),
            ("*", "v1", "*/status", None, "-y-"),
            ("*", "v1", "pods/* deployments/*", None, "yy-"),
            ("*", "v1", "*", namespaced, "y--"),
            ("*", "v1", "*/*", cluster, "--y"),
            ("", "v1", "*", None, "---"),
            ("*", "", "*", None, "---"),
            ("*", "v1", "", None, "---"),
        ] {
            let lists = [texts("*"), texts(version), texts(resources)];
            let matcher = RequestMatcher::of_webhook(texts(operations), lists, scope);
            let found = requests.iter().map(|(request, scope)| {
                let (version, scope) = ("v1", *scope);
                let request = RequestAttributes {
                    version,
                    scope,
                    ..*request
                };
                matcher.as_ref().is_some_and(|matcher| matcher.matches(&request))
            });
            let found: String = found.map(|matches| if matches { 'y' } else { '-' }).collect();
            assert_eq!(found, expected, "{operations} {version} {resources} {scope:?}");
        }
    }

    const REQUESTS: [&str; 6] = [
        "kubectl/v1.30.0 create - pods - shop -",
        "operator list apps deployments - shop -",
        "operator patch - pods status shop web",
        "operator update apps deployments scale bank web",
        "operator delete x nodes - - web",
        "operator get /healthz/etcd",
    ];

    /// User and verb, then group, resource, subresource, namespace and name, or a path; a dash is none.
    fn request(text: &str) -> RequestAttributes<'_> {
        let words = text.split(' ').map(|word| if word == "-" { "" } else { word });
        let (words, path) = match words.collect::<Vec<_>>()[..] {
            [user, verb, path] => ([user, verb, "", "", "", "", ""], Some(path)),
            [user, verb, group, resource, subresource, namespace, name] => {
                ([user, verb, group, resource, subresource, namespace, name], None)
            }
            _ => panic!("{text}: seven words, or three"),
        };
        let [user, verb, group, resource, subresource, namespace, name] = words;
        RequestAttributes {
            user,
            verb,
            group,
            resource,
            subresource,
            namespace,
            name,
            version: "",
            scope: None,
            path,
        }
    }
}
