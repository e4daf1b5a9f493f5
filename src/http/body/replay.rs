//! A body that is kept while it is sent.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::copy::CopyBody;
use super::share::{Share, poll_body};

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
/// others end with a [`ReplayError`](super::ReplayError), so that their half-sent requests are
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
    /// There has been no copy. The body is taken out when the first is made,
    /// and dropped at its end.
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
            Mode::Shared(share) => share.is_intact(),
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
                let Some(rest) = body else {
                    return Poll::Ready(None);
                };
                let polled = poll_body(rest, cx);
                if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
                    *body = None;
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &*self.lock() {
            Mode::Alone { body, .. } => body.as_ref().is_none_or(B::is_end_stream),
            Mode::Shared(share) => share.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &*self.lock() {
            Mode::Alone { body, .. } => match body {
                Some(body) => body.size_hint(),
                None => SizeHint::with_exact(0),
            },
            Mode::Shared(share) => share.size_hint(),
        }
    }
}

impl<B> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayBody")
            .field("cap", &self.cap)
            .finish_non_exhaustive()
    }
}
