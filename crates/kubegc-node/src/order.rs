//! In which order equals go: upstream leaves it to the listing or to chance, kubegc does not.

/// How a planner orders what upstream's rules leave open.
#[expect(clippy::exhaustive_enums, reason = "the listing's order or ours")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// By id in the end, so that the order of a listing changes nothing.
    #[default]
    Total,
    /// As upstream: what was created at the same instant in the order of the listing, and what goes as a whole in its reverse. Two runtimes, or
    /// two calls of one, may list differently, so two equal nodes may get different plans.
    Listing,
}
