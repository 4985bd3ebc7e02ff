//! Decides which fault a call meets: by the rules of a script first, then by draw.

use crate::rng::Rng;

/// When a rule applies to a call that it may be about.
pub(crate) struct Turn<'a, F> {
    /// Whether the call is one that the rule is about.
    pub(crate) fits: bool,
    /// How many such calls are left alone first.
    pub(crate) skip: u32,
    /// How many go wrong then.
    pub(crate) times: u32,
    /// What goes wrong with them.
    pub(crate) fault: &'a F,
}

/// How far the rules of a plan have come, and what draws are made from.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) rng: Rng,
    /// By rule: how many calls fitted so far.
    fitted: Vec<u32>,
}

impl Script {
    pub(crate) fn new(seed: u64, rules: usize) -> Self {
        Self {
            rng: Rng::new(seed),
            fitted: vec![0; rules],
        }
    }

    /// What goes wrong with the next call. `turns`: one for each rule, in their order; the first that applies counts, and later ones do not see the call.
    /// Where none applies, `per_mille` calls of a thousand meet one of `faults`.
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
