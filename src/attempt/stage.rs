//! The innermost stage: limits and judgement of one attempt.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tower::{BoxError, Service};

use super::running::{AttemptRunning, Step};
use crate::classify::traits::Classify;
use crate::classify::verdict::{Again, Health, Verdict};
use crate::error::{Stopped, given_up_below};
use crate::limit::lesser;
use crate::refusal::Refusal;
use crate::scope::ambient::Ambient;
use crate::stage::timer::{Tick, Timer};
use crate::stage::{Drive, Failure, Limits, Outcome, Renew};

/// Settings of single attempts; the stage of an
/// [`AttemptLayer`](super::AttemptLayer).
#[derive(Debug)]
pub struct AttemptStage<C> {
    classify: Arc<C>,
    timeout: Option<Duration>,
}

impl<C> AttemptStage<C> {
    pub(crate) const fn new(classify: Arc<C>, timeout: Option<Duration>) -> Self {
        Self { classify, timeout }
    }

    pub(crate) const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// What to say of an attempt that its limit cut short.
    fn cut_short(&self, ran: Duration, waiting: bool, limits: Limits, now: Instant) -> Cut {
        if limits.deadline.is_some_and(|deadline| deadline <= now) {
            return Cut {
                failure: Failure::DeadlineExceeded,
                verdict: self.cut_by_deadline(ran, limits),
            };
        }
        let verdict = if waiting {
            Verdict::unreachable().because("not ready within the attempt timeout")
        } else {
            Verdict::ambiguous().because("attempt timeout")
        };
        Cut {
            failure: Failure::TimedOut,
            verdict: verdict.unanswered(),
        }
    }

    /// A server that was told of the caller's deadline and keeps to it ends an
    /// attempt as the deadline itself would have: whoever had no time to give
    /// does not make it a failing one. A further attempt would have less still.
    fn within_grant(&self, verdict: Verdict, started: Option<Instant>, limits: Limits) -> Verdict {
        let (Some(until), Some(started)) = (Ambient::current().granted_until, started) else {
            return verdict;
        };
        let now = Instant::now();
        let ran = now.saturating_duration_since(started);
        if now < until || self.had_its_share(ran, limits) {
            return verdict;
        }
        verdict.never_again().no_evidence()
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
        let share = lesser(self.timeout, limits.total);
        share.is_some_and(|share| ran >= share / 2)
    }
}

struct Cut {
    failure: Failure,
    verdict: Verdict,
}

impl<Req, S, C> Drive<Req, S> for AttemptStage<C>
where
    S: Service<Req> + Renew,
    S::Error: Into<BoxError>,
    C: Classify<Req, S::Response>,
{
    type Response = S::Response;
    type Running = AttemptRunning<Req, S, C::Memo>;

    fn is_shut(&self, _: &Req, _: Instant) -> Result<(), Refusal> {
        Ok(())
    }

    fn would_admit(&self, _: &Req, _: Instant) -> Result<(), Refusal> {
        Ok(())
    }

    fn lends_permits(&self) -> bool {
        false
    }

    fn prepare(&self, service: S) -> Self::Running {
        AttemptRunning::new(service)
    }

    fn start(
        &self,
        running: Pin<&mut Self::Running>,
        request: Req,
        now: Instant,
    ) -> Result<(), Refusal> {
        let memo = self.classify.memo(&request);
        running.begin(request, memo, now);
        Ok(())
    }

    fn poll_attempt(
        &self,
        mut running: Pin<&mut Self::Running>,
        timer: Pin<&mut Timer>,
        tick: &mut Tick,
        limits: Limits,
        cx: &mut Context<'_>,
    ) -> Poll<Outcome<S::Response>> {
        match running.as_mut().poll_service(cx) {
            Poll::Ready(Step::Done(result)) => {
                let outcome = self.judge(&running, result, limits);
                if !outcome.verdict.is_success() {
                    // What follows is timed from here: how long a breaker
                    // opens, how long the loop waits. A success is merely
                    // counted, and a time from the same poll will do.
                    *tick = Tick::unread();
                }
                Poll::Ready(outcome)
            }
            Poll::Ready(Step::Unready(error)) => Poll::Ready(Outcome {
                result: Err(Failure::Service(error)),
                verdict: Verdict::unreachable()
                    .because("readiness failed")
                    .never_again(),
            }),
            Poll::Ready(Step::Capped) => {
                running.let_go();
                let verdict = Verdict::refused_below().because("call cap");
                let result = Err(Failure::Capped);
                Poll::Ready(Outcome { result, verdict })
            }
            Poll::Pending => {
                let Some(until) = running.until(self.timeout, limits) else {
                    return Poll::Pending;
                };
                if timer.poll_until(until, cx).is_pending() {
                    return Poll::Pending;
                }
                let now = tick.now();
                let (ran, waiting) = (running.ran(now), running.is_waiting());
                running.let_go();
                let Cut { failure, verdict } = self.cut_short(ran, waiting, limits, now);
                let result = Err(failure);
                Poll::Ready(Outcome { result, verdict })
            }
        }
    }

    fn abandon(&self, _: Pin<&mut Self::Running>) {}

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
    fn judge<Req, S>(
        &self,
        running: &AttemptRunning<Req, S, C::Memo>,
        result: Result<S::Response, BoxError>,
        limits: Limits,
    ) -> Outcome<S::Response>
    where
        S: Service<Req> + Renew,
        S::Error: Into<BoxError>,
        C: Classify<Req, S::Response>,
    {
        let Some(memo) = running.memo() else {
            unreachable!("an attempt that ended was begun with a memo");
        };
        let mut verdict = self
            .classify
            .classify(memo, result.as_ref().map_err(|e| &**e));
        if verdict.again() == Again::AfterDelay && given_up(result.as_ref().err()) {
            verdict = Verdict::refused_below();
        }
        if verdict.health() == Health::Failing {
            let started = running.started();
            verdict = self.within_grant(verdict, started, limits);
        }
        Outcome {
            result: result.map_err(Failure::Service),
            verdict,
        }
    }
}

/// Whether a stack below has refused or given up: its error says so, or, for
/// an answer that cannot, the mark it left in the scope of this attempt.
fn given_up(error: Option<&BoxError>) -> bool {
    Ambient::current().given_up || error.is_some_and(|error| given_up_below(&**error))
}
