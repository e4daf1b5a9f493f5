//! The observer that keeps metrics.

mod calls;
mod chain;
mod doors;
mod table;

use super::event::Event;
use super::observer::Observer;
use crate::breaker::state::BreakerState;
use calls::CallMetrics;
use chain::Chain;
use doors::DoorMetrics;

/// Keeps metrics by the facade of the [`metrics`] crate; feature `metrics`.
///
/// Give one to all policies of a program, breakers and registries by hand
/// included. Nothing is measured without it, and it costs nothing then.
///
#[doc = include_str!("table.md")]
///
/// Labels, their values, and how many there can be:
///
#[doc = include_str!("labels.md")]
///
/// Handles are made once per dependency, when its policy is built or its
/// breaker first seen, and kept: **install the recorder first**, what is built
/// before goes nowhere. All series with known labels begin at 0 then, about
/// fifty per policy, so that the first failure shows in a rate.
///
/// All numbers are of this process. Load on the dependency, for one, is the sum
/// over all its clients.
///
/// - The exact amplification over a time is
///   `steadfast_attempts_total / steadfast_calls_total`, as rates; the gauge is
///   for a look.
/// - The balance does not show what trickles in until a call comes.
/// - A breaker whose open time is over stays `open` until a call comes: there
///   is nothing else to change it.
/// - Refusals of a breaker that is asked by hand are not counted: they are
///   in the hands of whoever asked.
/// - Without `key`, `steadfast_breakers` counts the keys in each state, which is
///   what an alert wants: "12 of 40 hosts are open".
///
/// Durations and attempts are histograms: an exporter that asks for buckets is
/// well served with powers of two from 1 ms to 65 s, and with 0, 1, 2, 3, 5, 8.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use steadfast::Policy;
/// use steadfast::telemetry::Metrics;
///
/// // First: the recorder of whatever exporter there is.
/// let metrics = Arc::new(Metrics::new());
/// let inventory = Policy::builder("inventory").observer(metrics.clone()).build()?;
/// let prices = Policy::builder("prices").observer(metrics.clone()).build()?;
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
///
/// [`metrics`]: https://docs.rs/metrics
#[derive(Debug)]
pub struct Metrics {
    calls: Chain<CallMetrics>,
    doors: Chain<DoorMetrics>,
    keys: bool,
}

impl Metrics {
    /// Describes all metrics to the recorder, and measures from now on.
    #[must_use]
    pub fn new() -> Self {
        table::describe();
        Self {
            calls: Chain::new(),
            doors: Chain::new(),
            keys: false,
        }
    }

    /// Labels what concerns a single breaker of a registry with its `key`, where
    /// the registry names its keys (`Breakers::naming_keys`).
    ///
    /// # Default
    ///
    /// Off: keys come out of requests, and most recorders keep every series that
    /// they have ever seen.
    #[must_use]
    pub fn with_keys(mut self) -> Self {
        self.keys = true;
        self
    }

    fn calls(&self, dependency: &'static str) -> &CallMetrics {
        self.calls
            .of(dependency, || CallMetrics::register(dependency))
    }

    fn doors(&self, dependency: &'static str) -> &DoorMetrics {
        self.doors
            .of(dependency, || DoorMetrics::register(dependency))
    }

    /// A breaker went from one state to another.
    fn moved(
        &self,
        dependency: &'static str,
        key: Option<&str>,
        from: BreakerState,
        to: BreakerState,
    ) {
        let doors = self.doors(dependency);
        match self.shown(key) {
            None => doors.moved(from, to),
            Some(key) => doors::moved_by_key(dependency, key, from, to),
        }
    }

    fn counted(
        &self,
        dependency: &'static str,
        key: Option<&str>,
        state: BreakerState,
        change: f64,
    ) {
        let doors = self.doors(dependency);
        match self.shown(key) {
            None => doors.counted(state, change),
            Some(key) => doors::counted_by_key(dependency, key, state, change),
        }
    }

    fn shown<'a>(&self, key: Option<&'a str>) -> Option<&'a str> {
        key.filter(|_| self.keys)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Metrics {
    fn on_event(&self, event: &Event<'_>) {
        match *event {
            Event::PolicyBuilt {
                dependency,
                budget_balance,
            } => self.calls(dependency).balance(budget_balance),
            Event::AttemptEnded {
                dependency,
                verdict,
                ..
            } => self.calls(dependency).attempt(verdict),
            Event::CallEnded {
                dependency,
                outcome,
                attempts,
                elapsed,
                deadline_left,
                budget_balance,
                ..
            } => {
                let calls = self.calls(dependency);
                calls.ended(outcome, attempts, elapsed, deadline_left);
                calls.balance(budget_balance);
            }
            Event::Retry {
                dependency,
                delay,
                verdict,
                ..
            } => self.calls(dependency).retry(delay, verdict),
            Event::Stopped {
                dependency,
                stopped,
                ..
            } => self.calls(dependency).denied(stopped),
            Event::Parked { dependency, .. } => self.calls(dependency).parked(1.0),
            Event::Unparked { dependency, .. } => self.calls(dependency).parked(-1.0),
            Event::FallbackServed {
                dependency, entry, ..
            } => self.calls(dependency).fallback(entry, true),
            Event::FallbackFailed {
                dependency, entry, ..
            } => self.calls(dependency).fallback(entry, false),
            Event::Refused { refusal, .. } => {
                self.doors(refusal.dependency()).refused(refusal.reason());
            }
            Event::BreakerAdded {
                dependency,
                key,
                state,
            } => self.counted(dependency, key, state, 1.0),
            Event::BreakerRemoved {
                dependency,
                key,
                state,
            } => self.counted(dependency, key, state, -1.0),
            Event::BreakerOpened {
                dependency,
                key,
                from,
                ..
            } => self.moved(dependency, key, from, BreakerState::Open),
            Event::BreakerHalfOpen {
                dependency,
                key,
                from,
                ..
            } => self.moved(dependency, key, from, BreakerState::HalfOpen),
            Event::BreakerRecovering {
                dependency,
                key,
                from,
                ..
            } => self.moved(dependency, key, from, BreakerState::Recovering),
            Event::BreakerClosed {
                dependency,
                key,
                from,
                ..
            } => self.moved(dependency, key, from, BreakerState::Closed),
            Event::BreakerForcedOpen {
                dependency,
                key,
                from,
                ..
            } => self.moved(dependency, key, from, BreakerState::ForcedOpen),
            Event::BreakerDisabled {
                dependency,
                key,
                from,
                ..
            } => self.moved(dependency, key, from, BreakerState::Disabled),
            Event::OutOfTime { .. } => {}
        }
    }
}
