//! API services. Their names are validated with the metadata.
//!
//! # Upstream
//! [`apiregistration/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go).

use base64::{Engine, prelude::BASE64_STANDARD};

use super::super::field::{At, Check};
use crate::status::quoted;

/// Local API services have no bundle.
pub(super) fn bundle(bundle: &At<'_>, c: &mut Check) {
    let bytes = BASE64_STANDARD.decode(bundle.text()).unwrap_or_default().len();
    if bytes > 0 {
        let shown = quoted(&format!("{bytes} bytes"));
        bundle.invalid_as(c, &shown, "local APIServices may not have a caBundle");
    }
}
