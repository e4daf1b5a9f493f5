//! Each window under three writers, in every interleaving.

use std::sync::Arc;
use std::time::Duration;

use super::count::CountWindow;
use super::run::Run;
use super::time::TimeWindow;
use super::*;
use crate::sync::model::{check, together};
use crate::sync::{AtomicU32, Ordering};

/// A window and the generation that is published after its period has begun,
/// as the breaker's door does it.
struct Published<W> {
    window: W,
    generation: AtomicU32,
}

impl<W> Published<W> {
    fn new(window: W) -> Arc<Self> {
        Arc::new(Self {
            window,
            generation: AtomicU32::new(0),
        })
    }

    fn publish(&self, begin: impl FnOnce(&W)) {
        begin(&self.window);
        self.generation.store(1, Ordering::Release);
    }

    fn current(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }
}

const fn counts(total: u64, failures: u64) -> Counts {
    Counts { total, failures }
}

#[test]
fn a_count_window_is_exact_once_its_writers_are_done() {
    check(|| {
        let window = Arc::new(CountWindow::new(4));
        together(
            &window,
            |window| window.record(0, true),
            |window| window.record(0, false),
            |window| window.record(0, true),
        );
        assert_eq!(window.counts(), counts(3, 2));
        assert_eq!(window.record(0, true), Some(counts(4, 3)));
    });
}

/// What was counted for a place is taken off by whoever takes it next, even if
/// that one comes first.
#[test]
fn a_count_window_that_wraps_is_exact_once_its_writers_are_done() {
    check(|| {
        let window = Arc::new(CountWindow::new(2));
        window.record(0, true);
        together(
            &window,
            |window| window.record(0, true),
            |window| window.record(0, false),
            |window| window.record(0, true),
        );
        assert!(window.counts().failures <= 2);
        window.record(0, false);
        window.record(0, false);
        assert_eq!(window.counts(), counts(2, 0));
        assert_eq!(window.record(0, true), Some(counts(2, 1)));
    });
}

#[test]
fn a_count_window_takes_nothing_of_an_older_period() {
    check(|| {
        let shared = Published::new(CountWindow::new(2));
        shared.window.record(0, true);
        let ((), (), newer) = together(
            &shared,
            |shared| {
                shared.window.record(0, true);
            },
            |shared| {
                shared.publish(|window| window.begin(1));
                shared.window.record(1, false);
            },
            |shared| {
                let generation = shared.current();
                shared.window.record(generation, true);
                u64::from(generation)
            },
        );
        assert_eq!(shared.window.counts(), counts(1 + newer, newer));
        let expected = counts(2, 1 + newer);
        if newer == 0 {
            assert_eq!(shared.window.record(1, true), Some(expected));
        }
    });
}

#[test]
fn a_run_counts_every_failure() {
    check(|| {
        let run = Arc::new(Run::new());
        let fail = |run: &Run| run.failure(0);
        let (a, b, c) = together(&run, fail, fail, fail);
        let mut lengths = [a, b, c];
        lengths.sort_unstable();
        assert_eq!(lengths, [1, 2, 3], "each length is reached once");
    });
}

#[test]
fn a_run_ends_with_a_success() {
    check(|| {
        let run = Arc::new(Run::new());
        run.failure(0);
        let (a, b, ()) = together(
            &run,
            |run| run.failure(0),
            |run| run.failure(0),
            |run| run.success(0),
        );
        match (a.min(b), a.max(b), run.failure(0)) {
            // The success came last, between the two, or first.
            (2, 3, 1) | (1, 2, 2 | 3) => {}
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_run_takes_nothing_of_an_older_period() {
    check(|| {
        let shared = Published::new(Run::new());
        shared.window.failure(0);
        let ((), (), newer) = together(
            &shared,
            |shared| {
                shared.window.failure(0);
                shared.window.success(0);
            },
            |shared| {
                shared.publish(|run| run.begin(1));
                shared.window.failure(1);
            },
            |shared| {
                let generation = shared.current();
                shared.window.failure(generation);
                generation
            },
        );
        assert_eq!(shared.window.failure(1), 2 + newer);
    });
}

const SLOT: u64 = 1_000_000_000;

fn time_window() -> Arc<TimeWindow> {
    Arc::new(TimeWindow::new(Duration::from_secs(10)))
}

fn count(window: &TimeWindow, offset: u64, slot: u64, failed: bool) {
    if failed {
        window.failure(offset, slot * SLOT);
    } else {
        window.success(offset, slot * SLOT, 100);
    }
}

#[test]
fn a_time_window_is_exact_once_its_writers_are_done() {
    check(|| {
        let window = time_window();
        let offset = window.offset();
        together(
            &window,
            move |window| count(window, offset, 0, true),
            move |window| count(window, offset, 0, false),
            move |window| count(window, offset, 1, true),
        );
        assert_eq!(window.counts(SLOT), counts(3, 2));
    });
}

/// Slot 10 takes the place of slot 0, whose writer may be late or in time:
/// either way its outcome has left the window.
#[test]
fn a_slot_that_moves_on_keeps_the_new_and_drops_the_old() {
    check(|| {
        let window = time_window();
        let offset = window.offset();
        count(&window, offset, 0, true);
        together(
            &window,
            move |window| count(window, offset, 10, true),
            move |window| count(window, offset, 10, false),
            move |window| count(window, offset, 0, true),
        );
        assert_eq!(window.counts(10 * SLOT), counts(2, 1));
    });
}

/// As many slots later as its lower bits can tell apart, a slot that nobody
/// came to since is cleared before it is used again.
#[test]
fn a_slot_whose_number_looks_the_same_is_cleared_once() {
    // A multiple of the ten slots and of what the lower bits can tell.
    const LAP: u64 = 5 << 16;
    check(|| {
        let window = time_window();
        let offset = window.offset();
        count(&window, offset, 0, true);
        let fail = move |window: &TimeWindow| count(window, offset, LAP, true);
        together(&window, fail, fail, fail);
        assert_eq!(window.counts(LAP * SLOT), counts(3, 3));
    });
}

#[test]
fn a_time_window_takes_nothing_of_an_older_period() {
    check(|| {
        let shared = Published::new(TimeWindow::new(Duration::from_secs(10)));
        let old = shared.window.offset();
        count(&shared.window, old, 0, true);
        let ((), (), newer) = together(
            &shared,
            move |shared| count(&shared.window, old, 0, true),
            |shared| {
                shared.publish(TimeWindow::begin);
                count(&shared.window, shared.window.offset(), 0, false);
            },
            |shared| {
                let newer = shared.current() == 1;
                if newer {
                    count(&shared.window, shared.window.offset(), 0, true);
                }
                u64::from(newer)
            },
        );
        assert_eq!(shared.window.counts(0), counts(1 + newer, newer));
    });
}
