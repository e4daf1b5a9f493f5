//! Wraps the bodies of answers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::body::WatchedBody;
use crate::breaker::late::LatePermit;
use crate::classify::verdict::Verdict;
use crate::deadline::Deadline;

/// Lets the breaker hear how the body of an answer ends, and bounds the waits
/// for its parts.
///
/// An attempt ends at the head of an answer: that is when the loop decides, and
/// nothing after it can be tried again without sending twice what the caller
/// may have read already. Without this layer a dependency that answers 200 and
/// then breaks off every stream is healthy. With it the attempt's permit stays
/// with the body: an error in it, a status in the trailers, a wait that is too
/// long are failures of the attempt; its end is a success. A body that its
/// reader drops, unread or in between two parts, was a success as far as it
/// went; dropped while the reader waits for a part it says nothing.
///
/// Until then the attempt counts as in flight for the breaker's concurrency
/// limit, and a half-open breaker waits for it (at most for the probe's
/// lease). For streams that are meant to last, such as server-sent events, let
/// the [first byte](Self::until_first_byte) decide.
///
/// Stands right around the client, below [`resilience`]. Costs one allocation
/// per answer that has a body; nothing is buffered or copied.
///
/// # Default
///
/// No limits; the end of the body decides; trailers are not looked at.
///
/// # The deadline
///
/// A deadline bounds the time to the head. Whether it cuts the body too is the
/// switch [`cut_at_deadline`](Self::cut_at_deadline): off by default, because a
/// stream of events outlives every deadline that makes sense for its head.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use steadfast::{Policy, ServiceBuilderExt, http::{HttpClassifier, WatchBodyLayer}};
/// use tower::ServiceBuilder;
///
/// # let client = tower::service_fn(|_: http::Request<()>| async {
/// #     Ok::<_, std::io::Error>(http::Response::new(String::from("body")))
/// # });
/// let policy = Policy::builder("feed").classify(HttpClassifier::new()).build()?;
/// let feed = ServiceBuilder::new()
///     .resilience(policy)
///     .layer(WatchBodyLayer::new().idle(Duration::from_secs(15)))
///     .service(client);
/// # let _ = tower::Service::call(&mut { feed }, http::Request::new(()));
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
///
/// [`resilience`]: crate::ServiceBuilderExt::resilience
#[derive(Clone, Copy, Debug, Default)]
pub struct WatchBodyLayer {
    settings: Settings,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    pub(super) first_byte: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) until_first_byte: bool,
    pub(super) cut_at_deadline: bool,
    pub(super) judge_trailers: Option<fn(&HeaderMap) -> Verdict>,
}

impl Settings {
    /// The verdict on a body that has ended, with the trailers if there were any.
    pub(super) fn verdict(&self, trailers: Option<&HeaderMap>) -> Verdict {
        match (self.judge_trailers, trailers) {
            (None, _) => Verdict::success(),
            (Some(judge), Some(trailers)) => judge(trailers),
            (Some(judge), None) => judge(&HeaderMap::new()),
        }
    }

    /// Whether no wait can ever be too long.
    pub(super) const fn is_unlimited(&self) -> bool {
        self.first_byte.is_none() && self.idle.is_none() && !self.cut_at_deadline
    }
}

impl WatchBodyLayer {
    /// Reports how bodies end, without limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The longest wait for the first part of a body, after its head. Only
    /// time in which the reader waits counts.
    #[must_use]
    pub const fn first_byte(mut self, longest: Duration) -> Self {
        self.settings.first_byte = Some(longest);
        self
    }

    /// The longest wait between two parts of a body. Only time in which the
    /// reader waits counts: a reader that is slow itself is not cut off.
    #[must_use]
    pub const fn idle(mut self, longest: Duration) -> Self {
        self.settings.idle = Some(longest);
        self
    }

    /// The first part of a body is a success already; what follows is bounded
    /// but no longer heard.
    #[must_use]
    pub const fn until_first_byte(mut self) -> Self {
        self.settings.until_first_byte = true;
        self
    }

    /// The deadline of the call cuts its body as well.
    #[must_use]
    pub const fn cut_at_deadline(mut self) -> Self {
        self.settings.cut_at_deadline = true;
        self
    }

    /// Has trailers judged, such as those in which gRPC ends a call. A body that
    /// ends without any is judged by empty ones.
    #[must_use]
    pub const fn judge_trailers(mut self, judge: fn(&HeaderMap) -> Verdict) -> Self {
        self.settings.judge_trailers = Some(judge);
        self
    }
}

impl<S> Layer<S> for WatchBodyLayer {
    type Service = WatchBody<S>;

    fn layer(&self, inner: S) -> WatchBody<S> {
        WatchBody {
            inner,
            settings: self.settings,
        }
    }
}

/// Service of [`WatchBodyLayer`].
#[derive(Clone, Copy, Debug)]
pub struct WatchBody<S> {
    inner: S,
    settings: Settings,
}

impl<S, Req, B> Service<Req> for WatchBody<S>
where
    S: Service<Req, Response = Response<B>>,
    B: Body,
{
    type Response = Response<WatchedBody<B>>;
    type Error = S::Error;
    type Future = WatchBodyFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        WatchBodyFuture {
            inner: self.inner.call(request),
            settings: self.settings,
        }
    }
}

pin_project! {
    /// Future of [`WatchBody`].
    ///
    /// # Cancel safety
    ///
    /// As safe as the future inside; dropping it drops that.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct WatchBodyFuture<F> {
        #[pin]
        inner: F,
        settings: Settings,
    }
}

impl<F, B, E> Future for WatchBodyFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<WatchedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx))?;
        let settings = *this.settings;
        let is_told =
            settings.judge_trailers.is_some() && answer.headers().contains_key("grpc-status");
        Poll::Ready(Ok(answer.map(|body| {
            // An empty body has ended with its head, and so has a gRPC answer
            // whose head holds the status.
            let late = if body.is_end_stream() || is_told {
                None
            } else {
                LatePermit::claim()
            };
            let deadline = Deadline::current().filter(|_| settings.cut_at_deadline);
            WatchedBody::new(body, settings, late, deadline.map(Deadline::instant))
        })))
    }
}
