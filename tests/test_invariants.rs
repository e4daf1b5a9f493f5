//! What holds whatever happens, one section for each of the ten promises of
//! the design. (That a call on the happy path allocates nothing of ours is
//! measured in the benchmark package: counting allocations needs `unsafe`,
//! which this crate forbids, tests included.)

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steadfast::{
    Backoff, Breaker, BreakerConfig, BreakerState, Deadline, Error, ErrorKind, Permit, Policy,
    RetryBudget, ServiceBuilderExt, Stopped, Verdict, Window, classify::classify_fn,
};
use support::*;
use tokio::sync::Semaphore;
use tokio_test::{assert_pending, assert_ready, task};
use tower::limit::ConcurrencyLimit;
use tower::{ServiceBuilder, ServiceExt, service_fn};

fn budget(opening: f64) -> RetryBudget {
    RetryBudget::ratio(0.0)
        .cap(10.0)
        .opening_balance(opening)
        .no_trickle()
}

/// A small generator of numbers, so that a failing run can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

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

// ---- 4. Nothing waits past the deadline --------------------------------------

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_readiness_the_call_and_what_follows() {
    for inner in [
        Inner::always(Step::Hang),
        Inner::always(Step::Ok).readiness([], Ready::Never),
        Inner::always(Step::ErrAfter(2.0)).readiness([], Ready::After(2.0)),
    ] {
        let t = Clock::start();
        let policy = bare().deadline(secs(5.0)).max_attempts(10).build().unwrap();
        let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
        t.assert_now(5.0);
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_to_sleep_towards_an_attempt_that_could_not_be_made() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .deadline(secs(5.0))
        .max_attempts(10)
        .backoff(Backoff::fixed(secs(2.0)))
        .build()
        .unwrap();
    let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
    // At T=4 one second is left, and the next attempt would be at T=6.
    t.assert_now(4.0);
    assert_eq!(inner.calls(), 3);
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(error.stopped(), Some(Stopped::Deadline));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_needs_its_minimum_useful_time() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .deadline(secs(5.0))
        .min_useful_time(secs(2.0))
        .max_attempts(10)
        .backoff(Backoff::fixed(secs(2.0)))
        .build()
        .unwrap();
    let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
    // At T=2 three seconds are left: after the sleep only one would remain.
    t.assert_now(2.0);
    assert_eq!(inner.calls(), 2);
    assert_eq!(error.stopped(), Some(Stopped::Deadline));
}

#[tokio::test(start_paused = true)]
async fn full_jitter_draws_only_from_what_the_deadline_leaves() {
    // With a base of a minute and five seconds left, a draw from the minute
    // would end most calls after one attempt.
    let mut second_attempts = 0;
    for seed in 0..50 {
        let inner = Inner::always(Step::Err);
        let policy = bare()
            .deadline(secs(5.0))
            .max_attempts(2)
            .backoff(Backoff::full_jitter(secs(60.0), secs(60.0)).seed(seed))
            .build()
            .unwrap();
        assert!(send(&stack(&policy, &inner), "x").await.is_err());
        assert!(inner.call_times().iter().all(|at| *at < 5.0));
        second_attempts += inner.calls() - 1;
    }
    assert!(second_attempts >= 45, "{second_attempts} of 50");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_past_sends_nothing_and_asks_no_breaker() {
    let t = Clock::start();
    let inner = Inner::always(Step::Ok);
    let policy = bare().max_attempts(3).breaker(bk()).build().unwrap();
    let client = stack(&policy, &inner);
    let breaker = policy.breaker().unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    // Open: were the breaker asked, the answer would be a refusal.
    let call = Deadline::after(Duration::ZERO).scope(send(&client, "x"));
    let error = call.await.unwrap_err();
    t.assert_now(0.0);
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(error.attempts(), 0);
    assert_eq!((inner.polls(), inner.calls()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_attempt_timer_fires_although_the_inner_future_eats_the_cooperative_budget() {
    let policy = bare().attempt_timeout(secs(1.0)).build().unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(|_: Text| async {
            // Leaves no budget to whatever is polled after it, and is never idle.
            for _ in 0..1_000_000 {
                tokio::task::consume_budget().await;
            }
            Ok::<Text, Fault>("ended by itself")
        }));
    let call = tokio::spawn(client.oneshot("x"));
    tokio::task::yield_now().await;
    tokio::time::advance(secs(1.1)).await;
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    assert!(call.is_finished());
    assert_eq!(kind(&call.await.unwrap()), Some(ErrorKind::TimedOut));
}

// ---- 5. Hints, caps and the budget's balance ---------------------------------

#[tokio::test(start_paused = true)]
async fn a_servers_hint_is_never_undercut() {
    for seed in 0..50 {
        let inner = Inner::always(Step::Err);
        let policy = bare()
            .max_attempts(4)
            .backoff(Backoff::full_jitter(secs(0.1), secs(1.0)).seed(seed))
            .classify(classify_fn(|_: Result<&Text, &Source>| {
                Verdict::overloaded(Some(secs(3.0)))
            }))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy)
            .service(inner.clone());
        assert!(send(&client, "x").await.is_err());
        // The hint, plus at most the own backoff of that attempt.
        for (wait, own) in gaps(&inner.call_times()).iter().zip([0.1, 0.2, 0.4]) {
            assert!((3.0..=3.002 + own).contains(wait), "{wait} after {own}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_above_the_largest_honoured_ends_the_call_and_is_told() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(4)
        .largest_hint(secs(60.0))
        .classify(classify_fn(|_: Result<&Text, &Source>| {
            Verdict::overloaded(Some(secs(61.0)))
        }))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(inner.clone());
    let error = send(&client, "x").await.unwrap_err();
    t.assert_now(0.0);
    assert_eq!(inner.calls(), 1);
    assert_eq!(error.stopped(), Some(Stopped::HintTooLong));
    assert_eq!(error.retry_after(), Some(secs(61.0)));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_costs_twice() {
    for (step, sends, balance) in [(Step::Err, 5, 0.0), (Step::Hang, 3, 0.0)] {
        let inner = Inner::always(step);
        let policy = bare()
            .attempt_timeout(secs(1.0))
            .max_attempts(10)
            .retry_budget(budget(4.0))
            .build()
            .unwrap();
        let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
        assert_eq!(error.stopped(), Some(Stopped::BudgetExhausted));
        assert_eq!(inner.calls(), sends);
        assert_eq!(policy.budget_balance(), Some(balance));
    }
}

#[tokio::test(start_paused = true)]
async fn the_balance_stays_between_zero_and_its_cap() {
    let mut dice = Dice(7);
    let inner = Inner::always(Step::Ok);
    let policy = bare()
        .max_attempts(4)
        .attempt_timeout(secs(1.0))
        .retry_budget(
            RetryBudget::ratio(0.7)
                .cap(5.0)
                .opening_balance(5.0)
                .trickle(0.5),
        )
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let (mut lowest, mut highest) = (f64::MAX, f64::MIN);
    for _ in 0..500 {
        let steps = [Step::Ok, Step::Ok, Step::Ok, Step::Err, Step::Hang];
        inner.then([], steps[dice.roll(5) as usize]);
        let _ = send(&client, "x").await;
        let balance = policy.budget_balance().unwrap();
        assert!((0.0..=5.0).contains(&balance), "{balance}");
        lowest = lowest.min(balance);
        highest = highest.max(balance);
    }
    assert!(lowest < 1.0 && highest > 4.9, "{lowest} to {highest}");
}

/// A call whose life is: readiness 0 to 1, attempt 1 to 2, backoff 2 to 3,
/// readiness 3 to 4, attempt 4 to 5; each part ends in a failure, a second
/// attempt is the last. It is dropped at `at`.
async fn dropped_at(at: f64, policy: &Policy) -> Inner {
    let t = Clock::start();
    let inner = Inner::always(Step::ErrAfter(1.0)).readiness([], Ready::After(1.0));
    let client = stack(policy, &inner);
    let mut call = task::spawn(send(&client, "x"));
    for tenth in 0..=(at * 10.0) as u32 {
        t.reach(f64::from(tenth) / 10.0).await;
        assert_pending!(call.poll());
    }
    inner
}

#[tokio::test(start_paused = true)]
async fn tokens_are_conserved_wherever_a_call_is_dropped() {
    for tenth in (0..50).step_by(2) {
        let at = f64::from(tenth) / 10.0;
        let policy = bare()
            .max_attempts(2)
            .backoff(Backoff::fixed(secs(1.0)))
            .retry_budget(budget(10.0))
            .build()
            .unwrap();
        let inner = dropped_at(at, &policy).await;
        let balance = policy.budget_balance().unwrap();
        match inner.calls() {
            0 => assert_eq!(balance, 10.0, "dropped at {at}"),
            // Dropped in the backoff, the charge comes back. Whether waiting
            // for readiness is a start of the attempt is not said.
            1 if at < 3.0 => assert_eq!(balance, 10.0, "dropped at {at}"),
            1 => assert!(
                (9.0..=10.0).contains(&balance),
                "dropped at {at}: {balance}"
            ),
            _ => assert_eq!(balance, 9.0, "dropped at {at}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_charge_is_given_back_when_the_breaker_refuses_after_the_backoff() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(5.0)))
        .breaker(plain(BreakerConfig::consecutive(2)).open_time(secs(60.0)))
        .retry_budget(budget(10.0))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let sleeper = tokio::spawn(send(&client, "sleeps until T=5"));
    t.reach(1.0).await;
    assert_eq!(policy.budget_balance(), Some(9.0));
    policy.breaker().unwrap().admit().unwrap().failure();
    assert!(sleeper.await.unwrap().is_err());
    assert_eq!(inner.calls(), 1);
    assert_eq!(policy.budget_balance(), Some(10.0));
}

#[tokio::test(start_paused = true)]
async fn a_charge_is_not_given_back_on_success() {
    let inner = Inner::script([Step::Err], Step::Ok);
    let policy = bare()
        .max_attempts(2)
        .retry_budget(budget(10.0))
        .build()
        .unwrap();
    assert!(send(&stack(&policy, &inner), "x").await.is_ok());
    assert_eq!(policy.budget_balance(), Some(9.0));
}

#[tokio::test(start_paused = true)]
async fn a_share_of_calls_in_retry_is_given_back_with_each_call() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(1.0)))
        .retry_budget(RetryBudget::concurrent(0.0).min_concurrent(3))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let mut calls: Vec<_> = (0..5).map(|_| task::spawn(send(&client, "x"))).collect();
    let ended = calls.iter_mut().filter_map(|call| match call.poll() {
        std::task::Poll::Ready(result) => Some(result.unwrap_err().stopped()),
        std::task::Poll::Pending => None,
    });
    // Three may retry, the others are told so at once.
    assert_eq!(
        ended.collect::<Vec<_>>(),
        [Some(Stopped::BudgetExhausted); 2]
    );

    // Drops in the backoff make room for the next three.
    drop(calls);
    for _ in 0..2 {
        let start = t.now();
        let (a, b, c) = tokio::join!(send(&client, "x"), send(&client, "x"), send(&client, "x"));
        for result in [a, b, c] {
            let stopped = result.unwrap_err().stopped();
            assert_eq!(stopped, Some(Stopped::AttemptsExhausted));
        }
        assert!(t.now() >= start + 1.0);
    }
}

// ---- 6. The last real answer is never replaced by one that says less ---------

#[tokio::test(start_paused = true)]
async fn the_dependencys_last_error_stays_when_something_of_ours_ends_the_call() {
    let never_ready = Inner::always(Step::Err).readiness([Ready::Now], Ready::Never);
    let hangs_later = Inner::script([Step::Err], Step::Hang);
    for inner in [never_ready, hangs_later] {
        let policy = bare().deadline(secs(5.0)).max_attempts(10).build().unwrap();
        let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        assert_eq!(fault(&error), Some(Fault("scripted")));
    }
}

#[tokio::test(start_paused = true)]
async fn the_dependencys_last_error_stays_when_the_breaker_refuses_after_the_backoff() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(5.0)))
        .breaker(plain(BreakerConfig::consecutive(2)).open_time(secs(60.0)))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let sleeper = tokio::spawn(send(&client, "sleeps"));
    t.reach(1.0).await;
    policy.breaker().unwrap().admit().unwrap().failure();
    let error = sleeper.await.unwrap().unwrap_err();
    assert_eq!(fault(&error), Some(Fault("scripted")));
    assert_eq!(error.attempts(), 1);
    assert!(error.verdict().is_some());
    assert!(error.retry_after().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_dependencys_last_answer_is_returned_whatever_stops_the_retries() {
    let policies = [
        bare().max_attempts(2),
        bare()
            .max_attempts(2)
            .breaker(plain(BreakerConfig::consecutive(1))),
        bare().max_attempts(2).retry_budget(budget(0.0)),
        bare()
            .max_attempts(2)
            .deadline(secs(1.0))
            .backoff(Backoff::fixed(secs(5.0))),
    ];
    for policy in policies {
        let policy = policy
            .classify(classify_fn(|_: Result<&Text, &Source>| {
                Verdict::transient().because(503)
            }))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy)
            .service(Inner::always(Step::Say("503 try later")));
        assert_eq!(send(&client, "x").await.unwrap(), "503 try later");
    }
}

// ---- 7. How much is sent -----------------------------------------------------

#[tokio::test(start_paused = true)]
async fn retries_over_time_stay_within_what_the_budget_allows() {
    let t = Clock::start();
    let inner = Inner::always(Step::Ok);
    let (ratio, opening, trickle) = (0.2, 3.0, 0.1);
    let policy = bare()
        .max_attempts(5)
        .retry_budget(
            RetryBudget::ratio(ratio)
                .cap(1_000.0)
                .opening_balance(opening)
                .trickle(trickle),
        )
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let mut dice = Dice(42);
    let (mut requests, mut successes) = (0, 0);
    while t.now() < 600.0 {
        inner.then(
            [],
            if dice.roll(3) == 0 {
                Step::Ok
            } else {
                Step::Err
            },
        );
        requests += 1;
        successes += u32::from(send(&client, "x").await.is_ok());
        tokio::time::sleep(secs(dice.roll(4) as f64 / 4.0)).await;

        let retries = (inner.calls() - requests) as f64;
        let allowed = ratio * f64::from(successes) + opening + trickle * t.now();
        assert!(
            retries <= allowed + 0.01,
            "{retries} retries, {allowed} allowed"
        );
    }
    assert!(inner.calls() > requests + 50, "hardly any retry was made");
}

#[tokio::test(start_paused = true)]
async fn nested_stacks_of_any_depth_send_as_often_as_the_innermost() {
    let inner = Inner::always(Step::Err);
    let retry = |name| named(name).max_attempts(3).build().unwrap();
    let client = ServiceBuilder::new()
        .resilience(retry("one"))
        .resilience(retry("two"))
        .resilience(retry("three"))
        .resilience(named("innermost").max_attempts(2).build().unwrap())
        .service(inner.clone());
    assert!(send(&client, "x").await.is_err());
    assert_eq!(inner.calls(), 2);
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
        assert_eq!(inner.calls(), usize::from(at > 1.1));
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
        inner.then([], Step::Ok);
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
    inner.then([], Step::Ok);
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
