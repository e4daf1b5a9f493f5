//! A breaker at one instant.

use std::time::Duration;

use super::state::BreakerState;
use super::window::Counts;

/// All of a breaker's state at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerSnapshot {
    pub(super) dependency: &'static str,
    pub(super) state: BreakerState,
    pub(super) generation: u32,
    pub(super) share: f64,
    pub(super) failed_recoveries: u32,
    pub(super) next_check: Option<Duration>,
    pub(super) forced_reason: Option<&'static str>,
    pub(super) counts: Counts,
    pub(super) in_flight: u32,
}

impl BreakerSnapshot {
    /// The dependency's name.
    #[must_use]
    pub const fn dependency(&self) -> &'static str {
        self.dependency
    }

    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> BreakerState {
        self.state
    }

    /// How often it has changed, by state or by a lease that ran out.
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// The share of the calls that a recovery admits, from 0 to 1; 1 in all
    /// other states.
    #[must_use]
    pub const fn share(&self) -> f64 {
        self.share
    }

    /// How many recoveries have failed and are not forgotten yet: each
    /// multiplies the open time.
    #[must_use]
    pub const fn failed_recoveries(&self) -> u32 {
        self.failed_recoveries
    }

    /// How long until an open breaker admits a probe; zero when due, `None`
    /// when it is not open.
    #[must_use]
    pub const fn next_check(&self) -> Option<Duration> {
        self.next_check
    }

    /// Why it was forced open, if it was.
    #[must_use]
    pub const fn forced_reason(&self) -> Option<&'static str> {
        self.forced_reason
    }

    /// Outcomes in the failure window; none where no rule has one. Counted
    /// while closed or disabled. Until it closes again none are added, and
    /// those in a time window leave it as ever.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.counts.total
    }

    /// Failures among [`calls`](Self::calls).
    #[must_use]
    pub const fn failures(&self) -> u64 {
        self.counts.failures
    }

    /// Calls in flight, counted only under a concurrency limit.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }
}
