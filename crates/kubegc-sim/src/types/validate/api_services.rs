//! API services. Their names are validated with the metadata.
//!
//! # Upstream
//! [`apiregistration/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go).

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use super::super::field::{At, Check};
use crate::{formats, status::quoted};

type Object = Map<String, Value>;

/// `ValidateAPIService`.
pub(super) fn api_service(body: &Object, c: &mut Check) {
    let spec = At::root(body, "spec");
    let (group, version) = (spec.get("group"), spec.get("version"));
    if !group.text().is_empty() {
        group.subdomain(c);
    } else if version.text() != "v1" {
        group.required(c, "only v1 may have an empty group and it better be legacy kube");
    }
    for problem in formats::dns_1035_label(version.text()) {
        version.invalid_as(c, &quoted(version.text()), &problem);
    }
    for (key, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let priority = spec.get(key);
        if !(1..=max).contains(&priority.number()) {
            let problem = format!("must be positive and less than {max}");
            priority.invalid_as(c, &priority.number().to_string(), &problem);
        }
    }
    let (bundle, insecure) = (spec.get("caBundle"), spec.get("insecureSkipTLSVerify"));
    let bundle_bytes = BASE64_STANDARD
        .decode(bundle.text())
        .map_or(0, |bytes| bytes.len());
    let service = spec.get("service");
    if service.is_set() {
        self::service(&service, c);
        if insecure.flag() && bundle_bytes > 0 {
            insecure.invalid(c, "may not be true if caBundle is present");
        }
        return;
    }
    if bundle_bytes > 0 {
        let shown = quoted(&format!("{bundle_bytes} bytes"));
        bundle.invalid_as(c, &shown, "local APIServices may not have a caBundle");
    }
    if insecure.flag() {
        let problem = "local APIServices may not have insecureSkipTLSVerify";
        insecure.invalid(c, problem);
    }
}

fn service(service: &At<'_>, c: &mut Check) {
    for key in ["namespace", "name"] {
        service.get(key).present(c);
    }
    let port = service.get("port");
    let problems = formats::port_number(port.number());
    if !problems.is_empty() {
        let problem = format!("port is not valid: {}", problems.join(", "));
        port.invalid_as(c, &port.number().to_string(), &problem);
    }
}

/// `ValidateAPIServiceStatus`.
pub(super) fn status(body: &Object, c: &mut Check) {
    for condition in At::root(body, "status").get("conditions").items() {
        let status = condition.get("status");
        if !matches!(status.text(), "True" | "False" | "Unknown") {
            status.unsupported(c, &["True", "False", "Unknown"]);
        }
    }
}
