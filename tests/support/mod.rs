//! The rig that the test files share: a virtual clock, a scripted service that
//! is strict about readiness, the case breaker and a policy with nothing in it.
//!
//! Times are seconds of virtual time since the test began (`T`). A timer may
//! fire up to two milliseconds late, because tokio rounds up, and never early.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file uses its own part of the rig"
)]

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use steadfast::{
    Backoff, BreakerConfig, Error, ErrorKind, Policy, PolicyBuilder, RetryBudget,
    ServiceBuilderExt, Window,
};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_test::{assert_pending, task};
use tower::util::Oneshot;
use tower::{Service, ServiceBuilder, ServiceExt};

/// What a request and an answer are in most tests.
pub type Text = &'static str;

/// A source error as classifiers see it.
pub type Source = dyn StdError + Send + Sync + 'static;

/// A duration of `seconds`.
pub fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

// ---- time ------------------------------------------------------------------

/// Virtual time since the test began.
#[derive(Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn now(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    pub fn instant(self, seconds: f64) -> Instant {
        self.0 + secs(seconds)
    }

    /// Lets virtual time run until `T = seconds`.
    pub async fn reach(self, seconds: f64) {
        sleep_until(self.instant(seconds)).await;
    }

    /// Asserts that it is `T = seconds` now.
    #[track_caller]
    pub fn assert_now(self, seconds: f64) {
        assert_times(&[self.now()], &[seconds]);
    }
}

/// Asserts that each time is the expected one, or up to two milliseconds later.
#[track_caller]
pub fn assert_times(actual: &[f64], expected: &[f64]) {
    let fits = |(a, e): (&f64, &f64)| *a > e - 1e-6 && *a < e + 0.002_001;
    assert!(
        actual.len() == expected.len() && actual.iter().zip(expected).all(fits),
        "times {actual:?}, expected {expected:?}"
    );
}

/// The waits between consecutive times.
pub fn gaps(times: &[f64]) -> Vec<f64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

// ---- the scripted service --------------------------------------------------

/// What one call of [`Inner`] does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Answers `"ok"` at once.
    Ok,
    /// Answers this text at once.
    Say(Text),
    /// Fails at once.
    Err,
    OkAfter(f64),
    ErrAfter(f64),
    Hang,
    /// Panics when its future is polled.
    Panic,
    /// Panics inside `call`.
    PanicInCall,
}

/// What one readiness of [`Inner`] does.
#[derive(Clone, Copy, Debug)]
pub enum Ready {
    Now,
    After(f64),
    Never,
    Fails,
    Panics,
}

/// The error of the scripted service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault(pub Text);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl StdError for Fault {}

/// A service that follows a script, then repeats its last word, and keeps
/// count. Clones share the script; each clone needs a readiness of its own for
/// every call and panics without it, as strict services in the field do.
pub struct Inner {
    shared: Arc<Mutex<Shared>>,
    granted: bool,
    wait: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

struct Shared {
    clock: Clock,
    steps: VecDeque<Step>,
    rest: Step,
    readiness: VecDeque<Ready>,
    ready_rest: Ready,
    polls: usize,
    grants: usize,
    call_times: Vec<f64>,
    cancelled: Vec<f64>,
    requests: Vec<Text>,
}

impl Inner {
    /// Follows `steps`, then does `rest` for ever.
    pub fn script(steps: impl IntoIterator<Item = Step>, rest: Step) -> Self {
        Self {
            shared: Arc::new(Mutex::new(Shared {
                clock: Clock::start(),
                steps: steps.into_iter().collect(),
                rest,
                readiness: VecDeque::new(),
                ready_rest: Ready::Now,
                polls: 0,
                grants: 0,
                call_times: Vec::new(),
                cancelled: Vec::new(),
                requests: Vec::new(),
            })),
            granted: false,
            wait: None,
        }
    }

    pub fn always(step: Step) -> Self {
        Self::script([], step)
    }

    /// Gives readiness as in `script`, then as `rest` for ever.
    #[must_use]
    pub fn readiness(self, script: impl IntoIterator<Item = Ready>, rest: Ready) -> Self {
        self.set_readiness(script, rest);
        self
    }

    pub fn set_readiness(&self, script: impl IntoIterator<Item = Ready>, rest: Ready) {
        let mut shared = self.lock();
        shared.readiness = script.into_iter().collect();
        shared.ready_rest = rest;
    }

    /// Replaces the rest of the script.
    pub fn rescript(&self, steps: impl IntoIterator<Item = Step>, rest: Step) {
        let mut shared = self.lock();
        shared.steps = steps.into_iter().collect();
        shared.rest = rest;
    }

    /// How many calls arrived: `N`.
    pub fn calls(&self) -> usize {
        self.lock().call_times.len()
    }

    pub fn call_times(&self) -> Vec<f64> {
        self.lock().call_times.clone()
    }

    pub fn requests(&self) -> Vec<Text> {
        self.lock().requests.clone()
    }

    /// How often `poll_ready` was called.
    pub fn polls(&self) -> usize {
        self.lock().polls
    }

    /// How often a clone went from not ready to ready.
    pub fn grants(&self) -> usize {
        self.lock().grants
    }

    /// When calls were dropped before their end.
    pub fn cancelled(&self) -> Vec<f64> {
        self.lock().cancelled.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A scripted panic may poison the lock; the counts stay good.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_readiness(&self) -> Ready {
        let mut shared = self.lock();
        match shared.readiness.front().copied() {
            Some(Ready::Never) => Ready::Never,
            Some(ready) => {
                shared.readiness.pop_front();
                ready
            }
            None => shared.ready_rest,
        }
    }
}

impl Clone for Inner {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            granted: false,
            wait: None,
        }
    }
}

impl Service<Text> for Inner {
    type Response = Text;
    type Error = Fault;
    type Future = Pin<Box<dyn Future<Output = Result<Text, Fault>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.lock().polls += 1;
        if self.granted {
            return Poll::Ready(Ok(()));
        }
        if self.wait.is_none() {
            match self.next_readiness() {
                Ready::Now => {}
                Ready::After(seconds) => self.wait = Some(Box::pin(sleep(secs(seconds)))),
                Ready::Never => self.wait = Some(Box::pin(for_ever())),
                Ready::Fails => return Poll::Ready(Err(Fault("not ready"))),
                Ready::Panics => panic!("scripted panic in poll_ready"),
            }
        }
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        self.granted = true;
        self.lock().grants += 1;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Text) -> Self::Future {
        assert!(
            std::mem::take(&mut self.granted),
            "called without a readiness of its own"
        );
        let step = {
            let mut shared = self.lock();
            let at = shared.clock.now();
            shared.call_times.push(at);
            shared.requests.push(request);
            shared.steps.pop_front().unwrap_or(shared.rest)
        };
        if matches!(step, Step::PanicInCall) {
            panic!("scripted panic in call");
        }
        let mut unfinished = Unfinished(Some(self.clone()));
        Box::pin(async move {
            let result = perform(step).await;
            unfinished.end();
            result
        })
    }
}

/// A year. In virtual time it passes at once when nothing else is left to wait
/// for, so that a test over a fault fails instead of hanging.
async fn for_ever<T>() -> T {
    sleep(secs(365.0 * 86_400.0)).await;
    panic!("waited for a service that hangs, and nothing cut it short");
}

async fn perform(step: Step) -> Result<Text, Fault> {
    match step {
        Step::Ok => Ok("ok"),
        Step::Say(text) => Ok(text),
        Step::Err => Err(Fault("scripted")),
        Step::OkAfter(seconds) => {
            sleep(secs(seconds)).await;
            Ok("ok")
        }
        Step::ErrAfter(seconds) => {
            sleep(secs(seconds)).await;
            Err(Fault("scripted"))
        }
        Step::Hang => for_ever().await,
        Step::Panic | Step::PanicInCall => panic!("scripted panic in a call's future"),
    }
}

/// Notes the time when a call is dropped before its end.
struct Unfinished(Option<Inner>);

impl Unfinished {
    fn end(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(inner) = &self.0 {
            let mut shared = inner.lock();
            let at = shared.clock.now();
            shared.cancelled.push(at);
        }
    }
}

// ---- policies and clients --------------------------------------------------

/// The case breaker: the last 4 calls, half of which failing opens it for 10 s.
pub fn bk() -> BreakerConfig {
    plain(BreakerConfig::failure_rate(0.5))
        .window(Window::count(4))
        .min_calls(4)
}

/// `config` with an open time of 10 s, one probe, and nothing that varies.
pub fn plain(config: BreakerConfig) -> BreakerConfig {
    config
        .open_time(secs(10.0))
        .growth(1.0)
        .no_ramp()
        .open_jitter(0.0)
        .probes(1)
        .successes(1)
        .probe_lease(secs(60.0))
}

/// A policy of one attempt with no limit of any kind; each test adds its own.
pub fn bare() -> PolicyBuilder {
    named("case")
}

/// As [`bare`], for the dependency `name`.
pub fn named(name: Text) -> PolicyBuilder {
    Policy::builder(name)
        .no_deadline()
        .no_attempt_timeout()
        .max_attempts(1)
        .backoff(Backoff::none())
        .no_retry_budget()
        .no_breaker()
}

/// What the tests ask of a stack over [`Inner`].
pub trait Client:
    Service<Text, Response = Text, Error = Error, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<S> Client for S where
    S: Service<Text, Response = Text, Error = Error, Future: Send> + Clone + Send + Sync + 'static
{
}

/// The whole stack of `policy` over a clone of `inner`.
pub fn stack(policy: &Policy, inner: &Inner) -> impl Client + use<> {
    ServiceBuilder::new()
        .resilience(policy.clone())
        .service(inner.clone())
}

/// Ready and call on a fresh clone of `client`, which is dropped with the call.
pub fn send<S: Service<Text> + Clone>(client: &S, request: Text) -> Oneshot<S, Text> {
    client.clone().oneshot(request)
}

/// Sends four requests, all of which must fail.
pub async fn four_failures(client: &impl Client) {
    for _ in 0..4 {
        assert_eq!(kind(&send(client, "fail").await), Some(ErrorKind::Failed));
    }
}

/// The kind of error, if it is one.
pub fn kind<R>(result: &Result<R, Error>) -> Option<ErrorKind> {
    result.as_ref().err().map(Error::kind)
}

#[track_caller]
pub fn assert_refused<R: fmt::Debug>(result: &Result<R, Error>) {
    assert_eq!(kind(result), Some(ErrorKind::Refused), "got {result:?}");
}

/// The inner service's own error behind ours, if it is there.
pub fn fault(error: &Error) -> Option<Fault> {
    error
        .source()
        .and_then(|source| source.downcast_ref::<Fault>())
        .copied()
}

// ---- dice, and calls that are dropped ---------------------------------------

/// A budget of ten tokens at most that nothing refills.
pub fn budget(opening: f64) -> RetryBudget {
    RetryBudget::ratio(0.0)
        .cap(10.0)
        .opening_balance(opening)
        .no_trickle()
}

/// A small generator of numbers, so that a failing run can be repeated.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A call whose life is: readiness 0 to 1, attempt 1 to 2, backoff 2 to 3,
/// readiness 3 to 4, attempt 4 to 5; each part ends in a failure, a second
/// attempt is the last. It is dropped at `at`.
pub async fn dropped_at(at: f64, policy: &Policy) -> Inner {
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
