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
        let waker = waker.clone();
        let old = {
            let mut all = self.breaker.core().alarms().lock();
            let mut wakers = all.wakers.iter_mut();
            let kept = wakers.find(|(number, _)| *number == self.number);
            kept.map(|(_, kept)| std::mem::replace(kept, waker))
        };
        // Outside of the lock: the last waker of a task may drop the task, and
        // another alarm with it.
        drop(old);
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

#[cfg(test)]
mod tests {
    use tokio_test::task;

    use super::*;
    use crate::BreakerConfig;

    #[test]
    fn an_alarm_wakes_whom_it_was_last_set_for_until_it_is_dropped() {
        let breaker = Breaker::new("alarmed", BreakerConfig::default()).unwrap();
        let alarms = breaker.core().alarms();
        let mut tasks = [(); 3].map(|()| task::spawn(()));
        let waker =
            |n: usize, tasks: &mut [task::Spawn<()>; 3]| tasks[n].enter(|cx, _| cx.waker().clone());
        let first = Alarm::new(breaker.clone(), &waker(0, &mut tasks));
        let other = Alarm::new(breaker.clone(), &waker(1, &mut tasks));
        first.renew(&waker(2, &mut tasks));
        alarms.wake();
        assert_eq!([0, 1, 2].map(|n| tasks[n].is_woken()), [false, true, true]);

        drop(first);
        assert_eq!(alarms.lock().wakers.len(), 1);
        for n in 0..3 {
            waker(n, &mut tasks);
        }
        alarms.wake();
        assert_eq!([0, 1, 2].map(|n| tasks[n].is_woken()), [false, true, false]);
        drop(other);
        assert!(alarms.lock().wakers.is_empty());
    }
}
