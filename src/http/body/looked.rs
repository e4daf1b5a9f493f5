//! A body that was looked at, handed on as it was.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::error_body::ErrorBody;

/// So many frames are read at most, so that a body of empty ones ends too.
const FRAMES: usize = 64;

pin_project! {
    /// Body of an answer that went through a [`LookLayer`](super::LookLayer): what was looked at,
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
    pub(super) const fn new(rest: B) -> Self {
        Self {
            frames: VecDeque::new(),
            read: 0,
            end: None,
            rest,
        }
    }

    /// Reads until there are more than `bytes`, or no more: a body of just so
    /// many is then known to be whole.
    pub(super) fn poll_look(&mut self, bytes: usize, cx: &mut Context<'_>) -> Poll<()>
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
    pub(super) fn seen(&self, limit: usize) -> ErrorBody {
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

fn in_bytes<D: Buf>(frame: Frame<D>) -> Frame<Bytes> {
    frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))
}
