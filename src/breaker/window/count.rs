//! The last n outcomes: a ring with a running count of its failures, so that
//! the cost of an outcome does not grow with n.

use super::super::config::WindowKind;
use super::{Call, Counts, Plan, Rolling};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Each part carries (the lower bits of) the generation it belongs to, and a
/// write happens only over the same or an older one. So a new period needs no
/// clearing, and a thread that was stopped half-way through an outcome cannot
/// add it to a later period.
///
/// Between taking a place in the ring and adding to the count an outcome is
/// missing from the failures; whoever finishes last sees all of them. Sums are
/// exact once the writers are done. Accesses are relaxed but for those of the
/// head that take a place or ask how many are taken: see `held`.
#[derive(Debug)]
pub(super) struct CountWindow {
    /// generation (24) | next place (20) | outcomes held (20)
    head: AtomicU64,
    /// generation (32) | failures held (32)
    failures: AtomicU64,
    /// generation (30) | written (1) | failed (1), per place; `EMPTY` where
    /// never written
    ring: Box<[AtomicU32]>,
}

const PLACE_BITS: u32 = 20;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;
const HEAD_GENERATION: u32 = 0xff_ffff;
const RING_GENERATION: u32 = 0x3fff_ffff;
const EMPTY: u32 = 0;
const WRITTEN: u32 = 2;
const FAILED: u32 = 1;

impl Rolling for CountWindow {
    fn new(plan: &Plan) -> Self {
        match plan.window {
            Some(WindowKind::Count(calls)) => Self::of(calls),
            Some(WindowKind::Time(_)) | None => unreachable!("counts are kept by number"),
        }
    }

    fn begin(&self, generation: u32) {
        let tag = u64::from(generation & HEAD_GENERATION);
        self.failures
            .swap(u64::from(generation) << 32, Ordering::Relaxed);
        self.head.swap(tag << (2 * PLACE_BITS), Ordering::Relaxed);
    }

    /// Once the window is full a success only takes the place of another
    /// outcome, which lowers the rate or leaves it.
    #[inline]
    fn success(
        &self,
        _: &Plan,
        generation: u32,
        _: u64,
        _: impl FnOnce() -> u32,
    ) -> Option<Counts> {
        let (place, held) = self.take_place(generation)?;
        let change = self.write(place, generation, false)?;
        let is_full = held > self.ring.len() as u64;
        if is_full && change == 0 {
            return None;
        }
        let failures = self.add_failures(generation, change)?;
        (!is_full).then_some(Counts {
            total: held,
            failures,
        })
    }

    fn failure(&self, _: &Plan, call: Call) -> Option<Counts> {
        let (place, held) = self.take_place(call.generation)?;
        let change = self.write(place, call.generation, true)?;
        let failures = self.add_failures(call.generation, change)?;
        let size = self.ring.len() as u64;
        let total = if held < size {
            self.held(call.generation)?
        } else {
            size
        };
        Some(Counts { total, failures })
    }

    fn counts(&self, _: &Plan, _: u32, _: u64) -> Counts {
        let failures = self.failures.load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let failures = failures as u32;
        Counts {
            total: self.head.load(Ordering::Relaxed) & PLACE_MASK,
            failures: visible(failures),
        }
    }
}

impl CountWindow {
    /// `calls` is at most 1,000,000, which fits into 20 bits.
    fn of(calls: u32) -> Self {
        Self {
            head: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            ring: (0..calls).map(|_| AtomicU32::new(EMPTY)).collect(),
        }
    }

    /// How many outcomes are held by now. A failure asks after it has been
    /// added: others may have taken places since it took its own, and have
    /// looked at the failures before.
    ///
    /// The word is written as it is. Of this and the taking of a place the
    /// second sees all that was done before the first.
    fn held(&self, generation: u32) -> Option<u64> {
        let head = self.head.fetch_or(0, Ordering::AcqRel);
        let tag = u64::from(generation & HEAD_GENERATION);
        (head >> (2 * PLACE_BITS) == tag).then_some(head & PLACE_MASK)
    }

    /// The place for this outcome, and how many are held with it; one more
    /// than the ring holds if it was full already.
    #[inline]
    fn take_place(&self, generation: u32) -> Option<(usize, u64)> {
        let tag = u64::from(generation & HEAD_GENERATION);
        let size = self.ring.len() as u64;
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head >> (2 * PLACE_BITS) != tag {
                return None;
            }
            let (place, held) = (head >> PLACE_BITS & PLACE_MASK, head & PLACE_MASK);
            let next = if place + 1 == size { 0 } else { place + 1 };
            let now_held = (held + 1).min(size);
            let moved = tag << (2 * PLACE_BITS) | next << PLACE_BITS | now_held;
            match self
                .head
                .compare_exchange_weak(head, moved, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => {
                    let place = usize::try_from(place).unwrap_or(usize::MAX);
                    return Some((place, held + 1));
                }
                Err(changed) => head = changed,
            }
        }
    }

    /// Puts the outcome into its place; by how much the number of failures
    /// changes. One that is there already is only read.
    #[inline]
    fn write(&self, place: usize, generation: u32, failed: bool) -> Option<i64> {
        let generation = generation & RING_GENERATION;
        let slot = self.ring.get(place)?;
        let failure = if failed { FAILED } else { 0 };
        let new = generation << 2 | WRITTEN | failure;
        let mut old = slot.load(Ordering::Relaxed);
        loop {
            let old_generation = old >> 2;
            // A later period has already come round to this place.
            let age = generation.wrapping_sub(old_generation) & RING_GENERATION;
            if old != EMPTY && age > RING_GENERATION / 2 {
                return None;
            }
            if old == new {
                return Some(0);
            }
            match slot.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let replaced = old_generation == generation && old & FAILED != 0;
                    return Some(i64::from(failed) - i64::from(replaced));
                }
                Err(changed) => old = changed,
            }
        }
    }

    fn add_failures(&self, generation: u32, change: i64) -> Option<u64> {
        let mut word = self.failures.load(Ordering::Relaxed);
        loop {
            if word >> 32 != u64::from(generation) {
                return None;
            }
            #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
            let failures = (word as u32).wrapping_add_signed(change as i32);
            if change == 0 {
                return Some(visible(failures));
            }
            let new = word >> 32 << 32 | u64::from(failures);
            match self.failures.compare_exchange_weak(
                word,
                new,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(visible(failures)),
                Err(changed) => word = changed,
            }
        }
    }
}

/// A replaced failure may be taken off before the thread that put it there has
/// added it, so the count may pass below zero; it is kept modulo 2^32 and read
/// as none.
fn visible(failures: u32) -> u64 {
    if failures > u32::MAX / 2 {
        0
    } else {
        u64::from(failures)
    }
}

#[cfg(test)]
impl CountWindow {
    pub(super) fn record(&self, generation: u32, failed: bool) -> Option<Counts> {
        let call = Call {
            generation,
            now: 0,
            ran: crate::span::Span::ZERO,
        };
        let plan = Plan::failures_in(WindowKind::Count(1));
        if failed {
            self.failure(&plan, call)
        } else {
            self.success(&plan, generation, 0, || 0)
        }
    }

    pub(super) fn holds(&self) -> Counts {
        self.counts(&Plan::failures_in(WindowKind::Count(1)), 0, 0)
    }

    pub(super) fn with_room_for(calls: u32) -> Self {
        Self::of(calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_leave_the_ring_again_in_every_generation() {
        for generation in [0, u32::MAX >> 2, u32::MAX >> 1, u32::MAX] {
            let window = CountWindow::of(2);
            window.begin(generation);
            for failed in [true, true] {
                window.record(generation, failed);
            }
            assert_eq!(window.holds().failures, 2, "in generation {generation}");
            for failed in [false, false] {
                window.record(generation, failed);
            }
            let none = Counts {
                total: 2,
                failures: 0,
            };
            assert_eq!(window.holds(), none, "in generation {generation}");
        }
    }

    /// As a thread finds it that was held up for longer than its period.
    #[test]
    fn a_place_that_a_later_period_has_taken_is_not_taken_back() {
        let window = CountWindow::of(2);
        assert_eq!(window.write(0, 7, true), Some(1));
        assert_eq!(window.write(0, 6, true), None);
        assert_eq!(window.write(0, 7, false), Some(-1));
        assert_eq!(window.write(0, 8, true), Some(1));
        let half = RING_GENERATION / 2;
        assert_eq!(window.write(0, 8 + half, false), Some(0), "still ahead");
        assert_eq!(window.write(1, u32::MAX, true), Some(1), "never written");
        assert_eq!(window.write(1, 0, true), Some(1), "the next after the last");
        assert_eq!(window.write(1, u32::MAX, true), None);
    }

    #[test]
    fn a_count_of_failures_below_zero_is_read_as_none() {
        let most = u32::MAX / 2;
        assert_eq!(visible(most), u64::from(most));
        assert_eq!((visible(most + 1), visible(u32::MAX)), (0, 0));
    }
}
