//! Field cases of the breaker, varied: the same faults as in the other files,
//! with other numbers, other orders and features combined. A test's name starts
//! with the case's id.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::time::Duration;

use steadfast::{
    Backoff, Breaker, BreakerConfig, BreakerState, CallReport, Deadline, ErrorKind, Permit,
    ServiceBuilderExt, Stopped, Verdict, Window, classify::classify_fn, fallback,
};
use support::*;
use tokio_test::{assert_pending, task};
use tower::{ServiceBuilder, service_fn};

// ---- A01 and A02: news from another era, with more probes and by hand ---------

/// An open breaker of three probes, and a permit from before it opened.
async fn opened_with_three_probes(t: Clock) -> (Breaker, Permit) {
    let breaker = Breaker::new("case", bk().probes(3).successes(2)).unwrap();
    let old = breaker.admit().unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    t.reach(10.0).await;
    (breaker, old)
}

#[tokio::test(start_paused = true)]
async fn a01_an_old_success_is_not_one_of_the_two_that_close() {
    let t = Clock::start();
    let (breaker, old) = opened_with_three_probes(t).await;
    let [first, second, third] = [(); 3].map(|()| breaker.admit().unwrap());
    old.success();
    first.success();
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    third.neutral();
    second.success();
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a02_whatever_becomes_of_an_old_call_frees_no_probe_slot() {
    for end in [Permit::success, Permit::failure, Permit::neutral, drop] {
        let t = Clock::start();
        let (breaker, old) = opened_with_three_probes(t).await;
        let probes = [(); 3].map(|()| breaker.admit().unwrap());
        end(old);
        assert!(breaker.admit().is_err(), "a fourth probe");
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        drop(probes);
    }
}

#[tokio::test(start_paused = true)]
async fn a01_a_probe_of_the_last_period_is_void_in_the_next() {
    let t = Clock::start();
    let (breaker, old) = opened_with_three_probes(t).await;
    drop(old);
    // Two go out; one fails at once and opens it again. The other comes back
    // in the next half-open period, in which nobody has been asked yet.
    let late = breaker.admit().unwrap();
    breaker.admit().unwrap().failure();
    t.reach(20.0).await;
    let fresh = breaker.admit().unwrap();
    late.success();
    fresh.success();
    assert_eq!(breaker.state(), BreakerState::HalfOpen, "one of two");
    breaker.admit().unwrap().success();
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a01_what_was_admitted_before_a_change_by_hand_is_void_after_it() {
    for change in [Breaker::reset, Breaker::disable, |breaker: &Breaker| {
        breaker.force_open("drill");
        breaker.reset();
    }] {
        let breaker = Breaker::new("case", plain(BreakerConfig::consecutive(1))).unwrap();
        let old = [(); 3].map(|()| breaker.admit().unwrap());
        change(&breaker);
        let state = breaker.state();
        let [one, two, three] = old;
        one.failure();
        two.success();
        drop(three);
        assert_eq!(breaker.state(), state);
        assert_eq!(breaker.snapshot().failures(), 0);
        assert!(breaker.admit().is_ok());
    }
}

// ---- A13 and A27: third outcomes and cancellations in one period ---------------

#[tokio::test(start_paused = true)]
async fn a13_drops_among_neutral_answers_neither_count_nor_start_the_count_again() {
    let t = Clock::start();
    let breaker = Breaker::new("case", bk()).unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    t.reach(10.0).await;
    for _ in 0..9 {
        breaker.admit().unwrap().neutral();
        drop(breaker.admit().unwrap());
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        let probe = breaker.admit().unwrap();
        assert!(breaker.admit().is_err(), "one slot, taken twice");
        drop(probe);
    }
    breaker.admit().unwrap().neutral();
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a27_a_crowd_of_cancelled_probes_leaves_as_many_slots_as_before() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Hang);
    let policy = bare().breaker(bk().probes(3).successes(3)).build().unwrap();
    let client = stack(&policy, &inner);
    four_failures(&client).await;
    t.reach(10.0).await;
    for round in 0..20 {
        let mut probes = [(); 3].map(|()| task::spawn(send(&client, "probe")));
        for probe in &mut probes {
            assert_pending!(probe.poll());
        }
        assert_refused(&send(&client, "a fourth").await);
        // Dropped in another order each time.
        let mut probes = probes.into_iter().collect::<Vec<_>>();
        while !probes.is_empty() {
            drop(probes.swap_remove(round % probes.len()));
        }
    }
    assert_eq!(inner.calls(), 4 + 60);
    inner.rescript([], Step::Ok);
    for _ in 0..3 {
        assert!(send(&client, "probe").await.is_ok());
    }
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a27_a_probe_cancelled_while_it_waits_for_readiness_or_backoff_holds_no_slot() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Say("ignore"));
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(5.0)))
        .breaker(bk())
        .classify(classify_fn(|result: Result<&Text, &Source>| match result {
            Ok(&"ignore") => Verdict::throttled(None),
            Ok(_) => Verdict::success(),
            Err(_) => Verdict::transient().never_again(),
        }))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(inner.clone());
    for _ in 0..4 {
        assert!(send(&client, "fail").await.is_err());
    }
    t.reach(10.0).await;
    let mut sleeps = task::spawn(send(&client, "throttled, and asleep"));
    assert_pending!(sleeps.poll());
    inner.set_readiness([Ready::Never], Ready::Now);
    let mut waits = task::spawn(send(&client, "waits for readiness"));
    assert_pending!(waits.poll());
    assert_refused(&send(&client, "the slot is taken").await);
    drop(waits);
    inner.set_readiness([], Ready::Now);
    inner.rescript([], Step::Ok);
    assert!(send(&client, "the next probe").await.is_ok());
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Closed);
    drop(sleeps);
}

// ---- A07: a hung backend behind callers' deadlines only ------------------------

#[tokio::test(start_paused = true)]
async fn a07_without_any_limit_of_its_own_a_policy_says_that_hangs_go_unheard() {
    let inner = Inner::always(Step::Hang);
    let policy = bare().breaker(bk()).build().unwrap();
    let warnings = policy.describe().warnings().join("\n");
    assert!(warnings.contains("open no breaker"), "{warnings}");
    let client = stack(&policy, &inner);
    for _ in 0..10 {
        let call = Deadline::after(secs(1.0)).scope(send(&client, "x"));
        assert_eq!(kind(&call.await), Some(ErrorKind::DeadlineExceeded));
    }
    assert_eq!(inner.calls(), 10);
    // Said once, it is heard.
    let inner = Inner::always(Step::Hang);
    let policy = bare().deadline(secs(2.0)).breaker(bk()).build().unwrap();
    let client = stack(&policy, &inner);
    for _ in 0..10 {
        let call = Deadline::after(secs(1.0)).scope(send(&client, "x"));
        assert!(call.await.is_err());
    }
    assert_eq!(inner.calls(), 4);
}

// ---- A11: asleep when the breaker opens ------------------------------------------

#[tokio::test(start_paused = true)]
async fn a11_a_call_asleep_when_the_breaker_opens_ends_when_it_wakes_and_sends_nothing() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 2], Step::Ok);
    let policy = bare()
        .max_attempts(4)
        .backoff(Backoff::fixed(secs(5.0)))
        .breaker(plain(BreakerConfig::consecutive(2)).open_time(secs(60.0)))
        .retry_budget(budget(10.0))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    let asleep = tokio::spawn(send(&client, "first"));
    t.reach(1.0).await;
    assert_eq!(policy.budget_balance(), Some(9.0));
    let opens = send(&client, "second").await.unwrap_err();
    assert!(matches!(opens.stopped(), Some(Stopped::Breaker(_))));
    t.assert_now(1.0);

    let error = asleep.await.unwrap().unwrap_err();
    t.assert_now(5.0);
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert_eq!(error.attempts(), 1);
    assert_eq!(fault(&error), Some(Fault("scripted")));
    assert_eq!(inner.calls(), 2);
    assert_eq!(policy.budget_balance(), Some(10.0), "no attempt, no charge");
}

// ---- A17, A18 and A28: when it opens, and from when on ----------------------------

#[tokio::test(start_paused = true)]
async fn a28_every_failure_of_a_period_is_timed_by_its_end() {
    // Four calls from T=0 on fail at T=1, 2, 3 and 30: open until 40.
    let t = Clock::start();
    let inner = Inner::script([1.0, 2.0, 3.0, 30.0].map(Step::ErrAfter), Step::Ok);
    let policy = bare().breaker(bk()).build().unwrap();
    let client = stack(&policy, &inner);
    let calls = [(); 4].map(|()| tokio::spawn(send(&client, "x")));
    for call in calls {
        assert!(call.await.unwrap().is_err());
    }
    t.assert_now(30.0);
    t.reach(39.998).await;
    assert_refused(&send(&client, "early").await);
    t.reach(40.002).await;
    assert!(send(&client, "probe").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a28_a_hint_stretches_the_open_time_from_the_failure_on_and_no_further_than_its_limit() {
    for (hint, open) in [
        (secs(5.0), 10.0),
        (secs(25.0), 25.0),
        (secs(40.0), 30.0),
        (Duration::MAX, 30.0),
    ] {
        let t = Clock::start();
        let config = plain(BreakerConfig::consecutive(1)).max_hint_open(secs(30.0));
        let breaker = Breaker::new("case", config).unwrap();
        let permit = breaker.admit().unwrap();
        t.reach(7.0).await;
        permit.record(&Verdict::overloaded(Some(hint)));
        t.reach(7.0 + open - 0.002).await;
        assert!(breaker.admit().is_err(), "{hint:?}");
        t.reach(7.0 + open + 0.002).await;
        assert!(breaker.admit().is_ok(), "{hint:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a14_jitter_on_the_open_time_adds_no_more_than_its_share_even_at_the_longest() {
    let config = plain(BreakerConfig::consecutive(1))
        .growth(2.0)
        .max_open_time(secs(40.0))
        .open_jitter(0.25);
    for _ in 0..50 {
        let breaker = Breaker::new("case", config.clone()).unwrap();
        let mut grown = 10.0;
        for _ in 0..5 {
            breaker.admit().unwrap().failure();
            let open = breaker.snapshot().next_check().unwrap().as_secs_f64();
            assert!((grown..=grown * 1.25).contains(&open), "{open} of {grown}");
            grown = f64::min(grown * 2.0, 40.0);
            tokio::time::advance(secs(open + 0.001)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a24_open_times_of_many_failed_recoveries_stay_at_the_longest() {
    for (open, longest, growth) in [
        (Duration::from_nanos(1), secs(300.0), 2.0),
        (secs(1.0), Duration::MAX, 1e9),
        (secs(1.0), secs(300.0), f64::MAX),
        (Duration::MAX, Duration::MAX, f64::MAX),
    ] {
        let config = BreakerConfig::consecutive(1)
            .open_time(open)
            .max_open_time(longest)
            .growth(growth)
            .open_jitter(10.0)
            .no_ramp();
        let breaker = Breaker::new("case", config).unwrap();
        for _ in 0..200 {
            match breaker.admit() {
                Ok(permit) => permit.failure(),
                Err(_) => break,
            }
            let check = breaker.snapshot().next_check().unwrap();
            assert!(check <= longest.saturating_mul(11), "{check:?}");
            if check > secs(1e7) {
                break;
            }
            tokio::time::advance(check + Duration::from_millis(1)).await;
        }
        assert_ne!(breaker.state(), BreakerState::Closed);
    }
}

// ---- A09: through the stack ---------------------------------------------------------

#[cfg(feature = "keyed")]
#[tokio::test(start_paused = true)]
async fn a09_a_stack_keeps_the_breaker_of_a_failing_key_through_a_crowd() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use steadfast::Breakers;
    use tower::ServiceExt;

    const FAILING: u64 = u64::MAX;
    let config = plain(BreakerConfig::consecutive(5));
    let keys = Breakers::bounded("keys", config, 1_000, secs(600.0)).unwrap();
    let policy = bare()
        .breakers(keys.clone(), |key: &u64| key)
        .build()
        .unwrap();
    let failing = AtomicUsize::new(0);
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(|key: u64| {
            let fails = key == FAILING;
            failing.fetch_add(usize::from(fails), Ordering::Relaxed);
            std::future::ready(if fails {
                Err(Fault("scripted"))
            } else {
                Ok(())
            })
        }));
    let mut newcomers = 0_u64..;
    for _ in 0..5 {
        assert_eq!(
            kind(&client.clone().oneshot(FAILING).await),
            Some(ErrorKind::Failed)
        );
        for key in newcomers.by_ref().take(2_000) {
            client.clone().oneshot(key).await.unwrap();
            assert!(keys.len() <= 1_000);
        }
    }
    assert_refused(&client.clone().oneshot(FAILING).await);
    for key in newcomers.by_ref().take(5_000) {
        client.clone().oneshot(key).await.unwrap();
        assert!(keys.len() <= 1_000);
    }
    assert_refused(&client.clone().oneshot(FAILING).await);
    assert_eq!(failing.into_inner(), 5);
    assert_eq!(keys.overflowed(), 0);
}

#[cfg(feature = "keyed")]
#[tokio::test(start_paused = true)]
async fn a09_keys_in_every_state_that_knows_something_outlive_a_crowd_and_the_idle_time() {
    use steadfast::Breakers;
    let config = bk().ramp(secs(5.0));
    let keys = Breakers::<u64>::bounded("keys", config, 8, secs(1.0)).unwrap();
    let fail = |key: u64, times: u32| {
        for _ in 0..times {
            keys.get(&key).admit().unwrap().failure();
        }
    };
    // 0 counts failures, 1 is open, 2 is half-open, 3 recovers, 4 and 5 are
    // steered by hand.
    let t = Clock::start();
    fail(2, 4);
    fail(3, 4);
    t.reach(10.001).await;
    let probe = keys.get(&2).admit().unwrap();
    keys.get(&3).admit().unwrap().success();
    fail(1, 4);
    keys.get(&4).force_open("drill");
    keys.get(&5).disable();
    t.reach(12.0).await;
    fail(0, 3);
    for key in 100..10_100 {
        keys.get(&key).admit().unwrap().success();
        assert!(keys.len() <= 8);
    }
    keys.drop_idle();
    let states = [0, 1, 2, 3, 4, 5].map(|key| keys.get(&key).state());
    assert_eq!(
        states,
        [
            BreakerState::Closed,
            BreakerState::Open,
            BreakerState::HalfOpen,
            BreakerState::Recovering,
            BreakerState::ForcedOpen,
            BreakerState::Disabled,
        ]
    );
    assert_eq!(keys.get(&0).snapshot().failures(), 3);
    fail(0, 1);
    assert_eq!(keys.get(&0).state(), BreakerState::Open);
    drop(probe);
}

// ---- A28: the time of what happened within one poll ----------------------------

/// Lets two seconds pass within the poll that is under way.
fn be_busy() {
    let mut passes = task::spawn(tokio::time::advance(secs(2.0)));
    assert_pending!(passes.poll());
}

/// A service that is busy for two seconds and answers in the same poll.
fn busy() -> impl Client {
    let config = plain(BreakerConfig::consecutive(9))
        .window(Window::count(4))
        .slow_calls(secs(1.0), 1.0)
        .min_calls(4);
    let policy = bare().breaker(config).build().unwrap();
    ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(|_: Text| {
            be_busy();
            std::future::ready(Ok::<_, Fault>("ok"))
        }))
}

#[tokio::test(start_paused = true)]
async fn a28_a_call_that_is_busy_in_its_first_poll_is_slow_all_the_same() {
    let client = busy();
    for _ in 0..4 {
        assert!(send(&client, "x").await.is_ok());
    }
    assert_refused(&send(&client, "fifth").await);
}

#[tokio::test(start_paused = true)]
async fn a28_the_report_of_a_call_that_is_busy_in_its_first_poll_tells_its_time() {
    let (answer, report) = CallReport::capture(send(&busy(), "x")).await;
    assert!(answer.is_ok());
    assert_eq!(report.unwrap().elapsed(), secs(2.0));
}

#[tokio::test(start_paused = true)]
async fn a28_the_report_tells_its_time_where_no_breaker_asks_for_it() {
    let client = ServiceBuilder::new()
        .resilience(bare().build().unwrap())
        .service(service_fn(|_: Text| {
            be_busy();
            std::future::ready(Ok::<_, Fault>("ok"))
        }));
    let (answer, report) = CallReport::capture(send(&client, "x")).await;
    assert!(answer.is_ok());
    assert_eq!(report.unwrap().elapsed(), secs(2.0));
}

#[tokio::test(start_paused = true)]
async fn a28_a_hang_that_begins_busily_is_cut_by_the_limit_that_has_passed() {
    for (attempt, total, expected) in [
        (secs(10.0), secs(1.0), ErrorKind::DeadlineExceeded),
        (secs(1.0), secs(10.0), ErrorKind::TimedOut),
        (secs(1.0), secs(1.5), ErrorKind::DeadlineExceeded),
    ] {
        let t = Clock::start();
        let policy = bare()
            .attempt_timeout(attempt)
            .deadline(total)
            .max_attempts(1)
            .breaker(plain(BreakerConfig::consecutive(1)))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy.clone())
            .service(service_fn(|_: Text| {
                be_busy();
                std::future::pending::<Result<Text, Fault>>()
            }));
        let error = send(&client, "x").await.unwrap_err();
        assert_eq!(error.kind(), expected, "{attempt:?} of {total:?}");
        assert_eq!(error.elapsed(), secs(2.0));
        t.assert_now(2.0);
        // Open from then on, not from before.
        let check = policy.breaker().unwrap().snapshot().next_check();
        assert_eq!(check, Some(secs(10.0)));
    }
}

#[tokio::test(start_paused = true)]
async fn a28_readiness_that_fails_busily_opens_the_breaker_from_then_on() {
    #[derive(Clone)]
    struct Unready;
    impl tower::Service<Text> for Unready {
        type Response = Text;
        type Error = Fault;
        type Future = std::future::Ready<Result<Text, Fault>>;
        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), Fault>> {
            be_busy();
            std::task::Poll::Ready(Err(Fault("not ready")))
        }
        fn call(&mut self, _: Text) -> Self::Future {
            unreachable!("never ready")
        }
    }
    let policy = bare()
        .breaker(plain(BreakerConfig::consecutive(1)))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(Unready);
    let error = send(&client, "x").await.unwrap_err();
    assert_eq!(error.elapsed(), secs(2.0));
    let check = policy.breaker().unwrap().snapshot().next_check();
    assert_eq!(check, Some(secs(10.0)));
}

// ---- A12: an open breaker below a fallback, and after a change by hand -----------------

#[tokio::test(start_paused = true)]
async fn a12_a_fallback_answers_for_an_open_breaker_and_polls_nothing_below_it() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let policy = bare().breaker(bk()).build().unwrap();
    let bare_client = stack(&policy, &inner);
    let client = ServiceBuilder::new()
        .fallback(fallback::value("elsewhere"))
        .resilience(policy.clone())
        .service(inner.clone());
    four_failures(&bare_client).await;
    inner.set_readiness([], Ready::Never);
    let polls = inner.polls();
    for _ in 0..10 {
        assert_eq!(send(&client, "x").await.unwrap(), "elsewhere");
    }
    policy.breaker().unwrap().force_open("drill");
    t.reach(60.0).await;
    assert_eq!(send(&client, "x").await.unwrap(), "elsewhere");
    t.assert_now(60.0);
    assert_eq!(inner.polls(), polls);
}

// ---- A26: a crowd at the door of one key --------------------------------------------------

#[cfg(feature = "keyed")]
#[tokio::test(start_paused = true)]
async fn a26_a_crowd_for_one_key_gets_its_probes_and_no_more_whatever_others_do() {
    use steadfast::Breakers;
    let t = Clock::start();
    let config = plain(BreakerConfig::consecutive(1)).probes(2).successes(2);
    let keys = Breakers::<String>::bounded("keys", config, 2, secs(60.0)).unwrap();
    let inner = Inner::script([Step::Err], Step::OkAfter(1.0));
    let policy = bare()
        .breakers(keys.clone(), |key: &Text| *key)
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(inner.clone());
    assert!(send(&client, "key").await.is_err());
    t.reach(10.0).await;
    let crowd: Vec<_> = (0..10)
        .map(|_| tokio::spawn(send(&client, "key")))
        .collect();
    let others = ["a", "b", "c", "d"].map(|key| tokio::spawn(send(&client, key)));
    t.reach(10.5).await;
    let refused = crowd.iter().filter(|call| call.is_finished()).count();
    assert_eq!(refused, 8);
    for call in others {
        assert!(call.await.unwrap().is_ok());
    }
    t.reach(11.002).await;
    assert!(send(&client, "key").await.is_ok());
    let sent = inner.requests();
    assert_eq!(sent.iter().filter(|key| **key == "key").count(), 1 + 2 + 1);
}

// ---- A13: half-open, and the number of successes lowered -----------------------------------

#[tokio::test(start_paused = true)]
async fn a13_half_open_moves_on_when_fewer_successes_are_asked_for_than_there_were() {
    for third in [None, Some(Permit::neutral as fn(Permit)), Some(drop)] {
        for ramp in [Duration::ZERO, secs(5.0)] {
            let t = Clock::start();
            let config = bk().probes(3).successes(3).ramp(ramp);
            let breaker = Breaker::new("case", config.clone()).unwrap();
            for _ in 0..4 {
                breaker.admit().unwrap().failure();
            }
            t.reach(10.0).await;
            breaker.admit().unwrap().success();
            breaker.admit().unwrap().success();
            let out = third.map(|end| (breaker.admit().unwrap(), end));
            breaker.reconfigure(&config.probes(2).successes(2)).unwrap();
            if let Some((permit, end)) = out {
                end(permit);
            }
            assert!(breaker.would_admit().is_ok());
            assert!(
                breaker.admit().is_ok(),
                "the two that were asked for are there"
            );
            let state = breaker.state();
            let expected = [BreakerState::Closed, BreakerState::Recovering];
            assert_eq!(state, expected[usize::from(!ramp.is_zero())]);
        }
    }
}
