//! Takes a caller's deadline for one's own.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use tower::{Layer, Service};

use super::form::DeadlineHeader;
use super::future::InboundDeadlineFuture;
use crate::http::trailers_only::grpc_type;
use crate::limit::lesser;
use crate::moment::Moment;
use crate::scope::ambient::Ambient;
use crate::scope::current::Entered;
use crate::scope::marks::Marks;
use crate::span::Span;

/// Bounds a handler by its caller's deadline and by a cap of its own, and tells
/// the caller when to stop asking.
///
/// Stands around a handler: an axum `Router` or route, a tonic server, any
/// service from [`http::Request`] to [`http::Response`].
///
/// # The deadline
///
/// The handler has the least of the cap, what a [trusted](Self::trusting)
/// header grants, and the deadline that is in scope already. It is in scope for
/// the handler and every stack below, counts from `call`, and holds to the head
/// of the answer; a body that streams is not cut. A header that is malformed is
/// passed over, so that the cap holds. It is no reason to refuse: the request
/// may be good, and what is asked for may take a millisecond.
///
/// When the deadline passes, the handler is dropped and the answer is 504, or
/// for a request of type `application/grpc` a trailers-only answer with status
/// 4, `DEADLINE_EXCEEDED`. A request that comes in late already is answered
/// without the handler being asked.
///
/// # The retry stop
///
/// Three services in a row with four attempts each send 64 requests for one,
/// unless each hears that the one below has tried all there is to try. Within
/// one task a mark in the scope says so. Across processes this layer does: when
/// a stack in the handler has refused or given up and the handler's answer is a
/// failing one, it gets `x-should-retry: false`, which the SDKs of model
/// providers obey, and for gRPC `grpc-retry-pushback-ms: -1`, as in its
/// proposal A6; [`Hints`](crate::http::Hints) reads both. Failing is any 4xx
/// and 5xx, and in gRPC a status other than OK in the answer's head; one that
/// comes in trailers after a message is not seen. A `Retry-After` is left to
/// those who know a time.
///
/// It hears of a stack in the handler's own task by the mark in the scope, where
/// the last stack called counts, and of any stack whose own answer is passed on
/// by that answer's [`Sealed`](crate::http::Sealed). An error that became a
/// [`Problem`](crate::http::Problem) says so by itself.
///
/// # Errors
///
/// The handler's own.
///
/// # Cancel safety
///
/// As safe as the handler's own future; dropping it drops that.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use http::{Request, Response};
/// use steadfast::Deadline;
/// use steadfast::http::{DeadlineHeader, InboundDeadlineLayer};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let handler = ServiceBuilder::new()
///     .layer(
///         InboundDeadlineLayer::capped(Duration::from_secs(3))
///             .trusting(DeadlineHeader::grpc()),
///     )
///     .service(service_fn(|_: Request<()>| async {
///         let left = Deadline::current().unwrap().remaining();
///         assert!(left <= Duration::from_millis(500));
///         std::future::pending::<Result<Response<()>, std::io::Error>>().await
///     }));
/// let request = Request::builder().header("grpc-timeout", "500m").body(()).unwrap();
/// # tokio::time::pause();
/// assert_eq!(handler.oneshot(request).await.unwrap().status(), 504);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InboundDeadlineLayer {
    settings: Settings,
}

#[derive(Clone, Debug)]
struct Settings {
    cap: Option<Duration>,
    trusted: Vec<DeadlineHeader>,
}

impl InboundDeadlineLayer {
    /// A handler may take this long, whatever its caller says. A cap of zero
    /// answers every request as late.
    #[must_use]
    pub const fn capped(cap: Duration) -> Self {
        Self {
            settings: Settings {
                cap: Some(cap),
                trusted: Vec::new(),
            },
        }
    }

    /// Without a cap: what a trusted header grants holds, and without such a
    /// header there is no limit.
    #[must_use]
    pub const fn uncapped() -> Self {
        Self {
            settings: Settings {
                cap: None,
                trusted: Vec::new(),
            },
        }
    }

    /// Believes what callers say in this header; of several headers, the least
    /// holds.
    ///
    /// # Default
    ///
    /// None. The header can only take time away, but a stranger who may set it
    /// decides which of your work is begun and thrown away: a request for a
    /// hundred queries with one millisecond to go costs its sender nothing. Let
    /// a proxy at the edge remove or set it, and trust it behind that.
    #[must_use]
    pub fn trusting(mut self, header: DeadlineHeader) -> Self {
        self.settings.trusted.push(header);
        self
    }
}

impl<S> Layer<S> for InboundDeadlineLayer {
    type Service = InboundDeadlineService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        InboundDeadlineService {
            inner,
            settings: Arc::new(self.settings.clone()),
        }
    }
}

/// Service of [`InboundDeadlineLayer`].
#[derive(Clone, Debug)]
pub struct InboundDeadlineService<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S, B, R> Service<Request<B>> for InboundDeadlineService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = InboundDeadlineFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let grpc = grpc_type(request.headers());
        let granted = self.settings.granted(request.headers());
        // What a stack before the handler gave up is not the handler's.
        let mut frame = Ambient::current().unmarked(Marks::GIVEN_UP);
        if granted.is_some() || frame.deadline != Moment::NEVER {
            let now = Moment::now();
            frame.deadline = frame.deadline.min(now.after(Span::new(granted)));
            if frame.deadline <= now {
                return InboundDeadlineFuture::late(frame, grpc);
            }
        }
        // In scope already here: a handler may well look before its future is
        // polled, as everything does that writes headers.
        let entered = Entered::new(&mut frame);
        let handler = self.inner.call(request);
        drop(entered);
        InboundDeadlineFuture::begun(handler, frame, grpc)
    }
}

impl Settings {
    /// How long the handler may take.
    fn granted(&self, headers: &HeaderMap) -> Option<Duration> {
        let by_callers = self.trusted.iter().filter_map(|form| form.read(headers));
        lesser(self.cap, by_callers.min())
    }
}
