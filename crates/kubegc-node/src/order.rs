//! The order among entries with equal sort keys, for which upstream has no fixed order.

/// The order among entries with equal sort keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// By id, so that plans do not depend on the order of a listing.
    #[default]
    Total,
    /// As upstream: in the order of the listing; entries that are removed together in its reverse order. The
    /// order of a listing can differ between runtimes and between calls, so the same facts can lead to
    /// different plans.
    Listing,
}
