//! What comes of the calls that were admitted.

use std::time::Duration;

use super::super::door::{counts, generation_of};
use super::super::ticket::{Heard, Ticket, TicketKind};
use super::super::window::Call;
use super::Core;
use crate::classify::verdict::{Health, Verdict};
use crate::moment::Moment;
use crate::span::Span;
use crate::sync::Ordering;

/// How fresh a time has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// From some moment in the same poll.
    OfPoll,
    Exact,
}

impl Core {
    /// Hears that what was admitted at `started` was a success.
    ///
    /// `now` is asked only where the time is needed, and told whether a time
    /// from the same poll will do: it will not where somebody wants to know how
    /// long the call ran, which may have been busy all the while in this poll.
    #[inline(always)]
    pub(crate) fn record_success(
        &self,
        ticket: Ticket,
        started: Moment,
        mut now: impl FnMut(Precision) -> Moment,
    ) {
        let lasts = |timed| {
            // The time is taken while the period is known to last: later it
            // might be one at which the next has begun to count.
            let at = if timed {
                self.since_base(now(Precision::OfPoll))
            } else {
                0
            };
            let door = self.door.load(Ordering::Acquire);
            ticket.is_of(door).then_some(at)
        };
        let (plan, generation) = (&self.facts.plan, ticket.generation());
        let thresholds = || self.thresholds();
        match self
            .meter
            .success_unpaced(plan, thresholds, generation, lasts)
        {
            Some(false) => {}
            // Windows by number do without the time until they trip.
            Some(true) => self.trip_at(generation, now(Precision::OfPoll)),
            None => self.record_other_success(ticket, started, now(Precision::Exact)),
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
        self.record_success(ticket, started, |_| Moment::now());
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
    fn record_other_success(&self, ticket: Ticket, started: Moment, now: Moment) {
        if ticket.is_plain() {
            self.count_success(ticket, started, now);
        } else {
            self.record_at_machine(ticket, &Verdict::success(), started, now);
        }
    }

    /// Hears the verdict on what was admitted at `started`: never, where nobody
    /// asks how long it ran.
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
            Health::Ok => self.record_success(ticket, started, |_| now()),
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
            self.note_failure(now);
        }
        self.hear(ticket, heard, now);
    }

    /// Whether a call that ran since `started` is one that the breaker counts
    /// as slow.
    pub(crate) fn is_slow(&self, started: Moment, now: impl FnOnce() -> Moment) -> bool {
        self.measures_time() && self.thresholds().is_slow(now().span_since(started))
    }

    fn note_failure(&self, now: u64) {
        let failed = now.saturating_add(1);
        self.kept().last_failure.store(failed, Ordering::Relaxed);
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

    /// Counts an outcome of a closed period; it may open the breaker.
    #[cold]
    fn count_success(&self, ticket: Ticket, started: Moment, at: Moment) {
        if !self.is_current(ticket) {
            return;
        }
        let call = Call {
            generation: ticket.generation(),
            now: self.since_base(at),
            ran: at.span_since(started),
        };
        let plan = &self.facts.plan;
        if self.meter.success(plan, self.thresholds(), call) {
            self.trip(call.generation, call.now, None);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_failure(&self, ticket: Ticket, hint: Span, started: Moment, at: Moment) {
        if !self.is_current(ticket) {
            return;
        }
        let call = Call {
            generation: ticket.generation(),
            now: self.since_base(at),
            ran: at.span_since(started),
        };
        self.note_failure(call.now);
        let plan = &self.facts.plan;
        if self.meter.failure(plan, self.thresholds(), call) {
            self.trip(ticket.generation(), call.now, hint.get());
        }
    }

    /// Whether the closed period in which the ticket was given lasts.
    fn is_current(&self, ticket: Ticket) -> bool {
        let door = self.door.load(Ordering::Acquire);
        generation_of(door) == ticket.generation() && counts(door)
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
        self.trip(generation, self.since_base(at), None);
    }

    #[cold]
    fn trip(&self, generation: u32, now: u64, hint: Option<Duration>) {
        self.change(|machine| machine.trip(generation, now, hint, self.kept().draws.share()));
    }

    #[cold]
    fn hear(&self, ticket: Ticket, heard: Heard, now: u64) {
        self.change(|machine| machine.heard(ticket, heard, now, self.kept().draws.share()));
    }
}
