//! How a crowd comes back, against rounds counted by hand and a plain simulation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::outage::jitter::{Jitter, Row};
use super::plain::{at_least_one, millis};

/// Peak, mean completion and retries per client, when a wait is made of its window by `draw`.
fn plain_crowd(inputs: &Jitter, mut draw: impl FnMut(f64) -> f64) -> (u64, f64, f64) {
    let window = |retry: i32| {
        let doubled = inputs.backoff.as_secs_f64() * 2_f64.powi(retry);
        doubled.min(inputs.cap.as_secs_f64()) * 1_000.0
    };
    // When, and which retry it is; a timer fires at whole milliseconds.
    let mut due = BinaryHeap::new();
    for _ in 0..inputs.clients.get() {
        due.push(Reverse((draw(window(0)).ceil() as u64, 0)));
    }
    let mut attempts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut completed = 0.0;
    while let Some(Reverse((now, retry))) = due.pop() {
        let count = attempts.entry(now / 10).or_default();
        *count += 1;
        if *count <= inputs.capacity.get().into() {
            completed += now as f64;
        } else {
            let wait = draw(window(retry + 1)).ceil() as u64;
            due.push(Reverse((now + wait, retry + 1)));
        }
    }
    let clients = f64::from(inputs.clients.get());
    let all: u64 = attempts.values().sum();
    let peak = attempts.into_values().max().unwrap_or_default();
    (peak, completed / clients, all as f64 / clients)
}

fn held_against(row: &Row, (peak, mean, retries): (u64, f64, f64), tolerance: f64) {
    let near = |ours: f64, plain: f64| (ours - plain).abs() <= tolerance * plain;
    assert!(
        near(row.peak_per_10ms as f64, peak as f64)
            && near(row.mean_completion_ms, mean)
            && near(row.retries_per_client, retries),
        "{row:?}, expected {peak} {mean} {retries}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn without_jitter_all_who_are_left_come_at_one_instant_each_round(
        clients in 1_u32..400,
        capacity in 5_u32..400,
        backoff in 10_u64..500,
        cap in 500_u64..10_000,
    ) {
        let inputs = Jitter {
            clients: at_least_one(clients),
            capacity: at_least_one(capacity),
            backoff: Duration::from_millis(backoff),
            cap: Duration::from_millis(cap),
            wobble: 0.0,
        };
        let [none, wobble, _] = inputs.measure(1).unwrap();
        let (mut left, mut now, mut wait) = (clients, 0, backoff);
        let (mut completed, mut last, mut retries) = (0, 0, 0);
        while left > 0 {
            now += wait;
            retries += left;
            let answered = left.min(capacity);
            completed += u64::from(answered) * now;
            last = now;
            left -= answered;
            wait = (2 * wait).min(millis(inputs.cap));
        }
        for row in [&none, &wobble] {
            let clients = f64::from(clients);
            prop_assert_eq!(row.peak_per_10ms, u64::from(inputs.clients.get()));
            prop_assert!((row.mean_completion_ms - completed as f64 / clients).abs() < 1e-6);
            prop_assert!((row.last_completion_ms - last as f64).abs() < 1e-6);
            prop_assert!((row.retries_per_client - f64::from(retries) / clients).abs() < 1e-9);
        }
    }
}

#[test]
fn a_jittered_crowd_comes_back_as_in_a_plain_simulation() {
    for (clients, capacity, backoff, wobble) in [
        (1_000, 100, 100, 0.1),
        (4_000, 100, 100, 0.1),
        (2_000, 50, 400, 0.3),
        (3_000, 3_000, 200, 0.05),
    ] {
        let inputs = Jitter {
            clients: at_least_one(clients),
            capacity: at_least_one(capacity),
            backoff: Duration::from_millis(backoff),
            wobble,
            ..Jitter::default()
        };
        let [_, wobbling, full] = inputs.measure(3).unwrap();
        let mut random = StdRng::seed_from_u64(77);
        let plain = plain_crowd(&inputs, |window| window * random.random::<f64>());
        held_against(&full, plain, 0.2);
        let plain = plain_crowd(&inputs, |window| {
            window * (1.0 + wobble * (2.0 * random.random::<f64>() - 1.0))
        });
        held_against(&wobbling, plain, 0.2);
    }
}

#[test]
fn the_whole_window_spreads_the_published_crowd() {
    for seed in 1..6 {
        let [none, wobble, full] = Jitter::default().measure(seed).unwrap();
        assert_eq!(none.peak_per_10ms, 1_000);
        assert!(full.peak_per_10ms < 150, "{full:?}");
        assert!(full.mean_completion_ms <= none.mean_completion_ms);
        assert!(wobble.peak_per_10ms > 2 * full.peak_per_10ms, "{wobble:?}");
        assert_eq!(wobble.kind, "±10 %");
    }
}
