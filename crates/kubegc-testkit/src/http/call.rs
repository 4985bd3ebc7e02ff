//! The attributes of a request: verb, resource and object, as authorization and audit name them upstream.
//!
//! # Upstream
//! `RequestInfoFactory.NewRequestInfo` in `apiserver/pkg/endpoints/request/requestinfo.go`, 1.20.2.

use std::fmt;

use bytes::Bytes;
use http::{Method, header::USER_AGENT};
use kubegc_core::{KindId, KubernetesVersion};
use kubegc_sim::ApiServer;

use super::{
    body, options,
    query::{self, Query},
};

/// The verb of a request, in the words of RBAC rules.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Get,
    /// Reads a collection.
    List,
    /// Follows a collection.
    Watch,
    /// Creates an object, or something at a subresource.
    Create,
    /// Replaces an object.
    Update,
    /// Changes a part of an object.
    Patch,
    /// Deletes one object.
    Delete,
    DeleteCollection,
    /// A method that no resource takes.
    Unknown,
    /// The path names no resource: discovery, health, version, or nothing.
    #[default]
    NonResource,
}

impl Verb {
    /// The verb as upstream writes it; empty if it has no word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Unknown | Self::NonResource => "",
        }
    }

    /// Whether the request may change something.
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection
        )
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The attributes of a request.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Call {
    pub verb: Verb,
    /// The kind that the path addresses, if the server serves it.
    pub kind: Option<KindId>,
    /// API group; empty for the core group and for paths that name no resource.
    pub group: String,
    pub version: String,
    pub resource: String,
    /// Namespace; empty if the path names none.
    pub namespace: String,
    /// Name of the object. For a list or watch: the name that its field selector requires.
    pub name: String,
    /// Part of the object, such as `status`; empty for the object itself.
    pub subresource: String,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
    /// The field manager: the parameter `fieldManager`, else the user agent up to its first slash.
    pub field_manager: String,
    pub user_agent: String,
    pub path: String,
}

impl Call {
    /// The resource, with its subresource after a slash: how RBAC rules name it.
    pub fn qualified_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// The namespace that a collection is read from; `None` for all of them.
    pub(super) fn collection_namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }
}

impl fmt::Display for Call {
    /// `delete apps/v1 deployments shop/web (dry run)`, or method and path if no resource is named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.verb == Verb::NonResource {
            return write!(f, "request {}", self.path);
        }
        let verb = if self.verb == Verb::Unknown {
            "unknown"
        } else {
            self.verb.as_str()
        };
        let version = kubegc_core::identity::join_api_version(&self.group, &self.version);
        write!(f, "{verb} {version} {}", self.qualified_resource())?;
        match (&*self.namespace, &*self.name) {
            ("", "") => {}
            ("", name) => write!(f, " {name}")?,
            (namespace, name) => write!(f, " {namespace}/{name}")?,
        }
        if self.dry_run {
            f.write_str(" (dry run)")?;
        }
        Ok(())
    }
}

/// Reads the attributes of a request. This never fails: a request that names no resource is
/// [`Verb::NonResource`].
///
/// # Complexity
/// Linear in the length of the path, the query, and the body of a DELETE.
pub fn read_call(server: &ApiServer, request: &http::Request<Bytes>) -> Call {
    let text_of = |name| {
        let value = request.headers().get(name);
        value.map_or_else(String::new, |value| {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        })
    };
    let query = Query::read(request.uri().query());
    let user_agent = text_of(USER_AGENT);
    let field_manager = match query.text("fieldManager") {
        "" => user_agent.split('/').next().unwrap_or_default().to_owned(),
        named => named.to_owned(),
    };
    let raw_path = request.uri().path();
    let mut call = Call {
        path: query::decode(raw_path, false).unwrap_or_else(|| raw_path.to_owned()),
        field_manager,
        user_agent,
        ..Call::default()
    };
    if call.read_path().is_some() {
        call.verb = verb(request.method(), &query, call.name.is_empty());
        call.kind = server.resolve(&call.group, &call.version, &call.resource).ok();
        call.dry_run = call.verb.is_write() && asks_for_dry_run(call.verb, &query, request, server.version());
        if matches!(call.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
            && let Some(name) = single_name(query.text("fieldSelector"))
        {
            call.name = name;
        }
    }
    call
}

impl Call {
    /// Reads the target of the path; `None` if it does not lead to a resource.
    fn read_path(&mut self) -> Option<()> {
        let path = self.path.clone();
        let mut parts = segments(&path);
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest.as_slice() {
            // The namespace itself, or a part of it.
            ["namespaces", name] | ["namespaces", name, "status" | "finalize"] => (*name, &rest[..]),
            ["namespaces", name, ..] => (*name, &rest[2..]),
            _ => ("", &rest[..]),
        };
        self.resource = (*rest.first()?).to_owned();
        self.name = rest.get(1).copied().unwrap_or_default().to_owned();
        // Deeper paths belong to the subresource (`proxy/…`), of which none is served.
        self.subresource = rest.get(2..).unwrap_or_default().join("/");
        self.group = group.to_owned();
        self.version = version.to_owned();
        self.namespace = namespace.to_owned();
        Some(())
    }
}

/// The parts of a path. Slashes at either end do not count; an empty part in between does.
pub(super) fn segments(path: &str) -> impl Iterator<Item = &str> {
    let trimmed = path.trim_matches('/');
    trimmed.split('/').filter(move |_| !trimmed.is_empty())
}

fn verb(method: &Method, query: &Query, is_collection: bool) -> Verb {
    match *method {
        Method::POST => Verb::Create,
        Method::GET | Method::HEAD if !is_collection => Verb::Get,
        Method::GET | Method::HEAD if query.flag("watch") == Some(true) => Verb::Watch,
        Method::GET | Method::HEAD => Verb::List,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if is_collection => Verb::DeleteCollection,
        Method::DELETE => Verb::Delete,
        _ => Verb::Unknown,
    }
}

/// Whether a write is a dry run. A deletion requests it in its body, or, without a body, in the query.
fn asks_for_dry_run(
    verb: Verb,
    query: &Query,
    request: &http::Request<Bytes>,
    version: KubernetesVersion,
) -> bool {
    if !matches!(verb, Verb::Delete | Verb::DeleteCollection) {
        return query.all("dryRun").next().is_some();
    }
    body::within_bounds(request).is_ok()
        && options::delete_options(query, request, version).is_ok_and(|options| !options.dry_run.is_empty())
}

/// The name that a field selector requires by equality, if any.
fn single_name(selector: &str) -> Option<String> {
    let mut terms = selector
        .split(',')
        .filter_map(|term| term.strip_prefix("metadata.name="));
    let name = terms.next()?.trim_start_matches('=');
    // A name holds nothing that would be escaped here.
    (!name.is_empty() && !name.contains(['\\', '/', '%'])).then(|| name.to_owned())
}
