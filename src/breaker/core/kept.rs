//! What a breaker keeps once it has something to remember.

use std::sync::PoisonError;

use super::facts::Facts;
use crate::breaker::in_flight::InFlight;
use crate::breaker::news::News;
use crate::breaker::rules::Rules;
use crate::breaker::state::Machine;
use crate::breaker::window::Thresholds;
use crate::draws::Draws;
use crate::span::nanos;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Made at the first failure, or when somebody limits, steers or observes it: of
/// a million breakers most never need theirs, which is two thirds of a breaker.
#[derive(Debug)]
pub(super) struct Kept {
    /// Until when a shut door stays shut.
    pub(super) shut_until: AtomicU64,
    /// The first open time: what those are told to wait who come while probes
    /// are out. Relaxed, as nothing else depends on it.
    pub(super) open_nanos: AtomicU64,
    /// When the last failure was heard, plus one; zero for never.
    pub(super) last_failure: AtomicU64,
    pub(super) in_flight: InFlight,
    pub(super) thresholds: Thresholds,
    machine: Mutex<Machine>,
    /// As last configured, where they were.
    rules: Mutex<Option<Box<Rules>>>,
    pub(super) news: News,
    /// For the jitter on the open times.
    pub(super) draws: Draws,
}

impl Kept {
    pub(super) fn new(facts: &Facts) -> Self {
        let rules = &facts.rules;
        Self {
            shut_until: AtomicU64::new(0),
            open_nanos: AtomicU64::new(nanos(rules.recovery.open_time)),
            last_failure: AtomicU64::new(0),
            in_flight: InFlight::new(rules.concurrency_limit),
            thresholds: Thresholds::new(rules),
            machine: Mutex::new(Machine::new(rules.recovery)),
            rules: Mutex::new(None),
            news: News::new(),
            draws: Draws::new(facts.seed),
        }
    }

    #[inline]
    pub(super) fn note_failure(&self, now: u64) {
        self.last_failure
            .store(now.saturating_add(1), Ordering::Relaxed);
    }

    /// No code of a user's runs under the lock, so a poisoned one holds a
    /// machine that is whole.
    pub(super) fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rules(&self) -> MutexGuard<'_, Option<Box<Rules>>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
