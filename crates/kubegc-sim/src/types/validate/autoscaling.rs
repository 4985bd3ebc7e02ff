//! HorizontalPodAutoscalers.
//!
//! # Upstream
//! [`pkg/apis/autoscaling/validation`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/apis/autoscaling/validation/validation.go).

use kubegc_core::Quantity;

use super::super::field::{At, Check};
use super::go_syntax;

pub(super) fn container_resource(name: &At<'_>, c: &mut Check) {
    super::amounts::container_resource(name.text(), name, c);
}

pub(super) fn positive(amount: &At<'_>, c: &mut Check) {
    let value = Quantity::parse(amount.text());
    if value.is_some_and(|value| value.is_negative() || value.is_zero()) {
        let shown = go_syntax::quantity(c.version, amount.decoded(c));
        amount.invalid_as(c, &shown, "must be positive");
    }
}
