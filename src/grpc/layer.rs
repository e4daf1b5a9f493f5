//! A stack's errors as statuses, for generated clients.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tonic::Status;
use tower::{Layer, Service};

use super::status::into_status;
use crate::error::Error;
use crate::http::carried::{Carried, CarriedFuture};

/// Makes what a stack fails with a [`tonic::Status`], between a generated
/// client and the stack.
///
/// Without it the client makes `UNKNOWN` of every error that it does not know,
/// a refusal included; with it, its callers see the code that the
/// [conversion](Status#impl-From<Error>-for-Status) gives: `UNAVAILABLE`,
/// `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED`, or the dependency's own.
///
/// # Cancel safety
///
/// Dropping the call drops the call inside.
///
/// # Examples
///
/// ```
/// use steadfast::grpc::{GrpcClassifier, StatusLayer};
/// use steadfast::{Policy, ServiceBuilderExt};
/// use tower::ServiceBuilder;
///
/// # fn main() -> Result<(), steadfast::ConfigError> {
/// let policy = Policy::builder("inventory").classify(GrpcClassifier::new()).build()?;
/// let layers = ServiceBuilder::new()
///     .layer(StatusLayer::new())
///     .resilience(policy);
/// // InventoryClient::new(layers.service(channel))
/// # let _ = layers;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StatusLayer {
    named: bool,
}

impl StatusLayer {
    /// Names the dependency.
    #[must_use]
    pub const fn new() -> Self {
        Self { named: true }
    }

    /// Keeps the dependency's name out of messages and details, for servers
    /// that pass their statuses on to strangers. What the dependency itself has
    /// said stands as it is.
    #[must_use]
    pub const fn hide_dependency(mut self) -> Self {
        self.named = false;
        self
    }
}

impl Default for StatusLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for StatusLayer {
    type Service = StatusService<S>;

    fn layer(&self, inner: S) -> StatusService<S> {
        StatusService {
            inner: Carried::new(inner),
            named: self.named,
        }
    }
}

/// Service of [`StatusLayer`].
///
/// Its readiness never fails: generated clients make `UNKNOWN` of that too, so
/// such an error comes out of the call.
#[derive(Clone, Debug)]
pub struct StatusService<S> {
    inner: Carried<S, Error>,
    named: bool,
}

impl<S, Req> Service<Req> for StatusService<S>
where
    S: Service<Req, Error = Error>,
{
    type Response = S::Response;
    type Error = Status;
    type Future = StatusFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.inner.poll_ready(cx).map(Ok)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        StatusFuture {
            future: self.inner.call(request),
            named: self.named,
        }
    }
}

pin_project! {
    /// Future of [`StatusService`].
    pub struct StatusFuture<F> {
        #[pin]
        future: CarriedFuture<F, Error>,
        named: bool,
    }
}

impl<F> fmt::Debug for StatusFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusFuture").finish_non_exhaustive()
    }
}

impl<F, Res> Future for StatusFuture<F>
where
    F: Future<Output = Result<Res, Error>>,
{
    type Output = Result<Res, Status>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.future.poll(cx));
        Poll::Ready(result.map_err(|error| into_status(error, *this.named)))
    }
}
