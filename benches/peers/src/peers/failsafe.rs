//! failsafe's breaker between tower's layers.
//!
//! It opens after consecutive failures, the cheaper of its two rules: its
//! success rate over a time window reads the clock two times more per call.

use failsafe::backoff::{Constant, constant};
use failsafe::failure_policy::{ConsecutiveFailures, consecutive_failures};
use failsafe::futures::ResponseFuture;
use failsafe::{Any, Config, Error, StateMachine};
use tower::BoxError;

use super::Peer;
use super::guarded::{self, Attempt, Guarded};
use super::tower::RetryPolicy;
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
        Some(guarded::stack(breaker, RetryPolicy::jittered(), inner))
    }

    fn refusing(inner: Inner) -> Option<impl Contender> {
        Self::stack(inner)
    }

    fn at_once(inner: Inner) -> Option<impl Contender> {
        let breaker = breaker(Rule::OutOfReach);
        Some(guarded::stack(breaker, RetryPolicy::at_once(), inner))
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

impl super::guarded::Breaker for Breaker {
    type Error = Error<BoxError>;
    type Future<F: Attempt> = ResponseFuture<F, Rules, (), Any>;

    fn guard<F: Attempt>(&self, call: F) -> Self::Future<F> {
        failsafe::futures::CircuitBreaker::call(self, call)
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
