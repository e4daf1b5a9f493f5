//! What reaches a dead dependency, against a plain simulation of each arrangement.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::outage::ten_second_outage::TenSecondOutage;
use super::plain::{PlainBreaker, at_least_one, millis};

/// The arrivals within the outage and the waits before each further attempt, in milliseconds.
fn schedule(inputs: &TenSecondOutage) -> (Vec<u64>, Vec<u64>) {
    let outage = millis(inputs.outage);
    let arrivals = (0..).map(|i| (f64::from(i) * 1_000.0 / inputs.rate) as u64);
    let waits = (0..inputs.attempts.get() - 1).map(|n| millis(inputs.backoff) << n);
    (
        arrivals.take_while(|&at| at < outage).collect(),
        waits.collect(),
    )
}

fn plain_without_breaker(inputs: &TenSecondOutage) -> u64 {
    let (arrivals, waits) = schedule(inputs);
    let mut sends = 0;
    for mut at in arrivals {
        for wait in waits.iter().copied().chain([0]) {
            sends += u64::from(at < millis(inputs.outage));
            at += wait;
            if at >= millis(inputs.outage) {
                break;
            }
        }
    }
    sends
}

fn plain_sequential(inputs: &TenSecondOutage) -> u64 {
    let (arrivals, waits) = schedule(inputs);
    let outage = millis(inputs.outage);
    let mut breaker = PlainBreaker::new(inputs.threshold, inputs.open_time);
    let (mut now, mut sends) = (0, 0);
    for arrival in arrivals {
        now = now.max(arrival);
        let Some(era) = breaker.admits(now) else {
            continue;
        };
        let mut waits = waits.iter();
        let ok = loop {
            if now >= outage {
                break true;
            }
            sends += 1;
            match waits.next() {
                Some(wait) => now += wait,
                None => break false,
            }
        };
        breaker.hears(now, era, ok);
    }
    sends
}

/// Overlapping requests, the breaker asked once per request or before every attempt.
fn plain_overlapping(inputs: &TenSecondOutage, per_attempt: bool) -> u64 {
    let (arrivals, waits) = schedule(inputs);
    let outage = millis(inputs.outage);
    let mut breaker = PlainBreaker::new(inputs.threshold, inputs.open_time);
    // When, which request, which attempt, and the era of its admission.
    let mut due: BinaryHeap<_> = arrivals
        .into_iter()
        .enumerate()
        .map(|(id, at)| Reverse((at, id, 0, 0)))
        .collect();
    let mut sends = 0;
    while let Some(Reverse((now, id, attempt, mut era))) = due.pop() {
        if per_attempt || attempt == 0 {
            let Some(admitted) = breaker.admits(now) else {
                continue;
            };
            era = admitted;
        }
        let ok = now >= outage;
        sends += u64::from(!ok);
        let again = if ok { None } else { waits.get(attempt) };
        if per_attempt || again.is_none() {
            breaker.hears(now, era, ok);
        }
        if let Some(wait) = again {
            due.push(Reverse((now + wait, id, attempt + 1, era)));
        }
    }
    sends
}

fn outages() -> Vec<TenSecondOutage> {
    let default = TenSecondOutage::default;
    let ms = Duration::from_millis;
    // Backoffs that never meet an arrival, so that no figure hangs on who comes first at one tick.
    vec![
        TenSecondOutage {
            backoff: ms(103),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(57),
            threshold: at_least_one(1),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(57),
            threshold: at_least_one(12),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(103),
            attempts: at_least_one(2),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(103),
            attempts: at_least_one(1),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(103),
            open_time: ms(1_500),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(201),
            open_time: ms(333),
            rate: 50.0,
            ..default()
        },
        TenSecondOutage {
            backoff: ms(201),
            outage: ms(3_000),
            rate: 40.0,
            ..default()
        },
        TenSecondOutage {
            backoff: ms(33),
            outage: ms(31_000),
            rate: 20.0,
            ..default()
        },
        TenSecondOutage {
            backoff: ms(103),
            outage: ms(0),
            ..default()
        },
    ]
}

#[test]
fn every_arrangement_sends_what_a_plain_model_sends() {
    for inputs in outages() {
        let figures = inputs.measure().unwrap();
        assert_eq!(
            figures.no_breaker,
            plain_without_breaker(&inputs),
            "{inputs:?}"
        );
        assert_eq!(
            figures.around_loop_sequential,
            plain_sequential(&inputs),
            "{inputs:?}"
        );
        let around = plain_overlapping(&inputs, false);
        assert_eq!(figures.around_loop_concurrent, around, "{inputs:?}");
        assert_eq!(
            figures.per_attempt,
            plain_overlapping(&inputs, true),
            "{inputs:?}"
        );
    }
}

#[test]
fn the_published_inputs_give_the_published_figures() {
    let inputs = TenSecondOutage::default();
    let figures = inputs.measure().unwrap();
    assert_eq!(figures.no_breaker, 3_890);
    assert_eq!(figures.around_loop_sequential, 24);
    // An arrival and the failure that opens the breaker can meet at one tick.
    assert!(
        figures.around_loop_concurrent.abs_diff(304) <= 4,
        "{figures:?}"
    );
    assert_eq!(figures.per_attempt, 6);
    assert_eq!(figures.slowest_failure, Duration::from_millis(700));
}

#[test]
fn with_a_breaker_that_opens_after_k_failures_k_and_one_probe_get_through() {
    for k in [1, 2, 3, 7, 11, 20, 60] {
        let inputs = TenSecondOutage {
            threshold: at_least_one(k),
            ..Default::default()
        };
        assert_eq!(
            inputs.measure().unwrap().per_attempt,
            u64::from(k) + 1,
            "threshold {k}"
        );
    }
}

#[test]
fn shorter_cool_downs_cost_one_probe_each() {
    for (seconds, probes) in [(1, 9), (2, 4), (3, 3), (4, 2), (9, 1), (10, 0), (60, 0)] {
        let open_time = Duration::from_secs(seconds);
        let inputs = TenSecondOutage {
            open_time,
            ..Default::default()
        };
        assert_eq!(
            inputs.measure().unwrap().per_attempt,
            5 + probes,
            "open for {seconds} s"
        );
    }
}
