//! The retry loop as a service.

use std::task::{Context, Poll};
use tower::Service;

use super::call::{Call, balance, left};
use super::future::{RetryFuture, Unheard};
use super::shared::LoopShared;
use crate::deadline::{RetryLoop, Within};
use crate::error::Error;
use crate::moment::Moment;
use crate::refusal::Refusal;
use crate::scope::ambient::Ambient;
use crate::scope::cap::note_stack;
use crate::scope::marks::Marks;
use crate::sharded::Sharded;
use crate::span::Span;
use crate::stage::{InnerService, Stage};

/// Service of [`RetryLayer`](super::RetryLayer): attempts with backoff.
///
/// Always ready. The service inside is cloned once per call, and its
/// readiness is waited for within the call.
///
/// An answer that is tried again is dropped before the wait, with the connection
/// that its body holds. An error is kept, as the source of what may end the call
/// when no further one comes: an error type must not hold what the next attempt
/// needs.
///
/// A retry that a breaker would refuse is not waited for: the call ends at once
/// with what the last attempt gave. A call that is already asleep when the
/// breaker opens is not woken; it is refused when its wait is over.
#[derive(Debug)]
pub struct RetryService<S, T> {
    service: S,
    pub(super) shared: Sharded<LoopShared<T>>,
}

impl<S, T> RetryService<S, T> {
    pub(crate) const fn new(service: S, shared: Sharded<LoopShared<T>>) -> Self {
        Self { service, shared }
    }
}

impl<S: Clone, T> Clone for RetryService<S, T> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            shared: self.shared.clone(),
        }
    }
}

impl<S, T> crate::deadline::sealed::Sealed for RetryService<S, T> {}
impl<S, T> RetryLoop for RetryService<S, T> {}

impl<Req, S, T> Service<Req> for RetryService<S, T>
where
    S: InnerService,
    T: Stage<Req, S>,
{
    type Response = T::Response;
    type Error = Error;
    type Future = RetryFuture<Req, S, T>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.call_within(request, Span::NONE)
    }
}

impl<Req, S, T> Within<Req> for RetryService<S, T>
where
    S: InnerService,
    T: Stage<Req, S>,
{
    fn call_within(&mut self, request: Req, total: Span) -> Self::Future {
        start(&self.shared, request, total, || self.service.clone())
    }
}

/// Begins a call. Nothing is sent or reserved before the first poll; but a
/// call that can go nowhere ends here, before it costs a clone of the service
/// or a reference count.
#[inline(always)]
pub(crate) fn start<Req, S, T>(
    shared: &Sharded<LoopShared<T>>,
    request: Req,
    total: Span,
    service: impl FnOnce() -> S,
) -> RetryFuture<Req, S, T>
where
    T: Stage<Req, S>,
{
    let started = Moment::now();
    let scope = Ambient::here();
    // What was given up before is not the word on this call.
    Ambient::mark_given_up(false);
    if scope.marks().any(Marks::RARE) {
        note_stack();
    }
    let deadline = scope.deadline.min(started.after(total));
    if deadline <= started {
        return ended(shared, None, deadline, started);
    }
    let (entry, marks) = match shared.stage.enter(&request, started) {
        Ok(entered) => entered,
        Err(refusal) => return ended(shared, Some(refusal), deadline, started),
    };
    let frame = Ambient::of_call(
        deadline,
        scope
            .marks()
            .only(Marks::WISHES.and(Marks::RARE))
            .and(marks),
    );
    RetryFuture::live(Call::new(
        shared.handle(),
        request,
        shared.stage.prepare(entry, service()),
        started,
        total,
        frame,
    ))
}

/// A call that ends here: refused, or out of time.
#[inline]
fn ended<Req, S, T: Stage<Req, S>>(
    shared: &LoopShared<T>,
    refusal: Option<Refusal>,
    deadline: Moment,
    now: Moment,
) -> RetryFuture<Req, S, T> {
    let unheard = if shared.observers.listen() {
        Some(to_tell(shared, deadline, now))
    } else {
        None
    };
    RetryFuture::ended(shared.dependency, refusal, unheard)
}

/// What is to be told of a call that ends here, if anybody listens.
#[cold]
#[inline(never)]
fn to_tell<T>(shared: &LoopShared<T>, deadline: Moment, now: Moment) -> Box<Unheard> {
    Box::new(Unheard {
        observers: shared.observers.clone(),
        deadline_left: left(deadline, now),
        budget_balance: balance(shared, now),
    })
}
