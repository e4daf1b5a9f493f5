//! Outcomes that race with the end of their period.

use super::*;
use crate::{BreakerConfig, Window};

/// Two failures open it, by each kind of rule.
fn kinds() -> [BreakerConfig; 3] {
    let by_rate = BreakerConfig::failure_rate(1.0).min_calls(2);
    let ten_seconds = Window::time(Duration::from_secs(10));
    [
        BreakerConfig::consecutive(2),
        by_rate.clone().window(Window::count(2)),
        by_rate.window(ten_seconds),
    ]
}

#[test]
fn a_run_opens_once() {
    three_failures(0);
}

#[test]
fn a_count_window_opens_once() {
    three_failures(1);
}

#[test]
fn a_time_window_opens_once() {
    three_failures(2);
}

/// Of three failures that come at once the second opens the breaker, and the
/// third finds its period over.
fn three_failures(kind: usize) {
    let [.., config] = &mut kinds()[..=kind] else {
        unreachable!("there are three kinds");
    };
    model(config.clone(), |core| {
        let ticket = admit(core, 0).unwrap();
        let fail = move |core: &Core| fail(core, ticket, 0);
        together(core, fail, fail, fail);
        assert_eq!(state(core, 0), BreakerState::Open);
        assert_eq!(core.kept().lock().generation(), 1);
        0
    });
}

/// With the minimum of three calls one failure is enough; whoever comes last
/// sees it.
#[test]
fn a_minimum_that_successes_complete_opens() {
    for window in [Window::count(3), Window::time(Duration::from_secs(10))] {
        let config = BreakerConfig::failure_rate(0.3).min_calls(3).window(window);
        model(config, |core| {
            let ticket = admit(core, 0).unwrap();
            let succeed = move |core: &Core| succeed(core, ticket, 0);
            let fail = move |core: &Core| fail(core, ticket, 0);
            together(core, succeed, fail, succeed);
            assert_eq!(state(core, 0), BreakerState::Open);
            0
        });
    }
}

/// Of failures that pass one another between the run and the window, one sees
/// that all of the last failed.
#[test]
fn the_last_calls_that_all_failed_open() {
    for window in [Window::count(10), Window::time(Duration::from_secs(10))] {
        let config = BreakerConfig::failure_rate(1.0)
            .min_calls(10)
            .last_failed(3)
            .window(window);
        model(config, |core| {
            let ticket = admit(core, 0).unwrap();
            let fail = move |core: &Core| fail(core, ticket, 0);
            together(core, fail, fail, fail);
            assert_eq!(state(core, 0), BreakerState::Open);
            0
        });
    }
}

#[test]
fn a_run_begins_anew() {
    late_failures(0);
}

#[test]
fn a_count_window_begins_anew() {
    late_failures(1);
}

#[test]
fn a_time_window_begins_anew() {
    late_failures(2);
}

/// Late failures may open the breaker before it is reset or come to nothing
/// after it; they never count towards the next opening.
fn late_failures(kind: usize) {
    let [.., config] = &mut kinds()[..=kind] else {
        unreachable!("there are three kinds");
    };
    model(config.clone(), |core| {
        let old = admit(core, 0).unwrap();
        let late = move |core: &Core| fail(core, old, 0);
        let ((), (), new) = together(core, late, late, |core| {
            core.reset(at(core, 0));
            let new = admit(core, 0).unwrap();
            fail(core, new, 0);
            new
        });
        assert_eq!(
            state(core, 0),
            BreakerState::Closed,
            "one failure is not two"
        );
        fail(core, new, 0);
        assert_eq!(state(core, 0), BreakerState::Open, "the new one was lost");
        0
    });
}

/// The period is looked at and the time is taken one after the other; in
/// between others may go on for a while.
#[test]
fn an_outcome_that_was_held_up_for_some_slots_belongs_to_no_later_period() {
    let [.., config] = kinds();
    model(config, |core| {
        // Whoever reads a later time sees what was done before an earlier one
        // was read: slots are long, and stores are seen within nanoseconds.
        let clock = Arc::new(AtomicU64::new(0));
        let fail_now = |ticket: Option<Ticket>| {
            let clock = Arc::clone(&clock);
            move |core: &Core| {
                let ticket = ticket.or_else(|| admit(core, 0)).unwrap();
                let now = || at(core, clock.fetch_or(0, Ordering::AcqRel));
                core.record(ticket, &Verdict::transient(), Moment::NEVER, now);
            }
        };
        let late = fail_now(admit(core, 0));
        let new = fail_now(None);
        let pass_time = {
            let clock = Arc::clone(&clock);
            move |_: &Core| {
                clock.fetch_add(3, Ordering::AcqRel);
            }
        };
        let begin_anew = move |core: &Core| {
            core.reset(at(core, 0));
            new(core);
        };
        // The late one begins, for what begins needs no preemption.
        together(core, begin_anew, pass_time, late);
        assert_eq!(
            state(core, 3),
            BreakerState::Closed,
            "one failure is not two"
        );
        0
    });
}
