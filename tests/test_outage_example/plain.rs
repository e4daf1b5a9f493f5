//! What the plain models share.

use std::num::NonZeroU32;
use std::time::Duration;

pub(crate) fn at_least_one(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not zero")
}

pub(crate) fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().expect("not for ever")
}

/// A breaker with nothing but a count and a time, for calls of any length.
#[derive(Clone, Default)]
pub(crate) struct PlainBreaker {
    threshold: u32,
    open_for: u64,
    failures: u32,
    opened: Option<u64>,
    probing: bool,
    /// Outcomes of calls from before the last change of state no longer count.
    era: u32,
}

impl PlainBreaker {
    pub(crate) fn new(threshold: NonZeroU32, open_for: Duration) -> Self {
        Self {
            threshold: threshold.get(),
            open_for: millis(open_for),
            ..Self::default()
        }
    }

    pub(crate) fn would_admit(&self, now: u64) -> bool {
        self.opened
            .is_none_or(|opened| !self.probing && now >= opened + self.open_for)
    }

    pub(crate) fn admits(&mut self, now: u64) -> Option<u32> {
        if !self.would_admit(now) {
            return None;
        }
        if self.opened.is_some() {
            self.probing = true;
            self.era += 1;
        }
        Some(self.era)
    }

    pub(crate) fn hears(&mut self, now: u64, era: u32, ok: bool) {
        if era != self.era {
            return;
        }
        self.failures = if ok { 0 } else { self.failures + 1 };
        let was_probe = std::mem::take(&mut self.probing);
        if ok {
            self.opened = None;
        } else if was_probe || self.failures >= self.threshold {
            self.opened = Some(now);
        } else {
            return;
        }
        self.era += u32::from(was_probe || !ok);
    }
}

/// Whether a share measured over so many cases is near enough to its probability: within five
/// standard errors and, for what hardly ever happens, five cases.
pub(crate) fn is_near(measured: f64, probability: f64, cases: u32) -> bool {
    let cases = f64::from(cases);
    // A sum of probabilities can come out a rounding error above 1.
    let variance = (probability * (1.0 - probability)).max(0.0);
    let error = (variance / cases).sqrt();
    (measured - probability).abs() <= 5.0 * error + 5.0 / cases
}

/// The waits between so many attempts, each twice the one before.
pub(crate) fn doubling(base: Duration, attempts: NonZeroU32) -> Vec<Duration> {
    (0..attempts.get() - 1).map(|n| base * (1 << n)).collect()
}
