//! Who is parked, in which order, and whose turn it is.

use std::collections::{BTreeMap, HashMap};

use tokio::time::Instant;

use super::pace::Pace;

/// What the breaker says of a call that would come now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It would be refused.
    Shut,
    /// It would be a probe: the breaker itself counts those.
    Probes,
    /// Calls pass, all of them or a share.
    Passes,
}

/// What a parked call has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Come back now; it is parked no longer.
    Come,
    /// It is the first in line: look again then, and when the breaker changes.
    First(Instant),
    /// Others come before it, and it is woken when they have gone.
    Behind,
}

/// All parked calls of one `Defer`, a line for each breaker: one that stays
/// open must not hold up the others. `W` is what wakes a call.
///
/// Only the first in line watches clock and breaker; whoever takes it away
/// gets the next one's waker in return and must use it.
#[derive(Debug)]
pub(super) struct Queue<W> {
    lines: HashMap<usize, Line<W>>,
    next_number: u64,
}

#[derive(Debug)]
struct Line<W> {
    parked: BTreeMap<u64, W>,
    pace: Pace,
}

impl<W: Clone> Queue<W> {
    pub(super) fn new() -> Self {
        Self {
            lines: HashMap::new(),
            next_number: 0,
        }
    }

    /// The number of a call that is parked for the first time.
    pub(super) const fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        number
    }

    /// Parks a call. One that was parked before keeps its number, and so its
    /// place in the order.
    pub(super) fn park(&mut self, line: usize, number: u64, waker: W, now: Instant) {
        let line = self.lines.entry(line).or_insert_with(|| Line {
            parked: BTreeMap::new(),
            pace: Pace::new(now),
        });
        line.parked.insert(number, waker);
    }

    /// A new call came; it was admitted, or parked a moment ago.
    pub(super) fn arrived(&mut self, line: usize, now: Instant) {
        if let Some(line) = self.lines.get_mut(&line) {
            line.pace.arrived(now);
        }
    }

    /// After a new call was admitted: lets the first in line come back.
    pub(super) fn follow(&mut self, line: usize, look: Look, now: Instant) -> Wakes<W> {
        let may = look == Look::Passes
            && self
                .lines
                .get(&line)
                .is_some_and(|line| line.pace.may_follow(now));
        if may {
            self.release(line, now)
        } else {
            Wakes::none()
        }
    }

    /// Lets the first in line come back, whatever the pace: in the stead of one
    /// that had its turn and left without taking it.
    pub(super) fn release(&mut self, line: usize, now: Instant) -> Wakes<W> {
        let Some(found) = self.lines.get_mut(&line) else {
            return Wakes::none();
        };
        let released = found.parked.pop_first().map(|(_, waker)| waker);
        found.pace.returned(now, false);
        Wakes {
            released,
            first: self.first_after_change(line),
        }
    }

    /// Asks for a parked call whether it may come back; else keeps its waker.
    /// `due` is when it meant to.
    pub(super) fn turn(
        &mut self,
        line: usize,
        number: u64,
        waker: &W,
        (look, due): (Look, Instant),
        now: Instant,
    ) -> (Turn, Wakes<W>) {
        let Some(found) = self.lines.get_mut(&line) else {
            return (Turn::Come, Wakes::none());
        };
        let is_first = found.parked.keys().next() == Some(&number);
        let Some(kept) = found.parked.get_mut(&number) else {
            // Released since it was last asked.
            return (Turn::Come, Wakes::none());
        };
        kept.clone_from(waker);
        if !is_first {
            return (Turn::Behind, Wakes::none());
        }
        let at = match look {
            Look::Shut => return (Turn::First(due), Wakes::none()),
            Look::Probes => due,
            Look::Passes => found.pace.next(),
        };
        if now < at {
            return (Turn::First(at), Wakes::none());
        }
        found.parked.remove(&number);
        found.pace.returned(now, true);
        let first = self.first_after_change(line);
        let released = None;
        (Turn::Come, Wakes { released, first })
    }

    /// Takes away a call that is waited for no longer. One that is not there
    /// any more had its turn: that goes to the next.
    pub(super) fn leave(&mut self, line: usize, number: u64, now: Instant) -> Wakes<W> {
        let Some(found) = self.lines.get_mut(&line) else {
            return Wakes::none();
        };
        let was_first = found.parked.keys().next() == Some(&number);
        if found.parked.remove(&number).is_none() {
            return self.release(line, now);
        }
        let first = self.first_after_change(line);
        Wakes {
            released: None,
            first: first.filter(|_| was_first),
        }
    }

    /// The first in line, who may be a new one; a line without is forgotten.
    fn first_after_change(&mut self, line: usize) -> Option<W> {
        let first = self.lines.get(&line)?.parked.first_key_value();
        let first = first.map(|(_, waker)| waker.clone());
        if first.is_none() {
            self.lines.remove(&line);
        }
        first
    }
}

/// Who is to be woken, outside of any lock.
#[derive(Debug)]
#[must_use = "those who wait would wait for ever"]
pub(super) struct Wakes<W> {
    /// The one whose turn it is.
    pub(super) released: Option<W>,
    /// The one that has to watch from now on.
    pub(super) first: Option<W>,
}

impl<W> Wakes<W> {
    const fn none() -> Self {
        Self {
            released: None,
            first: None,
        }
    }
}

#[cfg(test)]
mod tests;
