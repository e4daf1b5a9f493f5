//! The wrapped service: as cheap as a service can be, so that the difference
//! to the bare one is the stack's own cost.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tower::Service;

#[derive(Clone, Copy)]
pub struct Inner {
    pending: u32,
    reachable: bool,
    fails_every_other: bool,
}

/// Attempts at all services that fail every other one: clones share it.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);

impl Inner {
    pub fn ready() -> Self {
        Self {
            pending: 0,
            reachable: true,
            fails_every_other: false,
        }
    }

    pub fn pending_once() -> Self {
        Self {
            pending: 1,
            ..Self::ready()
        }
    }

    /// A call of this one ends the program: an open breaker must not make it.
    pub fn out_of_reach() -> Self {
        Self {
            reachable: false,
            ..Self::ready()
        }
    }

    /// The first attempt fails, the second answers, and so on.
    pub fn failing_every_other() -> Self {
        Self {
            fails_every_other: true,
            ..Self::ready()
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
        assert!(self.reachable, "an open breaker let a call through");
        let fails = self.fails_every_other && ATTEMPTS.fetch_add(1, Ordering::Relaxed) % 2 == 0;
        Answer {
            pending: self.pending,
            request: if fails { FAILING } else { request },
        }
    }
}

/// The request of which every attempt fails.
pub const FAILING: u64 = u64::MAX;

pub struct Answer {
    pending: u32,
    request: u64,
}

impl Future for Answer {
    type Output = Result<u64, Fault>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.pending > 0 {
            // No wake-up is asked for: the caller polls again in place.
            self.pending -= 1;
            return Poll::Pending;
        }
        Poll::Ready(if self.request == FAILING {
            Err(Fault(self.request))
        } else {
            Ok(self.request)
        })
    }
}

/// Word-sized, so that copies of the `Result` do not hide the stack.
#[derive(Debug)]
pub struct Fault(u64);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault {}", self.0)
    }
}

impl std::error::Error for Fault {}
