//! Singular names, short names, categories and list kinds of resources.

use std::sync::Arc;

use kubegc_core::{ApiResource, Behavior};
use kubegc_sim::{ApiServer, StoredObject};
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
pub(super) fn of(server: &ApiServer, resource: &ApiResource) -> Names {
    let definition = resource.custom.then(|| definition_of(server, resource)).flatten();
    let text = |key: &str| match &definition {
        Some(definition) => definition.text_at(&["spec", "names", key]),
        None => "",
    };
    let texts = |key: &str, built_in: &[Arc<str>]| match &definition {
        Some(definition) => {
            let texts = items_at(definition, &["spec", "names", key]).iter();
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

pub(super) fn definition_of(server: &ApiServer, resource: &ApiResource) -> Option<Arc<StoredObject>> {
    const GROUP: &str = "apiextensions.k8s.io";
    let definitions = ["v1", "v1beta1"]
        .into_iter()
        .find_map(|version| server.resolve(GROUP, version, "customresourcedefinitions").ok())?;
    let name = format!("{}.{}", resource.resource, resource.group);
    server.object(definitions, "", &name).cloned()
}

/// The columns that the definition of a custom resource declares for its version.
pub(super) fn printer_columns(server: &ApiServer, resource: &ApiResource) -> Vec<Value> {
    let definition = resource.custom.then(|| definition_of(server, resource)).flatten();
    let mut versions = definition.iter().flat_map(|definition| versions(definition));
    let version = versions.find(|version| version["name"] == *resource.version);
    let columns = version.and_then(|version| version["additionalPrinterColumns"].as_array());
    columns.cloned().unwrap_or_default()
}

/// The versions that a definition has.
pub(super) fn versions(definition: &StoredObject) -> &[Value] {
    items_at(definition, &["spec", "versions"])
}

fn items_at<'a>(object: &'a StoredObject, path: &[&str]) -> &'a [Value] {
    let items = object.at(path).and_then(Value::as_array);
    items.map_or(&[], Vec::as_slice)
}
