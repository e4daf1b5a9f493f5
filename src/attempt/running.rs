//! What one call keeps of its attempts: the clone of the service, reused, and
//! the attempt under way.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tower::{BoxError, Service};

use crate::scope::cap::{Paid, pay};
use crate::stage::Renew;

pin_project! {
    /// State of the attempts of one call. Opaque.
    pub struct AttemptRunning<Req, S, M>
    where
        S: Service<Req>,
    {
        service: S,
        memo: Option<M>,
        // Where a cap on sends is in scope, and the service works on one.
        paid: Option<Paid>,
        #[pin]
        phase: Phase<Req, S::Future>,
    }
}

pin_project! {
    #[project = PhaseProj]
    enum Phase<Req, F> {
        /// Between attempts: no future, no request, no readiness is held.
        Idle,
        /// Waiting for the service to be ready.
        Waiting { request: Option<Req> },
        /// The service works on it.
        Calling { #[pin] future: F },
    }
}

/// What the service itself came to.
pub(super) enum Step<Res> {
    /// An answer, or an error of the call.
    Done(Result<Res, BoxError>),
    /// The service failed to become ready, which is final.
    Unready(BoxError),
    /// The cap on sends leaves no room.
    Capped,
}

impl<Req, S, M> AttemptRunning<Req, S, M>
where
    S: Service<Req> + Renew,
    S::Error: Into<BoxError>,
    M: Copy,
{
    pub(super) const fn new(service: S) -> Self {
        Self {
            service,
            memo: None,
            paid: None,
            phase: Phase::Idle,
        }
    }

    #[inline]
    pub(super) fn begin(self: Pin<&mut Self>, request: Req, memo: M) {
        let mut this = self.project();
        *this.memo = Some(memo);
        let request = Some(request);
        this.phase.set(Phase::Waiting { request });
    }

    pub(super) const fn memo(&self) -> Option<&M> {
        self.memo.as_ref()
    }

    /// Whether the service has not taken the request yet.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. })
    }

    /// Drives readiness and call. The inner future is dropped as soon as it
    /// is done.
    #[inline]
    pub(super) fn poll_service(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Step<S::Response>> {
        let mut this = self.project();
        loop {
            match this.phase.as_mut().project() {
                PhaseProj::Calling { future } => {
                    if let Some(paid) = this.paid {
                        paid.enter();
                    }
                    let Poll::Ready(result) = future.poll(cx) else {
                        return Poll::Pending;
                    };
                    this.phase.set(Phase::Idle);
                    if let Some(paid) = this.paid.take() {
                        paid.leave();
                    }
                    return Poll::Ready(Step::Done(result.map_err(Into::into)));
                }
                PhaseProj::Waiting { request } => match this.service.poll_ready(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => {
                        this.phase.set(Phase::Idle);
                        return Poll::Ready(Step::Unready(error.into()));
                    }
                    Poll::Ready(Ok(())) => {
                        // As late as can be: what is counted is sent.
                        let Ok(paid) = pay() else {
                            return Poll::Ready(Step::Capped);
                        };
                        *this.paid = paid;
                        if let Some(paid) = this.paid {
                            paid.enter();
                        }
                        let Some(request) = request.take() else {
                            panic!("polled again after the inner service panicked");
                        };
                        let future = this.service.call(request);
                        this.phase.set(Phase::Calling { future });
                    }
                },
                PhaseProj::Idle => panic!("attempt polled after it ended"),
            }
        }
    }

    /// Drops what the attempt holds. A clone that waited for readiness may
    /// hold a place in a queue, or soon a permit, so a fresh one takes its
    /// place: nothing is held through a backoff.
    pub(super) fn let_go(self: Pin<&mut Self>) {
        let mut this = self.project();
        let waiting = matches!(this.phase.as_mut().project(), PhaseProj::Waiting { .. });
        this.phase.set(Phase::Idle);
        if let Some(paid) = this.paid.take() {
            paid.leave();
        }
        if waiting {
            if let Some(fresh) = this.service.renewed() {
                *this.service = fresh;
            }
        }
    }
}
