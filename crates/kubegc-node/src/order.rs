//! The order among equals, which upstream leaves to the listing or to chance.

/// The order among equals.
#[expect(clippy::exhaustive_enums, reason = "the listing's order or ours")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// By id, so that the order of a listing is irrelevant.
    #[default]
    Total,
    /// As upstream: entries that were created at the same instant in the order of the listing, and entries
    /// that are removed together in its reverse. Two runtimes, or two calls of one, can list differently, so
    /// two equal nodes can get different plans.
    Listing,
}
