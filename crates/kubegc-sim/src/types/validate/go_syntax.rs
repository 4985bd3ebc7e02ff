//! Values as Go's `%#v` prints them, for the structs in upstream's error messages.

use std::collections::BTreeMap;

use kubegc_core::{KubernetesVersion, Quantity, QuantityFormat, version::behavior::VALUES_ARE_JSON};
use serde_json::{Map, Value};

use crate::{
    status::{POINTER, quoted},
    types::schema::{StructId, Type},
};

/// Structs by their Go name: each field as `jsonName GoName type`.
const STRUCTS: [(&str, &str); 37] = [
    (
        "v1.LabelSelector",
        "matchLabels MatchLabels map[string]string;matchExpressions MatchExpressions []v1.LabelSelectorRequirement",
    ),
    (
        "v1.LabelSelectorRequirement",
        "key Key string;operator Operator string;values Values []string",
    ),
    (
        "rbac.RoleRef",
        "apiGroup APIGroup string;kind Kind string;name Name string",
    ),
    (
        "core.Toleration",
        "key Key string;operator Operator string;value Value string;effect Effect string;\
         tolerationSeconds TolerationSeconds *int64",
    ),
    (
        "core.SeccompProfile",
        "type Type string;localhostProfile LocalhostProfile *string",
    ),
    (
        "core.ServicePort",
        "name Name string;protocol Protocol string;appProtocol AppProtocol *string;port Port int32;\
         targetPort TargetPort intstr.IntOrString;nodePort NodePort int32",
    ),
    (
        "core.Lifecycle",
        "postStart PostStart *core.Handler;preStop PreStop *core.Handler",
    ),
    (
        "core.Handler",
        "exec Exec *core.ExecAction;httpGet HTTPGet *core.HTTPGetAction;tcpSocket TCPSocket *core.TCPSocketAction",
    ),
    (
        "core.Probe",
        " Handler core.Handler;initialDelaySeconds InitialDelaySeconds int32;timeoutSeconds TimeoutSeconds int32;\
         periodSeconds PeriodSeconds int32;successThreshold SuccessThreshold int32;failureThreshold FailureThreshold int32",
    ),
    (
        "core.SecurityContext",
        "capabilities Capabilities *core.Capabilities;privileged Privileged *bool;seLinuxOptions SELinuxOptions *core.SELinuxOptions;\
         windowsOptions WindowsOptions *core.WindowsSecurityContextOptions;runAsUser RunAsUser *int64;\
         runAsGroup RunAsGroup *int64;runAsNonRoot RunAsNonRoot *bool;\
         readOnlyRootFilesystem ReadOnlyRootFilesystem *bool;allowPrivilegeEscalation AllowPrivilegeEscalation *bool;\
         procMount ProcMount *core.ProcMountType;seccompProfile SeccompProfile *core.SeccompProfile",
    ),
    ("core.LocalObjectReference", "name Name string"),
    (
        "apps.StatefulSetUpdateStrategy",
        "type Type string;rollingUpdate RollingUpdate *apps.RollingUpdateStatefulSetStrategy",
    ),
    (
        "apps.RollingUpdateStatefulSetStrategy",
        "partition Partition int32",
    ),
    (
        "apps.DeploymentStrategy",
        "type Type string;rollingUpdate RollingUpdate *apps.RollingUpdateDeployment",
    ),
    (
        "apps.DaemonSetUpdateStrategy",
        "type Type string;rollingUpdate RollingUpdate *apps.RollingUpdateDaemonSet",
    ),
    (
        "storage.CSIDriverSpec",
        "attachRequired AttachRequired *bool;fsGroupPolicy FSGroupPolicy *storage.FSGroupPolicy;\
         podInfoOnMount PodInfoOnMount *bool;volumeLifecycleModes VolumeLifecycleModes []storage.VolumeLifecycleMode;\
         storageCapacity StorageCapacity *bool;tokenRequests TokenRequests []storage.TokenRequest;\
         requiresRepublish RequiresRepublish *bool",
    ),
    (
        "storage.TokenRequest",
        "audience Audience string;expirationSeconds ExpirationSeconds *int64",
    ),
    ("networking.IPBlock", "cidr CIDR string;except Except []string"),
    (
        "core.NodeSelector",
        "nodeSelectorTerms NodeSelectorTerms []core.NodeSelectorTerm",
    ),
    (
        "core.PodTemplateSpec",
        "metadata ObjectMeta v1.ObjectMeta;spec Spec core.PodSpec",
    ),
    (
        "v1.ObjectMeta",
        "name Name string;generateName GenerateName string;namespace Namespace string;selfLink SelfLink string;\
         uid UID string;resourceVersion ResourceVersion string;generation Generation int64;\
         creationTimestamp CreationTimestamp time;deletionTimestamp DeletionTimestamp *time;\
         deletionGracePeriodSeconds DeletionGracePeriodSeconds *int64;labels Labels map[string]string;\
         annotations Annotations map[string]string;ownerReferences OwnerReferences []v1.OwnerReference;\
         finalizers Finalizers []string;clusterName ClusterName string;\
         managedFields ManagedFields []v1.ManagedFieldsEntry",
    ),
    (
        "v1.OwnerReference",
        "apiVersion APIVersion string;kind Kind string;name Name string;uid UID string;controller Controller *bool;\
         blockOwnerDeletion BlockOwnerDeletion *bool",
    ),
    (
        "core.PodSpec",
        "volumes Volumes []core.Volume;initContainers InitContainers []core.Container;\
         containers Containers []core.Container;\
         ephemeralContainers EphemeralContainers []core.EphemeralContainer;restartPolicy RestartPolicy string;\
         terminationGracePeriodSeconds TerminationGracePeriodSeconds *int64;\
         activeDeadlineSeconds ActiveDeadlineSeconds *int64;dnsPolicy DNSPolicy string;\
         nodeSelector NodeSelector map[string]string;serviceAccountName ServiceAccountName string;\
         automountServiceAccountToken AutomountServiceAccountToken *bool;nodeName NodeName string;\
         securityContext SecurityContext *core.PodSecurityContext;\
         imagePullSecrets ImagePullSecrets []core.LocalObjectReference;hostname Hostname string;\
         subdomain Subdomain string;setHostnameAsFQDN SetHostnameAsFQDN *bool;affinity Affinity *core.Affinity;\
         schedulerName SchedulerName string;tolerations Tolerations []core.Toleration;\
         hostAliases HostAliases []core.HostAlias;priorityClassName PriorityClassName string;\
         priority Priority *int32;preemptionPolicy PreemptionPolicy *core.PreemptionPolicy;\
         dnsConfig DNSConfig *core.PodDNSConfig;readinessGates ReadinessGates []core.PodReadinessGate;\
         runtimeClassName RuntimeClassName *string;overhead Overhead core.ResourceList;\
         enableServiceLinks EnableServiceLinks *bool;\
         topologySpreadConstraints TopologySpreadConstraints []core.TopologySpreadConstraint",
    ),
    ("core.Container", CONTAINER),
    (
        "core.EphemeralContainer",
        " EphemeralContainerCommon core.EphemeralContainerCommon;targetContainerName TargetContainerName string",
    ),
    ("core.EphemeralContainerCommon", CONTAINER),
    (
        "core.ContainerPort",
        "name Name string;hostPort HostPort int32;containerPort ContainerPort int32;protocol Protocol string;\
         hostIP HostIP string",
    ),
    (
        "core.EnvFromSource",
        "prefix Prefix string;configMapRef ConfigMapRef *core.ConfigMapEnvSource;\
         secretRef SecretRef *core.SecretEnvSource",
    ),
    (
        "core.EnvVar",
        "name Name string;value Value string;valueFrom ValueFrom *core.EnvVarSource",
    ),
    (
        "core.ResourceRequirements",
        "limits Limits core.ResourceList;requests Requests core.ResourceList",
    ),
    (
        "core.VolumeMount",
        "name Name string;readOnly ReadOnly bool;mountPath MountPath string;subPath SubPath string;\
         mountPropagation MountPropagation *core.MountPropagationMode;subPathExpr SubPathExpr string",
    ),
    (
        "core.VolumeDevice",
        "name Name string;devicePath DevicePath string",
    ),
    ("core.HostAlias", "ip IP string;hostnames Hostnames []string"),
    ("core.PodReadinessGate", "conditionType ConditionType string"),
    (
        "core.TopologySpreadConstraint",
        "maxSkew MaxSkew int32;topologyKey TopologyKey string;whenUnsatisfiable WhenUnsatisfiable string;\
         labelSelector LabelSelector *v1.LabelSelector",
    ),
    ("core.Volume", "name Name string; VolumeSource core.VolumeSource"),
    (
        "core.VolumeSource",
        "hostPath HostPath *core.HostPathVolumeSource;emptyDir EmptyDir *core.EmptyDirVolumeSource;\
         gcePersistentDisk GCEPersistentDisk *core.GCEPersistentDiskVolumeSource;\
         awsElasticBlockStore AWSElasticBlockStore *core.AWSElasticBlockStoreVolumeSource;\
         gitRepo GitRepo *core.GitRepoVolumeSource;secret Secret *core.SecretVolumeSource;\
         nfs NFS *core.NFSVolumeSource;iscsi ISCSI *core.ISCSIVolumeSource;\
         glusterfs Glusterfs *core.GlusterfsVolumeSource;\
         persistentVolumeClaim PersistentVolumeClaim *core.PersistentVolumeClaimVolumeSource;\
         rbd RBD *core.RBDVolumeSource;quobyte Quobyte *core.QuobyteVolumeSource;\
         flexVolume FlexVolume *core.FlexVolumeSource;cinder Cinder *core.CinderVolumeSource;\
         cephfs CephFS *core.CephFSVolumeSource;flocker Flocker *core.FlockerVolumeSource;\
         downwardAPI DownwardAPI *core.DownwardAPIVolumeSource;fc FC *core.FCVolumeSource;\
         azureFile AzureFile *core.AzureFileVolumeSource;configMap ConfigMap *core.ConfigMapVolumeSource;\
         vsphereVolume VsphereVolume *core.VsphereVirtualDiskVolumeSource;\
         azureDisk AzureDisk *core.AzureDiskVolumeSource;\
         photonPersistentDisk PhotonPersistentDisk *core.PhotonPersistentDiskVolumeSource;\
         projected Projected *core.ProjectedVolumeSource;portworxVolume PortworxVolume *core.PortworxVolumeSource;\
         scaleIO ScaleIO *core.ScaleIOVolumeSource;storageos StorageOS *core.StorageOSVolumeSource;\
         csi CSI *core.CSIVolumeSource;ephemeral Ephemeral *core.EphemeralVolumeSource",
    ),
];

/// The fields of a container.
const CONTAINER: &str = "name Name string;image Image string;command Command []string;args Args []string;\
     workingDir WorkingDir string;ports Ports []core.ContainerPort;envFrom EnvFrom []core.EnvFromSource;\
     env Env []core.EnvVar;resources Resources core.ResourceRequirements;\
     volumeMounts VolumeMounts []core.VolumeMount;volumeDevices VolumeDevices []core.VolumeDevice;\
     livenessProbe LivenessProbe *core.Probe;readinessProbe ReadinessProbe *core.Probe;\
     startupProbe StartupProbe *core.Probe;lifecycle Lifecycle *core.Lifecycle;\
     terminationMessagePath TerminationMessagePath string;\
     terminationMessagePolicy TerminationMessagePolicy string;imagePullPolicy ImagePullPolicy string;\
     securityContext SecurityContext *core.SecurityContext;stdin Stdin bool;stdinOnce StdinOnce bool;tty TTY bool";

/// A value of this Go type, as the errors of a release print it.
pub(crate) fn value(version: KubernetesVersion, value: &Value, ty: &str) -> String {
    if version.has(VALUES_ARE_JSON) {
        return json(version, value, ty).to_string();
    }
    syntax(value, ty)
}

/// A value of this Go type as JSON. The types of `v1` have names for JSON and omit empty values; internal
/// types have neither: each field is shown, by its Go name.
fn json(version: KubernetesVersion, value: &Value, ty: &str) -> Value {
    if let Some(item) = ty.strip_prefix("[]") {
        return match value {
            Value::Array(items) => items.iter().map(|value| json(version, value, item)).collect(),
            other => other.clone(),
        };
    }
    if value.is_null() && (ty.starts_with('*') || ty.starts_with("map[") || ty == "core.ResourceList") {
        return Value::Null;
    }
    let ty = ty.trim_start_matches('*');
    match ty.split_once('.') {
        Some((package, name)) if package != "v1" => match StructId::named(name) {
            Some(id) => internal_struct(version, value, id),
            None if name == "IntOrString" && value.is_null() => 0.into(),
            // Lists of amounts and strings with a type of their own.
            None => value.clone(),
        },
        _ => value.clone(),
    }
}

/// Depth is bounded by that of the types, and by the parser that read the value.
fn internal(version: KubernetesVersion, value: &Value, ty: &Type) -> Value {
    match (ty, value) {
        (Type::Pointer(_), Value::Null) => Value::Null,
        (Type::Pointer(target), value) => internal(version, value, target),
        (Type::Struct(id), value) if id.name() == "LabelSelector" => value.clone(),
        (Type::Struct(id), value) => internal_struct(version, value, *id),
        (Type::List(item), Value::Array(items)) => {
            items.iter().map(|value| internal(version, value, item)).collect()
        }
        (Type::Map(of), Value::Object(entries)) => {
            let entries = entries
                .iter()
                .map(|(key, value)| (key.clone(), internal(version, value, of)));
            Value::Object(entries.collect())
        }
        (Type::String, Value::Null) => "".into(),
        (Type::Bool, Value::Null) => false.into(),
        (Type::Int32 | Type::Int64 | Type::IntOrString | Type::Double, Value::Null) => 0.into(),
        (Type::Quantity, Value::Null) => "0".into(),
        (Type::Quantity, Value::String(text)) => Quantity::canonical(text).unwrap_or_default().into(),
        (_, value) => value.clone(),
    }
}

/// The fields of a pod that its internal form has in the security context.
const OF_SECURITY_CONTEXT: [&str; 5] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
];

fn internal_struct(version: KubernetesVersion, value: &Value, id: StructId) -> Value {
    let mut shown = Map::new();
    let is_pod = id.name() == "PodSpec";
    for field in id.fields().iter().filter(|field| field.exists_in(version)) {
        let inner = value.get(field.name).unwrap_or(&Value::Null);
        if field.name == "metadata" {
            // Embedded, with the names of `v1`.
            shown.extend(inner.as_object().cloned().unwrap_or_default());
        } else if !(is_pod && (OF_SECURITY_CONTEXT.contains(&field.name) || field.name == "serviceAccount")) {
            shown.insert(
                internal_name(id.name(), field.name),
                internal(version, inner, &field.ty),
            );
        }
    }
    if is_pod && let Some(context) = shown.get_mut("SecurityContext").and_then(Value::as_object_mut) {
        for name in OF_SECURITY_CONTEXT {
            let zero = if name == "shareProcessNamespace" || name == "hostUsers" {
                Value::Null
            } else {
                false.into()
            };
            context.insert(go_name(name), value.get(name).cloned().unwrap_or(zero));
        }
    }
    Value::Object(shown)
}

/// The name of a field in the internal form of this type, where it is not that of `v1`.
fn internal_name(of: &str, json: &str) -> String {
    let is_rbd = of.starts_with("RBD");
    match json {
        "monitors" if is_rbd => "CephMonitors".to_owned(),
        "image" | "pool" if is_rbd => "RBD".to_owned() + &go_name(json),
        "user" if is_rbd => "RadosUser".to_owned(),
        "chapAuthDiscovery" => "DiscoveryCHAPAuth".to_owned(),
        "chapAuthSession" => "SessionCHAPAuth".to_owned(),
        "diskURI" => "DataDiskURI".to_owned(),
        _ => go_name(json),
    }
}

/// The Go name of a field: abbreviations at its beginning are upper case.
fn go_name(json: &str) -> String {
    const ABBREVIATIONS: [&str; 28] = [
        "api", "aws", "cidr", "cpu", "csi", "dns", "fc", "fs", "gce", "gid", "grpc", "http", "id", "io",
        "ip", "iqn", "iscsi", "nfs", "os", "pd", "pid", "rbd", "se", "ssl", "tcp", "tls", "tty", "uid",
    ];
    match json {
        "cephfs" => return "CephFS".to_owned(),
        "storageos" => return "StorageOS".to_owned(),
        _ => {}
    }
    let end = json
        .find(|char: char| !char.is_ascii_lowercase())
        .unwrap_or(json.len());
    let (first, rest) = json.split_at(end);
    if ABBREVIATIONS.contains(&first) {
        return first.to_ascii_uppercase() + rest;
    }
    let mut letters = first.chars();
    let initial = letters.next().map(|letter| letter.to_ascii_uppercase());
    initial.into_iter().chain(letters).chain(rest.chars()).collect()
}

/// A value of this Go type, as `%#v` prints it.
fn syntax(value: &Value, ty: &str) -> String {
    if ty == "*time" && value.is_null() {
        return "<nil>".to_owned();
    }
    if let Some(target) = ty.strip_prefix('*').filter(|target| *target != "time") {
        let shown = if value.is_null() { "nil" } else { POINTER };
        return format!("(*{target})({shown})");
    }
    if ty.starts_with("[]") || ty.starts_with("map[") {
        return list(value, ty);
    }
    match ty {
        "bool" => value.as_bool().unwrap_or(false).to_string(),
        "time" | "*time" => time(value.as_str().unwrap_or_default()),
        "core.ResourceList" => amounts(value),
        "int32" | "int64" => value.as_i64().unwrap_or(0).to_string(),
        "intstr.IntOrString" => match value {
            Value::String(text) => format!("intstr.IntOrString{{Type:1, IntVal:0, StrVal:{}}}", quoted(text)),
            number => {
                let number = number.as_i64().unwrap_or(0);
                format!("intstr.IntOrString{{Type:0, IntVal:{number}, StrVal:\"\"}}")
            }
        },
        _ => match STRUCTS.iter().find(|(name, _)| *name == ty) {
            Some((_, fields)) => structure(value, ty, fields),
            // Every other type is a string.
            None => quoted(value.as_str().unwrap_or_default()),
        },
    }
}

/// A quantity as it was decoded from this text.
pub(super) fn quantity(version: KubernetesVersion, text: &Value) -> String {
    if version.has(VALUES_ARE_JSON) {
        return quoted(&Quantity::canonical(text.as_str().unwrap_or_default()).unwrap_or_default());
    }
    go_quantity(text)
}

fn go_quantity(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default();
    let is_kept = Quantity::parsed_parts(text).is_some_and(|(_, _, is_kept)| is_kept);
    quantity_with(text, if is_kept { text } else { "" })
}

/// A quantity that was formatted before it is printed: it holds its text.
pub(super) fn formatted_quantity(version: KubernetesVersion, of: &Quantity) -> String {
    let text = of.to_string();
    if version.has(VALUES_ARE_JSON) {
        return quoted(&text);
    }
    quantity_with(&text, &text)
}

fn quantity_with(text: &str, cached: &str) -> String {
    let (value, scale, _) = Quantity::parsed_parts(text).unwrap_or_default();
    let format = match Quantity::parse(text).unwrap_or_default().format() {
        _ if text == "0" => "",
        QuantityFormat::DecimalSi => "DecimalSI",
        QuantityFormat::BinarySi => "BinarySI",
        QuantityFormat::DecimalExponent => "DecimalExponent",
    };
    format!(
        "resource.Quantity{{i:resource.int64Amount{{value:{value}, scale:{scale}}}, \
         d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}, s:\"{cached}\", Format:\"{format}\"}}"
    )
}

fn amounts(of: &Value) -> String {
    let Some(amounts) = of.as_object() else {
        return "core.ResourceList(nil)".to_owned();
    };
    let sorted: BTreeMap<&String, &Value> = amounts.iter().collect();
    let shown: Vec<String> = sorted
        .into_iter()
        .map(|(name, amount)| format!("{}:{}", quoted(name), go_quantity(amount)))
        .collect();
    format!("core.ResourceList{{{}}}", shown.join(", "))
}

/// A time in UTC; decoded times are in the server's zone, which is UTC here.
fn time(text: &str) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let mut numbers = text
        .split(['-', 'T', ':', 'Z'])
        .map(|part| part.parse::<usize>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let (year, month, day, hour, minute, second) = (next(), next(), next(), next(), next(), next());
    match MONTHS.get(month.wrapping_sub(1)) {
        Some(month) => {
            format!("time.Date({year}, time.{month}, {day}, {hour}, {minute}, {second}, 0, time.Local)")
        }
        None => "time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)".to_owned(),
    }
}

fn list(of: &Value, ty: &str) -> String {
    let inner = ty.split_once(']').map_or("", |(_, inner)| inner);
    let shown: Vec<String> = match of {
        Value::Array(items) => items.iter().map(|item| syntax(item, inner)).collect(),
        Value::Object(entries) => entries
            .iter()
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .map(|(key, entry)| format!("{}:{}", quoted(key), syntax(entry, inner)))
            .collect(),
        _ => return format!("{ty}(nil)"),
    };
    format!("{ty}{{{}}}", shown.join(", "))
}

fn structure(of: &Value, ty: &str, fields: &str) -> String {
    let shown: Vec<String> = fields
        .split(';')
        .filter_map(|field| {
            let mut words = field.splitn(3, ' ');
            let (json, name, ty) = (words.next()?, words.next()?, words.next()?);
            // The fields of an embedded struct are fields of the containing struct.
            let inner = if json.is_empty() {
                of
            } else {
                of.get(json).unwrap_or(&Value::Null)
            };
            Some(format!("{name}:{}", syntax(inner, ty)))
        })
        .collect();
    format!("{ty}{{{}}}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_go_does() {
        let selector = json!({"matchLabels": {"a": "b"}});
        let expected = "v1.LabelSelector{MatchLabels:map[string]string{\"a\":\"b\"}, \
                        MatchExpressions:[]v1.LabelSelectorRequirement(nil)}";
        assert_eq!(syntax(&selector, "v1.LabelSelector"), expected);
        assert_eq!(syntax(&Value::Null, "*bool"), "(*bool)(nil)");
    }
}
