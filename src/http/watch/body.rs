//! A body whose end is told to the breaker.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::BoxError;

use super::layer::Settings;
use crate::breaker::late::LatePermit;
use crate::classify::verdict::Verdict;
use crate::deadline::instant_after;
use crate::stage::timer::Timer;

pin_project! {
    /// The body of an answer that went through a
    /// [`WatchBodyLayer`](super::WatchBodyLayer).
    ///
    /// # Errors
    ///
    /// The body's own, and [`BodyCut`] where a limit ended it. Nothing follows
    /// an error.
    #[must_use = "a body does nothing unless read"]
    pub struct WatchedBody<B> {
        #[pin]
        body: B,
        // Boxed, and made only for a limited body that is waited for, so that
        // this body is `Unpin` where the one inside is.
        timer: Option<Pin<Box<Timer>>>,
        settings: Settings,
        deadline: Option<Instant>,
        late: Option<LatePermit>,
        // Since when the reader waits for the next part.
        waits_since: Option<Instant>,
        has_begun: bool,
        // Whether the reader waits for a part that has not come.
        is_awaited: bool,
        is_over: bool,
    }

    impl<B> PinnedDrop for WatchedBody<B> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // Nothing was wrong with what the reader has asked for. To leave
            // it at "says nothing" would count the failures of those who leave
            // bodies unread and none of their successes.
            if !*this.is_awaited {
                tell(this.late, Some(Verdict::success()));
            }
        }
    }
}

/// The body of an answer was cut by a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyCut {
    /// No part of it came within this time.
    #[error("no part of the body within {0:?} of its head")]
    FirstByte(Duration),
    /// Nothing came for this time.
    #[error("no further part of the body for {0:?}")]
    Idle(Duration),
    /// The deadline passed.
    #[error("the deadline passed before the body ended")]
    Deadline,
}

impl BodyCut {
    /// What it says of the dependency: a stall is a failure, and a deadline
    /// that cuts a body is not, as nobody promised when that would end.
    fn verdict(self) -> Option<Verdict> {
        match self {
            Self::FirstByte(_) => Some(Verdict::ambiguous().because("no first byte")),
            Self::Idle(_) => Some(Verdict::ambiguous().because("body stalled")),
            Self::Deadline => None,
        }
    }
}

impl<B: Body> WatchedBody<B> {
    pub(super) const fn new(
        body: B,
        settings: Settings,
        late: Option<LatePermit>,
        deadline: Option<Instant>,
    ) -> Self {
        Self {
            body,
            timer: None,
            settings,
            deadline,
            late,
            waits_since: None,
            has_begun: false,
            is_awaited: false,
            is_over: false,
        }
    }

    /// Hears of a part: the wait is over, and perhaps all that is to be heard.
    fn heard(self: Pin<&mut Self>, frame: &Frame<B::Data>) {
        let this = self.project();
        *this.is_awaited = false;
        // A part of nothing ends no wait: a peer could go on with them for ever.
        if frame.data_ref().is_none_or(Buf::has_remaining) {
            *this.waits_since = None;
        }
        if let Some(trailers) = frame.trailers_ref() {
            return tell(this.late, Some(this.settings.verdict(Some(trailers))));
        }
        *this.has_begun |= frame.data_ref().is_some_and(Buf::has_remaining);
        if *this.has_begun && this.settings.until_first_byte {
            return tell(this.late, Some(Verdict::success()));
        }
        // A reader that knows the length may not ask again after the last part.
        if this.body.is_end_stream() {
            tell(this.late, Some(this.settings.verdict(None)));
        }
    }

    /// When the wait that is under way ends, and with what.
    fn limit(&self, waits_since: Instant) -> Option<(Instant, BodyCut)> {
        let stall = if self.has_begun {
            self.settings
                .idle
                .map(|longest| (longest, BodyCut::Idle(longest)))
        } else {
            let longest = self.settings.first_byte.or(self.settings.idle);
            longest.map(|longest| (longest, BodyCut::FirstByte(longest)))
        };
        let stall = stall.map(|(longest, cut)| (instant_after(waits_since, longest), cut));
        let deadline = self.deadline.map(|at| (at, BodyCut::Deadline));
        match (stall, deadline) {
            (Some(stall), Some(deadline)) if stall.0 <= deadline.0 => Some(stall),
            (stall, deadline) => deadline.or(stall),
        }
    }
}

fn tell(late: &mut Option<LatePermit>, verdict: Option<Verdict>) {
    let permit = late.take().and_then(|late| late.take());
    if let (Some(permit), Some(verdict)) = (permit, verdict) {
        permit.record(&verdict);
    }
}

impl<B> Body for WatchedBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        // A body whose parts are always there never comes to the timer.
        if self.deadline.is_some_and(|at| at <= Instant::now()) {
            let this = self.project();
            *this.is_over = true;
            tell(this.late, BodyCut::Deadline.verdict());
            return Poll::Ready(Some(Err(BodyCut::Deadline.into())));
        }
        // Before the poll: one that panics has brought no part.
        *self.as_mut().project().is_awaited = true;
        match self.as_mut().project().body.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.heard(&frame);
                return Poll::Ready(Some(Ok(frame)));
            }
            Poll::Ready(Some(Err(error))) => {
                let this = self.project();
                *this.is_over = true;
                tell(this.late, Some(Verdict::ambiguous().because("broken body")));
                return Poll::Ready(Some(Err(error.into())));
            }
            Poll::Ready(None) => {
                let this = self.project();
                *this.is_over = true;
                tell(this.late, Some(this.settings.verdict(None)));
                return Poll::Ready(None);
            }
            Poll::Pending => {}
        }
        if self.settings.is_unlimited() {
            return Poll::Pending;
        }
        let waits_since = *self
            .as_mut()
            .project()
            .waits_since
            .get_or_insert_with(Instant::now);
        let Some((at, cut)) = self.limit(waits_since) else {
            return Poll::Pending;
        };
        let this = self.project();
        let timer = this.timer.get_or_insert_with(|| Box::pin(Timer::unarmed()));
        if timer.as_mut().poll_until(at, cx).is_pending() {
            return Poll::Pending;
        }
        *this.is_over = true;
        tell(this.late, cut.verdict());
        Poll::Ready(Some(Err(cut.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_over {
            SizeHint::with_exact(0)
        } else {
            self.body.size_hint()
        }
    }
}

impl<B> fmt::Debug for WatchedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedBody")
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}
