//! Field cases of limits and settings, varied: the same faults as in the other files,
//! with other numbers, other orders and features combined. A test's name starts
//! with the case's id.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::time::Duration;

use steadfast::defer::DeferLayer;
use steadfast::{
    Backoff, Breaker, BreakerConfig, BreakerState, Deadline, ErrorKind, ParkLimit, PolicyChanges,
    ServiceBuilderExt, Stopped, Verdict, Window, classify::classify_fn,
};
use support::*;
use tokio::time::Instant;
use tokio_test::task;
use tower::ServiceBuilder;

// ---- A10: no sleep towards an attempt that could not be made ----------------

#[tokio::test(start_paused = true)]
async fn a10_a_hint_as_long_as_the_deadline_is_not_slept_whatever_time_is_useful() {
    for least in [Duration::ZERO, Duration::from_nanos(1), secs(0.001)] {
        let t = Clock::start();
        let inner = Inner::script([Step::Err], Step::Ok);
        let policy = bare()
            .deadline(secs(30.0))
            .min_useful_time(least)
            .max_attempts(2)
            .classify(classify_fn(|result: Result<&Text, &Source>| match result {
                Ok(_) => Verdict::success(),
                Err(_) => Verdict::throttled(Some(secs(30.0))),
            }))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy)
            .service(inner.clone());
        let error = send(&client, "x").await.unwrap_err();
        t.assert_now(0.0);
        assert_eq!(error.stopped(), Some(Stopped::Deadline), "{least:?}");
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert_eq!(inner.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a10_a_backoff_as_long_as_the_deadline_is_not_slept_whatever_time_is_useful() {
    for least in [Duration::ZERO, Duration::from_nanos(1), secs(0.001)] {
        let t = Clock::start();
        let inner = Inner::script([Step::Err], Step::Ok);
        let policy = bare()
            .deadline(secs(5.0))
            .min_useful_time(least)
            .max_attempts(2)
            .backoff(Backoff::fixed(secs(5.0)))
            .build()
            .unwrap();
        let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
        t.assert_now(0.0);
        assert_eq!(error.stopped(), Some(Stopped::Deadline), "{least:?}");
        assert_eq!(inner.calls(), 1);
    }
}

// ---- A06 and A24: settings at their extremes ---------------------------------

#[test]
fn a24_the_numbers_of_endless_retries_that_grow_slowly_are_told_at_once() {
    let started = Instant::now();
    for factor in [1.0 + f64::EPSILON, 1.000_000_1, 1.1, 2.0, f64::MAX] {
        for base in [
            Duration::ZERO,
            Duration::from_nanos(1),
            secs(1.0),
            Duration::MAX,
        ] {
            let policy = bare()
                .attempt_timeout(secs(1.0))
                .max_attempts(u32::MAX)
                .backoff(Backoff::full_jitter(base, Duration::MAX).factor(factor))
                .build()
                .unwrap();
            let longest = policy.describe().worst_case().unwrap();
            assert!(longest >= secs(f64::from(u32::MAX)), "{factor} {base:?}");
        }
    }
    assert!(started.elapsed() < secs(5.0), "{:?}", started.elapsed());
}

#[test]
fn a24_a_window_that_grows_by_less_than_a_nanosecond_at_first_still_grows() {
    let policy = bare()
        .attempt_timeout(secs(1.0))
        .max_attempts(200)
        .backoff(Backoff::exponential(Duration::from_nanos(1), secs(10.0)).factor(1.4))
        .build()
        .unwrap();
    // From the seventieth retry on each waits for the cap.
    let longest = policy.describe().worst_case().unwrap();
    assert!(longest > secs(200.0 + 1_200.0), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a06_the_minimum_of_a_time_window_can_be_reached_at_any_rate() {
    // All at one instant: the window holds them in one slot.
    for calls in [100_000, 131_072, 131_073, 262_144, 300_000, 1_000_000] {
        let config = plain(BreakerConfig::failure_rate(1.0))
            .window(Window::time(secs(10.0)))
            .min_calls(calls);
        let Ok(breaker) = Breaker::new("case", config) else {
            continue;
        };
        for _ in 0..calls {
            breaker.admit().unwrap().failure();
        }
        assert_eq!(breaker.state(), BreakerState::Open, "{calls} calls");
    }
}

// ---- A06: what is checked when built is checked when changed ------------------

#[test]
fn a06_a_lease_shorter_than_an_attempt_is_refused_while_calls_run_too() {
    for limited in [
        bare().attempt_timeout(secs(5.0)),
        bare().deadline(secs(5.0)),
        bare().attempt_timeout(secs(5.0)).deadline(secs(60.0)),
    ] {
        let policy = limited.breaker(bk()).build().unwrap();
        let shorter = PolicyChanges::new()
            .max_attempts(7)
            .breaker(bk().probe_lease(secs(4.0)));
        let error = policy.reconfigure(shorter).unwrap_err();
        assert_eq!(error.field(), "breaker.probe_lease");
        assert_eq!(error.value(), "4s");
        assert_eq!(policy.describe().most_sends(), 1, "nothing is changed then");
        let enough = PolicyChanges::new().breaker(bk().probe_lease(secs(5.0)));
        policy.reconfigure(enough).unwrap();
    }
}

#[test]
fn a06_two_changes_at_once_are_both_kept() {
    // Each thread changes one setting and looks whether it stands.
    let policy = bare().build().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for attempts in 1..20_000 {
                let change = PolicyChanges::new().max_attempts(attempts);
                policy.reconfigure(change).unwrap();
                assert_eq!(policy.describe().most_sends(), attempts);
            }
        });
        scope.spawn(|| {
            for seconds in 1..20_000 {
                let change = PolicyChanges::new().largest_hint(Duration::from_secs(seconds));
                policy.reconfigure(change).unwrap();
                let shown = format!("{policy:?}");
                let stands = format!("largest_hint: {seconds}s");
                assert!(shown.contains(&stands), "{stands}: {shown}");
            }
        });
    });
}

#[cfg(feature = "keyed")]
#[test]
fn a09_a_registry_that_could_hold_or_remember_nothing_is_refused() {
    use steadfast::Breakers;
    let bounded = |keys, idle| {
        Breakers::<u8>::bounded("hosts", bk(), keys, idle).map_err(|error| {
            let text = error.to_string();
            assert!(
                text.contains(error.field()) && text.contains(error.value()),
                "{text}"
            );
            error.field().to_owned()
        })
    };
    assert_eq!(bounded(0, secs(1.0)).unwrap_err(), "breakers.max_keys");
    assert_eq!(bounded(1, Duration::ZERO).unwrap_err(), "breakers.idle");
    bounded(usize::MAX, Duration::MAX).unwrap();
}

// ---- A22: waits that the deadline must see --------------------------------------------

#[tokio::test(start_paused = true)]
async fn a22_a_deadline_that_has_passed_or_is_zero_sends_nothing() {
    let t = Clock::start();
    let inner = Inner::always(Step::Ok);
    let policy = bare()
        .breaker(bk())
        .retry_budget(budget(10.0))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    t.reach(1.0).await;
    for at in [
        Deadline::at(t.instant(0.0)),
        Deadline::after(Duration::ZERO),
    ] {
        let late = at.scope(send(&client, "x")).await;
        assert_eq!(kind(&late), Some(ErrorKind::DeadlineExceeded));
        assert_eq!(late.unwrap_err().attempts(), 0);
    }
    assert_eq!((inner.calls(), inner.polls()), (0, 0));
    t.assert_now(1.0);
}

#[tokio::test(start_paused = true)]
async fn a22_the_deadline_holds_over_readiness_backoff_and_attempt_wherever_it_falls() {
    // Readiness 1 s, attempt 1 s, backoff 1 s, and so on for ever.
    for tenths in 1..60 {
        let deadline = f64::from(tenths) / 10.0;
        let t = Clock::start();
        let inner = Inner::always(Step::ErrAfter(1.0)).readiness([], Ready::After(1.0));
        let policy = bare()
            .deadline(secs(deadline))
            .max_attempts(u32::MAX)
            .backoff(Backoff::fixed(secs(1.0)))
            .build()
            .unwrap();
        let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
        assert!(
            t.now() < deadline + 0.002_001,
            "T={} of {deadline}",
            t.now()
        );
        // Where it fell into a backoff the call ended as that began.
        if error.kind() == ErrorKind::DeadlineExceeded {
            t.assert_now(deadline);
        } else {
            assert_eq!(error.stopped(), Some(Stopped::Deadline));
        }
    }
}

// ---- A10, with calls that are put off ----------------------------------------------

#[tokio::test(start_paused = true)]
async fn a10_a_refused_call_is_not_parked_towards_a_check_at_its_very_end() {
    for (deadline, parked) in [
        (secs(9.0), false),
        (secs(10.0), false),
        (Duration::from_micros(10_000_500), false),
        (secs(10.001), true),
        (secs(20.0), true),
    ] {
        let t = Clock::start();
        let policy = bare()
            .breaker(plain(BreakerConfig::consecutive(1)))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .deferring_resilience(policy.clone(), DeferLayer::new())
            .service(Inner::always(Step::Ok));
        policy.breaker().unwrap().admit().unwrap().failure();
        let call = Deadline::after(deadline).scope(send(&client, "x"));
        let mut call = task::spawn(call);
        let polled = call.poll();
        assert_eq!(polled.is_pending(), parked, "{deadline:?}");
        if !parked {
            let std::task::Poll::Ready(Err(error)) = polled else {
                panic!("{polled:?}")
            };
            assert_eq!(error.park_limit(), Some(ParkLimit::Deadline));
            assert_eq!(error.kind(), ErrorKind::Refused);
            t.assert_now(0.0);
        }
    }
}
