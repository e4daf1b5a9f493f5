//! How often a request is copied, and how long a wait asked for may be.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use steadfast::classify::classify_fn;
use steadfast::{Backoff, Policy, ServiceBuilderExt, Stopped, Verdict};
use tokio::time::Instant;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

/// A request that counts its clones.
#[derive(Debug, Default)]
struct Counted(Arc<AtomicU32>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_possible_attempt_takes_the_request_itself() {
    for max_attempts in 1..5 {
        let policy = Policy::builder("inventory")
            .max_attempts(max_attempts)
            .backoff(Backoff::none())
            .no_breaker()
            .build()
            .unwrap();
        let client =
            ServiceBuilder::new()
                .resilience(policy)
                .service(service_fn(|_: Counted| async {
                    Err::<(), BoxError>("down".into())
                }));
        let request = Counted::default();
        let copies = Arc::clone(&request.0);
        let error = client.oneshot(request).await.unwrap_err();
        assert_eq!(error.attempts(), max_attempts);
        assert_eq!(error.stopped(), Some(Stopped::AttemptsExhausted));
        assert_eq!(copies.load(Ordering::Relaxed), max_attempts - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_of_just_the_largest_honoured_is_waited_for_and_one_above_is_not() {
    let largest = Duration::from_secs(20);
    for (hint, stopped) in [
        (largest, Stopped::AttemptsExhausted),
        (largest + Duration::from_nanos(1), Stopped::HintTooLong),
    ] {
        let policy = Policy::builder("inventory")
            .no_deadline()
            .max_attempts(2)
            .backoff(Backoff::none())
            .largest_hint(largest)
            .no_breaker()
            .classify(classify_fn(move |_: Result<&(), _>| {
                Verdict::throttled(Some(hint))
            }))
            .build()
            .unwrap();
        let begun = Instant::now();
        let call = policy.call(|| async { Err::<(), BoxError>("429".into()) });
        let error = call.await.unwrap_err();
        assert_eq!(error.stopped(), Some(stopped), "{hint:?}");
        let waited = begun.elapsed();
        let honoured = stopped == Stopped::AttemptsExhausted;
        assert_eq!(waited >= largest, honoured, "{waited:?}");
        assert_eq!(error.retry_after(), Some(hint));
    }
}
