//! What is ambient: the deadline, the attempt's number, the overrides of one
//! call, and the report of how it went.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use steadfast::{
    Backoff, BreakerConfig, CallReport, Deadline, ErrorKind, Policy, Scope, ServedBy,
    ServiceBuilderExt, Stopped, Verdict, classify::classify_fn, fallback,
};
use support::*;
use tokio_test::{assert_pending, task};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

/// What is left of the deadline in scope, in seconds.
fn left() -> Option<f64> {
    Deadline::current().map(|deadline| deadline.remaining().as_secs_f64())
}

/// A service that answers what it sees of the deadline.
fn tells_deadline(
    policy: Policy,
) -> impl Service<(), Response = Option<f64>, Error = steadfast::Error> + Clone {
    ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(|()| async { Ok::<_, Infallible>(left()) }))
}

fn five_seconds() -> Policy {
    bare().deadline(secs(5.0)).build().unwrap()
}

// ---- the deadline in scope ----------------------------------------------------

#[tokio::test(start_paused = true)]
async fn the_inner_service_sees_the_policys_deadline() {
    assert_eq!(left(), None);
    let client = tells_deadline(five_seconds());
    assert_eq!(client.oneshot(()).await.unwrap(), Some(5.0));
    assert_eq!(left(), None);
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_of_its_own_a_policy_passes_on_the_callers() {
    let client = tells_deadline(bare().build().unwrap());
    assert_eq!(client.clone().oneshot(()).await.unwrap(), None);
    let call = Deadline::after(secs(7.0)).scope(client.oneshot(()));
    assert_eq!(call.await.unwrap(), Some(7.0));
}

#[tokio::test(start_paused = true)]
async fn a_shorter_deadline_of_the_caller_wins() {
    let t = Clock::start();
    let client = tells_deadline(five_seconds());
    let call = Deadline::after(secs(2.0)).scope(client.oneshot(()));
    assert_eq!(call.await.unwrap(), Some(2.0));

    let inner = Inner::always(Step::Hang);
    let call = Deadline::after(secs(2.0)).scope(send(&stack(&five_seconds(), &inner), "x"));
    assert_eq!(kind(&call.await), Some(ErrorKind::DeadlineExceeded));
    t.assert_now(2.0);
}

#[tokio::test(start_paused = true)]
async fn a_longer_deadline_of_the_caller_never_extends_the_policys() {
    let t = Clock::start();
    let client = tells_deadline(five_seconds());
    let call = Deadline::after(secs(60.0)).scope(client.oneshot(()));
    assert_eq!(call.await.unwrap(), Some(5.0));

    let inner = Inner::always(Step::Hang);
    let call = Deadline::after(secs(60.0)).scope(send(&stack(&five_seconds(), &inner), "x"));
    assert_eq!(kind(&call.await), Some(ErrorKind::DeadlineExceeded));
    t.assert_now(5.0);
}

#[tokio::test(start_paused = true)]
async fn the_shorter_of_nested_scopes_wins_either_way() {
    let (short, long) = (Deadline::after(secs(2.0)), Deadline::after(secs(9.0)));
    assert_eq!(short.scope(long.scope(async { left() })).await, Some(2.0));
    assert_eq!(long.scope(short.scope(async { left() })).await, Some(2.0));
    // The outer one is back when the inner one is left.
    let outer = long.scope(async {
        short.scope(async {}).await;
        left()
    });
    assert_eq!(outer.await, Some(9.0));
}

#[tokio::test(start_paused = true)]
async fn a_scope_made_elsewhere_does_not_extend_the_deadline_where_it_is_polled() {
    // The future is made where there is no deadline, and awaited where one is.
    let made_outside = Deadline::after(secs(60.0)).scope(async { left() });
    let client = ServiceBuilder::new()
        .resilience(five_seconds())
        .service(service_fn(move |()| {
            let work = Deadline::after(secs(60.0)).scope(async { left() });
            async move { Ok::<_, Infallible>(work.await) }
        }));
    assert_eq!(client.oneshot(()).await.unwrap(), Some(5.0));
    let short = Deadline::after(secs(2.0));
    assert_eq!(short.scope(made_outside).await, Some(2.0));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_an_outer_stack_reaches_the_inner_one() {
    let outer = bare().deadline(secs(3.0)).build().unwrap();
    let client = ServiceBuilder::new()
        .resilience(outer)
        .service(tells_deadline(five_seconds()));
    assert_eq!(client.oneshot(()).await.unwrap(), Some(3.0));
}

#[tokio::test(start_paused = true)]
async fn later_attempts_see_the_same_instant() {
    let t = Clock::start();
    let seen = std::sync::Mutex::new(Vec::new());
    let policy = bare()
        .deadline(secs(30.0))
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(2.0)))
        .build()
        .unwrap();
    let seen = &seen;
    let client =
        ServiceBuilder::new()
            .resilience(policy)
            .service(service_fn(move |_: Text| async move {
                seen.lock()
                    .unwrap()
                    .push(Deadline::current().unwrap().instant());
                Err::<Text, _>(Fault("again"))
            }));
    assert!(client.oneshot("x").await.is_err());
    assert_eq!(*seen.lock().unwrap(), [t.instant(30.0); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_tells_what_is_left_of_it() {
    let t = Clock::start();
    let deadline = Deadline::after(secs(2.0));
    assert_eq!(deadline.instant(), t.instant(2.0));
    assert_eq!(Deadline::at(t.instant(2.0)).remaining(), secs(2.0));
    assert!(!deadline.is_past());
    t.reach(1.5).await;
    assert_eq!(deadline.remaining().as_millis(), 500);
    t.reach(3.0).await;
    assert!(deadline.is_past());
    assert_eq!(deadline.remaining(), Duration::ZERO);
    // Nothing overflows.
    assert!(Deadline::after(Duration::MAX).remaining() > secs(1e6));
}

// ---- when the clock starts, when the scope is read ---------------------------

#[tokio::test(start_paused = true)]
async fn the_clock_starts_at_the_call_not_at_the_first_poll() {
    let t = Clock::start();
    let inner = Inner::always(Step::Hang);
    let mut client = stack(&five_seconds(), &inner);
    let call = client.call("x");
    t.reach(3.0).await;
    let error = call.await.unwrap_err();
    t.assert_now(5.0);
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(inner.calls(), 1);
    assert!(error.elapsed() >= secs(5.0));
}

#[tokio::test(start_paused = true)]
async fn a_call_first_polled_past_its_deadline_sends_nothing() {
    let t = Clock::start();
    let inner = Inner::always(Step::Ok);
    let mut client = stack(&five_seconds(), &inner);
    let call = client.call("x");
    t.reach(6.0).await;
    assert_eq!(kind(&call.await), Some(ErrorKind::DeadlineExceeded));
    t.assert_now(6.0);
    assert_eq!((inner.polls(), inner.calls()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_scope_is_read_at_the_call() {
    let t = Clock::start();
    let inner = Inner::always(Step::Hang);
    let mut client = stack(&five_seconds(), &inner);
    let within = Deadline::after(secs(2.0)).scope(poll_fn(|_| Poll::Ready(client.call("x"))));
    let call = within.await;
    assert_eq!(kind(&call.await), Some(ErrorKind::DeadlineExceeded));
    t.assert_now(2.0);
}

#[tokio::test(start_paused = true)]
async fn the_scope_is_read_at_the_first_poll() {
    let t = Clock::start();
    let inner = Inner::always(Step::Hang);
    let mut client = stack(&five_seconds(), &inner);
    let call = client.call("x");
    let call = Deadline::after(secs(1.0)).scope(call);
    assert_eq!(kind(&call.await), Some(ErrorKind::DeadlineExceeded));
    t.assert_now(1.0);
}

#[tokio::test(start_paused = true)]
async fn of_both_scopes_the_shorter_wins() {
    for (at_call, at_poll) in [(2.0, 4.0), (4.0, 2.0)] {
        let t = Clock::start();
        let inner = Inner::always(Step::Hang);
        let mut client = stack(&five_seconds(), &inner);
        let within =
            Deadline::after(secs(at_call)).scope(poll_fn(|_| Poll::Ready(client.call("x"))));
        let call = within.await;
        let call = Deadline::after(secs(at_poll)).scope(call);
        assert_eq!(kind(&call.await), Some(ErrorKind::DeadlineExceeded));
        t.assert_now(2.0);
    }
}

// ---- the scope in spawned tasks -----------------------------------------------

/// What a task spawned by the inner service sees: deadline and attempt.
fn seen_from_a_task(
    wrapped: bool,
) -> impl Service<(), Response = (Option<f64>, u32), Error = steadfast::Error> + Clone {
    ServiceBuilder::new()
        .resilience(five_seconds())
        .service(service_fn(move |()| async move {
            let look = async { (left(), Scope::current().attempt()) };
            let task = if wrapped {
                tokio::spawn(Scope::current().wrap(look))
            } else {
                tokio::spawn(look)
            };
            Ok::<_, Infallible>(task.await.expect("no panic"))
        }))
}

#[tokio::test(start_paused = true)]
async fn a_scope_is_carried_into_a_spawned_task_by_wrap_only() {
    let wrapped = seen_from_a_task(true).oneshot(()).await.unwrap();
    assert_eq!(wrapped, (Some(5.0), 1));
    let bare = seen_from_a_task(false).oneshot(()).await.unwrap();
    assert_eq!(bare, (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_scope_shortened_by_hand_holds_for_what_it_wraps() {
    let t = Clock::start();
    let inner = Inner::always(Step::Hang);
    let client = stack(&five_seconds(), &inner);
    let scope = Scope::current().with_deadline(Deadline::after(secs(2.0)));
    assert_eq!(scope.deadline().unwrap().instant(), t.instant(2.0));
    let call = scope.wrap(send(&client, "x")).await;
    assert_eq!(kind(&call), Some(ErrorKind::DeadlineExceeded));
    t.assert_now(2.0);

    // It cannot extend.
    let longer = Deadline::after(secs(1.0)).scope(async {
        Scope::current()
            .with_deadline(Deadline::after(secs(60.0)))
            .deadline()
            .map(Deadline::remaining)
    });
    assert_eq!(longer.await, Some(secs(1.0)));
}

#[tokio::test(start_paused = true)]
async fn the_attempts_number_is_in_scope() {
    assert_eq!(Scope::current().attempt(), 0);
    let policy = bare().max_attempts(3).build().unwrap();
    let seen = std::sync::Mutex::new(Vec::new());
    let seen = &seen;
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(move |_: Text| {
            // Both in the call and in its future.
            let at_call = Scope::current().attempt();
            async move {
                seen.lock()
                    .unwrap()
                    .push((at_call, Scope::current().attempt()));
                Err::<Text, _>(Fault("again"))
            }
        }));
    assert!(client.oneshot("x").await.is_err());
    assert_eq!(*seen.lock().unwrap(), [(1, 1), (2, 2), (3, 3)]);
    assert_eq!(Scope::current().attempt(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_scope_made_elsewhere_does_not_hide_the_attempt_it_is_polled_in() {
    let work = Deadline::after(secs(60.0)).scope(async { Scope::current().attempt() });
    let work = std::sync::Mutex::new(Some(work));
    let client = ServiceBuilder::new()
        .resilience(five_seconds())
        .service(service_fn(|()| {
            let work = work.lock().unwrap().take();
            async { Ok::<_, Infallible>(work.expect("one call").await) }
        }));
    assert_eq!(client.oneshot(()).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_nested_stack_counts_its_own_attempts() {
    let policy = |name| named(name).max_attempts(2).build().unwrap();
    let seen = std::sync::Mutex::new(Vec::new());
    let seen = &seen;
    let below = ServiceBuilder::new()
        .resilience(policy("below"))
        .service(service_fn(move |_: Text| async move {
            seen.lock().unwrap().push(Scope::current().attempt());
            Err::<Text, _>(Fault("again"))
        }));
    let client = ServiceBuilder::new()
        .resilience(policy("above"))
        .service(service_fn(move |request: Text| {
            let below = below.clone();
            async move {
                let result = below.oneshot(request).await;
                // Back in the outer stack's attempt.
                seen.lock().unwrap().push(10 + Scope::current().attempt());
                result
            }
        }));
    assert!(client.oneshot("x").await.is_err());
    assert_eq!(*seen.lock().unwrap(), [1, 2, 11]);
}

// ---- overrides of one call ----------------------------------------------------

#[tokio::test(start_paused = true)]
async fn retries_can_be_switched_off_for_one_call() {
    let inner = Inner::always(Step::Err);
    let client = stack(&bare().max_attempts(3).build().unwrap(), &inner);
    let call = Scope::current().no_retries().wrap(send(&client, "x"));
    let error = call.await.unwrap_err();
    assert_eq!(inner.calls(), 1);
    assert_eq!(error.stopped(), Some(Stopped::RetriesDisabled));

    assert!(send(&client, "the next has them again").await.is_err());
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn overrides_are_read_at_the_call_and_at_the_first_poll() {
    let inner = Inner::always(Step::Err);
    let mut client = stack(&bare().max_attempts(3).build().unwrap(), &inner);
    let once = || Scope::current().no_retries();
    let call = once()
        .wrap(poll_fn(|_| Poll::Ready(client.call("x"))))
        .await;
    assert!(call.await.is_err());
    assert_eq!(inner.calls(), 1);
    let call = client.call("x");
    assert!(once().wrap(call).await.is_err());
    assert_eq!(inner.calls(), 2);

    let careful = || Scope::current().not_idempotent();
    let call = poll_fn(|_| Poll::Ready(client.call("x")));
    assert!(careful().wrap(call).await.await.is_err());
    assert_eq!(inner.calls(), 3);
    let call = client.call("x");
    assert!(careful().wrap(call).await.is_err());
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_not_repeat_is_sent_once_if_its_work_may_be_done() {
    let inner = Inner::always(Step::Err);
    let client = stack(&bare().max_attempts(3).build().unwrap(), &inner);
    let call = Scope::current().not_idempotent().wrap(send(&client, "x"));
    let error = call.await.unwrap_err();
    assert_eq!(inner.calls(), 1);
    assert_eq!(error.stopped(), Some(Stopped::NotIdempotent));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_not_repeat_is_repeated_if_its_work_was_not_done() {
    for verdict in [
        Verdict::overloaded(None),
        Verdict::unreachable(),
        Verdict::throttled(None),
    ] {
        let inner = Inner::always(Step::Err);
        let policy = bare()
            .max_attempts(3)
            .classify(classify_fn(move |_: Result<&Text, &Source>| verdict))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy)
            .service(inner.clone());
        let call = Scope::current().not_idempotent().wrap(send(&client, "x"));
        assert!(call.await.is_err());
        assert_eq!(inner.calls(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_readiness_timeout_did_no_work_and_is_repeated_for_any_request() {
    let inner = Inner::always(Step::Ok).readiness([Ready::After(5.0)], Ready::Now);
    let policy = bare()
        .attempt_timeout(secs(1.0))
        .max_attempts(2)
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let call = Scope::current().not_idempotent().wrap(send(&client, "x"));
    assert_eq!(call.await.unwrap(), "ok");
    assert_times(&inner.call_times(), &[1.0]);
}

#[tokio::test(start_paused = true)]
async fn overrides_reach_a_stack_called_from_a_task_only_if_wrapped() {
    for (wrapped, sends) in [(true, 1), (false, 3)] {
        let inner = Inner::always(Step::Err);
        let client = stack(&bare().max_attempts(3).build().unwrap(), &inner);
        let call = async move {
            let call = send(&client, "x");
            if wrapped {
                tokio::spawn(Scope::current().wrap(call)).await
            } else {
                tokio::spawn(call).await
            }
        };
        let result = Scope::current().no_retries().wrap(call).await;
        assert!(result.unwrap().is_err());
        assert_eq!(inner.calls(), sends);
    }
}

#[tokio::test(start_paused = true)]
async fn overrides_and_deadlines_add_up_whichever_is_outside() {
    let inner = Inner::always(Step::Err);
    let client = stack(&bare().max_attempts(3).build().unwrap(), &inner);
    let once = || Scope::current().no_retries();
    let soon = || Deadline::after(secs(2.0));

    let call = once().wrap(soon().scope(send(&client, "x")));
    let stopped = call.await.unwrap_err().stopped();
    assert_eq!(stopped, Some(Stopped::RetriesDisabled));
    let call = soon().scope(once().wrap(send(&client, "x")));
    let stopped = call.await.unwrap_err().stopped();
    assert_eq!(stopped, Some(Stopped::RetriesDisabled));

    for outside in [true, false] {
        let t = Clock::start();
        inner.rescript([], Step::Hang);
        let call = send(&client, "x");
        let result = if outside {
            once().wrap(soon().scope(call)).await
        } else {
            soon().scope(once().wrap(call)).await
        };
        assert_eq!(kind(&result), Some(ErrorKind::DeadlineExceeded));
        t.assert_now(2.0);
    }
}

// ---- reports --------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_well_has_a_report() {
    let inner = Inner::script([Step::Err, Step::Err], Step::Ok);
    let policy = named("inventory")
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(1.0)))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let (answer, report) = CallReport::capture(send(&client, "x")).await;
    assert_eq!(answer.unwrap(), "ok");
    let report = report.unwrap();
    assert_eq!(report.dependency(), "inventory");
    assert_eq!(report.attempts(), 3);
    assert_eq!(report.stopped(), None);
    assert_eq!(report.served_by(), ServedBy::Primary);
    assert!(report.elapsed() >= secs(2.0) && report.elapsed() < secs(2.01));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gives_up_has_a_report() {
    let inner = Inner::always(Step::Err);
    let client = stack(&bare().max_attempts(3).build().unwrap(), &inner);
    let (answer, report) = CallReport::capture(send(&client, "x")).await;
    assert!(answer.is_err());
    let report = report.unwrap();
    assert_eq!(report.attempts(), 3);
    assert_eq!(report.stopped(), Some(Stopped::AttemptsExhausted));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_given_up_on_has_a_report_that_says_so() {
    let policy = bare()
        .max_attempts(2)
        .classify(classify_fn(|_: Result<&Text, &Source>| {
            Verdict::transient()
        }))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(Inner::always(Step::Say("503")));
    let (answer, report) = CallReport::capture(send(&client, "x")).await;
    assert_eq!(answer.unwrap(), "503");
    let report = report.unwrap();
    assert_eq!(report.attempts(), 2);
    assert_eq!(report.stopped(), Some(Stopped::AttemptsExhausted));
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_has_a_report_without_attempts() {
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .breaker(plain(BreakerConfig::consecutive(1)))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    assert!(send(&client, "x").await.is_err());
    let (answer, report) = CallReport::capture(send(&client, "x")).await;
    assert_refused(&answer);
    assert_eq!(report.unwrap().attempts(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_report_of_nested_stacks_is_the_outer_ones() {
    let inner = Inner::script([Step::Err, Step::Err], Step::Ok);
    let below = stack(&named("below").max_attempts(3).build().unwrap(), &inner);
    let client = ServiceBuilder::new()
        .resilience(named("above").max_attempts(3).build().unwrap())
        .service(below);
    let (answer, report) = CallReport::capture(client.oneshot("x")).await;
    assert!(answer.is_ok());
    let report = report.unwrap();
    assert_eq!(report.dependency(), "above");
    assert_eq!(report.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_call_in_a_join_has_its_own_report() {
    let (a, b) = (
        Inner::script([Step::ErrAfter(1.0)], Step::OkAfter(1.0)),
        Inner::script([Step::Err, Step::ErrAfter(1.5)], Step::OkAfter(1.0)),
    );
    let client = |name, inner| stack(&named(name).max_attempts(3).build().unwrap(), inner);
    let (to_a, to_b) = (client("a", &a), client("b", &b));
    let ((_, first), (_, second)) = tokio::join!(
        CallReport::capture(send(&to_a, "x")),
        CallReport::capture(send(&to_b, "x")),
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((first.dependency(), first.attempts()), ("a", 2));
    assert_eq!((second.dependency(), second.attempts()), ("b", 3));
}

#[tokio::test(start_paused = true)]
async fn a_call_within_a_scope_of_its_own_has_a_report() {
    let inner = Inner::always(Step::Err);
    let client = stack(&bare().max_attempts(2).build().unwrap(), &inner);
    let call = Deadline::after(secs(9.0)).scope(send(&client, "x"));
    let (_, report) = CallReport::capture(call).await;
    assert_eq!(report.unwrap().attempts(), 2);
    let call = Scope::current().no_retries().wrap(send(&client, "x"));
    let (_, report) = CallReport::capture(call).await;
    assert_eq!(report.unwrap().stopped(), Some(Stopped::RetriesDisabled));
}

#[tokio::test(start_paused = true)]
async fn a_capture_inside_a_capture_takes_its_own_report_only() {
    let (a, b) = (Inner::always(Step::Err), Inner::always(Step::Ok));
    let to_a = stack(&named("a").max_attempts(2).build().unwrap(), &a);
    let to_b = stack(&named("b").build().unwrap(), &b);
    let (inside, outside) = CallReport::capture(async {
        assert!(send(&to_a, "x").await.is_err());
        CallReport::capture(send(&to_b, "x")).await.1
    })
    .await;
    assert_eq!(inside.unwrap().dependency(), "b");
    assert_eq!(outside.unwrap().dependency(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_capture_of_several_calls_has_the_last_ones_report() {
    let (a, b) = (
        Inner::always(Step::OkAfter(1.0)),
        Inner::always(Step::OkAfter(1.0)),
    );
    let client = |name, inner| stack(&named(name).build().unwrap(), inner);
    let (to_a, to_b) = (client("a", &a), client("b", &b));
    let (_, report) = CallReport::capture(async {
        assert!(send(&to_a, "x").await.is_ok());
        assert!(send(&to_b, "x").await.is_ok());
        tokio::time::sleep(secs(1.0)).await;
    })
    .await;
    assert_eq!(report.unwrap().dependency(), "b");
}

#[tokio::test(start_paused = true)]
async fn the_report_tells_which_fallback_answered() {
    let inner = Inner::always(Step::Err);
    let client = ServiceBuilder::new()
        .fallback(fallback::value("cached"))
        .resilience(bare().max_attempts(2).build().unwrap())
        .service(inner);
    let (answer, report) = CallReport::capture(client.oneshot("x")).await;
    assert_eq!(answer.unwrap(), "cached");
    let report = report.unwrap();
    assert_eq!(report.served_by(), ServedBy::Fallback(0));
    assert_eq!(report.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_call_there_is_no_report() {
    let (output, report) = CallReport::capture(async { 7 }).await;
    assert_eq!(output, 7);
    assert!(report.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stack_below_is_not_reported_in_place_of_a_call_that_was_dropped() {
    let inner = Inner::always(Step::Err);
    let below = stack(&named("below").build().unwrap(), &inner);
    let policy = named("above")
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(5.0)))
        .build()
        .unwrap();
    let above = ServiceBuilder::new().resilience(policy).service(below);
    let (_, report) = CallReport::capture(async {
        let mut call = task::spawn(above.oneshot("x"));
        assert_pending!(call.poll());
    })
    .await;
    assert_eq!(inner.calls(), 1);
    assert!(report.is_none(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_not_ended_has_no_report() {
    let inner = Inner::always(Step::Hang);
    let client = stack(&bare().build().unwrap(), &inner);
    let (_, report) = CallReport::capture(async {
        let mut call = task::spawn(send(&client, "x"));
        assert_pending!(call.poll());
    })
    .await;
    assert!(report.is_none());
}
