//! At most so many requests in a handler; those beyond are turned away at once.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tokio::sync::Semaphore;
use tokio::task::unconstrained;
use tower::limit::{ConcurrencyLimit, GlobalConcurrencyLimitLayer};
use tower::load_shed::LoadShed;
use tower::{Layer, Service};

use super::carried::{Carried, CarriedFuture};
use super::trailers_only::{grpc_type, trailers_only};
use crate::notice::whole_seconds;

/// Lets at most so many requests into the handler, and turns those beyond away
/// at once: no queue, no body, no work.
///
/// A server that queues what it cannot serve answers late to callers that have
/// left, and so serves nobody; one that turns the excess away serves at its
/// full rate (the SRE book, "Handling Overload"). Inside are tower's
/// `ConcurrencyLimit` and `LoadShed`.
///
/// | request | answer |
/// |---|---|
/// | HTTP | 503 (or 429, see [`too_many_requests`](Self::too_many_requests)), `Retry-After`, an empty body |
/// | gRPC (`content-type: application/grpc…`) | `UNAVAILABLE` (or `RESOURCE_EXHAUSTED`) without a message, `grpc-retry-pushback-ms` |
///
/// Either tells clients that the work was not begun, so that it may be sent
/// again whatever it was.
///
/// A place is held from the first poll of the call until the handler has
/// *answered*: until the head of its response is there, it failed, or was
/// dropped. A body that streams on afterwards holds none. A handler whose
/// service is not ready at once counts as full.
///
/// All services that one layer makes, and their clones, share its places: with
/// axum's `Router::layer`, all routes together.
///
/// # Default
///
/// 503, after one second. Not 429: that says of *this* caller that it asks too
/// much (RFC 6585 §4), which a server that is full does not know; and a caller's
/// breaker should hear that we are in trouble. One second is long for an
/// overload that lasts for milliseconds, and the shortest that `Retry-After`
/// can say.
///
/// # Cancel safety
///
/// Dropping the call drops the handler and gives the place back.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU32;
/// use axum::{Router, routing::get};
/// use steadfast::http::ShedLayer;
///
/// let places = NonZeroU32::new(512).unwrap();
/// let app: Router = Router::new()
///     .route("/stock", get(|| async { "17" }))
///     .layer(ShedLayer::new(places));
/// ```
#[derive(Clone, Debug)]
pub struct ShedLayer {
    places: GlobalConcurrencyLimitLayer,
    answer: Answer,
}

/// How to turn away.
#[derive(Clone, Copy, Debug)]
struct Answer {
    status: StatusCode,
    wait: Duration,
}

impl ShedLayer {
    /// At most `places` requests in the handler. (On a machine of 32 bits no
    /// more than 2²⁹, which do not fit into its memory.)
    #[must_use]
    pub fn new(places: NonZeroU32) -> Self {
        let places = usize::try_from(places.get()).unwrap_or(usize::MAX);
        let semaphore = Semaphore::new(places.min(Semaphore::MAX_PERMITS));
        Self {
            places: GlobalConcurrencyLimitLayer::with_semaphore(Arc::new(semaphore)),
            answer: Answer {
                status: StatusCode::SERVICE_UNAVAILABLE,
                wait: Duration::from_secs(1),
            },
        }
    }

    /// Answers 429 (gRPC: `RESOURCE_EXHAUSTED`) instead of 503, so that a
    /// caller's breaker does not take the refusal for ill health: right where
    /// the places are this caller's quota rather than all there are.
    #[must_use]
    pub const fn too_many_requests(mut self) -> Self {
        self.answer.status = StatusCode::TOO_MANY_REQUESTS;
        self
    }

    /// After which time callers are to come back: whole seconds for HTTP,
    /// milliseconds for gRPC, both rounded up.
    ///
    /// # Default
    ///
    /// One second.
    #[must_use]
    pub const fn retry_after(mut self, wait: Duration) -> Self {
        self.answer.wait = wait;
        self
    }
}

impl<S> Layer<S> for ShedLayer {
    type Service = Shed<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Shed {
            inner,
            places: self.places.clone(),
            answer: self.answer,
        }
    }
}

/// Service of [`ShedLayer`]. Always ready.
#[derive(Clone, Debug)]
pub struct Shed<S> {
    inner: S,
    places: GlobalConcurrencyLimitLayer,
    answer: Answer,
}

impl<S, Q, R> Service<Request<Q>> for Shed<S>
where
    S: Service<Request<Q>, Response = Response<R>> + Clone,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ShedFuture<S, Request<Q>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        // A clone for each call: one that found no place would stand in the
        // semaphore's queue, be given the next free place, and keep it idle.
        let handler = Contained {
            inner: Carried::new(self.inner.clone()),
        };
        ShedFuture {
            grpc: grpc_type(request.headers()),
            answer: self.answer,
            state: State::Entering {
                service: LoadShed::new(self.places.layer(handler)),
                request: Some(request),
            },
        }
    }
}

impl Answer {
    fn make<R: Default>(self, grpc: Option<HeaderValue>) -> Response<R> {
        let Some(grpc) = grpc else {
            let mut response = Response::new(R::default());
            *response.status_mut() = self.status;
            let seconds = whole_seconds(self.wait);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
            return response;
        };
        // UNAVAILABLE and RESOURCE_EXHAUSTED.
        let code = if self.status == StatusCode::TOO_MANY_REQUESTS {
            "8"
        } else {
            "14"
        };
        // A6 has it as a signed number of 32 bits.
        let millis = self.wait.as_nanos().div_ceil(1_000_000);
        let millis = i32::try_from(millis).unwrap_or(i32::MAX);
        let mut response = trailers_only(grpc, code);
        let pushback = HeaderValue::from(millis);
        response
            .headers_mut()
            .insert("grpc-retry-pushback-ms", pushback);
        response
    }
}

/// The handler's result within an `Ok`, so that the only error of the services
/// around is that they shed.
#[derive(Debug)]
struct Contained<S, E> {
    inner: Carried<S, E>,
}

impl<S, Req> Service<Req> for Contained<S, S::Error>
where
    S: Service<Req>,
{
    type Response = Result<S::Response, S::Error>;
    type Error = Infallible;
    type Future = ContainedFuture<S::Future, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx).map(Ok)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        ContainedFuture {
            inner: self.inner.call(request),
        }
    }
}

pin_project! {
    struct ContainedFuture<F, E> {
        #[pin]
        inner: CarriedFuture<F, E>,
    }
}

impl<F, Res, E> Future for ContainedFuture<F, E>
where
    F: Future<Output = Result<Res, E>>,
{
    type Output = Result<Result<Res, E>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().inner.poll(cx).map(Ok)
    }
}

/// A handler behind its limit.
type Limited<S, E> = LoadShed<ConcurrencyLimit<Contained<S, E>>>;

pin_project! {
    /// Future of [`Shed`].
    pub struct ShedFuture<S, Req>
    where
        S: Service<Req>,
    {
        grpc: Option<HeaderValue>,
        answer: Answer,
        #[pin]
        state: State<S, Req>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, Req>
    where
        S: Service<Req>,
    {
        /// Not polled yet: no place is held.
        Entering { service: Limited<S, S::Error>, request: Option<Req> },
        /// A place is held, or there was none.
        Entered { #[pin] future: <Limited<S, S::Error> as Service<Req>>::Future },
        /// The handler and its place are gone.
        Done,
    }
}

impl<S: Service<Req>, Req> fmt::Debug for ShedFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShedFuture").finish_non_exhaustive()
    }
}

impl<S, Req, R> Future for ShedFuture<S, Req>
where
    S: Service<Req, Response = Response<R>>,
    R: Default,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProj::Entering { service, request } => {
                    // Not through tokio's cooperative budget: a task that has
                    // used it up would find a free place taken.
                    let ready = pin!(unconstrained(poll_fn(|cx| service.poll_ready(cx))));
                    // It is always ready; that is what shedding is.
                    let _ = ready!(ready.poll(cx));
                    let Some(request) = request.take() else {
                        panic!("polled again after the handler panicked");
                    };
                    let future = service.call(request);
                    this.state.set(State::Entered { future });
                }
                StateProj::Entered { future } => {
                    let ended = ready!(future.poll(cx));
                    this.state.set(State::Done);
                    return Poll::Ready(match ended {
                        Ok(result) => result,
                        // The handler's own errors are within the `Ok`.
                        Err(_) => Ok(this.answer.make(this.grpc.take())),
                    });
                }
                StateProj::Done => panic!("polled after the call ended"),
            }
        }
    }
}
