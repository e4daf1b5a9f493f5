//! What callers wait for, against the arithmetic of independent attempts.

use std::time::Duration;

use proptest::prelude::*;

use super::outage::latency::{Figures, Latency};
use super::plain::{at_least_one, doubling, is_near};

/// The ways a request can go through the plain loop.
struct Way {
    /// How likely it is.
    probability: f64,
    takes: Duration,
    /// Begin and end of everything that is sent.
    sends: Vec<(Duration, Duration)>,
}

fn ways(inputs: &Latency) -> Vec<Way> {
    let mut ways = Vec::new();
    let mut sends = Vec::new();
    let mut now = Duration::ZERO;
    let mut all_rejected = 1.0;
    let mut waits = doubling(inputs.backoff, inputs.attempts).into_iter();
    loop {
        let mut answered = sends.clone();
        answered.push((now, now + inputs.answer));
        ways.push(Way {
            probability: all_rejected * (1.0 - inputs.rejects),
            takes: now + inputs.answer,
            sends: answered,
        });
        all_rejected *= inputs.rejects;
        sends.push((now, now + inputs.rejection));
        now += inputs.rejection;
        let Some(wait) = waits.next() else { break };
        now += wait;
    }
    sends.push((now, now + inputs.secondary));
    ways.push(Way {
        probability: all_rejected,
        takes: now + inputs.secondary,
        sends,
    });
    ways
}

fn held_against_the_arithmetic(inputs: &Latency, figures: &Figures) {
    let requests = inputs.requests.get();
    let ways = ways(inputs);
    let likely = |which: &dyn Fn(&Way) -> bool| -> f64 {
        let chosen = ways.iter().filter(|way| which(way));
        chosen.map(|way| way.probability).sum()
    };
    let run = &figures.retry_only;
    let full_path = inputs.rejects.powf(inputs.attempts.get().into());
    assert!(
        is_near(run.by_secondary, full_path, requests),
        "{} {full_path} {inputs:?}",
        run.by_secondary
    );
    let in_time = likely(&|way| way.takes <= inputs.caller_leaves);
    assert!(
        is_near(run.in_time, in_time, requests),
        "{} {in_time} {inputs:?}",
        run.in_time
    );

    for share in [0.5, 0.9, 0.99] {
        // Where the share of those who are faster is not clearly above or below, either will do.
        let slack =
            5.0 * (share * (1.0 - share) / f64::from(requests)).sqrt() + 5.0 / f64::from(requests);
        let took = run.percentile(share);
        let faster = likely(&|way| way.takes < took);
        let as_fast = likely(&|way| way.takes <= took);
        assert!(
            faster <= share + slack && as_fast >= share - slack,
            "{share}: {took:?}, {faster} to {as_fast}, {inputs:?}"
        );
    }

    let per_request = |late: &dyn Fn(&(Duration, Duration)) -> bool| -> f64 {
        let late = |way: &Way| way.sends.iter().filter(|send| late(send)).count() as f64;
        ways.iter().map(|way| way.probability * late(way)).sum()
    };
    let most = f64::from(inputs.attempts.get() + 1);
    let leaves = inputs.caller_leaves;
    let under_way = per_request(&|&(_, end)| end > leaves);
    let begun = per_request(&|&(begin, _)| begin > leaves);
    for (measured, expected) in [
        (run.sends_after_caller_left, under_way),
        (run.begun_after_caller_left, begun),
    ] {
        let measured = measured as f64 / f64::from(requests);
        assert!(
            is_near(measured / most, expected / most, requests),
            "{measured} {expected} {inputs:?}"
        );
    }

    // The same fate with a probability of c, else a draw of its own.
    let c = inputs.correlation;
    let again = c + (1.0 - c) * inputs.rejects;
    let correlated = inputs.rejects * again.powf(f64::from(inputs.attempts.get()) - 1.0);
    let measured = figures.retry_only_correlated.by_secondary;
    assert!(
        is_near(measured, correlated, requests),
        "{measured} {correlated} {inputs:?}"
    );
}

fn nobody_is_served_who_has_left(inputs: &Latency, figures: &Figures) {
    for run in [&figures.steadfast, &figures.steadfast_correlated] {
        assert_eq!(run.sends_after_caller_left, 0, "{inputs:?}");
        assert_eq!(run.begun_after_caller_left, 0, "{inputs:?}");
        assert!(run.percentile(1.0) <= inputs.caller_leaves, "{inputs:?}");
        if inputs.reserve >= inputs.secondary && inputs.caller_leaves >= inputs.reserve {
            assert_eq!(run.in_time, 1.0, "{inputs:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn callers_fare_as_the_arithmetic_says(
        rate in 1.0_f64..200.0,
        rejects in 0.0_f64..1.0,
        correlation in 0.0_f64..1.0,
        rejection in 1_u64..500,
        answer in 1_u64..4_000,
        secondary in 1_u64..4_000,
        attempts in 1_u32..6,
        backoff in 0_u64..2_000,
        caller_leaves in 1_u64..12_000,
        threshold in 0.05_f64..1.0,
        reserve in 0_u64..5_000,
        seed in any::<u64>(),
    ) {
        let millis = Duration::from_millis;
        let inputs = Latency {
            requests: at_least_one(1_000),
            rate,
            rejects,
            correlation,
            rejection: millis(rejection),
            answer: millis(answer),
            secondary: millis(secondary),
            attempts: at_least_one(attempts),
            backoff: millis(backoff),
            caller_leaves: millis(caller_leaves),
            threshold,
            reserve: millis(reserve),
        };
        let figures = inputs.measure(seed).unwrap();
        held_against_the_arithmetic(&inputs, &figures);
        nobody_is_served_who_has_left(&inputs, &figures);
    }
}

fn published(requests: u32) -> Latency {
    Latency {
        requests: at_least_one(requests),
        ..Default::default()
    }
}

#[test]
fn the_published_inputs_come_to_the_published_latency() {
    let inputs = published(4_000);
    let figures = inputs.measure(11).unwrap();
    held_against_the_arithmetic(&inputs, &figures);
    nobody_is_served_who_has_left(&inputs, &figures);
    let seconds = |time: Duration| time.as_secs_f64();
    assert_eq!(seconds(figures.healthy.percentile(0.99)), 2.4);
    assert_eq!(seconds(figures.retry_only.percentile(0.5)), 2.4);
    assert_eq!(seconds(figures.retry_only.percentile(0.99)), 10.2);
    assert!(seconds(figures.steadfast.percentile(0.99)) < 5.1);
    assert_eq!(figures.steadfast.in_time, 1.0);
    assert!(figures.retry_only.sends_after_caller_left > 0);
}

#[test]
fn longer_waits_begin_sends_for_callers_who_have_left() {
    let inputs = Latency {
        backoff: Duration::from_secs(2),
        ..published(3_000)
    };
    let figures = inputs.measure(2).unwrap();
    held_against_the_arithmetic(&inputs, &figures);
    assert!(figures.retry_only.begun_after_caller_left > 0);
    nobody_is_served_who_has_left(&inputs, &figures);
}

#[test]
fn a_full_path_that_fewer_than_one_in_a_hundred_take_does_not_set_the_percentile() {
    // A quarter to the fourth is under one per cent: the full path is taken, and the percentile is
    // that of an answer at the fourth attempt.
    let inputs = Latency {
        rejects: 0.25,
        ..published(4_000)
    };
    let figures = inputs.measure(3).unwrap();
    held_against_the_arithmetic(&inputs, &figures);
    let p99 = figures.retry_only.percentile(0.99);
    assert_eq!(p99, Duration::from_millis(9_850));
}

/// At a rate at which answers, which take longer than rejections, are in time to be counted: the first
/// twenty outcomes must not all be rejections.
#[test]
fn a_threshold_above_the_rejected_share_keeps_the_primary_in_use() {
    let with_threshold = |threshold| {
        let inputs = Latency {
            rate: 4.0,
            threshold,
            ..published(1_500)
        };
        inputs.measure(4).unwrap().steadfast
    };
    let (below, above) = (with_threshold(0.25), with_threshold(0.9));
    assert!(
        below.attempts_per_request < 0.7,
        "{}",
        below.attempts_per_request
    );
    assert!(
        above.attempts_per_request >= 1.0,
        "{}",
        above.attempts_per_request
    );
    assert!(above.by_secondary < 0.5 * below.by_secondary);
}

#[test]
fn what_is_reserved_lets_the_secondary_answer_when_the_primary_hangs() {
    let with_reserve = |seconds| {
        let inputs = Latency {
            rejects: 0.0,
            answer: Duration::from_secs(60),
            reserve: Duration::from_secs(seconds),
            ..published(500)
        };
        inputs.measure(1).unwrap().steadfast
    };
    assert_eq!(with_reserve(3).in_time, 1.0);
    assert!(with_reserve(0).in_time < 1.0);
}

#[test]
fn the_seed_decides_and_nothing_else() {
    let shown = |seed| format!("{:?}", published(500).measure(seed).unwrap());
    assert_eq!(shown(5), shown(5));
    assert_ne!(shown(5), shown(6));
}
