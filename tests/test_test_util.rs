//! What a user's tests stand on: the scripted service, forced states, a budget
//! that is spent, and jitter that can be repeated.

#![cfg(feature = "test-util")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steadfast::defer::DeferLayer;
use steadfast::telemetry::{Event, Observer};
use steadfast::test_util::{
    ScriptedError, ScriptedFuture, ScriptedService, Step, force_state, set_budget_balance,
};
use steadfast::{
    Backoff, Breaker, BreakerConfig, BreakerState, Deadline, ErrorKind, Policy, RetryBudget,
    ServiceBuilderExt, Stopped, Window,
};
use support::{bare, secs};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, assert_ready_err, assert_ready_ok, task};
use tower::{Service, ServiceBuilder, ServiceExt};

type Scripted = ScriptedService<&'static str, u32>;

/// The message of the panic that `run` ends in.
fn panic_of<T>(run: impl FnOnce() -> T) -> String {
    let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(run)) else {
        panic!("it did not panic");
    };
    let owned = panic.downcast_ref::<String>().cloned();
    owned.unwrap_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).to_owned())
}

/// Ready and call, without a runtime's help.
fn send(service: &Scripted) -> task::Spawn<ScriptedFuture<u32, ScriptedError>> {
    let mut service = service.clone();
    assert_ready_ok!(task::spawn(service.ready()).poll());
    task::spawn(service.call("teapot"))
}

// ---- the script --------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn steps_are_taken_in_their_order_each_as_often_as_it_says() {
    let service = Scripted::new()
        .then(Step::ok(1).times(2))
        .then(Step::ok(9).times(0))
        .then(Step::fail("reset"))
        .then_always(Step::ok(4));
    assert_eq!(service.remaining(), 3);
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.push(service.clone().oneshot("teapot").await);
    }
    let reset = || Err(ScriptedError::new("reset"));
    assert_eq!(answers, [Ok(1), Ok(1), reset(), Ok(4), Ok(4), Ok(4)]);
    assert_eq!((service.calls(), service.remaining()), (6, 0));
}

#[test]
fn a_call_beyond_the_script_panics_and_says_which_one_it_was() {
    let service = Scripted::new().then(Step::ok(1).times(3));
    for _ in 0..3 {
        assert_eq!(assert_ready!(send(&service).poll()), Ok(1));
    }
    let message = panic_of(|| send(&service));
    assert!(
        message.starts_with("call 4 of a script for 3:"),
        "{message}"
    );
    assert_eq!((service.calls(), service.in_flight()), (4, 0));
    // It is no worse for it: more steps, and it goes on.
    let service = service.then(Step::ok(2));
    assert_eq!(assert_ready!(send(&service).poll()), Ok(2));
}

#[test]
fn a_switch_forgets_the_rest_of_the_script() {
    let service = Scripted::new().then(Step::fail("down").times(10));
    let mut early = send(&service);
    service.switch_to(Step::ok(3));
    assert_eq!(service.remaining(), 0);
    assert_eq!(assert_ready!(send(&service).poll()), Ok(3));
    assert_ready_err!(early.poll());
    // Of ten steps, one was used and nine forgotten.
    let service = Scripted::new().then(Step::ok(1).times(10));
    let _first = send(&service);
    let mut unused = service.clone();
    assert_ready_ok!(task::spawn(unused.ready()).poll());
    service.switch_to(Step::ok(3));
    drop(unused);
    assert_eq!(assert_ready!(send(&service).poll()), Ok(3));
}

#[test]
fn an_answer_may_be_made_of_the_request() {
    let service: ScriptedService<String, usize> =
        ScriptedService::always(Step::respond(|item: &String| match item.as_str() {
            "" => Err(ScriptedError::new("which item?")),
            item => Ok(item.len()),
        }));
    let call = |item: &str| {
        let mut service = service.clone();
        assert_ready_ok!(task::spawn(service.ready()).poll());
        assert_ready!(task::spawn(service.call(item.to_owned())).poll())
    };
    assert_eq!(call("teapot"), Ok(6));
    assert_eq!(call("").unwrap_err().to_string(), "which item?");
}

#[test]
fn requests_that_cannot_be_cloned_are_handed_out_once() {
    struct Order(u32);
    let service: ScriptedService<Order, u32> = ScriptedService::always(Step::ok(1));
    let mut clone = service.clone();
    for number in 1..=2 {
        assert_ready_ok!(task::spawn(clone.ready()).poll());
        assert_ready_ok!(task::spawn(clone.call(Order(number))).poll());
    }
    let orders: Vec<u32> = service
        .take_recorded()
        .into_iter()
        .map(|call| call.into_request().0)
        .collect();
    assert_eq!(orders, [1, 2]);
    assert!(service.take_recorded().is_empty());
    assert_eq!(service.calls(), 2);
}

#[test]
fn a_call_without_a_readiness_of_its_own_panics() {
    let service = Scripted::always(Step::ok(1));
    let mut first = service.clone();
    assert_ready_ok!(task::spawn(first.ready()).poll());
    let message = panic_of(|| first.clone().call("teapot"));
    assert!(message.contains("without a readiness"), "{message}");
    // One readiness is one call.
    drop(first.call("teapot"));
    let message = panic_of(|| first.call("teapot"));
    assert!(message.contains("without a readiness"), "{message}");
}

#[test]
fn a_step_whose_call_never_came_is_the_next_ones() {
    let service = Scripted::new().then(Step::ok(1)).then(Step::ok(2));
    let mut unused = service.clone();
    assert_ready_ok!(task::spawn(unused.ready()).poll());
    assert_eq!(service.remaining(), 1);
    drop(unused);
    assert_eq!(service.remaining(), 2);
    assert_eq!(assert_ready!(send(&service).poll()), Ok(1));
    assert_eq!(assert_ready!(send(&service).poll()), Ok(2));
    // What comes after the script is not added to it.
    let service = service.then_always(Step::ok(3));
    let mut unused = service.clone();
    assert_ready_ok!(task::spawn(unused.ready()).poll());
    drop(unused);
    assert_eq!(service.remaining(), 0);
}

// ---- times -------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn delays_are_measured_from_the_call_on_tokios_clock() {
    let service = Scripted::new()
        .then(Step::ok(1).after(secs(0.08)))
        .then(Step::fail("late").after(secs(2.0)))
        .then(Step::ok(3).ready_after(secs(1.0)).after(secs(1.0)));
    let start = Instant::now();
    for (done, works) in [(0.08, true), (2.08, false), (4.08, true)] {
        let answer = service.clone().oneshot("teapot").await;
        assert_eq!(answer.is_ok(), works);
        support::assert_times(&[start.elapsed().as_secs_f64()], &[done]);
    }
    let third = &service.recorded()[2];
    support::assert_times(&[(third.at() - start).as_secs_f64()], &[3.08]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cut_short_counts_as_dropped_and_one_that_ends_does_not() {
    let service = Scripted::new()
        .then(Step::hang())
        .then(Step::ok(1))
        .then(Step::panic("boom"));
    let mut hanging = send(&service);
    assert_pending!(hanging.poll());
    assert_eq!((service.calls(), service.in_flight()), (1, 1));
    drop(hanging);
    assert_eq!((service.dropped(), service.in_flight()), (1, 0));
    assert_ready_ok!(send(&service).poll());
    let mut panics = send(&service);
    assert_eq!(panic_of(|| panics.poll()), "boom");
    drop(panics);
    assert_eq!((service.dropped(), service.in_flight()), (1, 0));
    assert_eq!(service.calls(), 3);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a scripted call that hangs was waited for")]
async fn a_hang_that_nothing_cuts_short_fails_the_test_instead_of_hanging_it() {
    let service = Scripted::always(Step::hang());
    let _ = service.oneshot("teapot").await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "never ready was waited for")]
async fn so_does_a_readiness_that_never_comes() {
    let service = Scripted::always(Step::never_ready());
    let _ = service.oneshot("teapot").await;
}

// ---- under a policy ----------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn the_scripted_service_sees_attempt_and_deadline() {
    let service = Scripted::new()
        .then(Step::fail("reset").after(secs(1.5)))
        .then(Step::ok(2));
    let outside = service.clone().then(Step::ok(3));
    let policy = bare().max_attempts(2).deadline(secs(5.0)).build().unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service.clone());
    client.oneshot("teapot").await.unwrap();
    outside.oneshot("kettle").await.unwrap();
    let seen: Vec<_> = service
        .recorded()
        .iter()
        .map(|call| {
            let left = call.time_left().map(|left| left.as_secs());
            (*call.request(), call.attempt(), left)
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("teapot", 1, Some(5)),
            ("teapot", 2, Some(3)),
            ("kettle", 0, None)
        ]
    );
    let first = &service.recorded()[0];
    assert_eq!(first.deadline(), Some(Deadline::at(first.at() + secs(5.0))));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_ready_uses_up_a_step_and_no_call() {
    let service = Scripted::new()
        .then(Step::never_ready())
        .then(Step::ok(2))
        .then(Step::not_ready(ScriptedError::new("closed")));
    let policy = bare()
        .max_attempts(2)
        .attempt_timeout(secs(1.0))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service.clone());
    assert_eq!(client.clone().oneshot("teapot").await.unwrap(), 2);
    assert_eq!((service.calls(), service.remaining()), (1, 1));
    let error = client.oneshot("teapot").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!((service.calls(), service.remaining()), (1, 0));
}

// ---- forced states -----------------------------------------------------------

/// Rules of all kinds, with two probes and two successes.
fn breakers() -> [Breaker; 4] {
    [
        BreakerConfig::default(),
        BreakerConfig::consecutive(7),
        BreakerConfig::failure_rate(1.0)
            .window(Window::count(1000))
            .min_calls(1000)
            .concurrency_limit(3),
        BreakerConfig::default().slow_calls(secs(1.0), 0.5),
    ]
    .map(|config| Breaker::new("inventory", config.probes(2).successes(2)).unwrap())
}

const STATES: [BreakerState; 6] = [
    BreakerState::Closed,
    BreakerState::Open,
    BreakerState::HalfOpen,
    BreakerState::Recovering,
    BreakerState::ForcedOpen,
    BreakerState::Disabled,
];

#[tokio::test(start_paused = true)]
async fn every_state_can_be_reached_from_every_other_without_time() {
    let start = Instant::now();
    for breaker in breakers() {
        for from in STATES {
            for to in STATES {
                force_state(&breaker, from);
                force_state(&breaker, to);
                assert_eq!(breaker.state(), to, "from {from:?}");
                assert_eq!(breaker.snapshot().failed_recoveries(), 0);
            }
        }
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_forced_state_goes_on_by_the_breakers_own_rules() {
    for breaker in breakers() {
        force_state(&breaker, BreakerState::Open);
        let open_for = breaker.snapshot().next_check().unwrap();
        assert!(
            open_for >= secs(5.0) && open_for <= secs(6.25),
            "{open_for:?}"
        );
        advance(open_for).await;
        assert_eq!(breaker.state(), BreakerState::HalfOpen);

        force_state(&breaker, BreakerState::HalfOpen);
        let probes = [breaker.admit().unwrap(), breaker.admit().unwrap()];
        breaker.admit().unwrap_err();
        probes.into_iter().for_each(steadfast::Permit::success);
        assert_eq!(breaker.state(), BreakerState::Recovering);

        force_state(&breaker, BreakerState::HalfOpen);
        breaker.admit().unwrap().failure();
        assert_eq!(breaker.state(), BreakerState::Open);

        force_state(&breaker, BreakerState::Recovering);
        assert!(breaker.snapshot().share() < 0.5);
        advance(secs(10.0)).await;
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_admitted_before_changes_nothing_after() {
    let [breaker, ..] = breakers();
    for state in STATES {
        force_state(&breaker, BreakerState::HalfOpen);
        let early = breaker.admit().unwrap();
        force_state(&breaker, state);
        early.failure();
        assert_eq!(breaker.state(), state);
    }
}

#[test]
fn a_breaker_without_a_ramp_cannot_recover() {
    let breaker = Breaker::new("inventory", BreakerConfig::default().no_ramp()).unwrap();
    let message = panic_of(|| force_state(&breaker, BreakerState::Recovering));
    assert!(message.contains("`inventory`"), "{message}");
    force_state(&breaker, BreakerState::HalfOpen);
}

#[test]
fn observers_are_told_of_each_step_on_the_way() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<&'static str>>);
    impl Observer for Heard {
        fn on_event(&self, event: &Event<'_>) {
            let name = match event {
                Event::BreakerOpened { .. } => "opened",
                Event::BreakerHalfOpen { .. } => "half-open",
                Event::BreakerRecovering { .. } => "recovering",
                Event::BreakerClosed { .. } => "closed",
                _ => return,
            };
            self.0.lock().unwrap().push(name);
        }
    }
    let [breaker, ..] = breakers();
    let heard = Arc::new(Heard::default());
    breaker.observe(heard.clone());
    heard.0.lock().unwrap().clear();
    force_state(&breaker, BreakerState::Recovering);
    let heard = heard.0.lock().unwrap().clone();
    assert_eq!(heard, ["closed", "opened", "half-open", "recovering"]);
}

// ---- the budget ----------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_budget_goes_on_from_the_balance_that_it_was_given() {
    let down = Scripted::always(Step::fail("down"));
    let policy = bare()
        .max_attempts(2)
        .retry_budget(RetryBudget::ratio(0.1).trickle(0.1))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(down.clone());
    advance(secs(100.0)).await; // nothing of this time trickles in later
    set_budget_balance(&policy, 1.5);
    assert_eq!(policy.budget_balance(), Some(1.5));
    let stops = async || {
        let error = client.clone().oneshot("teapot").await.unwrap_err();
        error.stopped()
    };
    assert_eq!(stops().await, Some(Stopped::AttemptsExhausted));
    assert_eq!(stops().await, Some(Stopped::BudgetExhausted));
    assert_eq!(policy.budget_balance(), Some(0.5));
    advance(secs(5.0)).await;
    assert_eq!(stops().await, Some(Stopped::AttemptsExhausted));
    set_budget_balance(&policy, 1e300);
    assert_eq!(policy.budget_balance(), Some(10.0));
    assert_eq!(down.calls(), 2 + 1 + 2);
}

#[test]
fn a_balance_that_cannot_be_is_told_by_a_panic() {
    let policy = bare().retry_budget(RetryBudget::default()).build().unwrap();
    for tokens in [-1.0, f64::NAN] {
        panic_of(|| set_budget_balance(&policy, tokens));
    }
    let message = panic_of(|| set_budget_balance(&bare().build().unwrap(), 1.0));
    assert!(message.contains("`case` has no retry budget"), "{message}");
    let concurrent = bare().retry_budget(RetryBudget::concurrent(0.2)).build();
    let message = panic_of(|| set_budget_balance(&concurrent.unwrap(), 1.0));
    assert!(message.contains("concurrent"), "{message}");
}

// ---- seeds ---------------------------------------------------------------------

/// Eight open times in a row, in nanoseconds, with a growth of 1.
fn open_times(config: BreakerConfig) -> Vec<u128> {
    let breaker = Breaker::new("inventory", config.growth(1.0)).unwrap();
    (0..8)
        .map(|_| {
            force_state(&breaker, BreakerState::HalfOpen);
            breaker.admit().unwrap().failure();
            breaker.snapshot().next_check().unwrap().as_nanos()
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn breakers_of_equal_seeds_open_for_equal_times_and_others_do_not() {
    let seeded = |seed| open_times(BreakerConfig::default().seed(seed));
    assert_eq!(seeded(7), seeded(7));
    assert_ne!(seeded(7), seeded(8));
    let unseeded = || open_times(BreakerConfig::default());
    assert_ne!(unseeded(), unseeded());
    let mut times = seeded(7);
    times.dedup();
    assert_eq!(times.len(), 8, "a sequence, and not one number");
}

/// When parked calls come back, in nanoseconds after the outage's beginning.
async fn returns(layer: DeferLayer) -> Vec<u128> {
    let service = Scripted::always(Step::fail("down"));
    let policy = Policy::builder("jobs")
        .no_deadline()
        .max_attempts(1)
        .backoff(Backoff::none())
        .breaker(BreakerConfig::consecutive(1).open_jitter(0.0))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .deferring_resilience(policy, layer.longest(secs(300.0)))
        .service(service.clone());
    let start = Instant::now();
    let mut jobs = JoinSet::new();
    for _ in 0..6 {
        jobs.spawn(client.clone().oneshot("job"));
    }
    jobs.join_all().await;
    let calls = service.recorded();
    calls
        .iter()
        .map(|call| (call.at() - start).as_nanos())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn deferred_calls_of_equal_seeds_come_back_at_equal_times() {
    let seeded = |seed| returns(DeferLayer::new().seed(seed));
    let first = seeded(7).await;
    assert!(first.len() > 3, "{first:?}");
    assert_eq!(first, seeded(7).await);
    assert_ne!(first, seeded(8).await);
    assert_ne!(
        returns(DeferLayer::new()).await,
        returns(DeferLayer::new()).await
    );
}
