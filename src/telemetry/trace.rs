//! The events as `tracing` shows them.

use std::time::Duration;

use super::event::Event;
use crate::classify::verdict::Verdict;
use crate::error::ParkLimit;
use crate::refusal::Refusal;

const TARGET: &str = "steadfast";

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Apart, for those of whom no observer hears: the most frequent of events is
/// then shown without being made.
#[inline]
pub(crate) fn refused(attempts: u32, refusal: &Refusal) {
    tracing::debug!(
        target: TARGET,
        dependency = refusal.dependency(),
        attempts,
        refusal = refusal.reason().as_str(),
        retry_after_ms = refusal.retry_after().map(millis),
        "refused"
    );
}

/// Apart as well: of those who are tried again none should wait for what nobody
/// hears.
#[inline]
pub(crate) fn retry(dependency: &str, attempt: u32, delay: Duration, verdict: &Verdict) {
    tracing::debug!(
        target: TARGET,
        dependency,
        attempt,
        delay_ms = millis(delay),
        reason = %verdict.reason(),
        "retry"
    );
}

/// What is shown of an event is worked out only if somebody listens at its
/// level.
pub(super) fn trace(event: &Event<'_>) {
    match *event {
        Event::BreakerOpened {
            dependency,
            key,
            generation,
            open_for,
            ..
        } => tracing::warn!(
            target: TARGET,
            dependency,
            key,
            generation,
            open_for_ms = millis(open_for),
            "breaker opened"
        ),
        Event::BreakerHalfOpen {
            dependency,
            key,
            generation,
            ..
        } => tracing::info!(target: TARGET, dependency, key, generation, "breaker half-open"),
        Event::BreakerRecovering {
            dependency,
            key,
            generation,
            ramp,
            ..
        } => tracing::info!(
            target: TARGET,
            dependency,
            key,
            generation,
            ramp_ms = millis(ramp),
            "breaker recovering"
        ),
        Event::BreakerForcedOpen {
            dependency,
            key,
            generation,
            reason,
            ..
        } => tracing::warn!(
            target: TARGET,
            dependency,
            key,
            generation,
            reason,
            "breaker forced open"
        ),
        Event::BreakerDisabled {
            dependency,
            key,
            generation,
            ..
        } => tracing::warn!(target: TARGET, dependency, key, generation, "breaker disabled"),
        Event::BreakerClosed {
            dependency,
            key,
            generation,
            ..
        } => tracing::info!(target: TARGET, dependency, key, generation, "breaker closed"),
        Event::Retry {
            dependency,
            attempt,
            delay,
            verdict,
        } => retry(dependency, attempt, delay, &verdict),
        Event::Stopped {
            dependency,
            attempts,
            stopped,
            verdict,
        } => tracing::debug!(
            target: TARGET,
            dependency,
            attempts,
            stopped = stopped.as_str(),
            reason = %verdict.map_or("no attempt".into(), |verdict| verdict.reason()),
            "stopped"
        ),
        Event::Refused { attempts, refusal } => refused(attempts, &refusal),
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
        Event::FallbackServed { dependency, entry } => {
            tracing::debug!(target: TARGET, dependency, entry, "fallback served");
        }
        Event::FallbackFailed { dependency, entry } => {
            tracing::debug!(target: TARGET, dependency, entry, "fallback failed");
        }
        Event::PolicyBuilt { .. }
        | Event::AttemptEnded { .. }
        | Event::CallEnded { .. }
        | Event::BreakerAdded { .. }
        | Event::BreakerRemoved { .. } => {}
    }
}
