//! The breaker's recovery, its other rules, and the hands on it.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use steadfast::{
    Backoff, Breaker, BreakerConfig, BreakerState, CallReport, ErrorKind, Policy, PolicyChanges,
    RefusalReason, Window,
};
use tokio::time::{advance, sleep};

const SECOND: Duration = Duration::from_secs(1);

/// Opens after three failures, for ten seconds, without chance.
fn three_failures() -> BreakerConfig {
    BreakerConfig::consecutive(3)
        .open_time(10 * SECOND)
        .open_jitter(0.0)
}

fn fail(breaker: &Breaker, times: u32) {
    for _ in 0..times {
        breaker.admit().unwrap().failure();
    }
}

/// A breaker whose recovery has just begun.
async fn recovering(config: BreakerConfig) -> Breaker {
    let breaker = Breaker::new("inventory", config).unwrap();
    fail(&breaker, 3);
    advance(10 * SECOND).await;
    breaker.admit().unwrap().success();
    assert_eq!(breaker.state(), BreakerState::Recovering);
    breaker
}

#[tokio::test(start_paused = true)]
async fn several_probes_are_never_let_through_at_once() {
    let breaker = Breaker::new("inventory", three_failures()).unwrap();
    fail(&breaker, 3);
    advance(10 * SECOND).await;
    let callers: Vec<_> = (0..50).map(|_| breaker.admit()).collect();
    assert_eq!(callers.iter().filter(|caller| caller.is_ok()).count(), 1);
    for refusal in callers.into_iter().filter_map(Result::err) {
        assert_eq!(refusal.reason(), RefusalReason::HalfOpen);
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_right_after_the_successful_probe_is_held_to_a_share() {
    let breaker = recovering(three_failures()).await;
    let callers: Vec<_> = (0..1000).map(|_| breaker.admit()).collect();
    let passed = callers.iter().filter(|caller| caller.is_ok()).count();
    assert!((104..=105).contains(&passed), "{passed}");
    let refused = callers.into_iter().find_map(Result::err).unwrap();
    assert_eq!(refused.reason(), RefusalReason::Recovering);
    assert_eq!(refused.retry_after(), Some(SECOND));
}

#[tokio::test(start_paused = true)]
async fn slow_traffic_recovers_without_a_refusal_and_ends_closed() {
    let breaker = recovering(three_failures()).await;
    for _ in 0..10 {
        breaker.admit().unwrap().success();
        advance(SECOND).await;
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    breaker.admit().unwrap().success();
    assert_eq!(
        breaker.snapshot().generation(),
        4,
        "opened, half-open, recovering, closed"
    );
}

#[test]
fn only_clones_are_handles_of_the_same_breaker() {
    let breaker = Breaker::new("inventory", three_failures()).unwrap();
    let twin = Breaker::new("inventory", three_failures()).unwrap();
    assert!(breaker.is_same(&breaker.clone()));
    assert!(!breaker.is_same(&twin));
}

#[tokio::test(start_paused = true)]
async fn a_look_says_what_admission_would() {
    let breaker = recovering(three_failures()).await;
    let mut looked = 0;
    for _ in 0..100 {
        let look = breaker.would_admit();
        assert_eq!(breaker.would_admit(), look, "a look changes nothing");
        assert_eq!(breaker.admit().is_ok(), look.is_ok());
        looked += u32::from(look.is_ok());
    }
    assert!(looked > 5);
}

#[tokio::test(start_paused = true)]
async fn forced_open_refuses_at_once_with_its_reason_and_stays_until_reset() {
    let breaker = Breaker::new("inventory", three_failures()).unwrap();
    let policy = Policy::builder("inventory")
        .breaker(breaker.clone())
        .build()
        .unwrap();
    breaker.force_open("moving to another data centre");
    let sent = AtomicU32::new(0);
    let call = || async {
        let call = policy.call(|| async {
            sent.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(())
        });
        CallReport::capture(call).await
    };
    for _ in 0..3 {
        let (answer, report) = call().await;
        let error = answer.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Refused, 0));
        let refusal = error.refusal().unwrap();
        assert_eq!(refusal.reason(), RefusalReason::ForcedOpen);
        assert_eq!(refusal.note(), Some("moving to another data centre"));
        assert!(error.to_string().contains("another data centre"), "{error}");
        assert_eq!(report.unwrap().attempts(), 0);
        advance(365 * 24 * 3600 * SECOND).await;
    }
    assert_eq!(
        breaker.snapshot().forced_reason(),
        Some("moving to another data centre")
    );
    breaker.reset();
    assert!(call().await.0.is_ok());
    assert_eq!(sent.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_forced_breaker_comes_before_a_full_limit() {
    let breaker = Breaker::new("inventory", three_failures().concurrency_limit(1)).unwrap();
    let _under_way = breaker.admit().unwrap();
    breaker.force_open("drill");
    let refusal = breaker.admit().unwrap_err();
    assert_eq!(refusal.reason(), RefusalReason::ForcedOpen);
    assert_eq!(refusal.note(), Some("drill"));
    assert_eq!(breaker.would_admit(), Err(refusal));
}

#[tokio::test(start_paused = true)]
async fn a_look_at_a_recovery_without_share_or_place_is_refused_as_the_call_is() {
    let breaker = recovering(three_failures().concurrency_limit(1).ramp_from(0.0)).await;
    for _ in 0..4 {
        breaker.admit().unwrap().success();
    }
    let _under_way = breaker.admit().unwrap();
    let look = breaker.would_admit().unwrap_err();
    assert_eq!(look.reason(), RefusalReason::ConcurrencyLimit);
    assert_eq!(breaker.admit().unwrap_err(), look);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_forgets_failed_recoveries_as_the_open_time_does() {
    let config = three_failures().no_ramp().max_open_time(60 * SECOND);
    let breaker = Breaker::new("inventory", config).unwrap();
    fail(&breaker, 3);
    advance(10 * SECOND).await;
    fail(&breaker, 1);
    advance(20 * SECOND).await;
    fail(&breaker, 1);
    advance(40 * SECOND).await;
    breaker.admit().unwrap().success();
    let remembered = || breaker.snapshot().failed_recoveries();
    assert_eq!(remembered(), 2);
    advance(60 * SECOND).await;
    assert_eq!(remembered(), 1);
    breaker.force_open("drill");
    advance(600 * SECOND).await;
    assert_eq!(remembered(), 1, "only time spent closed counts");
}

#[tokio::test(start_paused = true)]
async fn disabled_counts_and_never_opens() {
    let config = BreakerConfig::failure_rate(0.5).min_calls(4);
    let breaker = Breaker::new("inventory", config).unwrap();
    breaker.disable();
    fail(&breaker, 100);
    let snapshot = breaker.snapshot();
    assert_eq!(snapshot.state(), BreakerState::Disabled);
    assert_eq!((snapshot.calls(), snapshot.failures()), (100, 100));
    breaker.reset();
    assert_eq!(breaker.snapshot().calls(), 0);
    fail(&breaker, 4);
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn reconfigure_keeps_what_was_counted_and_the_open_time_that_has_begun() {
    let config = BreakerConfig::failure_rate(0.5)
        .min_calls(10)
        .open_time(10 * SECOND)
        .open_jitter(0.0);
    let breaker = Breaker::new("inventory", config.clone()).unwrap();
    fail(&breaker, 3);
    breaker.reconfigure(&config.clone().min_calls(4)).unwrap();
    assert_eq!(breaker.state(), BreakerState::Closed);
    fail(&breaker, 1);
    assert_eq!(breaker.state(), BreakerState::Open);
    breaker.reconfigure(&config.open_time(SECOND)).unwrap();
    advance(9 * SECOND).await;
    assert_eq!(breaker.state(), BreakerState::Open);
    advance(SECOND).await;
    breaker.admit().unwrap().failure();
    // The second opening by the new time, doubled for the failed recovery.
    assert_eq!(breaker.snapshot().next_check(), Some(2 * SECOND));
}

#[test]
fn reconfigure_refuses_what_takes_a_new_breaker_and_then_changes_nothing() {
    let config = BreakerConfig::failure_rate(0.5).min_calls(4);
    let breaker = Breaker::new("inventory", config.clone()).unwrap();
    let window = Window::time(20 * SECOND);
    for (changed, field) in [
        (config.clone().min_calls(1).window(window), "breaker.window"),
        (
            config.clone().min_calls(1).or_consecutive(1),
            "breaker.consecutive",
        ),
        (
            config.clone().min_calls(1).last_failed(1),
            "breaker.last_failed",
        ),
        (
            config.clone().min_calls(1).slow_calls(SECOND, 0.5),
            "breaker.slow_calls",
        ),
        (config.probes(0), "breaker.probes"),
    ] {
        assert_eq!(breaker.reconfigure(&changed).unwrap_err().field(), field);
    }
    let narrow = Breaker::new("inventory", BreakerConfig::consecutive(2)).unwrap();
    let wide = BreakerConfig::consecutive(1).or_failure_rate(0.1);
    assert_eq!(
        narrow.reconfigure(&wide).unwrap_err().field(),
        "breaker.failure_rate"
    );
    for breaker in [breaker, narrow] {
        fail(&breaker, 1);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_calls_open_it_though_all_succeed_and_a_slow_probe_opens_it_again() {
    let config = BreakerConfig::failure_rate(0.9)
        .min_calls(4)
        .slow_calls(SECOND, 0.5)
        .open_time(10 * SECOND)
        .open_jitter(0.0);
    let policy = Policy::builder("inventory")
        .breaker(config)
        .build()
        .unwrap();
    let breaker = policy.breaker().unwrap();
    let call = |seconds: u32| async move {
        let work = || async {
            sleep(seconds * SECOND).await;
            Ok::<_, std::io::Error>(())
        };
        policy_call(breaker, work).await
    };
    for seconds in [2, 0, 2] {
        assert!(call(seconds).await);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
    assert!(call(0).await);
    assert_eq!(breaker.state(), BreakerState::Open, "two of four were slow");
    advance(10 * SECOND).await;
    assert!(call(1).await, "the answer is handed on all the same");
    assert_eq!(breaker.state(), BreakerState::Open);
    advance(20 * SECOND).await;
    assert!(call(0).await);
    assert_eq!(breaker.state(), BreakerState::Recovering);
}

/// One call through a policy that shares the breaker.
async fn policy_call<F, Fut>(breaker: &Breaker, work: F) -> bool
where
    F: FnMut() -> Fut,
    Fut: Future<Output = std::io::Result<()>>,
{
    let policy = Policy::builder("inventory").breaker(breaker.clone());
    policy.build().unwrap().call(work).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn the_call_beyond_the_concurrency_limit_is_refused_and_proves_nothing() {
    let breaker = Breaker::new("inventory", three_failures().concurrency_limit(2)).unwrap();
    let first = breaker.admit().unwrap();
    let second = breaker.admit().unwrap();
    for _ in 0..10 {
        let refusal = breaker.admit().unwrap_err();
        assert_eq!(refusal.reason(), RefusalReason::ConcurrencyLimit);
        assert_eq!(breaker.would_admit(), Err(refusal));
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert_eq!(breaker.snapshot().in_flight(), 2);
    drop(first);
    second.success();
    assert_eq!(breaker.snapshot().in_flight(), 0);
    let _third = breaker.admit().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_concurrency_limit_follows_the_recovery_and_frees_no_place_twice() {
    let breaker = recovering(three_failures().concurrency_limit(10)).await;
    let held = breaker.admit().unwrap();
    assert!(breaker.admit().is_err(), "a tenth of ten");
    advance(5 * SECOND).await;
    let more: Vec<_> = (0..10).filter_map(|_| breaker.admit().ok()).collect();
    assert!((3..=4).contains(&more.len()), "{}", more.len());
    breaker.force_open("drill");
    assert!(breaker.admit().is_err());
    drop((held, more));
    assert_eq!(breaker.snapshot().in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_abandoned_late_count_as_failures_and_early_ones_do_not() {
    for (seconds, state) in [(4, BreakerState::Closed), (5, BreakerState::Open)] {
        let policy = Policy::builder("inventory")
            .attempt_timeout(10 * SECOND)
            .breaker(three_failures())
            .build()
            .unwrap();
        for _ in 0..3 {
            let call = policy.call(|| async { pending::<std::io::Result<()>>().await });
            let left = tokio::time::timeout(seconds * SECOND, call).await;
            assert!(left.is_err());
        }
        assert_eq!(
            policy.breaker().unwrap().state(),
            state,
            "left after {seconds} s"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_breaker_may_say_itself_when_an_abandoned_call_counts() {
    let config = three_failures().abandoned_after(SECOND);
    let policy = Policy::builder("inventory")
        .breaker(config)
        .build()
        .unwrap();
    for _ in 0..3 {
        let call = policy.call(|| async { pending::<std::io::Result<()>>().await });
        assert!(tokio::time::timeout(SECOND, call).await.is_err());
    }
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_told_of_changes_and_never_misses_the_last() {
    let breaker = Breaker::new("inventory", three_failures()).unwrap();
    let mut watch = breaker.watch();
    fail(&breaker, 3);
    assert_eq!(watch.changed().await, BreakerState::Open);
    let told = tokio::time::timeout(SECOND, watch.changed()).await;
    assert!(told.is_err(), "nothing has changed since");
    for _ in 0..100 {
        breaker.reset();
        breaker.force_open("drill");
    }
    breaker.disable();
    assert_eq!(watch.changed().await, BreakerState::Disabled);
}

#[test]
fn a_watch_ends_up_with_the_last_state_when_threads_change_it() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for _ in 0..50 {
        let breaker = Breaker::new("inventory", three_failures()).unwrap();
        let mut watch = breaker.watch();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        breaker.force_open("drill");
                        breaker.reset();
                    }
                });
            }
        });
        let told = runtime.block_on(watch.changed());
        assert_eq!(told, breaker.state());
    }
}

#[test]
fn reconfigure_under_load_loses_no_outcome_and_opens_at_nothing() {
    let config = BreakerConfig::failure_rate(1.0)
        .window(Window::count(100_000))
        .min_calls(100_000);
    let breaker = Arc::new(Breaker::new("inventory", config.clone()).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let breaker = Arc::clone(&breaker);
            scope.spawn(move || fail(&breaker, 20_000));
        }
        for calls in [100_000, 99_999].into_iter().cycle().take(200) {
            breaker
                .reconfigure(&config.clone().min_calls(calls))
                .unwrap();
        }
    });
    let snapshot = breaker.snapshot();
    assert_eq!((snapshot.calls(), snapshot.failures()), (40_000, 40_000));
    assert_eq!(snapshot.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_cycles_and_a_year_of_idling_change_nothing_but_the_generation() {
    let breaker = Breaker::new("inventory", three_failures().no_ramp().growth(1.0)).unwrap();
    for cycle in 0..100_000 {
        fail(&breaker, 3);
        advance(10 * SECOND).await;
        breaker.admit().unwrap().success();
        assert_eq!(breaker.snapshot().generation(), 3 * (cycle + 1));
    }
    advance(365 * 24 * 3600 * SECOND).await;
    fail(&breaker, 2);
    assert_eq!(breaker.state(), BreakerState::Closed);
    fail(&breaker, 1);
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_reconfigured_as_a_whole_or_not_at_all_and_keeps_its_state() {
    let config = BreakerConfig::failure_rate(0.5)
        .min_calls(10)
        .open_jitter(0.0);
    let policy = Policy::builder("inventory")
        .backoff(Backoff::none())
        .breaker(config.clone())
        .build()
        .unwrap();
    let sent = AtomicU32::new(0);
    let call = || async {
        let before = sent.load(Ordering::Relaxed);
        let work = || async {
            sent.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>(std::io::Error::other("down"))
        };
        policy.call(work).await.unwrap_err();
        sent.load(Ordering::Relaxed) - before
    };
    assert_eq!(call().await, 3);
    let balance = policy.budget_balance();

    let impossible = PolicyChanges::new()
        .max_attempts(1)
        .breaker(config.clone().probes(0));
    assert_eq!(
        policy.reconfigure(impossible).unwrap_err().field(),
        "breaker.probes"
    );
    let impossible = PolicyChanges::new()
        .max_attempts(0)
        .breaker(config.clone().min_calls(1));
    assert_eq!(
        policy.reconfigure(impossible).unwrap_err().field(),
        "max_attempts"
    );
    assert_eq!(policy.describe().most_sends(), 3);

    let changes = PolicyChanges::new()
        .max_attempts(1)
        .breaker(config.min_calls(4));
    policy.reconfigure(changes).unwrap();
    assert_eq!(policy.budget_balance(), balance);
    assert_eq!(call().await, 1, "the fourth failure of four");
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Open);
}

/// Through the stack, not only at the breaker: what is refused counts as asked.
#[tokio::test(start_paused = true)]
async fn a_recovery_lets_a_growing_share_through_the_stack_second_by_second() {
    let policy = Policy::builder("inventory")
        .breaker(three_failures())
        .build()
        .unwrap();
    let breaker = policy.breaker().unwrap();
    fail(breaker, 3);
    advance(10 * SECOND).await;
    breaker.admit().unwrap().success();
    for second in 0..10u32 {
        let mut passed = 0;
        for _ in 0..100 {
            let call = policy.call(|| async { Ok::<_, std::io::Error>(()) });
            passed += u32::from(call.await.is_ok());
            advance(SECOND / 100).await;
        }
        let share = 10 + 9 * second + 4;
        let handful = if second == 0 { 5 } else { 0 };
        let expected = share + handful;
        assert!(
            passed.abs_diff(expected) <= 1,
            "second {second}: {passed}, not {expected}"
        );
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
}
