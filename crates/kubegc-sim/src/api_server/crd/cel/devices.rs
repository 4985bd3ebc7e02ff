//! Expressions that select devices, in classes and claims.
//!
//! # Upstream
//! `CompileCELExpression` in
//! [`compile.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go).
//!
//! # Deviations
//! Costs are neither estimated nor limited.

use super::{Engine, types::Ty};
use crate::{
    StoredObject,
    api_server::write::Write,
    status::{Cause, quoted},
    types::field::At,
};

const LENGTH_MAX: usize = 10 * 1024;

impl Engine<'_> {
    /// The problems of the expressions of an object. Expressions that were stored before stay valid.
    pub(crate) fn device_selectors(&self, write: Write<'_>) -> Vec<Cause> {
        let mut causes = Vec::new();
        let spec = |object| At::of_value(StoredObject::at(object, &["spec"]), "spec");
        let new = spec(write.new);
        let selectors = new.get("selectors");
        if write
            .old
            .is_some_and(|old| spec(old).get("selectors").value == selectors.value)
        {
            return causes;
        }
        self.selectors(&new, &mut causes);
        for claim in [new.clone(), new.get("spec")] {
            for request in claim.get("devices").get("requests").items() {
                self.selectors(&request.get("exactly"), &mut causes);
                for available in request.get("firstAvailable").items() {
                    self.selectors(&available, &mut causes);
                }
            }
        }
        causes
    }

    fn selectors(&self, of: &At<'_>, causes: &mut Vec<Cause>) {
        let selectors = of.get("selectors").items();
        for cel in selectors.map(|selector| selector.get("cel")).filter(At::is_set) {
            let expression = cel.get("expression");
            let path = expression.path.to_string();
            if expression.text().len() > LENGTH_MAX {
                causes.push(Cause::too_long(self.version, path, LENGTH_MAX));
                continue;
            }
            let device = ("device".to_owned(), Ty::parse("kubernetes.DRADevice"));
            let problem = match self.result_type(expression.text(), &vec![device]) {
                Err(problem) => problem,
                Ok(Some(ty)) if !ty.is("bool") && !ty.is("dyn") => {
                    format!("must evaluate to bool or the unknown type, not {ty}")
                }
                Ok(_) => continue,
            };
            causes.push(Cause::invalid(path, &quoted(expression.text()), &problem));
        }
    }
}
