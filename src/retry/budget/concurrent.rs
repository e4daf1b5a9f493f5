//! A cap on concurrent retries.

use super::engine::{Charge, Terms};
use crate::sync::{AtomicU64, Ordering};

/// `share` is in millionths.
const WHOLE: u64 = 1_000_000;

/// One call in the upper half of the word; one retry in the lower half.
const CALL: u64 = 1 << 32;
const RETRY: u64 = 1;

/// Counts calls under way and, among them, those that are retrying.
#[derive(Debug)]
pub(super) struct Slots {
    /// Calls in the upper 32 bits, retries in the lower. One word, so that "few enough are
    /// retrying for so many calls" is decided and written in one step. Neither half overflows:
    /// four thousand million calls do not fit into memory, and no more can be retrying.
    word: AtomicU64,
    share: u64,
    min: u32,
}

impl Slots {
    pub(super) fn new(micro_share: u64, min: u32) -> Slots {
        Slots {
            word: AtomicU64::new(0),
            share: micro_share,
            min,
        }
    }

    pub(super) fn enter(&self) {
        self.word.fetch_add(CALL, Ordering::Relaxed);
    }

    pub(super) fn leave(&self) {
        let before = self.word.fetch_sub(CALL, Ordering::Relaxed);
        debug_assert!(before >= CALL, "more calls ended than started");
    }

    pub(super) fn take(&self) -> Option<Charge> {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if self.left(seen) == 0 {
                return None;
            }
            match self.word.compare_exchange_weak(
                seen,
                seen + RETRY,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Charge { micros: 0 }),
                Err(now) => seen = now,
            }
        }
    }

    pub(super) fn release(&self) {
        let before = self.word.fetch_sub(RETRY, Ordering::Relaxed);
        debug_assert!(retrying(before) > 0, "more retries ended than started");
    }

    pub(super) fn free(&self) -> f64 {
        self.left(self.word.load(Ordering::Relaxed)) as f64
    }

    pub(super) fn terms(&self) -> Terms {
        Terms::Concurrent {
            share: self.share as f64 / WHOLE as f64,
            min_concurrent: self.min,
        }
    }

    /// How many more may retry. Nothing when more are retrying than are allowed, which is so after
    /// calls that did not retry have left.
    fn left(&self, word: u64) -> u64 {
        // At most 2^32 times a million: far from overflow. Rounds down.
        let allowed = (calls(word) * self.share / WHOLE).max(u64::from(self.min));
        allowed.saturating_sub(retrying(word))
    }
}

fn calls(word: u64) -> u64 {
    word >> 32
}

fn retrying(word: u64) -> u64 {
    word & (CALL - 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use proptest::prelude::*;

    fn slots(percent: u64, min: u32) -> Slots {
        Slots::new(percent * 10_000, min)
    }

    fn enter(slots: &Slots, calls: u32) {
        for _ in 0..calls {
            slots.enter();
        }
    }

    /// Takes until refused, and tells how often that worked.
    fn take_all(slots: &Slots) -> u64 {
        std::iter::from_fn(|| slots.take()).count() as u64
    }

    #[test]
    fn a_share_is_exact_and_rounds_down() {
        for (percent, calls, expected) in [
            (30, 10, 3),
            (30, 9, 2),
            (70, 10, 7),
            (29, 100, 29),
            (57, 100, 57),
            (100, 7, 7),
            (0, 50, 0),
        ] {
            let slots = slots(percent, 0);
            enter(&slots, calls);
            assert_eq!(take_all(&slots), expected, "{percent} % of {calls}");
        }
    }

    #[test]
    fn the_minimum_holds_while_the_share_is_smaller() {
        let slots = slots(20, 3);
        enter(&slots, 1);
        assert_eq!(take_all(&slots), 3);
        enter(&slots, 18);
        assert_eq!(take_all(&slots), 0);
        enter(&slots, 1);
        assert_eq!(take_all(&slots), 1);
    }

    #[test]
    fn after_others_have_left_no_retry_starts_until_enough_have_ended() {
        let slots = slots(50, 0);
        enter(&slots, 8);
        assert_eq!(take_all(&slots), 4);
        for _ in 0..4 {
            slots.leave();
        }
        assert_eq!(slots.free(), 0.0);
        slots.release();
        slots.release();
        assert_eq!(slots.take(), None);
        slots.release();
        assert!(slots.take().is_some());
    }

    #[test]
    fn as_many_calls_as_the_word_holds_do_not_overflow() {
        let full = slots(100, u32::MAX);
        full.word.store(u64::MAX - 1, Ordering::Relaxed);
        assert!(full.take().is_some());
        assert_eq!(full.take(), None);
        assert_eq!(full.word.load(Ordering::Relaxed), u64::MAX);
    }

    #[test]
    fn threads_never_hold_more_slots_than_are_allowed() {
        const ROUNDS: u32 = 1_000_000;
        // One slot for two threads: whenever both look at once, one must be refused.
        let slots = slots(10, 0);
        enter(&slots, 10);
        let granted = AtomicU64::new(0);
        let start = Barrier::new(2);
        let work = || {
            start.wait();
            for _ in 0..ROUNDS {
                if slots.take().is_some() {
                    let held = retrying(slots.word.load(Ordering::Relaxed));
                    slots.release();
                    assert_eq!(held, 1, "one slot, held twice");
                    granted.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
        assert!(granted.into_inner() > 0);
        assert_eq!(slots.word.into_inner(), 10 * CALL);
    }

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Enter,
        Leave,
        Take,
        Release,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            3 => Just(Op::Enter),
            1 => Just(Op::Leave),
            4 => Just(Op::Take),
            1 => Just(Op::Release),
        ];
        proptest::collection::vec(op, 0..200)
    }

    proptest! {
        #[test]
        fn every_grant_keeps_within_the_share_or_the_minimum(
            percent in 0_u64..=100, min in 0_u32..6, ops in ops(),
        ) {
            let slots = slots(percent, min);
            let (mut active, mut retries) = (0_u64, 0_u64);
            for op in ops {
                match op {
                    Op::Enter => {
                        slots.enter();
                        active += 1;
                    }
                    // A call ends only after its retry has.
                    Op::Leave if active > retries => {
                        slots.leave();
                        active -= 1;
                    }
                    Op::Release if retries > 0 => {
                        slots.release();
                        retries -= 1;
                    }
                    Op::Take => {
                        let fits = 100 * (retries + 1) <= percent * active
                            || retries < u64::from(min);
                        prop_assert_eq!(slots.take().is_some(), fits);
                        retries += u64::from(fits);
                    }
                    Op::Leave | Op::Release => {}
                }
                prop_assert_eq!(slots.word.load(Ordering::Relaxed), active * CALL + retries);
            }
        }
    }
}
