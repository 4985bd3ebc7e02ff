//! Discovery documents: groups, versions and resources, in both forms.

use std::{cmp::Reverse, collections::BTreeMap};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::HeaderMap;
use kubegc_core::{
    ApiResource, Behavior, KindId, KubernetesVersion, identity::join_api_version, version::behavior,
};
use kubegc_sim::{ApiServer, Subresource, version_priority};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    accept,
    problem::Refusal,
    reply::Reply,
    resources::{self, served},
};

/// All groups and resources in one response.
const AGGREGATED_V2BETA1: Behavior = Behavior::since(27, 0, "AggregatedDiscoveryEndpoint, beta");
const AGGREGATED_V2: Behavior = Behavior::since(30, 0, "AggregatedDiscoveryEndpoint, stable");
const AGGREGATED_V2BETA1_IS_REMOVED: Behavior = Behavior::since(33, 0, "AggregatedDiscoveryRemoveBetaType");

struct Group<'a> {
    name: &'a str,
    versions: Vec<&'a str>,
    is_custom: bool,
}

/// The response to `/api` and `/apis`.
pub(super) fn root(server: &ApiServer, core: bool, headers: &HeaderMap) -> Result<Reply, Refusal> {
    accept::route(headers, server.version(), false)?;
    let (form, encoding) = accept::discovery(headers, aggregated(server.version()))?;
    let groups = groups(server);
    let groups = groups.iter().filter(|group| group.name.is_empty() == core);
    let Some(version) = form else {
        let body = match core {
            true => json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "localhost"}],
            }),
            false => {
                let groups: Vec<Value> = groups.map(group_json).collect();
                json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            }
        };
        return Ok(Reply::object(200, body).encoded(encoding));
    };
    let body = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": groups.map(|group| aggregated_group(server, group)).collect::<Vec<_>>(),
    });
    let mut reply = Reply::object(200, body).encoded(encoding);
    reply.parameters = format!(";g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    Ok(reply)
}

/// The response to `/apis/{group}`.
pub(super) fn group(server: &ApiServer, name: &str) -> Option<Reply> {
    let mut groups = groups(server).into_iter();
    let group = groups.find(|group| group.name == name && !name.is_empty())?;
    let mut body = group_json(&group);
    body["kind"] = "APIGroup".into();
    body["apiVersion"] = "v1".into();
    Some(Reply::object(200, body))
}

/// The sort key of a resource: subresources of custom resources keep the order in which they are declared.
fn place(entry: &Value, is_custom: bool) -> &str {
    let name = entry["name"].as_str().unwrap_or_default();
    match is_custom {
        true => name.split('/').next().unwrap_or_default(),
        false => name,
    }
}

/// The resources and subresources of a version of a group, and whether they are custom.
fn entries(server: &ApiServer, group: &str, version: &str) -> (Vec<Value>, bool) {
    let mut entries = Vec::new();
    let mut is_custom = false;
    for (kind, resource) in served(server) {
        if *resource.group == *group && *resource.version == *version {
            is_custom |= resource.custom;
            entries.push(resource_json(server, kind));
            let parts = resources::parts(server, kind);
            entries.extend(parts.iter().map(|part| part_json(resource, part)));
        }
    }
    entries.sort_by(|a, b| place(a, is_custom).cmp(place(b, is_custom)));
    (entries, is_custom)
}

/// The response to `/api/v1` and `/apis/{group}/{version}`.
pub(super) fn resources(server: &ApiServer, group: &str, version: &str) -> Option<Reply> {
    let (entries, _) = entries(server, group, version);
    (!entries.is_empty()).then(|| {
        let mut body = json!({
            "kind": "APIResourceList",
            "groupVersion": join_api_version(group, version),
            "resources": entries,
        });
        // The oldest groups are described in the form from before discovery had versions.
        if !matches!(group, "" | "extensions") {
            body["apiVersion"] = "v1".into();
        }
        Reply::object(200, body)
    })
}

/// The verbs of a resource in the order that discovery lists them in.
fn listed_verbs(resource: &ApiResource) -> Vec<&'static str> {
    const OF_CUSTOM: &str = "delete deletecollection get list patch create update watch";
    let mut verbs = resources::verbs(resource);
    if resource.custom {
        verbs.sort_by_key(|verb| OF_CUSTOM.split(' ').position(|one| one == *verb));
    }
    verbs
}

const fn aggregated(version: KubernetesVersion) -> &'static [&'static str] {
    if version.has(AGGREGATED_V2BETA1_IS_REMOVED) {
        &["v2"]
    } else if version.has(AGGREGATED_V2) {
        &["v2", "v2beta1"]
    } else if version.has(AGGREGATED_V2BETA1) {
        &["v2beta1"]
    } else {
        &[]
    }
}

/// The groups in upstream's order.
fn groups(server: &ApiServer) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for (_, resource) in served(server) {
        let (name, version) = (&*resource.group, &*resource.version);
        let group = groups.entry(name).or_insert_with(|| Group {
            name,
            versions: Vec::new(),
            is_custom: false,
        });
        group.is_custom |= resource.custom;
        if !group.versions.contains(&version) {
            group.versions.push(version);
        }
    }
    let mut groups: Vec<Group<'_>> = groups.into_values().collect();
    // The catalog has the versions of built-in groups in order; those of definitions come as they were
    // written.
    for group in groups.iter_mut().filter(|group| group.is_custom) {
        group
            .versions
            .sort_by_key(|&version| Reverse(version_priority(version)));
    }
    groups.sort_by_key(|group| (group.is_custom, rank(group.name), group.name));
    groups
}

/// The place of a group in lists: the first one that knows a name is the one that `kubectl` takes.
///
/// # Upstream
/// `apiVersionPriorities` in `cmd/kube-apiserver/app/aggregator.go`, 1.20.2. Later groups follow by name.
fn rank(group: &str) -> usize {
    const ORDER: &str = "apiregistration.k8s.io apps events.k8s.io authentication.k8s.io \
        authorization.k8s.io autoscaling batch certificates.k8s.io networking.k8s.io extensions policy \
        rbac.authorization.k8s.io \
        storage.k8s.io admissionregistration.k8s.io apiextensions.k8s.io scheduling.k8s.io \
        coordination.k8s.io node.k8s.io discovery.k8s.io resource.k8s.io flowcontrol.apiserver.k8s.io";
    if group.is_empty() {
        return 0;
    }
    let place = ORDER.split(' ').position(|name| name == group);
    place.map_or(usize::MAX, |place| place + 1)
}

fn group_json(group: &Group<'_>) -> Value {
    let version =
        |version: &&str| json!({"groupVersion": join_api_version(group.name, version), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    // A group is made with its first version.
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": group.name, "versions": versions, "preferredVersion": preferred})
}

fn resource_json(server: &ApiServer, kind: KindId) -> Value {
    let (resource, names) = (&server.catalog()[kind], resources::of(server, kind));
    let mut entry = json!({
        "name": &*resource.resource,
        "singularName": names.singular,
        "namespaced": resource.is_namespaced(),
        "kind": &*resource.kind,
        "verbs": listed_verbs(resource),
    });
    for (key, names) in [("shortNames", names.short), ("categories", names.categories)] {
        if !names.is_empty() {
            entry[key] = names.into();
        }
    }
    if let Some(hash) = storage_version_hash(server, kind) {
        entry["storageVersionHash"] = hash.into();
    }
    entry
}

/// Discovery contains a hash of the storage version.
const STORAGE_VERSION_HASHES_ARE_SERVED: Behavior = Behavior::since(15, 0, "StorageVersionHash, beta");

/// The hash of the version that objects of a resource are stored in; `None` for resources that store nothing.
///
/// # Upstream
/// `StorageVersionHash` in `apiserver/pkg/endpoints/discovery/storageversionhash.go`, 1.20.2.
fn storage_version_hash(server: &ApiServer, kind: KindId) -> Option<String> {
    let resource = &server.catalog()[kind];
    if !resource.verbs.watch || !server.version().has(STORAGE_VERSION_HASHES_ARE_SERVED) {
        return None;
    }
    let (group, version) = if resource.custom {
        let mut versions = resources::versions(server.definition(kind)?).iter();
        let stored = versions.find(|version| version["storage"] == true)?;
        (resource.group.to_string(), stored["name"].as_str()?.to_owned())
    } else {
        built_in_storage(server, resource)
    };
    let hash = Sha256::digest(format!("{group}/{version}/{}", resource.kind));
    Some(BASE64_STANDARD.encode(hash.get(..8)?))
}

/// Storage moves to the stable versions of these groups.
const STABLE_VERSIONS_ARE_STORED: Behavior = Behavior::since(21, 0, "SetVersionPriority of 1.21");

/// The group and version that objects of a built-in resource are stored in: the preferred one, but for groups
/// whose storage follows later.
///
/// # Upstream
/// `SetVersionPriority` in `pkg/apis/*/install`, and `DefaultAPIResourceConfigSource` and
/// `NewStorageFactoryConfig` in `pkg/kubeapiserver/default_storage_factory_builder.go`, 1.20.2.
fn built_in_storage(server: &ApiServer, resource: &ApiResource) -> (String, String) {
    let group = match (&*resource.group, &*resource.resource) {
        ("events.k8s.io", "events") => "",
        ("extensions", "ingresses") => "networking.k8s.io",
        (group, _) => group,
    };
    let beta = matches!(
        (group, &*resource.resource),
        (
            "admissionregistration.k8s.io" | "apiextensions.k8s.io" | "coordination.k8s.io" | "node.k8s.io",
            _
        ) | ("networking.k8s.io", "ingresses" | "ingressclasses")
            | ("storage.k8s.io", "csidrivers")
    );
    // Definitions are stored in the version that they had first.
    if beta && (group == "apiextensions.k8s.io" || !server.version().has(STABLE_VERSIONS_ARE_STORED)) {
        return (group.to_owned(), "v1beta1".to_owned());
    }
    let versions =
        served(server).filter(|(_, other)| *other.group == *group && other.resource == resource.resource);
    let is_stable = |version: &str| !version.contains("alpha") && !version.contains("beta");
    let preferred = versions.max_by_key(|(_, other)| (other.preferred, is_stable(&other.version)));
    let version = preferred.map_or(&resource.version, |(_, other)| &other.version);
    (group.to_owned(), version.to_string())
}

fn part_json(resource: &ApiResource, part: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.resource, part.name),
        "singularName": "",
        "namespaced": resource.is_namespaced(),
        "kind": if part.kind.is_empty() { &*resource.kind } else { part.kind },
        "verbs": part.verbs,
    });
    if let Some((group, version)) = resources::group_version(part)
        && (group, version) != (&*resource.group, &*resource.version)
    {
        entry["group"] = group.into();
        entry["version"] = version.into();
    }
    entry
}

fn aggregated_group(server: &ApiServer, group: &Group<'_>) -> Value {
    let versions = group.versions.iter().map(|version| {
        let (entries, is_custom) = entries(server, group.name, version);
        // Built-in resources give no group and version, as in the other form.
        let own = if is_custom {
            (group.name, *version)
        } else {
            ("", "")
        };
        let mut resources: Vec<Value> = Vec::new();
        for entry in entries {
            aggregate(&mut resources, &entry, own);
        }
        json!({"version": version, "resources": resources, "freshness": "Current"})
    });
    let mut metadata = Map::new();
    if !server.version().has(behavior::ZERO_TIMESTAMPS_ARE_OMITTED) {
        metadata.insert("creationTimestamp".to_owned(), Value::Null);
    }
    if !group.name.is_empty() {
        metadata.insert("name".to_owned(), group.name.into());
    }
    json!({"metadata": metadata, "versions": versions.collect::<Vec<_>>()})
}

/// Adds an entry of the plain form: a resource, or a subresource of the last one.
fn aggregate(resources: &mut Vec<Value>, entry: &Value, (group, version): (&str, &str)) {
    let name = entry["name"].as_str().unwrap_or_default();
    let kind = json!({
        "group": entry["group"].as_str().unwrap_or(group),
        "version": entry["version"].as_str().unwrap_or(version),
        "kind": entry["kind"],
    });
    if let (Some((_, part)), Some(resource)) = (name.split_once('/'), resources.last_mut()) {
        let part = json!({"subresource": part, "responseKind": kind, "verbs": entry["verbs"]});
        match &mut resource["subresources"] {
            Value::Array(parts) => parts.push(part),
            none => *none = json!([part]),
        }
        return;
    }
    let mut resource = json!({
        "resource": name,
        "responseKind": kind,
        "scope": if entry["namespaced"] == true { "Namespaced" } else { "Cluster" },
        "singularResource": entry["singularName"],
        "verbs": entry["verbs"],
    });
    for key in ["shortNames", "categories"] {
        if let Some(names) = entry.get(key) {
            resource[key] = names.clone();
        }
    }
    resources.push(resource);
}
