//! What a breaker counts.

use std::num::NonZeroU64;

use super::super::config::WindowKind;
use super::super::rules::Rules;
use super::time::SLOTS;
use crate::config::ConfigError;
use crate::span::nanos;

/// What is counted, for a breaker's whole life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// `None` where nothing is counted but a run of failures.
    pub(super) window: Option<WindowKind>,
    /// A tenth of a time window; 1 for others.
    pub(super) slot_nanos: NonZeroU64,
    /// Whether failures in a row are counted,
    pub(super) run: bool,
    /// failures in the window,
    pub(super) failures: bool,
    /// and slow calls in it.
    pub(super) slow: bool,
}

impl Plan {
    pub(crate) fn new(rules: &Rules) -> Self {
        let failures = rules.rate.is_some() || rules.last_failed.is_some();
        let slow = rules.slow.is_some();
        let window = (failures || slow).then_some(rules.window);
        Self {
            window,
            slot_nanos: match window {
                Some(WindowKind::Time(length)) => NonZeroU64::new(nanos(length) / SLOTS),
                Some(WindowKind::Count(_)) | None => None,
            }
            .unwrap_or(NonZeroU64::MIN),
            run: rules.consecutive.is_some() || rules.last_failed.is_some(),
            failures,
            slow,
        }
    }

    /// Whether anybody wants to know how long calls run.
    pub(crate) const fn counts_slow_calls(&self) -> bool {
        self.slow
    }

    /// Whether what is counted serves these rules.
    ///
    /// # Errors
    ///
    /// Rules for which nothing has been counted so far.
    pub(crate) fn check(&self, rules: &Rules) -> Result<(), ConfigError> {
        let refuse = |field, value: String| {
            let problem = "nothing has been counted for it; build a new breaker";
            Err(ConfigError::new(field, value, problem))
        };
        if self.window.is_some_and(|window| window != rules.window) {
            return refuse("breaker.window", format!("{:?}", rules.window));
        }
        if let (Some(consecutive), false) = (rules.consecutive, self.run) {
            return refuse("breaker.consecutive", consecutive.to_string());
        }
        if let (Some(rate), false) = (rules.failure_rate(), self.failures) {
            return refuse("breaker.failure_rate", rate.to_string());
        }
        if let (Some(last), false) = (rules.last_failed, self.failures && self.run) {
            return refuse("breaker.last_failed", last.to_string());
        }
        if let (Some(slow), false) = (rules.slow, self.slow) {
            return refuse("breaker.slow_calls", format!("{:?}", slow.threshold));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn failures_in(window: WindowKind) -> Self {
        let config = crate::BreakerConfig::failure_rate(0.5);
        let mut rules = config.check().unwrap();
        rules.window = window;
        Self::new(&rules)
    }
}
