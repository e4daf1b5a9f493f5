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
use tower::BoxError;

use super::budget::Charge;
use super::shared::LoopShared;
use crate::classify::verdict::Verdict;
use crate::error::Error;
use crate::moment::Moment;
use crate::refusal::Refusal;
use crate::scope::ambient::Ambient;
use crate::scope::current::Entered;
use crate::scope::marks::Marks;
use crate::sharded::Handle;
use crate::span::Span;
use crate::stage::timer::Timer;
use crate::stage::turn::Turn;
use crate::stage::{Attempted, Limits, Stage, Unsuccess};

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
    Attempting(Moment),
    /// Between attempts: what follows is decided, or the next one is about to
    /// begin. Only a panic of the classifier ends a call here.
    Deciding,
    /// About to make an attempt, which the budget has paid for.
    Due,
    /// In backoff until then. The budget has paid.
    Waiting(Moment),
    /// Over.
    Done,
}

/// What is known and held of attempts that were no success, while another
/// follows.
struct Past {
    verdict: Verdict,
    /// The last error that the service itself gave.
    error: Option<BoxError>,
    /// What the budget got for the next attempt, or for the one under way.
    charge: Option<Charge>,
}

/// Why an attempt was not begun.
#[derive(Clone, Copy)]
enum NotBegun {
    Late,
    NotIntact,
    Refused(Refusal),
}

pin_project! {
    #[project = CallProj]
    pub(super) struct Call<Req, S, T>
    where
        T: Stage<Req, S>,
    {
        shared: Handle<LoopShared<T>>,
        // Before the first attempt the request, then a copy of it while
        // another attempt is possible.
        request: Option<Req>,
        started: Moment,
        total: Span,
        // With the call's own deadline, and the number of the attempt.
        frame: Ambient,
        phase: Phase,
        past: Option<Past>,
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
        started: Moment,
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
        match self.phase {
            Phase::Fresh => {}
            Phase::Attempting(started) => return self.resume(started, cx),
            _ => {
                let mut turn = self.turn();
                return self.go_on(&mut turn, cx);
            }
        }
        let mut this = self.as_mut().project();
        let mut turn = this.enter();
        match this.begin(0, &mut turn) {
            Ok((started, request)) => self.drive(started, Some(request), &mut turn, cx),
            Err(why) => Poll::Ready(Err(self.not_begun(why, &mut turn))),
        }
    }

    /// Polls the attempt under way. Inlined into the first poll, for what is
    /// known there need not be looked up, and into the later ones.
    #[inline(always)]
    fn drive(
        mut self: Pin<&mut Self>,
        started: Moment,
        request: Option<Req>,
        turn: &mut Turn,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T::Response, Error>> {
        let this = self.as_mut().project();
        let limits = this.limits(started);
        let entered = Entered::new(this.frame);
        // Each end in its own place: to carry them out of the scope together
        // would copy the largest of them.
        let stage = &this.shared.stage;
        match stage.poll_attempt(this.running, request, this.timer, turn, limits, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Attempted::Success(answer)) => {
                drop(entered);
                self.succeeded(turn);
                Poll::Ready(Ok(answer))
            }
            Poll::Ready(Attempted::Unsuccess(unsuccess)) => {
                drop(entered);
                self.after(unsuccess, turn, cx)
            }
        }
    }

    /// A poll that is not the first.
    fn turn(&self) -> Turn {
        Turn::new(self.shared.observed.and(Ambient::here().marks()))
    }

    #[inline(never)]
    fn resume(
        self: Pin<&mut Self>,
        started: Moment,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T::Response, Error>> {
        let mut turn = self.turn();
        self.drive(started, None, &mut turn, cx)
    }

    /// Further attempts, after a wait or without one.
    #[inline(never)]
    fn go_on(
        mut self: Pin<&mut Self>,
        turn: &mut Turn,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T::Response, Error>> {
        for _ in 0..ATTEMPTS_PER_POLL {
            if let Phase::Waiting(until) = self.phase {
                ready!(self.as_mut().project().timer.poll_until_moment(until, cx));
                turn.time_passes();
                *self.as_mut().project().phase = Phase::Due;
            }
            assert!(self.phase == Phase::Due, "call polled after it ended");
            let mut this = self.as_mut().project();
            *this.phase = Phase::Deciding;
            let earlier = this.frame.attempt();
            let (started, request) = match this.begin(earlier, turn) {
                Ok(begun) => begun,
                Err(why) => return Poll::Ready(Err(self.not_begun(why, turn))),
            };
            match ready!(this.poll(started, Some(request), turn, cx)) {
                Attempted::Success(answer) => {
                    self.succeeded(turn);
                    return Poll::Ready(Ok(answer));
                }
                Attempted::Unsuccess(unsuccess) => {
                    if let Some(end) = self.as_mut().unsuccessful(unsuccess, turn) {
                        return Poll::Ready(end);
                    }
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ends after a first attempt that was no success, or goes on.
    #[cold]
    #[inline(never)]
    fn after(
        mut self: Pin<&mut Self>,
        unsuccess: Unsuccess<T::Response>,
        turn: &mut Turn,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T::Response, Error>> {
        match self.as_mut().unsuccessful(unsuccess, turn) {
            Some(end) => Poll::Ready(end),
            None => self.go_on(turn, cx),
        }
    }
}

impl<Req, S, T: Stage<Req, S>> CallProj<'_, Req, S, T> {
    /// The first poll: what is in scope here counts as well as at the call.
    #[inline(always)]
    fn enter(&mut self) -> Turn {
        let here = Ambient::here();
        self.frame.deadline = self.frame.deadline.min(here.deadline);
        self.frame.mark(here.marks().only(Marks::WISHES));
        if here.marks().any(Marks::RARE) {
            *self.frame = self.frame.capped_here();
        }
        if let Some(budget) = &self.shared.budget {
            budget.enter();
        }
        *self.phase = Phase::Deciding;
        Turn::new(self.shared.observed.and(here.marks()))
    }

    /// Begins an attempt after so many, unless the deadline, the copy of the
    /// request or the breaker is against it.
    #[inline(always)]
    fn begin(&mut self, earlier: u32, turn: &mut Turn) -> Result<(Moment, Req), NotBegun> {
        let shared: &LoopShared<T> = self.shared;
        let now = turn.now();
        if self.frame.deadline <= now {
            return Err(NotBegun::Late);
        }
        let Some(request) = self.request else {
            unreachable!("another attempt was decided for only with a request to send");
        };
        // Asked again after the backoff: the body of the attempt before may
        // live on in a connection, and go on being read.
        if earlier > 0 && !shared.stage.is_intact(request) {
            return Err(NotBegun::NotIntact);
        }
        let number = earlier.saturating_add(1);
        let may_retry = !self.frame.marks().any(Marks::NO_RETRIES);
        let copy = if number < shared.settings.max_attempts() && may_retry {
            shared.stage.copy(request)
        } else {
            None
        };
        let Some(request) = std::mem::replace(self.request, copy) else {
            unreachable!("looked at above");
        };
        let running = self.running.as_mut();
        let started = shared.stage.start(running, &request, now);
        started.map_err(NotBegun::Refused)?;
        let marks = self.frame.marks().without(Marks::GIVEN_UP);
        self.frame.begin(number, marks);
        self.frame.forget_grant();
        *self.phase = Phase::Attempting(now);
        Ok((now, request))
    }

    /// What bounds an attempt that began then.
    #[inline(always)]
    fn limits(&self, started: Moment) -> Limits {
        Limits {
            started,
            total: *self.total,
        }
    }

    /// Polls the attempt that began then, in its scope.
    #[inline(always)]
    fn poll(
        self,
        started: Moment,
        request: Option<Req>,
        turn: &mut Turn,
        cx: &mut Context<'_>,
    ) -> Poll<Attempted<T::Response>> {
        let limits = self.limits(started);
        let _entered = Entered::new(self.frame);
        let stage = &self.shared.stage;
        stage.poll_attempt(self.running, request, self.timer, turn, limits, cx)
    }
}
