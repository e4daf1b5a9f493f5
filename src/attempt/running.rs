//! What one call keeps of its attempts: the clone of the service, reused, and
//! the attempt under way.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tower::{BoxError, Service};

use crate::scope::cap::{Paid, leave, pay};
use crate::stage::Renew;

pin_project! {
    /// State of the attempts of one call. Opaque.
    pub struct AttemptRunning<Req, S, M>
    where
        S: Service<Req>,
    {
        service: S,
        memo: Option<M>,
        // For the send under way, where a cap on sends is in scope.
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
    pub(super) fn begin(self: Pin<&mut Self>, memo: M) {
        *self.project().memo = Some(memo);
    }

    pub(super) const fn memo(&self) -> Option<&M> {
        self.memo.as_ref()
    }

    /// Whether the service has not taken the request yet.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. })
    }

    /// Drives readiness and call, of this request or of the one that waits.
    /// The inner future is dropped as soon as it is done.
    #[inline(always)]
    pub(super) fn poll_service(
        self: Pin<&mut Self>,
        request: Option<Req>,
        cx: &mut Context<'_>,
    ) -> Poll<Step<S::Response>> {
        let mut this = self.project();
        let request = match (request, this.phase.as_mut().project()) {
            (Some(request), _) => Some(request),
            (None, PhaseProj::Waiting { request }) => match request.take() {
                Some(request) => Some(request),
                None => panic!("polled again after the inner service panicked"),
            },
            (None, PhaseProj::Calling { .. }) => None,
            (None, PhaseProj::Idle) => panic!("attempt polled after it ended"),
        };
        if let Some(request) = request {
            match this.service.poll_ready(cx) {
                Poll::Pending => {
                    let request = Some(request);
                    this.phase.set(Phase::Waiting { request });
                    return Poll::Pending;
                }
                Poll::Ready(Err(error)) => {
                    this.phase.set(Phase::Idle);
                    return Poll::Ready(Step::Unready(error.into()));
                }
                Poll::Ready(Ok(())) => {}
            }
            // As late as can be: what is counted is sent.
            if pay(this.paid).is_err() {
                // As if it waited still: the place that it holds is let go.
                this.phase.set(Phase::Waiting { request: None });
                return Poll::Ready(Step::Capped);
            }
            let future = this.service.call(request);
            this.phase.set(Phase::Calling { future });
        }
        let PhaseProj::Calling { future } = this.phase.as_mut().project() else {
            unreachable!("called above, or before");
        };
        let Poll::Ready(result) = future.poll(cx) else {
            return Poll::Pending;
        };
        this.phase.set(Phase::Idle);
        if this.paid.is_some() {
            leave(this.paid);
        }
        Poll::Ready(Step::Done(result.map_err(Into::into)))
    }

    /// Drops what the attempt holds. A clone that waited for readiness may
    /// hold a place in a queue, or soon a permit, so a fresh one takes its
    /// place: nothing is held through a backoff.
    pub(super) fn let_go(self: Pin<&mut Self>) {
        let waiting = self.is_waiting();
        let mut this = self.project();
        this.phase.set(Phase::Idle);
        leave(this.paid);
        if waiting {
            if let Some(fresh) = this.service.renewed() {
                *this.service = fresh;
            }
        }
    }
}
