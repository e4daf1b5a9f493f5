//! The whole call, dropped after each number of polls, in each state of the
//! breaker: whatever it held is there again.
//!
//! Readiness and answers take two milliseconds each, the backoff three, and
//! there is a millisecond from poll to poll; so every part of a call is dropped
//! at its beginning, in its midst and at its end.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use steadfast::fallback::{self, FallbackLayer};
use steadfast::{
    Backoff, Breaker, BreakerConfig, BreakerState, Error, Permit, Policy, RefusalReason,
    ServiceBuilderExt,
};
use support::*;
use tokio::time::{advance, sleep, timeout};
use tokio_test::task;
use tower::{Service, ServiceBuilder, service_fn};

const MS: Duration = Duration::from_millis(1);
const PROBES: usize = 2;

// ---- the states ---------------------------------------------------------------

/// How the breaker stands when the call comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Closed,
    /// Two failures of three: the call's first failure opens it.
    AlmostOpen,
    Open,
    /// The call becomes the first probe.
    Due,
    /// The call becomes the second probe; somebody else is the first.
    HalfOpen,
    /// Both probes are out: the call is refused.
    ProbesOut,
    Recovering,
    /// The ramp is over and the call closes it.
    Recovered,
    Forced,
    Disabled,
    /// One of two places is taken.
    Limited,
    /// Both places are taken: the call is refused.
    Full,
    /// Half-open, and the call gets the last place.
    LimitedProbe,
}

const STATES: [Before; 13] = [
    Before::Closed,
    Before::AlmostOpen,
    Before::Open,
    Before::Due,
    Before::HalfOpen,
    Before::ProbesOut,
    Before::Recovering,
    Before::Recovered,
    Before::Forced,
    Before::Disabled,
    Before::Limited,
    Before::Full,
    Before::LimitedProbe,
];

impl Before {
    const fn limit(self) -> Option<u32> {
        match self {
            Self::Limited | Self::Full | Self::LimitedProbe => Some(2),
            _ => None,
        }
    }

    fn config(self) -> BreakerConfig {
        let config = BreakerConfig::consecutive(3)
            .open_time(secs(10.0))
            .open_jitter(0.0)
            .probes(PROBES as u32)
            .ramp(secs(10.0))
            .ramp_from(0.5);
        match self.limit() {
            Some(limit) => config.concurrency_limit(limit),
            None => config,
        }
    }

    /// Takes a closed breaker there; the permits of others.
    async fn arrange(self, breaker: &Breaker) -> Vec<Permit> {
        let fail = |times| (0..times).for_each(|_| breaker.admit().unwrap().failure());
        let hold = |calls| (0..calls).map(|_| breaker.admit().unwrap()).collect();
        match self {
            Self::Closed => Vec::new(),
            Self::AlmostOpen => {
                fail(2);
                Vec::new()
            }
            Self::Open => {
                fail(3);
                Vec::new()
            }
            Self::Forced => {
                breaker.force_open("drill");
                Vec::new()
            }
            Self::Disabled => {
                breaker.disable();
                Vec::new()
            }
            Self::Limited => hold(1),
            Self::Full => hold(2),
            Self::Due | Self::HalfOpen | Self::ProbesOut | Self::LimitedProbe => {
                fail(3);
                advance(secs(10.0)).await;
                match self {
                    Self::Due => Vec::new(),
                    Self::ProbesOut => hold(2),
                    _ => hold(1),
                }
            }
            Self::Recovering | Self::Recovered => {
                fail(3);
                advance(secs(10.0)).await;
                breaker.admit().unwrap().success();
                assert_eq!(breaker.state(), BreakerState::Recovering);
                if self == Self::Recovered {
                    advance(secs(10.0)).await;
                }
                Vec::new()
            }
        }
    }
}

/// Holds the breaker to what it owes once the call is gone, while `held` are
/// still out.
async fn assert_whole(breaker: &Breaker, before: Before, held: Vec<Permit>, case: &str) {
    let placed = before.limit().map_or(0, |_| held.len() as u32);
    assert_eq!(breaker.snapshot().in_flight(), placed, "{case}");
    if before == Before::Forced {
        let refusal = breaker.admit().unwrap_err();
        assert_eq!(refusal.reason(), RefusalReason::ForcedOpen, "{case}");
        return;
    }
    let half_open_as_before = breaker.state() == BreakerState::HalfOpen
        && matches!(
            before,
            Before::HalfOpen | Before::ProbesOut | Before::LimitedProbe
        );
    let out = if half_open_as_before { held.len() } else { 0 };
    if let Some(wait) = breaker.snapshot().next_check() {
        advance(wait).await;
    }
    let state = breaker.state();
    let most = match (state, before.limit()) {
        (BreakerState::HalfOpen, limit) => {
            let places = limit.map_or(usize::MAX, |limit| limit as usize - held.len());
            places.min(PROBES - out)
        }
        (_, Some(limit)) => limit as usize - held.len(),
        (_, None) => 4,
    };
    let admitted: Vec<_> = (0..most)
        .map(|_| breaker.admit().unwrap_or_else(|no| panic!("{case}: {no}")))
        .collect();
    if state == BreakerState::HalfOpen || before.limit().is_some() {
        assert!(breaker.admit().is_err(), "{case}: one too many");
    }
    drop((admitted, held));
    assert_eq!(breaker.snapshot().in_flight(), 0, "{case}");
    assert!(breaker.admit().is_ok(), "{case}: all was given back");
}

// ---- the call -------------------------------------------------------------------

/// Counts attempts: a readiness that is asked for anew begins one.
#[derive(Clone)]
struct Counted<S> {
    inner: S,
    begun: Arc<AtomicU32>,
    under_way: bool,
}

impl<S: Service<Text>> Service<Text> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if !std::mem::replace(&mut self.under_way, true) {
            self.begun.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Text) -> S::Future {
        self.under_way = false;
        self.inner.call(request)
    }
}

/// What the dependency does, and what a retry costs then.
const SCRIPTS: [(&[Step], Step, f64); 4] = [
    (&[], Step::ErrAfter(0.002), 1.0),
    (&[Step::ErrAfter(0.002)], Step::OkAfter(0.002), 1.0),
    // The attempt timeout cuts it: no answer costs two.
    (&[], Step::Hang, 2.0),
    (&[], Step::Err, 1.0),
];

fn policy(config: BreakerConfig) -> Policy {
    Policy::builder("case")
        .deadline(secs(60.0))
        .attempt_timeout(6 * MS)
        .max_attempts(3)
        .backoff(Backoff::fixed(3 * MS))
        .retry_budget(budget(10.0))
        .breaker(config)
        .build()
        .unwrap()
}

/// The call with a spare answer that takes a while.
fn client<S>(policy: &Policy, service: S) -> impl Client + use<S>
where
    S: Service<Text, Response = Text, Error = Fault, Future: Send> + Clone + Send + Sync + 'static,
{
    let spare = fallback::with(|_: &Error| async {
        sleep(2 * MS).await;
        Ok::<_, Error>("spare")
    });
    ServiceBuilder::new()
        .layer(FallbackLayer::new(spare))
        .service(stack_over(policy, service))
}

/// Polls a new call so many times and drops it; whether it was at its end.
async fn dropped_after(polls: u32, client: &impl Client) -> bool {
    let mut call = task::spawn(send(client, "x"));
    for _ in 0..polls {
        if call.poll().is_ready() {
            return true;
        }
        sleep(MS).await;
    }
    false
}

/// Drops calls after ever more polls until one comes to its end; how many polls
/// that took, and how many attempts it made.
async fn fuzz(before: Before, config: &BreakerConfig, script: usize) -> (u32, u32) {
    let (steps, rest, cost) = SCRIPTS[script];
    for polls in 0.. {
        let policy = policy(config.clone());
        let breaker = policy.breaker().unwrap();
        let held = before.arrange(breaker).await;
        let begun = Arc::new(AtomicU32::new(0));
        let service = Counted {
            inner: Inner::script(steps.iter().copied(), rest).readiness([], Ready::After(0.002)),
            begun: Arc::clone(&begun),
            under_way: false,
        };
        let ended = dropped_after(polls, &client(&policy, service)).await;

        let case = format!("{before:?}, script {script}, {polls} polls");
        let attempts = begun.load(Ordering::Relaxed);
        let paid = cost * f64::from(attempts.saturating_sub(1));
        assert_eq!(policy.budget_balance(), Some(10.0 - paid), "{case}");
        assert_whole(breaker, before, held, &case).await;
        if ended {
            return (polls, attempts);
        }
    }
    unreachable!("a call ends")
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_after_any_number_of_polls_leaves_nothing_behind() {
    for before in STATES {
        for script in 0..SCRIPTS.len() {
            let (polls, attempts) = fuzz(before, &before.config(), script).await;
            let expected = match (before, script) {
                // Refused at once: only the spare answer takes polls.
                (Before::Open | Before::ProbesOut | Before::Forced | Before::Full, _) => 0,
                (_, 1) if !matches!(before, Before::AlmostOpen) => match before {
                    // A probe's failure is final.
                    Before::Due | Before::HalfOpen | Before::LimitedProbe => 1,
                    _ => 2,
                },
                (Before::AlmostOpen | Before::Due | Before::HalfOpen | Before::LimitedProbe, _) => {
                    1
                }
                _ => 3,
            };
            assert_eq!(attempts, expected, "{before:?}, script {script}");
            let least = 2 * attempts + 2;
            assert!(polls > least, "{before:?}, script {script}: {polls}");
        }
    }
}

/// A probe that its caller leaves for good counts as failed here; the next one
/// is admitted when the open time is over, wherever the call was left.
#[tokio::test(start_paused = true)]
async fn an_abandoned_call_that_counts_leaves_nothing_behind_either() {
    for before in STATES {
        for script in 0..SCRIPTS.len() {
            let config = before.config().abandoned_after(3 * MS);
            fuzz(before, &config, script).await;
        }
    }
}

// ---- those who wait -------------------------------------------------------------

/// The dependency takes one call at a time. Others, of a policy of their own,
/// wait for it from before this call or from after it, and have their turn
/// whenever this one is dropped.
#[tokio::test(start_paused = true)]
async fn whoever_waits_for_the_same_dependency_is_woken_wherever_a_call_is_dropped() {
    for before in STATES {
        for step in [Step::ErrAfter(0.002), Step::OkAfter(0.002), Step::Hang] {
            for another_is_first in [true, false] {
                let mut polls = 0;
                while !woken_after(polls, before, step, another_is_first).await {
                    polls += 1;
                }
            }
        }
    }
}

/// Drops a call after so many polls and waits for the others; whether it was at
/// its end.
async fn woken_after(polls: u32, before: Before, step: Step, another_is_first: bool) -> bool {
    let policy = policy(before.config());
    let _held = before.arrange(policy.breaker().unwrap()).await;
    let theirs = Inner::always(Step::OkAfter(0.005));
    let ours = Inner::always(step);
    let dependency =
        service_fn(move |request| send(if request == "x" { &ours } else { &theirs }, request));
    let one_at_a_time = ServiceBuilder::new()
        .concurrency_limit(1)
        .service(dependency);
    let others = stack_over(&bare().build().unwrap(), one_at_a_time.clone());
    let client = client(&policy, one_at_a_time);

    let mut waiting = Vec::new();
    if another_is_first {
        waiting.push(tokio::spawn(send(&others, "first")));
        tokio::task::yield_now().await;
    }
    let mut call = task::spawn(send(&client, "x"));
    let mut ended = false;
    for poll in 0..polls {
        ended = call.poll().is_ready();
        if poll == 0 {
            waiting.push(tokio::spawn(send(&others, "waits behind it")));
        }
        if ended {
            break;
        }
        sleep(MS).await;
    }
    drop(call);
    waiting.push(tokio::spawn(send(&others, "comes later")));
    for other in waiting {
        let answer = timeout(secs(1.0), other).await;
        let case = format!("{before:?}, {step:?}, {another_is_first}, {polls} polls");
        let answer = answer.unwrap_or_else(|_| panic!("{case}: nobody woke it"));
        assert_eq!(answer.unwrap().unwrap(), "ok", "{case}");
    }
    ended
}

fn stack_over<S>(policy: &Policy, service: S) -> impl Client + use<S>
where
    S: Service<Text, Response = Text, Error = Fault, Future: Send> + Clone + Send + Sync + 'static,
{
    ServiceBuilder::new()
        .resilience(policy.clone())
        .service(service)
}
