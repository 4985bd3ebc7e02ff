//! Reads which resources a cluster serves: the table of `kubectl api-resources`, or the JSON of discovery.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{ApiResource, Scope, Verbs, identity::split_api_version};
use serde_json::Value;

use crate::SnapshotError;

/// The content of resource listings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Discovery {
    /// Resources in their versions.
    pub(crate) resources: Vec<ApiResource>,
    /// Resources of which only the group is known: tables of kubectl before 1.20. Their version is empty.
    pub(crate) unversioned: Vec<ApiResource>,
}

impl Discovery {
    /// Adds the resources of other listings.
    pub(crate) fn append(&mut self, other: Self) {
        self.resources.extend(other.resources);
        self.unversioned.extend(other.unversioned);
    }

    /// Reads a listing and adds it.
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
            let verbs = entry.get("verbs").map(|_| list(entry, "verbs"));
            self.resource(
                &group,
                &version,
                text(entry, "kind"),
                name,
                scope(namespaced),
                verbs_of(verbs),
                true,
            )?;
            self.add_names(entry, "singularName");
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
                    let verbs = verbs_of(Some(list(entry, "verbs")));
                    self.resource(
                        group_name,
                        text(version, "version"),
                        kind,
                        name,
                        scope(namespaced),
                        verbs,
                        preferred,
                    )?;
                    self.add_names(entry, "singularResource");
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of a listing")]
    fn resource(
        &mut self,
        group: &str,
        version: &str,
        kind: &str,
        name: &str,
        scope: Scope,
        verbs: Verbs,
        preferred: bool,
    ) -> Result<(), SnapshotError> {
        if kind.is_empty() || name.is_empty() {
            return Err(bad(0, format!("a resource of {group:?} has no name or no kind")));
        }
        let mut resource = ApiResource::new(version, kind, name, scope);
        resource.group = group.into();
        resource.version = version.into();
        resource.verbs = verbs;
        resource.preferred = preferred;
        self.resources.push(resource);
        Ok(())
    }

    /// Adds short names, a singular name that is not the kind's, and categories to the last resource.
    fn add_names(&mut self, entry: &Value, singular: &str) {
        let Some(resource) = self.resources.last_mut() else {
            return;
        };
        let singular = text(entry, singular);
        let is_news = !singular.is_empty() && !singular.eq_ignore_ascii_case(&resource.kind);
        let texts = |key: &str| -> Vec<Arc<str>> {
            let texts = list(entry, key).iter().filter_map(Value::as_str);
            texts.map(Into::into).collect()
        };
        resource.short_names = texts("shortNames");
        resource.short_names.extend(is_news.then(|| singular.into()));
        resource.categories = texts("categories");
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
                columns = Some(Columns::read(line).ok_or_else(|| {
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

    fn row(&mut self, columns: &Columns, line: &str) -> Option<()> {
        let cell = |column: Option<(usize, usize)>| {
            let (start, end) = column?;
            let end = end.min(line.len());
            let starts_cell = start == 0 || line.as_bytes().get(start - 1).is_none_or(|&byte| byte == b' ');
            if start >= end {
                return starts_cell.then_some("");
            }
            starts_cell.then_some(line.get(start..end)?.trim())
        };
        let name = cell(columns.name).filter(|name| !name.is_empty() && !name.contains(' '))?;
        let short = cell(columns.short)?;
        let api = cell(columns.api)?;
        let scope = match cell(columns.namespaced)? {
            "true" => Scope::Namespaced,
            "false" => Scope::Cluster,
            _ => return None,
        };
        let kind = cell(columns.kind).filter(|kind| !kind.is_empty() && !kind.contains(' '))?;
        let verbs = match columns.verbs {
            None => Verbs::ALL,
            Some(_) => {
                let text = cell(columns.verbs)?.trim_matches(['[', ']']);
                let verbs: Vec<&str> = text.split([',', ' ']).collect();
                verbs_named(|verb| verbs.contains(&verb))
            }
        };
        let mut resource = ApiResource::new(api, kind, name, scope);
        resource.verbs = verbs;
        if columns.api_is_group {
            (resource.group, resource.version) = (api.into(), "".into());
        }
        let short = short.split(',').filter(|name| !name.is_empty());
        resource.short_names = short.map(Into::into).collect();
        if columns.api_is_group {
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
struct Columns {
    name: Option<(usize, usize)>,
    short: Option<(usize, usize)>,
    api: Option<(usize, usize)>,
    api_is_group: bool,
    namespaced: Option<(usize, usize)>,
    kind: Option<(usize, usize)>,
    verbs: Option<(usize, usize)>,
}

impl Columns {
    fn read(head: &str) -> Option<Self> {
        let mut starts: Vec<(&str, usize)> = Vec::new();
        let mut at = 0;
        for word in head.split(' ') {
            if !word.is_empty() {
                starts.push((word, at));
            }
            at += word.len() + 1;
        }
        let column = |name: &str| {
            let index = starts.iter().position(|(word, _)| *word == name)?;
            let end = starts.get(index + 1).map_or(usize::MAX, |&(_, start)| start);
            Some((starts[index].1, end))
        };
        let columns = Self {
            name: column("NAME"),
            short: Some(column("SHORTNAMES")?),
            api: Some(column("APIVERSION").or_else(|| column("APIGROUP"))?),
            api_is_group: column("APIVERSION").is_none(),
            namespaced: Some(column("NAMESPACED")?),
            kind: Some(column("KIND")?),
            verbs: column("VERBS"),
        };
        Some(columns)
    }
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

/// A listing without verbs leaves them unknown.
fn verbs_of(verbs: Option<&[Value]>) -> Verbs {
    verbs.map_or(Verbs::ALL, |verbs| {
        verbs_named(|verb| verbs.iter().any(|entry| entry.as_str() == Some(verb)))
    })
}

fn verbs_named(has: impl Fn(&str) -> bool) -> Verbs {
    Verbs {
        delete: has("delete"),
        delete_collection: has("deletecollection"),
        list: has("list"),
        watch: has("watch"),
    }
}
