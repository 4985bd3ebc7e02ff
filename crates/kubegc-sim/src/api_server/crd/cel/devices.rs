//! Expressions that select devices, in classes and claims.
//!
//! # Upstream
//! `CompileCELExpression` in
//! [`compile.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go).
//!
//! # Deviations
//! Costs are neither estimated nor limited.

use serde_json::Value;

use super::{Engine, declared::text, policy::items, types::Ty};
use crate::{
    StoredObject,
    status::{Cause, quoted},
};

const LENGTH_MAX: usize = 10 * 1024;

impl Engine<'_> {
    /// The problems of the expressions of an object that is created, or that replaces `old`. Expressions that
    /// were stored before stay valid.
    pub(in crate::api_server) fn device_selectors(
        &self,
        object: &StoredObject,
        old: Option<&StoredObject>,
    ) -> Vec<Cause> {
        let mut causes = Vec::new();
        let spec = |object: &StoredObject| object.at(&["spec"]).cloned().unwrap_or_default();
        let of_new = spec(object);
        if old.is_some_and(|old| spec(old)["selectors"] == of_new["selectors"]) {
            return causes;
        }
        self.selectors(&of_new, "spec", &mut causes);
        for (claim, path) in [(&of_new, "spec"), (&of_new["spec"], "spec.spec")] {
            for (index, request) in items(&claim["devices"], "requests") {
                let path = format!("{path}.devices.requests[{index}]");
                self.selectors(&request["exactly"], &format!("{path}.exactly"), &mut causes);
                for (index, available) in items(request, "firstAvailable") {
                    let path = format!("{path}.firstAvailable[{index}]");
                    self.selectors(available, &path, &mut causes);
                }
            }
        }
        causes
    }

    fn selectors(&self, of: &Value, path: &str, causes: &mut Vec<Cause>) {
        for (index, selector) in items(of, "selectors").filter(|(_, selector)| !selector["cel"].is_null()) {
            let path = format!("{path}.selectors[{index}].cel.expression");
            let expression = text(&selector["cel"], "expression");
            if expression.len() > LENGTH_MAX {
                causes.push(Cause::too_long(self.version, path, LENGTH_MAX));
                continue;
            }
            let device = ("device".to_owned(), Ty::parse("kubernetes.DRADevice"));
            let problem = match self.checked_type(expression, vec![device]) {
                Err(problem) => problem,
                Ok(ty) if ty.is("bool") || ty.is("dyn") => continue,
                Ok(other) => format!("must evaluate to bool or the unknown type, not {other}"),
            };
            causes.push(Cause::invalid(path, &quoted(expression), &problem));
        }
    }
}
