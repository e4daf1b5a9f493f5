//! A breaker at one instant, and news of its changes.

use std::time::Duration;

use tokio::sync::watch;

use super::handle::Breaker;
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

/// News of a breaker's changes; made by [`Breaker::watch`].
#[derive(Clone, Debug)]
pub struct BreakerWatch {
    pub(super) breaker: Breaker,
    pub(super) generations: watch::Receiver<u32>,
}

impl BreakerWatch {
    /// Where the breaker stands now.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.breaker.state()
    }

    /// Waits until the breaker has changed since this was made or last asked,
    /// and tells where it stands then. Changes in between may be passed over,
    /// the last one never is.
    ///
    /// That an open time or a recovery is over is no change until a call
    /// comes; [`state`](Self::state) knows of it.
    ///
    /// # Cancel safety
    ///
    /// A change is taken note of only when it is returned.
    pub async fn changed(&mut self) -> BreakerState {
        // The sender lives in the breaker, of which this holds a handle.
        self.generations.changed().await.ok();
        self.breaker.state()
    }
}
