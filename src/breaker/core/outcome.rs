//! What comes of the calls that were admitted.

use std::time::Duration;

use tokio::time::Instant;

use super::super::door::{CLOSED, DISABLED, DOOR_MASK, generation_of};
use super::super::ticket::{Heard, Ticket, TicketKind};
use super::super::window::Call;
use super::Core;
use crate::classify::verdict::{Health, Verdict};
use crate::sync::Ordering;

impl Core {
    /// Hears that what was admitted at `started` was a success.
    #[inline]
    pub(crate) fn record_success(
        &self,
        ticket: Ticket,
        started: Option<Instant>,
        now: impl FnOnce() -> Instant,
    ) {
        self.record(ticket, &Verdict::success(), started, now);
    }

    /// Hears the verdict on what was admitted at `started`.
    #[inline]
    pub(crate) fn record(
        &self,
        ticket: Ticket,
        verdict: &Verdict,
        started: Option<Instant>,
        now: impl FnOnce() -> Instant,
    ) {
        if ticket.kind != TicketKind::Counted || ticket.placed {
            return self.record_at_machine(ticket, verdict, started, now());
        }
        self.count(ticket, verdict, started, now);
    }

    #[cold]
    fn record_at_machine(
        &self,
        ticket: Ticket,
        verdict: &Verdict,
        started: Option<Instant>,
        now: Instant,
    ) {
        self.in_flight.leave(ticket.placed);
        if ticket.kind == TicketKind::Counted {
            return self.count(ticket, verdict, started, || now);
        }
        let slow = self.meter.is_slow(ran(started, now));
        let heard = match verdict.health() {
            Health::Ok if slow => Heard::Failure(None),
            Health::Ok => Heard::Success,
            Health::Failing => Heard::Failure(verdict.hint()),
            Health::Neutral if verdict.is_answer() => Heard::Neutral,
            // Cut short by the caller, or shed before it was sent: that the
            // dependency is there at all is not known either.
            Health::Neutral => Heard::Dropped,
        };
        let now = self.since_base(now);
        if matches!(heard, Heard::Failure(_)) {
            self.note_failure(now);
        }
        self.hear(ticket, heard, now);
    }

    /// Whether a call that ran since `started` is one that the breaker counts
    /// as slow.
    pub(crate) fn is_slow(&self, started: Option<Instant>, now: impl FnOnce() -> Instant) -> bool {
        self.meter.counts_slow_calls() && self.meter.is_slow(ran(started, now()))
    }

    fn note_failure(&self, now: u64) {
        self.last_failure
            .store(now.saturating_add(1), Ordering::Relaxed);
    }

    /// Whether nothing is lost if it is forgotten: it is closed, and has not
    /// heard of a failure for that long.
    #[cfg(feature = "keyed")]
    pub(crate) fn is_forgettable(&self, now: Instant, idle: Duration) -> bool {
        if self.state(now) != crate::BreakerState::Closed {
            return false;
        }
        match self.last_failure.load(Ordering::Relaxed) {
            0 => true,
            failed => self.since_base(now).saturating_sub(failed) >= crate::span::nanos(idle),
        }
    }

    /// Counts an outcome of a closed period; it may open the breaker.
    #[inline]
    fn count(
        &self,
        ticket: Ticket,
        verdict: &Verdict,
        started: Option<Instant>,
        now: impl FnOnce() -> Instant,
    ) {
        if verdict.health() == Health::Neutral {
            return;
        }
        let failed = verdict.health() == Health::Failing;
        // Nothing but a window of time or slowness needs the clock, and of
        // what does not trip. The time is taken while the period is known to
        // last: later it might be one at which the next has begun to count.
        let mut now = Some(now);
        let mut at = None;
        if failed || self.meter.needs_time() {
            at = now.take().map(|now| now());
        }
        let period = self.meter.period(ticket.generation);
        let door = self.door.load(Ordering::Acquire);
        let is_current = generation_of(door) == ticket.generation
            && matches!(door & DOOR_MASK, CLOSED | DISABLED);
        if !is_current {
            return;
        }
        let call = Call {
            period,
            now: at.map_or(0, |at| self.since_base(at)),
            failed,
            ran: match at {
                Some(at) if self.meter.counts_slow_calls() => ran(started, at),
                _ => Duration::ZERO,
            },
        };
        if failed {
            self.note_failure(call.now);
        }
        if self.meter.trips(call) {
            let at = at.or_else(|| now.map(|now| now()));
            let at = at.map_or(call.now, |at| self.since_base(at));
            self.trip(ticket.generation, at, verdict.hint());
        }
    }

    /// Gives back what was admitted and not driven to an end.
    #[inline]
    pub(crate) fn give_up(&self, ticket: Ticket) {
        self.in_flight.leave(ticket.placed);
        if ticket.kind != TicketKind::Counted {
            self.hear(ticket, Heard::Dropped, 0);
        }
    }

    #[cold]
    fn trip(&self, generation: u32, now: u64, hint: Option<Duration>) {
        self.change(|machine| machine.trip(generation, now, hint, rand::random()));
    }

    #[cold]
    fn hear(&self, ticket: Ticket, heard: Heard, now: u64) {
        self.change(|machine| machine.heard(ticket, heard, now, rand::random()));
    }
}

fn ran(started: Option<Instant>, now: Instant) -> Duration {
    started.map_or(Duration::ZERO, |started| {
        now.saturating_duration_since(started)
    })
}
