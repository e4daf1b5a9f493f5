//! What reaches a dead dependency, against a plain simulation of each arrangement.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use proptest::prelude::*;

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
        // Whoever would be refused now does not wait for its turn.
        let goes_on = !per_attempt || breaker.would_admit(now);
        if let Some(wait) = again.filter(|_| goes_on) {
            due.push(Reverse((now + wait, id, attempt + 1, era)));
        }
    }
    sends
}

fn held_against_the_plain_models(inputs: &TenSecondOutage) {
    let figures = inputs.measure().expect("figures");
    assert_eq!(
        figures.no_breaker,
        plain_without_breaker(inputs),
        "alone: {inputs:?}"
    );
    let around = plain_sequential(inputs);
    assert_eq!(
        figures.around_loop_sequential, around,
        "one after another: {inputs:?}"
    );
    let around = plain_overlapping(inputs, false);
    assert_eq!(
        figures.around_loop_concurrent, around,
        "overlapping: {inputs:?}"
    );
    let per_attempt = plain_overlapping(inputs, true);
    assert_eq!(figures.per_attempt, per_attempt, "per attempt: {inputs:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Arrivals an even number of milliseconds apart and an odd backoff: a retry never falls on an
    /// arrival, so that no figure hangs on who comes first at one tick.
    #[test]
    fn every_arrangement_sends_what_a_plain_model_sends(
        gap in prop::sample::select(vec![10_u32, 20, 40, 50, 100, 200, 500]),
        outage in 0_u64..5_000,
        attempts in 1_u32..6,
        half_backoff in 0_u64..300,
        threshold in 1_u32..15,
        open_time in 1_u64..4_000,
    ) {
        held_against_the_plain_models(&TenSecondOutage {
            rate: 1_000.0 / f64::from(gap),
            outage: Duration::from_millis(outage),
            attempts: at_least_one(attempts),
            backoff: Duration::from_millis(2 * half_backoff + 1),
            threshold: at_least_one(threshold),
            open_time: Duration::from_millis(open_time),
        });
    }
}

#[test]
fn ten_seconds_with_a_backoff_that_meets_no_arrival_are_as_in_a_plain_model() {
    held_against_the_plain_models(&TenSecondOutage {
        backoff: Duration::from_millis(103),
        ..Default::default()
    });
}

#[test]
fn the_published_inputs_give_the_published_figures() {
    let inputs = TenSecondOutage::default();
    let figures = inputs.measure().expect("figures");
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
    for k in [1, 2, 3, 11, 60] {
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
    for (seconds, probes) in [(1, 9), (2, 4), (9, 1), (10, 0), (60, 0)] {
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
