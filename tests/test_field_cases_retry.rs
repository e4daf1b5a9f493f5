//! Field cases of retry, backoff, hints and the retry budget: faults that
//! libraries have shipped, each as a scenario with the right answer as a
//! number. A test's name starts with the case's id; `N` is the number of calls
//! that reached the inner service.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::future::ready;
use std::sync::{Arc, Mutex};

use steadfast::{
    Backoff, BreakerConfig, Classify, DefaultClassify, ErrorKind, Replay, RetryBudget,
    ServiceBuilderExt, Stopped, Verdict, classify::classify_fn,
};
use support::*;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_test::{assert_pending, task};
use tower::{ServiceBuilder, ServiceExt, service_fn};

/// An answer with a status and, perhaps, a connection that it holds.
#[derive(Debug)]
struct Answer {
    status: u16,
    _connection: Option<OwnedSemaphorePermit>,
}

fn by_status(result: Result<&Answer, &Source>) -> Verdict {
    match result {
        Ok(answer) if answer.status < 500 => Verdict::success(),
        Ok(answer) => Verdict::transient().because(answer.status),
        Err(_) => Verdict::transient(),
    }
}

#[tokio::test(start_paused = true)]
async fn a04_a_response_that_is_retried_is_dropped_before_the_backoff() {
    let t = Clock::start();
    let pool = Arc::new(Semaphore::new(1));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(5.0)))
        .classify(classify_fn(by_status))
        .build()
        .unwrap();
    let (connections, log) = (Arc::clone(&pool), Arc::clone(&calls));
    let client =
        ServiceBuilder::new()
            .resilience(policy)
            .service(service_fn(move |_request: Text| {
                let (connections, log) = (Arc::clone(&connections), Arc::clone(&log));
                async move {
                    let connection = connections.acquire_owned().await.unwrap();
                    log.lock().unwrap().push(t.now());
                    let first = log.lock().unwrap().len() == 1;
                    Ok::<_, Infallible>(Answer {
                        status: if first { 503 } else { 200 },
                        _connection: Some(connection),
                    })
                }
            }));

    let call = tokio::spawn(client.oneshot("x"));
    t.reach(1.0).await;
    assert_eq!(pool.available_permits(), 1);
    assert_eq!(call.await.unwrap().unwrap().status, 200);
    assert_times(&calls.lock().unwrap(), &[0.0, 5.0]);
}

/// A client whose errors all ask to come back after `hint` seconds, under a
/// deadline of 30 s; the hint itself would be honoured up to two minutes.
async fn wait_for_hint(hint: f64, inner: &Inner) -> Result<Text, steadfast::Error> {
    let policy = bare()
        .deadline(secs(30.0))
        .largest_hint(secs(120.0))
        .max_attempts(2)
        .classify(classify_fn(
            move |result: Result<&Text, &Source>| match result {
                Ok(_) => Verdict::success(),
                Err(_) => Verdict::throttled(Some(secs(hint))),
            },
        ))
        .build()
        .unwrap();
    ServiceBuilder::new()
        .resilience(policy)
        .service(inner.clone())
        .oneshot("x")
        .await
}

#[tokio::test(start_paused = true)]
async fn a10_a_hint_beyond_the_deadline_ends_the_call_at_once() {
    for hint in [60.0, 30.0] {
        let t = Clock::start();
        let inner = Inner::script([Step::Err], Step::Ok);
        let error = wait_for_hint(hint, &inner).await.unwrap_err();
        t.assert_now(0.0);
        assert_eq!(inner.calls(), 1);
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert_eq!(error.retry_after(), Some(secs(hint)));
        assert_eq!(fault(&error), Some(Fault("scripted")));
    }
}

#[tokio::test(start_paused = true)]
async fn a10_a_hint_within_the_deadline_is_waited_for() {
    let inner = Inner::script([Step::Err], Step::Ok);
    assert!(wait_for_hint(20.0, &inner).await.is_ok());
    assert_times(&inner.call_times(), &[0.0, 20.0]);
}

#[tokio::test(start_paused = true)]
async fn a11_a_retry_does_not_sleep_its_way_through_an_open_breaker() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(4)
        .backoff(Backoff::fixed(secs(1.0)))
        .breaker(plain(BreakerConfig::consecutive(1)).open_time(secs(60.0)))
        .retry_budget(RetryBudget::ratio(0.0).opening_balance(10.0).no_trickle())
        .build()
        .unwrap();
    let client = stack(&policy, &inner);

    let error = send(&client, "x").await.unwrap_err();
    t.assert_now(0.0);
    assert_eq!(inner.calls(), 1);
    assert!(matches!(error.stopped(), Some(Stopped::Breaker(_))));
    assert_eq!(fault(&error), Some(Fault("scripted")));
    assert!(error.is_deferrable());
    assert_eq!(policy.budget_balance(), Some(10.0));

    assert_refused(&send(&client, "refused").await);
    t.assert_now(0.0);
    assert_eq!(policy.budget_balance(), Some(10.0));
}

/// The waits between the attempts of one call that fails `retries` times.
async fn waits(backoff: Backoff, retries: u32) -> Vec<f64> {
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(retries + 1)
        .backoff(backoff)
        .build()
        .unwrap();
    let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
    assert_eq!(error.stopped(), Some(Stopped::AttemptsExhausted));
    gaps(&inner.call_times())
}

#[tokio::test(start_paused = true)]
async fn a14_full_jitter_never_passes_its_cap_and_does_not_pile_up_on_it() {
    let backoff = Backoff::full_jitter(secs(0.1), secs(1.0)).seed(14);
    let waits = waits(backoff, 10_050).await;
    let late = &waits[50..];
    assert_eq!(late.len(), 10_000);
    assert!(waits.iter().all(|wait| (0.0..=1.002).contains(wait)));

    // Uniform over [0, 1 s]: the mean is a half (the clock's rounding adds
    // half a millisecond), a hundredth lies in the last hundredth, no more.
    let mean = late.iter().sum::<f64>() / 10_000.0;
    assert!((0.48..0.52).contains(&mean), "mean {mean}");
    let top = late.iter().filter(|wait| **wait > 0.99).count();
    assert!(
        (50..250).contains(&top),
        "{top} draws in the last hundredth"
    );
    let bottom = late.iter().filter(|wait| **wait < 0.1).count();
    assert!(
        (850..1_150).contains(&bottom),
        "{bottom} in the first tenth"
    );
}

#[tokio::test(start_paused = true)]
async fn a14_backoff_without_jitter_stays_on_its_cap() {
    let waits = waits(Backoff::exponential(secs(0.1), secs(1.0)), 200).await;
    assert_times(&waits[50..], &[1.0; 150]);
}

#[tokio::test(start_paused = true)]
async fn a14_jitter_on_top_of_a_hint_stays_between_the_hint_and_hint_plus_cap() {
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(1_001)
        .backoff(Backoff::full_jitter(secs(0.1), secs(1.0)).seed(14))
        .classify(classify_fn(|_: Result<&Text, &Source>| {
            Verdict::throttled(Some(secs(2.0)))
        }))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(inner.clone());
    assert!(send(&client, "x").await.is_err());
    let waits = gaps(&inner.call_times());
    assert_eq!(waits.len(), 1_000);
    assert!(waits.iter().all(|wait| (2.0..=3.002).contains(wait)));
    assert!(waits.iter().any(|wait| *wait > 2.8), "no jitter at all");
}

/// How many retries a failing request gets after a hundred good ones.
async fn retries_after_a_hundred_successes(ratio: f64) -> usize {
    let inner = Inner::script([Step::Ok; 100], Step::Err);
    let policy = bare()
        .max_attempts(1_000)
        .retry_budget(
            RetryBudget::ratio(ratio)
                .cap(1_000.0)
                .opening_balance(0.0)
                .no_trickle(),
        )
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    for _ in 0..100 {
        assert!(send(&client, "ok").await.is_ok());
    }
    let error = send(&client, "fail").await.unwrap_err();
    assert_eq!(error.stopped(), Some(Stopped::BudgetExhausted));
    inner.calls() - 101
}

#[tokio::test(start_paused = true)]
async fn a15_a_fractional_budget_ratio_is_not_truncated() {
    for (ratio, retries) in [
        (0.0, 0),
        (0.01, 1),
        (0.15, 15),
        (0.29, 29),
        (0.3, 30),
        (0.57, 57),
        (0.6, 60),
        (0.7, 70),
        (1.0, 100),
        (1.005, 100),
        (1.5, 150),
        (9.98, 998),
    ] {
        assert_eq!(
            retries_after_a_hundred_successes(ratio).await,
            retries,
            "ratio {ratio}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a16_failing_attempts_feed_no_budget() {
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(10)
        .retry_budget(
            RetryBudget::ratio(0.2)
                .cap(1_000.0)
                .opening_balance(0.0)
                .no_trickle(),
        )
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    for _ in 0..100 {
        assert!(send(&client, "fail").await.is_err());
    }
    assert_eq!(inner.calls(), 100);
}

/// Calls made by one failing request with a hundred attempts to spare, before
/// and after an idle minute.
async fn calls_around_an_idle_minute(budget: RetryBudget) -> (usize, usize) {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(100)
        .retry_budget(budget)
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    assert!(send(&client, "drains").await.is_err());
    let drained = inner.calls();
    t.reach(60.0).await;
    assert!(send(&client, "after the pause").await.is_err());
    (drained, inner.calls() - drained)
}

#[tokio::test(start_paused = true)]
async fn a23_a_drained_budget_refills_to_its_cap_and_no_further() {
    let budget = RetryBudget::ratio(0.0)
        .cap(10.0)
        .opening_balance(10.0)
        .no_trickle()
        .floor_per_second(1.0);
    assert_eq!(calls_around_an_idle_minute(budget).await, (11, 11));
}

#[tokio::test(start_paused = true)]
async fn a23_a_trickle_refills_the_price_of_one_retry_and_no_further() {
    let budget = RetryBudget::ratio(0.0)
        .cap(10.0)
        .opening_balance(10.0)
        .trickle(1.0);
    let (drained, after) = calls_around_an_idle_minute(budget).await;
    assert_eq!(drained, 11);
    // One retry may cost 1 or 2: a balance of 2 pays two of the cheap kind.
    assert!((2..=3).contains(&after), "{after} calls");
}

#[tokio::test(start_paused = true)]
async fn a24_the_exponent_does_not_overflow() {
    let waits = waits(Backoff::exponential(secs(2.0), secs(300.0)), 1_100).await;
    assert_times(
        &waits[..9],
        &[2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0],
    );
    assert_times(&waits[9..], &[300.0; 1_091]);
}

#[tokio::test(start_paused = true)]
async fn a24_jitter_does_not_overflow_either() {
    let waits = waits(Backoff::full_jitter(secs(2.0), secs(300.0)), 1_100).await;
    assert!(waits.iter().all(|wait| (0.0..=300.002).contains(wait)));
    let late: f64 = waits[100..].iter().sum::<f64>() / 1_000.0;
    assert!((130.0..170.0).contains(&late), "mean {late}");
}

#[tokio::test(start_paused = true)]
async fn a24_a_huge_base_without_a_useful_cap_does_not_overflow() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let day = secs(86_400.0);
    let policy = bare()
        .max_attempts(200)
        .deadline(day * 10)
        .backoff(Backoff::exponential(day, std::time::Duration::MAX).factor(1e6))
        .build()
        .unwrap();
    let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
    // One day fits, a million days do not: stop, do not wrap round to a short wait.
    assert_eq!(inner.calls(), 2);
    assert_eq!(error.stopped(), Some(Stopped::Deadline));
    t.assert_now(86_400.0);
}

#[tokio::test(start_paused = true)]
async fn a25_a_request_that_may_not_repeat_is_not_retried_after_a_timeout() {
    for (method, sends) in [("POST", 1), ("GET", 3)] {
        let t = Clock::start();
        let inner = Inner::always(Step::Hang);
        let policy = bare()
            .attempt_timeout(secs(1.0))
            .max_attempts(3)
            .classify(DefaultClassify::default().idempotent_if(|method: &Text| *method == "GET"))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy)
            .service(inner.clone());
        let error = send(&client, method).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(inner.calls(), sends);
        t.assert_now(sends as f64);
        let stopped = match method {
            "POST" => Stopped::NotIdempotent,
            _ => Stopped::AttemptsExhausted,
        };
        assert_eq!(error.stopped(), Some(stopped));
    }
}

#[tokio::test(start_paused = true)]
async fn a29_every_attempt_gets_the_whole_body_once() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&bodies);
    let policy = bare().max_attempts(3).build().unwrap();
    let client =
        ServiceBuilder::new()
            .resilience(policy)
            .service(service_fn(move |mut body: Vec<u8>| {
                let read = std::mem::take(&mut body);
                let mut log = log.lock().unwrap();
                log.push(read);
                ready(if log.len() < 3 {
                    Err(Fault("reset"))
                } else {
                    Ok(())
                })
            }));
    client.oneshot(b"abc".to_vec()).await.unwrap();
    assert_eq!(*bodies.lock().unwrap(), [b"abc"; 3]);
}

/// For a request that can be sent only once.
#[derive(Clone, Copy)]
struct Once;

struct Stream;

impl Replay<Stream> for Once {
    type Memo = ();
    fn memo(&self, _: &Stream) -> Self::Memo {}
    fn copy(&self, _: &Stream) -> Option<Stream> {
        None
    }
    fn idempotent(&self, (): &Self::Memo) -> bool {
        true
    }
}

impl Classify<Stream, Answer> for Once {
    fn classify(&self, (): &Self::Memo, result: Result<&Answer, &Source>) -> Verdict {
        by_status(result)
    }
}

#[tokio::test(start_paused = true)]
async fn a29_a_request_without_a_copy_gets_the_servers_own_answer() {
    let t = Clock::start();
    let calls = Arc::new(Mutex::new(0));
    let count = Arc::clone(&calls);
    let policy = bare()
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(1.0)))
        .classify(Once)
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(move |_: Stream| {
            *count.lock().unwrap() += 1;
            ready(Ok::<_, Infallible>(Answer {
                status: 503,
                _connection: None,
            }))
        }));
    assert_eq!(client.oneshot(Stream).await.unwrap().status, 503);
    assert_eq!(*calls.lock().unwrap(), 1);
    t.assert_now(0.0);
}

#[tokio::test(start_paused = true)]
async fn a30_delays_are_not_shifted_and_nothing_sleeps_after_the_last_attempt() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(4)
        .backoff(Backoff::exponential(secs(1.0), secs(100.0)))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let mut call = task::spawn(send(&client, "x"));
    assert_pending!(call.poll());
    let error = call.await.unwrap_err();
    t.assert_now(7.0);
    assert_times(&inner.call_times(), &[0.0, 1.0, 3.0, 7.0]);
    assert_eq!(error.attempts(), 4);
    assert_eq!(error.stopped(), Some(Stopped::AttemptsExhausted));
    assert!(error.elapsed() >= secs(7.0) && error.elapsed() < secs(7.01));
}

/// An error that holds a connection.
#[derive(Debug)]
struct Held(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit);

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("holds a connection")
    }
}

impl std::error::Error for Held {}

#[tokio::test(start_paused = true)]
async fn a04_an_error_is_kept_as_the_source_of_what_ends_the_wait_and_no_longer() {
    let t = Clock::start();
    let pool = Arc::new(Semaphore::new(2));
    let policy = bare()
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(5.0)))
        .breaker(plain(BreakerConfig::consecutive(9)))
        .build()
        .unwrap();
    let connections = Arc::clone(&pool);
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(service_fn(move |_: Text| {
            let connections = Arc::clone(&connections);
            async move { Err::<Text, _>(Held(connections.acquire_owned().await.unwrap())) }
        }));
    let call = tokio::spawn(client.oneshot("x"));
    t.reach(1.0).await;
    assert_eq!(pool.available_permits(), 1);
    // The second error takes the place of the first.
    t.reach(6.0).await;
    assert_eq!(pool.available_permits(), 1);
    policy.breaker().unwrap().force_open("drill");
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(std::error::Error::source(&error).unwrap().is::<Held>());
    drop(error);
    assert_eq!(pool.available_permits(), 2);
}
