//! A service that follows a script.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep};
use tower::Service;

use super::call::ScriptedCall;
use super::error::ScriptedError;
use super::future::{A_YEAR, ScriptedFuture};
use super::script::{Script, Taken};
use super::step::{Readiness, Step};

/// A dependency for tests: does what its script says, one [`Step`] per call,
/// and notes what was asked of it.
///
/// Clones share the script and the notes, so a clone kept by the test tells
/// what the one inside the stack was asked. As `tower::Service` demands, each
/// call needs a readiness of its own, of the clone that is called; without it
/// the call panics.
///
/// # When the script is over
///
/// A call beyond its end panics, with a message that says which call it was and
/// how many the script has: a retry too many is then a test that fails. With
/// [`then_always`](Self::then_always) a last step serves all further calls.
///
/// # Which call gets which step
///
/// The clone that asks for readiness first gets the next step. If it is dropped
/// without a call, the step goes back to the front; but one that it waited for
/// in vain ([`Step::never_ready`], [`Step::ready_after`], [`Step::not_ready`])
/// has been used up, as a readiness that is cut off is what such a step is for.
///
/// # Cancel safety
///
/// A call that is dropped before its end is over, counts as
/// [dropped](Self::dropped), and has used up its step.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use steadfast::test_util::{ScriptedService, Step};
/// use steadfast::{Policy, ServiceBuilderExt};
/// use tower::{ServiceBuilder, ServiceExt};
///
/// let inventory = ScriptedService::new()
///     .then(Step::fail("connection reset"))
///     .then(Step::hang())
///     .then(Step::ok(12));
/// let policy = Policy::builder("inventory")
///     .attempt_timeout(Duration::from_millis(500))
///     .build()
///     .unwrap();
/// let client = ServiceBuilder::new().resilience(policy).service(inventory.clone());
///
/// assert_eq!(client.oneshot("teapot").await.unwrap(), 12);
/// assert_eq!((inventory.calls(), inventory.dropped()), (3, 1)); // one was cut short
/// let third = &inventory.recorded()[2];
/// assert_eq!((*third.request(), third.attempt()), ("teapot", 3));
/// assert!(third.time_left().unwrap() < Duration::from_millis(29_500)); // of 30 s
/// # }
/// ```
pub struct ScriptedService<Req, Res, E = ScriptedError> {
    script: Arc<Script<Req, Res, E>>,
    readiness: State<Req, Res, E>,
}

enum State<Req, Res, E> {
    NotAsked,
    Waiting {
        taken: Taken<Req, Res, E>,
        sleep: Pin<Box<Sleep>>,
    },
    /// With nothing left for a call to do when the script is over.
    Ready(Option<Taken<Req, Res, E>>),
}

impl<Req, Res, E> ScriptedService<Req, Res, E> {
    /// An empty script.
    #[must_use]
    pub fn new() -> Self {
        Self {
            script: Arc::new(Script::new()),
            readiness: State::NotAsked,
        }
    }

    /// A service that does the same with every call.
    ///
    /// # Examples
    ///
    /// ```
    /// use steadfast::test_util::{ScriptedService, Step};
    ///
    /// let down: ScriptedService<String, u32> =
    ///     ScriptedService::always(Step::fail("connection reset"));
    /// # let _ = down;
    /// ```
    #[must_use]
    pub fn always(step: Step<Req, Res, E>) -> Self {
        Self::new().then_always(step)
    }

    /// Adds a step to the script; all clones follow it.
    #[must_use = "it is the service, with one step more"]
    pub fn then(self, step: Step<Req, Res, E>) -> Self {
        self.script.plan().append(step);
        self
    }

    /// What is done with every call after the script's end, instead of a panic;
    /// how many [`times`](Step::times) the step serves does not matter then.
    #[must_use = "it is the service, with an end to its script"]
    pub fn then_always(self, step: Step<Req, Res, E>) -> Self {
        self.script.plan().append_rest(step.times(1));
        self
    }

    /// Forgets what is left of the script and does this with all calls from now
    /// on: a dependency that goes down, or comes back.
    ///
    /// Calls under way go on as they began.
    pub fn switch_to(&self, step: Step<Req, Res, E>) {
        let mut plan = self.script.plan();
        plan.clear();
        plan.append_rest(step.times(1));
    }

    /// How many calls have arrived. One that found the service
    /// [not ready](Step::not_ready) never did.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.script.tally.arrived()
    }

    /// How many calls were dropped before their end: cut short by a timeout, or
    /// by whoever waited.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.script.tally.dropped()
    }

    /// How many calls run now.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.script.tally.in_flight()
    }

    /// How many calls the script has steps for still, without what it
    /// [always](Self::then_always) does after them.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.script.plan().remaining()
    }

    /// The calls that have arrived, in their order, since the last
    /// [`take_recorded`](Self::take_recorded).
    #[must_use]
    pub fn recorded(&self) -> Vec<ScriptedCall<Req>>
    where
        Req: Clone,
    {
        self.script.plan().recorded.clone()
    }

    /// As [`recorded`](Self::recorded), for requests that cannot be cloned: each
    /// call is handed out once. Until then the service keeps the requests.
    #[must_use]
    pub fn take_recorded(&self) -> Vec<ScriptedCall<Req>> {
        mem::take(&mut self.script.plan().recorded)
    }
}

impl<Req, Res, E> Service<Req> for ScriptedService<Req, Res, E> {
    type Response = Res;
    type Error = E;
    type Future = ScriptedFuture<Res, E>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        if let State::NotAsked = self.readiness {
            let taken = self.script.plan().take();
            let wait = match taken.as_ref().map(|taken| &taken.step.readiness) {
                Some(Readiness::Fails(error)) => return Poll::Ready(Err(error())),
                Some(Readiness::After(wait)) => Some(*wait),
                Some(Readiness::Never) => Some(A_YEAR),
                Some(Readiness::Now) | None => None,
            };
            self.readiness = match (taken, wait) {
                (Some(taken), Some(wait)) => State::Waiting {
                    taken,
                    sleep: Box::pin(sleep(wait)),
                },
                (taken, _) => State::Ready(taken),
            };
        }
        if let State::Waiting { sleep, .. } = &mut self.readiness {
            ready!(sleep.as_mut().poll(cx));
            if let State::Waiting { taken, .. } = mem::replace(&mut self.readiness, State::NotAsked)
            {
                assert!(
                    !matches!(taken.step.readiness, Readiness::Never),
                    "a scripted service that is never ready was waited for, and nothing cut that short"
                );
                self.readiness = State::Ready(Some(taken));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// # Panics
    ///
    /// Without a readiness of this clone's own, and beyond the script's end.
    fn call(&mut self, request: Req) -> ScriptedFuture<Res, E> {
        let State::Ready(taken) = mem::replace(&mut self.readiness, State::NotAsked) else {
            panic!("a scripted service was called without a readiness of this clone's own");
        };
        // With the lock let go of, a script's own code may look at the service.
        let future = taken.map(|taken| taken.step.start(&request, &self.script.tally));
        let call = self.script.tally.arrive();
        let planned = {
            let mut plan = self.script.plan();
            plan.recorded.push(ScriptedCall::arriving(request));
            plan.planned()
        };
        future.unwrap_or_else(|| {
            self.script.tally.end();
            panic!(
                "call {call} of a script for {planned}: give it more steps, or say with \
                 `then_always` what comes after them"
            )
        })
    }
}

impl<Req, Res, E> Default for ScriptedService<Req, Res, E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Req, Res, E> Clone for ScriptedService<Req, Res, E> {
    fn clone(&self) -> Self {
        Self {
            script: Arc::clone(&self.script),
            readiness: State::NotAsked,
        }
    }
}

impl<Req, Res, E> Drop for ScriptedService<Req, Res, E> {
    fn drop(&mut self) {
        if let State::Ready(Some(taken)) = mem::replace(&mut self.readiness, State::NotAsked) {
            self.script.plan().give_back(taken);
        }
    }
}

impl<Req, Res, E> fmt::Debug for ScriptedService<Req, Res, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedService")
            .field("calls", &self.calls())
            .field("in_flight", &self.in_flight())
            .field("dropped", &self.dropped())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
