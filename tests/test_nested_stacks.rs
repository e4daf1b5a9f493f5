//! Stacks inside stacks: the layer closest to the failure owns the retries.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steadfast::{
    BreakerConfig, Classify, Error, Policy, Replay, ServiceBuilderExt, Stopped, Verdict,
    classify::classify_fn,
};
use support::*;
use tower::buffer::Buffer;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

fn four_attempts(name: Text) -> Policy {
    named(name).max_attempts(4).build().unwrap()
}

/// An outer stack of four attempts around `inner_stack`: four sends in all.
async fn sends_four_times<S>(inner: &Inner, inner_stack: S)
where
    S: Service<Text, Response = Text, Error: Into<BoxError>> + Clone,
{
    let outer = ServiceBuilder::new()
        .resilience(four_attempts("outer"))
        .service(inner_stack);
    for round in 1..=2 {
        let error = outer.clone().oneshot("x").await.unwrap_err();
        assert_eq!(inner.calls(), 4 * round);
        assert_eq!(error.attempts(), 1);
        assert_eq!(error.stopped(), Some(Stopped::NotRetryable));
    }
}

#[tokio::test(start_paused = true)]
async fn nested_stacks_send_as_often_as_the_innermost() {
    let inner = Inner::always(Step::Err);
    let below = stack(&four_attempts("inner"), &inner);
    sends_four_times(&inner, below).await;
}

#[tokio::test(start_paused = true)]
async fn three_nested_stacks_send_as_often_as_the_innermost() {
    let inner = Inner::always(Step::Err);
    let below = ServiceBuilder::new()
        .resilience(four_attempts("middle"))
        .resilience(four_attempts("inner"))
        .service(inner.clone());
    sends_four_times(&inner, below).await;
}

#[tokio::test(start_paused = true)]
async fn nesting_is_recognised_through_a_buffer() {
    let inner = Inner::always(Step::Err);
    let below = Buffer::new(stack(&four_attempts("inner"), &inner), 4);
    sends_four_times(&inner, below).await;
}

#[tokio::test(start_paused = true)]
async fn nesting_is_recognised_through_a_spawned_task() {
    let inner = Inner::always(Step::Err);
    let below = stack(&four_attempts("inner"), &inner);
    let spawned = service_fn(move |request: Text| {
        let task = tokio::spawn(send(&below, request));
        async move { task.await.expect("no panic") }
    });
    sends_four_times(&inner, spawned).await;
}

#[derive(Debug, thiserror::Error)]
#[error("while asking the inventory")]
struct Wrapped(#[source] Error);

#[tokio::test(start_paused = true)]
async fn nesting_is_recognised_behind_the_users_own_error() {
    let inner = Inner::always(Step::Err);
    let below = stack(&four_attempts("inner"), &inner).map_err(Wrapped);
    sends_four_times(&inner, below).await;

    // In another task only the error itself can tell.
    let inner = Inner::always(Step::Err);
    let below = stack(&four_attempts("inner"), &inner).map_err(Wrapped);
    let spawned = service_fn(move |request: Text| {
        let task = tokio::spawn(send(&below, request));
        async move { task.await.expect("no panic") }
    });
    sends_four_times(&inner, spawned).await;
}

#[tokio::test(start_paused = true)]
async fn a_stack_below_with_one_attempt_owns_no_retries() {
    let inner = Inner::always(Step::Err);
    let below = stack(&named("inner").build().unwrap(), &inner);
    let outer = ServiceBuilder::new()
        .resilience(four_attempts("outer"))
        .service(below);
    let error = outer.oneshot("x").await.unwrap_err();
    assert_eq!(inner.calls(), 4);
    assert_eq!(error.attempts(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_failing_answer_of_one_attempt_below_is_tried_again_above() {
    // Both layers judge every answer to be a failure; the inner owns no
    // retries, so that its answer carries no mark.
    let judge = || classify_fn(|_: Result<&&str, _>| Verdict::transient());
    let sent = AtomicUsize::new(0);
    let below = ServiceBuilder::new()
        .resilience(named("inner").classify(judge()).build().unwrap())
        .service(service_fn(|_: &'static str| {
            sent.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, Error>("503") }
        }));
    let above = named("outer").max_attempts(4).classify(judge());
    let outer = ServiceBuilder::new()
        .resilience(above.build().unwrap())
        .service(below);
    assert_eq!(outer.oneshot("x").await.unwrap(), "503");
    assert_eq!(sent.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_below_is_final_above_and_no_evidence_of_health() {
    let inner = Inner::always(Step::Err);
    let breaker = plain(BreakerConfig::consecutive(1));
    let below = stack(&named("inner").breaker(breaker).build().unwrap(), &inner);
    let above = named("outer")
        .max_attempts(4)
        .breaker(plain(BreakerConfig::consecutive(3)))
        .build()
        .unwrap();
    let outer = ServiceBuilder::new()
        .resilience(above.clone())
        .service(below);
    // The first call fails once and is then refused below, as are all others.
    for _ in 0..10 {
        let error = outer.clone().oneshot("x").await.unwrap_err();
        assert!(error.attempts() <= 2, "{error:?}");
    }
    assert_eq!(inner.calls(), 1);
    assert!(above.breaker().unwrap().would_admit().is_ok());
}

/// An answer that can carry the mark of a stack that gave up on it.
#[derive(Debug, Clone, PartialEq)]
struct Page {
    status: u16,
    gave_up: Option<Stopped>,
}

#[derive(Clone, Copy)]
struct Sealing;

impl Replay<Text> for Sealing {
    type Memo = ();
    fn memo(&self, _: &Text) -> Self::Memo {}
    fn copy(&self, request: &Text) -> Option<Text> {
        Some(request)
    }
    fn idempotent(&self, (): &Self::Memo) -> bool {
        true
    }
}

impl Classify<Text, Page> for Sealing {
    fn classify(&self, (): &Self::Memo, result: Result<&Page, &Source>) -> Verdict {
        match result {
            Ok(page) if page.gave_up.is_some() => Verdict::refused_below(),
            Ok(page) if page.status < 500 => Verdict::success(),
            _ => Verdict::transient(),
        }
    }

    fn seal(&self, page: &mut Page, stopped: &Stopped) {
        page.gave_up.get_or_insert(*stopped);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sealed_answer_is_final_above_even_through_a_spawned_task() {
    let sends = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sends);
    let policy = |name| {
        named(name)
            .max_attempts(4)
            .classify(Sealing)
            .build()
            .unwrap()
    };
    let below = ServiceBuilder::new()
        .resilience(policy("inner"))
        .service(service_fn(move |_: Text| {
            count.fetch_add(1, Ordering::Relaxed);
            ready(Ok::<_, Infallible>(Page {
                status: 503,
                gave_up: None,
            }))
        }));
    let outer = ServiceBuilder::new()
        .resilience(policy("outer"))
        .service(service_fn(move |request: Text| {
            let task = tokio::spawn(below.clone().oneshot(request));
            async move { task.await.expect("no panic") }
        }));
    let page = outer.oneshot("x").await.unwrap();
    assert_eq!(sends.load(Ordering::Relaxed), 4);
    assert_eq!(page.status, 503);
    assert_eq!(page.gave_up, Some(Stopped::AttemptsExhausted));
}

/// A stack of `attempts` for answers that cannot carry a seal: 500 and above
/// is a failure.
fn by_number(name: Text, attempts: u32) -> Policy<impl Classify<Text, u16> + Clone> {
    fn judge(result: Result<&u16, &Source>) -> Verdict {
        match result {
            Ok(status) if *status < 500 => Verdict::success(),
            _ => Verdict::transient(),
        }
    }
    named(name)
        .max_attempts(attempts)
        .classify(classify_fn(judge))
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_sealed_is_final_above_within_one_task() {
    let sends = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sends);
    let client = ServiceBuilder::new()
        .resilience(by_number("outer", 4))
        .resilience(by_number("inner", 4))
        .service(service_fn(move |_: Text| {
            count.fetch_add(1, Ordering::Relaxed);
            ready(Ok::<_, Infallible>(503))
        }));
    assert_eq!(client.clone().oneshot("x").await.unwrap(), 503);
    assert_eq!(sends.load(Ordering::Relaxed), 4);
    assert_eq!(client.oneshot("x").await.unwrap(), 503);
    assert_eq!(sends.load(Ordering::Relaxed), 8);
}

#[tokio::test(start_paused = true)]
async fn an_answer_made_of_a_refusal_is_final_above_within_one_task() {
    let below = bare().breaker(BreakerConfig::consecutive(1));
    let below = below.build().unwrap();
    below.breaker().unwrap().admit().unwrap().failure();
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let client = ServiceBuilder::new()
        .resilience(by_number("outer", 4))
        .service(service_fn(move |_: Text| {
            count.fetch_add(1, Ordering::Relaxed);
            let call = below.call(|| ready(Ok::<u16, Infallible>(200)));
            async { Ok::<_, Infallible>(call.await.unwrap_or(503)) }
        }));
    assert_eq!(client.oneshot("x").await.unwrap(), 503);
    assert_eq!(tries.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_one_stack_below_is_cleared_when_the_next_one_starts() {
    // Each attempt of the outer stack asks two inner stacks: the first gives
    // up, the second answers, and then the service itself fails: that failure
    // is nobody's below, so the outer stack owns its retries.
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let fails = ServiceBuilder::new()
        .resilience(by_number("fails", 2))
        .service(service_fn(|_: Text| ready(Ok::<u16, Infallible>(500))));
    let works = ServiceBuilder::new()
        .resilience(by_number("works", 2))
        .service(service_fn(|_: Text| ready(Ok::<u16, Infallible>(200))));
    let outer = ServiceBuilder::new()
        .resilience(by_number("outer", 3))
        .service(service_fn(move |request: Text| {
            let (fails, works) = (fails.clone(), works.clone());
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                assert_eq!(fails.oneshot(request).await.unwrap(), 500);
                assert_eq!(works.oneshot(request).await.unwrap(), 200);
                Ok::<_, Infallible>(502)
            }
        }));
    assert_eq!(outer.oneshot("x").await.unwrap(), 502);
    assert_eq!(tries.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn one_stack_below_that_gave_up_says_nothing_about_the_next_call() {
    let inner = Inner::script([Step::Err; 4], Step::Ok);
    let outer = ServiceBuilder::new()
        .resilience(four_attempts("outer"))
        .service(stack(&four_attempts("inner"), &inner));
    assert!(outer.clone().oneshot("x").await.is_err());
    inner.rescript([Step::Err; 3], Step::Ok);
    assert!(outer.oneshot("x").await.is_ok());
    assert_eq!(inner.calls(), 8);
}

#[tokio::test(start_paused = true)]
async fn nested_stacks_in_one_join_do_not_disturb_each_other() {
    // One gives up below while the other still has its own retries to make.
    let (a, b) = (
        Inner::always(Step::Err),
        Inner::script([Step::Err, Step::Err], Step::Ok),
    );
    let nested = ServiceBuilder::new()
        .resilience(four_attempts("outer"))
        .service(stack(&four_attempts("inner"), &a));
    let flat = stack(&named("flat").max_attempts(3).build().unwrap(), &b);
    let (first, second) = tokio::join!(nested.oneshot("a"), send(&flat, "b"));
    assert!(first.is_err() && second.is_ok());
    assert_eq!((a.calls(), b.calls()), (4, 3));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_forbids_another_try_forbids_it_to_those_above_too() {
    let sends = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sends);
    let below = service_fn(move |_: Text| {
        counted.fetch_add(1, Ordering::Relaxed);
        ready(Ok::<_, Infallible>("broken, do not ask again"))
    });
    // Even one that owns no retries hands on what it was told.
    let inner = named("inner")
        .max_attempts(1)
        .classify(classify_fn(|_: Result<&Text, _>| {
            Verdict::transient().never_again()
        }))
        .build()
        .unwrap();
    // The handler in between says it in words of its own.
    let handler = ServiceBuilder::new()
        .map_response(|_: Text| "sorry")
        .resilience(inner)
        .service(below);
    let outer = named("outer")
        .max_attempts(4)
        .classify(classify_fn(|_: Result<&Text, _>| Verdict::transient()))
        .build()
        .unwrap();
    let stack = ServiceBuilder::new().resilience(outer).service(handler);
    assert_eq!(stack.oneshot("x").await.unwrap(), "sorry");
    assert_eq!(sends.load(Ordering::Relaxed), 1);
}
