use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::breaker::config::{BreakerConfig, Window};

const SECOND: u64 = 1_000_000_000;

/// A meter with what a breaker keeps beside it.
struct Kept {
    plan: Plan,
    thresholds: Thresholds,
    meter: Meter,
}

fn meter(config: &BreakerConfig) -> Kept {
    let rules = config.check().unwrap();
    let plan = Plan::new(&rules);
    Kept {
        meter: Meter::new(&plan),
        thresholds: Thresholds::new(&rules),
        plan,
    }
}

impl Kept {
    fn hear(&self, generation: u32, now: u64, failed: bool) -> bool {
        let call = at(generation, now);
        if failed {
            self.meter.failure(&self.plan, &self.thresholds, call)
        } else {
            self.meter.success(&self.plan, &self.thresholds, call)
        }
    }
}

const fn at(generation: u32, now: u64) -> Call {
    Call {
        generation,
        now,
        ran: Span::ZERO,
    }
}

#[test]
fn a_rate_is_exact_at_the_boundary() {
    let config = BreakerConfig::failure_rate(0.29)
        .window(Window::count(100))
        .min_calls(100);
    for failures in [28, 29] {
        let meter = meter(&config);
        let mut tripped = false;
        for call in 0..100 {
            tripped |= meter.hear(0, 0, call < failures);
        }
        assert_eq!(tripped, failures == 29, "{failures} of 100");
    }
}

#[test]
fn a_success_that_completes_the_minimum_can_open() {
    for window in [Window::count(4), Window::time(Duration::from_secs(10))] {
        let config = BreakerConfig::failure_rate(0.5).window(window).min_calls(4);
        let meter = meter(&config);
        for _ in 0..3 {
            assert!(!meter.hear(0, 0, true));
        }
        assert!(meter.hear(0, 0, false), "{window:?}");
    }
}

#[test]
fn a_success_can_open_when_old_successes_leave_the_window() {
    let config = BreakerConfig::failure_rate(0.5)
        .window(Window::time(Duration::from_secs(10)))
        .min_calls(4);
    let meter = meter(&config);
    for _ in 0..6 {
        assert!(!meter.hear(0, 0, false));
    }
    for _ in 0..4 {
        assert!(!meter.hear(0, 5 * SECOND, true));
    }
    assert!(!meter.hear(0, 9 * SECOND, false), "4 of 11 failed");
    assert!(meter.hear(0, 10 * SECOND, false), "4 of 6 are left");
}

#[test]
fn slow_traffic_that_only_fails_opens_below_the_minimum() {
    let meter = meter(&BreakerConfig::default());
    for call in 0..4 {
        assert!(!meter.hear(0, call * 2 * SECOND, true));
    }
    assert!(meter.hear(0, 8 * SECOND, true));
}

#[test]
fn slow_calls_open_in_each_period_whatever_came_of_them() {
    let slow = |kept: &Kept, generation, failed| {
        let call = Call {
            ran: Span::new(Some(Duration::from_secs(2))),
            ..at(generation, 0)
        };
        if failed {
            kept.meter.failure(&kept.plan, &kept.thresholds, call)
        } else {
            kept.meter.success(&kept.plan, &kept.thresholds, call)
        }
    };
    for window in [Window::count(4), Window::time(Duration::from_secs(10))] {
        for last_fails in [false, true] {
            let config = BreakerConfig::failure_rate(1.0)
                .window(window)
                .min_calls(4)
                .slow_calls(Duration::from_secs(1), 0.5);
            let kept = meter(&config);
            for generation in [0, 3] {
                kept.meter.begin_period(generation);
                assert!(!slow(&kept, generation, !last_fails), "{window:?}");
                for _ in 0..2 {
                    assert!(!kept.hear(generation, 0, false));
                }
                assert!(slow(&kept, generation, last_fails), "{window:?}");
            }
        }
    }
}

#[test]
fn failures_that_are_too_far_apart_or_interrupted_do_not_count_as_the_last_k() {
    let apart = meter(&BreakerConfig::default());
    for call in 0..50 {
        assert!(!apart.hear(0, call * 3 * SECOND, true), "call {call}");
    }
    let interrupted = meter(&BreakerConfig::default().min_calls(1000));
    for call in 0..50 {
        assert!(!interrupted.hear(0, 0, call % 5 != 4), "call {call}");
    }
}

#[test]
fn consecutive_failures_count_however_far_apart_until_a_success() {
    let meter = meter(&BreakerConfig::consecutive(3));
    assert!(!meter.hear(0, 0, true));
    assert!(!meter.hear(0, 1, true));
    assert!(!meter.hear(0, 2, false));
    assert!(!meter.hear(0, 3, true));
    assert!(!meter.hear(0, 4, true));
    assert!(meter.hear(0, u64::MAX / 2, true));
}

#[test]
fn a_new_period_begins_empty_and_hears_nothing_of_the_old_one() {
    for config in [
        BreakerConfig::consecutive(3),
        BreakerConfig::failure_rate(0.5).window(Window::count(4)),
        BreakerConfig::failure_rate(0.5).min_calls(4),
    ] {
        let meter = meter(&config);
        for _ in 0..2 {
            assert!(!meter.hear(0, 0, true));
        }
        meter.meter.begin_period(3);
        for _ in 0..50 {
            // Whatever it says of its own period, which is over.
            meter.hear(0, 1, true);
        }
        for _ in 0..2 {
            assert!(!meter.hear(3, 1, true), "{config:?}");
        }
        let opens = (0..4).any(|_| meter.hear(3, 1, true));
        assert!(opens, "the new period counts too: {config:?}");
    }
}

#[test]
fn idle_time_of_any_length_empties_a_time_window() {
    let config = BreakerConfig::failure_rate(0.5)
        .window(Window::time(Duration::from_secs(10)))
        .min_calls(4);
    // The lower bits of a slot's lap come round after 2^22 windows.
    const ROUND: u64 = 10 << 22;
    for idle in [
        10,
        32_768,
        10 << 18,
        400 * 24 * 3600,
        ROUND,
        ROUND - 10,
        3 * ROUND,
    ] {
        for begun in [0, 1] {
            let meter = meter(&config);
            for _ in 0..3 {
                assert!(!meter.hear(0, begun * SECOND, true));
            }
            for failure in 1..=4 {
                let opens = meter.hear(0, (begun + idle) * SECOND, true);
                assert_eq!(opens, failure == 4, "from {begun} s, after {idle} s");
            }
        }
    }
}

#[test]
fn a_clock_that_stands_at_its_end_is_harmless() {
    let meter = meter(&BreakerConfig::default());
    for _ in 0..4 {
        assert!(!meter.hear(0, u64::MAX, true));
    }
    assert!(meter.hear(0, u64::MAX, true));
}

#[test]
fn an_outcome_that_comes_a_window_late_is_left_out() {
    let config = BreakerConfig::failure_rate(0.5).min_calls(4);
    let meter = meter(&config);
    assert!(!meter.hear(0, 100 * SECOND, false));
    for _ in 0..50 {
        assert!(
            !meter.hear(0, 90 * SECOND, true),
            "same place, ten slots ago"
        );
    }
    assert!(!meter.hear(0, 100 * SECOND, true));
    assert!(!meter.hear(0, 100 * SECOND, false));
}

#[test]
fn one_slot_holds_the_largest_minimum_of_calls() {
    let most = 1_000_000;
    let meter = meter(&BreakerConfig::failure_rate(0.5).min_calls(most));
    for call in 1..=most {
        assert_eq!(meter.hear(0, 0, true), call == most, "call {call}");
    }
}

#[test]
fn counts_are_exact_after_two_threads() {
    let count = CountWindow::with_room_for(1000);
    let plan = Plan::failures_in(WindowKind::Time(Duration::from_secs(10)));
    let time = TimeWindow::new(&plan);
    let each = 20_000u32;
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (count, time, plan) = (&count, &time, &plan);
            scope.spawn(move || {
                for call in 0..each {
                    let failed = (call + thread) % 4 == 0;
                    count.record(0, failed);
                    if failed {
                        time.failure(plan, at(0, 0));
                    } else {
                        time.success(plan, 0, 0, || 1);
                    }
                }
            });
        }
    });
    let total = u64::from(2 * each) + 1;
    let failures = u64::from(2 * each / 4) + 1;
    let counts = time.failure(&plan, at(0, 0)).unwrap();
    assert_eq!(counts, Counts { total, failures });
    // Flush the ring with a known pattern: what is left is exactly that.
    for call in 0..999 {
        count.record(0, call % 3 == 0);
    }
    let counts = count.record(0, true).unwrap();
    assert_eq!(counts.total, 1000);
    assert_eq!(counts.failures, 334);
}

proptest! {
    /// Every rule against lists of outcomes that are gone through anew.
    #[test]
    fn every_rule_agrees_with_a_list_of_outcomes(
        steps in proptest::collection::vec((0u64..4_000, any::<bool>()), 1..200),
        size in 1u32..12,
        min in 1u32..12,
        percent in 1u32..=100,
        last in 1u32..6,
        timed in any::<bool>(),
    ) {
        let min = min.min(size);
        let last = last.min(size);
        let window = if timed {
            Window::time(Duration::from_secs(10))
        } else {
            Window::count(size)
        };
        let meter = meter(
            &BreakerConfig::failure_rate(f64::from(percent) / 100.0)
                .window(window)
                .min_calls(min)
                .last_failed(last),
        );
        let mut heard: VecDeque<(u64, bool)> = VecDeque::new();
        let mut now = 0;
        for (gap, failed) in steps {
            now += gap * 1_000_000;
            let tripped = meter.hear(0, now, failed);
            heard.push_back((now / SECOND, failed));
            let kept: Vec<bool> = if timed {
                let oldest = (now / SECOND).saturating_sub(9);
                heard.iter().filter(|(slot, _)| *slot >= oldest).map(|h| h.1).collect()
            } else {
                let skip = heard.len().saturating_sub(size as usize);
                heard.iter().skip(skip).map(|h| h.1).collect()
            };
            let failures = kept.iter().filter(|failed| **failed).count();
            let by_rate = kept.len() >= min as usize
                && failures * 100 >= percent as usize * kept.len();
            let by_last = kept.len() >= last as usize
                && kept.iter().rev().take(last as usize).all(|failed| *failed);
            prop_assert_eq!(tripped, by_rate || by_last, "at {} ms", now / 1_000_000);
            if tripped {
                // The breaker would open here; a new period begins.
                break;
            }
        }
    }
}
