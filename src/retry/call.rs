//! One call under way: attempts, waits, and what is held meanwhile.
//!
//! Here is what every call goes through; what follows an attempt that was no
//! success is in `retries`, and how a call ends and what is told of it in
//! `ended`.

mod ended;
mod retries;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::BoxError;

use super::budget::Charge;
use super::shared::LoopShared;
use crate::classify::verdict::Verdict;
use crate::error::Error;
use crate::limit::lesser;
use crate::refusal::Refusal;
use crate::scope::ambient::{Ambient, Entered};
use crate::scope::marks::Marks;
use crate::sharded::Handle;
use crate::span::Span;
use crate::stage::timer::{Tick, Timer};
use crate::stage::{Attempted, Limits, Stage};

pub(super) use ended::{balance, leave, left};

/// A loop that never has to wait lets other tasks run after this many
/// attempts.
const ATTEMPTS_PER_POLL: u32 = 32;

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not polled yet: nothing is reserved.
    Fresh,
    /// An attempt is under way since then.
    Attempting(Instant),
    /// In backoff until then; `None` for no wait. The budget has paid.
    Waiting(Option<Instant>),
    /// Over.
    Done,
}

/// What is known and held of attempts that were no success, while another
/// follows. Boxed, and so made only then: it would be a fifth of every call.
struct Past {
    verdict: Verdict,
    /// The last error that the service itself gave.
    error: Option<BoxError>,
    /// What the budget got for the next attempt, or for the one under way.
    charge: Option<Charge>,
}

/// Why an attempt was not begun.
enum NotBegun {
    Late,
    NotIntact,
    Refused(Refusal),
}

pin_project! {
    pub(super) struct Call<Req, S, T>
    where
        T: Stage<Req, S>,
    {
        shared: Handle<LoopShared<T>>,
        // Before the first attempt the request, then a copy of it while
        // another attempt is possible.
        request: Option<Req>,
        started: Instant,
        total: Span,
        // With the call's own deadline, and the number of the attempt.
        frame: Ambient,
        phase: Phase,
        past: Option<Box<Past>>,
        #[pin]
        running: T::Running,
        #[pin]
        timer: Timer,
    }

    impl<Req, S, T> PinnedDrop for Call<Req, S, T>
    where
        T: Stage<Req, S>,
    {
        fn drop(this: Pin<&mut Self>) {
            if !matches!(this.phase, Phase::Fresh | Phase::Done) {
                this.dropped();
            }
        }
    }
}

impl<Req, S, T: Stage<Req, S>> Call<Req, S, T> {
    /// The frame is that of all attempts, with the call's deadline.
    #[inline]
    pub(super) const fn new(
        shared: Handle<LoopShared<T>>,
        request: Req,
        running: T::Running,
        started: Instant,
        total: Span,
        frame: Ambient,
    ) -> Self {
        Self {
            shared,
            request: Some(request),
            started,
            total,
            frame,
            phase: Phase::Fresh,
            past: None,
            running,
            timer: Timer::unarmed(),
        }
    }

    #[inline]
    pub(super) fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T::Response, Error>> {
        let mut tick = Tick::unread();
        if self.phase == Phase::Fresh {
            self.as_mut().enter();
        }
        for _ in 0..ATTEMPTS_PER_POLL {
            let started = match self.phase {
                Phase::Attempting(started) => started,
                Phase::Waiting(until) => {
                    if let Some(until) = until {
                        ready!(self.as_mut().project().timer.poll_until(until, cx));
                        tick = Tick::unread();
                    }
                    match self.as_mut().begin(&mut tick) {
                        Ok(started) => started,
                        Err(why) => return Poll::Ready(Err(self.not_begun(why, &mut tick))),
                    }
                }
                Phase::Fresh | Phase::Done => panic!("call polled after it ended"),
            };
            match ready!(self.as_mut().poll_attempt(started, &mut tick, cx)) {
                Attempted::Success(answer, verdict) => {
                    self.succeeded(&verdict, &mut tick);
                    return Poll::Ready(Ok(answer));
                }
                Attempted::Unsuccess(unsuccess) => {
                    if let Some(end) = self.as_mut().unsuccessful(unsuccess, &mut tick) {
                        return Poll::Ready(end);
                    }
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The first poll: what is in scope here counts as well as at the call.
    #[inline]
    fn enter(self: Pin<&mut Self>) {
        let this = self.project();
        let scope = Ambient::current();
        this.frame.deadline = lesser(this.frame.deadline, scope.deadline);
        this.frame.cap = scope.cap.or(this.frame.cap);
        this.frame.marks = this.frame.marks.and(scope.marks.only(Marks::WISHES));
        if let Some(budget) = &this.shared.budget {
            budget.enter();
        }
        *this.phase = Phase::Waiting(None);
    }

    /// Begins an attempt, unless the deadline, the copy of the request or the
    /// breaker is against it.
    #[inline]
    fn begin(self: Pin<&mut Self>, tick: &mut Tick) -> Result<Instant, NotBegun> {
        let this = self.project();
        let now = tick.now();
        if this.frame.deadline.is_some_and(|deadline| deadline <= now) {
            return Err(NotBegun::Late);
        }
        let Some(request) = this.request.take() else {
            unreachable!("another attempt was decided for only with a request to send");
        };
        // Asked again after the backoff: the body of the attempt before may
        // live on in a connection, and go on being read.
        if this.frame.attempt > 0 && !this.shared.stage.is_intact(&request) {
            return Err(NotBegun::NotIntact);
        }
        let number = this.frame.attempt.saturating_add(1);
        let may_retry = !this.frame.marks.any(Marks::NO_RETRIES);
        if number < this.shared.settings.max_attempts() && may_retry {
            *this.request = this.shared.stage.copy(&request);
        }
        let started = this.shared.stage.start(this.running, request, now);
        started.map_err(NotBegun::Refused)?;
        this.frame.attempt = number;
        this.frame.marks = this.frame.marks.without(Marks::GIVEN_UP);
        this.frame.granted_until = None;
        *this.phase = Phase::Attempting(now);
        Ok(now)
    }

    #[inline]
    fn poll_attempt(
        self: Pin<&mut Self>,
        started: Instant,
        tick: &mut Tick,
        cx: &mut Context<'_>,
    ) -> Poll<Attempted<T::Response>> {
        let this = self.project();
        let limits = Limits {
            started,
            deadline: this.frame.deadline,
            total: *this.total,
        };
        let _entered = Entered::new(this.frame);
        let stage = &this.shared.stage;
        stage.poll_attempt(this.running, this.timer, tick, limits, cx)
    }
}
