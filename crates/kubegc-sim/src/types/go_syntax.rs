//! Values as Go's `%#v` prints them, for the structs in upstream's error messages.

use std::collections::BTreeMap;

use kubegc_core::{KubernetesVersion, Quantity, QuantityFormat, version::behavior::VALUES_ARE_JSON};
use serde_json::Value;

use crate::{
    status::{POINTER, quoted},
    types::{
        mismatch::named_type,
        schema::{Field, StructId, Type},
    },
};

/// A value of this Go type, as the errors of a release print it.
pub(crate) fn value(version: KubernetesVersion, value: &Value, ty: &str) -> String {
    if version.has(VALUES_ARE_JSON) {
        return json(version, value, ty);
    }
    // Errors print what a pointer points to.
    match ty.strip_prefix('*') {
        Some(_) if value.is_null() => quoted("null"),
        Some(target) => syntax(version, value, target),
        None => syntax(version, value, ty),
    }
}

/// A value of this Go type as JSON. The types of `v1` have names for JSON and omit empty values; internal
/// types have neither: each field is shown, by its Go name.
fn json(version: KubernetesVersion, value: &Value, ty: &str) -> String {
    if let (Some(item), Value::Array(items)) = (ty.strip_prefix("[]"), value) {
        return array(items.iter().map(|value| json(version, value, item)));
    }
    match ty {
        "string" if value.is_null() => return "\"\"".to_owned(),
        "int32" | "int64" if value.is_null() => return "0".to_owned(),
        _ => {}
    }
    if value.is_null() && (ty.starts_with(['*', '[']) || ty.starts_with("map[") || ty == "core.ResourceList")
    {
        return "null".to_owned();
    }
    match ty.trim_start_matches('*').split_once('.') {
        Some(("core", "ResourceList")) => internal(version, value, &Type::Map(Box::new(Type::Quantity))),
        Some(("v1", "LabelSelector")) => selector(value),
        Some(("v1", name)) => ordered(value, StructId::named(name), str::to_owned),
        Some((_, "IntOrString")) if value.is_null() => "0".to_owned(),
        Some((_, name)) => match StructId::named(name) {
            Some(id) => internal_struct(version, value, id),
            // Lists of amounts and strings with a type of their own.
            None => plain(value),
        },
        None => plain(value),
    }
}

/// JSON with the fields in the order of their structs. Depth is bounded by the parser that read the value,
/// here and in all following functions.
pub(crate) fn ordered(value: &Value, of: Option<StructId>, name: fn(&str) -> String) -> String {
    match value {
        Value::Object(fields) => {
            let known = |key: &str| of.and_then(|of| of.field(key));
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| known(key).map(|field| field.position));
            object(fields.into_iter().map(|(key, value)| {
                let below = known(key).and_then(|field| field.ty.structure());
                (name(key), ordered(value, below, name))
            }))
        }
        Value::Array(items) => array(items.iter().map(|item| ordered(item, of, name))),
        other => plain(other),
    }
}

/// A label selector without its empty parts.
fn selector(value: &Value) -> String {
    let is_shown = |part: &Value| match part {
        Value::Object(labels) => !labels.is_empty(),
        Value::Array(expressions) => !expressions.is_empty(),
        part => !part.is_null(),
    };
    let mut shown = value.clone();
    if let Value::Object(parts) = &mut shown {
        parts.retain(|_, part| is_shown(part));
    }
    ordered(&shown, StructId::named("LabelSelector"), str::to_owned)
}

/// A value as Go's encoder writes it.
fn plain(value: &Value) -> String {
    let text = value.to_string();
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn object(fields: impl IntoIterator<Item = (String, String)>) -> String {
    let fields = fields.into_iter();
    let fields = fields.map(|(name, value)| format!("{}:{value}", plain(&name.into())));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn internal(version: KubernetesVersion, value: &Value, ty: &Type) -> String {
    match (ty, value) {
        (Type::Pointer(_), Value::Null) => "null".to_owned(),
        (Type::Pointer(target), value) => internal(version, value, target),
        (Type::Struct(id), value) if id.name() == "LabelSelector" => selector(value),
        (Type::Struct(id), value) => internal_struct(version, value, *id),
        (Type::List(item), Value::Array(items)) => {
            array(items.iter().map(|value| internal(version, value, item)))
        }
        (Type::Map(of), Value::Object(entries)) => {
            let entries = entries.iter();
            object(entries.map(|(key, value)| (key.clone(), internal(version, value, of))))
        }
        (Type::String, Value::Null) => "\"\"".to_owned(),
        (Type::Bool, Value::Null) => "false".to_owned(),
        (Type::Int32 | Type::Int64 | Type::IntOrString | Type::Double, Value::Null) => "0".to_owned(),
        (Type::Quantity, Value::Null) => "\"0\"".to_owned(),
        (Type::Quantity, Value::String(text)) => quoted(&Quantity::canonical(text).unwrap_or_default()),
        (_, value) => plain(value),
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

fn internal_struct(version: KubernetesVersion, value: &Value, id: StructId) -> String {
    object(internal_entries(version, value, id))
}

fn internal_entries(version: KubernetesVersion, value: &Value, id: StructId) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    for field in internal_fields(version, id) {
        let inner = value.get(field.name).unwrap_or(&Value::Null);
        match (id.name(), field.name, field.ty.structure()) {
            // Embedded, with the names of `v1`, which omits empty values.
            (_, "metadata", Some(id)) => {
                let is_shown = |value: &Value| match value {
                    Value::Array(items) => !items.is_empty(),
                    Value::Object(entries) => !entries.is_empty(),
                    _ => true,
                };
                let fields = id.fields().iter();
                let mut fields: Vec<&Field> = fields
                    .filter(|field| inner.get(field.name).is_some_and(is_shown))
                    .collect();
                fields.sort_by_key(|field| field.position);
                shown.extend(fields.into_iter().map(|field| {
                    let below = ordered(&inner[field.name], field.ty.structure(), str::to_owned);
                    (field.name.to_owned(), below)
                }));
            }
            ("PodSpec", "securityContext", Some(id)) if !inner.is_null() => {
                let mut context: Vec<_> = OF_SECURITY_CONTEXT
                    .into_iter()
                    .map(|name| match (value.get(name), name) {
                        (Some(value), _) => (go_name(name), plain(value)),
                        (None, "shareProcessNamespace" | "hostUsers") => (go_name(name), "null".to_owned()),
                        (None, _) => (go_name(name), "false".to_owned()),
                    })
                    .collect();
                context.extend(internal_entries(version, inner, id));
                shown.push((go_name(field.name), object(context)));
            }
            // Their amounts are no pointers.
            ("RollingUpdateDeployment" | "RollingUpdateDaemonSet", name, _) if inner.is_null() => {
                shown.push((internal_name(id.name(), name), "0".to_owned()));
            }
            _ => shown.push((
                internal_name(id.name(), field.name),
                internal(version, inner, &field.ty),
            )),
        }
    }
    shown
}

/// The fields of the internal form of a type, in its order.
fn internal_fields(version: KubernetesVersion, id: StructId) -> Vec<&'static Field> {
    let is_pod = id.name() == "PodSpec";
    let is_elsewhere = |name: &str| OF_SECURITY_CONTEXT.contains(&name) || name == "serviceAccount";
    let fields = id.fields().iter().filter(|field| field.exists_in(version));
    let mut fields: Vec<&Field> = fields
        .filter(|field| !(is_pod && is_elsewhere(field.name)))
        .collect();
    fields.sort_by_key(|field| field.position);
    fields
}

/// The name of a field in the internal form of this type, where it is not that of `v1`.
fn internal_name(of: &str, json: &str) -> String {
    let is_rbd = of.starts_with("RBD");
    match json {
        "monitors" if is_rbd => "CephMonitors".to_owned(),
        "image" | "pool" if is_rbd => "RBD".to_owned() + &go_name(json),
        "user" if is_rbd => "RadosUser".to_owned(),
        _ if of == "DeviceAttribute" => match json.strip_suffix('s') {
            Some(one) => go_name(one) + "Values",
            None => go_name(json) + "Value",
        },
        "chapAuthDiscovery" => "DiscoveryCHAPAuth".to_owned(),
        "chapAuthSession" => "SessionCHAPAuth".to_owned(),
        "diskURI" => "DataDiskURI".to_owned(),
        "metadata" => "ObjectMeta".to_owned(),
        _ => go_name(json),
    }
}

/// The Go name of a field: abbreviations at its beginning are upper case.
pub(crate) fn go_name(json: &str) -> String {
    const ABBREVIATIONS: [&str; 29] = [
        "api", "aws", "cidr", "cpu", "csi", "dns", "fc", "fs", "gce", "gid", "grpc", "http", "id", "io",
        "ip", "iqn", "iscsi", "json", "nfs", "os", "pd", "pid", "rbd", "se", "ssl", "tcp", "tls", "tty",
        "uid",
    ];
    if let Some(extension) = json.strip_prefix("x-kubernetes-") {
        return extension
            .split('-')
            .fold("X".to_owned(), |name, part| name + &go_name(part));
    }
    let json = json.trim_start_matches('$');
    match json {
        "cel" => return "CEL".to_owned(),
        "cidrs" => return "CIDRs".to_owned(),
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

/// A value of this Go type, as `%#v` prints it. Depth is bounded by the parser that read the value, and by
/// the pointers of recursive types.
fn syntax(version: KubernetesVersion, value: &Value, ty: &str) -> String {
    if ty == "*time" && value.is_null() {
        return "<nil>".to_owned();
    }
    if let Some(target) = ty.strip_prefix('*').filter(|target| *target != "time") {
        let shown = if value.is_null() { "nil" } else { POINTER };
        return format!("(*{target})({shown})");
    }
    if ty.starts_with("[]") || ty.starts_with("map[") {
        let inner = ty.split_once(']').map_or("", |(_, inner)| inner);
        return list(version, value, ty, inner);
    }
    match ty {
        "bool" => value.as_bool().unwrap_or(false).to_string(),
        "time" | "*time" => time(value.as_str().unwrap_or_default()),
        "core.ResourceList" => list(version, value, ty, "resource.Quantity"),
        "resource.Quantity" => go_quantity(value),
        "int32" | "int64" => value.as_i64().unwrap_or(0).to_string(),
        "intstr.IntOrString" => match value {
            Value::String(text) => format!("intstr.IntOrString{{Type:1, IntVal:0, StrVal:{}}}", quoted(text)),
            number => {
                let number = number.as_i64().unwrap_or(0);
                format!("intstr.IntOrString{{Type:0, IntVal:{number}, StrVal:\"\"}}")
            }
        },
        _ => structure(version, value, ty).unwrap_or_else(|| quoted(value.as_str().unwrap_or_default())),
    }
}

/// A struct; `None` for other types, which are strings.
fn structure(version: KubernetesVersion, of: &Value, ty: &str) -> Option<String> {
    let (package, name) = ty.split_once('.')?;
    // The embedded struct, and one of the fields that it has.
    let (embedded, inner): (&str, fn(&str) -> bool) = match name {
        "Probe" => (
            if version.minor() >= 23 {
                "ProbeHandler"
            } else {
                "Handler"
            },
            |field| matches!(field, "exec" | "httpGet" | "tcpSocket" | "grpc"),
        ),
        "Volume" => ("VolumeSource", |field| field != "name"),
        "EphemeralContainer" => ("EphemeralContainerCommon", |field| field != "targetContainerName"),
        _ => ("", |_| false),
    };
    let (table, is_own): (&str, fn(&str) -> bool) = match name {
        "VolumeSource" => ("Volume", |field| field != "name"),
        "EphemeralContainerCommon" => ("Container", |_| true),
        "Handler" | "ProbeHandler" => ("Handler", |_| true),
        _ => (name, |_| true),
    };
    let fields = internal_fields(version, StructId::named(table)?);
    let (mut shown, mut is_embedded) = (Vec::new(), false);
    for field in fields.into_iter().filter(|field| is_own(field.name)) {
        if inner(field.name) {
            if !std::mem::replace(&mut is_embedded, true) {
                let ty = format!("{package}.{embedded}");
                shown.push(format!("{embedded}:{}", syntax(version, of, &ty)));
            }
            continue;
        }
        let ty = match (table, field.name, named_type(table, field.name)) {
            // A pointer only in `v1`.
            ("RollingUpdateStatefulSetStrategy", "partition", _) => "int32".to_owned(),
            (_, _, Some(named)) if !named.starts_with("map[") && !is_amounts(&field.ty) => {
                let pointer = if matches!(field.ty, Type::Pointer(_)) {
                    "*"
                } else {
                    ""
                };
                pointer.to_owned() + &named.replace("v1.", &format!("{package}."))
            }
            _ => go_type(version, &field.ty, package),
        };
        let value = syntax(version, of.get(field.name).unwrap_or(&Value::Null), &ty);
        shown.push(format!("{}:{value}", internal_name(name, field.name)));
    }
    Some(format!("{ty}{{{}}}", shown.join(", ")))
}

fn is_amounts(ty: &Type) -> bool {
    matches!(ty, Type::Map(of) if **of == Type::Quantity)
}

/// The Go type of a field in a struct of this package.
fn go_type(version: KubernetesVersion, ty: &Type, package: &str) -> String {
    match ty {
        Type::Bool => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Quantity => "resource.Quantity".to_owned(),
        Type::IntOrString => "intstr.IntOrString".to_owned(),
        Type::Time | Type::MicroTime => "time".to_owned(),
        Type::Struct(id) => {
            let name = id.name().split('.').next().unwrap_or_default();
            let package = match name {
                "LabelSelector" | "ObjectMeta" | "OwnerReference" | "ManagedFieldsEntry" => "v1",
                "PodTemplateSpec" => "core",
                _ => package,
            };
            let name = match name {
                "LifecycleHandler" if version.minor() < 23 => "Handler",
                name => name,
            };
            format!("{package}.{name}")
        }
        Type::Pointer(target) => format!("*{}", go_type(version, target, package)),
        Type::List(item) => format!("[]{}", go_type(version, item, package)),
        ty if is_amounts(ty) => "core.ResourceList".to_owned(),
        Type::Map(of) => format!("map[string]{}", go_type(version, of, package)),
        Type::String | Type::Bytes | Type::Duration | Type::Double | Type::Any | Type::Either(..) => {
            "string".to_owned()
        }
    }
}

/// Bytes, as `%#v` prints them in their braces.
pub(super) fn bytes(bytes: &[u8]) -> String {
    let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
    shown.join(", ")
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

/// A time in UTC; decoded times are in the server's zone, which is UTC here.
fn time(text: &str) -> String {
    const MONTHS: &str =
        "January February March April May June July August September October November December";
    let mut numbers = text
        .split(['-', 'T', ':', 'Z'])
        .map(|part| part.parse::<usize>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let (year, month, day, hour, minute, second) = (next(), next(), next(), next(), next(), next());
    match MONTHS.split(' ').nth(month.wrapping_sub(1)) {
        Some(month) => {
            format!("time.Date({year}, time.{month}, {day}, {hour}, {minute}, {second}, 0, time.Local)")
        }
        None => "time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)".to_owned(),
    }
}

/// A list or map, whose keys are sorted.
fn list(version: KubernetesVersion, of: &Value, ty: &str, inner: &str) -> String {
    let shown: Vec<String> = match of {
        Value::Array(items) => items.iter().map(|item| syntax(version, item, inner)).collect(),
        Value::Object(entries) => entries
            .iter()
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .map(|(key, entry)| format!("{}:{}", quoted(key), syntax(version, entry, inner)))
            .collect(),
        _ => return format!("{ty}(nil)"),
    };
    format!("{ty}{{{}}}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_has_the_fields_of_the_release_in_the_order_of_the_struct() {
        let port = json!({"port": 80, "name": "<web>"});
        let shown = value("1.36.0".parse().unwrap(), &port, "core.ServicePort");
        assert_eq!(
            shown,
            "{\"Name\":\"\\u003cweb\\u003e\",\"Protocol\":\"\",\"AppProtocol\":null,\"Port\":80,\
             \"TargetPort\":0,\"NodePort\":0}"
        );
        let pod = json!({"hostNetwork": true, "securityContext": {}});
        let shown = value("1.36.0".parse().unwrap(), &pod, "core.PodSpec");
        assert!(
            shown.contains("\"SecurityContext\":{\"HostNetwork\":true,\"HostPID\":false,"),
            "{shown}"
        );
    }
}
