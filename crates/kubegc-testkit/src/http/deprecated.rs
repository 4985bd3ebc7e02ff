//! Warnings about versions of the API that are deprecated.
//!
//! # Upstream
//! `WarningMessage` in
//! [`deprecation.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/endpoints/deprecation/deprecation.go),
//! the `prerelease-lifecycle` marks of `k8s.io/api`, and `SetDefaults_CustomResourceDefinitionSpec` and
//! `defaultDeprecationWarning` in `apiextensions-apiserver`.

use kubegc_core::{ApiResource, Behavior, KindId};
use kubegc_sim::{ApiServer, version_priority};
use serde_json::Value;

use super::resources;

/// Responses have warnings.
const VERSIONS_ARE_WARNED_OF: Behavior = Behavior::since(19, 0, "WarningHeaders, beta");

/// The versions that a default server serves.
const BUILT_IN: &str = include_str!("deprecated.txt");

/// The warning about the version of a resource, if it is deprecated.
pub(super) fn warning(server: &ApiServer, kind: KindId) -> Option<String> {
    let (version, resource) = (server.version(), &server.catalog()[kind]);
    if !version.has(VERSIONS_ARE_WARNED_OF) {
        return None;
    }
    if resource.custom {
        let definition = server.definition(kind)?;
        return of_definition(resources::versions(definition), resource);
    }
    let api_version = resource.api_version();
    let kind = &*resource.kind;
    let mut rows = BUILT_IN
        .lines()
        .map(|line| line.splitn(5, ' ').collect::<Vec<_>>());
    let row = rows.find(
        |row| matches!(row[..], [of, other, ..] if of == api_version && (other == kind || other == "*")),
    )?;
    let deprecated: u16 = row.get(2)?.parse().ok()?;
    if version.minor() < deprecated {
        return None;
    }
    let mut warning = format!("{api_version} {kind} is deprecated in v1.{deprecated}+");
    if let Some(removed) = row.get(3).filter(|removed| **removed != "-") {
        warning.push_str(&format!(", unavailable in v1.{removed}+"));
    }
    match row.get(4) {
        None => {}
        Some(whole) if whole.contains(' ') => warning.push_str(&format!("; use {whole}")),
        Some(version) => warning.push_str(&format!("; use {version} {kind}")),
    }
    Some(warning)
}

fn of_definition(versions: &[Value], resource: &ApiResource) -> Option<String> {
    let name = |version: &Value| version["name"].as_str().unwrap_or_default().to_owned();
    let is_deprecated = |version: &Value| version["deprecated"] == true;
    let own = versions
        .iter()
        .find(|version| name(version) == *resource.version)?;
    if !is_deprecated(own) {
        return None;
    }
    if let Some(given) = own["deprecationWarning"].as_str() {
        return Some(given.to_owned());
    }
    let (group, kind) = (&resource.group, &resource.kind);
    let mut warning = format!("{group}/{} {kind} is deprecated", resource.version);
    let others = versions
        .iter()
        .filter(|version| version["served"] == true && !is_deprecated(version));
    let mut others: Vec<String> = others.map(name).collect();
    others.retain(|other| version_priority(other) > version_priority(&resource.version));
    others.sort_by(|one, other| version_priority(other).cmp(&version_priority(one)));
    if let Some(best) = others.first() {
        warning.push_str(&format!("; use {group}/{best} {kind}"));
    }
    Some(warning)
}
