//! Metadata validation and its messages. Each problem is reported as often as the server reports it.
//!
//! The server validates metadata in layers that overlap: a generic one for every kind, and one of the kind's
//! own. On updates both run, and built-in kinds validate the new object a second time as if it were created.
//! The repetitions are part of the response.

use std::collections::BTreeSet;

use kubegc_core::{
    ApiResource, Behavior, KubernetesVersion, ObjectMeta, OwnerReference, Timestamp,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
    version::behavior::VALUES_ARE_JSON,
};

use serde_json::{Value, json};

use crate::{
    StoredObject, formats,
    status::{Cause, quoted},
    types::{facts::Facts, validate::go_syntax},
};

/// Messages about empty fields of owner references do not repeat the name of the field.
const FIELDS_ARE_NOT_REPEATED: Behavior = Behavior::since(34, 0, "kubernetes #132513");

/// The message about two controllers has their kinds.
const CONTROLLERS_HAVE_KINDS: Behavior = Behavior::since(26, 0, "kubernetes #112223");

/// The problems that a kind's own validation finds in the metadata of an object that is to be created.
pub(super) fn created(
    version: KubernetesVersion,
    resource: &ApiResource,
    object: &StoredObject,
) -> Vec<Cause> {
    let facts = Facts::of(resource);
    let times = facts.value("created", version);
    let times = times.and_then(|times| times.parse().ok()).unwrap_or(1);
    let mut causes = Vec::new();
    if is_legacy_event(resource) {
        return causes;
    }
    for _ in 0..times {
        let names = facts.value("names", version).unwrap_or_default();
        name(version, names, object, &mut causes);
        let is_declarative = match (&*resource.group, &*resource.resource) {
            ("", "replicationcontrollers") => version.has(formats::LENGTHS_ARE_BYTES),
            ("resource.k8s.io", "deviceclasses") => version.has(DEVICE_CLASSES_ARE_DECLARATIVE),
            _ => false,
        };
        if is_declarative {
            // Their names are validated as the values of labels are.
            for cause in &mut causes {
                cause.message = cause.message.replace("253 characters", "253 bytes");
            }
        }
        whole(version, resource, object, &mut causes);
        qualified_finalizers(version, resource, &object.meta, &mut causes);
    }
    causes
}

/// Names of classes of devices are validated by declared rules.
const DEVICE_CLASSES_ARE_DECLARATIVE: Behavior = Behavior::since(36, 0, "k8s:alpha of DeviceClass 1.36");

/// Whether an object is an event of the groups and versions without validation of metadata.
fn is_legacy_event(resource: &ApiResource) -> bool {
    !resource.custom
        && match &*resource.group {
            "" => &*resource.resource == "events",
            "events.k8s.io" => &*resource.version == "v1beta1",
            _ => false,
        }
}

/// The problems that the generic validation finds in the metadata of an object that is to be created. It runs
/// if the kind's own validation finds nothing.
///
/// # Upstream
/// `BeforeCreate` in `apiserver/pkg/registry/rest/create.go`, 1.20.2.
pub(super) fn created_generic(
    version: KubernetesVersion,
    resource: &ApiResource,
    object: &StoredObject,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    name(version, "path", object, &mut causes);
    whole(version, resource, object, &mut causes);
    causes
}

/// The problems of the metadata of an object that is to replace another.
///
/// # Upstream
/// `BeforeUpdate` in `apiserver/pkg/registry/rest/update.go` and the kinds' `ValidateUpdate`, 1.20.2.
pub(super) fn updated(
    version: KubernetesVersion,
    resource: &ApiResource,
    new: &StoredObject,
    old: &StoredObject,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    if is_plainly_valid(new, old) {
        return causes;
    }
    if is_legacy_event(resource) {
        whole(version, resource, new, &mut causes);
        change(version, new, &old.meta, &mut causes);
        return causes;
    }
    let facts = Facts::of(resource);
    whole(version, resource, new, &mut causes);
    change(version, new, &old.meta, &mut causes);
    let usual = if resource.custom { "c" } else { "cw" };
    for step in facts.value("updated", version).unwrap_or(usual).chars() {
        match step {
            'c' => change(version, new, &old.meta, &mut causes),
            _ => whole(version, resource, new, &mut causes),
        }
        qualified_finalizers(version, resource, &new.meta, &mut causes);
    }
    causes
}

/// Whether no validated metadata differs from the stored one, except for removed references. This is the
/// usual write of a garbage collector.
fn is_plainly_valid(new: &StoredObject, old: &StoredObject) -> bool {
    let same_annotations = annotations_of(new) == annotations_of(old);
    let (new, old) = (&new.meta, &old.meta);
    same_annotations
        && new.name == old.name
        && new.namespace == old.namespace
        && new.uid == old.uid
        && new.deletion_timestamp == old.deletion_timestamp
        && new.deletion_grace_period_seconds == old.deletion_grace_period_seconds
        && !new.resource_version.is_empty()
        && (new.labels.is_empty() || new.labels == old.labels)
        && new.finalizers.is_empty()
        && new.owner_references.is_empty()
}

fn annotations_of(object: &StoredObject) -> Option<&Value> {
    object.at(&["metadata", "annotations"])
}

/// `ValidateObjectMetaAccessor`, except names.
fn whole(version: KubernetesVersion, resource: &ApiResource, object: &StoredObject, causes: &mut Vec<Cause>) {
    let meta = &object.meta;
    if resource.is_namespaced() {
        if meta.namespace.is_empty() {
            causes.push(Cause::required("metadata.namespace", ""));
        } else {
            problems(
                "metadata.namespace",
                &meta.namespace,
                formats::label(version, &meta.namespace),
                causes,
            );
        }
    }
    if meta.generation < 0 {
        let problem = "must be greater than or equal to 0";
        causes.push(Cause::invalid(
            "metadata.generation",
            &meta.generation.to_string(),
            problem,
        ));
    }
    labels(version, meta, causes);
    annotations(version, object, causes);
    owner_references(version, &meta.owner_references, causes);
    finalizers(version, meta, causes);
}

/// `ValidateObjectMetaAccessorUpdate`.
fn change(version: KubernetesVersion, object: &StoredObject, old: &ObjectMeta, causes: &mut Vec<Cause>) {
    let new = &object.meta;
    if new.resource_version.is_empty() {
        let problem = "must be specified for an update";
        causes.push(Cause::invalid("metadata.resourceVersion", "\"\"", problem));
    }
    if old.is_deleting() {
        no_new_finalizers(new, old, causes);
    }
    let mut immutable = |same: bool, field: &str, shown: &dyn Fn() -> String| {
        if !same {
            causes.push(Cause::invalid(
                format!("metadata.{field}"),
                &shown(),
                "field is immutable",
            ));
        }
    };
    immutable(new.name == old.name, "name", &|| quoted(&new.name));
    immutable(new.namespace == old.namespace, "namespace", &|| {
        quoted(&new.namespace)
    });
    immutable(new.uid == old.uid, "uid", &|| quoted(&new.uid.text()));
    immutable(
        new.deletion_timestamp == old.deletion_timestamp,
        "deletionTimestamp",
        &|| match new.deletion_timestamp {
            Some(time) if version.has(VALUES_ARE_JSON) => quoted(&time.truncate_to_secs().to_string()),
            time => go_time(time),
        },
    );
    immutable(
        new.deletion_grace_period_seconds == old.deletion_grace_period_seconds,
        "deletionGracePeriodSeconds",
        &|| {
            new.deletion_grace_period_seconds
                .map_or_else(|| "\"null\"".to_owned(), |seconds| seconds.to_string())
        },
    );
    labels(version, new, causes);
    annotations(version, object, causes);
    owner_references(version, &new.owner_references, causes);
}

fn no_new_finalizers(new: &ObjectMeta, old: &ObjectMeta, causes: &mut Vec<Cause>) {
    let extra: BTreeSet<&str> = new
        .finalizers
        .iter()
        .map(|finalizer| &**finalizer)
        .filter(|finalizer| !old.has_finalizer(finalizer))
        .collect();
    if !extra.is_empty() {
        let problem = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {}",
            go_strings(extra)
        );
        causes.push(Cause::forbidden("metadata.finalizers", &problem));
    }
}

/// `ValidateOwnerReferences`: form only. It never checks whether an owner exists.
fn owner_references(version: KubernetesVersion, references: &[OwnerReference], causes: &mut Vec<Cause>) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for reference in references {
        let mut empty = |field: &str, shown: &str, problem: &str| {
            causes.push(Cause::invalid(
                format!("{FIELD}.{field}"),
                &quoted(shown),
                problem,
            ));
        };
        let group_version = group_version(&reference.api_version);
        if group_version.is_none() {
            empty("apiVersion", &reference.api_version, "version must not be empty");
        }
        for (field, is_empty) in [
            ("kind", reference.kind.is_empty()),
            ("name", reference.name.is_empty()),
            ("uid", reference.uid.is_empty()),
        ] {
            if is_empty && version.has(FIELDS_ARE_NOT_REPEATED) {
                empty(field, "", "must not be empty");
            } else if is_empty {
                empty(field, "", &format!("{field} must not be empty"));
            }
        }
        if group_version == Some(("", "v1")) && &*reference.kind == "Event" {
            let problem = "/v1, Kind=Event is disallowed from being an owner";
            let shown = go_syntax::value(version, &json!(reference), "v1.OwnerReference");
            causes.push(Cause::invalid(FIELD, &shown, problem));
        }
        if reference.controller == Some(true) {
            let name = if version.has(CONTROLLERS_HAVE_KINDS) {
                format!("{}/{}", reference.kind, reference.name)
            } else {
                reference.name.to_string()
            };
            if let Some(first) = &controller {
                let problem = format!(
                    "Only one reference can have Controller set to true. \
                     Found \"true\" in references for {first} and {name}"
                );
                let shown = go_syntax::value(version, &json!(references), "[]v1.OwnerReference");
                causes.push(Cause::invalid(FIELD, &shown, &problem));
            } else {
                controller = Some(name);
            }
        }
    }
}

/// Group and version, if the string has a version and at most one slash.
fn group_version(text: &str) -> Option<(&str, &str)> {
    let (group, version) = match text.split_once('/') {
        None => ("", text),
        Some((group, version)) => (group, version),
    };
    (!version.is_empty() && !version.contains('/')).then_some((group, version))
}

fn finalizers(version: KubernetesVersion, meta: &ObjectMeta, causes: &mut Vec<Cause>) {
    const FIELD: &str = "metadata.finalizers";
    for finalizer in &meta.finalizers {
        problems(
            FIELD,
            finalizer,
            formats::qualified_name(version, finalizer),
            causes,
        );
    }
    if meta.has_finalizer(FINALIZER_ORPHAN) && meta.has_finalizer(FINALIZER_FOREGROUND) {
        let all: Value = meta.finalizers.iter().map(|finalizer| &**finalizer).collect();
        let shown = go_syntax::value(version, &all, "[]string");
        let problem = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        causes.push(Cause::invalid(FIELD, &shown, &problem));
    }
}

/// Built-in kinds refuse unknown unqualified finalizers.
///
/// # Upstream
/// `validateKubeFinalizerName` in `pkg/apis/core/validation/validation.go`, 1.20.2.
fn qualified_finalizers(
    version: KubernetesVersion,
    resource: &ApiResource,
    meta: &ObjectMeta,
    causes: &mut Vec<Cause>,
) {
    if resource.custom || Facts::of(resource).has("unqualified", version) {
        return;
    }
    for (index, finalizer) in meta.finalizers.iter().enumerate() {
        let known = ["kubernetes", FINALIZER_ORPHAN, FINALIZER_FOREGROUND].contains(&&**finalizer);
        if !known && !finalizer.contains('/') {
            causes.push(Cause::invalid(
                format!("metadata.finalizers[{index}]"),
                &quoted(finalizer),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

fn labels(version: KubernetesVersion, meta: &ObjectMeta, causes: &mut Vec<Cause>) {
    const FIELD: &str = "metadata.labels";
    for (key, value) in &meta.labels {
        problems(FIELD, key, formats::qualified_name(version, key), causes);
        problems(FIELD, value, formats::label_value(version, value), causes);
    }
}

/// The maximum size of the annotations of an object in bytes, keys included.
///
/// # Upstream
/// `totalAnnotationSizeLimitB` in `apimachinery/pkg/api/validation/objectmeta.go`, 1.20.2.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// `ValidateAnnotations`.
fn annotations(version: KubernetesVersion, object: &StoredObject, causes: &mut Vec<Cause>) {
    const FIELD: &str = "metadata.annotations";
    let Some(Value::Object(annotations)) = annotations_of(object) else {
        return;
    };
    let mut bytes = 0;
    for (key, value) in annotations {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        // Upper case is allowed in the prefix of a key, and the message prints the key unchanged.
        problems(
            FIELD,
            key,
            formats::qualified_name(version, &key.to_lowercase()),
            causes,
        );
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        causes.push(Cause::too_long(version, FIELD, ANNOTATIONS_BYTES_MAX));
    }
}

/// `ValidateObjectMetaAccessor`, the names. `rule`: the fact `names` of the kind.
fn name(version: KubernetesVersion, rule: &str, object: &StoredObject, causes: &mut Vec<Cause>) {
    let prefix = object.text_at(&["metadata", "generateName"]);
    if !prefix.is_empty() {
        // The generated part begins with a letter or digit, so a dash before it is valid.
        let is_unmasked = matches!(rule, "path" | "versiongroup" | "address");
        let masked = match prefix.strip_suffix('-') {
            Some(rest) if !rest.is_empty() && !is_unmasked => {
                let mut masked = rest.to_owned();
                masked.pop();
                masked.push('a');
                masked
            }
            _ => prefix.to_owned(),
        };
        for problem in name_problems(version, rule, object, &masked) {
            causes.push(Cause::invalid("metadata.generateName", &quoted(prefix), &problem));
        }
    }
    let name = &*object.meta.name;
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
        return;
    }
    for problem in name_problems(version, rule, object, name) {
        causes.push(Cause::invalid("metadata.name", &quoted(name), &problem));
    }
}

fn name_problems(version: KubernetesVersion, rule: &str, object: &StoredObject, name: &str) -> Vec<String> {
    match rule {
        "any" => Vec::new(),
        "versiongroup" => {
            let part = |key: &str| object.text_at(&["spec", key]);
            let required = format!("{}.{}", part("version"), part("group"));
            let mut problems = formats::path_segment(name);
            // Servers without types accept objects without a specification.
            if problems.is_empty() && name != required && object.at(&["spec"]).is_some() {
                let required = quoted(&required);
                problems.push(format!("must be `spec.version+\".\"+spec.group`: {required}"));
            }
            problems
        }
        "path" => formats::path_segment(name),
        "label" => formats::label(version, name),
        "label1035" => formats::dns_1035_label(name),
        "address" => formats::canonical_ip(name),
        _ => formats::subdomain(version, name),
    }
}

/// Every problem of a value is a cause.
fn problems(field: &str, value: &str, problems: Vec<String>, causes: &mut Vec<Cause>) {
    let shown = quoted(value);
    causes.extend(
        problems
            .iter()
            .map(|problem| Cause::invalid(field, &shown, problem)),
    );
}

/// Strings as Go's `%#v` prints a slice of them.
fn go_strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quoted).collect();
    format!("[]string{{{}}}", texts.join(", "))
}

/// A timestamp as Go prints a `time.Time` in UTC.
fn go_time(time: Option<Timestamp>) -> String {
    time.map_or_else(
        || "\"null\"".to_owned(),
        |time| {
            let text = time.truncate_to_secs().to_string();
            format!("{} +0000 UTC", text.trim_end_matches('Z').replace('T', " "))
        },
    )
}
