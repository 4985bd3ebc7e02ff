//! Reads which resources a cluster serves: the table of `kubectl api-resources`, or the JSON of discovery.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{
    ApiResource, Scope, Verbs,
    identity::{join_api_version, split_api_version},
};
use serde_json::Value;

use crate::SnapshotError;

#[derive(Clone, Debug, Default)]
pub(crate) struct Discovery {
    /// Resources in their versions.
    pub(crate) resources: Vec<ApiResource>,
    /// Resources of which only the group is known: tables of kubectl before 1.20. Their version is empty.
    pub(crate) unversioned: Vec<ApiResource>,
}

impl Discovery {
    pub(crate) fn append(&mut self, other: Self) {
        self.resources.extend(other.resources);
        self.unversioned.extend(other.unversioned);
    }

    pub(crate) fn add(&mut self, text: &str) -> Result<(), SnapshotError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim_start().starts_with(['{', '[']) {
            let mut found = false;
            for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
                let document = document.map_err(|error| bad(error.line(), error.to_string()))?;
                self.document(&document)?;
                found = true;
            }
            return if found {
                Ok(())
            } else {
                Err(bad(0, "holds no document".to_owned()))
            };
        }
        self.table(text)
    }

    /// Reads the array of `APIResourceList`s that a support bundle has. The preferred version of each group
    /// comes first.
    pub(crate) fn add_lists(&mut self, text: &[u8]) -> Result<(), String> {
        let lists: Option<Vec<Value>> =
            serde_json::from_slice(text).map_err(|error| format!("expected API resources: {error}"))?;
        let known = self.resources.len();
        for list in lists.iter().flatten() {
            self.resource_list(list).map_err(|error| match error {
                SnapshotError::ApiResources { problem, .. } => problem,
                other => other.to_string(),
            })?;
        }
        let mut seen = BTreeSet::new();
        for resource in &mut self.resources[known..] {
            resource.preferred = seen.insert((Arc::clone(&resource.group), Arc::clone(&resource.resource)));
        }
        Ok(())
    }

    fn document(&mut self, document: &Value) -> Result<(), SnapshotError> {
        match text(document, "kind") {
            "APIResourceList" => self.resource_list(document),
            "APIGroupDiscoveryList" => self.aggregated(document),
            kind => Err(bad(
                0,
                format!("{kind:?} is neither APIResourceList nor APIGroupDiscoveryList"),
            )),
        }
    }

    fn resource_list(&mut self, document: &Value) -> Result<(), SnapshotError> {
        let (list_group, list_version) = split_api_version(text(document, "groupVersion"));
        for entry in list(document, "resources") {
            let name = text(entry, "name");
            if name.contains('/') {
                continue;
            }
            let or = |own: &'static str, of_list: &str| match text(entry, own) {
                "" => of_list.to_owned(),
                own => own.to_owned(),
            };
            let (group, version) = (or("group", list_group), or("version", list_version));
            let namespaced = entry.get("namespaced").and_then(Value::as_bool);
            let Some(namespaced) = namespaced.filter(|_| !version.is_empty()) else {
                return Err(bad(
                    0,
                    format!("resource {name:?} has no version, or does not say whether it is namespaced"),
                ));
            };
            let api_version = join_api_version(&group, &version);
            let resource = ApiResource::new(&api_version, text(entry, "kind"), name, scope(namespaced));
            self.add_resource(resource, entry, "singularName")?;
        }
        Ok(())
    }

    fn aggregated(&mut self, document: &Value) -> Result<(), SnapshotError> {
        for group in list(document, "items") {
            let group_name = group.get("metadata").map_or("", |meta| text(meta, "name"));
            let mut seen: Vec<&str> = Vec::new();
            for version in list(group, "versions") {
                for entry in list(version, "resources") {
                    let name = text(entry, "resource");
                    let kind = entry.get("responseKind").map_or("", |kind| text(kind, "kind"));
                    let namespaced = match text(entry, "scope") {
                        "Namespaced" => true,
                        "Cluster" => false,
                        other => return Err(bad(0, format!("resource {name:?} has the scope {other:?}"))),
                    };
                    // The versions come in the order of preference.
                    let preferred = !seen.contains(&name);
                    seen.push(name);
                    let api_version = join_api_version(group_name, text(version, "version"));
                    let mut resource = ApiResource::new(&api_version, kind, name, scope(namespaced));
                    resource.preferred = preferred;
                    resource.verbs = verbs_named(|_| false);
                    self.add_resource(resource, entry, "singularResource")?;
                }
            }
        }
        Ok(())
    }

    /// Adds a resource with the verbs, the short names, a singular name that is not the kind's, and the
    /// categories of its entry. A listing without verbs leaves them as they are.
    fn add_resource(
        &mut self,
        mut resource: ApiResource,
        entry: &Value,
        singular: &str,
    ) -> Result<(), SnapshotError> {
        if resource.kind.is_empty() || resource.resource.is_empty() {
            let group = &resource.group;
            return Err(bad(0, format!("a resource of {group:?} has no name or no kind")));
        }
        if entry.get("verbs").is_some() {
            let verbs = list(entry, "verbs");
            resource.verbs = verbs_named(|verb| verbs.iter().any(|entry| entry.as_str() == Some(verb)));
        }
        let singular = text(entry, singular);
        let is_news = !singular.is_empty() && !singular.eq_ignore_ascii_case(&resource.kind);
        let texts = |key: &str| -> Vec<Arc<str>> {
            let texts = list(entry, key).iter().filter_map(Value::as_str);
            texts.map(Into::into).collect()
        };
        resource.short_names = texts("shortNames");
        resource.short_names.extend(is_news.then(|| singular.into()));
        resource.categories = texts("categories");
        self.resources.push(resource);
        Ok(())
    }

    fn table(&mut self, text: &str) -> Result<(), SnapshotError> {
        let mut columns = None;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            if line.starts_with("NAME ") {
                // kubectl prints one table; pasted together, each has its own head.
                columns = Some(columns_of(line).ok_or_else(|| {
                    bad(
                        number,
                        "the head lacks APIVERSION (or APIGROUP), NAMESPACED or KIND".to_owned(),
                    )
                })?);
                continue;
            }
            let Some(columns) = &columns else {
                return Err(bad(
                    number,
                    "expected the head `NAME  SHORTNAMES  APIVERSION  NAMESPACED  KIND`".to_owned(),
                ));
            };
            self.row(columns, line).ok_or_else(|| {
                bad(
                    number,
                    format!("{line:?} does not match the columns of the header"),
                )
            })?;
        }
        match columns {
            Some(_) => Ok(()),
            None => Err(bad(0, "holds no table".to_owned())),
        }
    }

    fn row(&mut self, columns: &Columns<'_>, line: &str) -> Option<()> {
        let cell = |column: &str| {
            let &(start, end) = columns.get(column)?;
            let end = end.min(line.len());
            let starts_cell = start == 0 || line.as_bytes().get(start - 1).is_none_or(|&byte| byte == b' ');
            if start >= end {
                return starts_cell.then_some("");
            }
            starts_cell.then_some(line.get(start..end)?.trim())
        };
        let name = cell("NAME").filter(|name| !name.is_empty() && !name.contains(' '))?;
        let short = cell("SHORTNAMES")?;
        let api_is_group = !columns.contains_key("APIVERSION");
        let api = cell(if api_is_group { "APIGROUP" } else { "APIVERSION" })?;
        let scope = match cell("NAMESPACED")? {
            "true" => Scope::Namespaced,
            "false" => Scope::Cluster,
            _ => return None,
        };
        let kind = cell("KIND").filter(|kind| !kind.is_empty() && !kind.contains(' '))?;
        let verbs = match columns.get("VERBS") {
            None => Verbs::ALL,
            Some(_) => {
                let text = cell("VERBS")?.trim_matches(['[', ']']);
                let verbs: Vec<&str> = text.split([',', ' ']).collect();
                verbs_named(|verb| verbs.contains(&verb))
            }
        };
        let mut resource = ApiResource::new(api, kind, name, scope);
        resource.verbs = verbs;
        if api_is_group {
            (resource.group, resource.version) = (api.into(), "".into());
        }
        let short = short.split(',').filter(|name| !name.is_empty());
        resource.short_names = short.map(Into::into).collect();
        if api_is_group {
            self.unversioned.push(resource);
        } else if api.is_empty() {
            return None;
        } else {
            self.resources.push(resource);
        }
        Some(())
    }
}

/// Start and end of each column of a table, in bytes.
type Columns<'h> = BTreeMap<&'h str, (usize, usize)>;

/// The columns of a head; `None` if it lacks one.
fn columns_of(head: &str) -> Option<Columns<'_>> {
    let mut starts: Vec<(&str, usize)> = Vec::new();
    let mut at = 0;
    for word in head.split(' ') {
        if !word.is_empty() {
            starts.push((word, at));
        }
        at += word.len() + 1;
    }
    let ends = starts.iter().skip(1).map(|&(_, start)| start).chain([usize::MAX]);
    let mut columns = Columns::new();
    for (&(name, start), end) in starts.iter().zip(ends) {
        // Of equal names the first one counts.
        columns.entry(name).or_insert((start, end));
    }
    let has = |name: &str| columns.contains_key(name);
    let has_all =
        has("SHORTNAMES") && (has("APIVERSION") || has("APIGROUP")) && has("NAMESPACED") && has("KIND");
    has_all.then_some(columns)
}

fn bad(line: usize, problem: String) -> SnapshotError {
    SnapshotError::ApiResources { line, problem }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

const fn scope(namespaced: bool) -> Scope {
    if namespaced {
        Scope::Namespaced
    } else {
        Scope::Cluster
    }
}

fn verbs_named(has: impl Fn(&str) -> bool) -> Verbs {
    Verbs {
        delete: has("delete"),
        delete_collection: has("deletecollection"),
        list: has("list"),
        watch: has("watch"),
    }
}
