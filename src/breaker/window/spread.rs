//! More room for counting, once threads meet.
//!
//! Two threads that count into one word take turns at its cache line: together
//! they are slower than one alone. So when they meet twice in a row, counting
//! moves to lines of their own, as in Java's `LongAdder`. A breaker that is one
//! of a million, or sees a call now and then, never needs it, and has a pointer
//! to nothing.

use super::time::Slots;
use crate::sharded::parallelism;
use crate::sync::{OnceLock, this_thread};

/// Lines for this many threads; more of them share.
const MOST: usize = 16;

#[derive(Debug)]
pub(super) struct Spread {
    more: OnceLock<Box<More>>,
}

#[derive(Debug)]
struct More {
    lines: Box<[Line]>,
}

/// Aligned so that two threads share neither a line nor a prefetched pair.
#[derive(Debug)]
#[repr(align(128))]
struct Line(Slots);

impl More {
    fn new(slots: impl Fn() -> Slots) -> Self {
        let lines = parallelism().next_power_of_two().clamp(2, MOST);
        let lines = (0..lines).map(|_| Line(slots())).collect();
        Self { lines }
    }

    fn own(&self) -> &Slots {
        &self.lines[this_thread() & (self.lines.len() - 1)].0
    }
}

impl Spread {
    pub(super) fn new() -> Self {
        Self {
            more: OnceLock::new(),
        }
    }

    /// This thread's slots; `None` while there is no need.
    #[inline]
    pub(super) fn slots(&self) -> Option<&Slots> {
        self.more.get().map(|more| more.own())
    }

    /// This thread's slots; if there are none yet, each begins as `slots`.
    #[cold]
    pub(super) fn more(&self, slots: impl Fn() -> Slots) -> &Slots {
        let more = || Box::new(More::new(slots));
        self.more.get_or_init(more).own()
    }

    /// The slots of all threads.
    pub(super) fn each(&self, look: impl FnMut(&Slots)) {
        if let Some(more) = self.more.get() {
            more.lines.iter().map(|line| &line.0).for_each(look);
        }
    }
}
