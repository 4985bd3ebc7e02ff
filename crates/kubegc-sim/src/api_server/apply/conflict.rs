//! The conflicts of a refused apply: the fields that other managers own.

use std::collections::BTreeMap;

use super::{
    field_set::{Element, shown},
    managed::{Manager, Operation},
};
use crate::status::{self, Cause, Details, Refusal, quoted};

/// One field that another manager owns and that the configuration would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) manager: Manager,
    pub(super) path: Vec<Element>,
}

/// The refusal of an apply.
///
/// # Upstream
/// `NewConflictError` in `apimachinery/pkg/util/managedfields/internal/conflict.go`, 1.30.
pub(super) fn refusal(conflicts: &[Conflict]) -> Refusal {
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict",
        field: shown(&conflict.path),
        message: format!("conflict with {}", conflict.manager.shown()),
    });
    let message = match conflicts {
        [only] => format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            only.manager.shown(),
            shown(&only.path)
        ),
        _ => {
            let mut fields = BTreeMap::<String, String>::new();
            for Conflict { manager, path } in conflicts {
                let shown = shown(path);
                *fields.entry(manager.shown()).or_default() += &format!("\n- {shown}");
            }
            let lines = fields.into_iter();
            let lines = lines.map(|(manager, fields)| format!("conflicts with {manager}:{fields}"));
            let lines = Vec::from_iter(lines).join("\n");
            format!("Apply failed with {} conflicts: {lines}", conflicts.len())
        }
    };
    let details = Details::default().with_causes(causes.collect());
    status::refusal(409, "Conflict", message, details)
}

impl Manager {
    fn shown(&self) -> String {
        let mut text = quoted(&self.name);
        if !self.subresource.is_empty() {
            text.push_str(" with subresource ");
            text.push_str(&quoted(&self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(" using ");
            text.push_str(&self.api_version);
        }
        text
    }
}
