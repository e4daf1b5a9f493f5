//! What happens inside, as events: every name in one place.
//!
//! `tracing` is the first sink. The levels follow what wakes somebody up: a
//! breaker that opens is a warning, one that probes or closes is news, and
//! what happens to single calls is for debugging. Nothing is told at `INFO` or
//! above per request.
//!
//! | event | level | fields |
//! |---|---|---|
//! | breaker opened | WARN | `dependency`, `generation`, `open_for_ms` |
//! | breaker half-open | INFO | `dependency`, `generation` |
//! | breaker recovering | INFO | `dependency`, `generation`, `ramp_ms` |
//! | breaker closed | INFO | `dependency`, `generation` |
//! | breaker forced open | WARN | `dependency`, `generation`, `reason` |
//! | breaker disabled | WARN | `dependency`, `generation` |
//! | retry | DEBUG | `dependency`, `attempt`, `delay_ms`, `reason` |
//! | stopped | DEBUG | `dependency`, `attempts`, `stopped`, `reason` |
//! | refused | DEBUG | `dependency`, `attempts`, `refusal`, `retry_after_ms` |
//! | out of time | DEBUG | `dependency`, `attempts` |
//! | parked | DEBUG | `dependency`, `parked` |
//! | unparked | DEBUG | `dependency`, `parked`, `waited_ms`, `limit` |
//! | fallback served | DEBUG | `entry` |
//! | fallback failed | DEBUG | `entry` |
//!
//! The target of all of them is `steadfast`.

use std::time::Duration;

use crate::classify::verdict::Reason;
use crate::error::{ParkLimit, Stopped};
use crate::refusal::Refusal;

/// Something that happened inside a stack.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A breaker opened.
    #[non_exhaustive]
    BreakerOpened {
        /// The dependency's name.
        dependency: &'static str,
        /// Grows with each change of state of this breaker.
        generation: u32,
        /// Until it admits a probe.
        open_for: Duration,
    },
    /// A breaker admits its first probe.
    #[non_exhaustive]
    BreakerHalfOpen {
        /// The dependency's name.
        dependency: &'static str,
        /// Grows with each change of state of this breaker.
        generation: u32,
    },
    /// A breaker's probes succeeded: a growing share of the calls passes.
    #[non_exhaustive]
    BreakerRecovering {
        /// The dependency's name.
        dependency: &'static str,
        /// Grows with each change of state of this breaker.
        generation: u32,
        /// Until it closes.
        ramp: Duration,
    },
    /// A breaker was opened by hand.
    #[non_exhaustive]
    BreakerForcedOpen {
        /// The dependency's name.
        dependency: &'static str,
        /// Grows with each change of state of this breaker.
        generation: u32,
        /// As it was given.
        reason: &'static str,
    },
    /// A breaker was switched off by hand.
    #[non_exhaustive]
    BreakerDisabled {
        /// The dependency's name.
        dependency: &'static str,
        /// Grows with each change of state of this breaker.
        generation: u32,
    },
    /// A breaker closed.
    #[non_exhaustive]
    BreakerClosed {
        /// The dependency's name.
        dependency: &'static str,
        /// Grows with each change of state of this breaker.
        generation: u32,
    },
    /// An attempt failed and another will follow.
    #[non_exhaustive]
    Retry {
        /// The dependency's name.
        dependency: &'static str,
        /// Which attempt failed, from 1.
        attempt: u32,
        /// How long until the next.
        delay: Duration,
        /// Why it failed.
        reason: Reason,
    },
    /// An attempt failed and none will follow.
    #[non_exhaustive]
    Stopped {
        /// The dependency's name.
        dependency: &'static str,
        /// How many attempts were made.
        attempts: u32,
        /// What spoke against another.
        stopped: Stopped,
        /// Why the last one failed.
        reason: Reason,
    },
    /// A breaker refused a call, or its next attempt after the backoff.
    #[non_exhaustive]
    Refused {
        /// How many attempts were made before.
        attempts: u32,
        /// The refusal.
        refusal: Refusal,
    },
    /// The deadline passed before there was an answer.
    #[non_exhaustive]
    OutOfTime {
        /// The dependency's name.
        dependency: &'static str,
        /// How many attempts were made.
        attempts: u32,
    },
    /// A refused call was put off.
    #[non_exhaustive]
    Parked {
        /// The dependency's name.
        dependency: &'static str,
        /// How many calls are put off now.
        parked: usize,
    },
    /// A call that was put off is so no longer: it is over.
    #[non_exhaustive]
    Unparked {
        /// The dependency's name.
        dependency: &'static str,
        /// How many calls are put off now.
        parked: usize,
        /// Since it was first put off.
        waited: Duration,
        /// The bound that it ran into, if it did.
        limit: Option<ParkLimit>,
    },
    /// A fallback gave the answer.
    #[non_exhaustive]
    FallbackServed {
        /// Which entry of the chain, from 0.
        entry: usize,
    },
    /// A fallback failed too.
    #[non_exhaustive]
    FallbackFailed {
        /// Which entry of the chain, from 0.
        entry: usize,
    },
}

/// Tells the sinks. What a sink shows of an event is worked out only if
/// somebody listens at its level.
#[inline]
pub(crate) fn emit(event: &Event) {
    trace(event);
}

const TARGET: &str = "steadfast";

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn trace(event: &Event) {
    match *event {
        Event::BreakerOpened {
            dependency,
            generation,
            open_for,
        } => tracing::warn!(
            target: TARGET,
            dependency,
            generation,
            open_for_ms = millis(open_for),
            "breaker opened"
        ),
        Event::BreakerHalfOpen {
            dependency,
            generation,
        } => tracing::info!(target: TARGET, dependency, generation, "breaker half-open"),
        Event::BreakerRecovering {
            dependency,
            generation,
            ramp,
        } => tracing::info!(
            target: TARGET,
            dependency,
            generation,
            ramp_ms = millis(ramp),
            "breaker recovering"
        ),
        Event::BreakerForcedOpen {
            dependency,
            generation,
            reason,
        } => tracing::warn!(
            target: TARGET,
            dependency,
            generation,
            reason,
            "breaker forced open"
        ),
        Event::BreakerDisabled {
            dependency,
            generation,
        } => tracing::warn!(target: TARGET, dependency, generation, "breaker disabled"),
        Event::BreakerClosed {
            dependency,
            generation,
        } => tracing::info!(target: TARGET, dependency, generation, "breaker closed"),
        Event::Retry {
            dependency,
            attempt,
            delay,
            reason,
        } => tracing::debug!(
            target: TARGET,
            dependency,
            attempt,
            delay_ms = millis(delay),
            %reason,
            "retry"
        ),
        Event::Stopped {
            dependency,
            attempts,
            stopped,
            reason,
        } => tracing::debug!(
            target: TARGET,
            dependency,
            attempts,
            stopped = stopped.as_str(),
            %reason,
            "stopped"
        ),
        Event::Refused { attempts, refusal } => tracing::debug!(
            target: TARGET,
            dependency = refusal.dependency(),
            attempts,
            refusal = refusal.reason().as_str(),
            retry_after_ms = refusal.retry_after().map(millis),
            "refused"
        ),
        Event::OutOfTime {
            dependency,
            attempts,
        } => tracing::debug!(target: TARGET, dependency, attempts, "out of time"),
        Event::Parked { dependency, parked } => {
            tracing::debug!(target: TARGET, dependency, parked, "parked");
        }
        Event::Unparked {
            dependency,
            parked,
            waited,
            limit,
        } => tracing::debug!(
            target: TARGET,
            dependency,
            parked,
            waited_ms = millis(waited),
            limit = limit.map(ParkLimit::as_str),
            "unparked"
        ),
        Event::FallbackServed { entry } => {
            tracing::debug!(target: TARGET, entry, "fallback served");
        }
        Event::FallbackFailed { entry } => {
            tracing::debug!(target: TARGET, entry, "fallback failed");
        }
    }
}
