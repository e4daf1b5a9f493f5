//! What all calls of a `Defer` share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::queue::{Look, Queue, Wakes};
use crate::breaker::handle::Breaker;
use crate::breaker::state::BreakerState;
use crate::deadline::instant_after;
use crate::draws::Draws;
use crate::refusal::{Refusal, RefusalReason};
use crate::stage::timer::TICK;

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) calls: usize,
    pub(super) longest: Duration,
    pub(super) seed: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Shared {
    settings: Settings,
    /// Places taken: calls that are parked, or were and are not over yet. A
    /// hint to those that only look; the bound itself is exact. Relaxed, since
    /// it guards nothing but itself.
    taken: AtomicUsize,
    queue: Mutex<Queue<Waker>>,
    draws: Draws,
}

impl Shared {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            taken: AtomicUsize::new(0),
            queue: Mutex::new(Queue::new()),
            draws: Draws::new(settings.seed),
        }
    }

    /// When a refused call should come back: at the breaker's next check, and up
    /// to a tenth later, as others wait for the same instant elsewhere; but
    /// before `end`. `None` if the check comes too late.
    pub(super) fn due(
        &self,
        refusal: &Refusal,
        now: Instant,
        end: Option<Instant>,
    ) -> Option<Instant> {
        let named = refusal.retry_after();
        let wait = named.unwrap_or(match refusal.reason() {
            RefusalReason::ForcedOpen => LOOK_AT_FORCED,
            _ => LOOK_AGAIN,
        });
        let check = instant_after(now, wait);
        let jittered = instant_after(check, (wait / 10).mul_f64(self.draws.share()));
        match end {
            // No sleep towards a check that it could not be there for in time.
            Some(end) if instant_after(check, TICK) > end => named.is_none().then_some(end),
            Some(end) if jittered >= end => Some(check),
            _ => Some(jittered),
        }
    }

    /// How long a call may be parked in all.
    pub(super) const fn longest(&self) -> Duration {
        self.settings.longest
    }

    /// How many places are taken.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a place, if there is one: how many are taken then.
    pub(super) fn take(&self) -> Option<usize> {
        let most = self.settings.calls;
        let more = |taken| (taken < most).then_some(taken + 1);
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|taken| taken + 1)
    }

    /// Gives one back: how many are taken then.
    pub(super) fn give_back(&self) -> usize {
        self.taken.fetch_sub(1, Ordering::Relaxed) - 1
    }

    /// Only plain values change under the lock, so that a poisoned one holds a
    /// queue that is whole.
    pub(super) fn queue(&self) -> MutexGuard<'_, Queue<Waker>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new call was admitted: a parked one may follow.
    pub(super) fn admitted(&self, breaker: &Breaker) {
        let (look, now) = (look(breaker).0, Instant::now());
        let wakes = {
            let mut queue = self.queue();
            queue.arrived(breaker.number(), now);
            queue.follow(breaker.number(), look, now)
        };
        wakes.wake();
    }
}

impl Wakes<Waker> {
    pub(super) fn wake(self) {
        let both = [self.released, self.first];
        both.into_iter().flatten().for_each(Waker::wake);
    }
}

/// What the breaker would say to a call, and its refusal where that would be
/// one.
pub(super) fn look(breaker: &Breaker) -> (Look, Option<Refusal>) {
    match breaker.would_admit() {
        Ok(()) if breaker.state() == BreakerState::HalfOpen => (Look::Probes, None),
        Ok(()) => (Look::Passes, None),
        // It counts those who ask, and without any would never come to the
        // next of its share.
        Err(refusal) if refusal.reason() == RefusalReason::Recovering => (Look::Passes, None),
        Err(refusal) => (Look::Shut, Some(refusal)),
    }
}

/// A breaker that cannot say when it will admit is looked at again after this
/// long: places come free without a word.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// One that was opened by hand says so when that is over.
const LOOK_AT_FORCED: Duration = Duration::from_secs(3600);
