//! A breaker at one instant.

use std::time::Duration;

use super::state::BreakerState;
use super::window::Counts;

/// All of a breaker's state at one instant.
///
/// With the feature `serde` it is `Serialize`, its members named as the methods
/// here are; `next_check` becomes `next_check_seconds`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BreakerSnapshot {
    pub(super) dependency: &'static str,
    pub(super) state: BreakerState,
    pub(super) generation: u32,
    pub(super) share: f64,
    pub(super) failed_recoveries: u32,
    #[cfg_attr(
        feature = "serde",
        serde(rename = "next_check_seconds", serialize_with = "seconds::option")
    )]
    pub(super) next_check: Option<Duration>,
    pub(super) forced_reason: Option<&'static str>,
    #[cfg_attr(feature = "serde", serde(flatten))]
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

/// Durations as seconds, for people and for what draws them.
#[cfg(feature = "serde")]
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::{Serialize, Serializer};

    pub(crate) fn plain<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        span.as_secs_f64().serialize(serializer)
    }

    pub(crate) fn option<S: Serializer>(
        span: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        span.as_ref()
            .map(Duration::as_secs_f64)
            .serialize(serializer)
    }
}
