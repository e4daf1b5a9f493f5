//! The primary's answer, or one from elsewhere.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::BoxError;

use super::entry::FallbackEntry;
use super::settings::{FallsThrough, Settings};
use crate::classify::verdict::{Verdict, Work};
use crate::error::{Error, ErrorKind};
use crate::scope::ambient::Ambient;
use crate::scope::collect::{collect, leave_report};
use crate::scope::current::Entered;
use crate::scope::marks::Marks;
use crate::scope::report::{CallReport, ServedBy};
use crate::sharded::Handle;
use crate::stage::timer::Timer;
use crate::telemetry::{Event, Observers, emit};

/// What is in scope for the primary and the entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// What the primary sees.
    pub(super) frame: Ambient,
    /// By when primary and entries must be done.
    pub(super) overall: Option<Instant>,
    /// The call's start, where the primary's bound is this stage's own: then it
    /// is kept here too, in case something before the primary's stack waits.
    pub(super) bounded_since: Option<Instant>,
}

pin_project! {
    /// Future of a call with a fallback.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any point; what is under way, primary or entry, is
    /// dropped with it.
    #[must_use = "futures do nothing unless awaited"]
    pub struct FallbackFuture<Req, Res, P, F, R>
    where
        F: FallbackEntry<Req, Res>,
    {
        shared: Handle<Settings<F, R>>,
        kept: Option<Req>,
        watch: Watch,
        report: Option<CallReport>,
        // Who observed the primary's call, if it failed in this task.
        observers: Observers,
        failed: Option<Failed<Res>>,
        #[pin]
        phase: Phase<P, F::Future>,
        #[pin]
        timer: Timer,
    }
}

pin_project! {
    #[project = PhaseProj]
    enum Phase<P, E> {
        /// Waiting for the primary.
        Primary { #[pin] future: P },
        /// About to ask the entry of this index.
        Next { index: usize },
        /// Waiting for it.
        Entry { index: usize, #[pin] future: E },
        /// Over.
        Done,
    }
}

/// How the primary failed.
struct Failed<Res> {
    /// As an error, which the entries see.
    error: Error,
    /// The answer that was judged a failure, if there was one. It stands if
    /// all entries fail.
    answer: Option<Res>,
    /// What the last entry failed with.
    fallback_error: Option<BoxError>,
    /// Whether somebody may have done the work all the same.
    maybe_done: bool,
    /// When the entries' turn began.
    at: Instant,
}

/// What the primary came to.
enum Primary<Res> {
    Served(Res),
    Failed(Failed<Res>),
}

impl<Res> Primary<Res> {
    /// The primary's own result.
    fn stands(self) -> Result<Res, Error> {
        match self {
            Self::Served(answer) => Ok(answer),
            Self::Failed(failed) => failed.stands(),
        }
    }
}

impl<Res> Failed<Res> {
    /// The primary's failure, if its result is one.
    fn of(result: Result<Res, Error>, report: Option<CallReport>) -> Primary<Res> {
        let (error, answer) = match result {
            Err(error) => (error, None),
            Ok(answer) => match report {
                Some(report) if report.answered && report.stopped.is_some() => {
                    (report.as_error(), Some(answer))
                }
                _ => return Primary::Served(answer),
            },
        };
        Primary::Failed(Self {
            maybe_done: maybe_done(&error),
            error,
            answer,
            fallback_error: None,
            at: Instant::now(),
        })
    }

    /// The primary's own result.
    fn stands(self) -> Result<Res, Error> {
        match self.answer {
            Some(answer) => Ok(answer),
            None => Err(self.error.with_fallback_error(self.fallback_error)),
        }
    }
}

impl<Req, Res, P, F, R> FallbackFuture<Req, Res, P, F, R>
where
    F: FallbackEntry<Req, Res>,
{
    pub(super) const fn new(
        shared: Handle<Settings<F, R>>,
        kept: Option<Req>,
        future: P,
        watch: Watch,
    ) -> Self {
        Self {
            shared,
            kept,
            watch,
            report: None,
            observers: Observers::NONE,
            failed: None,
            phase: Phase::Primary { future },
            timer: Timer::unarmed(),
        }
    }
}

impl<Req, Res, P, F, R> FallbackFuture<Req, Res, P, F, R>
where
    P: Future<Output = Result<Res, Error>>,
    F: FallbackEntry<Req, Res>,
    R: FallsThrough,
{
    /// Drives the primary; its failure is kept if it falls through.
    fn poll_primary(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Res, Error>>> {
        let mut this = self.project();
        let PhaseProj::Primary { future } = this.phase.as_mut().project() else {
            unreachable!("called while waiting for the primary");
        };
        let frame = &mut this.watch.frame;
        let polled = collect(frame, this.report, this.observers, || future.poll(cx));
        let result = match (polled, this.watch.frame.deadline()) {
            (Poll::Ready(result), _) => result,
            (Poll::Pending, Some(at)) => {
                let Some(since) = this.watch.bounded_since else {
                    return Poll::Pending;
                };
                ready!(this.timer.poll_until(at, cx));
                let elapsed = at.saturating_duration_since(since);
                let error = Error::new(ErrorKind::DeadlineExceeded, "primary");
                let cut = Verdict::ambiguous().because("deadline").no_evidence();
                Err(error.after(0, elapsed).judged(Some(cut)))
            }
            (Poll::Pending, None) => return Poll::Pending,
        };
        let failed = match Failed::of(result, *this.report) {
            Primary::Failed(failed) if this.shared.rule.falls_through(&failed.error) => failed,
            result => {
                this.phase.set(Phase::Done);
                // Nobody will ask for it: see below.
                *this.kept = None;
                Ambient::mark_given_up(this.watch.frame.given_up());
                if let Some(report) = *this.report {
                    pass_on(report, this.observers);
                }
                return Poll::Ready(Some(result.stands()));
            }
        };
        // One that was cut short here has left none.
        this.report
            .get_or_insert_with(|| CallReport::of_error(&failed.error));
        this.watch.frame = this.watch.frame.until(this.watch.overall);
        *this.failed = Some(failed);
        this.phase.set(Phase::Next { index: 0 });
        Poll::Ready(None)
    }

    /// Asks the entry of this index, or ends with the primary's failure.
    fn ask(self: Pin<&mut Self>, index: usize) -> Option<Result<Res, Error>> {
        let mut this = self.project();
        let Some(failed) = this.failed.as_mut() else {
            unreachable!("entries are asked only after the primary failed");
        };
        if index >= F::LEN {
            this.phase.set(Phase::Done);
            Ambient::mark_given_up(true);
            served(*this.report, (failed.at, ServedBy::Primary), this.observers);
            return this.failed.take().map(Failed::stands);
        }
        let asked = {
            let mut frame = entry_frame(this.watch);
            let _entered = Entered::new(&mut frame);
            let (entries, kept) = (&this.shared.entries, this.kept.as_ref());
            if failed.maybe_done && kept.is_some_and(|kept| !entries.repeats(index, kept)) {
                Err("the work may be done, and the request is not idempotent".into())
            } else {
                entries.ask(index, kept, &failed.error)
            }
        };
        if index + 1 >= F::LEN {
            // Nobody will ask for it any more, and while it lives a streamed
            // body is buffered for it.
            *this.kept = None;
        }
        match asked {
            Ok(future) => this.phase.set(Phase::Entry { index, future }),
            Err(skipped) => {
                let event = Event::FallbackFailed {
                    dependency: failed.error.dependency(),
                    entry: index,
                };
                emit(this.observers, &event);
                failed.fallback_error = Some(skipped);
                this.phase.set(Phase::Next { index: index + 1 });
            }
        }
        None
    }

    /// Drives the entry under way.
    fn poll_entry(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Res>> {
        let mut this = self.project();
        let PhaseProj::Entry { index, future } = this.phase.as_mut().project() else {
            unreachable!("called while waiting for an entry");
        };
        let index = *index;
        let failed = this.failed.as_ref();
        let dependency = failed.map_or("unnamed", |failed| failed.error.dependency());
        let polled = {
            let mut frame = entry_frame(this.watch);
            let _entered = Entered::new(&mut frame);
            future.poll(cx)
        };
        let result = match (polled, this.watch.overall) {
            (Poll::Ready(result), _) => result,
            (Poll::Pending, None) => return Poll::Pending,
            (Poll::Pending, Some(at)) => {
                ready!(this.timer.poll_until(at, cx));
                Err("the deadline passed before the fallback answered".into())
            }
        };
        match result {
            Ok(answer) => {
                this.phase.set(Phase::Done);
                let told = Event::FallbackServed {
                    dependency,
                    entry: index,
                };
                emit(this.observers, &told);
                if let Some(failed) = this.failed {
                    let by = ServedBy::Fallback(index);
                    served(*this.report, (failed.at, by), this.observers);
                }
                Poll::Ready(Some(answer))
            }
            Err(error) => {
                let failed = Event::FallbackFailed {
                    dependency,
                    entry: index,
                };
                emit(this.observers, &failed);
                if let Some(failed) = this.failed {
                    let of_stack = error.downcast_ref();
                    failed.maybe_done |= of_stack.is_none_or(maybe_done);
                    failed.fallback_error = Some(error);
                }
                this.phase.set(Phase::Next { index: index + 1 });
                Poll::Ready(None)
            }
        }
    }
}

impl<Req, Res, P, F, R> Future for FallbackFuture<Req, Res, P, F, R>
where
    P: Future<Output = Result<Res, Error>>,
    F: FallbackEntry<Req, Res>,
    R: FallsThrough,
{
    type Output = Result<Res, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let watch = self.as_mut().project().watch;
        watch.frame = watch.frame.capped_here();
        loop {
            match self.as_mut().project().phase.project() {
                PhaseProj::Primary { .. } => {
                    if let Some(end) = ready!(self.as_mut().poll_primary(cx)) {
                        return Poll::Ready(end);
                    }
                }
                PhaseProj::Next { index } => {
                    let index = *index;
                    if let Some(end) = self.as_mut().ask(index) {
                        return Poll::Ready(end);
                    }
                }
                PhaseProj::Entry { .. } => {
                    if let Some(answer) = ready!(self.as_mut().poll_entry(cx)) {
                        return Poll::Ready(Ok(answer));
                    }
                }
                PhaseProj::Done => panic!("call polled after it ended"),
            }
        }
    }
}

/// Whether a call that ended so may have done its work. Without a verdict
/// nothing was sent.
fn maybe_done(error: &Error) -> bool {
    error
        .verdict()
        .is_some_and(|verdict| verdict.work() != Work::NotDone)
}

/// Entries see the overall deadline. What a stack among them reports or gives
/// up on is not the word on this call.
fn entry_frame(watch: &Watch) -> Ambient {
    let others = Marks::REPORT_WANTED.and(Marks::GIVEN_UP);
    watch.frame.unmarked(others)
}

/// Reports who served after the primary had failed, and how long that took.
fn served(
    primary: Option<CallReport>,
    (failed_at, served_by): (Instant, ServedBy),
    observers: &Observers,
) {
    if let Some(primary) = primary {
        let report = CallReport {
            served_by,
            fallback_took: failed_at.elapsed(),
            ..primary
        };
        pass_on(report, observers);
    }
}

/// Hands a report to whoever waits for it outside.
fn pass_on(report: CallReport, observers: &Observers) {
    if Ambient::is_marked(Marks::REPORT_WANTED) {
        leave_report(report, observers);
    }
}

impl<Req, Res, P, F, R> fmt::Debug for FallbackFuture<Req, Res, P, F, R>
where
    F: FallbackEntry<Req, Res>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackFuture").finish_non_exhaustive()
    }
}
