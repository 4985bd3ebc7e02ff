//! API services. Their names are validated with the metadata.
//!
//! # Upstream
//! [`apiregistration/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go).

use base64::{Engine, prelude::BASE64_STANDARD};

use super::super::field::{At, Check};
use crate::{formats, status::quoted};

/// The TLS settings of the connection to a service; local API services have none.
pub(super) fn bundle(spec: &At<'_>, c: &mut Check) {
    let (bundle, insecure) = (spec.get("caBundle"), spec.get("insecureSkipTLSVerify"));
    let bytes = BASE64_STANDARD.decode(bundle.text()).unwrap_or_default().len();
    if spec.get("service").is_set() {
        if insecure.flag() && bytes > 0 {
            insecure.invalid(c, "may not be true if caBundle is present");
        }
        return;
    }
    if bytes > 0 {
        let shown = quoted(&format!("{bytes} bytes"));
        bundle.invalid_as(c, &shown, "local APIServices may not have a caBundle");
    }
    if insecure.flag() {
        insecure.invalid(c, "local APIServices may not have insecureSkipTLSVerify");
    }
}

pub(super) fn port(port: &At<'_>, c: &mut Check) {
    let problems = formats::port_number(port.number());
    if !problems.is_empty() {
        let problem = format!("port is not valid: {}", problems.join(", "));
        port.invalid_as(c, &port.number().to_string(), &problem);
    }
}
