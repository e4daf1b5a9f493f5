//! One breaker's shared state: the machine behind a lock that only changes of
//! state take, and in front of it the words that every call reads.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::alarm::Alarms;
use super::config::BreakerConfig;
use super::door::{
    AJAR, CLOSED, DISABLED, DOOR_MASK, SHUT_OPEN, SHUT_PROBES, door_word, generation_of,
};
use super::in_flight::InFlight;
use super::news::{News, Seen, Told};
use super::rules::Rules;
use super::snapshot::BreakerSnapshot;
use super::state::{BreakerState, Machine};
use super::ticket::{Admission, Ticket, TicketKind, Transition};
use super::window::Meter;
use crate::config::ConfigError;
use crate::name::Name;
use crate::refusal::{Refusal, RefusalReason};
use crate::span::nanos;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::telemetry::Observer;

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
    name: Name,
    base: Instant,
    /// generation (32) | door (3)
    door: AtomicU64,
    /// Until when a shut door stays shut.
    shut_until: AtomicU64,
    /// The first open time: what those are told to wait who come while probes
    /// are out. Relaxed, as nothing else depends on it.
    open_nanos: AtomicU64,
    meter: Meter,
    in_flight: InFlight,
    /// When the last failure was heard, plus one; zero for never.
    last_failure: AtomicU64,
    machine: Mutex<Machine>,
    rules: Mutex<Rules>,
    news: News,
}

impl Core {
    pub(crate) fn new(name: Name, config: &BreakerConfig) -> Result<Self, ConfigError> {
        let rules = config.check()?;
        Ok(Self {
            name,
            base: Instant::now(),
            door: AtomicU64::new(door_word(0, CLOSED)),
            shut_until: AtomicU64::new(0),
            open_nanos: AtomicU64::new(nanos(rules.recovery.open_time)),
            meter: Meter::new(&rules),
            in_flight: InFlight::new(rules.concurrency_limit),
            last_failure: AtomicU64::new(0),
            machine: Mutex::new(Machine::new(rules.recovery)),
            rules: Mutex::new(rules),
            news: News::new(),
        })
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.name.as_str()
    }

    /// The settings, as last configured. For descriptions, not for calls.
    pub(crate) fn rules(&self) -> Rules {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The breaker's own word on when a dropped call counts.
    pub(crate) fn abandoned_after(&self) -> Option<Duration> {
        self.rules().abandoned_after
    }

    /// Whether anybody wants to know how long calls run.
    pub(crate) const fn measures_time(&self) -> bool {
        self.meter.counts_slow_calls()
    }

    /// Uses other settings and keeps the state and what has been counted.
    pub(crate) fn reconfigure(&self, config: &BreakerConfig) -> Result<(), ConfigError> {
        let rules = config.check()?;
        let mut kept = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        self.meter.reconfigure(&rules)?;
        self.in_flight.set_limit(rules.concurrency_limit);
        let mut machine = self.lock();
        machine.reconfigure(rules.recovery);
        let open_time = nanos(rules.recovery.open_time);
        self.open_nanos.store(open_time, Ordering::Relaxed);
        self.publish(&machine);
        *kept = rules;
        Ok(())
    }

    pub(crate) fn state(&self, now: Instant) -> BreakerState {
        self.lock().state(self.since_base(now))
    }

    pub(crate) fn snapshot(&self, now: Instant) -> BreakerSnapshot {
        let now = self.since_base(now);
        let machine = self.lock();
        let wait = |until: u64| Duration::from_nanos(until.saturating_sub(now));
        BreakerSnapshot {
            dependency: self.name(),
            state: machine.state(now),
            generation: machine.generation(),
            share: machine.share(now),
            failed_recoveries: machine.failed_recoveries(now),
            next_check: machine.open_until().map(wait),
            forced_reason: machine.forced_reason().map(Name::as_str),
            counts: self.meter.counts(now),
            in_flight: self.in_flight.now(),
        }
    }

    /// A receiver that is told of each new generation.
    pub(crate) fn watch(&self) -> watch::Receiver<u32> {
        self.news.watch(|| self.lock().generation())
    }

    /// Those who are woken at each change of state.
    pub(super) const fn alarms(&self) -> &Alarms {
        &self.news.alarms
    }

    /// Whether the door is shut for certain: a look for those who mean to ask
    /// for admission next. It leaves all else to the asking, because a recovery
    /// counts those who ask: turned away by looks alone, they would never add
    /// up to its share.
    #[inline]
    pub(crate) fn is_shut(&self, now: impl FnOnce() -> Instant) -> Result<(), Refusal> {
        let door = self.door.load(Ordering::Acquire);
        match door & DOOR_MASK {
            SHUT_OPEN | SHUT_PROBES => self.knock(door, self.since_base(now())),
            _ => Ok(()),
        }
    }

    /// A look without a reservation. `now` is asked only if the breaker is
    /// not closed.
    #[inline]
    pub(crate) fn would_admit(&self, now: impl FnOnce() -> Instant) -> Result<(), Refusal> {
        let door = self.door.load(Ordering::Acquire);
        if door & DOOR_MASK == CLOSED && !self.in_flight.is_limited() {
            return Ok(());
        }
        self.look(door, self.since_base(now()))
    }

    #[cold]
    fn look(&self, door: u64, now: u64) -> Result<(), Refusal> {
        self.knock(door, now)?;
        // A copy of the machine answers as it would, and is thrown away.
        let mut machine = self.lock().clone();
        if !machine.is_forced() && !self.in_flight.has_room(machine.share(now)) {
            return Err(self.refusal(RefusalReason::ConcurrencyLimit, None));
        }
        self.answer(machine.admit(now).0, now).map(drop)
    }

    /// Whether a door that is not closed stands to be asked at the machine.
    fn knock(&self, door: u64, now: u64) -> Result<(), Refusal> {
        let until = self.shut_until.load(Ordering::Acquire);
        let shut = match door & DOOR_MASK {
            SHUT_OPEN => Admission::Open { until },
            SHUT_PROBES => Admission::ProbesOut { lease_over: until },
            _ => return Ok(()),
        };
        if now < until {
            return self.answer(shut, now).map(drop);
        }
        Ok(())
    }

    /// Takes admission: to be answered by exactly one `record` or `give_up`.
    #[inline]
    pub(crate) fn admit(&self, now: impl FnOnce() -> Instant) -> Result<Ticket, Refusal> {
        let door = self.door.load(Ordering::Acquire);
        if door & DOOR_MASK == CLOSED && !self.in_flight.is_limited() {
            return Ok(Ticket {
                generation: generation_of(door),
                kind: TicketKind::Counted,
                placed: false,
            });
        }
        self.admit_at_machine(door, self.since_base(now()))
    }

    #[cold]
    fn admit_at_machine(&self, door: u64, now: u64) -> Result<Ticket, Refusal> {
        self.knock(door, now)?;
        let (admission, told) = {
            let mut machine = self.lock();
            let from = machine.kept_state();
            // The place first: a call that finds none must not use up a slot.
            // But whoever forced it open gave a reason, and that is the answer.
            let placed = if machine.is_forced() {
                Some(false)
            } else {
                self.in_flight.enter(machine.share(now))
            };
            let Some(placed) = placed else {
                return Err(self.refusal(RefusalReason::ConcurrencyLimit, None));
            };
            let (admission, transition) = machine.admit(now);
            if transition == Some(Transition::Closed) {
                self.begin_period(&machine);
            }
            self.publish(&machine);
            let admission = match admission {
                Admission::Admitted(ticket) => Admission::Admitted(Ticket { placed, ..ticket }),
                refused => {
                    self.in_flight.leave(placed);
                    refused
                }
            };
            (admission, self.note(transition, from, &machine))
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
                let open_time = self.open_nanos.load(Ordering::Relaxed);
                let wait = open_time.min(lease_over.saturating_sub(now));
                (RefusalReason::HalfOpen, Some(wait))
            }
            Admission::OverShare => {
                let ramp = nanos(self.lock().settings().ramp);
                (RefusalReason::Recovering, Some(ramp / 10))
            }
            Admission::Forced(note) => {
                let refusal = self.refusal(RefusalReason::ForcedOpen, None);
                return Err(refusal.noting(note));
            }
        };
        Err(self.refusal(reason, wait))
    }

    pub(crate) fn force_open(&self, reason: Name, now: Instant) {
        let now = self.since_base(now);
        self.change(|machine| {
            machine.forgive(now);
            Some(machine.force_open(reason))
        });
    }

    pub(crate) fn disable(&self, now: Instant) {
        let now = self.since_base(now);
        self.change(|machine| {
            machine.forgive(now);
            Some(machine.disable())
        });
    }

    pub(crate) fn reset(&self, now: Instant) {
        let now = self.since_base(now);
        self.change(|machine| Some(machine.reset(now)));
    }

    /// Changes the machine, shows the change at the door, and tells of it.
    fn change(&self, change: impl FnOnce(&mut Machine) -> Option<Transition>) {
        let told = {
            let mut machine = self.lock();
            let from = machine.kept_state();
            let transition = change(&mut machine);
            if matches!(transition, Some(Transition::Closed | Transition::Disabled)) {
                self.begin_period(&machine);
            }
            self.publish(&machine);
            self.note(transition, from, &machine)
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
    fn publish(&self, machine: &Machine) {
        let door = match machine.shut() {
            Some(Admission::Open { until }) => {
                self.shut_until.store(until, Ordering::Release);
                SHUT_OPEN
            }
            Some(Admission::ProbesOut { lease_over }) => {
                self.shut_until.store(lease_over, Ordering::Release);
                SHUT_PROBES
            }
            _ => match machine.kept_state() {
                BreakerState::Closed => CLOSED,
                BreakerState::Disabled => DISABLED,
                _ => AJAR,
            },
        };
        let word = door_word(machine.generation(), door);
        self.door.store(word, Ordering::Release);
    }

    /// Takes note of a change of state, under the lock, for those who listen.
    fn note(
        &self,
        transition: Option<Transition>,
        from: BreakerState,
        machine: &Machine,
    ) -> Option<Told> {
        transition.map(|transition| self.news.note(transition, from, machine.generation()))
    }

    /// Tells of a change of state, outside of the lock.
    fn tell(&self, told: Option<Told>) {
        if let Some(told) = told {
            self.news.tell(self.name(), &told);
        }
    }

    /// Lets an observer hear of all changes from now on.
    pub(super) fn observe(
        &self,
        observer: &Arc<dyn Observer>,
        key: Option<Box<str>>,
    ) -> Option<Seen> {
        let machine = self.lock();
        let state = machine.kept_state();
        self.news.add(observer, key, self.name(), state)
    }

    /// Says that it is no more, to those who observe it.
    pub(super) fn unobserve(&self) -> Option<Seen> {
        let state = || self.lock().kept_state();
        self.news.end(self.name(), state)
    }

    #[cfg(feature = "keyed")]
    pub(super) const fn news(&self) -> &News {
        &self.news
    }

    fn refusal(&self, reason: RefusalReason, wait: Option<u64>) -> Refusal {
        Refusal::new(self.name, reason, wait.map(Duration::from_nanos))
    }

    fn since_base(&self, now: Instant) -> u64 {
        nanos(now.saturating_duration_since(self.base))
    }

    /// No code of a user's runs under the lock, so a poisoned one holds a
    /// machine that is whole.
    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

mod outcome;

#[cfg(test)]
mod tests;

#[cfg(all(test, steadfast_loom))]
mod models;
