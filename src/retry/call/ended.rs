//! How a call ends: what it gives back, what it says, and to whom.

use std::pin::Pin;
use std::time::Duration;

use super::super::shared::LoopShared;
use super::{Call, NotBegun, Phase};
use crate::classify::verdict::{Again, Health, Verdict};
use crate::error::{Error, ErrorKind, Stopped};
use crate::moment::Moment;
use crate::scope::ambient::Ambient;
use crate::scope::collect::leave_report;
use crate::scope::marks::Marks;
use crate::scope::report::{CallReport, ServedBy};
use crate::stage::Stage;
use crate::stage::turn::Turn;
use crate::telemetry::{CallOutcome, Event, Observers, emit};

impl<Req, S, T: Stage<Req, S>> Call<Req, S, T> {
    /// Ends with a success.
    #[inline(always)]
    pub(super) fn succeeded(mut self: Pin<&mut Self>, turn: &mut Turn) {
        if self.past.is_some() {
            self.as_mut().settle();
        }
        let this = self.as_mut().project();
        *this.phase = Phase::Done;
        *this.request = None;
        if let Some(budget) = &this.shared.budget {
            budget.succeeded();
        }
        if turn.success().is_some() {
            self.tell_success(turn);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_success(&self, turn: &mut Turn) {
        let verdict = turn.success().copied();
        self.tell_attempt(verdict.as_ref());
        self.tell_end(CallOutcome::Success, verdict, None, turn);
        self.report(verdict, None, turn);
    }

    /// Ends with an answer that is not a success.
    pub(super) fn answer(
        mut self: Pin<&mut Self>,
        mut response: T::Response,
        verdict: Verdict,
        stopped: Stopped,
        turn: &mut Turn,
    ) -> T::Response {
        let (shared, frame) = (&self.shared, &self.frame);
        let given_up = match (verdict.again(), verdict.health()) {
            (Again::AfterDelay, _) => self.owns_retries(),
            // It failed and forbade another try: to those above as well.
            (Again::Never, health) => health == Health::Failing,
        };
        if given_up || frame.given_up() {
            // Before anything is given back: if it panics, the call is dropped
            // as one under way.
            shared.stage.seal(&mut response, &stopped);
            Ambient::mark_given_up(true);
        }
        self.as_mut().release();
        let (shared, frame) = (&self.shared, &self.frame);
        let stop = Event::Stopped {
            dependency: shared.dependency,
            attempts: frame.attempt(),
            stopped,
            verdict: Some(verdict),
        };
        emit(&shared.observers, &stop);
        let (verdict, stopped) = (Some(verdict), Some(stopped));
        self.tell_end(CallOutcome::Answered, verdict, stopped, turn);
        self.report(verdict, stopped, turn);
        response
    }

    /// Ends without the attempt that was to follow, or without any.
    #[cold]
    #[inline(never)]
    pub(super) fn not_begun(self: Pin<&mut Self>, why: NotBegun, turn: &mut Turn) -> Error {
        let dependency = self.shared.dependency;
        let error = match why {
            NotBegun::Late => Error::new(ErrorKind::DeadlineExceeded, dependency),
            NotBegun::NotIntact => {
                let error = Error::new(ErrorKind::Failed, dependency);
                error.stopped_by(Some(Stopped::NotReplayable))
            }
            NotBegun::Refused(refusal) => Error::refused(refusal, dependency),
        };
        self.fail_as_before(error, turn)
    }

    /// Ends with an error that is not about the last attempt itself: what that
    /// one came to, goes with it.
    pub(super) fn fail_as_before(mut self: Pin<&mut Self>, error: Error, turn: &mut Turn) -> Error {
        let past = self.as_mut().project().past.as_mut();
        let error = match past {
            None => error,
            Some(past) => error
                .judged(Some(past.verdict))
                .caused_by(past.error.take()),
        };
        self.fail(error, turn)
    }

    /// Ends with an error.
    pub(super) fn fail(mut self: Pin<&mut Self>, error: Error, turn: &mut Turn) -> Error {
        self.as_mut().release();
        let elapsed = turn.now().since(self.started);
        let error = error
            .after(self.frame.attempt(), elapsed)
            .owning_retries(self.owns_retries());
        leave(&error, &self.shared.observers);
        let (verdict, stopped) = (error.verdict().copied(), error.stopped());
        self.tell_end(error.kind().into(), verdict, stopped, turn);
        error
    }

    fn owns_retries(&self) -> bool {
        self.shared.settings.max_attempts() > 1 && !self.frame.marks().any(Marks::NO_RETRIES)
    }

    /// Nobody waits for it any more.
    #[cold]
    #[inline(never)]
    pub(super) fn dropped(mut self: Pin<&mut Self>) {
        let is_attempting = matches!(self.phase, Phase::Attempting(_));
        self.as_mut().release();
        if self.shared.observers.listen() {
            if is_attempting {
                self.tell_attempt(None);
            }
            let verdict = self.past.as_ref().map(|past| past.verdict);
            self.tell_end(
                CallOutcome::Dropped,
                verdict,
                None,
                &mut Turn::new(Marks::NONE),
            );
        }
    }

    /// Gives back all that is held of what is shared; at the end and on drop.
    fn release(mut self: Pin<&mut Self>) {
        let this = self.as_mut().project();
        let started = match std::mem::replace(this.phase, Phase::Done) {
            Phase::Fresh | Phase::Done => return,
            Phase::Attempting(started) => Some(started),
            Phase::Deciding | Phase::Due | Phase::Waiting(_) => None,
        };
        // In every phase: a classifier that panics between admission and the
        // attempt's start leaves a permit behind too.
        this.shared.stage.abandon(this.running, started);
        if started.is_some() {
            self.as_mut().settle();
        } else {
            // Paid for an attempt that never started.
            self.as_mut().refund();
        }
        let this = self.project();
        if let Some(budget) = &this.shared.budget {
            budget.leave();
        }
        // Whoever keeps the ended future does not keep the copy with it: while
        // it lives, a streamed body is buffered for it.
        *this.request = None;
    }

    /// Tells what came of the attempt; nothing, if it was dropped.
    pub(super) fn tell_attempt(&self, verdict: Option<&Verdict>) {
        self.shared.observers.tell(|| Event::AttemptEnded {
            dependency: self.shared.dependency,
            attempt: self.frame.attempt(),
            verdict: verdict.copied(),
        });
    }

    #[inline(never)]
    fn tell_end(
        &self,
        outcome: CallOutcome,
        verdict: Option<Verdict>,
        stopped: Option<Stopped>,
        turn: &mut Turn,
    ) {
        let shared = &self.shared;
        shared.observers.tell(|| {
            let now = turn.now();
            Event::CallEnded {
                dependency: shared.dependency,
                outcome,
                attempts: self.frame.attempt(),
                elapsed: now.since(self.started),
                verdict,
                stopped,
                deadline_left: left(self.frame.deadline, self.started),
                budget_balance: balance(shared, now),
            }
        });
    }

    fn report(&self, verdict: Option<Verdict>, stopped: Option<Stopped>, turn: &mut Turn) {
        if Ambient::is_marked(Marks::REPORT_WANTED) {
            let report = CallReport {
                dependency: self.shared.dependency,
                attempts: self.frame.attempt(),
                elapsed: turn.now().since(self.started),
                fallback_took: Duration::ZERO,
                stopped,
                verdict,
                served_by: ServedBy::Primary,
                answered: true,
            };
            leave_report(report, &self.shared.observers);
        }
    }
}

/// What an error leaves behind for those around: an event, a mark if it is
/// final, a report if somebody waits for one.
#[cold]
#[inline(never)]
pub(in super::super) fn leave(error: &Error, observers: &Observers) {
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
    if Ambient::is_marked(Marks::REPORT_WANTED) {
        leave_report(CallReport::of_error(error), observers);
    }
}

/// What is left until `deadline`.
pub(in super::super) fn left(deadline: Moment, now: Moment) -> Option<Duration> {
    (deadline != Moment::NEVER).then(|| deadline.since(now))
}

/// The budget's balance, for those who listen.
pub(in super::super) fn balance<T>(shared: &LoopShared<T>, now: Moment) -> Option<f64> {
    let budget = shared.budget.as_ref();
    budget.map(|budget| budget.balance_at(now))
}
