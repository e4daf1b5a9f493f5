//! What a user writes to put a breaker without a tower form between tower's
//! retry and timeout.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower::retry::backoff::Backoff;
use tower::util::{Oneshot, ServiceExt};
use tower::{BoxError, Service, ServiceBuilder, layer::layer_fn};

use super::tower::{RetryPolicy, around};
use crate::contender::{Contender, Refusable};
use crate::inner::Inner;

/// A breaker that has a form for futures.
pub trait Breaker: Clone + Send + 'static {
    type Error: Into<Guarded>;
    type Future<F: Attempt>: Future<Output = Result<u64, Self::Error>>;

    /// Polls the call only if the breaker lets it.
    fn guard<F: Attempt>(&self, call: F) -> Self::Future<F>;
}

/// What is guarded.
pub trait Attempt: Future<Output = Result<u64, BoxError>> {}

impl<F: Future<Output = Result<u64, BoxError>>> Attempt for F {}

/// The breaker between tower's retry and timeout.
pub fn stack(
    breaker: impl Breaker,
    retries: RetryPolicy<impl Backoff<Future: Send> + Clone + Send + 'static>,
    inner: Inner,
) -> impl Contender {
    let layer = layer_fn(move |inner| Guard {
        breaker: breaker.clone(),
        inner,
    });
    around(retries, ServiceBuilder::new().layer(layer), inner)
}

#[derive(Clone)]
struct Guard<B, S> {
    breaker: B,
    inner: S,
}

impl<B, S> Service<u64> for Guard<B, S>
where
    B: Breaker,
    S: Service<u64, Response = u64, Error = BoxError> + Clone,
{
    type Response = u64;
    type Error = Guarded;
    type Future = GuardedFuture<B::Future<Oneshot<S, u64>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Guarded>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u64) -> Self::Future {
        let call = self.inner.clone().oneshot(request);
        GuardedFuture {
            future: self.breaker.guard(call),
        }
    }
}

/// The error of such a layer. The breakers' own are no `std::error::Error`
/// around a boxed one, which tower's timeout answers.
#[derive(Debug)]
pub enum Guarded {
    Refused,
    Failed(BoxError),
}

impl Refusable for Guarded {
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused)
    }
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Guarded {}

pin_project! {
    /// The breaker's future, with its error made one of ours.
    pub struct GuardedFuture<F> {
        #[pin]
        future: F,
    }
}

impl<F, E> Future for GuardedFuture<F>
where
    F: Future<Output = Result<u64, E>>,
    E: Into<Guarded>,
{
    type Output = Result<u64, Guarded>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().future.poll(cx)).map_err(Into::into))
    }
}
