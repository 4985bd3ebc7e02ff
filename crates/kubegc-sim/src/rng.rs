//! Reproducible random numbers: the same seed gives the same numbers on every machine.

/// A small generator of reproducible random numbers.
///
/// # Upstream
/// The mixing function is SplitMix64, by Steele, Lea and Flood.
///
/// # Examples
/// ```
/// use kubegc_sim::rng::Rng;
/// let (mut a, mut b) = (Rng::new(7), Rng::new(7));
/// assert_eq!(a.below(10), b.below(10));
/// assert!(a.below(3) < 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Starts the sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Draws a number below `bound`; 0 where `bound` is 0.
    ///
    /// The bias towards small numbers is below `bound / 2^64`.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns true with a probability of `per_mille` out of a thousand.
    pub const fn chance(&mut self, per_mille: u16) -> bool {
        self.below(1000) < per_mille as u64
    }
}

/// Spreads the bits of a number over all 64.
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_draws_are_those_of_splitmix64() {
        let mut rng = Rng::new(0);
        assert_eq!(rng.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.bits(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(rng.below(0), 0);
    }
}
