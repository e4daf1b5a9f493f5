//! When counts open a breaker.

use super::super::rules::{PARTS, Rules};
use super::Counts;
use crate::span::{Span, nanos};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Numbers that can be changed while calls are counted. Zero stands for a rule
/// that is off.
///
/// All accesses are relaxed: an outcome that is counted while the numbers
/// change may be held against the old one or the new, of each rule on its own.
#[derive(Debug)]
pub(crate) struct Thresholds {
    consecutive: AtomicU32,
    /// In billionths, as all rates.
    rate: AtomicU32,
    min_calls: AtomicU32,
    last_failed: AtomicU32,
    slow_rate: AtomicU32,
    slow_nanos: AtomicU64,
}

impl Thresholds {
    pub(crate) fn new(rules: &Rules) -> Self {
        let thresholds = Self {
            consecutive: AtomicU32::new(0),
            rate: AtomicU32::new(0),
            min_calls: AtomicU32::new(1),
            last_failed: AtomicU32::new(0),
            slow_rate: AtomicU32::new(0),
            slow_nanos: AtomicU64::new(u64::MAX),
        };
        thresholds.set(rules);
        thresholds
    }

    pub(crate) fn set(&self, rules: &Rules) {
        let number = |place: &AtomicU32, value: Option<u32>| {
            place.store(value.unwrap_or(0), Ordering::Relaxed);
        };
        number(&self.consecutive, rules.consecutive);
        number(&self.rate, rules.rate);
        number(&self.min_calls, Some(rules.min_calls));
        number(&self.last_failed, rules.last_failed);
        number(&self.slow_rate, rules.slow.map(|slow| slow.rate));
        let threshold = rules.slow.map_or(u64::MAX, |slow| nanos(slow.threshold));
        self.slow_nanos.store(threshold, Ordering::Relaxed);
    }

    pub(crate) fn min_calls(&self) -> u32 {
        self.min_calls.load(Ordering::Relaxed)
    }

    pub(crate) fn is_slow(&self, ran: Span) -> bool {
        ran.nanos() >= self.slow_nanos.load(Ordering::Relaxed)
    }

    pub(crate) fn run_reached(&self, run: u32) -> bool {
        reached(&self.consecutive, |limit| run >= limit)
    }

    pub(crate) fn rate_reached(&self, counts: Counts) -> bool {
        self.reaches(&self.rate, counts)
    }

    pub(crate) fn too_many_slow(&self, counts: Counts) -> bool {
        self.reaches(&self.slow_rate, counts)
    }

    /// `bad / total >= rate`, in whole numbers.
    fn reaches(&self, rate: &AtomicU32, counts: Counts) -> bool {
        reached(rate, |rate| {
            counts.total >= u64::from(self.min_calls())
                && u128::from(counts.failures) * u128::from(PARTS)
                    >= u128::from(counts.total) * u128::from(rate)
        })
    }

    /// The window holds the latest calls. So the last `k` are all in it if it
    /// holds at least `k`, and all failed if the run of failures is as long.
    pub(crate) fn last_failed(&self, run: u32, counts: Counts) -> bool {
        reached(&self.last_failed, |last| {
            run >= last && counts.total >= u64::from(last)
        })
    }
}

fn reached(limit: &AtomicU32, holds: impl FnOnce(u32) -> bool) -> bool {
    match limit.load(Ordering::Relaxed) {
        0 => false,
        limit => holds(limit),
    }
}
