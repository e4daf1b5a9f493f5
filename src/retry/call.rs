//! One call under way: attempts, waits, and what is held meanwhile.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::BoxError;

use super::budget::Charge;
use super::decide::{Next, Situation, next};
use super::shared::LoopShared;
use crate::classify::verdict::{Again, Health, Verdict};
use crate::deadline::instant_after;
use crate::error::{Error, ErrorKind, Stopped};
use crate::limit::lesser;
use crate::scope::ambient::{Ambient, Entered, leave_report};
use crate::scope::cap::has_room;
use crate::scope::report::{CallReport, ServedBy};
use crate::sharded::Handle;
use crate::stage::timer::{Tick, Timer};
use crate::stage::{Failure, Limits, Outcome, Stage};
use crate::telemetry::{CallOutcome, Event, Observers, emit};

/// A loop that never has to wait lets other tasks run after this many steps,
/// two of which make an attempt.
const STEPS_PER_POLL: u32 = 64;

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not polled yet: nothing is reserved.
    Fresh,
    /// An attempt is under way.
    Attempting,
    /// In backoff until then; `None` for no wait. The budget has paid.
    Waiting(Option<Instant>),
    /// Over.
    Done,
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
        limits: Limits,
        frame: Ambient,
        phase: Phase,
        charge: Option<Charge>,
        // The verdict on the last attempt, and its own error.
        verdict: Option<Verdict>,
        error: Option<BoxError>,
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
            if this.is_under_way() {
                this.dropped();
            }
        }
    }
}

impl<Req, S, T: Stage<Req, S>> Call<Req, S, T> {
    pub(super) const fn new(
        shared: Handle<LoopShared<T>>,
        request: Req,
        running: T::Running,
        started: Instant,
        limits: Limits,
        frame: Ambient,
    ) -> Self {
        Self {
            shared,
            request: Some(request),
            started,
            limits,
            frame: Ambient {
                attempt: 0,
                ..frame
            },
            phase: Phase::Fresh,
            charge: None,
            verdict: None,
            error: None,
            running,
            timer: Timer::unarmed(),
        }
    }

    pub(super) fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T::Response, Error>> {
        let mut tick = Tick::unread();
        if self.phase == Phase::Fresh {
            self.as_mut().enter();
            if let Err(error) = self.as_mut().attempt(&mut tick) {
                return Poll::Ready(Err(self.fail(error, &mut tick)));
            }
        }
        for _ in 0..STEPS_PER_POLL {
            match self.phase {
                Phase::Waiting(until) => {
                    if let Some(until) = until {
                        ready!(self.as_mut().project().timer.poll_until(until, cx));
                        tick = Tick::unread();
                    }
                    if let Err(error) = self.as_mut().attempt(&mut tick) {
                        return Poll::Ready(Err(self.fail(error, &mut tick)));
                    }
                }
                Phase::Attempting => {
                    let outcome = ready!(self.as_mut().poll_attempt(&mut tick, cx));
                    if let Some(end) = self.as_mut().heard(outcome, &mut tick) {
                        return Poll::Ready(end);
                    }
                }
                Phase::Fresh | Phase::Done => panic!("call polled after it ended"),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The first poll: what is in scope here counts as well as at the call.
    fn enter(self: Pin<&mut Self>) {
        let this = self.project();
        let scope = Ambient::current();
        this.limits.deadline = lesser(this.limits.deadline, scope.deadline);
        this.frame.deadline = this.limits.deadline;
        this.frame.cap = scope.cap.or(this.frame.cap);
        this.frame.no_retries |= scope.no_retries;
        this.frame.not_idempotent |= scope.not_idempotent;
        if let Some(budget) = &this.shared.budget {
            budget.enter();
        }
        *this.phase = Phase::Waiting(None);
    }

    /// Begins an attempt, unless the deadline, the copy of the request or the
    /// breaker is against it.
    fn attempt(self: Pin<&mut Self>, tick: &mut Tick) -> Result<(), Error> {
        let this = self.project();
        let now = tick.now();
        if this.limits.deadline.is_some_and(|deadline| deadline <= now) {
            let dependency = this.shared.dependency;
            return Err(Error::new(ErrorKind::DeadlineExceeded, dependency));
        }
        let Some(request) = this.request.take() else {
            unreachable!("another attempt was decided for only with a request to send");
        };
        // Asked again after the backoff: the body of the attempt before may
        // live on in a connection, and go on being read.
        if this.frame.attempt > 0 && !this.shared.stage.is_intact(&request) {
            let error = Error::new(ErrorKind::Failed, this.shared.dependency);
            return Err(error.stopped_by(Some(Stopped::NotReplayable)));
        }
        let number = this.frame.attempt.saturating_add(1);
        if number < this.shared.settings.max_attempts() && !this.frame.no_retries {
            *this.request = this.shared.stage.copy(&request);
        }
        let started = this.shared.stage.start(this.running, request, now);
        started.map_err(|refusal| Error::refused(refusal, this.shared.dependency))?;
        this.frame.attempt = number;
        this.frame.given_up = false;
        this.frame.granted_until = None;
        *this.phase = Phase::Attempting;
        Ok(())
    }

    fn poll_attempt(
        self: Pin<&mut Self>,
        tick: &mut Tick,
        cx: &mut Context<'_>,
    ) -> Poll<Outcome<T::Response>> {
        let this = self.project();
        let _entered = Entered::new(this.frame);
        let stage = &this.shared.stage;
        stage.poll_attempt(this.running, this.timer, tick, *this.limits, cx)
    }

    /// Hears how an attempt ended: the end of the call, or `None` if another
    /// attempt follows. What will be tried again is dropped here, before the
    /// backoff.
    fn heard(
        mut self: Pin<&mut Self>,
        outcome: Outcome<T::Response>,
        tick: &mut Tick,
    ) -> Option<Result<T::Response, Error>> {
        let Outcome { result, verdict } = outcome;
        if let Err(Failure::Capped) = result {
            return Some(Err(self.capped(tick)));
        }
        let this = self.as_mut().project();
        if let Some(budget) = &this.shared.budget {
            if let Some(charge) = this.charge.take() {
                budget.settle(charge);
            }
            if verdict.health() == Health::Ok {
                budget.deposit();
            }
        }
        if verdict.is_success() && result.is_ok() {
            self.as_mut().release();
            if self.shared.observers.listen() {
                self.tell_success(&verdict, tick);
            }
            self.report(Some(verdict), None, tick);
            return result.ok().map(Ok);
        }
        *this.verdict = Some(verdict);
        self.tell_attempt(Some(verdict));
        let failure = match result {
            Err(Failure::DeadlineExceeded) => {
                let error = Error::new(ErrorKind::DeadlineExceeded, self.shared.dependency);
                return Some(Err(self.fail(error, tick)));
            }
            Err(failure) => failure,
            Ok(response) => {
                return match self.as_mut().again(verdict, tick) {
                    Ok(()) => {
                        *self.project().error = None;
                        None
                    }
                    Err(stopped) => Some(Ok(self.answer(response, verdict, stopped, tick))),
                };
            }
        };
        let again = self.as_mut().again(verdict, tick);
        let this = self.as_mut().project();
        let dependency = this.shared.dependency;
        // An attempt that timed out has no error of its own; the last one that
        // the service gave says more than nothing.
        let kind = match failure {
            Failure::Service(error) => {
                *this.error = Some(error);
                ErrorKind::Failed
            }
            Failure::TimedOut | Failure::DeadlineExceeded | Failure::Capped => ErrorKind::TimedOut,
        };
        let stopped = again.err()?;
        let error = Error::new(kind, dependency).stopped_by(Some(stopped));
        Some(Err(self.fail(error, tick)))
    }

    /// Ends before an attempt that found no room under the cap on sends: it was
    /// not sent, and what was paid for it is given back.
    #[cold]
    fn capped(mut self: Pin<&mut Self>, tick: &mut Tick) -> Error {
        let this = self.as_mut().project();
        this.frame.attempt = this.frame.attempt.saturating_sub(1);
        if let (Some(budget), Some(charge)) = (&this.shared.budget, this.charge.take()) {
            budget.refund(charge);
        }
        let error = Error::new(ErrorKind::Refused, this.shared.dependency);
        self.fail(error.stopped_by(Some(Stopped::CallCap)), tick)
    }

    /// Decides for another attempt and schedules it, or says what speaks
    /// against it.
    fn again(self: Pin<&mut Self>, verdict: Verdict, tick: &mut Tick) -> Result<(), Stopped> {
        let this = self.project();
        let (shared, frame, now) = (&**this.shared, &*this.frame, tick.now());
        let (stage, request) = (&shared.stage, &*this.request);
        let running = this.running.as_ref().get_ref();
        let situation = Situation {
            verdict: &verdict,
            idempotent: || !frame.not_idempotent && stage.idempotent(running),
            attempts: frame.attempt,
            retries_disabled: frame.no_retries,
            replayable: || request.as_ref().is_some_and(|copy| stage.is_intact(copy)),
            would_admit: || {
                request
                    .as_ref()
                    .map_or(Ok(()), |r| stage.would_admit(r, now))
            },
            has_room: || frame.cap.is_none_or(has_room),
            // What the next hop was not granted is no time for an attempt.
            deadline: lesser(this.limits.deadline, frame.granted_until),
            now,
        };
        let settings = shared.settings.get();
        let Next { delay, charge } = next(&settings, shared.budget.as_ref(), situation)?;
        *this.charge = charge;
        *this.phase = Phase::Waiting((!delay.is_zero()).then(|| instant_after(now, delay)));
        let retry = Event::Retry {
            dependency: shared.dependency,
            attempt: frame.attempt,
            delay,
            verdict,
        };
        emit(&shared.observers, &retry);
        Ok(())
    }

    /// Ends with an answer that is not a success.
    fn answer(
        mut self: Pin<&mut Self>,
        mut response: T::Response,
        verdict: Verdict,
        stopped: Stopped,
        tick: &mut Tick,
    ) -> T::Response {
        self.as_mut().release();
        let (shared, frame) = (&self.shared, &self.frame);
        let given_up = match (verdict.again(), verdict.health()) {
            (Again::AfterDelay, _) => self.owns_retries(),
            // It failed and forbade another try: to those above as well.
            (Again::Never, health) => health == Health::Failing,
        };
        if given_up || frame.given_up {
            shared.stage.seal(&mut response, &stopped);
            Ambient::mark_given_up(true);
        }
        let stop = Event::Stopped {
            dependency: shared.dependency,
            attempts: frame.attempt,
            stopped,
            verdict: Some(verdict),
        };
        emit(&shared.observers, &stop);
        let (verdict, stopped) = (Some(verdict), Some(stopped));
        self.tell_end(CallOutcome::Answered, verdict, stopped, tick.now());
        self.report(verdict, stopped, tick);
        response
    }

    /// Ends with an error.
    fn fail(mut self: Pin<&mut Self>, error: Error, tick: &mut Tick) -> Error {
        self.as_mut().release();
        let elapsed = tick.now().saturating_duration_since(self.started);
        let owns_retries = self.owns_retries();
        let this = self.as_mut().project();
        let error = error
            .after(this.frame.attempt, elapsed)
            .owning_retries(owns_retries)
            .judged(*this.verdict)
            .caused_by(this.error.take());
        leave(&error, &this.shared.observers);
        let (verdict, stopped) = (error.verdict().copied(), error.stopped());
        self.tell_end(error.kind().into(), verdict, stopped, tick.now());
        error
    }

    fn owns_retries(&self) -> bool {
        self.shared.settings.max_attempts() > 1 && !self.frame.no_retries
    }

    fn report(&self, verdict: Option<Verdict>, stopped: Option<Stopped>, tick: &mut Tick) {
        if Ambient::current().report_wanted {
            let report = CallReport {
                dependency: self.shared.dependency,
                attempts: self.frame.attempt,
                elapsed: tick.now().saturating_duration_since(self.started),
                fallback_took: Duration::ZERO,
                stopped,
                verdict,
                served_by: ServedBy::Primary,
                answered: true,
            };
            leave_report(report, &self.shared.observers);
        }
    }

    fn is_under_way(&self) -> bool {
        !matches!(self.phase, Phase::Fresh | Phase::Done)
    }

    /// Nobody waits for it any more.
    #[cold]
    #[inline(never)]
    fn dropped(mut self: Pin<&mut Self>) {
        let is_attempting = self.phase == Phase::Attempting;
        self.as_mut().release();
        if self.shared.observers.listen() {
            if is_attempting {
                self.tell_attempt(None);
            }
            self.tell_end(CallOutcome::Dropped, self.verdict, None, Instant::now());
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_success(&self, verdict: &Verdict, tick: &mut Tick) {
        self.tell_attempt(Some(*verdict));
        self.tell_end(CallOutcome::Success, Some(*verdict), None, tick.now());
    }

    fn tell_attempt(&self, verdict: Option<Verdict>) {
        self.shared.observers.tell(&Event::AttemptEnded {
            dependency: self.shared.dependency,
            attempt: self.frame.attempt,
            verdict,
        });
    }

    fn tell_end(
        &self,
        outcome: CallOutcome,
        verdict: Option<Verdict>,
        stopped: Option<Stopped>,
        now: Instant,
    ) {
        let shared = &self.shared;
        if shared.observers.listen() {
            shared.observers.tell(&Event::CallEnded {
                dependency: shared.dependency,
                outcome,
                attempts: self.frame.attempt,
                elapsed: now.saturating_duration_since(self.started),
                verdict,
                stopped,
                deadline_left: left(self.limits.deadline, self.started),
                budget_balance: balance(shared, now),
            });
        }
    }

    /// Gives back all that is held of what is shared; at the end and on drop.
    fn release(self: Pin<&mut Self>) {
        let this = self.project();
        let phase = std::mem::replace(this.phase, Phase::Done);
        if matches!(phase, Phase::Fresh | Phase::Done) {
            return;
        }
        // In every phase: a classifier that panics between admission and the
        // attempt's start leaves a permit behind too.
        this.shared.stage.abandon(this.running);
        if let Some(budget) = &this.shared.budget {
            match this.charge.take() {
                Some(charge) if phase == Phase::Attempting => budget.settle(charge),
                // Paid for an attempt that never started.
                Some(charge) => budget.refund(charge),
                None => {}
            }
            budget.leave();
        }
        // Whoever keeps the ended future does not keep the copy with it: while
        // it lives, a streamed body is buffered for it.
        *this.request = None;
    }
}

/// What an error leaves behind for those around: an event, a mark if it is
/// final, a report if somebody waits for one.
pub(super) fn leave(error: &Error, observers: &Observers) {
    let (dependency, attempts) = (error.dependency(), error.attempts());
    let verdict = error.verdict().copied();
    match (error.kind(), error.refusal().copied(), error.stopped()) {
        (ErrorKind::Refused, Some(refusal), _) => {
            emit(observers, &Event::Refused { attempts, refusal });
        }
        (ErrorKind::DeadlineExceeded, ..) => {
            let late = Event::OutOfTime {
                dependency,
                attempts,
            };
            emit(observers, &late);
        }
        (_, _, Some(stopped)) => {
            let stop = Event::Stopped {
                dependency,
                attempts,
                stopped,
                verdict,
            };
            emit(observers, &stop);
        }
        _ => {}
    }
    if error.is_final() {
        Ambient::mark_given_up(true);
    }
    if Ambient::current().report_wanted {
        leave_report(CallReport::of_error(error), observers);
    }
}

/// What is left until `deadline`.
pub(super) fn left(deadline: Option<Instant>, now: Instant) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(now))
}

/// The budget's balance, for those who listen.
pub(super) fn balance<T>(shared: &LoopShared<T>, now: Instant) -> Option<f64> {
    let budget = shared.budget.as_ref();
    budget.map(|budget| budget.balance_at(now))
}
