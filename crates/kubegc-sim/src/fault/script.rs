//! A script of faults: the rules and their progress, random draws, and the number of injected faults.

use crate::rng::Rng;

/// A rule of a [`Script`]: it skips some matching calls and then injects a fault into some.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Turn<M, F> {
    pub matching: M,
    /// Number of matching calls without a fault before the first one.
    pub skip: u32,
    /// Number of calls that then get the fault; `u32::MAX` means all.
    pub times: u32,
    pub fault: F,
}

/// The faults of calls. Rules are evaluated first, in order. If none applies, a random draw decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan<M, F> {
    /// The seed of the draws.
    pub seed: u64,
    pub rules: Vec<Turn<M, F>>,
    /// Number of calls of a thousand that get a random fault.
    pub faults_per_mille: u16,
    /// The random faults; one of them is drawn. Empty: none.
    pub faults: Vec<F>,
}

impl<M, F> Default for Plan<M, F> {
    fn default() -> Self {
        Self {
            seed: 0,
            rules: Vec::new(),
            faults_per_mille: 0,
            faults: Vec::new(),
        }
    }
}

/// The progress of a [`Plan`]: decides which calls get which fault.
#[derive(Debug)]
pub struct Script<M, F> {
    /// The rules, and how many calls each matched so far.
    turns: Vec<(Turn<M, F>, u32)>,
    rng: Rng,
    per_mille: u16,
    drawn: Vec<F>,
    injected: u64,
}

impl<M, F: Clone> Default for Script<M, F> {
    fn default() -> Self {
        Self::new(Plan::default())
    }
}

impl<M, F: Clone> Script<M, F> {
    /// Starts a plan.
    pub fn new(plan: Plan<M, F>) -> Self {
        Self {
            turns: plan.rules.into_iter().map(|turn| (turn, 0)).collect(),
            rng: Rng::new(plan.seed),
            per_mille: plan.faults_per_mille,
            drawn: plan.faults,
            injected: 0,
        }
    }

    /// Adds a rule after the others.
    pub fn add(&mut self, turn: Turn<M, F>) {
        self.turns.push((turn, 0));
    }

    /// If no rule injects a fault, `per_mille` calls of a thousand get one of `faults`.
    pub fn draw(&mut self, seed: u64, per_mille: u16, faults: Vec<F>) {
        self.rng = Rng::new(seed);
        self.per_mille = per_mille;
        self.drawn = faults;
    }

    /// Removes rules and draws. The number of injected faults is kept.
    pub fn clear(&mut self) {
        self.turns.clear();
        self.drawn.clear();
    }

    /// Number of injected faults.
    pub const fn injected(&self) -> u64 {
        self.injected
    }

    /// The generator of the draws.
    pub(crate) const fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// The fault of the next call. The first rule that injects one counts, and later rules do not count the
    /// call. A fault that does not affect the call is not injected. If `draws` is false, only rules apply.
    pub fn next(
        &mut self,
        matches: impl Fn(&Turn<M, F>) -> bool,
        draws: bool,
        affects: impl Fn(&F) -> bool,
    ) -> Option<F> {
        let random = |script: &mut Self| if draws { script.random() } else { None };
        let fault = self.scripted(matches).or_else(|| random(self))?;
        let fault = Some(fault).filter(affects)?;
        self.injected += 1;
        Some(fault)
    }

    fn scripted(&mut self, matches: impl Fn(&Turn<M, F>) -> bool) -> Option<F> {
        for (turn, matched) in self.turns.iter_mut().filter(|(turn, _)| matches(turn)) {
            let before = *matched;
            *matched = matched.saturating_add(1);
            if before >= turn.skip && (turn.times == u32::MAX || before - turn.skip < turn.times) {
                return Some(turn.fault.clone());
            }
        }
        None
    }

    fn random(&mut self) -> Option<F> {
        if self.drawn.is_empty() || !self.rng.chance(self.per_mille) {
            return None;
        }
        let index = self.rng.below(self.drawn.len() as u64);
        self.drawn.get(usize::try_from(index).unwrap_or(0)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_their_rate_and_depend_on_the_seed_alone() {
        let drawn = |seed, per_mille| {
            let mut script = Script::<(), char>::default();
            script.draw(seed, per_mille, vec!['y', 'w', 'z']);
            // The fault `z` affects no call.
            let calls = (0..1_000).map(|_| script.next(|_| true, true, |fault| *fault != 'z'));
            let faults: String = calls.map(|fault| fault.unwrap_or('-')).collect();
            script.clear();
            assert_eq!(script.next(|_| true, true, |_| true), None);
            assert_eq!(script.injected(), faults.matches(['y', 'w']).count() as u64);
            faults
        };
        assert_eq!(drawn(1, 0), "-".repeat(1_000));
        let some = drawn(1, 100);
        for fault in ['y', 'w'] {
            assert!((10..70).contains(&some.matches(fault).count()), "{some}");
        }
        assert_eq!(some, drawn(1, 100));
        assert_ne!(some, drawn(2, 100));
    }

    fn turn(matching: char, skip: u32, times: u32, fault: char) -> Turn<char, char> {
        Turn {
            matching,
            skip,
            times,
            fault,
        }
    }

    /// The faults of calls, `-` for none. The fault `z` affects no call.
    fn faults(script: &mut Script<char, char>, calls: &str) -> String {
        let mut fault_of = |call| script.next(|turn| turn.matching == call, true, |fault| *fault != 'z');
        calls.chars().map(|call| fault_of(call).unwrap_or('-')).collect()
    }

    #[test]
    fn a_rule_skips_and_ends_and_a_call_with_a_fault_reaches_no_later_rule() {
        let mut script = Script::default();
        script.add(turn('a', 1, 2, 'x'));
        script.add(turn('a', 1, u32::MAX, 'y'));
        script.add(turn('b', 0, 1, 'z'));
        assert_eq!(faults(&mut script, "aaaabba"), "-xxy--y");
        assert_eq!(script.injected(), 4);
        script.clear();
        assert_eq!(faults(&mut script, "a"), "-");
        assert_eq!(script.injected(), 4, "injected faults stay counted");
    }
}
