//! recloser's breaker between tower's layers. Its one rule is a failure rate
//! over the last hundred calls.

use recloser::{AnyError, AsyncRecloser, Error, RecloserFuture};
use tower::BoxError;

use super::Peer;
use super::guarded::{self, Attempt, Breaker, Guarded};
use super::tower::RetryPolicy;
use crate::contender::{Contender, Plain, Refusable};
use crate::inner::{Fault, Inner};
use crate::settings::{OPEN_TIME, Rule};

pub struct Recloser;

impl Peer for Recloser {
    const NAME: &'static str = "recloser";

    fn stack(inner: Inner) -> Option<impl Contender> {
        let breaker = AsyncRecloser::from(breaker(Rule::Half));
        Some(guarded::stack(breaker, RetryPolicy::jittered(), inner))
    }

    fn refusing(inner: Inner) -> Option<impl Contender> {
        Self::stack(inner)
    }

    fn at_once(inner: Inner) -> Option<impl Contender> {
        let breaker = AsyncRecloser::from(breaker(Rule::OutOfReach));
        Some(guarded::stack(breaker, RetryPolicy::at_once(), inner))
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

impl Breaker for AsyncRecloser {
    type Error = Error<BoxError>;
    type Future<F: Attempt> = RecloserFuture<F, AnyError>;

    fn guard<F: Attempt>(&self, call: F) -> Self::Future<F> {
        self.call(call)
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
