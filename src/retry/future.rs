//! The future of a call through the retry loop.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::call::{Call, leave};
use crate::error::{Error, ErrorKind};
use crate::refusal::Refusal;
use crate::scope::ambient::Ambient;
use crate::scope::marks::Marks;
use crate::stage::Stage;
use crate::telemetry::trace::refused;
use crate::telemetry::{Event, Observers};

pin_project! {
    /// Future of a call through a retry loop.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any point: the attempt under way is dropped with it,
    /// the breaker gets its permit back as neutral, and a budget charge whose
    /// attempt had not started is given back.
    ///
    /// # Panics
    ///
    /// When polled after it is done. A panic of the service or of a classifier
    /// passes through and harms no other call.
    #[must_use = "futures do nothing unless awaited"]
    pub struct RetryFuture<Req, S, T>
    where
        T: Stage<Req, S>,
    {
        #[pin]
        state: State<Req, S, T>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<Req, S, T>
    where
        T: Stage<Req, S>,
    {
        /// Over before it began: refused, or out of time.
        Ended { end: Option<Ended> },
        /// Under way.
        Live { #[pin] call: Call<Req, S, T> },
    }
}

/// What there is to say of a call that was over before it began. The error is
/// made of it when it is asked for, in its place: an error is moved once less.
struct Ended {
    dependency: &'static str,
    /// None where the time was up.
    refusal: Option<Refusal>,
    unheard: Option<Box<Unheard>>,
}

impl Ended {
    /// A refusal that nobody hears of is the most frequent of errors, and the one
    /// that must cost least. So it is made where the caller wants it, of what
    /// lies in the future, and nothing is moved: hence not inlined, and with the
    /// whole of what the future gives.
    #[inline(never)]
    fn poll<Res>(place: &mut Option<Self>) -> Poll<Result<Res, Error>> {
        let Some(end) = place else {
            panic!("call polled after it ended")
        };
        match (&end.refusal, &end.unheard) {
            (Some(refusal), None) if !Ambient::is_marked(Marks::REPORT_WANTED) => {
                refused(0, refusal);
                let (refusal, dependency) = (*refusal, end.dependency);
                *place = None;
                Ambient::mark_given_up(true);
                Poll::Ready(Err(Error::refused(refusal, dependency)))
            }
            _ => {
                let error = end.told();
                *place = None;
                Poll::Ready(Err(error))
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn told(&mut self) -> Error {
        let error = match self.refusal {
            Some(refusal) => Error::refused(refusal, self.dependency),
            None => Error::new(ErrorKind::DeadlineExceeded, self.dependency),
        };
        match self.unheard.take() {
            None => leave(&error, &Observers::NONE),
            Some(unheard) => unheard.tell(&error),
        }
        error
    }
}

/// What observers are yet to hear of a call that was over before it began.
pub(super) struct Unheard {
    pub(super) observers: Observers,
    pub(super) deadline_left: Option<Duration>,
    pub(super) budget_balance: Option<f64>,
}

impl Unheard {
    #[cold]
    #[inline(never)]
    fn tell(self, error: &Error) {
        leave(error, &self.observers);
        self.observers.tell(|| Event::CallEnded {
            dependency: error.dependency(),
            outcome: error.kind().into(),
            attempts: 0,
            elapsed: Duration::ZERO,
            verdict: None,
            stopped: error.stopped(),
            deadline_left: self.deadline_left,
            budget_balance: self.budget_balance,
        });
    }
}

impl<Req, S, T: Stage<Req, S>> RetryFuture<Req, S, T> {
    #[inline]
    pub(super) const fn ended(
        dependency: &'static str,
        refusal: Option<Refusal>,
        unheard: Option<Box<Unheard>>,
    ) -> Self {
        let end = Some(Ended {
            dependency,
            refusal,
            unheard,
        });
        Self {
            state: State::Ended { end },
        }
    }

    #[inline]
    pub(super) const fn live(call: Call<Req, S, T>) -> Self {
        Self {
            state: State::Live { call },
        }
    }
}

impl<Req, S, T: Stage<Req, S>> Future for RetryFuture<Req, S, T> {
    type Output = Result<T::Response, Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Live { call } => call.poll(cx),
            StateProj::Ended { end } => Ended::poll(end),
        }
    }
}

impl<Req, S, T: Stage<Req, S>> fmt::Debug for RetryFuture<Req, S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryFuture").finish_non_exhaustive()
    }
}
