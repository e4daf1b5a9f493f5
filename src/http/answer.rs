//! Errors of a stack as answers of a server.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::carried::{Carried, CarriedFuture};
use super::problem::Problem;
use crate::error::Error;

/// Longer names of an operation are not taken from a caller.
const LONGEST_ID: usize = 128;

/// Answers what a stack fails with: `Err(steadfast::Error)` becomes the
/// [`Problem`] as a response, so that a gateway's service cannot fail any
/// more.
///
/// The operation is named by a header of the request, `x-request-id` unless
/// changed; a value that is empty, longer than 128 bytes or not visible ASCII
/// is not taken over, and a random one made instead.
///
/// The body of the answers is the same as the service's own. Bodies that can
/// be made of `Bytes` (axum's `Body`, `Full<Bytes>`) need nothing; for others,
/// such as boxed ones, [`body`](Self::body) says how.
///
/// # Cancel safety
///
/// Dropping the call drops the call inside.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use steadfast::{Policy, ServiceBuilderExt, http::AnswerErrorsLayer};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let policy = Policy::builder("inventory").max_attempts(1).build()?;
/// let gateway = ServiceBuilder::new()
///     .layer(AnswerErrorsLayer::new())
///     .resilience(policy)
///     .service(service_fn(|_: Request<()>| async {
///         Err::<Response<Full<Bytes>>, _>(std::io::Error::other("10.0.0.7: connection reset"))
///     }));
/// let answer = gateway.oneshot(Request::new(())).await?;
/// assert_eq!(answer.status(), 503);
/// # Ok(())
/// # }
/// ```
///
/// With a boxed body:
///
/// ```
/// use bytes::Bytes;
/// use http_body_util::{BodyExt, Full, combinators::BoxBody};
/// use steadfast::http::AnswerErrorsLayer;
///
/// let layer = AnswerErrorsLayer::new().body(|text: Bytes| -> BoxBody<Bytes, std::io::Error> {
///     Full::new(text).map_err(|never| match never {}).boxed()
/// });
/// # let _ = layer;
/// ```
#[derive(Clone, Debug)]
pub struct AnswerErrorsLayer<M = FromBytes> {
    settings: Settings,
    make_body: M,
}

#[derive(Clone, Debug)]
struct Settings {
    id_header: Option<HeaderName>,
    named: bool,
}

impl AnswerErrorsLayer {
    /// Names the dependency, takes the operation's name from `x-request-id`,
    /// and makes bodies by `From<Bytes>`.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            settings: Settings {
                id_header: Some(HeaderName::from_static("x-request-id")),
                named: true,
            },
            make_body: FromBytes(()),
        }
    }
}

impl Default for AnswerErrorsLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> AnswerErrorsLayer<M> {
    /// Takes the operation's name from this header; `None` from none.
    ///
    /// # Default
    ///
    /// `x-request-id`, which proxies and tracing middleware set.
    #[must_use]
    pub fn operation_id_header(mut self, name: impl Into<Option<HeaderName>>) -> Self {
        self.settings.id_header = name.into();
        self
    }

    /// See [`Problem::hide_dependency`].
    #[must_use]
    pub const fn hide_dependency(mut self) -> Self {
        self.settings.named = false;
        self
    }

    /// How a body is made, where `From<Bytes>` does not say.
    #[must_use]
    pub fn body<F, B>(self, make_body: F) -> AnswerErrorsLayer<BodyFn<F>>
    where
        F: Fn(Bytes) -> B,
    {
        AnswerErrorsLayer {
            settings: self.settings,
            make_body: BodyFn(make_body),
        }
    }
}

impl<S, M: Clone> Layer<S> for AnswerErrorsLayer<M> {
    type Service = AnswerErrors<S, M>;

    fn layer(&self, inner: S) -> Self::Service {
        AnswerErrors {
            inner: Carried::new(inner),
            settings: self.settings.clone(),
            make_body: self.make_body.clone(),
        }
    }
}

/// Service of [`AnswerErrorsLayer`]. It never fails.
#[derive(Debug)]
pub struct AnswerErrors<S, M = FromBytes> {
    inner: Carried<S, Error>,
    settings: Settings,
    make_body: M,
}

impl<S: Clone, M: Clone> Clone for AnswerErrors<S, M> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            settings: self.settings.clone(),
            make_body: self.make_body.clone(),
        }
    }
}

impl<S, M, Q, B> Service<Request<Q>> for AnswerErrors<S, M>
where
    S: Service<Request<Q>, Response = Response<B>, Error = Error>,
    M: MakeBody<B> + Clone,
{
    type Response = Response<B>;
    type Error = Infallible;
    type Future = AnswerErrorsFuture<S::Future, M>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx).map(Ok)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let named = self.settings.named;
        let id_header = self.settings.id_header.as_ref();
        AnswerErrorsFuture {
            operation_id: id_header.and_then(|name| operation_id(request.headers(), name)),
            named,
            make_body: self.make_body.clone(),
            future: self.inner.call(request),
        }
    }
}

fn operation_id(headers: &HeaderMap, name: &HeaderName) -> Option<http::HeaderValue> {
    let value = headers.get(name)?;
    let bytes = value.as_bytes();
    let fits = !bytes.is_empty() && bytes.len() <= LONGEST_ID;
    (fits && bytes.iter().all(u8::is_ascii_graphic)).then(|| value.clone())
}

pin_project! {
    /// Future of [`AnswerErrors`].
    pub struct AnswerErrorsFuture<F, M = FromBytes> {
        #[pin]
        future: CarriedFuture<F, Error>,
        operation_id: Option<http::HeaderValue>,
        named: bool,
        make_body: M,
    }
}

impl<F, M> fmt::Debug for AnswerErrorsFuture<F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerErrorsFuture").finish_non_exhaustive()
    }
}

impl<F, M, B> Future for AnswerErrorsFuture<F, M>
where
    F: Future<Output = Result<Response<B>, Error>>,
    M: MakeBody<B>,
{
    type Output = Result<Response<B>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let error = match ready!(this.future.poll(cx)) {
            Ok(response) => return Poll::Ready(Ok(response)),
            Err(error) => error,
        };
        let mut problem = Problem::from(&error);
        if let Some(Ok(id)) = this.operation_id.as_ref().map(http::HeaderValue::to_str) {
            problem = problem.operation_id(id);
        }
        if !*this.named {
            problem = problem.hide_dependency();
        }
        let make_body = &*this.make_body;
        Poll::Ready(Ok(
            problem.into_response_with(|text| make_body.make_body(text))
        ))
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::FromBytes {}
    impl<F> Sealed for super::BodyFn<F> {}
}

/// How the text of an answer becomes a body. Sealed: [`FromBytes`], or a
/// closure through [`AnswerErrorsLayer::body`].
pub trait MakeBody<B>: sealed::Sealed {
    #[doc(hidden)]
    fn make_body(&self, text: Bytes) -> B;
}

/// Makes bodies by `From<Bytes>`.
#[derive(Clone, Copy, Debug)]
pub struct FromBytes(());

impl<B: From<Bytes>> MakeBody<B> for FromBytes {
    fn make_body(&self, text: Bytes) -> B {
        B::from(text)
    }
}

/// Makes bodies by a closure; see [`AnswerErrorsLayer::body`].
#[derive(Clone, Copy)]
pub struct BodyFn<F>(F);

impl<F> fmt::Debug for BodyFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyFn")
    }
}

impl<F: Fn(Bytes) -> B, B> MakeBody<B> for BodyFn<F> {
    fn make_body(&self, text: Bytes) -> B {
        (self.0)(text)
    }
}
