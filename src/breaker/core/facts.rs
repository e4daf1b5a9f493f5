//! What is known of a breaker from the start.

use crate::breaker::config::BreakerConfig;
use crate::breaker::rules::Rules;
use crate::breaker::window::{Plan, Thresholds};
use crate::config::ConfigError;
use crate::moment::Moment;
use crate::name::Name;

/// Name and settings as they were first given. The breakers of a registry
/// share theirs.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(super) name: Name,
    pub(super) base: Moment,
    pub(super) plan: Plan,
    pub(super) thresholds: Thresholds,
    pub(crate) rules: Rules,
    /// Of the jitter on the open times.
    pub(super) seed: Option<u64>,
}

impl Facts {
    /// # Errors
    ///
    /// Settings that cannot work, by field and value.
    pub(crate) fn new(name: Name, config: &BreakerConfig) -> Result<Self, ConfigError> {
        let rules = config.check()?;
        Ok(Self {
            name,
            base: Moment::now(),
            plan: Plan::new(&rules),
            thresholds: Thresholds::new(&rules),
            rules,
            seed: config.seed,
        })
    }
}
