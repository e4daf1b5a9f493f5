//! What was counted in a closed period, and whether it opens the breaker.

use super::settings::{Settings, Window};

pub const SLOTS: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub at: u64,
    pub failed: bool,
    pub slow: bool,
}

/// The outcomes of the present closed period, or of the last one.
#[derive(Debug, Default)]
pub struct Outcomes {
    pub list: Vec<Outcome>,
    /// Whether the rules have changed within that period.
    pub other_rules: bool,
}

impl Outcomes {
    /// Whether a rule holds after the last outcome.
    ///
    /// A good outcome opens the breaker by completing the minimum, or when old
    /// ones have left the window. Whether it does so because the rules have
    /// become stricter meanwhile, or the next bad one does, is left open: then
    /// the real breaker's word is taken.
    pub fn open(&self, settings: &Settings, now: u64, changed: bool) -> bool {
        let Some(last) = self.list.last() else {
            return false;
        };
        let failures_in_a_row = |outcomes: &[Outcome], calls: u32| {
            let calls = calls as usize;
            outcomes.len() >= calls && outcomes[outcomes.len() - calls..].iter().all(|o| o.failed)
        };
        let window = self.window(settings, now);
        let too_many = |rate: u32, bad: fn(&Outcome) -> bool| {
            let bad = window.iter().filter(|o| bad(o)).count();
            window.len() >= settings.min_calls() && bad * 100 >= window.len() * rate as usize
        };
        let run = settings
            .consecutive
            .is_some_and(|calls| failures_in_a_row(&self.list, calls));
        let last_failed = settings
            .last_failed
            .is_some_and(|calls| failures_in_a_row(window, calls));
        let rate = settings.rate.is_some_and(|r| too_many(r, |o| o.failed));
        let slow = settings.slow.is_some_and(|(_, r)| too_many(r, |o| o.slow));
        let certain = |holds, bad| holds && (bad || !self.other_rules);
        run || last_failed
            || certain(rate, last.failed)
            || certain(slow, last.slow)
            || (rate || slow) && changed
    }

    /// The outcomes in the window: the last few, or those of the last ten
    /// slots, which are numbered from the breaker's beginning.
    pub fn window(&self, settings: &Settings, now: u64) -> &[Outcome] {
        let outcomes = &self.list;
        let leave = match settings.window {
            Window::Count(calls) => outcomes.len().saturating_sub(calls as usize),
            Window::Time(length) => {
                let slot = |time: u64| time / (length / SLOTS);
                let old = |o: &&Outcome| slot(now) - slot(o.at) >= SLOTS;
                outcomes.iter().take_while(old).count()
            }
        };
        &outcomes[leave..]
    }
}
