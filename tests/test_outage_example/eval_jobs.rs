//! The job loop against a plain heap simulation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use proptest::prelude::*;

use super::outage::eval_jobs::{Counts, EvalJobs};
use super::plain::{PlainBreaker, at_least_one, millis};

fn plain_jobs(inputs: &EvalJobs, mut breaker: Option<PlainBreaker>) -> (Counts, u64) {
    let mut counts = Counts::default();
    let mut after_recovery = Vec::new();
    let mut due: BinaryHeap<_> = (0..inputs.jobs.get())
        .map(|job| Reverse(((f64::from(job) * 1_000.0 / inputs.rate) as u64, job, 0)))
        .collect();
    while let Some(Reverse((now, job, attempt))) = due.pop() {
        let era = match breaker.as_mut().map(|breaker| breaker.admits(now)) {
            None => 0,
            Some(Some(era)) => era,
            Some(None) => {
                counts.refusals += 1;
                due.push(Reverse((now + millis(inputs.park), job, attempt)));
                continue;
            }
        };
        let ok = now >= millis(inputs.outage);
        if let Some(breaker) = &mut breaker {
            breaker.hears(now, era, ok);
        }
        if ok {
            counts.successes += 1;
            after_recovery.push(now);
            continue;
        }
        counts.failed_sends += 1;
        match inputs.backoff.get(attempt) {
            Some(&wait) => due.push(Reverse((now + millis(wait), job, attempt + 1))),
            None => counts.given_up += 1,
        }
    }
    let within_a_second = |&from: &u64| {
        after_recovery
            .iter()
            .filter(|&&at| at >= from && at < from + 1_000)
            .count()
    };
    let peak = after_recovery
        .iter()
        .map(within_a_second)
        .max()
        .unwrap_or(0);
    (counts, peak as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn jobs_fare_as_in_a_plain_simulation(
        jobs in 1_u32..300,
        rate in 0.5_f64..50.0,
        outage in 0_u64..60_000,
        backoff in prop::collection::vec(0_u64..5_000, 0..4),
        threshold in 1_u32..10,
        cooldown in 1_u64..40_000,
        park in 500_u64..40_000,
    ) {
        let inputs = EvalJobs {
            jobs: at_least_one(jobs),
            rate,
            outage: Duration::from_millis(outage),
            backoff: backoff.into_iter().map(Duration::from_millis).collect(),
            threshold: at_least_one(threshold),
            cooldown: Duration::from_millis(cooldown),
            park: Duration::from_millis(park),
            ..EvalJobs::default()
        };
        let figures = inputs.measure(3).unwrap();
        let breaker = PlainBreaker::new(inputs.threshold, inputs.cooldown);
        let (without, _) = plain_jobs(&inputs, None);
        prop_assert_eq!(figures.without, without);
        let (with, peak) = plain_jobs(&inputs, Some(breaker));
        prop_assert_eq!(figures.with, with);
        prop_assert_eq!(figures.peak_lockstep, peak);
        // Deferred, no job is lost between the stack's own retries and the end.
        let deferred = figures.deferred;
        prop_assert_eq!(deferred.successes + deferred.given_up, u64::from(jobs));
        prop_assert!(deferred.failed_sends >= deferred.given_up);
    }
}

#[test]
fn the_published_night_ends_as_published() {
    let figures = EvalJobs::default().measure(1).unwrap();
    let counts = |failed_sends, successes, given_up, refusals| Counts {
        failed_sends,
        successes,
        given_up,
        refusals,
    };
    assert_eq!(figures.without, counts(4_480, 1_515, 1_485, 0));
    assert_eq!(figures.with, counts(12, 3_000, 0, 8_270));
    assert!(figures.peak_jittered < figures.peak_lockstep, "{figures:?}");
    let deferred = figures.deferred;
    assert_eq!((deferred.successes, deferred.given_up), (3_000, 0));
    assert!((10..=14).contains(&deferred.failed_sends), "{deferred:?}");
    // Two for each of the five that come in a second, until none come.
    assert_eq!(deferred.peak_per_second, 10);
    assert!(
        deferred.last_done <= Duration::from_secs(700),
        "{deferred:?}"
    );
}

#[test]
fn deferred_jobs_that_none_follow_come_back_at_the_rate_at_which_they_came() {
    // All have come before the dependency is well.
    let inputs = EvalJobs {
        jobs: at_least_one(500),
        outage: Duration::from_secs(120),
        ..EvalJobs::default()
    };
    let deferred = inputs.measure(1).unwrap().deferred;
    assert_eq!((deferred.successes, deferred.given_up), (500, 0));
    assert!((4..=6).contains(&deferred.peak_per_second), "{deferred:?}");
    // A hundred seconds from the probe on, which comes within 3 s of 120.4 s.
    let last = deferred.last_done.as_secs();
    assert!((215..=226).contains(&last), "{deferred:?}");
}

#[test]
fn without_jitter_a_jittered_park_is_a_park() {
    let inputs = EvalJobs {
        jobs: at_least_one(500),
        outage: Duration::from_secs(60),
        park_jitter: 0.0,
        ..EvalJobs::default()
    };
    let figures = inputs.measure(5).unwrap();
    assert_eq!(figures.peak_jittered, figures.peak_lockstep);
}
