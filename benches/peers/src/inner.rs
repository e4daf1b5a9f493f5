//! The wrapped service: as cheap as a service can be, so that the difference
//! to the bare one is what a contender costs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tower::Service;

/// What the service answers to a request; anything else was not the service.
pub const fn answer(request: u64) -> u64 {
    request.wrapping_add(1)
}

#[derive(Clone, Copy)]
pub struct Inner {
    pending: u32,
    outcome: Outcome,
}

#[derive(Clone, Copy)]
enum Outcome {
    Answer,
    Refuse,
    Script(&'static Script),
}

impl Inner {
    pub const READY: Self = Self::at_once(Outcome::Answer);

    pub const PENDING_ONCE: Self = Self {
        pending: 1,
        outcome: Outcome::Answer,
    };

    /// For the floor alone: what a refusal costs when it is a constant.
    pub const REFUSING: Self = Self::at_once(Outcome::Refuse);

    pub const fn scripted(script: &'static Script) -> Self {
        Self::at_once(Outcome::Script(script))
    }

    const fn at_once(outcome: Outcome) -> Self {
        let pending = 0;
        Self { pending, outcome }
    }

    /// The service as a plain function, for breakers that guard one.
    #[inline]
    pub fn now(&self, request: u64) -> Result<u64, Fault> {
        match self.outcome {
            Outcome::Answer => Ok(answer(request)),
            Outcome::Refuse => Err(Fault::Refused),
            Outcome::Script(script) => script.next(request),
        }
    }
}

impl Service<u64> for Inner {
    type Response = u64;
    type Error = Fault;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u64) -> Answer {
        Answer {
            pending: self.pending,
            result: self.now(request),
        }
    }
}

pub struct Answer {
    pending: u32,
    result: Result<u64, Fault>,
}

impl Future for Answer {
    type Output = Result<u64, Fault>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.pending > 0 {
            // No wake-up is asked for: the caller polls again in place.
            self.pending -= 1;
            return Poll::Pending;
        }
        Poll::Ready(self.result)
    }
}

/// Counts its calls, and fails by their number.
pub struct Script {
    calls: AtomicU64,
    fails: fn(u64) -> bool,
}

impl Script {
    /// Leaked, so that copies of the service cost no reference count.
    pub fn new(fails: fn(u64) -> bool) -> &'static Self {
        let calls = AtomicU64::new(0);
        Box::leak(Box::new(Self { calls, fails }))
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Numbers the calls from 0 again.
    pub fn restart(&self) {
        self.calls.store(0, Ordering::Relaxed);
    }

    fn next(&self, request: u64) -> Result<u64, Fault> {
        // Only ever called by one thread, and cheaper than an atomic addition.
        let call = self.calls();
        self.calls.store(call + 1, Ordering::Relaxed);
        if (self.fails)(call) {
            Err(Fault::Failed)
        } else {
            Ok(answer(request))
        }
    }
}

/// Small, so that copies of the `Result` do not hide what is measured. Stands
/// in wherever a contender wants its user to bring an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    Failed,
    TimedOut,
    Refused,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::Refused => "refused",
        })
    }
}

impl std::error::Error for Fault {}
