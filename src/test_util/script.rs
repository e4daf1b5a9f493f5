//! What all clones of a scripted service share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::call::ScriptedCall;
use super::step::Step;

pub(super) struct Script<Req, Res, E> {
    plan: Mutex<Plan<Req, Res, E>>,
    pub(super) tally: Arc<Tally>,
}

pub(super) struct Plan<Req, Res, E> {
    steps: VecDeque<Step<Req, Res, E>>,
    rest: Option<Step<Req, Res, E>>,
    /// How many calls the script has ever been good for.
    planned: usize,
    /// How often the script was switched.
    edition: usize,
    pub(super) recorded: Vec<ScriptedCall<Req>>,
}

/// Calls by what became of them. Relaxed: each number stands alone.
#[derive(Debug, Default)]
pub(super) struct Tally {
    arrived: AtomicUsize,
    ended: AtomicUsize,
    dropped: AtomicUsize,
}

impl Tally {
    pub(super) fn arrive(&self) -> usize {
        self.arrived.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn drop_early(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn arrived(&self) -> usize {
        self.arrived.load(Ordering::Relaxed)
    }

    pub(super) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn in_flight(&self) -> usize {
        // What is over first: a call that ends in between is not missed then.
        let over = self.ended.load(Ordering::Relaxed) + self.dropped();
        self.arrived().saturating_sub(over)
    }
}

impl<Req, Res, E> Script<Req, Res, E> {
    pub(super) fn new() -> Self {
        Self {
            plan: Mutex::new(Plan {
                steps: VecDeque::new(),
                rest: None,
                planned: 0,
                edition: 0,
                recorded: Vec::new(),
            }),
            tally: Arc::default(),
        }
    }

    /// No code of a user's runs under the lock.
    pub(super) fn plan(&self) -> MutexGuard<'_, Plan<Req, Res, E>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step that was taken off the script for one call.
pub(super) struct Taken<Req, Res, E> {
    pub(super) step: Step<Req, Res, E>,
    /// Of which script it is one; none for what follows a script for ever.
    edition: Option<usize>,
}

impl<Req, Res, E> Plan<Req, Res, E> {
    pub(super) fn append(&mut self, step: Step<Req, Res, E>) {
        self.planned = self.planned.saturating_add(step.times);
        if step.times > 0 {
            self.steps.push_back(step);
        }
    }

    pub(super) fn append_rest(&mut self, step: Step<Req, Res, E>) {
        self.rest = Some(step);
    }

    /// Forgets what is left of the script.
    pub(super) fn clear(&mut self) {
        self.planned = self.planned.saturating_sub(self.remaining());
        self.steps.clear();
        self.edition += 1;
    }

    pub(super) const fn planned(&self) -> usize {
        self.planned
    }

    pub(super) fn remaining(&self) -> usize {
        let times = self.steps.iter().map(|step| step.times);
        times.fold(0, usize::saturating_add)
    }

    /// The step of the next call; none when the script is over.
    pub(super) fn take(&mut self) -> Option<Taken<Req, Res, E>> {
        let edition = (!self.steps.is_empty()).then_some(self.edition);
        let step = match self.steps.front_mut() {
            Some(first) if first.times > 1 => {
                first.times -= 1;
                first.clone().times(1)
            }
            Some(_) => self.steps.pop_front()?,
            None => self.rest.clone()?,
        };
        Some(Taken { step, edition })
    }

    /// A step whose call never came is the next one's, unless its script has been
    /// forgotten.
    pub(super) fn give_back(&mut self, taken: Taken<Req, Res, E>) {
        if taken.edition == Some(self.edition) {
            self.steps.push_front(taken.step);
        }
    }
}
