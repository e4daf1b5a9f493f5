//! A body that is kept while it is sent.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::bell::Bell;
use super::copy::CopyBody;
use super::log::{Broken, Log, Next, Reader};

/// A request body that can be sent again, whatever body it is made of: boxed,
/// streamed, neither `Clone` nor `Sync`.
///
/// It costs nothing until a copy is made: no allocation, and frames go
/// through as they are. From the first copy on, what one of them reads is
/// kept for the others as it goes through, so the first byte waits for
/// nothing. A copy sends what is kept, trailers included, and goes on with
/// the body from where it was read to, even if it was not read at all.
/// Nothing is kept once no other copy is alive, as for the last attempt.
///
/// Where more bytes of data and trailers are read than the cap allows, the
/// buffer is dropped and the stream goes on unharmed, but cannot be sent
/// again: copies that have not begun are no longer
/// [intact](CopyBody::is_intact), which the retry loop asks before it sends
/// one. A body whose [`size_hint`](Body::size_hint) is over the cap from the
/// outset has no copy. The number of frames is limited as well, to 64 and one
/// for each 64 bytes of the cap. A body that fails spoils its copies too: what
/// would have come after the error is unknown.
///
/// Several copies may be read at once, as when a server answers early and its
/// connection still reads the body while the next attempt has begun. Each gets
/// every frame in order, whoever polls first drives the body for all. If
/// together they read past the cap, only the one that began last goes on; the
/// others end with a [`ReplayError`], so that their half-sent requests are
/// aborted, not completed wrongly.
///
/// Data is `Bytes`: keeping it copies no memory if the inner body's is too.
/// The error is boxed, since that of the inner body can be given out only once
/// and need not be one that can be copied. The inner body must be `Unpin`, as
/// all boxed bodies are; `http_body_util::BodyExt::boxed_unsync` makes one of
/// any other.
///
/// The size that a copy announces is never more exact than what the inner body
/// announced, so that a request keeps its framing: one that was sent chunked,
/// with trailers, is sent so again.
///
/// # Cancel safety
///
/// A copy dropped at any point gives back the body to the others.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use http_body_util::{BodyExt, Full};
/// use steadfast::http::{CopyBody, ReplayBody};
///
/// let boxed = Full::<bytes::Bytes>::from("order 66").boxed_unsync();
/// let body = ReplayBody::new(boxed, 64 * 1024);
/// let copy = body.copy().unwrap();
/// drop(body); // the first attempt failed before it sent anything
/// assert_eq!(copy.collect().await.unwrap().to_bytes(), "order 66");
/// # }
/// ```
pub struct ReplayBody<B> {
    cap: usize,
    // Locked through a shared reference only to make a copy; reading goes
    // through a unique one. It also makes this `Sync` whatever `B` is.
    mode: Mutex<Mode<B>>,
}

enum Mode<B> {
    /// There has been no copy. The body is taken out when the first is made.
    Alone {
        body: Option<B>,
        begun: bool,
    },
    Shared(Share<B>),
}

impl<B> ReplayBody<B> {
    /// Wraps `body`, to keep at most `cap` bytes of it.
    pub const fn new(body: B, cap: usize) -> Self {
        let body = Some(body);
        let begun = false;
        Self {
            cap,
            mode: Mutex::new(Mode::Alone { body, begun }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Mode<B>> {
        self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Body> CopyBody for ReplayBody<B> {
    fn copy(&self) -> Option<Self> {
        let mut mode = self.lock();
        if let Mode::Alone { body, begun } = &mut *mode {
            let hint = body.as_ref().map(Body::size_hint)?;
            let too_large = usize::try_from(hint.lower()).map_or(true, |lower| lower > self.cap);
            if *begun || too_large {
                return None;
            }
            let share = Share::new(body.take()?, self.cap, hint);
            *mode = Mode::Shared(share);
        }
        let Mode::Shared(share) = &*mode else {
            return None;
        };
        let copy = share.copy()?;
        drop(mode);
        Some(Self {
            cap: self.cap,
            mode: Mutex::new(Mode::Shared(copy)),
        })
    }

    fn is_intact(&self) -> bool {
        match &*self.lock() {
            Mode::Alone { begun, .. } => !begun,
            Mode::Shared(share) => share.log().is_intact(&share.reader),
        }
    }
}

impl<B> Body for ReplayBody<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mode = &mut self.get_mut().mode;
        match mode.get_mut().unwrap_or_else(PoisonError::into_inner) {
            Mode::Shared(share) => share.poll_frame(cx),
            Mode::Alone { body, begun } => {
                *begun = true;
                body.as_mut()
                    .map_or(Poll::Ready(None), |body| poll_body(body, cx))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &*self.lock() {
            Mode::Alone { body, .. } => body.as_ref().is_none_or(B::is_end_stream),
            Mode::Shared(share) => share.log().is_end(&share.reader, B::is_end_stream),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &*self.lock() {
            Mode::Alone { body, .. } => body.as_ref().map(B::size_hint).unwrap_or_default(),
            Mode::Shared(share) => share.size_hint(),
        }
    }
}

/// One of several copies.
struct Share<B> {
    common: Arc<Common<B>>,
    reader: Reader,
}

struct Common<B> {
    log: Mutex<Log<B>>,
    bell: Arc<Bell>,
    hint: SizeHint,
}

impl<B> Common<B> {
    fn log(&self) -> MutexGuard<'_, Log<B>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B> Share<B> {
    fn new(body: B, cap: usize, hint: SizeHint) -> Self {
        let (log, reader) = Log::new(body, cap);
        let common = Arc::new(Common {
            log: Mutex::new(log),
            bell: Arc::default(),
            hint,
        });
        Self { common, reader }
    }

    fn copy(&self) -> Option<Self> {
        let reader = self.log().copy()?;
        let common = Arc::clone(&self.common);
        Some(Self { common, reader })
    }

    fn log(&self) -> MutexGuard<'_, Log<B>> {
        self.common.log()
    }

    /// What the body announced at first, less what was read since.
    fn size_hint(&self) -> SizeHint {
        let read = self.reader.bytes();
        let mut hint = SizeHint::new();
        let first = &self.common.hint;
        if let Some(upper) = first.upper() {
            hint.set_upper(upper.saturating_sub(read));
        }
        hint.set_lower(first.lower().saturating_sub(read));
        hint
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>
    where
        B: Body + Unpin,
        B::Error: Into<BoxError>,
    {
        let Self { common, reader } = self;
        let mut log = common.log();
        let next = log.next(reader);
        // Before the lock is released, so that whoever has the body out does
        // not ring in between.
        let waits = matches!(next, Next::Body(_) | Next::Busy);
        let old = waits.then(|| common.bell.wait(reader.id, cx.waker()));
        drop(log);
        drop(old);
        let body = match next {
            Next::Frame(frame) => return Poll::Ready(Some(Ok(frame))),
            Next::End => return Poll::Ready(None),
            Next::Broken(broken) => return Poll::Ready(Some(Err(ReplayError { broken }.into()))),
            Next::Busy => return Poll::Pending,
            Next::Body(body) => body,
        };
        let waker = Waker::from(Arc::clone(&common.bell));
        let mut out = Out {
            common,
            reader,
            body: Some(body),
        };
        let polled = out.poll(&mut Context::from_waker(&waker));
        out.bring_back(polled)
    }
}

impl<B> Drop for Share<B> {
    fn drop(&mut self) {
        self.common.bell.forget(self.reader.id);
        let body = self.log().leave(&self.reader);
        if body.is_some() {
            self.common.bell.ring();
        }
    }
}

/// The body, taken out of the log to be polled.
struct Out<'a, B> {
    common: &'a Common<B>,
    reader: &'a mut Reader,
    body: Option<B>,
}

impl<B> Out<'_, B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let body = self.body.as_mut();
        body.map_or(Poll::Ready(None), |body| poll_body(body, cx))
    }

    fn bring_back(
        mut self,
        polled: Poll<Option<Result<Frame<Bytes>, BoxError>>>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = self.body.take() else {
            return polled;
        };
        let mut log = self.common.log();
        let (polled, over, ring) = match polled {
            Poll::Pending => (Poll::Pending, None, log.pending(body)),
            Poll::Ready(Some(Ok(frame))) => {
                let took = log.took(self.reader, frame, body);
                let took = took.map_err(|broken| ReplayError { broken }.into());
                (Poll::Ready(Some(took)), None, true)
            }
            Poll::Ready(Some(Err(error))) => {
                log.failed(self.reader);
                (Poll::Ready(Some(Err(error))), Some(body), true)
            }
            Poll::Ready(None) => {
                log.ended(self.reader);
                (Poll::Ready(None), Some(body), true)
            }
        };
        drop(log);
        if polled.is_ready() {
            self.common.bell.forget(self.reader.id);
        }
        if ring {
            self.common.bell.ring();
        }
        drop(over);
        polled
    }
}

impl<B> Drop for Out<'_, B> {
    fn drop(&mut self) {
        // Still here only if polling it panicked.
        if let Some(body) = self.body.take() {
            self.common.log().failed(self.reader);
            self.common.bell.ring();
            drop(body);
        }
    }
}

fn poll_body<B>(body: &mut B, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    Pin::new(body).poll_frame(cx).map(|end| {
        end.map(|frame| {
            let frame = frame.map_err(Into::into)?;
            Ok(frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))
        })
    })
}

impl<B> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayBody")
            .field("cap", &self.cap)
            .finish_non_exhaustive()
    }
}

/// A copy of a [`ReplayBody`] cannot be read to its end.
#[derive(Clone, Copy, Debug)]
pub struct ReplayError {
    broken: Broken,
}

impl ReplayError {
    /// Whether more was read by another attempt than the cap allows to keep;
    /// otherwise the body failed while another attempt read it.
    #[must_use]
    pub fn is_outgrown(&self) -> bool {
        self.broken == Broken::Outgrown
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.broken {
            Broken::Outgrown => "the request body has outgrown its buffer in another attempt",
            Broken::Failed => "the request body failed in another attempt",
        })
    }
}

impl StdError for ReplayError {}
