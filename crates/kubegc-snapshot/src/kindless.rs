//! Kinds of objects without apiVersion and kind: inferred from their fields, or from the name of their file.
//!
//! Client libraries drop both when they encode a list, and so does `jq .items[]` on such a list.

use std::sync::{Arc, LazyLock};

use kubegc_core::{ApiResource, Catalog, KubernetesVersion};

use crate::{body::Raw, layout};

/// An apiVersion and a kind.
pub(crate) type TypeName = (Arc<str>, Arc<str>);

static BUILTIN: LazyLock<Catalog> = LazyLock::new(|| Catalog::builtin(KubernetesVersion::LATEST));

/// The apiVersion and kind of an object with these fields in this file.
pub(crate) fn infer(body: &Raw<'_>, file: &str) -> Option<TypeName> {
    if let Some((api_version, kind)) = of_fields(body) {
        return Some((api_version.into(), kind.into()));
    }
    let resource = of_file_name(file)?;
    Some((resource.api_version().into(), Arc::clone(&resource.kind)))
}

/// The apiVersion and kind of the objects with these fields, if only one built-in kind has them.
fn of_fields(body: &Raw<'_>) -> Option<(&'static str, &'static str)> {
    let [spec, status] = ["spec", "status"].map(|part| body.get(part));
    let has = |field: &str| !spec.get(field).is_null();
    let has_template = has("template");
    let strategy = spec.get("strategy");
    let rolls_out = !(strategy.get("type").is_null() && strategy.get("rollingUpdate").is_null());
    let known = [
        (!status.get("nodeInfo").is_null(), "v1", "Node"),
        (has("containers"), "v1", "Pod"),
        (has("jobTemplate"), "batch/v1", "CronJob"),
        (
            has_template && (has("completionMode") || has("backoffLimit")),
            "batch/v1",
            "Job",
        ),
        (
            has_template && has("volumeClaimTemplates"),
            "apps/v1",
            "StatefulSet",
        ),
        (has_template && rolls_out, "apps/v1", "Deployment"),
        (has("persistentVolumeReclaimPolicy"), "v1", "PersistentVolume"),
        (
            has("volumeMode") && !has("claimRef"),
            "v1",
            "PersistentVolumeClaim",
        ),
        (has("clusterIPs"), "v1", "Service"),
        (has("finalizers"), "v1", "Namespace"),
    ];
    let found = known.into_iter().find(|(fits, ..)| *fits)?;
    Some((found.1, found.2))
}

/// The built-in kind that a file is named after: `deployments.json`, `pod.yaml`, `shop-pods.jsonl`.
fn of_file_name(file: &str) -> Option<&'static ApiResource> {
    let file = layout::unpacked_name(file);
    let name = file.rsplit(['/', '\\', ':']).next().unwrap_or_default();
    let stem = layout::without_extension(name);
    let catalog = &*BUILTIN;
    let named: Vec<&ApiResource> = catalog
        .named(stem)
        .into_iter()
        .map(|kind| &catalog[kind])
        .collect();
    if let Some(resource) = one_of(&named) {
        return Some(resource);
    }
    // Only a plural is likely to mean the content of the file: `node-1-pods.json`.
    let mut found = None;
    for word in stem.split(|letter: char| !letter.is_alphanumeric()) {
        let of_word = catalog.named(word).into_iter().map(|kind| &catalog[kind]);
        let plurals: Vec<&ApiResource> = of_word
            .filter(|resource| word.eq_ignore_ascii_case(&resource.resource))
            .collect();
        match (one_of(&plurals), found) {
            (Some(_), Some(_)) => return None,
            (Some(resource), None) => found = Some(resource),
            (None, _) => {}
        }
    }
    found
}

/// The only resource, or that of the core group, as kubectl chooses.
fn one_of(resources: &[&'static ApiResource]) -> Option<&'static ApiResource> {
    match resources {
        [one] => Some(*one),
        several => several.iter().copied().find(|one| one.group.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_resources() {
        for (file, expected) in [
            ("pods.json", Some("Pod")),
            ("dump/shop/Pod.yaml", Some("Pod")),
            ("deployments.apps.json", Some("Deployment")),
            ("pvc.json.gz", Some("PersistentVolumeClaim")),
            ("dump.tar.gz:all/events.json", Some("Event")),
            ("node-1-pods.jsonl", Some("Pod")),
            (
                "shop_persistentvolumeclaims.ndjson",
                Some("PersistentVolumeClaim"),
            ),
            ("services-and-endpoints.json", None),
            ("web.json", None),
            ("standard input", None),
        ] {
            let found = of_file_name(file).map(|resource| &*resource.kind);
            assert_eq!(found, expected, "{file}");
        }
    }
}
