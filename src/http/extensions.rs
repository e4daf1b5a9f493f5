//! Wishes in the extensions of a request, the report in those of its answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::scope::report::{CallReport, Capture};
use crate::scope::{Scope, Scoped};

/// Takes a [`Scope`] from the extensions of a request, and leaves the
/// [`CallReport`] in those of its answer.
///
/// For code that has a request in its hands and not the future: a handler that
/// asks for one attempt, a layer that notes how many there were. Stands
/// outermost, above [`fallback`] and [`resilience`]. What is in scope anyway
/// holds as well. Without such an extension nothing changes; an error has all
/// that a report says.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use steadfast::http::{ExtensionsLayer, HttpClassifier};
/// use steadfast::{CallReport, Policy, Scope, ServiceBuilderExt};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let policy = Policy::builder("inventory").classify(HttpClassifier::new()).build().unwrap();
/// let client = ServiceBuilder::new()
///     .layer(ExtensionsLayer::new())
///     .resilience(policy)
///     .service(service_fn(|_: http::Request<()>| async {
///         Ok::<_, std::io::Error>(http::Response::new(()))
///     }));
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Scope::current().no_retries());
/// let answer = client.oneshot(request).await.unwrap();
/// assert_eq!(answer.extensions().get::<CallReport>().unwrap().attempts(), 1);
/// # }
/// ```
///
/// [`fallback`]: crate::ServiceBuilderExt::fallback
/// [`resilience`]: crate::ServiceBuilderExt::resilience
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtensionsLayer {
    _private: (),
}

impl ExtensionsLayer {
    /// The layer.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl<S> Layer<S> for ExtensionsLayer {
    type Service = WithExtensions<S>;

    fn layer(&self, inner: S) -> WithExtensions<S> {
        WithExtensions { inner }
    }
}

/// Service of [`ExtensionsLayer`].
#[derive(Clone, Copy, Debug)]
pub struct WithExtensions<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for WithExtensions<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = WithExtensionsFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let wished = request.extensions().get::<Scope>().copied();
        let call = CallReport::capture(self.inner.call(request));
        WithExtensionsFuture {
            inner: wished.unwrap_or(Scope::NONE).wrap(call),
        }
    }
}

pin_project! {
    /// Future of [`WithExtensions`].
    ///
    /// # Cancel safety
    ///
    /// As safe as the future inside; dropping it drops that.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct WithExtensionsFuture<F> {
        #[pin]
        inner: Scoped<Capture<F>>,
    }
}

impl<F, R, E> Future for WithExtensionsFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (answer, report) = ready!(self.project().inner.poll(cx));
        Poll::Ready(answer.map(|mut answer| {
            if let Some(report) = report {
                answer.extensions_mut().insert(report);
            }
            answer
        }))
    }
}
