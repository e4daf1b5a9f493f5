//! A bounded look at the body of an answer that is an error.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::{Layer, Service};

use super::looked::Looked;
use crate::deadline::{Deadline, instant_after};
use crate::stage::timer::Timer;

/// Reads the beginning of error answers, so that a classifier can see what
/// their bodies say.
///
/// Stands directly around the client, inside the attempt. An answer with a
/// status of 400 or more has the beginning of its body read, which is put into
/// the answer's extensions as an [`ErrorBody`](super::ErrorBody); then the answer goes on with
/// its body unharmed: what was read comes first, then the rest, and an error
/// at its place. All other answers pass untouched: their bodies are not read,
/// kept or delayed.
///
/// The bytes are seen as they come. Where a body is compressed, what undoes it
/// must stand inside.
///
/// # Default
///
/// At most 8 KiB: the errors of model providers take less than one, and even
/// those with details or a page of HTML show their code within it. At most
/// 250 ms: an error's body comes with its head, or one retransmission later
/// (200 ms at least on Linux). A body that trickles holds up the verdict by no
/// more than that, or half of what the deadline leaves; it should be well below
/// the attempt timeout, which cuts the look and its answer with it.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use steadfast::http::{ErrorBody, LookLayer};
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut client = ServiceBuilder::new()
///     .layer(LookLayer::new().at_most(1024).within(Duration::from_millis(100)))
///     .service(service_fn(|()| async {
///         let mut answer = http::Response::new(r#"{"error":"no"}"#.to_owned());
///         *answer.status_mut() = http::StatusCode::BAD_REQUEST;
///         Ok::<_, std::io::Error>(answer)
///     }));
/// let answer = client.ready().await.unwrap().call(()).await.unwrap();
/// let seen = answer.extensions().get::<ErrorBody>().unwrap();
/// assert_eq!(seen.bytes(), r#"{"error":"no"}"#);
/// assert!(seen.is_complete());
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LookLayer {
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    bytes: usize,
    time: Duration,
}

impl Limits {
    /// Until when to look. A deadline that passed meanwhile would put an error
    /// of ours in the place of the answer, so half of what it leaves is kept
    /// from the look.
    fn until(self, now: Instant, deadline: Option<Deadline>) -> Instant {
        let time = match deadline {
            Some(deadline) => {
                let left = deadline.instant().saturating_duration_since(now);
                self.time.min(left / 2)
            }
            None => self.time,
        };
        instant_after(now, time)
    }
}

impl LookLayer {
    /// With the default limits.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            limits: Limits {
                bytes: 8 * 1024,
                time: Duration::from_millis(250),
            },
        }
    }

    /// Looks at so many bytes at most.
    #[must_use]
    pub const fn at_most(mut self, bytes: usize) -> Self {
        self.limits.bytes = bytes;
        self
    }

    /// Looks for so long at most, from the head of the answer.
    #[must_use]
    pub const fn within(mut self, time: Duration) -> Self {
        self.limits.time = time;
        self
    }
}

impl Default for LookLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for LookLayer {
    type Service = LookService<S>;

    fn layer(&self, inner: S) -> LookService<S> {
        let limits = self.limits;
        LookService { inner, limits }
    }
}

/// Service of [`LookLayer`].
///
/// # Errors
///
/// Those of the service inside. An error of the body is no error of the call:
/// it comes when the body is read.
#[derive(Clone, Copy, Debug)]
pub struct LookService<S> {
    inner: S,
    limits: Limits,
}

impl<S, Req, B> Service<Req> for LookService<S>
where
    S: Service<Req, Response = Response<B>>,
    B: Body + Unpin,
{
    type Response = Response<Looked<B>>;
    type Error = S::Error;
    type Future = LookFuture<S::Future, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        LookFuture {
            answer: self.inner.call(request),
            limits: self.limits,
            looking: None,
            timer: Timer::unarmed(),
        }
    }
}

pin_project! {
    /// Future of [`LookService`].
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any point; the answer that is looked at is dropped
    /// with it.
    #[must_use = "futures do nothing unless awaited"]
    pub struct LookFuture<F, B>
    where
        B: Body,
    {
        #[pin]
        answer: F,
        limits: Limits,
        looking: Option<Looking<B>>,
        #[pin]
        timer: Timer,
    }
}

/// An answer that is being looked at.
struct Looking<B: Body> {
    answer: Response<Looked<B>>,
    until: Instant,
}

impl<F, B, E> Future for LookFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body + Unpin,
{
    type Output = Result<Response<Looked<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let looking = match this.looking {
            Some(looking) => looking,
            None => {
                let answer = ready!(this.answer.poll(cx))?;
                let is_error = answer.status().as_u16() >= 400;
                let answer = answer.map(Looked::new);
                if !is_error {
                    return Poll::Ready(Ok(answer));
                }
                let until = this.limits.until(Instant::now(), Deadline::current());
                this.looking.insert(Looking { answer, until })
            }
        };
        let body = looking.answer.body_mut();
        if body.poll_look(this.limits.bytes, cx).is_pending() {
            ready!(this.timer.poll_until(looking.until, cx));
        }
        let Some(Looking { mut answer, .. }) = this.looking.take() else {
            unreachable!("looked at above");
        };
        let seen = answer.body().seen(this.limits.bytes);
        answer.extensions_mut().insert(seen);
        Poll::Ready(Ok(answer))
    }
}

impl<F, B: Body> fmt::Debug for LookFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookFuture").finish_non_exhaustive()
    }
}
