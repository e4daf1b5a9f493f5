//! One breaker per key: bounded, and never one that knows something lost.

#![cfg(feature = "keyed")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use steadfast::{
    BreakerConfig, BreakerState, Breakers, ErrorKind, Permit, Policy, ServiceBuilderExt,
};
use tokio::time::advance;
use tower::{ServiceBuilder, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(600);

fn bounded(failures: u32, max_keys: usize) -> Breakers<u64> {
    let config = BreakerConfig::consecutive(failures)
        .open_time(10 * SECOND)
        .open_jitter(0.0);
    Breakers::bounded("hosts", config, max_keys, IDLE).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a09_a_failing_key_is_never_lost_in_a_crowd_of_new_ones() {
    const FAILING: u64 = u64::MAX;
    let breakers = bounded(5, 1000);
    let mut newcomers = 0..u64::MAX;
    let mut crowd = |breakers: &Breakers<u64>, keys: usize| {
        for key in newcomers.by_ref().take(keys) {
            breakers.get(&key).admit().unwrap().success();
            assert!(breakers.len() <= 1000);
        }
    };
    for _ in 0..5 {
        breakers.get(&FAILING).admit().unwrap().failure();
        crowd(&breakers, 2000);
    }
    assert_eq!(breakers.get(&FAILING).state(), BreakerState::Open);
    crowd(&breakers, 5000);
    assert!(breakers.get(&FAILING).admit().is_err());
    assert_eq!(breakers.overflowed(), 0);
}

#[tokio::test(start_paused = true)]
async fn when_every_key_is_held_newcomers_share_one_counted_breaker() {
    let breakers = bounded(1, 10);
    for key in 0..10 {
        breakers.get(&key).admit().unwrap().failure();
    }
    let overflow = breakers.get(&10);
    assert!(overflow.is_same(&breakers.get(&11)));
    assert_eq!(breakers.overflowed(), 2);
    assert_eq!(breakers.len(), 10);
    for key in 0..10 {
        assert_eq!(breakers.get(&key).state(), BreakerState::Open);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_with_a_call_in_flight_or_steered_by_hand_is_kept() {
    let breakers = bounded(1, 2);
    let permit: Permit = breakers.get(&0).admit().unwrap();
    breakers.get(&1).force_open("drill");
    for key in 2..100 {
        breakers.get(&key).admit().unwrap().success();
    }
    assert_eq!(breakers.overflowed(), 98);
    permit.failure();
    assert_eq!(breakers.get(&0).state(), BreakerState::Open);
    assert_eq!(breakers.get(&1).state(), BreakerState::ForcedOpen);
}

#[tokio::test(start_paused = true)]
async fn idle_keys_go_and_a_failure_keeps_one_for_the_idle_time_only() {
    let breakers = bounded(2, 100_000);
    for key in 0..10_000 {
        breakers.get(&key).admit().unwrap().success();
    }
    advance(IDLE / 2).await;
    breakers.get(&7).admit().unwrap().failure();
    advance(IDLE / 2).await;
    breakers.drop_idle();
    assert_eq!(breakers.len(), 1, "the one that failed");
    assert!(!breakers.is_empty());
    // Its failure is remembered still.
    breakers.get(&7).admit().unwrap().failure();
    assert_eq!(breakers.get(&7).state(), BreakerState::Open);
    advance(20 * SECOND).await;
    breakers.get(&7).admit().unwrap().success();
    // It was in use when it is next looked at, so its idle time begins there.
    advance(20 * SECOND + IDLE).await;
    breakers.drop_idle();
    assert_eq!(breakers.len(), 1);
    advance(IDLE).await;
    breakers.drop_idle();
    assert!(breakers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn newcomers_drop_the_idle_bit_by_bit() {
    let breakers = bounded(2, 100_000);
    for key in 0..1000 {
        breakers.get(&key).admit().unwrap().success();
    }
    advance(IDLE + SECOND).await;
    for key in 1000..1600 {
        breakers.get(&key).admit().unwrap().success();
    }
    assert_eq!(breakers.len(), 600);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_use_outlives_one_that_is_not() {
    let breakers = bounded(2, 100);
    let favourite = breakers.get(&0);
    favourite.admit().unwrap().success();
    drop(favourite);
    for key in 1..1000 {
        breakers.get(&key).admit().unwrap().success();
        breakers.get(&0).disable();
        breakers.get(&0).reset();
        assert!(breakers.get(&0).snapshot().generation() >= 2 * u32::try_from(key).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_only_held_when_its_room_was_wanted_counts_as_used_again() {
    let breakers = bounded(2, 100);
    let held = breakers.get(&0);
    for key in 1..300 {
        breakers.get(&key).admit().unwrap().success();
    }
    drop(held);
    for (times, key) in (1u32..).zip(300..1000) {
        breakers.get(&key).admit().unwrap().success();
        breakers.get(&0).disable();
        breakers.get(&0).reset();
        assert_eq!(breakers.get(&0).snapshot().generation(), 2 * times);
    }
}

#[tokio::test(start_paused = true)]
async fn where_all_keys_are_in_use_one_goes_for_each_newcomer() {
    let breakers = bounded(2, 100);
    let newcomers = [100, 101, 102];
    for key in (0..100).chain(0..100).chain(newcomers) {
        breakers.get(&key).admit().unwrap().success();
    }
    assert_eq!((breakers.len(), breakers.overflowed()), (100, 0));
    for key in newcomers {
        breakers.get(&key).admit().unwrap().success();
    }
    assert_eq!((breakers.len(), breakers.overflowed()), (100, 0));
}

#[test]
fn debug_names_a_registry_and_its_bounds() {
    let breakers = bounded(2, 100);
    let shown = format!("{breakers:?}");
    for part in ["\"hosts\"", "max_keys: 100", "idle: 600s"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let builder = Policy::builder("inventory").breakers(breakers, |request: &u64| request);
    let shown = format!("{builder:?}");
    assert!(shown.contains("max_keys: 100"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_keeps_hosts_apart() {
    let config = BreakerConfig::consecutive(2).open_time(10 * SECOND);
    let hosts: Breakers<String> = Breakers::new("hosts", config).unwrap();
    let policy = Policy::builder("hosts")
        .max_attempts(1)
        .breakers(hosts.clone(), |request: &(String, u32)| request.0.as_str())
        .build()
        .unwrap();
    assert_eq!(policy.describe().failures_to_open(), Some(2));
    let sent = AtomicU32::new(0);
    let client = ServiceBuilder::new().resilience(policy).service(service_fn(
        |(host, page): (String, u32)| {
            sent.fetch_add(1, Ordering::Relaxed);
            async move {
                if host == "broken" {
                    Err(std::io::Error::other("down"))
                } else {
                    Ok(page)
                }
            }
        },
    ));
    for page in 0..10 {
        let answer = client.clone().oneshot(("broken".to_owned(), page)).await;
        let expected = if page < 2 {
            ErrorKind::Failed
        } else {
            ErrorKind::Refused
        };
        assert_eq!(answer.unwrap_err().kind(), expected);
        let answer = client.clone().oneshot(("works".to_owned(), page)).await;
        assert_eq!(answer.unwrap(), page);
    }
    assert_eq!(sent.load(Ordering::Relaxed), 12);
    assert_eq!(hosts.len(), 2);
    assert_eq!(hosts.name(), "hosts");
    assert_eq!(hosts.get("works").name(), hosts.name());
    assert_eq!(hosts.get("broken").state(), BreakerState::Open);
}

#[test]
fn no_room_for_a_key_and_impossible_settings_are_refused() {
    let none = Breakers::<u64>::bounded("hosts", BreakerConfig::default(), 0, IDLE);
    assert_eq!(none.unwrap_err().field(), "breakers.max_keys");
    let config = BreakerConfig::default().probes(0);
    let none = Breakers::<u64>::new("hosts", config);
    assert_eq!(none.unwrap_err().field(), "breaker.probes");
}

#[test]
fn threads_that_race_for_a_key_get_the_same_breaker() {
    for round in 0..200 {
        let breakers = bounded(1000, 10);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| breakers.get(&round).admit().unwrap().failure());
            }
        });
        assert_eq!(breakers.len(), 1);
        let config = BreakerConfig::consecutive(4);
        let last = breakers.get(&round);
        last.reconfigure(&config).unwrap();
        last.admit().unwrap().failure();
        assert_eq!(
            last.state(),
            BreakerState::Open,
            "four failures and one more"
        );
    }
}

/// Keys come and go under eviction while threads use them. A thread that holds
/// a permit of a key's own breaker finds that same breaker again: it was not
/// dropped and made anew.
#[test]
fn eviction_under_load_never_splits_a_key_in_two() {
    let breakers = bounded(u32::MAX, 16);
    let own = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (breakers, own) = (&breakers, &own);
            scope.spawn(move || {
                for step in 0..10_000u64 {
                    let key = step.wrapping_mul(2 * thread + 7) % 64;
                    let missed = breakers.overflowed();
                    let first = breakers.get(&key);
                    let permit = first.admit().unwrap();
                    let second = breakers.get(&key);
                    if breakers.overflowed() == missed {
                        // Neither was the overflow breaker.
                        own.fetch_add(1, Ordering::Relaxed);
                        assert!(first.is_same(&second), "key {key}");
                    }
                    permit.success();
                }
            });
        }
    });
    assert!(breakers.len() <= 16);
    assert!(own.load(Ordering::Relaxed) > 1000, "hardly ever looked");
}
