//! failsafe's breaker between tower's layers.
//!
//! It opens after consecutive failures, the cheaper of its two rules: its
//! success rate over a time window reads the clock two times more per call.

use std::task::{Context, Poll};

use failsafe::backoff::{Constant, constant};
use failsafe::failure_policy::{ConsecutiveFailures, consecutive_failures};
use failsafe::futures::ResponseFuture;
use failsafe::{Any, Config, Error, StateMachine};
use tower::util::{Oneshot, ServiceExt};
use tower::{BoxError, Service, ServiceBuilder, layer::layer_fn};

use super::Peer;
use super::guarded::{Guarded, GuardedFuture};
use super::tower::{RetryPolicy, around};
use crate::contender::{Contender, Plain, Refusable};
use crate::inner::{Fault, Inner};
use crate::settings::{MIN_CALLS, OPEN_TIME, Rule};

type Rules = ConsecutiveFailures<Constant>;
pub type Breaker = StateMachine<Rules, ()>;

pub struct Failsafe;

impl Peer for Failsafe {
    const NAME: &'static str = "failsafe";

    fn stack(inner: Inner) -> Option<impl Contender> {
        let breaker = breaker(Rule::Half);
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
        let breaker = breaker(Rule::OutOfReach);
        let layer = layer_fn(move |inner| Guard::new(breaker.clone(), inner));
        Some(around(
            RetryPolicy::at_once(),
            ServiceBuilder::new().layer(layer),
            inner,
        ))
    }

    fn breaker(inner: Inner, rule: Rule) -> Option<impl Contender> {
        let breaker = breaker(rule);
        Some(Plain(move |request| {
            failsafe::CircuitBreaker::call(&breaker, || inner.now(request))
        }))
    }
}

pub fn breaker(rule: Rule) -> Breaker {
    let failures = match rule {
        Rule::Half => MIN_CALLS,
        Rule::OutOfReach => u32::MAX,
    };
    Config::new()
        .failure_policy(consecutive_failures(failures, constant(OPEN_TIME)))
        .build()
}

#[derive(Clone)]
struct Guard<S> {
    breaker: Breaker,
    inner: S,
}

impl<S> Guard<S> {
    fn new(breaker: Breaker, inner: S) -> Self {
        Self { breaker, inner }
    }
}

impl<S> Service<u64> for Guard<S>
where
    S: Service<u64, Response = u64, Error = BoxError> + Clone,
{
    type Response = u64;
    type Error = Guarded;
    type Future = GuardedFuture<ResponseFuture<Oneshot<S, u64>, Rules, (), Any>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Guarded>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u64) -> Self::Future {
        // Called at the first poll, and only if the breaker lets it.
        let call = self.inner.clone().oneshot(request);
        GuardedFuture::new(failsafe::futures::CircuitBreaker::call(&self.breaker, call))
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
