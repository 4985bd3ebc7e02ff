//! Facts of the served resources: names, verbs, subresources, and the definitions of custom ones.

use std::sync::Arc;

use kubegc_core::{ApiResource, Behavior, KindId, identity::split_api_version};
use kubegc_sim::{ApiServer, StoredObject, Subresource};
use serde_json::Value;

/// Discovery contains singular names of built-in resources.
const SINGULAR_NAMES_ARE_LISTED: Behavior = Behavior::since(27, 0, "kubernetes #116866");

/// The names of a resource other than its plural.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// Empty if discovery does not contain it.
    pub(super) singular: String,
    pub(super) short: Vec<String>,
    pub(super) categories: Vec<String>,
    pub(super) list_kind: String,
}

/// The names of a resource. Those of a custom resource are read from its stored definition.
pub(super) fn of(server: &ApiServer, kind: KindId) -> Names {
    let (resource, definition) = (&server.catalog()[kind], server.definition(kind));
    let text = |key: &str| definition.map_or("", |definition| definition.text_at(&["spec", "names", key]));
    let texts = |key: &str, built_in: &[Arc<str>]| match definition {
        Some(definition) => {
            let texts = definition.list_at(&["spec", "names", key]).iter();
            let texts = texts.filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        }
        None => built_in.iter().map(ToString::to_string).collect(),
    };
    let is_listed = resource.custom || server.version().has(SINGULAR_NAMES_ARE_LISTED);
    Names {
        singular: match text("singular") {
            "" if is_listed => resource.kind.to_lowercase(),
            singular => singular.to_owned(),
        },
        short: texts("shortNames", &resource.short_names),
        categories: texts("categories", &resource.categories),
        list_kind: match text("listKind") {
            "" => format!("{}List", resource.kind),
            kind => kind.to_owned(),
        },
    }
}

/// The columns that the definition of a custom resource declares for its version.
pub(super) fn printer_columns(server: &ApiServer, kind: KindId) -> Vec<Value> {
    let mut versions = server.definition(kind).into_iter().flat_map(|one| versions(one));
    let version = versions.find(|version| version["name"] == *server.catalog()[kind].version);
    let columns = version.and_then(|version| version["additionalPrinterColumns"].as_array());
    columns.cloned().unwrap_or_default()
}

pub(super) fn versions(definition: &StoredObject) -> &[Value] {
    definition.list_at(&["spec", "versions"])
}

/// The served kinds, with their resources.
pub(super) fn served(server: &ApiServer) -> impl Iterator<Item = (KindId, &ApiResource)> {
    server.catalog().iter().filter(|(kind, _)| server.serves(*kind))
}

/// Whether a group belongs to the release, not to CustomResourceDefinitions.
pub(super) fn is_builtin(server: &ApiServer, group: &str) -> bool {
    served(server).any(|(_, resource)| !resource.custom && *resource.group == *group)
}

/// The verbs of a resource, as discovery lists them.
pub(super) fn verbs(resource: &ApiResource) -> Vec<&'static str> {
    let verbs = resource.verbs;
    if !verbs.list {
        // Reviews and bindings can only be created; the dummy kind of `extensions` has no verbs.
        let dummy = &*resource.kind == "ReplicationControllerDummy";
        return if dummy { Vec::new() } else { vec!["create"] };
    }
    // Component statuses are only read.
    let writes = verbs.delete;
    [
        ("create", writes),
        ("delete", verbs.delete),
        ("deletecollection", verbs.delete_collection),
        ("get", true),
        ("list", true),
        ("patch", writes),
        ("update", writes),
        ("watch", verbs.watch),
    ]
    .into_iter()
    .filter_map(|(verb, served)| served.then_some(verb))
    .collect()
}

/// All subresources of a resource, served here or not.
pub(super) fn parts(server: &ApiServer, kind: KindId) -> Vec<Subresource> {
    let resource = &server.catalog()[kind];
    let of_nodes = OF_NODES.into_iter().filter(|_| resource.group.is_empty());
    let of_nodes = of_nodes.filter(|(of, _)| *of == &*resource.resource);
    let mut parts = server.subresources(kind);
    parts.extend(of_nodes.map(|(_, part)| part));
    parts
}

/// Group and version of the kind that a subresource is of, if that is not the resource's own.
pub(super) fn group_version(part: &Subresource) -> Option<(&'static str, &'static str)> {
    (!part.api_version.is_empty()).then(|| split_api_version(part.api_version))
}

/// The subresources of resources of the core group that nodes and the token issuer serve.
const OF_NODES: [(&str, Subresource); 8] = {
    const CONNECT: &[&str] = &["create", "get"];
    const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
    const fn part(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Subresource {
        Subresource {
            name,
            api_version: "",
            kind,
            verbs,
        }
    }
    let token = Subresource {
        api_version: "authentication.k8s.io/v1",
        ..part("token", "TokenRequest", &["create"])
    };
    [
        ("pods", part("attach", "PodAttachOptions", CONNECT)),
        ("pods", part("exec", "PodExecOptions", CONNECT)),
        ("pods", part("log", "Pod", &["get"])),
        ("pods", part("portforward", "PodPortForwardOptions", CONNECT)),
        ("pods", part("proxy", "PodProxyOptions", PROXY)),
        ("nodes", part("proxy", "NodeProxyOptions", PROXY)),
        ("services", part("proxy", "ServiceProxyOptions", PROXY)),
        ("serviceaccounts", token),
    ]
};
