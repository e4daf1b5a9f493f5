//! Makes the bodies of all requests ones that can be copied.

use std::task::{Context, Poll};

use ::http::Request;
use tower::{Layer, Service};

use super::replay::ReplayBody;

/// Wraps request bodies into [`ReplayBody`], so that requests with boxed and
/// streamed bodies can be retried. Stands outside of the stack.
///
/// # Default
///
/// A cap of 64 KiB, as linkerd's proxy has it: ordinary requests lie well
/// below, and ten thousand calls under way keep at most 640 MB. What is larger
/// is sent once.
///
/// # Examples
///
/// ```
/// use steadfast::http::{ReplayBody, ReplayLayer};
/// use tower::{BoxError, ServiceBuilder, service_fn};
/// # type Boxed = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, std::io::Error>;
///
/// let client = ServiceBuilder::new()
///     .layer(ReplayLayer::new(256 * 1024))
///     // the stack of a policy, then the client:
///     .service(service_fn(|request: http::Request<ReplayBody<Boxed>>| async move {
///         Ok::<_, BoxError>(http::Response::new(request.into_body()))
///     }));
/// # fn takes<S: tower::Service<http::Request<Boxed>>>(_: S) {}
/// # takes(client);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReplayLayer {
    cap: usize,
}

impl ReplayLayer {
    /// Keeps at most `cap` bytes of each body.
    #[must_use]
    pub const fn new(cap: usize) -> Self {
        Self { cap }
    }
}

impl Default for ReplayLayer {
    fn default() -> Self {
        Self::new(64 * 1024)
    }
}

impl<S> Layer<S> for ReplayLayer {
    type Service = ReplayService<S>;

    fn layer(&self, inner: S) -> ReplayService<S> {
        let cap = self.cap;
        ReplayService { inner, cap }
    }
}

/// Service of [`ReplayLayer`].
///
/// # Errors
///
/// Those of the service inside.
#[derive(Clone, Copy, Debug)]
pub struct ReplayService<S> {
    inner: S,
    cap: usize,
}

impl<S, B> Service<Request<B>> for ReplayService<S>
where
    S: Service<Request<ReplayBody<B>>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let cap = self.cap;
        self.inner
            .call(request.map(|body| ReplayBody::new(body, cap)))
    }
}
