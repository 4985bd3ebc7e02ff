//! The default admission plugins: the fields that they set, and the objects that they refuse.
//!
//! # Upstream
//! `plugin/pkg/admission`, 1.20.2: DefaultIngressClass, DefaultStorageClass, DefaultTolerationSeconds,
//! LimitRanger, PersistentVolumeClaimResize, Priority, RuntimeClass, ServiceAccount,
//! StorageObjectInUseProtection, TaintNodesByCondition.

use std::sync::Arc;

use kubegc_core::{ApiResource, Behavior, KindId, Quantity};
use serde_json::{Map, Value, json};

use super::{
    annotations, limits,
    objects::{list_in, object_in, objects_in},
};
use crate::{
    ApiServer, StoredObject,
    status::{self, Refusal},
};

type Object = Map<String, Value>;

/// The priority classes of every cluster.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

/// Classes of volume attributes are protected.
const ATTRIBUTES_ARE_PROTECTED: Behavior = Behavior::since(34, 0, "VolumeAttributesClass is stable");

fn forbidden(resource: &ApiResource, object: &StoredObject, why: &str) -> Refusal {
    status::forbidden(resource, &object.meta.name, why, Vec::new())
}

/// The group and plural of a cluster-scoped resource.
type Resource = (&'static str, &'static str);

const PRIORITY_CLASSES: Resource = ("scheduling.k8s.io", "priorityclasses");

/// A resource in `v1` or, where that is not served, in `v1beta1`.
fn kind(server: &ApiServer, (group, plural): Resource) -> Option<KindId> {
    let of = |version| server.catalog().by_resource(group, version, plural);
    of("v1").or_else(|| of("v1beta1"))
}

fn all(server: &ApiServer, resource: Resource) -> Vec<Arc<StoredObject>> {
    let kind = kind(server, resource);
    kind.map(|kind| server.objects(kind, None)).unwrap_or_default()
}

fn named(server: &ApiServer, resource: Resource, name: &str) -> Option<Arc<StoredObject>> {
    server.object(kind(server, resource)?, "", name).cloned()
}

/// Sets the fields that the plugins add to an object that is created, or that is to replace `old`.
///
/// # Errors
/// 403 where a plugin forbids the object.
pub(crate) fn complete(
    server: &ApiServer,
    resource: &ApiResource,
    object: &mut StoredObject,
    old: Option<&StoredObject>,
) -> Result<(), Refusal> {
    match (&*resource.group, &*resource.kind) {
        ("", "Pod") => {
            if old.is_none() {
                limits::complete(server, object);
                if server.settings().service_accounts {
                    account(server, resource, object)?;
                }
                prioritize(server, resource, object)?;
            }
            tolerate(object);
            if old.is_none() {
                overhead(server, resource, object)?;
            }
        }
        ("", "Node") if old.is_none() => taint(object),
        ("", "PersistentVolume") if old.is_none() => protect(object, "kubernetes.io/pv-protection"),
        ("", "PersistentVolumeClaim") if old.is_none() => {
            protect(object, "kubernetes.io/pvc-protection");
            STORAGE_CLASSES.set_default(server, object);
        }
        ("storage.k8s.io", "VolumeAttributesClass")
            if old.is_none() && server.version().has(ATTRIBUTES_ARE_PROTECTED) =>
        {
            protect(object, "kubernetes.io/vac-protection");
        }
        ("networking.k8s.io" | "extensions", "Ingress") if old.is_none() => {
            INGRESS_CLASSES.set_default(server, object);
        }
        _ => {}
    }
    Ok(())
}

/// Refuses a valid object that is created, or that is to replace `old`.
///
/// # Errors
/// 403 where a plugin forbids the object.
pub(crate) fn refuse(
    server: &ApiServer,
    resource: &ApiResource,
    object: &StoredObject,
    old: Option<&StoredObject>,
) -> Result<(), Refusal> {
    let problem = match (&*resource.group, &*resource.kind, old) {
        ("", "Pod", None) => limits::refuse_pod(server, object).or_else(|| {
            let is_own = object.at(&["spec", "overhead"]).is_some()
                && object.text_at(&["spec", "runtimeClassName"]).is_empty();
            is_own.then(|| {
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                    .to_owned()
            })
        }),
        ("", "PersistentVolumeClaim", None) => limits::refuse_claim(server, object),
        ("", "PersistentVolumeClaim", Some(old)) => resized(server, object, old),
        ("scheduling.k8s.io", "PriorityClass", _) => second_default(server, object),
        _ => None,
    };
    problem.map_or(Ok(()), |problem| Err(forbidden(resource, object, &problem)))
}

fn protect(object: &mut StoredObject, finalizer: &str) {
    if !object.meta.has_finalizer(finalizer) {
        object.meta.finalizers.push(finalizer.into());
    }
}

fn taint(node: &mut StoredObject) {
    const TAINT: &str = "node.kubernetes.io/not-ready";
    let spec = object_in(node.body_mut(), "spec");
    if let Some(taints) = spec.and_then(|spec| list_in(spec, "taints")) {
        let same = |taint: &Value| {
            taint.get("key") == Some(&TAINT.into()) && taint.get("effect") == Some(&"NoSchedule".into())
        };
        if !taints.iter().any(same) {
            taints.push(json!({"key": TAINT, "effect": "NoSchedule"}));
        }
    }
}

fn priority_of(class: &StoredObject) -> i64 {
    class.at(&["value"]).and_then(Value::as_i64).unwrap_or(0)
}

fn default_class(server: &ApiServer) -> Option<Arc<StoredObject>> {
    let mut classes = all(server, PRIORITY_CLASSES);
    classes.retain(|class| class.at(&["globalDefault"]) == Some(&true.into()));
    classes.into_iter().min_by_key(|class| priority_of(class))
}

fn second_default(server: &ApiServer, class: &StoredObject) -> Option<String> {
    if class.at(&["globalDefault"]) != Some(&true.into()) {
        return None;
    }
    let other = default_class(server).filter(|other| other.meta.name != class.meta.name)?;
    let name = &other.meta.name;
    Some(format!(
        "PriorityClass {name} is already marked as default. Only one default can exist"
    ))
}

fn prioritize(server: &ApiServer, resource: &ApiResource, pod: &mut StoredObject) -> Result<(), Refusal> {
    let keeps_policy = server.version().minor() >= 19;
    let name = pod.text_at(&["spec", "priorityClassName"]).to_owned();
    let system = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name);
    let class = match name.as_str() {
        _ if system.is_some() => None,
        "" => default_class(server),
        name => named(server, PRIORITY_CLASSES, name),
    };
    if class.is_none() && system.is_none() && !name.is_empty() {
        let why = format!("no PriorityClass with name {name} was found");
        return Err(forbidden(resource, pod, &why));
    }
    let class = class.as_deref();
    let priority = system.map_or_else(|| class.map_or(0, priority_of), |(_, priority)| *priority);
    let name = class.map_or(name, |class| class.meta.name.to_string());
    let policy = match class.map_or("", |class| class.text_at(&["preemptionPolicy"])) {
        "" => "PreemptLowerPriority",
        policy => policy,
    };
    if let Some(given) = pod.at(&["spec", "priority"]).and_then(Value::as_i64)
        && given != priority
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        );
        return Err(forbidden(resource, pod, &why));
    }
    let given = pod.text_at(&["spec", "preemptionPolicy"]);
    if keeps_policy && !given.is_empty() && given != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(resource, pod, &why));
    }
    if let Some(spec) = pod.spec_mut() {
        spec.insert("priorityClassName".to_owned(), name.into());
        spec.insert("priority".to_owned(), priority.into());
        if keeps_policy {
            spec.insert("preemptionPolicy".to_owned(), policy.into());
        }
    }
    Ok(())
}

/// Sets the service account of a pod, mounts its token and adds its image pull secrets. Before 1.21 tokens
/// are Secrets of a controller, which does not run here: no volume is added.
///
/// # Upstream
/// `Admit` and `mountServiceAccountToken` in `plugin/pkg/admission/serviceaccount/admission.go`, 1.30.
fn account(server: &ApiServer, resource: &ApiResource, pod: &mut StoredObject) -> Result<(), Refusal> {
    if annotations(pod).is_some_and(|annotations| annotations.contains_key("kubernetes.io/config.mirror")) {
        return Ok(());
    }
    let name = match pod.text_at(&["spec", "serviceAccountName"]) {
        "" => "default".to_owned(),
        name => name.to_owned(),
    };
    let namespace = Arc::clone(&pod.meta.namespace);
    let kind = server.catalog().mapping("v1", "ServiceAccount");
    let Some(account) = kind.and_then(|kind| server.object(kind, &namespace, &name)) else {
        let quoted = status::quoted(&name);
        let why =
            format!("error looking up service account {namespace}/{name}: serviceaccount {quoted} not found");
        return Err(forbidden(resource, pod, &why));
    };
    let suffix = server.letters(server.revision().rotate_left(32));
    let has_tokens = server.version().has(TOKENS_ARE_PROJECTED);
    let Some(spec) = pod.spec_mut() else {
        return Ok(());
    };
    for field in ["serviceAccountName", "serviceAccount"] {
        spec.insert(field.to_owned(), name.as_str().into());
    }
    let secrets = |value: &Value| value.as_array().is_some_and(|secrets| !secrets.is_empty());
    if !spec.get("imagePullSecrets").is_some_and(secrets)
        && let Some(Value::Array(own)) = account.at(&["imagePullSecrets"])
    {
        let named = own.iter().map(|secret| json!({"name": secret["name"]}));
        spec.insert("imagePullSecrets".to_owned(), named.collect());
    }
    let field = "automountServiceAccountToken";
    let mounts = spec
        .get(field)
        .or_else(|| account.at(&[field]))
        .and_then(Value::as_bool);
    if has_tokens && mounts.unwrap_or(true) {
        mount_token(spec, &suffix);
    }
    Ok(())
}

/// The plugin `ServiceAccount` adds projected volumes.
const TOKENS_ARE_PROJECTED: Behavior = Behavior::since(21, 0, "BoundServiceAccountTokenVolume, beta");

fn mount_token(spec: &mut Object, suffix: &str) {
    const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    const VOLUME: &str = "kube-api-access-";
    let volumes = spec.get("volumes").and_then(Value::as_array);
    let mut names = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume["name"].as_str());
    let known = names.find(|name| name.starts_with(VOLUME)).map(str::to_owned);
    let name = known.clone().unwrap_or_else(|| format!("{VOLUME}{suffix}"));
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        for container in objects_in(spec, list) {
            if let Some(mounts) = list_in(container, "volumeMounts")
                && !mounts.iter().any(|mount| mount["mountPath"] == PATH)
            {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": PATH}));
                is_needed = true;
            }
        }
    }
    if known.is_some() || !is_needed {
        return;
    }
    if let Some(volumes) = list_in(spec, "volumes") {
        volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ]}}));
    }
}

/// Adds the tolerations that keep a pod for five minutes on a node that is not ready or not reachable, unless
/// it has its own.
fn tolerate(pod: &mut StoredObject) {
    const SECONDS: i64 = 300;
    let Some(spec) = pod.spec_mut() else { return };
    let Some(tolerations) = list_in(spec, "tolerations") else {
        return;
    };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let is_tolerated = tolerations.iter().any(|toleration| {
            let is = |name: &str, value: &str| {
                let given = toleration.get(name).and_then(Value::as_str).unwrap_or_default();
                given.is_empty() || given == value
            };
            is("key", key) && is("effect", "NoExecute")
        });
        if !is_tolerated {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}),
            );
        }
    }
}

/// Sets the overhead of a pod from its runtime class.
fn overhead(server: &ApiServer, resource: &ApiResource, pod: &mut StoredObject) -> Result<(), Refusal> {
    let name = pod.text_at(&["spec", "runtimeClassName"]).to_owned();
    if name.is_empty() {
        return Ok(());
    }
    let Some(class) = named(server, ("node.k8s.io", "runtimeclasses"), &name) else {
        let why = format!("pod rejected: RuntimeClass {} not found", status::quoted(&name));
        return Err(forbidden(resource, pod, &why));
    };
    let fixed = class.at(&["overhead", "podFixed"]).cloned();
    let own = pod.at(&["spec", "overhead"]);
    if own.is_some() && own != fixed.as_ref() {
        let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
        return Err(forbidden(resource, pod, why));
    }
    if let (Some(fixed), Some(spec)) = (fixed, pod.spec_mut()) {
        spec.insert("overhead".to_owned(), fixed);
    }
    Ok(())
}

/// The fields that name the class of an object, and the annotations that mark the default class of a cluster.
struct Classes {
    resource: Resource,
    /// The field of the object's `spec`.
    field: &'static str,
    /// The annotation that older clients set in place of the field.
    annotation: &'static str,
    /// The annotations that mark a default class.
    defaults: &'static [&'static str],
}

const STORAGE_CLASSES: Classes = Classes {
    resource: ("storage.k8s.io", "storageclasses"),
    field: "storageClassName",
    annotation: "volume.beta.kubernetes.io/storage-class",
    defaults: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
};

const INGRESS_CLASSES: Classes = Classes {
    resource: ("networking.k8s.io", "ingressclasses"),
    field: "ingressClassName",
    annotation: "kubernetes.io/ingress.class",
    defaults: &["ingressclass.kubernetes.io/is-default-class"],
};

impl Classes {
    /// Sets the default class, the first by name, on an object that names none.
    fn set_default(&self, server: &ApiServer, object: &mut StoredObject) {
        let is_annotated =
            annotations(object).is_some_and(|annotations| annotations.contains_key(self.annotation));
        let class = object.at(&["spec", self.field]);
        if is_annotated || class.is_some_and(|class| !class.is_null()) {
            return;
        }
        let is_default = |class: &Arc<StoredObject>| {
            let is_set = |annotations: &Object, key: &str| annotations.get(key) == Some(&"true".into());
            annotations(class)
                .is_some_and(|annotations| self.defaults.iter().any(|key| is_set(annotations, key)))
        };
        let class = all(server, self.resource).into_iter().find(is_default);
        if let (Some(class), Some(spec)) = (class, object.spec_mut()) {
            spec.insert(self.field.to_owned(), (&*class.meta.name).into());
        }
    }
}

/// The error for a claim that is resized but must not be.
fn resized(server: &ApiServer, new: &StoredObject, old: &StoredObject) -> Option<String> {
    let size = |claim: &StoredObject| {
        let size = claim.text_at(&["spec", "resources", "requests", "storage"]);
        Quantity::parse(size).unwrap_or_default()
    };
    if size(new) <= size(old) {
        return None;
    }
    if old.text_at(&["status", "phase"]) != "Bound" {
        return Some("Only bound persistent volume claims can be expanded".to_owned());
    }
    let name = old.text_at(&["spec", "storageClassName"]);
    let class = named(server, STORAGE_CLASSES.resource, name);
    let grows = class.is_some_and(|class| class.at(&["allowVolumeExpansion"]) == Some(&true.into()));
    (!grows).then(|| {
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
            .to_owned()
    })
}
