//! Metadata validation and its messages. Each problem is reported as often as the server reports it.
//!
//! The server validates metadata in layers that overlap: a generic one for every kind, and one of the kind's
//! own. On updates both run, and built-in kinds validate the new object a second time as if it were created.
//! The repetitions are part of the response.

use std::collections::BTreeSet;

use kubegc_core::{
    ApiResource, Behavior, KubernetesVersion, ObjectMeta, OwnerReference,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
    version::behavior::VALUES_ARE_JSON,
};

use serde_json::{Value, json};

use super::{ApiServer, write::Write};
use crate::{
    StoredObject, formats,
    status::{Cause, quoted},
    types::{facts::Facts, go_syntax, validate},
};

/// Messages about empty fields of owner references do not repeat the name of the field.
const FIELDS_ARE_NOT_REPEATED: Behavior = Behavior::since(34, 0, "kubernetes #132513");

/// The message about two controllers has their kinds.
const CONTROLLERS_HAVE_KINDS: Behavior = Behavior::since(26, 0, "kubernetes #112223");

impl ApiServer {
    /// The problems of an object that is to be written.
    pub(super) fn problems(&self, write: Write<'_>) -> Vec<Cause> {
        let (version, resource, object) = (self.version, self.resource(write.kind), write.new);
        let mut causes = metadata(version, resource, write, &own_steps(version, resource, write));
        causes.extend(self.kind_problems(write));
        if self.schema(write.kind).is_some() {
            let part = write.part.subresource();
            causes.extend(validate::problems(resource, object, write.old, part, version));
        }
        if write.old.is_none() && causes.is_empty() {
            // The generic validation runs if that of the kind finds nothing.
            causes = metadata(version, resource, write, "pw");
        }
        causes
    }
}

/// The steps in which a kind validates the metadata of an object: `n` the name by the rule of the kind, `p`
/// as a segment of a path, `w` the whole object, `c` its change, `q` whether its finalizers are qualified.
///
/// # Upstream
/// `BeforeCreate` and `BeforeUpdate` in `apiserver/pkg/registry/rest`, and the `ValidateUpdate` of kinds,
/// 1.20.2.
fn own_steps(version: KubernetesVersion, resource: &ApiResource, write: Write<'_>) -> String {
    let (facts, is_legacy) = (Facts::of(resource), is_legacy_event(resource));
    match write.old {
        None if is_legacy => String::new(),
        None => {
            let times = facts.value("created", version);
            "nwq".repeat(times.and_then(|times| times.parse().ok()).unwrap_or(1))
        }
        Some(old) if is_plainly_valid(write.new, old) => String::new(),
        Some(_) if is_legacy => "wc".to_owned(),
        Some(_) => {
            let usual = if resource.custom { "c" } else { "cw" };
            let own = facts.value("updated", version).unwrap_or(usual).chars();
            "wc".chars().chain(own.flat_map(|step| [step, 'q'])).collect()
        }
    }
}

/// The problems that these steps find in the metadata of an object.
fn metadata(version: KubernetesVersion, resource: &ApiResource, write: Write<'_>, steps: &str) -> Vec<Cause> {
    let causes = Vec::new();
    let mut check = Check {
        version,
        resource,
        causes,
    };
    for step in steps.chars() {
        match (step, write.old) {
            ('n', _) => check.own_name(write.new),
            ('p', _) => check.name("path", write.new),
            ('c', Some(old)) => check.change(write.new, &old.meta),
            ('q', _) => check.qualified_finalizers(&write.new.meta),
            _ => check.whole(write.new),
        }
    }
    check.causes
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

/// The validation of one object, and its problems so far.
struct Check<'a> {
    version: KubernetesVersion,
    resource: &'a ApiResource,
    causes: Vec<Cause>,
}

impl Check<'_> {
    fn invalid(&mut self, field: impl Into<String>, shown: &str, problem: &str) {
        self.causes.push(Cause::invalid(field, shown, problem));
    }

    /// Every problem of a value is a cause.
    fn problems(&mut self, field: &str, value: &str, problems: Vec<String>) {
        for problem in problems {
            self.invalid(field, &quoted(value), &problem);
        }
    }

    /// `ValidateObjectMetaAccessor`, except names.
    fn whole(&mut self, object: &StoredObject) {
        let meta = &object.meta;
        if self.resource.is_namespaced() && meta.namespace.is_empty() {
            self.causes.push(Cause::required("metadata.namespace", ""));
        } else if self.resource.is_namespaced() {
            let problems = formats::label(self.version, &meta.namespace);
            self.problems("metadata.namespace", &meta.namespace, problems);
        }
        if meta.generation < 0 {
            let problem = "must be greater than or equal to 0";
            self.invalid("metadata.generation", &meta.generation.to_string(), problem);
        }
        self.labels(meta);
        self.annotations(object);
        self.owner_references(&meta.owner_references);
        self.finalizers(meta);
    }

    /// `ValidateObjectMetaAccessorUpdate`.
    fn change(&mut self, object: &StoredObject, old: &ObjectMeta) {
        let new = &object.meta;
        if new.resource_version.is_empty() {
            let problem = "must be specified for an update";
            self.invalid("metadata.resourceVersion", "\"\"", problem);
        }
        if old.is_deleting() {
            self.no_new_finalizers(new, old);
        }
        let deletion = match new.deletion_timestamp {
            Some(time) if self.version.has(VALUES_ARE_JSON) => quoted(&time.truncate_to_secs().to_string()),
            Some(time) => {
                let text = time.truncate_to_secs().to_string();
                format!("{} +0000 UTC", text.trim_end_matches('Z').replace('T', " "))
            }
            None => "\"null\"".to_owned(),
        };
        let grace = new.deletion_grace_period_seconds;
        let grace_shown = grace.map_or_else(|| "\"null\"".to_owned(), |seconds| seconds.to_string());
        let mut immutable = |field: &str, is_same: bool, shown: &str| {
            if !is_same {
                self.invalid(format!("metadata.{field}"), shown, "field is immutable");
            }
        };
        immutable("name", new.name == old.name, &quoted(&new.name));
        immutable(
            "namespace",
            new.namespace == old.namespace,
            &quoted(&new.namespace),
        );
        immutable("uid", new.uid == old.uid, &quoted(&new.uid.text()));
        let is_same = new.deletion_timestamp == old.deletion_timestamp;
        immutable("deletionTimestamp", is_same, &deletion);
        let is_same = grace == old.deletion_grace_period_seconds;
        immutable("deletionGracePeriodSeconds", is_same, &grace_shown);
        self.labels(new);
        self.annotations(object);
        self.owner_references(&new.owner_references);
    }

    fn no_new_finalizers(&mut self, new: &ObjectMeta, old: &ObjectMeta) {
        let names = new.finalizers.iter().map(|finalizer| &**finalizer);
        let extra: BTreeSet<&str> = names.filter(|name| !old.has_finalizer(name)).collect();
        if !extra.is_empty() {
            let extra: Vec<String> = extra.into_iter().map(quoted).collect();
            let problem = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                extra.join(", ")
            );
            self.causes
                .push(Cause::forbidden("metadata.finalizers", &problem));
        }
    }

    /// `ValidateOwnerReferences`: form only. It never checks whether an owner exists.
    fn owner_references(&mut self, references: &[OwnerReference]) {
        const FIELD: &str = "metadata.ownerReferences";
        let mut controller: Option<String> = None;
        for reference in references {
            let group_version = group_version(&reference.api_version);
            if group_version.is_none() {
                let shown = quoted(&reference.api_version);
                self.invalid(format!("{FIELD}.apiVersion"), &shown, "version must not be empty");
            }
            for (field, is_empty) in [
                ("kind", reference.kind.is_empty()),
                ("name", reference.name.is_empty()),
                ("uid", reference.uid.is_empty()),
            ] {
                let problem = match self.version.has(FIELDS_ARE_NOT_REPEATED) {
                    true => "must not be empty".to_owned(),
                    false => format!("{field} must not be empty"),
                };
                if is_empty {
                    self.invalid(format!("{FIELD}.{field}"), "\"\"", &problem);
                }
            }
            if group_version == Some(("", "v1")) && &*reference.kind == "Event" {
                let problem = "/v1, Kind=Event is disallowed from being an owner";
                let shown = go_syntax::value(self.version, &json!(reference), "v1.OwnerReference");
                self.invalid(FIELD, &shown, problem);
            }
            if reference.controller == Some(true) {
                let name = match self.version.has(CONTROLLERS_HAVE_KINDS) {
                    true => format!("{}/{}", reference.kind, reference.name),
                    false => reference.name.to_string(),
                };
                if let Some(first) = &controller {
                    let problem = format!(
                        "Only one reference can have Controller set to true. \
                         Found \"true\" in references for {first} and {name}"
                    );
                    let shown = go_syntax::value(self.version, &json!(references), "[]v1.OwnerReference");
                    self.invalid(FIELD, &shown, &problem);
                } else {
                    controller = Some(name);
                }
            }
        }
    }

    fn finalizers(&mut self, meta: &ObjectMeta) {
        const FIELD: &str = "metadata.finalizers";
        for finalizer in &meta.finalizers {
            let problems = formats::qualified_name(self.version, finalizer);
            self.problems(FIELD, finalizer, problems);
        }
        if meta.has_finalizer(FINALIZER_ORPHAN) && meta.has_finalizer(FINALIZER_FOREGROUND) {
            let shown = go_syntax::value(self.version, &json!(meta.finalizers), "[]string");
            let problem =
                format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
            self.invalid(FIELD, &shown, &problem);
        }
    }

    /// Built-in kinds refuse unknown unqualified finalizers.
    ///
    /// # Upstream
    /// `validateKubeFinalizerName` in `pkg/apis/core/validation/validation.go`, 1.20.2.
    fn qualified_finalizers(&mut self, meta: &ObjectMeta) {
        if self.resource.custom || Facts::of(self.resource).has("unqualified", self.version) {
            return;
        }
        for (index, finalizer) in meta.finalizers.iter().enumerate() {
            let known = ["kubernetes", FINALIZER_ORPHAN, FINALIZER_FOREGROUND].contains(&&**finalizer);
            if !known && !finalizer.contains('/') {
                let problem = "name is neither a standard finalizer name nor is it fully qualified";
                self.invalid(
                    format!("metadata.finalizers[{index}]"),
                    &quoted(finalizer),
                    problem,
                );
            }
        }
    }

    fn labels(&mut self, meta: &ObjectMeta) {
        const FIELD: &str = "metadata.labels";
        for (key, value) in &meta.labels {
            self.problems(FIELD, key, formats::qualified_name(self.version, key));
            self.problems(FIELD, value, formats::label_value(self.version, value));
        }
    }

    /// `ValidateAnnotations`.
    fn annotations(&mut self, object: &StoredObject) {
        const FIELD: &str = "metadata.annotations";
        let Some(Value::Object(annotations)) = annotations_of(object) else {
            return;
        };
        let mut bytes = 0;
        for (key, value) in annotations {
            bytes += key.len() + value.as_str().map_or(0, str::len);
            // Upper case is allowed in the prefix of a key, and the message prints the key unchanged.
            let problems = formats::qualified_name(self.version, &key.to_lowercase());
            self.problems(FIELD, key, problems);
        }
        if bytes > ANNOTATIONS_BYTES_MAX {
            self.causes
                .push(Cause::too_long(self.version, FIELD, ANNOTATIONS_BYTES_MAX));
        }
    }

    /// The name by the rule of the kind.
    fn own_name(&mut self, object: &StoredObject) {
        let rule = Facts::of(self.resource).value("names", self.version);
        self.name(rule.unwrap_or_default(), object);
        let is_declarative = match (&*self.resource.group, &*self.resource.resource) {
            ("", "replicationcontrollers") => self.version.has(formats::LENGTHS_ARE_BYTES),
            ("resource.k8s.io", "deviceclasses") => self.version.has(DEVICE_CLASSES_ARE_DECLARATIVE),
            _ => false,
        };
        // Their names are validated as the values of labels are.
        for cause in self.causes.iter_mut().filter(|_| is_declarative) {
            cause.message = cause.message.replace("253 characters", "253 bytes");
        }
    }

    /// `ValidateObjectMetaAccessor`, the names. `rule`: the fact `names` of the kind.
    fn name(&mut self, rule: &str, object: &StoredObject) {
        let prefix = object.text_at(&["metadata", "generateName"]);
        if !prefix.is_empty() {
            let masked = match rule {
                "path" | "versiongroup" | "address" => prefix.to_owned(),
                _ => formats::masked_prefix(prefix),
            };
            let problems = name_problems(self.version, rule, object, &masked);
            self.problems("metadata.generateName", prefix, problems);
        }
        let name = &*object.meta.name;
        if name.is_empty() {
            let problem = "name or generateName is required";
            self.causes.push(Cause::required("metadata.name", problem));
            return;
        }
        let problems = name_problems(self.version, rule, object, name);
        self.problems("metadata.name", name, problems);
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

/// The maximum size of the annotations of an object in bytes, keys included.
///
/// # Upstream
/// `totalAnnotationSizeLimitB` in `apimachinery/pkg/api/validation/objectmeta.go`, 1.20.2.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

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
