//! The fields of an object other than its typed metadata, as they are in the document: those of all kinds
//! that have [`Details`](crate::Details).
//!
//! The kind of an object may follow its contents, or be known from its list only. So the fields of all kinds
//! are kept, and whether one of them is of the wrong type is judged when the kind is known: fields of the
//! same name in other kinds do not matter.

mod raw;

use std::{borrow::Cow, fmt};

use kubegc_core::json::{DUPLICATE, Expected, Labels, Text};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

pub use self::raw::Raw;
use crate::{
    secrets::{self, Names},
    template,
};

/// All fields that are kept, except the typed metadata.
#[derive(Clone, Debug)]
pub struct Body<'a>(Raw<'a>);

impl Default for Body<'_> {
    fn default() -> Self {
        Self(Raw::Map(Vec::new()))
    }
}

impl<'a> Body<'a> {
    /// The fields, as a map.
    pub const fn fields(&self) -> &Raw<'a> {
        &self.0
    }

    /// A field of the object.
    pub fn at(&self, key: &str) -> &Raw<'a> {
        self.0.get(key)
    }

    /// Adds a field.
    pub(crate) fn put(&mut self, key: &'static str, value: Raw<'a>) {
        if let Raw::Map(fields) = &mut self.0 {
            fields.push(Raw::entry(key, value));
        }
    }

    /// The version of a node's kubelet.
    pub fn kubelet_version(&self) -> Option<&str> {
        let info = self.at("status").get("nodeInfo");
        info.get("kubeletVersion").as_str()
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Body<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Kept::Map(object).deserialize(deserializer).map(Self)
    }
}

/// The annotations that facts are read from. Few objects have any of them.
#[derive(Clone, Debug, Default)]
pub struct Annotations<'a>(pub(crate) Raw<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Annotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Kept::Annotations.deserialize(deserializer).map(Self)
    }
}

/// The parts of a value that are kept. Of a value of another type only the type is kept.
#[derive(Clone, Copy)]
pub(crate) enum Kept {
    /// A text, a number, a boolean, or whether there is a map.
    Leaf,
    /// A list of such values.
    Leaves,
    /// A map of such values under these names.
    Fields(&'static [&'static str]),
    /// A list of such maps.
    ListOf(&'static [&'static str]),
    /// A map of the fields for which the function returns a value.
    Map(fn(&str) -> Option<Self>),
    /// A list of such maps.
    Maps(fn(&str) -> Option<Self>),
    /// A map of fields that name Secrets.
    Naming(&'static [Names]),
    /// A list of such maps.
    ListNaming(&'static [Names]),
    /// A map from any key to texts.
    Labels,
    Annotations,
    /// The data of a Secret or a ConfigMap.
    Data,
    /// A pod template.
    Template,
}

impl Kept {
    /// The retained part of an entry of a list.
    const fn of_entries(self) -> Option<Self> {
        match self {
            Self::Leaves => Some(Self::Leaf),
            Self::ListOf(fields) => Some(Self::Fields(fields)),
            Self::Maps(fields) => Some(Self::Map(fields)),
            Self::ListNaming(names) => Some(Self::Naming(names)),
            _ => None,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Kept {
    type Value = Raw<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Kept {
    type Value = Raw<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Raw<'de>, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Raw<'de>, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Raw<'de>, E> {
        Ok(Raw::Flag(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Raw<'de>, E> {
        Ok(Raw::Number(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Raw<'de>, E> {
        Ok(i64::try_from(number).map_or(Raw::OtherNumber, Raw::Number))
    }

    fn visit_i128<E: de::Error>(self, _number: i128) -> Result<Raw<'de>, E> {
        Ok(Raw::OtherNumber)
    }

    fn visit_u128<E: de::Error>(self, _number: u128) -> Result<Raw<'de>, E> {
        Ok(Raw::OtherNumber)
    }

    fn visit_f64<E: de::Error>(self, _number: f64) -> Result<Raw<'de>, E> {
        Ok(Raw::OtherNumber)
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Raw<'de>, E> {
        Ok(Raw::Text(Text(Cow::Borrowed(text))))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Raw<'de>, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Raw<'de>, E> {
        Ok(Raw::Text(Text(Cow::Owned(text))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw<'de>, A::Error> {
        let mut entries = Vec::new();
        match self.of_entries() {
            Some(kept) => {
                while let Some(entry) = list.next_element_seed(kept)? {
                    entries.push(entry);
                }
            }
            None => while list.next_element::<IgnoredAny>()?.is_some() {},
        }
        Ok(Raw::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw<'de>, A::Error> {
        match self {
            Self::Map(kept) => fields(map, kept),
            Self::Naming(names) => fields(map, |key| naming(names, key)),
            Self::Fields(names) => fields(map, |key| names.contains(&key).then_some(Self::Leaf)),
            Self::Labels => {
                let labels = Labels::of_map(map)?.unwrap_or_default().0.into_iter();
                let labels = labels.map(|(key, value)| (key, Raw::of_soft(value, Raw::Text)));
                Ok(Raw::Map(labels.collect()))
            }
            Self::Annotations => annotations(map),
            Self::Data => data(map),
            Self::Template => template::read(map),
            Self::Leaf | Self::Leaves | Self::ListOf(_) | Self::Maps(_) | Self::ListNaming(_) => {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Raw::Map(Vec::new()))
            }
        }
    }
}

/// Reads the fields of a map for which `kept` returns a value.
fn fields<'de, A: MapAccess<'de>>(
    mut map: A,
    kept: impl Fn(&str) -> Option<Kept>,
) -> Result<Raw<'de>, A::Error> {
    let mut fields: Vec<(Text<'de>, Raw<'de>)> = Vec::new();
    while let Some(key) = map.next_key::<Text<'de>>()? {
        let Some(kept) = kept(key.as_str()) else {
            map.next_value::<IgnoredAny>()?;
            continue;
        };
        if fields.iter().any(|(known, _)| *known == key) {
            // The tree has the last one, and the key is reported.
            return Err(de::Error::custom(DUPLICATE));
        }
        if fields.is_empty() {
            // Conditions and containers have no more.
            fields.reserve(8);
        }
        fields.push((key, map.next_value_seed(kept)?));
    }
    Ok(Raw::Map(fields))
}

/// The parts that are kept of a field that may name a Secret.
fn naming(names: &[Names], key: &str) -> Option<Kept> {
    names.iter().find_map(|names| match names {
        Names::Text(field) => (*field == key).then_some(Kept::Leaf),
        Names::Map(field, names) => (*field == key).then_some(Kept::Naming(names)),
        Names::List(field, names) => (*field == key).then_some(Kept::ListNaming(names)),
    })
}

fn annotations<'de, A: MapAccess<'de>>(mut map: A) -> Result<Raw<'de>, A::Error> {
    let mut annotations = Vec::new();
    while let Some(key) = map.next_key::<Text<'de>>()? {
        if ANNOTATIONS.contains(&key.as_str()) {
            let value = map.next_value_seed(Kept::Leaf)?;
            if !value.is_null() {
                annotations.push((key, value));
            }
        } else {
            map.next_value::<IgnoredAny>()?;
        }
    }
    Ok(Raw::Map(annotations))
}

/// Nothing but these keys is ever kept of the data of a Secret.
fn data<'de, A: MapAccess<'de>>(mut map: A) -> Result<Raw<'de>, A::Error> {
    let mut data: Vec<(Text<'de>, Raw<'de>)> = Vec::new();
    let mut has_others = false;
    while let Some(key) = map.next_key::<Text<'de>>()? {
        if matches!(key.as_str(), "since" | "expiration") {
            data.retain(|(known, _)| *known != key);
            data.push((key, map.next_value_seed(Kept::Leaf)?));
        } else {
            has_others = true;
            map.next_value::<IgnoredAny>()?;
        }
    }
    if has_others {
        data.push(Raw::entry("other", Raw::Text(Text::default())));
    }
    Ok(Raw::Map(data))
}

/// The provisioner of a volume.
pub(crate) const ANNOTATION_PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Set if a controller, and no user, bound the volume.
pub(crate) const ANNOTATION_BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The CSI driver that an in-tree volume was migrated to.
pub(crate) const ANNOTATION_MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// The name of the service account that a secret holds a token of.
pub(crate) const ANNOTATION_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The uid of that service account.
pub(crate) const ANNOTATION_ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Set on Jobs whose finished pods are counted with finalizers.
pub(crate) const ANNOTATION_JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod of an Indexed Job.
pub(crate) const ANNOTATION_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The number of earlier failures of the index of a pod.
pub(crate) const ANNOTATION_INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The cost of deleting a pod that is surplus.
pub(crate) const ANNOTATION_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The revision of its Deployment that a ReplicaSet has.
pub(crate) const ANNOTATION_REVISION: &str = "deployment.kubernetes.io/revision";
/// Set on Endpoints that serve as a lock.
pub(crate) const ANNOTATION_LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The annotations that are kept.
const ANNOTATIONS: [&str; 11] = [
    ANNOTATION_PROVISIONED_BY,
    ANNOTATION_BOUND_BY_CONTROLLER,
    ANNOTATION_MIGRATED_TO,
    ANNOTATION_ACCOUNT_NAME,
    ANNOTATION_ACCOUNT_UID,
    ANNOTATION_JOB_TRACKING,
    ANNOTATION_COMPLETION_INDEX,
    ANNOTATION_INDEX_FAILURES,
    ANNOTATION_DELETION_COST,
    ANNOTATION_REVISION,
    ANNOTATION_LEADER,
];

/// Declares functions that return the parts that are kept of each field of a map, by its name in the API.
macro_rules! maps {
    ($($(#[$doc:meta])* $map:ident { $($($key:literal)|+ => $kept:expr,)* })*) => {
        $(
            $(#[$doc])*
            fn $map(key: &str) -> Option<Kept> {
                Some(match key {
                    $($($key)|+ => $kept,)*
                    _ => return None,
                })
            }
        )*
    };
}

maps! {
    /// `metadata`, apart from the typed metadata.
    metadata {
        "annotations" => Kept::Annotations,
    }
    /// `spec`, apart from the fields of a pod that name Secrets.
    spec_without_secrets {
        "nodeName" | "terminationGracePeriodSeconds" => Kept::Leaf,
        "volumes" => Kept::Maps(volume),
        "tolerations" => Kept::ListOf(&["key", "operator", "value", "effect", "tolerationSeconds"]),
        "schedulingGroup" => Kept::Fields(&["podGroupName"]),
        // Of workloads. A Service has a map of labels as its selector.
        "selector" => Kept::Map(selector),
        "replicas" | "revisionHistoryLimit" | "paused" => Kept::Leaf,
        "template" => Kept::Template,
        "strategy" => Kept::Map(strategy),
        "ordinals" => Kept::Fields(&["start"]),
        "persistentVolumeClaimRetentionPolicy" => Kept::Fields(&["whenDeleted", "whenScaled"]),
        "volumeClaimTemplates" => Kept::Maps(template),
        "ttlSecondsAfterFinished" | "parallelism" | "completions" | "completionMode" | "suspend"
        | "activeDeadlineSeconds" | "backoffLimit" | "backoffLimitPerIndex" | "maxFailedIndexes"
        | "podFailurePolicy" | "successPolicy" | "podReplacementPolicy" | "managedBy" => Kept::Leaf,
        "successfulJobsHistoryLimit" | "failedJobsHistoryLimit" => Kept::Leaf,
        "jobTemplate" => Kept::Map(template),
        // Of volumes, claims and attachments.
        "persistentVolumeReclaimPolicy" | "volumeMode" | "volumeName" => Kept::Leaf,
        "volumeAttributesClassName" => Kept::Leaf,
        "claimRef" => Kept::Fields(&["namespace", "name", "uid"]),
        "csi" => Kept::Fields(&["driver", "volumeHandle"]),
        "hostPath" => Kept::Fields(&["path"]),
        "awsElasticBlockStore" | "azureDisk" | "azureFile" | "cephfs" | "cinder" | "fc" | "flexVolume"
        | "flocker" | "gcePersistentDisk" | "glusterfs" | "iscsi" | "local" | "nfs" | "photonPersistentDisk"
        | "portworxVolume" | "quobyte" | "rbd" | "scaleIO" | "storageos" | "vsphereVolume" => Kept::Leaf,
        "source" => Kept::Fields(&["persistentVolumeName"]),
        // Of nodes, leases and namespaces.
        "taints" => Kept::ListOf(&["key", "effect", "value", "timeAdded"]),
        "providerID" | "renewTime" | "leaseDurationSeconds" => Kept::Leaf,
        "finalizers" => Kept::Leaves,
        // Of Services, IP addresses, service CIDRs and resource claims.
        "clusterIPs" | "cidrs" => Kept::Leaves,
        "parentRef" => Kept::Fields(&["group", "resource", "namespace", "name"]),
        "allocationMode" => Kept::Leaf,
        // Of CustomResourceDefinitions and APIServices.
        "group" | "scope" | "version" => Kept::Leaf,
        "names" => Kept::Map(names),
        "versions" => Kept::ListOf(&["name", "served", "storage"]),
        "conversion" => Kept::Map(conversion),
        "service" => Kept::Fields(SERVICE),
        // Of ResourceQuotas.
        "scopes" => Kept::Leaves,
        "scopeSelector" => Kept::Leaf,
        // Of admission policies and their bindings.
        "failurePolicy" | "policyName" => Kept::Leaf,
        "matchConstraints" | "matchResources" => Kept::Map(match_resources),
        "matchConditions" | "variables" | "validations" => Kept::ListOf(EXPRESSION),
        "paramKind" => Kept::Fields(&["apiVersion", "kind"]),
        "paramRef" => Kept::Map(parameter_reference),
        "validationActions" => Kept::Leaves,
    }
    status {
        "phase" | "reason" | "startTime" | "certificate" => Kept::Leaf,
        "conditions" => Kept::ListOf(CONDITION),
        "containerStatuses" | "initContainerStatuses" => Kept::Maps(container_status),
        "succeeded" | "failed" | "completedIndexes" | "failedIndexes" => Kept::Leaf,
        "uncountedTerminatedPods" => Kept::Map(uncounted_pods),
        "replicas" | "updatedReplicas" | "availableReplicas" | "observedGeneration" | "currentRevision"
        | "updateRevision" => Kept::Leaf,
        "nodeInfo" => Kept::Fields(&["kubeletVersion"]),
        "volumesInUse" | "storedVersions" => Kept::Leaves,
        "allocation" | "currentVolumeAttributesClassName" => Kept::Leaf,
        "reservedFor" => Kept::ListOf(&["apiGroup", "resource", "name", "uid"]),
        "hard" | "used" => Kept::Labels,
        "modifyVolumeStatus" => Kept::Fields(&["targetVolumeAttributesClassName"]),
    }
    container_status {
        "state" => Kept::Fields(&["waiting", "terminated"]),
        "restartCount" => Kept::Leaf,
    }
    uncounted_pods {
        "succeeded" | "failed" => Kept::Leaves,
    }
    strategy {
        "type" => Kept::Leaf,
        "rollingUpdate" => Kept::Fields(&["maxUnavailable", "maxSurge"]),
    }
    /// A template of an object other than a pod.
    template {
        "metadata" => Kept::Map(template_metadata),
    }
    template_metadata {
        "name" => Kept::Leaf,
        "labels" => Kept::Labels,
    }
    label_selector {
        "matchLabels" => Kept::Labels,
        "matchExpressions" => Kept::Maps(requirement),
    }
    requirement {
        "key" | "operator" => Kept::Leaf,
        "values" => Kept::Leaves,
    }
    names {
        "plural" | "kind" => Kept::Leaf,
        "shortNames" | "categories" => Kept::Leaves,
    }
    /// The first beta form has the client configuration beside the strategy.
    conversion {
        "strategy" => Kept::Leaf,
        "webhook" => Kept::Map(conversion_webhook),
        "webhookClientConfig" => Kept::Map(client_config),
    }
    conversion_webhook {
        "clientConfig" => Kept::Map(client_config),
    }
    client_config {
        "service" => Kept::Fields(SERVICE),
        "url" => Kept::Leaf,
    }
    webhook {
        "name" | "failurePolicy" | "matchPolicy" => Kept::Leaf,
        "clientConfig" => Kept::Map(client_config),
        "rules" => Kept::Maps(rule),
        "namespaceSelector" | "objectSelector" => Kept::Map(label_selector),
        "matchConditions" => Kept::Leaves,
    }
    /// A rule of a webhook, or of a policy, which may name objects.
    rule {
        "operations" | "apiGroups" | "apiVersions" | "resources" | "resourceNames" => Kept::Leaves,
        "scope" => Kept::Leaf,
    }
    match_resources {
        "resourceRules" | "excludeResourceRules" => Kept::Maps(rule),
        "matchPolicy" => Kept::Leaf,
        "namespaceSelector" | "objectSelector" => Kept::Map(label_selector),
    }
    parameter_reference {
        "name" | "namespace" | "parameterNotFoundAction" => Kept::Leaf,
        "selector" => Kept::Map(label_selector),
    }
    /// Of an Endpoints. Of the addresses only their number is read.
    subset {
        "addresses" => Kept::Leaves,
    }
    /// Of an EndpointSlice.
    endpoint {
        "conditions" => Kept::Fields(&["ready"]),
    }
}

fn spec(key: &str) -> Option<Kept> {
    spec_without_secrets(key).or_else(|| naming(secrets::OF_SPEC, key))
}

/// All keys but those of a label selector are labels.
fn selector(key: &str) -> Option<Kept> {
    label_selector(key).or(Some(Kept::Leaf))
}

fn volume(key: &str) -> Option<Kept> {
    match key {
        "name" | "ephemeral" => Some(Kept::Leaf),
        "persistentVolumeClaim" => Some(Kept::Fields(&["claimName"])),
        _ => naming(secrets::OF_VOLUME, key),
    }
}

const NAMED: &[&str] = &["name"];
const SERVICE: &[&str] = &["namespace", "name", "path", "port"];
const EXPRESSION: &[&str] = &["name", "expression", "message", "messageExpression", "reason"];
const CONDITION: &[&str] = &[
    "type",
    "status",
    "reason",
    "message",
    "lastTransitionTime",
    "lastUpdateTime",
    "observedGeneration",
];

/// The parts that are kept of a field of an object.
pub(crate) fn object(key: &str) -> Option<Kept> {
    Some(match key {
        "metadata" => Kept::Map(metadata),
        "spec" => Kept::Map(spec),
        "status" => Kept::Map(status),
        "type" | "revision" | "reason" | "message" | "count" => Kept::Leaf,
        "involvedObject" => Kept::Fields(&["apiVersion", "kind", "namespace", "name", "uid"]),
        "data" | "stringData" => Kept::Data,
        "secrets" => Kept::ListOf(NAMED),
        "webhooks" => Kept::Maps(webhook),
        "subsets" => Kept::Maps(subset),
        "endpoints" => Kept::Maps(endpoint),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Body<'_> {
        serde_json::from_str(text).expect("an object")
    }

    #[test]
    fn a_written_body_reads_alike() {
        let body = read(
            r#"{"metadata": {"annotations": {"kubernetes.io/service-account.name": "a", "x": "y"}},
                "spec": {"nodeName": 7, "replicas": 1.5, "tolerations": {"a": 1}, "paused": [true],
                    "volumes": [null, {"name": "a", "secret": {"secretName": [1]}}], "x": {},
                    "template": {"metadata": {}, "spec": {"restartPolicy": "Never", "x": 1}}},
                "status": {"conditions": [{"type": true}, {"type": "\u0041"}]},
                "data": {"since": "a", "password": "b"}}"#,
        );
        let written = serde_json::to_string(&body).expect("it can be written");
        assert_eq!(format!("{:?}", read(&written)), format!("{body:?}"));
        assert!(!written.contains("password"), "{written}");
        let volume = r#"[null,{"name":"a","secret":{"secretName":[]}}]"#;
        assert!(written.contains(volume), "{written}");
    }

    #[test]
    fn a_repeated_key_that_is_read_fails() {
        for (text, fails) in [
            (r#"{"spec": {"nodeName": "a", "nodeName": null}}"#, true),
            (r#"{"spec": {"volumes": [{"name": "a", "name": "a"}]}}"#, true),
            (r#"{"spec": {"selector": {"a": "b", "a": "b"}}}"#, true),
            (
                r#"{"spec": {"template": {"spec": {}}, "selector": {"matchLabels": {"a": "b", "a": "b"}}}}"#,
                true,
            ),
            (
                r#"{"spec": {"x": "a", "x": "b", "parallelism": {"a": 1, "a": 2}}}"#,
                false,
            ),
        ] {
            assert_eq!(serde_json::from_str::<Body<'_>>(text).is_err(), fails, "{text}");
        }
        let key = ANNOTATION_DELETION_COST;
        let text =
            format!(r#"{{"metadata": {{"annotations": {{"{key}": "1", "{key}": "2", "{key}": null}}}}}}"#);
        let body = read(&text);
        let cost = body.at("metadata").get("annotations").get(key);
        assert_eq!(cost.as_str(), Some("2"));
    }
}
