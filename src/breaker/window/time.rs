//! The outcomes of the last while, in ten slots.

use std::time::Duration;

use super::Counts;
use crate::span::nanos;
use crate::sync::{AtomicU64, Ordering};

const SLOTS: u64 = 10;
const SLOTS_LEN: usize = 10;

/// Slots are numbered from the breaker's beginning. Each closed period starts
/// at least a whole window of numbers later than the last (`offset`), so a
/// late outcome of an older period finds no slot that counts.
///
/// A slot has two words: its full number, and its counts with the number's
/// lower bits. A writer that finds an older number moves the slot on; one
/// that finds a newer number comes too late, and its outcome has left the
/// window. Counts are taken over in the same step that checks their tag, so
/// nothing is lost between two writers.
///
/// Orderings: the offset is stored with Release before a period is published
/// and loaded with Acquire before the period is checked. A slot's counts are
/// stored with Release after its number and loaded with Acquire before it, so
/// that whoever sees the counts of a later slot sees its number too.
#[derive(Debug)]
pub(super) struct TimeWindow {
    slot_nanos: u64,
    offset: AtomicU64,
    /// The slot in which the window was last seen to hold its minimum: for
    /// the rest of that slot a success cannot trip.
    over_minimum: AtomicU64,
    slots: [Slot; SLOTS_LEN],
}

#[derive(Debug)]
struct Slot {
    number: AtomicU64,
    /// lower bits of the number (15) | lap (1) | failures (24) | total (24)
    counts: AtomicU64,
}

const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const TAG_SHIFT: u32 = 2 * COUNT_BITS + 1;
const TAG_MASK: u64 = 0x7fff;
/// Turned over when a slot is cleared for a number with the same lower bits.
const LAP: u64 = 1 << (2 * COUNT_BITS);

impl TimeWindow {
    pub(super) fn new(length: Duration) -> Self {
        Self {
            slot_nanos: (nanos(length) / SLOTS).max(1),
            // So that no slot number equals the zeroes that the slots begin
            // with.
            offset: AtomicU64::new(SLOTS + 1),
            over_minimum: AtomicU64::new(0),
            slots: std::array::from_fn(|_| Slot {
                number: AtomicU64::new(0),
                counts: AtomicU64::new(0),
            }),
        }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset.load(Ordering::Acquire)
    }

    /// A new closed period.
    pub(super) fn begin(&self) {
        let offset = self.offset.load(Ordering::Relaxed);
        let next = offset.wrapping_add(SLOTS + 1);
        self.offset.store(next, Ordering::Release);
    }

    /// Counts a success; the window's contents where it can trip.
    pub(super) fn success(&self, offset: u64, now: u64, minimum: u32) -> Option<Counts> {
        let number = self.number(offset, now);
        if !self.add(number, false) || self.over_minimum.load(Ordering::Relaxed) == number {
            return None;
        }
        let counts = self.sum(number);
        if counts.total >= u64::from(minimum) {
            self.over_minimum.store(number, Ordering::Relaxed);
        }
        Some(counts)
    }

    /// Counts a failure; the window's contents, unless it comes too late.
    pub(super) fn failure(&self, offset: u64, now: u64) -> Option<Counts> {
        let number = self.number(offset, now);
        self.add(number, true).then(|| self.sum(number))
    }

    /// What the window holds at this time.
    pub(super) fn counts(&self, now: u64) -> Counts {
        self.sum(self.number(self.offset(), now))
    }

    fn number(&self, offset: u64, now: u64) -> u64 {
        (now / self.slot_nanos).wrapping_add(offset)
    }

    fn slot(&self, number: u64) -> &Slot {
        // The remainder is below ten, so the cast keeps it.
        &self.slots[(number % SLOTS) as usize]
    }

    /// Whether the outcome found its slot.
    fn add(&self, number: u64, failed: bool) -> bool {
        let slot = self.slot(number);
        slot.move_on(number) && {
            slot.add(number, failed);
            true
        }
    }

    /// What the window that ends with this slot holds.
    fn sum(&self, number: u64) -> Counts {
        let mut counts = Counts::default();
        for slot in &self.slots {
            let age = number.wrapping_sub(slot.number.load(Ordering::Relaxed));
            if age < SLOTS {
                slot.read(number.wrapping_sub(age), &mut counts);
            }
        }
        counts
    }
}

impl Slot {
    /// Makes this the slot of `number`; false if it is already a later one's.
    fn move_on(&self, number: u64) -> bool {
        let mut held = self.number.load(Ordering::Relaxed);
        loop {
            if held == number {
                return true;
            }
            if held > number {
                return false;
            }
            if held & TAG_MASK == number & TAG_MASK {
                self.clear(held);
            }
            match self.number.compare_exchange_weak(
                held,
                number,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(changed) => held = changed,
            }
        }
    }

    /// After a multiple of 32,768 slots without an outcome in this one its old
    /// counts would pass for new.
    ///
    /// Whoever is held up before the last step finds the lap changed if others
    /// were faster, even where they have counted up to the same numbers again.
    fn clear(&self, held: u64) {
        let counts = self.counts.load(Ordering::Acquire);
        let is_empty = counts & COUNT_MASK == 0;
        if !is_empty && self.number.load(Ordering::Relaxed) == held {
            let empty = (held & TAG_MASK) << TAG_SHIFT | (counts & LAP ^ LAP);
            self.swap(counts, empty).ok();
        }
    }

    fn add(&self, number: u64, failed: bool) {
        let tag = number & TAG_MASK;
        let mut word = self.counts.load(Ordering::Acquire);
        loop {
            let (mut failures, mut total) = (0, 0);
            if word >> TAG_SHIFT == tag {
                failures = word >> COUNT_BITS & COUNT_MASK;
                total = word & COUNT_MASK;
            } else if self.number.load(Ordering::Relaxed) != number {
                // Moved on since: the outcome is a whole window old.
                return;
            }
            if total == COUNT_MASK {
                // Sixteen million in one slot: halving both keeps the rate.
                failures /= 2;
                total /= 2;
            }
            failures += u64::from(failed);
            total += 1;
            let new = tag << TAG_SHIFT | word & LAP | failures << COUNT_BITS | total;
            match self.swap(word, new) {
                Ok(()) => return,
                Err(changed) => word = changed,
            }
        }
    }

    fn swap(&self, from: u64, to: u64) -> Result<(), u64> {
        self.counts
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }

    fn read(&self, number: u64, counts: &mut Counts) {
        let word = self.counts.load(Ordering::Relaxed);
        if word >> TAG_SHIFT == number & TAG_MASK {
            counts.failures += word >> COUNT_BITS & COUNT_MASK;
            counts.total += word & COUNT_MASK;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_is_judged_once_a_slot_while_the_minimum_is_held_and_never_late() {
        let window = TimeWindow::new(Duration::from_secs(10));
        let total = |seconds: u64| {
            let counts = window.success(window.offset(), seconds * 1_000_000_000, 3);
            counts.map(|counts| counts.total)
        };
        assert_eq!(
            [(); 4].map(|()| total(0)),
            [Some(1), Some(2), Some(3), None]
        );
        assert_eq!([(); 2].map(|()| total(1)), [Some(5), None]);
        assert_eq!(total(11), Some(1));
        assert_eq!(total(1), None, "its slot is another's by now");
    }

    #[test]
    fn a_slot_is_cleared_only_under_the_number_it_has_and_turns_its_lap_over() {
        let slot = Slot {
            number: AtomicU64::new(7),
            counts: AtomicU64::new(0),
        };
        let holds = |lap: u64, total: u64| {
            let counts = slot.counts.load(Ordering::Relaxed);
            assert_eq!(counts, 7 << 49 | lap << 48 | total);
        };
        slot.add(7, false);
        slot.clear(6);
        holds(0, 1);
        slot.clear(7);
        holds(1, 0);
        slot.clear(7);
        holds(1, 0);
        slot.add(7, false);
        holds(1, 1);
        slot.clear(7);
        holds(0, 0);
    }

    #[test]
    fn a_full_slot_keeps_the_rate() {
        let window = TimeWindow::new(Duration::from_secs(10));
        let number = window.number(window.offset(), 0);
        window.add(number, true);
        let slot = window.slot(number);
        let tag = slot.counts.load(Ordering::Relaxed) >> 48 << 48;
        let full = (1u64 << 24) - 1;
        let counts = tag | (full / 2) << 24 | full;
        slot.counts.store(counts, Ordering::Relaxed);
        let counts = window.failure(window.offset(), 0).unwrap();
        assert_eq!(counts.total, full / 2 + 1);
        assert_eq!(counts.failures, full / 4 + 1);
    }
}
