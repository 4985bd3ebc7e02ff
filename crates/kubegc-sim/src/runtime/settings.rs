//! Settings of a simulated node.

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSettings {
    /// Capacity of the node's file system in bytes. Default: 100 GiB.
    pub capacity_bytes: u64,
    /// The seed of ids and of the order of listings. Default: 0.
    pub seed: u64,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            capacity_bytes: 100 << 30,
            seed: 0,
        }
    }
}
