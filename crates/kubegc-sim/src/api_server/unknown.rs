//! Fields of a sent object that its kind does not have, which strict validation refuses.

use kubegc_core::KindId;
use serde_json::Value;

use super::ApiServer;
use crate::types::node::{Node, Sent, undeclared};

impl ApiServer {
    /// Whether the values of a sent object have the types of its kind.
    pub fn can_decode(&self, kind: KindId, sent: &Value) -> bool {
        !self.is_decoded(kind) || self.decoded(kind, sent.clone()).is_ok()
    }

    /// The paths of the fields that a kind does not have, such as `spec.replica`, in an object, or in a merge
    /// patch, whose nulls and directives are not fields. Nothing is known of kinds without a type or schema.
    pub fn unknown_fields(&self, kind: KindId, sent: &Value, is_patch: bool) -> Vec<String> {
        if !self.is_decoded(kind) {
            return Vec::new();
        }
        let node = match self.resource(kind) {
            resource if resource.custom => Node::Custom(self.pruning_schema(kind)),
            resource => Node::of(resource),
        };
        let form = match is_patch {
            true => Sent::Patch(self.version),
            false => Sent::Object(self.version),
        };
        let mut found = Vec::new();
        undeclared(sent, node, form, "", &mut found);
        for path in &mut found {
            path.remove(0);
        }
        found.sort_unstable();
        found
    }
}
