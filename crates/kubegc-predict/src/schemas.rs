//! The schemas of types of other crates.

/// The schema of an object.
#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct ObjectSchema {
    /// Group and version.
    api_version: String,
    /// Kind.
    kind: String,
    /// Namespace; empty for cluster-scoped objects.
    namespace: String,
    /// Name.
    name: String,
    /// Uid.
    uid: String,
}

/// The schema of an owner reference.
#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct ReferenceSchema {
    /// Group and version of the owner's kind.
    api_version: String,
    /// Kind of the owner.
    kind: String,
    /// Name of the owner.
    name: String,
    /// Uid of the owner.
    uid: String,
    /// Whether the owner is the controller; absent if it is not set.
    controller: Option<bool>,
    /// Whether it blocks a foreground deletion of the owner; absent if it is not set.
    block_owner_deletion: Option<bool>,
}
