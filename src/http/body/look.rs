//! A bounded look at the body of an answer that is an error.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::http::Response;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::{Layer, Service};

use super::error_body::ErrorBody;
use crate::deadline::instant_after;
use crate::stage::timer::Timer;

/// So many frames are read at most, so that a body of empty ones ends too.
const FRAMES: usize = 64;

/// Reads the beginning of error answers, so that a classifier can see what
/// their bodies say.
///
/// Stands directly around the client, inside the attempt. An answer with a
/// status of 400 or more has the beginning of its body read, which is put into
/// the answer's extensions as an [`ErrorBody`]; then the answer goes on with
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
/// more than that, which should be well below the attempt timeout.
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
                let until = instant_after(Instant::now(), this.limits.time);
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

pin_project! {
    /// Body of an answer that went through a [`LookLayer`]: what was looked at,
    /// then the rest.
    pub struct Looked<B>
    where
        B: Body,
    {
        // What was read and not handed on yet, and how many bytes of data
        // are in it.
        frames: VecDeque<Frame<Bytes>>,
        read: usize,
        // How the body ended, if it was read to its end.
        end: Option<End<B::Error>>,
        #[pin]
        rest: B,
    }
}

enum End<E> {
    Ended,
    Failed(Option<E>),
}

impl<B: Body> Looked<B> {
    const fn new(rest: B) -> Self {
        Self {
            frames: VecDeque::new(),
            read: 0,
            end: None,
            rest,
        }
    }

    /// Reads until there are more than `bytes`, or no more: a body of just so
    /// many is then known to be whole.
    fn poll_look(&mut self, bytes: usize, cx: &mut Context<'_>) -> Poll<()>
    where
        B: Unpin,
    {
        while self.read <= bytes && self.frames.len() < FRAMES && self.end.is_none() {
            match ready!(Pin::new(&mut self.rest).poll_frame(cx)) {
                None => self.end = Some(End::Ended),
                Some(Err(error)) => self.end = Some(End::Failed(Some(error))),
                Some(Ok(frame)) => {
                    let frame = in_bytes(frame);
                    let data = frame.data_ref().map_or(0, Bytes::len);
                    self.read = self.read.saturating_add(data);
                    self.frames.push_back(frame);
                }
            }
        }
        Poll::Ready(())
    }

    /// The first `limit` bytes of what was read.
    fn seen(&self, limit: usize) -> ErrorBody {
        let ended = match self.end {
            Some(End::Ended) => true,
            Some(End::Failed(_)) => false,
            None => self.rest.is_end_stream(),
        };
        let data = self.frames.iter().filter_map(Frame::data_ref);
        ErrorBody::of(data, limit, ended && self.read <= limit)
    }
}

impl<B: Body> Body for Looked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if let Some(frame) = this.frames.pop_front() {
            let data = frame.data_ref().map_or(0, Bytes::len);
            *this.read = this.read.saturating_sub(data);
            return Poll::Ready(Some(Ok(frame)));
        }
        match this.end {
            None => {
                let frame = ready!(this.rest.poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map(in_bytes)))
            }
            Some(End::Ended) => Poll::Ready(None),
            Some(End::Failed(error)) => Poll::Ready(error.take().map(Err)),
        }
    }

    fn is_end_stream(&self) -> bool {
        let over = match &self.end {
            None => self.rest.is_end_stream(),
            Some(End::Ended) => true,
            Some(End::Failed(error)) => error.is_none(),
        };
        over && self.frames.is_empty()
    }

    /// Never exact while trailers are to come: a server on HTTP/1 would send
    /// the length, and no trailers.
    fn size_hint(&self) -> SizeHint {
        let read = self.read as u64;
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(read));
        let trailers = self.frames.iter().any(Frame::is_trailers);
        if let Some(upper) = rest.upper().filter(|_| !trailers) {
            hint.set_upper(upper.saturating_add(read));
        }
        hint
    }
}

impl<B: Body> fmt::Debug for Looked<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Looked")
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

impl<F, B: Body> fmt::Debug for LookFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookFuture").finish_non_exhaustive()
    }
}

fn in_bytes<D: Buf>(frame: Frame<D>) -> Frame<Bytes> {
    frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))
}
