//! Each window under three writers, in every interleaving.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::count::CountWindow;
use super::run::Run;
use super::time::TimeWindow;
use super::*;
use crate::sync::model::{both, check, together};
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
        let window = Arc::new(CountWindow::with_room_for(4));
        together(
            &window,
            |window| window.record(0, true),
            |window| window.record(0, false),
            |window| window.record(0, true),
        );
        assert_eq!(window.holds(), counts(3, 2));
        assert_eq!(window.record(0, true), Some(counts(4, 3)));
    });
}

/// What was counted for a place is taken off by whoever takes it next, even if
/// that one comes first.
#[test]
fn a_count_window_that_wraps_is_exact_once_its_writers_are_done() {
    check(|| {
        let window = Arc::new(CountWindow::with_room_for(2));
        window.record(0, true);
        together(
            &window,
            |window| window.record(0, true),
            |window| window.record(0, false),
            |window| window.record(0, true),
        );
        assert!(window.holds().failures <= 2);
        window.record(0, false);
        window.record(0, false);
        assert_eq!(window.holds(), counts(2, 0));
        assert_eq!(window.record(0, true), Some(counts(2, 1)));
    });
}

#[test]
fn a_count_window_takes_nothing_of_an_older_period() {
    check(|| {
        let shared = Published::new(CountWindow::with_room_for(2));
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
        assert_eq!(shared.window.holds(), counts(1 + newer, newer));
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

fn plan() -> Plan {
    Plan::failures_in(WindowKind::Time(Duration::from_secs(10)))
}

fn time_window() -> Arc<TimeWindow> {
    Arc::new(TimeWindow::new(&plan()))
}

fn count(window: &TimeWindow, generation: u32, slot: u64, failed: bool) -> Option<Counts> {
    let call = Call {
        generation,
        now: slot * SLOT,
        ran: Span::ZERO,
    };
    if failed {
        window.failure(&plan(), call)
    } else {
        window.success(&plan(), generation, call.now, || 100)
    }
}

#[test]
fn a_time_window_is_exact_once_its_writers_are_done() {
    check(|| {
        let window = time_window();
        together(
            &window,
            |window| count(window, 0, 0, true),
            |window| count(window, 0, 0, false),
            |window| count(window, 0, 1, true),
        );
        assert_eq!(window.counts(&plan(), 0, SLOT), counts(3, 2));
    });
}

/// Whoever comes last sees what all have counted, be it in other slots, or in
/// words of their own because they met.
#[test]
fn of_those_who_count_at_once_one_sees_them_all() {
    check(|| {
        let window = time_window();
        let seen = together(
            &window,
            |window| count(window, 0, 0, true),
            |window| count(window, 0, 0, true),
            |window| count(window, 0, 1, true),
        );
        let last = [seen.0, seen.1, seen.2].into_iter().flatten();
        let most = last.map(|counts| counts.failures).max();
        // Slot 1 has not begun for those who look at slot 0.
        assert!(most >= Some(2), "{seen:?}");
        assert_eq!(seen.2.map(|counts| counts.failures).max(most), most);
    });
}

/// Slot 10 takes the place of slot 0, whose writer may be late or in time:
/// either way its outcome has left the window.
#[test]
fn a_slot_that_moves_on_keeps_the_new_and_drops_the_old() {
    check(|| {
        let window = time_window();
        count(&window, 0, 0, true);
        together(
            &window,
            |window| count(window, 0, 10, true),
            |window| count(window, 0, 10, false),
            |window| count(window, 0, 0, true),
        );
        assert_eq!(window.counts(&plan(), 0, 10 * SLOT), counts(2, 1));
    });
}

/// Three who meet at one word: whoever is in the way twice counts in words of
/// its own, in lines that it makes or finds made. Nothing is lost, and whoever
/// comes last sees them all.
#[test]
fn a_time_window_whose_writers_meet_is_exact_once_they_are_done() {
    // Not parts of the model: whether it went where it was to go.
    let (met, apart) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (has_met, was_apart) = (Arc::clone(&met), Arc::clone(&apart));
    check(move || {
        let window = time_window();
        let twice = |window: &TimeWindow| {
            let first = count(window, 0, 0, true);
            (first, count(window, 0, 0, true))
        };
        let (a, b, c) = together(&window, twice, twice, |window| count(window, 0, 0, true));
        assert_eq!(window.counts(&plan(), 0, 0), counts(5, 5));
        let seen = [a.0, a.1, b.0, b.1, c].map(|counts| counts.unwrap().failures);
        assert_eq!(seen.into_iter().max(), Some(5), "{seen:?}");
        let is_spread = if window.is_spread() {
            &has_met
        } else {
            &was_apart
        };
        is_spread.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for seen in [met, apart] {
        assert!(seen.load(std::sync::atomic::Ordering::Relaxed));
    }
}

/// So long after the last outcome that the lower bits of its lap come round:
/// what is held is nobody's. All who find that at once empty it, and none of
/// them what another has counted since.
#[test]
fn what_looks_the_same_after_ages_is_emptied() {
    const ROUND: u64 = 10 << 22;
    check(|| {
        let window = time_window();
        // So late that what is empty need not be emptied, which would take the
        // model too long.
        for _ in 0..3 {
            count(&window, 0, ROUND, true);
        }
        let fail = |window: &TimeWindow| count(window, 0, 2 * ROUND, true);
        both(&window, fail, fail);
        assert_eq!(window.counts(&plan(), 0, 2 * ROUND * SLOT), counts(2, 2));
    });
}

/// At the turn of an age, with traffic: what is of the window stays, though it
/// is swept, and what is older goes.
#[test]
fn a_sweep_takes_nothing_out_of_the_window() {
    const AGE: u64 = 10 << 18;
    check(|| {
        let window = time_window();
        // Numbers begin with eleven: eleven slots before it the age begins.
        count(&window, 0, AGE - 40, true);
        count(&window, 0, AGE - 15, true);
        let fail = |slot| move |window: &TimeWindow| count(window, 0, AGE - slot, true);
        // One is late, and has nothing to sweep.
        both(&window, fail(12), fail(10));
        assert_eq!(window.counts(&plan(), 0, (AGE - 10) * SLOT), counts(3, 3));
        assert_eq!(window.counts(&plan(), 0, (AGE - 2) * SLOT), counts(1, 1));
    });
}

#[test]
fn a_time_window_takes_nothing_of_an_older_period() {
    check(|| {
        let shared = Published::new(TimeWindow::new(&plan()));
        count(&shared.window, 0, 0, true);
        let (_, (), newer) = together(
            &shared,
            |shared| count(&shared.window, 0, 0, true),
            |shared| {
                shared.publish(|window| window.begin(1));
                count(&shared.window, 1, 0, false);
            },
            |shared| {
                let newer = shared.current() == 1;
                if newer {
                    count(&shared.window, 1, 0, true);
                }
                u64::from(newer)
            },
        );
        let held = shared.window.counts(&plan(), 1, 0);
        assert_eq!(held, counts(1 + newer, newer));
    });
}
