//! What happens inside, as events: every name in one place.
//!
//! Three listen: `tracing`, always; [observers](Observer), where a policy, a
//! breaker or a registry is given some; and, with the feature `metrics`, one
//! such observer that keeps metrics, whose names and labels stand in the table
//! of `Metrics`.
//!
//! The levels in `tracing` follow what wakes somebody up: a breaker that opens
//! is a warning, one that probes or closes is news, and what happens to single
//! calls is for debugging. Nothing is told at `INFO` or above per request. What
//! every call comes to, a plain success too, only observers hear of.
//!
//! | event | level | fields |
//! |---|---|---|
//! | breaker opened | WARN | `dependency`, `key`, `generation`, `open_for_ms` |
//! | breaker half-open | INFO | `dependency`, `key`, `generation` |
//! | breaker recovering | INFO | `dependency`, `key`, `generation`, `ramp_ms` |
//! | breaker closed | INFO | `dependency`, `key`, `generation` |
//! | breaker forced open | WARN | `dependency`, `key`, `generation`, `reason` |
//! | breaker disabled | WARN | `dependency`, `key`, `generation` |
//! | retry | DEBUG | `dependency`, `attempt`, `delay_ms`, `reason` |
//! | stopped | DEBUG | `dependency`, `attempts`, `stopped`, `reason` |
//! | refused | DEBUG | `dependency`, `attempts`, `refusal`, `retry_after_ms` |
//! | out of time | DEBUG | `dependency`, `attempts` |
//! | parked | DEBUG | `dependency`, `parked` |
//! | unparked | DEBUG | `dependency`, `parked`, `waited_ms`, `limit` |
//! | fallback served | DEBUG | `dependency`, `entry` |
//! | fallback failed | DEBUG | `dependency`, `entry` |
//! | policy built | – | |
//! | attempt ended | – | |
//! | call ended | – | |
//! | breaker added | – | |
//! | breaker removed | – | |
//!
//! The target of all of them is `steadfast`. `key` is there for the breakers of
//! a registry that names its keys, see `Breakers::naming_keys`.

mod event;
mod left;
#[cfg(feature = "metrics")]
mod metrics;
mod observer;
pub(crate) mod trace;

pub use event::{CallOutcome, Event};
pub(crate) use left::{leave_observers, take_observers};
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
pub use observer::Observer;
pub(crate) use observer::Observers;

/// Tells all who listen.
#[inline]
pub(crate) fn emit(observers: &Observers, event: &Event<'_>) {
    trace::trace(event);
    observers.tell(|| *event);
}
