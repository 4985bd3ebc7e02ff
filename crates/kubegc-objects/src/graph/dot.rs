//! Renders the graph in DOT, byte for byte as the collector's debug endpoint does (rules D-1 to D-8).

/// Which nodes to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "all, or what hangs together with some uids")]
pub enum DotFilter {
    /// All of them.
    #[default]
    All,
}
