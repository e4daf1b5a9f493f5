//! recloser's breaker between tower's layers. Its one rule is a failure rate
//! over the last hundred calls.

use std::task::{Context, Poll};

use recloser::{AnyError, AsyncRecloser, Error, RecloserFuture};
use tower::util::{Oneshot, ServiceExt};
use tower::{BoxError, Service, ServiceBuilder, layer::layer_fn};

use super::Peer;
use super::guarded::{Guarded, GuardedFuture};
use super::tower::{RetryPolicy, around};
use crate::contender::{Contender, Plain, Refusable};
use crate::inner::{Fault, Inner};
use crate::settings::{OPEN_TIME, Rule};

pub struct Recloser;

impl Peer for Recloser {
    const NAME: &'static str = "recloser";

    fn stack(inner: Inner) -> Option<impl Contender> {
        let breaker = AsyncRecloser::from(breaker(Rule::Half));
        let layer = layer_fn(move |inner| Guard::new(breaker.clone(), inner));
        Some(around(
            RetryPolicy::jittered(),
            ServiceBuilder::new().layer(layer),
            inner,
        ))
    }

    fn refusing(inner: Inner) -> Option<impl Contender> {
        Self::stack(inner)
    }

    fn at_once(inner: Inner) -> Option<impl Contender> {
        let breaker = AsyncRecloser::from(breaker(Rule::OutOfReach));
        let layer = layer_fn(move |inner| Guard::new(breaker.clone(), inner));
        Some(around(
            RetryPolicy::at_once(),
            ServiceBuilder::new().layer(layer),
            inner,
        ))
    }

    fn breaker(inner: Inner, rule: Rule) -> Option<impl Contender> {
        let breaker = std::sync::Arc::new(breaker(rule));
        Some(Plain(move |request| breaker.call(|| inner.now(request))))
    }
}

pub fn breaker(rule: Rule) -> recloser::Recloser {
    recloser::Recloser::custom()
        .error_rate(rule.share() as f32)
        .closed_len(100)
        .open_wait(OPEN_TIME)
        .build()
}

#[derive(Clone)]
struct Guard<S> {
    breaker: AsyncRecloser,
    inner: S,
}

impl<S> Guard<S> {
    fn new(breaker: AsyncRecloser, inner: S) -> Self {
        Self { breaker, inner }
    }
}

impl<S> Service<u64> for Guard<S>
where
    S: Service<u64, Response = u64, Error = BoxError> + Clone,
{
    type Response = u64;
    type Error = Guarded;
    type Future = GuardedFuture<RecloserFuture<Oneshot<S, u64>, AnyError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Guarded>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u64) -> Self::Future {
        // Called at the first poll, and only if the breaker lets it.
        let call = self.inner.clone().oneshot(request);
        GuardedFuture::new(self.breaker.call(call))
    }
}

impl From<Error<BoxError>> for Guarded {
    fn from(error: Error<BoxError>) -> Self {
        match error {
            Error::Rejected => Self::Refused,
            Error::Inner(error) => Self::Failed(error),
        }
    }
}

impl Refusable for Error<Fault> {
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Rejected)
    }
}
