//! One breaker's shared state: the machine behind a lock that only changes of
//! state take, and in front of it the words that every call reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::config::{BreakerConfig, Rules};
use super::state::{Admission, BreakerState, Machine, ProbeOutcome, Ticket, Transition, nanos};
use super::window::Meter;
use crate::classify::verdict::{Health, Verdict};
use crate::config::ConfigError;
use crate::refusal::{Refusal, RefusalReason};
use crate::telemetry::{Event, emit};

/// # Memory ordering
///
/// `door` and `closed_until` mirror the machine and are written only under its
/// lock, `closed_until` first, both with Release. Readers load `door` first
/// (Acquire). A reader may see an old door with a new time: it then refuses
/// for a little longer or takes the lock and asks the machine, never admits on
/// its own. Only a door that says closed admits without the lock, and a ticket
/// given so is void once the generation has changed.
#[derive(Debug)]
pub struct Core {
    name: &'static str,
    base: Instant,
    /// generation (32) | door (2)
    door: AtomicU64,
    /// Until when a shut door stays shut.
    shut_until: AtomicU64,
    meter: Meter,
    machine: Mutex<Machine>,
}

/// What stands before the machine.
const CLOSED: u64 = 0;
/// Open: refuse until `shut_until`.
const SHUT_OPEN: u64 = 1;
/// Probes are out: refuse until `shut_until`.
const SHUT_PROBES: u64 = 2;
/// Half-open with a slot to take: ask the machine.
const AJAR: u64 = 3;

const fn door_word(generation: u32, door: u64) -> u64 {
    (generation as u64) << 2 | door
}

impl Core {
    pub(crate) fn new(name: &'static str, config: &BreakerConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            name,
            base: Instant::now(),
            door: AtomicU64::new(door_word(0, CLOSED)),
            shut_until: AtomicU64::new(0),
            meter: Meter::new(config.check()?),
            machine: Mutex::new(Machine::new()),
        })
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) const fn rules(&self) -> &Rules {
        self.meter.rules()
    }

    pub(crate) fn state(&self, now: Instant) -> BreakerState {
        self.lock().state(self.since_base(now))
    }

    /// A look without a reservation. `now` is asked only if the breaker is
    /// not closed.
    #[inline]
    pub(crate) fn would_admit(&self, now: impl FnOnce() -> Instant) -> Result<(), Refusal> {
        let door = self.door.load(Ordering::Acquire);
        if door & 3 == CLOSED {
            return Ok(());
        }
        self.knock(door, self.since_base(now()))
    }

    /// Whether a door that is not closed stands to be asked at the machine.
    fn knock(&self, door: u64, now: u64) -> Result<(), Refusal> {
        let until = self.shut_until.load(Ordering::Acquire);
        match door & 3 {
            SHUT_OPEN if now < until => Err(self.refusal(RefusalReason::Open, until - now)),
            SHUT_PROBES if now < until => Err(self.probes_out(until, now)),
            _ => Ok(()),
        }
    }

    /// Takes admission: to be answered by exactly one `record` or `give_up`.
    #[inline]
    pub(crate) fn admit(&self, now: impl FnOnce() -> Instant) -> Result<Ticket, Refusal> {
        let door = self.door.load(Ordering::Acquire);
        if door & 3 == CLOSED {
            return Ok(Ticket {
                generation: generation_of(door),
                probe: false,
            });
        }
        self.admit_at_machine(door, self.since_base(now()))
    }

    #[cold]
    fn admit_at_machine(&self, door: u64, now: u64) -> Result<Ticket, Refusal> {
        self.knock(door, now)?;
        let (admission, transition) = {
            let mut machine = self.lock();
            let answer = machine.admit(now, &self.rules().recovery);
            self.publish(&machine);
            answer
        };
        match admission {
            Admission::Admitted(ticket) => {
                // A listener that panics must not take the slot with it.
                let unwinding = GiveUp { core: self, ticket };
                self.tell(transition);
                std::mem::forget(unwinding);
                Ok(ticket)
            }
            Admission::Open { until } => {
                Err(self.refusal(RefusalReason::Open, until.saturating_sub(now)))
            }
            Admission::ProbesOut { lease_over } => Err(self.probes_out(lease_over, now)),
        }
    }

    /// Hears the verdict on what was admitted.
    #[inline]
    pub(crate) fn record(&self, ticket: Ticket, verdict: &Verdict, now: impl FnOnce() -> Instant) {
        if ticket.probe {
            let outcome = match verdict.health() {
                Health::Ok => ProbeOutcome::Success,
                Health::Failing => ProbeOutcome::Failure(verdict.hint()),
                Health::Neutral if verdict.is_answer() => ProbeOutcome::Neutral,
                // Cut short by the caller, or shed before it was sent: that
                // the dependency is there at all is not known either.
                Health::Neutral => ProbeOutcome::Dropped,
            };
            return self.probed(ticket, outcome, now());
        }
        let period = self.meter.period(ticket.generation);
        if self.door.load(Ordering::Acquire) != door_word(ticket.generation, CLOSED) {
            return;
        }
        let tripped = match verdict.health() {
            Health::Neutral => return,
            Health::Ok if self.meter.needs_time() => {
                let now = self.since_base(now());
                self.meter.success(period, now).then_some(now)
            }
            Health::Ok => {
                let tripped = self.meter.success(period, 0);
                tripped.then(|| self.since_base(now()))
            }
            Health::Failing => {
                let now = self.since_base(now());
                self.meter.failure(period, now).then_some(now)
            }
        };
        if let Some(now) = tripped {
            self.trip(ticket.generation, now, verdict.hint());
        }
    }

    /// Gives back what was admitted and not driven to an end.
    #[inline]
    pub(crate) fn give_up(&self, ticket: Ticket) {
        if ticket.probe {
            self.probed(ticket, ProbeOutcome::Dropped, self.base);
        }
    }

    #[cold]
    fn trip(&self, generation: u32, now: u64, hint: Option<Duration>) {
        let transition = {
            let mut machine = self.lock();
            let recovery = &self.rules().recovery;
            let transition = machine.trip(generation, now, hint, rand::random(), recovery);
            self.publish(&machine);
            transition
        };
        self.tell(transition);
    }

    #[cold]
    fn probed(&self, ticket: Ticket, outcome: ProbeOutcome, now: Instant) {
        let now = self.since_base(now);
        let transition = {
            let mut machine = self.lock();
            let recovery = &self.rules().recovery;
            let transition = machine.probed(ticket, outcome, now, rand::random(), recovery);
            if let Some(Transition::Closed { generation }) = transition {
                self.meter.begin_period(generation);
            }
            self.publish(&machine);
            transition
        };
        self.tell(transition);
    }

    /// Shows the machine's state at the door.
    fn publish(&self, machine: &Machine) {
        let door = match machine.closed_door(&self.rules().recovery) {
            Some(Admission::Open { until }) => {
                self.shut_until.store(until, Ordering::Release);
                SHUT_OPEN
            }
            Some(Admission::ProbesOut { lease_over }) => {
                self.shut_until.store(lease_over, Ordering::Release);
                SHUT_PROBES
            }
            Some(Admission::Admitted(_)) | None if machine.is_closed() => CLOSED,
            Some(Admission::Admitted(_)) | None => AJAR,
        };
        let word = door_word(machine.generation(), door);
        self.door.store(word, Ordering::Release);
    }

    /// Tells of a change of state, outside of the lock.
    fn tell(&self, transition: Option<Transition>) {
        let dependency = self.name;
        let Some(transition) = transition else { return };
        emit(&match transition {
            Transition::Opened {
                generation,
                open_for,
            } => Event::BreakerOpened {
                dependency,
                generation,
                open_for,
            },
            Transition::HalfOpened { generation } => Event::BreakerHalfOpen {
                dependency,
                generation,
            },
            Transition::Closed { generation } => Event::BreakerClosed {
                dependency,
                generation,
            },
        });
    }

    fn refusal(&self, reason: RefusalReason, wait: u64) -> Refusal {
        Refusal::new(self.name, reason, Some(Duration::from_nanos(wait)))
    }

    fn probes_out(&self, lease_over: u64, now: u64) -> Refusal {
        let open_time = nanos(self.rules().recovery.open_time);
        let wait = open_time.min(lease_over.saturating_sub(now));
        self.refusal(RefusalReason::HalfOpen, wait)
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

#[expect(clippy::cast_possible_truncation, reason = "takes the word apart")]
const fn generation_of(door: u64) -> u32 {
    (door >> 2) as u32
}
