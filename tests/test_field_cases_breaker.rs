//! Field cases of the breaker: faults that libraries have shipped, each as a
//! scenario with the right answer as a number. A test's name starts with the
//! case's id; `N` is the number of calls that reached the inner service.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::sync::Arc;

use steadfast::{
    Breaker, BreakerConfig, BreakerState, Deadline, Error, ErrorKind, Policy, ServiceBuilderExt,
    Verdict, Window, classify::classify_fn,
};
use support::*;
use tokio::sync::{Barrier, Semaphore};
use tokio_test::{assert_pending, task};
use tower::limit::ConcurrencyLimit;
use tower::load_shed::LoadShed;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

fn policy_with(breaker: BreakerConfig) -> Policy {
    bare().breaker(breaker).build().unwrap()
}

/// A client behind the case breaker.
fn guarded(inner: &Inner) -> impl Client + use<> {
    stack(&policy_with(bk()), inner)
}

#[tokio::test(start_paused = true)]
async fn a01_a_success_from_before_the_trip_does_not_close_the_breaker() {
    let t = Clock::start();
    let inner = Inner::script(
        [
            Step::OkAfter(20.0),
            Step::Err,
            Step::Err,
            Step::Err,
            Step::Err,
            Step::ErrAfter(20.0),
        ],
        Step::Ok,
    );
    let client = guarded(&inner);

    let stale = tokio::spawn(send(&client, "stale"));
    tokio::task::yield_now().await;
    four_failures(&client).await;
    t.reach(10.0).await;
    let probe = tokio::spawn(send(&client, "probe"));

    t.reach(21.0).await;
    assert!(stale.is_finished());
    assert_refused(&send(&client, "while the probe runs").await);
    assert_eq!(inner.calls(), 6);

    t.reach(31.0).await;
    assert!(probe.await.unwrap().is_err());
    assert_refused(&send(&client, "after the probe failed").await);
    t.reach(39.9).await;
    assert_refused(&send(&client, "just before it is due").await);
    assert_eq!(inner.calls(), 6);

    t.reach(40.002).await;
    assert!(send(&client, "next probe").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a01_a_failure_from_before_the_trip_does_not_end_the_probe() {
    let t = Clock::start();
    let inner = Inner::script(
        [
            Step::ErrAfter(11.0),
            Step::Err,
            Step::Err,
            Step::Err,
            Step::Err,
            Step::OkAfter(2.0),
        ],
        Step::Ok,
    );
    let client = guarded(&inner);

    let stale = tokio::spawn(send(&client, "stale"));
    tokio::task::yield_now().await;
    four_failures(&client).await;
    t.reach(10.0).await;
    let probe = tokio::spawn(send(&client, "probe"));
    t.reach(12.5).await;

    assert!(stale.await.unwrap().is_err());
    assert!(probe.await.unwrap().is_ok());
    assert!(send(&client, "closed again").await.is_ok());
    assert_eq!(inner.calls(), 7);
}

#[tokio::test(start_paused = true)]
async fn a02_dropping_an_old_call_frees_no_probe_slot() {
    let t = Clock::start();
    let inner = Inner::script(
        [
            Step::Hang,
            Step::Err,
            Step::Err,
            Step::Err,
            Step::Err,
            Step::OkAfter(5.0),
        ],
        Step::Ok,
    );
    let client = guarded(&inner);

    let mut old = task::spawn(send(&client, "old"));
    assert_pending!(old.poll());
    four_failures(&client).await;
    t.reach(10.0).await;
    let probe = tokio::spawn(send(&client, "probe"));
    t.reach(11.0).await;
    drop(old);

    assert_refused(&send(&client, "first").await);
    assert_refused(&send(&client, "second").await);
    assert_eq!(inner.calls(), 6);

    assert!(probe.await.unwrap().is_ok());
    assert!(send(&client, "closed again").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a02_dropping_an_old_call_changes_nothing_while_the_breaker_is_open() {
    let t = Clock::start();
    let inner = Inner::script(
        [Step::Hang, Step::Err, Step::Err, Step::Err, Step::Err],
        Step::Ok,
    );
    let policy = policy_with(bk());
    let client = stack(&policy, &inner);

    let mut old = task::spawn(send(&client, "old"));
    assert_pending!(old.poll());
    four_failures(&client).await;
    t.reach(5.0).await;
    drop(old);

    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Open);
    assert_refused(&send(&client, "still open").await);
    t.reach(9.9).await;
    assert_refused(&send(&client, "open for the whole ten seconds").await);
    assert_eq!(inner.calls(), 5);
}

/// Polls `client` ready, which must be at once.
fn become_ready(client: &mut impl Client) {
    let mut ready = task::spawn(client.ready());
    assert!(matches!(ready.poll(), std::task::Poll::Ready(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn a03_a_ready_clone_that_never_calls_reserves_no_probe() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Ok);
    let client = guarded(&inner);
    four_failures(&client).await;

    t.reach(10.0).await;
    let mut idle = client.clone();
    become_ready(&mut idle);
    assert!(send(&client, "b").await.is_ok());
    t.assert_now(10.0);
    assert_eq!(inner.calls(), 5);
    t.reach(11.0).await;
    drop(idle);
    assert!(send(&client, "c").await.is_ok());
    assert_eq!(inner.calls(), 6);
}

#[tokio::test(start_paused = true)]
async fn a03_readiness_from_before_the_trip_admits_nothing_after_it() {
    let inner = Inner::script([Step::Err; 4], Step::Ok);
    let client = guarded(&inner);
    let mut early = client.clone();
    become_ready(&mut early);
    four_failures(&client).await;

    assert_refused(&early.call("late").await);
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn a03_a_call_made_before_the_trip_and_polled_after_it_is_refused() {
    let inner = Inner::script([Step::Err; 4], Step::Ok);
    let client = guarded(&inner);
    let early = client.clone().call("made while closed");
    four_failures(&client).await;

    assert_refused(&early.await);
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn a03_an_idle_ready_clone_blocks_nobody_for_a_minute() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Ok);
    let client = guarded(&inner);
    four_failures(&client).await;

    t.reach(10.0).await;
    let mut idle = client.clone();
    become_ready(&mut idle);
    t.reach(70.0).await;
    assert!(send(&client, "another").await.is_ok());
    assert_eq!(inner.calls(), 5);
    assert!(idle.call("at last").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a12_an_open_breaker_does_not_poll_a_stuck_inner() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let client = guarded(&inner);
    four_failures(&client).await;
    inner.set_readiness([], Ready::Never);
    let polls = inner.polls();

    t.reach(1.0).await;
    assert_refused(&send(&client, "refused").await);
    t.assert_now(1.0);
    assert_eq!(inner.polls(), polls);
}

/// A classifier that takes `"ignore"` as `verdict`.
async fn neutral_probes_do_not_wedge(verdict: fn() -> Verdict) {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Say("ignore"));
    let policy = bare()
        .breaker(bk())
        .classify(classify_fn(
            move |result: Result<&Text, &Source>| match result {
                Ok(&"ignore") => verdict(),
                Ok(_) => Verdict::success(),
                Err(_) => Verdict::transient(),
            },
        ))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(inner.clone());
    four_failures(&client).await;

    t.reach(10.0).await;
    for _ in 0..100 {
        assert_eq!(send(&client, "probe").await.unwrap(), "ignore");
    }
    inner.rescript([], Step::Ok);
    assert!(send(&client, "the one that closes").await.is_ok());
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Closed);
    assert!(send(&client, "closed").await.is_ok());
    assert_eq!(inner.calls(), 4 + 102);
    t.assert_now(10.0);
}

#[tokio::test(start_paused = true)]
async fn a13_blocked_probes_do_not_wedge_half_open() {
    neutral_probes_do_not_wedge(Verdict::blocked).await;
}

#[tokio::test(start_paused = true)]
async fn a13_throttled_probes_do_not_wedge_half_open() {
    neutral_probes_do_not_wedge(|| Verdict::throttled(None)).await;
}

#[tokio::test(start_paused = true)]
async fn a13_probes_refused_below_do_not_wedge_half_open() {
    neutral_probes_do_not_wedge(Verdict::refused_below).await;
}

#[tokio::test(start_paused = true)]
async fn a13_dropped_permits_give_back_their_slot_and_prove_nothing() {
    let t = Clock::start();
    let breaker = Breaker::new("case", bk()).unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    t.reach(10.0).await;
    for _ in 0..100 {
        drop(breaker.admit().unwrap());
    }
    // A hundred drops are no answer: it is still one probe at a time.
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    let probe = breaker.admit().unwrap();
    assert!(breaker.admit().is_err());
    probe.success();
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a13_ten_neutral_answers_in_a_row_end_half_open() {
    let t = Clock::start();
    let breaker = Breaker::new("case", bk()).unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    t.reach(10.0).await;
    for answer in 1..=9 {
        breaker.admit().unwrap().neutral();
        assert_eq!(breaker.state(), BreakerState::HalfOpen, "answer {answer}");
    }
    breaker.admit().unwrap().neutral();
    let first = breaker.admit().unwrap();
    let second = breaker.admit().unwrap();
    first.success();
    second.success();
}

#[tokio::test(start_paused = true)]
async fn a13_callers_who_leave_early_are_no_answers() {
    // Neutral, because each probe had a tenth of its fair share of time. But
    // the dependency has said nothing at all: ten of them prove nothing.
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Hang);
    let policy = bare()
        .attempt_timeout(secs(10.0))
        .breaker(bk())
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    four_failures(&client).await;
    t.reach(10.0).await;
    for probe in 1..=15 {
        let call = Deadline::after(secs(1.0)).scope(send(&client, "x"));
        assert_eq!(kind(&call.await), Some(ErrorKind::DeadlineExceeded));
        let state = policy.breaker().unwrap().state();
        assert_eq!(state, BreakerState::HalfOpen, "after probe {probe}");
    }
    assert_eq!(inner.calls(), 4 + 15);
}

#[tokio::test(start_paused = true)]
async fn a13_probes_shed_by_a_local_limit_are_no_answers() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Hang);
    let policy = policy_with(bk());
    let limit = ConcurrencyLimit::new(inner.clone(), 1);
    let shedding = LoadShed::new(limit.clone());
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(shedding);
    four_failures(&client).await;
    t.reach(10.0).await;
    let mut hangs = task::spawn(limit.oneshot("holds the only permit"));
    assert_pending!(hangs.poll());
    for probe in 1..=15 {
        let shed = send(&client, "x").await;
        assert_eq!(kind(&shed), Some(ErrorKind::Failed));
        let state = policy.breaker().unwrap().state();
        assert_eq!(state, BreakerState::HalfOpen, "after probe {probe}");
    }
}

#[tokio::test(start_paused = true)]
async fn a17_one_failed_probe_reopens_below_the_minimum_of_calls() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 11], Step::Ok);
    let config = plain(BreakerConfig::failure_rate(0.5))
        .window(Window::time(secs(10.0)))
        .min_calls(10);
    let client = stack(&policy_with(config), &inner);
    for _ in 0..10 {
        assert!(send(&client, "fail").await.is_err());
    }
    assert_eq!(inner.calls(), 10);

    t.reach(60.0).await;
    assert!(send(&client, "probe").await.is_err());
    t.reach(60.001).await;
    assert_refused(&send(&client, "refused").await);
    assert_eq!(inner.calls(), 11);
    t.reach(70.0).await;
    assert!(send(&client, "second probe").await.is_ok());
    assert_eq!(inner.calls(), 12);
    t.reach(70.001).await;
    assert!(send(&client, "closed").await.is_ok());
    assert_eq!(inner.calls(), 13);
}

#[tokio::test(start_paused = true)]
async fn a18_a_success_that_completes_the_minimum_trips_too() {
    let inner = Inner::script([Step::Err, Step::Err, Step::Err, Step::Ok], Step::Ok);
    let client = guarded(&inner);
    for _ in 0..4 {
        let _ = send(&client, "three fail, one succeeds").await;
    }
    assert_refused(&send(&client, "fifth").await);
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn a18_a_success_trips_when_old_successes_have_left_a_time_window() {
    let t = Clock::start();
    let config = plain(BreakerConfig::failure_rate(0.5))
        .window(Window::time(secs(10.0)))
        .min_calls(4);
    let inner = Inner::script([Step::Ok; 4], Step::Err);
    let client = stack(&policy_with(config), &inner);
    for _ in 0..4 {
        assert!(send(&client, "ok").await.is_ok());
    }
    t.reach(9.0).await;
    for _ in 0..3 {
        assert!(send(&client, "fail").await.is_err());
    }
    // 3 of 7 have failed. At T=12 the first four are gone: 3 of 4.
    t.reach(12.0).await;
    inner.rescript([], Step::Ok);
    assert!(send(&client, "ok").await.is_ok());
    assert_refused(&send(&client, "tripped by a success").await);
}

async fn half_open_admits_exactly(probes: u32) {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::OkAfter(1.0));
    let config = bk().probes(probes).successes(probes);
    let client = stack(&policy_with(config), &inner);
    four_failures(&client).await;

    t.reach(10.0).await;
    let tasks: Vec<_> = (0..10)
        .map(|_| tokio::spawn(send(&client, "crowd")))
        .collect();
    t.reach(10.001).await;
    let refused = tasks.iter().filter(|task| task.is_finished()).count();
    assert_eq!(refused, 10 - probes as usize);
    assert_eq!(inner.calls(), 4 + probes as usize);

    t.reach(11.001).await;
    let mut served = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => served += 1,
            refused => assert_refused(&refused),
        }
    }
    assert_eq!(served, probes);
    assert!(send(&client, "closed").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a26_half_open_admits_one_of_ten() {
    half_open_admits_exactly(1).await;
}

#[tokio::test(start_paused = true)]
async fn a26_half_open_admits_three_of_ten() {
    half_open_admits_exactly(3).await;
}

/// No paused clock on several threads: the open time is a millisecond, and the
/// test spins until it is over. Probes end only when all others were refused.
async fn half_open_admits_exactly_on_threads(probes: usize) {
    const CROWD: usize = 10;
    let config = bk()
        .open_time(std::time::Duration::from_millis(1))
        .probes(probes as u32)
        .successes(probes as u32);
    for _ in 0..100 {
        let breaker = Breaker::new("case", config.clone()).unwrap();
        let policy = bare().breaker(breaker.clone()).build().unwrap();
        let release = Arc::new(Semaphore::new(0));
        let gate = Arc::clone(&release);
        let client =
            ServiceBuilder::new()
                .resilience(policy)
                .service(service_fn(move |fail: bool| {
                    let gate = Arc::clone(&gate);
                    async move {
                        if fail {
                            return Err(Fault("scripted"));
                        }
                        drop(gate.acquire().await);
                        Ok(())
                    }
                }));
        for _ in 0..4 {
            assert!(client.clone().oneshot(true).await.is_err());
        }
        while breaker.would_admit().is_err() {
            tokio::task::yield_now().await;
        }

        let start = Arc::new(Barrier::new(CROWD));
        let (report, mut refusals) = tokio::sync::mpsc::unbounded_channel();
        let tasks: Vec<_> = (0..CROWD)
            .map(|_| {
                let (client, start, report) = (client.clone(), Arc::clone(&start), report.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    let result: Result<(), Error> = client.oneshot(false).await;
                    if let Err(error) = &result {
                        report.send(error.kind()).unwrap();
                    }
                    result.is_ok()
                })
            })
            .collect();
        for _ in 0..CROWD - probes {
            // Too large a crowd would leave this waiting for ever.
            let refusal = tokio::time::timeout(secs(30.0), refusals.recv()).await;
            assert_eq!(refusal.expect("a crowd passed"), Some(ErrorKind::Refused));
        }
        release.add_permits(CROWD);
        let mut served = 0;
        for task in tasks {
            served += usize::from(task.await.unwrap());
        }
        assert_eq!(served, probes);
        assert!(client.clone().oneshot(false).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a26_half_open_admits_one_of_ten_on_several_threads() {
    half_open_admits_exactly_on_threads(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a26_half_open_admits_three_of_ten_on_several_threads() {
    half_open_admits_exactly_on_threads(3).await;
}

#[tokio::test(start_paused = true)]
async fn a27_a_cancelled_probe_gives_its_slot_back() {
    let t = Clock::start();
    let inner = Inner::script(
        [Step::Err, Step::Err, Step::Err, Step::Err, Step::Hang],
        Step::Ok,
    );
    let policy = policy_with(bk());
    let client = stack(&policy, &inner);
    four_failures(&client).await;

    t.reach(10.0).await;
    let mut probe = task::spawn(send(&client, "probe"));
    assert_pending!(probe.poll());
    t.reach(11.0).await;
    assert_refused(&send(&client, "while it runs").await);
    drop(probe);
    assert!(send(&client, "the next probe").await.is_ok());
    assert_eq!(inner.calls(), 4 + 2);
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a27_a_probe_that_was_never_polled_takes_no_slot() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Ok);
    let mut client = guarded(&inner);
    four_failures(&client).await;

    t.reach(10.0).await;
    drop(client.call("never polled"));
    assert!(send(&client, "probe").await.is_ok());
    assert_eq!(inner.calls(), 5);
}

#[tokio::test(start_paused = true)]
async fn a28_the_open_time_runs_from_the_failure_not_from_the_start_of_its_call() {
    let t = Clock::start();
    let inner = Inner::script([Step::ErrAfter(30.0)], Step::Ok);
    let client = stack(&policy_with(plain(BreakerConfig::consecutive(1))), &inner);
    assert!(send(&client, "slow failure").await.is_err());
    t.assert_now(30.0);

    t.reach(31.0).await;
    assert_refused(&send(&client, "refused").await);
    assert_eq!(inner.calls(), 1);
    t.reach(40.0).await;
    assert!(send(&client, "probe").await.is_ok());
    assert_eq!(inner.calls(), 2);
}
