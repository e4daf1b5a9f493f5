//! What holds whatever happens, one section for each promise of the design: 1
//! to 3 and 8 to 10. (That a call on the happy path allocates nothing of ours is
//! measured in the benchmark package: counting allocations needs `unsafe`,
//! which this crate forbids, tests included.)

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::future::{self, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use steadfast::{
    Backoff, Breaker, BreakerConfig, BreakerState, DefaultClassify, Error, ErrorKind, Permit,
    Policy, RetryBudget, Scope, ServiceBuilderExt, Stopped, Verdict, Window, classify::classify_fn,
};
use support::*;
use tokio::sync::Semaphore;
use tokio_test::{assert_pending, assert_ready, task};
use tower::limit::ConcurrencyLimit;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

// ---- 1. The breaker is asked before every attempt and hears of every one ----

#[tokio::test(start_paused = true)]
async fn one_call_with_many_attempts_opens_the_breaker_by_itself() {
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(10)
        .breaker(plain(BreakerConfig::consecutive(3)))
        .build()
        .unwrap();
    let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
    assert_eq!(inner.calls(), 3);
    assert_eq!(error.attempts(), 3);
    assert!(matches!(error.stopped(), Some(Stopped::Breaker(_))));
}

#[tokio::test(start_paused = true)]
async fn the_breaker_hears_of_failed_attempts_of_calls_that_end_well() {
    let inner = Inner::script([Step::Err, Step::Ok, Step::Err, Step::Ok], Step::Ok);
    let policy = bare().max_attempts(2).breaker(bk()).build().unwrap();
    let client = stack(&policy, &inner);
    assert!(send(&client, "fails, then succeeds").await.is_ok());
    assert!(send(&client, "fails, then succeeds").await.is_ok());
    // Two of four attempts failed, though no call did.
    assert_refused(&send(&client, "x").await);
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_breaker_is_asked_again_after_the_backoff() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(5.0)))
        .breaker(plain(BreakerConfig::consecutive(3)).open_time(secs(60.0)))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let sleeper = tokio::spawn(send(&client, "sleeps until T=5"));
    t.reach(1.0).await;
    let breaker = policy.breaker().unwrap();
    breaker.admit().unwrap().failure();
    breaker.admit().unwrap().failure();

    let error = sleeper.await.unwrap().unwrap_err();
    t.assert_now(5.0);
    assert_eq!(inner.calls(), 1);
    assert_eq!(error.attempts(), 1);
    assert!(matches!(error.stopped(), Some(Stopped::Breaker(_))));
    assert!(error.is_deferrable());
}

// ---- 2. A refusal is final and touches nothing -------------------------------

#[tokio::test(start_paused = true)]
async fn a_refusal_touches_neither_the_inner_service_nor_the_budget() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(3)
        .breaker(bk())
        .retry_budget(budget(10.0))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let breaker = policy.breaker().unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    t.reach(3.0).await;
    for _ in 0..10 {
        let error = send(&client, "x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert_eq!(error.attempts(), 0);
        assert_eq!(error.elapsed(), Duration::ZERO);
        assert_eq!(error.refusal().unwrap().dependency(), "case");
        let wait = error.retry_after().unwrap();
        assert!(wait > secs(6.99) && wait <= secs(7.0), "{wait:?}");
        assert!(error.is_deferrable());
    }
    t.assert_now(3.0);
    assert_eq!((inner.polls(), inner.calls()), (0, 0));
    assert_eq!(policy.budget_balance(), Some(10.0));
}

/// Without a runtime, making any of tokio's timers panics.
#[test]
fn a_refusal_makes_no_timer() {
    let inner = Inner::always(Step::Err);
    let policy = Policy::builder("case").breaker(bk()).build().unwrap();
    let breaker = policy.breaker().unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    let client = stack(&policy, &inner);
    let mut call = task::spawn(send(&client, "x"));
    assert_refused(&assert_ready!(call.poll()));
}

/// Answers at once, and counts its clones.
struct Cloned(Arc<AtomicUsize>);

impl Clone for Cloned {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Service<&'static str> for Cloned {
    type Response = &'static str;
    type Error = Fault;
    type Future = future::Ready<Result<&'static str, Fault>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: &'static str) -> Self::Future {
        ready(Ok("ok"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_for_certain_costs_no_clone_of_the_service() {
    let t = Clock::start();
    let policy = bare().breaker(bk()).build().unwrap();
    let breaker = policy.breaker().unwrap();
    let clones = Arc::new(AtomicUsize::new(0));
    let mut client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(Cloned(Arc::clone(&clones)));
    assert!(client.call("closed").await.is_ok());
    assert_eq!(clones.load(Ordering::Relaxed), 1);
    for _ in 0..3 {
        breaker.admit().unwrap().failure();
    }
    assert_refused(&client.call("open").await);
    t.reach(10.0).await;
    let probe = breaker.admit().unwrap();
    assert_refused(&client.call("while a probe is out").await);
    assert_eq!(clones.load(Ordering::Relaxed), 1);
    drop(probe);
    assert!(client.call("a probe").await.is_ok());
    assert_eq!(clones.load(Ordering::Relaxed), 2);
}

// ---- 3. At most `probes` pass, and nothing wedges ----------------------------

#[tokio::test(start_paused = true)]
async fn a_probe_that_hangs_past_its_lease_makes_room_for_exactly_one_other() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Hang);
    let client = stack(&bare().breaker(bk()).build().unwrap(), &inner);
    four_failures(&client).await;
    t.reach(10.0).await;
    let mut hung = task::spawn(send(&client, "probe"));
    assert_pending!(hung.poll());
    t.reach(69.0).await;
    assert_refused(&send(&client, "within the lease").await);

    t.reach(70.002).await;
    let mut second = task::spawn(send(&client, "second probe"));
    assert_pending!(second.poll());
    assert_refused(&send(&client, "one at a time").await);
    assert_eq!(inner.calls(), 6);

    // The end of the first frees nothing of the second's.
    drop(hung);
    assert_refused(&send(&client, "still one at a time").await);
    assert_eq!(inner.calls(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_late_success_of_a_probe_past_its_lease_still_counts() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::OkAfter(65.0));
    let policy = bare().breaker(bk()).build().unwrap();
    let client = stack(&policy, &inner);
    four_failures(&client).await;
    t.reach(10.0).await;
    let late = tokio::spawn(send(&client, "answers at T=75"));
    t.reach(71.0).await;
    let _second = tokio::spawn(send(&client, "the probe that took its place"));
    t.reach(75.01).await;
    assert!(late.await.unwrap().is_ok());
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_late_success_from_before_half_open_was_left_does_not_count() {
    let t = Clock::start();
    let breaker = Breaker::new("case", bk()).unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    t.reach(10.0).await;
    let hung = breaker.admit().unwrap();
    t.reach(71.0).await;
    breaker.admit().unwrap().failure();
    hung.success();
    assert_eq!(breaker.state(), BreakerState::Open);
    assert!(breaker.admit().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_late_success_does_not_count_in_a_later_half_open_either() {
    let t = Clock::start();
    let breaker = Breaker::new("case", bk()).unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    t.reach(10.0).await;
    let hung = breaker.admit().unwrap();
    t.reach(71.0).await;
    breaker.admit().unwrap().failure();
    t.reach(82.0).await;
    let probe = breaker.admit().unwrap();
    hung.success();
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert!(breaker.admit().is_err());
    probe.success();
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_became_of_a_probe_past_its_lease_changes_nothing_but_by_success() {
    let end: [fn(Permit); 3] = [Permit::failure, Permit::neutral, drop];
    for end in end {
        let t = Clock::start();
        let breaker = Breaker::new("case", bk()).unwrap();
        for _ in 0..4 {
            breaker.admit().unwrap().failure();
        }
        t.reach(10.0).await;
        let hung = breaker.admit().unwrap();
        t.reach(71.0).await;
        let probe = breaker.admit().unwrap();
        end(hung);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(breaker.admit().is_err());
        probe.success();
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn no_sequence_of_outcomes_lets_a_crowd_through_or_wedges_the_breaker() {
    let mut half_open_crowds = 0;
    for seed in 1..=60 {
        let mut dice = Dice(seed * 0x9e37_79b9);
        let probes = 1 + dice.roll(3) as usize;
        let breaker = Breaker::new("case", bk().probes(probes as u32)).unwrap();
        let mut held: Vec<Permit> = Vec::new();
        for _ in 0..300 {
            match dice.roll(8) {
                0 => held.extend(breaker.admit()),
                1 => {
                    // A crowd of twenty at one instant.
                    let closed = breaker.state() == BreakerState::Closed;
                    let before = held.len();
                    held.extend((0..20).filter_map(|_| breaker.admit().ok()));
                    let passed = held.len() - before;
                    let most = if closed { 20 } else { probes };
                    assert!(passed <= most, "seed {seed}: {passed} of {probes} probes");
                    half_open_crowds += usize::from(!closed && passed > 0);
                }
                roll @ 2..=6 if !held.is_empty() => {
                    let permit = held.swap_remove(dice.roll(held.len() as u64) as usize);
                    match roll {
                        2 | 3 => permit.failure(),
                        4 => permit.success(),
                        5 => permit.neutral(),
                        _ => drop(permit),
                    }
                }
                _ => tokio::time::advance(secs(dice.roll(12) as f64)).await,
            }
        }
        // Whatever is still held may hang for ever: past the lease, calls pass.
        tokio::time::advance(secs(200.0)).await;
        assert!(breaker.admit().is_ok(), "seed {seed}: wedged");
        drop(held);
        tokio::time::advance(secs(200.0)).await;
        assert!(breaker.admit().is_ok(), "seed {seed}: wedged");
    }
    assert!(half_open_crowds > 100, "the dice never met half-open");
}

// ---- 8. Drops release everything, panics wedge nothing ------------------------

#[tokio::test(start_paused = true)]
async fn a_probe_dropped_anywhere_gives_back_its_slot() {
    for tenth in (1..20).step_by(2) {
        let at = f64::from(tenth) / 10.0;
        let policy = bare()
            .max_attempts(2)
            .backoff(Backoff::fixed(secs(1.0)))
            .breaker(bk().probes(2))
            .build()
            .unwrap();
        let breaker = policy.breaker().unwrap();
        for _ in 0..4 {
            breaker.admit().unwrap().failure();
        }
        tokio::time::sleep(secs(10.0)).await;
        let inner = dropped_at(at, &policy).await;
        assert_eq!(breaker.state(), BreakerState::HalfOpen, "dropped at {at}");
        let (first, second) = (breaker.admit(), breaker.admit());
        assert!(first.is_ok() && second.is_ok(), "dropped at {at}");
        assert!(breaker.admit().is_err(), "dropped at {at}");
        assert_eq!(inner.calls(), usize::from(at > 1.0));
        assert_eq!(inner.cancelled().len(), inner.calls());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_anywhere_gives_back_the_inner_services_permit() {
    let limit = |inner: &Inner| ConcurrencyLimit::new(inner.clone(), 1);
    for tenth in (0..30).step_by(2) {
        let t = Clock::start();
        let inner = Inner::always(Step::ErrAfter(1.0));
        let service = limit(&inner);
        let policy = bare()
            .max_attempts(2)
            .backoff(Backoff::fixed(secs(1.0)))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy)
            .service(service.clone());
        let mut call = task::spawn(send(&client, "x"));
        for now in 0..=tenth {
            t.reach(f64::from(now) / 10.0).await;
            assert_pending!(call.poll());
        }
        drop(call);
        let dropped_at = t.now();
        inner.rescript([], Step::Ok);
        assert!(service.oneshot("next").await.is_ok());
        t.assert_now(dropped_at);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_timed_out_is_dropped_before_the_backoff() {
    let pool = Arc::new(Semaphore::new(1));
    let service_pool = Arc::clone(&pool);
    let policy = bare()
        .attempt_timeout(secs(1.0))
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(5.0)))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(move |_: Text| {
            let pool = Arc::clone(&service_pool);
            async move {
                let _connection = pool.acquire_owned().await;
                std::future::pending::<Result<Text, Fault>>().await
            }
        }));
    let t = Clock::start();
    let call = tokio::spawn(client.oneshot("x"));
    t.reach(0.5).await;
    assert_eq!(pool.available_permits(), 0);
    t.reach(2.0).await;
    assert_eq!(pool.available_permits(), 1);
    let error: Error = call.await.unwrap().unwrap_err();
    assert_eq!(error.attempts(), 2);
}

/// Four failures, then as the probe a call that panics: the next one must be
/// admitted, or be refused only as after a failed probe.
async fn a_panic_wedges_nothing(inner: Inner, policy: &Policy) {
    let t = Clock::start();
    let client = stack(policy, &inner);
    let breaker = policy.breaker().unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    tokio::time::sleep(secs(10.0)).await;
    let panicked = tokio::spawn(send(&client, "panics")).await;
    assert!(panicked.unwrap_err().is_panic());

    // Well within the lease of a minute.
    tokio::time::sleep(secs(10.002)).await;
    inner.set_readiness([], Ready::Now);
    inner.rescript([], Step::Ok);
    assert!(send(&client, "probe").await.is_ok());
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert_eq!(policy.budget_balance(), Some(10.0));
    assert!(t.now() < 20.1);
}

fn with_probe_and_budget() -> Policy {
    bare()
        .max_attempts(3)
        .breaker(bk())
        .retry_budget(budget(10.0))
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_poll_ready_wedges_nothing() {
    let inner = Inner::always(Step::Ok).readiness([], Ready::Panics);
    a_panic_wedges_nothing(inner, &with_probe_and_budget()).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_call_wedges_nothing() {
    let inner = Inner::always(Step::PanicInCall);
    a_panic_wedges_nothing(inner, &with_probe_and_budget()).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_inner_future_wedges_nothing() {
    let inner = Inner::always(Step::Panic);
    a_panic_wedges_nothing(inner, &with_probe_and_budget()).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_classifier_wedges_nothing() {
    let calm = Arc::new(AtomicUsize::new(0));
    let says = Arc::clone(&calm);
    let policy = bare()
        .max_attempts(3)
        .breaker(bk())
        .retry_budget(budget(10.0))
        .classify(classify_fn(move |_: Result<&Text, &Source>| {
            assert!(says.load(Ordering::Relaxed) > 0, "scripted panic");
            Verdict::success()
        }))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(Inner::always(Step::Ok));
    let breaker = policy.breaker().unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    tokio::time::sleep(secs(10.0)).await;
    assert!(
        tokio::spawn(send(&client, "panics"))
            .await
            .unwrap_err()
            .is_panic()
    );
    tokio::time::sleep(secs(10.002)).await;
    calm.store(1, Ordering::Relaxed);
    assert!(send(&client, "probe").await.is_ok());
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert_eq!(policy.budget_balance(), Some(10.0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_rule_on_idempotency_wedges_nothing() {
    let policy = bare()
        .max_attempts(3)
        .breaker(bk())
        .retry_budget(budget(10.0))
        .classify(DefaultClassify::new().idempotent_if(|request: &Text| {
            assert_ne!(*request, "panics", "scripted panic");
            true
        }))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(Inner::always(Step::Ok));
    let breaker = policy.breaker().unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    tokio::time::sleep(secs(10.0)).await;
    let panicked = tokio::spawn(send(&client, "panics")).await;
    assert!(panicked.unwrap_err().is_panic());
    tokio::time::sleep(secs(10.002)).await;
    assert!(send(&client, "probe").await.is_ok());
    assert_eq!(policy.budget_balance(), Some(10.0));
}

/// Clones until told to panic.
struct Fragile<'a>(&'a AtomicUsize);

impl Clone for Fragile<'_> {
    fn clone(&self) -> Self {
        assert_eq!(self.0.load(Ordering::Relaxed), 0, "scripted panic");
        Self(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_requests_clone_wedges_nothing() {
    static FRAGILE: AtomicUsize = AtomicUsize::new(1);
    let policy = with_probe_and_budget();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(service_fn(|_: Fragile<'static>| async {
            Ok::<_, Fault>("ok")
        }));
    let breaker = policy.breaker().unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    tokio::time::sleep(secs(10.0)).await;
    let panicked = tokio::spawn(client.clone().oneshot(Fragile(&FRAGILE))).await;
    assert!(panicked.unwrap_err().is_panic());
    tokio::time::sleep(secs(10.002)).await;
    FRAGILE.store(0, Ordering::Relaxed);
    assert!(client.oneshot(Fragile(&FRAGILE)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_calls_share_a_concurrent_budget_wedges_nothing() {
    let inner = Inner::script([Step::Err, Step::Panic], Step::Err);
    let policy = bare()
        .max_attempts(2)
        .retry_budget(RetryBudget::concurrent(0.0).min_concurrent(1))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let panicked = tokio::spawn(send(&client, "panics in its retry")).await;
    assert!(panicked.unwrap_err().is_panic());
    let error = send(&client, "may retry").await.unwrap_err();
    assert_eq!(error.stopped(), Some(Stopped::AttemptsExhausted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tokens_are_conserved_on_several_threads() {
    let requests = 400;
    let policy = bare()
        .max_attempts(4)
        .retry_budget(
            RetryBudget::ratio(0.0)
                .cap(2_000.0)
                .opening_balance(2_000.0)
                .no_trickle(),
        )
        .build()
        .unwrap();
    let sends = Arc::new(AtomicUsize::new(0));
    let firsts = Arc::new(AtomicUsize::new(0));
    let (count, first) = (Arc::clone(&sends), Arc::clone(&firsts));
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(service_fn(move |id: u64| {
            count.fetch_add(1, Ordering::Relaxed);
            first.fetch_add(
                usize::from(Scope::current().attempt() == 1),
                Ordering::Relaxed,
            );
            async move {
                for _ in 0..id % 7 {
                    tokio::task::yield_now().await;
                }
                Err::<(), _>(Fault("again"))
            }
        }));
    let tasks: Vec<_> = (0..requests)
        .map(|id| (id, tokio::spawn(client.clone().oneshot(id))))
        .collect();
    for (id, task) in tasks {
        if id % 3 == 0 {
            task.abort();
        }
        let _ = task.await;
    }
    let retries = sends.load(Ordering::Relaxed) - firsts.load(Ordering::Relaxed);
    assert!(retries > 600, "{retries}");
    assert_eq!(policy.budget_balance(), Some(2_000.0 - retries as f64));
}

// ---- 8b. Time that passes in one poll ----------------------------------------

/// As code that computes, or blocks the thread.
fn busy(seconds: f64) {
    let mut passing = task::spawn(tokio::time::advance(secs(seconds)));
    assert_pending!(passing.poll());
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_failure_is_timed_from_its_end_however_long_one_poll_took() {
    let t = Clock::start();
    let times = Mutex::new(Vec::new());
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(1.0)))
        .breaker(plain(BreakerConfig::consecutive(2)))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(service_fn(|_: Text| {
            times.lock().unwrap().push(t.now());
            async {
                busy(2.0);
                Err::<Text, _>(Fault("late"))
            }
        }));
    client.clone().oneshot("x").await.unwrap_err();
    assert_times(&times.lock().unwrap(), &[0.0, 3.0]);
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Open);
    t.reach(14.9).await;
    assert_refused(&client.clone().oneshot("x").await);
    t.reach(15.0).await;
    client.oneshot("x").await.unwrap_err();
    assert_eq!(times.lock().unwrap().len(), 3, "a probe");
}

// ---- 9. No timer on the happy path -------------------------------------------

/// Without a runtime, making any of tokio's timers panics.
#[test]
fn an_answer_that_is_ready_at_once_makes_no_timer() {
    let policy = Policy::builder("case").build().unwrap();
    let client = stack(&policy, &Inner::always(Step::Ok));
    let mut call = task::spawn(send(&client, "x"));
    assert_eq!(assert_ready!(call.poll()).unwrap(), "ok");
}

#[test]
fn retries_without_backoff_of_answers_ready_at_once_make_no_timer() {
    let policy = Policy::builder("case")
        .backoff(Backoff::none())
        .max_attempts(3)
        .build()
        .unwrap();
    let client = stack(&policy, &Inner::script([Step::Err, Step::Err], Step::Ok));
    let mut call = task::spawn(send(&client, "x"));
    assert_eq!(assert_ready!(call.poll()).unwrap(), "ok");
}

// ---- 10. Cost does not grow --------------------------------------------------

/// Work that grows with the years or the window would take minutes here.
#[tokio::test(start_paused = true)]
async fn a_century_of_idleness_costs_nothing() {
    let inner = Inner::always(Step::Ok);
    let policy = Policy::builder("case")
        .no_deadline()
        .no_attempt_timeout()
        .breaker(
            BreakerConfig::failure_rate(0.5)
                .window(Window::time(Duration::from_millis(10)))
                .min_calls(2),
        )
        .retry_budget(RetryBudget::ratio(0.1).opening_balance(0.0).trickle(0.001))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    for _ in 0..100 {
        assert!(send(&client, "x").await.is_ok());
        tokio::time::advance(Duration::from_secs(100 * 365 * 86_400)).await;
    }
    assert_eq!(inner.calls(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_window_of_a_million_calls_costs_no_more_than_a_small_one() {
    let breaker = Breaker::new(
        "case",
        BreakerConfig::failure_rate(0.9)
            .window(Window::count(1_000_000))
            .min_calls(1_000),
    )
    .unwrap();
    // Summing the window at each outcome would be 2 × 10^11 steps.
    for call in 0..200_000 {
        let permit = breaker.admit().unwrap();
        if call % 2 == 0 {
            permit.failure();
        } else {
            permit.success();
        }
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
}
