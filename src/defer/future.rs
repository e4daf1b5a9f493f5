//! One call: under way, parked, under way again.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::Service;

use super::place::{Place, Waited, Whose};
use super::shared::Shared;
use crate::breaker::handle::Breaker;
use crate::error::{Error, ErrorKind, ParkLimit, Stopped};
use crate::refusal::Refusal;
use crate::retry::Deferrable;
use crate::scope::ambient::Ambient;
use crate::scope::collect::{collect, leave_report};
use crate::scope::current::Entered;
use crate::scope::marks::Marks;
use crate::scope::report::CallReport;
use crate::sharded::Handle;
use crate::span::Span;
use crate::stage::timer::Timer;
use crate::telemetry::Observers;

pin_project! {
    /// Future of a call that may be put off.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any point. A parked call frees its place; one whose
    /// turn it was passes it on.
    #[must_use = "futures do nothing unless awaited"]
    pub struct DeferFuture<Req, S>
    where
        S: Service<Req>,
    {
        shared: Handle<Shared>,
        // The loop, to be called again with the kept copy.
        service: Option<S>,
        kept: Option<Req>,
        // Of a new call, while others are parked.
        breaker: Option<Breaker>,
        total: Span,
        started: Instant,
        frame: Ambient,
        is_new: bool,
        is_counted: bool,
        // Of the calls before this one.
        attempts: u32,
        earlier: Option<Error>,
        report: Option<CallReport>,
        // Those who heard of the call that left it.
        observers: Observers,
        place: Option<Place>,
        #[pin]
        phase: Phase<S::Future>,
        #[pin]
        timer: Timer,
    }

    impl<Req, S> PinnedDrop for DeferFuture<Req, S>
    where
        S: Service<Req>,
    {
        fn drop(this: Pin<&mut Self>) {
            this.free_place(None);
        }
    }
}

pin_project! {
    #[project = PhaseProj]
    enum Phase<F> {
        /// Under way.
        Calling { #[pin] future: F },
        /// Put off.
        Parked,
        /// Over.
        Done,
    }
}

/// A call as it begins.
pub(super) struct Start<Req, S: Service<Req>> {
    pub(super) shared: Handle<Shared>,
    pub(super) future: S::Future,
    pub(super) service: Option<S>,
    pub(super) kept: Option<Req>,
    pub(super) breaker: Option<Breaker>,
    pub(super) total: Span,
    pub(super) started: Instant,
    pub(super) frame: Ambient,
}

impl<Req, S: Service<Req>> DeferFuture<Req, S> {
    pub(super) fn new(start: Start<Req, S>) -> Self {
        Self {
            shared: start.shared,
            service: start.service,
            kept: start.kept,
            breaker: start.breaker,
            total: start.total,
            started: start.started,
            frame: start.frame,
            is_new: true,
            is_counted: false,
            attempts: 0,
            earlier: None,
            report: None,
            observers: Observers::NONE,
            place: None,
            phase: Phase::Calling {
                future: start.future,
            },
            timer: Timer::unarmed(),
        }
    }

    /// Gives the place back, at the end or on drop.
    fn free_place(self: Pin<&mut Self>, limit: Option<ParkLimit>) {
        let this = self.project();
        if let Some(place) = this.place.take() {
            place.free(this.shared, limit);
        }
    }
}

#[allow(private_bounds)]
impl<Req, S: Deferrable<Req>> DeferFuture<Req, S> {
    fn poll_call(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<S::Response, Error>> {
        let mut this = self.project();
        let PhaseProj::Calling { future } = this.phase.as_mut().project() else {
            unreachable!("called while the call is under way");
        };
        if *this.is_new {
            // What is in scope here counts as well as at the call.
            *this.frame = this.frame.within(Ambient::current());
            *this.frame = this.frame.marked(Marks::REPORT_WANTED);
        }
        *this.frame = this.frame.capped_here();
        let poll = || future.poll(cx);
        let polled = collect(this.frame, this.report, this.observers, poll);
        if std::mem::take(this.is_new) && !is_refused(&polled) {
            if let Some(breaker) = this.breaker.take() {
                *this.is_counted = true;
                this.shared.admitted(&breaker);
            }
        }
        polled
    }

    /// Hears how a call of the loop ended: the end of it all, or `None` if it
    /// is parked now.
    fn heard(
        mut self: Pin<&mut Self>,
        result: Result<S::Response, Error>,
    ) -> Option<Result<S::Response, Error>> {
        let report = *self.as_mut().project().report;
        let refusal = match (&result, report) {
            (Err(error), _) => error.refusal().copied(),
            // An answer that only the breaker kept from being asked for again.
            (Ok(_), Some(report)) if report.answered => match report.stopped {
                Some(Stopped::Breaker(refusal)) => Some(refusal),
                _ => None,
            },
            (Ok(_), _) => None,
        };
        let parked = match refusal {
            Some(refusal) => self.as_mut().park(&refusal),
            None => Err(None),
        };
        if let Err(limit) = parked {
            let result = result.map_err(|error| error.limited_by(limit));
            return Some(self.end(result));
        }
        let error = match (result, report) {
            (Err(error), _) => error,
            (Ok(_), Some(report)) => report.as_error().owning_retries(true),
            (Ok(_), None) => unreachable!("an answer is parked for its report only"),
        };
        let this = self.project();
        *this.attempts = this.attempts.saturating_add(error.attempts());
        let earlier = this.earlier.take();
        *this.earlier = Some(error.keeping(earlier));
        *this.report = None;
        None
    }

    /// Parks the call, or says which bound is against it; `Err(None)` where it
    /// cannot be sent again.
    fn park(self: Pin<&mut Self>, refusal: &Refusal) -> Result<(), Option<ParkLimit>> {
        let mut this = self.project();
        let (Some(service), Some(kept)) = (this.service.as_ref(), this.kept.as_ref()) else {
            return Err(None);
        };
        if !service.is_intact(kept) {
            return Err(None);
        }
        let now = Instant::now();
        match this.place.as_mut() {
            Some(place) => place.park_again(this.shared, refusal, now)?,
            None => {
                let whose = Whose {
                    breaker: service.breaker(kept).ok_or(None)?,
                    dependency: service.dependency(),
                    observers: service.observers(),
                };
                let deadline = this.frame.deadline();
                let place = Place::take(this.shared, whose, refusal, deadline, now)?;
                if !std::mem::replace(this.is_counted, true) {
                    place.count(this.shared, now);
                }
                *this.place = Some(place);
            }
        }
        this.phase.set(Phase::Parked);
        Ok(())
    }

    /// Waits parked; `Some` if a bound ends it.
    fn poll_parked(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Error>> {
        let this = self.project();
        let Some(place) = this.place.as_mut() else {
            unreachable!("a parked call has a place");
        };
        let (limit, fresh) = match ready!(place.poll(this.shared, this.timer, cx)) {
            Waited::Turn => return Poll::Ready(None),
            Waited::Over { limit, refusal } => (limit, refusal),
        };
        let Some(mut error) = this.earlier.take() else {
            unreachable!("a parked call was refused");
        };
        if let Some(refusal) = fresh {
            error = error.stopped_by(Some(Stopped::Breaker(refusal)));
        }
        // Its attempts are among those before.
        let error = error.after(0, Duration::ZERO);
        Poll::Ready(Some(error.limited_by(Some(limit))))
    }

    /// Calls the loop again, with another copy kept for the next time.
    fn come_back(self: Pin<&mut Self>) {
        let mut this = self.project();
        let (Some(service), Some(request)) = (this.service.as_mut(), this.kept.take()) else {
            unreachable!("a call is parked only with a copy to send");
        };
        *this.kept = service.copy(&request);
        let future = {
            let _entered = Entered::new(this.frame);
            service.call_within(request, *this.total)
        };
        this.phase.set(Phase::Calling { future });
    }

    /// The end: what was held is given back, and what the loop left for those
    /// around is left for them, with all returns in it.
    fn end(
        mut self: Pin<&mut Self>,
        result: Result<S::Response, Error>,
    ) -> Result<S::Response, Error> {
        let was_parked = self.place.is_some();
        let limit = result.as_ref().err().and_then(Error::park_limit);
        self.as_mut().free_place(limit);
        let mut this = self.project();
        this.phase.set(Phase::Done);
        *this.kept = None;
        let (before, earlier, mut report) = (*this.attempts, this.earlier.take(), *this.report);
        let mut result = result;
        if was_parked {
            let elapsed = this.started.elapsed();
            result = result.map_err(|error| {
                let attempts = before.saturating_add(error.attempts());
                error.keeping(earlier).after(attempts, elapsed)
            });
            report = match (&result, report) {
                (Err(error), _) => Some(CallReport::of_error(error)),
                (Ok(_), Some(report)) => Some(CallReport {
                    attempts: before.saturating_add(report.attempts),
                    elapsed,
                    ..report
                }),
                (Ok(_), None) => None,
            };
            if result.as_ref().is_err_and(Error::is_final) {
                *this.frame = this.frame.marked(Marks::GIVEN_UP);
            }
        }
        if this.frame.given_up() {
            Ambient::mark_given_up(true);
        }
        if let (Some(report), true) = (report, Ambient::is_marked(Marks::REPORT_WANTED)) {
            leave_report(report, this.observers);
        }
        result
    }
}

/// Whether the loop turned the call away before it was sent.
fn is_refused<T>(polled: &Poll<Result<T, Error>>) -> bool {
    matches!(polled, Poll::Ready(Err(error)) if error.kind() == ErrorKind::Refused)
}

#[allow(private_bounds)]
impl<Req, S: Deferrable<Req>> Future for DeferFuture<Req, S> {
    type Output = Result<S::Response, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.as_mut().project().phase.project() {
                PhaseProj::Calling { .. } => {
                    let result = ready!(self.as_mut().poll_call(cx));
                    if let Some(end) = self.as_mut().heard(result) {
                        return Poll::Ready(end);
                    }
                }
                PhaseProj::Parked => match ready!(self.as_mut().poll_parked(cx)) {
                    Some(error) => return Poll::Ready(self.end(Err(error))),
                    None => self.as_mut().come_back(),
                },
                PhaseProj::Done => panic!("call polled after it ended"),
            }
        }
    }
}

impl<Req, S: Service<Req>> fmt::Debug for DeferFuture<Req, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferFuture").finish_non_exhaustive()
    }
}
