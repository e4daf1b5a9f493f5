//! The innermost stage: limits and judgement of one attempt.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tower::{BoxError, Service};

use super::running::{AttemptRunning, Step};
use crate::classify::traits::Classify;
use crate::classify::verdict::{Again, Health, Verdict};
use crate::error::{Stopped, given_up_below};
use crate::moment::Moment;
use crate::refusal::Refusal;
use crate::scope::ambient::Ambient;
use crate::scope::marks::Marks;
use crate::span::Span;
use crate::stage::timer::Timer;
use crate::stage::turn::Turn;
use crate::stage::{Attempted, Drive, Failure, Limits, Renew, Unsuccess};

/// Settings of single attempts; the stage of an
/// [`AttemptLayer`](super::AttemptLayer).
#[derive(Debug)]
pub struct AttemptStage<C> {
    classify: Arc<C>,
    timeout: Span,
}

impl<C> AttemptStage<C> {
    pub(crate) const fn new(classify: Arc<C>, timeout: Option<Duration>) -> Self {
        Self {
            classify,
            timeout: Span::new(timeout),
        }
    }

    pub(crate) const fn timeout(&self) -> Option<Duration> {
        self.timeout.get()
    }

    /// When the attempt must end: the sooner of its own timeout and the
    /// call's deadline, which is the one in scope.
    fn until(&self, limits: Limits) -> Moment {
        limits
            .started
            .after(self.timeout)
            .min(Ambient::here().deadline)
    }

    /// What to say of an attempt that its limit cut short.
    #[cold]
    fn cut_short<Res>(&self, waiting: bool, limits: Limits, now: Moment) -> Unsuccess<Res> {
        if Ambient::here().deadline <= now {
            return Unsuccess {
                result: Err(Failure::DeadlineExceeded),
                verdict: self.cut_by_deadline(limits.ran(now), limits),
            };
        }
        let verdict = if waiting {
            Verdict::unreachable().because("not ready within the attempt timeout")
        } else {
            Verdict::ambiguous().because("attempt timeout")
        };
        Unsuccess {
            result: Err(Failure::TimedOut),
            verdict: verdict.unanswered(),
        }
    }

    /// A server that was told of the caller's deadline and keeps to it ends an
    /// attempt as the deadline itself would have: whoever had no time to give
    /// does not make it a failing one. A further attempt would have less still.
    #[cold]
    fn kept_to_grant(&self, limits: Limits) -> bool {
        let until = Ambient::current().granted_until();
        if until == Moment::NEVER {
            return false;
        }
        let now = Moment::now();
        now >= until && !self.had_its_share(limits.ran(now), limits)
    }

    /// A dependency that was given at least half of a fair share of time and
    /// did not answer is failing. With less, the caller was simply late; and
    /// where neither limit says what is fair, nobody can tell.
    fn cut_by_deadline(&self, ran: Duration, limits: Limits) -> Verdict {
        let verdict = Verdict::ambiguous().because("deadline");
        if self.had_its_share(ran, limits) {
            verdict
        } else {
            verdict.no_evidence()
        }
    }

    fn had_its_share(&self, ran: Duration, limits: Limits) -> bool {
        let share = self.timeout.min(limits.total).get();
        share.is_some_and(|share| ran >= share / 2)
    }
}

impl<Req, S, C> Drive<Req, S> for AttemptStage<C>
where
    S: Service<Req> + Renew,
    S::Error: Into<BoxError>,
    C: Classify<Req, S::Response>,
{
    type Response = S::Response;
    type Running = AttemptRunning<Req, S, C::Memo>;

    type Entry = ();

    #[inline]
    fn enter(&self, _: &Req, _: Moment) -> Result<((), Marks), Refusal> {
        Ok(((), Marks::NONE))
    }

    fn would_admit(&self, _: &Self::Running, _: Moment) -> Result<(), Refusal> {
        Ok(())
    }

    fn prepare(&self, (): (), service: S) -> Self::Running {
        AttemptRunning::new(service)
    }

    #[inline(always)]
    fn start(
        &self,
        running: Pin<&mut Self::Running>,
        request: &Req,
        _: Moment,
    ) -> Result<(), Refusal> {
        running.begin(self.classify.memo(request));
        Ok(())
    }

    #[inline(always)]
    fn poll_attempt(
        &self,
        mut running: Pin<&mut Self::Running>,
        request: Option<Req>,
        timer: Pin<&mut Timer>,
        turn: &mut Turn,
        limits: Limits,
        cx: &mut Context<'_>,
    ) -> Poll<Attempted<S::Response>> {
        match running.as_mut().poll_service(request, cx) {
            Poll::Ready(Step::Done(result)) => {
                let Some(memo) = running.memo() else {
                    unreachable!("an attempt that ended was begun with a memo");
                };
                let of_result = result.as_ref().map_err(|e| &**e);
                let verdict = self.classify.classify(memo, of_result);
                match result {
                    Ok(answer) if verdict.is_success() => {
                        turn.succeeded(verdict);
                        Poll::Ready(Attempted::Success(answer))
                    }
                    result => {
                        // What follows is timed from here: how long a breaker
                        // opens, how long the loop waits. A success is merely
                        // counted, and a time from the same poll will do.
                        turn.time_passes();
                        let verdict = self.judge(verdict, result.as_ref().err(), limits);
                        let result = result.map_err(Failure::Service);
                        unsuccessful(Unsuccess { result, verdict })
                    }
                }
            }
            Poll::Ready(Step::Unready(error)) => {
                turn.time_passes();
                let verdict = Verdict::unreachable().because("readiness failed");
                unsuccessful(Unsuccess {
                    result: Err(Failure::Service(error)),
                    verdict: verdict.never_again(),
                })
            }
            Poll::Ready(Step::Capped) => {
                running.let_go();
                let verdict = Verdict::refused_below().because("call cap");
                let result = Err(Failure::Capped);
                unsuccessful(Unsuccess { result, verdict })
            }
            Poll::Pending => {
                if timer.poll_until_moment(self.until(limits), cx).is_pending() {
                    return Poll::Pending;
                }
                // A service that holds on to its thread may have outlasted the
                // limit within this very poll.
                turn.time_passes();
                let waiting = running.is_waiting();
                running.let_go();
                unsuccessful(self.cut_short(waiting, limits, turn.now()))
            }
        }
    }

    fn abandon(&self, _: Pin<&mut Self::Running>, _: Option<Moment>) {}

    fn copy(&self, request: &Req) -> Option<Req> {
        self.classify.copy(request)
    }

    fn is_intact(&self, copy: &Req) -> bool {
        self.classify.is_intact(copy)
    }

    fn idempotent(&self, running: &Self::Running) -> bool {
        running
            .memo()
            .is_some_and(|memo| self.classify.idempotent(memo))
    }

    fn seal(&self, response: &mut S::Response, stopped: &Stopped) {
        self.classify.seal(response, stopped);
    }
}

impl<C> AttemptStage<C> {
    /// The classifier's verdict on what was no success, in the light of what
    /// the stacks below and the server were told.
    #[inline(always)]
    fn judge(&self, verdict: Verdict, error: Option<&BoxError>, limits: Limits) -> Verdict {
        if verdict.again() == Again::AfterDelay && given_up(error) {
            Verdict::refused_below()
        } else if verdict.health() == Health::Failing && self.kept_to_grant(limits) {
            verdict.never_again().no_evidence()
        } else {
            verdict
        }
    }
}

fn unsuccessful<Res>(unsuccess: Unsuccess<Res>) -> Poll<Attempted<Res>> {
    Poll::Ready(Attempted::Unsuccess(unsuccess))
}

/// Whether a stack below has refused or given up: its error says so, or, for
/// an answer that cannot, the mark it left in the scope of this attempt.
#[cold]
fn given_up(error: Option<&BoxError>) -> bool {
    Ambient::is_marked(Marks::GIVEN_UP) || error.is_some_and(|error| given_up_below(&**error))
}
