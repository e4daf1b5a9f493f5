//! What a gateway gets done, against slots over hold time, and its door against a plain simulation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::outage::slots::{Slots, Unrelated};
use super::plain::{at_least_one, doubling, millis};

/// How long the plain loop holds a slot when the primary rejects everything.
fn hold(inputs: &Slots) -> Duration {
    let waits: Duration = doubling(inputs.backoff, inputs.attempts).iter().sum();
    inputs.rejection * inputs.attempts.get() + waits + inputs.secondary
}

/// The share of unrelated calls that find no slot while dependent ones hold theirs for `hold`.
fn plain_door(inputs: &Slots, hold: Duration) -> f64 {
    let mut random = StdRng::seed_from_u64(99);
    let mut arrivals = Vec::new();
    for (rate, lasts, unrelated) in [
        (inputs.rate, hold, false),
        (inputs.unrelated_rate, inputs.unrelated, true),
    ] {
        let mut at = 0.0;
        while at < inputs.watched.as_secs_f64() {
            arrivals.push(((at * 1_000.0) as u64, millis(lasts), unrelated));
            at -= (1.0 - random.random::<f64>()).ln() / rate;
        }
    }
    arrivals.sort_unstable();
    let mut free_again = BinaryHeap::new();
    let (mut calls, mut refused) = (0, 0);
    for (now, lasts, unrelated) in arrivals {
        while free_again.peek().is_some_and(|&Reverse(at)| at <= now) {
            free_again.pop();
        }
        calls += u32::from(unrelated);
        if free_again.len() < inputs.slots.get() as usize {
            free_again.push(Reverse(now + lasts));
        } else {
            refused += u32::from(unrelated);
        }
    }
    f64::from(refused) / f64::from(calls)
}

fn share(unrelated: Unrelated) -> f64 {
    unrelated.refused as f64 / unrelated.calls as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_full_gateway_gets_done_its_slots_over_the_hold_time(
        slots in 20_u32..200,
        rounds in 1_u32..10,
        rest in 0_u32..20,
        rejection in 1_u64..500,
        answer in 1_u64..5_000,
        secondary in 1_u64..5_000,
        attempts in 1_u32..5,
        backoff in 0_u64..2_000,
    ) {
        let inputs = Slots {
            slots: at_least_one(slots),
            calls: at_least_one(slots * rounds + rest),
            rejection: Duration::from_millis(rejection),
            answer: Duration::from_millis(answer),
            secondary: Duration::from_millis(secondary),
            attempts: at_least_one(attempts),
            backoff: Duration::from_millis(backoff),
            watched: Duration::ZERO,
            ..Slots::default()
        };
        let figures = inputs.measure(1).unwrap();
        let rounds = rounds + u32::from(rest > 0);
        let calls = f64::from(inputs.calls.get());
        let per_s = |round: Duration| calls / (round * rounds).as_secs_f64();
        prop_assert!((figures.healthy_per_s / per_s(inputs.answer) - 1.0).abs() < 1e-9);
        prop_assert!((figures.outage_per_s / per_s(hold(&inputs)) - 1.0).abs() < 1e-9);

        // With the stack a call waits for the secondary, and for no more than a rejection before it;
        // the few that failed before the breaker opened wait out a first backoff as well.
        let seconds = |time: Duration| time.as_secs_f64();
        let took = calls / figures.steadfast_per_s;
        let least = seconds(inputs.secondary * rounds);
        let most = seconds((inputs.rejection + inputs.secondary) * rounds + inputs.backoff * 2);
        prop_assert!(took >= least - 1e-9 && took <= most + 0.01, "{} {}..{}", took, least, most);
    }
}

#[test]
fn the_published_gateway_gets_done_what_is_published() {
    let figures = Slots::default().measure(1).unwrap();
    assert!((figures.healthy_per_s - 166.7).abs() < 0.05, "{figures:?}");
    assert!((figures.outage_per_s - 39.2).abs() < 0.05, "{figures:?}");
    assert!(figures.steadfast_per_s > 3.5 * figures.outage_per_s);
    assert_eq!(figures.healthy.refused, 0);
    assert!(figures.outage.refused > 0);
    assert_eq!(figures.steadfast.refused, 0);
}

#[test]
fn the_door_is_as_full_as_in_a_plain_simulation() {
    for (slots, rate, attempts, backoff) in [
        (400, 100.0, 4, 1_000),
        (100, 25.0, 3, 700),
        (30, 40.0, 1, 0),
        (2_000, 100.0, 4, 1_000),
    ] {
        let inputs = Slots {
            slots: at_least_one(slots),
            calls: at_least_one(1),
            watched: Duration::from_secs(60),
            rate,
            attempts: at_least_one(attempts),
            backoff: Duration::from_millis(backoff),
            ..Slots::default()
        };
        let figures = inputs.measure(8).unwrap();
        for (ours, hold) in [
            (figures.healthy, inputs.answer),
            (figures.outage, hold(&inputs)),
            (figures.steadfast, inputs.secondary),
        ] {
            let (ours, plain) = (share(ours), plain_door(&inputs, hold));
            assert!((ours - plain).abs() < 0.05, "{ours} {plain} {inputs:?}");
        }
    }
}

#[test]
fn with_slots_enough_nobody_is_refused() {
    let inputs = Slots {
        slots: at_least_one(3_000),
        calls: at_least_one(1),
        watched: Duration::from_secs(30),
        ..Slots::default()
    };
    let figures = inputs.measure(2).unwrap();
    assert_eq!(figures.outage.refused, 0);
}
