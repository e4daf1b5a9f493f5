//! A ceiling on sends: exact, once for each send, and all that was reserved for
//! one beyond it given back.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]
#![allow(
    clippy::async_yields_async,
    reason = "what is made in one scope is polled in another"
)]

mod support;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steadfast::defer::DeferLayer;
use steadfast::{
    Backoff, BreakerConfig, BreakerState, CallCap, CallReport, Error, ErrorKind, Policy, Scope,
    ServiceBuilderExt, Stopped, fallback,
};
use support::*;
use tokio::task::JoinSet;
use tokio_test::{assert_pending, assert_ready, task};
use tower::limit::ConcurrencyLimit;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

fn single() -> Policy {
    bare().build().unwrap()
}

#[track_caller]
fn assert_capped<R: std::fmt::Debug>(result: &Result<R, Error>) {
    let error = result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(error.stopped(), Some(Stopped::CallCap), "{error}");
}

// ---- the ceiling ------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_scope_without_a_ceiling_does_not_hide_the_one_around_it() {
    let inner = Inner::always(Step::Ok);
    let client = stack(&single(), &inner);
    let elsewhere = Scope::current();
    let calls = elsewhere.wrap(async {
        assert!(send(&client, "x").await.is_ok());
        assert_capped(&send(&client, "x").await);
    });
    CallCap::new(1).wrap(calls).await;
    assert_eq!(inner.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_ceiling_nothing_is_sent_and_the_refusal_is_final() {
    let inner = Inner::always(Step::Ok);
    let client = stack(&single(), &inner);
    let cap = CallCap::new(3);
    assert_eq!((cap.sends(), cap.remaining()), (0, 3));
    let (results, report) = cap
        .wrap(async {
            let mut results = Vec::new();
            for _ in 0..5 {
                results.push(send(&client, "x").await);
            }
            let (_, report) = CallReport::capture(send(&client, "x")).await;
            (results, report)
        })
        .await;
    assert!(results[..3].iter().all(Result::is_ok));
    results[3..].iter().for_each(assert_capped);
    assert_eq!((inner.calls(), cap.sends(), cap.remaining()), (3, 3, 0));

    let error = results[4].as_ref().unwrap_err();
    assert_eq!((error.attempts(), error.is_deferrable()), (0, false));
    assert!(error.refusal().is_none() && error.retry_after().is_none());
    assert_eq!(
        error.to_string(),
        "call to `case` was not made: all calls that were allowed have been made"
    );
    assert_eq!(
        error.for_model(),
        "The call to `case` was not made: all calls that were allowed have been made. \
         It was not sent. This is final: do not retry this call."
    );
    let report = report.unwrap();
    assert_eq!(report.stopped(), Some(Stopped::CallCap));
    assert_eq!(report.attempts(), 0);

    // Out of scope nothing is counted.
    assert!(send(&client, "x").await.is_ok());
    assert_eq!(cap.sends(), 3);
    assert_capped(&CallCap::new(0).wrap(send(&client, "x")).await);
}

#[tokio::test(start_paused = true)]
async fn a_retry_beyond_it_is_not_waited_for_and_the_attempts_own_error_stands() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(5)
        .backoff(Backoff::fixed(secs(1.0)))
        .retry_budget(budget(10.0))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let error = CallCap::new(2).wrap(send(&client, "x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(error.stopped(), Some(Stopped::CallCap));
    assert_eq!((error.attempts(), inner.calls()), (2, 2));
    assert_eq!(fault(&error), Some(Fault("scripted")));
    t.assert_now(1.0);
    assert_eq!(policy.budget_balance(), Some(9.0), "one retry was paid");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_cut_short_leaves_room_for_those_that_follow() {
    let inner = Inner::script([Step::Hang, Step::Err, Step::Err], Step::Ok);
    let policy = bare().max_attempts(4).attempt_timeout(secs(1.0));
    let client = stack(&policy.build().unwrap(), &inner);
    let cap = CallCap::new(5);
    cap.wrap(async {
        assert!(send(&client, "x").await.is_ok());
        assert!(send(&client, "x").await.is_ok());
        assert_capped(&send(&client, "x").await);
    })
    .await;
    assert_eq!((inner.calls(), cap.remaining()), (5, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_sends_at_once_never_exceed_it() {
    for _ in 0..20 {
        let sent = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&sent);
        let service = service_fn(move |(): ()| {
            counting.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::task::yield_now().await;
                Err::<(), _>("down")
            }
        });
        let policy = bare().max_attempts(3).build().unwrap();
        let client = ServiceBuilder::new().resilience(policy).service(service);
        let cap = CallCap::new(50);
        let mut tasks = JoinSet::new();
        for call in 0..1_000 {
            let (cap, client) = (cap.clone(), client.clone());
            // Half of them through a scope that is carried over.
            if call % 2 == 0 {
                tasks.spawn(cap.wrap(client.oneshot(())));
            } else {
                let carried = cap
                    .wrap(async { Scope::current().wrap(client.oneshot(())) })
                    .await;
                tasks.spawn(carried);
            }
        }
        let mut capped = 0;
        while let Some(result) = tasks.join_next().await {
            capped += usize::from(result.unwrap().unwrap_err().kind() == ErrorKind::Refused);
        }
        assert_eq!(sent.load(Ordering::SeqCst), 50);
        assert_eq!((cap.sends(), cap.remaining()), (50, 0));
        assert!(capped >= 950, "{capped}");
    }
}

// ---- once for each send -------------------------------------------------------------

/// Stacks of these attempts each, the innermost first, over `inner`.
fn nested(
    attempts: &[u32],
    inner: &Inner,
) -> tower::util::BoxCloneSyncService<Text, Text, BoxError> {
    let mut service = inner.clone().map_err(BoxError::from).boxed_clone_sync();
    for attempts in attempts {
        let policy = bare().max_attempts(*attempts).build().unwrap();
        service = ServiceBuilder::new()
            .resilience(policy)
            .service(service)
            .map_err(BoxError::from)
            .boxed_clone_sync();
    }
    service
}

trait Boxed: tower::Service<Text, Response = Text, Error = BoxError> + Sized {
    fn boxed_clone_sync(self) -> tower::util::BoxCloneSyncService<Text, Text, BoxError>
    where
        Self: Clone + Send + Sync + 'static,
        Self::Future: Send + 'static,
    {
        tower::util::BoxCloneSyncService::new(self)
    }
}
impl<S: tower::Service<Text, Response = Text, Error = BoxError>> Boxed for S {}

#[tokio::test(start_paused = true)]
async fn through_nested_stacks_one_send_counts_once() {
    for attempts in [&[1, 1][..], &[3, 3, 3], &[1, 4, 4], &[2, 1, 1, 1]] {
        let inner = Inner::always(Step::Err);
        let cap = CallCap::new(1_000);
        let client = nested(attempts, &inner);
        for _ in 0..3 {
            cap.wrap(client.clone().oneshot("x")).await.unwrap_err();
        }
        assert_eq!(cap.sends() as usize, inner.calls(), "{attempts:?}");

        // And the ceiling stands exactly there.
        let inner = Inner::always(Step::Err);
        let cap = CallCap::new(2);
        let client = nested(attempts, &inner);
        for _ in 0..5 {
            cap.wrap(client.clone().oneshot("x")).await.unwrap_err();
        }
        assert_eq!((inner.calls(), cap.sends()), (2, 2), "{attempts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_stack_below_refuses_is_given_back_to_the_one_above() {
    let below = named("below").breaker(bk()).build().unwrap();
    below.breaker().unwrap().force_open("maintenance");
    let inner = Inner::always(Step::Ok);
    let outer = bare().max_attempts(2).build().unwrap();
    let client = ServiceBuilder::new()
        .resilience(outer)
        .service(stack(&below, &inner));
    let cap = CallCap::new(1);
    for _ in 0..5 {
        let error = cap.wrap(client.clone().oneshot("x")).await.unwrap_err();
        assert_eq!(error.stopped(), Some(Stopped::NotRetryable));
    }
    assert_eq!(cap.sends(), 0);
    below.breaker().unwrap().reset();
    assert_eq!(cap.wrap(client.oneshot("x")).await.unwrap(), "ok");
    assert_eq!((cap.sends(), inner.calls()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn stacks_side_by_side_below_one_attempt_pay_for_all_but_the_first() {
    let (first, second) = (Inner::always(Step::Ok), Inner::always(Step::Ok));
    let (one, other) = (stack(&single(), &first), stack(&single(), &second));
    let both = service_fn(move |request: Text| {
        let (one, other) = (one.clone(), other.clone());
        let tasks = (one.oneshot(request), other.oneshot(request));
        async move {
            let (one, other) = tokio::join!(
                tokio::spawn(Scope::current().wrap(tasks.0)),
                Scope::current().wrap(tasks.1)
            );
            one.unwrap()?;
            other
        }
    });
    let client = ServiceBuilder::new().resilience(single()).service(both);
    let cap = CallCap::new(10);
    cap.wrap(client.oneshot("x")).await.unwrap();
    assert_eq!((first.calls(), second.calls(), cap.sends()), (1, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_wrapped_task_goes_on_counting_after_the_scope_that_spawned_it() {
    let t = Clock::start();
    let inner = Inner::always(Step::OkAfter(1.0));
    let client = stack(&single(), &inner);
    let background = {
        let client = client.clone();
        let cap = CallCap::new(3);
        let work = async move {
            let mut sent = 0;
            while job(&client).await.is_ok() {
                sent += 1;
            }
            sent
        };
        cap.wrap(async { tokio::spawn(Scope::current().wrap(work)) })
            .await
        // Nobody but the task holds the cap from here on.
    };
    assert_eq!(background.await.unwrap(), 3);
    t.assert_now(3.0);
}

#[tokio::test(start_paused = true)]
async fn a_send_of_the_service_itself_is_not_lent_to_what_it_leaves_running() {
    // The service sends by itself, and leaves a task behind that calls a stack.
    let inner = Inner::always(Step::Ok);
    let later = stack(&single(), &inner);
    let service = service_fn(move |_: Text| {
        let later = later.clone();
        let after = Scope::current().wrap(async move {
            tokio::time::sleep(secs(1.0)).await;
            job(&later).await
        });
        let left = tokio::spawn(after);
        async move { Ok::<_, Infallible>(left) }
    });
    let client = ServiceBuilder::new().resilience(single()).service(service);
    let cap = CallCap::new(1);
    let left = cap.wrap(client.oneshot("x")).await.unwrap();
    assert_capped(&left.await.unwrap());
    assert_eq!((inner.calls(), cap.sends()), (0, 1));
}

/// A call for tasks that do more than wait for it.
fn job(
    client: &impl Client,
) -> std::pin::Pin<Box<dyn Future<Output = Result<Text, Error>> + Send>> {
    Box::pin(client.clone().oneshot("x"))
}

#[tokio::test(start_paused = true)]
async fn a_cap_within_a_cap_does_not_lift_it() {
    let inner = Inner::always(Step::Ok);
    let client = stack(&single(), &inner);
    let calls = |n: usize| {
        let client = client.clone();
        async move {
            let mut sent = 0;
            for _ in 0..n {
                sent += usize::from(client.clone().oneshot("x").await.is_ok());
            }
            sent
        }
    };
    let (outer, within) = (CallCap::new(5), CallCap::new(3));
    let first = outer.wrap(within.wrap(calls(9))).await;
    assert_eq!((first, outer.sends(), within.sends()), (3, 3, 3));
    let rest = outer.wrap(CallCap::new(100).wrap(calls(9))).await;
    assert_eq!((rest, outer.sends()), (2, 5));
    // The same one twice counts once.
    let twice = CallCap::new(4);
    assert_eq!(twice.wrap(twice.wrap(calls(9))).await, 4);
    // And so does one that was carried into itself.
    let carried = CallCap::new(4);
    let scope = carried.wrap(async { Scope::current() }).await;
    assert_eq!(carried.wrap(scope.wrap(calls(9))).await, 4);
    assert_eq!(carried.sends(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_cap_within_an_attempt_holds_for_what_the_attempt_calls() {
    let inner = Inner::always(Step::Err);
    let below = stack(&bare().max_attempts(5).build().unwrap(), &inner);
    let service =
        service_fn(move |request: Text| CallCap::new(2).wrap(below.clone().oneshot(request)));
    let client = ServiceBuilder::new().resilience(single()).service(service);
    let cap = CallCap::new(10);
    cap.wrap(client.oneshot("x")).await.unwrap_err();
    assert_eq!((inner.calls(), cap.sends()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_cap_that_an_attempt_within_it_wraps_again_counts_no_send_twice() {
    let inner = Inner::always(Step::Ok);
    let below = stack(&single(), &inner);
    let cap = CallCap::new(10);
    let again = cap.clone();
    let service = service_fn(move |request: Text| again.wrap(below.clone().oneshot(request)));
    let client = ServiceBuilder::new().resilience(single()).service(service);
    cap.wrap(client.oneshot("x")).await.unwrap();
    assert_eq!((inner.calls(), cap.sends()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_is_carried_into_its_own_cap_counts_no_send_twice() {
    let inner = Inner::always(Step::Ok);
    let below = stack(&single(), &inner);
    let cap = CallCap::new(10);
    let again = cap.clone();
    let service = service_fn(move |request: Text| {
        let call = Scope::current().wrap(below.clone().oneshot(request));
        let task = tokio::spawn(again.wrap(call));
        async { task.await.unwrap() }
    });
    let client = ServiceBuilder::new().resilience(single()).service(service);
    cap.wrap(client.oneshot("x")).await.unwrap();
    assert_eq!((inner.calls(), cap.sends()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_was_taken_in_an_attempt_is_over_with_it() {
    let service = service_fn(|(): ()| async { Ok::<_, Infallible>(Scope::current()) });
    let client = ServiceBuilder::new().resilience(single()).service(service);
    let cap = CallCap::new(10);
    let left = cap.wrap(client.oneshot(())).await.unwrap();
    let inner = Inner::always(Step::Ok);
    let below = stack(&single(), &inner);
    assert_capped(&left.wrap(below.oneshot("x")).await);
    assert_eq!((inner.calls(), cap.sends()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn it_holds_where_a_call_is_made_and_where_it_is_polled() {
    let inner = Inner::always(Step::Ok);
    let cap = CallCap::new(1);
    let client = || {
        ServiceBuilder::new()
            .resilience(single())
            .service(inner.clone())
    };
    let with_fallback = || {
        ServiceBuilder::new()
            .fallback(fallback::with(|_: &Error| async {
                Err::<Text, _>(Fault("none"))
            }))
            .service(client())
    };
    let deferring = || {
        ServiceBuilder::new()
            .deferring_resilience(single(), DeferLayer::new())
            .service(inner.clone())
    };
    use tower::Service;
    // Made inside, polled outside.
    let made = cap.wrap(async { client().call("x") }).await;
    made.await.unwrap();
    assert_eq!(cap.sends(), 1);
    // Made outside, polled inside.
    assert_capped(&cap.wrap(client().call("x")).await);
    assert_capped(&cap.wrap(with_fallback().call("x")).await);
    assert_capped(&cap.wrap(deferring().call("x")).await);
    // Made inside of one, polled inside of another, which holds.
    let (room, none) = (CallCap::new(9), CallCap::new(0));
    let made = room.wrap(async { client().call("x") }).await;
    assert_capped(&none.wrap(made).await);
    let made = room.wrap(async { with_fallback().call("x") }).await;
    assert_capped(&none.wrap(made).await);
    let made = room.wrap(async { deferring().call("x") }).await;
    assert_capped(&none.wrap(made).await);
    // Made inside, polled outside when all of the cap is gone.
    let made = CallCap::new(9).wrap(async { client().call("x") }).await;
    assert_capped(&made.await);
    assert_eq!(inner.calls(), 1);
}

// ---- what is given back ---------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_probe_beyond_it_gives_its_slot_back_and_proves_nothing() {
    let t = Clock::start();
    let policy = bare()
        .breaker(plain(BreakerConfig::consecutive(1)))
        .build()
        .unwrap();
    let inner = Inner::script([Step::Err], Step::Ok);
    let client = stack(&policy, &inner);
    send(&client, "x").await.unwrap_err();
    t.reach(10.1).await;
    let none = CallCap::new(0);
    // More than the ten neutral answers after which a breaker moves on.
    for _ in 0..15 {
        assert_capped(&none.wrap(send(&client, "x")).await);
        assert_eq!(policy.breaker().unwrap().state(), BreakerState::HalfOpen);
    }
    assert_eq!(inner.calls(), 1);
    assert!(send(&client, "x").await.is_ok());
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_finds_the_room_gone_gets_its_charge_back() {
    let t = Clock::start();
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(2.0)))
        .retry_budget(budget(10.0))
        .build()
        .unwrap();
    let inner = Inner::script([Step::Err], Step::Ok);
    let client = stack(&policy, &inner);
    let cap = CallCap::new(2);
    let mut retrying = task::spawn(cap.wrap(send(&client, "x")));
    assert_pending!(retrying.poll());
    assert_eq!(policy.budget_balance(), Some(9.0));
    // Another one takes the last place during the backoff.
    cap.wrap(send(&client, "x")).await.unwrap();
    t.reach(2.1).await;
    let result = assert_ready!(retrying.poll());
    assert_capped(&result);
    let error = result.unwrap_err();
    assert_eq!((error.attempts(), inner.calls()), (1, 2));
    assert_eq!(fault(&error), Some(Fault("scripted")), "the last real word");
    assert_eq!(policy.budget_balance(), Some(10.0));
}

#[tokio::test(start_paused = true)]
async fn a_call_beyond_it_keeps_no_place_in_the_service() {
    let limited = ConcurrencyLimit::new(Inner::always(Step::Ok), 1);
    let mut client = ServiceBuilder::new().resilience(single()).service(limited);
    let mut capped = Box::pin(CallCap::new(0).wrap(tower::Service::call(&mut client, "x")));
    assert_capped(&(&mut capped).await);
    // The ended call is kept, and yet the only place is free.
    let next = tokio::time::timeout(secs(60.0), client.oneshot("x")).await;
    assert_eq!(next.expect("the place is held").unwrap(), "ok");
    drop(capped);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_was_dropped_under_way_stays_counted_and_one_that_waited_is_not() {
    let inner = Inner::always(Step::Hang).readiness([Ready::Now], Ready::Never);
    let client = stack(&single(), &inner);
    let cap = CallCap::new(5);
    let mut sent = task::spawn(cap.wrap(send(&client, "x")));
    let mut waits = task::spawn(cap.wrap(send(&client, "x")));
    assert_pending!(sent.poll());
    assert_pending!(waits.poll());
    drop((sent, waits));
    assert_eq!((inner.calls(), cap.sends()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_service_costs_the_send_and_no_more() {
    let inner = Inner::script([Step::PanicInCall, Step::Panic], Step::Ok);
    let client = stack(&single(), &inner);
    let cap = CallCap::new(3);
    for sends in 1..=2 {
        let panicked = tokio::spawn(cap.wrap(send(&client, "x"))).await;
        assert!(panicked.unwrap_err().is_panic());
        assert_eq!(cap.sends(), sends);
    }
    cap.wrap(send(&client, "x")).await.unwrap();
    assert_eq!(cap.remaining(), 0);
}

// ---- nobody else takes it over ---------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn it_does_not_fall_through_and_is_not_put_off() {
    let inner = Inner::always(Step::Ok);
    let secondary = Inner::always(Step::Ok);
    let none = CallCap::new(0);
    let client = ServiceBuilder::new()
        .fallback(fallback::service(secondary.clone()))
        .resilience(single())
        .service(inner.clone());
    assert_capped(&none.wrap(client.oneshot("x")).await);

    let deep = ServiceBuilder::new()
        .fallback(fallback::service(secondary.clone()))
        .resilience(bare().max_attempts(3).build().unwrap())
        .service(stack(&single(), &inner));
    // The outer attempt has paid; a cap further in is what is full.
    let within = service_fn(move |request: Text| none.wrap(deep.clone().oneshot(request)));
    assert_capped(&within.oneshot("x").await);

    let t = Clock::start();
    let deferring = ServiceBuilder::new()
        .deferring_resilience(single(), DeferLayer::new())
        .service(inner.clone());
    assert_capped(&CallCap::new(0).wrap(deferring.oneshot("x")).await);
    t.assert_now(0.0);
    assert_eq!((inner.calls(), secondary.calls()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stack_further_out_takes_it_as_final_and_asks_no_fallback() {
    let secondary = Inner::always(Step::Ok);
    let inner = Inner::always(Step::Ok);
    let below = stack(&single(), &inner);
    let capped =
        service_fn(move |request: Text| CallCap::new(0).wrap(below.clone().oneshot(request)));
    let client = ServiceBuilder::new()
        .fallback(fallback::service(secondary.clone()))
        .resilience(bare().max_attempts(3).build().unwrap())
        .service(capped);
    let error = client.oneshot("x").await.unwrap_err();
    assert_eq!(error.stopped(), Some(Stopped::NotRetryable));
    assert_eq!(error.attempts(), 1);
    assert!(error.for_model().contains("all calls that were allowed"));
    assert_eq!(secondary.calls(), 0);
}

#[cfg(feature = "http")]
#[tokio::test(start_paused = true)]
async fn over_http_it_is_a_limit_of_the_callers_own() {
    use steadfast::http::Problem;

    let client = stack(&single(), &Inner::always(Step::Ok));
    let result = CallCap::new(0).wrap(send(&client, "x")).await;
    let problem = Problem::from(&result.unwrap_err());
    assert_eq!(problem.status(), 429);
    assert_eq!(problem.retry_after_seconds(), None);
    let answer = problem.into_response::<http_body_util::Full<bytes::Bytes>>();
    assert_eq!(answer.headers()["x-should-retry"], "false");
    let body = http_body_util::BodyExt::collect(answer.into_body());
    let answer = String::from_utf8(body.await.unwrap().to_bytes().into()).unwrap();
    assert!(answer.contains("\"code\":\"call_cap_reached\""), "{answer}");
    assert!(
        answer.contains("no further call to the dependency `case`"),
        "{answer}"
    );
}
