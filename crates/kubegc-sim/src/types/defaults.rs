//! Defaults of built-in kinds that the server sets.
//!
//! Constants at a field come from the table of types, defaults that depend on other fields from the table of
//! changes, by the name of the struct.
//!
//! # Upstream
//! `SetDefaults_*` in `pkg/apis/*/*/defaults.go`, 1.20.2 and 1.22.

use kubegc_core::{Behavior, KubernetesVersion};
use serde_json::{Map, Value, json};

use super::{
    changes,
    objects::{object_mut, set_nil, text},
    qos,
    schema::{Field, StructId, Type},
};

type Object = Map<String, Value>;

/// Namespaces get a label with their name.
pub(crate) const NAMESPACES_ARE_LABELLED: Behavior = Behavior::since(21, 0, "kubernetes #96968");

/// Sets the defaults of a struct in its normal form and of all nested structs, from the outside to the
/// inside.
pub(crate) fn fill(object: &mut Object, id: StructId, version: KubernetesVersion) {
    for field in id.fields() {
        if let Some(default) = &field.default
            && field.is_in(version)
            && is_unset(object, field)
        {
            object.insert(field.name.to_owned(), default.clone());
        }
    }
    dependent(object, id.name(), version);
    for field in id.fields() {
        if let Some(value) = object.get_mut(field.name) {
            field
                .ty
                .each_struct(value, &mut |inner, id| fill(inner, id, version));
        }
    }
}

/// Whether the defaulting code reads the zero value: nil for a pointer.
fn is_unset(object: &Object, field: &Field) -> bool {
    match object.get(field.name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty() && field.ty == Type::String,
        Some(Value::Number(number)) => {
            number.as_i64() == Some(0) && matches!(field.ty, Type::Int32 | Type::Int64)
        }
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// Whether a field has no items or entries.
fn is_empty(object: &Object, key: &str) -> bool {
    object.get(key).is_none_or(|value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        other => other.is_null(),
    })
}

/// Sets the defaults that depend on other fields.
fn dependent(object: &mut Object, name: &str, version: KubernetesVersion) {
    changes::apply(name, object, version);
    match name.split('.').next().unwrap_or_default() {
        "Pod" => {
            if let Some(spec) = object_mut(object, "spec") {
                qos::set_requests(spec);
            }
        }
        "Container" | "EphemeralContainer" => pull_policy(object, "imagePullPolicy", "image"),
        "ImageVolumeSource" => pull_policy(object, "pullPolicy", "reference"),
        "CustomResourceDefinition" => {
            let versions = object
                .get("spec")
                .and_then(|spec| spec.get("versions")?.as_array());
            let mut versions = versions.into_iter().flatten();
            let stored = versions.find(|version| version.get("storage") == Some(&true.into()));
            let stored = stored.and_then(|version| version.get("name")).cloned();
            if let (Some(stored), Some(status)) = (stored, object_mut(object, "status"))
                && is_empty(status, "storedVersions")
            {
                status.insert("storedVersions".to_owned(), json!([stored]));
            }
        }
        "CustomResourceDefinitionSpec" => {
            if let Some(names) = object_mut(object, "names") {
                let kind = text(names, "kind").to_owned();
                if !kind.is_empty() {
                    set_nil(names, "singular", kind.to_lowercase());
                    set_nil(names, "listKind", kind + "List");
                }
            }
        }
        _ => {}
    }
}

/// The policy of an image: `latest` is always pulled.
fn pull_policy(object: &mut Object, key: &str, image: &str) {
    if text(object, key).is_empty() {
        let policy = match is_latest(text(object, image)) {
            true => "Always",
            false => "IfNotPresent",
        };
        object.insert(key.to_owned(), policy.into());
    }
}

/// Whether an image has the tag `latest`, or neither tag nor digest. An image without a valid name has no
/// tag.
///
/// # Upstream
/// `ParseImageName` in `pkg/util/parsers/parsers.go`, 1.20.2.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    let (repository, tag) = match name.split_once(':') {
        Some((_, tag)) => (
            image.strip_suffix(tag).unwrap_or_default().trim_end_matches(':'),
            tag,
        ),
        None => (image, "latest"),
    };
    let has_host = repository.split_once('/').is_some_and(|(host, _)| {
        host.contains(['.', ':']) || host == "localhost" || host.contains(|c: char| c.is_ascii_uppercase())
    });
    let path: Vec<&str> = repository.split('/').skip(usize::from(has_host)).collect();
    // Without a host, an image of one part is in `library`.
    let length = path.join("/").len() + if !has_host && path.len() == 1 { 8 } else { 0 };
    let is_identifier = image.len() == 64 && image.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    let valid = |part: &str| {
        let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(alphanumeric)
            && part.ends_with(alphanumeric)
            && part
                .chars()
                .all(|c| alphanumeric(c) || matches!(c, '.' | '_' | '-'))
    };
    tag == "latest" && length <= 255 && !is_identifier && path.into_iter().all(valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_an_image_decides() {
        for (image, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.19", false),
            ("localhost:5000/a/nginx", true),
            ("localhost:5000/a/nginx:1", false),
            ("nginx@sha256:0123", false),
            ("Nginx", false),
            ("", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }
}
