//! What a model is told of each way in which a call can end.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::error::Error as _;

use steadfast::{Backoff, BreakerConfig, Deadline, Error, Policy, Scope, Verdict, classify};
use support::*;

/// The end of every text.
const FINAL: &str = "This is final: do not retry this call.";

/// A secret that stands in the service's own error.
#[derive(Debug, thiserror::Error)]
#[error("postgres://admin:hunter2@10.0.0.7/jobs: connection refused")]
struct Internal;

async fn failing(policy: &Policy) -> Error {
    policy
        .call(|| async { Err::<(), _>(Internal) })
        .await
        .unwrap_err()
}

#[track_caller]
fn assert_text(error: &Error, text: &str) {
    let told = error.for_model();
    assert_eq!(told, format!("{text} {FINAL}"));
    for internal in ["hunter2", "10.0.0.7", "connection refused", "postgres"] {
        assert!(!told.contains(internal), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_tells_its_limit_its_tries_and_how_long_they_took() {
    let policy = named("search")
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(1.0)))
        .build()
        .unwrap();
    let error = failing(&policy).await;
    assert!(error.source().unwrap().to_string().contains("hunter2"));
    assert_text(
        &error,
        "The call to `search` failed: no attempts left. It was tried 3 times over 2.0 s.",
    );

    let error = failing(&named("search").build().unwrap()).await;
    assert_text(
        &error,
        "The call to `search` failed: no attempts left. It was tried once.",
    );
}

#[tokio::test(start_paused = true)]
async fn each_limit_of_the_retries_is_told() {
    let more = || named("search").max_attempts(2);
    let spent = more().retry_budget(budget(0.0)).build().unwrap();
    assert_text(
        &failing(&spent).await,
        "The call to `search` failed: the retry budget is spent. It was tried once.",
    );

    let breaker = more().breaker(plain(BreakerConfig::consecutive(1)));
    assert_text(
        &failing(&breaker.build().unwrap()).await,
        "The call to `search` failed: the breaker would refuse a retry. It was tried once.",
    );

    let policy = more().build().unwrap();
    let once = Scope::current().no_retries().wrap(failing(&policy)).await;
    assert_text(
        &once,
        "The call to `search` failed: the caller asked for no retries. It was tried once.",
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_dependency_will_say_again_is_told_with_the_classifiers_reason() {
    let policy = named("search")
        .classify(classify::classify_fn(|_: Result<&(), &Source>| {
            Verdict::terminal().because(404)
        }))
        .build()
        .unwrap();
    let error = policy
        .call(|| async { Err::<(), _>(Internal) })
        .await
        .unwrap_err();
    assert_text(
        &error,
        "`search` did not do what was asked: status 404. It was tried once.",
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_was_not_sent_and_a_note_for_people_stays_with_them() {
    let policy = named("search").breaker(bk()).build().unwrap();
    for _ in 0..4 {
        failing(&policy).await;
    }
    let open = failing(&policy).await;
    assert_text(
        &open,
        "`search` is temporarily unavailable: it failed too often. It was not sent.",
    );

    policy.breaker().unwrap().force_open("ask hunter2 on call");
    assert_text(
        &failing(&policy).await,
        "`search` is temporarily unavailable: calls to it were stopped by hand. It was not sent.",
    );

    let busy = named("search")
        .breaker(plain(BreakerConfig::consecutive(9)).concurrency_limit(1))
        .build()
        .unwrap();
    let _held = busy.breaker().unwrap().admit().unwrap();
    assert_text(
        &failing(&busy).await,
        "`search` is temporarily unavailable: too many calls to it are in flight. It was not sent.",
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_out_of_time_says_so() {
    let hang = || tokio::time::sleep(secs(1e6));
    let slow = |policy: Policy| async move {
        let call = || async {
            hang().await;
            Ok::<_, Internal>(())
        };
        policy.call(call).await.unwrap_err()
    };
    assert_text(
        &slow(named("search").deadline(secs(2.0)).build().unwrap()).await,
        "The time for the call to `search` ran out before there was an answer. \
         It was tried once over 2.0 s.",
    );
    assert_text(
        &slow(named("search").attempt_timeout(secs(0.25)).build().unwrap()).await,
        "`search` did not answer in time: no attempts left. It was tried once over 250 ms.",
    );
    let policy = named("search").build().unwrap();
    let past = Deadline::after(secs(0.0)).scope(failing(&policy)).await;
    assert_text(
        &past,
        "The time for the call to `search` ran out before there was an answer. It was not sent.",
    );
}

#[tokio::test(start_paused = true)]
async fn of_nested_stacks_the_innermost_end_is_told() {
    let inner = named("index")
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(1.0)))
        .build()
        .unwrap();
    let outer = named("search").max_attempts(5).build().unwrap();
    let error = outer
        .call(|| async { inner.call(|| async { Err::<(), _>(Internal) }).await })
        .await
        .unwrap_err();
    assert_text(
        &error,
        "The call to `index` failed: no attempts left. It was tried 2 times over 1.0 s.",
    );

    let breaker = steadfast::Breaker::new("shard", bk()).unwrap();
    breaker.force_open("hunter2");
    let error = outer
        .call(|| async { breaker.admit().map(steadfast::Permit::success) })
        .await
        .unwrap_err();
    assert_text(
        &error,
        "`shard` is temporarily unavailable: calls to it were stopped by hand. It was tried once.",
    );
}
