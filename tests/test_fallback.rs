//! The fallback: what falls through, to whom, and whose answer stands.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steadfast::fallback::{self, FallbackLayer};
use steadfast::{
    BreakerConfig, CallReport, Classify, Deadline, Error, ErrorKind, Policy, Replay, Scope,
    ServedBy, ServiceBuilderExt, Verdict, classify::classify_fn,
};
use support::*;
use tokio_test::{assert_ready, task};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

/// A primary that does `step` on one attempt, whatever happens.
fn primary(step: Step) -> impl Client + Layered {
    stack(&named("primary").build().unwrap(), &Inner::always(step))
}

/// Wraps a client with a fallback layer.
trait Layered: Sized {
    fn with<L: Layer<Self>>(self, layer: L) -> L::Service {
        layer.layer(self)
    }
}
impl<S> Layered for S {}

// ---- the chain -------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn the_primarys_answer_needs_no_fallback() {
    let secondary = Inner::always(Step::Say("secondary"));
    let client = ServiceBuilder::new()
        .fallback(fallback::service(secondary.clone()))
        .resilience(bare().build().unwrap())
        .service(Inner::always(Step::Ok));
    assert_eq!(client.oneshot("x").await.unwrap(), "ok");
    assert_eq!((secondary.polls(), secondary.calls()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn entries_are_asked_in_order_until_one_answers() {
    let (first, second, third) = (
        Inner::always(Step::Err),
        Inner::always(Step::Say("second")),
        Inner::always(Step::Say("third")),
    );
    let chain = fallback::service(first.clone())
        .or(fallback::service(second.clone()))
        .or(fallback::service(third.clone()));
    let client = ServiceBuilder::new()
        .fallback(chain)
        .resilience(bare().build().unwrap())
        .service(Inner::always(Step::Err));
    let (answer, report) = CallReport::capture(client.oneshot("x")).await;
    assert_eq!(answer.unwrap(), "second");
    assert_eq!(report.unwrap().served_by(), ServedBy::Fallback(1));
    assert_eq!((first.calls(), second.calls(), third.calls()), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_report_tells_how_long_the_primary_took_and_how_long_all_of_it() {
    let chain = fallback::service(Inner::always(Step::ErrAfter(0.5)))
        .or(fallback::service(Inner::always(Step::OkAfter(0.25))));
    let client = ServiceBuilder::new()
        .fallback(chain)
        .resilience(bare().build().unwrap())
        .service(Inner::always(Step::ErrAfter(2.0)));
    let (answer, report) = CallReport::capture(client.oneshot("x")).await;
    assert!(answer.is_ok());
    let report = report.unwrap();
    assert_eq!(report.served_by(), ServedBy::Fallback(1));
    assert_times(&[report.primary_elapsed().as_secs_f64()], &[2.0]);
    assert_times(&[report.elapsed().as_secs_f64()], &[2.75]);

    // All fail: the primary's result stands, the time has passed all the same.
    let client = primary(Step::ErrAfter(1.0)).with(FallbackLayer::new(fallback::service(
        Inner::always(Step::ErrAfter(1.0)),
    )));
    let (_, report) = CallReport::capture(client.oneshot("x")).await;
    let report = report.unwrap();
    assert_eq!(report.served_by(), ServedBy::Primary);
    assert_times(&[report.primary_elapsed().as_secs_f64()], &[1.0]);
    assert_times(&[report.elapsed().as_secs_f64()], &[2.0]);

    // Nothing to tell apart.
    let (_, report) = CallReport::capture(primary(Step::OkAfter(1.0)).oneshot("x")).await;
    let report = report.unwrap();
    assert_eq!(report.primary_elapsed(), report.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_was_cut_short_is_reported_too() {
    // Something before the primary's stack waits, so that the stack never ends.
    let waits = tower::ServiceBuilder::new()
        .map_future(|call| async move {
            tokio::time::sleep(secs(60.0)).await;
            call.await
        })
        .service(primary(Step::Ok));
    let layer = FallbackLayer::new(fallback::value("a value")).within(secs(3.0));
    let client = waits.with(layer.reserve(secs(1.0)));
    let (answer, report) = CallReport::capture(client.oneshot("x")).await;
    assert_eq!(answer.unwrap(), "a value");
    let report = report.unwrap();
    assert_eq!(report.served_by(), ServedBy::Fallback(0));
    assert_times(&[report.primary_elapsed().as_secs_f64()], &[2.0]);
}

#[tokio::test(start_paused = true)]
async fn a_chain_is_an_entry_too() {
    let failing = || Inner::always(Step::Err);
    let (first, second) = (failing(), failing());
    let inner = fallback::service(second.clone()).or(fallback::value("a value"));
    let chain = fallback::service(first.clone()).or(inner);
    let client = primary(Step::Err).with(FallbackLayer::new(chain));
    let (answer, report) = CallReport::capture(client.oneshot("x")).await;
    assert_eq!(answer.unwrap(), "a value");
    assert_eq!(report.unwrap().served_by(), ServedBy::Fallback(2));
    assert_eq!((first.calls(), second.calls()), (1, 1));

    // Each entry of it has its own word on whether it may be asked.
    let payment = Payment(Verdict::ambiguous);
    let (first, second) = (failing(), failing());
    let entry = |inner: &Inner| fallback::service(inner.clone()).replay(payment);
    let policy = bare().classify(payment).build().unwrap();
    let chain = entry(&first).or(entry(&second).or(fallback::value("a value")));
    let client = paying(&policy, &failing()).with(FallbackLayer::new(chain));
    assert_eq!(client.oneshot("7 EUR").await.unwrap(), "a value");
    assert_eq!((first.calls(), second.calls()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn closures_and_values_are_entries_too() {
    let declines = |_: &Error| ready(Err::<Text, _>(Fault("no")));
    let client = primary(Step::Err).with(FallbackLayer::new(
        fallback::with(declines).or(fallback::value("a value")),
    ));
    assert_eq!(client.oneshot("x").await.unwrap(), "a value");
}

#[tokio::test(start_paused = true)]
async fn a_closure_sees_the_primarys_error_and_may_wait() {
    let t = Clock::start();
    let client = primary(Step::Err).with(FallbackLayer::new(|error: &Error| {
        let (name, attempts) = (error.dependency(), error.attempts());
        async move {
            tokio::time::sleep(secs(1.0)).await;
            assert_eq!(attempts, 1);
            Ok::<Text, Infallible>(name)
        }
    }));
    assert_eq!(client.oneshot("x").await.unwrap(), "primary");
    t.assert_now(1.0);
}

#[tokio::test(start_paused = true)]
async fn an_entry_may_map_the_request() {
    let secondary = Inner::always(Step::Ok);
    let entry = fallback::service(secondary.clone()).map_request(|request: Text| match request {
        "model-a" => "model-b",
        other => other,
    });
    let client = primary(Step::Err).with(FallbackLayer::new(entry));
    assert!(client.oneshot("model-a").await.is_ok());
    assert_eq!(secondary.requests(), ["model-b"]);
}

#[tokio::test(start_paused = true)]
async fn an_entry_over_its_limit_is_skipped() {
    let small = Inner::always(Step::OkAfter(1.0));
    let chain = fallback::service(small.clone())
        .limit(2)
        .or(fallback::value("last resort"));
    let client = primary(Step::Err).with(FallbackLayer::new(chain));
    let tasks: Vec<_> = (0..5)
        .map(|_| tokio::spawn(client.clone().oneshot("x")))
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap().unwrap());
    }
    answers.sort_unstable();
    assert_eq!(
        answers,
        ["last resort", "last resort", "last resort", "ok", "ok"]
    );
    assert_eq!(small.calls(), 2);

    // The places are free again, also those of calls that were dropped.
    let mut dropped = tokio_test::task::spawn(client.clone().oneshot("x"));
    tokio_test::assert_pending!(dropped.poll());
    drop(dropped);
    let (a, b) = tokio::join!(client.clone().oneshot("x"), client.clone().oneshot("x"));
    assert_eq!((a.unwrap(), b.unwrap()), ("ok", "ok"));
}

#[tokio::test(start_paused = true)]
async fn a_service_entry_is_made_ready_before_each_call() {
    let strict = Inner::always(Step::Say("strict")).readiness([], Ready::After(1.0));
    let client = primary(Step::Err).with(FallbackLayer::new(fallback::service(strict.clone())));
    for _ in 0..3 {
        assert_eq!(client.clone().oneshot("x").await.unwrap(), "strict");
    }
    assert_eq!(strict.grants(), 3);
}

// ---- what falls through ------------------------------------------------------------

/// Whether a primary that is judged as `verdict` falls through by default,
/// once with an error and once with an answer.
async fn falls_through(verdict: fn() -> Verdict) -> (bool, bool) {
    let mut fell = [false, false];
    for (step, fell) in [Step::Err, Step::Say("answer")].into_iter().zip(&mut fell) {
        let policy = bare()
            .classify(classify_fn(move |_: Result<&Text, &Source>| verdict()))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .fallback(fallback::value("fallback"))
            .resilience(policy)
            .service(Inner::always(step));
        *fell = matches!(client.oneshot("x").await, Ok("fallback"));
    }
    fell.into()
}

#[tokio::test(start_paused = true)]
async fn a_failing_or_blocked_dependency_falls_through() {
    assert_eq!(falls_through(Verdict::transient).await, (true, true));
    assert_eq!(falls_through(Verdict::ambiguous).await, (true, true));
    assert_eq!(falls_through(Verdict::unreachable).await, (true, true));
    assert_eq!(
        falls_through(|| Verdict::overloaded(None)).await,
        (true, true)
    );
    assert_eq!(falls_through(Verdict::blocked).await, (true, true));
}

#[tokio::test(start_paused = true)]
async fn our_own_spike_and_our_own_mistake_do_not_fall_through() {
    assert_eq!(
        falls_through(|| Verdict::throttled(None)).await,
        (false, false)
    );
    assert_eq!(falls_through(Verdict::terminal).await, (false, false));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_falls_through() {
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .breaker(plain(BreakerConfig::consecutive(1)))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .fallback(fallback::value("fallback"))
        .resilience(policy)
        .service(inner.clone());
    for _ in 0..3 {
        assert_eq!(client.clone().oneshot("x").await.unwrap(), "fallback");
    }
    assert_eq!(inner.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_primary_out_of_time_falls_through() {
    let t = Clock::start();
    let policies = [
        bare().deadline(secs(1.0)).build().unwrap(),
        bare().attempt_timeout(secs(1.0)).build().unwrap(),
    ];
    for (policy, end) in policies.into_iter().zip([1.5, 3.0]) {
        // The policy's deadline bounds the primary, not the fallback.
        let slow = Inner::always(Step::OkAfter(0.5));
        let client = ServiceBuilder::new()
            .fallback(fallback::service(slow))
            .resilience(policy)
            .service(Inner::always(Step::Hang));
        assert_eq!(client.oneshot("x").await.unwrap(), "ok");
        t.assert_now(end);
    }
}

#[tokio::test(start_paused = true)]
async fn the_fallback_comes_after_all_attempts() {
    let t = Clock::start();
    let inner = Inner::always(Step::Say("503"));
    let policy = bare()
        .max_attempts(3)
        .backoff(steadfast::Backoff::fixed(secs(1.0)))
        .classify(classify_fn(|_: Result<&Text, &Source>| {
            Verdict::transient()
        }))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .fallback(fallback::value("fallback"))
        .resilience(policy)
        .service(inner.clone());
    assert_eq!(client.oneshot("x").await.unwrap(), "fallback");
    assert_eq!(inner.calls(), 3);
    t.assert_now(2.0);
}

#[tokio::test(start_paused = true)]
async fn a_predicate_changes_what_falls_through() {
    let asked = AtomicUsize::new(0);
    let layer = FallbackLayer::new(fallback::value("fallback")).when(|error: &Error| {
        asked.fetch_add(1, Ordering::Relaxed);
        error.kind() == ErrorKind::Refused
    });
    let policy = bare()
        .breaker(plain(BreakerConfig::consecutive(1)))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .layer(layer)
        .resilience(policy)
        .service(Inner::always(Step::Err));
    assert_eq!(
        kind(&client.clone().oneshot("x").await),
        Some(ErrorKind::Failed)
    );
    assert_eq!(client.oneshot("x").await.unwrap(), "fallback");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_predicate_is_asked_about_failures_only() {
    let layer = || FallbackLayer::new(fallback::value("fallback")).when(|_: &Error| true);
    let client = primary(Step::Ok).with(layer());
    assert_eq!(client.oneshot("x").await.unwrap(), "ok");
    // What stands between may have made an answer of an error.
    let mended = ServiceBuilder::new()
        .map_result(|result: Result<Text, Error>| Ok::<_, Error>(result.unwrap_or("mended")))
        .service(primary(Step::Err));
    assert_eq!(mended.with(layer()).oneshot("x").await.unwrap(), "mended");
}

// ---- whose answer stands -------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn if_all_fail_the_primarys_error_stands() {
    let declines = |_: &Error| ready(Err::<Text, _>(Fault("from the fallback")));
    let client = primary(Step::Err).with(FallbackLayer::new(declines));
    let error = client.oneshot("x").await.unwrap_err();
    assert_eq!(error.dependency(), "primary");
    assert_eq!(fault(&error), Some(Fault("scripted")));
    let second = error.fallback_error().unwrap();
    assert!(second.to_string().contains("from the fallback"), "{second}");
}

#[tokio::test(start_paused = true)]
async fn without_a_fallback_there_is_no_fallback_error() {
    let error = primary(Step::Err).oneshot("x").await.unwrap_err();
    assert!(error.fallback_error().is_none());
}

#[tokio::test(start_paused = true)]
async fn if_all_fail_the_primarys_answer_stands() {
    let secondary = Inner::always(Step::Err);
    let policy = bare()
        .classify(classify_fn(|_: Result<&Text, &Source>| {
            Verdict::transient().because(503)
        }))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .fallback(fallback::service(secondary.clone()))
        .resilience(policy)
        .service(Inner::always(Step::Say("503 try later")));
    assert_eq!(client.oneshot("x").await.unwrap(), "503 try later");
    assert_eq!(secondary.calls(), 1);
}

// ---- time ---------------------------------------------------------------------------

/// A primary that hangs, and a fallback that answers after `seconds`.
fn slow_fallback(seconds: f64) -> FallbackLayer<fallback::Secondary<Inner>> {
    FallbackLayer::new(fallback::service(Inner::always(Step::OkAfter(seconds))))
}

#[tokio::test(start_paused = true)]
async fn within_bounds_primary_and_fallback_together() {
    let t = Clock::start();
    // The primary fails at T=1; the fallback would answer at T=11.
    let client = primary(Step::ErrAfter(1.0)).with(slow_fallback(10.0).within(secs(5.0)));
    let error = client.oneshot("x").await.unwrap_err();
    t.assert_now(5.0);
    assert_eq!(fault(&error), Some(Fault("scripted")));
    assert!(error.fallback_error().is_some());
}

#[tokio::test(start_paused = true)]
async fn within_alone_cuts_a_primary_that_hangs() {
    let t = Clock::start();
    let client = primary(Step::Hang).with(slow_fallback(0.0).within(secs(5.0)));
    assert!(client.oneshot("x").await.is_err());
    t.assert_now(5.0);
}

#[tokio::test(start_paused = true)]
async fn within_bounds_a_primary_that_waits_before_its_stack() {
    let t = Clock::start();
    let stack = primary(Step::Ok);
    let slow = service_fn(move |request: Text| {
        let stack = stack.clone();
        async move {
            tokio::time::sleep(secs(100.0)).await;
            stack.oneshot(request).await
        }
    });
    let layer = slow_fallback(1.0).within(secs(5.0)).reserve(secs(2.0));
    let _ = slow.with(layer).oneshot("x").await;
    assert!(t.now() < 5.01, "T={}", t.now());
}

#[tokio::test(start_paused = true)]
async fn without_a_bound_of_its_own_it_leaves_the_primary_to_the_primary() {
    let t = Clock::start();
    let slow = service_fn(|_: Text| async {
        tokio::time::sleep(secs(5.0)).await;
        Ok::<Text, Error>("late")
    });
    let client = slow.with(FallbackLayer::new(fallback::value("fallback")));
    let call = Deadline::after(secs(1.0)).scope(client.oneshot("x"));
    assert_eq!(call.await.unwrap(), "late");
    t.assert_now(5.0);
}

#[tokio::test(start_paused = true)]
async fn a_reserve_is_kept_from_the_primary() {
    let t = Clock::start();
    let layer = slow_fallback(1.0).within(secs(5.0)).reserve(secs(2.0));
    let client = primary(Step::Hang).with(layer);
    assert_eq!(client.oneshot("x").await.unwrap(), "ok");
    t.assert_now(4.0);
}

#[tokio::test(start_paused = true)]
async fn a_reserve_is_kept_of_the_callers_deadline_too() {
    let t = Clock::start();
    let client = primary(Step::Hang).with(slow_fallback(1.0).reserve(secs(2.0)));
    let call = Deadline::after(secs(5.0)).scope(client.clone().oneshot("x"));
    assert_eq!(call.await.unwrap(), "ok");
    t.assert_now(4.0);

    // The shorter of both bounds the whole.
    let client = primary(Step::Hang).with(slow_fallback(9.0).within(secs(60.0)).reserve(secs(2.0)));
    let call = Deadline::after(secs(5.0)).scope(client.oneshot("x"));
    assert!(call.await.is_err());
    t.assert_now(9.0);
}

#[tokio::test(start_paused = true)]
async fn the_fallback_sees_the_deadline_of_the_whole() {
    let left = service_fn(|_: Text| async {
        let left = Deadline::current().map(|deadline| deadline.remaining().as_millis());
        // The clock may have rounded up.
        let two_seconds = left.is_some_and(|left| (1_998..=2_000).contains(&left));
        Ok::<Text, Infallible>(if two_seconds { "two" } else { "other" })
    });
    let layer = FallbackLayer::new(fallback::service(left))
        .within(secs(5.0))
        .reserve(secs(2.0));
    let client = primary(Step::Hang).with(layer);
    assert_eq!(client.oneshot("x").await.unwrap(), "two");
}

// ---- requests -----------------------------------------------------------------------

/// A request that cannot be copied.
struct Upload;

#[derive(Clone, Copy)]
struct Once;

impl Replay<Upload> for Once {
    type Memo = ();
    fn memo(&self, _: &Upload) -> Self::Memo {}
    fn copy(&self, _: &Upload) -> Option<Upload> {
        None
    }
    fn idempotent(&self, (): &Self::Memo) -> bool {
        true
    }
}

impl Classify<Upload, Text> for Once {
    fn classify(&self, (): &Self::Memo, result: Result<&Text, &Source>) -> Verdict {
        match result {
            Ok(_) => Verdict::success(),
            Err(_) => Verdict::transient(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_copy_skips_service_entries() {
    let asked = AtomicUsize::new(0);
    let secondary = service_fn(|_: Upload| {
        asked.fetch_add(1, Ordering::Relaxed);
        ready(Ok::<Text, Infallible>("secondary"))
    });
    let client = ServiceBuilder::new()
        .fallback(
            fallback::service(secondary)
                .replay(Once)
                .or(fallback::value("a value")),
        )
        .resilience(bare().classify(Once).build().unwrap())
        .service(service_fn(|_: Upload| ready(Err::<Text, _>(Fault("down")))));
    let (answer, report) = CallReport::capture(client.oneshot(Upload)).await;
    assert_eq!(answer.unwrap(), "a value");
    assert_eq!(report.unwrap().served_by(), ServedBy::Fallback(1));
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

/// A request that must not be served twice.
#[derive(Clone, Copy)]
struct Payment(fn() -> Verdict);

impl Replay<Text> for Payment {
    type Memo = ();
    fn memo(&self, _: &Text) -> Self::Memo {}
    fn copy(&self, request: &Text) -> Option<Text> {
        Some(request)
    }
    fn idempotent(&self, (): &Self::Memo) -> bool {
        false
    }
}

impl Classify<Text, Text> for Payment {
    fn classify(&self, (): &Self::Memo, result: Result<&Text, &Source>) -> Verdict {
        result.map_or_else(|_| (self.0)(), |_| Verdict::success())
    }
}

fn paying(policy: &Policy<Payment>, inner: &Inner) -> impl Client + use<> {
    let stack = ServiceBuilder::new().resilience(policy.clone());
    stack.service(inner.clone())
}

#[tokio::test(start_paused = true)]
async fn what_may_be_done_already_is_not_done_elsewhere_as_well() {
    for (verdict, elsewhere) in [
        (Verdict::ambiguous as fn() -> Verdict, 0),
        (Verdict::transient, 0),
        (Verdict::refused_below, 0),
        (Verdict::unreachable, 1),
        (Verdict::blocked, 1),
        (|| Verdict::overloaded(None), 1),
    ] {
        let replica = Inner::always(Step::Ok);
        let payment = Payment(verdict);
        let policy = bare().classify(payment).max_attempts(3).build().unwrap();
        let entry = fallback::service(replica.clone()).replay(payment);
        let client = paying(&policy, &Inner::always(Step::Err))
            .with(FallbackLayer::new(entry.or(fallback::value("a value"))));
        let expected = if elsewhere == 1 { "ok" } else { "a value" };
        assert_eq!(client.oneshot("7 EUR").await.unwrap(), expected);
        assert_eq!(replica.calls(), elsewhere, "{:?}", verdict());
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_short_may_be_done_and_what_was_refused_is_not() {
    let replica = Inner::always(Step::Ok);
    let payment = Payment(Verdict::ambiguous);
    let entry = || fallback::service(replica.clone()).replay(payment);
    let policy = bare()
        .classify(payment)
        .breaker(plain(BreakerConfig::consecutive(9)));
    let policy = policy.build().unwrap();
    let hanging = paying(&policy, &Inner::always(Step::Hang));
    let layer = FallbackLayer::new(entry())
        .within(secs(5.0))
        .reserve(secs(4.0));
    let error = hanging
        .clone()
        .with(layer)
        .oneshot("7 EUR")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    let why = error.fallback_error().unwrap().to_string();
    assert!(why.contains("not idempotent"), "{why}");
    assert_eq!(replica.calls(), 0);

    policy.breaker().unwrap().force_open("maintenance");
    let client = hanging.with(FallbackLayer::new(entry()));
    assert_eq!(client.oneshot("7 EUR").await.unwrap(), "ok");
}

#[tokio::test(start_paused = true)]
async fn what_the_first_entry_may_have_done_the_second_does_not_do_as_well() {
    let (first, second) = (Inner::always(Step::Err), Inner::always(Step::Ok));
    let payment = Payment(Verdict::unreachable);
    let entry = |inner: &Inner| fallback::service(inner.clone()).replay(payment);
    let policy = bare().classify(payment).build().unwrap();
    let client = paying(&policy, &Inner::always(Step::Err))
        .with(FallbackLayer::new(entry(&first).or(entry(&second))));
    client.oneshot("7 EUR").await.unwrap_err();
    assert_eq!((first.calls(), second.calls()), (1, 0));
    // One with a stack knows that it was not done.
    let first = paying(&policy, &first);
    let client = paying(&policy, &Inner::always(Step::Err)).with(FallbackLayer::new(
        fallback::service(first).replay(payment).or(entry(&second)),
    ));
    assert_eq!(client.oneshot("7 EUR").await.unwrap(), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_caller_may_forbid_to_do_it_elsewhere_as_well() {
    let replica = Inner::always(Step::Ok);
    let client = primary(Step::Err).with(FallbackLayer::new(fallback::service(replica.clone())));
    let call = Scope::current()
        .not_idempotent()
        .wrap(client.clone().oneshot("x"));
    call.await.unwrap_err();
    assert_eq!(replica.calls(), 0);
    assert_eq!(client.oneshot("x").await.unwrap(), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_nobody_asks_for_any_more_is_let_go() {
    let secondary = service_fn(|_: Arc<()>| ready(Ok::<Text, Infallible>("secondary")));
    let mut client = ServiceBuilder::new()
        .fallback(fallback::service(secondary))
        .resilience(bare().build().unwrap())
        .service(service_fn(|_: Arc<()>| ready(Ok::<Text, Fault>("primary"))));
    let request = Arc::new(());
    let mut call = task::spawn(client.call(Arc::clone(&request)));
    assert_eq!(assert_ready!(call.poll()).unwrap(), "primary");
    // The ended future is kept, as by whoever pins it on the stack.
    assert_eq!(Arc::strong_count(&request), 1);
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_taken_only_if_a_service_entry_exists() {
    /// Counts its copies.
    struct Counted<'a>(&'a AtomicUsize);
    impl Clone for Counted<'_> {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::Relaxed);
            Self(self.0)
        }
    }
    let copies = AtomicUsize::new(0);
    let client = ServiceBuilder::new()
        .fallback(fallback::value("a value"))
        .resilience(bare().build().unwrap())
        .service(service_fn(|_: Counted<'_>| {
            ready(Err::<Text, _>(Fault("down")))
        }));
    assert_eq!(client.oneshot(Counted(&copies)).await.unwrap(), "a value");
    assert_eq!(copies.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_service_with_its_own_stack_is_refused_by_its_own_breaker() {
    let secondary = Inner::always(Step::Err);
    let policy = named("secondary")
        .breaker(plain(BreakerConfig::consecutive(2)))
        .build()
        .unwrap();
    let entry = fallback::service(stack(&policy, &secondary));
    let client = primary(Step::Err).with(FallbackLayer::new(entry));
    for _ in 0..5 {
        let error = client.clone().oneshot("x").await.unwrap_err();
        assert_eq!(error.dependency(), "primary");
    }
    assert_eq!(secondary.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_does_not_wait_for_the_primary_to_be_ready() {
    let policy = bare().attempt_timeout(secs(1.0)).build().unwrap();
    let never = Inner::always(Step::Ok).readiness([], Ready::Never);
    let mut client = ServiceBuilder::new()
        .fallback(fallback::value("fallback"))
        .resilience(policy)
        .service(never);
    let t = Clock::start();
    let answer = client.ready().await.unwrap().call("x").await;
    assert_eq!(answer.unwrap(), "fallback");
    t.assert_now(1.0);
}
