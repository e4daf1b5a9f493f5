//! What is logged: transitions of the breaker above DEBUG, one event each;
//! what concerns one request at DEBUG and never above.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use steadfast::{Backoff, BreakerConfig, Policy, ServiceBuilderExt, fallback};
use support::*;
use tower::{ServiceBuilder, ServiceExt};
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::subscriber::DefaultGuard;
use tracing::{Level, Metadata, Subscriber};

/// An event as it was seen: its level and `name=value` for each field.
#[derive(Clone, Debug)]
struct Seen {
    level: Level,
    text: String,
}

/// Keeps all events of the crate on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Seen>>>);

impl Log {
    /// Collects what this thread logs until the guard is dropped.
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let guard = tracing::subscriber::set_default(log.clone());
        (log, guard)
    }

    /// Takes what was seen at `level` since last asked.
    fn take(&self, level: Level) -> Vec<String> {
        let mut seen = self.0.lock().unwrap();
        let (wanted, rest) = seen.drain(..).partition(|event| event.level == level);
        *seen = rest;
        let wanted: Vec<Seen> = wanted;
        wanted.into_iter().map(|event| event.text).collect()
    }

    /// How many events are above DEBUG and not taken yet.
    fn loud(&self) -> usize {
        let seen = self.0.lock().unwrap();
        seen.iter()
            .filter(|event| event.level <= Level::INFO)
            .count()
    }
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).expect("a string takes all");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, "{}={value} ", field.name()).expect("a string takes all");
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("steadfast")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut Fields(&mut text));
        self.0.lock().unwrap().push(Seen {
            level: *event.metadata().level(),
            text,
        });
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn with_breaker() -> Policy {
    named("inventory").breaker(bk()).build().unwrap()
}

#[track_caller]
fn assert_one(events: &[String], words: &[&str]) {
    assert_eq!(events.len(), 1, "{events:?}");
    let text = events[0].to_lowercase();
    assert!(
        words.iter().all(|word| text.contains(word)),
        "{text} lacks one of {words:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_transition_of_the_breaker_is_one_event() {
    let (log, _guard) = Log::start();
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 5], Step::Ok);
    let client = stack(&with_breaker(), &inner);

    four_failures(&client).await;
    let opened = log.take(Level::WARN);
    assert_one(&opened, &["inventory", "open", "open_for_ms=10000 "]);
    t.reach(5.0).await;
    for _ in 0..10 {
        assert_refused(&send(&client, "x").await);
    }
    assert_eq!(log.loud(), 0);

    t.reach(10.0).await;
    assert!(send(&client, "a probe that fails").await.is_err());
    assert_one(&log.take(Level::INFO), &["inventory", "half"]);
    assert_one(&log.take(Level::WARN), &["inventory", "open"]);
    assert_eq!(log.loud(), 0);

    t.reach(20.002).await;
    assert!(send(&client, "a probe that succeeds").await.is_ok());
    let infos = log.take(Level::INFO);
    assert_eq!(infos.len(), 2, "{infos:?}");
    assert_one(&infos[..1], &["inventory", "half"]);
    assert_one(&infos[1..], &["inventory", "closed"]);
    assert_eq!(log.loud(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_callers_at_once_see_one_event_per_transition() {
    let (log, _guard) = Log::start();
    let t = Clock::start();
    let inner = Inner::always(Step::ErrAfter(1.0));
    let client = stack(&with_breaker(), &inner);
    let crowd = |size| -> Vec<_> {
        (0..size)
            .map(|_| tokio::spawn(send(&client, "x")))
            .collect()
    };
    for task in crowd(20) {
        assert!(task.await.unwrap().is_err());
    }
    assert_eq!(inner.calls(), 20);
    assert_one(&log.take(Level::WARN), &["open"]);

    inner.rescript([], Step::OkAfter(1.0));
    t.reach(11.01).await;
    for task in crowd(20) {
        let _ = task.await.unwrap();
    }
    assert_eq!(inner.calls(), 21);
    assert_eq!(log.take(Level::INFO).len(), 2);
    assert_eq!(log.loud(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_of_one_request_is_above_debug() {
    let (log, _guard) = Log::start();
    let steps = [Step::Ok, Step::Err, Step::Err, Step::Hang, Step::Say("x")];
    let inner = Inner::script(steps.into_iter().cycle().take(200), Step::Ok);
    let policy = named("inventory")
        .attempt_timeout(secs(1.0))
        .deadline(secs(2.0))
        .max_attempts(3)
        .backoff(Backoff::full_jitter(secs(0.1), secs(1.0)))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .fallback(fallback::value("fallback"))
        .resilience(policy)
        .service(inner.clone());
    for _ in 0..60 {
        assert!(client.clone().oneshot("x").await.is_ok());
    }
    assert!(inner.calls() > 60);
    assert_eq!(log.loud(), 0);
}

#[tokio::test(start_paused = true)]
async fn retries_and_stops_are_debug_events() {
    let (log, _guard) = Log::start();
    let inner = Inner::always(Step::Err);
    let policy = named("inventory").max_attempts(3).build().unwrap();
    assert!(send(&stack(&policy, &inner), "x").await.is_err());

    let events = log.take(Level::DEBUG);
    assert_eq!(events.len(), 3, "{events:?}");
    assert_one(&events[..1], &["inventory", "retry"]);
    assert_one(&events[1..2], &["inventory", "retry"]);
    assert_one(&events[2..], &["inventory", "exhausted"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_a_debug_event() {
    let (log, _guard) = Log::start();
    let inner = Inner::always(Step::Err);
    let policy = named("inventory")
        .breaker(plain(BreakerConfig::consecutive(1)))
        .build()
        .unwrap();
    let client = stack(&policy, &inner);
    assert!(send(&client, "x").await.is_err());
    log.take(Level::DEBUG);
    assert_refused(&send(&client, "x").await);
    assert_one(&log.take(Level::DEBUG), &["inventory", "refus"]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_is_a_debug_event() {
    let (log, _guard) = Log::start();
    let policy = named("inventory").deadline(secs(5.0)).build().unwrap();
    let client = stack(&policy, &Inner::always(Step::Hang));
    assert!(send(&client, "x").await.is_err());
    assert_one(&log.take(Level::DEBUG), &["inventory", "out of time"]);
    assert_eq!(log.loud(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_plain_success_is_no_event_at_all() {
    let (log, _guard) = Log::start();
    let client = stack(&with_breaker(), &Inner::always(Step::Ok));
    for _ in 0..10 {
        assert!(send(&client, "x").await.is_ok());
    }
    assert_eq!(log.loud(), 0);
    assert!(log.take(Level::DEBUG).is_empty());
}

#[tokio::test(start_paused = true)]
async fn events_of_one_kind_have_the_same_fields_each_time() {
    fn names(event: &str) -> Vec<String> {
        let fields = event
            .split_whitespace()
            .filter_map(|part| part.split_once('='));
        fields.map(|(name, _)| name.to_owned()).collect()
    }
    let (log, _guard) = Log::start();
    let inner = Inner::script([Step::Err, Step::Hang], Step::Err);
    let policy = named("inventory")
        .attempt_timeout(secs(1.0))
        .max_attempts(4)
        .build()
        .unwrap();
    assert!(send(&stack(&policy, &inner), "x").await.is_err());
    let events = log.take(Level::DEBUG);
    let retries: Vec<_> = events[..3].iter().map(|event| names(event)).collect();
    assert!(!retries[0].is_empty());
    assert_eq!(retries[0], retries[1]);
    assert_eq!(retries[0], retries[2]);
}

/// Panics at every event above DEBUG, while it is told to.
struct Panics(Arc<AtomicBool>);

impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("steadfast") && *metadata.level() <= Level::INFO
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        assert!(!self.0.load(Ordering::Relaxed), "scripted panic");
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_whoever_listens_wedges_nothing() {
    let panics = Arc::new(AtomicBool::new(false));
    let _guard = tracing::subscriber::set_default(Panics(Arc::clone(&panics)));
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Ok);
    let client = stack(&with_breaker(), &inner);
    four_failures(&client).await;

    t.reach(10.0).await;
    panics.store(true, Ordering::Relaxed);
    let probe = tokio::spawn(send(&client, "told of as half-open")).await;
    assert!(probe.unwrap_err().is_panic());
    panics.store(false, Ordering::Relaxed);

    // Well within the lease of a minute.
    t.reach(20.002).await;
    assert!(send(&client, "probe").await.is_ok());
    assert!(send(&client, "closed").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_breaker_used_by_hand_logs_its_transitions_too() {
    let (log, _guard) = Log::start();
    let breaker = steadfast::Breaker::new("pool", bk()).unwrap();
    for _ in 0..4 {
        breaker.admit().unwrap().failure();
    }
    assert_one(&log.take(Level::WARN), &["pool", "open"]);
}
