//! What all calls of a retry loop share.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::backoff::Backoff;
use super::budget::Budget;
use crate::config::ConfigError;
use crate::scope::marks::Marks;
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
/// rest is read only where an attempt has failed, and without a lock as long
/// as nothing has been changed. The number is relaxed: a call that sees the old
/// one meanwhile is as good as one that came earlier.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    max_attempts: AtomicU32,
    first: RetrySettings,
    /// Whether there are others by now.
    changed: AtomicBool,
    now: RwLock<Option<Arc<RetrySettings>>>,
}

/// Settings as they are at a moment.
#[derive(Debug)]
pub(crate) enum Settled<'a> {
    First(&'a RetrySettings),
    Changed(Arc<RetrySettings>),
}

impl Deref for Settled<'_> {
    type Target = RetrySettings;

    fn deref(&self) -> &RetrySettings {
        match self {
            Self::First(settings) => settings,
            Self::Changed(settings) => settings,
        }
    }
}

impl LiveSettings {
    pub(crate) const fn new(settings: RetrySettings) -> Self {
        Self {
            max_attempts: AtomicU32::new(settings.max_attempts),
            first: settings,
            changed: AtomicBool::new(false),
            now: RwLock::new(None),
        }
    }

    #[inline]
    pub(crate) fn max_attempts(&self) -> u32 {
        self.max_attempts.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> Settled<'_> {
        if self.changed.load(Ordering::Acquire) {
            let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(settings) = &*now {
                return Settled::Changed(Arc::clone(settings));
            }
        }
        Settled::First(&self.first)
    }

    /// Changes some of them, or none if `change` fails. Two who change at once
    /// do so one after the other: neither undoes what the other has changed.
    pub(crate) fn change<E>(
        &self,
        change: impl FnOnce(&mut RetrySettings) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let mut settings = now.as_deref().unwrap_or(&self.first).clone();
        change(&mut settings)?;
        self.max_attempts
            .store(settings.max_attempts, Ordering::Relaxed);
        *now = Some(Arc::new(settings));
        self.changed.store(true, Ordering::Release);
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
    /// As if a report were wanted of every call, where somebody observes.
    pub(crate) observed: Marks,
    pub(crate) stage: T,
}

impl<T> LoopShared<T> {
    pub(crate) fn new(
        dependency: &'static str,
        settings: RetrySettings,
        budget: Option<Budget>,
        observers: Observers,
        stage: T,
    ) -> Self {
        let observed = if observers.listen() {
            Marks::REPORT_WANTED
        } else {
            Marks::NONE
        };
        Self {
            dependency,
            settings: LiveSettings::new(settings),
            budget,
            observers,
            observed,
            stage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_who_change_settings_at_once_neither_undoes_the_others_change() {
        let live = LiveSettings::new(RetrySettings::new(1));
        let change = |change: fn(&mut RetrySettings, u32)| {
            let live = &live;
            move || {
                for round in 1..=2_000 {
                    let Ok(()) = live.change(|settings| -> Result<(), std::convert::Infallible> {
                        change(settings, round);
                        Ok(())
                    });
                    std::thread::yield_now();
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(change(|settings, round| settings.max_attempts = round));
            scope.spawn(change(|settings, round| {
                settings.largest_hint = Duration::from_secs(round.into());
            }));
        });
        let settings = live.get();
        assert_eq!(settings.max_attempts, 2_000);
        assert_eq!(live.max_attempts(), 2_000);
        assert_eq!(settings.largest_hint, Duration::from_secs(2_000));
    }

    #[test]
    fn a_change_that_fails_changes_nothing() {
        let live = LiveSettings::new(RetrySettings::new(3));
        let failed = live.change(|settings| {
            settings.max_attempts = 9;
            Err("no")
        });
        assert_eq!(failed, Err("no"));
        assert_eq!((live.max_attempts(), live.get().max_attempts), (3, 3));
    }
}
