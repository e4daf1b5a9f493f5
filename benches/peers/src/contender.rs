//! What is measured: something that can be called.

use std::future::Future;
use std::task::Context;

use tower::{BoxError, Service};

use crate::inner::Fault;

/// Calls of clones share what calls of one contender share.
pub trait Contender: Clone + Send + 'static {
    type Error: Refusable;

    /// Drives the contender's own readiness, where it has any.
    fn ready(&mut self, _: &mut Context<'_>) {}

    fn call(&mut self, request: u64) -> impl Future<Output = Result<u64, Self::Error>>;
}

/// Tells a refusal of a breaker from a failure of the service.
pub trait Refusable {
    fn is_refusal(&self) -> bool;
}

impl Refusable for Fault {
    fn is_refusal(&self) -> bool {
        *self == Self::Refused
    }
}

impl Refusable for BoxError {
    fn is_refusal(&self) -> bool {
        self.downcast_ref::<crate::peers::Guarded>()
            .is_some_and(Refusable::is_refusal)
    }
}

/// Any tower service.
#[derive(Clone)]
pub struct Tower<S>(pub S);

impl<S> Contender for Tower<S>
where
    S: Service<u64, Response = u64, Error: Refusable> + Clone + Send + 'static,
{
    type Error = S::Error;

    fn ready(&mut self, cx: &mut Context<'_>) {
        while self.0.poll_ready(cx).is_pending() {}
    }

    fn call(&mut self, request: u64) -> impl Future<Output = Result<u64, S::Error>> {
        self.0.call(request)
    }
}

/// A breaker that guards a plain function; never waits.
#[derive(Clone)]
pub struct Plain<F>(pub F);

impl<F, E> Contender for Plain<F>
where
    F: Fn(u64) -> Result<u64, E> + Clone + Send + 'static,
    E: Refusable,
{
    type Error = E;

    fn call(&mut self, request: u64) -> impl Future<Output = Result<u64, E>> {
        std::future::ready((self.0)(request))
    }
}
