//! The outcomes of the last while, in ten slots.

use super::spread::Spread;
use super::{Call, Counts, Plan, Rolling};
use crate::sync::{AtomicU64, Ordering, fence};

pub(super) const SLOTS: u64 = 10;
pub(super) const SLOTS_LEN: usize = 10;

/// Slots are numbered from the breaker's beginning, and each generation starts
/// more than a whole window of numbers later than the one before: so a late
/// outcome of an older period finds no slot that counts, and a new period needs
/// no clearing.
///
/// A slot is one word, its counts and the lower bits of its lap, the number
/// divided by ten. Who finds an older lap begins the slot anew in the step that
/// counts; who finds a newer one comes too late, and its outcome has left the
/// window. Nothing is lost between two writers.
///
/// # Memory ordering
///
/// Of a slot's counts nothing else depends, so that relaxed accesses would do,
/// but for two things. Where an outcome can trip, a fence stands between
/// counting it and looking at the other words, so that of two who count at the
/// same time the later one sees both. And what is counted is released, and
/// acquired by who sweeps: whoever finds an outcome of a new age in a slot finds
/// the age noted as well, and leaves it there.
#[derive(Debug)]
pub(super) struct TimeWindow {
    /// The latest slot at which the window was looked at, and in the lowest bit
    /// whether it was found to hold its minimum: for the rest of that slot a
    /// success cannot trip.
    ///
    /// lap | index (4) | over the minimum (1): so most outcomes find their place
    /// by a multiplication, without a division.
    judged: AtomicU64,
    slots: Slots,
    /// More of them, once threads meet at these.
    spread: Spread,
}

/// The words of ten slots.
#[derive(Debug)]
pub(super) struct Slots([AtomicU64; SLOTS_LEN]);

// lower bits of the lap (22) | failures (21) | total (21)
//
// A slot holds two million, half of which is still the largest minimum of calls
// that a breaker may be told to wait for.
const COUNT_BITS: u32 = 21;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const TAG_SHIFT: u32 = 2 * COUNT_BITS;
const TAG_MASK: u64 = u64::MAX >> TAG_SHIFT;

/// Laps are swept out in ages of this many bits, so that the lower bits of a
/// slot's lap and of the present one always tell which is the later.
const AGE_BITS: u32 = 18;

/// A slot's number, taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    index: usize,
    lap: u64,
}

/// Of the index in what a window notes of the slot that it was looked at in,
/// beside a bit for the minimum.
const INDEX_BITS: u32 = 4;

impl Place {
    /// From one lap on, as the words begin with a lap of zero.
    #[inline]
    fn new(plan: &Plan, generation: u32, now: u64) -> Self {
        Self::of(now / plan.slot_nanos + first(generation))
    }

    const fn of(number: u64) -> Self {
        let lap = number / SLOTS;
        Self {
            index: (number % SLOTS) as usize,
            lap,
        }
    }

    #[inline]
    const fn number(self) -> u64 {
        self.lap * SLOTS + self.index as u64
    }

    /// Whether it is that of this time.
    #[inline]
    fn is_at(self, plan: &Plan, generation: u32, now: u64) -> bool {
        let slot = plan.slot_nanos.get();
        let since_first = self.number().checked_sub(first(generation));
        let begin = since_first.and_then(|number| number.checked_mul(slot));
        let into = begin.and_then(|begin| now.checked_sub(begin));
        into.is_some_and(|into| into < slot)
    }

    #[inline]
    const fn noted(self, over_minimum: bool) -> u64 {
        (self.lap << INDEX_BITS | self.index as u64) << 1 | over_minimum as u64
    }

    #[inline]
    const fn of_noted(word: u64) -> Self {
        Self {
            index: (word >> 1 & ((1 << INDEX_BITS) - 1)) as usize,
            lap: word >> (INDEX_BITS + 1),
        }
    }

    const fn tag(self) -> u64 {
        self.lap & TAG_MASK
    }

    const fn age(self) -> u64 {
        self.lap >> AGE_BITS
    }
}

impl Rolling for TimeWindow {
    fn new(_: &Plan) -> Self {
        Self {
            judged: AtomicU64::new(0),
            slots: Slots::new(),
            spread: Spread::new(),
        }
    }

    fn begin(&self, _: u32) {}

    #[inline(always)]
    fn success(
        &self,
        plan: &Plan,
        generation: u32,
        now: u64,
        minimum: impl FnOnce() -> u32,
    ) -> Option<Counts> {
        let judged = self.judged.load(Ordering::Relaxed);
        let place = Place::of_noted(judged);
        if judged & 1 == 1 && place.is_at(plan, generation, now) {
            self.add(place, false);
            return None;
        }
        self.judge_success(Place::new(plan, generation, now), minimum())
    }

    fn failure(&self, plan: &Plan, call: Call) -> Option<Counts> {
        let place = Place::new(plan, call.generation, call.now);
        let counts = self.judge(place, true)?;
        self.note_judged(place, false);
        Some(counts)
    }

    fn counts(&self, plan: &Plan, generation: u32, now: u64) -> Counts {
        self.sum(Place::new(plan, generation, now))
    }
}

/// The number with which a generation would have begun at time zero.
#[inline]
fn first(generation: u32) -> u64 {
    (u64::from(generation) + 1) * (SLOTS + 1)
}

impl TimeWindow {
    #[cold]
    fn judge_success(&self, place: Place, minimum: u32) -> Option<Counts> {
        let counts = self.judge(place, false)?;
        self.note_judged(place, counts.total >= u64::from(minimum));
        Some(counts)
    }

    /// Counts an outcome; the window's contents, unless it came too late.
    #[inline]
    fn judge(&self, place: Place, failed: bool) -> Option<Counts> {
        let newest = self.newest();
        if place.age() > newest.age() {
            self.sweep(place, newest);
        }
        if !self.add(place, failed) {
            return None;
        }
        fence(Ordering::SeqCst);
        Some(self.sum(place))
    }

    fn newest(&self) -> Place {
        Place::of_noted(self.judged.load(Ordering::Relaxed))
    }

    fn note_judged(&self, place: Place, over_minimum: bool) {
        let judged = place.noted(over_minimum);
        if self.judged.load(Ordering::Relaxed) < judged {
            self.judged.fetch_max(judged, Ordering::Relaxed);
        }
    }

    /// Whether the outcome found its slot.
    #[inline(always)]
    fn add(&self, place: Place, failed: bool) -> bool {
        match self.spread.slots() {
            None => self.add_to(&self.slots, place, failed),
            Some(own) => self.add_to_own(own, place, failed),
        }
    }

    #[inline(never)]
    fn add_to_own(&self, own: &Slots, place: Place, failed: bool) -> bool {
        self.add_to(own, place, failed)
    }

    #[inline(always)]
    fn add_to(&self, slots: &Slots, place: Place, failed: bool) -> bool {
        match slots.add(place, failed) {
            Some(found) => found,
            None => self.spread_out(place).add_patiently(place, failed),
        }
    }

    /// This thread's own slots from now on.
    fn spread_out(&self, place: Place) -> &Slots {
        self.spread.more(|| Slots::before(place.lap))
    }

    /// What the window that ends with this slot holds.
    fn sum(&self, place: Place) -> Counts {
        let mut counts = Counts::default();
        self.slots.read(place, &mut counts);
        self.spread.each(|slots| slots.read(place, &mut counts));
        counts
    }

    /// Empties what has left the window, once in an age: every thirty days
    /// with slots of a second.
    ///
    /// Idle time may have lasted for ages, and the lower bits of laps have come
    /// round: then nothing in the slots is of this window, whatever it says,
    /// until somebody has swept and counted. Who has swept notes it before, so
    /// that another who still sweeps leaves alone what is counted from then on.
    #[cold]
    fn sweep(&self, place: Place, newest: Place) {
        let is_long = place.number() - newest.number() > 2 * SLOTS;
        let is_idle = || is_long && self.newest() == newest;
        let lap = place.lap;
        self.slots.sweep(lap, is_idle);
        self.spread.each(|slots| slots.sweep(lap, is_idle));
        self.note_judged(place, false);
    }
}

/// A slot with nothing in it, that this lap and the one before it may begin.
const fn empty_before(lap: u64) -> u64 {
    tagged(lap.wrapping_sub(2))
}

/// A slot of this lap with nothing in it.
const fn tagged(lap: u64) -> u64 {
    lap << TAG_SHIFT
}

impl Slots {
    /// As a breaker begins, in whose first outcome they are swept if that comes
    /// ages later.
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Empty ones that come into use in this lap.
    fn before(lap: u64) -> Self {
        let empty = empty_before(lap);
        Self(std::array::from_fn(|_| AtomicU64::new(empty)))
    }

    /// Whether the outcome found its slot; `None` if another thread was at it
    /// twice in a row.
    #[inline(always)]
    fn add(&self, place: Place, failed: bool) -> Option<bool> {
        let slot = &self.0[place.index];
        let word = slot.load(Ordering::Relaxed);
        let Some(new) = counted(word, place.tag(), failed) else {
            return Some(false);
        };
        match slot.compare_exchange(word, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Some(true),
            Err(changed) => add_once_more(slot, changed, place.tag(), failed),
        }
    }

    #[cold]
    fn add_patiently(&self, place: Place, failed: bool) -> bool {
        loop {
            if let Some(found) = self.add(place, failed) {
                return found;
            }
        }
    }

    /// Adds what the slots hold of the window that ends at `last`: up to its
    /// index they are of its lap, beyond it of the one before.
    ///
    /// Without a branch: each failure reads all of them, and no two windows are
    /// filled alike.
    #[inline]
    fn read(&self, last: Place, counts: &mut Counts) {
        let (tag, before) = (tagged(last.lap), tagged(last.lap.wrapping_sub(1)));
        let (mut words, mut total) = (0, 0);
        for (index, slot) in self.0.iter().enumerate() {
            let tag = if index <= last.index { tag } else { before };
            // Of the same lap, nothing is left of it but the counts.
            let word = slot.load(Ordering::Relaxed) ^ tag;
            let word = if word >> TAG_SHIFT == 0 { word } else { 0 };
            words += word;
            total += word & COUNT_MASK;
        }
        counts.failures += (words - total) >> COUNT_BITS;
        counts.total += total;
    }

    /// Empties the slots that are older than the lap before this one, or all.
    fn sweep(&self, lap: u64, is_idle: impl Fn() -> bool) {
        let empty = empty_before(lap);
        for slot in &self.0 {
            // Before it is asked whether the window is idle: see above.
            let word = slot.load(Ordering::Acquire);
            let behind = lap.wrapping_sub(word >> TAG_SHIFT) & TAG_MASK;
            let is_old = (2..=TAG_MASK / 2).contains(&behind);
            if word != empty && (is_old || is_idle()) {
                // If somebody counts meanwhile, there is something to keep.
                let (done, failed) = (Ordering::Relaxed, Ordering::Relaxed);
                slot.compare_exchange(word, empty, done, failed).ok();
            }
        }
    }
}

#[cold]
fn add_once_more(slot: &AtomicU64, word: u64, tag: u64, failed: bool) -> Option<bool> {
    let Some(new) = counted(word, tag, failed) else {
        return Some(false);
    };
    let added = slot.compare_exchange(word, new, Ordering::Release, Ordering::Relaxed);
    added.is_ok().then_some(true)
}

/// The word with one more outcome; `None` if it is a later lap's.
#[inline(always)]
fn counted(word: u64, tag: u64, failed: bool) -> Option<u64> {
    let one = u64::from(failed) << COUNT_BITS | 1;
    if word >> TAG_SHIFT != tag {
        return begun(word, tag, one);
    }
    let new = word.wrapping_add(one);
    if new & COUNT_MASK == 0 {
        return Some(halved(word) + one);
    }
    Some(new)
}

#[cold]
fn begun(word: u64, tag: u64, one: u64) -> Option<u64> {
    let ahead = (word >> TAG_SHIFT).wrapping_sub(tag) & TAG_MASK;
    (ahead > TAG_MASK / 2).then_some(tag << TAG_SHIFT | one)
}

/// Two million in one slot: halving both numbers keeps the rate.
#[cold]
fn halved(word: u64) -> u64 {
    let (failures, total) = (word >> COUNT_BITS & COUNT_MASK, word & COUNT_MASK);
    word >> TAG_SHIFT << TAG_SHIFT | (failures / 2) << COUNT_BITS | (total / 2)
}

#[cfg(all(test, steadfast_loom))]
impl TimeWindow {
    /// Whether threads have met.
    pub(super) fn is_spread(&self) -> bool {
        self.spread.slots().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::breaker::config::WindowKind;
    use crate::span::Span;

    const SECOND: u64 = 1_000_000_000;

    fn plan() -> Plan {
        Plan::failures_in(WindowKind::Time(Duration::from_secs(10)))
    }

    #[test]
    fn a_success_is_judged_once_a_slot_while_the_minimum_is_held_and_never_late() {
        let (plan, window) = (plan(), TimeWindow::new(&plan()));
        let total = |seconds| {
            let counts = window.success(&plan, 0, seconds * SECOND, || 3);
            counts.map(|counts| counts.total)
        };
        assert_eq!(
            [(); 4].map(|()| total(0)),
            [Some(1), Some(2), Some(3), None]
        );
        assert_eq!([(); 2].map(|()| total(1)), [Some(5), None]);
        assert_eq!(total(11), Some(1));
        assert_eq!(total(1), None, "its slot is another's by now");
        assert_eq!(window.counts(&plan, 0, 11 * SECOND).total, 1);
    }

    /// Threads meet when the lower bits of the lap are past half of their range:
    /// slots that began with zeroes would seem to be ahead, and take nothing.
    #[test]
    fn threads_that_first_meet_late_in_a_breakers_life_are_counted() {
        let (plan, window) = (plan(), TimeWindow::new(&plan()));
        let seconds = 10 * (TAG_MASK - TAG_MASK / 4);
        let fail = || {
            let call = Call {
                generation: 0,
                now: seconds * SECOND,
                ran: Span::ZERO,
            };
            window.failure(&plan, call).map(|counts| counts.failures)
        };
        assert_eq!(fail(), Some(1));
        let place = Place::new(&plan, 0, seconds * SECOND);
        window.spread_out(place);
        assert_eq!(fail(), Some(2), "in slots of this thread's own");
        assert_eq!(window.counts(&plan, 0, seconds * SECOND).failures, 2);
    }

    #[test]
    fn a_slot_holds_the_largest_minimum_of_calls_even_when_it_has_been_halved() {
        assert!(COUNT_MASK.div_ceil(2) >= u64::from(crate::breaker::rules::LARGEST_WINDOW));
    }

    /// From the latest outcome so far to the next one.
    fn gaps() -> impl Strategy<Value = i64> {
        let window = SLOTS as i64;
        let (age, round) = (window << AGE_BITS, window << (64 - TAG_SHIFT));
        let idle = prop_oneof![Just(age), Just(round / 2), Just(round), Just(3 * round)];
        prop_oneof![
            6 => 0i64..4,
            2 => 1 - window..0,
            1 => 4i64..25,
            2 => (idle, -25i64..25).prop_map(|(idle, more)| idle + more),
        ]
    }

    proptest! {
        /// Against the outcomes by their whole numbers: such as come late within
        /// the window, and after idle time of ages, from before threads met and
        /// since.
        #[test]
        fn what_is_of_the_window_is_told_from_what_was_ages_ago(
            steps in proptest::collection::vec((gaps(), any::<bool>()), 1..60),
            spread_at in 0usize..60,
        ) {
            let (plan, window) = (plan(), TimeWindow::new(&plan()));
            let mut heard: Vec<(u64, bool)> = Vec::new();
            let mut latest = SLOTS;
            for (step, (gap, failed)) in steps.into_iter().enumerate() {
                let now = latest.saturating_add_signed(gap);
                latest = latest.max(now);
                if step == spread_at {
                    window.spread_out(Place::new(&plan, 0, now * SECOND));
                }
                let call = Call {
                    generation: 0,
                    now: now * SECOND,
                    ran: Span::ZERO,
                };
                if failed {
                    window.failure(&plan, call);
                } else {
                    window.success(&plan, 0, call.now, || 3);
                }
                heard.push((now, failed));
                let held = heard.iter().filter(|(at, _)| latest - at < SLOTS);
                let expected = Counts {
                    total: held.clone().count() as u64,
                    failures: held.filter(|(_, failed)| *failed).count() as u64,
                };
                let counts = window.counts(&plan, 0, latest * SECOND);
                prop_assert_eq!(counts, expected, "step {}, at {} s of {} s", step, now, latest);
            }
        }
    }

    #[test]
    fn a_full_slot_keeps_the_rate() {
        let word = 7 << TAG_SHIFT | (COUNT_MASK / 2) << COUNT_BITS | COUNT_MASK;
        let next = counted(word, 7, true).unwrap();
        assert_eq!(next >> TAG_SHIFT, 7);
        assert_eq!(next & COUNT_MASK, COUNT_MASK / 2 + 1);
        assert_eq!(next >> COUNT_BITS & COUNT_MASK, COUNT_MASK / 4 + 1);
    }

    #[test]
    fn millions_of_successes_are_not_read_as_failures() {
        let (slots, last) = (Slots::new(), Place::of(25));
        for (index, slot) in slots.0.iter().enumerate() {
            let lap = last.lap - u64::from(index > last.index);
            slot.store(
                tagged(lap) | 1 << COUNT_BITS | COUNT_MASK,
                Ordering::Relaxed,
            );
        }
        let mut counts = Counts::default();
        slots.read(last, &mut counts);
        let expected = (SLOTS * COUNT_MASK, SLOTS);
        assert_eq!((counts.total, counts.failures), expected);
    }

    /// Two threads tell the time in one poll each, and a reset may come between
    /// them.
    #[test]
    fn a_period_that_begins_a_slot_earlier_finds_nothing_of_the_one_before() {
        let (plan, window) = (plan(), TimeWindow::new(&plan()));
        let late = Call {
            generation: 0,
            now: SECOND,
            ran: Span::ZERO,
        };
        window.failure(&plan, late);
        let counts = window.success(&plan, 1, 0, || 3).unwrap();
        assert_eq!((counts.total, counts.failures), (1, 0));
    }

    #[test]
    fn of_two_laps_the_later_is_told_by_its_lower_bits() {
        let word = |lap: u64| (lap & TAG_MASK) << TAG_SHIFT | 5;
        for lap in [1, 2, TAG_MASK / 2, TAG_MASK, TAG_MASK + 1, TAG_MASK * 3] {
            let tag = |lap: u64| lap & TAG_MASK;
            assert_eq!(counted(word(lap), tag(lap), false), Some(word(lap) + 1));
            let begun = tag(lap + 1) << TAG_SHIFT | 1;
            assert_eq!(counted(word(lap), tag(lap + 1), false), Some(begun));
            for ahead in [1, 2, 1000, TAG_MASK / 2] {
                assert_eq!(counted(word(lap + ahead), tag(lap), false), None);
            }
            let behind = word(lap + TAG_MASK / 2 + 1);
            assert_eq!(
                counted(behind, tag(lap), false),
                Some(tag(lap) << TAG_SHIFT | 1)
            );
        }
    }

    #[test]
    fn many_threads_that_have_met_count_together() {
        let (plan, window) = (plan(), TimeWindow::new(&plan()));
        let place = Place::new(&plan, 0, 0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert!(window.spread_out(place).add_patiently(place, true)));
            }
        });
        let counts = window.counts(&plan, 0, 0);
        assert_eq!((counts.total, counts.failures), (8, 8));
        let late = Place::of(first(0) - SLOTS);
        assert!(!window.spread_out(place).add_patiently(late, true));
    }

    #[test]
    fn failures_alone_are_kept_where_one_age_meets_the_next() {
        let (plan, window) = (plan(), TimeWindow::new(&plan()));
        let begins = (SLOTS << AGE_BITS) - first(0);
        let failures = [begins - 1, begins].map(|seconds| {
            let call = Call {
                generation: 0,
                now: seconds * SECOND,
                ran: Span::ZERO,
            };
            window.failure(&plan, call).map(|counts| counts.failures)
        });
        assert_eq!(failures, [Some(1), Some(2)]);
    }

    #[test]
    fn what_is_two_laps_old_is_swept_and_nothing_else() {
        let half = TAG_MASK / 2;
        for lap in [half * 3, TAG_MASK + 1, TAG_MASK * 2] {
            for (older, swept) in [
                (0, false),
                (1, false),
                (2, true),
                (half, true),
                (half + 1, false),
            ] {
                let slots = Slots::new();
                let word = ((lap - older) & TAG_MASK) << TAG_SHIFT | 1;
                slots.0[3].store(word, Ordering::Relaxed);
                slots.sweep(lap, || false);
                let expected = if swept { empty_before(lap) } else { word };
                assert_eq!(slots.0[3].load(Ordering::Relaxed), expected, "{older}");
            }
        }
    }

    /// As a thread finds it that met another at the word.
    #[test]
    fn who_finds_the_word_changed_counts_into_what_it_has_become() {
        let (slot, place) = (AtomicU64::new(0), Place::of(25));
        let begun = place.tag() << TAG_SHIFT | 1 << COUNT_BITS | 1;
        assert_eq!(add_once_more(&slot, 1, place.tag(), true), None, "again");
        assert_eq!(slot.load(Ordering::Relaxed), 0);
        assert_eq!(add_once_more(&slot, 0, place.tag(), true), Some(true));
        assert_eq!(slot.load(Ordering::Relaxed), begun);
        let late = add_once_more(&slot, begun, place.tag() - 1, true);
        assert_eq!(late, Some(false), "its lap is over");
        assert_eq!(slot.load(Ordering::Relaxed), begun);
    }
}
