//! Warnings about objects that are accepted.

use kubegc_core::{
    ApiResource, Behavior, KubernetesVersion, ObjectMeta,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};

use crate::status::quoted;

const FINALIZERS_ARE_WARNED_OF: Behavior = Behavior::since_about(29, "between 1.28 and 1.29");
/// The warning asks for a path where the name has a dot.
const PATHS_ARE_PREFERRED: Behavior = Behavior::since_about(32, "between 1.31 and 1.32");

/// Names without a domain that Kubernetes itself uses.
const STANDARD: [&str; 3] = [FINALIZER_ORPHAN, FINALIZER_FOREGROUND, "kubernetes"];

/// The warnings about the metadata of a custom resource that is created, or that is to replace `old`: new
/// finalizers should have a domain.
///
/// # Upstream
/// `validateKubeFinalizerName` in
/// [`validator.go`](https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/registry/customresource/validator.go).
pub(super) fn of_metadata(
    version: KubernetesVersion,
    resource: &ApiResource,
    meta: &ObjectMeta,
    old: Option<&ObjectMeta>,
) -> Vec<String> {
    if !resource.custom || meta.finalizers.is_empty() || !version.has(FINALIZERS_ARE_WARNED_OF) {
        return Vec::new();
    }
    let is_new = |name: &&str| old.is_none_or(|old| !old.has_finalizer(name));
    let names = meta.finalizers.iter().map(|finalizer| &**finalizer);
    let mut names: Vec<&str> = names.filter(is_new).collect();
    names.retain(|name| !name.contains('/') && !STANDARD.contains(name));
    names.sort_unstable();
    names.dedup();
    let warnings = names.into_iter().map(|name| {
        let path = match name.contains('.') && version.has(PATHS_ARE_PREFERRED) {
            true => " including a path (/)",
            false => "",
        };
        format!(
            "metadata.finalizers: {}: prefer a domain-qualified finalizer name{path} to avoid accidental \
             conflicts with other finalizer writers",
            quoted(name)
        )
    });
    warnings.collect()
}

#[cfg(test)]
mod tests {
    use kubegc_core::{ApiResource, ObjectMeta, Scope};

    use super::of_metadata;

    #[test]
    fn new_finalizers_of_custom_resources_should_have_domains() {
        let meta = |finalizers: &[&str]| {
            let mut meta = ObjectMeta::new("ns", "a", "uid-a");
            meta.finalizers = finalizers.iter().map(|&name| name.into()).collect();
            meta
        };
        let custom = ApiResource::new("x.dev/v1", "Widget", "widgets", Scope::Namespaced).custom();
        let built_in = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
        let hold = "metadata.finalizers: \"hold\": prefer a domain-qualified finalizer name to avoid \
                    accidental conflicts with other finalizer writers";
        let dotted = "metadata.finalizers: \"x.dev\": prefer a domain-qualified finalizer name including a \
                      path (/) to avoid accidental conflicts with other finalizer writers";
        let all = ["x.dev", "hold", "orphan", "kubernetes", "x.dev/hold", "hold"];
        for (release, resource, finalizers, old, expected) in [
            ("1.36", &custom, &all[..], &[][..], &[hold, dotted][..]),
            ("1.36", &custom, &all[..], &["hold"][..], &[dotted][..]),
            ("1.31", &custom, &["hold"][..], &[][..], &[hold][..]),
            ("1.28", &custom, &["hold"][..], &[][..], &[][..]),
            ("1.36", &built_in, &["hold"][..], &[][..], &[][..]),
        ] {
            let (new, old) = (meta(finalizers), meta(old));
            let warnings = of_metadata(release.parse().unwrap(), resource, &new, Some(&old));
            assert_eq!(warnings, expected, "{release} {finalizers:?}");
        }
        let created = of_metadata("1.36".parse().unwrap(), &custom, &meta(&["hold"]), None);
        assert_eq!(created, [hold]);
    }
}
