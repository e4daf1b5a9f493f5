//! The state machine, without clock, lock or service.
//!
//! Times are nanoseconds since the breaker was made, so that the machine can
//! be driven by any clock, and the random draw is an argument.

use std::time::Duration;

use super::config::Recovery;

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerState {
    /// Calls pass and are counted.
    Closed,
    /// Calls are refused until the open time is over.
    Open,
    /// The open time is over: a few probes decide. A breaker whose open time
    /// is over without a call since reads as half-open as well.
    HalfOpen,
}

/// Proof of admission, to be handed back with the outcome exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The period in which it was given. An outcome from another one changes
    /// nothing.
    pub(crate) generation: u32,
    /// Whether it holds one of the half-open period's slots.
    pub(crate) probe: bool,
}

/// What a probe came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeOutcome {
    Success,
    /// With the longest wait that the dependency asked for.
    Failure(Option<Duration>),
    /// An answer that says nothing about health.
    Neutral,
    /// No answer was waited for.
    Dropped,
}

/// A change of state, each told exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    Opened { generation: u32, open_for: Duration },
    HalfOpened { generation: u32 },
    Closed { generation: u32 },
}

/// What the machine says to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted(Ticket),
    /// Refused until at least this time.
    Open {
        until: u64,
    },
    /// Probes are out; at this time their lease is over.
    ProbesOut {
        lease_over: u64,
    },
}

/// Neutral answers in a row after which a half-open breaker moves on: a
/// dependency that only ever says 401 is there, and must not stay hidden.
const NEUTRAL_ANSWERS: u32 = 10;

/// The states with all that belongs to them.
#[derive(Clone, Copy, Debug)]
enum State {
    Closed {
        since: u64,
    },
    Open {
        until: u64,
    },
    HalfOpen {
        /// The generation with which this half-open period began; a lease
        /// that runs out starts a new generation within the same period.
        first_generation: u32,
        taken: u32,
        successes: u32,
        neutral: u32,
        lease_over: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    state: State,
    generation: u32,
    /// Recoveries that failed and are not forgotten yet.
    failed_recoveries: u32,
}

impl Machine {
    pub(crate) const fn new() -> Self {
        Self {
            state: State::Closed { since: 0 },
            generation: 0,
            failed_recoveries: 0,
        }
    }

    pub(crate) const fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// Until when calls are refused without a look at the machine: the open
    /// time, or the lease while all probes are out.
    pub(crate) const fn closed_door(&self, settings: &Recovery) -> Option<Admission> {
        match self.state {
            State::Open { until } => Some(Admission::Open { until }),
            State::HalfOpen {
                taken, lease_over, ..
            } if taken >= settings.probes => Some(Admission::ProbesOut { lease_over }),
            State::Closed { .. } | State::HalfOpen { .. } => None,
        }
    }

    /// Asks for admission and takes a slot where one is needed.
    pub(crate) fn admit(
        &mut self,
        now: u64,
        settings: &Recovery,
    ) -> (Admission, Option<Transition>) {
        match self.state {
            State::Closed { .. } => (self.ticket(false), None),
            // Open -> HalfOpen: when the open time is over and a call comes.
            State::Open { until } if now >= until => {
                self.generation = self.generation.wrapping_add(1);
                self.enter_half_open(self.generation, now, settings);
                let generation = self.generation;
                (
                    self.ticket(true),
                    Some(Transition::HalfOpened { generation }),
                )
            }
            State::Open { until } => (Admission::Open { until }, None),
            State::HalfOpen {
                taken,
                lease_over,
                first_generation,
                ..
            } if taken >= settings.probes => {
                if now < lease_over {
                    return (Admission::ProbesOut { lease_over }, None);
                }
                // HalfOpen -> HalfOpen: when no probe came back within the
                // lease. The slots of the lost ones belong to a generation
                // that is over, so they cannot be given back twice.
                self.generation = self.generation.wrapping_add(1);
                self.enter_half_open(first_generation, now, settings);
                (self.ticket(true), None)
            }
            State::HalfOpen {
                ref mut taken,
                ref mut lease_over,
                ..
            } => {
                *taken += 1;
                *lease_over = now.saturating_add(nanos(settings.probe_lease));
                (self.ticket(true), None)
            }
        }
    }

    /// Closed -> Open: when a trip rule held for an outcome of this
    /// generation.
    pub(crate) fn trip(
        &mut self,
        generation: u32,
        now: u64,
        hint: Option<Duration>,
        draw: f64,
        settings: &Recovery,
    ) -> Option<Transition> {
        let State::Closed { since } = self.state else {
            return None;
        };
        if generation != self.generation {
            return None;
        }
        let healthy = now.saturating_sub(since) / nanos(settings.max_open_time).max(1);
        let forgotten = u32::try_from(healthy).unwrap_or(u32::MAX);
        self.failed_recoveries = self.failed_recoveries.saturating_sub(forgotten);
        Some(self.open(now, hint, draw, settings))
    }

    /// Hears of a probe.
    pub(crate) fn probed(
        &mut self,
        ticket: Ticket,
        outcome: ProbeOutcome,
        now: u64,
        draw: f64,
        settings: &Recovery,
    ) -> Option<Transition> {
        let current = ticket.generation == self.generation;
        let State::HalfOpen {
            first_generation,
            ref mut taken,
            ref mut successes,
            ref mut neutral,
            ..
        } = self.state
        else {
            return None;
        };
        // A probe past its lease is of an older generation of the same
        // period: its success is still proof, all else is void.
        let same_period = ticket.generation.wrapping_sub(first_generation)
            <= self.generation.wrapping_sub(first_generation);
        let late_success = same_period && outcome == ProbeOutcome::Success;
        if !(current || late_success) {
            return None;
        }
        match outcome {
            ProbeOutcome::Success => {
                *successes += 1;
                *neutral = 0;
                // HalfOpen -> Closed: when enough probes succeeded.
                (*successes >= settings.successes).then(|| self.close(now))
            }
            ProbeOutcome::Failure(hint) => {
                // HalfOpen -> Open: when a probe failed.
                self.failed_recoveries = self.failed_recoveries.saturating_add(1);
                Some(self.open(now, hint, draw, settings))
            }
            ProbeOutcome::Neutral => {
                *taken = taken.saturating_sub(1);
                *neutral += 1;
                // HalfOpen -> Closed: when the dependency keeps answering,
                // though never with news of its health.
                (*neutral >= NEUTRAL_ANSWERS).then(|| self.close(now))
            }
            ProbeOutcome::Dropped => {
                *taken = taken.saturating_sub(1);
                None
            }
        }
    }

    /// The state as a user sees it.
    pub(crate) const fn state(&self, now: u64) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { until } if now < until => BreakerState::Open,
            State::Open { .. } | State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    const fn ticket(&self, probe: bool) -> Admission {
        Admission::Admitted(Ticket {
            generation: self.generation,
            probe,
        })
    }

    /// A half-open generation with its first slot taken.
    fn enter_half_open(&mut self, first_generation: u32, now: u64, settings: &Recovery) {
        self.state = State::HalfOpen {
            first_generation,
            taken: 1,
            successes: 0,
            neutral: 0,
            lease_over: now.saturating_add(nanos(settings.probe_lease)),
        };
    }

    fn open(
        &mut self,
        now: u64,
        hint: Option<Duration>,
        draw: f64,
        settings: &Recovery,
    ) -> Transition {
        let open_for = open_time(self.failed_recoveries, hint, draw, settings);
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Open {
            until: now.saturating_add(nanos(open_for)),
        };
        Transition::Opened {
            generation: self.generation,
            open_for,
        }
    }

    fn close(&mut self, now: u64) -> Transition {
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Closed { since: now };
        Transition::Closed {
            generation: self.generation,
        }
    }
}

/// `open_time × growth^failed`, capped; then jittered, upward only; and no
/// shorter than what the dependency asked for.
fn open_time(failed: u32, hint: Option<Duration>, draw: f64, settings: &Recovery) -> Duration {
    let cap = settings.max_open_time;
    if failed == 0 {
        return jittered(settings.open_time, hint, draw, settings);
    }
    let exponent = i32::try_from(failed).unwrap_or(i32::MAX);
    let grown = settings.open_time.as_secs_f64() * settings.growth.powi(exponent);
    let grown = if grown < cap.as_secs_f64() {
        Duration::try_from_secs_f64(grown).unwrap_or(cap)
    } else {
        cap
    };
    jittered(grown, hint, draw, settings)
}

fn jittered(grown: Duration, hint: Option<Duration>, draw: f64, settings: &Recovery) -> Duration {
    let extra = grown.as_secs_f64() * settings.open_jitter * draw;
    let jitter = Duration::try_from_secs_f64(extra).unwrap_or(Duration::ZERO);
    let asked = hint.map_or(Duration::ZERO, |hint| hint.min(settings.max_hint_open));
    grown.saturating_add(jitter).max(asked)
}

/// Saturates after five hundred years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
