//! What all calls of a retry loop share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use super::backoff::Backoff;
use super::budget::Budget;
use crate::config::ConfigError;
use crate::telemetry::Observers;

/// Checked settings of the loop.
#[derive(Clone, Debug)]
pub(crate) struct RetrySettings {
    pub(crate) max_attempts: u32,
    pub(crate) backoff: Backoff,
    /// The longest wait asked for by the server that is waited for.
    pub(crate) largest_hint: Duration,
    /// What a further attempt must have left before the deadline.
    pub(crate) min_useful_time: Duration,
}

impl RetrySettings {
    pub(crate) const fn new(max_attempts: u32) -> Self {
        Self {
            max_attempts,
            backoff: Backoff::full_jitter(Duration::from_millis(100), Duration::from_secs(20)),
            largest_hint: Duration::from_secs(60),
            min_useful_time: Duration::from_millis(1),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.max_attempts == 0 {
            let problem = "must be at least 1: the first attempt counts";
            return Err(ConfigError::new("max_attempts", 0, problem));
        }
        self.backoff.validate()
    }
}

/// Settings that can be changed while calls run.
///
/// Every call asks for the number of attempts, so that it is an atomic; the
/// rest is read only where an attempt has failed. The number is relaxed: a
/// call that sees the old one meanwhile is as good as one that came earlier.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    max_attempts: AtomicU32,
    all: RwLock<RetrySettings>,
}

impl LiveSettings {
    pub(crate) const fn new(settings: RetrySettings) -> Self {
        Self {
            max_attempts: AtomicU32::new(settings.max_attempts),
            all: RwLock::new(settings),
        }
    }

    pub(crate) fn max_attempts(&self) -> u32 {
        self.max_attempts.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> RetrySettings {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// All that `change` did, or nothing if it failed. Locked throughout, so
    /// that of two changes at once neither is lost.
    pub(crate) fn change<E>(
        &self,
        change: impl FnOnce(&mut RetrySettings) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = all.clone();
        change(&mut changed)?;
        self.max_attempts
            .store(changed.max_attempts, Ordering::Relaxed);
        *all = changed;
        Ok(())
    }
}

/// Settings and state of the loop, and the stages below it.
#[derive(Debug)]
pub(crate) struct LoopShared<T> {
    pub(crate) dependency: &'static str,
    pub(crate) settings: LiveSettings,
    pub(crate) budget: Option<Budget>,
    pub(crate) observers: Observers,
    pub(crate) stage: T,
}
