//! What comes of the calls that were admitted.

#[cfg(feature = "keyed")]
use std::time::Duration;

use super::super::clock::Clock;
use super::super::door::{counts, generation_of};
use super::super::ticket::{Heard, Ticket, TicketKind};
use super::super::window::{Call, Period};
use super::Core;
use crate::classify::verdict::{Health, Verdict};
use crate::moment::Moment;
use crate::span::Span;
use crate::sync::Ordering;

/// A call that was admitted, and the period that it was admitted in.
struct Admitted<'a, C> {
    core: &'a Core,
    ticket: Ticket,
    clock: &'a mut C,
}

impl<C: Clock> Period for Admitted<'_, C> {
    #[inline(always)]
    fn now(&mut self) -> u64 {
        self.core.since_base(self.clock.of_poll())
    }

    #[inline(always)]
    fn lasts(&self) -> bool {
        self.ticket.is_of(self.core.door.load(Ordering::Acquire))
    }
}

impl Core {
    /// Hears that what was admitted at `started` was a success.
    #[inline(always)]
    pub(in super::super) fn record_success(
        &self,
        ticket: Ticket,
        started: Moment,
        clock: &mut impl Clock,
    ) {
        let (plan, generation) = (&self.facts.plan, ticket.generation());
        let mut period = Admitted {
            core: self,
            ticket,
            clock,
        };
        let thresholds = || self.thresholds();
        match self
            .meter
            .success_unpaced(plan, thresholds, generation, &mut period)
        {
            Some(false) => {}
            // Windows by number do without the time until they trip.
            Some(true) => self.trip_at(generation, clock.of_poll()),
            None => self.record_other_success(ticket, started, clock),
        }
    }

    /// As [`record_success`](Self::record_success), for a permit in somebody's
    /// hands: most of them find nothing to change where only a run of failures
    /// is counted.
    #[inline]
    pub(crate) fn succeed(&self, ticket: Ticket, started: Moment) {
        if !(ticket.is_plain() && self.meter.is_clear_run()) {
            self.count_permit(ticket, started);
        }
    }

    #[inline(never)]
    fn count_permit(&self, ticket: Ticket, started: Moment) {
        self.record_success(ticket, started, &mut Moment::now);
    }

    /// Hears that what was admitted at `started` failed.
    #[inline]
    pub(crate) fn fail(&self, ticket: Ticket, started: Moment) {
        let now = Moment::now();
        if ticket.is_plain() {
            self.count_failure(ticket, Span::NONE, started, now);
        } else {
            self.record_at_machine(ticket, &Verdict::transient(), started, now);
        }
    }

    /// One that is timed, or not plain, or not of this period.
    #[cold]
    #[inline(never)]
    fn record_other_success(&self, ticket: Ticket, started: Moment, clock: &mut impl Clock) {
        let now = if self.measures_time() {
            clock.exact()
        } else {
            clock.of_poll()
        };
        if ticket.is_plain() {
            self.count_success(ticket, started, now);
        } else {
            self.record_at_machine(ticket, &Verdict::success(), started, now);
        }
    }

    /// Hears the verdict on what was admitted at `started`: never, where nobody
    /// asks how long it ran.
    #[inline]
    pub(crate) fn record(
        &self,
        ticket: Ticket,
        verdict: &Verdict,
        started: Moment,
        mut now: impl FnMut() -> Moment,
    ) {
        if !ticket.is_plain() {
            return self.record_at_machine(ticket, verdict, started, now());
        }
        match verdict.health() {
            Health::Neutral => {}
            Health::Ok => self.record_success(ticket, started, &mut now),
            Health::Failing => self.count_failure(ticket, verdict.hint_span(), started, now()),
        }
    }

    #[cold]
    #[inline(never)]
    fn record_at_machine(&self, ticket: Ticket, verdict: &Verdict, started: Moment, now: Moment) {
        let kept = self.kept();
        kept.in_flight.leave(ticket.is_placed());
        if ticket.kind() == TicketKind::Counted {
            return match verdict.health() {
                Health::Neutral => {}
                Health::Ok => self.count_success(ticket, started, now),
                Health::Failing => self.count_failure(ticket, verdict.hint_span(), started, now),
            };
        }
        let slow = self.thresholds().is_slow(now.span_since(started));
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
            kept.note_failure(now);
        }
        self.hear(ticket, heard, now);
    }

    /// Whether a call that ran since `started` is one that the breaker counts
    /// as slow.
    pub(crate) fn is_slow(&self, started: Moment, now: impl FnOnce() -> Moment) -> bool {
        self.measures_time() && self.thresholds().is_slow(now().span_since(started))
    }

    /// Whether nothing is lost if it is forgotten: it is closed, and has not
    /// heard of a failure for that long.
    #[cfg(feature = "keyed")]
    pub(crate) fn is_forgettable(&self, now: Moment, idle: Duration) -> bool {
        let Some(kept) = self.kept.get() else {
            return true;
        };
        if self.state(now) != crate::BreakerState::Closed {
            return false;
        }
        match kept.last_failure.load(Ordering::Relaxed) {
            0 => true,
            failed => self.since_base(now).saturating_sub(failed) >= crate::span::nanos(idle),
        }
    }

    /// Counts a success of a closed period; it may open the breaker.
    #[cold]
    fn count_success(&self, ticket: Ticket, started: Moment, at: Moment) {
        let Some(call) = self.counted(ticket, started, at) else {
            return;
        };
        let plan = &self.facts.plan;
        if self.meter.success(plan, self.thresholds(), call) {
            self.trip(call.generation, call.now, Span::NONE);
        }
    }

    /// Counts a failure of a closed period; it may open the breaker.
    #[inline(never)]
    fn count_failure(&self, ticket: Ticket, hint: Span, started: Moment, at: Moment) {
        let Some(call) = self.counted(ticket, started, at) else {
            return;
        };
        let kept = self.kept();
        kept.note_failure(call.now);
        if self.meter.failure(&self.facts.plan, &kept.thresholds, call) {
            self.trip(call.generation, call.now, hint);
        }
    }

    /// What a window is told of the call, if the closed period in which its
    /// ticket was given lasts.
    #[inline]
    fn counted(&self, ticket: Ticket, started: Moment, at: Moment) -> Option<Call> {
        let (door, generation) = (self.door.load(Ordering::Acquire), ticket.generation());
        let lasts = ticket.is_of(door) || (generation_of(door) == generation && counts(door));
        lasts.then(|| Call {
            generation,
            now: self.since_base(at),
            ran: at.span_since(started),
        })
    }

    /// Gives back what was admitted and not driven to an end.
    #[inline]
    pub(crate) fn give_up(&self, ticket: Ticket) {
        if !ticket.is_plain() {
            self.give_back(ticket);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_back(&self, ticket: Ticket) {
        if ticket.is_placed() {
            self.kept().in_flight.leave(true);
        }
        if ticket.kind() != TicketKind::Counted {
            self.hear(ticket, Heard::Dropped, 0);
        }
    }

    #[cold]
    #[inline(never)]
    fn trip_at(&self, generation: u32, at: Moment) {
        self.trip(generation, self.since_base(at), Span::NONE);
    }

    #[cold]
    #[inline(never)]
    fn trip(&self, generation: u32, now: u64, hint: Span) {
        let hint = hint.get();
        self.change(|machine| machine.trip(generation, now, hint, self.kept().draws.share()));
    }

    #[cold]
    fn hear(&self, ticket: Ticket, heard: Heard, now: u64) {
        self.change(|machine| machine.heard(ticket, heard, now, self.kept().draws.share()));
    }
}
