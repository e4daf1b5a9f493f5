//! Wakes all readers of one body.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Stands between a body and the tasks that read from it, since a body
/// remembers only the last waker that it was polled with.
#[derive(Debug, Default)]
pub(super) struct Bell {
    waiting: Mutex<Vec<(u64, Waker)>>,
}

impl Bell {
    /// Has the task of reader `id` woken at the next ring. Gives back the waker
    /// that it had before, for the caller to drop where it holds no lock: the
    /// last waker of a task may drop the task, and another copy with it.
    #[must_use]
    pub(super) fn wait(&self, id: u64, waker: &Waker) -> Option<Waker> {
        let waker = waker.clone();
        let mut waiting = self.lock();
        if let Some((_, old)) = waiting.iter_mut().find(|(waits, _)| *waits == id) {
            return Some(std::mem::replace(old, waker));
        }
        waiting.push((id, waker));
        None
    }

    /// Forgets the reader `id`, which is being dropped.
    pub(super) fn forget(&self, id: u64) {
        let mut waiting = self.lock();
        let at = waiting.iter().position(|(waits, _)| *waits == id);
        let old = at.map(|at| waiting.swap_remove(at));
        drop(waiting);
        drop(old);
    }

    /// Wakes all that wait.
    pub(super) fn ring(&self) {
        let woken = std::mem::take(&mut *self.lock());
        for (_, waker) in woken {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Waker)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use tokio_test::task;

    use super::*;

    #[test]
    fn a_ring_wakes_each_waiting_reader_once_and_no_forgotten_one() {
        let bell = Arc::new(Bell::default());
        let mut tasks = [(); 3].map(|()| task::spawn(()));
        for (id, task) in (0..).zip(&mut tasks) {
            let old = task.enter(|cx, _| bell.wait(id, cx.waker()));
            assert!(old.is_none());
            let old = task.enter(|cx, _| bell.wait(id, cx.waker()));
            assert!(old.is_some());
        }
        assert_eq!(bell.lock().len(), 3);
        bell.forget(1);
        Waker::from(Arc::clone(&bell)).wake();
        assert_eq!([0, 1, 2].map(|n| tasks[n].is_woken()), [true, false, true]);
        assert!(bell.lock().is_empty());
        let mut task = task::spawn(());
        assert!(task.enter(|cx, _| bell.wait(3, cx.waker())).is_none());
        Waker::from(Arc::clone(&bell)).wake_by_ref();
        assert!(task.is_woken());
    }
}
