//! What can be changed of a policy while calls run.

use std::time::Duration;

use super::builder::check_lease;
use crate::breaker::config::BreakerConfig;
use crate::breaker::handle::Breaker;
use crate::config::ConfigError;
use crate::retry::LiveSettings;
use crate::retry::backoff::Backoff;

/// Changes for [`Policy::reconfigure`](crate::Policy::reconfigure); what is not
/// named stays as it is.
#[derive(Clone, Debug, Default)]
#[must_use = "changes do nothing until a policy is reconfigured with them"]
pub struct PolicyChanges {
    max_attempts: Option<u32>,
    backoff: Option<Backoff>,
    largest_hint: Option<Duration>,
    min_useful_time: Option<Duration>,
    breaker: Option<BreakerConfig>,
}

impl PolicyChanges {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many attempts a call may make, the first included.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// How long to wait between attempts.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// The longest wait asked for by the server that is waited for.
    pub const fn largest_hint(mut self, longest: Duration) -> Self {
        self.largest_hint = Some(longest);
        self
    }

    /// What a further attempt must have left before the deadline.
    pub const fn min_useful_time(mut self, least: Duration) -> Self {
        self.min_useful_time = Some(least);
        self
    }

    /// All settings of the breaker: thresholds, open times, recovery, limits.
    pub fn breaker(mut self, config: BreakerConfig) -> Self {
        self.breaker = Some(config);
        self
    }

    /// Checks everything before it changes anything.
    ///
    /// `longest` is what an attempt may take.
    pub(super) fn apply(
        self,
        live: &LiveSettings,
        breaker: Option<&Breaker>,
        longest: Option<Duration>,
    ) -> Result<(), ConfigError> {
        live.change(|settings| {
            settings.max_attempts = self.max_attempts.unwrap_or(settings.max_attempts);
            if let Some(backoff) = self.backoff {
                settings.backoff = backoff;
            }
            settings.largest_hint = self.largest_hint.unwrap_or(settings.largest_hint);
            settings.min_useful_time = self.min_useful_time.unwrap_or(settings.min_useful_time);
            settings.check()?;
            match (&self.breaker, breaker) {
                (Some(config), Some(breaker)) => {
                    check_lease(&config.check()?, longest)?;
                    breaker.reconfigure(config)
                }
                (Some(_), None) => {
                    let problem = "the policy was built without one";
                    Err(ConfigError::new("breaker", "settings", problem))
                }
                (None, _) => Ok(()),
            }
        })
    }
}
