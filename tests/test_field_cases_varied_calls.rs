//! Field cases of whole calls, varied (budgets, backoff, what may be sent twice,
//! what is held while a call waits): the same faults as in the other files, with
//! other numbers, other orders and features combined. A test's name starts with
//! the case's id.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::time::Duration;

use steadfast::defer::DeferLayer;
use steadfast::{
    Backoff, BreakerConfig, RetryBudget, Scope, ServiceBuilderExt, Stopped, Verdict,
    classify::classify_fn,
};
use support::*;
use tokio_test::{assert_pending, task};
use tower::{ServiceBuilder, service_fn};

// ---- A10, A16, A23: budgets, nested and at their ends -------------------------------

#[tokio::test(start_paused = true)]
async fn a16_nested_stacks_of_which_both_have_a_budget_send_no_more_than_the_inner_one() {
    let inner = Inner::always(Step::Err);
    let below = named("below")
        .max_attempts(10)
        .retry_budget(budget(4.0))
        .build()
        .unwrap();
    let above = named("above")
        .max_attempts(10)
        .retry_budget(budget(10.0))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(above.clone())
        .service(stack(&below, &inner));
    for _ in 0..100 {
        assert!(send(&client, "x").await.is_err());
    }
    assert_eq!(inner.calls(), 100 + 4);
    assert_eq!(above.budget_balance(), Some(10.0));
}

#[tokio::test(start_paused = true)]
async fn a23_idle_time_without_end_fills_a_budget_to_its_cap_and_no_further() {
    for rate in [1e-6, 0.3, 1.0, 1e9] {
        let inner = Inner::always(Step::Err);
        let policy = bare()
            .max_attempts(100)
            .retry_budget(
                RetryBudget::ratio(0.0)
                    .cap(10.0)
                    .opening_balance(0.0)
                    .floor_per_second(rate),
            )
            .build()
            .unwrap();
        tokio::time::advance(secs(1e9)).await;
        assert_eq!(policy.budget_balance(), Some(10.0), "{rate}/s");
        let client = stack(&policy, &inner);
        assert!(send(&client, "x").await.is_err());
        assert!(inner.calls() >= 11, "{rate}/s");
        assert!(policy.budget_balance().unwrap() <= 10.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a23_many_short_waits_refill_as_much_as_one_long_one() {
    let of = || {
        let budget = RetryBudget::ratio(0.0)
            .cap(10.0)
            .opening_balance(0.0)
            .floor_per_second(0.3);
        bare().max_attempts(2).retry_budget(budget).build().unwrap()
    };
    let (short, long) = (of(), of());
    let inner = Inner::always(Step::Err);
    let client = stack(&short, &inner);
    // Each call looks, and finds too little: what was there is not lost.
    for _ in 0..3_333 {
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(send(&client, "x").await.is_err());
    }
    assert_eq!(
        inner.calls(),
        3_333,
        "a retry before a whole token was there"
    );
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(send(&client, "x").await.is_err());
    assert_eq!(inner.calls(), 3_334 + 1);
    assert!(long.budget_balance().unwrap() >= 1.0);
}

// ---- A25 and A29: what may be sent twice, by the scope ----------------------------------

#[tokio::test(start_paused = true)]
async fn a25_a_wish_of_the_scope_holds_over_what_the_classifier_says() {
    for (scope, sends, stopped) in [
        (Scope::current().not_idempotent(), 1, Stopped::NotIdempotent),
        (Scope::current().no_retries(), 1, Stopped::RetriesDisabled),
        (Scope::current(), 3, Stopped::AttemptsExhausted),
    ] {
        let inner = Inner::always(Step::Hang);
        let policy = bare()
            .attempt_timeout(secs(1.0))
            .max_attempts(3)
            .build()
            .unwrap();
        let client = stack(&policy, &inner);
        let error = scope.wrap(send(&client, "x")).await.unwrap_err();
        assert_eq!(error.stopped(), Some(stopped));
        assert_eq!(inner.calls(), sends);
    }
}

// ---- A30: other sequences -----------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a30_other_sequences_are_not_shifted_either() {
    for (backoff, waits) in [
        (Backoff::fixed(secs(0.5)), [0.5, 0.5, 0.5]),
        (Backoff::exponential(secs(1.0), secs(3.0)), [1.0, 2.0, 3.0]),
        (
            Backoff::exponential(secs(0.1), secs(9.0)).factor(3.0),
            [0.1, 0.3, 0.9],
        ),
        (
            Backoff::exponential(secs(1.0), secs(9.0)).factor(1.0),
            [1.0, 1.0, 1.0],
        ),
        (Backoff::none(), [0.0, 0.0, 0.0]),
    ] {
        let t = Clock::start();
        let inner = Inner::always(Step::Err);
        let policy = bare().max_attempts(4).backoff(backoff).build().unwrap();
        assert!(send(&stack(&policy, &inner), "x").await.is_err());
        assert_times(&gaps(&inner.call_times()), &waits);
        assert!(t.now() < waits.iter().sum::<f64>() + 0.006_001);
    }
}

// ---- A04: what an answer holds, wherever its call waits -------------------------------

#[tokio::test(start_paused = true)]
async fn a04_an_answer_whose_call_is_parked_lets_go_of_its_connection() {
    use std::convert::Infallible;
    use std::sync::Arc;
    use tokio::sync::{OwnedSemaphorePermit, Semaphore};

    #[derive(Debug)]
    struct Answer {
        is_good: bool,
        _connection: OwnedSemaphorePermit,
    }
    let t = Clock::start();
    let pool = Arc::new(Semaphore::new(1));
    let policy = bare()
        .max_attempts(2)
        .breaker(plain(BreakerConfig::consecutive(1)))
        .classify(classify_fn(
            |result: Result<&Answer, &Source>| match result {
                Ok(answer) if answer.is_good => Verdict::success(),
                _ => Verdict::transient(),
            },
        ))
        .build()
        .unwrap();
    let connections = Arc::clone(&pool);
    let client = ServiceBuilder::new()
        .deferring_resilience(policy, DeferLayer::new())
        .service(service_fn(move |_: Text| {
            let connections = Arc::clone(&connections);
            async move {
                Ok::<_, Infallible>(Answer {
                    is_good: t.now() > 5.0,
                    _connection: connections.acquire_owned().await.unwrap(),
                })
            }
        }));
    let call = tokio::spawn(send(&client, "x"));
    t.reach(1.0).await;
    assert!(!call.is_finished());
    assert_eq!(pool.available_permits(), 1);
    assert!(call.await.unwrap().unwrap().is_good);
    assert!((10.0..11.002).contains(&t.now()), "T={}", t.now());
}

// ---- lost wakes and busy polling ---------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a11_a_call_that_waits_is_not_polled_in_vain() {
    // In its backoff, at its hint, and while its attempt hangs.
    for (verdict, step) in [
        (Verdict::transient(), Step::Err),
        (Verdict::throttled(Some(secs(5.0))), Step::Err),
        (Verdict::transient(), Step::Hang),
    ] {
        let t = Clock::start();
        let inner = Inner::script([step], Step::Ok);
        let policy = bare()
            .max_attempts(2)
            .attempt_timeout(secs(5.0))
            .deadline(secs(60.0))
            .backoff(Backoff::fixed(secs(5.0)))
            .breaker(bk())
            .classify(classify_fn(
                move |result: Result<&Text, &Source>| match result {
                    Ok(_) => Verdict::success(),
                    Err(_) => verdict,
                },
            ))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy)
            .service(inner.clone());
        let mut call = task::spawn(send(&client, "x"));
        assert_pending!(call.poll());
        for tenth in 1..50 {
            t.reach(f64::from(tenth) / 10.0).await;
            assert!(!call.is_woken(), "T={}", t.now());
        }
        t.reach(5.002).await;
        assert!(call.is_woken());
    }
}
