//! The retry loop as a service.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tower::Service;

use super::call::{Call, balance, left};
use super::future::{RetryFuture, Unheard};
use super::shared::LoopShared;
use crate::deadline::{RetryLoop, Within};
use crate::error::{Error, ErrorKind};
use crate::limit::lesser;
use crate::scope::ambient::Ambient;
use crate::scope::cap::note_stack;
use crate::sharded::Sharded;
use crate::stage::{InnerService, Limits, Stage};

/// Service of [`RetryLayer`](super::RetryLayer): attempts with backoff.
///
/// Always ready. The service inside is cloned once per call, and its
/// readiness is waited for within the call.
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
        self.call_within(request, None)
    }
}

impl<Req, S, T> Within<Req> for RetryService<S, T>
where
    S: InnerService,
    T: Stage<Req, S>,
{
    fn call_within(&mut self, request: Req, total: Option<Duration>) -> Self::Future {
        start(&self.shared, request, total, || self.service.clone())
    }
}

/// Begins a call. Nothing is sent or reserved before the first poll; but a
/// call that can go nowhere ends here, before it costs a clone of the service
/// or a reference count.
pub(crate) fn start<Req, S, T>(
    shared: &Sharded<LoopShared<T>>,
    request: Req,
    total: Option<Duration>,
    service: impl FnOnce() -> S,
) -> RetryFuture<Req, S, T>
where
    T: Stage<Req, S>,
{
    let started = Instant::now();
    let mut frame = Ambient::current();
    if frame.given_up {
        Ambient::mark_given_up(false);
    }
    if let Some(cap) = frame.cap {
        note_stack(cap);
    }
    let own = total.and_then(|total| started.checked_add(total));
    let deadline = lesser(frame.deadline, own);
    if deadline.is_some_and(|deadline| deadline <= started) {
        let unheard = unheard(shared, deadline, started);
        let error = Error::new(ErrorKind::DeadlineExceeded, shared.dependency);
        return RetryFuture::ended(error, unheard);
    }
    if let Err(refusal) = shared.stage.is_shut(&request, started) {
        let unheard = unheard(shared, deadline, started);
        return RetryFuture::ended(Error::refused(refusal, shared.dependency), unheard);
    }
    frame.report_wanted = false;
    frame.given_up = false;
    frame.lends_permits = shared.stage.lends_permits();
    let limits = Limits { deadline, total };
    let running = shared.stage.prepare(service());
    RetryFuture::live(Call::new(
        shared.handle(),
        request,
        running,
        started,
        limits,
        frame,
    ))
}

/// What is to be told of a call that ends here, if anybody listens.
#[inline]
fn unheard<T>(
    shared: &LoopShared<T>,
    deadline: Option<Instant>,
    now: Instant,
) -> Option<Box<Unheard>> {
    if shared.observers.listen() {
        Some(to_tell(shared, deadline, now))
    } else {
        None
    }
}

#[cold]
#[inline(never)]
fn to_tell<T>(shared: &LoopShared<T>, deadline: Option<Instant>, now: Instant) -> Box<Unheard> {
    Box::new(Unheard {
        observers: shared.observers.clone(),
        deadline_left: left(deadline, now),
        budget_balance: balance(shared, now),
    })
}
