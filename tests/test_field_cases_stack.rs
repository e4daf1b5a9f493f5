//! Field cases of the whole stack: timeouts, deadline, readiness, fallback and
//! settings. Faults that libraries have shipped, each as a scenario with the
//! right answer as a number. A test's name starts with the case's id; `N` is
//! the number of calls that reached the inner service.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::future::ready;
use std::time::Duration;

use steadfast::attempt::AttemptLayer;
use steadfast::breaker::BreakerLayer;
use steadfast::deadline::DeadlineLayer;
use steadfast::defer::DeferLayer;
use steadfast::fallback;
use steadfast::retry::RetryLayer;
use steadfast::{
    Backoff, Breaker, BreakerConfig, ConfigError, Deadline, ErrorKind, Policy, RetryBudget,
    ServiceBuilderExt, Window,
};
use support::*;
use tower::limit::ConcurrencyLimit;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

#[tokio::test(start_paused = true)]
async fn a07_timeouts_do_not_hide_a_hung_backend_from_the_breaker() {
    let t = Clock::start();
    let inner = Inner::always(Step::Hang);
    let policy = bare()
        .attempt_timeout(secs(1.0))
        .breaker(bk())
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    for call in 1..=10 {
        let kind = kind(&send(&client, "x").await);
        let expected = if call <= 4 {
            ErrorKind::TimedOut
        } else {
            ErrorKind::Refused
        };
        assert_eq!(kind, Some(expected), "call {call}");
    }
    assert_eq!(inner.calls(), 4);
    assert_eq!(inner.cancelled().len(), 4);
    assert!(t.now() < 4.01, "T={}", t.now());
}

#[tokio::test(start_paused = true)]
async fn a07_a_deadline_alone_does_not_hide_a_hung_backend_either() {
    let inner = Inner::always(Step::Hang);
    let policy = bare().deadline(secs(1.0)).breaker(bk()).build().unwrap();
    let client = stack(&policy, &inner);
    for _ in 0..10 {
        assert!(send(&client, "x").await.is_err());
    }
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn a07_a_backend_that_is_never_ready_opens_the_breaker() {
    let inner = Inner::always(Step::Ok).readiness([], Ready::Never);
    let policy = bare()
        .attempt_timeout(secs(1.0))
        .breaker(bk())
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    for _ in 0..4 {
        assert_eq!(kind(&send(&client, "x").await), Some(ErrorKind::TimedOut));
    }
    let polls = inner.polls();
    assert_refused(&send(&client, "fifth").await);
    assert_eq!((inner.calls(), inner.polls()), (0, polls));
}

/// Four callers with a deadline of `seconds` each, over a backend that hangs,
/// with an attempt timeout of ten: whether the breaker opened.
async fn opened_by_callers_who_wait(seconds: f64) -> bool {
    let inner = Inner::always(Step::Hang);
    let policy = bare()
        .attempt_timeout(secs(10.0))
        .breaker(bk())
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    for _ in 0..4 {
        let call = Deadline::after(secs(seconds)).scope(send(&client, "x"));
        assert_eq!(kind(&call.await), Some(ErrorKind::DeadlineExceeded));
    }
    policy.breaker().unwrap().would_admit().is_err()
}

#[tokio::test(start_paused = true)]
async fn a07_an_attempt_cut_by_the_deadline_counts_from_half_its_fair_share_on() {
    assert!(!opened_by_callers_who_wait(4.9).await);
    assert!(opened_by_callers_who_wait(5.0).await);
}

/// Four callers who hang up after `seconds`, over a backend that hangs, with an
/// attempt timeout of ten: whether the breaker opened.
async fn opened_by_callers_who_hang_up(client: impl Client, seconds: f64) -> bool {
    for _ in 0..4 {
        let call = tokio::time::timeout(secs(seconds), send(&client, "x"));
        assert!(call.await.is_err());
    }
    kind(&send(&client, "x").await) == Some(ErrorKind::Refused)
}

#[tokio::test(start_paused = true)]
async fn a07_a_timeout_around_the_stack_hides_no_hung_backend_however_it_was_built() {
    for (seconds, opens) in [(4.9, false), (5.0, true)] {
        let inner = Inner::always(Step::Hang);
        let policy = bare()
            .attempt_timeout(secs(10.0))
            .breaker(bk())
            .build()
            .unwrap();
        let of_policy = stack(&policy, &inner);
        assert_eq!(
            opened_by_callers_who_hang_up(of_policy, seconds).await,
            opens
        );
        let by_hand = ServiceBuilder::new()
            .layer(RetryLayer::builder(1).build().unwrap())
            .layer(BreakerLayer::new(Breaker::new("case", bk()).unwrap()))
            .layer(AttemptLayer::new().timeout(secs(10.0)))
            .service(inner.clone());
        assert_eq!(opened_by_callers_who_hang_up(by_hand, seconds).await, opens);
    }
}

#[tokio::test(start_paused = true)]
async fn a19_every_attempt_waits_for_its_own_readiness() {
    let inner = Inner::always(Step::Err).readiness([Ready::Now, Ready::After(2.0)], Ready::Now);
    let policy = bare()
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(1.0)))
        .build()
        .unwrap();
    assert!(send(&stack(&policy, &inner), "x").await.is_err());
    assert_times(&inner.call_times(), &[0.0, 3.0, 4.0]);
    assert_eq!(inner.grants(), 3);
}

/// A service of which one call runs at a time.
fn limited() -> ConcurrencyLimit<Inner> {
    ConcurrencyLimit::new(Inner::always(Step::Ok), 1)
}

/// A hundred requests one after another, each on a fresh clone that is made
/// ready, called and dropped.
async fn a_hundred_fresh_clones<S>(client: S)
where
    S: Service<Text, Response = Text, Error: std::fmt::Debug> + Clone,
{
    for _ in 0..100 {
        let mut fresh = client.clone();
        assert_eq!(fresh.ready().await.unwrap().call("x").await.unwrap(), "ok");
    }
}

#[tokio::test(start_paused = true)]
async fn a20_the_attempt_alone_works_over_a_concurrency_limit() {
    a_hundred_fresh_clones(
        ServiceBuilder::new()
            .layer(RetryLayer::builder(1).build().unwrap())
            .layer(AttemptLayer::new())
            .service(limited()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a20_the_breaker_works_over_a_concurrency_limit() {
    a_hundred_fresh_clones(
        ServiceBuilder::new()
            .layer(RetryLayer::builder(1).build().unwrap())
            .layer(BreakerLayer::new(Breaker::new("case", bk()).unwrap()))
            .layer(AttemptLayer::new())
            .service(limited()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a20_the_deadline_works_over_a_concurrency_limit() {
    a_hundred_fresh_clones(
        ServiceBuilder::new()
            .layer(DeadlineLayer::new(secs(30.0)))
            .layer(RetryLayer::builder(1).build().unwrap())
            .layer(AttemptLayer::new())
            .service(limited()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a20_the_fallback_works_over_a_concurrency_limit() {
    a_hundred_fresh_clones(
        ServiceBuilder::new()
            .fallback(fallback::value("from the fallback"))
            .layer(RetryLayer::builder(1).build().unwrap())
            .layer(AttemptLayer::new())
            .service(limited()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a20_a_secondary_works_over_a_concurrency_limit() {
    let policy = bare().build().unwrap();
    let failing = stack(&policy, &Inner::always(Step::Err));
    a_hundred_fresh_clones(
        ServiceBuilder::new()
            .fallback(fallback::service(limited()))
            .service(failing),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a20_defer_works_over_a_concurrency_limit() {
    a_hundred_fresh_clones(
        ServiceBuilder::new()
            .layer(DeferLayer::new())
            .layer(RetryLayer::builder(1).build().unwrap())
            .layer(BreakerLayer::new(Breaker::new("case", bk()).unwrap()))
            .layer(AttemptLayer::new())
            .service(limited()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a20_the_full_stack_works_over_a_concurrency_limit() {
    a_hundred_fresh_clones(
        ServiceBuilder::new()
            .fallback(fallback::value("from the fallback"))
            .resilience(Policy::builder("case").build().unwrap())
            .service(limited()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a21_each_entry_of_a_chain_has_a_breaker_that_hears_its_failures() {
    let (a, b, c) = (
        Inner::always(Step::Err),
        Inner::always(Step::Err),
        Inner::always(Step::Say("c")),
    );
    let guarded = |name| {
        named(name)
            .breaker(plain(BreakerConfig::consecutive(3)).open_time(secs(60.0)))
            .build()
            .unwrap()
    };
    let client = ServiceBuilder::new()
        .fallback(
            fallback::service(stack(&guarded("b"), &b))
                .or(fallback::service(stack(&guarded("c"), &c))),
        )
        .resilience(guarded("a"))
        .service(a.clone());
    for _ in 0..10 {
        assert_eq!(send(&client, "x").await.unwrap(), "c");
    }
    assert_eq!((a.calls(), b.calls(), c.calls()), (3, 3, 10));
}

#[tokio::test(start_paused = true)]
async fn a22_the_deadline_holds_over_all_attempts() {
    let t = Clock::start();
    let inner = Inner::always(Step::ErrAfter(2.0));
    let policy = bare()
        .deadline(secs(5.0))
        .max_attempts(u32::MAX)
        .build()
        .unwrap();
    let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
    t.assert_now(5.0);
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert_times(&inner.call_times(), &[0.0, 2.0, 4.0]);
    assert_times(&inner.cancelled(), &[5.0]);
}

#[tokio::test(start_paused = true)]
async fn a22_the_deadline_holds_over_readiness() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err).readiness([Ready::Now], Ready::Never);
    let policy = bare()
        .deadline(secs(5.0))
        .max_attempts(u32::MAX)
        .build()
        .unwrap();
    let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
    t.assert_now(5.0);
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(inner.calls(), 1);
}

// ---- A06: settings are refused when they are built, or behave ---------------

/// The setting must be refused, by an error that names its field and value.
#[track_caller]
fn refused_at_build(build: Result<Policy, ConfigError>, what: &str) {
    let Err(error) = build else {
        panic!("{what} was accepted");
    };
    assert!(!error.field().is_empty(), "{what}: {error:?}");
    let text = error.to_string();
    assert!(text.contains(error.field()), "{what}: {text}");
    assert!(text.contains(error.value()), "{what}: {text}");
}

#[test]
fn a06_impossible_breaker_settings_are_refused() {
    for rate in [f64::NAN, -0.1, 0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY] {
        let config = BreakerConfig::failure_rate(rate);
        refused_at_build(bare().breaker(config).build(), &format!("rate {rate}"));
        let config = BreakerConfig::consecutive(3).or_failure_rate(rate);
        refused_at_build(bare().breaker(config).build(), &format!("or rate {rate}"));
    }
    for (what, config) in [
        ("count window 0", bk().window(Window::count(0))),
        ("time window 0", bk().window(Window::time(Duration::ZERO))),
        ("min calls 0", bk().min_calls(0)),
        (
            "min above the window",
            bk().window(Window::count(5)).min_calls(10),
        ),
        ("probes 0", bk().probes(0)),
        ("successes 0", bk().successes(0)),
        ("more successes than probes", bk().probes(1).successes(2)),
        ("consecutive 0", BreakerConfig::consecutive(0)),
        ("growth NaN", bk().growth(f64::NAN)),
        ("growth below 1", bk().growth(0.5)),
        ("growth infinite", bk().growth(f64::INFINITY)),
        ("jitter NaN", bk().open_jitter(f64::NAN)),
        ("jitter -1", bk().open_jitter(-1.0)),
        ("cap below the open time", bk().max_open_time(secs(1.0))),
    ] {
        refused_at_build(bare().breaker(config).build(), what);
    }
    let short_lease = bare()
        .attempt_timeout(secs(5.0))
        .breaker(bk().probe_lease(secs(4.0)));
    refused_at_build(short_lease.build(), "lease below the attempt timeout");
}

#[test]
fn a06_a_breaker_alone_refuses_the_same_settings() {
    for config in [
        BreakerConfig::failure_rate(f64::NAN),
        bk().probes(0),
        bk().window(Window::count(0)),
    ] {
        let error = Breaker::new("case", config).unwrap_err();
        assert!(!error.field().is_empty());
    }
}

#[test]
fn a06_impossible_budget_settings_are_refused() {
    let ratio = RetryBudget::ratio;
    for (what, budget) in [
        ("ratio NaN", ratio(f64::NAN)),
        ("ratio -1", ratio(-1.0)),
        ("ratio infinite", ratio(f64::INFINITY)),
        ("cap NaN", ratio(0.1).cap(f64::NAN)),
        ("cap -1", ratio(0.1).cap(-1.0)),
        ("opening NaN", ratio(0.1).opening_balance(f64::NAN)),
        ("opening -1", ratio(0.1).opening_balance(-1.0)),
        ("trickle NaN", ratio(0.1).trickle(f64::NAN)),
        ("trickle -1", ratio(0.1).trickle(-1.0)),
        ("floor NaN", ratio(0.1).floor_per_second(f64::NAN)),
        ("floor -1", ratio(0.1).floor_per_second(-1.0)),
        ("share NaN", RetryBudget::concurrent(f64::NAN)),
        ("share -1", RetryBudget::concurrent(-1.0)),
    ] {
        refused_at_build(bare().retry_budget(budget).build(), what);
    }
}

#[test]
fn a06_impossible_backoffs_are_refused() {
    for factor in [f64::NAN, 0.0, -2.0, 0.5, f64::INFINITY] {
        let backoff = Backoff::full_jitter(secs(1.0), secs(10.0)).factor(factor);
        refused_at_build(bare().backoff(backoff).build(), &format!("factor {factor}"));
    }
    for backoff in [
        Backoff::full_jitter(secs(5.0), secs(1.0)),
        Backoff::exponential(secs(5.0), secs(1.0)),
    ] {
        let error = bare().backoff(backoff).build().unwrap_err();
        assert!(error.field().starts_with("backoff"), "{error}");
    }
    let layer = RetryLayer::builder(3).backoff(Backoff::full_jitter(secs(5.0), secs(1.0)));
    assert!(layer.build().is_err());
}

#[tokio::test(start_paused = true)]
async fn a06_no_attempts_are_refused_and_one_is_one() {
    refused_at_build(bare().max_attempts(0).build(), "max_attempts 0");
    assert!(RetryLayer::builder(0).build().is_err());

    let inner = Inner::always(Step::Err);
    let policy = bare().max_attempts(1).build().unwrap();
    assert!(send(&stack(&policy, &inner), "x").await.is_err());
    assert_eq!(inner.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a06_endless_attempts_end_by_the_deadline() {
    let t = Clock::start();
    let inner = Inner::always(Step::ErrAfter(1.0));
    let policy = bare()
        .max_attempts(u32::MAX)
        .deadline(secs(5.0))
        .backoff(Backoff::fixed(secs(1.0)))
        .build()
        .unwrap();
    assert!(send(&stack(&policy, &inner), "x").await.is_err());
    assert_times(&inner.call_times(), &[0.0, 2.0, 4.0]);
    assert!(t.now() < 5.003, "T={}", t.now());
}

#[tokio::test(start_paused = true)]
async fn a06_a_minimum_without_a_window_opens_at_the_minimum() {
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .breaker(BreakerConfig::failure_rate(0.5).min_calls(5))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    for _ in 0..20 {
        assert!(send(&client, "x").await.is_err());
    }
    assert_eq!(inner.calls(), 5);
}

#[tokio::test(start_paused = true)]
async fn a06_the_default_breaker_opens_on_slow_traffic_that_only_fails() {
    let inner = Inner::always(Step::Err);
    let policy = Policy::builder("case").max_attempts(1).build().unwrap();
    let client = stack(&policy, &inner);
    for _ in 0..20 {
        assert!(send(&client, "x").await.is_err());
    }
    assert_eq!(inner.calls(), 5);
}

#[tokio::test(start_paused = true)]
async fn a06_an_opening_balance_is_within_the_cap_or_refused() {
    let small = RetryBudget::ratio(0.1).cap(5.0);
    let policy = bare().retry_budget(small.clone()).build().unwrap();
    assert_eq!(policy.budget_balance(), Some(5.0));
    let above = bare().retry_budget(small.opening_balance(5.000_001));
    refused_at_build(above.build(), "opening balance above the cap");
}

#[tokio::test(start_paused = true)]
async fn a06_an_open_time_of_zero_is_refused_and_the_shortest_lets_no_crowd_through() {
    let zero = bare().breaker(bk().open_time(Duration::ZERO));
    refused_at_build(zero.build(), "open time 0");

    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::OkAfter(1.0));
    let shortest = bk().open_time(Duration::from_nanos(1));
    let policy = bare().breaker(shortest).build().unwrap();
    let client = stack(&policy, &inner);
    four_failures(&client).await;
    t.reach(0.001).await;
    let tasks: Vec<_> = (0..10).map(|_| tokio::spawn(send(&client, "x"))).collect();
    tokio::task::yield_now().await;
    assert_eq!(inner.calls(), 5);
    for task in tasks {
        let _ = task.await.unwrap();
    }
    assert_eq!(inner.calls(), 5);
}

#[tokio::test(start_paused = true)]
async fn a06_limits_of_duration_max_act_as_no_limit() {
    let inner = Inner::always(Step::OkAfter(1_000_000.0));
    let policy = bare()
        .attempt_timeout(Duration::MAX)
        .deadline(Duration::MAX)
        .min_useful_time(Duration::ZERO)
        .build()
        .unwrap();
    assert_eq!(send(&stack(&policy, &inner), "x").await.unwrap(), "ok");

    // Nor does a retry compute its way past the end of time.
    let inner = Inner::script([Step::Err, Step::Err], Step::Ok);
    let policy = bare()
        .max_attempts(3)
        .attempt_timeout(Duration::MAX)
        .deadline(Duration::MAX)
        .largest_hint(Duration::MAX)
        .backoff(Backoff::full_jitter(secs(0.1), secs(1.0)))
        .build()
        .unwrap();
    assert!(send(&stack(&policy, &inner), "x").await.is_ok());
    assert_eq!(inner.calls(), 3);
}

#[test]
fn a06_a_timeout_of_zero_is_refused() {
    let error = bare().attempt_timeout(Duration::ZERO).build().unwrap_err();
    assert_eq!((error.field(), error.value()), ("attempt_timeout", "0ns"));
    let error = bare().deadline(Duration::ZERO).build().unwrap_err();
    assert_eq!((error.field(), error.value()), ("deadline", "0ns"));
}

#[tokio::test(start_paused = true)]
async fn a06_layers_stacked_by_hand_end_at_once_with_a_timeout_of_zero() {
    let t = Clock::start();
    for (step, answers) in [(Step::Ok, true), (Step::Hang, false)] {
        let inner = Inner::always(step);
        let attempt = ServiceBuilder::new()
            .layer(RetryLayer::builder(1).build().unwrap())
            .layer(AttemptLayer::new().timeout(Duration::ZERO))
            .service(inner.clone());
        assert_eq!(send(&attempt, "x").await.is_ok(), answers);
        assert_eq!(inner.calls(), 1);

        let deadline = ServiceBuilder::new()
            .layer(DeadlineLayer::new(Duration::ZERO))
            .layer(RetryLayer::builder(1).build().unwrap())
            .layer(AttemptLayer::new())
            .service(inner.clone());
        let late = send(&deadline, "x").await;
        assert_eq!(kind(&late), Some(ErrorKind::DeadlineExceeded));
        assert_eq!(inner.calls(), 1, "sent out of time");
    }
    assert!(t.now() < 0.002_001, "T={}", t.now());
}

#[tokio::test(start_paused = true)]
async fn a06_a_deadline_shorter_than_the_attempt_timeout_wins() {
    let t = Clock::start();
    let inner = Inner::always(Step::Hang);
    let policy = bare()
        .max_attempts(3)
        .attempt_timeout(secs(10.0))
        .deadline(secs(5.0))
        .build()
        .unwrap();
    assert!(send(&stack(&policy, &inner), "x").await.is_err());
    t.assert_now(5.0);
    assert_eq!(inner.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a20_requests_in_flight_on_clones_share_the_limit_without_panics() {
    let t = Clock::start();
    let client = ServiceBuilder::new()
        .resilience(bare().build().unwrap())
        .service(ConcurrencyLimit::new(Inner::always(Step::OkAfter(1.0)), 1));
    let tasks: Vec<_> = (0..5).map(|_| tokio::spawn(send(&client, "x"))).collect();
    for task in tasks {
        assert!(task.await.unwrap().is_ok());
    }
    assert!(t.now() > 4.9 && t.now() < 5.1, "one after another");
}

#[tokio::test(start_paused = true)]
async fn a21_a_closure_after_the_chain_sees_the_primarys_error() {
    let policy = named("a")
        .breaker(plain(BreakerConfig::consecutive(3)))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .fallback(|error: &steadfast::Error| ready(Ok::<_, Fault>(error.dependency())))
        .resilience(policy)
        .service(service_fn(|_: Text| ready(Err::<Text, _>(Fault("down")))));
    for _ in 0..5 {
        assert_eq!(send(&client, "x").await.unwrap(), "a");
    }
}
