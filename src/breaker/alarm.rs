//! Tasks that want to be woken at a change of state.
//!
//! For a future that polls by hand and cannot hold a borrowing one, as that of
//! a [`BreakerWatch`](super::watch::BreakerWatch) is.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::handle::Breaker;

/// The alarms of one breaker.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    all: Mutex<Numbered>,
}

#[derive(Debug, Default)]
struct Numbered {
    next: u64,
    wakers: Vec<(u64, Waker)>,
}

impl Alarms {
    fn lock(&self) -> MutexGuard<'_, Numbered> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all, outside of the lock: a waker may run anything.
    pub(super) fn wake(&self) {
        let wakers: Vec<Waker> = {
            let all = self.lock();
            all.wakers.iter().map(|(_, waker)| waker.clone()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Wakes a task at each change of state, until dropped. Whoever looks at the
/// breaker after this was set misses none.
#[derive(Debug)]
pub(crate) struct Alarm {
    breaker: Breaker,
    number: u64,
}

impl Alarm {
    pub(super) fn new(breaker: Breaker, waker: &Waker) -> Self {
        let number = {
            let mut all = breaker.core().alarms().lock();
            let number = all.next;
            all.next = number.wrapping_add(1);
            all.wakers.push((number, waker.clone()));
            number
        };
        Self { breaker, number }
    }

    /// Wakes this one from now on.
    pub(crate) fn renew(&self, waker: &Waker) {
        let mut all = self.breaker.core().alarms().lock();
        let mut wakers = all.wakers.iter_mut();
        if let Some((_, kept)) = wakers.find(|(number, _)| *number == self.number) {
            kept.clone_from(waker);
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let gone = {
            let mut all = self.breaker.core().alarms().lock();
            let mut numbers = all.wakers.iter().map(|(number, _)| *number);
            let at = numbers.position(|number| number == self.number);
            at.map(|at| all.wakers.swap_remove(at))
        };
        drop(gone);
    }
}
