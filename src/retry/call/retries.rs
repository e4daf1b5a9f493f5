//! What follows an attempt that was no success.

use std::pin::Pin;

use tower::BoxError;

use super::super::decide::{Next, Situation, next};
use super::{Call, Past, Phase};
use crate::classify::verdict::{Health, Verdict};
use crate::error::{Error, ErrorKind, Stopped};
use crate::scope::cap::has_room;
use crate::scope::marks::Marks;
use crate::stage::turn::Turn;
use crate::stage::{Failure, Stage, Unsuccess};
use crate::telemetry::Event;
use crate::telemetry::trace::retry;

impl<Req, S, T: Stage<Req, S>> Call<Req, S, T> {
    /// The end of the call, or `None` if another attempt follows. What will be
    /// tried again is dropped here, before the backoff.
    #[cold]
    #[inline(never)]
    pub(super) fn unsuccessful(
        mut self: Pin<&mut Self>,
        unsuccess: Unsuccess<T::Response>,
        turn: &mut Turn,
    ) -> Option<Result<T::Response, Error>> {
        // The verdict is looked at where it lies: it was written a moment ago, and
        // a copy would wait for it.
        let (result, verdict) = (unsuccess.result, &unsuccess.verdict);
        if let Err(Failure::Capped) = result {
            return Some(Err(self.capped(turn)));
        }
        self.as_mut().settle();
        if let (Some(budget), Health::Ok) = (&self.shared.budget, verdict.health()) {
            budget.deposit();
        }
        *self.as_mut().project().phase = Phase::Deciding;
        self.tell_attempt(Some(verdict));
        let dependency = self.shared.dependency;
        let past = self.as_mut().project().past;
        let earlier = past.as_mut().and_then(|past| past.error.take());
        let (kind, mut error) = match result {
            Ok(answer) => {
                let stopped = self.as_mut().again(verdict, &mut None, turn).err()?;
                return Some(Ok(self.answer(answer, *verdict, stopped, turn)));
            }
            Err(Failure::DeadlineExceeded) => {
                let error = Error::new(ErrorKind::DeadlineExceeded, dependency);
                let error = error.judged(Some(*verdict)).caused_by(earlier);
                return Some(Err(self.fail(error, turn)));
            }
            Err(Failure::Service(error)) => (ErrorKind::Failed, Some(error)),
            // It has no error of its own; the last one that the service gave
            // says more than nothing.
            Err(Failure::TimedOut | Failure::Capped) => (ErrorKind::TimedOut, earlier),
        };
        let stopped = self.as_mut().again(verdict, &mut error, turn).err()?;
        let end = Error::new(kind, dependency).stopped_by(Some(stopped));
        let end = end.judged(Some(*verdict)).caused_by(error);
        Some(Err(self.fail(end, turn)))
    }

    /// The attempt that the budget paid for has ended.
    pub(super) fn settle(self: Pin<&mut Self>) {
        let this = self.project();
        if let (Some(budget), Some(past)) = (&this.shared.budget, this.past) {
            if let Some(charge) = past.charge.take() {
                budget.settle(charge);
            }
        }
    }

    /// The attempt that the budget paid for was not made.
    pub(super) fn refund(self: Pin<&mut Self>) {
        let this = self.project();
        if let (Some(budget), Some(past)) = (&this.shared.budget, this.past) {
            if let Some(charge) = past.charge.take() {
                budget.refund(charge);
            }
        }
    }

    /// Ends before an attempt that found no room under the cap on sends: it was
    /// not sent, and what was paid for it is given back.
    fn capped(mut self: Pin<&mut Self>, turn: &mut Turn) -> Error {
        self.as_mut().refund();
        let this = self.as_mut().project();
        let (attempt, marks) = (this.frame.attempt(), this.frame.marks());
        this.frame.begin(attempt.saturating_sub(1), marks);
        let error = Error::new(ErrorKind::Refused, self.shared.dependency);
        self.fail_as_before(error.stopped_by(Some(Stopped::CallCap)), turn)
    }

    /// Decides for another attempt and schedules it, with what is to be kept of
    /// this one, or says what speaks against it.
    fn again(
        self: Pin<&mut Self>,
        verdict: &Verdict,
        error: &mut Option<BoxError>,
        turn: &mut Turn,
    ) -> Result<(), Stopped> {
        let this = self.project();
        let (shared, frame, now) = (&**this.shared, &*this.frame, turn.now());
        let (stage, request) = (&shared.stage, &*this.request);
        let running = this.running.as_ref().get_ref();
        let marks = frame.marks();
        let situation = Situation {
            verdict,
            idempotent: || !marks.any(Marks::NOT_IDEMPOTENT) && stage.idempotent(running),
            attempts: frame.attempt(),
            retries_disabled: marks.any(Marks::NO_RETRIES),
            replayable: || request.as_ref().is_some_and(|copy| stage.is_intact(copy)),
            would_admit: || stage.would_admit(running, now),
            has_room: || frame.cap().is_none_or(has_room),
            // What the next hop was not granted is no time for an attempt.
            deadline: frame.deadline.min(frame.granted_until()),
            now,
        };
        let settings = shared.settings.get();
        let Next { delay, charge } = next(&settings, shared.budget.as_ref(), situation)?;
        *this.past = Some(Past {
            verdict: *verdict,
            error: error.take(),
            charge,
        });
        *this.phase = if delay.is_zero() {
            Phase::Due
        } else {
            Phase::Waiting(now + delay)
        };
        let (dependency, attempt) = (shared.dependency, frame.attempt());
        retry(dependency, attempt, delay, verdict);
        shared.observers.tell(|| Event::Retry {
            dependency,
            attempt,
            delay,
            verdict: *verdict,
        });
        Ok(())
    }
}
