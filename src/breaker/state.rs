//! The state machine, without clock, lock or service.
//!
//! Times are nanoseconds since the breaker was made, so that the machine can
//! be driven by any clock, and the random draw is an argument.

use std::time::Duration;

use super::open_time::open_time;
use super::ramp::Ramp;
use super::rules::Recovery;
use super::ticket::{Admission, Heard, Ticket, TicketKind, Transition};
use crate::name::Name;
use crate::span::nanos;

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum BreakerState {
    /// Calls pass and are counted.
    Closed,
    /// Calls are refused until the open time is over.
    Open,
    /// The open time is over: a few probes decide. A breaker whose open time
    /// is over without a call since reads as half-open as well.
    HalfOpen,
    /// The probes succeeded: a growing share of the calls passes.
    Recovering,
    /// Opened by hand: calls are refused until somebody resets it.
    ForcedOpen,
    /// Switched off by hand: calls pass and are counted, and nothing opens it.
    Disabled,
}

impl BreakerState {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 6] = [
        Self::Closed,
        Self::Open,
        Self::HalfOpen,
        Self::Recovering,
        Self::ForcedOpen,
        Self::Disabled,
    ];

    /// The name used in metrics and snapshots, such as `"half_open"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
            Self::Recovering => "recovering",
            Self::ForcedOpen => "forced_open",
            Self::Disabled => "disabled",
        }
    }
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
    Recovering {
        ramp: Ramp,
    },
    ForcedOpen {
        reason: Name,
    },
    Disabled,
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    settings: Recovery,
    state: State,
    generation: u32,
    /// That of the last period in which calls were counted.
    counted_generation: u32,
    /// Recoveries that had failed and were not forgiven when the state was
    /// entered.
    failed_recoveries: u32,
}

impl Machine {
    pub(crate) const fn new(settings: Recovery) -> Self {
        Self {
            settings,
            state: State::Closed { since: 0 },
            generation: 0,
            counted_generation: 0,
            failed_recoveries: 0,
        }
    }

    pub(crate) const fn generation(&self) -> u32 {
        self.generation
    }

    /// The generation whose calls the windows hold.
    pub(crate) const fn counted_generation(&self) -> u32 {
        self.counted_generation
    }

    pub(crate) const fn settings(&self) -> &Recovery {
        &self.settings
    }

    /// Recoveries that have failed; one is forgiven for each longest open time
    /// spent closed.
    pub(crate) fn failed_recoveries(&self, now: u64) -> u32 {
        let State::Closed { since } = self.state else {
            return self.failed_recoveries;
        };
        let healthy = now.saturating_sub(since) / nanos(self.settings.max_open_time).max(1);
        let forgiven = u32::try_from(healthy).unwrap_or(u32::MAX);
        self.failed_recoveries.saturating_sub(forgiven)
    }

    /// To be called before closed is left: what has been forgiven stays so.
    pub(crate) fn forgive(&mut self, now: u64) {
        self.failed_recoveries = self.failed_recoveries(now);
    }

    /// Uses other settings from now on; what is under way goes on: an open
    /// time that has begun, probes that are out, a ramp.
    pub(crate) const fn reconfigure(&mut self, settings: Recovery) {
        self.settings = settings;
    }

    /// The state as it was left, whatever the time.
    pub(crate) const fn kept_state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
            State::Recovering { .. } => BreakerState::Recovering,
            State::ForcedOpen { .. } => BreakerState::ForcedOpen,
            State::Disabled => BreakerState::Disabled,
        }
    }

    /// The state as a user sees it: what is due has happened.
    pub(crate) const fn state(&self, now: u64) -> BreakerState {
        match self.state {
            State::Open { until } if now >= until => BreakerState::HalfOpen,
            State::Recovering { ramp } if ramp.is_over(now) => BreakerState::Closed,
            _ => self.kept_state(),
        }
    }

    /// When an open breaker admits a probe.
    pub(crate) const fn open_until(&self) -> Option<u64> {
        match self.state {
            State::Open { until } => Some(until),
            _ => None,
        }
    }

    pub(crate) const fn is_forced(&self) -> bool {
        matches!(self.state, State::ForcedOpen { .. })
    }

    /// Why it was forced open.
    pub(crate) const fn forced_reason(&self) -> Option<Name> {
        match self.state {
            State::ForcedOpen { reason } => Some(reason),
            _ => None,
        }
    }

    /// Until when calls are refused without a look at the machine: the open
    /// time, or the lease while all probes are out.
    pub(crate) const fn shut(&self) -> Option<Admission> {
        match self.state {
            State::Open { until } => Some(Admission::Open { until }),
            State::HalfOpen {
                taken,
                successes,
                lease_over,
                ..
            } if taken >= self.settings.probes && successes < self.settings.successes => {
                Some(Admission::ProbesOut { lease_over })
            }
            _ => None,
        }
    }

    /// The share of the calls that is admitted, from 0 to 1.
    pub(crate) fn share(&self, now: u64) -> f64 {
        match &self.state {
            State::Recovering { ramp } => ramp.share(now),
            _ => 1.0,
        }
    }

    /// Asks for admission and takes a slot where one is needed.
    pub(crate) fn admit(&mut self, now: u64) -> (Admission, Option<Transition>) {
        match self.state {
            State::Closed { .. } | State::Disabled => (self.ticket(TicketKind::Counted), None),
            State::ForcedOpen { reason } => (Admission::Forced(reason), None),
            // Open -> HalfOpen: when the open time is over and a call comes.
            State::Open { until } if now >= until => {
                self.next_generation();
                self.enter_half_open(self.generation, now);
                let ticket = self.ticket(TicketKind::Probe);
                (ticket, Some(Transition::HalfOpened))
            }
            State::Open { until } => (Admission::Open { until }, None),
            // HalfOpen -> Recovering: when a call comes and the successes that
            // are asked for were changed to no more than there are.
            State::HalfOpen { successes, .. } if successes >= self.settings.successes => {
                let transition = self.recover(now);
                (self.admit(now).0, Some(transition))
            }
            State::HalfOpen {
                taken,
                lease_over,
                first_generation,
                ..
            } if taken >= self.settings.probes => {
                if now < lease_over {
                    return (Admission::ProbesOut { lease_over }, None);
                }
                // HalfOpen -> HalfOpen: when no probe came back within the
                // lease. The slots of the lost ones belong to a generation
                // that is over, so they cannot be given back twice.
                self.next_generation();
                self.enter_half_open(first_generation, now);
                (self.ticket(TicketKind::Probe), None)
            }
            State::HalfOpen {
                ref mut taken,
                ref mut lease_over,
                ..
            } => {
                *taken += 1;
                *lease_over = now.saturating_add(nanos(self.settings.probe_lease));
                (self.ticket(TicketKind::Probe), None)
            }
            // Recovering -> Closed: when the ramp is over and a call comes.
            State::Recovering { ramp } if ramp.is_over(now) => {
                let transition = self.close(now);
                (self.ticket(TicketKind::Counted), Some(transition))
            }
            State::Recovering { ref mut ramp } => {
                if ramp.admits(now) {
                    (self.ticket(TicketKind::Share), None)
                } else {
                    (Admission::OverShare, None)
                }
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
    ) -> Option<Transition> {
        let is_closed = matches!(self.state, State::Closed { .. });
        if !is_closed || generation != self.generation {
            return None;
        }
        self.forgive(now);
        Some(self.open(now, hint, draw))
    }

    /// Hears of a probe, or of a call of a recovery's share.
    pub(crate) fn heard(
        &mut self,
        ticket: Ticket,
        heard: Heard,
        now: u64,
        draw: f64,
    ) -> Option<Transition> {
        match self.state {
            State::HalfOpen { .. } if ticket.kind() == TicketKind::Probe => {
                self.probe_heard(ticket.generation(), heard, now, draw)
            }
            State::Recovering { ref mut ramp } if ticket.generation() == self.generation => {
                let failed = match heard {
                    Heard::Success => false,
                    Heard::Failure(_) => true,
                    Heard::Neutral | Heard::Dropped => return None,
                };
                // Recovering -> Open: when a sample of it fails.
                ramp.sample_fails(failed, &self.settings).then(|| {
                    self.failed_recoveries = self.failed_recoveries.saturating_add(1);
                    let hint = match heard {
                        Heard::Failure(hint) => hint,
                        _ => None,
                    };
                    self.open(now, hint, draw)
                })
            }
            _ => None,
        }
    }

    fn probe_heard(
        &mut self,
        generation: u32,
        heard: Heard,
        now: u64,
        draw: f64,
    ) -> Option<Transition> {
        let current = generation == self.generation;
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
        let same_period = generation.wrapping_sub(first_generation)
            <= self.generation.wrapping_sub(first_generation);
        let late_success = same_period && heard == Heard::Success;
        if !(current || late_success) {
            return None;
        }
        match heard {
            Heard::Success => {
                *successes += 1;
                *neutral = 0;
                // HalfOpen -> Recovering: when enough probes succeeded.
                (*successes >= self.settings.successes).then(|| self.recover(now))
            }
            Heard::Failure(hint) => {
                // HalfOpen -> Open: when a probe failed.
                self.failed_recoveries = self.failed_recoveries.saturating_add(1);
                Some(self.open(now, hint, draw))
            }
            Heard::Neutral => {
                *taken = taken.saturating_sub(1);
                *neutral += 1;
                // HalfOpen -> Recovering: when the dependency keeps answering,
                // though never with news of its health.
                (*neutral >= NEUTRAL_ANSWERS).then(|| self.recover(now))
            }
            Heard::Dropped => {
                *taken = taken.saturating_sub(1);
                None
            }
        }
    }

    /// Any -> `ForcedOpen`: by hand. Sticky: only [`reset`](Self::reset) and
    /// [`disable`](Self::disable) leave it.
    pub(crate) const fn force_open(&mut self, reason: Name) -> Transition {
        self.next_generation();
        self.state = State::ForcedOpen { reason };
        Transition::ForcedOpen { reason }
    }

    /// Any -> Disabled: by hand.
    pub(crate) const fn disable(&mut self) -> Transition {
        self.next_generation();
        self.counted_generation = self.generation;
        self.state = State::Disabled;
        Transition::Disabled
    }

    /// Any -> Closed: by hand, with nothing remembered.
    pub(crate) const fn reset(&mut self, now: u64) -> Transition {
        self.failed_recoveries = 0;
        self.close(now)
    }

    const fn ticket(&self, kind: TicketKind) -> Admission {
        Admission::Admitted(Ticket::new(self.generation, kind))
    }

    const fn next_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// A half-open generation with its first slot taken.
    fn enter_half_open(&mut self, first_generation: u32, now: u64) {
        self.state = State::HalfOpen {
            first_generation,
            taken: 1,
            successes: 0,
            neutral: 0,
            lease_over: now.saturating_add(nanos(self.settings.probe_lease)),
        };
    }

    fn open(&mut self, now: u64, hint: Option<Duration>, draw: f64) -> Transition {
        let open_for = open_time(self.failed_recoveries, hint, draw, &self.settings);
        self.next_generation();
        self.state = State::Open {
            until: now.saturating_add(nanos(open_for)),
        };
        Transition::Opened { open_for }
    }

    /// Recovering, or closed at once where there is no ramp.
    fn recover(&mut self, now: u64) -> Transition {
        let ramp = self.settings.ramp;
        if ramp.is_zero() {
            return self.close(now);
        }
        self.next_generation();
        self.state = State::Recovering {
            ramp: Ramp::new(now, &self.settings),
        };
        Transition::Recovering { ramp }
    }

    const fn close(&mut self, now: u64) -> Transition {
        self.next_generation();
        self.counted_generation = self.generation;
        self.state = State::Closed { since: now };
        Transition::Closed
    }
}

#[cfg(test)]
mod tests;
