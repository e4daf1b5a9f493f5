//! What holds whatever happens, about time, tokens and answers: promises 4 to
//! 7 of the design.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::time::Duration;

use steadfast::{
    Backoff, BreakerConfig, Deadline, ErrorKind, RetryBudget, ServiceBuilderExt, Stopped, Verdict,
    classify::classify_fn,
};
use support::*;
use tokio_test::task;
use tower::{ServiceBuilder, ServiceExt, service_fn};

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

/// A breaker that fails for ever with a hint of a minute, and may honour up to
/// `longest`: when it admits the next probe.
async fn open_until(longest: f64) -> f64 {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare()
        .breaker(bk().max_hint_open(secs(longest)))
        .classify(classify_fn(|_: Result<&Text, &Source>| {
            Verdict::overloaded(Some(secs(60.0)))
        }))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(inner.clone());
    four_failures(&client).await;
    while inner.calls() == 4 {
        tokio::time::sleep(secs(0.5)).await;
        assert!(send(&client, "x").await.is_err());
    }
    t.now()
}

#[tokio::test(start_paused = true)]
async fn a_breaker_stays_open_for_as_long_as_the_dependency_asked() {
    let close = |time: f64, expected: f64| (expected..expected + 0.6).contains(&time);
    let (asked, capped, own) = (
        open_until(300.0).await,
        open_until(20.0).await,
        open_until(5.0).await,
    );
    assert!(close(asked, 60.0), "{asked}");
    assert!(close(capped, 20.0), "{capped}");
    assert!(close(own, 10.0), "{own}");
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
        inner.rescript([], steps[dice.roll(5) as usize]);
        let _ = send(&client, "x").await;
        let balance = policy.budget_balance().unwrap();
        assert!((0.0..=5.0).contains(&balance), "{balance}");
        lowest = lowest.min(balance);
        highest = highest.max(balance);
    }
    assert!(lowest < 1.0 && highest > 4.9, "{lowest} to {highest}");
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
async fn a_refusal_after_the_backoff_names_the_last_answers_reason() {
    let t = Clock::start();
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(5.0)))
        .breaker(plain(BreakerConfig::consecutive(2)).open_time(secs(60.0)))
        .classify(classify_fn(|_: Result<&Text, &Source>| {
            Verdict::transient().because(503)
        }))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(Inner::always(Step::Say("503")));
    let sleeper = tokio::spawn(send(&client, "sleeps"));
    t.reach(1.0).await;
    policy.breaker().unwrap().admit().unwrap().failure();
    let error = sleeper.await.unwrap().unwrap_err();
    assert_eq!(error.attempts(), 1);
    assert_eq!(error.verdict().unwrap().reason(), 503.into());
    assert!(error.to_string().contains("503"), "{error}");
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
        inner.rescript(
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
