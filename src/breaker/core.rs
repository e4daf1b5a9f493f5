//! One breaker's shared state: the machine behind a lock that only changes of
//! state take, and in front of it the words that every call reads.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::alarm::Alarms;
use super::config::BreakerConfig;
use super::door::{
    AJAR, ATTENDED, CLOSED, DISABLED, DOOR_MASK, SHUT_OPEN, SHUT_PROBES, door_word, is_shut,
};
#[cfg(feature = "keyed")]
use super::news::Listeners;
use super::news::{Seen, Told};
use super::rules::Rules;
use super::snapshot::BreakerSnapshot;
use super::state::{BreakerState, Machine};
use super::ticket::{Admission, Ticket, Transition};
use super::window::{Meter, Thresholds};
use crate::config::ConfigError;
use crate::moment::Moment;
use crate::name::Name;
use crate::refusal::{Refusal, RefusalReason};
use crate::span::{Span, nanos};
use crate::sync::{AtomicU64, OnceLock, Ordering};
use crate::telemetry::Observer;

mod facts;
#[cfg(feature = "test-util")]
mod forced;
mod kept;
mod outcome;

pub(crate) use facts::Facts;
use kept::Kept;

/// Of a breaker that has never failed there is the door, the counts, and what
/// it shares with others of its registry: 64 bytes, and those of a window.
///
/// # Memory ordering
///
/// `door` and `shut_until` mirror the machine and are written only under its
/// lock, `shut_until` first, both with Release. A new period of the windows
/// begins after the door has shown its generation, with Release too, and
/// before the door lets anybody into it. Readers load `door` first
/// (Acquire). A reader may see an old door with a new time: it then refuses
/// for a little longer or takes the lock and asks the machine, never admits on
/// its own. Only a door that says closed admits without the lock, and a ticket
/// given so is void once the generation has changed.
#[derive(Debug)]
pub(crate) struct Core {
    facts: Arc<Facts>,
    /// generation (32) | door (4)
    door: AtomicU64,
    meter: Meter,
    kept: OnceLock<Box<Kept>>,
}

impl Core {
    pub(crate) fn new(facts: Arc<Facts>) -> Self {
        let door = match facts.rules.concurrency_limit {
            None => CLOSED,
            Some(_) => ATTENDED,
        };
        Self {
            door: AtomicU64::new(door_word(0, door)),
            meter: Meter::new(&facts.plan),
            kept: OnceLock::new(),
            facts,
        }
    }

    #[inline]
    fn kept(&self) -> &Kept {
        match self.kept.get() {
            Some(kept) => kept,
            None => self.begin_to_keep(),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_to_keep(&self) -> &Kept {
        let make = || Box::new(Kept::new(&self.facts));
        self.kept.get_or_init(make)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.facts.name.as_str()
    }

    /// The settings, as last configured. For descriptions, not for calls.
    pub(crate) fn rules(&self) -> Rules {
        let kept = self.kept.get();
        let own = kept.and_then(|kept| kept.rules().as_deref().copied());
        own.unwrap_or(self.facts.rules)
    }

    /// The breaker's own word on when a dropped call counts.
    pub(crate) fn abandoned_after(&self) -> Option<Duration> {
        self.rules().abandoned_after
    }

    /// Whether anybody wants to know how long calls run.
    pub(crate) fn measures_time(&self) -> bool {
        self.facts.plan.counts_slow_calls()
    }

    fn thresholds(&self) -> &Thresholds {
        match self.kept.get() {
            Some(kept) => &kept.thresholds,
            None => &self.facts.thresholds,
        }
    }

    /// Uses other settings and keeps the state and what has been counted.
    pub(crate) fn reconfigure(&self, config: &BreakerConfig) -> Result<(), ConfigError> {
        let rules = config.check()?;
        self.facts.plan.check(&rules)?;
        let kept = self.kept();
        let mut own = kept.rules();
        kept.thresholds.set(&rules);
        kept.in_flight.set_limit(rules.concurrency_limit);
        let mut machine = kept.lock();
        machine.reconfigure(rules.recovery);
        let open_time = nanos(rules.recovery.open_time);
        kept.open_nanos.store(open_time, Ordering::Relaxed);
        self.publish(kept, &machine);
        *own = Some(Box::new(rules));
        Ok(())
    }

    /// The machine as it is, or as it would begin.
    fn look_at<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        match self.kept.get() {
            Some(kept) => look(&kept.lock()),
            None => look(&Machine::new(self.facts.rules.recovery)),
        }
    }

    pub(crate) fn state(&self, now: Moment) -> BreakerState {
        let now = self.since_base(now);
        self.look_at(|machine| machine.state(now))
    }

    pub(crate) fn snapshot(&self, now: Moment) -> BreakerSnapshot {
        let now = self.since_base(now);
        let in_flight = self.kept.get().map_or(0, |kept| kept.in_flight.now());
        let wait = |until: u64| Duration::from_nanos(until.saturating_sub(now));
        self.look_at(|machine| BreakerSnapshot {
            dependency: self.name(),
            state: machine.state(now),
            generation: machine.generation(),
            share: machine.share(now),
            failed_recoveries: machine.failed_recoveries(now),
            next_check: machine.open_until().map(wait),
            forced_reason: machine.forced_reason().map(Name::as_str),
            counts: self
                .meter
                .counts(&self.facts.plan, machine.counted_generation(), now),
            in_flight,
        })
    }

    /// A receiver that is told of each new generation.
    pub(crate) fn watch(&self) -> watch::Receiver<u32> {
        let kept = self.kept();
        kept.news.watch(|| kept.lock().generation())
    }

    /// Those who are woken at each change of state.
    pub(super) fn alarms(&self) -> &Alarms {
        &self.kept().news.alarms
    }

    /// Whether the door is shut for certain: a look for those who mean to ask
    /// for admission next. It leaves all else to the asking, because a recovery
    /// counts those who ask: turned away by looks alone, they would never add
    /// up to its share.
    #[inline]
    pub(crate) fn is_shut(&self, now: impl FnOnce() -> Moment) -> Result<(), Refusal> {
        let door = self.door.load(Ordering::Acquire);
        if is_shut(door) {
            return self.knock(door, self.since_base(now()));
        }
        Ok(())
    }

    /// A look without a reservation. `now` is asked only if the breaker is
    /// not closed.
    #[inline]
    pub(crate) fn would_admit(&self, now: impl FnOnce() -> Moment) -> Result<(), Refusal> {
        let door = self.door.load(Ordering::Acquire);
        if door & DOOR_MASK == CLOSED {
            return Ok(());
        }
        self.look(door, self.since_base(now()))
    }

    #[cold]
    fn look(&self, door: u64, now: u64) -> Result<(), Refusal> {
        self.knock(door, now)?;
        let kept = self.kept();
        // A copy of the machine answers as it would, and is thrown away.
        let mut machine = kept.lock().clone();
        if !machine.is_forced() && !kept.in_flight.has_room(machine.share(now)) {
            return Err(self.refusal(RefusalReason::ConcurrencyLimit, None));
        }
        self.answer(machine.admit(now).0, now).map(drop)
    }

    /// Whether a door that is not closed stands to be asked at the machine.
    fn knock(&self, door: u64, now: u64) -> Result<(), Refusal> {
        if !is_shut(door) {
            return Ok(());
        }
        let until = self.kept().shut_until.load(Ordering::Acquire);
        if now >= until {
            return Ok(());
        }
        if door & DOOR_MASK == SHUT_OPEN {
            return Err(self.refusal(RefusalReason::Open, Some(until - now)));
        }
        let out = Admission::ProbesOut { lease_over: until };
        self.answer(out, now).map(drop)
    }

    /// Takes admission: to be answered by exactly one `record` or `give_up`.
    #[inline]
    pub(crate) fn admit(&self, now: impl FnOnce() -> Moment) -> Result<Ticket, Refusal> {
        let door = self.door.load(Ordering::Acquire);
        if let Some(ticket) = Ticket::plain(door) {
            return Ok(ticket);
        }
        self.admit_at_machine(door, self.since_base(now()))
    }

    #[cold]
    fn admit_at_machine(&self, door: u64, now: u64) -> Result<Ticket, Refusal> {
        self.knock(door, now)?;
        let kept = self.kept();
        let (admission, told) = {
            let mut machine = kept.lock();
            let from = machine.kept_state();
            // The place first: a call that finds none must not use up a slot.
            // But whoever forced it open gave a reason, and that is the answer.
            let placed = if machine.is_forced() {
                Some(false)
            } else {
                kept.in_flight.enter(machine.share(now))
            };
            let Some(placed) = placed else {
                return Err(self.refusal(RefusalReason::ConcurrencyLimit, None));
            };
            let (admission, transition) = machine.admit(now);
            if transition == Some(Transition::Closed) {
                self.begin_period(&machine);
            }
            self.publish(kept, &machine);
            let admission = match admission {
                Admission::Admitted(ticket) => Admission::Admitted(ticket.placed(placed)),
                refused => {
                    kept.in_flight.leave(placed);
                    refused
                }
            };
            (admission, note(kept, transition, from, &machine))
        };
        let ticket = self.answer(admission, now)?;
        // A listener that panics must not take the slot with it.
        let unwinding = GiveUp { core: self, ticket };
        self.tell(told);
        std::mem::forget(unwinding);
        Ok(ticket)
    }

    /// The machine's answer as the caller gets it.
    fn answer(&self, admission: Admission, now: u64) -> Result<Ticket, Refusal> {
        let (reason, wait) = match admission {
            Admission::Admitted(ticket) => return Ok(ticket),
            Admission::Open { until } => (RefusalReason::Open, Some(until.saturating_sub(now))),
            Admission::ProbesOut { lease_over } => {
                let open_time = self.kept().open_nanos.load(Ordering::Relaxed);
                let wait = open_time.min(lease_over.saturating_sub(now));
                (RefusalReason::HalfOpen, Some(wait))
            }
            Admission::OverShare => {
                let ramp = nanos(self.kept().lock().settings().ramp);
                (RefusalReason::Recovering, Some(ramp / 10))
            }
            Admission::Forced(note) => {
                let refusal = self.refusal(RefusalReason::ForcedOpen, None);
                return Err(refusal.noting(note));
            }
        };
        Err(self.refusal(reason, wait))
    }

    pub(crate) fn force_open(&self, reason: Name, now: Moment) {
        let now = self.since_base(now);
        self.change(|machine| {
            machine.forgive(now);
            Some(machine.force_open(reason))
        });
    }

    pub(crate) fn disable(&self, now: Moment) {
        let now = self.since_base(now);
        self.change(|machine| {
            machine.forgive(now);
            Some(machine.disable())
        });
    }

    pub(crate) fn reset(&self, now: Moment) {
        let now = self.since_base(now);
        self.change(|machine| Some(machine.reset(now)));
    }

    /// Changes the machine, shows the change at the door, and tells of it.
    fn change(&self, change: impl FnOnce(&mut Machine) -> Option<Transition>) {
        let kept = self.kept();
        let told = {
            let mut machine = kept.lock();
            let from = machine.kept_state();
            let transition = change(&mut machine);
            if matches!(transition, Some(Transition::Closed | Transition::Disabled)) {
                self.begin_period(&machine);
            }
            self.publish(kept, &machine);
            note(kept, transition, from, &machine)
        };
        self.tell(told);
    }

    /// Begins to count for a new generation. The door shows the generation
    /// first, and sends whoever asks to the lock: so an outcome that finds the
    /// windows in the new period finds its own period over as well.
    fn begin_period(&self, machine: &Machine) {
        let generation = machine.generation();
        self.door
            .store(door_word(generation, AJAR), Ordering::Release);
        self.meter.begin_period(generation);
    }

    /// Shows the machine's state at the door.
    fn publish(&self, kept: &Kept, machine: &Machine) {
        let door = match machine.shut() {
            Some(Admission::Open { until }) => {
                kept.shut_until.store(until, Ordering::Release);
                SHUT_OPEN
            }
            Some(Admission::ProbesOut { lease_over }) => {
                kept.shut_until.store(lease_over, Ordering::Release);
                SHUT_PROBES
            }
            _ => match machine.kept_state() {
                BreakerState::Closed if kept.in_flight.is_limited() => ATTENDED,
                BreakerState::Closed => CLOSED,
                BreakerState::Disabled => DISABLED,
                _ => AJAR,
            },
        };
        let word = door_word(machine.generation(), door);
        self.door.store(word, Ordering::Release);
    }

    /// Tells of a change of state, outside of the lock.
    fn tell(&self, told: Option<Told>) {
        if let Some(told) = told {
            self.kept().news.tell(self.name(), &told);
        }
    }

    /// Lets an observer hear of all changes from now on.
    pub(super) fn observe(
        &self,
        observer: &Arc<dyn Observer>,
        key: Option<Box<str>>,
    ) -> Option<Seen> {
        let kept = self.kept();
        let machine = kept.lock();
        let state = machine.kept_state();
        kept.news.add(observer, key, self.name(), state)
    }

    /// Lets all of a registry's observers hear of it from the start. For a
    /// breaker that nobody else has a handle of yet.
    #[cfg(feature = "keyed")]
    pub(super) fn begin_observed(&self, listeners: Listeners) -> Seen {
        self.kept().news.begin(self.name(), listeners)
    }

    /// Says that it is no more, to those who observe it.
    pub(super) fn unobserve(&self) -> Option<Seen> {
        let kept = self.kept.get()?;
        let state = || kept.lock().kept_state();
        kept.news.end(self.name(), state)
    }

    /// In nanoseconds since the breaker, or its registry, was made.
    #[inline]
    fn since_base(&self, now: Moment) -> u64 {
        now.nanos().saturating_sub(self.facts.base.nanos())
    }

    fn refusal(&self, reason: RefusalReason, wait: Option<u64>) -> Refusal {
        Refusal::new(self.facts.name, reason, Span::of_nanos(wait))
    }
}

/// Takes note of a change of state, under the lock, for those who listen.
fn note(
    kept: &Kept,
    transition: Option<Transition>,
    from: BreakerState,
    machine: &Machine,
) -> Option<Told> {
    transition.map(|transition| kept.news.note(transition, from, machine.generation()))
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(seen) = self.unobserve() {
            seen.tell();
        }
    }
}

/// Gives the ticket back when dropped.
struct GiveUp<'a> {
    core: &'a Core,
    ticket: Ticket,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        self.core.give_up(self.ticket);
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, steadfast_loom))]
mod models;
