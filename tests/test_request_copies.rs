//! How often a request is copied, and how long a wait asked for may be.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::future::{Ready, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steadfast::classify::classify_fn;
use steadfast::{
    Backoff, BreakerConfig, CallReport, Classify, Error, ErrorKind, Policy, Replay, Scope,
    ServiceBuilderExt, Stopped, Verdict, fallback,
};
use support::{Clock, Fault, Source, Text, bare, bk, fault, secs};
use tokio::time::Instant;
use tokio_test::{assert_ready, task};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

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
async fn no_copy_is_made_for_a_caller_who_wants_one_attempt_only() {
    let policy = bare().max_attempts(3).build().unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(|_: Counted| async {
            Err::<(), BoxError>("down".into())
        }));
    let request = Counted::default();
    let copies = Arc::clone(&request.0);
    let call = Scope::current().no_retries().wrap(client.oneshot(request));
    let error = call.await.unwrap_err();
    assert_eq!(error.stopped(), Some(Stopped::RetriesDisabled));
    assert_eq!(copies.load(Ordering::Relaxed), 0);
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

// ---- copies that an attempt spoils ----------------------------------------------

/// A request whose copies are spoilt when `spoilt` says so.
struct Spoilable {
    spoilt: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
struct Watchful;

impl Replay<Spoilable> for Watchful {
    type Memo = ();
    fn memo(&self, _: &Spoilable) {}
    fn copy(&self, request: &Spoilable) -> Option<Spoilable> {
        let spoilt = Arc::clone(&request.spoilt);
        Some(Spoilable { spoilt })
    }
    fn is_intact(&self, copy: &Spoilable) -> bool {
        !copy.spoilt.load(Ordering::Relaxed)
    }
    fn idempotent(&self, (): &()) -> bool {
        true
    }
}

impl Classify<Spoilable, Text> for Watchful {
    fn classify(&self, (): &(), result: Result<&Text, &Source>) -> Verdict {
        match result {
            Ok(&"ok") => Verdict::success(),
            _ => Verdict::transient(),
        }
    }
}

/// What was sent, by a service that fails and spoils the copies `after` so
/// long; `None` for never.
#[derive(Clone)]
struct Spoils {
    answer: Result<Text, Fault>,
    after: Option<f64>,
    calls: Arc<AtomicU32>,
}

impl Spoils {
    fn new(answer: Result<Text, Fault>, after: Option<f64>) -> Self {
        let calls = Arc::default();
        Self {
            answer,
            after,
            calls,
        }
    }

    fn send(&self, request: Spoilable) -> Ready<Result<Text, Fault>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let after = self.after;
        tokio::spawn(async move {
            if let Some(after) = after {
                tokio::time::sleep(secs(after)).await;
                request.spoilt.store(true, Ordering::Relaxed);
            }
        });
        ready(self.answer)
    }
}

/// Sends one request through a stack of three attempts with 1 s between them.
async fn through_the_loop<C>(
    spoils: &Spoils,
    classify: C,
    spoilt: bool,
) -> (Result<Text, Error>, Option<CallReport>)
where
    C: Classify<Spoilable, Text> + Send + Sync + 'static,
    C::Memo: Send,
{
    let policy = bare()
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(1.0)))
        .breaker(bk())
        .classify(classify)
        .build()
        .unwrap();
    let (service, spoilt) = (spoils.clone(), Arc::new(AtomicBool::new(spoilt)));
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(move |request| service.send(request)));
    CallReport::capture(client.oneshot(Spoilable { spoilt })).await
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_the_attempt_has_spoilt_is_not_sent_and_the_answer_stands() {
    let t = Clock::start();
    let spoils = Spoils::new(Ok("503"), None);
    let (answer, report) = through_the_loop(&spoils, Watchful, true).await;
    assert_eq!(answer.unwrap(), "503");
    let stopped = report.unwrap().stopped();
    assert_eq!(stopped, Some(Stopped::NotReplayable));
    assert_eq!(spoils.calls.load(Ordering::Relaxed), 1);
    t.assert_now(0.0);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_spoilt_during_the_backoff_is_not_sent() {
    let t = Clock::start();
    let spoils = Spoils::new(Err(Fault("reset")), Some(0.5));
    let (answer, _) = through_the_loop(&spoils, Watchful, false).await;
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(error.stopped(), Some(Stopped::NotReplayable));
    assert_eq!(fault(&error), Some(Fault("reset")));
    assert_eq!(
        (error.attempts(), spoils.calls.load(Ordering::Relaxed)),
        (1, 1)
    );
    t.assert_now(1.0);
}

#[tokio::test(start_paused = true)]
async fn copies_that_stay_intact_are_sent_as_often_as_attempts_allow() {
    let spoils = Spoils::new(Err(Fault("reset")), None);
    let (answer, _) = through_the_loop(&spoils, Watchful, false).await;
    assert_eq!(
        answer.unwrap_err().stopped(),
        Some(Stopped::AttemptsExhausted)
    );
    assert_eq!(spoils.calls.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_not_asked_with_a_copy_that_the_primary_has_spoilt() {
    for spoilt in [false, true] {
        let secondary = Spoils::new(Ok("secondary"), None);
        let asked = secondary.clone();
        let client = ServiceBuilder::new()
            .fallback(
                fallback::service(service_fn(move |request| asked.send(request)))
                    .replay(Watchful)
                    .or(fallback::value("a value")),
            )
            .resilience(bare().classify(Watchful).build().unwrap())
            .service(service_fn(move |request: Spoilable| {
                request.spoilt.store(spoilt, Ordering::Relaxed);
                ready(Err::<Text, _>(Fault("down")))
            }));
        let request = Spoilable {
            spoilt: Arc::default(),
        };
        let answer = client.oneshot(request).await.unwrap();
        assert_eq!(answer, if spoilt { "a value" } else { "secondary" });
        assert_eq!(secondary.calls.load(Ordering::Relaxed), u32::from(!spoilt));
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_last_that_can_be_asked_works_no_copy_is_kept() {
    /// Fails, and notes how often the request lives meanwhile.
    fn note(request: &Spoilable, seen: &Mutex<Vec<usize>>) -> Ready<Result<Text, Fault>> {
        let alive = Arc::strong_count(&request.spoilt);
        seen.lock().unwrap().push(alive);
        ready(Err(Fault("down")))
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = || {
        let seen = Arc::clone(&seen);
        service_fn(move |request| note(&request, &seen))
    };
    let policy = bare().max_attempts(2).classify(Watchful).build().unwrap();
    let entries = fallback::service(notes())
        .replay(Watchful)
        .or(fallback::service(notes()).replay(Watchful));
    let client = ServiceBuilder::new()
        .fallback(entries)
        .resilience(policy)
        .service(notes());
    let spoilt = Arc::default();
    client.oneshot(Spoilable { spoilt }).await.unwrap_err();
    // Two attempts, two entries: each sees itself and what may follow.
    assert_eq!(*seen.lock().unwrap(), [3, 2, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_ended_keeps_no_copy_while_its_future_is_kept() {
    for answer in [Ok("ok"), Ok("503"), Err(Fault("down"))] {
        let policy = bare().max_attempts(2).classify(Watchful);
        let policy = policy.retry_budget(support::budget(0.0)).build().unwrap();
        let mut client = ServiceBuilder::new()
            .resilience(policy)
            .service(service_fn(move |_: Spoilable| ready(answer)));
        let spoilt = Arc::new(AtomicBool::new(false));
        let request = Spoilable {
            spoilt: Arc::clone(&spoilt),
        };
        let mut call = task::spawn(client.ready().await.unwrap().call(request));
        assert_eq!(assert_ready!(call.poll()).is_ok(), answer.is_ok());
        assert_eq!(Arc::strong_count(&spoilt), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_over_before_it_began_is_polled_once() {
    let policy = bare().breaker(BreakerConfig::consecutive(1));
    let policy = policy.build().unwrap();
    policy.breaker().unwrap().admit().unwrap().failure();
    for reported in [false, true] {
        let mut call = Box::pin(policy.call(|| ready(Ok::<_, Fault>(()))));
        let mut polled_twice = task::spawn(async move {
            if reported {
                let _ = CallReport::capture(call.as_mut()).await;
            } else {
                call.as_mut().await.unwrap_err();
            }
            call.await
        });
        let poll = AssertUnwindSafe(|| drop(polled_twice.poll()));
        assert!(catch_unwind(poll).is_err(), "reported: {reported}");
    }
}
