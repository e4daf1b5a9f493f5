//! What observers hear of: every call once, every attempt once, every change
//! of a breaker after the state that they were told of first; and that a panic
//! of theirs harms no call.

#![cfg(feature = "keyed")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use steadfast::telemetry::{Event, Observer};
use steadfast::{
    Breaker, BreakerConfig, BreakerState, Breakers, Policy, PolicyBuilder, ServiceBuilderExt,
    fallback,
};
use support::*;
use tokio_test::{assert_pending, task};
use tower::{ServiceBuilder, ServiceExt};

/// Writes down in a few words what it hears.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn on_event(&self, event: &Event<'_>) {
        let key = |key: &Option<&str>| key.map_or_else(String::new, |key| format!("[{key}]"));
        let note = match event {
            Event::PolicyBuilt { dependency, .. } => format!("built {dependency}"),
            Event::AttemptEnded {
                attempt, verdict, ..
            } => {
                let verdict = verdict.map_or("dropped", |verdict| verdict.as_str());
                format!("attempt {attempt}: {verdict}")
            }
            Event::CallEnded {
                outcome, attempts, ..
            } => format!("{} after {attempts}", outcome.as_str()),
            Event::Retry { attempt, .. } => format!("retry after {attempt}"),
            Event::Stopped { stopped, .. } => format!("stopped: {}", stopped.as_str()),
            Event::Refused { refusal, .. } => format!("refused: {}", refusal.reason().as_str()),
            Event::OutOfTime { .. } => "out of time".to_owned(),
            Event::FallbackServed {
                dependency, entry, ..
            } => format!("{dependency}: fallback {entry} served"),
            Event::FallbackFailed {
                dependency, entry, ..
            } => format!("{dependency}: fallback {entry} failed"),
            Event::BreakerAdded { key: k, state, .. } => {
                format!("added{} {}", key(k), state.as_str())
            }
            Event::BreakerRemoved { key: k, state, .. } => {
                format!("removed{} {}", key(k), state.as_str())
            }
            Event::BreakerOpened { key: k, from, .. } => {
                format!("opened{} from {}", key(k), from.as_str())
            }
            Event::BreakerHalfOpen { key: k, from, .. } => {
                format!("half-open{} from {}", key(k), from.as_str())
            }
            Event::BreakerClosed { key: k, from, .. } => {
                format!("closed{} from {}", key(k), from.as_str())
            }
            Event::BreakerForcedOpen { key: k, from, .. } => {
                format!("forced{} from {}", key(k), from.as_str())
            }
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(note);
    }
}

impl Notes {
    /// What was heard since last asked.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Panics at everything.
struct Panics;

impl Observer for Panics {
    fn on_event(&self, event: &Event<'_>) {
        panic!("scripted panic at {event:?}");
    }
}

fn observed(policy: PolicyBuilder) -> (Policy, Arc<Notes>) {
    let notes = Arc::new(Notes::default());
    let policy = policy.observer(notes.clone()).build().unwrap();
    notes.take();
    (policy, notes)
}

#[tokio::test(start_paused = true)]
async fn a_success_is_one_attempt_and_one_call() {
    let (policy, notes) = observed(named("inventory"));
    let client = stack(&policy, &Inner::always(Step::Ok));
    for _ in 0..2 {
        assert!(send(&client, "x").await.is_ok());
        assert_eq!(notes.take(), ["attempt 1: success", "success after 1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_told_once_and_so_is_the_end() {
    let (policy, notes) = observed(named("inventory").max_attempts(3));
    let inner = Inner::script([Step::Err, Step::Err, Step::Ok], Step::Err);
    let client = stack(&policy, &inner);
    assert!(send(&client, "x").await.is_ok());
    let expected = [
        "attempt 1: transient",
        "retry after 1",
        "attempt 2: transient",
        "retry after 2",
        "attempt 3: success",
        "success after 3",
    ];
    assert_eq!(notes.take(), expected);
    assert!(send(&client, "x").await.is_err());
    let heard = notes.take();
    assert_eq!(
        heard[4..],
        [
            "attempt 3: transient",
            "stopped: attempts_exhausted",
            "failed after 3"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_ends_after_no_attempt() {
    let (policy, notes) =
        observed(named("inventory").breaker(plain(BreakerConfig::consecutive(1))));
    let client = stack(&policy, &Inner::always(Step::Err));
    assert!(send(&client, "x").await.is_err());
    assert_eq!(notes.take()[0], "opened from closed");
    assert_refused(&send(&client, "x").await);
    assert_eq!(notes.take(), ["refused: open", "refused after 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_time_ends_after_no_attempt() {
    let (policy, notes) = observed(named("inventory").deadline(secs(1.0)));
    let client = stack(&policy, &Inner::always(Step::Hang));
    assert!(send(&client, "x").await.is_err());
    let expected = [
        "attempt 1: ambiguous",
        "out of time",
        "deadline_exceeded after 1",
    ];
    assert_eq!(notes.take(), expected);
    let past = steadfast::Deadline::after(secs(0.0));
    let call = steadfast::Scope::current()
        .with_deadline(past)
        .wrap(send(&client, "x"));
    assert!(call.await.is_err());
    assert_eq!(notes.take(), ["out of time", "deadline_exceeded after 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_told_where_it_was() {
    let (policy, notes) = observed(named("inventory").max_attempts(2));
    let client = stack(&policy, &Inner::always(Step::Hang));
    drop(send(&client, "never polled"));
    assert!(notes.take().is_empty());

    let mut call = task::spawn(send(&client, "x"));
    assert_pending!(call.poll());
    drop(call);
    assert_eq!(notes.take(), ["attempt 1: dropped", "dropped after 1"]);

    let mut call = task::spawn(send(&stack(&policy, &Inner::always(Step::Ok)), "x"));
    assert!(call.poll().is_ready());
    notes.take();
    drop(call);
    assert!(notes.take().is_empty(), "a call that ended is not dropped");
}

#[tokio::test(start_paused = true)]
async fn what_a_fallback_does_is_told_to_those_who_observe_the_primary() {
    let (policy, notes) = observed(named("inventory"));
    let fails = |_: &steadfast::Error| async { Err::<Text, _>(Fault("too")) };
    let client = ServiceBuilder::new()
        .fallback(fallback::with(fails).or(fallback::value("cached")))
        .resilience(policy)
        .service(Inner::script([Step::Err, Step::Ok], Step::Err));
    assert_eq!(client.clone().oneshot("x").await.unwrap(), "cached");
    let heard = notes.take();
    assert_eq!(
        heard[heard.len() - 2..],
        [
            "inventory: fallback 0 failed",
            "inventory: fallback 1 served"
        ]
    );
    assert!(client.clone().oneshot("x").await.is_ok());
    assert_eq!(notes.take(), ["attempt 1: success", "success after 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_is_passed_over_has_failed() {
    let (policy, notes) = observed(named("inventory"));
    let client = ServiceBuilder::new()
        .fallback(fallback::service(Inner::always(Step::Hang)).limit(1))
        .resilience(policy)
        .service(Inner::always(Step::Err));
    let mut first = task::spawn(client.clone().oneshot("x"));
    assert_pending!(first.poll());
    notes.take();
    assert!(client.oneshot("y").await.is_err());
    let heard = notes.take();
    assert_eq!(heard.last().unwrap(), "inventory: fallback 0 failed");
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_not_told_to_those_of_an_earlier_call() {
    let (policy, notes) = observed(named("observed"));
    let earlier = stack(&policy, &Inner::always(Step::Err));
    let unobserved = named("unobserved").build().unwrap();
    let later = stack(&unobserved, &Inner::always(Step::Err));
    let one_after_the_other = tower::service_fn(move |request| {
        let (earlier, later) = (earlier.clone(), later.clone());
        async move {
            assert!(send(&earlier, request).await.is_err());
            send(&later, request).await
        }
    });
    let client = ServiceBuilder::new()
        .fallback(fallback::value("cached"))
        .service(one_after_the_other);
    assert_eq!(client.oneshot("x").await.unwrap(), "cached");
    let heard = notes.take();
    assert_eq!(heard.last().unwrap(), "failed after 1");
}

#[tokio::test(start_paused = true)]
async fn observers_go_with_their_policy() {
    let (policy, notes) = observed(named("inventory"));
    let client = stack(&policy, &Inner::always(Step::Err));
    let (answer, _) = steadfast::CallReport::capture(send(&client, "x")).await;
    assert!(answer.is_err());
    drop((client, policy));
    assert_eq!(Arc::strong_count(&notes), 1, "the thread keeps them");
}

#[tokio::test(start_paused = true)]
async fn a_shared_breaker_is_told_of_once_to_an_observer_of_both_policies() {
    let notes = Arc::new(Notes::default());
    let breaker = Breaker::new("shared", plain(BreakerConfig::consecutive(1))).unwrap();
    let policy = |name| named(name).breaker(breaker.clone()).observer(notes.clone());
    let (a, b) = (policy("a").build().unwrap(), policy("b").build().unwrap());
    assert_eq!(notes.take(), ["built a", "added closed", "built b"]);
    breaker.admit().unwrap().failure();
    assert_eq!(notes.take(), ["opened from closed"]);
    breaker.force_open("maintenance");
    breaker.reset();
    assert_eq!(
        notes.take(),
        ["forced from open", "closed from forced_open"]
    );
    drop((a, b));
    assert!(notes.take().is_empty());
    drop(breaker);
    assert_eq!(notes.take(), ["removed closed"]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_comes_later_starts_at_the_state_that_it_finds() {
    let breaker = Breaker::new("pool", plain(BreakerConfig::consecutive(1))).unwrap();
    breaker.admit().unwrap().failure();
    let notes = Arc::new(Notes::default());
    breaker.observe(notes.clone());
    breaker.observe(notes.clone());
    assert_eq!(notes.take(), ["added open"]);
    let t = Clock::start();
    t.reach(10.0).await;
    breaker.admit().unwrap().success();
    assert_eq!(
        notes.take(),
        ["half-open from open", "closed from half_open"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_breakers_of_a_registry_are_told_of_by_key() {
    let config = plain(BreakerConfig::consecutive(1));
    let hosts = Breakers::<String>::bounded("hosts", config, 2, secs(60.0))
        .unwrap()
        .naming_keys(|host| host.to_uppercase());
    drop(hosts.get("a"));
    let notes = Arc::new(Notes::default());
    hosts.observe(notes.clone());
    assert_eq!(notes.take(), ["added closed", "added[A] closed"]);
    hosts.get("b").admit().unwrap().failure();
    assert_eq!(notes.take(), ["added[B] closed", "opened[B] from closed"]);
    // There is room for two: the one that knows nothing goes.
    drop(hosts.get("c"));
    assert_eq!(notes.take(), ["removed[A] closed", "added[C] closed"]);
    assert_eq!(hosts.get("b").state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_policy_with_a_breaker_per_key_observes_the_registry() {
    let config = plain(BreakerConfig::consecutive(1));
    let items: Breakers<Text> = Breakers::new("items", config).unwrap();
    let notes = Arc::new(Notes::default());
    let policy = named("inventory")
        .breakers(items.clone(), |item: &Text| item)
        .observer(notes.clone())
        .build()
        .unwrap();
    assert_eq!(notes.take(), ["built inventory", "added closed"]);
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(Inner::always(Step::Err));
    assert!(client.clone().oneshot("teapot").await.is_err());
    let expected = [
        "added closed",
        "opened from closed",
        "attempt 1: transient",
        "stopped: attempts_exhausted",
        "failed after 1",
    ];
    assert_eq!(notes.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_an_observer_harms_no_call() {
    let notes = Arc::new(Notes::default());
    let policy = named("inventory")
        .max_attempts(2)
        .retry_budget(budget(5.0))
        .breaker(bk().concurrency_limit(1))
        .observer(Arc::new(Panics))
        .observer(notes.clone())
        .build()
        .unwrap();
    let t = Clock::start();
    let inner = Inner::script([Step::Err, Step::Ok, Step::Hang], Step::Err);
    let client = ServiceBuilder::new()
        .fallback(fallback::value("cached"))
        .resilience(policy.clone())
        .service(inner.clone());
    assert_eq!(client.clone().oneshot("x").await.unwrap(), "ok");
    assert_eq!(policy.budget_balance(), Some(4.0));

    // Dropped in an attempt: its place under the limit is free again.
    let mut call = task::spawn(client.clone().oneshot("x"));
    assert_pending!(call.poll());
    drop(call);

    // Failing attempts open the breaker, refusals follow, and it recovers.
    assert_eq!(client.clone().oneshot("x").await.unwrap(), "cached");
    let breaker = policy.breaker().unwrap();
    assert_eq!(breaker.state(), BreakerState::Open);
    assert_eq!(client.clone().oneshot("x").await.unwrap(), "cached");
    t.reach(10.001).await;
    inner.rescript([], Step::Ok);
    for _ in 0..3 {
        assert_eq!(client.clone().oneshot("x").await.unwrap(), "ok");
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert_eq!(breaker.snapshot().in_flight(), 0);

    // The other one has heard it all.
    let heard = notes.take();
    for expected in [
        "opened from closed",
        "half-open from open",
        "closed from half_open",
        "refused after 0",
        "dropped after 1",
        "inventory: fallback 0 served",
    ] {
        assert!(heard.iter().any(|note| note == expected), "{heard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_may_panic_while_a_panic_of_the_service_passes_through() {
    let (policy, notes) = observed(named("inventory").observer(Arc::new(Panics)));
    let client = stack(&policy, &Inner::script([Step::Panic], Step::Ok));
    let panicked = tokio::spawn(send(&client, "x")).await.unwrap_err();
    assert!(panicked.is_panic());
    assert_eq!(notes.take(), ["attempt 1: dropped", "dropped after 1"]);
    assert!(send(&client, "x").await.is_ok());
}

/// Adds up where a breaker stands, from what it hears.
#[derive(Default)]
struct Standing(Mutex<std::collections::HashMap<BreakerState, i64>>);

impl Observer for Standing {
    fn on_event(&self, event: &Event<'_>) {
        let (left, entered) = match *event {
            Event::BreakerAdded { state, .. } => (None, Some(state)),
            Event::BreakerForcedOpen { from, .. } => (Some(from), Some(BreakerState::ForcedOpen)),
            Event::BreakerDisabled { from, .. } => (Some(from), Some(BreakerState::Disabled)),
            Event::BreakerClosed { from, .. } => (Some(from), Some(BreakerState::Closed)),
            _ => (None, None),
        };
        let mut standing = self.0.lock().unwrap();
        for (state, change) in [(left, -1), (entered, 1)] {
            if let Some(state) = state {
                *standing.entry(state).or_default() += change;
            }
        }
    }
}

#[test]
fn an_observer_that_comes_amid_changes_misses_none_and_hears_none_twice() {
    let all_there = AtomicBool::new(false);
    let breaker = Breaker::new("pool", plain(BreakerConfig::consecutive(1))).unwrap();
    let observers: Vec<_> = (0..100).map(|_| Arc::new(Standing::default())).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !all_there.load(Ordering::Relaxed) {
                    breaker.force_open("maintenance");
                    breaker.disable();
                    breaker.reset();
                }
            });
        }
        scope.spawn(|| {
            for observer in &observers {
                breaker.observe(observer.clone());
                std::thread::yield_now();
            }
            all_there.store(true, Ordering::Relaxed);
        });
    });
    let state = breaker.state();
    for observer in observers {
        let standing = observer.0.lock().unwrap();
        for (known, count) in standing.iter() {
            assert_eq!(
                *count,
                i64::from(*known == state),
                "{standing:?} but {state:?}"
            );
        }
        assert_eq!(standing.get(&state), Some(&1));
    }
}
