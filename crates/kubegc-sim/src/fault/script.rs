//! The fault of a call: by the rules of a script first, then by random draw.

use crate::rng::Rng;

/// A rule, evaluated for one call.
pub(crate) struct Turn<'a, F> {
    /// Whether the rule matches the call.
    pub(crate) fits: bool,
    /// Number of matching calls that are skipped first.
    pub(crate) skip: u32,
    /// Number of calls that then get the fault.
    pub(crate) times: u32,
    /// The fault.
    pub(crate) fault: &'a F,
}

/// The progress of the rules of a plan, and the random generator.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) rng: Rng,
    /// By rule: how many calls matched so far.
    fitted: Vec<u32>,
}

impl Script {
    pub(crate) fn new(seed: u64, rules: usize) -> Self {
        Self {
            rng: Rng::new(seed),
            fitted: vec![0; rules],
        }
    }

    /// The fault of the next call. `turns`: one for each rule, in their order. The first rule that applies
    /// counts, and later rules do not count the call. If none applies, `per_mille` calls of a thousand get
    /// one of `faults`.
    pub(crate) fn next<'a, F: Clone + 'a>(
        &mut self,
        turns: impl Iterator<Item = Turn<'a, F>>,
        faults: &[F],
        per_mille: u16,
    ) -> Option<F> {
        for (turn, fitted) in turns.zip(&mut self.fitted).filter(|(turn, _)| turn.fits) {
            let before = *fitted;
            *fitted = fitted.saturating_add(1);
            if before >= turn.skip && before - turn.skip < turn.times {
                return Some(turn.fault.clone());
            }
        }
        if faults.is_empty() || !self.rng.chance(per_mille) {
            return None;
        }
        let drawn = self.rng.below(faults.len() as u64);
        faults.get(drawn as usize).cloned()
    }
}
