//! Copies that share one body: the log, and the waking of those who wait.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::bell::Bell;
use super::log::{Log, Next, Reader};
use super::replay_error::ReplayError;

/// One of several copies.
pub(super) struct Share<B> {
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
    pub(super) fn new(body: B, cap: usize, hint: SizeHint) -> Self {
        let (log, reader) = Log::new(body, cap);
        let common = Arc::new(Common {
            log: Mutex::new(log),
            bell: Arc::default(),
            hint,
        });
        Self { common, reader }
    }

    pub(super) fn copy(&self) -> Option<Self> {
        let reader = self.log().copy()?;
        let common = Arc::clone(&self.common);
        Some(Self { common, reader })
    }

    fn log(&self) -> MutexGuard<'_, Log<B>> {
        self.common.log()
    }

    pub(super) fn is_intact(&self) -> bool {
        self.log().is_intact(&self.reader)
    }

    pub(super) fn is_end_stream(&self) -> bool
    where
        B: Body,
    {
        self.log().is_end(&self.reader, B::is_end_stream)
    }

    /// What the body announced at first, less what was read since.
    pub(super) fn size_hint(&self) -> SizeHint {
        let read = self.reader.bytes();
        let mut hint = SizeHint::new();
        let first = &self.common.hint;
        if let Some(upper) = first.upper() {
            hint.set_upper(upper.saturating_sub(read));
        }
        hint.set_lower(first.lower().saturating_sub(read));
        hint
    }

    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>
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
            Next::Broken(broken) => return Poll::Ready(Some(Err(ReplayError::new(broken).into()))),
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
        // Dropped here, where no lock is held.
        let body = self.log().leave(&self.reader);
        drop(body);
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
                let took = took.map_err(|broken| ReplayError::new(broken).into());
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

pub(super) fn poll_body<B>(
    body: &mut B,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>
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
