//! Values as Go's `%#v` prints them, for the structs in upstream's error messages.

use kubegc_core::{Quantity, QuantityFormat};
use serde_json::Value;

use crate::status::{POINTER, quoted};

/// Structs by their Go name: each field as `jsonName GoName type`.
const STRUCTS: [(&str, &str); 19] = [
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
];

/// A value of this Go type.
pub(super) fn value(value: &Value, ty: &str) -> String {
    if let Some(target) = ty.strip_prefix('*') {
        let shown = if value.is_null() { "nil" } else { POINTER };
        return format!("(*{target})({shown})");
    }
    if ty.starts_with("[]") || ty.starts_with("map[") {
        return list(value, ty);
    }
    match ty {
        "bool" => value.as_bool().unwrap_or(false).to_string(),
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

/// A quantity whose string form is already cached.
pub(super) fn quantity(of: Quantity) -> String {
    let (mantissa, scale) = of.parts();
    let (value, scale) = if scale >= 0 {
        let factor = 10_i128.saturating_pow(scale.unsigned_abs());
        (mantissa.saturating_mul(factor), 0)
    } else {
        let shift = scale.rem_euclid(3);
        (mantissa * 10_i128.pow(shift.unsigned_abs()), scale - shift)
    };
    let format = match of.format() {
        QuantityFormat::DecimalSi => "DecimalSI",
        QuantityFormat::BinarySi => "BinarySI",
        QuantityFormat::DecimalExponent => "DecimalExponent",
    };
    format!(
        "resource.Quantity{{i:resource.int64Amount{{value:{value}, scale:{scale}}}, \
         d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}, s:\"{of}\", Format:\"{format}\"}}"
    )
}

fn list(of: &Value, ty: &str) -> String {
    let inner = ty.split_once(']').map_or("", |(_, inner)| inner);
    let shown: Vec<String> = match of {
        Value::Array(items) => items.iter().map(|item| value(item, inner)).collect(),
        Value::Object(entries) => entries
            .iter()
            .map(|(key, entry)| format!("{}:{}", quoted(key), value(entry, inner)))
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
            Some(format!("{name}:{}", value(inner, ty)))
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
        assert_eq!(value(&selector, "v1.LabelSelector"), expected);
        assert_eq!(value(&Value::Null, "*bool"), "(*bool)(nil)");
    }
}
