//! The gate that a change of budget, breaker or defaults has to pass: a retry storm must end, and
//! in quiet times retries stay within what successes have paid for.
//!
//! The bounds are the documented ones. They are written out here, so that a change of a default
//! is noticed.

use std::time::Duration;

use steadfast::{Backoff, Policy, ServiceBuilderExt};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::{ServiceBuilder, ServiceExt};

use super::outage::arrangement::Arrangement;
use super::outage::clock;
use super::outage::random;
use super::outage::retry_storm::{RetryStorm, Storm};
use super::outage::scripted::Scripted;

const SEEDS: [u64; 3] = [1, 2, 3];

fn storm(arrangement: Arrangement, give_up: u64, seed: u64) -> Storm {
    let inputs = RetryStorm {
        give_up: Duration::from_secs(give_up),
        ..RetryStorm::default()
    };
    let storm = inputs.measure(arrangement, Duration::ZERO, seed);
    storm.expect("figures")
}

/// For 300 s it is the example's own band that holds it, with optimization.
#[test]
fn retries_alone_keep_the_server_down() {
    for seed in SEEDS {
        let storm = storm(Arrangement::RetriesAlone, 20, seed);
        assert_eq!(storm.recovered_s, None, "seed {seed}");
        let last = storm.course.seconds.last().expect("seconds");
        assert_eq!(last.answered, 0, "seed {seed}");
    }
}

#[test]
fn a_budget_alone_lets_the_server_recover_within_two_minutes() {
    for seed in SEEDS {
        let recovered = storm(Arrangement::BudgetOnly, 120, seed).recovered_s;
        assert!(
            recovered.is_some_and(|s| s <= 120.0),
            "seed {seed}: {recovered:?}"
        );
    }
}

#[test]
fn the_default_recovers_within_45_seconds_and_hardly_adds_to_the_load() {
    for seed in SEEDS {
        let storm = storm(Arrangement::Steadfast, 120, seed);
        let (recovered, attempts) = (storm.recovered_s, storm.attempts_per_request);
        assert!(
            recovered.is_some_and(|s| s <= 45.0),
            "seed {seed}: {recovered:?}"
        );
        assert!(
            attempts < 1.15,
            "seed {seed}: {attempts} attempts per request"
        );
    }
}

/// One client on the default policy whose attempts fail at random.
#[test]
fn steady_failures_are_retried_within_what_the_budget_allows() {
    const RATIO: f64 = 0.1;
    const OPENING_BALANCE: f64 = 10.0;
    const TRICKLE: f64 = 0.1;
    const REQUESTS: u32 = 15_000;
    const PER_SECOND: f64 = 50.0;
    for seed in SEEDS {
        let (retries, successes, seconds) = clock::paused(async {
            let dependency = Scripted::new(0.2, random::stream(seed, "steady failures"));
            let policy = Policy::builder("dependency")
                .backoff(Backoff::default().seed(seed))
                .build()?;
            let stack = ServiceBuilder::new()
                .resilience(policy)
                .service(dependency.clone());
            let since = Instant::now();
            let mut requests = JoinSet::new();
            for number in 0..REQUESTS {
                clock::wait_until(since + clock::arrival(number, PER_SECOND)).await;
                requests.spawn(steadfast::CallReport::capture(stack.clone().oneshot(())));
            }
            let ended = requests.join_all().await;
            let successes = ended.iter().filter(|(result, _)| result.is_ok()).count();
            let attempts = |(_, report): &(_, Option<steadfast::CallReport>)| {
                report.map_or(0, |report| report.attempts())
            };
            let retries: u32 = ended
                .iter()
                .map(|end| attempts(end).saturating_sub(1))
                .sum();
            let sends: u32 = ended.iter().map(attempts).sum();
            assert_eq!(u64::from(sends), dependency.sends(), "seed {seed}");
            Ok((retries, successes, since.elapsed().as_secs_f64()))
        })
        .expect("a policy");
        let allowed = RATIO * successes as f64 + OPENING_BALANCE + TRICKLE * seconds;
        let retries = f64::from(retries);
        assert!(retries <= allowed, "seed {seed}: {retries} of {allowed}");
        // More were wanted, so it was the budget that kept them down.
        assert!(
            retries >= 0.9 * RATIO * successes as f64,
            "seed {seed}: {retries}"
        );
    }
}
